//! The CPU load: counts primes on any number of threads, stops when told, goes on where it stopped.
//!
//! The numbers up to the limit are cut into chunks, each the work of one thread; what is known at any
//! moment is the count below the first unfinished chunk. [`Counting`] runs on threads of its own, and
//! [`Plan::repeat`] makes a lasting load of it: no thread ever rests between one whole count and the
//! next.

mod limit;
mod progress;
mod sieve;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub(crate) use self::limit::TRIAL_LIMIT;
pub use self::limit::{LARGEST_LIMIT, Limit, LimitError, Trial, limit_for};
use self::progress::{Chunks, Rounds};
use self::sieve::{Base, Desk};
use crate::plan::Sched;
use crate::sys;

/// What to count, and who counts.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Count the primes up to and including this, at most [`LARGEST_LIMIT`].
    pub limit: u64,
    /// On how many threads. The scheduler places them: a load that is pinned could not be moved out of
    /// the way.
    pub threads: usize,
    /// Under which scheduler.
    pub sched: Sched,
    /// Begin again after each whole count, until stopped.
    pub repeat: bool,
    /// Where an earlier count stopped; the default is at the beginning.
    pub from: Reached,
}

impl Plan {
    /// One whole count from the beginning.
    #[must_use]
    pub fn once(limit: u64, threads: usize, sched: Sched) -> Self {
        Self {
            limit,
            threads,
            sched,
            repeat: false,
            from: Reached::default(),
        }
    }
}

/// How far a count got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// This many primes …
    pub primes: u64,
    /// … lie below this.
    pub below: u64,
}

/// A count from its beginning to the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeCount {
    /// Primes up to the limit.
    pub primes: u64,
    /// How long it took.
    pub time_ns: u64,
}

/// What became of a count that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The first whole count, if there was time for one.
    pub first: Option<WholeCount>,
    /// Whole counts altogether.
    pub whole_counts: u64,
    /// How far the last one got that was begun.
    pub reached: Reached,
    /// How long it ran altogether.
    pub elapsed: Duration,
    /// The scheduler of its threads, read back.
    pub sched_effective: String,
    /// Why the scheduler asked for was refused, if it was.
    pub refused: Option<String>,
}

/// A count that runs. Dropping it stops it.
#[derive(Debug)]
pub struct Counting {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    sched_effective: String,
    refused: Option<String>,
}

impl Counting {
    /// Starts the threads; each has its scheduler before the first number is sieved.
    ///
    /// # Errors
    ///
    /// When a thread cannot be started. A refused scheduler is no error: see [`Counted::refused`].
    pub fn start(plan: &Plan) -> io::Result<Self> {
        let base = Base::new(plan.limit);
        let chunks = Chunks::new(plan.limit, plan.threads, base.segment_numbers());
        let shared = Arc::new(Shared {
            base,
            chunks,
            repeat: plan.repeat,
            started: Instant::now(),
            stop: AtomicBool::new(false),
            cpus_seen: CpuSet::default(),
            segments: AtomicU64::new(0),
            rounds: Mutex::new(Rounds::new(&chunks, plan.from)),
            changed: Condvar::new(),
        });
        let mut counting = Self {
            shared,
            threads: Vec::with_capacity(plan.threads),
            sched_effective: String::new(),
            refused: None,
        };
        let (report, reports) = mpsc::channel();
        for index in 0..plan.threads {
            let (shared, report, sched) = (counting.shared.clone(), report.clone(), plan.sched);
            let worker = thread::Builder::new()
                .name(format!("primes-{index}"))
                .spawn(move || {
                    let set = sys::sched::set_scheduler(sched);
                    let effective = sys::sched::scheduler();
                    // Whoever asked may have gone away with an error of another thread.
                    let _ = report.send((set, effective));
                    drop(report);
                    shared.work();
                })?;
            counting.threads.push(worker);
        }
        drop(report);
        for (set, effective) in reports {
            counting.sched_effective = effective.unwrap_or_else(|_| "unknown".to_owned());
            if let Err(cause) = set {
                counting.refused = Some(format!("--sched {}: {cause}", plan.sched));
            }
        }
        Ok(counting)
    }

    /// The scheduler of its threads, read back.
    #[must_use]
    pub fn sched_effective(&self) -> &str {
        &self.sched_effective
    }

    /// Why the scheduler asked for was refused, if it was.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// On how many different CPUs it has run so far.
    #[must_use]
    pub fn cpus_seen(&self) -> usize {
        self.shared.cpus_seen.count()
    }

    /// The first whole count, once there is one.
    #[must_use]
    pub fn first(&self) -> Option<WholeCount> {
        self.shared.rounds().first
    }

    /// Whether nothing is left to do: a plan that repeats never is finished.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.shared.is_over(&self.shared.rounds())
    }

    /// Whether it ends by itself, after one whole count.
    #[must_use]
    pub fn finishes(&self) -> bool {
        !self.shared.repeat
    }

    /// How many numbers it has been through so far, those of unfinished chunks included.
    fn numbers(&self) -> u64 {
        self.shared.segments.load(Ordering::Relaxed) * self.shared.base.segment_numbers()
    }

    /// How far the count in progress has got.
    #[must_use]
    pub fn reached(&self) -> Reached {
        self.shared.rounds().reached(&self.shared.chunks)
    }

    /// Begins at the beginning, now, on threads that run already; [`Counted::first`] is the first whole
    /// count from here on.
    pub fn restart(&self) {
        self.shared.rounds().restart(self.shared.started.elapsed());
    }

    /// Waits until a whole count ends, or for so long.
    pub fn wait(&self, at_most: Duration) {
        let rounds = self.shared.rounds();
        let (whole_counts, over) = (rounds.whole_counts, self.shared.is_over(&rounds));
        // Nothing depends on which of both ended the wait.
        let _ = self
            .shared
            .changed
            .wait_timeout_while(rounds, at_most, |rounds| {
                !over && rounds.whole_counts == whole_counts
            });
    }

    /// Stops within a segment of each thread, some milliseconds of CPU time.
    #[must_use]
    pub fn stop(mut self) -> Counted {
        self.end();
        let rounds = self.shared.rounds();
        Counted {
            first: rounds.first,
            whole_counts: rounds.whole_counts,
            reached: rounds.reached(&self.shared.chunks),
            elapsed: self.shared.started.elapsed(),
            sched_effective: std::mem::take(&mut self.sched_effective),
            refused: self.refused.take(),
        }
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so; what it counted is in the rounds, or is not.
            let _ = thread.join();
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.end();
    }
}

/// Counts once on the calling thread's time: until it is done, `stop` goes up, or `at_most` has passed.
/// `progress` is called some ten times a second.
///
/// # Errors
///
/// When a thread cannot be started.
pub fn count(
    plan: &Plan,
    stop: &AtomicBool,
    at_most: Option<Duration>,
    progress: &mut dyn FnMut(Reached),
) -> io::Result<Counted> {
    const STEP: Duration = Duration::from_millis(100);
    let counting = Counting::start(plan)?;
    let started = Instant::now();
    while !counting.finished() && !stop.load(Ordering::Relaxed) {
        let left = at_most.map_or(STEP, |most| most.saturating_sub(started.elapsed()));
        if left.is_zero() {
            break;
        }
        counting.wait(left.min(STEP));
        progress(counting.reached());
    }
    Ok(counting.stop())
}

/// What the threads of one count share.
#[derive(Debug)]
struct Shared {
    base: Base,
    chunks: Chunks,
    repeat: bool,
    started: Instant,
    stop: AtomicBool,
    cpus_seen: CpuSet,
    /// Segments begun, whatever became of them.
    segments: AtomicU64,
    rounds: Mutex<Rounds>,
    changed: Condvar,
}

impl Shared {
    /// One thread's life: a chunk, what came of it, the next one.
    fn work(&self) {
        let mut desk = Desk::new(&self.base);
        loop {
            let Some(task) = self.rounds().next_task(&self.chunks, self.repeat) else {
                return;
            };
            let (start, end) = self.chunks.range(task.chunk);
            let at_segment = || {
                self.cpus_seen.add(sys::sched::getcpu());
                self.segments.fetch_add(1, Ordering::Relaxed);
            };
            let Some(primes) = desk.count(&self.base, start, end, &self.stop, at_segment) else {
                return;
            };
            let elapsed = self.started.elapsed();
            if self.rounds().settled(&self.chunks, task, primes, elapsed) {
                self.changed.notify_all();
            }
        }
    }

    fn is_over(&self, rounds: &Rounds) -> bool {
        !self.repeat && rounds.first.is_some()
    }

    fn rounds(&self) -> MutexGuard<'_, Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// CPUs by number, without a lock: those above 1,023 share bits, which no machine of today minds.
#[derive(Debug, Default)]
struct CpuSet {
    words: [AtomicU64; 16],
}

impl CpuSet {
    fn add(&self, cpu: Option<usize>) {
        if let Some(cpu) = cpu {
            let bit = cpu % 1_024;
            self.words[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        let ones = |word: &AtomicU64| word.load(Ordering::Relaxed).count_ones() as usize;
        self.words.iter().map(ones).sum()
    }
}

#[cfg(test)]
mod tests;
