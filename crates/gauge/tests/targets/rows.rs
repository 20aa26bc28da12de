//! How rounds become a ratio, an interval and a verdict.

use tautline_gauge::plan::Transport;
use tautline_gauge::statistics::Random;

use crate::program::crowd::{Crowd, Spread, Spreads};
use crate::program::list::{Better, Comparison, Condition, Group, Limit, SideKind, Target};
use crate::program::peers::PeerSide;
use crate::program::rounds::{Counts, Record};
use crate::program::rows::{Row, Verdict, rows};
use crate::program::stream::Gather;

fn record(side: SideKind, figures: &[f64]) -> Record {
    Record {
        side,
        figures: figures.to_vec(),
        worst_ns: 0.0,
        counts: Counts::default(),
        evidence: None,
        pace: None,
        spreads: Spreads::default(),
    }
}

fn one_row(limit: Limit, product: &[f64], controls: &[(SideKind, &[f64])]) -> Row {
    let group = Group {
        target: Target::T6,
        condition: Condition::Split,
        transport: Transport::Tcp,
        payload_bytes: 64,
        comparisons: vec![Comparison {
            product: SideKind::Direct,
            controls: controls.iter().map(|&(side, _)| side).collect(),
            limit,
        }],
    };
    let mut records = vec![record(SideKind::Direct, product)];
    records.extend(
        controls
            .iter()
            .map(|&(side, figures)| record(side, figures)),
    );
    rows(&group, &records, &mut Random::seeded(1)).remove(0)
}

#[test]
fn ratios_are_taken_within_rounds() {
    // The machine is twice as slow in every other round; the ratio does not move.
    let product = [10.0, 20.0, 10.0, 20.0, 10.0, 20.0, 10.0, 20.0];
    let control = [8.0, 16.0, 8.0, 16.0, 8.0, 16.0, 8.0, 16.0];
    let row = one_row(
        Limit::RatioAtMost(1.3),
        &product,
        &[(SideKind::Blocking, &control)],
    );
    assert_eq!(
        (row.ratio, row.low, row.high),
        (1.25, Some(1.25), Some(1.25))
    );
    assert_eq!(row.verdict, Verdict::Met);
}

#[test]
fn the_whole_interval_decides() {
    let verdict = |limit| {
        let product = [1.0, 1.02, 1.04, 1.06, 1.08, 1.1, 1.12, 1.14];
        one_row(limit, &product, &[(SideKind::Blocking, &[1.0; 8])]).verdict
    };
    assert_eq!(verdict(Limit::RatioAtMost(1.2)), Verdict::Met);
    assert_eq!(verdict(Limit::RatioAtMost(1.07)), Verdict::Undecided);
    assert_eq!(verdict(Limit::RatioAtMost(0.9)), Verdict::Missed);
    assert_eq!(verdict(Limit::RatioAtLeast(0.9)), Verdict::Met);
    assert_eq!(verdict(Limit::RatioAtLeast(1.2)), Verdict::Missed);
    assert_eq!(verdict(Limit::RatioWithin(0.9, 1.2)), Verdict::Met);
    assert_eq!(verdict(Limit::RatioWithin(1.2, 1.3)), Verdict::Missed);
}

#[test]
fn seven_rounds_have_an_interval_and_no_verdict() {
    let row = one_row(
        Limit::RatioAtMost(2.0),
        &[1.0; 7],
        &[(SideKind::Blocking, &[1.0; 7])],
    );
    assert_eq!((row.low, row.verdict), (Some(1.0), Verdict::TooFewRounds));
}

#[test]
fn the_best_control_is_the_one_with_the_best_median() {
    let each = SideKind::Raw(Gather::Each);
    let copies = SideKind::Raw(Gather::Copies(65_536));
    // The first has the best single round.
    let row = one_row(
        Limit::RatioAtLeast(0.9),
        &[2.0; 8],
        &[
            (each, &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 99.0]),
            (copies, &[2.0; 8]),
        ],
    );
    assert_eq!((row.control.side, row.ratio), ("copy 64Ki", 1.0));
}

#[test]
fn a_limit_in_nanoseconds_judges_the_figure_and_not_the_ratio() {
    let row = one_row(
        Limit::NanosecondsAtMost(1_000.0),
        &[400.0; 8],
        &[(SideKind::MutexPush, &[50.0; 8])],
    );
    assert_eq!((row.ratio, row.judged), (8.0, 400.0));
    assert_eq!(row.verdict, Verdict::Met);
}

#[test]
fn sides_that_record_all_of_their_times_have_three_rows() {
    let crowd = |side, times: [u64; 8], rate: f64| {
        let mut one = record(side, &[1.0; 8]);
        for time_ns in times {
            let mut times_ns =
                hdrhistogram::Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
            times_ns.record(time_ns).unwrap();
            let spread = Spread {
                times_ns: &times_ns,
                messages_per_s: rate,
            };
            one.spreads.add(&spread).unwrap();
        }
        one
    };
    let product = SideKind::CrowdCallback(Crowd::Sixteen);
    let peer = SideKind::Peer(PeerSide::TokioCrowd(Crowd::Sixteen));
    let group = Group {
        target: Target::P2,
        condition: Condition::Split,
        transport: Transport::Tcp,
        payload_bytes: 64,
        comparisons: vec![Comparison {
            product,
            controls: vec![peer],
            limit: Limit::Peer(Better::Lower),
        }],
    };
    // Seven rounds of 10 ns and one of 90: the mean of their percentiles would be 20.
    let records = [
        crowd(product, [10, 10, 10, 10, 10, 10, 10, 90], 3.0),
        crowd(peer, [10; 8], 2.0),
    ];
    let rows = rows(&group, &records, &mut Random::seeded(1));
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.figure.unwrap(), row.product.figure, row.verdict))
        .collect();
    assert_eq!(
        shown,
        [
            ("p50", 10.0, Verdict::NoWorse),
            ("p99", 90.0, Verdict::NoWorse),
            // More messages are better.
            ("rate", 3.0, Verdict::NoWorse),
        ]
    );
    assert_eq!(rows[0].product.merged.as_ref().unwrap().count, 8);
    assert!(rows[0].to_string().ends_with("(p50, 16 connections)"));
}
