//! Values of options: the gauge's grammar in the form that clap calls.
//!
//! clap names the option; these say what is wrong with its value, and nothing else.

use std::time::Duration;

use tautline::{Address, SerialLine, Strategy};
use tautline_gauge::plan::{Driver, OnRefused, Placement, PlanError, Sched, Transport};
use tautline_gauge::primes::{Limit, LimitError};
use tautline_gauge::quantity::{self, QuantityError};

/// An address as users type it: `HOST[:PORT]` is tcp, port 6001.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    let address = Address::parse_command_line(text).map_err(|error| error.to_string())?;
    let scheme = address.scheme();
    match scheme.parse::<Transport>() {
        Ok(transport) if !transport.is_built() => Err(format!(
            "this program was built without the feature `{scheme}`"
        )),
        _ => Ok(address),
    }
}

/// A serial port: an address, or its path with the same settings behind.
pub(crate) fn serial_port(text: &str) -> Result<SerialLine, String> {
    let address = match text.contains("://") {
        true => text.to_owned(),
        false => format!("serial://{text}"),
    };
    match address
        .parse::<Address>()
        .map_err(|error| error.to_string())?
    {
        Address::Serial(line) => Ok(line),
        other => Err(format!(
            "{} is no serial port: a path such as /dev/ttyUSB0?baud=115200",
            other.scheme()
        )),
    }
}

/// A name that stands in pages of a folder of evidence: nothing that would move a terminal's cursor.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) {
        true => Err(format!(
            "{text:?} has control characters, and a name has none"
        )),
        false => Ok(text.to_owned()),
    }
}

/// The number of an open descriptor.
pub(crate) fn descriptor(text: &str) -> Result<i32, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| "expected the number of an open descriptor, such as 3".to_owned())
}

pub(crate) fn transport(text: &str) -> Result<Transport, String> {
    text.parse().map_err(message)
}

pub(crate) fn driver(text: &str) -> Result<Driver, String> {
    text.parse().map_err(message)
}

pub(crate) fn placement(text: &str) -> Result<Placement, String> {
    text.parse().map_err(message)
}

pub(crate) fn sched(text: &str) -> Result<Sched, String> {
    text.parse().map_err(message)
}

pub(crate) fn strategy(text: &str) -> Result<Strategy, String> {
    text.parse().map_err(|_| {
        let known = Strategy::ALL.map(Strategy::as_str).join(", ");
        format!("{text:?} is not one of {known}")
    })
}

/// How far to count primes.
pub(crate) fn limit(text: &str) -> Result<Limit, LimitError> {
    text.parse()
}

/// A payload in bytes.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    whole(quantity::size(text))
}

/// A name: anything but nothing.
pub(crate) fn text(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// How often, in whole numbers.
pub(crate) fn times(text: &str) -> Result<usize, String> {
    whole(quantity::count(text))
}

/// What the producer does after a refusal.
pub(crate) fn on_refused(text: &str) -> Result<OnRefused, String> {
    match text.split_once(':') {
        None if text == "yield" => Ok(OnRefused::Yield),
        None if text == "spin" => Ok(OnRefused::Spin),
        Some(("sleep", pause)) => quantity::duration_with_unit(pause)
            .map(OnRefused::Sleep)
            .map_err(|error| error.to_string()),
        None | Some(_) => Err(format!("{text:?} is not one of yield, spin, sleep:50us")),
    }
}

/// A list of CPUs as `taskset` takes it: `2,3` or `0-3`.
pub(crate) fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let expected = || "expected CPU numbers such as 2,3 or 0-3".to_owned();
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            match digits.then(|| text.parse::<u16>()) {
                Some(Ok(number)) => Ok(number),
                Some(Err(_)) => Err(format!("CPU {text} is beyond any machine")),
                None => Err(expected()),
            }
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("{first}-{last} runs backwards"));
        }
        cpus.extend((first..=last).map(usize::from));
    }
    Ok(cpus)
}

pub(crate) fn count(text: &str) -> Result<u64, QuantityError> {
    quantity::count(text)
}

pub(crate) fn seconds(text: &str) -> Result<Duration, QuantityError> {
    quantity::duration(text)
}

pub(crate) fn duration(text: &str) -> Result<Duration, QuantityError> {
    quantity::duration_with_unit(text)
}

/// Messages a second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    quantity::rate(text).map_err(|error| error.to_string())
}

/// How often a line is printed.
pub(crate) fn every(text: &str) -> Result<Duration, String> {
    let every = quantity::duration(text).map_err(|error| error.to_string())?;
    if every < Duration::from_millis(100) {
        return Err("at least 0.1, a tenth of a second".to_owned());
    }
    Ok(every)
}

/// clap has named the option already.
fn message(error: PlanError) -> String {
    error.message
}

fn whole(number: Result<u64, QuantityError>) -> Result<usize, String> {
    let number = number.map_err(|error| error.to_string())?;
    usize::try_from(number).map_err(|_| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_taken_as_taskset_takes_them() {
        assert_eq!(cpus("3,1"), Ok(vec![3, 1]));
        assert_eq!(cpus("0-2,5"), Ok(vec![0, 1, 2, 5]));
        assert_eq!(cpus("2-1"), Err("2-1 runs backwards".to_owned()));
        assert_eq!(
            cpus("99999"),
            Err("CPU 99999 is beyond any machine".to_owned())
        );
        for text in ["", "x", "1,", "-1", "+1", "0x1"] {
            assert_eq!(
                cpus(text),
                Err("expected CPU numbers such as 2,3 or 0-3".to_owned())
            );
        }
    }

    #[test]
    fn a_sleep_after_a_refusal_names_its_unit() {
        assert_eq!(on_refused("yield"), Ok(OnRefused::Yield));
        assert_eq!(on_refused("spin"), Ok(OnRefused::Spin));
        assert_eq!(
            on_refused("sleep:50us"),
            Ok(OnRefused::Sleep(Duration::from_micros(50)))
        );
        assert_eq!(
            on_refused("sleep:50"),
            Err("give it a unit, such as 50us or 50ms".to_owned())
        );
        for text in ["", "sleep", "nap:1ms", "yield:1ms"] {
            assert_eq!(
                on_refused(text),
                Err(format!("{text:?} is not one of yield, spin, sleep:50us"))
            );
        }
    }
}
