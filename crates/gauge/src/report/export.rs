//! The report for other programs: JSON, one document, and CSV, one table.
//!
//! Both only render the report. JSON has `null` where nothing is known (serde_json writes any number
//! that is not finite so); CSV leaves the field empty.

mod served;
mod smoke;
mod soak;

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

pub use self::served::{ping_csv, ping_slices_csv, stream_csv, stream_slices_csv, wakeup_csv};
pub use self::smoke::{raw_smoke_csv, smoke_csv};
pub use self::soak::{soak_csv, soak_slices_csv};
use super::{
    DriverRow, EndStatistics, LatencyRow, LatencyRun, Report, RoundPair, SCHEMA, SCHEMA_FAMILY,
    StrategyRow, StrategyRun,
};
use crate::statistics;

/// The report as one JSON document on one line, as `schema/report-v1.json` describes it.
///
/// # Errors
///
/// What the writer says.
pub fn json(report: &Report, mut to: impl io::Write) -> io::Result<()> {
    serde_json::to_writer(&mut to, report).map_err(io::Error::from)?;
    to.write_all(b"\n")
}

/// A report that [`json`] has written.
///
/// # Errors
///
/// A sentence about what the text is instead.
pub fn read(text: &str) -> Result<Report, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    // The schema first: what another program or a later version wrote has other fields.
    let head: Head = serde_json::from_str(text).map_err(|why| match why.classify() {
        Category::Data => no_report("it has no schema"),
        Category::Eof => format!("it is cut short: {why}"),
        Category::Syntax | Category::Io => format!("it is no JSON: {why}"),
    })?;
    match head.schema.as_deref() {
        Some(SCHEMA) => {}
        Some(other) if other.starts_with(SCHEMA_FAMILY) => {
            let other = quoted(other);
            return Err(format!(
                "its schema is {other}, and this program reads {SCHEMA}: a later version wrote it"
            ));
        }
        Some(other) => return Err(no_report(&format!("its schema is {}", quoted(other)))),
        None => return Err(no_report("it has no schema")),
    }
    serde_json::from_str(text).map_err(|why| format!("it makes no sense as {SCHEMA}: {why}"))
}

/// A word from a file that anybody may have written, as a terminal takes it.
pub(crate) fn quoted(word: &str) -> String {
    const MOST: usize = 100;
    word.chars()
        .take(MOST)
        .flat_map(char::escape_default)
        .collect()
}

fn no_report(why: &str) -> String {
    format!("it is no report of this program: {why}")
}

/// The latency table, a row for each run: first the columns that readers of such files know, then ours.
///
/// # Errors
///
/// What the writer says.
pub fn latency_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let lines = report.latency.iter().flat_map(|row| {
        row.each_run
            .iter()
            .map(move |run| LatencyLine::new(row, run))
    });
    csv_of(lines, LatencyLine::default(), to)
}

/// The strategy table, a row for each run: first the columns that readers of such files know, then
/// ours.
///
/// # Errors
///
/// What the writer says.
pub fn strategy_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let lines = report.strategy.iter().flat_map(|row| {
        row.each_run
            .iter()
            .map(move |run| StrategyLine::new(row, run))
    });
    csv_of(lines, StrategyLine::default(), to)
}

/// One line of the latency CSV; the names of its fields are the columns, in their order.
#[derive(Debug, Default, Serialize)]
struct LatencyLine<'a> {
    transport: &'a str,
    payload_size: usize,
    iterations: u64,
    warmup_iterations: u64,
    elapsed_s: f64,
    messages_sec: f64,
    mib_sec: f64,
    min_us: Option<f64>,
    avg_us: Option<f64>,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    p99_9_us: Option<f64>,
    max_us: Option<f64>,
    outliers_over_5000us: u64,
    outliers_over_10000us: u64,
    outliers_over_50000us: u64,
    // Ours from here. The figures above are those of `driver`; each ratio below is the median of this
    // run's rounds, that driver over the control.
    run: usize,
    driver: Option<&'a str>,
    samples: u64,
    lost: u64,
    stray: u64,
    corrupted: u64,
    direct_p50_ratio: Option<f64>,
    callback_p50_ratio: Option<f64>,
    handoff_p50_ratio: Option<f64>,
    spin_p50_ratio: Option<f64>,
    // What it went over.
    port: Option<&'a str>,
    wire_time_us: Option<f64>,
    latency_timer_ms: Option<u64>,
    low_latency: Option<bool>,
    tls_version: Option<&'a str>,
    cipher_suite: Option<&'a str>,
}

impl<'a> LatencyLine<'a> {
    fn new(row: &'a LatencyRow, run: &LatencyRun) -> Self {
        let summary = &run.summary;
        let ratio = |driver| ratio_in_run(&row.drivers, driver, run.run);
        let tls = row.medium.tls.as_ref();
        Self {
            transport: &row.transport,
            payload_size: row.payload_bytes,
            iterations: row.iterations,
            warmup_iterations: row.warmup,
            elapsed_s: run.elapsed_s,
            messages_sec: run.messages_per_s,
            mib_sec: run.mib_per_s,
            min_us: us(summary.min_ns),
            avg_us: summary.mean_ns.map(|ns| ns / 1e3),
            p50_us: us(summary.p50_ns),
            p95_us: us(summary.p95_ns),
            p99_us: us(summary.p99_ns),
            p99_9_us: us(summary.p999_ns),
            max_us: us(summary.max_ns),
            outliers_over_5000us: run.over_5ms,
            outliers_over_10000us: run.over_10ms,
            outliers_over_50000us: run.over_50ms,
            run: run.run,
            driver: row.driver.as_deref(),
            samples: summary.count,
            lost: summary.lost,
            stray: summary.stray,
            corrupted: summary.corrupted,
            direct_p50_ratio: ratio("direct"),
            callback_p50_ratio: ratio("callback"),
            handoff_p50_ratio: ratio("handoff"),
            spin_p50_ratio: ratio("spin"),
            port: row.medium.port.as_deref(),
            wire_time_us: us(row.medium.wire_time_ns),
            latency_timer_ms: row.medium.latency_timer_ms,
            low_latency: row.medium.low_latency,
            tls_version: tls.map(|tls| tls.version.as_str()),
            cipher_suite: tls.map(|tls| tls.cipher_suite.as_str()),
        }
    }
}

fn ratio_in_run(drivers: &[DriverRow], driver: &str, run: usize) -> Option<f64> {
    let row = drivers.iter().find(|row| row.driver == driver)?;
    let in_run = row
        .rounds
        .iter()
        .filter(|pair| pair.run == run && pair.control > 0.0);
    let mut ratios: Vec<f64> = in_run
        .map(
            |RoundPair {
                 control, product, ..
             }| product / control,
        )
        .collect();
    statistics::median(&mut ratios)
}

/// One line of the strategy CSV; the names of its fields are the columns, in their order.
///
/// Bytes are payload, as in the table; the queue's are encoded, as in its limit.
#[derive(Debug, Default, Serialize)]
struct StrategyLine<'a> {
    transport: &'a str,
    strategy: &'a str,
    payload_size: usize,
    duration_s: f64,
    accepted_messages: u64,
    failed_sends: u64,
    accepted_bytes: u64,
    received_bytes: u64,
    accepted_mib_sec: Option<f64>,
    received_mib_sec: Option<f64>,
    delivery_rate: Option<f64>,
    runtime_stats_supported: bool,
    client_messages_accepted: u64,
    client_bytes_accepted: u64,
    client_messages_sent: u64,
    client_bytes_sent: u64,
    client_failed_sends: u64,
    client_dropped_messages: u64,
    client_dropped_bytes: u64,
    client_backpressure_events: u64,
    client_max_queued_bytes: u64,
    client_queued_bytes_final: u64,
    client_pending_bytes_final: u64,
    client_backpressure_active_final: bool,
    server_messages_received: Option<u64>,
    server_bytes_received: Option<u64>,
    server_failed_sends: Option<u64>,
    server_dropped_messages: Option<u64>,
    server_dropped_bytes: Option<u64>,
    server_backpressure_events: Option<u64>,
    server_max_queued_bytes: Option<u64>,
    server_queued_bytes_final: Option<u64>,
    server_pending_bytes_final: Option<u64>,
    server_backpressure_active_final: Option<bool>,
    // Ours from here.
    run: usize,
    offered_messages: u64,
    received_messages: u64,
    refused_messages: u64,
    evicted_messages: u64,
    gaps: u64,
    duplicates: u64,
    reordered: u64,
    corrupted: u64,
    control_received_mib_sec: Option<f64>,
    // What it went over.
    tls_version: Option<&'a str>,
    cipher_suite: Option<&'a str>,
}

impl<'a> StrategyLine<'a> {
    fn new(row: &'a StrategyRow, run: &StrategyRun) -> Self {
        let payload = row.payload_bytes as u64;
        let tls = row.medium.tls.as_ref();
        let mib_per_s = |messages: u64| {
            (run.elapsed_s > 0.0).then(|| (messages * payload) as f64 / MIB / run.elapsed_s)
        };
        let sender = &run.sender;
        let server = |of: fn(&EndStatistics) -> u64| run.receiver.as_ref().map(of);
        let dropped = run.failed_sends + run.evicted_messages;
        Self {
            transport: &row.transport,
            strategy: &row.strategy,
            payload_size: row.payload_bytes,
            duration_s: run.elapsed_s,
            accepted_messages: run.accepted_messages,
            failed_sends: run.failed_sends,
            accepted_bytes: run.accepted_messages * payload,
            received_bytes: run.received_messages * payload,
            accepted_mib_sec: mib_per_s(run.accepted_messages),
            received_mib_sec: mib_per_s(run.received_messages),
            delivery_rate: (run.accepted_messages > 0)
                .then(|| run.received_messages as f64 * 100.0 / run.accepted_messages as f64),
            runtime_stats_supported: row.runtime_stats,
            client_messages_accepted: sender.accepted_messages,
            client_bytes_accepted: sender.accepted_bytes,
            client_messages_sent: sender.written_messages,
            client_bytes_sent: sender.written_bytes,
            client_failed_sends: sender.refused_messages,
            client_dropped_messages: dropped,
            client_dropped_bytes: dropped * payload,
            client_backpressure_events: sender.pressure_events,
            client_max_queued_bytes: sender.max_queued_bytes,
            client_queued_bytes_final: sender.waiting_bytes,
            // What is in flight counts as waiting here; nothing is pending beside the queue.
            client_pending_bytes_final: 0,
            // High and low water alternate strictly: an odd number of crossings ends above.
            client_backpressure_active_final: sender.pressure_events % 2 == 1,
            server_messages_received: server(|end| end.received_messages),
            server_bytes_received: server(|end| end.received_payload_bytes),
            server_failed_sends: server(|end| end.refused_messages),
            server_dropped_messages: server(|end| end.discarded_messages),
            server_dropped_bytes: server(|end| end.discarded_bytes),
            server_backpressure_events: server(|end| end.pressure_events),
            server_max_queued_bytes: server(|end| end.max_queued_bytes),
            server_queued_bytes_final: server(|end| end.waiting_bytes),
            server_pending_bytes_final: server(|_| 0),
            server_backpressure_active_final: server(|end| end.pressure_events)
                .map(|crossings| crossings % 2 == 1),
            run: run.run,
            offered_messages: run.offered_messages,
            received_messages: run.received_messages,
            refused_messages: run.failed_sends,
            evicted_messages: run.evicted_messages,
            gaps: run.integrity.gaps,
            duplicates: run.integrity.duplicates,
            reordered: run.integrity.reordered,
            corrupted: run.integrity.corrupted,
            control_received_mib_sec: run.control_received_mib_per_s,
            tls_version: tls.map(|tls| tls.version.as_str()),
            cipher_suite: tls.map(|tls| tls.cipher_suite.as_str()),
        }
    }
}

/// Every time in a CSV is in microseconds, as in the columns that readers of such files know.
fn us(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e3)
}

fn csv_of<L: Serialize>(
    lines: impl Iterator<Item = L>,
    heading: impl Serialize,
    mut to: impl io::Write,
) -> io::Result<()> {
    let mut columns = csv::Writer::from_writer(Vec::new());
    columns.serialize(heading)?;
    let columns = columns.into_inner().map_err(|error| error.into_error())?;
    let end = columns
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or(columns.len(), |at| at + 1);
    to.write_all(&columns[..end])?;
    let mut rows = csv::WriterBuilder::new().has_headers(false).from_writer(to);
    for line in lines {
        rows.serialize(line)?;
    }
    rows.flush()
}

const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::sample;
    use crate::wire::PeerRecord;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut bytes = Vec::new();
        write(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_latency_csv() {
        let mut report = sample::report();
        report.latency.truncate(2);
        insta::assert_snapshot!(text(|to| latency_csv(&report, to)));
    }

    #[test]
    fn the_csv_says_what_rows_went_over() {
        let mut report = sample::media_report();
        for row in &mut report.latency {
            row.each_run.truncate(1);
        }
        let lines = text(|to| latency_csv(&report, to));
        let ends: Vec<&str> = lines
            .lines()
            .map(|line| line.splitn(28, ',').last().unwrap())
            .collect();
        assert_eq!(
            ends,
            [
                "port,wire_time_us,latency_timer_ms,low_latency,tls_version,cipher_suite",
                ",,,,,",
                ",,,,TLS 1.3,TLS_AES_256_GCM_SHA384",
                ",,,,,",
                "serial:///dev/ttyUSB0?baud=115200,5902.777,16,false,,",
            ]
        );
    }

    #[test]
    fn a_report_from_before_these_fields_is_read() {
        let mut document = document(&sample::report());
        let row = document["latency"][0].as_object_mut().unwrap();
        for field in [
            "port",
            "wire_time_ns",
            "latency_timer_ms",
            "low_latency",
            "tls",
            "note",
        ] {
            assert!(row.remove(field).is_some(), "{field}");
        }
        let back = read(&document.to_string()).unwrap();
        assert_eq!(back.latency[0].medium, crate::report::Medium::default());
    }

    #[test]
    fn the_strategy_csv() {
        let mut report = sample::report();
        report.strategy.truncate(3);
        insta::assert_snapshot!(text(|to| strategy_csv(&report, to)));
    }

    #[test]
    fn the_known_columns_come_first_and_in_their_order() {
        let mut report = sample::report();
        report.latency.clear();
        report.strategy.clear();
        let latency = text(|to| latency_csv(&report, to));
        assert!(latency.starts_with(
            "transport,payload_size,iterations,warmup_iterations,elapsed_s,messages_sec,mib_sec,\
             min_us,avg_us,p50_us,p95_us,p99_us,p99_9_us,max_us,outliers_over_5000us,\
             outliers_over_10000us,outliers_over_50000us,run,"
        ));
        let strategy = text(|to| strategy_csv(&report, to));
        assert!(strategy.starts_with(
            "transport,strategy,payload_size,duration_s,accepted_messages,failed_sends,\
             accepted_bytes,received_bytes,accepted_mib_sec,received_mib_sec,delivery_rate,\
             runtime_stats_supported,client_messages_accepted,client_bytes_accepted,\
             client_messages_sent,client_bytes_sent,client_failed_sends,client_dropped_messages,\
             client_dropped_bytes,client_backpressure_events,client_max_queued_bytes,\
             client_queued_bytes_final,client_pending_bytes_final,\
             client_backpressure_active_final,server_messages_received,server_bytes_received,\
             server_failed_sends,server_dropped_messages,server_dropped_bytes,\
             server_backpressure_events,server_max_queued_bytes,server_queued_bytes_final,\
             server_pending_bytes_final,server_backpressure_active_final,run,"
        ));
        assert_eq!((latency.lines().count(), strategy.lines().count()), (1, 1));
    }

    #[test]
    fn a_percentile_without_samples_is_an_empty_field() {
        let mut report = sample::report();
        report.latency.truncate(1);
        report.latency[0].each_run.truncate(1);
        report.latency[0].each_run[0].summary.p999_ns = None;
        let line = text(|to| latency_csv(&report, to))
            .lines()
            .nth(1)
            .unwrap()
            .to_owned();
        assert_eq!(line.split(',').nth(12), Some(""));
    }

    #[test]
    fn what_is_no_number_is_null_in_json() {
        let mut report = sample::report();
        report.clock.read_ns = f64::NAN;
        report.latency[0].messages_per_s = Some(f64::INFINITY);
        let document: Value = serde_json::from_str(&text(|to| json(&report, to))).unwrap();
        assert!(document["clock"]["read_ns"].is_null());
        assert!(document["latency"][0]["messages_per_s"].is_null());
    }

    #[test]
    fn json_is_one_document_on_one_line() {
        let written = text(|to| json(&sample::report(), to));
        assert!(written.ends_with("}\n"));
        assert_eq!(written.lines().count(), 1);
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let mut report = sample::report();
        report.cells = sample::ping_report().cells;
        report.ping = report.cells.first().cloned();
        report.stream = sample::stream_report().stream;
        let mut recorder = crate::recorder::Recorder::new();
        (1..=2_000).for_each(|us| recorder.record(us * 1_000));
        report.latency[0].control = recorder.summary_with_hdr();
        report.latency.extend(sample::media_report().latency);
        let written = text(|to| json(&report, to));
        let back = read(&written).unwrap();
        let kept = back.latency[0].control.hdr.as_ref().unwrap();
        assert_eq!(kept.recorded(), recorder.to_report().recorded());
        assert_eq!(text(|to| json(&back, to)), written);
    }

    #[test]
    fn what_is_no_report_is_told_apart() {
        let said = |text: &str| read(text).unwrap_err();
        assert!(said("").contains("cut short"), "{}", said(""));
        assert!(said("{\"schema\": \"tautline").contains("cut short"));
        assert!(said("NaN").contains("no JSON"));
        assert!(said("[1]").contains("it has no schema"));
        assert!(said("{\"a\": 1}").contains("it has no schema"));
        assert!(said("{\"schema\": 7}").contains("it has no schema"));
        assert!(said("{\"schema\": \"fio/3\"}").contains("its schema is fio/3"));
        // What is quoted goes to a terminal, and a file from elsewhere shall not move its cursor.
        let sly = said("{\"schema\": \"\\u001b[31m\\nred\"}");
        assert!(sly.ends_with(r"its schema is \u{1b}[31m\nred"), "{sly}");
        let later = said("{\"schema\": \"tautline.report/2\"}");
        assert!(later.contains("a later version wrote it"), "{later}");
        let half = said("{\"schema\": \"tautline.report/1\"}");
        assert!(half.contains("makes no sense"), "{half}");
    }

    fn schema() -> Value {
        serde_json::from_str(include_str!("../../../../schema/report-v1.json")).unwrap()
    }

    fn document(report: &Report) -> Value {
        serde_json::from_str(&text(|to| json(report, to))).unwrap()
    }

    fn faults(report: &Report) -> Vec<String> {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        validator
            .iter_errors(&document(report))
            .map(|error| error.to_string())
            .collect()
    }

    #[test]
    fn every_report_is_valid_by_the_schema() {
        let mut report = sample::report();
        assert_eq!(faults(&report), Vec::<String>::new());
        report.latency.extend(sample::media_report().latency);
        report.strategy.extend(sample::media_report().strategy);
        report.gates.push(
            "p50 > 1us"
                .parse::<crate::gate::Gate>()
                .unwrap()
                .judge(&report),
        );
        report.peer = Some(PeerRecord::of(&report.environment));
        report.cells = sample::ping_report().cells;
        report.ping = report.cells.first().cloned();
        report.stream = sample::stream_report().stream;
        report.environment = crate::environment::Environment::read();
        assert_eq!(faults(&report), Vec::<String>::new());
    }

    #[test]
    fn a_report_of_nothing_is_valid_by_the_schema() {
        let mut report = sample::report();
        report.environment = crate::environment::Environment::default();
        report.latency.truncate(1);
        report.latency[0].summary = crate::report::RttSummary::default();
        report.latency[0].messages_per_s = Some(f64::NAN);
        report.strategy.clear();
        report.error = Some("listen: address in use".to_owned());
        assert_eq!(faults(&report), Vec::<String>::new());
    }

    #[test]
    fn the_schema_describes_every_field_there_is() {
        let mut report = sample::report();
        report.latency.extend(sample::media_report().latency);
        report.strategy.extend(sample::media_report().strategy);
        report.gates.push(
            "p50 > 1us"
                .parse::<crate::gate::Gate>()
                .unwrap()
                .judge(&report),
        );
        report.environment = crate::environment::Environment::read();
        report.cells = sample::ping_report().cells;
        report.stream = sample::stream_report().stream;
        let schema = schema();
        let mut unknown = Vec::new();
        undescribed(&schema, &schema, &document(&report), "", &mut unknown);
        assert_eq!(unknown, Vec::<String>::new());
    }

    /// Every key of `value` that the schema at `at` has no property for, and every property that is
    /// not required though it is always written.
    fn undescribed(root: &Value, at: &Value, value: &Value, path: &str, unknown: &mut Vec<String>) {
        if let Some(reference) = at["$ref"].as_str() {
            let pointer = reference.trim_start_matches('#');
            return undescribed(root, root.pointer(pointer).unwrap(), value, path, unknown);
        }
        if let Some(choices) = at["anyOf"].as_array()
            && !value.is_null()
        {
            return undescribed(root, &choices[0], value, path, unknown);
        }
        if let Some(items) = value.as_array() {
            for item in items {
                undescribed(root, &at["items"], item, path, unknown);
            }
        }
        for (key, value) in value.as_object().into_iter().flatten() {
            let path = format!("{path}/{key}");
            if at["additionalProperties"].is_object() {
                continue;
            }
            let required = at["required"]
                .as_array()
                .is_some_and(|keys| keys.contains(&key.as_str().into()));
            match at["properties"].get(key) {
                Some(property) if required => undescribed(root, property, value, &path, unknown),
                _ => unknown.push(path),
            }
        }
    }
}
