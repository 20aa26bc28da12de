//! What the rows come to: first where a peer is better than the product, then the targets.

use std::fmt;

use serde::Serialize;

use super::list::{Condition, Target};
use super::rows::{Row, Verdict, short, shown};

/// The end of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Summary {
    /// Cells in which the whole interval says that a peer is better, worst first.
    pub(crate) worse_than_a_peer: Vec<Worse>,
    /// Cells beside peers.
    pub(crate) beside_peers: BesidePeers,
    /// Rows of each target that was measured.
    pub(crate) targets: Vec<Tally>,
}

/// One cell in which a peer is better.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Worse {
    pub(crate) target: Target,
    pub(crate) condition: Condition,
    pub(crate) transport: &'static str,
    pub(crate) payload_bytes: usize,
    pub(crate) connections: Option<usize>,
    pub(crate) figure: Option<&'static str>,
    pub(crate) unit: &'static str,
    pub(crate) product: &'static str,
    pub(crate) product_figure: f64,
    pub(crate) peer: &'static str,
    pub(crate) peer_figure: f64,
    /// Product by peer, as in the row.
    pub(crate) ratio: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// The machine was not the same before and after.
    pub(crate) changed: bool,
}

/// How the cells beside peers came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct BesidePeers {
    pub(crate) no_worse: usize,
    pub(crate) worse: usize,
    pub(crate) undecided: usize,
    pub(crate) too_few_rounds: usize,
}

/// How the rows of one target came out.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Tally {
    pub(crate) target: Target,
    pub(crate) met: usize,
    pub(crate) missed: usize,
    pub(crate) undecided: usize,
    pub(crate) too_few_rounds: usize,
}

impl Summary {
    pub(crate) fn of(rows: &[Row]) -> Self {
        let mut worse: Vec<&Row> = rows
            .iter()
            .filter(|row| row.verdict == Verdict::Worse)
            .collect();
        worse.sort_by(|one, two| times_worse(two).total_cmp(&times_worse(one)));
        let beside = |verdict| {
            let rows = rows.iter().filter(|row| row.beside_peer);
            rows.filter(|row| row.verdict == verdict).count()
        };
        Self {
            worse_than_a_peer: worse.into_iter().map(Worse::of).collect(),
            beside_peers: BesidePeers {
                no_worse: beside(Verdict::NoWorse),
                worse: beside(Verdict::Worse),
                undecided: beside(Verdict::Undecided),
                too_few_rounds: beside(Verdict::TooFewRounds),
            },
            targets: Target::ALL
                .into_iter()
                .filter_map(|target| Tally::of(target, rows))
                .collect(),
        }
    }
}

/// How many times as good the peer is: above 1 in a worse cell.
fn times_worse(row: &Row) -> f64 {
    if row.unit == "ns" {
        row.ratio
    } else {
        1.0 / row.ratio
    }
}

impl Worse {
    fn of(row: &Row) -> Self {
        Self {
            target: row.target,
            condition: row.condition,
            transport: row.transport,
            payload_bytes: row.payload_bytes,
            connections: row.connections,
            figure: row.figure,
            unit: row.unit,
            product: row.product.side,
            product_figure: row.product.figure,
            peer: row.control.side,
            peer_figure: row.control.figure,
            ratio: row.ratio,
            low: row.low,
            high: row.high,
            changed: row.changed,
        }
    }
}

impl Tally {
    /// `None` when nothing of the target is judged.
    fn of(target: Target, rows: &[Row]) -> Option<Self> {
        let count = |verdict| {
            let rows = rows
                .iter()
                .filter(|row| row.target == target && !row.beside_peer);
            rows.filter(|row| row.verdict == verdict).count()
        };
        let tally = Self {
            target,
            met: count(Verdict::Met),
            missed: count(Verdict::Missed),
            undecided: count(Verdict::Undecided),
            too_few_rounds: count(Verdict::TooFewRounds),
        };
        let judged = tally.met + tally.missed + tally.undecided + tally.too_few_rounds;
        (judged > 0).then_some(tally)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = self.beside_peers;
        if beside != BesidePeers::default() {
            writeln!(f, "Worse than a peer: {} cells", beside.worse)?;
            for worse in &self.worse_than_a_peer {
                writeln!(f, "  {worse}")?;
            }
            writeln!(
                f,
                "Undecided against a peer: {} cells; no worse in {}; too few rounds in {}",
                beside.undecided, beside.no_worse, beside.too_few_rounds
            )?;
        }
        if !self.targets.is_empty() {
            writeln!(f, "Targets, by rows:")?;
        }
        for tally in &self.targets {
            writeln!(
                f,
                "  {:3} {:>3} met, {:>3} missed, {:>3} undecided{}",
                tally.target,
                tally.met,
                tally.missed,
                tally.undecided,
                match tally.too_few_rounds {
                    0 => String::new(),
                    rows => format!(", {rows} with too few rounds"),
                }
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = |figure| shown(self.unit, figure);
        write!(
            f,
            "{:3} {:8} {:3} {:>5} {:>11} {:>9} / {:>11} {:>9} {:>6} [{}, {}]",
            self.target,
            self.condition,
            self.transport,
            self.payload_bytes,
            self.product,
            figure(self.product_figure),
            self.peer,
            figure(self.peer_figure),
            short(self.ratio),
            short(self.low.unwrap_or(self.ratio)),
            short(self.high.unwrap_or(self.ratio)),
        )?;
        if let Some((connections, figure)) = self.connections.zip(self.figure) {
            write!(f, " ({figure}, {connections} connections)")?;
        }
        f.write_str(if self.changed { " changed" } else { "" })
    }
}
