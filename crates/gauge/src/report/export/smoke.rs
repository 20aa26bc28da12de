//! The UDP payload smoke test as CSV: one table over raw sockets, one over the library.

use std::io;

use serde::Serialize;

use super::csv_of;
use crate::report::{Report, SmokeRow, SmokeRuntime};
use crate::run::SMOKE_HOPELESS;

/// The smoke test over raw sockets: the columns that readers of such files know, then ours.
///
/// # Errors
///
/// What the writer says.
pub fn raw_smoke_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let raw = report.udp_smoke.iter().filter(|row| row.runtime.is_none());
    csv_of(raw.map(RawSmokeLine::new), RawSmokeLine::default(), to)
}

/// The smoke test over the library: the columns that readers of such files know, then ours.
///
/// # Errors
///
/// What the writer says.
pub fn smoke_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let library = report.udp_smoke.iter();
    let lines = library.filter_map(|row| Some(SmokeLine::new(row, row.runtime?)));
    csv_of(lines, SmokeLine::default(), to)
}

/// One line of the smoke test over raw sockets; the names of its fields are the columns.
#[derive(Debug, Default, Serialize)]
struct RawSmokeLine<'a> {
    transport: &'a str,
    payload_size: usize,
    iterations: u64,
    warmup_iterations: u64,
    send_attempts: u64,
    send_success: u64,
    send_failures: u64,
    server_received: u64,
    client_received: u64,
    echo_matches: u64,
    timeouts: u64,
    delivery_percent: Option<f64>,
    match_percent: Option<f64>,
    elapsed_ms: f64,
    messages_per_sec: Option<f64>,
    notes: String,
    classification: &'a str,
}

impl<'a> RawSmokeLine<'a> {
    fn new(row: &'a SmokeRow) -> Self {
        Self {
            transport: "raw_udp",
            payload_size: row.payload_bytes,
            iterations: row.iterations,
            warmup_iterations: row.warmup,
            send_attempts: row.send_attempts,
            send_success: row.sent,
            send_failures: row.send_failures,
            server_received: row.server_received,
            client_received: row.client_received,
            echo_matches: row.matched,
            timeouts: row.timeouts,
            delivery_percent: row.delivery_percent,
            match_percent: row.match_percent,
            elapsed_ms: row.elapsed_s * 1e3,
            messages_per_sec: echoes_per_s(row),
            notes: notes(row),
            classification: row.classification.token(),
        }
    }
}

/// One line of the smoke test over the library; the names of its fields are the columns.
#[derive(Debug, Default, Serialize)]
struct SmokeLine<'a> {
    transport: &'a str,
    strategy: &'a str,
    payload_size: usize,
    iterations: u64,
    warmup_iterations: u64,
    send_attempts: u64,
    send_success: u64,
    send_failures: u64,
    server_received: u64,
    client_received: u64,
    echo_matches: u64,
    timeouts: u64,
    stopped_early: bool,
    stop_reason: &'a str,
    consecutive_timeout_limit: u32,
    delivery_percent: Option<f64>,
    match_percent: Option<f64>,
    elapsed_ms: f64,
    messages_per_sec: Option<f64>,
    runtime_stats_supported: bool,
    client_failed_sends: u64,
    client_dropped_messages: u64,
    client_dropped_bytes: u64,
    client_backpressure_events: u64,
    client_max_queued_bytes: u64,
    client_queued_bytes_final: u64,
    server_messages_received: u64,
    server_bytes_received: u64,
    server_failed_sends: u64,
    server_dropped_messages: u64,
    server_dropped_bytes: u64,
    server_backpressure_events: u64,
    server_max_queued_bytes: u64,
    server_queued_bytes_final: u64,
    notes: String,
    classification: &'a str,
}

impl<'a> SmokeLine<'a> {
    fn new(row: &'a SmokeRow, runtime: SmokeRuntime) -> Self {
        let SmokeRuntime { client, server } = runtime;
        Self {
            transport: "udp",
            strategy: &row.path,
            payload_size: row.payload_bytes,
            iterations: row.iterations,
            warmup_iterations: row.warmup,
            send_attempts: row.send_attempts,
            send_success: row.sent,
            send_failures: row.send_failures,
            server_received: row.server_received,
            client_received: row.client_received,
            echo_matches: row.matched,
            timeouts: row.timeouts,
            stopped_early: row.stopped_early,
            stop_reason: if row.stopped_early {
                "failures in a row, or stopped"
            } else {
                ""
            },
            consecutive_timeout_limit: SMOKE_HOPELESS,
            delivery_percent: row.delivery_percent,
            match_percent: row.match_percent,
            elapsed_ms: row.elapsed_s * 1e3,
            messages_per_sec: echoes_per_s(row),
            runtime_stats_supported: true,
            client_failed_sends: client.refused_messages,
            client_dropped_messages: client.discarded_messages,
            client_dropped_bytes: client.discarded_bytes,
            client_backpressure_events: client.pressure_events,
            client_max_queued_bytes: client.max_queued_bytes,
            client_queued_bytes_final: client.waiting_bytes,
            server_messages_received: server.received_messages,
            server_bytes_received: server.received_payload_bytes,
            server_failed_sends: server.refused_messages,
            server_dropped_messages: server.discarded_messages,
            server_dropped_bytes: server.discarded_bytes,
            server_backpressure_events: server.pressure_events,
            server_max_queued_bytes: server.max_queued_bytes,
            server_queued_bytes_final: server.waiting_bytes,
            notes: notes(row),
            classification: row.classification.token(),
        }
    }
}

fn echoes_per_s(row: &SmokeRow) -> Option<f64> {
    (row.elapsed_s > 0.0).then(|| row.client_received as f64 / row.elapsed_s)
}

/// `ok`, or what went wrong, joined by semicolons.
fn notes(row: &SmokeRow) -> String {
    let wrong = [
        (row.send_failures > 0, "send-failures"),
        (row.timeouts > 0, "timeouts"),
        (row.stopped_early, "early-stop"),
        (row.matched < row.client_received, "mismatches"),
    ];
    let words: Vec<&str> = wrong
        .iter()
        .filter_map(|&(is, word)| is.then_some(word))
        .collect();
    if words.is_empty() {
        "ok".to_owned()
    } else {
        words.join(";")
    }
}
