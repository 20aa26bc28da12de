//! The course that every measuring command takes: it says how long it may take, and judges its gates.

use std::time::Duration;

use tautline_gauge::environment::{self, Environment, Evidence};
use tautline_gauge::gate::{Gate, Outcome};
use tautline_gauge::report::{self, Clock, PlacementRecord, Report};

use crate::bundle;
use crate::exit::{Exit, say};
use crate::started_at;

/// A run above ten seconds says first how long it takes.
pub(crate) fn announce(bound: Duration) {
    if bound > Duration::from_secs(10) {
        let seconds = whole_seconds(bound);
        let time = match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
            (0, 0, seconds) => format!("{seconds} s"),
            (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
            (hours, minutes, _) => format!("{hours} h {minutes} min"),
        };
        say(format_args!(
            "takes up to {time} on a quiet machine; Ctrl-C ends it early with what it has by then"
        ));
    }
}

/// The report of a run before anything is filled in: who, where, when, and what to doubt.
pub(crate) fn report(
    environment: Environment,
    evidence: Evidence,
    clock: Clock,
    placement: PlacementRecord,
) -> Report {
    Report {
        schema: report::SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: Some(bundle::build().commit).filter(|commit| commit != "unknown"),
        command_line: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        started_at: started_at::now(),
        label: None,
        boot_id: environment.kernel.boot_id.clone(),
        clock,
        warnings: environment::doubts(&environment, &evidence),
        environment,
        evidence,
        peer: None,
        same_host: None,
        placement,
        seed: 0,
        latency: Vec::new(),
        strategy: Vec::new(),
        ping: None,
        cells: Vec::new(),
        stream: Vec::new(),
        wakeup: Vec::new(),
        soak: None,
        udp_smoke: Vec::new(),
        udp_smoke_verdicts: Vec::new(),
        absent: Vec::new(),
        gates: Vec::new(),
        interrupted: false,
        error: None,
    }
}

/// The report with what became of its gates.
pub(crate) fn judged(mut report: Report, gates: &[Gate]) -> (Report, Exit) {
    report.gates = gates.iter().map(|gate| gate.judge(&report)).collect();
    let passed = report
        .gates
        .iter()
        .all(|verdict| verdict.outcome == Outcome::Passed);
    (
        report,
        if passed {
            Exit::Good
        } else {
            Exit::CheckFailed
        },
    )
}

/// Rounded up: a bound stays one.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
