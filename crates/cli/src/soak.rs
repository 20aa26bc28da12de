//! `tautline soak`: many senders against one receiver, idle and under load.

mod options;
mod process;

use tautline_gauge::environment::{Doubt, Environment, Severity};
use tautline_gauge::primes::Limit;
use tautline_gauge::report::text::soak::{details, markdown, table};
use tautline_gauge::report::{PlacementRecord, Report, ThreadRecord};
use tautline_gauge::run::Progress;
use tautline_gauge::soak::{self, SoakPlan, SoakResult};

pub(crate) use self::options::SoakCommand;
pub(crate) use self::process::{NAME as PROCESS, ProcessCommand};
use crate::course::{self, announce, judged, whole_seconds};
use crate::exit::{Exit, Failure, say};
use crate::interrupt::Interrupt;
use crate::outputs::{self, Outputs};
use crate::progress::ProgressLine;
use crate::started_at;

impl SoakCommand {
    /// Measures, reports, judges.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(options::Refusal::Usage(usage)) => usage.exit("soak"),
            Err(options::Refusal::Failure(failure)) => return Err(failure),
        };
        let bound = plan.duration_bound();
        if self.output.print_duration {
            return outputs::print(format!("{}\n", whole_seconds(bound)).as_bytes());
        }
        let outputs = Outputs::open(&self.output, "soak", None)?;
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::new(Exit::Unavailable, format!("catch signals: {error}")))?;
        let started_at = started_at::now();
        let environment = Environment::read();
        announce(bound);
        if let Limit::UpTo(limit) = plan.limit {
            say(format_args!(
                "under load the pings go on until it has counted to {limit} once, however long that takes"
            ));
        }
        let result = measure(&plan, &environment, &interrupt);
        let failed = result.error.as_ref().map(|error| {
            say(format_args!("tautline: {error}"));
            if error.partial {
                Exit::Partial
            } else {
                Exit::Unavailable
            }
        });
        let broken = result.soak.rounds.iter().flat_map(|phase| &phase.senders);
        let broken = broken.into_iter().any(|sender| sender.error.is_some());
        let failed = failed.or_else(|| broken.then_some(Exit::Partial));
        let signal = interrupt.exit().filter(|_| result.interrupted);
        let report = report_of(
            result,
            &plan,
            environment,
            started_at,
            self.output.label.clone(),
        );
        let (report, gates) = judged(report, &self.output.fail_if);
        let page = page(&report, self.md);
        let written = outputs.write_page(&report, &page).map_err(Failure::report);
        Ok(signal.or(failed).or_else(|| written.err()).unwrap_or(gates))
    }
}

fn measure(plan: &SoakPlan, environment: &Environment, interrupt: &Interrupt) -> SoakResult {
    let line = ProgressLine::new();
    let mut show = |progress: soak::SoakProgress| {
        line.show(Progress {
            done: progress.done,
            cell: progress.part.to_owned(),
        });
    };
    let result = soak::run(plan, environment, &mut show, interrupt.stop());
    line.clear();
    result
}

fn page(report: &Report, markdown_wanted: bool) -> String {
    let Some(soak) = report.soak.as_ref().filter(|soak| !soak.rounds.is_empty()) else {
        return String::new();
    };
    let rest = tautline_gauge::report::text::closing(report);
    if markdown_wanted {
        return markdown(&[soak]) + "\n" + &rest;
    }
    let mut page = head(report);
    page.push_str(&table(&[soak]));
    page.push('\n');
    page.push_str(&details(soak));
    page.push('\n');
    page.push_str(&rest);
    page
}

/// What the reader has to know before the table: what was refused.
fn head(report: &Report) -> String {
    let mut head = format!("tautline {} soak, {}\n", report.version, report.started_at);
    let setting = report.soak.as_ref().map(|soak| &soak.setting);
    if let Some(refused) = setting.and_then(|setting| setting.receiver_sched_refused.as_ref()) {
        head.push_str(&format!("The receiver ran as other:\n  {refused}\n"));
    }
    head.push('\n');
    head
}

fn report_of(
    result: SoakResult,
    plan: &SoakPlan,
    environment: Environment,
    started_at: String,
    label: Option<String>,
) -> Report {
    let setting = &result.soak.setting;
    let requested = |role: &str| {
        if role == "receiver" {
            plan.receiver_sched.to_string()
        } else if role == "load" {
            plan.load_sched.to_string()
        } else {
            "other".to_owned()
        }
    };
    let threads = setting.processes.iter().map(|process| ThreadRecord {
        role: process.role.clone(),
        cpus_requested: Vec::new(),
        cpus_effective: tautline_gauge::placement::allowed_cpus().unwrap_or_default(),
        sched_requested: requested(&process.role),
        sched_effective: process.sched.clone(),
    });
    let placement = PlacementRecord {
        requested: "free".to_owned(),
        threads: threads.collect(),
        stay_awake: false,
        keep_cpus_busy: false,
        note: setting.receiver_sched_refused.clone(),
    };
    let mut doubts = Vec::new();
    if setting.one_session {
        doubts.push(Doubt {
            code: "one-session".into(),
            severity: Severity::Note,
            message: "all processes share a session: autogroup weighs them as one terminal's"
                .to_owned(),
            advice: "tautline soak".to_owned(),
            measured: None,
            unit: None,
        });
    }
    let mut report = course::report(environment, result.evidence, result.clock, placement);
    report.warnings.extend(doubts);
    Report {
        started_at,
        label,
        peer: result.peer,
        same_host: result.same_host,
        soak: Some(result.soak),
        interrupted: result.interrupted,
        error: result.error.map(|error| error.message),
        ..report
    }
}
