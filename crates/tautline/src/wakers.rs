//! Tasks that wait for something, and how each is woken.
//!
//! Whoever takes a waker out calls it without the lock that guards this, and puts one in that it cloned
//! without it; what is left over is dropped without it too. All three run an executor's code.

use std::task::Waker;

/// The wakers of the tasks that wait, each under its key.
#[derive(Debug)]
pub(crate) struct Wakers<K>(Vec<(K, Waker)>);

impl<K> Default for Wakers<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Wakers<K> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The waker of one, who is to be woken or waits no more.
    pub(crate) fn take(&mut self, key: &K) -> Option<Waker> {
        let index = self.0.iter().position(|(waiting, _)| waiting == key)?;
        Some(self.0.swap_remove(index).1)
    }

    /// The wakers of all, who are to be woken.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Waker> + use<K> {
        let all = std::mem::take(&mut self.0);
        all.into_iter().map(|(_, waker)| waker)
    }
}

#[cfg(feature = "futures")]
pub(crate) use waiting::{Watch, Watched, new_key};

/// What those who wait need, and so nobody without futures.
#[cfg(feature = "futures")]
mod waiting {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::task::{Context, Poll, Waker};

    use super::Wakers;

    impl<K: PartialEq> Wakers<K> {
        /// Keeps a task's waker; the last one counts. False when it has to be cloned first, without the
        /// lock. What is not needed is left in `cloned`.
        pub(crate) fn keep(&mut self, key: K, waker: &Waker, cloned: &mut Option<Waker>) -> bool {
            let kept = self.0.iter_mut().find(|(waiting, _)| *waiting == key);
            match (kept, cloned.take()) {
                (Some((_, kept)), unused) if kept.will_wake(waker) => *cloned = unused,
                (_, None) => return false,
                (Some((_, kept)), Some(new)) => *cloned = Some(std::mem::replace(kept, new)),
                (None, Some(new)) => self.0.push((key, new)),
            }
            true
        }
    }

    /// A key that nobody else has, for whoever has no other name.
    pub(crate) fn new_key() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// A state that tasks may watch.
    pub(crate) trait Watched {
        /// Woken by whoever changes it.
        fn tasks(&mut self) -> &mut Wakers<u64>;
    }

    /// Waits until `look` finds something in a state.
    pub(crate) struct Watch<'a, S: Watched, L> {
        state: &'a Mutex<S>,
        key: u64,
        look: L,
    }

    impl<'a, S: Watched, L> Watch<'a, S, L> {
        pub(crate) fn new(state: &'a Mutex<S>, look: L) -> Self {
            let key = new_key();
            Self { state, key, look }
        }
    }

    impl<T, S: Watched, L: FnMut(&S) -> Option<T> + Unpin> Future for Watch<'_, S, L> {
        type Output = T;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
            let Self { state, key, look } = &mut *self;
            // Dropped when the lock is not held any more.
            let mut cloned = None;
            loop {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(found) = look(&state) {
                    return Poll::Ready(found);
                }
                if state.tasks().keep(*key, context.waker(), &mut cloned) {
                    return Poll::Pending;
                }
                drop(state);
                cloned = Some(context.waker().clone());
            }
        }
    }

    impl<S: Watched, L> Drop for Watch<'_, S, L> {
        fn drop(&mut self) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let waker = state.tasks().take(&self.key);
            drop(state);
            drop(waker);
        }
    }
}
