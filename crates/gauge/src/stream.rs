//! One-way streams to a server: what the library's link takes, refuses, evicts and delivers, one cell
//! for each address and size.
//!
//! [`StreamPlan`] is validated once, [`run`] measures what it says. The server counts what arrives and
//! tells it at the end, so that every figure of delivery is the receiver's own.

mod cell;
mod live;
pub(crate) mod peer;
mod plan;
mod row;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::cell::Cell;
pub use self::plan::StreamPlan;
use crate::clock;
use crate::environment::{Doubt, Environment, Evidence};
use crate::evidence::Watch;
use crate::placement::{Hold, Register, Seats};
use crate::report::stream::StreamRow;
use crate::report::{Clock, PlacementRecord};
use crate::run::{BenchError, BenchErrorKind, placed, try_seats, unplaced};
use crate::secured;
use crate::wire::PeerRecord;

/// Everything one `stream` found out; what stands here is valid even when the run ended early.
#[derive(Debug, Clone)]
pub struct StreamResult {
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
    pub rows: Vec<StreamRow>,
    /// What is to be doubted of this run in particular.
    pub doubts: Vec<Doubt>,
    /// The stop flag ended the run early.
    pub interrupted: bool,
    /// What ended the run, or kept a cell from being measured whole.
    pub error: Option<BenchError>,
}

/// A look at a run: what happened since the last one.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// `tcp://127.0.0.1:6001 1024 B`.
    pub cell: String,
    /// Of the whole run, from 0 to 1.
    pub done: f64,
    /// From the start of the cell to the start of this stretch.
    pub from: Duration,
    /// To its end.
    pub to: Duration,
    /// Bytes of a message.
    pub payload_bytes: usize,
    /// Sends tried.
    pub offered: u64,
    /// Sends that said `Ok`.
    pub accepted: u64,
    /// Sends that said `Full`.
    pub refused: u64,
    /// Accepted messages that made room for fresher ones.
    pub evicted: u64,
    /// Accepted messages that were given up for their age.
    pub too_old: u64,
    /// Messages of which the kernel has the last byte.
    pub written: u64,
    /// Encoded bytes that wait or are in flight at its end.
    pub waiting_bytes: u64,
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

/// Measures what a checked plan says, cell after cell. Returns when it is done, soon after `stop`
/// becomes true, or when something breaks; all threads are joined and all sockets closed by then.
pub fn run(
    plan: &StreamPlan,
    environment: &Environment,
    onlooker: &mut Onlooker<'_>,
    stop: &AtomicBool,
) -> StreamResult {
    let mut result = StreamResult {
        clock: clock::measure(),
        placement: unplaced(&plan.placement),
        evidence: Evidence::default(),
        peer: None,
        same_host: None,
        rows: Vec::new(),
        doubts: Vec::new(),
        interrupted: false,
        error: None,
    };
    let own = PeerRecord::of(environment);
    let outcome = measure(plan, &own, onlooker, stop, &mut result);
    result.interrupted = stop.load(Ordering::Relaxed);
    // What the stop flag broke is no error.
    result.error = outcome.err().filter(|_| !result.interrupted);
    result
}

fn measure(
    plan: &StreamPlan,
    own: &PeerRecord,
    onlooker: &mut Onlooker<'_>,
    stop: &AtomicBool,
    result: &mut StreamResult,
) -> Result<(), BenchError> {
    let seats = Seats::choose(&plan.placement).map_err(BenchError::setup)?;
    let hold = Hold::take(&plan.placement, &seats.cpus());
    let register = Arc::new(Register::default());
    result.placement = placed(&plan.placement, &seats, &hold, &register);
    try_seats(&plan.placement, &seats, &register)?;
    let watch = Watch::start(&seats);
    let cells = plan.addresses.len() * plan.sizes.len();
    let mut first_error = None;
    for (number, (address, &payload_bytes)) in plan
        .addresses
        .iter()
        .flat_map(|address| plan.sizes.iter().map(move |size| (address, size)))
        .enumerate()
    {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let cell = Cell {
            plan,
            address,
            payload_bytes,
            number,
            cells,
            seat: seats.client("client"),
            register: &register,
            own,
            stop,
        };
        match cell.measure(onlooker) {
            Ok((row, peer)) => {
                result.same_host = result.same_host.or_else(|| own.same_host(&peer));
                result.peer.get_or_insert(peer);
                first_error = first_error.or_else(|| why_not_whole(&row));
                // Once for each address, however many sizes.
                if result
                    .rows
                    .iter()
                    .all(|before| before.address != row.address)
                {
                    result
                        .doubts
                        .extend(secured::doubt(&row.address, &row.medium));
                }
                result.rows.push(row);
            }
            Err(why) => first_error = first_error.or(Some(why)),
        }
    }
    result.evidence = watch.finish(&result.clock, plan.placement.sched);
    result.evidence.loopback = result.same_host == Some(true);
    result.placement = placed(&plan.placement, &seats, &hold, &register);
    let Some(mut error) = first_error else {
        return Ok(());
    };
    if !result.rows.is_empty() {
        error.kind = BenchErrorKind::Partial;
    }
    Err(error)
}

fn why_not_whole(row: &StreamRow) -> Option<BenchError> {
    let why = row.error.as_ref()?;
    let (address, bytes) = (&row.address, row.payload_bytes);
    Some(BenchError::partial(format!("{address} {bytes} B: {why}")))
}

#[cfg(test)]
mod tests;
