//! Tells an onlooker what happens, a tick at a time and as often as asked.

use std::time::Duration;

use super::super::live::Window;
use super::super::{Look, Onlooker};
use super::Cell;

/// Tells an onlooker how far it is.
pub(super) struct Teller<'a, 'b> {
    cell: &'a Cell<'a>,
    onlooker: &'a mut Onlooker<'b>,
    whole: Duration,
    pending: Window,
    pending_from: Duration,
}

impl<'a, 'b> Teller<'a, 'b> {
    pub(super) fn new(cell: &'a Cell<'a>, onlooker: &'a mut Onlooker<'b>) -> Self {
        Self {
            whole: cell.plan.duration_bound() / cell.cells as u32,
            cell,
            onlooker,
            pending: Window::default(),
            pending_from: Duration::ZERO,
        }
    }

    pub(super) fn tell(&mut self, window: &Window, since_ns: u64, over: bool) {
        let to = Duration::from_nanos(since_ns);
        let share = (to.as_secs_f64() / self.whole.as_secs_f64()).min(1.0);
        let done = (self.cell.number as f64 + share) / self.cell.cells as f64;
        let look = |window: &Window, from| Look {
            cell: self.cell.name(),
            done,
            from,
            to,
            window: window.clone(),
        };
        (self.onlooker.progress)(&look(window, to));
        self.pending.merge(window);
        let Some(every) = self.onlooker.every else {
            return;
        };
        let due = to - self.pending_from >= every;
        if due || over && self.pending.sent > 0 {
            (self.onlooker.interval)(&look(&self.pending, self.pending_from));
            self.pending = Window::default();
            self.pending_from = to;
        }
    }
}
