//! Many senders against one receiver, without load and under it: what kernel people measure by hand
//! with a terminal for each.
//!
//! Receiver, senders and load are processes, each in a session of its own as in a terminal of its own:
//! the scheduler weighs sessions against each other (autogroup), and the idle class only within one.
//! The order is: timers, senders alone; the count alone; timers beside the count; senders beside it.

mod connection;
mod crew;
mod moments;
mod phase;
mod process;
mod protocol;
mod ratio;
mod sender;
mod trace;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tautline::Address;

use self::crew::{Crew, Start};
use self::phase::Outcome;
pub use self::process::process;
use self::protocol::{Job, LoadLimit, Order, Ready, Word};
use crate::clock;
use crate::environment::{Environment, Evidence};
use crate::evidence::Watch;
use crate::placement::{self, Seats};
use crate::plan::{Placement, PlacementPlan, Sched};
use crate::primes::Limit;
use crate::report::Clock;
use crate::report::soak::{KernelLine, Load, Process, Setting, Soak};
use crate::report::wakeup::WakeupRow;
use crate::statistics::median;
use crate::sys;
use crate::wakeup::{self, WakeupPlan};
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
    /// How long the plan takes at most on a slow board with nothing going wrong.
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
    let mut run = Run {
        plan,
        breaker: Breaker(stop),
        progress,
        parts: 0,
        soak: Soak {
            label: plan.label.clone(),
            setting: setting(plan),
            kernel: kernel_line(environment),
            ..Soak::default()
        },
        idle: Vec::new(),
        loaded: Vec::new(),
        peer: None,
    };
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

/// A run under way.
struct Run<'a> {
    plan: &'a SoakPlan,
    breaker: Breaker<'a>,
    progress: &'a mut dyn FnMut(SoakProgress),
    parts: usize,
    soak: Soak,
    idle: Vec<protocol::Slice>,
    loaded: Vec<protocol::Slice>,
    peer: Option<PeerRecord>,
}

impl Run<'_> {
    fn whole(&mut self) -> Result<(), String> {
        if let Some(over) = self.plan.trace_over {
            // Each sender opens its own; that none can is said once, and before anything is measured.
            trace::Trace::open(over.as_nanos() as u64)
                .map_err(|why| format!("--trace-over: {why}"))?;
        }
        let mut receivers = Crew::new();
        let address = self.receiver(&mut receivers)?;
        self.soak.wakeup.idle = self.timers("timers")?;
        let mut limit = None;
        for repeat in 0..self.plan.repeats {
            let idle = self.phase("no load", &address, repeat, None)?;
            if self.breaker.is_set() {
                return Ok(());
            }
            let known = match limit {
                Some(known) => known,
                None => {
                    let known = self.count_alone(idle)?;
                    self.loaded_timers(known)?;
                    known
                }
            };
            limit = Some(known);
            if self.breaker.is_set() {
                return Ok(());
            }
            self.phase("full load", &address, repeat, Some(known))?;
            if self.breaker.is_set() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Our own receiver, or where somebody else's is.
    fn receiver(&mut self, receivers: &mut Crew) -> Result<String, String> {
        if let Some(to) = &self.plan.to {
            self.soak.setting.address = Some(to.to_string());
            return Ok(to.to_string());
        }
        let job = Job::Receiver {
            address: OWN_ADDRESS.to_owned(),
            sched: self.plan.receiver_sched.to_string(),
        };
        let member = receivers.add("receiver".to_owned(), self.start(), &job)?;
        let ready = receivers.ready(member, READY_LIMIT, &self.breaker)?;
        self.note("receiver", receivers.pid(member), &ready);
        let setting = &mut self.soak.setting;
        setting.receiver_sched_effective = Some(ready.sched);
        setting.receiver_sched_refused = ready.refused;
        if let Some(refused) = &setting.receiver_sched_refused
            && self.plan.require_sched
        {
            return Err(format!("--receiver-sched {refused}"));
        }
        let address = ready.address.ok_or("the receiver listens nowhere")?;
        setting.address = Some(address.clone());
        Ok(address)
    }

    /// All senders, and beside them the load if there is a limit. Hands back how long it took.
    fn phase(
        &mut self,
        part: &'static str,
        address: &str,
        repeat: usize,
        limit: Option<u64>,
    ) -> Result<Duration, String> {
        self.advance(part);
        let mut crew = Crew::new();
        let mut senders = Vec::with_capacity(self.plan.senders);
        for number in 1..=self.plan.senders {
            let job = Job::Sender {
                address: address.to_owned(),
                payload_bytes: self.plan.payload_bytes,
                pings: self.plan.pings,
                warmup: self.plan.warmup,
                trace_over_ns: self.plan.trace_over.map(|over| over.as_nanos() as u64),
            };
            let role = format!("sender {number}");
            let member = crew.add(role.clone(), self.start(), &job)?;
            let ready = crew.ready(member, READY_LIMIT, &self.breaker)?;
            self.note(&role, crew.pid(member), &ready);
            self.peer = self.peer.take().or(ready.peer);
            senders.push(member);
        }
        let load = match limit {
            None => None,
            Some(limit) => Some(self.load(&mut crew, LoadLimit::UpTo(limit), true)?),
        };
        let outcome = phase::run(
            &mut crew,
            &senders,
            load.as_ref().map(|load| load.0),
            &self.breaker,
        );
        let cpus = load.and_then(|(_, ready)| ready.cpus);
        let Outcome {
            mut phase,
            slices,
            error,
        } = outcome;
        phase.repeat = repeat;
        phase.load_cpus = cpus;
        let times = phase.senders.iter().filter_map(|sender| sender.time_ns);
        let took = Duration::from_nanos(times.max().unwrap_or(0));
        match limit {
            None => self.idle.extend(slices),
            Some(_) => self.loaded.extend(slices),
        }
        self.soak.rounds.push(phase);
        let primes = self.soak.rounds.iter().filter_map(|phase| phase.primes_ns);
        let mut primes: Vec<f64> = primes.map(|ns| ns as f64).collect();
        self.soak.load.time_ns = median(&mut primes).map(|ns| ns as u64);
        error.map_or(Ok(took), Err)
    }

    /// The count with nothing beside it, and the limit that all counts have from here on.
    fn count_alone(&mut self, idle: Duration) -> Result<u64, String> {
        self.advance("the count alone");
        let limit = match self.plan.limit {
            Limit::UpTo(limit) => LoadLimit::UpTo(limit),
            Limit::Auto => LoadLimit::Within {
                time_ns: (idle.as_nanos() as u64).max(LEAST_AUTO_NS),
            },
        };
        let mut crew = Crew::new();
        let (member, ready) = self.load(&mut crew, limit, false)?;
        let limit = ready
            .limit
            .ok_or("the load does not say how far it counts")?;
        self.soak.load = Load {
            limit: Some(limit),
            threads: self.plan.load_threads,
            sched: Some(ready.sched),
            ..Load::default()
        };
        loop {
            if self.breaker.is_set() {
                crew.tell(member, Order::Enough);
                return Ok(limit);
            }
            let Some(heard) = crew.hear(STEP) else {
                continue;
            };
            match heard.word {
                Some(Word::Whole(whole))
                | Some(Word::Load {
                    whole: Some(whole), ..
                }) => {
                    self.soak.load.primes = Some(whole.primes);
                    self.soak.load.alone_ns = Some(whole.time_ns);
                    return Ok(limit);
                }
                Some(Word::Failed(why)) => return Err(format!("the load: {why}")),
                None => return Err("the load ended by itself".to_owned()),
                Some(_) => {}
            }
        }
    }

    fn loaded_timers(&mut self, limit: u64) -> Result<(), String> {
        if self.plan.wakeup.is_zero() || self.breaker.is_set() {
            return Ok(());
        }
        let mut crew = Crew::new();
        let (member, _) = self.load(&mut crew, LoadLimit::UpTo(limit), true)?;
        self.soak.wakeup.loaded = self.timers("timers beside the load")?;
        crew.tell(member, Order::Enough);
        Ok(())
    }

    /// A load that runs on every CPU by now.
    fn load(
        &mut self,
        crew: &mut Crew,
        limit: LoadLimit,
        repeat: bool,
    ) -> Result<(usize, Ready), String> {
        let job = Job::Load {
            limit,
            threads: self.plan.load_threads,
            sched: self.plan.load_sched.to_string(),
            repeat,
        };
        let member = crew.add("load".to_owned(), self.start(), &job)?;
        let ready = crew.ready(member, READY_LIMIT, &self.breaker)?;
        if let Some(refused) = ready.refused.as_ref().filter(|_| self.plan.require_sched) {
            return Err(format!("--load-sched {refused}"));
        }
        self.note("load", crew.pid(member), &ready);
        Ok((member, ready))
    }

    fn timers(&mut self, part: &'static str) -> Result<Vec<WakeupRow>, String> {
        self.advance(part);
        if self.plan.wakeup.is_zero() {
            return Ok(Vec::new());
        }
        let plan = WakeupPlan {
            duration: self.plan.wakeup,
            interval: WAKEUP_INTERVAL,
            sched: WAKEUP_SCHED,
            cpus: placement::allowed_cpus().map_err(|cause| cause.to_string())?,
            stay_awake: false,
            histogram_us: 0,
        };
        let found =
            wakeup::run(&plan, self.breaker.0, &mut |_| ()).map_err(|cause| cause.to_string())?;
        Ok(found.rows)
    }

    fn start(&self) -> Start<'_> {
        Start {
            program: &self.plan.program,
            arguments: &self.plan.arguments,
        }
    }

    /// The processes of the first of each kind stand for all: later ones are placed alike.
    fn note(&mut self, role: &str, pid: u32, ready: &Ready) {
        let processes = &mut self.soak.setting.processes;
        if processes.iter().all(|process| process.role != role) {
            processes.push(Process {
                role: role.to_owned(),
                pid,
                session: ready.session,
                sched: ready.sched.clone(),
            });
        }
    }

    fn advance(&mut self, part: &'static str) {
        let all = 3 + 2 * self.plan.repeats;
        (self.progress)(SoakProgress {
            part,
            done: self.parts as f64 / all as f64,
        });
        self.parts += 1;
    }
}

fn setting(plan: &SoakPlan) -> Setting {
    Setting {
        senders: plan.senders,
        pings: plan.pings,
        payload_bytes: plan.payload_bytes,
        warmup: plan.warmup,
        repeats: plan.repeats,
        address: None,
        own_receiver: plan.to.is_none(),
        receiver_sched: plan.receiver_sched.to_string(),
        receiver_sched_effective: None,
        receiver_sched_refused: None,
        one_session: plan.one_session,
        limit: plan.limit.to_string(),
        load_threads: plan.load_threads,
        load_sched: plan.load_sched.to_string(),
        wakeup_ns: plan.wakeup.as_nanos() as u64,
        processes: Vec::new(),
    }
}

fn kernel_line(environment: &Environment) -> KernelLine {
    let kernel = &environment.kernel;
    let idle = &environment.idle;
    let idle = [&idle.driver, &idle.governor]
        .into_iter()
        .flatten()
        .cloned()
        .collect::<Vec<_>>();
    let mitigations = environment.mitigations.as_ref().map(|all| {
        let with = |word: &str| all.values().filter(|what| what.starts_with(word)).count();
        format!(
            "{} on, {} vulnerable",
            with("Mitigation"),
            with("Vulnerable")
        )
    });
    KernelLine {
        release: kernel.release.clone(),
        preemption: kernel.preemption.clone(),
        // The coarse clock steps once a tick.
        hz: sys::clock::tick_ns().map(|ns| format!("{:.0}", 1e9 / ns as f64)),
        governor: environment
            .frequency
            .governors
            .as_ref()
            .map(|names| names.join("+")),
        idle: (!idle.is_empty()).then(|| idle.join("/")),
        mitigations,
        autogroup: environment.scheduler.autogroup,
        rt_runtime_us: environment.scheduler.rt_runtime_us,
        boot_id: kernel.boot_id.clone(),
    }
}

/// Of our own receiver: a port of the kernel's choice.
const OWN_ADDRESS: &str = "tcp://127.0.0.1:0";
/// What cyclictest is usually called with.
const WAKEUP_INTERVAL: Duration = Duration::from_millis(1);
const WAKEUP_SCHED: Sched = Sched::Fifo(80);
/// A count that takes less says more about its start than about the load.
const LEAST_AUTO_NS: u64 = 200_000_000;
const READY_LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(100);
/// One ping of one sender among all, on a slow board.
const PING_BOUND_US: u64 = 20;
