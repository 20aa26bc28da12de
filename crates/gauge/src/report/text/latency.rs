//! The latency table, and below it each driver beside the control.

use super::figures::{absent_figure, count, micros, optional, rate, ratio};
use super::media;
use super::section::Section;
use super::table::{Column, Table};
use crate::report::{DriverRow, LatencyRow, Percentile, Report};

pub(super) fn latency(report: &Report) -> Section {
    let rows: Vec<&LatencyRow> = report
        .latency
        .iter()
        .filter(|row| row.summary.count > 0)
        .collect();
    if rows.is_empty() {
        return Section::default();
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
    let mut section = Section::default();
    section.title(title(driver.unwrap_or("handoff")), "");
    section.table(table);
    missing_percentiles(&rows, &mut section);
    faults(&rows, &mut section);
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
fn missing_percentiles(rows: &[&LatencyRow], section: &mut Section) {
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
            section.words(note, "  ");
        }
    }
}

fn faults(rows: &[&LatencyRow], section: &mut Section) {
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
            section.words(note, "  ");
        }
    }
}

pub(super) fn drivers(report: &Report) -> Section {
    let mut names: Vec<&str> = Vec::new();
    for driver in report.latency.iter().flat_map(|row| &row.drivers) {
        if !names.contains(&driver.driver.as_str()) {
            names.push(&driver.driver);
        }
    }
    if names.is_empty() {
        return Section::default();
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
    let mut section = Section::default();
    section.title(
        "Beside raw blocking sockets: each driver's p50 and its ratio to the control's, medians over \
         rounds; below the ratio its 95 % interval",
        "",
    );
    section.table(table);
    media::below(media::of_latency(report), &mut section);
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
