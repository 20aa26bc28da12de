//! The page for a terminal: plain ASCII, at most 100 columns, figures right-aligned, nothing but the
//! report in it. It ends with the three gravest doubts and the next command to type.

mod figures;
mod lines;
mod table;

use std::fmt::Write as _;

use self::figures::{absent_figure, count, micros, optional, percent, rate, ratio};
use self::lines::{ascii, command_lines, wrapped};
use self::table::{Column, Table};
use super::{DriverRow, LatencyRow, Percentile, Report, StrategyRow, ThreadRecord};
use crate::environment::{Doubt, Environment, Severity};
use crate::gate::Outcome;

/// No line is longer: what is pasted into a mail or a log stays as it was.
pub const WIDTH: usize = 100;

/// The whole page.
#[must_use]
pub fn render(report: &Report) -> String {
    let sections = [
        head(report),
        latency(report),
        drivers(report),
        strategy(report),
        raw_writer(report),
        absent(report),
        gates(report),
        outcome(report),
        doubts(report),
    ];
    let mut page = String::new();
    for section in sections.iter().filter(|section| !section.is_empty()) {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(section);
    }
    ascii(&page)
}

/// The machine in one line: what of it fits, most telling first.
#[must_use]
pub fn machine(environment: &Environment) -> String {
    let unknown = || "unknown".to_owned();
    let cpu = &environment.cpu;
    let cpus = match (cpu.logical, cpu.cores) {
        (Some(logical), Some(cores)) if logical != cores => {
            format!("{logical} CPUs on {cores} cores")
        }
        (Some(1), _) => "1 CPU".to_owned(),
        (Some(logical), _) => format!("{logical} CPUs"),
        (None, _) => "CPUs unknown".to_owned(),
    };
    let kernel = &environment.kernel;
    let mut parts = vec![
        cpu.model.as_ref().map_or_else(
            || "CPU model unknown".to_owned(),
            // The longest in use have some 48; a longer one must not drive out the rest.
            |model| model.chars().take(50).collect(),
        ),
        cpus,
        format!("Linux {}", kernel.release.clone().unwrap_or_else(unknown)),
        match environment.hypervisor.as_deref() {
            Some("none") => "bare metal".to_owned(),
            Some(name) => format!("{name} guest"),
            None => "hypervisor unknown".to_owned(),
        },
        format!(
            "governor {}",
            environment
                .frequency
                .governors
                .as_ref()
                .map_or_else(unknown, |names| names.join("+"))
        ),
        format!(
            "idle {}",
            environment.idle.driver.clone().unwrap_or_else(unknown)
        ),
        format!(
            "clock {}",
            environment
                .clocksource
                .current
                .clone()
                .unwrap_or_else(unknown)
        ),
    ];
    parts.extend(
        environment
            .memory
            .total_bytes
            .map(|bytes| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)),
    );
    let mut line = String::new();
    for part in parts {
        let separator = if line.is_empty() { "" } else { ", " };
        if line.len() + separator.len() + part.len() <= WIDTH {
            line.push_str(separator);
            line.push_str(&part);
        }
    }
    line
}

fn head(report: &Report) -> String {
    let mut head = format!("tautline {}, {}", report.version, report.started_at);
    if let Some(label) = &report.label {
        let _ = write!(head, ", {label}");
    }
    let mut head = wrapped(&head, "");
    head.push_str(&machine(&report.environment));
    head.push('\n');
    head.push_str(&wrapped(&placement(report), "  "));
    head
}

/// Where the threads ran, as read back, and how the machine was held.
fn placement(report: &Report) -> String {
    let placement = &report.placement;
    let mut places: Vec<(String, Vec<&str>)> = Vec::new();
    for thread in &placement.threads {
        let place = place(thread);
        match places.iter_mut().find(|(of, _)| *of == place) {
            Some((_, roles)) => roles.push(&thread.role),
            None => places.push((place, vec![&thread.role])),
        }
    }
    let mut text = format!("placement {}", placement.requested);
    for (place, roles) in places {
        let _ = write!(text, "; {place}: {}", roles.join(" "));
    }
    if placement.stay_awake {
        text.push_str("; kept awake");
    }
    if placement.keep_cpus_busy {
        text.push_str("; CPUs kept busy");
    }
    if let Some(note) = &placement.note {
        let _ = write!(text, "; {note}");
    }
    text
}

/// The CPUs a thread may use, and its scheduler where that is not the usual one.
fn place(thread: &ThreadRecord) -> String {
    let cpus: Vec<String> = thread.cpus_effective.iter().map(usize::to_string).collect();
    let mut place = format!("CPU {}", cpus.join("+"));
    if thread.sched_requested != thread.sched_effective {
        let _ = write!(
            place,
            " as {}, {} refused",
            thread.sched_effective, thread.sched_requested
        );
    } else if thread.sched_effective != "other" {
        let _ = write!(place, " as {}", thread.sched_effective);
    }
    place
}

fn latency(report: &Report) -> String {
    let rows: Vec<&LatencyRow> = report
        .latency
        .iter()
        .filter(|row| row.summary.count > 0)
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Column::word("trans-", "port"),
        Column::figure("payload", "bytes"),
        Column::figure("", "runs"),
        Column::figure("msg/s", "median"),
        Column::figure("MiB/s", "median"),
        Column::figure("p50", "us"),
        Column::figure("p95", "us"),
        Column::figure("p99", "us"),
        Column::figure("p99.9", "us"),
        Column::figure("max", "us"),
        Column::figure("", ">5ms"),
        Column::figure("", ">10ms"),
        Column::figure("", ">50ms"),
    ]);
    for row in &rows {
        let us = |percentile: Percentile| micros(percentile.of(&row.summary));
        table.row(vec![
            row.transport.clone(),
            row.payload_bytes.to_string(),
            row.runs.to_string(),
            optional(row.messages_per_s, |rate| format!("{rate:.0}")),
            optional(row.mib_per_s, rate),
            us(Percentile::P50),
            us(Percentile::P95),
            us(Percentile::P99),
            us(Percentile::P999),
            micros(row.summary.max_ns),
            count(row.over_5ms, 6),
            count(row.over_10ms, 6),
            count(row.over_50ms, 6),
        ]);
    }
    let driver = rows.iter().find_map(|row| row.driver.as_deref());
    let mut section = wrapped(&title(driver.unwrap_or("handoff")), "");
    section.push_str(&table.render());
    section.push_str(&missing_percentiles(&rows));
    section.push_str(&faults(&rows));
    section
}

fn title(driver: &str) -> String {
    let topology = match driver {
        "handoff" => "an application thread sends and waits, the reply comes by callback",
        "callback" => "both ends send from the callback that the last message came in",
        "direct" => "each end is one thread with one blocking call a message",
        "spin" => "each end is one thread that polls before it sleeps",
        _ => return format!("Round trips by {driver}"),
    };
    format!("Round trips by {driver}: {topology}")
}

/// Which percentiles are absent, and what they would need: the fewest samples stand for all.
fn missing_percentiles(rows: &[&LatencyRow]) -> String {
    let mut notes = String::new();
    for percentile in Percentile::ALL {
        let fewest = rows
            .iter()
            .filter(|row| percentile.of(&row.summary).is_none())
            .map(|row| row.summary.count)
            .min();
        if let Some(fewest) = fewest {
            let note = format!(
                "- {} needs {} samples, ten of them beyond it; the shortest row has {fewest}",
                percentile.name(),
                percentile.least_samples()
            );
            notes.push_str(&wrapped(&note, "  "));
        }
    }
    notes
}

fn faults(rows: &[&LatencyRow]) -> String {
    let mut notes = String::new();
    for row in rows {
        let summary = &row.summary;
        if summary.lost + summary.stray + summary.corrupted > 0 {
            let note = format!(
                "- {} {} B: {} lost, {} stray and {} corrupted of {} echoes",
                row.transport,
                row.payload_bytes,
                summary.lost,
                summary.stray,
                summary.corrupted,
                summary.count + summary.lost
            );
            notes.push_str(&wrapped(&note, "  "));
        }
    }
    notes
}

fn drivers(report: &Report) -> String {
    let mut names: Vec<&str> = Vec::new();
    for driver in report.latency.iter().flat_map(|row| &row.drivers) {
        if !names.contains(&driver.driver.as_str()) {
            names.push(&driver.driver);
        }
    }
    if names.is_empty() {
        return String::new();
    }
    let mut columns = vec![
        Column::word("trans-", "port"),
        Column::figure("payload", "bytes"),
        Column::figure("control", "p50 us"),
    ];
    for name in &names {
        columns.push(Column::figure(name, "p50 us"));
        columns.push(Column::figure("", "ratio"));
    }
    let mut table = Table::new(&columns);
    for row in &report.latency {
        let mut cells = vec![
            row.transport.clone(),
            row.payload_bytes.to_string(),
            micros(row.control.p50_ns),
        ];
        for name in &names {
            let driver = row.drivers.iter().find(|driver| driver.driver == *name);
            cells.push(micros(driver.and_then(|driver| driver.summary.p50_ns)));
            cells.push(driver.map_or_else(absent_figure, ratio_and_interval));
        }
        table.row(cells);
    }
    let mut section = wrapped(
        "Beside raw blocking sockets: each driver's p50 and its ratio to the control's, medians over \
         rounds; below the ratio its 95 % interval",
        "",
    );
    section.push_str(&table.render());
    section
}

/// The interval goes below the ratio: beside it four drivers would need 120 columns.
fn ratio_and_interval(driver: &DriverRow) -> String {
    let ratio = optional(driver.p50_ratio, ratio);
    match driver.ratio_low.zip(driver.ratio_high) {
        Some((low, high)) => format!("{ratio}\n{}-{}", self::ratio(low), self::ratio(high)),
        None => ratio,
    }
}

fn strategy(report: &Report) -> String {
    let rows = &report.strategy;
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Column::word("trans-", "port"),
        Column::word("", "strategy"),
        Column::figure("payload", "bytes"),
        Column::figure("", "runs"),
        Column::figure("accepted", "MiB/s"),
        Column::figure("received", "MiB/s"),
        Column::figure("delivery", "%"),
        Column::figure("failed", "sends"),
        Column::figure("dropped", "msg"),
        Column::figure("dropped", "MiB"),
        Column::figure("queue", "max KiB"),
        Column::figure("bp", "events"),
    ]);
    for row in rows {
        table.row(vec![
            row.transport.clone(),
            row.strategy.clone(),
            row.payload_bytes.to_string(),
            row.runs.to_string(),
            optional(row.accepted_mib_per_s, rate),
            optional(row.received_mib_per_s, rate),
            optional(row.delivery_percent, percent),
            count(row.failed_sends, 7),
            count(row.dropped_messages, 7),
            rate(row.dropped_mib),
            rate(row.max_queue_kib),
            count(row.pressure_events, 7),
        ]);
    }
    let mut section = wrapped(
        "One-way streams: an unpaced producer through each send strategy",
        "",
    );
    section.push_str(&table.render());
    section.push_str(&wrapped(&strategy_words(rows), "  "));
    section
}

/// What the columns cannot say.
fn strategy_words(rows: &[StrategyRow]) -> String {
    let mut words = String::from("- ");
    if rows.iter().all(|row| row.runtime_stats) {
        words.push_str("Every row has runtime stats: the library counted it itself. ");
    }
    if rows
        .iter()
        .any(|row| row.transport == "udp" && row.strategy == "reliable")
    {
        words.push_str(
            "Reliable over UDP means that nothing is dropped before the system call; what the \
             kernel and the network drop afterwards is the difference to 100 %. ",
        );
    }
    words.push_str(&integrity(rows));
    words
}

fn integrity(rows: &[StrategyRow]) -> String {
    let mut violations = Vec::new();
    for row in rows {
        let mut found = Vec::new();
        let integrity = &row.integrity;
        for (many, what) in [
            (integrity.duplicates, "duplicates"),
            (integrity.reordered, "reordered"),
            (integrity.corrupted, "corrupted"),
        ] {
            if many > 0 {
                found.push(format!("{many} {what}"));
            }
        }
        if !row.accounting_closes {
            found.push("the accounting does not close".to_owned());
        }
        if row.drains_given_up > 0 {
            found.push(format!("draining gave up in {} runs", row.drains_given_up));
        }
        if !found.is_empty() {
            violations.push(format!(
                "{} {} {} B: {}",
                row.transport,
                row.strategy,
                row.payload_bytes,
                found.join(", ")
            ));
        }
    }
    if violations.is_empty() {
        "No duplicate, nothing reordered or corrupted, and the accounting closes in every row."
            .to_owned()
    } else {
        format!("INTEGRITY: {}.", violations.join("; "))
    }
}

/// The strategies side by side, each beside its control: a row a strategy would be a second screen.
fn raw_writer(report: &Report) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut cells: Vec<(&str, usize)> = Vec::new();
    for row in &report.strategy {
        if !names.contains(&row.strategy.as_str()) {
            names.push(&row.strategy);
        }
        if !cells.contains(&(&row.transport, row.payload_bytes)) {
            cells.push((&row.transport, row.payload_bytes));
        }
    }
    if cells.is_empty() {
        return String::new();
    }
    let mut columns = vec![
        Column::word("trans-", "port"),
        Column::figure("payload", "bytes"),
    ];
    for name in &names {
        columns.push(Column::figure(name, "MiB/s"));
        columns.push(Column::figure("raw", "MiB/s"));
        columns.push(Column::figure("", "ratio"));
    }
    let mut table = Table::new(&columns);
    for (transport, payload_bytes) in cells {
        let mut line = vec![transport.to_owned(), payload_bytes.to_string()];
        for name in &names {
            let row = report.strategy.iter().find(|row| {
                row.transport == transport
                    && row.payload_bytes == payload_bytes
                    && row.strategy == *name
            });
            line.push(optional(row.and_then(|row| row.received_mib_per_s), rate));
            line.push(optional(
                row.and_then(|row| row.control.received_mib_per_s),
                rate,
            ));
            line.push(optional(row.and_then(|row| row.control.ratio), ratio));
        }
        table.row(line);
    }
    let mut section = wrapped(
        "Beside a raw writer of the same bytes, each message its own write: what was received",
        "",
    );
    section.push_str(&table.render());
    section
}

fn absent(report: &Report) -> String {
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
    reasons
        .iter()
        .map(|(reason, cells)| wrapped(&format!("Absent: {}: {reason}", cells.join(", ")), "  "))
        .collect()
}

fn gates(report: &Report) -> String {
    let mut section = String::new();
    for verdict in &report.gates {
        let word = match verdict.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Undecided => "UNDECIDED",
        };
        section.push_str(&wrapped(
            &format!("Gate {word}: {}", verdict.expression),
            "  ",
        ));
        for finding in &verdict.findings {
            section.push_str(&wrapped(&format!("  {finding}"), "    "));
        }
    }
    section
}

fn outcome(report: &Report) -> String {
    let mut section = String::new();
    if report.interrupted {
        section.push_str(&wrapped(
            "Interrupted: these are the figures until then, and the page is partial.",
            "",
        ));
    }
    if let Some(error) = &report.error {
        section.push_str(&wrapped(&format!("Ended early: {error}"), "  "));
    }
    section
}

fn doubts(report: &Report) -> String {
    const SHOWN: usize = 3;
    let mut section = String::new();
    let all = report.warnings.len();
    if all > SHOWN {
        let _ = writeln!(
            section,
            "Doubts, the gravest {SHOWN} of {all}; the rest is in --json:"
        );
    } else if all > 0 {
        section.push_str("Doubts:\n");
    }
    for doubt in report.warnings.iter().take(SHOWN) {
        section.push_str(&wrapped(&doubt_line(doubt), "    "));
    }
    section.push_str(&command_lines("Next: ", &next_command(report)));
    section
}

fn doubt_line(doubt: &Doubt) -> String {
    let severity = match doubt.severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Invalid => "INVALID",
    };
    format!(
        "  {severity} {}: {}; try: {}",
        doubt.code, doubt.message, doubt.advice
    )
}

/// What a reader of this page would do next: rid it of its largest doubt, measure in full, keep it,
/// make it firmer. In words for a shell.
fn next_command(report: &Report) -> Vec<String> {
    let typed: Vec<&str> = report.command_line.iter().map(String::as_str).collect();
    let has = |option: &str| typed.iter().any(|word| word.starts_with(option));
    let waking = report
        .warnings
        .iter()
        .any(|doubt| doubt.code == "wake-cost");
    let anew = [typed.first().copied().unwrap_or("tautline"), "bench"];
    let (command, more): (&[&str], &[&str]) = if waking && !has("--stay-awake") {
        (&typed, &["--stay-awake"])
    } else if waking && !has("--keep-cpus-busy") {
        // Holding the CPUs awake was refused; keeping them busy needs no privilege.
        (&typed, &["--keep-cpus-busy"])
    } else if has("--quick") {
        (&anew, &["--json", "report.json"])
    } else if !has("--json") {
        (&typed, &["--json", "report.json"])
    } else if !has("--repeats") {
        (&typed, &["--repeats", "8"])
    } else {
        (&anew, &["--help"])
    };
    command
        .iter()
        .chain(more)
        .map(|word| lines::quoted(word))
        .collect()
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
    fn the_machine_is_one_line_however_long_its_names() {
        let mut environment = sample::report().environment;
        environment.cpu.model = Some("Z".repeat(200));
        environment.cpu.logical = Some(128);
        environment.cpu.cores = Some(64);
        assert_eq!(
            machine(&environment),
            format!(
                "{}, 128 CPUs on 64 cores, Linux 5.15.185-tegra",
                "Z".repeat(50)
            )
        );
        assert_eq!(
            machine(&Environment::default()),
            "CPU model unknown, CPUs unknown, Linux unknown, hypervisor unknown, governor unknown, \
             idle unknown"
        );
    }

    #[test]
    fn a_label_cannot_write_to_the_terminal() {
        let mut report = sample::report();
        report.label = Some("\u{1b}[31mr\u{e9}d\u{7}".to_owned());
        let page = render(&report);
        assert!(page.contains("?[31mr?d?"));
        assert!(page.chars().all(|c| c == '\n' || (' '..='~').contains(&c)));
    }

    #[test]
    fn the_next_command_can_be_typed() {
        let mut report = sample::report();
        report.warnings.clear();
        let mut next = |words: &[&str]| {
            report.command_line = words.iter().map(|&word| word.to_owned()).collect();
            next_command(&report).join(" ")
        };
        assert_eq!(
            next(&["tautline", "bench", "--quick"]),
            "tautline bench --json report.json"
        );
        assert_eq!(
            next(&["./tautline", "bench", "--label", "it's 1"]),
            r"./tautline bench --label 'it'\''s 1' --json report.json"
        );
        assert_eq!(
            next(&["tautline", "bench", "--json=x"]),
            "tautline bench --json=x --repeats 8"
        );
        assert_eq!(
            next(&["tautline", "bench", "--json=x", "--repeats=8"]),
            "tautline bench --help"
        );
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
