//! Waiting for the kernel: asleep, or polling for a while first.

use std::io;
use std::time::{Duration, Instant};

use crate::sys;

/// Polls with `sched_yield` for as long as was asked before it sleeps.
///
/// Waking a CPU that halted costs several times what the round trip itself does. If one yield takes
/// over 20 µs somebody else wants the CPU: then it sleeps at once for the next 10 ms, for beside a busy
/// neighbour polling waits for whole time slices (measured: 4000 µs against 12).
#[derive(Debug)]
pub(crate) struct Spin {
    budget: Duration,
    asleep_until: Option<Instant>,
    /// Times that a slow yield sent it to sleep.
    gave_way: u64,
}

impl Spin {
    pub(crate) const fn new(budget: Duration) -> Self {
        Self {
            budget,
            asleep_until: None,
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
        if self.asleep_until.is_some_and(|until| start < until) {
            return Polled::Not;
        }
        self.asleep_until = None;
        let end = start + timeout.map_or(self.budget, |timeout| timeout.min(self.budget));
        let mut now = start;
        while now < end {
            if try_once() {
                return Polled::Found;
            }
            let before = Instant::now();
            sys::sched::sched_yield();
            now = Instant::now();
            if now - before > SLOW_YIELD {
                self.asleep_until = Some(now + GIVE_WAY);
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
const GIVE_WAY: Duration = Duration::from_millis(10);
