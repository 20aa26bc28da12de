//! One entry among the thread's timers, for whoever waits for several things at once.

use std::time::Instant;

use super::turn::Turn;

/// When a link has asked to be called.
///
/// It waits for the first of many things (an idle timeout, the age of a batch, …), and most of them
/// move on with every message. So nothing is moved in the heap: the alarm stays where it is, and when
/// it rings the link looks at what is due, and sets it again for the next.
#[derive(Debug, Default)]
pub(super) struct Alarm(Option<Instant>);

impl Alarm {
    /// Has `on_timer` called at `at`, or before.
    pub(super) fn set(&mut self, at: Instant, id: u64, turn: &mut Turn) {
        if self.0.is_none_or(|rings_at| at < rings_at) {
            self.0 = Some(at);
            turn.set_timer(at, id);
        }
    }

    /// A timer of the link ran out; perhaps this one.
    pub(super) fn rang(&mut self, now: Instant) {
        if self.0.is_some_and(|rings_at| rings_at <= now) {
            self.0 = None;
        }
    }
}
