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
        let may_lose = row.transport == "udp" && row.target == Target::T8;
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
        "--peers tokio --rounds 1 --block-ms 1 --json {}",
        json.display()
    );
    let (outcome, text) = run(&line);
    // A container without the device, with one CPU or with few open files cannot have every condition.
    let cannot = |why: &String| {
        ["cpu_dma_latency", "CPU", "ulimit"]
            .iter()
            .any(|lack| why.contains(lack))
    };
    let failed: Vec<_> = outcome.failed.iter().filter(|why| !cannot(why)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    outcome.rows.iter().for_each(assert_counts_add_up);
    if outcome.failed.is_empty() {
        assert_eq!(outcome.rows.len(), 214, "{text}");
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
