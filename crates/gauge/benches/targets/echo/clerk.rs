//! Round trips within callbacks: the measuring thread orders a block and waits for its end; the clock is
//! read where the reply arrives, on the thread that calls back, by whoever that is.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tautline_gauge::clock::now_ns;
use tautline_gauge::probe;

use super::super::rounds::{Block, Counts};
use super::super::site::SETUP_LIMIT;
use super::{MOST_TIMES, WHOLE_MESSAGES, block_of};

/// The measuring thread's side.
pub(crate) struct Orders {
    desk: Arc<Desk>,
    /// The message that starts a block.
    kick: Vec<u8>,
    kicks: u64,
    /// Here while no block runs.
    idle: Option<Box<Job>>,
}

impl Orders {
    /// The calling thread will order the blocks; the clerk belongs into the client's callback.
    pub(crate) fn new(payload_bytes: usize) -> (Self, Clerk) {
        let desk = Arc::new(Desk {
            tray: Mutex::new(Tray::Empty),
            waiting: thread::current(),
        });
        let mut kick = vec![0; payload_bytes];
        probe::fill(&mut kick, KICK);
        let clerk = Clerk {
            desk: Arc::clone(&desk),
            job: None,
            payload_bytes,
        };
        let orders = Self {
            desk,
            kick,
            kicks: 0,
            idle: Some(Box::new(Job::new(payload_bytes))),
        };
        (orders, clerk)
    }

    /// A few replies, compared whole; `kick` sends a message.
    pub(crate) fn compare_whole(
        &mut self,
        kick: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let job = self.idle.as_mut().expect("no block runs");
        (job.whole, job.most) = (true, WHOLE_MESSAGES);
        let counts = self.run(SETUP_LIMIT, kick)?;
        let job = self.idle.as_mut().expect("the block is over");
        (job.whole, job.most) = (false, MOST_TIMES as u64);
        if counts.received == WHOLE_MESSAGES {
            Ok(())
        } else {
            Err("a reply came back changed".to_owned())
        }
    }

    /// One block; `kick` sends a message.
    pub(crate) fn block(
        &mut self,
        length: Duration,
        kick: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<Block, String> {
        let counts = self.run(length, kick)?;
        let job = self.idle.as_mut().expect("the block is over");
        block_of(&mut job.times_ns, counts)
    }

    /// How many messages were exchanged.
    pub(crate) fn messages(&self) -> u64 {
        self.idle.as_ref().map_or(0, |job| job.sequence) + self.kicks
    }

    fn run(
        &mut self,
        length: Duration,
        kick: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<Counts, String> {
        let mut job = self.idle.take().ok_or("the block before did not end")?;
        job.prepare(length);
        *self.desk.tray() = Tray::Ordered(job);
        kick(&self.kick)?;
        self.kicks += 1;
        let until_ns = now_ns() + (length + SILENCE_LIMIT).as_nanos() as u64;
        loop {
            let mut tray = self.desk.tray();
            match mem::replace(&mut *tray, Tray::Empty) {
                Tray::Done(job) => {
                    let counts = job.counts;
                    self.idle = Some(job);
                    return Ok(counts);
                }
                Tray::Broken(why) => return Err(why),
                other @ (Tray::Empty | Tray::Ordered(_)) => *tray = other,
            }
            drop(tray);
            if now_ns() >= until_ns {
                return Err("the block did not end: a reply is missing".to_owned());
            }
            thread::park_timeout(SILENCE_LIMIT);
        }
    }
}

/// Over which a block is handed to and fro; locked once a block by each.
#[derive(Debug)]
struct Desk {
    tray: Mutex<Tray>,
    waiting: Thread,
}

impl Desk {
    fn tray(&self) -> MutexGuard<'_, Tray> {
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, tray: Tray) {
        *self.tray() = tray;
        self.waiting.unpark();
    }
}

#[derive(Debug)]
enum Tray {
    Empty,
    Ordered(Box<Job>),
    Done(Box<Job>),
    Broken(String),
}

/// The callback's side.
pub(crate) struct Clerk {
    desk: Arc<Desk>,
    job: Option<Box<Job>>,
    payload_bytes: usize,
}

impl Clerk {
    /// A reply is here; `send` sends the next message, unless the block is over.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        message: &[u8],
        send: impl FnOnce(&[u8]) -> Result<(), String>,
    ) {
        let received_ns = now_ns();
        match &mut self.job {
            Some(job) => job.settle(message, received_ns),
            None => self.take_job(message, received_ns),
        }
        let Some(job) = &mut self.job else { return };
        if job.is_over(received_ns) {
            let job = self.job.take().expect("matched above");
            self.desk.put(Tray::Done(job));
        } else if let Err(why) = job.send_next(send) {
            self.broken(why);
        }
    }

    /// There will be no reply.
    pub(crate) fn broken(&self, why: String) {
        self.desk.put(Tray::Broken(why));
    }

    /// The kick has come back: time counts from here.
    #[cold]
    fn take_job(&mut self, message: &[u8], now_ns: u64) {
        if probe::sequence_of(message, self.payload_bytes) != Some(KICK) {
            return self.broken("a reply nobody waits for".to_owned());
        }
        let mut tray = self.desk.tray();
        match mem::replace(&mut *tray, Tray::Empty) {
            Tray::Ordered(mut job) => {
                job.end_ns = now_ns + job.length_ns;
                self.job = Some(job);
            }
            other => *tray = other,
        }
    }
}

/// One block on its way through the callbacks.
#[derive(Debug)]
struct Job {
    whole: bool,
    most: u64,
    length_ns: u64,
    end_ns: u64,
    /// Of the message that is under way.
    sequence: u64,
    sent_ns: u64,
    message: Vec<u8>,
    times_ns: Vec<f64>,
    counts: Counts,
}

impl Job {
    fn new(payload_bytes: usize) -> Self {
        Self {
            whole: false,
            most: MOST_TIMES as u64,
            length_ns: 0,
            end_ns: 0,
            sequence: 0,
            sent_ns: 0,
            message: vec![0; payload_bytes],
            times_ns: Vec::with_capacity(MOST_TIMES),
            counts: Counts::default(),
        }
    }

    fn prepare(&mut self, length: Duration) {
        self.length_ns = length.as_nanos() as u64;
        self.times_ns.clear();
        self.counts = Counts::default();
    }

    #[inline]
    fn settle(&mut self, message: &[u8], received_ns: u64) {
        let intact = if self.whole {
            probe::is_filled(message, self.message.len(), self.sequence)
        } else {
            probe::sequence_of(message, self.message.len()) == Some(self.sequence)
        };
        if intact {
            self.times_ns.push((received_ns - self.sent_ns) as f64);
            self.counts.received += 1;
        } else {
            self.counts.wrong += 1;
        }
        self.sequence += 1;
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns || self.counts.sent >= self.most
    }

    #[inline]
    fn send_next(&mut self, send: impl FnOnce(&[u8]) -> Result<(), String>) -> Result<(), String> {
        if self.whole {
            probe::fill(&mut self.message, self.sequence);
        } else {
            probe::stamp(&mut self.message, self.sequence);
        }
        self.counts.sent += 1;
        self.sent_ns = now_ns();
        send(&self.message)
    }
}

/// No message of a block has this number.
const KICK: u64 = u64::MAX;
/// A block that ends so late has lost a reply.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
