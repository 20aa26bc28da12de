//! What `ping`, `stream` and `wakeup` found out, as CSV: a line for each cell, row or CPU, and one for
//! each slice.

use std::io;

use serde::Serialize;

use super::{csv_of, us};
use crate::report::Report;
use crate::report::ping::{PingCell, Slice, Times};
use crate::report::stream::{StreamRow, StreamSlice};
use crate::report::wakeup::WakeupRow;

/// The cells of a ping, a line for each. Beside the service times stand, in open loop, the response
/// times; the percentiles are those that were asked for.
///
/// # Errors
///
/// What the writer says.
pub fn ping_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let mut rows = csv::Writer::from_writer(to);
    let first = report.cells.first();
    let asked = first.map_or(&[][..], |cell| &cell.rtt.percentiles);
    let percentiles: Vec<f64> = asked.iter().map(|asked| asked.percentile).collect();
    rows.write_record(ping_columns(&percentiles))?;
    for cell in &report.cells {
        rows.write_record(ping_fields(cell, &percentiles))?;
    }
    rows.flush()
}

fn ping_columns(percentiles: &[f64]) -> Vec<String> {
    let mut columns: Vec<String> = COUNTS.map(str::to_owned).to_vec();
    for times in ["", "response_"] {
        for figure in ["count", "min_us", "mean_us", "stddev_us", "max_us"] {
            columns.push(format!("{times}{figure}"));
        }
        for percentile in percentiles {
            let digits = percentile.to_string().replace('.', "_");
            columns.push(format!("{times}p{digits}_us"));
        }
        for limit in ["1ms", "5ms", "10ms", "20ms"] {
            columns.push(format!("{times}over_{limit}"));
        }
    }
    columns
}

const COUNTS: [&str; 19] = [
    "address",
    "transport",
    "payload_size",
    "connections",
    "threads",
    "pacing",
    "warmup",
    "elapsed_s",
    "sent",
    "received",
    "lost",
    "lost_up",
    "lost_down",
    "duplicate",
    "reordered",
    "late",
    "corrupted",
    "in_flight_at_end",
    "late_sends",
];

fn ping_fields(cell: &PingCell, percentiles: &[f64]) -> Vec<String> {
    let mut fields = vec![
        cell.address.clone(),
        cell.transport.clone(),
        cell.payload_bytes.to_string(),
        cell.connections.to_string(),
        cell.threads.to_string(),
        cell.pacing.to_string(),
        cell.warmup.to_string(),
        cell.elapsed_s.to_string(),
        cell.sent.to_string(),
        cell.received.to_string(),
        cell.lost.to_string(),
        known(cell.lost_up),
        known(cell.lost_down),
        cell.duplicate.to_string(),
        cell.reordered.to_string(),
        cell.late.to_string(),
        cell.corrupted.to_string(),
        cell.in_flight_at_end.to_string(),
        known(cell.late_sends),
    ];
    for times in [Some(&cell.rtt), cell.response.as_ref()] {
        let width = 9 + percentiles.len();
        match times {
            Some(times) => fields.extend(times_fields(times, percentiles)),
            None => fields.extend(vec![String::new(); width]),
        }
    }
    fields
}

fn times_fields(times: &Times, percentiles: &[f64]) -> Vec<String> {
    let mut fields = vec![
        times.count.to_string(),
        known(us(times.min_ns)),
        known(times.mean_ns.map(|ns| ns / 1e3)),
        known(times.stddev_ns.map(|ns| ns / 1e3)),
        known(us(times.max_ns)),
    ];
    for percentile in percentiles {
        let found = times
            .percentiles
            .iter()
            .find(|of| of.percentile == *percentile);
        fields.push(known(us(found.and_then(|of| of.value_ns))));
    }
    let over = [
        times.over_1ms,
        times.over_5ms,
        times.over_10ms,
        times.over_20ms,
    ];
    fields.extend(over.map(|count| count.to_string()));
    fields
}

/// What is not known is an empty field.
fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The slices of each cell of a ping, a line for each.
///
/// # Errors
///
/// What the writer says.
pub fn ping_slices_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let lines = report.cells.iter().flat_map(|cell| {
        cell.slices
            .iter()
            .map(move |slice| SliceLine::new(cell, slice))
    });
    csv_of(lines, SliceLine::default(), to)
}

#[derive(Debug, Default, Serialize)]
struct SliceLine<'a> {
    address: &'a str,
    payload_size: usize,
    start_s: f64,
    seconds: f64,
    sent: u64,
    received: u64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
}

impl<'a> SliceLine<'a> {
    fn new(cell: &'a PingCell, slice: &Slice) -> Self {
        Self {
            address: &cell.address,
            payload_size: cell.payload_bytes,
            start_s: slice.start_s,
            seconds: slice.seconds,
            sent: slice.sent,
            received: slice.received,
            mean_us: slice.mean_ns.map(|ns| ns / 1e3),
            p50_us: us(slice.p50_ns),
            p99_us: us(slice.p99_ns),
            max_us: us(slice.max_ns),
        }
    }
}

/// The rows of a stream, a line for each.
///
/// # Errors
///
/// What the writer says.
pub fn stream_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let lines = report.stream.iter().map(StreamLine::new);
    csv_of(lines, StreamLine::default(), to)
}

#[derive(Debug, Default, Serialize)]
struct StreamLine<'a> {
    address: &'a str,
    transport: &'a str,
    strategy: &'a str,
    payload_size: usize,
    asked_rate_hz: Option<f64>,
    offered_per_s: Option<f64>,
    elapsed_s: f64,
    offered: u64,
    accepted: u64,
    refused: u64,
    evicted: u64,
    discarded: u64,
    delivered: Option<u64>,
    lost: Option<u64>,
    duplicates: Option<u64>,
    reordered: Option<u64>,
    corrupted: Option<u64>,
    receiving_s: Option<f64>,
    mib_sec: Option<f64>,
    gbit_sec: Option<f64>,
    queue_delay_count: u64,
    queue_delay_p50_us: Option<f64>,
    queue_delay_p95_us: Option<f64>,
    queue_delay_p99_us: Option<f64>,
    queue_delay_p99_9_us: Option<f64>,
    queue_delay_max_us: Option<f64>,
    max_queue_kib: f64,
    pressure_events: u64,
    write_calls: u64,
    accounting_closes: bool,
    max_queue_delay_us: Option<f64>,
    too_old: u64,
}

impl<'a> StreamLine<'a> {
    fn new(row: &'a StreamRow) -> Self {
        let delay = &row.queue_delay;
        Self {
            address: &row.address,
            transport: &row.transport,
            strategy: &row.strategy,
            payload_size: row.payload_bytes,
            asked_rate_hz: row.asked_rate_hz,
            offered_per_s: row.offered_per_s,
            elapsed_s: row.elapsed_s,
            offered: row.offered,
            accepted: row.accepted,
            refused: row.refused,
            evicted: row.evicted,
            discarded: row.discarded,
            delivered: row.delivered,
            lost: row.lost,
            duplicates: row.duplicates,
            reordered: row.reordered,
            corrupted: row.corrupted,
            receiving_s: row.receiving_s,
            mib_sec: row.mib_per_s,
            gbit_sec: row.gbit_per_s,
            queue_delay_count: delay.count,
            queue_delay_p50_us: us(delay.p50_ns),
            queue_delay_p95_us: us(delay.p95_ns),
            queue_delay_p99_us: us(delay.p99_ns),
            queue_delay_p99_9_us: us(delay.p999_ns),
            queue_delay_max_us: us(delay.max_ns),
            max_queue_kib: row.max_queue_kib,
            pressure_events: row.pressure_events,
            write_calls: row.write_calls,
            accounting_closes: row.accounting_closes,
            max_queue_delay_us: us(row.max_queue_delay_ns),
            too_old: row.too_old,
        }
    }
}

/// The slices of each row of a stream, a line for each.
///
/// # Errors
///
/// What the writer says.
pub fn stream_slices_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let lines = report.stream.iter().flat_map(|row| {
        let of_row = move |slice: &StreamSlice| StreamSliceLine {
            address: &row.address,
            payload_size: row.payload_bytes,
            start_s: slice.start_s,
            seconds: slice.seconds,
            offered: slice.offered,
            accepted: slice.accepted,
            written: slice.written,
        };
        row.slices.iter().map(of_row)
    });
    csv_of(lines, StreamSliceLine::default(), to)
}

#[derive(Debug, Default, Serialize)]
struct StreamSliceLine<'a> {
    address: &'a str,
    payload_size: usize,
    start_s: f64,
    seconds: f64,
    offered: u64,
    accepted: u64,
    written: u64,
}

/// The lateness of timers, a line for each CPU: of `wakeup`, or of a soak before its phases.
///
/// # Errors
///
/// What the writer says.
pub fn wakeup_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let soak = report.soak.as_ref().map(|soak| &soak.wakeup);
    let idle = soak.map_or(&report.wakeup, |wakeups| &wakeups.idle);
    let loaded = soak.map_or(&[][..], |wakeups| &wakeups.loaded);
    let idle = idle.iter().map(|row| WakeupLine::new("none", row));
    let loaded = loaded.iter().map(|row| WakeupLine::new("primes", row));
    csv_of(idle.chain(loaded), WakeupLine::default(), to)
}

#[derive(Debug, Default, Serialize)]
struct WakeupLine<'a> {
    load: &'a str,
    cpu: usize,
    priority: u32,
    interval_us: f64,
    count: u64,
    min_us: Option<f64>,
    mean_us: Option<f64>,
    max_us: Option<f64>,
}

impl<'a> WakeupLine<'a> {
    fn new(load: &'a str, row: &WakeupRow) -> Self {
        Self {
            load,
            cpu: row.cpu,
            priority: u32::from(row.priority),
            interval_us: row.interval_ns as f64 / 1e3,
            count: row.count,
            min_us: us(row.min_ns),
            mean_us: row.mean_ns.map(|ns| ns / 1e3),
            max_us: us(row.max_ns),
        }
    }
}
