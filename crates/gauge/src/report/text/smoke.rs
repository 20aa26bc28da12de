//! The UDP payload smoke test: what came back, the library's counters, and the verdicts.

use super::figures::{count, optional, percent};
use super::section::Section;
use super::table::{Column, Table};
use crate::report::{Report, SmokeClass, SmokeVerdict};

pub(super) fn smoke(report: &Report) -> Section {
    let rows = &report.udp_smoke;
    if rows.is_empty() {
        return Section::default();
    }
    let mut table = Table::new(&[
        Column::word("", "path"),
        Column::figure("payload", "bytes"),
        Column::figure("send", "success"),
        Column::figure("server", "received"),
        Column::figure("client", "received"),
        Column::figure("echo", "matches"),
        Column::figure("delivery", "%"),
        Column::figure("match", "%"),
        Column::figure("", "timeouts"),
    ]);
    for row in rows {
        table.row(vec![
            row.path.clone(),
            row.payload_bytes.to_string(),
            count(row.sent, 8),
            count(row.server_received, 8),
            count(row.client_received, 8),
            count(row.matched, 8),
            optional(row.delivery_percent, percent),
            optional(row.match_percent, percent),
            count(row.timeouts, 8),
        ]);
    }
    let mut section = Section::default();
    section.title(
        "UDP payload smoke test: stop and wait, every byte of every echo compared",
        "",
    );
    section.table(table);
    for verdict in &report.udp_smoke_verdicts {
        section.words(sentence(verdict), "  ");
    }
    section
}

/// The library's counters, below: raw sockets have none.
pub(super) fn smoke_runtime(report: &Report) -> Section {
    let mut rows = report
        .udp_smoke
        .iter()
        .filter_map(|row| Some((row, row.runtime?)))
        .peekable();
    if rows.peek().is_none() {
        return Section::default();
    }
    let mut table = Table::new(&[
        Column::word("", "strategy"),
        Column::figure("payload", "bytes"),
        Column::figure("client", "failed sends"),
        Column::figure("client", "drops"),
        Column::figure("server messages", "received"),
        Column::figure("server bytes", "received"),
        Column::figure("server", "failed sends"),
        Column::figure("server", "drops"),
    ]);
    for (row, runtime) in rows {
        table.row(vec![
            row.path.clone(),
            row.payload_bytes.to_string(),
            count(runtime.client.refused_messages, 8),
            count(runtime.client.discarded_messages, 8),
            count(runtime.server.received_messages, 8),
            count(runtime.server.received_payload_bytes, 11),
            count(runtime.server.refused_messages, 8),
            count(runtime.server.discarded_messages, 8),
        ]);
    }
    let mut section = Section::default();
    section.title(
        "Runtime stats of the smoke test, as the library counted",
        "",
    );
    section.table(table);
    section
}

fn sentence(verdict: &SmokeVerdict) -> String {
    let word = match verdict.classification {
        SmokeClass::None => "clean".to_owned(),
        other => format!("NOT CLEAN, {}", other.token()),
    };
    let mut sentence = format!("- {} B: {word}: {}", verdict.payload_bytes, verdict.because);
    if verdict.classification != SmokeClass::None {
        let figure =
            |number: Option<u64>| number.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let kernel = &verdict.kernel;
        sentence.push_str(&format!(
            "; kernel drop events meanwhile: {} receive errors, {} of them for want of a receive \
             buffer, {} send buffer errors; buffers granted {} and {} bytes, MTU {}",
            figure(kernel.receive_errors),
            figure(kernel.receive_buffer_errors),
            figure(kernel.send_buffer_errors),
            figure(verdict.receive_buffer_bytes),
            figure(verdict.send_buffer_bytes),
            figure(verdict.mtu_bytes),
        ));
    }
    sentence
}
