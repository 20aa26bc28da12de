//! Bundles of reports made by hand, written and verified.

mod spoilt;

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::environment::Environment;
use crate::ping::Sorted;
use crate::recorder::Recorder;
use crate::report::soak::{Phase, Rtt, Sender, Slice, Soak};
use crate::report::{LatencyRow, hlog, sample};

/// A report of all tables whose figures come from recorded times, as those of a run do.
fn whole() -> Report {
    let mut report = sample::report();
    report.version = env!("CARGO_PKG_VERSION").into();
    report.latency.truncate(2);
    for row in &mut report.latency {
        remeasure(row);
    }
    report.strategy.truncate(3);
    let points = crate::ping::Point::DEFAULT;
    report.cells = sample::ping_report().cells;
    for cell in &mut report.cells {
        let mut times = Sorted::new();
        (1..=30_000_u64).for_each(|n| times.record(20_000 + n * 97));
        cell.rtt = times.times_with_hdr(&points);
        cell.response = cell.response.take().map(|_| times.times_with_hdr(&points));
    }
    report.ping = report.cells.first().cloned();
    report.stream = sample::stream_report().stream;
    report.soak = Some(soak());
    report
}

fn recorded(scale: u64) -> Recorder {
    let mut recorder = Recorder::new();
    (1..=12_000_u64).for_each(|n| recorder.record(30_000 + n * scale));
    recorder
}

fn remeasure(row: &mut LatencyRow) {
    row.control = recorded(3).summary_with_hdr();
    for driver in &mut row.drivers {
        driver.summary = recorded(700).summary_with_hdr();
    }
    let leading = recorded(700);
    row.summary = leading.summary();
    let over = leading.over();
    (row.over_5ms, row.over_10ms, row.over_50ms) = (over.ms5, over.ms10, over.ms50);
}

fn soak() -> Soak {
    let times = recorded(11);
    let summary = times.summary();
    let rtt = Rtt {
        count: summary.count,
        min_ns: summary.min_ns,
        mean_ns: summary.mean_ns,
        p50_ns: summary.p50_ns,
        p99_ns: summary.p99_ns,
        p999_ns: summary.p999_ns,
        p9999_ns: times.beyond(10_000),
        p99999_ns: times.beyond(100_000),
        max_ns: summary.max_ns,
        hdr: Some(times.to_report()),
    };
    let sender = Sender {
        pings: 12_000,
        slices: vec![Slice::default()],
        ..Sender::default()
    };
    let phase = |load: &str| Phase {
        load: load.to_owned(),
        senders: vec![sender.clone()],
        rtt: rtt.clone(),
        ..Phase::default()
    };
    Soak {
        label: "6.1".to_owned(),
        rounds: vec![phase("none"), phase("primes")],
        ..Soak::default()
    }
}

fn build() -> Build {
    Build {
        compiler: "rustc 1.95.0".to_owned(),
        profile: "debug".to_owned(),
        opt_level: "1".to_owned(),
        target: "x86_64-unknown-linux-gnu".to_owned(),
        commit: "unknown".to_owned(),
        modified: None,
    }
}

fn origin() -> Origin {
    Origin {
        command: "bench".to_owned(),
        platform: Some("board-7".to_owned()),
        run_id: Some("33306595706".to_owned()),
    }
}

/// A bundle in a folder of its own.
struct Written {
    parent: tempfile::TempDir,
    folder: PathBuf,
}

impl Written {
    fn new(report: &Report) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("run");
        let bundle = Bundle::open(&folder).unwrap();
        let hardware = Hardware::after_run(report, build());
        bundle.write(report, &hardware, &origin()).unwrap();
        Self { parent, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    fn verified(&self) -> Verified {
        verify(&self.folder).unwrap()
    }

    /// What is wrong, a line each.
    fn faults(&self) -> Vec<String> {
        let faults = self.verified().faults;
        faults.iter().map(ToString::to_string).collect()
    }

    /// Writes a file anew, and everything that vouches for it: what a careful forger would do.
    fn forge(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        let mut manifest: Manifest = serde_json::from_str(&self.text("manifest.json")).unwrap();
        for file in &mut manifest.files {
            if file.path == name {
                *file = FileRecord::of(name, text.as_bytes());
            }
        }
        self.list(&manifest);
    }

    fn list(&self, manifest: &Manifest) {
        fs::remove_file(self.path("manifest.json")).unwrap();
        fs::remove_file(self.path("SHA256SUMS")).unwrap();
        manifest.write(&self.folder).unwrap();
    }
}

#[test]
fn a_bundle_has_a_file_for_all_the_run_has_and_verifies() {
    let written = Written::new(&whole());
    let expected = [
        "SHA256SUMS",
        "environment.txt",
        "hardware.json",
        "latency.hlog",
        "latency_matrix.csv",
        "latency_matrix.csv.meta",
        "latency_matrix_summary.md",
        "manifest.json",
        "ping.csv",
        "ping.hlog",
        "ping_slices.csv",
        "raw_udp_payload_smoke.csv",
        "raw_udp_payload_smoke.csv.meta",
        "raw_udp_payload_smoke_summary.md",
        "release_notes.md",
        "report.json",
        "soak.csv",
        "soak.hlog",
        "soak_slices.csv",
        "strategy_sweep.csv",
        "strategy_sweep.csv.meta",
        "strategy_sweep_summary.md",
        "stream.csv",
        "stream_slices.csv",
        "udp_payload_smoke.csv",
        "udp_payload_smoke.csv.meta",
        "udp_payload_smoke_summary.md",
    ];
    assert_eq!(written.names(), expected.map(str::to_owned).into());
    let verified = written.verified();
    assert_eq!(verified.faults, []);
    assert_eq!(verified.files, expected.len());
    assert!(verified.figures > 50, "{}", verified.figures);
    let run = verified.manifest.unwrap().run;
    assert_eq!(
        (run.status, run.command.as_str()),
        (Status::Complete, "bench")
    );
    assert_eq!(run.platform.as_deref(), Some("board-7"));
}

#[test]
fn a_table_that_the_run_does_not_have_has_no_file() {
    let mut report = whole();
    report.latency.clear();
    report.udp_smoke.clear();
    report.cells.clear();
    report.stream.clear();
    report.soak = None;
    let written = Written::new(&report);
    let expected = [
        "SHA256SUMS",
        "environment.txt",
        "hardware.json",
        "manifest.json",
        "release_notes.md",
        "report.json",
        "strategy_sweep.csv",
        "strategy_sweep.csv.meta",
        "strategy_sweep_summary.md",
    ];
    assert_eq!(written.names(), expected.map(str::to_owned).into());
    assert_eq!(written.faults(), Vec::<String>::new());
}

#[test]
fn an_interrupted_run_and_a_broken_one_say_so_and_verify() {
    let mut report = whole();
    report.interrupted = true;
    let verified = Written::new(&report).verified();
    assert_eq!(verified.faults, []);
    assert_eq!(verified.manifest.unwrap().run.status, Status::Interrupted);

    report.interrupted = false;
    report.error = Some("connect to tcp://10.0.0.5:6001: connection refused".to_owned());
    let verified = Written::new(&report).verified();
    assert_eq!(verified.faults, []);
    assert_eq!(verified.manifest.unwrap().run.status, Status::Error);
}

#[test]
fn each_log_has_a_line_for_each_distribution() {
    let written = Written::new(&whole());
    let tags = |name| -> Vec<String> {
        let lines = hlog::read(&written.text(name)).unwrap();
        lines.into_iter().map(|(tag, _)| tag).collect()
    };
    let latency = tags("latency.hlog");
    assert!(
        latency.contains(&"tcp_64_handoff".to_owned()),
        "{latency:?}"
    );
    assert!(
        latency.contains(&"tcp_64_control".to_owned()),
        "{latency:?}"
    );
    assert_eq!(tags("soak.hlog"), ["none_0", "primes_0"]);
    let ping = tags("ping.hlog");
    assert_eq!(ping[0], "tcp://127.0.0.1:6001_64_rtt");
    assert!(ping.last().unwrap().ends_with("_response"), "{ping:?}");
}

#[test]
fn the_pages_beside_the_tables_have_the_known_columns() {
    let written = Written::new(&whole());
    assert!(written.text("latency_matrix_summary.md").contains(
        "| transport | payload | runs | msg/s median | MiB/s median | p50 us | p95 us | p99 us \
         | p99.9 us | max us | >5ms | >10ms | >50ms |\n"
    ));
    assert!(written.text("strategy_sweep_summary.md").contains(
        "| transport | strategy | payload | runs | accepted MiB/s | received MiB/s | delivery % \
         | failed sends | runtime stats | dropped msg | dropped MiB | max queue KiB | bp events |\n"
    ));
    let smoke = written.text("udp_payload_smoke_summary.md");
    assert!(smoke.contains("## RuntimeStats"), "{smoke}");
    let meta = written.text("latency_matrix.csv.meta");
    assert!(meta.contains("\npayload_sizes,64 16384\n"), "{meta}");
    assert!(
        meta.contains("\noutlier_thresholds_us,5000 10000 50000\n"),
        "{meta}"
    );
}

#[test]
fn documents_are_valid_by_their_schemas() {
    let written = Written::new(&whole());
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let manifest = schema(include_str!("../../../../schema/manifest-v1.json"));
    let report = include_str!("../../../../schema/report-v1.json");
    let mut hardware = include_str!("../../../../schema/hardware-v1.json").to_owned();
    // The validator is to fetch nothing: what the one schema takes from the other is put into it.
    hardware = hardware.replace("report-v1.json#", "#");
    let mut hardware = schema(&hardware);
    hardware["$defs"] = schema(report)["$defs"].clone();
    for (name, schema) in [("manifest.json", manifest), ("hardware.json", hardware)] {
        let document: Value = serde_json::from_str(&written.text(name)).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&document)
            .map(|fault| fault.to_string())
            .collect();
        assert_eq!(faults, Vec::<String>::new(), "{name}");
        // And it says what it is: an empty one is none.
        assert!(!validator.is_valid(&serde_json::json!({})), "{name}");
    }
}

#[test]
fn a_folder_with_something_in_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let refused = Bundle::open(folder.path()).unwrap_err().to_string();
    assert!(refused.ends_with("is not empty: name a new folder, or empty this one first"));
    let refused = Bundle::open(&folder.path().join("notes.txt")).unwrap_err();
    assert!(matches!(refused, OpenError::NoFolder(_)), "{refused}");
    let refused = Bundle::open(&folder.path().join("notes.txt/run")).unwrap_err();
    assert!(matches!(refused, OpenError::Refused { .. }), "{refused}");
}

#[test]
fn the_second_run_in_one_folder_finds_it_taken_and_an_abandoned_one_free() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let first = Bundle::open(&folder).unwrap();
    assert!(matches!(Bundle::open(&folder), Err(OpenError::NotEmpty(_))));
    drop(first);
    assert!(Bundle::open(&folder).is_ok());
}

#[test]
fn a_write_that_fails_in_the_middle_leaves_no_manifest() {
    let report = whole();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let bundle = Bundle::open(&folder).unwrap();
    // In the place of a later file: as a full disk, it fails when that file is written.
    fs::create_dir(folder.join("stream.csv")).unwrap();
    let hardware = Hardware::now(Environment::default(), build());
    let failed = bundle.write(&report, &hardware, &origin()).unwrap_err();
    assert_eq!(failed.path, folder.join("stream.csv"));
    assert!(folder.join("latency_matrix.csv").exists());
    let unreadable = verify(&folder).unwrap_err();
    assert_eq!(unreadable, Unreadable::NoManifest(folder));
}

#[test]
fn an_archive_holds_the_folder_and_its_checksum_is_right() {
    let report = whole();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let bundle = Bundle::open(&folder).unwrap();
    let archive = Archive::open(&folder).unwrap();
    let hardware = Hardware::now(report.environment.clone(), build());
    let manifest = bundle.write(&report, &hardware, &origin()).unwrap();
    let packed = archive.write(&manifest).unwrap();
    assert_eq!(packed.file_name().unwrap(), "run.tar.gz");

    let sum = fs::read_to_string(parent.path().join("run.tar.gz.sha256")).unwrap();
    let bytes = fs::read(&packed).unwrap();
    assert_eq!(
        sum,
        format!("{}  run.tar.gz\n", FileRecord::of("", &bytes).sha256)
    );

    let elsewhere = parent.path().join("elsewhere");
    let unpacked = flate2::read::GzDecoder::new(&bytes[..]);
    tar::Archive::new(unpacked).unpack(&elsewhere).unwrap();
    assert_eq!(verify(&elsewhere.join("run")).unwrap().faults, []);
    // One that is there already stays.
    assert!(Archive::open(&folder).is_err());
}
