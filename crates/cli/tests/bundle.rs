//! `--out`, `--archive`, `verify` and `env` from the outside: what they leave, what they say, what status
//! they end with.

mod program;
mod schema;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use self::program::{Finished, Program, signal};
use self::schema::json;

/// The smallest run of all tables that has intervals.
const BENCH: &str = "bench --sizes 64 --repeats 1 --rounds 6 -n 60 --warmup 10 -t 20ms";
/// One table, one transport: what a bundle has least.
const SMALL: &str =
    "bench latency --sizes 64 --transports uds --repeats 1 --rounds 2 -n 20 --warmup 0";

/// A folder for bundles, and what a run wrote into `run` below it.
struct Bundle {
    parent: tempfile::TempDir,
}

impl Bundle {
    fn written(words: &str, more: &[&str]) -> Self {
        let bundle = Self {
            parent: tempfile::tempdir().unwrap(),
        };
        let folder = bundle.folder();
        let out = ["--out", folder.to_str().unwrap()];
        Program::new(words, &[&out, more].concat())
            .run()
            .ended_with(0);
        bundle
    }

    fn folder(&self) -> PathBuf {
        self.parent.path().join("run")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn verified(&self) -> Finished {
        verified(&self.folder())
    }
}

fn verified(folder: &Path) -> Finished {
    Program::new("verify", &[folder.to_str().unwrap()]).run()
}

#[test]
fn a_bench_leaves_a_bundle_that_verifies_here_and_with_sha256sum() {
    let bundle = Bundle::written(
        BENCH,
        &["--platform", "board-7", "--run-id", "42", "--archive"],
    );
    let finished = bundle.verified().ended_with(0);
    let folder = bundle.folder();
    let said = finished.stdout;
    assert!(
        said.starts_with(&format!("{}: ok: ", folder.display())),
        "{said}"
    );
    assert!(said.trim_end().ends_with(", complete"), "{said}");

    let sums = Command::new("sha256sum")
        .args(["--strict", "-c", "SHA256SUMS"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let listed = String::from_utf8(sums.stdout).unwrap();
    assert!(sums.status.success(), "{listed}");
    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(listed.lines().count(), files - 1, "{listed}");

    let manifest: Value = serde_json::from_str(&bundle.text("manifest.json")).unwrap();
    assert_eq!(manifest["run"]["platform"], "board-7");
    assert_eq!(manifest["run"]["run_id"], "42");
    assert_eq!(manifest["run"]["command"], "bench");
    json(&bundle.text("report.json"));
    for name in [
        "latency_matrix.csv",
        "strategy_sweep.csv",
        "raw_udp_payload_smoke.csv",
        "udp_payload_smoke.csv",
    ] {
        assert!(bundle.text(name).lines().count() > 1, "{name}");
        let base = name.strip_suffix(".csv").unwrap();
        assert!(
            bundle
                .text(&format!("{base}_summary.md"))
                .contains("| payload |")
        );
        assert!(
            bundle
                .text(&format!("{name}.meta"))
                .starts_with("timestamp_utc,")
        );
    }

    let packed = Command::new("sha256sum")
        .args(["--strict", "-c", "run.tar.gz.sha256"])
        .current_dir(bundle.parent.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(packed.success());
    let unpacked = bundle.parent.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let tar = Command::new("tar")
        .args(["-xzf", "run.tar.gz", "-C", "unpacked"])
        .current_dir(bundle.parent.path())
        .status()
        .unwrap();
    assert!(tar.success());
    verified(&unpacked.join("run")).ended_with(0);
}

#[test]
fn the_run_of_a_ci_is_taken_from_its_environment() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let mut program = Program::new(SMALL, &["--out", folder.to_str().unwrap()]);
    program.command.env("GITHUB_RUN_ID", "33306595706");
    program.run().ended_with(0);
    let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["run"]["run_id"], "33306595706");
}

#[test]
fn everything_that_is_wrong_has_a_line_and_the_status_is_1() {
    let bundle = Bundle::written(SMALL, &[]);
    let csv = bundle.text("latency_matrix.csv");
    fs::write(bundle.path("latency_matrix.csv"), &csv[..40]).unwrap();
    let mut report = fs::read(bundle.path("report.json")).unwrap();
    let middle = report.len() / 2;
    report[middle] ^= 1;
    fs::write(bundle.path("report.json"), report).unwrap();
    fs::remove_file(bundle.path("environment.txt")).unwrap();
    fs::write(bundle.path("notes.txt"), "mine").unwrap();
    let finished = bundle.verified().ended_with(1);
    let folder = bundle.folder().display().to_string();
    let lines: Vec<&str> = finished
        .stdout
        .lines()
        .map(|line| line.strip_prefix(&format!("{folder}: ")).unwrap())
        .collect();
    let cut = format!("latency_matrix.csv: cut short: 40 bytes of {}", csv.len());
    assert_eq!(
        lines[..4],
        [
            "report.json: changed: its SHA-256 is not the one in the manifest",
            cut.as_str(),
            "environment.txt: it is missing",
            "notes.txt: it is not in the manifest: it came later",
        ]
    );
    assert!(lines[4].starts_with("NOT ok: 4 faults, "), "{}", lines[4]);
}

#[test]
fn a_manifest_of_the_future_or_of_somebody_else_is_said_to_be_one() {
    let bundle = Bundle::written(SMALL, &[]);
    let manifest = bundle.text("manifest.json");
    for (text, why) in [
        (
            manifest.replace("tautline.manifest/1", "tautline.manifest/2"),
            "a later version wrote it",
        ),
        ("{\"schema\": \"fio/3\"}".to_owned(), "its schema is fio/3"),
        (manifest[..manifest.len() / 2].to_owned(), "it is cut short"),
    ] {
        fs::write(bundle.path("manifest.json"), text).unwrap();
        let finished = bundle.verified().ended_with(1);
        let first = finished.stdout.lines().next().unwrap();
        assert!(
            first.contains("manifest.json: ") && first.contains(why),
            "{first}"
        );
    }
}

#[test]
fn what_is_no_bundle_is_not_available() {
    let parent = tempfile::tempdir().unwrap();
    let finished = verified(parent.path()).ended_with(3);
    assert!(finished.stderr.ends_with("is empty: it holds no bundle\n"));
    fs::write(parent.path().join("report.json"), "{}").unwrap();
    let finished = verified(parent.path()).ended_with(3);
    assert!(
        finished.stderr.contains("has no manifest.json"),
        "{}",
        finished.stderr
    );
    let finished = verified(&parent.path().join("absent")).ended_with(3);
    assert!(
        finished.stderr.contains("No such file"),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.stdout, "");
}

#[test]
fn one_folder_that_is_none_keeps_no_other_from_being_checked() {
    let bundle = Bundle::written(SMALL, &[]);
    let folder = bundle.folder();
    let finished = Program::new("verify", &["/nonexistent", folder.to_str().unwrap()])
        .run()
        .ended_with(3);
    assert!(finished.stdout.contains(": ok: "), "{}", finished.stdout);
}

#[test]
fn a_folder_that_cannot_be_had_is_said_before_anything_is_measured() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("notes.txt"), "mine").unwrap();
    let full = parent.path().to_str().unwrap();
    let finished = Program::new(BENCH, &["--out", full]).run().ended_with(3);
    assert_eq!(
        finished.stderr,
        format!(
            "tautline: --out: {full} is not empty: name a new folder, or empty this one first\n"
        )
    );
    let below_a_file = format!("{full}/notes.txt/run");
    let finished = Program::new(BENCH, &["--out", &below_a_file])
        .run()
        .ended_with(3);
    assert!(
        finished.stderr.starts_with("tautline: --out: "),
        "{}",
        finished.stderr
    );

    let taken = parent.path().join("run.tar.gz");
    fs::write(&taken, "mine").unwrap();
    let folder = parent.path().join("run");
    let out = ["--out", folder.to_str().unwrap(), "--archive"];
    let finished = Program::new(BENCH, &out).run().ended_with(3);
    assert!(
        finished.stderr.contains("--archive: "),
        "{}",
        finished.stderr
    );
    assert_eq!(fs::read_to_string(taken).unwrap(), "mine");
    // The folder is as free as it was.
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn options_of_a_bundle_without_one_are_usage_errors() {
    for more in [&["--archive"][..], &["--platform", "x"], &["--run-id", "7"]] {
        let finished = Program::new(SMALL, more).run().ended_with(2);
        assert!(
            finished.stderr.contains("--out <DIR>"),
            "{}",
            finished.stderr
        );
    }
}

// They went as they were into pages that people print on terminals.
#[test]
fn a_name_with_control_characters_is_refused_before_anything_is_measured() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    for option in ["--platform", "--run-id"] {
        let more = [
            "--out",
            folder.to_str().unwrap(),
            option,
            "rack\u{1b}[31m\n7",
        ];
        let refused = Program::new(SMALL, &more).run().ended_with(2);
        assert!(refused.stderr.contains(option), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("a name has none"),
            "{}",
            refused.stderr
        );
        assert!(!folder.exists());
    }
}

/// A file size limit is a full disk for one process: the write of the report fails in the middle.
#[test]
fn a_full_disk_leaves_no_manifest_and_a_sentence() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let script = format!(
        "trap '' XFSZ; ulimit -f 4; exec {} {SMALL} --out {}",
        assert_cmd::cargo::cargo_bin!("tautline").display(),
        folder.display()
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("tautline: write --out "), "{stderr}");
    assert!(
        stderr.contains("the folder has no manifest and does not verify"),
        "{stderr}"
    );
    verified(&folder).ended_with(3);
}

#[test]
fn an_interrupted_run_leaves_a_bundle_that_says_so() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let long = "bench latency --sizes 64 --transports uds --drivers direct -n 100M --rounds 1000 \
                --warmup 0";
    let mut program = Program::new(long, &["--out", folder.to_str().unwrap()]);
    let child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has opened its outputs, and catches signals right after.
    let begun = std::time::Instant::now();
    while !folder.join("report.json").exists() || !catches_signals(child.id()) {
        assert!(begun.elapsed().as_secs() < 60, "it did not start");
        std::thread::yield_now();
    }
    signal("INT", child.id());
    Finished::wait(child, &program.folder).ended_with(130);
    let finished = verified(&folder).ended_with(0);
    assert!(
        finished.stdout.trim_end().ends_with(", interrupted"),
        "{}",
        finished.stdout
    );
}

/// Whether a process has a handler for SIGINT, as the kernel says.
fn catches_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn a_soak_and_a_wakeup_leave_bundles_too() {
    let soak = Bundle::written(
        "soak -n 200 --senders 2 --limit 100000 --receiver-sched other",
        &[],
    );
    soak.verified().ended_with(0);
    assert!(
        soak.text("soak.csv").contains("none,0,all,400,"),
        "{}",
        soak.text("soak.csv")
    );
    assert!(soak.text("soak.hlog").contains("Tag=primes_0,"));
    let wakeup = Bundle::written("wakeup -t 50ms --sched other", &[]);
    wakeup.verified().ended_with(0);
    assert!(wakeup.text("wakeup.csv").lines().count() > 1);
}

#[test]
fn a_ping_and_a_stream_leave_bundles_with_the_way_to_their_server() {
    let Program {
        mut command,
        folder: _folder,
    } = Program::new("serve tcp://127.0.0.1:0", &[]);
    let mut server = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let address = line.split_whitespace().nth(2).unwrap();

    let ping = Bundle::written("ping -n 300 --warmup 10", &[address]);
    let stream = Bundle::written("stream -t 100ms", &[address]);
    signal("TERM", server.id());
    server.wait().unwrap();

    ping.verified().ended_with(0);
    assert!(
        ping.text("ping.csv").contains(",300,300,0,"),
        "{}",
        ping.text("ping.csv")
    );
    assert!(ping.text("ping.hlog").contains("_64_rtt,"));
    stream.verified().ended_with(0);
    assert_eq!(stream.text("stream.csv").lines().count(), 2);
    for bundle in [ping, stream] {
        let hardware: Value = serde_json::from_str(&bundle.text("hardware.json")).unwrap();
        assert_eq!(hardware["routes"][0]["interface"], "lo");
        assert_eq!(hardware["routes"][0]["loopback"], true);
    }
}

#[test]
fn the_environment_is_printed_with_its_doubts() {
    let finished = Program::new("env", &[]).run().ended_with(0);
    let page = finished.stdout;
    for group in [
        "System\n",
        "Processor\n",
        "Kernel\n",
        "Measured\n",
        "Program\n",
    ] {
        assert!(page.contains(group), "{group} is not in:\n{page}");
    }
    assert!(page.lines().all(|line| line.len() <= 100), "{page}");
    assert!(page.is_ascii());
}

#[test]
fn the_environment_as_json_is_a_report_without_a_table() {
    let finished = Program::new("env --json", &[]).run().ended_with(0);
    let document = json(&finished.stdout);
    assert!(document["environment"]["kernel"]["release"].is_string());
    assert!(document["clock"]["resolution_ns"].as_u64() > Some(0));
    for table in [
        "latency",
        "strategy",
        "udp_smoke",
        "cells",
        "stream",
        "wakeup",
    ] {
        assert_eq!(document[table], serde_json::json!([]), "{table}");
    }
}
