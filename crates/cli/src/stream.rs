//! `tautline stream`: its options, the plan made of them, the run, the report.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use tautline::{Address, Strategy};
use tautline_gauge::environment::Environment;
use tautline_gauge::gate::Tables;
use tautline_gauge::report::Report;
use tautline_gauge::run::{BenchErrorKind, Progress};
use tautline_gauge::stream::{self, Look, Onlooker, StreamPlan, StreamResult};

use crate::course::{self, announce, judged, whole_seconds};
use crate::exit::{Exit, Failure, say};
use crate::interrupt::Interrupt;
use crate::options::{OUT, Output, Place, Usage, after_help};
use crate::outputs::{self, Outputs};
use crate::progress::ProgressLine;
use crate::started_at;
use crate::tls::ClientTls;
use crate::values;

/// One-way streams to a `tautline serve`: what a link accepts, refuses, evicts and delivers
///
/// Each address is sent messages of each size, one after the other, as fast as they go or at a rate. The
/// server counts what arrives and tells it at the end.
#[derive(Debug, Args)]
#[command(after_help = after_help("tautline stream 192.168.1.7 --strategy keeplatest --size 64,16Ki"))]
pub(crate) struct StreamCommand {
    /// Servers: HOST[:PORT] (tcp, port 6001), tcp://HOST:PORT, tls://HOST:PORT, udp://HOST:PORT,
    /// uds:///run/x.sock, serial:///dev/ttyUSB0?baud=921600 for one at the other end of a serial line
    #[arg(value_name = "ADDRESS", required = true, value_parser = values::address)]
    addresses: Vec<Address>,

    /// What the link does when its queue is full: reliable waits, besteffort refuses, keeplatest evicts
    /// the oldest message
    #[arg(long, value_name = "STRATEGY", default_value = "reliable", value_parser = values::strategy)]
    strategy: Strategy,

    /// Give up what has waited longer than this in the link's queue, instead of sending it late; not
    /// with reliable [default: nothing]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = values::duration)]
    max_queue_delay: Option<Duration>,

    /// Bytes of a message, framing not counted: 16 to 1048572 over tcp, tls and uds, 32 to 65507 over udp
    /// and serial lines; Ki and Mi are binary
    #[arg(
        long,
        visible_alias = "sizes",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1Ki",
        value_parser = values::size
    )]
    size: Vec<usize>,

    /// Messages a second, on an absolute schedule [default: as fast as they go]
    #[arg(long, value_name = "HZ", allow_hyphen_values = true, value_parser = values::rate)]
    rate: Option<f64>,

    /// How long messages are sent in each cell; a bare number is seconds
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", allow_hyphen_values = true, value_parser = values::seconds)]
    duration: Duration,

    /// Print a line this often while it is measured; a bare number is seconds, 0.1 the least
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = values::every, help_heading = OUT)]
    every: Option<Duration>,

    #[command(flatten)]
    tls: ClientTls,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

impl StreamCommand {
    /// Measures, reports, judges.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let plan = self.plan().unwrap_or_else(|usage| usage.exit("stream"));
        if self.output.print_duration {
            let seconds = whole_seconds(plan.duration_bound());
            return outputs::print(format!("{seconds}\n").as_bytes());
        }
        let outputs = Outputs::open(&self.output, "stream", None)?;
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::new(Exit::Unavailable, format!("catch signals: {error}")))?;
        self.tls.warn();
        let started_at = started_at::now();
        let environment = Environment::read();
        announce(plan.duration_bound());
        let result = self.measure(&plan, &environment, &interrupt);

        // In the order of what a script wants to know first: a signal, a failure, an output, a gate.
        let signal = interrupt.exit().filter(|_| result.interrupted);
        let failed = result.error.as_ref().map(|error| match error.kind {
            BenchErrorKind::Setup => Exit::Unavailable,
            BenchErrorKind::Partial => Exit::Partial,
        });
        if let Some(error) = &result.error {
            say(format_args!("tautline: {error}"));
        }
        let report = report_of(result, environment, started_at, self.output.label.clone());
        let (report, gates) = judged(report, &self.output.fail_if);
        let written = outputs.write(&report).map_err(Failure::report);
        Ok(signal.or(failed).or_else(|| written.err()).unwrap_or(gates))
    }

    fn plan(&self) -> Result<StreamPlan, Usage> {
        let made = Tables {
            stream: true,
            ..Tables::default()
        };
        for gate in &self.output.fail_if {
            gate.check(made)
                .map_err(|why| Usage::new(format!("--fail-if '{gate}': {why}")))?;
        }
        StreamPlan {
            addresses: self.addresses.clone(),
            sizes: self.size.clone(),
            strategy: self.strategy,
            max_queue_delay: self.max_queue_delay,
            rate_hz: self.rate,
            duration: self.duration,
            tls: self.tls.options(&self.addresses)?,
            placement: self.place.plan(),
        }
        .checked()
        .map_err(Usage::new)
    }

    fn measure(
        &self,
        plan: &StreamPlan,
        environment: &Environment,
        interrupt: &Interrupt,
    ) -> StreamResult {
        let line = ProgressLine::new();
        // The report's output is the report's alone.
        let to_stderr = self.output.json.as_deref() == Some(Path::new("-"));
        let mut onlooker = Onlooker {
            progress: &mut |look| {
                line.show(Progress {
                    done: look.done,
                    cell: interval_line(look),
                });
            },
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
        let result = stream::run(plan, environment, &mut onlooker, interrupt.stop());
        line.clear();
        result
    }
}

fn report_of(
    result: StreamResult,
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
        warnings,
        peer: result.peer,
        same_host: result.same_host,
        stream: result.rows,
        interrupted: result.interrupted,
        error: result.error.map(|error| error.to_string()),
        ..base
    }
}

/// One line of `--every`, and of the live line.
fn interval_line(look: &Look) -> String {
    let seconds = look.to.saturating_sub(look.from).as_secs_f64();
    let bytes = look.accepted as f64 * look.payload_bytes as f64;
    let rate = if seconds > 0.0 {
        format!("{:.1}", bytes / f64::from(1 << 20) / seconds)
    } else {
        "-".to_owned()
    };
    let too_old = match look.too_old {
        0 => String::new(),
        messages => format!("too old {messages}  "),
    };
    format!(
        "{}  {:.1}-{:.1} s  accepted {}  refused {}  evicted {}  {too_old}{rate} MiB/s  waiting {:.1} KiB",
        look.cell,
        look.from.as_secs_f64(),
        look.to.as_secs_f64(),
        look.accepted,
        look.refused,
        look.evicted,
        look.waiting_bytes as f64 / 1024.0,
    )
}
