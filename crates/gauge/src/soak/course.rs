//! The course of a run: which processes are started when, and what becomes of what they say.

use std::time::Duration;

use super::crew::{Crew, Start};
use super::phase::{self, Outcome};
use super::protocol::{Job, LoadLimit, Order, Ready, Word};
use super::setting::{kernel_line, setting};
use super::trace::Trace;
use super::{Breaker, SoakPlan, SoakProgress};
use crate::environment::Environment;
use crate::placement;
use crate::plan::Sched;
use crate::primes::{Limit, TRIAL_LIMIT};
use crate::report::soak::{Process, Slice, Soak};
use crate::report::wakeup::WakeupRow;
use crate::statistics::median;
use crate::wakeup::{self, WakeupPlan};
use crate::wire::PeerRecord;

/// A run under way.
pub(super) struct Run<'a> {
    plan: &'a SoakPlan,
    breaker: Breaker<'a>,
    progress: &'a mut dyn FnMut(SoakProgress),
    parts: usize,
    pub(super) soak: Soak,
    pub(super) idle: Vec<Slice>,
    pub(super) loaded: Vec<Slice>,
    /// Who the receiver is, as it told the first sender.
    pub(super) peer: Option<PeerRecord>,
}

impl<'a> Run<'a> {
    /// Nothing has begun.
    pub(super) fn new(
        plan: &'a SoakPlan,
        environment: &Environment,
        progress: &'a mut dyn FnMut(SoakProgress),
        breaker: Breaker<'a>,
    ) -> Self {
        Self {
            plan,
            breaker,
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
        }
    }

    /// Everything in its order. What is done stands in the report, however this ends.
    pub(super) fn whole(&mut self) -> Result<(), String> {
        if let Some(over) = self.plan.trace_over {
            // Each sender opens its own; that none can is said once, and before anything is measured.
            Trace::open(over.as_nanos() as u64).map_err(|why| format!("--trace-over: {why}"))?;
        }
        let mut receivers = Crew::new();
        let address = self.receiver(&mut receivers)?;
        self.soak.wakeup.idle = self.timers("timers")?;
        for repeat in 0..self.plan.repeats {
            let idle = self.phase("no load", &address, repeat, None)?;
            if repeat == 0 {
                self.loaded_timers()?;
            }
            if self.breaker.is_set() {
                return Ok(());
            }
            let limit = match (self.soak.load.limit, self.plan.limit) {
                (Some(limit), _) | (None, Limit::UpTo(limit)) => LoadLimit::UpTo(limit),
                // What the idle class gets beside the pings is known there only.
                (None, Limit::Auto) => LoadLimit::Within {
                    time_ns: (idle.as_nanos() as u64).max(LEAST_AUTO_NS),
                },
            };
            self.phase("full load", &address, repeat, Some(limit))?;
            if repeat == 0 {
                self.count_alone()?;
            }
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
        limit: Option<LoadLimit>,
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
            Some(limit) => Some(self.load(&mut crew, limit, true)?),
        };
        let outcome = phase::run(
            &mut crew,
            &senders,
            load.as_ref().map(|load| load.0),
            &self.breaker,
        );
        let Outcome {
            mut phase,
            slices,
            limit: found,
            error,
        } = outcome;
        phase.repeat = repeat;
        if let Some((_, ready)) = load {
            phase.load_cpus = ready.cpus;
            let kept = &mut self.soak.load;
            kept.limit = kept.limit.or(ready.limit).or(found);
            kept.threads = self.plan.load_threads;
            kept.sched = Some(ready.sched);
        }
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

    /// The same count with nothing beside it.
    fn count_alone(&mut self) -> Result<(), String> {
        let Some(limit) = self.soak.load.limit.filter(|_| !self.breaker.is_set()) else {
            return Ok(());
        };
        self.advance("the count alone");
        let mut crew = Crew::new();
        let (member, _) = self.load(&mut crew, LoadLimit::UpTo(limit), false)?;
        loop {
            if self.breaker.is_set() {
                crew.tell(member, Order::Enough);
                return Ok(());
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
                    return Ok(());
                }
                Some(Word::Failed(why)) => return Err(format!("the load: {why}")),
                None => return Err("the load ended by itself".to_owned()),
                Some(_) => {}
            }
        }
    }

    fn loaded_timers(&mut self) -> Result<(), String> {
        if self.plan.wakeup.is_zero() || self.breaker.is_set() {
            return Ok(());
        }
        let mut crew = Crew::new();
        let (member, _) = self.load(&mut crew, LoadLimit::UpTo(TRIAL_LIMIT), true)?;
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

/// Of our own receiver: a port of the kernel's choice.
const OWN_ADDRESS: &str = "tcp://127.0.0.1:0";
/// What cyclictest is usually called with.
const WAKEUP_INTERVAL: Duration = Duration::from_millis(1);
const WAKEUP_SCHED: Sched = Sched::Fifo(80);
/// A count that takes less says more about its start than about the load.
const LEAST_AUTO_NS: u64 = 200_000_000;
const READY_LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(100);
