//! The options of `tautline soak`, and the plan made of them and of a former run.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use tautline::Address;
use tautline_gauge::environment::Environment;
use tautline_gauge::gate::Tables;
use tautline_gauge::plan::Sched;
use tautline_gauge::primes::Limit;
use tautline_gauge::report::soak::Setting;
use tautline_gauge::soak::SoakPlan;

use super::process::ProcessCommand;
use crate::exit::{Exit, Failure};
use crate::load;
use crate::options::{Output, Usage, after_help};
use crate::report;
use crate::values;

/// Soak one receiver with many senders, idle and then under a load of primes: one table per kernel
///
/// Receiver, senders and load are processes, each in a session of its own, as if each had a terminal.
/// The label of the table is --label, or `uname -r`.
#[derive(Debug, Args)]
#[command(after_help = after_help("tautline soak --json kernel.json"))]
pub(crate) struct SoakCommand {
    /// Senders, 1 to 64 [default: 4]
    #[arg(long, value_name = "N", value_parser = values::times)]
    senders: Option<usize>,

    /// Pings of each sender in each phase; k and M are decimal [default: 1000000]
    #[arg(short = 'n', long, value_name = "N", value_parser = values::count)]
    pings: Option<u64>,

    /// Bytes of a ping, 1 to 1048576 [default: 4]
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    size: Option<usize>,

    /// Pings of each sender before each phase, for a second at most [default: 1000]
    #[arg(long, value_name = "N", value_parser = values::count)]
    warmup: Option<u64>,

    /// Idle and loaded so often, 1 to 100 [default: 1]
    #[arg(long, value_name = "N", value_parser = values::times)]
    repeats: Option<usize>,

    /// Ping a `tautline serve` that runs there, tcp or uds, instead of a receiver of our own
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    to: Option<Address>,

    /// Scheduler of our own receiver: other, idle, fifo:N or rr:N, N from 1 to 99 [default: fifo:10]
    #[arg(long, value_name = "POLICY", value_parser = values::sched)]
    receiver_sched: Option<Sched>,

    /// Exit with 3 where a scheduler is refused, instead of going on as other and saying so
    #[arg(long)]
    require_sched: bool,

    /// Keep all processes in the session of this terminal
    #[arg(long)]
    one_session: bool,

    /// Count the primes up to this: 1e10, or auto, which is 1, 2 or 5 times a power of ten whose count
    /// takes about as long beside the pings as the idle phase [default: auto]
    #[arg(long, value_name = "LIMIT", value_parser = values::limit)]
    limit: Option<Limit>,

    /// Threads of the load, 1 to 1024 [default: one for each CPU that may be used]
    #[arg(long, value_name = "N", value_parser = values::times)]
    load_threads: Option<usize>,

    /// Scheduler of the load [default: idle]
    #[arg(long, value_name = "POLICY", value_parser = values::sched)]
    load_sched: Option<Sched>,

    /// Watch timers so long before each phase; 0 is not at all; a bare number is seconds [default: 2]
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    wakeup: Option<Duration>,

    /// Take everything that is not given here from a former run's --json
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath)]
    like: Option<PathBuf>,

    /// Print the page as Markdown
    #[arg(long)]
    pub(super) md: bool,

    /// Mark and stop the kernel's trace at the first ping that takes longer, with its unit; needs
    /// tracefs
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    trace_over: Option<Duration>,

    #[command(flatten)]
    pub(super) output: Output,
}

/// Why there is no plan.
#[derive(Debug)]
pub(super) enum Refusal {
    Usage(Usage),
    Failure(Failure),
}

impl SoakCommand {
    /// The plan, checked.
    pub(super) fn plan(&self) -> Result<SoakPlan, Refusal> {
        let like = match &self.like {
            Some(path) => Some(report::read_soak(path).map_err(Refusal::Failure)?.setting),
            None => None,
        };
        let program = env::current_exe().map_err(|cause| {
            // Its receiver, senders and load are this program started again.
            let why = format!("find this program: {cause}");
            Refusal::Failure(Failure::new(Exit::Unavailable, why))
        })?;
        let plan = self.plan_like(program, like.as_ref());
        plan.map_err(Refusal::Usage)
    }

    fn plan_like(&self, program: PathBuf, like: Option<&Setting>) -> Result<SoakPlan, Usage> {
        let sched = |given: Option<Sched>, of: fn(&Setting) -> &String, default: Sched| {
            let former = like.and_then(|setting| of(setting).parse().ok());
            given.or(former).unwrap_or(default)
        };
        let former_limit = like.and_then(|setting| setting.limit.parse().ok());
        let plan = SoakPlan {
            program,
            arguments: ProcessCommand::arguments(
                self.one_session || like.is_some_and(|of| of.one_session),
            ),
            label: self.output.label.clone().unwrap_or_else(release),
            senders: self
                .senders
                .or_else(|| like.map(|of| of.senders))
                .unwrap_or(4),
            pings: self
                .pings
                .or_else(|| like.map(|of| of.pings))
                .unwrap_or(1_000_000),
            payload_bytes: self
                .size
                .or_else(|| like.map(|of| of.payload_bytes))
                .unwrap_or(4),
            warmup: self
                .warmup
                .or_else(|| like.map(|of| of.warmup))
                .unwrap_or(1_000),
            repeats: self
                .repeats
                .or_else(|| like.map(|of| of.repeats))
                .unwrap_or(1),
            to: self.to.clone().or_else(|| like.and_then(former_address)),
            receiver_sched: sched(
                self.receiver_sched,
                |of| &of.receiver_sched,
                Sched::Fifo(10),
            ),
            require_sched: self.require_sched,
            one_session: self.one_session || like.is_some_and(|of| of.one_session),
            limit: self.limit.or(former_limit).unwrap_or(Limit::Auto),
            load_threads: load::threads(
                self.load_threads.or_else(|| like.map(|of| of.load_threads)),
            )
            .map_err(|_| Usage::new("--load-threads: not within 1 to 1024"))?,
            load_sched: sched(self.load_sched, |of| &of.load_sched, Sched::Idle),
            wakeup: self
                .wakeup
                .or_else(|| like.map(|of| Duration::from_nanos(of.wakeup_ns)))
                .unwrap_or(Duration::from_secs(2)),
            trace_over: self.trace_over,
        };
        self.check(&plan)?;
        Ok(plan)
    }

    fn check(&self, plan: &SoakPlan) -> Result<(), Usage> {
        within("--senders", plan.senders as u64, 64)?;
        within("-n", plan.pings, 1_000_000_000_000)?;
        within("--size", plan.payload_bytes as u64, 1 << 20)?;
        within("--repeats", plan.repeats as u64, 100)?;
        if let Some(Address::Udp { .. } | Address::Tls { .. } | Address::Serial(_)) = &plan.to {
            return Err(Usage::new(
                "--to: soak takes tcp:// and uds:// only; ping measures tls://, udp:// and serial://",
            ));
        }
        if self.to.is_some() && self.receiver_sched.is_some() {
            return Err(Usage::new(
                "--receiver-sched: with --to the receiver is not ours",
            ));
        }
        if plan.trace_over.is_some_and(|over| over.is_zero()) {
            return Err(Usage::new("--trace-over: 0 is below every ping"));
        }
        for gate in &self.output.fail_if {
            let made = Tables {
                soak: true,
                ..Tables::default()
            };
            gate.check(made)
                .map_err(|error| Usage::new(format_args!("--fail-if '{gate}': {error}")))?;
        }
        Ok(())
    }
}

/// A former run against somebody else's receiver means that one again.
fn former_address(setting: &Setting) -> Option<Address> {
    let address = setting.address.as_ref().filter(|_| !setting.own_receiver)?;
    address.parse().ok()
}

fn within(option: &str, number: u64, most: u64) -> Result<(), Usage> {
    if (1..=most).contains(&number) {
        Ok(())
    } else {
        Err(Usage::new(format_args!(
            "{option}: {number} is not within 1 to {most}"
        )))
    }
}

fn release() -> String {
    Environment::read()
        .kernel
        .release
        .unwrap_or_else(|| "kernel unknown".to_owned())
}
