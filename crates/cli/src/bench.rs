//! `tautline bench`: its options, the plan made of them, the run, the report.

mod ab;
mod options;
mod plan;

use tautline_gauge::environment::Environment;
use tautline_gauge::plan::Plan;
use tautline_gauge::report::{Report, SmokeClass, SmokeVerdict};
use tautline_gauge::run::{self, BenchErrorKind, BenchResult};

pub(crate) use self::options::BenchCommand;
use crate::course::{self, announce, judged, whole_seconds};
use crate::exit::{Exit, Failure, say};
use crate::interrupt::Interrupt;
use crate::outputs::{self, Outputs};
use crate::progress::ProgressLine;
use crate::started_at;

impl BenchCommand {
    /// Measures, reports, judges.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if let Some(commands) = &self.ab.ab {
            return self.compare_commands(commands);
        }
        let plan = self.plan().unwrap_or_else(|usage| usage.exit("bench"));
        let output = self.output();
        if output.print_duration {
            let seconds = whole_seconds(plan.duration_bound());
            return outputs::print(format!("{seconds}\n").as_bytes());
        }
        let outputs = Outputs::open(output, "bench", self.csv())?;
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::new(Exit::Unavailable, format!("catch signals: {error}")))?;
        let started_at = started_at::now();
        let environment = Environment::read();
        announce(plan.duration_bound());
        let result = measure(&plan, &interrupt);

        // In the order of what a script wants to know first: a signal, a failure, an output, a gate.
        let signal = interrupt.exit().filter(|_| result.interrupted);
        let failed = result.error.as_ref().map(|error| match error.kind {
            BenchErrorKind::Setup => Exit::Unavailable,
            BenchErrorKind::Partial => Exit::Partial,
        });
        if let Some(error) = &result.error {
            say(format_args!("tautline: {error}"));
        }
        let failed = failed.or_else(|| nothing_to_measure(&result));
        let report = report_of(
            result,
            environment,
            started_at,
            plan.seed,
            output.label.clone(),
        );
        let (report, gates) = judged(report, &output.fail_if);
        let smoke = smoke_is_clean(&report);
        let written = outputs.write(&report).map_err(Failure::report);
        Ok(signal
            .or(failed)
            .or_else(|| written.err())
            .or_else(|| smoke.err())
            .unwrap_or(gates))
    }
}

/// A payload that does not pass is a check that failed, whoever is to blame.
fn smoke_is_clean(report: &Report) -> Result<(), Exit> {
    let clean = |verdict: &SmokeVerdict| verdict.classification == SmokeClass::None;
    match report.udp_smoke_verdicts.iter().all(clean) {
        true => Ok(()),
        false => Err(Exit::CheckFailed),
    }
}

fn measure(plan: &Plan, interrupt: &Interrupt) -> BenchResult {
    let line = ProgressLine::new();
    let result = run::bench(plan, &mut |progress| line.show(progress), interrupt.stop());
    line.clear();
    result
}

/// A run that measured nothing is no success, however well it went.
fn nothing_to_measure(result: &BenchResult) -> Option<Exit> {
    if result.interrupted
        || !result.latency.is_empty()
        || !result.strategy.is_empty()
        || !result.udp_smoke.is_empty()
    {
        return None;
    }
    let reasons: Vec<String> = result
        .absent
        .iter()
        .map(|absent| {
            format!(
                "{} {} B: {}",
                absent.transport, absent.payload_bytes, absent.reason
            )
        })
        .collect();
    say(format_args!(
        "tautline: there is nothing to measure: {}",
        reasons.join("; ")
    ));
    Some(Exit::Unavailable)
}

fn report_of(
    result: BenchResult,
    environment: Environment,
    started_at: String,
    seed: u64,
    label: Option<String>,
) -> Report {
    Report {
        started_at,
        label,
        peer: result.peer,
        same_host: result.same_host,
        seed,
        latency: result.latency,
        strategy: result.strategy,
        udp_smoke: result.udp_smoke,
        udp_smoke_verdicts: result.udp_smoke_verdicts,
        absent: result.absent,
        interrupted: result.interrupted,
        error: result.error.map(|error| error.to_string()),
        ..course::report(environment, result.evidence, result.clock, result.placement)
    }
}
