//! The receiver's judgement of a stream, and what it tells the sender about it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tautline::ReceiveStatistics;

use crate::clock::now_ns;
use crate::plan::CONTENT_PASS_MESSAGES;
use crate::probe::{self, Arrivals};
use crate::run::supervise::{Pulse, SILENCE_LIMIT};

/// Judges every message of one stream. `T` is how its receiver tells the time: a stamp is only kept
/// here, because converting it for every message would slow the stream down.
#[derive(Debug)]
pub(super) struct Judge<T> {
    payload_bytes: usize,
    whole: bool,
    arrivals: Arrivals,
    last: Option<T>,
    marks: u64,
}

/// What a message was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Message,
    Mark,
}

impl<T: Copy> Judge<T> {
    /// `whole` compares contents to the last byte.
    pub(super) fn new(payload_bytes: usize, whole: bool) -> Self {
        Self {
            payload_bytes,
            whole,
            arrivals: Arrivals::new(),
            last: None,
            marks: 0,
        }
    }

    #[inline]
    pub(super) fn judge(&mut self, message: &[u8], at: T) -> Judged {
        match probe::sequence_of(message, self.payload_bytes) {
            Some(MARK) => {
                self.marks += 1;
                return Judged::Mark;
            }
            Some(sequence)
                if !self.whole || probe::is_filled(message, self.payload_bytes, sequence) =>
            {
                self.arrivals.arrived(sequence);
            }
            Some(_) | None => self.arrivals.corrupted(),
        }
        self.last = Some(at);
        Judged::Message
    }

    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.arrivals.received()
    }

    /// Everything so far; `to_ns` converts the stamp.
    pub(super) fn receipt(
        &self,
        to_ns: impl Fn(T) -> u64,
        statistics: Option<ReceiveStatistics>,
    ) -> Receipt {
        Receipt {
            arrivals: self.arrivals.clone(),
            last_ns: self.last.map(to_ns),
            marks: self.marks,
            statistics,
        }
    }
}

/// What a receiver hands over at the end of a stream.
#[derive(Debug, Clone)]
pub(super) struct Receipt {
    pub(super) arrivals: Arrivals,
    /// When the last message came, the mark not counted.
    pub(super) last_ns: Option<u64>,
    pub(super) marks: u64,
    /// The library's own, where it was the receiver.
    pub(super) statistics: Option<ReceiveStatistics>,
}

/// What a receiver tells its sender while the stream goes on.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) whole: bool,
    received: AtomicU64,
    marked: AtomicBool,
    receipt: Mutex<Option<Receipt>>,
    sender: Thread,
}

impl Post {
    /// The calling thread is the sender.
    pub(super) fn new(whole: bool) -> Self {
        Self {
            whole,
            received: AtomicU64::new(0),
            marked: AtomicBool::new(false),
            receipt: Mutex::new(None),
            sender: thread::current(),
        }
    }

    /// So many have been received.
    #[inline]
    pub(super) fn received_so_far(&self, messages: u64) {
        self.received.store(messages, Ordering::Relaxed);
        if self.whole {
            // The lockstep pass waits for each one.
            self.sender.unpark();
        }
    }

    /// The mark has come: nothing can come after it that was sent before.
    #[cold]
    pub(super) fn marked(&self) {
        self.marked.store(true, Ordering::Release);
        self.sender.unpark();
    }

    /// The stream has ended, with or without a mark.
    pub(super) fn ended(&self, receipt: Receipt) {
        *self.slot() = Some(receipt);
    }

    /// The receipt, once there is one.
    pub(super) fn take_receipt(&self) -> Option<Receipt> {
        self.slot().take()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Receipt>> {
        // A receipt is written whole or not at all.
        self.receipt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a few messages one at a time, with contents that are compared whole at the other end.
    ///
    /// A message that does not arrive in time ends the pass: what is lost is the stream's to count, and
    /// where everything is lost there is nothing to compare.
    pub(super) fn lockstep(
        &self,
        message: &mut [u8],
        pulse: &Pulse,
        mut send: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        for sequence in 0..CONTENT_PASS_MESSAGES {
            probe::fill(message, sequence);
            send(message)?;
            let limit_ns = now_ns() + nanoseconds(LOCKSTEP_LIMIT);
            while self.received.load(Ordering::Relaxed) <= sequence {
                if now_ns() > limit_ns || pulse.is_stopping() || pulse.is_closed() {
                    return Ok(());
                }
                thread::park_timeout(LOCKSTEP_LIMIT);
            }
            pulse.beat(now_ns());
        }
        Ok(())
    }

    /// Sends the mark until it has arrived; gives up when nothing arrives for long. Says whether it
    /// arrived.
    pub(super) fn drain(
        &self,
        message: &mut [u8],
        pulse: &Pulse,
        repeat: bool,
        mut send: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<bool, String> {
        probe::fill(message, MARK);
        send(message)?;
        let mut progress = Progress::new();
        while !self.marked.load(Ordering::Acquire) {
            if pulse.is_closed()
                || progress.has_stopped(self.received.load(Ordering::Relaxed), pulse)
            {
                return Ok(false);
            }
            thread::park_timeout(MARK_INTERVAL);
            if repeat && !self.marked.load(Ordering::Acquire) {
                send(message)?;
            }
        }
        Ok(true)
    }
}

/// Notices that a counter stands still for too long.
#[derive(Debug)]
pub(super) struct Progress {
    seen: u64,
    since_ns: u64,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            seen: 0,
            since_ns: now_ns(),
        }
    }

    /// Whether `count` has not moved for [`DRAIN_LIMIT`]; a movement is a beat of the pulse.
    pub(super) fn has_stopped(&mut self, count: u64, pulse: &Pulse) -> bool {
        let now_ns = now_ns();
        if count != self.seen {
            self.seen = count;
            self.since_ns = now_ns;
            pulse.beat(now_ns);
        }
        now_ns - self.since_ns > nanoseconds(DRAIN_LIMIT)
    }
}

/// No message has this number but the mark.
const MARK: u64 = u64::MAX;

/// A little less than what the watching thread waits for, so that giving up is a result, not an error.
const DRAIN_LIMIT: Duration = SILENCE_LIMIT.saturating_sub(Duration::from_millis(500));
/// On UDP a mark may be lost like any other.
const MARK_INTERVAL: Duration = Duration::from_millis(10);
/// A message that takes longer on one machine is lost.
const LOCKSTEP_LIMIT: Duration = Duration::from_millis(500);

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u64) -> Vec<u8> {
        let mut message = vec![0; 32];
        probe::fill(&mut message, sequence);
        message
    }

    #[test]
    fn the_mark_is_no_message_and_does_not_move_the_last_stamp() {
        let mut judge = Judge::new(32, false);
        assert_eq!(judge.judge(&message(0), 5_u64), Judged::Message);
        assert_eq!(judge.judge(&message(MARK), 9), Judged::Mark);
        let receipt = judge.receipt(|at| at * 10, None);
        assert_eq!(
            (receipt.last_ns, receipt.marks, receipt.arrivals.received()),
            (Some(50), 1, 1)
        );
    }

    #[test]
    fn contents_count_only_when_they_are_compared_whole() {
        let mut broken = message(0);
        broken[31] ^= 1;
        let mut timed = Judge::new(32, false);
        timed.judge(&broken, 0_u64);
        assert_eq!(
            timed.receipt(|at| at, None).arrivals.integrity(1).corrupted,
            0
        );
        let mut whole = Judge::new(32, true);
        whole.judge(&broken, 0_u64);
        assert_eq!(
            whole.receipt(|at| at, None).arrivals.integrity(1).corrupted,
            1
        );
    }

    #[test]
    fn a_mark_that_never_arrives_because_all_is_closed_is_given_up() {
        let (post, pulse) = (Post::new(false), Pulse::new(true));
        let mut sends = 0;
        pulse.close();
        let arrived = post.drain(&mut [0; 16], &pulse, true, |_| {
            sends += 1;
            Ok(())
        });
        assert_eq!((arrived, sends), (Ok(false), 1));
    }

    #[test]
    fn a_lost_mark_is_sent_again() {
        let (post, pulse) = (Post::new(false), Pulse::new(true));
        let mut sends = 0;
        let arrived = post.drain(&mut [0; 16], &pulse, true, |_| {
            sends += 1;
            if sends == 3 {
                post.marked();
            }
            Ok(())
        });
        assert_eq!((arrived, sends), (Ok(true), 3));
    }
}
