//! The page for a terminal: plain ASCII, at most 100 columns, figures right-aligned, nothing but the
//! report in it. It ends with the three gravest doubts and the next command to type.

pub mod comparison;
pub(crate) mod figures;
mod head;
mod latency;
pub(super) mod lines;
pub mod machine;
mod markdown;
pub(crate) mod media;
mod next;
mod ping;
pub(super) mod section;
pub mod serve;
mod smoke;
pub mod soak;
mod strategy;
mod stream;
pub(super) mod table;
pub mod wakeup;

use self::head::head;
pub(super) use self::head::machine;
use self::latency::{drivers, latency};
use self::lines::{ascii, command_lines};
pub use self::markdown::markdown;
use self::next::next_command;
use self::section::Section;
use self::smoke::{smoke, smoke_runtime};
use self::strategy::{raw_writer, strategy};
use super::Report;
use crate::environment::{Doubt, Severity};
use crate::gate::Outcome;

/// No line is longer: what is pasted into a mail or a log stays as it was.
pub const WIDTH: usize = 100;

/// The page that a run of any kind prints. One that came to no figure has its head and its reason.
#[must_use]
pub fn page(report: &Report) -> String {
    if soak::has_a_phase(report) {
        soak::page(report)
    } else if !report.wakeup.is_empty() {
        wakeup::page(report)
    } else {
        render(report)
    }
}

/// What stands above a page where several follow each other.
#[must_use]
pub fn heading(name: &str) -> String {
    ascii(&format!("==> {name} <==\n"))
}

/// The same in Markdown.
#[must_use]
pub fn markdown_heading(name: &str) -> String {
    ascii(&format!("# {}\n", markdown::escaped(name)))
}

/// The page of `bench`, `ping` and `stream`.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut sections = vec![head(report)];
    sections.extend(tables(report));
    sections.extend(verdicts(report));
    sections.push(doubts(report));
    section::page(&sections)
}

/// What ends every page: gates, how the run ended, doubts.
#[must_use]
pub fn closing(report: &Report) -> String {
    section::page(&closing_sections(report))
}

fn closing_sections(report: &Report) -> Vec<Section> {
    let mut sections = verdicts(report);
    sections.push(doubts(report));
    sections
}

/// Every table that the report holds, with the words that belong to it.
pub(super) fn tables(report: &Report) -> Vec<Section> {
    let mut sections = vec![
        latency(report),
        drivers(report),
        strategy(report),
        raw_writer(report),
        smoke(report),
        smoke_runtime(report),
    ];
    sections.extend(ping::cells(report));
    sections.extend(stream::streams(report));
    sections.push(wakeup::section(report));
    sections.extend(report.soak.iter().flat_map(soak::sections));
    sections.push(absent(report));
    sections.retain(|section| !section.is_empty());
    sections
}

/// What became of the gates, and how the run ended.
pub(super) fn verdicts(report: &Report) -> Vec<Section> {
    vec![gates(report), outcome(report)]
}

fn absent(report: &Report) -> Section {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for absent in &report.absent {
        let cell = format!(
            "{} {} {} B",
            absent.table, absent.transport, absent.payload_bytes
        );
        match reasons
            .iter_mut()
            .find(|(reason, _)| *reason == absent.reason)
        {
            Some((_, cells)) => cells.push(cell),
            None => reasons.push((absent.reason.clone(), vec![cell])),
        }
    }
    let mut section = Section::default();
    for (reason, cells) in &reasons {
        section.words(format!("Absent: {}: {reason}", cells.join(", ")), "  ");
    }
    section
}

fn gates(report: &Report) -> Section {
    let mut section = Section::default();
    for verdict in &report.gates {
        let word = match verdict.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Undecided => "UNDECIDED",
        };
        section.words(format!("Gate {word}: {}", verdict.expression), "  ");
        for finding in &verdict.findings {
            section.words(format!("  {finding}"), "    ");
        }
    }
    section
}

fn outcome(report: &Report) -> Section {
    let mut section = Section::default();
    if report.interrupted {
        section.words(
            "Interrupted: these are the figures until then, and the page is partial.",
            "",
        );
    }
    if let Some(error) = &report.error {
        section.words(format!("Ended early: {error}"), "  ");
    }
    section
}

fn doubts(report: &Report) -> Section {
    const SHOWN: usize = 3;
    let mut section = Section::default();
    let all = report.warnings.len();
    if all > SHOWN {
        let title = format!("Doubts, the gravest {SHOWN} of {all}; the rest is in --json:");
        section.title(title, "");
    } else if all > 0 {
        section.title("Doubts:", "");
    }
    for doubt in report.warnings.iter().take(SHOWN) {
        section.words(doubt_line(doubt), "    ");
    }
    section.lines(command_lines("Next: ", &next_command(report)));
    section
}

/// Names one after the other; an empty list is `none`.
fn words(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

fn doubt_line(doubt: &Doubt) -> String {
    format!(
        "  {} {}: {}; try: {}",
        severity(doubt.severity),
        doubt.code,
        doubt.message,
        doubt.advice
    )
}

/// The word for it: what invalidates figures is not overlooked.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Invalid => "INVALID",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gate::Verdict;
    use crate::report::sample;

    #[test]
    fn the_page_of_a_whole_run() {
        insta::assert_snapshot!(render(&sample::report()));
    }

    #[test]
    fn a_page_says_what_rows_went_over_and_what_tls_costs() {
        insta::assert_snapshot!(render(&sample::media_report()));
    }

    /// A short run with everything that can be said about one that did not go well.
    #[test]
    fn the_page_of_a_run_that_was_ended_early() {
        let mut report = sample::report();
        report.command_line = ["tautline", "bench", "--quick", "--label", "it's"]
            .map(str::to_owned)
            .to_vec();
        report.label = None;
        report.latency.truncate(2);
        report.strategy.truncate(2);
        let cut_short = &mut report.latency[1];
        cut_short.summary = crate::report::RttSummary {
            count: 900,
            p99_ns: None,
            p999_ns: None,
            lost: 2,
            ..cut_short.summary.clone()
        };
        cut_short.drivers.truncate(2);
        for driver in &mut cut_short.drivers {
            (driver.ratio_low, driver.ratio_high) = (None, None);
        }
        report.strategy[0].integrity.corrupted = 1;
        report.strategy[1].accounting_closes = false;
        report.placement.threads[1].sched_requested = "fifo:10".to_owned();
        report.placement.note = Some("only CPU 0 is free".to_owned());
        report.gates = vec![Verdict {
            expression: "p50 > 200us".to_owned(),
            outcome: Outcome::Failed,
            findings: vec!["tcp handoff 16384 B: p50 is 272.0 us".to_owned()],
        }];
        report.interrupted = true;
        report.error = Some("read from tcp://127.0.0.1:4711: connection reset by peer".to_owned());
        insta::assert_snapshot!(render(&report));
    }

    #[test]
    fn a_report_without_a_row_has_its_head_and_its_reason() {
        let mut report = sample::report();
        report.latency.clear();
        report.strategy.clear();
        report.udp_smoke.clear();
        report.absent.clear();
        report.warnings.clear();
        report.placement.threads.clear();
        report.error = Some("listen on tcp://127.0.0.1:1: permission denied".to_owned());
        assert_eq!(
            render(&report),
            "tautline 0.1.0, 2026-08-30T12:46:06Z, as delivered\n\
             Cortex-A78AE, 6 CPUs, Linux 5.15.185-tegra, hypervisor unknown, governor schedutil, \
             idle psci_idle\n\
             placement split\n\
             \n\
             Ended early: listen on tcp://127.0.0.1:1: permission denied\n\
             \n\
             Next: tautline bench --json report.json\n"
        );
    }

    #[test]
    fn the_first_table_says_whose_figures_it_has() {
        let mut report = sample::report();
        for row in &mut report.latency {
            row.driver = Some("direct".to_owned());
            row.drivers.retain(|driver| driver.driver == "direct");
        }
        let page = render(&report);
        assert!(page.contains(
            "\nRound trips by direct: each end is one thread with one blocking call a message\n"
        ));
        assert!(!page.contains("handoff"));
    }

    #[test]
    fn a_table_of_which_nothing_was_measured_is_left_out() {
        let mut report = sample::report();
        for row in &mut report.latency {
            row.summary = crate::report::RttSummary::default();
            row.drivers.clear();
        }
        let page = render(&report);
        assert!(!page.contains("Round trips by"));
        assert!(!page.contains("Beside raw blocking sockets"));
    }

    #[test]
    fn a_label_cannot_write_to_the_terminal() {
        let mut report = sample::report();
        report.label = Some("\u{1b}[31mr\u{e9}d\u{7}".to_owned());
        let page = render(&report);
        assert!(page.contains("?[31mr?d?"));
        assert!(page.chars().all(|c| c == '\n' || (' '..='~').contains(&c)));
    }

    proptest! {
        #[test]
        fn no_line_is_longer_than_the_page(
            ns in 1u64..9_000_000_000,
            ratio in 0.001f64..5_000.0,
            mib in 0.0f64..99_000_000.0,
            many in 0u64..9_000_000_000,
            label in ".{0,300}",
        ) {
            let mut report = sample::report();
            report.label = Some(label.clone());
            report.command_line.push(label);
            for row in &mut report.latency {
                row.summary.p50_ns = Some(ns);
                row.summary.p95_ns = Some(ns);
                row.summary.p99_ns = Some(ns);
                row.summary.p999_ns = Some(ns);
                row.summary.max_ns = Some(ns);
                row.control.p50_ns = Some(ns);
                row.messages_per_s = Some(1e9 / ns as f64);
                row.mib_per_s = Some(1e9 / ns as f64 / 16.0);
                (row.over_5ms, row.over_10ms, row.over_50ms) = (many, many, many);
                for driver in &mut row.drivers {
                    driver.summary.p50_ns = Some(ns);
                    driver.p50_ratio = Some(ratio);
                    driver.ratio_low = Some(ratio * 0.9);
                    driver.ratio_high = Some(ratio * 1.1);
                }
            }
            for row in &mut report.strategy {
                row.accepted_mib_per_s = Some(mib);
                row.received_mib_per_s = Some(mib);
                row.control.received_mib_per_s = Some(mib);
                row.control.ratio = Some(ratio);
                row.dropped_mib = mib;
                row.failed_sends = many;
                row.dropped_messages = many;
                row.pressure_events = many / 1_000;
            }
            let page = render(&report);
            for line in page.lines() {
                prop_assert!(line.len() <= WIDTH, "{}: {line}", line.len());
            }
        }
    }
}
