//! The locks that surround a session: std's, or loom's twins under `--cfg loom`.
//!
//! Deadlines too: loom knows no time, so in the models a wait with a deadline may run out at any
//! moment, and is over once it has been waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks, whatever happened to another holder: the state under our locks is valid between calls, and
/// a panic in somebody's callback never happens while one is held.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Who waits for a lock that others take again and again.
///
/// A thread that lets go of a lock and takes it right back is nearly always quicker than one that waits on
/// another CPU, which so waits for many turns and at last goes to sleep. So it gives way now and then.
#[derive(Debug, Default)]
pub(crate) struct Knocking(AtomicUsize);

impl Knocking {
    /// Locks, and is known to wait meanwhile.
    #[inline]
    pub(crate) fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        if cfg!(loom) {
            // The models have every order anyway.
            return lock(mutex);
        }
        if let Ok(guard) = mutex.try_lock() {
            return guard;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        let guard = lock(mutex);
        self.0.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Lets one of those who wait have the lock, which the caller does not hold: for a third of a
    /// microsecond at most, for it may be asleep.
    #[inline]
    pub(crate) fn give_way(&self) {
        if cfg!(not(loom)) && self.0.load(Ordering::Relaxed) > 0 {
            self.wait_for_one();
        }
    }

    #[cold]
    fn wait_for_one(&self) {
        let waiting = self.0.load(Ordering::Relaxed);
        for _ in 0..32 {
            if self.0.load(Ordering::Relaxed) < waiting {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

/// Waits until told, or until the deadline; may come back for no reason.
#[cfg(not(loom))]
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    _: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> MutexGuard<'a, T> {
    let Some(deadline) = deadline else {
        return condvar
            .wait(guard)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return guard;
    }
    let waited = condvar.wait_timeout(guard, left);
    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
}

/// Whether the deadline has gone by.
#[cfg(not(loom))]
pub(crate) fn is_past(deadline: Instant) -> bool {
    deadline <= Instant::now()
}

/// Waits until told; with a deadline it comes back at any moment.
#[cfg(loom)]
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> MutexGuard<'a, T> {
    if deadline.is_some() {
        drop(guard);
        loom::thread::yield_now();
        return lock(mutex);
    }
    condvar
        .wait(guard)
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether the deadline has gone by: asked only after a wait, and then it has.
#[cfg(loom)]
pub(crate) const fn is_past(_: Instant) -> bool {
    true
}

/// What a task of a model waits on.
#[cfg(all(test, loom, feature = "futures"))]
pub(crate) mod signal {
    use std::sync::Arc;
    use std::task::{Poll, Wake, Waker};

    use super::{Condvar, Mutex, lock};

    /// Told, it stays told until somebody has waited for it.
    #[derive(Debug)]
    pub(crate) struct Signal {
        told: Mutex<bool>,
        bell: Condvar,
    }

    impl Default for Signal {
        fn default() -> Self {
            Self {
                told: Mutex::new(false),
                bell: Condvar::new(),
            }
        }
    }

    impl Signal {
        pub(crate) fn tell(&self) {
            *lock(&self.told) = true;
            self.bell.notify_one();
        }

        pub(crate) fn wait(&self) {
            let mut told = lock(&self.told);
            while !std::mem::take(&mut *told) {
                told = self.bell.wait(told).unwrap();
            }
        }
    }

    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            self.tell();
        }
    }

    /// The task of this thread: polls, and polls again when it is woken.
    pub(crate) fn until_ready<T>(mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        loop {
            match poll(&waker) {
                Poll::Ready(done) => return done,
                Poll::Pending => signal.wait(),
            }
        }
    }
}
