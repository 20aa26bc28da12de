//! `tautline soak`, `tautline report` and `tautline wakeup` from the outside, as short as they can be.

mod program;
mod schema;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use self::program::{Finished, Program, signal};
use self::schema::json;

/// Both phases within a second or two.
const SHORT: &str = "soak -n 2000 --senders 2 --limit 1e7 --wakeup 50ms --warmup 10";
/// A run of hours that measures from its first second on.
const LONG: &str = "soak -n 1000M --senders 2 --limit 1e7 --wakeup 0 --warmup 10";

/// Children of a process, whatever they are.
fn children_of(pid: u32) -> Vec<u32> {
    let mut children = Vec::new();
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    for thread in threads {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.extend(
            text.split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    children
}

fn is_gone(pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.is_empty()
}

#[test]
fn a_soak_prints_its_table_and_leaves_nobody_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let more = ["--label", "Kernel A", "--json", file.to_str().unwrap()];
    let finished = Program::new(SHORT, &more).run().ended_with(0);
    let page = &finished.stdout;
    assert!(
        page.contains("                  Terminal 1    Terminal 2    Terminal C\n"),
        "{page}"
    );
    assert!(
        page.contains("\nLinux Kernel     max/avg/time  max/avg/time  count primes\n"),
        "{page}"
    );
    assert!(page.contains("\n   time no load "), "{page}");
    assert!(page.contains("\n   time full load "), "{page}");
    assert!(page.lines().all(|line| line.len() <= 100), "{page}");

    let document = json(&fs::read_to_string(&file).unwrap());
    let soak = &document["soak"];
    assert_eq!(soak["label"], "Kernel A");
    assert_eq!(document["same_host"], true);
    let rounds = soak["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for (round, load) in rounds.iter().zip(["none", "primes"]) {
        assert_eq!(round["load"], load);
        assert_eq!(round["rtt"]["count"], 4_000);
        for sender in round["senders"].as_array().unwrap() {
            assert_eq!(sender["pings"], 2_000);
            assert_eq!(sender["corrupted"], 0);
            assert_eq!(sender["error"], Value::Null);
            assert!(sender["time_ns"].as_u64() > Some(0));
        }
        assert!(!round["slow"].as_array().unwrap().is_empty());
        // Too few for that one: ten samples would have to lie beyond it.
        assert_eq!(round["rtt"]["p9999_ns"], Value::Null);
    }
    assert_eq!(soak["load"]["primes"], 664_579);
    assert!(soak["load"]["alone_ns"].as_u64() > Some(0));
    assert!(soak["load"]["time_ns"].as_u64() > Some(0));
    assert_eq!(rounds[1]["primes_ns"], soak["load"]["time_ns"]);
    assert!(!soak["wakeup"]["idle"].as_array().unwrap().is_empty());
    assert!(!soak["wakeup"]["loaded"].as_array().unwrap().is_empty());

    // Each in a session of its own, which it leads.
    let processes = soak["setting"]["processes"].as_array().unwrap();
    let roles: Vec<&str> = processes
        .iter()
        .map(|of| of["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["receiver", "sender 1", "sender 2", "load"]);
    for process in processes {
        assert_eq!(process["session"], process["pid"]);
        assert!(is_gone(process["pid"].as_u64().unwrap() as u32));
    }
}

#[test]
fn one_session_is_kept_when_asked_for() {
    let more = ["--one-session", "--json", "-"];
    let finished = Program::new(SHORT, &more).run().ended_with(0);
    let document = json(&finished.stdout);
    assert_eq!(document["soak"]["setting"]["one_session"], true);
    let processes = document["soak"]["setting"]["processes"].as_array().unwrap();
    let first = &processes[0]["session"];
    assert!(processes.iter().all(|process| &process["session"] == first));
    assert_ne!(&processes[0]["pid"], first);
}

/// Waits until the run has said how long it takes, and until its senders run.
fn running(program: &mut Program) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("takes up to "), "{line}");
    while children_of(child.id()).len() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    (child, stderr)
}

#[test]
fn ctrl_c_ends_a_soak_and_all_its_processes_with_a_partial_report() {
    let mut program = Program::new(LONG, &["--json", "-"]);
    let (child, mut stderr) = running(&mut program);
    let children = children_of(child.id());
    signal("INT", child.id());
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).map(|_| rest)
    });
    let finished = Finished::wait(child, &program.folder);
    rest.join().unwrap().unwrap();
    let finished = finished.ended_with(130);
    let document = json(&finished.stdout);
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["error"], Value::Null);
    assert_eq!(children.iter().filter(|&&pid| !is_gone(pid)).count(), 0);
}

/// Nothing of the run can answer a SIGKILL: the processes have to notice by themselves.
#[test]
fn the_processes_of_a_run_that_is_killed_die_with_it() {
    let mut program = Program::new(LONG, &[]);
    let (mut child, _stderr) = running(&mut program);
    let children = children_of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    while children.iter().any(|&pid| !is_gone(pid)) {
        std::thread::yield_now();
    }
}

#[test]
fn a_sender_that_dies_is_named_and_the_others_go_on() {
    let more = ["--json", "-"];
    let mut program = Program::new(
        "soak -n 200000 --senders 2 --limit 1e7 --wakeup 0 --warmup 10",
        &more,
    );
    let mut child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while children_of(child.id()).len() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    // The receiver is the first child; the last one is the second sender, connecting or pinging.
    let children = children_of(child.id());
    signal("KILL", *children.iter().max().unwrap());
    let finished = Finished::wait(child, &program.folder);
    let document = json(&finished.stdout);
    let said = document.to_string();
    assert!(said.contains("ended by itself"), "{said}");
    assert!([3, 4].contains(&finished.status), "{}", finished.status);
}

fn saved(folder: &Path, label: &str) -> String {
    let file = folder.join(format!("{label}.json"));
    let more = ["--label", label, "--json", file.to_str().unwrap()];
    Program::new(SHORT, &more).run().ended_with(0);
    file.to_str().unwrap().to_owned()
}

#[test]
fn several_runs_are_one_table_and_a_run_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (
        saved(folder.path(), "Kernel A"),
        saved(folder.path(), "Kernel B"),
    );
    let finished = Program::new("report", &[&first, &second])
        .run()
        .ended_with(0);
    let table = finished.stdout;
    assert_eq!(table.matches("Terminal 1").count(), 1, "{table}");
    assert_eq!(
        table.matches("Linux Kernel     max/avg/time").count(),
        2,
        "{table}"
    );
    assert!(
        table.contains("\nKernel A  ") && table.contains("\nKernel B  "),
        "{table}"
    );
    let finished = Program::new("report --md", &[&first]).run().ended_with(0);
    assert!(
        finished.stdout.starts_with("# Latency soak - 4000 pings\n"),
        "{}",
        finished.stdout
    );

    let finished = Program::new("soak --json -", &["--like", &first, "-n", "1000"])
        .run()
        .ended_with(0);
    let document = json(&finished.stdout);
    let setting = &document["soak"]["setting"];
    assert_eq!(
        (&setting["senders"], &setting["pings"]),
        (&2.into(), &1_000.into())
    );
    assert_eq!(setting["limit"], "10000000");
}

#[test]
fn a_report_without_a_soak_cannot_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let file = file.to_str().unwrap();
    Program::new("wakeup -t 50ms --json", &[file])
        .run()
        .ended_with(0);
    let finished = Program::new("soak --like", &[file]).run().ended_with(3);
    assert_eq!(
        finished.stderr,
        format!("tautline: {file}: it is no report of tautline soak\n")
    );
}

#[test]
fn a_receiver_that_is_not_there_is_not_available() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", taken.local_addr().unwrap());
    drop(taken);
    let finished = Program::new("soak -n 10 --wakeup 0", &["--to", &address])
        .run()
        .ended_with(3);
    let said = format!("tautline: the sender 1: connect to {address}: connection refused");
    assert!(finished.stderr.contains(&said), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
}

#[test]
fn values_that_cannot_be_followed_are_usage_errors_that_name_the_option() {
    for (words, said) in [
        (
            "soak --senders 0",
            "error: --senders: 0 is not within 1 to 64",
        ),
        ("soak -n 0", "error: -n: 0 is not within 1 to 1000000000000"),
        (
            "soak --size 0",
            "error: --size: 0 is not within 1 to 1048576",
        ),
        (
            "soak --repeats 101",
            "error: --repeats: 101 is not within 1 to 100",
        ),
        (
            "soak --to udp://127.0.0.1:6001",
            "error: --to: soak takes tcp:// and uds:// only; ping measures tls://, udp:// and serial://",
        ),
        (
            "soak --trace-over 0ms",
            "error: --trace-over: 0 is below every ping",
        ),
        (
            "soak --to 127.0.0.1 --receiver-sched other",
            "error: --receiver-sched: with --to the receiver is not ours",
        ),
        ("wakeup -t 0", "error: -t: 0 leaves no time to measure"),
        (
            "wakeup -i 1e-12",
            "error: invalid value '1e-12' for '--interval <TIME>': expected a duration such as 50us, 500ms or 3s",
        ),
        (
            "wakeup -i 1us",
            "error: --interval: 1us is not within 10us to 1h",
        ),
        (
            "wakeup --histogram 0",
            "error: --histogram: 0 is not within 1 to 100000",
        ),
    ] {
        let finished = Program::new(words, &[]).run().ended_with(2);
        assert_eq!(finished.stderr.lines().next(), Some(said), "{words}");
    }
    let finished = Program::new("wakeup --cpu 999", &[]).run().ended_with(2);
    assert!(
        finished
            .stderr
            .starts_with("error: --cpu 999: this process may use ["),
        "{}",
        finished.stderr
    );
}

#[test]
fn wakeup_prints_a_line_for_each_cpu_once_in_a_pipe() {
    let more = ["--cpu", "0", "--sched", "other", "--fail-if", "max > 1h"];
    let finished = Program::new("wakeup -t 100ms -i 1000us", &more)
        .run()
        .ended_with(0);
    let lines: Vec<&str> = finished
        .stdout
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines.len(), 1, "{}", finished.stdout);
    assert!(lines[0].starts_with("T: 0 ("), "{}", lines[0]);
    for part in [") P: 0 I:1000 C:", " Min:", " Act:", " Avg:", " Max:"] {
        assert!(lines[0].contains(part), "{}", lines[0]);
    }
    let finished = Program::new("wakeup -t 100ms --json -", &more)
        .run()
        .ended_with(0);
    let document = json(&finished.stdout);
    assert_eq!(document["wakeup"][0]["cpu"], 0);
    assert_eq!(document["wakeup"][0]["interval_ns"], 1_000_000);
    let more = ["--cpu", "0", "--fail-if", "max > 0us"];
    Program::new("wakeup -t 100ms", &more).run().ended_with(1);
}

#[test]
fn ctrl_c_ends_a_wakeup_of_ten_thousand_hours_with_its_lines() {
    let mut program = Program::new("wakeup -t 10000h", &[]);
    let mut child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("takes up to "), "{line}");
    signal("INT", child.id());
    let finished = Finished::wait(child, &program.folder).ended_with(130);
    assert!(finished.stdout.contains("\nT: 0 ("), "{}", finished.stdout);
}
