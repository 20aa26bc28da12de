//! How late this machine's timers wake a thread: one thread for each CPU, on absolute timers.
//!
//! It shows what the kernel and the CPU add before any of a message's own way begins. It keeps no CPU
//! awake unless asked: waking from an idle state is part of what is measured.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::now_ns;
use crate::placement::{self, Hold};
use crate::plan::{PlacementPlan, Sched};
use crate::recorder::Recorder;
use crate::report::wakeup::WakeupRow;
use crate::sys;

/// What to measure.
#[derive(Debug, Clone)]
pub struct WakeupPlan {
    /// How long.
    pub duration: Duration,
    /// From one timer to the next.
    pub interval: Duration,
    /// Scheduler of the threads.
    pub sched: Sched,
    /// The CPUs, one thread each.
    pub cpus: Vec<usize>,
    /// Keep idle CPUs from halting meanwhile.
    pub stay_awake: bool,
    /// Count each lateness below so many microseconds; 0 counts none.
    pub histogram_us: usize,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct WakeupResult {
    /// One for each CPU, in the order of the plan.
    pub rows: Vec<WakeupRow>,
    /// Whether `/dev/cpu_dma_latency` was held at zero.
    pub stayed_awake: bool,
    /// What could not be had, and why.
    pub notes: Vec<String>,
    /// The stop flag ended it early.
    pub interrupted: bool,
}

/// Measures until the time is over or `stop` goes up. `onlooker` sees every row about five times a
/// second.
///
/// # Errors
///
/// When a CPU of the plan may not be used, or a thread cannot be started.
pub fn run(
    plan: &WakeupPlan,
    stop: &AtomicBool,
    onlooker: &mut dyn FnMut(&[WakeupRow]),
) -> io::Result<WakeupResult> {
    let held = PlacementPlan {
        stay_awake: plan.stay_awake,
        ..PlacementPlan::default()
    };
    let hold = Hold::take(&held, &plan.cpus);
    let mut notes = hold.notes().to_vec();
    notes.extend(placement::refusal(plan.sched));
    let live: Vec<Live> = plan.cpus.iter().map(|_| Live::default()).collect();
    let over = AtomicBool::new(false);
    let rows = thread::scope(|scope| {
        let mut sleepers = Vec::with_capacity(plan.cpus.len());
        let (ready, readiness) = mpsc::channel();
        for (&cpu, live) in plan.cpus.iter().zip(&live) {
            let (over, ready) = (&over, ready.clone());
            let sleeper = thread::Builder::new()
                .name(format!("wakeup-{cpu}"))
                .spawn_scoped(scope, move || {
                    let seated = seat(cpu, plan, live);
                    let go = seated.is_ok();
                    // The receiver outlives every sleeper.
                    let _ = ready.send(seated.err());
                    go.then(|| sleep(plan, live, over))
                });
            match sleeper {
                Ok(sleeper) => sleepers.push(sleeper),
                Err(cause) => {
                    over.store(true, Ordering::Relaxed);
                    return Err(cause);
                }
            }
        }
        let refused = readiness.iter().take(plan.cpus.len()).flatten().next();
        let started = Instant::now();
        while refused.is_none()
            && started.elapsed() < plan.duration
            && !stop.load(Ordering::Relaxed)
        {
            thread::sleep(STEP.min(plan.duration.saturating_sub(started.elapsed())));
            onlooker(&looks(plan, &live));
        }
        over.store(true, Ordering::Relaxed);
        let recorded = sleepers
            .into_iter()
            .map(|sleeper| sleeper.join().ok().flatten());
        let rows = recorded
            .zip(looks(plan, &live))
            .map(|(found, look)| match found {
                Some(found) => found.row(look),
                None => look,
            })
            .collect();
        refused.map_or(Ok(rows), Err)
    })?;
    Ok(WakeupResult {
        rows,
        stayed_awake: hold.stays_awake(),
        notes,
        interrupted: stop.load(Ordering::Relaxed),
    })
}

/// What a thread shows while it measures.
#[derive(Debug, Default)]
struct Live {
    thread_id: AtomicU64,
    policy: std::sync::OnceLock<String>,
    count: AtomicU64,
    least_ns: AtomicU64,
    last_ns: AtomicU64,
    most_ns: AtomicU64,
    sum_ns: AtomicU64,
}

/// What a thread brings back.
#[derive(Debug)]
struct Found {
    recorder: Recorder,
    last_ns: u64,
    missed: u64,
    histogram_us: Vec<u64>,
    histogram_above: u64,
}

fn seat(cpu: usize, plan: &WakeupPlan, live: &Live) -> io::Result<()> {
    let named =
        |cause: io::Error| io::Error::new(cause.kind(), format!("pin to CPU {cpu}: {cause}"));
    sys::sched::set_affinity(&[cpu]).map_err(named)?;
    // Refused, timers would only be later; and whether the scheduler was refused is read back.
    let _ = sys::sched::set_timer_slack(1);
    let _ = sys::sched::set_scheduler(plan.sched);
    live.thread_id
        .store(sys::sched::gettid().into(), Ordering::Relaxed);
    let effective = sys::sched::scheduler().unwrap_or_else(|_| "unknown".to_owned());
    let _ = live.policy.set(effective);
    Ok(())
}

/// One thread's life: sleep to the next timer, note how late it is.
fn sleep(plan: &WakeupPlan, live: &Live, over: &AtomicBool) -> Found {
    let interval_ns = plan.interval.as_nanos() as u64;
    let mut found = Found {
        recorder: Recorder::new(),
        last_ns: 0,
        missed: 0,
        histogram_us: vec![0; plan.histogram_us],
        histogram_above: 0,
    };
    let mut sum_ns = 0_u64;
    let mut next_ns = now_ns() + interval_ns;
    let end_ns =
        now_ns().saturating_add(u64::try_from(plan.duration.as_nanos()).unwrap_or(u64::MAX));
    while next_ns < end_ns {
        if !wait_until(next_ns, over) {
            break;
        }
        let now = now_ns();
        let late_ns = now.saturating_sub(next_ns);
        found.recorder.record(late_ns);
        found.last_ns = late_ns;
        if plan.histogram_us > 0 {
            match found.histogram_us.get_mut((late_ns / 1_000) as usize) {
                Some(count) => *count += 1,
                None => found.histogram_above += 1,
            }
        }
        sum_ns = sum_ns.wrapping_add(late_ns);
        live.show(late_ns, sum_ns, found.recorder.count());
        next_ns += interval_ns;
        if next_ns < now {
            let behind = (now - next_ns).div_ceil(interval_ns);
            found.missed += behind;
            next_ns += behind * interval_ns;
        }
    }
    found
}

/// Sleeps in steps, so that a stop is noticed however long the interval. Whether it was not stopped.
fn wait_until(then_ns: u64, over: &AtomicBool) -> bool {
    let step_ns = STEP.as_nanos() as u64;
    loop {
        if over.load(Ordering::Relaxed) {
            return false;
        }
        let left_ns = then_ns.saturating_sub(now_ns());
        if left_ns <= step_ns {
            sys::clock::sleep_until_ns(then_ns);
            return true;
        }
        sys::clock::sleep_until_ns(then_ns - left_ns + step_ns);
    }
}

impl Live {
    fn show(&self, late_ns: u64, sum_ns: u64, count: u64) {
        let least_ns = self.least_ns.load(Ordering::Relaxed);
        if count == 1 || late_ns < least_ns {
            self.least_ns.store(late_ns, Ordering::Relaxed);
        }
        self.most_ns.fetch_max(late_ns, Ordering::Relaxed);
        self.last_ns.store(late_ns, Ordering::Relaxed);
        self.sum_ns.store(sum_ns, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
    }
}

/// The rows as far as they are known while it runs.
fn looks(plan: &WakeupPlan, live: &[Live]) -> Vec<WakeupRow> {
    let rows = plan.cpus.iter().zip(live).map(|(&cpu, live)| {
        let count = live.count.load(Ordering::Relaxed);
        let known = |ns: &AtomicU64| (count > 0).then(|| ns.load(Ordering::Relaxed));
        let effective = live.policy.get().cloned().unwrap_or_default();
        WakeupRow {
            cpu,
            thread_id: live.thread_id.load(Ordering::Relaxed) as u32,
            priority: priority(&effective),
            sched_requested: plan.sched.to_string(),
            sched_effective: effective,
            interval_ns: plan.interval.as_nanos() as u64,
            count,
            min_ns: known(&live.least_ns),
            last_ns: known(&live.last_ns),
            mean_ns: known(&live.sum_ns).map(|sum_ns| sum_ns as f64 / count as f64),
            p50_ns: None,
            p99_ns: None,
            p999_ns: None,
            max_ns: known(&live.most_ns),
            missed: 0,
            histogram_us: Vec::new(),
            histogram_above: 0,
        }
    });
    rows.collect()
}

impl Found {
    fn row(self, look: WakeupRow) -> WakeupRow {
        let summary = self.recorder.summary();
        WakeupRow {
            count: summary.count,
            min_ns: summary.min_ns,
            last_ns: (summary.count > 0).then_some(self.last_ns),
            mean_ns: summary.mean_ns,
            p50_ns: summary.p50_ns,
            p99_ns: summary.p99_ns,
            p999_ns: summary.p999_ns,
            max_ns: summary.max_ns,
            missed: self.missed,
            histogram_us: self.histogram_us,
            histogram_above: self.histogram_above,
            ..look
        }
    }
}

/// What follows the colon of a real-time policy.
fn priority(policy: &str) -> u8 {
    let digits = policy.split_once(':').map(|(_, digits)| digits);
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// How soon a stop is noticed, and how often a look is taken.
const STEP: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> WakeupPlan {
        WakeupPlan {
            duration: Duration::from_millis(60),
            interval: Duration::from_millis(1),
            sched: Sched::Other,
            cpus: placement::allowed_cpus().unwrap(),
            stay_awake: false,
            histogram_us: 1_000,
        }
    }

    #[test]
    fn every_cpu_has_a_thread_that_woke() {
        let stop = AtomicBool::new(false);
        let found = run(&plan(), &stop, &mut |_| ()).unwrap();
        assert_eq!(found.rows.len(), plan().cpus.len());
        for row in &found.rows {
            assert!(row.count > 0 && row.thread_id > 0);
            assert!(row.min_ns <= row.last_ns && row.last_ns <= row.max_ns);
            assert_eq!((row.priority, row.sched_effective.as_str()), (0, "other"));
            let counted: u64 = row.histogram_us.iter().sum();
            assert_eq!(counted + row.histogram_above, row.count);
        }
        assert!(!found.interrupted && !found.stayed_awake);
    }

    #[test]
    fn a_stop_ends_it_within_one_long_interval() {
        let stop = AtomicBool::new(false);
        let long = WakeupPlan {
            duration: Duration::from_secs(36_000_000),
            interval: Duration::from_secs(3_600),
            ..plan()
        };
        let found = run(&long, &stop, &mut |_| stop.store(true, Ordering::Relaxed)).unwrap();
        assert!(found.interrupted);
        assert_eq!(found.rows[0].count, 0);
        assert_eq!(found.rows[0].max_ns, None);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_that_names_it() {
        let absent = WakeupPlan {
            cpus: vec![0, 999],
            ..plan()
        };
        let error = run(&absent, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
        assert!(error.to_string().starts_with("pin to CPU 999: "), "{error}");
    }

    #[test]
    fn the_priority_is_the_number_of_the_policy() {
        assert_eq!(priority("fifo:80"), 80);
        assert_eq!(priority("other"), 0);
    }
}
