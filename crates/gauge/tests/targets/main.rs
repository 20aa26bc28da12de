//! The benchmark of the targets as an ordinary test: the least of everything, and what must be true of
//! any run. Whether a target is met is for a quiet machine to say, never for a test.

use std::fs;

mod options;
mod peers;
#[path = "../../benches/targets/program.rs"]
mod program;
mod regime;
mod rows;
mod stream;
mod summary;

use program::list::Target;
use program::{Outcome, Row, execute};

fn run(line: &str) -> (Outcome, String) {
    let mut out = Vec::new();
    let outcome = execute(line.split_whitespace().map(str::to_owned), &mut out);
    let outcome = outcome.unwrap().expect("help was not asked for");
    (outcome, String::from_utf8(out).unwrap())
}

fn assert_counts_add_up(row: &Row) {
    for side in [&row.product, &row.control] {
        let counts = side.counts;
        let cell = || format!("{row}: {counts:?}");
        assert!(side.figure > 0.0 && side.figure.is_finite(), "{}", cell());
        assert!(counts.sent > 0, "{}", cell());
        assert_eq!(counts.wrong, 0, "{}", cell());
        // What a queue of our own was pushed onto is not received by anybody, and a timed send is
        // counted at the end, by the server.
        if row.target == Target::T15 {
            continue;
        }
        let may_lose = row.transport == "udp" && matches!(row.target, Target::T7 | Target::T8);
        assert!(
            counts.received == counts.sent
                || may_lose && (1..counts.sent).contains(&counts.received),
            "{}",
            cell()
        );
    }
}

#[test]
fn every_target_runs_and_its_counts_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("targets.json");
    let line = format!(
        "--peers tokio --rounds 1 --block-ms 1 --links 50 --json {}",
        json.display()
    );
    let (outcome, text) = run(&line);
    // A container without the device, with one CPU or with few open files cannot have every condition.
    let cannot = |why: &String| {
        let reasons = ["cpu_dma_latency", "CPU", "namespace", "ip link", "ulimit"];
        reasons.iter().any(|reason| why.contains(reason))
    };
    let failed: Vec<_> = outcome.failed.iter().filter(|why| !cannot(why)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    outcome.rows.iter().for_each(assert_counts_add_up);
    if outcome.failed.is_empty() {
        assert_eq!(outcome.rows.len(), 232, "{text}");
    }
    assert!(
        outcome
            .rows
            .iter()
            .all(|row| text.contains(&row.to_string()))
    );

    let written: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(
        written["rows"].as_array().unwrap().len(),
        outcome.rows.len()
    );
    assert_eq!(written["rounds"], 1);
    // One round decides nothing.
    assert_eq!(written["worse_than_a_peer"], serde_json::json!([]));
    assert!(text.contains("\nWorse than a peer: 0 cells\n"), "{text}");
}

#[test]
fn every_target_without_rounds_has_its_figures() {
    let (outcome, text) = run("--only T11,T12,T14,cost,spin --rounds 1 --block-ms 5 --links 50");
    let cannot = |why: &String| why.contains("CPU");
    let failed: Vec<_> = outcome.failed.iter().filter(|why| !cannot(why)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for finding in &outcome.findings {
        assert!(text.contains(&finding.to_string()));
        for figure in &finding.figures {
            let value = figure.value.unwrap();
            assert!(value.is_finite() && value >= 0.0, "{finding}");
        }
    }
    let idle = outcome
        .findings
        .iter()
        .find(|finding| finding.what == "50 idle links");
    assert_eq!(idle.unwrap().figures.len(), 5, "{text}");
    if outcome.failed.is_empty() {
        // Three sides over three transports; five of the cost; two by three by two of the spin.
        assert_eq!(outcome.findings.len(), 9 + 2 + 1 + 15 + 12, "{text}");
    }
}

#[test]
fn once_sends_what_it_is_told_and_measures_nothing() {
    for (what, transport) in [("stream", "tcp"), ("burst", "uds"), ("echo", "udp")] {
        let line = format!("--once {what} --transports {transport} --messages 3000");
        let mut out = Vec::new();
        let outcome = execute(line.split(' ').map(str::to_owned), &mut out).unwrap();
        assert!(outcome.is_none());
        let said = String::from_utf8(out).unwrap();
        assert_eq!(said, format!("{what} {transport}: 3000 messages of 64 B\n"));
    }
}

/// What the program starts as a second process, which here is this test and nothing else.
#[test]
fn child() {
    program::run_if_child();
}

#[test]
fn a_filter_leaves_only_what_was_asked_for() {
    let (outcome, _) = run("--only T5 --peers none --rounds 8 --block-ms 1");
    let cells: Vec<_> = outcome
        .rows
        .iter()
        .map(|row| (row.transport, row.payload_bytes))
        .collect();
    // On one CPU there is no split.
    assert!(
        cells == [("uds", 64); 2] || cells == [("uds", 64); 1],
        "{cells:?}"
    );
    assert!(
        outcome
            .rows
            .iter()
            .all(|row| row.low <= row.high && row.low.is_some())
    );
}

#[test]
fn a_tool_is_measured_where_it_is_and_named_where_it_is_not() {
    let line = "--only T1,T4 --conditions one-core --transports tcp --payloads 64 \
                --peers sockperf,iperf3 --rounds 1 --block-ms 1";
    let (outcome, text) = run(line);
    for tool in ["sockperf", "iperf3"] {
        let row = outcome.rows.iter().find(|row| row.control.side == tool);
        let missing = outcome.missing.iter().find(|why| why.starts_with(tool));
        assert!(row.is_some() != missing.is_some(), "{tool}: {text}");
        if let Some(row) = row {
            assert!(row.beside_peer && row.control.figure > 0.0, "{row}");
        }
    }
    assert!(outcome.failed.is_empty(), "{text}");
}

#[test]
fn help_is_no_run_and_a_mistake_is_told_with_its_status() {
    let mut out = Vec::new();
    assert!(execute(["--help".to_owned()], &mut out).unwrap().is_none());
    assert!(String::from_utf8(out).unwrap().contains("--quick"));
    let refused = execute(["--quik".to_owned()], &mut Vec::new()).unwrap_err();
    assert_eq!((refused.status, refused.why.contains("--quik")), (2, true));
    let line = ["--json", "/no/such/folder/x.json"].map(str::to_owned);
    let refused = execute(line, &mut Vec::new()).unwrap_err();
    assert_eq!(refused.status, 3);
}
