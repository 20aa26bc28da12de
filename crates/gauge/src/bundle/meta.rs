//! The `.csv.meta` beside each of the known tables: `key,value` lines that say what was asked for and
//! where.

use std::collections::BTreeSet;

use super::Contents;
use crate::report::SmokeRow;

pub(super) fn latency(contents: &Contents<'_>) -> String {
    let rows = &contents.report.latency;
    let first = rows.first();
    let mut meta = Meta::of(contents);
    meta.list("payload_sizes", rows.iter().map(|row| row.payload_bytes));
    meta.names("transports", rows.iter().map(|row| &row.transport));
    meta.add("repeats", first.map(|row| row.runs));
    meta.add("iterations", first.map(|row| row.iterations));
    meta.add("warmup_iterations", first.map(|row| row.warmup));
    let udp = rows.iter().filter(|row| row.transport == "udp");
    meta.add(
        "udp_max_payload_size",
        udp.map(|row| row.payload_bytes).max(),
    );
    meta.add("outlier_thresholds_us", Some("5000 10000 50000"));
    // Ours from here.
    meta.add("seed", Some(contents.report.seed));
    meta.add("placement", Some(&contents.report.placement.requested));
    let rounds = first.and_then(|row| row.drivers.first()).map(|driver| {
        let first_run = driver.rounds.iter().filter(|round| round.run == 0);
        first_run.count()
    });
    meta.add("rounds", rounds);
    meta.text()
}

pub(super) fn strategy(contents: &Contents<'_>) -> String {
    let rows = &contents.report.strategy;
    let mut meta = Meta::of(contents);
    meta.list("payload_sizes", rows.iter().map(|row| row.payload_bytes));
    meta.names("transports", rows.iter().map(|row| &row.transport));
    meta.names("strategies", rows.iter().map(|row| &row.strategy));
    meta.add("repeats", rows.first().map(|row| row.runs));
    meta.add("placement", Some(&contents.report.placement.requested));
    meta.text()
}

pub(super) fn raw_smoke(contents: &Contents<'_>) -> String {
    let rows = contents.report.udp_smoke.iter();
    let mut meta = Meta::of(contents);
    meta.smoke(rows.filter(|row| row.runtime.is_none()).collect());
    meta.text()
}

pub(super) fn smoke(contents: &Contents<'_>) -> String {
    let rows = contents.report.udp_smoke.iter();
    let rows: Vec<_> = rows.filter(|row| row.runtime.is_some()).collect();
    let mut meta = Meta::of(contents);
    meta.names("strategies", rows.iter().map(|row| &row.path));
    meta.smoke(rows);
    meta.text()
}

/// The lines by and by.
#[derive(Debug)]
struct Meta {
    lines: csv::Writer<Vec<u8>>,
}

impl Meta {
    /// What every table's begins with.
    fn of(contents: &Contents<'_>) -> Self {
        let mut meta = Self {
            lines: csv::Writer::from_writer(Vec::new()),
        };
        let (report, build) = (contents.report, &contents.hardware.build);
        let kernel = &report.environment.kernel;
        let uname = ["Linux"].into_iter().chain(
            [&kernel.release, &kernel.version, &kernel.architecture]
                .into_iter()
                .flatten()
                .map(String::as_str),
        );
        meta.add("timestamp_utc", Some(&report.started_at));
        meta.add("uname", Some(uname.collect::<Vec<_>>().join(" ")));
        meta.add("rustc", Some(&build.compiler));
        meta.add("profile", Some(&build.profile));
        meta.add("target", Some(&build.target));
        meta.add("tautline_version", Some(&report.version));
        meta.add("tautline_commit", Some(&build.commit));
        meta.add("runtime_stats_supported", Some(true));
        meta.add("platform", contents.origin.platform.as_ref());
        meta.add("run_id", contents.origin.run_id.as_ref());
        meta
    }

    /// What is not known is an empty value.
    fn add(&mut self, key: &str, value: Option<impl ToString>) {
        let value = value.map_or_else(String::new, |value| value.to_string());
        let written = self.lines.write_record([key, &value]);
        written.expect("two fields in every line, into memory");
    }

    /// Different values, the least first.
    fn list(&mut self, key: &str, values: impl Iterator<Item = usize>) {
        let values: BTreeSet<usize> = values.collect();
        let values: Vec<String> = values.iter().map(usize::to_string).collect();
        self.add(key, Some(values.join(" ")));
    }

    /// Different names, in the order of the table.
    fn names<'a>(&mut self, key: &str, names: impl Iterator<Item = &'a String>) {
        let mut once: Vec<&str> = Vec::new();
        for name in names {
            if !once.contains(&name.as_str()) {
                once.push(name);
            }
        }
        self.add(key, Some(once.join(" ")));
    }

    fn smoke(&mut self, rows: Vec<&SmokeRow>) {
        let first = rows.first();
        self.list("payload_sizes", rows.iter().map(|row| row.payload_bytes));
        self.add("iterations", first.map(|row| row.iterations));
        self.add("warmup_iterations", first.map(|row| row.warmup));
    }

    fn text(self) -> String {
        let bytes = self.lines.into_inner().expect("a Vec takes everything");
        String::from_utf8(bytes).expect("made of texts")
    }
}
