//! What the run measures about the machine: the clock, what waking a CPU costs, and who else had it.
//!
//! Judging these figures is left to [`crate::environment`].

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock::{self, now_ns};
use crate::environment::Evidence;
use crate::placement::{Awake, Busy, Seats};
use crate::plan::{PlacementPlan, Sched};
use crate::report::Clock;
use crate::statistics::median;
use crate::sys;

/// What spoils measurements on this machine, as far as that shows in under a second, and its clock. A
/// run finds out more: there the time is the run's, here it is that of the measuring itself.
#[must_use]
pub fn look() -> (Clock, Evidence) {
    let clock = clock::measure();
    let Ok(seats) = Seats::choose(&PlacementPlan::default()) else {
        // Not even this process's CPUs are known: the clock alone is.
        let evidence = Evidence {
            clock_resolution_ns: clock.resolution_ns,
            clock_read_ns: clock.read_ns,
            ..Evidence::default()
        };
        return (clock, evidence);
    };
    let start = Counters::read(Path::new("/"));
    let watch = Watch {
        start,
        ..Watch::start(&seats)
    };
    let evidence = Evidence {
        loopback: false,
        ..watch.finish(&clock, Sched::Other)
    };
    (clock, evidence)
}

/// Counters at the start of a run, and what was measured before it.
#[derive(Debug)]
pub(crate) struct Watch {
    start: Counters,
    halted_ns: Option<f64>,
    awake_ns: Option<f64>,
}

impl Watch {
    /// Measures the cost of waking, with the machine held as it will be, and reads the counters.
    pub(crate) fn start(seats: &Seats) -> Self {
        let halted_ns = wake_cost(seats);
        let awake_ns = halted_ns.and_then(|_| wake_cost_awake(seats));
        Self {
            start: Counters::read(Path::new("/")),
            halted_ns,
            awake_ns,
        }
    }

    /// What it all came to since the start.
    pub(crate) fn finish(&self, clock: &Clock, sched: Sched) -> Evidence {
        let end = Counters::read(Path::new("/"));
        let spent = end.since(&self.start);
        Evidence {
            clock_resolution_ns: clock.resolution_ns,
            clock_read_ns: clock.read_ns,
            wake_halted_ns: self.halted_ns,
            wake_awake_ns: self.awake_ns,
            steal_ticks: spent.steal_ticks,
            total_ticks: spent.total_ticks,
            other_load_percent: spent.other_load_percent,
            throttled_periods: spent.throttled_periods,
            rt_throttling_possible: matches!(sched, Sched::Fifo(_) | Sched::RoundRobin(_))
                && rt_is_throttled(Path::new("/")),
            loopback: true,
        }
    }
}

/// Median time from waking a thread on the server's CPU to its first instruction, the CPU having had
/// nothing to do for a millisecond. `None` where both ends are one CPU: it never halts in between.
fn wake_cost(seats: &Seats) -> Option<f64> {
    if seats.cpus().len() == 1 || sys::sched::affinity().ok()?.len() == 1 {
        return None;
    }
    let bell = &Bell::default();
    let mut costs = Vec::with_capacity(WAKES);
    let kept = &mut costs;
    thread::scope(|scope| {
        let sleeping = thread::Builder::new().spawn_scoped(scope, || {
            if let Some(cpu) = seats.server {
                // Unpinned it measures less exactly, and the seats themselves report the refusal.
                let _ = sys::sched::set_affinity(&[cpu]);
            }
            bell.answer();
        });
        // A system out of threads leaves the cost unknown; whoever needs them for the run says so.
        let sleeper = sleeping.ok()?.thread().clone();
        let stopping = bell.stopping(sleeper.clone());
        let ringing = thread::Builder::new().spawn_scoped(scope, move || {
            let _stops_at_the_end = stopping;
            if let Some(cpu) = seats.client {
                let _ = sys::sched::set_affinity(&[cpu]);
            }
            for _ in 0..WAKES {
                thread::sleep(IDLE);
                kept.extend(bell.ring(&sleeper).map(|cost_ns| cost_ns as f64));
            }
        });
        ringing.ok().map(|_| ())
    })?;
    median(&mut costs)
}

/// The same with idle states switched off; where that is not allowed, with a spinner on each CPU.
fn wake_cost_awake(seats: &Seats) -> Option<f64> {
    if let Ok(_awake) = Awake::hold() {
        return wake_cost(seats);
    }
    let _busy = Busy::on(&seats.cpus()).ok()?;
    wake_cost(seats)
}

/// One thread rings, the other says when it woke.
#[derive(Debug, Default)]
struct Bell {
    rung: AtomicBool,
    woke_ns: AtomicU64,
    stopped: AtomicBool,
}

struct Stopping<'a> {
    bell: &'a Bell,
    sleeper: thread::Thread,
}

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.bell.stopped.store(true, Ordering::Release);
        self.sleeper.unpark();
    }
}

impl Bell {
    fn answer(&self) {
        while !self.stopped.load(Ordering::Acquire) {
            if self.rung.swap(false, Ordering::AcqRel) {
                self.woke_ns.store(now_ns(), Ordering::Release);
            } else {
                thread::park();
            }
        }
    }

    /// Wakes the sleeper and hands back how long that took; `None` if it took over a second.
    fn ring(&self, sleeper: &thread::Thread) -> Option<u64> {
        self.woke_ns.store(0, Ordering::Release);
        let start = now_ns();
        self.rung.store(true, Ordering::Release);
        sleeper.unpark();
        while now_ns() - start < LONGEST_WAKE_NS {
            match self.woke_ns.load(Ordering::Acquire) {
                // Yielding lets the sleeper run where both have to share a CPU after all.
                0 => thread::yield_now(),
                woke => return Some(woke.saturating_sub(start)),
            }
        }
        None
    }

    /// Ends the sleeper when it is dropped, whoever drops it: the thread that rings, or nobody's
    /// closure if that could not be started.
    fn stopping(&self, sleeper: thread::Thread) -> Stopping<'_> {
        Stopping {
            bell: self,
            sleeper,
        }
    }
}

/// Cumulative counters of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    at_ns: u64,
    own_cpu_ns: u64,
    ticks: Option<Ticks>,
    throttled_periods: Option<u64>,
}

/// The `cpu` line of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ticks {
    /// In user and system code, interrupts and steal not included.
    working: u64,
    steal: u64,
    total: u64,
}

/// What happened between two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spent {
    steal_ticks: Option<u64>,
    total_ticks: Option<u64>,
    other_load_percent: Option<f64>,
    throttled_periods: Option<u64>,
}

impl Counters {
    fn read(root: &Path) -> Self {
        Self {
            at_ns: now_ns(),
            own_cpu_ns: sys::clock::process_cpu_ns(),
            ticks: fs::read_to_string(root.join("proc/stat"))
                .ok()
                .and_then(|text| ticks(&text)),
            throttled_periods: throttled_periods(root),
        }
    }

    fn since(&self, start: &Self) -> Spent {
        let ticks = self.ticks.zip(start.ticks).map(|(end, start)| Ticks {
            working: end.working.saturating_sub(start.working),
            steal: end.steal.saturating_sub(start.steal),
            total: end.total.saturating_sub(start.total),
        });
        let own_ns = self.own_cpu_ns.saturating_sub(start.own_cpu_ns) as f64;
        let elapsed_ns = self.at_ns.saturating_sub(start.at_ns) as f64;
        Spent {
            steal_ticks: ticks.map(|ticks| ticks.steal),
            total_ticks: ticks.map(|ticks| ticks.total),
            other_load_percent: ticks.and_then(|ticks| other_load(ticks, own_ns, elapsed_ns)),
            throttled_periods: self
                .throttled_periods
                .zip(start.throttled_periods)
                .map(|(end, start)| end.saturating_sub(start)),
        }
    }
}

/// What others used, in percent of all CPUs' time. `None` within a few ticks: they are too coarse.
fn other_load(ticks: Ticks, own_ns: f64, elapsed_ns: f64) -> Option<f64> {
    if ticks.total < LEAST_TICKS {
        return None;
    }
    // The length of a tick cancels out: all CPUs together had `total` ticks in the elapsed time.
    let cpus = (ticks.total as f64 * TICK_NS / elapsed_ns).max(1.0);
    let own_share = own_ns / (elapsed_ns * cpus);
    let working_share = ticks.working as f64 / ticks.total as f64;
    Some(((working_share - own_share) * 100.0).max(0.0))
}

fn ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    // Guest time is part of user time and must not be counted twice.
    let working = user + nice + system;
    Some(Ticks {
        working,
        steal,
        total: working + idle + iowait + irq + softirq + steal,
    })
}

/// `nr_throttled` of this process's control group, version 2 or 1.
fn throttled_periods(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let mounts: &[&str] = match controllers {
            "" => &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|name| name == "cpu") => {
                &["sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu"]
            }
            _ => &[],
        };
        mounts.iter().find_map(|mount| {
            let text = fs::read_to_string(root.join(mount).join(path).join("cpu.stat")).ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("nr_throttled "))?;
            line.trim().parse().ok()
        })
    })
}

/// Whether the kernel keeps a share of each CPU from real-time threads. Unreadable counts as yes: it
/// is the default.
fn rt_is_throttled(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("proc/sys/kernel/sched_rt_runtime_us"));
    text.ok().and_then(|text| text.trim().parse::<i64>().ok()) != Some(-1)
}

/// Enough for a median that holds still, short enough for a quick run.
const WAKES: usize = 101;
/// Longer than any governor polls before it halts the CPU.
const IDLE: Duration = Duration::from_millis(1);
/// Something is very wrong then, and no figure is better than a wait without end.
const LONGEST_WAKE_NS: u64 = 1_000_000_000;
/// `USER_HZ` has been 100 on every architecture since Linux 2.6.
const TICK_NS: f64 = 10_000_000.0;
/// A fifth of a second of one CPU: below, one tick is 5 %.
const LEAST_TICKS: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 20 30 400 5 6 7 8 50 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_stat_line_is_read_without_counting_guests_twice() {
        assert_eq!(
            ticks(STAT),
            Some(Ticks {
                working: 150,
                steal: 8,
                total: 576
            })
        );
        assert_eq!(ticks("cpu  1 2\n"), None);
        assert_eq!(ticks("intr 5\n"), None);
    }

    #[test]
    fn others_are_what_remains_when_we_are_subtracted() {
        // Two CPUs for a second are 200 ticks; 100 of them worked, of which 0.6 s were ours.
        let ticks = Ticks {
            working: 100,
            steal: 0,
            total: 200,
        };
        let load = other_load(ticks, 0.6e9, 1e9).unwrap();
        assert!((load - 20.0).abs() < 1e-9, "{load}");
    }

    #[test]
    fn a_few_ticks_say_nothing_of_others_and_ours_alone_are_none_of_theirs() {
        assert_eq!(
            other_load(
                Ticks {
                    working: 5,
                    steal: 0,
                    total: 19
                },
                0.0,
                0.1e9
            ),
            None
        );
        let ticks = Ticks {
            working: 100,
            steal: 0,
            total: 200,
        };
        assert_eq!(other_load(ticks, 1.1e9, 1e9), Some(0.0));
    }

    #[test]
    fn throttling_is_read_from_both_versions_of_control_groups() {
        let second = tempfile::tempdir().unwrap();
        write(second.path(), "proc/self/cgroup", "0::/a/b\n");
        write(
            second.path(),
            "sys/fs/cgroup/a/b/cpu.stat",
            "nr_periods 9\nnr_throttled 4\n",
        );
        assert_eq!(throttled_periods(second.path()), Some(4));

        let first = tempfile::tempdir().unwrap();
        write(
            first.path(),
            "proc/self/cgroup",
            "4:memory:/x\n2:cpu,cpuacct:/y\n",
        );
        write(
            first.path(),
            "sys/fs/cgroup/cpu,cpuacct/y/cpu.stat",
            "nr_throttled 7\n",
        );
        assert_eq!(throttled_periods(first.path()), Some(7));
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let nothing = tempfile::tempdir().unwrap();
        let counters = Counters::read(nothing.path());
        let spent = counters.since(&counters);
        assert_eq!(spent.steal_ticks, None);
        assert_eq!(spent.other_load_percent, None);
        assert_eq!(spent.throttled_periods, None);
        assert!(rt_is_throttled(nothing.path()));
    }

    #[test]
    fn real_time_throttling_can_be_off() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/sys/kernel/sched_rt_runtime_us", "-1\n");
        assert!(!rt_is_throttled(root.path()));
        write(
            root.path(),
            "proc/sys/kernel/sched_rt_runtime_us",
            "950000\n",
        );
        assert!(rt_is_throttled(root.path()));
    }

    #[test]
    fn waking_costs_something_where_there_are_two_cpus() {
        let seats = Seats::choose(&PlacementPlan::default()).unwrap();
        let watch = Watch::start(&seats);
        let two = sys::sched::affinity().unwrap().len() > 1;
        assert_eq!(watch.halted_ns.is_some_and(|cost| cost > 0.0), two);
        assert_eq!(watch.awake_ns.is_some(), two);
        let evidence = watch.finish(&clock::measure(), Sched::Other);
        assert!(!evidence.rt_throttling_possible);
        assert!(evidence.loopback);
    }
}
