//! A way that is slower for some seconds, and one that is slower all through beside one that is not: the
//! slices step up where they should, and the comparison says by how much.

use std::thread;
use std::time::Duration;

use super::ways::{Fault, Injected, datagrams, down};
use super::{UDP, figure, measured, outcomes, plan, serve, table_of_bundle};
use crate::compare::{ComparedFigure, Run, Verdict, compare};
use crate::gate::{Gate, Outcome};
use crate::ping::PingPlan;
use crate::report::Report;
use crate::report::html::points;

#[test]
fn the_slices_of_a_slow_phase_show_it_and_the_first_one_does_not() {
    // Six seconds; the replies of those from 2 s to 5 s take 200 ms longer.
    let faults = [down(200..500, Fault::Slow(Duration::from_millis(200)))];
    let (_server, address) = serve(UDP);
    let report = measured(PingPlan {
        rate_hz: Some(100.0),
        ..plan(datagrams(&address, &faults), 600)
    });
    let cell = &report.cells[0];
    // A way that is slow loses nothing and keeps the order.
    assert_eq!(outcomes(cell), [600, 600, 0, 0, 0, 0, 0, 0]);
    let response = cell.response.as_ref().unwrap();
    assert!(response.over_20ms >= 300, "{response:?}");

    let within = cell
        .slices
        .iter()
        .filter(|slice| slice.start_s >= 2.0 && slice.start_s + slice.seconds <= 5.0);
    let slow: Vec<u64> = within.map(|slice| slice.p50_ns.unwrap()).collect();
    assert!(!slow.is_empty(), "{:?}", cell.slices);
    let first = cell.slices[0].p50_ns.unwrap();
    for p50_ns in &slow {
        assert!(*p50_ns as f64 >= 200e6 * OF_A_SLICE, "{:?}", cell.slices);
        assert!(*p50_ns > first, "{:?}", cell.slices);
    }

    let title = format!("Over the run: {}, 64 B", cell.address);
    let plotted = points(&report, &title, "p50");
    assert_eq!(plotted.len(), cell.slices.len());
    let steps = plotted.iter().filter(|(_, ns)| *ns >= 200e6 * OF_A_SLICE);
    let steps: Vec<f64> = steps.map(|(at_s, _)| *at_s).collect();
    assert!(steps.len() >= slow.len());
    assert!(
        steps.iter().any(|at_s| (2.0..=5.0).contains(at_s)),
        "{plotted:?}"
    );

    let rows = table_of_bundle(&report, "ping_slices.csv");
    let table = rows.iter().map(|row| figure(row, "p50_us") * 1e3);
    let plot = plotted.iter().map(|(_, ns)| *ns);
    assert!(
        table
            .zip(plot)
            .all(|(table, plot)| (table - plot).abs() < 1.0)
    );
}

/// Ten short runs at the same time: each has a slice, which is its round.
fn side(faults: &[Injected]) -> Vec<Run> {
    let (_server, address) = serve(UDP);
    let ways: Vec<_> = (0..10).map(|_| datagrams(&address, faults)).collect();
    let runs = thread::scope(|scope| {
        let running: Vec<_> = ways
            .into_iter()
            .map(|way| scope.spawn(|| measured(plan(way, 30))))
            .collect();
        let reports = running.into_iter().map(|run| run.join().unwrap());
        reports.collect::<Vec<Report>>()
    });
    let named = runs.into_iter().map(|report| Run {
        name: "report.json".to_owned(),
        report,
    });
    named.collect()
}

#[test]
fn twenty_milliseconds_on_every_reply_are_worse_by_at_least_their_factor() {
    let slower = [down(0..u64::MAX, Fault::Slow(Duration::from_millis(20)))];
    let (clean, slow) = (side(&[]), side(&slower));
    for run in &slow {
        let rtt = &run.report.cells[0].rtt;
        assert_eq!((rtt.count, rtt.over_10ms), (30, 30));
        assert!(rtt.min_ns >= Some(20_000_000));
    }
    let compared = compare(&clean, &slow).unwrap();
    let row = &compared.rows[0];
    assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
    // Its round trips are 20 ms and more: over those of the other side that is the least factor.
    let least = 20e6 / row.a_median;
    assert!(row.ratio >= Some(least * OF_A_SLICE), "{row:?}");
    assert!(row.ratio_low > Some(1.0), "{row:?}");
    let p50 = ComparedFigure::Percentile("50".parse().unwrap());
    for figure in [p50, ComparedFigure::Mean] {
        let factor = compared.factor(0, figure).unwrap();
        assert!(factor > 1.0, "{figure}: {factor}");
    }
    let gate: Gate = "p50 > 1.10x".parse().unwrap();
    assert_eq!(gate.judge_factors(&compared).outcome, Outcome::Failed);

    let back = compare(&slow, &clean).unwrap();
    assert_eq!(back.rows[0].verdict, Verdict::Better);
    assert_eq!(gate.judge_factors(&back).outcome, Outcome::Passed);
}

/// A slice's median is known to within a bin, which is 3 % wide.
const OF_A_SLICE: f64 = 0.97;
