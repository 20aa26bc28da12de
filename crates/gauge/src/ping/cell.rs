//! One cell: connections opened, threads started, watched over, and what they bring back put together.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::Address;

use super::closed::TICK;
use super::crew::{self, Common, Share};
use super::flow::{Flow, LATE_SEND_NS, Tally};
use super::handshake::{hello, shake_hands};
use super::live::{Live, Reader, Window};
use super::load::Running;
use super::message::Message;
use super::outstanding::Outstanding;
use super::plan::{PingPlan, transport_of};
use super::record::{Record, Sorted};
use super::samples::SampleWriter;
use super::slices::Slices;
use super::slowest::{Slow, Slowest};
use super::socket::{Targets, tcp_state};
use super::{Look, Onlooker, PingError, Stop, doubt};
use crate::clock::now_ns;
use crate::environment::{Doubt, Severity};
use crate::moments::Moments;
use crate::placement::{Register, Seat, Seats};
use crate::plan::Transport;
use crate::report::ping::{LinearHistogram, Path, PingCell, SlowMoment, TcpState, ThreadCell};
use crate::sys;
use crate::wire::{Counts, Mode, PeerRecord};

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
    /// All service times, for whoever writes them out.
    pub(crate) times: Sorted,
}

/// Connections that have shaken hands.
#[derive(Debug)]
struct Opened {
    flows: Vec<Flow>,
    path: Path,
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
                Severity::Warning,
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
        let (flow, path, peer) = first;
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
        Ok(Opened { flows, path, peer })
    }

    fn open_one(
        &self,
        targets: &Targets,
        number: usize,
    ) -> Result<(Flow, Path, PeerRecord), PingError> {
        let transport = transport_of(self.address);
        let deadline = Instant::now() + OPEN_LIMIT;
        let (socket, mut path) = targets.connect(&self.plan.socket, deadline, self.stop)?;
        let hello = hello(Mode::Echo, self.payload_bytes, self.own);
        let deadline = Instant::now() + OPEN_LIMIT;
        let agreed = shake_hands(
            &socket,
            self.address,
            transport,
            &hello,
            deadline,
            self.stop,
        )?;
        path.tcp_before = tcp_state(&socket, transport);
        let timeout_ns = self.plan.timeout.as_nanos() as u64;
        let message = Message::new(transport, self.payload_bytes, agreed.cookie);
        let lossy = transport == Transport::Udp;
        let outstanding = Outstanding::new(self.plan.most_outstanding(), lossy, timeout_ns);
        let flow = Flow::new(
            socket,
            transport,
            number,
            message,
            agreed.cookie,
            outstanding,
            timeout_ns,
        );
        Ok((flow, path, agreed.peer))
    }

    /// Second handles of some connections, for their TCP_INFO while they are busy.
    fn handles(&self, flows: &[Flow]) -> Vec<Socket> {
        flows
            .iter()
            .filter(|flow| flow.transport == Transport::Tcp)
            .take(MOST_HANDLES)
            .filter_map(|flow| flow.socket.try_clone().ok())
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

    fn assemble(&self, opened: Opened, watched: Watched) -> Found {
        let Watched {
            mut shares,
            start_ns,
            slices,
            moments,
        } = watched;
        let plan = self.plan;
        let tally = shares
            .iter()
            .fold(Tally::default(), |sum, share| sum.plus(share.tally));
        let in_flight: u64 = shares.iter().map(|share| share.in_flight).sum();
        let fates = Fates::of(&tally, in_flight, arrived(&shares));
        let transport = transport_of(self.address);
        let mut path = opened.path;
        path.tcp_after = tcp_state(&shares[0].flows[0].socket, transport);
        path.retransmits = retransmitted(&shares, &path.tcp_before);
        let each_thread = shares
            .iter()
            .map(|share| ThreadCell {
                thread: share.thread,
                connections: share.flows.len(),
                sent: share.tally.sent,
                received: share.tally.received,
                rtt: share.record.rtt.times(&plan.percentiles),
            })
            .collect();
        let elapsed_ns = shares.iter().map(|share| share.end_ns).max().unwrap_or(0) - start_ns;
        let elapsed_s = elapsed_ns as f64 / 1e9;
        let slow = shares
            .iter_mut()
            .map(|share| std::mem::take(&mut share.record.slowest).moments());
        let slow = Slowest::merged(slow.collect::<Vec<_>>());
        let (mut times, mut response, mut histogram) = (Sorted::new(), None, None);
        for share in &shares {
            times.merge(&share.record.rtt);
            if let Some(of) = &share.record.response {
                response.get_or_insert_with(Sorted::new).merge(of);
            }
            if let Some(of) = &share.record.histogram {
                histogram = Some(added(histogram, of));
            }
        }
        let rtt = times.times(&plan.percentiles);
        let interval = slices.p50_interval();
        let open = plan.rate_hz.is_some();
        let span_s = open_span_s(&shares, start_ns);
        let samples_left_out = shares.iter().map(|share| share.samples_left_out).sum();
        let cell = PingCell {
            address: self.address.to_string(),
            transport: transport.to_string(),
            payload_bytes: self.payload_bytes,
            connections: plan.connections,
            threads: self.threads,
            pacing: if open { "open" } else { "closed" },
            warmup: shares.iter().map(|share| share.warmup).sum(),
            elapsed_s,
            sent: tally.sent,
            received: tally.received,
            lost: fates.lost,
            lost_up: fates.lost_up,
            lost_down: fates.lost_down,
            duplicate: tally.duplicate,
            reordered: tally.reordered,
            late: tally.late,
            corrupted: fates.corrupted,
            in_flight_at_end: in_flight,
            asked_rate_hz: plan.rate_hz,
            achieved_rate_hz: plan
                .rate_hz
                .and_then(|rate_hz| achieved(tally.sent, rate_hz, span_s)),
            late_sends: open.then_some(tally.late_sends),
            late_send_ns: open.then_some(LATE_SEND_NS),
            latest_send_ns: open.then_some(tally.latest_send_ns),
            half_rtt: plan.half_rtt.then(|| rtt.halved()),
            rtt,
            response: response.map(|response| response.times(&plan.percentiles)),
            p50_low_ns: interval.map(|interval| interval.low),
            p50_high_ns: interval.map(|interval| interval.high),
            histogram,
            slices: slices.rows(),
            slow: slow
                .iter()
                .map(|slow| moment(slow, start_ns, &moments))
                .collect(),
            each_thread,
            path,
            samples_left_out,
            error: shares.iter_mut().find_map(|share| share.broken.take()),
        };
        Found {
            doubts: doubts(&cell),
            cell,
            peer: opened.peer,
            times,
        }
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

/// Tells an onlooker how far it is.
struct Teller<'a, 'b> {
    cell: &'a Cell<'a>,
    onlooker: &'a mut Onlooker<'b>,
    whole: Duration,
    pending: Window,
    pending_from: Duration,
}

impl<'a, 'b> Teller<'a, 'b> {
    fn new(cell: &'a Cell<'a>, onlooker: &'a mut Onlooker<'b>) -> Self {
        Self {
            whole: cell.plan.duration_bound() / cell.cells as u32,
            cell,
            onlooker,
            pending: Window::default(),
            pending_from: Duration::ZERO,
        }
    }

    fn tell(&mut self, window: &Window, since_ns: u64, over: bool) {
        let to = Duration::from_nanos(since_ns);
        let share = (to.as_secs_f64() / self.whole.as_secs_f64()).min(1.0);
        let done = (self.cell.number as f64 + share) / self.cell.cells as f64;
        let look = |window: &Window, from| Look {
            cell: self.cell.name(),
            done,
            from,
            to,
            window: window.clone(),
        };
        (self.onlooker.progress)(&look(window, to));
        self.pending.merge(window);
        let Some(every) = self.onlooker.every else {
            return;
        };
        let due = to - self.pending_from >= every;
        if due || over && self.pending.sent > 0 {
            (self.onlooker.interval)(&look(&self.pending, self.pending_from));
            self.pending = Window::default();
            self.pending_from = to;
        }
    }
}

/// What became of the pings that were not answered whole.
#[derive(Debug, PartialEq, Eq)]
struct Fates {
    lost: u64,
    lost_up: Option<u64>,
    lost_down: Option<u64>,
    corrupted: u64,
}

impl Fates {
    /// A damaged datagram that does not say whose it was accounts for one ping that is missing, and so
    /// does one that the server found damaged: neither is lost as well.
    fn of(tally: &Tally, in_flight: u64, arrived: Option<Counts>) -> Self {
        let answered = tally.received + tally.late + tally.damaged;
        let missing = tally.sent.saturating_sub(answered + in_flight);
        let damaged_up = arrived.map_or(0, |counts| counts.corrupted);
        let lost = missing.saturating_sub(tally.nameless + damaged_up);
        let corrupted = tally.damaged + tally.damaged_again + tally.nameless + damaged_up;
        let lost_up = match arrived {
            _ if lost == 0 => Some(0),
            // What is under way may be on either.
            Some(counts) if in_flight == 0 => {
                let never_came = tally.sent.saturating_sub(counts.received_messages);
                Some(never_came.saturating_sub(counts.corrupted).min(lost))
            }
            Some(_) | None => None,
        };
        Self {
            lost,
            lost_up,
            lost_down: lost_up.map(|up| lost - up),
            corrupted,
        }
    }
}

fn arrived(shares: &[Share]) -> Option<Counts> {
    shares.iter().try_fold(Counts::default(), |sum, share| {
        let counts = share.arrived?;
        Some(Counts {
            received_messages: sum.received_messages + counts.received_messages,
            corrupted: sum.corrupted + counts.corrupted,
            ..sum
        })
    })
}

fn moment(slow: &Slow, start_ns: u64, moments: &Moments) -> SlowMoment {
    SlowMoment {
        at_s: slow.from_ns.saturating_sub(start_ns) as f64 / 1e9,
        at_monotonic_ns: slow.from_ns,
        time_ns: slow.time_ns(),
        sequence: slow.sequence,
        connection: slow.connection,
        coincided: moments.around(slow.from_ns, slow.to_ns),
    }
}

/// What this run did to itself.
fn doubts(cell: &PingCell) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if let Some(late) = cell.late_sends
        && late * 100 > cell.sent
    {
        let percent = late as f64 * 100.0 / cell.sent as f64;
        let severity = match percent {
            _ if percent < 10.0 => Severity::Note,
            _ => Severity::Warning,
        };
        let message = format!(
            "{percent:.0} % of the sends left over {} us late, up to {:.0} us: response times have it",
            LATE_SEND_NS / 1_000,
            cell.latest_send_ns.unwrap_or(0) as f64 / 1e3
        );
        doubts.push(doubt(
            "late-sends",
            severity,
            message,
            "tautline ping --sched fifo:10",
        ));
    }
    if let (Some(asked), Some(achieved)) = (cell.asked_rate_hz, cell.achieved_rate_hz)
        && achieved < asked * 0.999
    {
        let message = format!("asked for {asked:.0} pings a second, {achieved:.1} left");
        doubts.push(doubt(
            "rate-missed",
            Severity::Warning,
            message,
            "tautline ping --connections 2",
        ));
    }
    if cell.samples_left_out > 0 {
        let message = format!(
            "{} samples are not in the file of --samples: it took them too slowly",
            cell.samples_left_out
        );
        doubts.push(doubt(
            "samples-left-out",
            Severity::Warning,
            message,
            "tautline ping --rate 10k",
        ));
    }
    doubts
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

/// On all connections since they were opened: before the run they had sent a handshake.
fn retransmitted(shares: &[Share], before: &Option<TcpState>) -> Option<u64> {
    let handshake = before.as_ref()?.retransmits;
    let each = shares
        .iter()
        .flat_map(|share| &share.flows)
        .map(|flow| tcp_state(&flow.socket, flow.transport).map(|state| state.retransmits));
    let all: u64 = each.sum::<Option<u64>>()?;
    Some(all.saturating_sub(handshake))
}

/// From the start to the last ping that left.
fn open_span_s(shares: &[Share], start_ns: u64) -> f64 {
    let last = shares
        .iter()
        .flat_map(|share| &share.flows)
        .map(Flow::last_sent_ns)
        .max();
    last.unwrap_or(0).saturating_sub(start_ns) as f64 / 1e9
}

/// `sent` pings have one gap less between them.
fn achieved(sent: u64, rate_hz: f64, span_s: f64) -> Option<f64> {
    match sent {
        0 => None,
        1 => Some(rate_hz),
        _ if span_s > 0.0 => Some((sent - 1) as f64 / span_s),
        _ => None,
    }
}

fn added(sum: Option<LinearHistogram>, of: &LinearHistogram) -> LinearHistogram {
    let Some(mut sum) = sum else {
        return of.clone();
    };
    sum.below += of.below;
    sum.above += of.above;
    for (count, more) in sum.counts.iter_mut().zip(&of.counts) {
        *count += more;
    }
    sum
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
const MOST_HANDLES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(received_messages: u64, corrupted: u64) -> Option<Counts> {
        Some(Counts {
            received_messages,
            corrupted,
            ..Counts::default()
        })
    }

    fn tally(sent: u64, received: u64) -> Tally {
        Tally {
            sent,
            received,
            ..Tally::default()
        }
    }

    #[test]
    fn what_the_server_never_had_was_lost_on_the_way_there() {
        let fates = Fates::of(&tally(100, 90), 0, counts(96, 0));
        assert_eq!(
            fates,
            Fates {
                lost: 10,
                lost_up: Some(4),
                lost_down: Some(6),
                corrupted: 0
            }
        );
        let fates = Fates::of(&tally(100, 90), 0, None);
        assert_eq!(
            (fates.lost, fates.lost_up, fates.lost_down),
            (10, None, None)
        );
        let fates = Fates::of(&tally(100, 100), 0, None);
        assert_eq!(
            (fates.lost, fates.lost_up, fates.lost_down),
            (0, Some(0), Some(0))
        );
    }

    #[test]
    fn what_was_damaged_on_either_way_is_not_lost_as_well() {
        let up = Fates::of(&tally(100, 98), 0, counts(98, 1));
        assert_eq!((up.lost, up.lost_up, up.corrupted), (1, Some(1), 1));
        let down = Tally {
            nameless: 1,
            ..tally(100, 98)
        };
        let down = Fates::of(&down, 0, counts(99, 0));
        assert_eq!((down.lost, down.lost_up, down.corrupted), (1, Some(1), 1));
        let named = Tally {
            damaged: 1,
            ..tally(100, 99)
        };
        let named = Fates::of(&named, 0, counts(100, 0));
        assert_eq!((named.lost, named.corrupted), (0, 1));
    }

    #[test]
    fn nothing_is_ever_negative() {
        let fates = Fates::of(&tally(10, 10), 3, counts(50, 50));
        assert_eq!(
            (fates.lost, fates.lost_up, fates.lost_down),
            (0, Some(0), Some(0))
        );
    }

    #[test]
    fn the_achieved_rate_counts_gaps() {
        assert_eq!(achieved(0, 10.0, 1.0), None);
        assert_eq!(achieved(1, 10.0, 0.0), Some(10.0));
        assert_eq!(achieved(11, 10.0, 1.0), Some(10.0));
    }
}
