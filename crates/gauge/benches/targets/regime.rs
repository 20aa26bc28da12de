//! What the machine is like right now: how long a word from core to core takes, what waking costs, and
//! who else is running.
//!
//! Hosts move virtual CPUs around: a change of these figures between two targets explains a change of
//! everything else.

use std::fs;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tautline_gauge::clock::now_ns;
use tautline_gauge::placement::{Hold, Register, Seats};
use tautline_gauge::plan::{Placement, PlacementPlan, Transport};
use tautline_gauge::statistics::median;

use super::list::Target;
use super::site::{Site, said};

/// What the machine was like before and after a target.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Period {
    pub(crate) target: Target,
    pub(crate) before: Regime,
    pub(crate) after: Regime,
    /// The figures that moved in between, in words.
    pub(crate) changed: Vec<String>,
}

impl Period {
    /// Measures what the machine is like now.
    pub(crate) fn ended(target: Target, before: Regime) -> Result<Self, String> {
        let after = Regime::measure()?;
        Ok(Self {
            target,
            changed: before.changes_to(&after),
            before,
            after,
        })
    }
}

/// Measured before and after each target.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Regime {
    pub(crate) one_core: Option<usize>,
    pub(crate) split: Option<(usize, usize)>,
    /// A flag there and back between two cores that spin; `None` where there is one.
    pub(crate) flag_ns: Option<f64>,
    /// Waking a parked thread on the other core, and being woken by it.
    pub(crate) park_ns: Option<f64>,
    /// The same with both CPUs kept from halting; `None` where that is refused.
    pub(crate) park_awake_ns: Option<f64>,
    /// Threads that ran or wanted to, over the last minute.
    pub(crate) load: Option<f64>,
    /// The kernel's congestion control, which paces streams on loopback too.
    pub(crate) tcp: Option<String>,
    /// What could not be had as asked for.
    pub(crate) notes: Vec<String>,
}

impl Regime {
    /// Takes some tens of milliseconds.
    pub(crate) fn measure() -> Result<Self, String> {
        let plan = |placement, stay_awake| PlacementPlan {
            placement,
            stay_awake,
            ..PlacementPlan::default()
        };
        let one = Seats::choose(&plan(Placement::Same, false)).map_err(said)?;
        let two = Seats::choose(&plan(Placement::Split, false)).map_err(said)?;
        let split = two.client.zip(two.server);
        let mut notes: Vec<String> = one.note.iter().chain(&two.note).cloned().collect();
        let (mut flag_ns, mut park_ns, mut park_awake_ns) = (None, None, None);
        if split.is_some() {
            flag_ns = Some(there_and_back(&two, spin_loop_once, |_| {})?);
            park_ns = Some(there_and_back(&two, park, thread::Thread::unpark)?);
            let hold = Hold::take(&plan(Placement::Split, true), &two.cpus());
            if hold.stays_awake() {
                park_awake_ns = Some(there_and_back(&two, park, thread::Thread::unpark)?);
            }
            notes.extend(hold.notes().iter().cloned());
        }
        Ok(Self {
            one_core: one.client,
            split,
            flag_ns,
            park_ns,
            park_awake_ns,
            load: load(),
            tcp: congestion_control(),
            notes,
        })
    }

    /// The figures that moved by more than [`MOVED`], in words.
    pub(crate) fn changes_to(&self, after: &Self) -> Vec<String> {
        let figures = [
            ("flag", self.flag_ns, after.flag_ns),
            ("park", self.park_ns, after.park_ns),
            ("awake", self.park_awake_ns, after.park_awake_ns),
        ];
        let moved = |(name, before, after): (&str, Option<f64>, Option<f64>)| {
            let (before, after) = before.zip(after)?;
            let times = (after / before).max(before / after);
            let us = |ns: f64| ns / 1_000.0;
            (times > MOVED).then(|| format!("{name} {:.2} -> {:.2} us", us(before), us(after)))
        };
        figures.into_iter().filter_map(moved).collect()
    }

    /// One line, and one more for each note.
    pub(crate) fn render(&self) -> String {
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let us = |ns: Option<f64>| shown(ns.map(|ns| format!("{:.2}", ns / 1_000.0)));
        let split = self
            .split
            .map(|(client, server)| format!("{client},{server}"));
        let mut text = format!(
            "    CPUs: one core {}, split {}; there and back: flag {} us, park {} us, awake {} us; \
             load {}; tcp {}",
            shown(self.one_core.map(|cpu| cpu.to_string())),
            shown(split),
            us(self.flag_ns),
            us(self.park_ns),
            us(self.park_awake_ns),
            shown(self.load.map(|load| format!("{load:.2}"))),
            shown(self.tcp.clone()),
        );
        for note in &self.notes {
            text.push_str("\n    note: ");
            text.push_str(note);
        }
        text
    }
}

/// The median time of a word to the other core and back, each side waiting and waking in its way.
fn there_and_back(seats: &Seats, wait: fn(), wake: fn(&thread::Thread)) -> Result<f64, String> {
    let site = Site {
        transport: Transport::Tcp,
        payload_bytes: 0,
        seats: seats.clone(),
        register: Arc::new(Register::default()),
        veth: None,
    };
    let word = Arc::new(AtomicU64::new(0));
    let (theirs, caller) = (Arc::clone(&word), Arc::new(std::sync::OnceLock::new()));
    let to_wake = Arc::clone(&caller);
    let other = site.spawn(seats.server("word-server"), move || {
        let mut expected = 1;
        loop {
            let seen = theirs.load(Ordering::Acquire);
            if seen == OVER {
                return;
            }
            if seen == expected {
                theirs.store(expected + 1, Ordering::Release);
                to_wake.get().map(wake);
                expected += 2;
            } else {
                wait();
            }
        }
    })?;
    let other_thread = other.thread().clone();
    let asking = site.spawn(seats.client("word-client"), move || {
        // Set once, before the first word.
        let _ = caller.set(thread::current());
        let mut times_ns = Vec::with_capacity(WORDS);
        let end_ns = now_ns() + LONGEST.as_nanos() as u64;
        while times_ns.len() < WORDS && now_ns() < end_ns {
            let mine = 2 * times_ns.len() as u64 + 1;
            let start_ns = now_ns();
            word.store(mine, Ordering::Release);
            wake(&other_thread);
            while word.load(Ordering::Acquire) != mine + 1 {
                wait();
            }
            times_ns.push((now_ns() - start_ns) as f64);
        }
        word.store(OVER, Ordering::Release);
        other_thread.unpark();
        median(&mut times_ns)
    })?;
    let found = asking.join();
    let ended = other.join();
    match (found, ended) {
        (Ok(Some(Some(time_ns))), Ok(Some(()))) => Ok(time_ns),
        _ => Err("the probe of the machine's regime failed".to_owned()),
    }
}

fn spin_loop_once() {
    spin_loop();
}

fn park() {
    thread::park();
}

fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn congestion_control() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    Some(text.trim().to_owned())
}

/// Between two measurements on a machine that holds still there is less.
const MOVED: f64 = 1.3;
const OVER: u64 = u64::MAX;
/// Enough for a median that holds still.
const WORDS: usize = 501;
const LONGEST: Duration = Duration::from_millis(50);
