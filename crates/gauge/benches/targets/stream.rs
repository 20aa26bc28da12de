//! One-way streams: an unpaced producer, a receiver that counts, and a mark that ends each block.
//!
//! Product and control each have both ends of their own kind: a link sends to a Tautline server whose
//! callback counts frames, a raw writer to a raw thread that reads up to 64 KiB at a time and walks
//! through the prefixes. That is fair because both receivers make the same calls on the same bytes
//! (64 KiB of room a read, one clock a read) and judge each message by the same code, and because both
//! producers do the same to each message: write its number and hand it over. What is compared is
//! therefore the whole path a program would choose between, not a sender alone.
//!
//! The rate is what was received from the first send to the last receipt, so that a queue or a kernel
//! that still holds messages at the end of the block has to deliver them first.

mod datagrams;
mod link;
mod raw;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tautline_gauge::clock::now_ns;

use super::rounds::{Block, Counts, Side};
use super::site::Site;

pub(crate) use datagrams::{Bulk, start_datagrams};
pub(crate) use link::start_link;
pub(crate) use raw::{Gather, start_raw};

/// The sending end of a stream.
pub(crate) trait Sender {
    /// Hands over one message of this number; false if it was refused.
    fn send(&mut self, number: u64) -> Result<bool, String>;

    /// Lets go of what was gathered.
    fn flush(&mut self) -> Result<(), String>;

    /// The end; so many messages were accepted, marks among them.
    fn finish(self, accepted: u64) -> Result<Option<String>, String>;
}

/// The measuring thread's loop over one sender.
pub(crate) struct Stream<S> {
    sender: S,
    post: Arc<Post>,
    blocks: u64,
    accepted: u64,
    sends_a_look: u64,
    /// A mark may be lost like any datagram.
    may_lose: bool,
}

impl<S: Sender + 'static> Stream<S> {
    pub(crate) fn start(sender: S, post: Arc<Post>, site: &Site) -> Box<dyn Side> {
        Box::new(Self {
            sender,
            post,
            blocks: 0,
            accepted: 0,
            sends_a_look: sends_a_look(site.payload_bytes),
            may_lose: site.transport == tautline_gauge::plan::Transport::Udp,
        })
    }

    /// Sends without a pause until the time is over; a refusal gives way to whoever makes room.
    fn produce(&mut self, end_ns: u64) -> Result<Counts, String> {
        let mut counts = Counts::default();
        loop {
            for _ in 0..self.sends_a_look {
                if self.sender.send(counts.sent)? {
                    counts.sent += 1;
                } else {
                    counts.refused += 1;
                    thread::yield_now();
                    // A yield may take a whole time slice.
                    if now_ns() >= end_ns {
                        return Ok(counts);
                    }
                }
            }
            if now_ns() >= end_ns {
                return Ok(counts);
            }
        }
    }

    /// Sends the mark behind everything else, and waits until it has come out at the other end.
    fn mark(&mut self) -> Result<Receipt, String> {
        self.blocks += 1;
        let mut sent = false;
        // By the clock: a refusal comes back at once.
        let end_ns = now_ns() + MARK_LIMIT_NS;
        while now_ns() < end_ns {
            if !sent || self.may_lose {
                sent = self.sender.send(MARK | self.blocks)?;
                self.accepted += u64::from(sent);
                self.sender.flush()?;
            }
            if !sent {
                thread::yield_now();
            } else if let Some(receipt) = self.post.wait(self.blocks)? {
                return Ok(receipt);
            }
        }
        Err("the end of the block did not arrive".to_owned())
    }
}

impl<S: Sender + 'static> Side for Stream<S> {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let start_ns = now_ns();
        let counts = self.produce(start_ns + length.as_nanos() as u64)?;
        self.accepted += counts.sent;
        self.mark()?.block_since(start_ns, counts)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.sender.finish(self.accepted)
    }
}

/// What the receiver found in one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Receipt {
    pub(crate) block: u64,
    pub(crate) received: u64,
    pub(crate) wrong: u64,
    /// When the last message came, the mark not counted.
    pub(crate) last_ns: u64,
}

impl Receipt {
    /// The block of what was sent since `start_ns` and of what came of it.
    pub(crate) fn block_since(self, start_ns: u64, mut counts: Counts) -> Result<Block, String> {
        (counts.received, counts.wrong) = (self.received, self.wrong);
        if counts.received == 0 {
            return Err("nothing arrived".to_owned());
        }
        let elapsed_s = self.last_ns.saturating_sub(start_ns) as f64 / 1e9;
        Ok(Block {
            figure: counts.received as f64 / elapsed_s,
            worst_ns: 0.0,
            counts,
        })
    }
}

/// Where the receiver leaves its receipt.
#[derive(Debug)]
pub(crate) struct Post {
    slot: Mutex<Slot>,
    sender: Thread,
}

#[derive(Debug, Default)]
struct Slot {
    receipt: Option<Receipt>,
    broken: Option<String>,
}

impl Post {
    /// The calling thread is the sender.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            slot: Mutex::default(),
            sender: thread::current(),
        })
    }

    fn put(&self, receipt: Receipt) {
        self.slot().receipt = Some(receipt);
        self.sender.unpark();
    }

    /// The receiver is gone.
    pub(crate) fn broken(&self, why: String) {
        self.slot().broken = Some(why);
        self.sender.unpark();
    }

    /// Waits for the receipt of `block`, longer than a full queue needs: when there is none, the mark may
    /// have been lost. Whoever posts the receipt ends the wait.
    pub(crate) fn wait(&self, block: u64) -> Result<Option<Receipt>, String> {
        for _ in 0..WAITS_A_MARK {
            match self.take()? {
                Some(receipt) if receipt.block == block => return Ok(Some(receipt)),
                Some(_) | None => thread::park_timeout(MARK_WAIT),
            }
        }
        Ok(None)
    }

    pub(crate) fn take(&self) -> Result<Option<Receipt>, String> {
        let mut slot = self.slot();
        match slot.broken.take() {
            Some(why) => Err(format!("receiver: {why}")),
            None => Ok(slot.receipt.take()),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the messages of one stream. `T` is how its receiver tells the time: each stamp is only kept,
/// because converting it for every message would slow the stream down.
#[derive(Debug)]
pub(crate) struct Judge<T> {
    post: Arc<Post>,
    payload_bytes: usize,
    block: u64,
    next: u64,
    missing: u64,
    wrong: u64,
    last: Option<T>,
}

impl<T: Copy> Judge<T> {
    pub(crate) fn new(post: Arc<Post>, payload_bytes: usize) -> Self {
        Self {
            post,
            payload_bytes,
            block: 0,
            next: 0,
            missing: 0,
            wrong: 0,
            last: None,
        }
    }

    #[inline]
    pub(crate) fn judge(&mut self, message: &[u8], at: T, to_ns: impl Fn(T) -> u64) {
        let number = message
            .first_chunk()
            .map(|bytes| u64::from_le_bytes(*bytes));
        if number == Some(self.next) && message.len() == self.payload_bytes {
            self.next += 1;
            self.last = Some(at);
        } else {
            self.out_of_turn(message.len(), number, at, to_ns);
        }
    }

    #[cold]
    fn out_of_turn(&mut self, bytes: usize, number: Option<u64>, at: T, to_ns: impl Fn(T) -> u64) {
        match number {
            Some(mark) if mark & MARK != 0 => self.end_block(mark & !MARK, to_ns),
            Some(number) if bytes == self.payload_bytes && number > self.next => {
                self.missing += number - self.next;
                self.next = number + 1;
                self.last = Some(at);
            }
            Some(_) | None => self.wrong += 1,
        }
    }

    fn end_block(&mut self, block: u64, to_ns: impl Fn(T) -> u64) {
        // The twin of a mark that was late, not lost.
        if block <= self.block {
            return;
        }
        self.block = block;
        self.post.put(Receipt {
            block,
            received: self.next - self.missing,
            wrong: self.wrong,
            last_ns: self.last.take().map_or(0, to_ns),
        });
        (self.next, self.missing, self.wrong) = (0, 0, 0);
    }
}

/// Writes the number of a message over its first bytes.
#[inline]
pub(crate) fn number(payload: &mut [u8], number: u64) {
    payload[..8].copy_from_slice(&number.to_le_bytes());
}

/// How many messages go between two looks at the clock.
pub(crate) fn sends_a_look(payload_bytes: usize) -> u64 {
    (BYTES_A_LOOK / payload_bytes).clamp(1, 256) as u64
}

/// Set in the number of a mark; the rest is the block's number.
pub(crate) const MARK: u64 = 1 << 63;
/// The clock is read once per so much: at a write per message these are some hundred microseconds.
const BYTES_A_LOOK: usize = 16 * 1024;
const MARK_WAIT: Duration = Duration::from_millis(2);
const WAITS_A_MARK: usize = 10;
/// Far above what a full queue takes.
const MARK_LIMIT_NS: u64 = 20_000_000_000;
/// So many waits of 20 ms each are far above what a full queue takes.
pub(crate) const MOST_MARKS: usize = 1_000;
