//! One sender: N pings over one blocking connection, with everything recorded. What a program of
//! several senders starts as often as it likes, in threads or in processes of their own.
//!
//! ```no_run
//! # use std::sync::atomic::AtomicBool;
//! # use tautline_gauge::environment::Environment;
//! # use tautline_gauge::ping::{PingError, Sender, SenderPlan};
//! # use tautline_gauge::wire::PeerRecord;
//! # fn main() -> Result<(), PingError> {
//! let stop = AtomicBool::new(false);
//! let own = PeerRecord::of(&Environment::read());
//! let plan = SenderPlan::new("tcp://127.0.0.1:6001".parse().unwrap(), 4, Some(1_000_000));
//! let sender = Sender::connect(plan, &own, &stop)?; // shakes hands and warms up
//! // … all senders wait here for their common start …
//! let sent = sender.run(&stop, &mut |_look| {});
//! println!("{} round trips, the slowest {:?}", sent.times.count(), sent.slow.first());
//! # Ok(())
//! # }
//! ```

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::Address;

use super::carrier::Carrier;
use super::closed::{TICK, Until, closed_loop};
use super::crew::block;
use super::flow::{Flow, Tally};
use super::handshake::shake_hands;
use super::live::{Live, Reader, Window};
use super::message::Message;
use super::outstanding::Outstanding;
use super::plan::{SocketPlan, transport_of};
use super::record::{Record, Sorted};
use super::slices::Slices;
use super::slowest::{Slow, Slowest};
use super::socket::Targets;
use super::{PingError, Stop};
use crate::clock::now_ns;
use crate::handshake::hello;
use crate::moments::Moments;
use crate::placement::{Register, Seat};
use crate::plan::{Sched, Transport};
use crate::report::ThreadRecord;
use crate::wire::{Mode, PeerRecord};

/// What one sender does.
#[derive(Debug, Clone)]
pub struct SenderPlan {
    /// Where its server is, on a stream.
    pub address: Address,
    /// Bytes of a message, from 1.
    pub payload_bytes: usize,
    /// Pings; `None` until it is stopped.
    pub count: Option<u64>,
    /// Pings before those, at most a second of them.
    pub warmup: u64,
    /// A reply that takes longer is late. Default 10 s: under load that must not cut the tail.
    pub timeout: Duration,
    /// Options of its socket.
    pub socket: SocketPlan,
    /// Where the measuring thread runs; `None` is anywhere.
    pub cpu: Option<usize>,
    /// Its scheduler.
    pub sched: Sched,
}

/// A sender that is connected and warm.
#[derive(Debug)]
pub struct Sender {
    plan: SenderPlan,
    flow: Flow,
    record: Record,
    live: Arc<Live>,
    peer: PeerRecord,
}

/// What a sender found.
#[derive(Debug)]
pub struct SenderResult {
    /// Pings sent.
    pub sent: u64,
    /// Answered whole and in time; `times` has them.
    pub received: u64,
    /// Answered after the timeout.
    pub late: u64,
    /// Damaged replies.
    pub corrupted: u64,
    /// Unanswered at the end.
    pub in_flight_at_end: u64,
    /// When the first ping left, by the clock of the gauge.
    pub start_ns: u64,
    /// When the last reply came.
    pub end_ns: u64,
    /// Every round trip.
    pub times: Sorted,
    /// Seconds of the run.
    pub slices: Slices,
    /// The slowest moments, slowest first.
    pub slow: Vec<Slow>,
    /// What the machine did meanwhile; ask it [`around`](Moments::around) a moment.
    pub moments: Moments,
    /// Where and how the measuring thread ran, as read back.
    pub thread: Option<ThreadRecord>,
    /// Why its scheduler was refused, if it was.
    pub refusal: Option<String>,
    /// What ended it early, when something did.
    pub broken: Option<String>,
}

impl SenderPlan {
    /// A sender with a warm-up of 1,000 pings, on any CPU, under the usual scheduler.
    #[must_use]
    pub fn new(address: Address, payload_bytes: usize, count: Option<u64>) -> Self {
        Self {
            address,
            payload_bytes,
            count,
            warmup: 1_000,
            timeout: Duration::from_secs(10),
            socket: SocketPlan::default(),
            cpu: None,
            sched: Sched::Other,
        }
    }
}

impl Sender {
    /// Connects, shakes hands, and warms up.
    ///
    /// # Errors
    ///
    /// What, where and why; and soon after `stop` becomes true.
    pub fn connect(
        plan: SenderPlan,
        own: &PeerRecord,
        stop: &AtomicBool,
    ) -> Result<Self, PingError> {
        let stop = Stop::new(stop);
        let transport = transport_of(&plan.address);
        if !matches!(transport, Transport::Tcp | Transport::Uds) {
            let why = format!("{}: a sender speaks over tcp and uds", plan.address);
            return Err(PingError::setup(why));
        }
        let (socket, peer) = open(&plan.address, plan.payload_bytes, &plan.socket, own, &stop)?;
        let timeout_ns = plan.timeout.as_nanos() as u64;
        let mut flow = Flow::new(
            Carrier::Socket(socket),
            transport,
            0,
            Message::new(transport, plan.payload_bytes, 0),
            0,
            Outstanding::new(1, false, timeout_ns),
            timeout_ns,
        );
        block(&mut flow, plan.timeout).map_err(PingError::setup)?;
        let live = Arc::new(Live::new());
        let mut sender = Self {
            record: Record::new(false, Arc::clone(&live), None),
            live,
            flow,
            peer,
            plan,
        };
        sender.warm_up(&stop)?;
        Ok(sender)
    }

    /// Who the server is.
    #[must_use]
    pub fn peer(&self) -> &PeerRecord {
        &self.peer
    }

    /// Pings until the count is reached, `stop` becomes true or the server is gone. A thread of its own
    /// measures; the calling one looks on, and calls `look` ten times a second with what happened.
    ///
    /// # Panics
    ///
    /// When no thread can be started.
    pub fn run(self, stop: &AtomicBool, look: &mut dyn FnMut(&Window)) -> SenderResult {
        let Self {
            plan,
            mut flow,
            mut record,
            live,
            ..
        } = self;
        let stop = Stop::new(stop);
        let seat = Seat::on("sender", plan.cpu, plan.sched);
        let register = Register::default();
        flow.begin();
        record.counts = true;
        let count = plan.count.unwrap_or(u64::MAX);
        let measured = thread::scope(|scope| {
            let (send, result) = mpsc::channel();
            let (register, stop) = (&register, &stop);
            thread::Builder::new()
                .name("gauge-sender".to_owned())
                .spawn_scoped(scope, move || {
                    let seated = seat.take(register).map_err(|why| why.to_string());
                    let start_ns = now_ns();
                    let until = Until {
                        count,
                        end_ns: u64::MAX,
                        stop,
                    };
                    let outcome = seated.and_then(|()| {
                        closed_loop(&mut flow, &mut record, &until, Duration::ZERO)
                            .map_err(|why| why.explain())
                    });
                    // The calling thread waits for it.
                    let _ = send.send((flow, record, start_ns, outcome.err()));
                })
                .expect("threads can be started");
            watch(&result, &live, look)
        });
        let (flow, record, start_ns, broken) = measured.outcome;
        let tally: Tally = flow.tally;
        SenderResult {
            sent: tally.sent,
            received: tally.received,
            late: tally.late,
            corrupted: tally.damaged + tally.damaged_again,
            in_flight_at_end: flow.outstanding.waiting(),
            start_ns,
            end_ns: flow.last_ns().max(start_ns),
            times: record.rtt,
            slices: measured.slices,
            slow: Slowest::moments(record.slowest),
            moments: measured.moments,
            thread: register.threads().pop(),
            refusal: register.refusal(),
            broken,
        }
    }

    fn warm_up(&mut self, stop: &Stop<'_>) -> Result<(), PingError> {
        let until = Until {
            count: self.plan.warmup,
            end_ns: now_ns() + WARMUP_LIMIT_NS,
            stop,
        };
        closed_loop(&mut self.flow, &mut self.record, &until, Duration::ZERO).map_err(|why| {
            let address = &self.plan.address;
            PingError::setup(format!("{address}: in the warm-up: {}", why.explain()))
        })
    }
}

/// A connection to a stream server that has agreed to echo messages of that size. It blocks.
pub(crate) fn open(
    address: &Address,
    payload_bytes: usize,
    socket: &SocketPlan,
    own: &PeerRecord,
    stop: &Stop<'_>,
) -> Result<(Socket, PeerRecord), PingError> {
    let targets = Targets::find(address, socket, stop)?;
    let deadline = Instant::now() + OPEN_LIMIT;
    let (socket, _) = targets.connect(socket, deadline, stop)?;
    let hello = hello(Mode::Echo, payload_bytes, own);
    let transport = transport_of(address);
    let agreed = shake_hands(&socket, address, transport, &hello, deadline, stop)?;
    Ok((socket, agreed.peer))
}

type Outcome = (Flow, Record, u64, Option<String>);

struct Measured {
    outcome: Outcome,
    slices: Slices,
    moments: Moments,
}

fn watch(
    result: &mpsc::Receiver<Outcome>,
    live: &Arc<Live>,
    look: &mut dyn FnMut(&Window),
) -> Measured {
    let mut reader = Reader::new(vec![Arc::clone(live)]);
    let mut slices = Slices::starting_at(now_ns());
    let mut moments = Moments::new();
    moments.read(now_ns(), None);
    loop {
        let outcome = result.recv_timeout(TICK);
        let now = now_ns();
        moments.read(now, None);
        let window = reader.take();
        slices.add(&window, now);
        look(&window);
        match outcome {
            Ok(outcome) => {
                return Measured {
                    outcome,
                    slices,
                    moments,
                };
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                unreachable!("the measuring thread sends before it ends, or its panic is ours")
            }
        }
    }
}

/// For connecting and shaking hands.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
const WARMUP_LIMIT_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::{ServePlan, Server};

    #[test]
    fn four_senders_at_once_each_have_all_their_round_trips() {
        let plan = ServePlan {
            addresses: vec!["tcp://127.0.0.1:0".parse().unwrap()],
            ..ServePlan::default()
        };
        let server = Server::start(plan).unwrap();
        let address = server.addresses()[0].clone();
        let (stop, address) = (AtomicBool::new(false), &address);
        let stop = &stop;
        let results: Vec<SenderResult> = thread::scope(|scope| {
            let senders: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(move || {
                        let plan = SenderPlan::new(address.clone(), 4, Some(2_000));
                        let own = PeerRecord::default();
                        let sender = Sender::connect(plan, &own, stop).unwrap();
                        assert!(!sender.peer().version.is_empty());
                        sender.run(stop, &mut |_| {})
                    })
                })
                .collect();
            let joined = senders.into_iter().map(|sender| sender.join().unwrap());
            joined.collect()
        });
        for result in results {
            assert_eq!(result.broken, None);
            assert_eq!(
                (result.sent, result.received, result.corrupted),
                (2_000, 2_000, 0)
            );
            assert_eq!(result.times.count(), 2_000);
            assert!(result.end_ns > result.start_ns);
            assert!(!result.slow.is_empty());
            let slowest = result.slow[0];
            assert!(
                result
                    .moments
                    .around(slowest.from_ns, slowest.to_ns)
                    .is_some()
            );
            let slices = result.slices.rows();
            let received: u64 = slices.iter().map(|slice| slice.received).sum();
            assert!(received <= 2_000);
        }
    }

    #[test]
    fn a_stop_ends_a_sender_without_a_count() {
        let plan = ServePlan {
            addresses: vec!["tcp://127.0.0.1:0".parse().unwrap()],
            ..ServePlan::default()
        };
        let server = Server::start(plan).unwrap();
        let stop = AtomicBool::new(false);
        let plan = SenderPlan::new(server.addresses()[0].clone(), 4, None);
        let sender = Sender::connect(plan, &PeerRecord::default(), &stop).unwrap();
        let result = sender.run(&stop, &mut |window| {
            if window.received > 0 {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        assert_eq!(result.broken, None);
        assert!(result.received > 0);
    }
}
