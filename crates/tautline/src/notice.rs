//! Threads that wait for a change, told without a system call where nobody does.
//!
//! std's condition variable calls the kernel each time it is told of something. Every connection tells
//! of a handful of changes that hardly anybody waits for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// A condition variable that knows how many threads wait.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    told: Condvar,
    /// Changed only under the lock that the waiting threads hold.
    waiting: AtomicUsize,
}

impl Notice {
    /// Waits until told, or this long at most; may come back for no reason.
    pub(crate) fn wait<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = match at_most {
            None => self
                .told
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner),
            Some(at_most) => {
                let waited = self.told.wait_timeout(guard, at_most);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Tells of a change that was made under the lock, which may be released by now: whoever took it
    /// before the change is counted, and whoever takes it after finds the change.
    pub(crate) fn tell_all(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.told.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    #[test]
    fn all_that_wait_are_told_and_counted() {
        let (notice, state) = (Notice::default(), Mutex::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut changed = state.lock().unwrap();
                    while !*changed {
                        changed = notice.wait(changed, None);
                    }
                });
            }
            while notice.waiting.load(Ordering::Relaxed) < 4 {
                thread::yield_now();
            }
            *state.lock().unwrap() = true;
            notice.tell_all();
        });
        assert_eq!(notice.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_wait_that_runs_out_is_not_counted_any_more() {
        let (notice, state) = (Notice::default(), Mutex::new(()));
        drop(notice.wait(state.lock().unwrap(), Some(Duration::from_millis(1))));
        assert_eq!(notice.waiting.load(Ordering::Relaxed), 0);
    }
}
