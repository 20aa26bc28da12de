//! What became of every message and byte.

use std::ops::{Add, AddAssign, SubAssign};

use crate::delay::QueueDelay;
use crate::outbound::Discard;

/// A number of messages and their encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Tally {
    /// Messages.
    pub messages: u64,
    /// Their bytes as they go to the wire, framing included.
    pub bytes: u64,
}

impl Tally {
    /// One message of this length.
    #[inline]
    pub const fn one(bytes: usize) -> Self {
        Self {
            messages: 1,
            bytes: bytes as u64,
        }
    }

    /// Nothing at all.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.messages == 0 && self.bytes == 0
    }

    /// The larger of each, for peaks.
    #[inline]
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            messages: self.messages.max(other.messages),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

impl Add for Tally {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl AddAssign for Tally {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Tally {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        debug_assert!(self.messages >= other.messages && self.bytes >= other.bytes);
        self.messages -= other.messages;
        self.bytes -= other.bytes;
    }
}

/// Accepted messages that were never wholly written, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discarded {
    /// Made room for a fresher one (keeplatest).
    pub evicted: Tally,
    /// Waited longer than `max_queue_delay`.
    pub too_old: Tally,
    /// The connection they were accepted for was lost.
    pub connection_lost: Tally,
    /// The link was closed or aborted with them waiting.
    pub closed: Tally,
    /// A datagram that the kernel would not send (no route, say); the socket lives on.
    pub failed: Tally,
}

impl Discarded {
    pub(crate) fn add(&mut self, cause: Discard, tally: Tally) {
        *match cause {
            Discard::ConnectionLost => &mut self.connection_lost,
            Discard::Closed => &mut self.closed,
        } += tally;
    }

    /// With their connection, or with the link: it was lost, closed or aborted.
    pub fn lost(&self) -> Tally {
        self.connection_lost + self.closed
    }

    /// All causes together.
    pub fn total(&self) -> Tally {
        self.evicted + self.too_old + self.connection_lost + self.closed + self.failed
    }
}

/// The sending half's counters at one moment.
///
/// They close: `accepted = written + waiting + discarded.total()`, in messages and in bytes. A
/// message that the end of its connection cut counts as discarded; the bytes of it that the kernel
/// had taken stay in `written.bytes`, the others are in `discarded`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendStatistics {
    /// Sends that said `Ok`.
    pub accepted: Tally,
    /// Messages of which the kernel has the last byte: no more than that.
    pub written: Tally,
    /// Written bytes less the framing of the written messages. While a message is partly written, or
    /// after the end of a connection cut one, its framing still counts in.
    pub written_payload_bytes: u64,
    /// Queued, and in the hands of a writer.
    pub waiting: Tally,
    /// Accepted and never wholly written.
    pub discarded: Discarded,
    /// Kept when their connection was lost, for the next one; once for each loss. Those that no
    /// connection came for are in `discarded` as well.
    pub carried: Tally,
    /// Sends that said `Full`.
    pub refused: Tally,
    /// Most that ever waited or was in flight, each of the two by itself.
    pub peak: Tally,
    /// Of the accepted, how many were no messages but heartbeats. They are in all other counters too,
    /// with 9 bytes of payload each.
    pub heartbeats: u64,
    /// Crossings of high and low water, both counted.
    pub pressure_crossings: u64,
    /// Sends that had to wait for room.
    pub waits: u64,
    /// Messages that the sending thread wrote itself.
    pub direct_writes: u64,
    /// Writes asked of the kernel, by whichever thread.
    pub write_calls: u64,
    /// Of those, how many it had no memory for (`ENOBUFS`, `ENOMEM`); each was asked again after a pause.
    pub shortages: u64,
    /// Time from being queued to the system call; `None` until a message was queued.
    pub queue_delay: Option<QueueDelay>,
}

impl SendStatistics {
    /// Adds another queue's counters: sums are summed, the peak is the larger.
    pub fn merge(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.written += other.written;
        self.written_payload_bytes += other.written_payload_bytes;
        self.waiting += other.waiting;
        self.discarded.evicted += other.discarded.evicted;
        self.discarded.too_old += other.discarded.too_old;
        self.discarded.connection_lost += other.discarded.connection_lost;
        self.discarded.closed += other.discarded.closed;
        self.discarded.failed += other.discarded.failed;
        self.carried += other.carried;
        self.refused += other.refused;
        self.peak = self.peak.max(other.peak);
        self.heartbeats += other.heartbeats;
        self.pressure_crossings += other.pressure_crossings;
        self.waits += other.waits;
        self.direct_writes += other.direct_writes;
        self.write_calls += other.write_calls;
        self.shortages += other.shortages;
        match (&mut self.queue_delay, &other.queue_delay) {
            (Some(own), Some(more)) => own.merge(more),
            (own @ None, Some(more)) => *own = Some(more.clone()),
            (_, None) => {}
        }
    }

    /// Whether accepted = written + waiting + discarded, in messages and in bytes.
    pub fn closes(&self) -> bool {
        self.accepted == self.written + self.waiting + self.discarded.total()
    }
}

/// The running sums behind [`SendStatistics`], for a whole queue or for one peer of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Account {
    pub(crate) accepted: Tally,
    pub(crate) written: Tally,
    /// Of the written messages.
    pub(crate) framing_bytes: u64,
    /// When the kernel last took something, to within a write; 0 before that.
    pub(crate) last_written_ns: u64,
    pub(crate) discarded: Discarded,
    pub(crate) refused: Tally,
}

impl Account {
    /// The kernel took this much, at the time that was read anyway when the writer was back.
    #[inline]
    pub(crate) fn wrote(&mut self, written: Tally, at_ns: u64) {
        self.written += written;
        if !written.is_zero() {
            self.last_written_ns = at_ns;
        }
    }

    /// Accepted, and neither written nor discarded yet.
    #[inline]
    pub(crate) fn waiting(&self) -> Tally {
        let mut waiting = self.accepted;
        waiting -= self.written;
        waiting -= self.discarded.total();
        waiting
    }
}
