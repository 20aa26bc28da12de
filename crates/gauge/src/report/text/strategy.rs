//! The strategy table, what its columns cannot say, and below it the raw writer.

use super::figures::{count, optional, percent, rate, ratio};
use super::media;
use super::section::Section;
use super::table::{Column, Table};
use crate::report::{Report, StrategyRow};

pub(super) fn strategy(report: &Report) -> Section {
    let rows = &report.strategy;
    if rows.is_empty() {
        return Section::default();
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
    let mut section = Section::default();
    section.title(
        "One-way streams: an unpaced producer through each send strategy",
        "",
    );
    section.table(table);
    section.words(strategy_words(rows), "  ");
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
    if rows.iter().any(|row| row.address.is_some()) {
        words.push_str("Rates are over the server's time, from its first receipt to its last. ");
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
pub(super) fn raw_writer(report: &Report) -> Section {
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
        return Section::default();
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
    let mut section = Section::default();
    section.title(
        "Beside a raw writer of the same bytes, each message its own write: what was received",
        "",
    );
    section.table(table);
    media::below(media::of_strategy(report), &mut section);
    section
}
