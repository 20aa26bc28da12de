//! `tautline stream` against a `tautline serve`, as its users and scripts meet both.

#[path = "stream/namespaces.rs"]
mod namespaces;
mod program;
mod schema;
mod serving;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use program::{Finished, Program, signal};
use schema::json;
use serving::Serving;

#[test]
fn a_stream_is_a_page_and_a_document() {
    let serving = Serving::start("serve tcp://127.0.0.1:0");
    let words = format!(
        "stream {} --size 64,1Ki -t 0.1 --every 0.1 --json - --fail-if lost>0",
        serving.addresses[0]
    );
    let finished = Program::new(&words, &[]).run().ended_with(0);
    let document = json(&finished.stdout);
    assert_eq!(document["same_host"], true);
    assert_eq!(document["gates"][0]["outcome"], "passed");
    let rows = document["stream"].as_array().unwrap();
    let sizes: Vec<_> = rows.iter().map(|row| &row["payload_bytes"]).collect();
    assert_eq!(sizes, [64, 1024]);
    for row in rows {
        assert_eq!(row["address"], serving.addresses[0]);
        assert_eq!(row["strategy"], "reliable");
        assert_eq!(row["accepted"], row["delivered"]);
        assert!(row["gbit_per_s"].as_f64() > Some(0.0));
    }
    // The page and the lines of --every stand on standard error then.
    assert!(
        finished
            .stderr
            .contains(", one way, reliable, as fast as they go")
    );
    assert!(finished.stderr.contains(" MiB/s  waiting "));
    assert!(finished.stderr.contains("server: this host, tautline "));
}

#[test]
fn what_waited_too_long_is_counted_apart() {
    let serving = Serving::start("serve tcp://127.0.0.1:0");
    let words = format!(
        "stream {} --strategy keeplatest --max-queue-delay 50us --size 1Ki -t 0.2 --json -",
        serving.addresses[0]
    );
    let finished = Program::new(&words, &[]).run().ended_with(0);
    let document = json(&finished.stdout);
    let row = &document["stream"][0];
    assert_eq!(row["max_queue_delay_ns"], 50_000);
    let of = |key: &str| row[key].as_u64().unwrap();
    let gone = of("evicted") + of("too_old") + of("discarded");
    assert_eq!(of("accepted"), gone + of("delivered") + of("lost"));
    assert!(of("too_old") > 0, "{row}");
    assert_eq!(row["accounting_closes"], true);
    assert!(finished.stderr.contains(", none queued above 50"));
    assert!(finished.stderr.contains("too old "));
    for delay in ["1ms", "0s"] {
        let words = format!("stream {} --max-queue-delay {delay}", serving.addresses[0]);
        let refused = Program::new(&words, &[]).run().ended_with(2);
        assert!(
            refused.stderr.contains("--max-queue-delay: "),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_gate_that_fails_is_status_1() {
    let serving = Serving::start("serve udp://127.0.0.1:0");
    let words = format!(
        "stream {} --size 32 -t 0.1 --rate 100 --fail-if delivered<1000",
        serving.addresses[0]
    );
    let finished = Program::new(&words, &[]).run().ended_with(1);
    assert!(
        finished.stdout.contains("Gate FAILED"),
        "{}",
        finished.stdout
    );
}

#[test]
fn a_signal_ends_it_with_its_report() {
    let serving = Serving::start("serve tcp://127.0.0.1:0");
    let words = format!("stream {} -t 36000 --every 0.1", serving.addresses[0]);
    let Program {
        mut command,
        folder,
    } = Program::new(&words, &[]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("accepted"), "{line}");
    signal("INT", child.id());
    let mut page = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut page).unwrap();
    let finished = Finished::wait(child, &folder).ended_with(130);
    assert!(page.contains("Interrupted"), "{page}{}", finished.stderr);
}

#[test]
fn a_server_that_is_killed_leaves_a_partial_report() {
    let serving = Serving::start("serve tcp://127.0.0.1:0");
    let words = format!("stream {} -t 60 --every 0.1", serving.addresses[0]);
    let Program {
        mut command,
        folder,
    } = Program::new(&words, &[]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    drop(serving);
    let mut page = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut page).unwrap();
    let finished = Finished::wait(child, &folder).ended_with(4);
    assert!(
        finished.stderr.contains("ended in mid-run"),
        "{}",
        finished.stderr
    );
    assert!(page.contains("broke off"), "{page}");
}

#[test]
fn what_cannot_be_had_is_status_3() {
    for address in ["tcp://127.0.0.1:1", "udp://127.0.0.1:1", "nobody.invalid"] {
        let finished = Program::new("stream", &[address]).run().ended_with(3);
        assert!(
            finished.stderr.contains("tautline: "),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn what_cannot_be_followed_is_usage() {
    for (words, named) in [
        ("stream", "ADDRESS"),
        ("stream x --size 15", "--size"),
        ("stream x --size 1k", "did you mean 1Ki (1024)?"),
        ("stream udp://x:1 --size 31", "--size"),
        ("stream x --size 2Mi", "--size"),
        ("stream x --rate 0", "--rate"),
        ("stream x --rate nan", "--rate"),
        ("stream x --rate 1e-12", "--rate"),
        ("stream x --rate 1,5", "--rate"),
        ("stream x -t 0", "-t"),
        ("stream x -t -1", "--duration"),
        ("stream x -t nan", "--duration"),
        ("stream x --every 0.01", "--every"),
        ("stream x --strategy fastest", "--strategy"),
        ("stream x --fail-if p99>1ms", "stream"),
        ("stream x --rate 5 --rate 6", "--rate"),
        ("stream ftp://x", "ftp"),
    ] {
        let finished = Program::new(words, &[]).run().ended_with(2);
        assert!(
            finished.stderr.contains(named),
            "{words}: {}",
            finished.stderr
        );
        assert_eq!(finished.stdout, "");
    }
}
