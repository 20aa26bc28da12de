//! Whether a sender should write itself or leave its messages to be gathered.

/// Whether sends come so fast that gathering them beats writing each.
///
/// Three in a row, each within a microsecond of the end of the last write: a producer that does
/// nothing else. Measured: writing each, such a producer gets a hundredth of the throughput. Time that
/// we ourselves made it spend, waking the driver or waiting for room, is no pause of its own; else one
/// slow wake-up would undo what it was for.
#[derive(Debug, Default)]
pub(super) struct Hot {
    /// When it last was free to send: the end of a write, a wake-up or a wait.
    free_since_ns: u64,
    sends: u32,
}

const HOT_GAP_NS: u64 = 1_000;
const HOT_SENDS: u32 = 3;

impl Hot {
    #[inline]
    pub(super) const fn send_comes(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.free_since_ns) < HOT_GAP_NS {
            self.sends = self.sends.saturating_add(1);
        } else {
            self.sends = 0;
        }
        self.sends >= HOT_SENDS
    }

    #[inline]
    pub(super) const fn free_since_ns(&self) -> u64 {
        self.free_since_ns
    }

    #[inline]
    pub(super) const fn free_again(&mut self, now_ns: u64) {
        self.free_since_ns = now_ns;
    }
}
