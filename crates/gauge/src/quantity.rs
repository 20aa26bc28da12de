//! Quantities as people type them: counts, sizes in bytes, durations, percentages.
//!
//! One grammar for options and gates. `k M G` are decimal and `Ki Mi Gi` binary; a plain `k` on a size
//! means one thing to half of its readers and another to the rest, so it is refused.

use std::fmt;
use std::time::Duration;

/// Why a text is no quantity of the kind asked for: a sentence that completes "invalid value '…': ".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantityError(String);

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QuantityError {}

/// A whole number, with `k M G` for thousands, millions and billions.
///
/// # Errors
///
/// Anything else, and what does not fit 64 bits.
pub fn count(text: &str) -> Result<u64, QuantityError> {
    whole(text, "a whole number such as 10000 or 10k", false)
}

/// A size in bytes, with `M G` decimal and `Ki Mi Gi` binary.
///
/// # Errors
///
/// Anything else, what does not fit 64 bits, and a plain `k`.
pub fn size(text: &str) -> Result<u64, QuantityError> {
    whole(text, "a size in bytes such as 64, 16Ki or 1Mi", true)
}

fn whole(text: &str, expected: &str, size: bool) -> Result<u64, QuantityError> {
    let (digits, suffix) = split(text);
    let number: u64 = match digits.parse() {
        Ok(number) => number,
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
            return Err(too_large());
        }
        Err(_) => return Err(QuantityError(format!("expected {expected}"))),
    };
    let factor = match suffix {
        "" => 1,
        "k" | "K" if size => {
            return Err(QuantityError(match number.checked_mul(1 << 10) {
                Some(bytes) => format!("did you mean {number}Ki ({bytes})?"),
                None => format!("expected {expected}"),
            }));
        }
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" if size => 1 << 10,
        "Mi" if size => 1 << 20,
        "Gi" if size => 1 << 30,
        _ => return Err(QuantityError(format!("expected {expected}"))),
    };
    number.checked_mul(factor).ok_or_else(too_large)
}

/// A duration: a number with `ns us ms s min h`, a bare number being seconds.
///
/// # Errors
///
/// Anything else, and what is no duration: negative, not finite, beyond 64 bits of nanoseconds.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    let (_, unit) = split(text);
    let seconds = if unit.is_empty() { "s" } else { "" };
    duration_with_unit(&format!("{text}{seconds}"))
}

/// A duration that has to name its unit, where a bare number would be read in different ways.
///
/// # Errors
///
/// As [`duration`], and a bare number.
pub fn duration_with_unit(text: &str) -> Result<Duration, QuantityError> {
    let (digits, unit) = split(text);
    let expected = || QuantityError("expected a duration such as 50us, 500ms or 3s".to_owned());
    let number: f64 = decimal(digits).ok_or_else(expected)?;
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        "" => {
            return Err(QuantityError(format!(
                "give it a unit, such as {digits}us or {digits}ms"
            )));
        }
        "m" => {
            return Err(QuantityError(format!(
                "did you mean {digits}min or {digits}ms?"
            )));
        }
        _ => return Err(expected()),
    };
    let ns = (number * unit_ns).round();
    // 2^63: what is above cannot be told exactly in 64 bits, and is 292 years.
    if ns < 9_223_372_036_854_775_808.0 {
        Ok(Duration::from_nanos(ns as u64))
    } else {
        Err(too_large())
    }
}

/// How often a second: a plain decimal number, with `k M G`.
///
/// # Errors
///
/// Anything else.
pub fn rate(text: &str) -> Result<f64, QuantityError> {
    decimal_with_suffix(text).ok_or_else(|| {
        QuantityError("expected a number a second such as 1000, 10k or 0.5".to_owned())
    })
}

/// A plain decimal number, with `k M G` if `suffixes`.
pub(crate) fn decimal_with_suffix(text: &str) -> Option<f64> {
    let (digits, suffix) = split(text);
    let factor = match suffix {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    Some(decimal(digits)? * factor)
}

/// Digits with at most one point: no sign, no exponent, no `inf`, no `nan`.
fn decimal(digits: &str) -> Option<f64> {
    digits
        .parse()
        .ok()
        .filter(|_| digits.bytes().any(|b| b.is_ascii_digit()))
}

/// The leading digits and point, and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

fn too_large() -> QuantityError {
    QuantityError("too large: beyond 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason<T: fmt::Debug>(result: Result<T, QuantityError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn sizes_are_bytes_with_binary_and_decimal_suffixes() {
        assert_eq!(size("64"), Ok(64));
        assert_eq!(size("16Ki"), Ok(16_384));
        assert_eq!(size("1Mi"), Ok(1_048_576));
        assert_eq!(size("1Gi"), Ok(1_073_741_824));
        assert_eq!(size("1M"), Ok(1_000_000));
        assert_eq!(size("2G"), Ok(2_000_000_000));
    }

    #[test]
    fn a_plain_k_on_a_size_is_refused_with_what_was_meant() {
        assert_eq!(reason(size("64k")), "did you mean 64Ki (65536)?");
        assert_eq!(reason(size("64K")), "did you mean 64Ki (65536)?");
    }

    #[test]
    fn what_is_no_size_says_what_one_looks_like() {
        for text in [
            "abc", "", "-1", "+1", "1.5Ki", "64KiB", "64 ", "0x40", "Ki", "1k5",
        ] {
            assert_eq!(
                reason(size(text)),
                "expected a size in bytes such as 64, 16Ki or 1Mi",
                "{text}"
            );
        }
        assert_eq!(
            reason(size("18446744073709551616")),
            "too large: beyond 64 bits"
        );
        assert_eq!(
            reason(size("18446744073709551615Gi")),
            "too large: beyond 64 bits"
        );
    }

    #[test]
    fn counts_take_decimal_suffixes_only() {
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("3"), Ok(3));
        assert_eq!(
            reason(count("10Ki")),
            "expected a whole number such as 10000 or 10k"
        );
        assert_eq!(
            reason(count("1.5")),
            "expected a whole number such as 10000 or 10k"
        );
    }

    #[test]
    fn a_bare_duration_is_seconds() {
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1_500)));
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("100ns"), Ok(Duration::from_nanos(100)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3_600)));
    }

    #[test]
    fn a_duration_that_two_people_would_read_differently_is_refused() {
        assert_eq!(
            reason(duration_with_unit("50")),
            "give it a unit, such as 50us or 50ms"
        );
        assert_eq!(reason(duration("5m")), "did you mean 5min or 5ms?");
        assert_eq!(
            reason(duration("-1")),
            "expected a duration such as 50us, 500ms or 3s"
        );
        assert_eq!(
            reason(duration("inf")),
            "expected a duration such as 50us, 500ms or 3s"
        );
        assert_eq!(
            reason(duration(".")),
            "expected a duration such as 50us, 500ms or 3s"
        );
        assert_eq!(
            reason(duration("9999999999999h")),
            "too large: beyond 64 bits"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = (size(&text), count(&text), duration(&text), duration_with_unit(&text));
            let _ = (decimal_with_suffix(&text), rate(&text));
        }

        #[test]
        fn every_number_is_a_size_and_a_count(number: u64) {
            prop_assert_eq!(size(&number.to_string()), Ok(number));
            prop_assert_eq!(count(&number.to_string()), Ok(number));
        }
    }
}
