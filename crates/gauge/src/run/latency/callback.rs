//! `callback`: client and server entirely in callbacks. The measuring thread only starts a block and
//! waits for its end; the clock is read where the reply arrives.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use tautline::{Ended, Handler, Link, Opened, Received};

use super::exchange::{Done, Order};
use super::library::Library;
use crate::clock::now_ns;
use crate::placement::{Register, Seat};
use crate::recorder::Recorder;
use crate::run::Broken;
use crate::run::site::Site;
use crate::run::supervise::Pulse;
use crate::stamp::Stamp;
use crate::wire::SEQUENCE_LIMIT;

/// The measuring thread's side.
#[derive(Debug)]
pub(super) struct CallbackEcho {
    link: Link,
    /// The message that starts a block, and restarts it when a reply is lost.
    kick: Vec<u8>,
    stamp: Stamp,
    desk: Arc<Desk>,
    pulse: Arc<Pulse>,
    /// Stands in for the recorder that the callback has.
    spare: Box<Recorder>,
}

impl CallbackEcho {
    /// Connects. The calling thread is the one that will run the blocks.
    pub(super) fn start(site: &Site, library: &Library) -> Result<Self, Broken> {
        let desk = Arc::new(Desk {
            tray: Mutex::new(Tray::Empty),
            settled: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            waiting: thread::current(),
        });
        let clerk = |stamp| Clerk {
            desk: Arc::clone(&desk),
            job: None,
            payload_bytes: site.payload_bytes,
            stamp,
            pulse: Arc::clone(&site.pulse),
            seat: site.seats.client("client-io"),
            register: Arc::clone(&site.register),
        };
        let (link, stamp) = library.connect(site, clerk)?;
        let mut kick = vec![0; site.payload_bytes];
        stamp.write(&mut kick, KICK, true);
        let pulse = Arc::clone(&site.pulse);
        Ok(Self {
            link,
            kick,
            stamp,
            desk,
            pulse,
            spare: Box::new(Recorder::new()),
        })
    }

    /// Runs one block within the callbacks and waits for its end.
    pub(super) fn run_block(
        &mut self,
        order: Order,
        sequence: &mut u64,
        recorder: &mut Box<Recorder>,
    ) -> Result<Done, String> {
        let job = Job {
            order,
            done: Done::default(),
            sequence: *sequence,
            sent_ns: 0,
            started_ns: None,
            message: vec![0; self.kick.len()],
            stamp: self.stamp,
            recorder: mem::replace(recorder, mem::take(&mut self.spare)),
        };
        self.desk.settled.store(false, Ordering::Relaxed);
        *self.desk.tray() = Tray::Ordered(Box::new(job));
        let outcome = self.kick_until_settled();
        let job = match mem::replace(&mut *self.desk.tray(), Tray::Empty) {
            Tray::Ordered(job) | Tray::Settled(job) => job,
            Tray::Empty => return Err("callback: the block was lost".to_owned()),
        };
        self.spare = mem::replace(recorder, job.recorder);
        *sequence = job.sequence;
        outcome.map(|()| job.done)
    }

    fn kick_until_settled(&self) -> Result<(), String> {
        self.pulse.begin_turn(now_ns());
        let mut stalls = self.pulse.stalls();
        self.kick()?;
        loop {
            if self.desk.ended.load(Ordering::Acquire) {
                return Err("callback: the link ended".to_owned());
            }
            if self.desk.settled.load(Ordering::Acquire) {
                return Ok(());
            }
            if self.pulse.stalls() != stalls {
                stalls = self.pulse.stalls();
                self.kick()?;
            }
            // No time limit is needed: the callback and the pulse ring.
            thread::park();
        }
    }

    fn kick(&self) -> Result<(), String> {
        self.link
            .send(&self.kick)
            .map_err(|error| format!("callback: send: {error}"))
    }
}

impl Drop for CallbackEcho {
    fn drop(&mut self) {
        self.link.abort();
    }
}

/// No message of a block has this number, and a server elsewhere still answers it.
const KICK: u64 = SEQUENCE_LIMIT - 1;

/// Over which both sides hand a block to and fro; locked once a block by each.
#[derive(Debug)]
struct Desk {
    tray: Mutex<Tray>,
    settled: AtomicBool,
    ended: AtomicBool,
    waiting: Thread,
}

impl Desk {
    fn tray(&self) -> MutexGuard<'_, Tray> {
        // A job that a panic left behind is still the whole job.
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, job: Box<Job>) {
        *self.tray() = Tray::Settled(job);
        self.settled.store(true, Ordering::Release);
        self.waiting.unpark();
    }
}

#[derive(Debug)]
enum Tray {
    Empty,
    Ordered(Box<Job>),
    Settled(Box<Job>),
}

/// One block on its way through the callbacks.
#[derive(Debug)]
struct Job {
    order: Order,
    done: Done,
    /// Of the message that is under way.
    sequence: u64,
    sent_ns: u64,
    started_ns: Option<u64>,
    message: Vec<u8>,
    stamp: Stamp,
    recorder: Box<Recorder>,
}

/// The callback's side.
struct Clerk {
    desk: Arc<Desk>,
    job: Option<Box<Job>>,
    payload_bytes: usize,
    stamp: Stamp,
    pulse: Arc<Pulse>,
    seat: Seat,
    register: Arc<Register>,
}

impl Handler for Clerk {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.register.enter(self.seat);
    }

    fn message(&mut self, link: &Link, message: &[u8], _received: Received) {
        let received_ns = now_ns();
        if self.job.is_none() {
            self.take_job();
        }
        // Without a job it is the late reply to a message that was given up.
        let Some(job) = &mut self.job else { return };
        // The kick is no echo: where contents come back changed, it starts the block that shows it.
        let whole = job.order.whole && job.started_ns.is_some();
        let found = self.stamp.judge(message, self.payload_bytes, whole);
        if !job.settle_reply(found, received_ns) {
            return;
        }
        self.pulse.beat(received_ns);
        if job.is_over(received_ns) || self.pulse.is_stopping() {
            self.hand_back();
        } else if job.send_next(link).is_err() {
            // The link is about to end, and whoever waits is told then.
            self.hand_back();
        }
    }

    fn ended(&mut self, _link: &Link, _ended: &Ended) {
        self.desk.ended.store(true, Ordering::Release);
        if self.job.is_some() {
            self.hand_back();
        }
        self.desk.waiting.unpark();
    }
}

impl Clerk {
    #[cold]
    fn take_job(&mut self) {
        let mut tray = self.desk.tray();
        match mem::replace(&mut *tray, Tray::Empty) {
            Tray::Ordered(job) => self.job = Some(job),
            other => *tray = other,
        }
    }

    #[cold]
    fn hand_back(&mut self) {
        self.desk
            .settle(self.job.take().expect("called with a job"));
    }
}

impl Job {
    /// Accounts for one reply; false if another one has still to be waited for.
    fn settle_reply(&mut self, found: Option<u64>, received_ns: u64) -> bool {
        let faults = self.recorder.faults_mut();
        match (self.started_ns, found) {
            // The first reply is the kick's: from here on time counts.
            (None, Some(KICK)) => {
                self.started_ns = Some(received_ns);
                return true;
            }
            // A leftover of the block before.
            (None, Some(_)) => {
                faults.stray += 1;
                return false;
            }
            (None, None) => {
                faults.corrupted += 1;
                return false;
            }
            (Some(_), Some(KICK)) => faults.lost += 1,
            (Some(_), Some(found)) if found == self.sequence => {
                self.recorder.record(received_ns - self.sent_ns);
            }
            (Some(_), Some(_)) => {
                faults.stray += 1;
                return false;
            }
            (Some(_), None) => faults.corrupted += 1,
        }
        self.sequence += 1;
        self.done.echoes += 1;
        self.done.elapsed_ns = received_ns - self.started_ns.expect("matched above");
        true
    }

    fn is_over(&self, now_ns: u64) -> bool {
        self.done.echoes >= self.order.echoes || now_ns >= self.order.until_ns
    }

    #[inline]
    fn send_next(&mut self, link: &Link) -> Result<(), tautline::SendError> {
        self.stamp
            .write(&mut self.message, self.sequence, self.order.whole);
        self.sent_ns = now_ns();
        link.send(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(echoes: u64) -> Job {
        Job {
            order: Order {
                echoes,
                until_ns: u64::MAX,
                whole: false,
            },
            done: Done::default(),
            sequence: 40,
            sent_ns: 1_000,
            started_ns: None,
            message: vec![0; 16],
            stamp: Stamp::Probe,
            recorder: Box::new(Recorder::new()),
        }
    }

    #[test]
    fn time_counts_from_the_reply_to_the_kick() {
        let mut job = job(1);
        assert!(job.settle_reply(Some(KICK), 900));
        assert!(!job.is_over(900));
        assert!(job.settle_reply(Some(40), 1_700));
        assert!(job.is_over(1_700));
        assert_eq!(
            job.done,
            Done {
                echoes: 1,
                elapsed_ns: 800
            }
        );
        assert_eq!(job.recorder.summary().max_ns, Some(700));
    }

    #[test]
    fn a_second_kick_gives_the_message_under_way_up() {
        let mut job = job(2);
        job.settle_reply(Some(KICK), 900);
        assert!(job.settle_reply(Some(KICK), 2_000));
        assert!(
            !job.settle_reply(Some(40), 2_100),
            "the lost reply comes after all"
        );
        assert!(job.settle_reply(Some(41), 2_200));
        assert_eq!(
            (job.recorder.faults().lost, job.recorder.faults().stray),
            (1, 1)
        );
        assert_eq!(job.recorder.count(), 1);
    }

    #[test]
    fn leftovers_and_corruption_before_the_kick_change_nothing_but_their_counters() {
        let mut job = job(1);
        assert!(!job.settle_reply(Some(39), 800));
        assert!(!job.settle_reply(None, 850));
        assert_eq!(job.done, Done::default());
        assert_eq!(
            (job.recorder.faults().stray, job.recorder.faults().corrupted),
            (1, 1)
        );
    }
}
