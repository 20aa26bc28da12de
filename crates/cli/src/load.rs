//! `tautline load`: keeps the CPUs busy while something else is measured, and says what it got done.

use std::time::Duration;

use clap::{Args, Subcommand};
use tautline_gauge::placement;
use tautline_gauge::plan::Sched;
use tautline_gauge::primes::{self, Counted, Limit, Plan, Reached};
use tautline_gauge::run::Progress;

use crate::exit::{Exit, Failure, say};
use crate::interrupt::Interrupt;
use crate::options::Usage;
use crate::outputs;
use crate::progress::ProgressLine;
use crate::values;

/// Keep the CPUs busy, for measuring something else beside it
#[derive(Debug, Args)]
pub(crate) struct LoadCommand {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    Primes(PrimesCommand),
}

/// Count primes: a load that says how much it got done, and how long that took
///
/// Prints the count, the limit, the seconds and the threads. Ctrl-C ends it with how far it got.
/// Memory is bounded: some MiB a thread at any limit.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tautline load primes --limit 1e10")]
struct PrimesCommand {
    /// Count the primes up to this: 1e12, 1000000, 10M; or auto, which is 1, 2 or 5 times a power of
    /// ten that takes about -t, or ten seconds without -t
    #[arg(long, value_name = "LIMIT", default_value = "1e12", value_parser = values::limit)]
    limit: Limit,

    /// Threads, 1 to 1024; the scheduler places them [default: one for each CPU that may be used]
    #[arg(long, value_name = "N", value_parser = values::times)]
    threads: Option<usize>,

    /// Scheduler of the threads: other, idle, fifo:N or rr:N, N from 1 to 99
    #[arg(long, value_name = "POLICY", default_value_t = Sched::Idle, value_parser = values::sched)]
    sched: Sched,

    /// Exit with 3 where --sched is refused, instead of counting without and saying so
    #[arg(long)]
    require_sched: bool,

    /// Stop after this time at the latest; a bare number is seconds [default: at the limit]
    #[arg(short = 't', long, value_name = "TIME", value_parser = values::seconds)]
    duration: Option<Duration>,
}

impl LoadCommand {
    /// Counts to the end, to the time, or to a signal.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.kind {
            Kind::Primes(command) => command.run(),
        }
    }
}

impl PrimesCommand {
    fn run(self) -> Result<Exit, Failure> {
        let threads = threads(self.threads).unwrap_or_else(|usage| usage.exit("load"));
        if self.duration.is_some_and(|time| time.is_zero()) {
            Usage::new("-t: 0 leaves no time to count").exit("load")
        }
        let unavailable =
            |error| Failure::new(Exit::Unavailable, format!("start a thread: {error}"));
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::new(Exit::Unavailable, format!("catch signals: {error}")))?;
        let limit = match self.limit {
            Limit::UpTo(limit) => limit,
            Limit::Auto => {
                let time = self.duration.unwrap_or(AUTO_TIME);
                primes::limit_for(time, threads, self.sched, interrupt.stop())
                    .map_err(unavailable)?
            }
        };
        let plan = Plan::once(limit, threads, self.sched);
        if self.require_sched
            && let Some(why) = placement::refusal(self.sched)
        {
            return Err(Failure::new(Exit::Unavailable, format!("--sched {why}")));
        }
        let line = ProgressLine::new();
        let counted = primes::count(&plan, interrupt.stop(), self.duration, &mut |reached| {
            line.show(progress(reached, limit));
        })
        .map_err(unavailable)?;
        line.clear();
        if let Some(why) = &counted.refused {
            say(format_args!(
                "tautline: {why}; it counted as {}",
                counted.sched_effective
            ));
        }
        outputs::print(page(&counted, limit, threads).as_bytes())?;
        match interrupt.exit() {
            Some(signal) if counted.first.is_none() => Ok(signal),
            Some(_) | None => Ok(Exit::Good),
        }
    }
}

/// The number of threads, or one for each CPU.
pub(crate) fn threads(asked: Option<usize>) -> Result<usize, Usage> {
    match asked {
        Some(threads @ 1..=MOST_THREADS) => Ok(threads),
        Some(threads) => Err(Usage::new(format_args!(
            "--threads: {threads} is not within 1 to {MOST_THREADS}"
        ))),
        None => Ok(placement::allowed_cpus().map_or(1, |cpus| cpus.len())),
    }
}

fn progress(reached: Reached, limit: u64) -> Progress {
    Progress {
        done: reached.below as f64 / limit as f64,
        cell: format!("{} primes below {}", reached.primes, reached.below),
    }
}

/// Four lines, a name and a value each.
fn page(counted: &Counted, limit: u64, threads: usize) -> String {
    let sched = &counted.sched_effective;
    let seconds = match counted.first {
        Some(whole) => whole.time_ns as f64 / 1e9,
        None => counted.elapsed.as_secs_f64(),
    };
    let (primes, how_far) = match counted.first {
        Some(whole) => (whole.primes, format!("limit     {limit}")),
        None => (
            counted.reached.primes,
            format!("below     {}, of a limit of {limit}", counted.reached.below),
        ),
    };
    format!(
        "primes    {primes}\n{how_far}\nseconds   {seconds:.3}\nthreads   {threads} as {sched}\n"
    )
}

/// Of `--limit auto` without `-t`.
const AUTO_TIME: Duration = Duration::from_secs(10);
/// As many CPUs as an affinity mask tells apart.
const MOST_THREADS: usize = 1_024;

#[cfg(test)]
mod tests {
    use tautline_gauge::primes::WholeCount;

    use super::*;

    fn counted(first: Option<WholeCount>) -> Counted {
        Counted {
            first,
            whole_counts: first.is_some().into(),
            reached: Reached {
                primes: 5_761_455,
                below: 100_000_000,
            },
            elapsed: Duration::from_millis(1_500),
            sched_effective: "idle".to_owned(),
            refused: None,
        }
    }

    #[test]
    fn a_whole_count_says_count_limit_seconds_threads() {
        let first = WholeCount {
            primes: 50_847_534,
            time_ns: 417_449_900,
        };
        assert_eq!(
            page(&counted(Some(first)), 1_000_000_000, 2),
            "primes    50847534\nlimit     1000000000\nseconds   0.417\nthreads   2 as idle\n"
        );
    }

    #[test]
    fn a_count_that_was_ended_says_how_far_it_got() {
        assert_eq!(
            page(&counted(None), 1_000_000_000_000, 2),
            "primes    5761455\nbelow     100000000, of a limit of 1000000000000\n\
             seconds   1.500\nthreads   2 as idle\n"
        );
    }

    #[test]
    fn threads_are_bounded() {
        assert_eq!(threads(Some(3)), Ok(3));
        assert!(threads(None).unwrap() > 0);
        for number in [0, 1_025] {
            let said = format!("--threads: {number} is not within 1 to 1024");
            assert_eq!(threads(Some(number)), Err(Usage::new(said)));
        }
    }
}
