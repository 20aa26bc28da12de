//! Percentiles as they are asked for: any from above 0 to below 100, exact to seven decimals.

use std::fmt;
use std::str::FromStr;

/// One percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Share of the samples at or below it, in billionths.
    billionths: u64,
}

impl Point {
    /// Those that are shown when nothing else is asked for.
    pub const DEFAULT: [Self; 8] = [
        Self::billionths(500_000_000),
        Self::billionths(750_000_000),
        Self::billionths(900_000_000),
        Self::billionths(950_000_000),
        Self::billionths(990_000_000),
        Self::billionths(999_000_000),
        Self::billionths(999_900_000),
        Self::billionths(999_990_000),
    ];

    /// The 99th.
    pub const P99: Self = Self::billionths(990_000_000);

    const fn billionths(billionths: u64) -> Self {
        Self { billionths }
    }

    /// As a percentage: 99.9.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.billionths as f64 / 1e7
    }

    /// Samples without which it is absent: ten have to lie beyond it.
    #[must_use]
    pub fn least_samples(self) -> u64 {
        (SAMPLES_BEYOND * WHOLE).div_ceil(WHOLE - self.billionths)
    }

    /// The rank, counted from 1, that `count` samples support; `None` if fewer than ten lie beyond.
    #[must_use]
    pub fn rank(self, count: u64) -> Option<u64> {
        let beyond = u128::from(count) * u128::from(WHOLE - self.billionths);
        if beyond < u128::from(SAMPLES_BEYOND * WHOLE) {
            return None;
        }
        let rank = (u128::from(count) * u128::from(self.billionths)).div_ceil(WHOLE.into());
        Some(u64::try_from(rank).expect("at most the count").max(1))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.percent())
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected percentiles such as 50,99,99.9".to_owned();
        let digits = text.strip_prefix('p').unwrap_or(text);
        let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let percent: f64 = digits.parse().ok().filter(|_| plain).ok_or_else(expected)?;
        let billionths = (percent * 1e7).round();
        if percent == 100.0 {
            return Err("100 is the maximum, which is always shown".to_owned());
        }
        if !(1.0..WHOLE as f64).contains(&billionths) {
            return Err("it is not above 0 and below 100".to_owned());
        }
        Ok(Self::billionths(billionths as u64))
    }
}

const WHOLE: u64 = 1_000_000_000;
/// Fewer would make a percentile the story of single events.
const SAMPLES_BEYOND: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str) -> Point {
        text.parse().unwrap()
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        for (text, least) in [
            ("50", 20),
            ("99", 1_000),
            ("99.9", 10_000),
            ("99.99", 100_000),
            ("99.999", 1_000_000),
        ] {
            assert_eq!(point(text).least_samples(), least);
            assert_eq!(point(text).rank(least - 1), None);
            assert_eq!(point(text).rank(least), Some(least - 10));
        }
    }

    #[test]
    fn percentiles_are_shown_as_they_were_asked_for() {
        for text in ["50", "97.5", "99.999", "0.001"] {
            assert_eq!(point(text).to_string(), text);
        }
        assert_eq!(point("p99.9"), point("99.90"));
    }

    #[test]
    fn what_is_no_percentile_is_refused() {
        for text in [
            "",
            "p",
            "x",
            "-1",
            "1e1",
            "nan",
            "inf",
            "50,5",
            "0",
            "100.1",
            "0.00000001",
        ] {
            assert!(text.parse::<Point>().is_err(), "{text}");
        }
        assert_eq!(
            "100".parse::<Point>().unwrap_err(),
            "100 is the maximum, which is always shown"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = text.parse::<Point>();
        }
    }
}
