//! Many senders against one receiver, without load and under it: what kernel people measure by hand
//! with a terminal for each.
//!
//! Receiver, senders and load are processes, each in a session of its own as in a terminal of its own:
//! the scheduler weighs sessions against each other (autogroup), and the idle class only within one.
//! The order is: timers, senders alone; timers beside the count, senders beside it; the count alone.

mod connection;
mod course;
mod crew;
mod moments;
mod phase;
mod process;
mod protocol;
mod ratio;
mod sender;
mod setting;
mod trace;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tautline::Address;

use self::course::Run;
pub use self::process::process;
use crate::clock;
use crate::environment::{Environment, Evidence};
use crate::evidence::Watch;
use crate::placement::Seats;
use crate::plan::{Placement, PlacementPlan, Sched};
use crate::primes::Limit;
use crate::report::Clock;
use crate::report::soak::Soak;
use crate::wire::PeerRecord;

/// What to measure.
#[derive(Debug, Clone)]
pub struct SoakPlan {
    /// The program whose `arguments` make it call [`process`].
    pub program: PathBuf,
    /// Those arguments.
    pub arguments: Vec<String>,
    /// Names the block of the table.
    pub label: String,
    /// Senders.
    pub senders: usize,
    /// Pings of each sender in each phase.
    pub pings: u64,
    /// Bytes of a ping.
    pub payload_bytes: usize,
    /// Pings of each sender before each phase, for a second at most.
    pub warmup: u64,
    /// Idle and loaded, so often.
    pub repeats: usize,
    /// Somebody else's receiver; else there is one of our own on loopback.
    pub to: Option<Address>,
    /// Scheduler of our own receiver.
    pub receiver_sched: Sched,
    /// Whether a refusal of that ends the run.
    pub require_sched: bool,
    /// Keep every process in the session of the program.
    pub one_session: bool,
    /// How far the load counts.
    pub limit: Limit,
    /// Threads of the load.
    pub load_threads: usize,
    /// Scheduler of the load.
    pub load_sched: Sched,
    /// How long timers are watched before each phase; nothing is not at all.
    pub wakeup: Duration,
    /// Stop the kernel's trace when a ping takes longer.
    pub trace_over: Option<Duration>,
}

impl SoakPlan {
    /// How long the plan takes at most on a slow board with nothing going wrong, and with a limit that is
    /// found out: the pings beside a count to a given one go on as long as that takes.
    #[must_use]
    pub fn duration_bound(&self) -> Duration {
        let pings = self.pings.saturating_mul(self.senders as u64);
        let idle = Duration::from_micros(pings.saturating_mul(PING_BOUND_US));
        // Beside the load about three times as long, and the count alone once.
        let repeats = u32::try_from(self.repeats).unwrap_or(u32::MAX);
        idle.saturating_mul(4)
            .saturating_mul(repeats)
            .saturating_add(idle)
            .saturating_add(self.wakeup * 2)
            .saturating_add(Duration::from_secs(5))
    }
}

/// What was found; valid even when the run ended early.
#[derive(Debug)]
pub struct SoakResult {
    /// Everything that the table and the page show.
    pub soak: Soak,
    /// The clock that every figure comes from.
    pub clock: Clock,
    /// What was measured about the machine.
    pub evidence: Evidence,
    /// Who the receiver was.
    pub peer: Option<PeerRecord>,
    /// Whether it is this host.
    pub same_host: Option<bool>,
    /// The stop flag ended the run early.
    pub interrupted: bool,
    /// What ended the run.
    pub error: Option<SoakError>,
}

/// What keeps a run from its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SoakError {
    /// Whether anything had been measured by then.
    pub partial: bool,
    /// What, where and why.
    pub message: String,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct SoakProgress {
    /// What it is at.
    pub part: &'static str,
    /// Parts done of all, from 0 to 1.
    pub done: f64,
}

/// Goes up when the run is to end.
#[derive(Debug, Clone, Copy)]
struct Breaker<'a>(&'a AtomicBool);

impl Breaker<'_> {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Measures what the plan says. Returns when it is done, soon after `stop` goes up, or when something
/// breaks; every process has ended by then.
///
/// To be called on a thread that lives as long as the program does, best the main one: the processes
/// are killed when it ends.
pub fn run(
    plan: &SoakPlan,
    environment: &Environment,
    progress: &mut dyn FnMut(SoakProgress),
    stop: &AtomicBool,
) -> SoakResult {
    let clock = clock::measure();
    let free = PlacementPlan {
        placement: Placement::Free,
        ..PlacementPlan::default()
    };
    let watch = Seats::choose(&free).map(|seats| Watch::start(&seats)).ok();
    let mut run = Run::new(plan, environment, progress, Breaker(stop));
    let outcome = run.whole();
    let Run {
        mut soak,
        idle,
        loaded,
        peer,
        ..
    } = run;
    soak.ratios = ratio::ratios(&idle, &loaded);
    let interrupted = stop.load(Ordering::Relaxed);
    let any = soak.rounds.iter().any(|phase| phase.rtt.count > 0);
    let own = PeerRecord::of(environment);
    let same_host = peer.as_ref().and_then(|peer| own.same_host(peer));
    let mut evidence = watch.map_or_else(Evidence::default, |watch| {
        let sched = match soak.setting.receiver_sched_refused {
            None if soak.setting.own_receiver => plan.receiver_sched,
            _ => Sched::Other,
        };
        watch.finish(&clock, sched)
    });
    // The senders and the load would count as others.
    evidence.other_load_percent = None;
    evidence.loopback = same_host == Some(true);
    SoakResult {
        soak,
        clock,
        evidence,
        same_host,
        peer,
        interrupted,
        // What the stop broke is no error.
        error: outcome
            .err()
            .filter(|_| !interrupted)
            .map(|message| SoakError {
                partial: any,
                message,
            }),
    }
}

/// One ping of one sender among all, on a slow board.
const PING_BOUND_US: u64 = 20;
