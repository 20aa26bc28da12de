//! Round trips in an open loop: messages leave at their intended times, whether or not replies have
//! come, and each reply is timed from the intended time of its message.
//!
//! The measuring thread paces: it looks at the clock, sends what is due, and gives way to whoever wants
//! its CPU (`sched_yield`) until the next is. It sleeps on neither side, because a CPU that halts would
//! make every message late, and what is to be compared is what becomes of messages that left in time.
//! Replies are taken by another thread: the I/O thread of the link, or a raw reader.

mod link;
mod raw;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tautline_gauge::clock::now_ns;

use super::rounds::{Block, Counts, Pace, Side};
use super::site::Site;

pub(crate) use link::start_link;
pub(crate) use raw::{Wait, start_raw};

/// The sending end.
trait Sender {
    /// The payload of the next message.
    fn payload_mut(&mut self) -> &mut [u8];

    fn send(&mut self) -> Result<(), String>;

    /// The end; so many messages were sent.
    fn finish(self, sent: u64) -> Result<Option<String>, String>;
}

/// The measuring thread's loop over one sender.
struct Paced<S> {
    sender: S,
    tray: Arc<Tray>,
    rate_hz: u64,
    sent: u64,
    achieved_hz: Vec<f64>,
}

impl<S: Sender + 'static> Paced<S> {
    fn start(sender: S, tray: Arc<Tray>, rate_hz: u64) -> Box<dyn Side> {
        Box::new(Self {
            sender,
            tray,
            rate_hz,
            sent: 0,
            achieved_hz: Vec::new(),
        })
    }

    /// Sends every message of a block, each at its time or, when that has passed, at once. Returns how
    /// long it took from the first intended time to the end of the last interval, or of the last send.
    fn send_all(&mut self, messages: u64) -> Result<u64, String> {
        let start_ns = now_ns() + LEAD_NS;
        let after_ns = |number: u64| number * 1_000_000_000 / self.rate_hz;
        for number in 0..messages {
            let intended_ns = start_ns + after_ns(number);
            while now_ns() < intended_ns {
                thread::yield_now();
            }
            let last = if number + 1 == messages { LAST } else { 0 };
            let payload = self.sender.payload_mut();
            payload[..8].copy_from_slice(&(number | last).to_le_bytes());
            payload[8..16].copy_from_slice(&intended_ns.to_le_bytes());
            self.sender.send()?;
        }
        self.sent += messages;
        let end_ns = now_ns().max(start_ns + after_ns(messages));
        Ok(end_ns - start_ns)
    }
}

impl<S: Sender + 'static> Side for Paced<S> {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let length_ns = (length * BLOCKS).as_nanos() as u64;
        let messages = (self.rate_hz * length_ns / 1_000_000_000).clamp(1, MOST_MESSAGES);
        let took_ns = self.send_all(messages)?;
        self.achieved_hz
            .push(messages as f64 * 1e9 / took_ns as f64);
        let mut found = self.tray.wait()?;
        let figure = quantile(&mut found.times_ns, 0.99).ok_or("no reply came back intact")?;
        let block = Block {
            figure,
            worst_ns: found.times_ns.last().copied().unwrap_or_default(),
            counts: Counts {
                sent: messages,
                received: found.times_ns.len() as u64,
                wrong: found.wrong,
                refused: 0,
            },
        };
        self.tray.hand_back(found.times_ns);
        Ok(block)
    }

    fn pace(&mut self) -> Option<Pace> {
        Some(Pace {
            asked_hz: self.rate_hz,
            achieved_hz: std::mem::take(&mut self.achieved_hz),
        })
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.sender.finish(self.sent)
    }
}

/// Where the receiver leaves what it found, and takes up an empty list for the next block.
#[derive(Debug)]
struct Tray {
    slot: Mutex<Slot>,
    sender: Thread,
}

#[derive(Debug, Default)]
struct Slot {
    found: Option<Found>,
    spare: Option<Vec<f64>>,
    broken: Option<String>,
}

#[derive(Debug)]
struct Found {
    times_ns: Vec<f64>,
    wrong: u64,
}

impl Tray {
    /// The calling thread is the sender.
    fn new() -> Arc<Self> {
        let slot = Slot {
            spare: Some(room()),
            ..Slot::default()
        };
        Arc::new(Self {
            slot: Mutex::new(slot),
            sender: thread::current(),
        })
    }

    fn wait(&self) -> Result<Found, String> {
        loop {
            let mut slot = self.slot();
            if let Some(found) = slot.found.take() {
                return Ok(found);
            }
            if let Some(why) = slot.broken.take() {
                return Err(format!("receiver: {why}"));
            }
            drop(slot);
            // Whoever fills the slot ends it.
            thread::park();
        }
    }

    fn hand_back(&self, mut times_ns: Vec<f64>) {
        times_ns.clear();
        self.slot().spare = Some(times_ns);
    }

    fn broken(&self, why: String) {
        self.slot().broken = Some(why);
        self.sender.unpark();
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving end: times every reply.
#[derive(Debug)]
struct Clerk {
    tray: Arc<Tray>,
    times_ns: Vec<f64>,
    payload_bytes: usize,
    next: u64,
    wrong: u64,
}

impl Clerk {
    fn new(tray: Arc<Tray>, site: &Site) -> Self {
        Self {
            tray,
            times_ns: room(),
            payload_bytes: site.payload_bytes,
            next: 0,
            wrong: 0,
        }
    }

    #[inline]
    fn reply(&mut self, payload: &[u8]) {
        let at_ns = now_ns();
        let word = |from: usize| {
            let bytes = payload.get(from..from + 8)?;
            bytes.try_into().ok().map(u64::from_le_bytes)
        };
        let (Some(number), Some(intended_ns)) = (word(0), word(8)) else {
            self.wrong += 1;
            return;
        };
        if number & !LAST == self.next && payload.len() == self.payload_bytes {
            self.times_ns.push(at_ns.saturating_sub(intended_ns) as f64);
        } else {
            self.wrong += 1;
        }
        self.next += 1;
        if number & LAST != 0 {
            self.end_block();
        }
    }

    #[cold]
    fn end_block(&mut self) {
        let mut slot = self.tray.slot();
        let spare = slot.spare.take().unwrap_or_else(room);
        slot.found = Some(Found {
            times_ns: std::mem::replace(&mut self.times_ns, spare),
            wrong: self.wrong,
        });
        (self.next, self.wrong) = (0, 0);
        drop(slot);
        self.tray.sender.unpark();
    }
}

/// Of a whole block, so that a list never grows while it is timed.
fn room() -> Vec<f64> {
    Vec::with_capacity(MOST_MESSAGES as usize)
}

/// The least value that so much of all is no larger than. Sorts.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

/// Set in the number of a block's last message.
const LAST: u64 = 1 << 63;
/// Two buffers of times are 1 MiB each.
const MOST_MESSAGES: u64 = 1 << 17;
/// A 99th percentile takes more messages than a median.
const BLOCKS: u32 = 3;
/// Before the first message: the measuring thread is at the clock by then.
const LEAD_NS: u64 = 20_000;
