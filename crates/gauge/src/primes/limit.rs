//! The limit of a count: as it is typed, and one that takes about as long as wanted.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Counting, Plan};
use crate::plan::Sched;
use crate::quantity;

/// The largest limit: the primes up to its root still fit a few MiB a thread, and it takes days.
pub const LARGEST_LIMIT: u64 = 100_000_000_000_000;

/// How far to count, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Whatever takes about as long as a round, from 1, 2 or 5 times a power of ten.
    Auto,
    /// This far.
    UpTo(u64),
}

/// Why a text is no limit: a sentence that completes "invalid value '…': ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LimitError(String);

impl FromStr for Limit {
    type Err = LimitError;

    /// `auto`, `1e12`, `1000000`, `10M`.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let expected = || LimitError("expected auto or a limit such as 1e12 or 1000000".to_owned());
        let number = match text.split_once(['e', 'E']) {
            Some((digits, power)) => scientific(digits, power).ok_or_else(expected)?,
            None => quantity::count(text).map_err(|error| match error.to_string() {
                message if message.starts_with("too large") => LimitError(message),
                _ => expected(),
            })?,
        };
        if (1..=LARGEST_LIMIT).contains(&number) {
            Ok(Self::UpTo(number))
        } else {
            Err(LimitError(format!(
                "{text} is not within 1 to {LARGEST_LIMIT}"
            )))
        }
    }
}

/// Whole numbers only: `1.5e3` is 1500, `1.5e0` is nothing that can be counted to. What is too large
/// for 64 bits is the largest there is.
fn scientific(digits: &str, power: &str) -> Option<u64> {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || power.is_empty()
        || !all_digits(whole)
        || !all_digits(part)
        || !all_digits(power)
    {
        return None;
    }
    let part = part.trim_end_matches('0');
    let power: usize = power.parse().unwrap_or(usize::MAX);
    let zeros = power.checked_sub(part.len())?;
    let significant = format!("{whole}{part}");
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    if significant.len() + zeros.min(20) > 20 {
        return Some(u64::MAX);
    }
    let text = format!("{significant}{}", "0".repeat(zeros));
    Some(text.parse().unwrap_or(u64::MAX))
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::UpTo(limit) => write!(f, "{limit}"),
        }
    }
}

/// The limit whose count takes about `time` on a machine that is as busy as now: 1, 2 or 5 times a
/// power of ten. Counts for about a quarter of a second to find out, longer where it gets little CPU.
///
/// # Errors
///
/// When a thread cannot be started.
pub fn limit_for(
    time: Duration,
    threads: usize,
    sched: Sched,
    stop: &AtomicBool,
) -> io::Result<u64> {
    let counting = Counting::start(&Plan::once(TRIAL_LIMIT, threads, sched))?;
    let trial = Trial::begin(&counting, time);
    loop {
        if let Some(limit) = trial.limit(&counting) {
            return Ok(limit);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(trial.limit_by_now(&counting));
        }
        counting.wait(STEP);
    }
}

/// Watches a count that runs, beside whatever else runs, for the limit whose count would take about so
/// long there.
#[derive(Debug)]
pub struct Trial {
    time: Duration,
    started: Instant,
    numbers: u64,
}

impl Trial {
    /// Watches from now on.
    #[must_use]
    pub fn begin(counting: &Counting, time: Duration) -> Self {
        Self {
            time,
            started: Instant::now(),
            numbers: counting.numbers(),
        }
    }

    /// The limit; `None` while too little has been counted to tell.
    #[must_use]
    pub fn limit(&self, counting: &Counting) -> Option<u64> {
        let (numbers, elapsed) = (counting.numbers() - self.numbers, self.started.elapsed());
        let least = (self.time / TRIAL_SHARE).clamp(TRIAL, LONGEST_LEAST);
        let too_little =
            elapsed < least || (numbers < TRIAL_NUMBERS && elapsed < least.max(LONGEST_TRIAL));
        (!too_little).then(|| self.limit_by_now(counting))
    }

    fn limit_by_now(&self, counting: &Counting) -> u64 {
        let numbers = (counting.numbers() - self.numbers) as f64;
        let elapsed_s = self.started.elapsed().as_secs_f64();
        nearest_step(numbers * self.time.as_secs_f64() / elapsed_s)
    }
}

/// The nearest of 1-2-5 in proportion.
fn nearest_step(numbers: f64) -> u64 {
    let mut best = LEAST_AUTO;
    let mut power = LEAST_AUTO;
    while power <= LARGEST_LIMIT {
        for step in [power, 2 * power, 5 * power] {
            let far = |limit: u64| (limit as f64 / numbers).ln().abs();
            if step <= LARGEST_LIMIT && far(step) < far(best) {
                best = step;
            }
        }
        power *= 10;
    }
    best
}

const TRIAL: Duration = Duration::from_millis(250);
/// What an idle class gets beside others in its first second is four times what it gets later (measured
/// beside a FIFO receiver): a long count is tried for an eighth of its time.
const TRIAL_SHARE: u32 = 8;
const LONGEST_LEAST: Duration = Duration::from_secs(5);
/// Some dozens of segments: fewer would be the story of their first.
const TRIAL_NUMBERS: u64 = 200_000_000;
/// A load of the idle class may get next to nothing.
const LONGEST_TRIAL: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(10);
/// More than any machine counts in the trial, and with the segments of the limits that come of it.
pub(crate) const TRIAL_LIMIT: u64 = 100_000_000_000;
/// A count below is over before every thread has begun.
const LEAST_AUTO: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Limit, String> {
        text.parse::<Limit>().map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_whole_numbers_in_either_form() {
        assert_eq!(of("1e12"), Ok(Limit::UpTo(1_000_000_000_000)));
        assert_eq!(of("1E6"), Ok(Limit::UpTo(1_000_000)));
        assert_eq!(of("1.5e3"), Ok(Limit::UpTo(1_500)));
        assert_eq!(of("1000000"), Ok(Limit::UpTo(1_000_000)));
        assert_eq!(of("10M"), Ok(Limit::UpTo(10_000_000)));
        assert_eq!(of("auto"), Ok(Limit::Auto));
    }

    #[test]
    fn what_is_no_limit_is_refused_with_what_one_looks_like() {
        for text in [
            "", "e", "1e", "e5", "-1", "1e-12", "nan", "1,5e3", "1.5", "1.55e1", "1e1e1", "+1e3",
        ] {
            let said = "expected auto or a limit such as 1e12 or 1000000".to_owned();
            assert_eq!(of(text), Err(said), "{text}");
        }
        for text in [
            "0",
            "0e5",
            "1e15",
            "1e999999999999999999999",
            "99999999999999999999e1",
        ] {
            assert_eq!(
                of(text),
                Err(format!("{text} is not within 1 to 100000000000000"))
            );
        }
        assert_eq!(
            of("99999999999999999999"),
            Err("too large: beyond 64 bits".to_owned())
        );
    }

    #[test]
    fn steps_are_1_2_5_and_the_nearest_in_proportion() {
        assert_eq!(nearest_step(0.0), 1_000_000);
        assert_eq!(nearest_step(1.3e9), 1_000_000_000);
        assert_eq!(nearest_step(1.5e9), 2_000_000_000);
        assert_eq!(nearest_step(3.1e9), 2_000_000_000);
        assert_eq!(nearest_step(3.3e9), 5_000_000_000);
        assert_eq!(nearest_step(8e9), 10_000_000_000);
        assert_eq!(nearest_step(9e30), LARGEST_LIMIT);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[0-9eE.+-]{0,30}") {
            let _ = text.parse::<Limit>();
        }
    }
}
