//! `try_send` while another thread sends through the same link.
//!
//! The measuring thread has a CPU to itself; the other sender, both I/O threads and the receiver share
//! the second one, so that what is timed is the link and not the scheduler. There are two ways of being
//! in the way:
//!
//! * *In its call*: the other thread writes one message through, and `try_send` comes while it is in
//!   that system call. Only times that began well within the call count; a link that held its lock over
//!   the call would show the rest of it.
//! * *Flooded*: the other thread sends without a pause, so that the lock, the queue and the wakes are
//!   as busy as they get.

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tautline::{IoThread, Link, Received, Refusal, SendError, Server, Strategy};
use tautline_gauge::clock::now_ns;
use tautline_gauge::statistics::median;

use super::rounds::{Block, Counts, Side};
use super::site::{SETUP_LIMIT, Site, said};

/// Beside a thread that is in the system call of its own send.
pub(crate) fn start_caught(site: &Site) -> Result<Box<dyn Side>, String> {
    Ok(Box::new(Caught(Shared::start(site)?)))
}

/// Beside a thread that sends without a pause.
pub(crate) fn start_flooded(site: &Site) -> Result<Box<dyn Side>, String> {
    Ok(Box::new(Flooded(Shared::start(site)?)))
}

/// The control: what a plain queue costs when nobody else wants it.
pub(crate) fn start_push(site: &Site) -> Result<Box<dyn Side>, String> {
    Ok(Box::new(Push {
        queue: Mutex::new(VecDeque::with_capacity(PUSHED)),
        message: vec![0; site.payload_bytes],
        spare: vec![vec![0; site.payload_bytes]; PUSHED],
        times_ns: Vec::with_capacity(MOST_TIMES),
    }))
}

/// One link, and the other thread that sends through it.
struct Shared {
    link: Link,
    server: Server,
    _client_io: IoThread,
    message: Vec<u8>,
    stage: Arc<Stage>,
    writer: JoinHandle<Option<Result<u64, String>>>,
    /// Ours that were accepted.
    accepted: u64,
    times_ns: Vec<f64>,
    timed: u64,
    missed: u64,
    /// The median of each block, for those who look into a 99th percentile.
    medians_ns: Vec<f64>,
}

/// Over which both threads take turns.
#[derive(Debug, Default)]
struct Stage {
    /// The writer may use the CPU: a block runs.
    open: AtomicBool,
    /// It is to send without a pause.
    flood: AtomicBool,
    /// It does so, or has not stopped yet.
    flooding: AtomicBool,
    /// The number of the message that it is to write through next, and of the last it has written.
    asked: AtomicU64,
    written: AtomicU64,
    begun_ns: AtomicU64,
    ended_ns: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    fn start(site: &Site) -> Result<Self, String> {
        let server_io = site.io_thread(site.seats.server("server-io"))?;
        let server = server_io
            .listen(
                &site.address(),
                site.server_options(Strategy::Reliable),
                |_peer: &Link| Ok::<_, Refusal>(|_: &Link, _: &[u8], _: Received| {}),
            )
            .map_err(said)?;
        let client_io = site.io_thread(site.seats.server("client-io"))?;
        let options = site.link_options(Strategy::Reliable);
        let silent = |_: &Link, _: &[u8], _: Received| {};
        let link = client_io
            .connect(&server.local_address(), options, silent)
            .map_err(said)?;
        link.wait_open(SETUP_LIMIT).map_err(said)?;
        let stage = Arc::new(Stage::default());
        let writer = Writer {
            link: link.clone(),
            message: vec![0; site.payload_bytes],
            stage: Arc::clone(&stage),
            accepted: 0,
        };
        let writer = site.spawn(site.seats.server("writer"), move || writer.run())?;
        Ok(Self {
            link,
            server,
            _client_io: client_io,
            message: vec![0; site.payload_bytes],
            stage,
            writer,
            accepted: 0,
            times_ns: Vec::with_capacity(MOST_TIMES),
            timed: 0,
            missed: 0,
            medians_ns: Vec::new(),
        })
    }

    fn open(&mut self) {
        self.times_ns.clear();
        self.stage.open.store(true, Ordering::Release);
        self.writer.thread().unpark();
    }

    /// The block is over: the writer sleeps, the queue runs empty.
    fn close(&mut self) -> Result<(), String> {
        self.stage.open.store(false, Ordering::Release);
        self.link.flush(SETUP_LIMIT).map_err(said)
    }

    /// Until the time is over, and until there is something to show for it.
    fn wants_more(&self, end_ns: u64) -> bool {
        self.times_ns.is_empty() || now_ns() < end_ns && self.times_ns.len() < MOST_TIMES
    }

    /// One timed call. Returns when it began and how long it took.
    #[inline]
    fn try_send(&mut self, counts: &mut Counts) -> Result<(u64, f64), String> {
        let start_ns = now_ns();
        let outcome = self.link.try_send(&self.message);
        let end_ns = now_ns();
        match outcome {
            Ok(()) => counts.sent += 1,
            Err(SendError::Full) => counts.refused += 1,
            Err(error) => return Err(said(error)),
        }
        Ok((start_ns, (end_ns - start_ns) as f64))
    }

    fn block(&mut self, counts: Counts) -> Result<Block, String> {
        self.accepted += counts.sent;
        self.timed += self.times_ns.len() as u64;
        self.medians_ns.extend(median(&mut self.times_ns));
        block_of(&mut self.times_ns, counts)
    }

    fn finish(mut self) -> Result<Option<String>, String> {
        self.stage.over.store(true, Ordering::Release);
        self.writer.thread().unpark();
        let written = match self.writer.join() {
            Ok(Some(outcome)) => outcome.map_err(|why| format!("the other sender: {why}"))?,
            Ok(None) | Err(_) => return Err("the other sender panicked".to_owned()),
        };
        let messages = self.accepted + written;
        let unsent = self.link.close(SETUP_LIMIT);
        let sending = self.link.statistics().sending;
        let delivered = self.server.statistics().peers.receiving.messages;
        self.server.abort();
        let counted = [
            sending.accepted.messages,
            sending.written.messages,
            delivered,
        ];
        if counted != [messages; 3] || !unsent.queued.is_zero() {
            return Err(format!(
                "{messages} messages were accepted; counted: {counted:?}"
            ));
        }
        Ok(Some(format!(
            "{} calls timed, p50 {:.0} ns, {} came too late to count; the other sent {written}; \
             {} direct writes, {} writes in all",
            self.timed,
            median(&mut self.medians_ns).unwrap_or_default(),
            self.missed,
            sending.direct_writes,
            sending.write_calls
        )))
    }
}

/// The other thread.
struct Writer {
    link: Link,
    message: Vec<u8>,
    stage: Arc<Stage>,
    accepted: u64,
}

impl Writer {
    fn run(mut self) -> Result<u64, String> {
        while !self.stage.over.load(Ordering::Acquire) {
            if self.stage.flood.load(Ordering::Acquire) {
                self.flood()?;
            } else if self.stage.asked.load(Ordering::Acquire)
                != self.stage.written.load(Ordering::Relaxed)
            {
                self.write_through()?;
            } else if self.stage.open.load(Ordering::Acquire) {
                thread::yield_now();
            } else {
                thread::park();
            }
        }
        Ok(self.accepted)
    }

    fn flood(&mut self) -> Result<(), String> {
        self.stage.flooding.store(true, Ordering::Release);
        while self.stage.flood.load(Ordering::Relaxed) {
            self.link.send(&self.message).map_err(said)?;
            self.accepted += 1;
        }
        self.stage.flooding.store(false, Ordering::Release);
        Ok(())
    }

    /// One send that finds nothing waiting and nobody writing, and not right after another: so it is
    /// written by the call itself.
    fn write_through(&mut self) -> Result<(), String> {
        let number = self.stage.asked.load(Ordering::Acquire);
        self.link.flush(SETUP_LIMIT).map_err(said)?;
        spin_until(now_ns() + COOLING_NS);
        self.stage.begun_ns.store(now_ns(), Ordering::Release);
        self.link.send(&self.message).map_err(said)?;
        self.stage.ended_ns.store(now_ns(), Ordering::Release);
        self.accepted += 1;
        self.stage.written.store(number, Ordering::Release);
        Ok(())
    }
}

struct Caught(Shared);

impl Caught {
    /// Asks for one write and calls `try_send` in the middle of it.
    fn catch(&mut self, counts: &mut Counts) -> Result<(), String> {
        let stage = Arc::clone(&self.0.stage);
        stage.begun_ns.store(0, Ordering::Relaxed);
        let number = stage.written.load(Ordering::Acquire) + 1;
        stage.asked.store(number, Ordering::Release);
        let begun_ns = wait_for(&self.0.writer, || {
            Some(stage.begun_ns.load(Ordering::Acquire)).filter(|&begun_ns| begun_ns != 0)
        })?;
        spin_until(begun_ns + ENTERING_NS);
        let (start_ns, time_ns) = self.0.try_send(counts)?;
        wait_for(&self.0.writer, || {
            (stage.written.load(Ordering::Acquire) == number).then_some(())
        })?;
        // Judged by when it began, never by when it ended: one that had to wait for the writer counts.
        if start_ns + LEAVING_NS < stage.ended_ns.load(Ordering::Acquire) {
            self.0.times_ns.push(time_ns);
        } else {
            self.0.missed += 1;
        }
        Ok(())
    }
}

impl Side for Caught {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let end_ns = now_ns() + length.as_nanos() as u64;
        let mut counts = Counts::default();
        self.0.open();
        while self.0.wants_more(end_ns) {
            self.catch(&mut counts)?;
        }
        self.0.close()?;
        self.0.block(counts)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.0.finish()
    }
}

struct Flooded(Shared);

impl Side for Flooded {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let end_ns = now_ns() + length.as_nanos() as u64;
        let mut counts = Counts::default();
        let stage = Arc::clone(&self.0.stage);
        stage.flood.store(true, Ordering::Release);
        self.0.open();
        wait_for(&self.0.writer, || {
            stage.flooding.load(Ordering::Acquire).then_some(())
        })?;
        while self.0.wants_more(end_ns) {
            spin_until(now_ns() + PAUSE_NS);
            let (_, time_ns) = self.0.try_send(&mut counts)?;
            self.0.times_ns.push(time_ns);
        }
        stage.flood.store(false, Ordering::Release);
        wait_for(&self.0.writer, || {
            (!stage.flooding.load(Ordering::Acquire)).then_some(())
        })?;
        self.0.close()?;
        self.0.block(counts)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.0.finish()
    }
}

struct Push {
    queue: Mutex<VecDeque<Vec<u8>>>,
    message: Vec<u8>,
    /// Buffers that were popped: the push is timed, not the allocator.
    spare: Vec<Vec<u8>>,
    times_ns: Vec<f64>,
}

impl Push {
    /// A copy, and a push under the lock.
    fn push(&mut self) -> f64 {
        let mut owned = self.spare.pop().expect("refilled when empty");
        let start_ns = now_ns();
        owned.copy_from_slice(&self.message);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(owned);
        drop(queue);
        (now_ns() - start_ns) as f64
    }

    fn refill(&mut self) {
        if self.spare.is_empty() {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            self.spare.extend(queue.drain(..));
        }
    }
}

impl Side for Push {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let end_ns = now_ns() + length.as_nanos() as u64;
        self.times_ns.clear();
        let mut counts = Counts::default();
        while self.times_ns.is_empty() || now_ns() < end_ns && self.times_ns.len() < MOST_TIMES {
            self.refill();
            let time_ns = self.push();
            self.times_ns.push(time_ns);
            counts.sent += 1;
        }
        block_of(&mut self.times_ns, counts)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// The 99th percentile of a block's times, and the worst.
fn block_of(times_ns: &mut [f64], counts: Counts) -> Result<Block, String> {
    let last = times_ns
        .len()
        .checked_sub(1)
        .ok_or("no call could be timed")?;
    let position = last * 99 / 100;
    let (_, &mut figure, above) = times_ns.select_nth_unstable_by(position, f64::total_cmp);
    Ok(Block {
        figure,
        worst_ns: above.iter().copied().fold(figure, f64::max),
        counts,
    })
}

/// Spins until there is an answer; the writer cannot answer any more once its thread has ended.
fn wait_for<T, W>(
    writer: &JoinHandle<W>,
    mut answer: impl FnMut() -> Option<T>,
) -> Result<T, String> {
    loop {
        if let Some(answer) = answer() {
            return Ok(answer);
        }
        if writer.is_finished() {
            return Err("the other sender has ended".to_owned());
        }
        // Not idle: on one CPU the writer needs it.
        thread::yield_now();
    }
}

fn spin_until(end_ns: u64) {
    while now_ns() < end_ns {
        spin_loop();
    }
}

/// Twice the gap within which sends count as coming in a row.
const COOLING_NS: u64 = 2_000;
/// From the stamp to the system call: taking the lock and reserving room.
const ENTERING_NS: u64 = 400;
/// From the end of the system call to the stamp: taking the lock again and settling.
const LEAVING_NS: u64 = 400;
/// Between the calls beside a flood, so that the queue is the writer's and not ours.
const PAUSE_NS: u64 = 2_000;
/// Messages that the control's queue holds at most.
const PUSHED: usize = 32;
const MOST_TIMES: usize = 1 << 17;
