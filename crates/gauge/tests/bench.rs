//! The whole engine against real loopback sockets: small plans, and what must be true of any result.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tautline::Strategy;
use tautline_gauge::plan::{
    Driver, LatencyPlan, OnRefused, Placement, PlacementPlan, Plan, StrategyPlan, Transport,
};
use tautline_gauge::report::{Integrity, LatencyRow, StrategyRow};
use tautline_gauge::run::{BenchErrorKind, BenchResult, bench};

/// Those that the library listens on so far.
const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Uds];

fn latency_plan() -> LatencyPlan {
    LatencyPlan {
        transports: TRANSPORTS.to_vec(),
        sizes: vec![64, 16_384],
        runs: 2,
        rounds: 3,
        iterations: 60,
        warmup: 20,
        ..LatencyPlan::default()
    }
}

fn strategy_plan() -> StrategyPlan {
    StrategyPlan {
        transports: TRANSPORTS.to_vec(),
        sizes: vec![64, 16_384],
        runs: 1,
        duration: Duration::from_millis(50),
        ..StrategyPlan::default()
    }
}

fn plan(latency: Option<LatencyPlan>, strategy: Option<StrategyPlan>) -> Plan {
    let plan = Plan {
        latency,
        strategy,
        ..Plan::full(7)
    };
    plan.checked().unwrap()
}

fn run(plan: &Plan) -> BenchResult {
    bench(plan, &mut |_| {}, &AtomicBool::new(false))
}

fn assert_latency_row(row: &LatencyRow, plan: &LatencyPlan) {
    let cell = format!("{} {}", row.transport, row.payload_bytes);
    let echoes = plan.iterations * plan.runs as u64;
    assert_eq!(row.driver.as_deref(), Some("handoff"), "{cell}");
    assert_eq!(
        (row.runs, row.each_run.len()),
        (plan.runs, plan.runs),
        "{cell}"
    );
    for summary in std::iter::once(&row.control).chain(row.drivers.iter().map(|d| &d.summary)) {
        assert_eq!(summary.corrupted, 0, "{cell}");
        assert_eq!(summary.count + summary.lost, echoes, "{cell}");
    }
    for driver in &row.drivers {
        let cell = format!("{cell} {}", driver.driver);
        assert_eq!(driver.rounds.len(), plan.runs * plan.rounds, "{cell}");
        let (low, high) = (driver.ratio_low.unwrap(), driver.ratio_high.unwrap());
        let ratio = driver.p50_ratio.unwrap();
        assert!(
            0.0 < low && low <= ratio && ratio <= high,
            "{cell}: {low} {ratio} {high}"
        );
    }
}

fn assert_strategy_row(row: &StrategyRow) {
    let cell = format!(
        "{} {} {}: {row:?}",
        row.transport, row.strategy, row.payload_bytes
    );
    assert!(row.accounting_closes, "{cell}");
    assert!(
        row.accepted_messages > 0 && row.received_messages > 0,
        "{cell}"
    );
    assert_eq!(
        row.offered_messages,
        row.accepted_messages + row.failed_sends,
        "{cell}"
    );
    assert_eq!(
        row.dropped_messages,
        row.refused_messages + row.evicted_messages,
        "{cell}"
    );
    assert!(row.max_queue_kib <= 1_024.0, "{cell}");
    assert_eq!(row.drains_given_up, 0, "{cell}");
    let Integrity {
        gaps,
        duplicates,
        reordered,
        corrupted,
    } = row.integrity;
    assert_eq!((duplicates, reordered, corrupted), (0, 0, 0), "{cell}");
    assert_eq!(gaps, row.evicted_messages + row.lost_messages, "{cell}");
    if row.transport != "udp" {
        assert_eq!(row.lost_messages, 0, "{cell}");
    }
    if row.strategy == "reliable" && row.transport != "udp" {
        assert_eq!(
            (row.delivery_percent, row.dropped_messages),
            (Some(100.0), 0),
            "{cell}"
        );
    }
    assert!(row.control.received_mib_per_s.is_some(), "{cell}");
    let run = &row.each_run[0];
    assert_eq!(
        run.receiver.received_messages, row.received_messages,
        "{cell}"
    );
    assert_eq!(
        run.receiver.received_payload_bytes,
        row.received_messages * row.payload_bytes as u64,
        "{cell}"
    );
}

#[test]
fn every_transport_and_driver_gives_a_latency_row_with_intervals() {
    let latency = latency_plan();
    let result = run(&plan(Some(latency.clone()), None));
    assert_eq!(result.error, None);
    assert!(!result.interrupted);
    assert_eq!(result.latency.len(), 2 * TRANSPORTS.len());
    for row in &result.latency {
        assert_latency_row(row, &latency);
    }
    let roles: Vec<_> = result
        .placement
        .threads
        .iter()
        .map(|thread| thread.role.as_str())
        .collect();
    for role in [
        "client",
        "client-io",
        "control-server",
        "direct-server",
        "server-io",
    ] {
        assert!(roles.contains(&role), "{role} is not among {roles:?}");
    }
}

#[test]
fn every_transport_and_strategy_gives_a_row_whose_account_closes() {
    let result = run(&plan(None, Some(strategy_plan())));
    assert_eq!(result.error, None);
    assert_eq!(result.strategy.len(), 6 * TRANSPORTS.len());
    result.strategy.iter().for_each(assert_strategy_row);
}
