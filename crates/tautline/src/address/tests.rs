//! Every address that is one, and what is said of those that are none.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn tcp(host: &str, port: u16) -> Address {
    let host = host.to_owned();
    Address::Tcp { host, port }
}

fn udp(host: &str, port: u16) -> Address {
    let host = host.to_owned();
    Address::Udp { host, port }
}

fn path(path: &str) -> Address {
    Address::Uds(UdsName::Path(path.into()))
}

fn abstract_name(name: &[u8]) -> Address {
    Address::Uds(UdsName::Abstract(name.to_owned()))
}

/// What is wrong with a text, without the text itself.
fn fault(text: &str) -> String {
    let shown = text.parse::<Address>().unwrap_err().to_string();
    let quoted = format!("{text:?}: ");
    shown.strip_prefix(&quoted).unwrap_or(&shown).to_owned()
}

#[test]
fn addresses_parse_and_print_as_the_same_text() {
    let table = [
        ("tcp://10.0.0.5:9000", tcp("10.0.0.5", 9000)),
        ("tcp://127.0.0.1:0", tcp("127.0.0.1", 0)),
        (
            "tcp://plc-7.site_a.local:65535",
            tcp("plc-7.site_a.local", 65535),
        ),
        ("tcp://[::1]:9000", tcp("::1", 9000)),
        ("udp://[fe80::1%eth0]:5", udp("fe80::1%eth0", 5)),
        ("udp://[fe80::1%enp0s3.100]:5", udp("fe80::1%enp0s3.100", 5)),
        ("udp://[::]:5000", udp("::", 5000)),
        ("udp://0.0.0.0:5000", udp("0.0.0.0", 5000)),
        (
            "tls://[::1]:9443",
            Address::Tls {
                host: "::1".to_owned(),
                port: 9443,
            },
        ),
        (
            "serial:///dev/ttyUSB0?baud=9600",
            Address::Serial(SerialLine {
                baud: 9_600,
                ..SerialLine::new("/dev/ttyUSB0")
            }),
        ),
        ("uds:///run/x.sock", path("/run/x.sock")),
        ("uds:///tmp/été:1@[2]", path("/tmp/été:1@[2]")),
        ("uds:///run/with%20space", path("/run/with space")),
        ("uds:///run/100%25%3F%23", path("/run/100%?#")),
        ("uds://@name", abstract_name(b"name")),
        (
            "uds://@/looks/like/a/path",
            abstract_name(b"/looks/like/a/path"),
        ),
        ("uds://@%00%FF%0A", abstract_name(&[0, 255, 10])),
    ];
    for (text, address) in table {
        assert_eq!(text.parse().as_ref(), Ok(&address), "{text}");
        assert_eq!(address.to_string(), text);
        assert_eq!(Some(address.scheme()), text.split(':').next());
    }
}

#[test]
fn escapes_may_be_used_where_none_is_needed() {
    assert_eq!("uds:///%72un/%78".parse(), Ok(path("/run/x")));
    assert_eq!("uds://@%c3%a9".parse(), Ok(abstract_name("é".as_bytes())));
}

#[test]
fn other_schemes_are_refused_by_name() {
    for scheme in ["https", "http", "unix", "TCP", "ws+x"] {
        let error = format!("{scheme}://x:1").parse::<Address>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedScheme);
        let expected =
            format!("\"{scheme}://x:1\": {scheme}: the schemes are tcp, tls, udp, uds and serial");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn each_mistake_has_its_own_words() {
    let table = [
        (
            "",
            "the scheme is missing: tcp://HOST:PORT, udp://HOST:PORT, uds:///PATH or uds://@NAME",
        ),
        (
            "10.0.0.5:9000",
            "the scheme is missing: tcp://HOST:PORT, udp://HOST:PORT, uds:///PATH or uds://@NAME",
        ),
        ("://x:1", "what stands before :// is no scheme"),
        (" tcp://x:1", "what stands before :// is no scheme"),
        ("tcp://", "the host is missing"),
        ("tcp://:9000", "the host is missing"),
        ("tcp://[]:9000", "\"\" is no IPv6 address"),
        ("tcp://plc", "the port is missing: tcp://plc:PORT"),
        ("udp://[::1]", "the port is missing: udp://[::1]:PORT"),
        ("tcp://pl c", "a host has no spaces"),
        ("tcp://plc:", "the port is missing after the colon"),
        ("tcp://plc:70000", "the port 70000 is above 65535"),
        (
            "tcp://plc:99999999999999999999",
            "the port 99999999999999999999 is above 65535",
        ),
        ("tcp://plc:-1", "the port \"-1\" is no number"),
        ("tcp://plc:+80", "the port \"+80\" is no number"),
        ("tcp://plc:http", "the port \"http\" is no number"),
        ("tcp://plc:80 ", "the port \"80 \" is no number"),
        ("tcp://plc:٣", "the port \"٣\" is no number"),
        ("tcp://my plc:80", "a host has no spaces"),
        ("tcp://plc\0:80", "a host has no NUL"),
        ("tcp://pl\u{7}c:80", "a host name has no '\\u{7}'"),
        ("tcp://été:80", "a host name has no 'é'"),
        (
            "tcp://user:secret@plc:80",
            "there are no user names or passwords in an address",
        ),
        (
            "tcp://plc:80/",
            "nothing follows the port, and here is \"/\"",
        ),
        (
            "tcp://plc:80?nodelay=1",
            "nothing follows the port, and here is \"?nodelay=1\"",
        ),
        (
            "udp://plc:80#x",
            "nothing follows the port, and here is \"#x\"",
        ),
        (
            "tcp://::1:9000",
            "an IPv6 address stands in brackets: [::1]:9000",
        ),
        ("tcp://[::1:9000", "the bracket is not closed"),
        ("tcp://[::1]9000", "only :PORT follows the bracket"),
        ("tcp://[::1%]:9000", "\"::1%\" is no IPv6 address"),
        (
            "tcp://[fe80::1%a%b]:9000",
            "\"fe80::1%a%b\" is no IPv6 address",
        ),
        (
            "tcp://[fe80::1%averylonginterface]:9000",
            "\"fe80::1%averylonginterface\" is no IPv6 address",
        ),
        ("tcp://[10.0.0.5]:9000", "\"10.0.0.5\" is no IPv6 address"),
        ("tcp://[plc]:9000", "\"plc\" is no IPv6 address"),
        ("tcp://10.0.0.256:9000", "\"10.0.0.256\" is no IPv4 address"),
        ("tcp://10.1:9000", "\"10.1\" is no IPv4 address"),
        ("tcp://1:9000", "\"1\" is no IPv4 address"),
        ("uds://", "the name is missing: uds:///PATH or uds://@NAME"),
        (
            "uds://run/x.sock",
            "the path is absolute, with three slashes: uds:///PATH",
        ),
        (
            "uds://./x.sock",
            "the path is absolute, with three slashes: uds:///PATH",
        ),
        ("uds:///", "the path names a directory"),
        ("uds:///run/", "the path names a directory"),
        ("uds:///run/x\0y", "a path has no NUL"),
        ("uds:///run/x%00y", "a path has no NUL"),
        (
            "uds:///run/my x",
            "an address has no spaces; in a name write %20",
        ),
        (
            "uds:///run/x\n",
            "an address has no spaces; in a name write %20",
        ),
        (
            "uds:///run/\u{1b}[31m",
            "an address has no control characters",
        ),
        (
            "uds:///run/x?mode=600",
            "a Unix socket takes no parameters; in a name write %3F for ?",
        ),
        (
            "uds:///run/x#y",
            "a Unix socket takes no parameters; in a name write %23 for #",
        ),
        (
            "uds:///run/100%",
            "a % is followed by two hexadecimal digits; itself it is %25",
        ),
        (
            "uds:///run/%+1",
            "a % is followed by two hexadecimal digits; itself it is %25",
        ),
        (
            "uds:///run/%é",
            "a % is followed by two hexadecimal digits; itself it is %25",
        ),
        ("uds://@", "the name is missing after the @"),
    ];
    for (text, expected) in table {
        assert_eq!(fault(text), expected, "{text:?}");
        let error = text.parse::<Address>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidAddress, "{text:?}");
    }
}

#[test]
fn a_unix_name_has_107_bytes_and_no_more() {
    let longest = format!("uds:///{}", "x".repeat(106));
    assert_eq!(longest.parse::<Address>().unwrap().to_string(), longest);
    let longer = format!("{longest}y");
    assert_eq!(
        longer.parse::<Address>().unwrap_err().to_string(),
        format!("\"{longer}\": the path has 108 bytes, the limit of the system is 107")
    );
    let longest = format!("uds://@{}", "x".repeat(107));
    assert!(longest.parse::<Address>().is_ok());
    assert_eq!(
        fault(&format!("{longest}y")),
        "the name has 108 bytes, the limit of the system is 107"
    );
    // It is bytes that count, not letters or escapes.
    let escaped = format!("uds://@{}", "%20".repeat(107));
    assert!(escaped.parse::<Address>().is_ok());
}

#[test]
fn a_host_name_has_253_bytes_and_no_more() {
    assert!(
        format!("tcp://{}:1", "x".repeat(253))
            .parse::<Address>()
            .is_ok()
    );
    let long = format!("tcp://{}:1", "x".repeat(254));
    assert_eq!(fault(&long), "the host has 254 bytes, the limit is 253");
}

#[test]
fn foreign_text_is_quoted_and_cut() {
    let shown = "tcp://\u{1b}[2J"
        .parse::<Address>()
        .unwrap_err()
        .to_string();
    assert!(shown.starts_with(r#""tcp://\u{1b}[2J": "#), "{shown}");
    let endless = "x".repeat(1_000_000);
    let shown = endless.parse::<Address>().unwrap_err().to_string();
    assert!(
        shown.starts_with("\"xxx") && shown.contains("xxx…\": "),
        "{shown}"
    );
    assert!(shown.len() < 1000);
}

#[test]
fn the_command_line_takes_a_host_with_or_without_a_port() {
    let table = [
        ("plc", tcp("plc", 6001)),
        ("plc:9000", tcp("plc", 9000)),
        ("10.0.0.5", tcp("10.0.0.5", 6001)),
        ("10.0.0.5:9000", tcp("10.0.0.5", 9000)),
        ("::1", tcp("::1", 6001)),
        ("fe80::1%eth0", tcp("fe80::1%eth0", 6001)),
        ("[::1]", tcp("::1", 6001)),
        ("[::1]:9000", tcp("::1", 9000)),
        // A bare IPv6 address is one to its end; for a port it needs brackets.
        ("::1:9000", tcp("::1:9000", 6001)),
        ("tcp://plc:9000", tcp("plc", 9000)),
        ("udp://[::1]:5", udp("::1", 5)),
        ("uds://@name", abstract_name(b"name")),
    ];
    for (text, address) in table {
        assert_eq!(Address::parse_command_line(text), Ok(address), "{text}");
    }
}

#[test]
fn the_command_line_explains_what_it_does_not_take() {
    let table = [
        ("", "the host is missing"),
        (":9000", "the host is missing"),
        ("plc:70000", "the port 70000 is above 65535"),
        (
            "/run/x.sock",
            "write uds:// before the name of a Unix socket",
        ),
        ("@name", "write uds:// before the name of a Unix socket"),
        (
            "::1]:9000",
            "an IPv6 address stands in brackets: [::1]:9000",
        ),
        (
            "can:///can0",
            "can: the schemes are tcp, tls, udp, uds and serial",
        ),
    ];
    for (text, expected) in table {
        let error = Address::parse_command_line(text).unwrap_err();
        assert_eq!(error.to_string(), format!("{text:?}: {expected}"));
    }
}

#[test]
fn socket_addresses_become_addresses() {
    let table = [
        ("127.0.0.1:9000", "tcp://127.0.0.1:9000"),
        ("[::1]:9000", "tcp://[::1]:9000"),
        ("[::ffff:10.0.0.5]:9000", "tcp://10.0.0.5:9000"),
    ];
    for (from, text) in table {
        assert_eq!(Address::tcp(from.parse().unwrap()).to_string(), text);
    }
    // An interface that has gone is still a number.
    let gone = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 5, 0, 4_000_000);
    let address = Address::udp(gone.into());
    assert_eq!(address.to_string(), "udp://[fe80::1%4000000]:5");
    assert_eq!(address.to_string().parse(), Ok(address));
}

#[test]
fn what_is_built_by_hand_is_held_to_the_same_rules() {
    assert!(tcp("127.0.0.1", 1).validate().is_ok());
    let wrong = [
        (tcp("", 1), "the host is missing"),
        (tcp("[::1]", 1), "\"[::1]\" is no IPv6 address"),
        (tcp("a:b", 1), "\"a:b\" is no IPv6 address"),
        (
            path("x.sock"),
            "the path is absolute, with three slashes: uds:///PATH",
        ),
        (
            path(""),
            "the path is absolute, with three slashes: uds:///PATH",
        ),
        (abstract_name(b""), "the name is missing after the @"),
    ];
    for (address, expected) in wrong {
        let shown = address.validate().unwrap_err().to_string();
        assert!(shown.ends_with(expected), "{shown}");
    }
}

fn any_port() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(1), Just(65535), any::<u16>()]
}

fn any_host() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<Ipv6Addr>().prop_map(|ip| ip.to_string()),
        (any::<Ipv6Addr>(), "[a-z][a-z0-9._-]{0,14}")
            .prop_map(|(ip, scope)| format!("{ip}%{scope}")),
        "[a-zA-Z_][a-zA-Z0-9._-]{0,252}",
    ]
}

fn any_address() -> impl Strategy<Value = Address> {
    let path = prop::collection::vec(1u8.., 0..=105).prop_map(|name| {
        // The last byte must not be a slash, and the first has to be one.
        let bytes = [b"/", name.as_slice(), b"x"].concat();
        Address::Uds(UdsName::Path(PathBuf::from(OsStr::from_bytes(&bytes))))
    });
    let name = prop::collection::vec(any::<u8>(), 1..=107)
        .prop_map(|name| Address::Uds(UdsName::Abstract(name)));
    prop_oneof![
        (any_host(), any_port()).prop_map(|(host, port)| Address::Tcp { host, port }),
        (any_host(), any_port()).prop_map(|(host, port)| Address::Udp { host, port }),
        path,
        name,
    ]
}

/// Text that is nearly an address: its parts in any order.
fn nearly_an_address() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("tcp"),
        Just("udp"),
        Just("uds"),
        Just("://"),
        Just(":"),
        Just("/"),
        Just("@"),
        Just("["),
        Just("]"),
        Just("::1"),
        Just("%"),
        Just("%2"),
        Just("%41"),
        Just("eth0"),
        Just("é"),
        Just(" "),
        Just("\0"),
        Just("?"),
        Just("#"),
        Just("9000"),
        Just("70000"),
        Just("."),
        Just("127.0.0.1"),
        Just("plc"),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn every_valid_address_prints_as_text_that_parses_back(address in any_address()) {
        prop_assert!(address.validate().is_ok());
        let text = address.to_string();
        prop_assert!(!text.contains(char::is_whitespace) && !text.contains(char::is_control));
        prop_assert_eq!(text.parse(), Ok(address.clone()));
        prop_assert_eq!(Address::parse_command_line(&text), Ok(address));
    }

    #[test]
    fn whatever_parses_round_trips_and_nothing_panics(
        text in prop_oneof![nearly_an_address(), any::<String>()],
    ) {
        for parsed in [text.parse::<Address>(), Address::parse_command_line(&text)] {
            match parsed {
                Ok(address) => prop_assert_eq!(address.to_string().parse(), Ok(address)),
                Err(error) => prop_assert!(!error.to_string().contains(char::is_control)),
            }
        }
    }
}
