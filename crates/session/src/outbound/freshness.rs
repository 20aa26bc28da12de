//! What waited too long: given up before a writer takes it, or where a newcomer finds no room.

use std::time::Duration;

use super::{Outbound, Surroundings};
use crate::account::Tally;

impl Outbound {
    /// Gives up what has waited longer than `max_queue_delay`; returns how long until the next would.
    ///
    /// `None`: nothing waits that could grow too old, or there is no such limit. A message that is
    /// partly written never is too old, and what a writer has in hand is judged only if it comes back.
    ///
    /// [`take`](Self::take) and an offer without room do this by themselves. A driver that waits for
    /// the kernel calls it by the clock as well, so that nothing stale takes up room meanwhile.
    pub fn give_up_too_old(&mut self, surroundings: &impl Surroundings) -> Option<Duration> {
        let limit_ns = self.max_queue_delay_ns?;
        self.discard_too_old(surroundings);
        let oldest_ns = self.queue.oldest_ns(surroundings)?;
        let age_ns = surroundings.now_ns().saturating_sub(oldest_ns);
        // Too old is what waited longer, not as long.
        let left_ns = limit_ns.saturating_sub(age_ns).saturating_add(1);
        Some(Duration::from_nanos(left_ns))
    }

    /// Whether anything was given up.
    #[inline]
    pub(super) fn discard_too_old(&mut self, surroundings: &impl Surroundings) -> bool {
        match self.max_queue_delay_ns {
            Some(limit_ns) if !self.queue.is_empty() => self.discard_older(limit_ns, surroundings),
            _ => false,
        }
    }

    fn discard_older(&mut self, limit_ns: u64, surroundings: &impl Surroundings) -> bool {
        let now_ns = surroundings.now_ns();
        let mut discarded = Tally::default();
        while let Some(queued_ns) = self.queue.oldest_ns(surroundings)
            && now_ns.saturating_sub(queued_ns) > limit_ns
            && let Some((peer, tally)) = self.queue.evict_oldest(surroundings)
        {
            discarded += tally;
            self.each_account(peer, |account| account.discarded.too_old += tally);
        }
        if discarded.is_zero() {
            return false;
        }
        self.give_back(discarded.bytes);
        self.judge_pressure();
        self.grant();
        true
    }
}
