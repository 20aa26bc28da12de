use super::*;
use crate::address::Address;

fn line(text: &str) -> SerialLine {
    match text.parse() {
        Ok(Address::Serial(line)) => line,
        other => panic!("{text}: {other:?}"),
    }
}

fn why_not(text: &str) -> String {
    let error = text.parse::<Address>().unwrap_err().to_string();
    let quoted = format!("{text:?}: ");
    error
        .strip_prefix(&quoted)
        .unwrap_or_else(|| panic!("{error}"))
        .to_owned()
}

#[test]
fn every_setting_is_parsed_and_printed() {
    let all = "serial:///dev/serial/by-id/usb-FTDI_FT232R.1-if00?baud=31250&data_bits=7&parity=odd\
               &stop_bits=2&flow=software&rs485=on&rs485_rts_on_send=off\
               &rs485_delay_before_send_ms=1&rs485_delay_after_send_ms=100\
               &rs485_receive_while_sending=on&dtr=off&low_latency=on&exclusive=off";
    let expected = SerialLine {
        path: "/dev/serial/by-id/usb-FTDI_FT232R.1-if00".into(),
        baud: 31_250,
        data_bits: 7,
        parity: Parity::Odd,
        stop_bits: 2,
        flow: FlowControl::Software,
        rs485: Some(Rs485 {
            rts_on_send: false,
            delay_before_send_ms: 1,
            delay_after_send_ms: 100,
            receive_while_sending: true,
        }),
        dtr: Some(false),
        rts: None,
        low_latency: true,
        exclusive: false,
    };
    assert_eq!(line(all), expected);
    assert_eq!(Address::Serial(expected).to_string(), all);
}

#[test]
fn what_is_the_default_is_taken_and_not_printed() {
    let spelled = "serial:///dev/ttyS0?baud=115200&data_bits=8&parity=none&stop_bits=1&flow=none\
                   &rs485=off&low_latency=off&exclusive=on";
    assert_eq!(line(spelled), SerialLine::new("/dev/ttyS0"));
    assert_eq!(line("serial:///dev/ttyS0"), SerialLine::new("/dev/ttyS0"));
    assert_eq!(
        Address::Serial(line(spelled)).to_string(),
        "serial:///dev/ttyS0?baud=115200"
    );
}

#[test]
fn the_settings_of_a_bus_may_come_in_any_order() {
    let rs485 = line("serial:///dev/ttyS0?rs485_rts_on_send=off&rs485=on").rs485;
    assert!(!rs485.unwrap().rts_on_send);
    assert_eq!(
        line("serial:///dev/ttyS0?rs485=on").rs485,
        Some(Rs485::default())
    );
}

#[test]
fn every_value_of_every_setting_round_trips() {
    for parity in ["none", "odd", "even"] {
        for flow in ["none", "hardware", "software"] {
            for bits in 5..=8 {
                for rts in ["on", "off"] {
                    let rts = if flow == "hardware" {
                        String::new()
                    } else {
                        format!("&rts={rts}")
                    };
                    let text = format!(
                        "serial:///dev/x?baud=1&data_bits={bits}&parity={parity}&flow={flow}{rts}"
                    );
                    let address = Address::Serial(line(&text));
                    assert_eq!(address.to_string().parse().as_ref(), Ok(&address), "{text}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_setting_is_refused_by_its_name_with_what_is_allowed() {
    let table = [
        ("baud=fast", "baud is a number, not \"fast\""),
        ("baud=+9600", "baud is a number, not \"+9600\""),
        ("baud=", "baud is a number, not \"\""),
        ("baud=4294967296", "baud is a number, not \"4294967296\""),
        ("baud=0", "a baud of 0 would hang up"),
        ("data_bits=9", "data_bits is one of 5, 6, 7, 8, not \"9\""),
        (
            "parity=mark",
            "parity is one of none, odd, even, not \"mark\"",
        ),
        ("stop_bits=1.5", "stop_bits is one of 1, 2, not \"1.5\""),
        (
            "flow=rts",
            "flow is one of none, hardware, software, not \"rts\"",
        ),
        ("dtr=high", "dtr is one of on, off, not \"high\""),
        ("exclusive", "\"exclusive\" is no setting: write NAME=VALUE"),
        ("baud=9600&baud=9600", "baud is set twice"),
        (
            "rs485_rts_on_send=on",
            "rs485_rts_on_send goes with rs485=on",
        ),
        (
            "rs485=off&rs485_receive_while_sending=on",
            "rs485_receive_while_sending goes with rs485=on",
        ),
        (
            "rs485=on&rs485_delay_after_send_ms=101",
            "rs485_delay_after_send_ms is 0 to 100, the kernel's most, not 101",
        ),
        (
            "flow=hardware&rts=on",
            "flow=hardware drives RTS: leave rts out",
        ),
        ("rs485=on&rts=off", "rs485 drives RTS: leave rts out"),
        (
            "rs485=on&flow=hardware",
            "rs485 drives RTS, which flow=hardware needs: choose one",
        ),
    ];
    for (query, expected) in table {
        assert_eq!(why_not(&format!("serial:///dev/x?{query}")), expected);
    }
    let unknown = why_not("serial:///dev/x?bits=8");
    assert!(
        unknown.starts_with("\"bits\" is no setting of a serial line: they are baud, data_bits,"),
        "{unknown}"
    );
}

#[test]
fn a_line_built_by_hand_is_held_to_the_same_rules() {
    let refused = |line: SerialLine| Address::Serial(line).validate().unwrap_err().to_string();
    let new = || SerialLine::new("/dev/x");
    for (line, why) in [
        (
            SerialLine {
                data_bits: 4,
                ..new()
            },
            "data_bits is 5, 6, 7 or 8, not 4",
        ),
        (
            SerialLine {
                stop_bits: 0,
                ..new()
            },
            "stop_bits is 1 or 2, not 0",
        ),
        (SerialLine { baud: 0, ..new() }, "a baud of 0 would hang up"),
        (SerialLine::new("ttyS0"), "the path is absolute"),
        (SerialLine::new("/dev/a\0b"), "a path has no NUL"),
        (
            SerialLine::new(format!("/{}", "x".repeat(4095))),
            "the limit is 4095",
        ),
    ] {
        let error = refused(line);
        assert!(error.contains(why), "{error}");
    }
}
