//! A sender against plain echo servers: its console, its files, its bytes.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::face::{HEADER, Running, START, echo, lagscope, progress, receiver, shape};
use crate::program::{Finished, Program};

/// A sender in a folder of its own.
fn in_folder(words: &str) -> (Finished, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::new(&format!("lagscope {words}"), &[]);
    program.command.current_dir(folder.path());
    (program.run(), folder)
}

const PERCENTILES: &str = "\nPercentile\t Latency(us)\n     \
    50% \t N\n     75% \t N\n     90% \t N\n     95% \t N\n     99% \t N\n   \
    99.9% \t N\n  99.99% \t N\n 99.999% \t N\n";

const STATISTICS: &str = "TIME INFO: \t  Minimum = Nus, Maximum = Nus, Average = Nus\n";

fn statistics(pings: u64) -> String {
    format!(
        "TIME INFO: TEST COMPLETED.\n\
         TIME INFO: Ping statistics for 127.0.0.1:\n\
         TIME INFO: \t  Number of successful Pings: {pings}\n{STATISTICS}"
    )
}

const CONNECTED: &str = "TIME INFO: New connection: local:N [socket:N] --> 127.0.0.1:6001\n";

#[test]
fn the_console_of_percentiles_is_lagscopes() {
    let (port, _messages) = echo(4);
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -P -n2000")).ended_with(0);
    assert_eq!(
        shape(&finished.stdout, port),
        format!(
            "{HEADER}{CONNECTED}{}{}{PERCENTILES}",
            progress(1..=99),
            statistics(2_000)
        )
    );
    assert_eq!(
        finished.stderr,
        "lagscope: note: 2000 pings are too few for 99.9%, 99.99%, 99.999%: fewer than ten lie \
         beyond, so single pings decide\n"
    );
}

/// Every ping is in one row, and the rows are lagscope's.
#[test]
fn the_histogram_stands_behind_the_percentiles() {
    let (port, _messages) = echo(4);
    let words = format!("-s127.0.0.1 -p{port} -n200 -H -P -a40 -l1 -c98");
    let finished = lagscope(&words).ended_with(0);
    let shaped = shape(&finished.stdout, port);
    let (before, rows) = shaped.split_once("\nInterval(usec)\t Frequency\n").unwrap();
    assert!(before.ends_with(PERCENTILES), "{before}");
    let rows: Vec<(u64, u64)> = rows
        .lines()
        .map(|row| {
            let (edge, times) = row.split_once(" \t ").unwrap();
            assert_eq!(edge.len(), 7, "{row}");
            (edge.trim().parse().unwrap(), times.parse().unwrap())
        })
        .collect();
    let edges: Vec<u64> = rows.iter().map(|&(edge, _)| edge).collect();
    assert_eq!(edges, [0].into_iter().chain(40..=138).collect::<Vec<_>>());
    assert_eq!(rows.iter().map(|&(_, times)| times).sum::<u64>(), 200);
}

#[test]
fn files_are_named_before_the_tables_and_hold_every_ping() {
    let (port, _messages) = echo(4);
    let words = format!("-s127.0.0.1 -p{port} -n10 -Rraw.csv -Pfreq.json");
    let (finished, folder) = in_folder(&words);
    assert_eq!(finished.status, 0);
    assert_eq!(
        shape(&finished.stdout, port),
        format!(
            "{HEADER}{CONNECTED}{}{}\
             TIME INFO: Dumping all latencies into csv file: raw.csv\n\
             TIME INFO: Dumping latency frequency table into json file: freq.json\n{PERCENTILES}",
            progress((10..=90).step_by(10)),
            statistics(10)
        )
    );
    let csv = fs::read_to_string(folder.path().join("raw.csv")).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("Index, Latency(us)"));
    for index in 0..10 {
        let (first, second) = lines.next().unwrap().split_once(", ").unwrap();
        assert_eq!(first, index.to_string());
        second.parse::<u64>().unwrap();
    }
    assert_eq!(lines.next(), None);
    let json = fs::read_to_string(folder.path().join("freq.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let times = json["latencies"].as_array().unwrap().iter();
    let pings: u64 = times
        .map(|entry| entry["frequency"].as_u64().unwrap())
        .sum();
    assert_eq!(pings, 10);
}

#[test]
fn without_a_name_the_csv_has_lagscopes() {
    let (port, _messages) = echo(4);
    let (finished, folder) = in_folder(&format!("-s127.0.0.1 -p{port} -n3 -R"));
    assert_eq!(finished.status, 0);
    let csv = fs::read_to_string(folder.path().join("latencies_log.csv")).unwrap();
    assert_eq!(csv.lines().count(), 4);
}

#[test]
fn the_verbose_console_has_a_line_a_ping_and_no_progress() {
    let (port, _messages) = echo(4);
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -V -n3")).ended_with(0);
    let shaped = shape(&finished.stdout, port);
    let (_, after_the_block) = shaped.split_once("verbose mode:\t\t\t enabled\n").unwrap();
    let reply = "TIME DBG : Reply from 127.0.0.1: bytes=4 time=Nus\n";
    assert_eq!(
        after_the_block,
        format!(
            "---------------------------------------------------------\n{CONNECTED}{}{}",
            reply.repeat(3),
            statistics(3)
        )
    );
}

/// Two pings on a machine that is awake, at 0 and at 50 %; a busy one may be late for either.
#[test]
fn a_time_with_pauses_is_kept() {
    let (port, _messages) = echo(4);
    let started = Instant::now();
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -t2 -i1")).ended_with(0);
    assert!(started.elapsed() >= Duration::from_secs(2));
    let shaped = shape(&finished.stdout, port);
    let run = shaped
        .strip_prefix(&format!("{HEADER}{CONNECTED}"))
        .unwrap();
    let (told, rest) = run.rsplit_once('\r').unwrap();
    let percents: Vec<u64> = told
        .split('\r')
        .map(|line| {
            let percent = line.strip_prefix("127.0.0.1: ").unwrap();
            percent
                .strip_suffix("% completed.")
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert!(percents.is_sorted() && percents.iter().all(|&percent| percent < 100));
    assert!(rest == statistics(2) || rest == statistics(1), "{rest}");
}

/// The original's status was the number of pings modulo 256.
#[test]
fn the_status_is_no_number_of_pings() {
    for pings in [1, 255, 256, 257] {
        let (port, _messages) = echo(4);
        lagscope(&format!("-s127.0.0.1 -p{port} -n{pings}")).ended_with(0);
    }
}

#[test]
fn messages_begin_with_the_start_and_then_carry_their_numbers() {
    let (port, messages) = echo(8);
    lagscope(&format!("-s127.0.0.1 -p{port} -z8 -n300")).ended_with(0);
    let messages: Vec<Vec<u8>> = messages.iter().collect();
    assert_eq!(messages.len(), 301);
    assert_eq!(messages[0], [&START[..], b"AAAA"].concat());
    assert_eq!(messages[1], b"\0\0\0\0AAAA");
    assert_eq!(messages[300], b"\x2b\x01\0\0AAAA");
}

#[test]
fn messages_of_any_size_come_back() {
    for size in [1, 3, 4, 5, 100_000] {
        let (port, _messages) = echo(size);
        let finished = lagscope(&format!("-s127.0.0.1 -p{port} -z{size} -n300 -V"));
        let finished = finished.ended_with(0);
        assert!(finished.stdout.contains(&format!("bytes={size} time=")));
        assert!(
            finished
                .stdout
                .contains("Number of successful Pings: 300\n")
        );
    }
}

/// Both of ours, a message far larger than any buffer: neither waits for the other.
#[test]
fn a_message_larger_than_all_buffers_gets_through() {
    let (receiver, port) = receiver("");
    lagscope(&format!("-s127.0.0.1 -p{port} -z8000000 -n2")).ended_with(0);
    receiver.end_by("TERM").ended_with(143);
}

#[test]
fn a_source_port_that_is_taken_is_done_without() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let source = taken.local_addr().unwrap().port();
    let (port, _messages) = echo(4);
    let words = format!("-s127.0.0.1 -p{port} -o{source} -n3");
    let finished = lagscope(&words).ended_with(0);
    let line = finished.stdout.lines().nth(2).unwrap();
    assert!(
        line.contains(" INFO: failed to bind socket[")
            && line.ends_with(&format!(
                "] to a local port: [0.0.0.0:{source}]. errno = 98. Ignored"
            )),
        "{line}"
    );
    assert!(!finished.stdout.contains("ERR"));
}

#[test]
fn a_source_port_that_is_free_is_used() {
    let free = TcpListener::bind("0.0.0.0:0").unwrap();
    let source = free.local_addr().unwrap().port();
    drop(free);
    let (port, _messages) = echo(4);
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -o{source} -n3")).ended_with(0);
    assert!(
        finished
            .stdout
            .contains(&format!("local:{source} [socket:"))
    );
}

#[test]
fn ipv6_is_pinged_where_there_is_any() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let mut receiver = Running::start("-r::1 -6 -p0 -V");
    let console = receiver.read_to("listening on ::1:");
    let port = console.trim_end().rsplit(':').next().unwrap();
    let finished = lagscope(&format!("-s::1 -6 -p{port} -n10")).ended_with(0);
    assert!(finished.stdout.contains(&format!(" --> ::1:{port}\n")));
    assert!(finished.stdout.contains("Ping statistics for ::1:\n"));
    receiver.end_by("TERM").ended_with(143);
}

#[test]
fn a_host_may_have_a_name() {
    let (port, _messages) = echo(4);
    let finished = lagscope(&format!("-slocalhost -p{port} -n3")).ended_with(0);
    assert!(finished.stdout.contains("Ping statistics for 127.0.0.1:\n"));
}

/// The name decides, not the first word behind it.
#[test]
fn a_program_called_lagscope_is_lagscope() {
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("lagscope");
    std::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin!("tautline"), &named).unwrap();
    let (port, _messages) = echo(4);
    let output = Command::new(&named)
        .args(["-s", "127.0.0.1", &format!("-p{port}"), "-n", "5"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let console = String::from_utf8(output.stdout).unwrap();
    assert!(console.starts_with(HEADER), "{console}");
    assert!(console.contains("Number of successful Pings: 5\n"));
}
