//! What a link is called for by the clock, kept to a handful of entries among the thread's timers.

use std::time::Instant;

use super::turn::Turn;

/// When a link will be called.
///
/// It waits for the first of many things (an idle timeout, the age of a batch, …), and most of them
/// move on with every message. So nothing is moved in the heap: an alarm stays where it is, and when it
/// rings the link looks at what is due and asks for the next. What is asked for is already there if the
/// link is called earlier anyway. So there are no more entries than things to wait for.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// Entries in the heap, the earliest last.
    rings_at: Vec<Instant>,
}

impl Alarm {
    /// Has `on_timer` called at `at`, or before.
    pub(super) fn set(&mut self, at: Instant, id: u64, turn: &mut Turn) {
        if self.add(at) {
            turn.set_timer(at, id);
        }
    }

    /// A timer of the link ran out; perhaps one of these.
    pub(super) fn rang(&mut self, now: Instant) {
        while self.rings_at.last().is_some_and(|&at| at <= now) {
            self.rings_at.pop();
        }
    }

    /// Whether it takes an entry of its own.
    fn add(&mut self, at: Instant) -> bool {
        let sooner = self.rings_at.last().is_none_or(|&first| at < first);
        if sooner {
            self.rings_at.push(at);
        }
        sooner
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn however_often_something_short_rings_what_is_far_off_has_one_entry() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut alarm = Alarm::default();
        assert!(alarm.add(after(60_000)));
        for short in (10..1_000).step_by(10) {
            assert!(alarm.add(after(short)));
            assert!(!alarm.add(after(short + 1)), "it is called before that");
            alarm.rang(after(short));
            // Silence begins anew with every message: the far one moves on.
            assert!(!alarm.add(after(60_000 + short)));
        }
        assert_eq!(alarm.rings_at, [after(60_000)]);
        alarm.rang(after(60_000));
        assert!(alarm.add(after(61_000)));
    }

    #[test]
    fn a_timer_that_was_not_its_own_takes_nothing_back() {
        let start = Instant::now();
        let mut alarm = Alarm::default();
        assert!(alarm.add(start + Duration::from_secs(1)));
        alarm.rang(start);
        assert!(!alarm.add(start + Duration::from_secs(2)));
    }
}
