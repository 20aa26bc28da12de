//! `tautline ping`: its options, the plan made of them, the run, the report.

mod options;
mod values;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use tautline_gauge::environment::Environment;
use tautline_gauge::gate::Tables;
use tautline_gauge::ping::{
    self, Family, Look, Onlooker, PingErrorKind, PingPlan, PingResult, SocketPlan,
};
use tautline_gauge::report::Report;
use tautline_gauge::run::Progress;

pub(crate) use self::options::PingCommand;
use crate::course::{self, announce, judged, whole_seconds};
use crate::exit::{Exit, Failure, say};
use crate::interrupt::Interrupt;
use crate::options::Usage;
use crate::outputs::{self, Outputs};
use crate::progress::ProgressLine;
use crate::started_at;

impl PingCommand {
    /// Measures, reports, judges.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let plan = self.plan().unwrap_or_else(|usage| usage.exit("ping"));
        if self.output.print_duration {
            let seconds = whole_seconds(plan.duration_bound());
            return outputs::print(format!("{seconds}\n").as_bytes());
        }
        let outputs = Outputs::open(&self.output, "ping", None)?;
        let streams = ping::Outputs {
            samples: open("--samples", self.samples.as_deref())?,
            hdr: open("--hdr", self.hdr.as_deref())?,
        };
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::new(Exit::Unavailable, format!("catch signals: {error}")))?;
        self.tls.warn();
        let started_at = started_at::now();
        let environment = Environment::read();
        announce(plan.duration_bound());
        let result = self.measure(&plan, &environment, streams, &interrupt);

        // In the order of what a script wants to know first: a signal, a failure, an output, a gate.
        let signal = interrupt.exit().filter(|_| result.interrupted);
        let failed = result.error.as_ref().map(|error| match error.kind {
            PingErrorKind::Setup => Exit::Unavailable,
            PingErrorKind::Partial => Exit::Partial,
        });
        if let Some(error) = &result.error {
            say(format_args!("tautline: {error}"));
        }
        for (option, why) in &result.failed_outputs {
            say(format_args!("tautline: write {option}: {why}"));
        }
        let streamed = (!result.failed_outputs.is_empty()).then_some(Exit::Partial);
        let report = report_of(result, environment, started_at, self.output.label.clone());
        let (report, gates) = judged(report, &self.output.fail_if);
        let written = outputs.write(&report).map_err(Failure::report);
        Ok(signal
            .or(failed)
            .or(streamed)
            .or_else(|| written.err())
            .unwrap_or(gates))
    }

    fn plan(&self) -> Result<PingPlan, Usage> {
        let sockets = &self.sockets;
        let made = Tables {
            ping: true,
            ..Tables::default()
        };
        for gate in &self.output.fail_if {
            gate.check(made)
                .map_err(|why| Usage::new(format!("--fail-if '{gate}': {why}")))?;
        }
        let duration = self
            .duration
            .or_else(|| self.count.is_none().then_some(DEFAULT_DURATION));
        PingPlan {
            addresses: self.addresses.clone(),
            sizes: self.size.clone(),
            connections: self.connections,
            threads: self.threads,
            count: self.count,
            duration,
            interval: self.interval.unwrap_or_default(),
            rate_hz: self.rate,
            warmup: self.warmup,
            timeout: self.timeout,
            wait_for_server: self.wait_for_server.unwrap_or_default(),
            percentiles: self.percentiles.clone(),
            histogram: self.histogram,
            half_rtt: self.half_rtt,
            load: self.load.clone(),
            socket: SocketPlan {
                family: match (sockets.ipv4, sockets.ipv6) {
                    (true, _) => Some(Family::V4),
                    (_, true) => Some(Family::V6),
                    (false, false) => None,
                },
                bind: sockets.bind,
                interface: sockets.interface.clone(),
                send_buffer_bytes: sockets.sndbuf,
                receive_buffer_bytes: sockets.rcvbuf,
                tos: sockets.tos,
                congestion: sockets.congestion.clone(),
                busy_poll: sockets.so_busy_poll,
            },
            tls: self.tls.options(&self.addresses)?,
            placement: self.place.plan(),
        }
        .checked()
        .map_err(Usage::new)
    }

    fn measure(
        &self,
        plan: &PingPlan,
        environment: &Environment,
        streams: ping::Outputs,
        interrupt: &Interrupt,
    ) -> PingResult {
        let line = ProgressLine::new();
        // The report's output is the report's alone.
        let to_stderr = self.output.json.as_deref() == Some(Path::new("-"));
        let mut onlooker = Onlooker {
            progress: &mut |look| line.show(progress_of(look)),
            every: self.every,
            interval: &mut |look| {
                line.hide_while(|| {
                    let text = interval_line(look);
                    if to_stderr {
                        say(format_args!("{text}"));
                    } else {
                        // A reader that has gone away shows when the report is written.
                        let _ = writeln!(io::stdout().lock(), "{text}");
                    }
                });
            },
        };
        let result = ping::run(plan, environment, streams, &mut onlooker, interrupt.stop());
        line.clear();
        result
    }
}

fn report_of(
    result: PingResult,
    environment: Environment,
    started_at: String,
    label: Option<String>,
) -> Report {
    let base = course::report(environment, result.evidence, result.clock, result.placement);
    let mut warnings = base.warnings.clone();
    warnings.extend(result.doubts);
    warnings.sort_by_key(|doubt| std::cmp::Reverse(doubt.severity));
    Report {
        started_at,
        label,
        peer: result.peer,
        same_host: result.same_host,
        ping: result.cells.first().cloned(),
        cells: result.cells,
        warnings,
        interrupted: result.interrupted,
        error: result.error.map(|error| error.to_string()),
        ..base
    }
}

/// What the live line says of the last tenth of a second.
fn progress_of(look: &Look) -> Progress {
    let seconds = look.to.as_secs_f64();
    let window = &look.window;
    let p50 = window
        .p50_ns()
        .map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
    Progress {
        done: look.done,
        cell: format!(
            "{}  {seconds:.0} s  p50 {p50} us  max {:.1} us",
            look.cell,
            window.max_ns as f64 / 1e3
        ),
    }
}

/// One line of `--every`.
fn interval_line(look: &Look) -> String {
    let window = &look.window;
    let us = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns / 1e3));
    let exact = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
    format!(
        "{}  {:.1}-{:.1} s  sent {}  received {}  us: p50 {}  p99 {}  mean {}  max {}",
        look.cell,
        look.from.as_secs_f64(),
        look.to.as_secs_f64(),
        window.sent,
        window.received,
        exact(window.p50_ns()),
        exact(window.p99_ns()),
        us(window.mean_ns()),
        exact((window.received > 0).then_some(window.max_ns)),
    )
}

/// Opened before the run; what a regular file held is gone, since lines come while it is measured.
fn open(option: &str, path: Option<&Path>) -> Result<Option<File>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    opened.map(Some).map_err(|error| {
        let name = path.display();
        Failure::new(Exit::Unavailable, format!("open {option} {name}: {error}"))
    })
}

const DEFAULT_DURATION: Duration = Duration::from_secs(10);
