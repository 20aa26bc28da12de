//! Times of the wall clock in words: labels, never used for arithmetic.

/// Seconds since 1970 as RFC 3339 has them, in UTC.
#[must_use]
pub fn rfc3339(epoch_s: u64) -> String {
    format!("{}Z", date_time(epoch_s))
}

/// The same with milliseconds.
#[must_use]
pub fn rfc3339_ms(epoch_ms: u64) -> String {
    format!("{}.{:03}Z", date_time(epoch_ms / 1_000), epoch_ms % 1_000)
}

/// Counts years from March, so that the leap day is the last of one.
fn date_time(epoch_s: u64) -> String {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    // 1970-01-01 is day 719,468 from 0000-03-01.
    let days = epoch_s / 86_400 + 719_468;
    let day_of_era = days % DAYS_IN_400_YEARS;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = days / DAYS_IN_400_YEARS * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (epoch_s / 3_600 % 24, epoch_s / 60 % 60, epoch_s % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// The inverse of [`rfc3339`], for a label that it wrote; `None` for any other text.
#[must_use]
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator| -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = text.split(separator).map(|n| n.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (hour < 24 && minute < 60 && second < 60);
    if !in_range {
        return None;
    }
    // Counts years from March, as above.
    let years = year - u64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = years * 365 + years / 4 - years / 100 + years / 400 + day_of_year;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_788_093_966), "2026-08-30T12:46:06Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(rfc3339_ms(951_782_399_007), "2000-02-28T23:59:59.007Z");
    }

    #[test]
    fn a_label_is_read_back() {
        for seconds in [0, 951_782_399, 951_782_400, 1_788_093_966, 4_107_542_400] {
            assert_eq!(parse(&rfc3339(seconds)), Some(seconds));
        }
        for text in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-08-30T12:46:06",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
