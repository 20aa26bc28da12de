//! When a link whose connection failed tries again, and when it gives up. Time and chance come in as
//! arguments; who connects, and to what, is the driver's.

use std::time::{Duration, Instant};

use crate::account::Tally;

/// How a link comes back after it could not connect, or lost its connection.
///
/// It pauses between two attempts: a time drawn at random between nothing and a limit that begins at
/// `base` and doubles with each attempt up to `cap`. So a thousand links that lost one server do not
/// come back in step, and none of them hammers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// Longest pause before the first of several attempts; it doubles with each.
    ///
    /// Default 100 ms: short enough for a service that restarts. At least 1 ms, and no pause is
    /// shorter than that, whatever was drawn.
    pub base: Duration,
    /// Longest pause of all.
    ///
    /// Default 30 s. Longer where many links share one server, or each attempt costs money. Not less
    /// than `base`.
    pub cap: Duration,
    /// What becomes of the link when the very first attempt fails.
    ///
    /// Default [`FirstAttempt::Retry`]: devices and services start in any order. Take
    /// [`FirstAttempt::Fail`] where a wrong address should be told at once.
    pub first_attempt: FirstAttempt,
    /// Most attempts in a row, the first one included, before the link ends.
    ///
    /// Default `None`: without end. Counted anew after a connection that lasted `steady_after`.
    pub attempts_limit: Option<u32>,
    /// Most time without a connection, over all attempts and pauses, before the link ends; an attempt
    /// under way is broken off.
    ///
    /// Default `None`: without end. Counted anew after a connection that lasted `steady_after`; the
    /// time of a shorter one is not counted.
    pub give_up_after: Option<Duration>,
    /// How long a connection has to last before the next loss counts as the first in a row.
    ///
    /// Default 5 s. A server that accepts and closes at once is no success: pauses go on growing.
    pub steady_after: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(100),
            cap: Duration::from_secs(30),
            first_attempt: FirstAttempt::Retry,
            attempts_limit: None,
            give_up_after: None,
            steady_after: Duration::from_secs(5),
        }
    }
}

/// What a failure of the very first attempt means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstAttempt {
    /// Try again, as after every other failure.
    #[default]
    Retry,
    /// The link ends.
    Fail,
}

/// What becomes of messages that wait when their connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLoss {
    /// They are given up, and counted: what was accepted for one connection is not sent on another.
    /// The default, and right for samples, and wherever the peer starts anew.
    #[default]
    Discard,
    /// They go to the next connection, in order, each as a whole: of what the kernel had begun to
    /// take nothing is sent again. For orders and records that a peer may get late but not twice.
    ///
    /// What `opened` of the new connection sends goes before them, so that it can log in or
    /// subscribe first, is never evicted, and is not kept itself: the next `opened` sends it anew.
    /// An eighth of both queue limits, at least one message, is set aside for it, so that it finds
    /// room however much is kept; all other sends have the rest.
    Keep,
}

impl OnLoss {
    /// How much of a queue's limits is left for all but the reopen hook.
    pub fn ordinary_limit(self, limit: Tally) -> Tally {
        match self {
            Self::Discard => limit,
            Self::Keep => Tally {
                messages: limit.messages - (limit.messages / 8).max(1),
                bytes: limit.bytes - limit.bytes / 8,
            },
        }
    }
}

impl Reconnect {
    /// Shortest pause, whatever was drawn: a pause of nothing, drawn again and again, would be a spin.
    pub const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

    /// The pause after `pauses` others: uniform from nothing to `min(cap, base · 2^pauses)`, and at
    /// least [`SHORTEST_PAUSE`](Self::SHORTEST_PAUSE). `random` is any 64 bits.
    pub fn pause(&self, pauses: u32, random: u64) -> Duration {
        let doubled = 1_u128.checked_shl(pauses).unwrap_or(u128::MAX);
        let limit_ns = self.base.as_nanos().saturating_mul(doubled);
        let drawn_ns = scale(limit_ns.min(self.cap.as_nanos()) + 1, random);
        from_nanos(drawn_ns).max(Self::SHORTEST_PAUSE)
    }
}

/// The attempts of one link: how many in a row, and how long without a connection.
///
/// Inputs, in the order of a life: [`new`](Self::new) with the first attempt, then after each attempt
/// either [`failed`](Self::failed) or [`opened`](Self::opened) and, when that connection is over,
/// [`lost`](Self::lost). Output: what to do next, and [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Retries {
    rules: Reconnect,
    /// In a row, the one under way included.
    attempts: u32,
    pauses: u32,
    /// No connection was ever there.
    never_opened: bool,
    /// Time without a connection before the connections in a row that did not last.
    without: Duration,
    connection: Connection,
}

#[derive(Debug, Clone, Copy)]
enum Connection {
    OpenSince(Instant),
    NoneSince(Instant),
}

/// What to do after an attempt failed, or a connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Pause, then try again.
    Retry {
        /// Which attempt in a row it will be, from 1.
        attempt: u32,
        /// The pause.
        after: Duration,
    },
    /// No more attempts.
    GiveUp,
}

impl Retries {
    /// The first attempt begins.
    pub const fn new(rules: Reconnect, now: Instant) -> Self {
        Self {
            rules,
            attempts: 1,
            pauses: 0,
            never_opened: true,
            without: Duration::ZERO,
            connection: Connection::NoneSince(now),
        }
    }

    /// An attempt failed.
    pub fn failed(&mut self, now: Instant, random: u64) -> Next {
        if self.never_opened && self.rules.first_attempt == FirstAttempt::Fail {
            return Next::GiveUp;
        }
        self.next(now, random)
    }

    /// A connection is there.
    pub fn opened(&mut self, now: Instant) {
        self.without = self.without_connection(now);
        self.connection = Connection::OpenSince(now);
        self.never_opened = false;
    }

    /// The connection is over.
    pub fn lost(&mut self, now: Instant, random: u64) -> Next {
        if let Connection::OpenSince(opened) = self.connection
            && now.saturating_duration_since(opened) >= self.rules.steady_after
        {
            (self.attempts, self.pauses, self.without) = (0, 0, Duration::ZERO);
        }
        self.connection = Connection::NoneSince(now);
        self.next(now, random)
    }

    /// When to give up, whatever is under way then; `None` while a connection is open, or without a
    /// limit that a clock can tell.
    pub fn deadline(&self) -> Option<Instant> {
        let left = self.rules.give_up_after?.saturating_sub(self.without);
        match self.connection {
            Connection::NoneSince(since) => since.checked_add(left),
            Connection::OpenSince(_) => None,
        }
    }

    fn next(&mut self, now: Instant, random: u64) -> Next {
        let enough = |limit: u32| self.attempts >= limit;
        let late = |limit: Duration| self.without_connection(now) >= limit;
        if self.rules.attempts_limit.is_some_and(enough)
            || self.rules.give_up_after.is_some_and(late)
        {
            return Next::GiveUp;
        }
        let after = self.rules.pause(self.pauses, random);
        self.attempts = self.attempts.saturating_add(1);
        self.pauses = self.pauses.saturating_add(1);
        Next::Retry {
            attempt: self.attempts,
            after,
        }
    }

    /// Time without a connection, in all.
    fn without_connection(&self, now: Instant) -> Duration {
        let now_without = match self.connection {
            Connection::NoneSince(since) => now.saturating_duration_since(since),
            Connection::OpenSince(_) => Duration::ZERO,
        };
        self.without.saturating_add(now_without)
    }
}

/// `number · random / 2^64`, for a number of at most 96 bits: those of the longest `Duration`.
const fn scale(number: u128, random: u64) -> u128 {
    let (high, low) = (number >> 32, number & u32::MAX as u128);
    let random = random as u128;
    (high * random + ((low * random) >> 32)) >> 32
}

const fn from_nanos(nanos: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    // It came from durations: its seconds fit.
    Duration::new((nanos / PER_SECOND) as u64, (nanos % PER_SECOND) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Reconnect = Reconnect {
        base: Duration::from_millis(100),
        cap: Duration::from_secs(30),
        first_attempt: FirstAttempt::Retry,
        attempts_limit: None,
        give_up_after: None,
        steady_after: Duration::from_secs(5),
    };
    const MOST: u64 = u64::MAX;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn retry(attempt: u32, after: Duration) -> Next {
        Next::Retry { attempt, after }
    }

    #[test]
    fn the_limit_of_a_pause_doubles_up_to_the_cap() {
        let limits = [0, 1, 2, 8, 9, 10].map(|pauses| RULES.pause(pauses, MOST).as_millis());
        assert_eq!(limits, [100, 200, 400, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn a_pause_is_drawn_from_nothing_to_its_limit_but_never_under_a_millisecond() {
        assert_eq!(RULES.pause(0, 0), millis(1));
        assert_eq!(RULES.pause(0, MOST), millis(100));
        assert_eq!(RULES.pause(0, MOST / 2), millis(50));
        assert_eq!(RULES.pause(9, MOST / 4 * 3).as_millis(), 22_500);
    }

    #[test]
    fn a_million_attempts_overflow_nothing() {
        let mut retries = Retries::new(RULES, Instant::now());
        let now = Instant::now();
        for attempt in 2..=1_000_000 {
            let Next::Retry {
                attempt: told,
                after,
            } = retries.failed(now, MOST)
            else {
                panic!("gave up at {attempt}");
            };
            assert_eq!(told, attempt);
            assert!(after <= millis(30_000));
        }
        assert_eq!(retries.failed(now, MOST), retry(1_000_001, millis(30_000)));
        assert_eq!(RULES.pause(u32::MAX, MOST), millis(30_000));
    }

    #[test]
    fn the_longest_durations_overflow_nothing() {
        let endless = Reconnect {
            base: Duration::MAX,
            cap: Duration::MAX,
            give_up_after: Some(Duration::MAX),
            steady_after: Duration::MAX,
            ..RULES
        };
        for pauses in [0, 1, 63, 64, 95, 127, 128, u32::MAX] {
            assert_eq!(endless.pause(pauses, MOST).as_secs(), u64::MAX);
            assert_eq!(endless.pause(pauses, 0), millis(1));
        }
        let now = Instant::now();
        let mut retries = Retries::new(endless, now);
        assert_eq!(retries.deadline(), None);
        assert_ne!(retries.failed(now, 7), Next::GiveUp);
    }

    #[test]
    fn pauses_fill_their_range_evenly() {
        let mut counts = [0; 10];
        for draw in 0..10_000_u64 {
            // A Weyl sequence: even by construction, so that the scaling alone is tested.
            let random = draw.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let pause = RULES.pause(20, random);
            counts[(pause.as_millis() / 3_001) as usize] += 1;
        }
        assert!(
            counts.iter().all(|&count| (950..=1_050).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_connection_that_lasted_starts_the_count_anew_and_a_mere_connect_does_not() {
        let start = Instant::now();
        let mut retries = Retries::new(RULES, start);
        assert_eq!(retries.failed(start, MOST), retry(2, millis(100)));
        retries.opened(start);
        assert_eq!(
            retries.lost(start + millis(4_999), MOST),
            retry(3, millis(200))
        );
        retries.opened(start);
        assert_eq!(
            retries.lost(start + millis(5_000), MOST),
            retry(1, millis(100))
        );
        assert_eq!(retries.failed(start, MOST), retry(2, millis(200)));
    }

    #[test]
    fn the_first_attempt_may_be_the_last() {
        let rules = Reconnect {
            first_attempt: FirstAttempt::Fail,
            ..RULES
        };
        let now = Instant::now();
        assert_eq!(Retries::new(rules, now).failed(now, 0), Next::GiveUp);
        let mut retries = Retries::new(rules, now);
        retries.opened(now);
        assert_eq!(retries.lost(now, 0), retry(2, millis(1)));
        assert_eq!(retries.failed(now, 0), retry(3, millis(1)));
    }

    #[test]
    fn attempts_are_limited_in_a_row() {
        let rules = Reconnect {
            attempts_limit: Some(2),
            ..RULES
        };
        let now = Instant::now();
        let mut retries = Retries::new(rules, now);
        assert_eq!(retries.failed(now, 0), retry(2, millis(1)));
        assert_eq!(retries.failed(now, 0), Next::GiveUp);

        let mut retries = Retries::new(rules, now);
        retries.opened(now);
        let later = now + millis(5_000);
        assert_eq!(retries.lost(later, 0), retry(1, millis(1)));
        assert_eq!(retries.failed(later, 0), retry(2, millis(1)));
        assert_eq!(retries.failed(later, 0), Next::GiveUp);
    }

    #[test]
    fn time_without_a_connection_is_limited_over_all_attempts_and_short_lives() {
        let rules = Reconnect {
            give_up_after: Some(millis(1_000)),
            ..RULES
        };
        let start = Instant::now();
        let at = |count| start + millis(count);
        let mut retries = Retries::new(rules, start);
        assert_eq!(retries.deadline(), Some(at(1_000)));
        assert_eq!(retries.failed(at(300), 0), retry(2, millis(1)));
        retries.opened(at(400));
        assert_eq!(retries.deadline(), None);
        // A second of connection does not count, the 400 ms before it do.
        assert_eq!(retries.lost(at(1_400), 0), retry(3, millis(1)));
        assert_eq!(retries.deadline(), Some(at(2_000)));
        assert_eq!(retries.failed(at(1_999), 0), retry(4, millis(1)));
        assert_eq!(retries.failed(at(2_000), 0), Next::GiveUp);

        let mut retries = Retries::new(rules, start);
        retries.opened(at(999));
        assert_eq!(retries.lost(at(5_999), 0), retry(1, millis(1)));
        assert_eq!(retries.deadline(), Some(at(6_999)));
    }
}
