//! Client and server in callbacks, each on an I/O thread of its own. The measuring thread starts a
//! block and waits for its end; the clock is read where the reply arrives.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tautline::{Handler, Link, Received, Refusal, Server, Strategy};
use tautline_gauge::clock::now_ns;
use tautline_gauge::probe;

use super::super::rounds::{Block, Counts, Side};
use super::super::site::{SETUP_LIMIT, Site, said};
use super::{MOST_TIMES, WHOLE_MESSAGES, block_of};

pub(crate) fn start_callback(site: &Site) -> Result<Box<dyn Side>, String> {
    let server_io = site.io_thread(site.seats.server("server-io"))?;
    let options = site.server_options(Strategy::Reliable);
    let server = server_io
        .listen(&site.address(), options, |_peer: &Link| {
            // One message is under way at a time, so there is always room.
            Ok::<_, Refusal>(|peer: &Link, message: &[u8], _: Received| {
                let _ = peer.send(message);
            })
        })
        .map_err(said)?;
    let desk = Arc::new(Desk {
        tray: Mutex::new(Tray::Empty),
        waiting: thread::current(),
    });
    let clerk = Clerk {
        desk: Arc::clone(&desk),
        job: None,
        payload_bytes: site.payload_bytes,
    };
    let client_io = site.io_thread(site.seats.client("client-io"))?;
    let options = site.link_options(Strategy::Reliable);
    let link = client_io
        .connect(&server.local_address(), options, clerk)
        .map_err(said)?;
    link.wait_open(SETUP_LIMIT).map_err(said)?;
    let mut kick = vec![0; site.payload_bytes];
    probe::fill(&mut kick, KICK);
    let mut callback = Callback {
        link,
        server,
        kick,
        desk,
        idle: Some(Box::new(Job::new(site.payload_bytes))),
        kicks: 0,
    };
    callback.compare_whole()?;
    Ok(Box::new(callback))
}

/// The measuring thread's side.
struct Callback {
    link: Link,
    server: Server,
    /// The message that starts a block.
    kick: Vec<u8>,
    desk: Arc<Desk>,
    /// Here while no block runs.
    idle: Option<Box<Job>>,
    kicks: u64,
}

impl Callback {
    fn compare_whole(&mut self) -> Result<(), String> {
        let job = self.idle.as_mut().expect("no block runs");
        (job.whole, job.most) = (true, WHOLE_MESSAGES);
        let counts = self.run(SETUP_LIMIT)?;
        let job = self.idle.as_mut().expect("the block is over");
        (job.whole, job.most) = (false, MOST_TIMES as u64);
        if counts.received == WHOLE_MESSAGES {
            Ok(())
        } else {
            Err("a reply came back changed".to_owned())
        }
    }

    /// One block within the callbacks.
    fn run(&mut self, length: Duration) -> Result<Counts, String> {
        let mut job = self.idle.take().expect("no block runs");
        job.prepare(length);
        *self.desk.tray() = Tray::Ordered(job);
        self.link.send(&self.kick).map_err(said)?;
        self.kicks += 1;
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
            thread::park();
        }
    }
}

impl Side for Callback {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let counts = self.run(length)?;
        let job = self.idle.as_mut().expect("the block is over");
        block_of(&mut job.times_ns, counts)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        let messages = self.idle.as_ref().map_or(0, |job| job.sequence) + self.kicks;
        let unsent = self.link.close(SETUP_LIMIT);
        let client = self.link.statistics();
        let server = self.server.statistics().peers;
        self.server.abort();
        let counted = [
            client.sending.accepted.messages,
            client.receiving.messages,
            server.sending.accepted.messages,
            server.receiving.messages,
        ];
        if counted != [messages; 4] || !unsent.queued.is_zero() {
            return Err(format!(
                "{messages} messages were exchanged; the counters say {counted:?}"
            ));
        }
        let each = |calls: u64| calls as f64 / messages as f64;
        Ok(Some(format!(
            "client: {:.3} reads, {:.3} writes; server: {:.3} reads, {:.3} writes a message",
            each(client.receiving.read_calls),
            each(client.sending.write_calls),
            each(server.receiving.read_calls),
            each(server.sending.write_calls),
        )))
    }
}

/// No message of a block has this number.
const KICK: u64 = u64::MAX;

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
    fn send_next(&mut self, link: &Link) -> Result<(), String> {
        if self.whole {
            probe::fill(&mut self.message, self.sequence);
        } else {
            probe::stamp(&mut self.message, self.sequence);
        }
        self.counts.sent += 1;
        self.sent_ns = now_ns();
        link.send(&self.message).map_err(said)
    }
}

/// The callback's side.
struct Clerk {
    desk: Arc<Desk>,
    job: Option<Box<Job>>,
    payload_bytes: usize,
}

impl Handler for Clerk {
    fn message(&mut self, link: &Link, message: &[u8], _received: Received) {
        let received_ns = now_ns();
        match &mut self.job {
            Some(job) => job.settle(message, received_ns),
            None => self.take_job(message, received_ns),
        }
        let Some(job) = &mut self.job else { return };
        if job.is_over(received_ns) {
            let job = self.job.take().expect("matched above");
            self.desk.put(Tray::Done(job));
        } else if let Err(why) = job.send_next(link) {
            self.desk.put(Tray::Broken(why));
        }
    }

    fn ended(&mut self, _link: &Link, ended: &tautline::Ended) {
        self.desk.put(Tray::Broken(ended.reason.to_string()));
    }
}

impl Clerk {
    /// The kick has come back: time counts from here.
    #[cold]
    fn take_job(&mut self, message: &[u8], now_ns: u64) {
        if probe::sequence_of(message, self.payload_bytes) != Some(KICK) {
            return self
                .desk
                .put(Tray::Broken("a reply nobody waits for".to_owned()));
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
