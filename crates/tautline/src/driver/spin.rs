//! Waiting for the kernel: asleep, or polling for a while first.

use std::io;
use std::time::{Duration, Instant};

use crate::sys;

/// Polls with `sched_yield` for as long as was asked before it sleeps.
///
/// Waking a CPU that halted costs several times what the round trip itself does. If two yields in a row
/// take over 20 µs somebody else wants the CPU: then it does not poll for a while, for beside a busy
/// neighbour polling waits for whole time slices (measured: 4000 µs against 12).
#[derive(Debug)]
pub(crate) struct Spin {
    budget: Duration,
    manners: Manners,
    /// Times that a slow yield ended the polling.
    gave_way: u64,
}

/// Whether somebody else wants the CPU, and how long to let it be.
///
/// One slow yield may be a hiccup of the machine: an interrupt, or on a virtual one its host. Beside a
/// neighbour each is slow. The first pause is short, for the neighbour may soon be gone; if the polling after it
/// meets one at once, that was a try that cost two time slices, and the next pause is longer.
#[derive(Debug, Default)]
struct Manners {
    slow_in_a_row: u32,
    pause: Duration,
    until: Option<Instant>,
}

impl Manners {
    fn allow(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// A yield took so long; whether to give way from now on.
    fn yielded(&mut self, took: Duration, now: Instant) -> bool {
        if took <= SLOW_YIELD {
            self.slow_in_a_row = 0;
            return false;
        }
        self.slow_in_a_row += 1;
        if self.slow_in_a_row < SLOW_IN_A_ROW {
            return false;
        }
        self.slow_in_a_row = 0;
        let polled_in_peace = self
            .until
            .is_none_or(|until| now.saturating_duration_since(until) > PEACE);
        self.pause = if polled_in_peace {
            FIRST_PAUSE
        } else {
            (self.pause * 2).min(LONGEST_PAUSE)
        };
        self.until = Some(now + self.pause);
        true
    }
}

impl Spin {
    pub(crate) const fn new(budget: Duration) -> Self {
        Self {
            budget,
            manners: Manners {
                slow_in_a_row: 0,
                pause: Duration::ZERO,
                until: None,
            },
            gave_way: 0,
        }
    }

    /// Waits for events, at most `timeout`.
    pub(crate) fn wait(
        &mut self,
        poll: &mut mio::Poll,
        events: &mut mio::Events,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let mut found = Ok(());
        let polled = self.poll(timeout, || {
            found = poll.poll(events, Some(Duration::ZERO));
            found.is_err() || !events.is_empty()
        });
        match polled {
            Polled::Found => found,
            Polled::Not => poll.poll(events, timeout),
        }
    }

    /// Tries until it finds something or the budget is spent.
    pub(crate) fn poll(
        &mut self,
        timeout: Option<Duration>,
        mut try_once: impl FnMut() -> bool,
    ) -> Polled {
        if self.budget.is_zero() || timeout == Some(Duration::ZERO) {
            return Polled::Not;
        }
        let start = Instant::now();
        if !self.manners.allow(start) {
            return Polled::Not;
        }
        let end = start + timeout.map_or(self.budget, |timeout| timeout.min(self.budget));
        let mut now = start;
        while now < end {
            if try_once() {
                return Polled::Found;
            }
            let before = Instant::now();
            sys::sched::sched_yield();
            now = Instant::now();
            if self.manners.yielded(now - before, now) {
                self.gave_way += 1;
                break;
            }
        }
        Polled::Not
    }

    pub(crate) const fn gave_way(&self) -> u64 {
        self.gave_way
    }
}

/// What polling came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polled {
    Found,
    Not,
}

const SLOW_YIELD: Duration = Duration::from_micros(20);
/// So many, one after the other.
const SLOW_IN_A_ROW: u32 = 2;
/// A neighbour that goes soon costs no more polling than this.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Beside a neighbour that never rests one try in so long.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Polling for longer than two time slices without a neighbour: the next one is another.
const PEACE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_micros(21);
    const FAST: Duration = Duration::from_micros(20);

    /// After a neighbour was met so long after the end of the pause before: the pauses.
    fn pauses(peaceful_ms: &[u64]) -> Vec<u64> {
        let mut manners = Manners::default();
        let mut now = Instant::now();
        let pause = |&peaceful_ms: &u64| {
            now += Duration::from_millis(peaceful_ms);
            assert!(manners.allow(now));
            assert!(!manners.yielded(SLOW, now));
            assert!(manners.yielded(SLOW, now));
            assert!(!manners.allow(now));
            now = manners.until.unwrap();
            assert!(manners.allow(now));
            manners.pause.as_millis() as u64
        };
        peaceful_ms.iter().map(pause).collect()
    }

    #[test]
    fn a_hiccup_now_and_then_costs_nothing() {
        let (mut manners, now) = (Manners::default(), Instant::now());
        for _ in 0..100 {
            assert!(!manners.yielded(SLOW, now));
            assert!(!manners.yielded(FAST, now));
        }
    }

    #[test]
    fn a_neighbour_that_stays_is_tried_less_and_less_often() {
        assert_eq!(pauses(&[0; 9]), [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[test]
    fn a_neighbour_that_has_gone_is_forgotten() {
        assert_eq!(pauses(&[0, 0, 10, 11, 0]), [1, 2, 4, 1, 2]);
    }
}
