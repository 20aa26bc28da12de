//! The run: does what the plan says, and hands back what it found.
//!
//! [`bench()`] chooses where threads sit, holds the machine, and takes the cells one by one. What broke
//! off or was stopped keeps what had been measured until then.

mod addresses;
mod far_end;
mod latency;
mod medium;
mod meter;
mod plug;
mod remote;
mod site;
mod smoke;
mod strategy;
mod supervise;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use self::addresses::Addresses;
use self::meter::{Budget, Meter};
use self::site::Site;
pub(crate) use self::smoke::HOPELESS as SMOKE_HOPELESS;
use self::supervise::{Pulse, supervise};
use crate::clock;
use crate::environment::Evidence;
use crate::evidence::Watch;
use crate::placement::{Hold, Register, Seats};
use crate::plan::{LatencyPlan, PlacementPlan, Plan, SmokePlan, StrategyPlan, Transport};
use crate::report::{
    Absent, Clock, LatencyRow, PlacementRecord, SmokeRow, SmokeVerdict, StrategyRow,
};
use crate::statistics::{Random, mix};
use crate::wire::PeerRecord;

/// Everything one `bench` found out; what stands here is valid even when the run ended early.
#[derive(Debug, Clone)]
pub struct BenchResult {
    /// The clock that every figure comes from.
    pub clock: Clock,
    /// How the run was placed on the CPUs: asked and effective.
    pub placement: PlacementRecord,
    /// What was measured about the machine.
    pub evidence: Evidence,
    /// Who the first server elsewhere is, where the run was against one.
    pub peer: Option<PeerRecord>,
    /// Whether both ends are one host.
    pub same_host: Option<bool>,
    /// Round trips, one row per transport and payload.
    pub latency: Vec<LatencyRow>,
    /// One-way streams, one row per transport, strategy and payload.
    pub strategy: Vec<StrategyRow>,
    /// The UDP payload smoke test, one row per path and payload.
    pub udp_smoke: Vec<SmokeRow>,
    /// Its verdicts, one per payload.
    pub udp_smoke_verdicts: Vec<SmokeVerdict>,
    /// Cells that were asked for and cannot be, each with its reason.
    pub absent: Vec<Absent>,
    /// The stop flag ended the run early.
    pub interrupted: bool,
    /// What ended the run, when something did.
    pub error: Option<BenchError>,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub done: f64,
    /// What is being measured now: `tcp 64 B, run 1 of 3`.
    pub cell: String,
}

/// What ended a run before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BenchError {
    /// Decides the exit status.
    pub kind: BenchErrorKind,
    /// What, where and why.
    pub message: String,
}

/// The kinds of [`BenchError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchErrorKind {
    /// What was asked for could not be had: connect, bind, a required scheduler. Exit status 3.
    Setup,
    /// It began well and broke off; what was measured until then stands. Exit status 4.
    Partial,
}

impl BenchError {
    pub(crate) fn setup(cause: impl Display) -> Self {
        Self {
            kind: BenchErrorKind::Setup,
            message: cause.to_string(),
        }
    }

    pub(crate) fn partial(cause: impl Display) -> Self {
        Self {
            kind: BenchErrorKind::Partial,
            message: cause.to_string(),
        }
    }
}

/// Measures what a checked plan says. Returns when it is done, soon after `stop` becomes true, or when
/// something breaks; all threads are joined and all sockets closed by then.
///
/// `progress` is called about ten times a second, on the calling thread, which itself measures nothing.
pub fn bench(plan: &Plan, progress: &mut dyn FnMut(Progress), stop: &AtomicBool) -> BenchResult {
    let mut result = BenchResult {
        clock: clock::measure(),
        placement: unplaced(&plan.placement),
        evidence: Evidence::default(),
        peer: None,
        same_host: plan.to.is_empty().then_some(true),
        latency: Vec::new(),
        strategy: Vec::new(),
        udp_smoke: Vec::new(),
        udp_smoke_verdicts: Vec::new(),
        absent: absent(plan),
        interrupted: false,
        error: None,
    };
    let outcome = measure(plan, progress, stop, &mut result);
    result.interrupted = stop.load(Ordering::Relaxed);
    // What the stop flag broke is no error.
    result.error = outcome.err().filter(|_| !result.interrupted);
    if let Some(error) = &mut result.error {
        if !(result.latency.is_empty() && result.strategy.is_empty()) {
            // Whatever could not be had: something was measured.
            error.kind = BenchErrorKind::Partial;
        } else if !plan.to.is_empty() && plan.latency.is_some() {
            // A server elsewhere that agrees and never replies is as good as none.
            error.kind = BenchErrorKind::Setup;
        }
    }
    result
}

fn measure(
    plan: &Plan,
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
    result: &mut BenchResult,
) -> Result<(), BenchError> {
    let seats = Seats::choose(&plan.placement).map_err(BenchError::setup)?;
    let hold = Hold::take(&plan.placement, &seats.cpus());
    let register = Arc::new(Register::default());
    result.placement = placed(&plan.placement, &seats, &hold, &register);
    try_seats(&plan.placement, &seats, &register)?;
    let remotes = remote::find_all(plan, stop).map_err(BenchError::setup)?;
    if let Some(remote) = remotes.first() {
        result.peer = Some(remote.record.clone());
        result.same_host = remote.same_host();
    }
    let addresses = Arc::new(Addresses::new(plan, remotes).map_err(BenchError::setup)?);
    addresses
        .try_all(&plan.transports())
        .map_err(BenchError::setup)?;
    let watch = Watch::start(&seats);
    let mut bench = Bench {
        seats: &seats,
        register: &register,
        addresses: &addresses,
        seed: plan.seed,
        stop,
        meter: Meter::new(plan, progress),
    };
    let outcome = bench.tables(plan, result);
    result.evidence = watch.finish(&result.clock, plan.placement.sched);
    result.evidence.loopback = result.same_host == Some(true);
    result.placement = placed(&plan.placement, &seats, &hold, &register);
    outcome
}

/// What all cells share.
struct Bench<'a> {
    seats: &'a Seats,
    register: &'a Arc<Register>,
    addresses: &'a Arc<Addresses>,
    seed: u64,
    stop: &'a AtomicBool,
    meter: Meter<'a>,
}

impl Bench<'_> {
    fn tables(&mut self, plan: &Plan, result: &mut BenchResult) -> Result<(), BenchError> {
        if let Some(plan) = &plan.latency {
            self.latency_table(plan, &mut result.latency)?;
        }
        if let Some(plan) = &plan.strategy {
            self.strategy_table(plan, &mut result.strategy)?;
        }
        if let Some(plan) = &plan.smoke {
            self.smoke_table(plan, result)?;
        }
        Ok(())
    }

    fn latency_table(
        &mut self,
        plan: &LatencyPlan,
        rows: &mut Vec<LatencyRow>,
    ) -> Result<(), BenchError> {
        let cells = plan.cells();
        let mut budget = Budget::new(plan.budget, cells.len() * plan.runs);
        for (number, (transport, payload_bytes)) in cells.into_iter().enumerate() {
            let seed = mix(self.seed ^ number as u64);
            let address = self.address(transport);
            let mut cell = latency::Cell::new(plan, transport, payload_bytes, address);
            let outcome = self.latency_runs(plan, &mut cell, &mut budget, seed);
            if !cell.is_empty() {
                rows.push(cell.into_row(plan, &mut Random::seeded(seed)));
            }
            outcome?;
        }
        Ok(())
    }

    fn latency_runs(
        &mut self,
        plan: &LatencyPlan,
        cell: &mut latency::Cell,
        budget: &mut Budget,
        seed: u64,
    ) -> Result<(), BenchError> {
        let (transport, payload_bytes) = (cell.transport(), cell.payload_bytes());
        let blocks = (plan.rounds * (plan.drivers.len() + 1)) as f64;
        for run in 0..plan.runs {
            let slice = budget.next_slice();
            let site = self.site(transport, payload_bytes);
            let (pulse, own, found) = (Arc::clone(&site.pulse), plan.clone(), site.clone());
            let mut random = Random::seeded(mix(seed.wrapping_add(run as u64)));
            let name = format!(
                "{transport} {payload_bytes} B, run {} of {}",
                run + 1,
                plan.runs
            );
            self.meter
                .begin(name, plan.run_bound(transport, payload_bytes));
            let mut tick = |done: u64| self.meter.tick(done as f64 / blocks);
            let outcome = supervise(&pulse, self.stop, &mut tick, move || {
                latency::measure(&site, &own, slice, &mut random)
            })
            .map_err(BenchError::partial)?;
            self.meter.end();
            outcome.add_to(cell);
            cell.went_over(found.medium());
            self.go_on(outcome.broken)?;
        }
        Ok(())
    }

    fn strategy_table(
        &mut self,
        plan: &StrategyPlan,
        rows: &mut Vec<StrategyRow>,
    ) -> Result<(), BenchError> {
        let cells = plan.cells();
        let mut budget = Budget::new(plan.budget, cells.len() * plan.runs);
        for (number, (transport, strategy, payload_bytes)) in cells.into_iter().enumerate() {
            let seed = mix(!self.seed ^ number as u64);
            let address = self.address(transport);
            let mut cell = strategy::Cell::new(transport, strategy, payload_bytes, address);
            let outcome = self.strategy_runs(plan, &mut cell, &mut budget, seed);
            rows.extend(cell.into_row());
            outcome?;
        }
        Ok(())
    }

    fn strategy_runs(
        &mut self,
        plan: &StrategyPlan,
        cell: &mut strategy::Cell,
        budget: &mut Budget,
        seed: u64,
    ) -> Result<(), BenchError> {
        let (transport, payload_bytes) = (cell.transport(), cell.payload_bytes());
        let strategy = cell.strategy();
        for run in 0..plan.runs {
            let slice = budget.next_slice();
            let site = self.site(transport, payload_bytes);
            let (pulse, own, found) = (Arc::clone(&site.pulse), plan.clone(), site.clone());
            let mut random = Random::seeded(mix(seed.wrapping_add(run as u64)));
            let name = format!(
                "{transport} {strategy} {payload_bytes} B, run {} of {}",
                run + 1,
                plan.runs
            );
            self.meter.begin(name, plan.run_bound());
            let mut tick = |_| self.meter.tick_by_the_clock();
            let outcome = supervise(&pulse, self.stop, &mut tick, move || {
                strategy::measure(&site, &own, strategy, slice, &mut random)
            })
            .map_err(BenchError::partial)?;
            self.meter.end();
            let broken = outcome.broken.clone();
            cell.add(outcome);
            cell.went_over(found.medium());
            self.go_on(broken)?;
        }
        Ok(())
    }

    fn smoke_table(
        &mut self,
        plan: &SmokePlan,
        result: &mut BenchResult,
    ) -> Result<(), BenchError> {
        for &payload_bytes in &plan.sizes {
            let around = smoke::Surroundings::read();
            let mut rows = Vec::new();
            let outcome = self.smoke_paths(plan, payload_bytes, &mut rows);
            let verdict = smoke::judge(&mut rows, payload_bytes, &around);
            result.udp_smoke.append(&mut rows);
            result.udp_smoke_verdicts.push(verdict);
            outcome?;
        }
        Ok(())
    }

    fn smoke_paths(
        &mut self,
        plan: &SmokePlan,
        payload_bytes: usize,
        rows: &mut Vec<SmokeRow>,
    ) -> Result<(), BenchError> {
        for path in smoke::PATHS {
            let site = self.site(Transport::Udp, payload_bytes);
            let (pulse, own) = (Arc::clone(&site.pulse), plan.clone());
            self.meter.begin(
                format!("smoke udp {payload_bytes} B, {}", path.token()),
                plan.path_bound(payload_bytes),
            );
            let mut tick = |_| self.meter.tick_by_the_clock();
            let outcome = supervise(&pulse, self.stop, &mut tick, move || {
                smoke::measure(&site, &own, path)
            })
            .map_err(BenchError::partial)?;
            self.meter.end();
            rows.extend(outcome.row);
            self.go_on(outcome.broken)?;
        }
        Ok(())
    }

    /// Whether to begin another run.
    fn go_on(&self, broken: Option<Broken>) -> Result<(), BenchError> {
        match broken {
            Some(broken) => Err(broken.into()),
            None if self.stop.load(Ordering::Relaxed) => Err(BenchError::partial("stopped")),
            None => Ok(()),
        }
    }

    /// Of the server elsewhere, as it was typed.
    fn address(&self, transport: Transport) -> Option<String> {
        let remote = self.addresses.remote(transport)?;
        Some(remote.asked.to_string())
    }

    fn site(&self, transport: Transport, payload_bytes: usize) -> Site {
        let pulse = Pulse::new(transport == Transport::Udp);
        let pulse = match self.addresses.remote(transport) {
            Some(_) => pulse.of_one_peer(),
            None => pulse,
        };
        let site = Site {
            transport,
            payload_bytes,
            seats: self.seats.clone(),
            register: Arc::clone(self.register),
            addresses: Arc::clone(self.addresses),
            pulse: Arc::new(pulse),
            agreed: Arc::default(),
        };
        match site
            .plug()
            .and_then(|plug| plug.wire_time(site.wire_bytes()))
        {
            Some(each) => Site {
                pulse: Arc::new(Pulse::new(false).of_slow_messages(each)),
                ..site
            },
            None => site,
        }
    }
}

/// Why one run broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Before anything was measured.
    Setup(String),
    /// Afterwards.
    Partial(String),
}

impl Broken {
    /// What, where and why.
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Setup(message) | Self::Partial(message) => message,
        }
    }

    pub(crate) fn setup(cause: impl Display) -> Self {
        Self::Setup(cause.to_string())
    }
}

impl From<Broken> for BenchError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Setup(message) => Self::setup(message),
            Broken::Partial(message) => Self::partial(message),
        }
    }
}

impl Site {
    /// An error after the start, in the words that help: an error on a socket that the watching thread
    /// closed is silence.
    fn explain(&self, why: String) -> Broken {
        let mut cell = format!("{} {} B", self.transport, self.payload_bytes);
        if let Some(remote) = self.remote() {
            cell = format!("{} {} B", remote.asked, self.payload_bytes);
        }
        Broken::Partial(match self.pulse.is_closed() {
            true => format!(
                "{cell}: nothing arrived for {} s",
                self.pulse.silence().as_secs()
            ),
            false => format!("{cell}: {why}"),
        })
    }
}

/// Takes both kinds of seat once on threads that end at once, so that a required scheduler which is
/// refused ends the run before it begins.
pub(crate) fn try_seats(
    plan: &PlacementPlan,
    seats: &Seats,
    register: &Register,
) -> Result<(), BenchError> {
    thread::scope(|scope| {
        thread::Builder::new()
            .spawn_scoped(scope, || seats.client("client").take(register))
            .map_err(|cause| BenchError::setup(format_args!("start a thread: {cause}")))?
            .join()
            .expect("taking a seat does not panic")
            .map_err(BenchError::setup)
    })?;
    match register.refusal() {
        Some(refused) if plan.require_sched => Err(BenchError::setup(refused)),
        Some(_) | None => Ok(()),
    }
}

/// What is known of the placement when none could be had.
pub(crate) fn unplaced(plan: &PlacementPlan) -> PlacementRecord {
    PlacementRecord {
        requested: plan.placement.to_string(),
        threads: Vec::new(),
        stay_awake: false,
        keep_cpus_busy: false,
        note: None,
    }
}

pub(crate) fn placed(
    plan: &PlacementPlan,
    seats: &Seats,
    hold: &Hold,
    register: &Register,
) -> PlacementRecord {
    let notes = seats
        .note
        .iter()
        .chain(hold.notes())
        .cloned()
        .chain(register.refusal());
    let note = notes.collect::<Vec<_>>().join("; ");
    PlacementRecord {
        requested: plan.placement.to_string(),
        threads: register.threads(),
        stay_awake: hold.stays_awake(),
        keep_cpus_busy: hold.keeps_cpus_busy(),
        note: (!note.is_empty()).then_some(note),
    }
}

/// The payloads that do not fit a datagram, for each table that asked for them.
fn absent(plan: &Plan) -> Vec<Absent> {
    let latency = plan
        .latency
        .iter()
        .map(|plan| ("latency", &plan.transports, &plan.sizes));
    let strategy = plan
        .strategy
        .iter()
        .map(|plan| ("strategy", &plan.transports, &plan.sizes));
    let mut absent = Vec::new();
    for (table, transports, sizes) in latency.chain(strategy) {
        for &transport in transports {
            let limit = transport.payload_limit_bytes();
            absent.extend(
                sizes
                    .iter()
                    .filter(|&&size| size > limit)
                    .map(|&payload_bytes| Absent {
                        table: table.into(),
                        transport: transport.to_string(),
                        payload_bytes,
                        reason: format!("a datagram carries {limit} bytes at most"),
                    }),
            );
        }
    }
    absent
}
