//! Values that only `ping` takes, in the form that clap calls: what is wrong, and nothing else.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use tautline_gauge::ping::{HistogramPlan, Load, Point};
use tautline_gauge::quantity;

pub(super) fn point(text: &str) -> Result<Point, String> {
    text.parse()
}

/// `FROM:STEP:COUNT`, times with their unit.
pub(super) fn histogram(text: &str) -> Result<HistogramPlan, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [from, step, steps] = parts[..] else {
        return Err("expected FROM:STEP:COUNT, such as 30us:15us:30".to_owned());
    };
    let time = |name: &str, text: &str| {
        quantity::duration_with_unit(text).map_err(|why| format!("{name} {text:?}: {why}"))
    };
    let steps = quantity::count(steps)
        .ok()
        .and_then(|steps| usize::try_from(steps).ok())
        .ok_or_else(|| format!("COUNT {steps:?}: expected a whole number such as 30"))?;
    Ok(HistogramPlan {
        from: time("FROM", from)?,
        step: time("STEP", step)?,
        steps,
    })
}

/// A command is everything that is none of our words.
pub(super) fn load(text: &str) -> Result<Load, String> {
    match text {
        "" => Err("it is empty".to_owned()),
        "none" => Ok(Load::None),
        "primes" => Ok(Load::Primes),
        "stream" => Ok(Load::Stream(1)),
        _ => match text.strip_prefix("stream:") {
            Some(streams) => quantity::count(streams)
                .ok()
                .and_then(|streams| usize::try_from(streams).ok())
                .map(Load::Stream)
                .ok_or_else(|| "expected stream:N, such as stream:4".to_owned()),
            None => Ok(Load::Command(text.to_owned())),
        },
    }
}

/// An address with or without a port.
pub(super) fn bind(text: &str) -> Result<SocketAddr, String> {
    let expected = || "expected an IP address, with a port or without".to_owned();
    if let Some((before, rest)) = text.split_once('%') {
        // Interfaces go by their names; the number is what sockets take.
        let name = rest.split(']').next().unwrap_or_default();
        let after = &rest[name.len()..];
        let index = tautline_gauge::ping::interface_index(name)?;
        let address: SocketAddrV6 = match after.contains(':') {
            true => format!("{before}%{index}{after}"),
            false => format!("[{}%{index}]:0", before.trim_start_matches('[')),
        }
        .parse()
        .map_err(|_| expected())?;
        return Ok(address.into());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>()
        .map(|ip| SocketAddr::new(ip, 0))
        .map_err(|_| expected())
}

pub(super) fn interface(text: &str) -> Result<String, String> {
    named(text, 15, "an interface such as eth0")
}

pub(super) fn congestion(text: &str) -> Result<String, String> {
    named(text, 15, "an algorithm such as cubic or bbr")
}

pub(super) fn buffer(text: &str) -> Result<usize, String> {
    let bytes = quantity::size(text).map_err(|error| error.to_string())?;
    // The system call takes an int.
    i32::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes > 0)
        .map(|bytes| bytes as usize)
        .ok_or_else(|| "it is not within 1 to 2147483647".to_owned())
}

pub(super) fn tos(text: &str) -> Result<u8, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with('+')),
        None => text.parse().ok().filter(|_| !text.starts_with('+')),
    };
    number.ok_or_else(|| "expected 0 to 255 or 0x00 to 0xff".to_owned())
}

fn named(text: &str, most: usize, expected: &str) -> Result<String, String> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if text.is_empty() || text.len() > most || !plain {
        return Err(format!("expected {expected}"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn steps_have_units() {
        let plan = histogram("30us:15us:30").unwrap();
        assert_eq!(plan.from, Duration::from_micros(30));
        assert_eq!(plan.step, Duration::from_micros(15));
        assert_eq!(plan.steps, 30);
        for text in [
            "",
            "30us",
            "30:15:30",
            "30us:15us:x",
            "30us:15us:30:1",
            "1us:2us:-3",
        ] {
            assert!(histogram(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_load_is_one_of_our_words_or_a_command() {
        assert_eq!(
            (load("none"), load("primes")),
            (Ok(Load::None), Ok(Load::Primes))
        );
        assert_eq!(load("stream:4"), Ok(Load::Stream(4)));
        assert_eq!(
            load("yes >/dev/null"),
            Ok(Load::Command("yes >/dev/null".to_owned()))
        );
        assert!(load("stream:x").is_err());
        assert!(load("").is_err());
    }

    #[test]
    fn an_address_to_connect_from_may_leave_its_port_out() {
        let of = |text: &str| bind(text).unwrap().to_string();
        assert_eq!(of("10.0.0.2"), "10.0.0.2:0");
        assert_eq!(of("10.0.0.2:5000"), "10.0.0.2:5000");
        assert_eq!(of("::1"), "[::1]:0");
        assert_eq!(of("[::1]:7"), "[::1]:7");
        assert_eq!(of("[fe80::1%lo]:7"), "[fe80::1%1]:7");
        assert_eq!(of("fe80::1%lo"), "[fe80::1%1]:0");
        assert_eq!(of("[fe80::1%1]"), "[fe80::1%1]:0");
        assert!(
            bind("fe80::1%nope")
                .unwrap_err()
                .starts_with("interface nope: ")
        );
        assert!(bind("plc").is_err());
    }

    #[test]
    fn a_type_of_service_is_a_byte() {
        assert_eq!((tos("16"), tos("0xb8")), (Ok(16), Ok(184)));
        for text in ["", "256", "-1", "0x", "0x100", "+1", "1,5"] {
            assert!(tos(text).is_err(), "{text}");
        }
    }
}
