//! The Markdown table beside each of the known CSV files, in the columns that readers of such pages know.

use super::Contents;
use crate::report::text::figures::{micros, optional, percent, rate};
use crate::report::{SmokeRow, SmokeVerdict};

pub(super) fn latency(contents: &Contents<'_>) -> String {
    let mut table = Table::new(
        "Latency Summary",
        &[
            "transport",
            "payload",
            "runs",
            "msg/s median",
            "MiB/s median",
            "p50 us",
            "p95 us",
            "p99 us",
            "p99.9 us",
            "max us",
            ">5ms",
            ">10ms",
            ">50ms",
        ],
    );
    for row in &contents.report.latency {
        let summary = &row.summary;
        table.row(&[
            row.transport.clone(),
            row.payload_bytes.to_string(),
            row.runs.to_string(),
            optional(row.messages_per_s, |per_s| format!("{per_s:.0}")),
            optional(row.mib_per_s, rate),
            micros(summary.p50_ns),
            micros(summary.p95_ns),
            micros(summary.p99_ns),
            micros(summary.p999_ns),
            micros(summary.max_ns),
            row.over_5ms.to_string(),
            row.over_10ms.to_string(),
            row.over_50ms.to_string(),
        ]);
    }
    table.text()
}

pub(super) fn strategy(contents: &Contents<'_>) -> String {
    let mut table = Table::new(
        "Strategy Summary",
        &[
            "transport",
            "strategy",
            "payload",
            "runs",
            "accepted MiB/s",
            "received MiB/s",
            "delivery %",
            "failed sends",
            "runtime stats",
            "dropped msg",
            "dropped MiB",
            "max queue KiB",
            "bp events",
        ],
    );
    for row in &contents.report.strategy {
        table.row(&[
            row.transport.clone(),
            row.strategy.clone(),
            row.payload_bytes.to_string(),
            row.runs.to_string(),
            optional(row.accepted_mib_per_s, rate),
            optional(row.received_mib_per_s, rate),
            optional(row.delivery_percent, percent),
            row.failed_sends.to_string(),
            if row.runtime_stats { "yes" } else { "no" }.to_owned(),
            row.dropped_messages.to_string(),
            rate(row.dropped_mib),
            rate(row.max_queue_kib),
            row.pressure_events.to_string(),
        ]);
    }
    table.text()
}

pub(super) fn raw_smoke(contents: &Contents<'_>) -> String {
    let mut table = Table::new("Raw UDP Control", &ECHOES);
    let rows = contents.report.udp_smoke.iter();
    for row in rows.filter(|row| row.runtime.is_none()) {
        table.row(&echoes(row));
    }
    table.text() + &verdicts(&contents.report.udp_smoke_verdicts)
}

pub(super) fn smoke(contents: &Contents<'_>) -> String {
    let columns: Vec<&str> = ["strategy"].into_iter().chain(ECHOES).collect();
    let mut table = Table::new("Tautline UDP", &columns);
    let mut runtime = Table::new(
        "RuntimeStats",
        &[
            "strategy",
            "payload",
            "client failed sends",
            "client drops",
            "server messages received",
            "server bytes received",
            "server failed sends",
            "server drops",
        ],
    );
    for row in &contents.report.udp_smoke {
        let Some(stats) = row.runtime else {
            continue;
        };
        let cells: Vec<String> = [row.path.clone()].into_iter().chain(echoes(row)).collect();
        table.row(&cells);
        let (client, server) = (stats.client, stats.server);
        runtime.row(&[
            row.path.clone(),
            row.payload_bytes.to_string(),
            client.refused_messages.to_string(),
            client.discarded_messages.to_string(),
            server.received_messages.to_string(),
            server.received_payload_bytes.to_string(),
            server.refused_messages.to_string(),
            server.discarded_messages.to_string(),
        ]);
    }
    let verdicts = verdicts(&contents.report.udp_smoke_verdicts);
    format!("{}{verdicts}\n{}", table.text(), runtime.text())
}

const ECHOES: [&str; 8] = [
    "payload",
    "send success",
    "server received",
    "client received",
    "echo matches",
    "delivery %",
    "match %",
    "timeouts",
];

fn echoes(row: &SmokeRow) -> [String; 8] {
    [
        row.payload_bytes.to_string(),
        row.sent.to_string(),
        row.server_received.to_string(),
        row.client_received.to_string(),
        row.matched.to_string(),
        optional(row.delivery_percent, percent),
        optional(row.match_percent, percent),
        row.timeouts.to_string(),
    ]
}

/// Where each payload's trouble comes from, and what decided it.
fn verdicts(verdicts: &[SmokeVerdict]) -> String {
    let line = |verdict: &SmokeVerdict| {
        let class = verdict.classification.token();
        let because = one_line(&verdict.because);
        format!("- {} B: {class}: {because}\n", verdict.payload_bytes)
    };
    let lines: String = verdicts.iter().map(line).collect();
    format!("\n## Classification\n\n{lines}")
}

/// A heading, a table.
#[derive(Debug)]
struct Table {
    text: String,
}

impl Table {
    fn new(heading: &str, columns: &[&str]) -> Self {
        let names = columns.join(" | ");
        // Names to the left, figures to the right.
        let rules = columns.iter().map(|column| match *column {
            "transport" | "strategy" | "runtime stats" => "---",
            _ => "---:",
        });
        let rules = rules.collect::<Vec<_>>().join(" | ");
        Self {
            text: format!("## {heading}\n\n| {names} |\n| {rules} |\n"),
        }
    }

    fn row(&mut self, cells: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| one_line(cell)).collect();
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    fn text(self) -> String {
        self.text
    }
}

/// A report may have been edited by hand: no cell of it breaks the table.
pub(super) fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}
