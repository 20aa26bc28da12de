//! `tautline bench` from the outside: what it prints, what it leaves, what status it ends with.
//!
//! The runs are as short as runs can be; what they measure is not looked at, only that it is there.

mod program;
mod schema;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use self::program::{Finished, Program, signal};
use self::schema::json;

/// The smallest latency run that has intervals.
const ECHOES: &str = "bench latency --sizes 64 --repeats 1 --rounds 6 -n 60 --warmup 10";
/// The smallest strategy run.
const STREAMS: &str = "bench strategy --sizes 64 --repeats 1 -t 20ms";
/// A run of hours.
const LONG: &str = "bench latency --sizes 64 --transports uds --drivers direct -n 100M \
                        --rounds 1000 --warmup 0";

#[test]
fn values_that_cannot_be_followed_are_usage_errors_that_name_the_option() {
    for (words, said) in [
        (
            ["--sizes", "0"],
            "error: --sizes: 0 is not within 16 to 1048572",
        ),
        (
            ["--sizes", "abc"],
            "error: invalid value 'abc' for '--sizes <LIST>': expected a size in bytes such as 64, \
             16Ki or 1Mi",
        ),
        (
            ["--sizes", "64k"],
            "error: invalid value '64k' for '--sizes <LIST>': did you mean 64Ki (65536)?",
        ),
        (
            ["--repeats", "0"],
            "error: --repeats: 0 is not within 1 to 1000",
        ),
        (
            ["--transports", "pigeon"],
            "error: invalid value 'pigeon' for '--transports <LIST>': \"pigeon\" is not one of tcp, \
             tls, udp, uds, serial",
        ),
        (
            ["--bind", "serial:///dev/ttyS0"],
            "error: --bind: serial:///dev/ttyS0?baud=115200: nobody listens on a serial line; a port is \
             for --loopback-plug",
        ),
    ] {
        let finished = Program::new("bench", &words).run().ended_with(2);
        assert_eq!(finished.stderr.lines().next(), Some(said));
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn an_output_that_cannot_be_opened_is_said_before_anything_is_measured() {
    let finished = Program::new(ECHOES, &["--json", "/nonexistent/out.json"])
        .run()
        .ended_with(3);
    assert_eq!(
        finished.stderr,
        "tautline: open --json /nonexistent/out.json: No such file or directory (os error 2)\n"
    );
    assert_eq!(finished.stdout, "");
}

#[test]
fn a_failing_output_does_not_take_the_others_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("out.csv");
    let more = [
        "--transports",
        "uds",
        "--json",
        "/dev/full",
        "--csv",
        csv.to_str().unwrap(),
    ];
    let finished = Program::new(ECHOES, &more).run().ended_with(4);
    assert_eq!(
        finished.stderr,
        "tautline: write --json /dev/full: No space left on device (os error 28)\n"
    );
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 2);
    assert!(finished.stdout.contains("Next: "));
}

#[test]
fn a_taken_port_is_not_available() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", taken.local_addr().unwrap());
    let more = ["--transports", "tcp", "--bind", &address, "--json", "-"];
    let finished = Program::new(ECHOES, &more).run().ended_with(3);
    assert!(finished.stderr.contains(&address), "{}", finished.stderr);
    assert!(finished.stderr.contains("in use"), "{}", finished.stderr);
    let document = json(&finished.stdout);
    assert!(document["error"].as_str().unwrap().contains(&address));
    assert_eq!(document["latency"], Value::Array(vec![]));
}

#[test]
fn a_live_socket_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.sock");
    let _live = UnixListener::bind(&path).unwrap();
    let address = format!("uds://{}", path.display());
    let finished = Program::new(ECHOES, &["--transports", "uds", "--bind", &address])
        .run()
        .ended_with(3);
    assert!(finished.stderr.contains("in use"), "{}", finished.stderr);
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_stale_socket_file_is_replaced_and_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stale.sock");
    drop(UnixListener::bind(&path).unwrap());
    let address = format!("uds://{}", path.display());
    Program::new(ECHOES, &["--transports", "uds", "--bind", &address])
        .run()
        .ended_with(0);
    assert!(!path.exists());
}

#[test]
fn a_regular_file_is_no_socket_to_replace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    fs::write(&path, "dear reader").unwrap();
    let address = format!("uds://{}", path.display());
    Program::new(ECHOES, &["--transports", "uds", "--bind", &address])
        .run()
        .ended_with(3);
    assert_eq!(fs::read_to_string(&path).unwrap(), "dear reader");
}

/// Waits until the run has said how long it takes, which is when signals are caught and outputs open.
fn announced(child: &mut Child) -> BufReader<ChildStderr> {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(
        line.starts_with("takes up to ") && line.contains("; Ctrl-C ends it early"),
        "{line}"
    );
    stderr
}

fn interrupted_by(name: &str) -> (Finished, Value) {
    let mut program = Program::new(LONG, &["--json", "-"]);
    let mut child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = announced(&mut child);
    signal(name, child.id());
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map(|_| rest)
    });
    let mut finished = Finished::wait(child, &program.folder);
    finished.stderr = rest.join().unwrap().unwrap();
    let document = json(&finished.stdout);
    (finished, document)
}

#[test]
fn ctrl_c_ends_a_run_with_its_partial_report() {
    let (finished, document) = interrupted_by("INT");
    finished.ended_with(130);
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["error"], Value::Null);
}

#[test]
fn sigterm_ends_a_run_with_its_partial_report() {
    let (finished, document) = interrupted_by("TERM");
    finished.ended_with(143);
    assert_eq!(document["interrupted"], true);
}

#[test]
fn a_terminal_that_goes_away_ends_a_run_with_its_partial_report() {
    let (finished, document) = interrupted_by("HUP");
    finished.ended_with(129);
    assert_eq!(document["interrupted"], true);
}

#[test]
fn a_folder_for_temporary_files_may_be_relative_or_none() {
    for folder in ["", "."] {
        let mut program = Program::new(ECHOES, &["--transports", "uds"]);
        program.command.env("TMPDIR", folder);
        program.run().ended_with(0);
    }
}

#[test]
fn a_folder_too_long_for_sockets_is_named_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(80));
    fs::create_dir(&long).unwrap();
    let mut program = Program::new(ECHOES, &["--transports", "tcp,uds"]);
    program.command.env("TMPDIR", &long);
    let finished = program.run().ended_with(3);
    assert!(
        finished.stderr.contains("TMPDIR is too long for sockets"),
        "{}",
        finished.stderr
    );
    assert_eq!(finished.stdout, "");
}

#[test]
fn a_producer_does_not_sleep_longer_than_ctrl_c_can_wait() {
    let finished = Program::new(STREAMS, &["--on-refused", "sleep:20s"]).run();
    let finished = finished.ended_with(2);
    assert!(
        finished
            .stderr
            .contains("--on-refused: a sleep of at most 100ms")
    );
}

/// The first signal's report goes to an output that nobody reads, and so would wait for ever.
#[test]
fn a_second_ctrl_c_ends_at_once() {
    let (reader, full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while (&full).write(&[0; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let mut program = Program::new(LONG, &["--json", "-"]);
    program
        .command
        .stdout(OwnedFd::from(full))
        .stderr(Stdio::piped());
    let mut child = program.command.spawn().unwrap();
    let stderr = announced(&mut child);
    signal("INT", child.id());
    // The page, which goes to standard error here, is the last thing before the full output.
    let page = stderr
        .lines()
        .map(Result::unwrap)
        .any(|line| line.starts_with("Next: "));
    assert!(page);
    // One that came right after the first would be taken for a part of it.
    while child.try_wait().unwrap().is_none() {
        signal("INT", child.id());
    }
    Finished::wait(child, &program.folder).ended_with(130);
    drop(reader);
}

/// As timeout(1) sends them: to the program, and at once to its group. It ended without its report.
#[test]
fn two_signals_at_once_are_one_and_leave_the_report() {
    let mut program = Program::new(LONG, &["--json", "-"]);
    let mut child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = announced(&mut child);
    // By one shell, whose own commands they are: nothing comes in between.
    let twice = format!("kill -TERM {0}; kill -TERM {0}", child.id());
    let sent = Command::new("sh").args(["-c", &twice]).status();
    assert!(sent.unwrap().success());
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map(|_| rest)
    });
    let finished = Finished::wait(child, &program.folder).ended_with(143);
    rest.join().unwrap().unwrap();
    assert_eq!(json(&finished.stdout)["interrupted"], true);
}

/// The second one comes while sockets are open.
#[test]
fn two_signals_in_a_row_leave_no_sockets() {
    let mut program = Program::new(LONG, &[]);
    let mut child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = announced(&mut child);
    while fs::read_dir(program.folder.path()).unwrap().count() == 0 {
        std::thread::yield_now();
    }
    signal("INT", child.id());
    signal("INT", child.id());
    // Nobody reads its standard error any more: whatever it still has to say is no obstacle.
    drop(stderr);
    Finished::wait(child, &program.folder).ended_with(130);
}

#[test]
fn a_closed_standard_output_is_a_quiet_partial_result() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let more = ["--transports", "uds", "--json", file.to_str().unwrap()];
    let mut program = Program::new(ECHOES, &more);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = program
        .command
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let finished = Finished::wait(child, &program.folder).ended_with(4);
    assert_eq!(finished.stderr, "");
    // The file was written all the same.
    assert_eq!(
        json(&fs::read_to_string(file).unwrap())["interrupted"],
        false
    );
}

/// As in `tautline bench 2>&1 | head -1`.
#[test]
fn a_closed_standard_error_is_as_quiet() {
    let mut program = Program::new("bench --quick --transports uds --sizes 64", &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = program
        .command
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    Finished::wait(child, &program.folder).ended_with(4);
    let mut program = Program::new(ECHOES, &["--json", "/nonexistent/out.json"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = program
        .command
        .stdout(Stdio::piped())
        .stderr(writer)
        .spawn()
        .unwrap();
    Finished::wait(child, &program.folder).ended_with(3);
}

#[test]
fn json_on_standard_output_is_one_document_and_the_page_goes_to_standard_error() {
    let more = [
        "--transports",
        "tcp,uds",
        "--json",
        "-",
        "--label",
        "it's",
        "--seed",
        "5",
    ];
    let finished = Program::new(ECHOES, &more).run().ended_with(0);
    let document = json(&finished.stdout);
    assert_eq!(document["schema"], "tautline.report/1");
    assert_eq!(
        (&document["label"], &document["seed"]),
        (&"it's".into(), &5.into())
    );
    let rows = document["latency"].as_array().unwrap();
    let cells: Vec<_> = rows
        .iter()
        .map(|row| row["transport"].as_str().unwrap())
        .collect();
    assert_eq!(cells, ["tcp", "uds"]);
    for row in rows {
        let drivers: Vec<_> = row["drivers"].as_array().unwrap().iter().collect();
        assert_eq!(drivers.len(), 4);
        assert!(row["p50_ns"].as_u64() > Some(0));
        // 60 samples support no p99.
        assert_eq!(row["p99_ns"], Value::Null);
        assert!(drivers.iter().all(|driver| driver["ratio_low"].is_number()));
    }
    assert!(finished.stderr.contains("Round trips by handoff"));
    assert!(
        finished
            .stderr
            .lines()
            .all(|line| line.is_ascii() && line.len() <= 100)
    );
    assert!(finished.stderr.contains("\nNext: "));
}

#[test]
fn the_accounting_closes_in_every_row_of_the_strategy_table() {
    let finished = Program::new(STREAMS, &["--json", "-"]).run().ended_with(0);
    let document = json(&finished.stdout);
    let rows = document["strategy"].as_array().unwrap();
    assert_eq!(rows.len(), 9);
    for row in rows {
        assert_eq!(row["accounting_closes"], true, "{row}");
        assert_eq!(row["integrity"]["corrupted"], 0, "{row}");
        assert_eq!(row["integrity"]["duplicates"], 0, "{row}");
        assert!(row["max_queue_kib"].as_f64().unwrap() <= 1024.0, "{row}");
        assert!(
            row["control"]["received_mib_per_s"].as_f64() > Some(0.0),
            "{row}"
        );
        for run in row["each_run"].as_array().unwrap() {
            let of = |name: &str| run["sender"][name].as_u64().unwrap();
            for unit in ["messages", "bytes"] {
                assert_eq!(
                    of(&format!("accepted_{unit}")),
                    of(&format!("written_{unit}"))
                        + of(&format!("waiting_{unit}"))
                        + of(&format!("discarded_{unit}")),
                    "{run}"
                );
            }
        }
        if row["strategy"] == "reliable" {
            assert_eq!(
                (&row["failed_sends"], &row["dropped_messages"]),
                (&0.into(), &0.into())
            );
            if row["transport"] != "udp" {
                assert_eq!(row["delivery_percent"], 100.0, "{row}");
            }
        }
    }
}

#[test]
fn csv_has_a_row_for_each_run_and_the_page_still_comes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.csv");
    let path = file.to_str().unwrap();
    let echoes = "bench latency --transports uds --sizes 64 --repeats 2 -n 60 --rounds 6";
    let finished = Program::new(echoes, &["--csv", path]).run().ended_with(0);
    assert!(finished.stdout.contains("Round trips by handoff"));
    let csv = fs::read_to_string(&file).unwrap();
    let runs: Vec<_> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(17).unwrap())
        .collect();
    assert_eq!(runs, ["0", "1"]);

    let more = [
        "--transports",
        "uds",
        "--strategies",
        "keeplatest",
        "--csv",
        path,
    ];
    Program::new(STREAMS, &more).run().ended_with(0);
    let csv = fs::read_to_string(&file).unwrap();
    assert_eq!(csv.lines().count(), 2);
    assert!(
        csv.lines()
            .nth(1)
            .unwrap()
            .starts_with("uds,keeplatest,64,")
    );
}

#[test]
fn a_gate_decides_the_status() {
    let status = |gate: &str, status: i32| {
        let more = ["--transports", "uds", "--fail-if", gate];
        Program::new(ECHOES, &more).run().ended_with(status)
    };
    status("p50 > 1h or lost > 0", 0);
    let failed = status("p50 > 1ns", 1);
    assert!(failed.stdout.contains("Gate FAILED: p50 > 1ns"));
    // 60 samples: nobody can say.
    let undecided = status("p99.9 > 1h", 1);
    assert!(undecided.stdout.contains("Gate UNDECIDED: p99.9 > 1h"));
    assert!(
        undecided
            .stdout
            .contains("p99.9 needs 10000 samples and has 60")
    );
    let usage = status("delivery < 100", 2);
    assert!(
        usage
            .stderr
            .contains("delivery stands in the strategy table")
    );
}

#[test]
fn print_duration_prints_seconds_and_measures_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let more = ["--json", file.to_str().unwrap()];
    let finished = Program::new("bench --quick --print-duration", &more)
        .run()
        .ended_with(0);
    let seconds: u64 = finished.stdout.trim().parse().unwrap();
    assert!((10..=30).contains(&seconds), "{seconds}");
    assert!(!file.exists());
}

#[test]
fn cells_that_cannot_be_are_absent_with_the_reason_and_nothing_at_all_is_no_success() {
    let words = "bench latency --transports udp --sizes 65508";
    let finished = Program::new(words, &["--json", "-"]).run().ended_with(3);
    assert!(
        finished
            .stderr
            .starts_with("tautline: there is nothing to measure: udp 65508 B: ")
    );
    assert_eq!(json(&finished.stdout)["absent"][0]["payload_bytes"], 65_508);
}

#[test]
fn a_longer_report_of_before_is_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    fs::write(&file, "x".repeat(1 << 20)).unwrap();
    let more = ["--transports", "uds", "--json", file.to_str().unwrap()];
    Program::new(ECHOES, &more).run().ended_with(0);
    json(&fs::read_to_string(&file).unwrap());
}

#[test]
fn a_killed_run_leaves_the_report_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    fs::write(&file, "the last one").unwrap();
    let mut program = Program::new(LONG, &["--json", file.to_str().unwrap()]);
    let mut child = program
        .command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    announced(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "the last one");
}

#[test]
fn completions_manual_and_version_come_from_the_program_itself() {
    let bash = Program::new("--completions bash", &[]).run().ended_with(0);
    assert!(bash.stdout.contains("--on-refused"));
    let man = Program::new("--man", &[]).run().ended_with(0);
    assert!(man.stdout.contains(".TH tautline 1"));
    let version = Program::new("--version", &[]).run().ended_with(0);
    assert_eq!(
        version.stdout,
        concat!("tautline ", env!("CARGO_PKG_VERSION"), "\n")
    );
    let nothing = Program::new("", &[]).run().ended_with(2);
    assert!(nothing.stderr.contains("Usage: tautline"));
}
