//! What a run says at its end.

use tautline_gauge::plan::Transport;
use tautline_gauge::statistics::Random;

use crate::program::crowd::Spreads;
use crate::program::list::{Better, Comparison, Condition, Group, Limit, SideKind, Target};
use crate::program::peers::PeerSide;
use crate::program::rounds::{Counts, Record};
use crate::program::rows::{Row, Verdict, rows};
use crate::program::summary::Summary;

const TOKIO: SideKind = SideKind::Peer(PeerSide::TokioEcho);

/// One row of `target`: the product takes `product` in every round, the control 1.
fn row(target: Target, control: SideKind, limit: Limit, product: f64) -> Row {
    let group = Group {
        target,
        condition: Condition::Split,
        transport: Transport::Tcp,
        payload_bytes: 64,
        comparisons: vec![Comparison {
            product: SideKind::Direct,
            controls: vec![control],
            limit,
        }],
    };
    let record = |side, figure| Record {
        side,
        figures: vec![figure; 8],
        worst_ns: 0.0,
        counts: Counts::default(),
        evidence: None,
        pace: None,
        spreads: Spreads::default(),
    };
    let records = [record(SideKind::Direct, product), record(control, 1.0)];
    rows(&group, &records, &mut Random::seeded(1)).remove(0)
}

fn beside_tokio(target: Target, better: Better, product: f64) -> Row {
    row(target, TOKIO, Limit::Peer(better), product)
}

#[test]
fn the_cells_in_which_a_peer_is_better_come_first_and_the_worst_of_them_on_top() {
    let rows = [
        row(
            Target::T1,
            SideKind::Blocking,
            Limit::RatioAtMost(1.05),
            3.0,
        ),
        beside_tokio(Target::T2, Better::Lower, 1.5),
        beside_tokio(Target::T2, Better::Lower, 0.5),
        // A third of the peer's rate is worse than one and a half times its time.
        beside_tokio(Target::T4, Better::Higher, 0.3),
        beside_tokio(Target::T4, Better::Higher, 7.0),
    ];
    let summary = Summary::of(&rows);
    let worse: Vec<_> = summary
        .worse_than_a_peer
        .iter()
        .map(|cell| (cell.target, cell.peer, cell.ratio))
        .collect();
    assert_eq!(
        worse,
        [(Target::T4, "tokio", 0.3), (Target::T2, "tokio", 1.5)]
    );
    let text = summary.to_string();
    assert!(
        text.starts_with("Worse than a peer: 2 cells\n  T4"),
        "{text}"
    );
    assert!(
        text.contains("T1    0 met,   1 missed,   0 undecided"),
        "{text}"
    );
}

#[test]
fn a_peer_is_no_target() {
    let row = beside_tokio(Target::T2, Better::Lower, 1.5);
    assert_eq!(row.verdict, Verdict::Worse);
    assert!(Summary::of(&[row]).targets.is_empty());
}

#[test]
fn an_interval_on_both_sides_is_undecided() {
    let mut undecided = beside_tokio(Target::T2, Better::Lower, 1.0);
    (undecided.low, undecided.high) = (Some(0.9), Some(1.1));
    undecided.verdict = Verdict::Undecided;
    let summary = Summary::of(&[undecided]);
    assert!(summary.worse_than_a_peer.is_empty());
    assert_eq!(summary.beside_peers.undecided, 1);
    assert!(
        summary
            .to_string()
            .contains("Undecided against a peer: 1 cells"),
        "{summary}"
    );
}
