//! What a link does by the clock while it is open.

use std::time::Instant;

use super::{LinkDriver, Stage};
use crate::driver::Alive;
use crate::driver::turn::Turn;

impl LinkDriver {
    /// The alarm rang, perhaps too early: looks at everything that may be due.
    pub(super) fn look_after(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        self.alarm.rang(now);
        if !matches!(self.stage, Stage::Open | Stage::Closing(_)) {
            return Alive::Yes;
        }
        if self.awaits_room && self.options.max_queue_delay.is_some() {
            // Taking is what gives up; if the kernel is still full this comes again.
            return self.serve(turn);
        }
        Alive::Yes
    }

    /// The kernel is full: what waits grows old meanwhile.
    pub(super) fn watch_queue(&mut self, turn: &mut Turn) {
        if self.options.max_queue_delay.is_some()
            && let Some(left) = self.shared().channel.give_up_too_old()
            && let Some(at) = Instant::now().checked_add(left)
        {
            let id = self.shared().id;
            self.alarm.set(at, id, turn);
        }
    }
}
