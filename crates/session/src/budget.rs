//! A total that many queues share.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most that all peers of one server may hold together.
///
/// A peer may take room only while it holds no more than what is still free. So the total is never
/// passed, and as it fills the peer that holds most is refused first, while a peer that holds little
/// still finds room.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    held_bytes: AtomicU64,
}

impl Budget {
    /// A budget of which nothing is held.
    pub const fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            held_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) const fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes held by all queues.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` for a queue that holds `own_bytes` already; false when it may not.
    pub(crate) fn take(&self, bytes: u64, own_bytes: u64) -> bool {
        self.held_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held_bytes| {
                let free_bytes = self.limit_bytes.saturating_sub(held_bytes);
                (own_bytes + bytes <= free_bytes).then_some(held_bytes + bytes)
            })
            .is_ok()
    }

    /// Whether a queue that keeps `own_bytes` after giving back `given_back_bytes` could take
    /// `bytes` more.
    pub(crate) fn could_take(&self, bytes: u64, own_bytes: u64, given_back_bytes: u64) -> bool {
        let held_bytes = self.held_bytes().saturating_sub(given_back_bytes);
        own_bytes + bytes <= self.limit_bytes.saturating_sub(held_bytes)
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_that_holds_most_is_refused_first_and_the_total_never_passed() {
        let budget = Budget::new(100);
        assert!(budget.take(60, 0));
        // 40 are free: the holder of 60 gets no more, a newcomer gets up to 40.
        assert!(!budget.take(1, 60));
        assert!(budget.take(20, 0));
        assert!(!budget.take(1, 20));
        assert!(budget.take(20, 0));
        assert_eq!(budget.held_bytes(), 100);
        assert!(!budget.take(1, 0));
        budget.give_back(60);
        assert!(budget.take(1, 20));
    }
}
