//! `tautline compare` and `bench --ab` from the outside: what they read, print, refuse, and with which
//! status they end.

mod program;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use self::program::{Finished, Program};

/// Reports of the shortest runs that have verdicts.
struct Reports {
    folder: TempDir,
}

impl Reports {
    /// Two of the same row, one of another.
    fn measure() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, transport) in [("a", "uds"), ("b", "uds"), ("tcp", "tcp")] {
            let words = format!(
                "bench latency --transports {transport} --sizes 64 --drivers direct --repeats 1 \
                 --rounds 8 -n 4000 --warmup 10"
            );
            let path = folder.path().join(format!("{name}.json"));
            Program::new(&words, &["--json", path.to_str().unwrap()])
                .run()
                .ended_with(0);
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A report that somebody has had a hand in.
    fn spoil(&self, name: &str, spoil: impl FnOnce(String) -> String) -> PathBuf {
        let text = fs::read_to_string(self.path("a.json")).unwrap();
        let path = self.path(name);
        fs::write(&path, spoil(text)).unwrap();
        path
    }
}

fn compare(a: &Path, b: &Path, more: &[&str]) -> Finished {
    let mut words = vec![a.to_str().unwrap(), b.to_str().unwrap()];
    words.extend(more);
    Program::new("compare", &words).run()
}

#[test]
fn evidence_is_compared_and_what_cannot_be_is_refused_by_name() {
    let reports = Reports::measure();
    let (a, b) = (reports.path("a.json"), reports.path("b.json"));

    let finished = compare(&a, &b, &[]).ended_with(0);
    assert!(
        finished.stdout.contains("uds control 64 B"),
        "{}",
        finished.stdout
    );
    assert!(finished.stdout.contains("uds direct 64 B"));

    // A folder is a bundle, and a run beside itself shows nothing.
    let bundle = reports.path("bundle");
    fs::create_dir(&bundle).unwrap();
    fs::copy(&a, bundle.join("report.json")).unwrap();
    let finished = compare(&bundle, &bundle, &["--json", "-"]).ended_with(0);
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["schema"], "tautline.comparison/1");
    assert_eq!(document["rows"][1]["verdict"], "no_difference_shown");
    assert_eq!(document["differences"], serde_json::json!([]));
    assert!(finished.stderr.contains("no difference shown"));

    let (a_name, b_name) = (a.to_str().unwrap(), b.to_str().unwrap());
    let several = ["--a", a_name, b_name, "--b", b_name, a_name];
    let finished = Program::new("compare", &several).run().ended_with(0);
    assert!(
        finished
            .stdout
            .starts_with(&format!("A: {a_name}, {b_name}\n"))
    );

    let finished = compare(&a, &a, &["--fail-if", "p50 > 0.5x"]).ended_with(1);
    assert!(finished.stdout.contains("Gate FAILED: p50 > 0.5x"));
    compare(&a, &a, &["--fail-if", "p99 > 1.5x and mean > 1.5x"]).ended_with(0);
    let finished = compare(&a, &a, &["--fail-if", "p99.99 > 1.1x"]).ended_with(1);
    assert_eq!(
        finished.stderr,
        "tautline: --fail-if 'p99.99 > 1.1x' cannot be decided: uds direct 64 B: p99.99 of B needs \
         100000 samples and has 4000\n"
    );
    let finished = compare(&a, &a, &["--fail-if", "p99 > 20us"]).ended_with(2);
    assert!(
        finished
            .stderr
            .contains("held against each other by a factor")
    );

    let finished = compare(&a, &reports.path("tcp.json"), &[]).ended_with(3);
    assert!(
        finished
            .stderr
            .starts_with("tautline: A and B have no row in common")
    );
    type Spoil = fn(String) -> String;
    let spoilt: [(&str, Spoil, &str); 4] = [
        (
            "cut.json",
            |text| text[..text.len() / 2].to_owned(),
            "it is cut short",
        ),
        (
            "foreign.json",
            |_| "{\"schema\": 7}".to_owned(),
            "no report of this program",
        ),
        (
            "future.json",
            |text| text.replace("tautline.report/1", "tautline.report/2"),
            "a later version wrote it",
        ),
        (
            "nan.json",
            |text| text.replacen("\"product\":", "\"product\":NaN,\"was\":", 1),
            "nan.json: ",
        ),
    ];
    for (name, spoil, said) in spoilt {
        let path = reports.spoil(name, spoil);
        let finished = compare(&a, &path, &[]).ended_with(3);
        assert!(finished.stderr.contains(said), "{}", finished.stderr);
        assert!(finished.stderr.contains(path.to_str().unwrap()));
        assert_eq!(finished.stdout, "");
    }
    let finished = compare(&a, &reports.path("nothing"), &[]).ended_with(3);
    assert!(
        finished.stderr.starts_with("tautline: read "),
        "{}",
        finished.stderr
    );

    two_commands_take_turns(&a, &b);
}

/// Commands that print what was measured before: the blocks are the test, not the figures.
fn two_commands_take_turns(a: &Path, b: &Path) {
    let [a, b] = [a, b].map(|path| format!("cat {}", path.display()));
    let finished = Program::new("bench --blocks 8 --seed 1 --json -", &["--ab", &a, &b])
        .run()
        .ended_with(0);
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["a"]["runs"].as_array().unwrap().len(), 8);
    assert_eq!(document["b"]["runs"][0]["name"], Value::from(b.as_str()));
    assert_eq!(document["false_alarms"]["runs"], 8);
    assert_eq!(document["false_alarms"]["rows_called"], 0);
    assert!(
        finished
            .stderr
            .contains("8 blocks of A, B and A again, 24 runs, seed 1")
    );

    let finished = Program::new("bench --blocks 8", &["--ab", &a, "echo no >&2; exit 3"])
        .run()
        .ended_with(3);
    assert!(
        finished.stderr.contains("ended with status 3: no"),
        "{}",
        finished.stderr
    );
    let finished = Program::new("bench --blocks 8", &["--ab", &a, "echo {}"])
        .run()
        .ended_with(3);
    assert!(
        finished.stderr.contains("is no report"),
        "{}",
        finished.stderr
    );
}

// The same pipe in the place of a bundle's report was waited for without end.
#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("report.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let refused = compare(folder.path(), folder.path(), &[]);
    assert_eq!(refused.status, 3);
    assert_eq!(
        refused.stderr,
        format!("tautline: read {}: it is no regular file\n", pipe.display())
    );
}

#[test]
fn sides_and_commands_come_in_twos() {
    Program::new("compare a.json", &[]).run().ended_with(2);
    Program::new("compare --a a.json", &[]).run().ended_with(2);
    Program::new("bench --ab true", &[]).run().ended_with(2);
    Program::new("bench --blocks 8", &[]).run().ended_with(2);
    // Beside an option that --ab excludes it was taken and ignored.
    Program::new("bench --quick --blocks 8", &[])
        .run()
        .ended_with(2);
    Program::new("bench --ab true true --sizes 64", &[])
        .run()
        .ended_with(2);
    Program::new("bench --ab true true --blocks 0", &[])
        .run()
        .ended_with(2);
}
