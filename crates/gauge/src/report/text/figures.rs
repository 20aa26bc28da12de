//! Figures as the page shows them: the same resolution for all of a kind, `-` for what is absent.

/// One resolution for every time of the page: a tenth of a microsecond.
pub(crate) fn micros(ns: Option<u64>) -> String {
    optional(ns, |ns| {
        let us = ns as f64 / 1e3;
        // From a tenth of a second on the tenth is noise, and the column would burst.
        if us < 99_999.95 {
            format!("{us:.1}")
        } else {
            format!("{us:.0}")
        }
    })
}

pub(crate) fn rate(value: f64) -> String {
    if value < 99_999.995 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

/// Three digits or so: what is beyond is within every interval.
pub(super) fn ratio(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// 100.00 means all: what is less never rounds up to it.
pub(crate) fn percent(value: f64) -> String {
    if value < 100.0 {
        format!("{:.2}", value.min(99.99))
    } else {
        format!("{value:.2}")
    }
}

/// Exact as far as the column goes, above it in millions. JSON and CSV are always exact.
pub(super) fn count(value: u64, digits: u32) -> String {
    if value < 10u64.pow(digits) {
        value.to_string()
    } else {
        format!("{:.1}M", value as f64 / 1e6)
    }
}

pub(crate) fn optional<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(absent_figure, show)
}

pub(super) fn absent_figure() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivery_is_never_rounded_up_to_all() {
        assert_eq!(percent(99.999_9), "99.99");
        assert_eq!(percent(67.1), "67.10");
        assert_eq!(percent(100.0), "100.00");
    }

    #[test]
    fn every_time_has_the_same_resolution() {
        assert_eq!(micros(Some(35_540)), "35.5");
        assert_eq!(micros(Some(0)), "0.0");
        assert_eq!(micros(Some(99_999_940)), "99999.9");
        assert_eq!(micros(Some(5_000_000_000)), "5000000");
        assert_eq!(micros(None), "-");
    }
}
