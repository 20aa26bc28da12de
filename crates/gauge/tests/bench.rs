//! The whole engine against real loopback sockets: small plans, and what must be true of any result.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tautline::Strategy;
use tautline_gauge::plan::{
    Driver, LatencyPlan, OnRefused, Placement, Plan, Sched, SmokePlan, StrategyPlan, Transport,
};
use tautline_gauge::report::{Integrity, LatencyRow, SmokeClass, StrategyRow};
use tautline_gauge::run::{BenchErrorKind, BenchResult, bench};

fn latency_plan() -> LatencyPlan {
    LatencyPlan {
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
        smoke: None,
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
    let mut lost = 0;
    for summary in std::iter::once(&row.control).chain(row.drivers.iter().map(|d| &d.summary)) {
        assert_eq!(summary.corrupted, 0, "{cell}");
        assert_eq!(summary.count + summary.lost, echoes, "{cell}");
        // On a loaded machine a datagram may be late by more than its timeout; on a stream none is.
        assert!(summary.lost == 0 || row.transport == "udp", "{cell}");
        lost += summary.lost;
    }
    for driver in &row.drivers {
        let cell = format!("{cell} {}", driver.driver);
        let rounds = plan.runs * plan.rounds;
        assert!(
            driver.rounds.len() == rounds || lost > 0,
            "{cell}: {} of {rounds} rounds",
            driver.rounds.len()
        );
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
    assert_eq!(row.address, None, "{cell}");
    let receiver = row.each_run[0].receiver.expect("our own server's");
    assert_eq!(receiver.received_messages, row.received_messages, "{cell}");
    assert_eq!(
        receiver.received_payload_bytes,
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
    assert_eq!(result.latency.len(), 6);
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
    assert_eq!(result.strategy.len(), 18);
    result.strategy.iter().for_each(assert_strategy_row);
}

/// A plan of one small cell.
fn small(transport: Transport) -> Plan {
    let latency = LatencyPlan {
        transports: vec![transport],
        sizes: vec![64],
        runs: 1,
        rounds: 6,
        iterations: 60,
        warmup: 0,
        ..LatencyPlan::default()
    };
    plan(Some(latency), None)
}

fn setup_error(plan: &Plan) -> String {
    let result = run(plan);
    assert!(result.latency.is_empty() && result.strategy.is_empty());
    assert!(!result.interrupted);
    let error = result.error.expect("the run cannot begin");
    assert_eq!(error.kind, BenchErrorKind::Setup, "{error}");
    error.message
}

#[test]
fn an_address_that_is_asked_for_is_used_in_every_run() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for driver in Driver::ALL {
        let mut plan = small(Transport::Tcp);
        plan.bind = vec![format!("tcp://127.0.0.1:{port}").parse().unwrap()];
        let latency = plan.latency.as_mut().unwrap();
        latency.drivers = vec![driver];
        latency.runs = 3;
        let result = run(&plan);
        assert_eq!(result.error, None, "{driver}");
        assert_eq!(result.latency[0].each_run.len(), 3, "{driver}");
    }
}

#[test]
fn a_taken_port_and_a_live_socket_end_the_run_before_it_begins() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = small(Transport::Tcp);
    plan.bind = vec![
        format!("tcp://{}", taken.local_addr().unwrap())
            .parse()
            .unwrap(),
    ];
    let said = setup_error(&plan);
    assert!(
        said.contains(&taken.local_addr().unwrap().to_string()),
        "{said}"
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.sock");
    let _live = UnixListener::bind(&path).unwrap();
    let mut plan = small(Transport::Uds);
    plan.bind = vec![format!("uds://{}", path.display()).parse().unwrap()];
    let said = setup_error(&plan);
    assert!(said.contains("live.sock"), "{said}");
    assert!(path.exists(), "a live socket is left alone");

    // Also where the transport's turn would come late.
    plan.latency = Some(LatencyPlan {
        transports: vec![Transport::Tcp, Transport::Uds],
        ..latency_plan()
    });
    let result = run(&plan);
    assert!(result.error.unwrap().to_string().contains("live.sock"));
    assert!(result.latency.is_empty());
}

#[test]
fn a_stale_socket_is_replaced_and_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stale.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let mut plan = small(Transport::Uds);
    plan.bind = vec![format!("uds://{}", path.display()).parse().unwrap()];
    assert_eq!(run(&plan).error, None);
    assert!(!path.exists());
}

#[test]
fn a_cpu_that_may_not_be_used_ends_the_run_before_it_begins() {
    let mut plan = small(Transport::Tcp);
    plan.placement.cpus = vec![1_023];
    let said = setup_error(&plan);
    assert!(said.starts_with("--cpu 1023: "), "{said}");
}

#[test]
fn placements_are_read_back_from_every_thread() {
    let mut plan = small(Transport::Uds);
    plan.placement.placement = Placement::Same;
    let result = run(&plan);
    assert_eq!(result.error, None);
    let threads = &result.placement.threads;
    let cpu = threads[0].cpus_requested.clone();
    assert_eq!(cpu.len(), 1);
    assert!(
        threads.iter().all(|thread| thread.cpus_effective == cpu),
        "{threads:?}"
    );
    assert_eq!(
        result.evidence.wake_halted_ns, None,
        "one CPU never waits for another to wake"
    );

    plan.placement.placement = Placement::Free;
    let result = run(&plan);
    assert!(
        result
            .placement
            .threads
            .iter()
            .all(|thread| thread.cpus_requested.is_empty())
    );
}

#[test]
fn a_scheduler_is_had_or_its_refusal_is_told_and_fatal_where_required() {
    let mut plan = small(Transport::Uds);
    plan.placement.sched = Sched::Fifo(2);
    let result = run(&plan);
    assert_eq!(result.error, None);
    let granted = result
        .placement
        .threads
        .iter()
        .all(|thread| thread.sched_effective == "fifo:2");
    let told = result
        .placement
        .note
        .is_some_and(|note| note.contains("--sched fifo:2"));
    assert!(granted != told, "{:?}", result.placement.threads);

    plan.placement.require_sched = true;
    assert_eq!(run(&plan).error.is_none(), granted);
}

#[test]
fn stopping_keeps_what_was_measured() {
    let mut plan = small(Transport::Tcp);
    // Far more than anybody would wait for, in blocks that end soon.
    let latency = plan.latency.as_mut().unwrap();
    (latency.iterations, latency.rounds) = (10_000_000, 10_000);
    let stop = AtomicBool::new(false);
    let result = bench(
        &plan,
        &mut |progress| {
            if progress.done > 0.0 {
                stop.store(true, Ordering::Relaxed);
            }
        },
        &stop,
    );
    assert!(result.interrupted);
    assert_eq!(result.error, None);
    assert_eq!(result.latency.len(), 1);
    let row = &result.latency[0];
    assert!(row.control.count + row.drivers.iter().map(|d| d.summary.count).sum::<u64>() > 0);
}

#[test]
fn a_stream_that_is_stopped_still_gives_its_row() {
    let strategy = StrategyPlan {
        transports: vec![Transport::Uds],
        strategies: vec![Strategy::Reliable],
        sizes: vec![64],
        runs: 1,
        duration: Duration::from_secs(3_600),
        ..StrategyPlan::default()
    };
    let plan = plan(None, Some(strategy));
    let stop = AtomicBool::new(false);
    let mut calls = 0;
    let result = bench(
        &plan,
        &mut |_| {
            calls += 1;
            if calls == 8 {
                stop.store(true, Ordering::Relaxed);
            }
        },
        &stop,
    );
    assert!(result.interrupted);
    assert_eq!(result.error, None);
    // The stop may have fallen into the control, which then has no library beside it.
    for row in &result.strategy {
        assert!(
            row.accounting_closes && row.delivery_percent == Some(100.0),
            "{row:?}"
        );
    }
}

#[test]
fn every_way_to_wait_after_a_refusal_gives_a_row_whose_account_closes() {
    for on_refused in [
        OnRefused::Yield,
        OnRefused::Spin,
        OnRefused::Sleep(Duration::from_micros(50)),
    ] {
        let strategy = StrategyPlan {
            transports: vec![Transport::Tcp],
            strategies: vec![Strategy::BestEffort],
            sizes: vec![16_384],
            on_refused,
            ..strategy_plan()
        };
        let result = run(&plan(None, Some(strategy)));
        assert_eq!(result.error, None);
        result.strategy.iter().for_each(assert_strategy_row);
    }
}

#[test]
fn every_udp_payload_comes_back_over_every_path_or_somebody_is_to_blame() {
    let smoke = SmokePlan {
        iterations: 30,
        warmup: 3,
        ..SmokePlan::default()
    };
    let plan = Plan {
        smoke: Some(smoke),
        ..plan(None, None)
    };
    let result = run(&plan);
    assert_eq!(result.error, None);
    let rows = &result.udp_smoke;
    let cells: Vec<_> = rows
        .iter()
        .map(|row| (row.payload_bytes, row.path.as_str()))
        .collect();
    assert_eq!(cells.len(), 12);
    assert_eq!(
        cells[9..],
        [
            (65_507, "raw"),
            (65_507, "reliable"),
            (65_507, "besteffort")
        ]
    );
    for row in rows {
        assert!(row.sent + row.send_failures == row.send_attempts, "{row:?}");
        assert!(
            row.matched <= row.client_received && row.client_received <= row.sent,
            "{row:?}"
        );
        assert_eq!(row.runtime.is_some(), row.path != "raw");
        if let Some(runtime) = row.runtime {
            assert_eq!(runtime.server.received_messages, row.server_received);
            assert_eq!(
                runtime.server.received_payload_bytes,
                row.server_received * row.payload_bytes as u64
            );
        }
    }
    // On a machine under any load loopback may lose; then the verdict says so.
    for verdict in &result.udp_smoke_verdicts {
        let clean = rows
            .iter()
            .filter(|row| row.payload_bytes == verdict.payload_bytes)
            .all(|row| row.matched == 30);
        assert_eq!(
            clean,
            verdict.classification == SmokeClass::None,
            "{verdict:?}"
        );
    }
}

#[test]
fn the_largest_and_the_smallest_payloads_pass() {
    let latency = LatencyPlan {
        sizes: vec![16, 65_507, 1_048_572],
        runs: 1,
        rounds: 6,
        iterations: 12,
        warmup: 0,
        ..LatencyPlan::default()
    };
    let strategy = StrategyPlan {
        sizes: vec![16, 65_507, 1_048_572],
        strategies: vec![Strategy::Reliable, Strategy::KeepLatest],
        ..strategy_plan()
    };
    let result = run(&plan(Some(latency.clone()), Some(strategy)));
    assert_eq!(result.error, None);
    assert_eq!((result.latency.len(), result.strategy.len()), (8, 16));
    result
        .latency
        .iter()
        .for_each(|row| assert_latency_row(row, &latency));
    result.strategy.iter().for_each(assert_strategy_row);
    let absent: Vec<_> = result
        .absent
        .iter()
        .map(|absent| (&*absent.table, absent.payload_bytes))
        .collect();
    assert_eq!(absent, [("latency", 1_048_572), ("strategy", 1_048_572)]);
    assert_eq!(
        result.absent[0].reason,
        "a datagram carries 65507 bytes at most"
    );
}

#[test]
fn a_budget_keeps_every_round_and_cuts_the_echoes() {
    let mut plan = small(Transport::Uds);
    let latency = plan.latency.as_mut().unwrap();
    latency.iterations = 1_000_000;
    latency.budget = Some(Duration::from_millis(300));
    let result = run(&plan);
    assert_eq!(result.error, None);
    let row = &result.latency[0];
    assert!(row.summary.count < 4_000_000);
    for driver in &row.drivers {
        assert_eq!(driver.rounds.len(), 6);
        assert!(driver.ratio_low.is_some());
    }
}

#[test]
fn progress_goes_forward_from_nothing_to_nearly_all() {
    let mut seen = Vec::new();
    let plan = small(Transport::Uds);
    bench(
        &plan,
        &mut |progress| seen.push(progress),
        &AtomicBool::new(false),
    );
    assert_eq!(seen[0].cell, "uds 64 B, run 1 of 1");
    assert!(
        seen.iter()
            .all(|progress| (0.0..=1.0).contains(&progress.done))
    );
    assert!(seen.windows(2).all(|pair| pair[0].done <= pair[1].done));
}
