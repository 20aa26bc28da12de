//! One cell: connections opened, threads started and watched over. What they bring back is put together
//! by [`assemble`].

mod assemble;
mod fates;
mod teller;

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::Address;

use self::teller::Teller;
use super::carrier::{Carrier, Opening};
use super::closed::TICK;
use super::crew::{self, Common, Share};
use super::flow::Flow;
use super::live::{Live, Reader};
use super::load::Running;
use super::message::Message;
use super::outstanding::Outstanding;
use super::plan::{PingPlan, transport_of};
use super::record::Record;
use super::samples::SampleWriter;
use super::slices::Slices;
use super::socket::{Targets, tcp_state};
use super::{Onlooker, PingError, Stop, doubt};
use crate::clock::now_ns;
use crate::environment::{Doubt, Severity};
use crate::handshake::hello;
use crate::moments::Moments;
use crate::placement::{Register, Seat, Seats};
use crate::report::Medium;
use crate::report::ping::{LinearHistogram, Path, PingCell};
use crate::sys;
use crate::wire::{Mode, PeerRecord};

/// One address and size, and what all cells share.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) plan: &'a PingPlan,
    pub(crate) address: &'a Address,
    pub(crate) payload_bytes: usize,
    /// Which cell it is, of how many.
    pub(crate) number: usize,
    pub(crate) cells: usize,
    pub(crate) threads: usize,
    pub(crate) seats: &'a Seats,
    pub(crate) register: &'a Arc<Register>,
    pub(crate) own: &'a PeerRecord,
    pub(crate) samples: Option<&'a SampleWriter>,
    pub(crate) stop: &'a Stop<'a>,
}

/// What a cell found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) cell: PingCell,
    pub(crate) peer: PeerRecord,
    pub(crate) doubts: Vec<Doubt>,
}

/// Connections that have shaken hands.
#[derive(Debug)]
struct Opened {
    flows: Vec<Flow>,
    path: Path,
    medium: Medium,
    peer: PeerRecord,
}

/// What the watching thread gathered.
#[derive(Debug)]
struct Watched {
    shares: Vec<Share>,
    start_ns: u64,
    slices: Slices,
    moments: Moments,
}

impl Cell<'_> {
    pub(crate) fn measure(&self, onlooker: &mut Onlooker<'_>) -> Result<Found, PingError> {
        let mut opened = self.open()?;
        let mut load = Running::start(self.plan, self.address, self.own, self.stop)?;
        let handles = self.handles(&opened.flows);
        let flows = std::mem::take(&mut opened.flows);
        let watched = self.crew(flows, &handles, onlooker)?;
        let complaint = load.complaint();
        drop(load);
        let mut found = self.assemble(opened, watched);
        if let Some(why) = complaint {
            found.doubts.push(doubt(
                "load-ended",
                // What is called loaded was not, from some moment on.
                Severity::Invalid,
                why,
                "tautline ping --help",
            ));
        }
        Ok(found)
    }

    /// Every connection; the first one waits for a server that is not there yet.
    fn open(&self) -> Result<Opened, PingError> {
        let patience = Instant::now() + self.plan.wait_for_server;
        let targets = loop {
            match Targets::find(self.address, &self.plan.socket, self.stop) {
                Err(_) if Instant::now() < patience && !self.stop.is_set() => pause(self.stop),
                found => break found?,
            }
        };
        let first = loop {
            match self.open_one(&targets, 0) {
                Err(_) if Instant::now() < patience && !self.stop.is_set() => pause(self.stop),
                opened => break opened?,
            }
        };
        let (flow, path, medium, peer) = first;
        let mut flows = vec![flow];
        for number in 1..self.plan.connections {
            if self.stop.is_set() {
                return Err(PingError::setup("stopped"));
            }
            let (flow, ..) = self.open_one(&targets, number).map_err(|why| {
                PingError::setup(format!(
                    "connection {} of {}: {why}",
                    number + 1,
                    self.plan.connections
                ))
            })?;
            flows.push(flow);
        }
        Ok(Opened {
            flows,
            path,
            medium,
            peer,
        })
    }

    fn open_one(
        &self,
        targets: &Targets,
        number: usize,
    ) -> Result<(Flow, Path, Medium, PeerRecord), PingError> {
        let transport = transport_of(self.address);
        let deadline = Instant::now() + OPEN_LIMIT;
        let Opening {
            mut carrier,
            mut path,
            medium,
        } = Carrier::open(
            targets,
            (&self.plan.socket, &self.plan.tls),
            self.payload_bytes,
            deadline,
            self.stop,
        )?;
        let hello = hello(Mode::Echo, self.payload_bytes, self.own);
        let deadline = Instant::now() + OPEN_LIMIT;
        let agreed = carrier.shake_hands(self.address, transport, &hello, deadline, self.stop)?;
        path.tcp_before = carrier
            .socket()
            .and_then(|socket| tcp_state(socket, transport));
        let timeout_ns = self.plan.timeout.as_nanos() as u64;
        let message = Message::new(transport, self.payload_bytes, agreed.cookie);
        let lossy = transport.speaks_datagrams();
        let outstanding = Outstanding::new(self.plan.most_outstanding(), lossy, timeout_ns);
        let flow = Flow::new(
            carrier,
            transport,
            number,
            message,
            agreed.cookie,
            outstanding,
            timeout_ns,
        );
        Ok((flow, path, medium, agreed.peer))
    }

    /// Second handles of some connections, for their TCP_INFO while they are busy.
    fn handles(&self, flows: &[Flow]) -> Vec<Socket> {
        flows
            .iter()
            .filter(|flow| flow.transport.is_over_tcp())
            .take(MOST_HANDLES)
            .filter_map(|flow| flow.carrier.socket()?.try_clone().ok())
            .collect()
    }

    /// Starts the threads, and watches until the last has ended.
    fn crew(
        &self,
        flows: Vec<Flow>,
        handles: &[Socket],
        onlooker: &mut Onlooker<'_>,
    ) -> Result<Watched, PingError> {
        let common = Common {
            plan: self.plan,
            gate: Barrier::new(self.threads),
            start_ns: AtomicU64::new(0),
            register: self.register,
            stop: self.stop,
        };
        let lives: Vec<Arc<Live>> = (0..self.threads).map(|_| Arc::new(Live::new())).collect();
        let parts = split(flows, self.threads);
        thread::scope(|scope| {
            let (send, shares) = mpsc::channel();
            for (thread, (flows, live)) in parts.into_iter().zip(&lives).enumerate() {
                let (send, common) = (send.clone(), &common);
                let seat = self.seat(thread);
                let record = self.record(live);
                thread::Builder::new()
                    .name(format!("gauge-ping-{thread}"))
                    .spawn_scoped(scope, move || {
                        // Nobody receives any more only when the watching thread panicked.
                        let _ = send.send(crew::measure(thread, seat, flows, record, common));
                    })
                    // Those that wait at the gate already would wait for ever.
                    .expect("threads can be started");
            }
            drop(send);
            self.watch(
                &shares,
                &common,
                Reader::new(lives.clone()),
                handles,
                onlooker,
            )
        })
    }

    fn watch(
        &self,
        shares: &mpsc::Receiver<Share>,
        common: &Common<'_>,
        mut reader: Reader,
        handles: &[Socket],
        onlooker: &mut Onlooker<'_>,
    ) -> Result<Watched, PingError> {
        let mut gathered = Vec::new();
        let mut moments = Moments::new();
        let mut slices: Option<Slices> = None;
        let mut teller = Teller::new(self, onlooker);
        let started = Instant::now();
        let mut tick = 0;
        while gathered.len() < self.threads {
            tick += 1;
            let left = (started + TICK * tick).saturating_duration_since(Instant::now());
            match shares.recv_timeout(left) {
                Ok(share) => gathered.push(share),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PingError::setup("a measuring thread panicked"));
                }
            }
            let now = now_ns();
            moments.read(now, retransmissions(handles));
            let start_ns = common.start_ns.load(Ordering::Acquire);
            if start_ns > 0 {
                let window = reader.take();
                slices
                    .get_or_insert_with(|| Slices::starting_at(start_ns))
                    .add(&window, now);
                let over = gathered.len() == self.threads;
                teller.tell(&window, now.saturating_sub(start_ns), over);
            }
        }
        // The last moment, too, has a reading after it.
        let now = now_ns();
        moments.read(now, retransmissions(handles));
        let start_ns = common.start_ns.load(Ordering::Acquire);
        gathered.sort_by_key(|share| share.thread);
        Ok(Watched {
            shares: gathered,
            start_ns,
            slices: slices.unwrap_or_else(|| Slices::starting_at(start_ns)),
            moments,
        })
    }

    fn seat(&self, thread: usize) -> Seat {
        let placement = &self.plan.placement;
        let cpu = match placement.cpus.len() {
            0 => self.seats.client,
            // One thread is a client with the first; several take them in turn.
            cpus => Some(placement.cpus[thread % cpus]),
        };
        Seat::on("client", cpu, placement.sched)
    }

    fn record(&self, live: &Arc<Live>) -> Record {
        let feed = self.samples.map(|writer| writer.feed(self.number, 0));
        let mut record = Record::new(self.plan.rate_hz.is_some(), Arc::clone(live), feed);
        record.histogram = self.plan.histogram.map(|plan| LinearHistogram {
            from_ns: plan.from.as_nanos() as u64,
            step_ns: plan.step.as_nanos() as u64,
            below: 0,
            counts: vec![0; plan.steps],
            above: 0,
        });
        record
    }

    fn name(&self) -> String {
        format!("{} {} B", self.address, self.payload_bytes)
    }
}

/// Connections in threads' shares that differ by one at most.
fn split(flows: Vec<Flow>, threads: usize) -> Vec<Vec<Flow>> {
    let mut parts: Vec<Vec<Flow>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, flow) in flows.into_iter().enumerate() {
        parts[number % threads].push(flow);
    }
    parts
}

fn retransmissions(handles: &[Socket]) -> Option<u64> {
    if handles.is_empty() {
        return None;
    }
    let each = handles
        .iter()
        .map(|socket| sys::socket::tcp_info(socket.as_fd()).ok());
    each.map(|info| info.map(|info| u64::from(info.retransmits)))
        .sum()
}

/// Between two tries for a server that is not there yet.
fn pause(stop: &Stop<'_>) {
    if !stop.is_set() {
        thread::sleep(TICK);
    }
}

/// For a connection, and again for its handshake.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// Descriptors are few where there are many connections.
pub(super) const MOST_HANDLES: usize = 64;
