//! Round trips to a server: closed loop, or open loop at a rate; one cell for each address and size.
//!
//! [`PingPlan`] is validated once, [`run`] measures what it says, and what it found is a
//! [`PingResult`]. One connection alone on its thread is a loop of blocking calls; several on one
//! thread, and every open loop, are an event loop.

mod carrier;
mod cell;
mod closed;
mod crew;
mod events;
mod flow;
mod handshake;
mod live;
mod load;
mod lookup;
mod message;
mod outstanding;
mod percentile;
mod plan;
mod record;
mod samples;
mod sender;
mod slices;
mod slowest;
pub(crate) mod socket;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::cell::Cell;
pub use self::live::Window;
#[cfg(test)]
pub(crate) use self::live::{Live, Reader};
pub use self::lookup::interface_index;
pub use self::percentile::Point;
pub(crate) use self::plan::transport_of;
pub use self::plan::{Family, HistogramPlan, Load, PingPlan, SocketPlan};
pub use self::record::Sorted;
#[cfg(test)]
pub(crate) use self::record::{Answered, Record};
use self::samples::SampleWriter;
pub(crate) use self::sender::open;
pub use self::sender::{Sender, SenderPlan, SenderResult};
pub use self::slices::Slices;
pub use self::slowest::{Slow, Slowest};
use crate::clock;
use crate::environment::{Doubt, Environment, Evidence, Severity};
use crate::evidence::Watch;
use crate::placement::{Hold, PlacementError, Register, Seats};
use crate::report::ping::PingCell;
use crate::report::{Clock, PlacementRecord, hlog};
use crate::run::{placed, try_seats, unplaced};
use crate::sys;
use crate::wire::PeerRecord;

/// Everything one `ping` found out; what stands here is valid even when the run ended early.
#[derive(Debug, Clone)]
pub struct PingResult {
    /// The clock that every figure comes from.
    pub clock: Clock,
    /// How the run was placed on the CPUs: asked and effective.
    pub placement: PlacementRecord,
    /// What was measured about the machine.
    pub evidence: Evidence,
    /// Who the first server was.
    pub peer: Option<PeerRecord>,
    /// Whether it is this host.
    pub same_host: Option<bool>,
    /// One for each address and size.
    pub cells: Vec<PingCell>,
    /// What is to be doubted of this run in particular.
    pub doubts: Vec<Doubt>,
    /// The stop flag ended the run early.
    pub interrupted: bool,
    /// What ended the run, or kept a cell from being measured.
    pub error: Option<PingError>,
    /// Outputs that failed while they were written.
    pub failed_outputs: Vec<(&'static str, String)>,
}

/// What is written while it is measured.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Every answered ping as CSV.
    pub samples: Option<File>,
    /// An HdrHistogram interval log.
    pub hdr: Option<File>,
}

/// Who looks on.
#[expect(
    missing_debug_implementations,
    reason = "closures have nothing to show"
)]
pub struct Onlooker<'a> {
    /// Called about ten times a second.
    pub progress: &'a mut dyn FnMut(&Look),
    /// How often `interval` is called, if at all.
    pub every: Option<Duration>,
    /// Called with what happened since the last time.
    pub interval: &'a mut dyn FnMut(&Look),
}

/// A look at a run.
#[derive(Debug, Clone)]
pub struct Look {
    /// `tcp://127.0.0.1:6001 64 B`.
    pub cell: String,
    /// Of the whole run, from 0 to 1.
    pub done: f64,
    /// From the start of the cell to the start of the window.
    pub from: Duration,
    /// To its end.
    pub to: Duration,
    /// What happened in between.
    pub window: Window,
}

/// What keeps a run from its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PingError {
    /// Decides the exit status.
    pub kind: PingErrorKind,
    /// What, where and why.
    pub message: String,
}

/// The kinds of [`PingError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingErrorKind {
    /// What was asked for could not be had, or nothing was answered. Exit status 3.
    Setup,
    /// It began well and broke off; what was measured until then stands. Exit status 4.
    Partial,
}

impl PingError {
    pub(crate) fn setup(cause: impl Display) -> Self {
        Self {
            kind: PingErrorKind::Setup,
            message: cause.to_string(),
        }
    }

    fn partial(cause: impl Display) -> Self {
        Self {
            kind: PingErrorKind::Partial,
            message: cause.to_string(),
        }
    }
}

/// What ends a run before its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop<'a> {
    flag: &'a AtomicBool,
}

impl<'a> Stop<'a> {
    pub(crate) fn new(flag: &'a AtomicBool) -> Self {
        Self { flag }
    }

    pub(crate) fn flag(&self) -> &'a AtomicBool {
        self.flag
    }

    /// Whether to end now.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

/// Measures what a checked plan says, cell after cell. Returns when it is done, soon after `stop`
/// becomes true, or when something breaks; all threads are joined and all sockets closed by then.
pub fn run(
    plan: &PingPlan,
    environment: &Environment,
    outputs: Outputs,
    onlooker: &mut Onlooker<'_>,
    stop: &AtomicBool,
) -> PingResult {
    let mut result = PingResult {
        clock: clock::measure(),
        placement: unplaced(&plan.placement),
        evidence: Evidence::default(),
        peer: None,
        same_host: None,
        cells: Vec::new(),
        doubts: Vec::new(),
        interrupted: false,
        error: None,
        failed_outputs: Vec::new(),
    };
    let own = PeerRecord::of(environment);
    let outcome = measure(plan, &own, outputs, onlooker, &Stop::new(stop), &mut result);
    result.interrupted = stop.load(Ordering::Relaxed);
    // What the stop flag broke is no error.
    let any = result.cells.iter().any(|cell| cell.received > 0);
    result.error = outcome
        .err()
        .filter(|_| !result.interrupted)
        .map(|error| match any {
            true => PingError::partial(error.message),
            false => error,
        });
    result
}

/// Has this process open as many descriptors as it may, and refuses connections beyond that.
fn check_descriptors(connections: usize) -> Result<(), PingError> {
    let allowed = sys::descriptor::raise_limit().map_err(PingError::setup)?;
    let needed = (connections + OTHER_DESCRIPTORS) as u64;
    if allowed >= needed {
        return Ok(());
    }
    Err(PingError::setup(format!(
        "--connections: {connections} need {needed} descriptors, and this process may open {allowed} \
         (ulimit -Hn); raise that limit, or ask for fewer"
    )))
}

/// What a run opens besides its connections: second handles for their TCP_INFO, outputs, and what it
/// watches the machine by.
const OTHER_DESCRIPTORS: usize = cell::MOST_HANDLES + 64;

fn measure(
    plan: &PingPlan,
    own: &PeerRecord,
    outputs: Outputs,
    onlooker: &mut Onlooker<'_>,
    stop: &Stop<'_>,
    result: &mut PingResult,
) -> Result<(), PingError> {
    check_descriptors(plan.connections)?;
    let cpus = sys::sched::affinity().map_err(PingError::setup)?;
    let threads = plan.threads_on(cpus.len());
    let seats = seats_for(plan, threads, &cpus).map_err(PingError::setup)?;
    let hold = Hold::take(&plan.placement, &seats.cpus());
    let register = Arc::new(Register::default());
    result.placement = placed(&plan.placement, &seats, &hold, &register);
    try_seats(&plan.placement, &seats, &register).map_err(|why| PingError::setup(why.message))?;
    let samples = outputs
        .samples
        .map(|file| SampleWriter::start(file, sample_names(plan)))
        .transpose()
        .map_err(|cause| PingError::setup(format!("--samples: {cause}")))?;
    let watch = Watch::start(&seats);
    let (started, started_at) = (Instant::now(), SystemTime::now());
    let mut begins = Vec::new();
    let mut first_error = None;
    let cells = plan.addresses.len() * plan.sizes.len();
    for (number, (address, &size)) in plan
        .addresses
        .iter()
        .flat_map(|address| plan.sizes.iter().map(move |size| (address, size)))
        .enumerate()
    {
        if stop.is_set() {
            break;
        }
        let cell = Cell {
            plan,
            address,
            payload_bytes: size,
            number,
            cells,
            threads,
            seats: &seats,
            register: &register,
            own,
            samples: samples.as_ref(),
            stop,
        };
        let begun = started.elapsed();
        match cell.measure(onlooker) {
            Ok(found) => {
                result.same_host = result.same_host.or_else(|| own.same_host(&found.peer));
                result.peer.get_or_insert(found.peer);
                // One for each address is enough, however many sizes.
                let new = |doubt: &Doubt| result.doubts.iter().all(|said| said != doubt);
                let doubts: Vec<Doubt> = found.doubts.into_iter().filter(new).collect();
                result.doubts.extend(doubts);
                begins.push(begun);
                first_error = first_error.or_else(|| why_not_whole(&found.cell));
                result.cells.push(found.cell);
            }
            Err(why) => first_error = first_error.or(Some(why)),
        }
    }
    result.evidence = watch.finish(&result.clock, plan.placement.sched);
    result.evidence.loopback = result.same_host == Some(true);
    result.placement = placed(&plan.placement, &seats, &hold, &register);
    if let Some(Err(cause)) = samples.map(SampleWriter::finish) {
        result.failed_outputs.push(("--samples", cause.to_string()));
    }
    let written = outputs
        .hdr
        .map(|file| write_hdr(file, started_at, &begins, &result.cells));
    if let Some(Err(cause)) = written {
        result.failed_outputs.push(("--hdr", cause.to_string()));
    }
    first_error.map_or(Ok(()), Err)
}

/// `--hdr`: one line a cell, its service times tagged with its address and size.
fn write_hdr(
    file: File,
    started_at: SystemTime,
    begins: &[Duration],
    cells: &[PingCell],
) -> io::Result<()> {
    let lines = begins.iter().zip(cells).filter_map(|(&start, cell)| {
        Some(hlog::Line {
            start,
            duration: Duration::from_secs_f64(cell.elapsed_s),
            tag: format!("{}/{}", cell.address, cell.payload_bytes),
            times: cell.rtt.hdr.as_ref()?,
        })
    });
    let started = started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut to = BufWriter::new(file);
    hlog::write(&mut to, started.as_secs(), &lines.collect::<Vec<_>>())
}

/// A cell that broke off, or that nothing answered.
fn why_not_whole(cell: &PingCell) -> Option<PingError> {
    let at = format!("{} {} B", cell.address, cell.payload_bytes);
    if cell.received > 0 {
        let why = cell.error.as_ref()?;
        return Some(PingError::partial(format!("{at}: {why}")));
    }
    let mut why = format!("{at}: no reply at all to {} pings", cell.sent);
    if cell.corrupted > 0 {
        why = format!("{at}: {} replies, all with other bytes", cell.corrupted);
    } else if cell.late > 0 {
        why = format!("{at}: {} replies, all after the timeout", cell.late);
    }
    if let Some(error) = &cell.error {
        why = format!("{why}: {error}");
    }
    Some(PingError::setup(why))
}

/// One thread sits where the placement says. Several spread over the CPUs of `--cpu`, or go unpinned:
/// on one CPU they would measure each other.
fn seats_for(plan: &PingPlan, threads: usize, allowed: &[usize]) -> Result<Seats, PlacementError> {
    let listed = &plan.placement.cpus;
    if let Some(&cpu) = listed.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(PlacementError::NotAllowed {
            cpu,
            allowed: allowed.to_vec(),
        });
    }
    let mut seats = Seats::choose(&plan.placement)?;
    if threads > 1 && listed.is_empty() {
        (seats.client, seats.server) = (None, None);
        seats.effective = crate::plan::Placement::Free;
        seats.note = Some(format!(
            "{threads} threads are not pinned; --cpu LIST pins them"
        ));
    }
    Ok(seats)
}

/// How the file of samples calls each cell.
fn sample_names(plan: &PingPlan) -> Vec<String> {
    let names = plan.addresses.iter().flat_map(|address| {
        plan.sizes
            .iter()
            .map(move |size| format!("{address},{size}"))
    });
    names.collect()
}

/// A doubt about this run that the machine is not to blame for.
fn doubt(code: &'static str, severity: Severity, message: String, advice: &str) -> Doubt {
    Doubt {
        code: code.into(),
        severity,
        message,
        advice: advice.to_owned(),
        measured: None,
        unit: None,
    }
}

#[cfg(test)]
mod tests;
