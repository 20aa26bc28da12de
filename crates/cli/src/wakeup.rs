//! `tautline wakeup`: how late timers wake a thread of each CPU.

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use clap::Args;
use tautline_gauge::clock;
use tautline_gauge::environment::{Environment, Evidence};
use tautline_gauge::gate::Tables;
use tautline_gauge::placement;
use tautline_gauge::plan::Sched;
use tautline_gauge::report::text::wakeup::{lines, page};
use tautline_gauge::report::wakeup::WakeupRow;
use tautline_gauge::report::{PlacementRecord, Report, ThreadRecord};
use tautline_gauge::wakeup::{self, WakeupPlan, WakeupResult};

use crate::course::{self, announce, judged, whole_seconds};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::options::{Output, Usage, after_help};
use crate::outputs::{self, Outputs};
use crate::values;

/// Measure how late timers wake a thread: one on each CPU, in the lines of cyclictest
///
/// It keeps no CPU from halting unless --stay-awake: leaving an idle state is part of what is measured.
#[derive(Debug, Args)]
#[command(after_help = after_help("tautline wakeup -t 60 --fail-if 'max > 200us'"))]
pub(crate) struct WakeupCommand {
    /// How long to measure; a bare number is seconds
    #[arg(short = 't', long, value_name = "TIME", default_value = "10", value_parser = values::seconds)]
    duration: Duration,

    /// From one timer to the next, 10us to 1h; a bare number is seconds
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1000us", value_parser = values::seconds)]
    interval: Duration,

    /// Scheduler of the threads: other, idle, fifo:N or rr:N, N from 1 to 99
    #[arg(long, value_name = "POLICY", default_value_t = Sched::Fifo(80), value_parser = values::sched)]
    sched: Sched,

    /// Exit with 3 where --sched is refused, instead of measuring as other and saying so
    #[arg(long)]
    require_sched: bool,

    /// CPUs, such as 2,3 or 2-3, a thread each [default: all that may be used]
    #[arg(long, value_name = "LIST", value_parser = values::cpus)]
    cpu: Option<::std::vec::Vec<usize>>,

    /// Keep idle CPUs from halting: hold /dev/cpu_dma_latency at 0 (usually root's)
    #[arg(long)]
    stay_awake: bool,

    /// Print how often each lateness came, below so many microseconds, 1 to 100000
    #[arg(long, value_name = "US", value_parser = values::times)]
    histogram: Option<usize>,

    #[command(flatten)]
    output: Output,
}

impl WakeupCommand {
    /// Measures, reports, judges.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let plan = self.plan().unwrap_or_else(|usage| usage.exit("wakeup"));
        let output = &self.output;
        if output.print_duration {
            let seconds = whole_seconds(plan.duration);
            return outputs::print(format!("{seconds}\n").as_bytes());
        }
        if self.require_sched
            && let Some(why) = placement::refusal(plan.sched)
        {
            return Err(Failure::new(Exit::Unavailable, format!("--sched {why}")));
        }
        let outputs = Outputs::open(output, "wakeup", None)?;
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::new(Exit::Unavailable, format!("catch signals: {error}")))?;
        let environment = Environment::read();
        announce(plan.duration);
        let mut live = Live::new(outputs.stdout_is_taken());
        let result = wakeup::run(&plan, interrupt.stop(), &mut |rows| live.show(rows))
            .map_err(|error| Failure::new(Exit::Unavailable, error))?;
        live.clear();
        let report = report_of(result, &plan, environment, output.label.clone());
        let (report, gates) = judged(report, &output.fail_if);
        let written = outputs
            .write_page(&report, &page(&report))
            .map_err(Failure::report);
        let signal = interrupt.exit().filter(|_| report.interrupted);
        Ok(signal.or_else(|| written.err()).unwrap_or(gates))
    }

    fn plan(&self) -> Result<WakeupPlan, Usage> {
        if self.duration.is_zero() {
            return Err(Usage::new("-t: 0 leaves no time to measure"));
        }
        if self.interval < LEAST_INTERVAL || self.interval > MOST_INTERVAL {
            let us = self.interval.as_nanos() as f64 / 1e3;
            return Err(Usage::new(format_args!(
                "--interval: {us}us is not within 10us to 1h"
            )));
        }
        if self
            .histogram
            .is_some_and(|us| us == 0 || us > MOST_HISTOGRAM_US)
        {
            return Err(Usage::new(format_args!(
                "--histogram: {} is not within 1 to {MOST_HISTOGRAM_US}",
                self.histogram.unwrap_or(0)
            )));
        }
        for gate in &self.output.fail_if {
            let made = Tables {
                wakeup: true,
                ..Tables::default()
            };
            gate.check(made)
                .map_err(|error| Usage::new(format_args!("--fail-if '{gate}': {error}")))?;
        }
        let allowed = placement::allowed_cpus().map_err(|cause| {
            Usage::new(format_args!("read the CPUs this process may use: {cause}"))
        })?;
        let mut cpus = self.cpu.clone().unwrap_or_else(|| allowed.clone());
        if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(Usage::new(format_args!(
                "--cpu {cpu}: this process may use {allowed:?} only"
            )));
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(WakeupPlan {
            duration: self.duration,
            interval: self.interval,
            sched: self.sched,
            cpus,
            stay_awake: self.stay_awake,
            histogram_us: self.histogram.unwrap_or(0),
        })
    }
}

fn report_of(
    result: WakeupResult,
    plan: &WakeupPlan,
    environment: Environment,
    label: Option<String>,
) -> Report {
    let clock = clock::measure();
    let evidence = Evidence {
        clock_resolution_ns: clock.resolution_ns,
        clock_read_ns: clock.read_ns,
        ..Evidence::default()
    };
    let thread = |row: &WakeupRow| ThreadRecord {
        role: format!("wakeup {}", row.cpu),
        cpus_requested: vec![row.cpu],
        cpus_effective: vec![row.cpu],
        sched_requested: row.sched_requested.clone(),
        sched_effective: row.sched_effective.clone(),
    };
    let placement = PlacementRecord {
        requested: "each".to_owned(),
        threads: result.rows.iter().map(thread).collect(),
        stay_awake: plan.stay_awake && result.stayed_awake,
        keep_cpus_busy: false,
        note: (!result.notes.is_empty()).then(|| result.notes.join("; ")),
    };
    Report {
        label,
        wakeup: result.rows,
        interrupted: result.interrupted,
        ..course::report(environment, evidence, clock, placement)
    }
}

/// The lines while they change, on a terminal and nowhere else.
#[derive(Debug)]
struct Live {
    on: bool,
    shown: usize,
}

impl Live {
    fn new(stdout_is_taken: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            on: stdout().is_terminal() && !dumb && !stdout_is_taken,
            shown: 0,
        }
    }

    fn show(&mut self, rows: &[WakeupRow]) {
        if self.on {
            let text = format!("{}{}", self.back(), lines(rows));
            self.shown = rows.len();
            // A terminal that has gone away is noticed when the page is written.
            let _ = outputs::print(text.as_bytes());
        }
    }

    fn clear(&mut self) {
        if self.on {
            let _ = outputs::print(format!("{}\x1b[J", self.back()).as_bytes());
            self.shown = 0;
        }
    }

    /// To the first of the lines that are shown.
    fn back(&self) -> String {
        match self.shown {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r"),
        }
    }
}

/// Below, a thread is late for the next timer before it has served the last.
const LEAST_INTERVAL: Duration = Duration::from_micros(10);
const MOST_INTERVAL: Duration = Duration::from_secs(3_600);
const MOST_HISTOGRAM_US: usize = 100_000;
