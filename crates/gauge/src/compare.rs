//! Two sides of evidence beside each other: what differs between their machines, how far each row moved,
//! and how sure that is.
//!
//! It measures nothing: reports go in, a [`Comparison`] comes out, and text and JSON render that. How a
//! verdict is reached stands in `shift`, what it is held to in `simulation`.

mod differences;
mod holm;
mod interval;
mod names;
mod row;
mod rows;
mod samples;
mod shift;
#[cfg(test)]
mod simulation;
mod split;
mod tail;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::io;

use serde::Serialize;

pub use self::differences::Difference;
pub use self::names::{Names, Table};
pub use self::row::{ComparedRow, Quantity, Verdict};
use self::rows::{Row, rows};
pub use self::split::{FalseAlarms, false_alarms};
pub use self::tail::Tail;
use self::tail::Times;
use crate::environment::{Doubt, Severity};
use crate::gate;
use crate::ping::Point;
use crate::report::Report;

/// The schema that a comparison follows, as its first field says.
pub const SCHEMA: &str = "tautline.comparison/1";

/// How often chance alone may call any row of a comparison different.
pub const LEVEL: f64 = 0.05;

/// With fewer rounds on a side there is no verdict.
pub const LEAST_ROUNDS: usize = 8;

/// One report, and where it came from.
#[derive(Debug, Clone)]
pub struct Run {
    /// A path, or what else names it in a sentence.
    pub name: String,
    /// What it found out.
    pub report: Report,
}

/// Everything that a comparison found out.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of the program that made it.
    pub version: String,
    /// The command as it was typed.
    pub command_line: Vec<String>,
    /// Wall clock when it was made, RFC 3339 in UTC.
    pub made_at: String,
    /// The level of the verdicts: [`LEVEL`].
    pub level: f64,
    /// What B is held against.
    pub a: Side,
    /// What is judged.
    pub b: Side,
    /// What differs between the two environments.
    pub differences: Vec<Difference>,
    /// What both sides have.
    pub rows: Vec<ComparedRow>,
    /// Rows that only A has.
    pub only_in_a: Vec<String>,
    /// Rows that only B has.
    pub only_in_b: Vec<String>,
    /// What invalidates the figures of a side, a sentence each.
    pub doubts: Vec<String>,
    /// What to know when reading it, a sentence each.
    pub warnings: Vec<String>,
    /// A against itself, where that was measured.
    pub false_alarms: Option<FalseAlarms>,
    /// What became of each `--fail-if`.
    pub gates: Vec<gate::Verdict>,
    /// The runs for it were ended early.
    pub interrupted: bool,
    /// What ended them, when something did.
    pub error: Option<String>,
    /// What gates are judged on.
    #[serde(skip)]
    times: Vec<(Times, Times)>,
}

/// One side.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Its reports.
    pub runs: Vec<RunRecord>,
    /// Different boots among them.
    pub boots: usize,
}

/// One report of a side.
#[derive(Debug, Clone, Serialize)]
pub struct RunRecord {
    /// Where it came from.
    pub name: String,
    /// When it began.
    pub started_at: String,
    /// The user's name for it.
    pub label: Option<String>,
    /// The boot it ran in.
    pub boot_id: Option<String>,
    /// It was ended early.
    pub interrupted: bool,
}

/// A figure of which both sides have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedFigure {
    /// Of the merged distributions.
    Percentile(Point),
    /// Arithmetic mean, of the same.
    Mean,
    /// Median over rounds.
    Rate,
}

impl ComparedFigure {
    /// Whether rows that count this have it.
    #[must_use]
    pub fn is_of(self, quantity: Quantity) -> bool {
        match self {
            Self::Percentile(_) | Self::Mean => quantity == Quantity::Time,
            Self::Rate => quantity == Quantity::Rate,
        }
    }
}

impl fmt::Display for ComparedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(point) => write!(f, "p{point}"),
            Self::Mean => f.write_str("mean"),
            Self::Rate => f.write_str("rate"),
        }
    }
}

impl Comparison {
    /// B's figure over A's in row number `row`.
    ///
    /// # Errors
    ///
    /// Why there is none, to be read after the figure's name: too few samples, of which side.
    pub fn factor(&self, row: usize, figure: ComparedFigure) -> Result<f64, String> {
        let (Some(compared), Some((a, b))) = (self.rows.get(row), self.times.get(row)) else {
            return Err("is of no row".to_owned());
        };
        let of = |times: &Times, side: &str| {
            let value = match figure {
                ComparedFigure::Percentile(point) => times.percentile_ns(point),
                ComparedFigure::Mean => times.mean_ns(),
                ComparedFigure::Rate => Err("is of another kind of row".to_owned()),
            };
            value.map_err(|why| format!("of {side} {why}"))
        };
        let ratio = match figure {
            ComparedFigure::Rate if compared.quantity == Quantity::Rate => {
                compared.ratio.ok_or_else(|| "of A is 0".to_owned())?
            }
            // The figure of the table, which has an interval.
            ComparedFigure::Percentile(point) if point.percent() == 50.0 => {
                compared.ratio.ok_or_else(|| "of A is 0".to_owned())?
            }
            _ => of(b, "B")? / of(a, "A")?,
        };
        match ratio.is_finite() {
            true => Ok(ratio),
            false => Err("of A is 0".to_owned()),
        }
    }
}

/// Puts B beside A. `None` where they have no row in common.
#[must_use]
pub fn compare(a: &[Run], b: &[Run]) -> Option<Comparison> {
    let [of_a, of_b] = [a, b].map(|side| rows(side.iter().map(|run| &run.report)));
    let pairs: Vec<(&Row, &Row)> = of_a
        .iter()
        .filter_map(|a| Some((a, of_b.iter().find(|b| b.names == a.names)?)))
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let only = |these: &[Row], those: &[Row]| -> Vec<String> {
        let alone = these
            .iter()
            .filter(|row| !those.iter().any(|other| other.names == row.names));
        alone.map(|row| row.names.to_string()).collect()
    };
    Some(Comparison {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: Vec::new(),
        made_at: String::new(),
        level: LEVEL,
        a: Side::of(a),
        b: Side::of(b),
        differences: differences::between(a, b),
        times: pairs
            .iter()
            .map(|(a, b)| (a.times.clone(), b.times.clone()))
            .collect(),
        rows: row::judged(&pairs),
        only_in_a: only(&of_a, &of_b),
        only_in_b: only(&of_b, &of_a),
        doubts: doubts(a, b),
        warnings: warnings(a, b),
        false_alarms: None,
        gates: Vec::new(),
        interrupted: false,
        error: None,
    })
}

/// The comparison as one JSON document on one line, as `schema/comparison-v1.json` describes it.
///
/// # Errors
///
/// What the writer says.
pub fn json(comparison: &Comparison, mut to: impl io::Write) -> io::Result<()> {
    serde_json::to_writer(&mut to, comparison).map_err(io::Error::from)?;
    to.write_all(b"\n")
}

/// What the runs say invalidates their own figures: of each kind the first, and of how many runs.
fn doubts(a: &[Run], b: &[Run]) -> Vec<String> {
    let mut doubts = Vec::new();
    for (side, name) in [(a, "A"), (b, "B")] {
        let mut kinds: Vec<(&Doubt, usize)> = Vec::new();
        let all = side.iter().flat_map(|run| &run.report.warnings);
        for doubt in all.filter(|doubt| doubt.severity == Severity::Invalid) {
            match kinds.iter_mut().find(|(known, _)| known.code == doubt.code) {
                Some((_, runs)) => *runs += 1,
                None => kinds.push((doubt, 1)),
            }
        }
        for (doubt, runs) in kinds {
            let of = match (side.len(), runs) {
                (1, _) => name.to_owned(),
                (all, runs) => format!("{name}, {runs} of {all} runs"),
            };
            doubts.push(format!("{} in {of}: {}", doubt.code, doubt.message));
        }
    }
    doubts
}

fn warnings(a: &[Run], b: &[Run]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (side, name) in [(a, "A"), (b, "B")] {
        for run in side {
            let name = format!("{name} ({})", run.name);
            if run.report.interrupted {
                warnings.push(format!("{name} was ended early: its figures are partial"));
            }
            if let Some(error) = &run.report.error {
                warnings.push(format!("{name} broke off: {error}"));
            }
        }
    }
    warnings
}

impl Side {
    fn of(runs: &[Run]) -> Self {
        let mut boots: Vec<Option<&str>> = runs
            .iter()
            .map(|run| run.report.boot_id.as_deref())
            .collect();
        boots.sort_unstable();
        boots.dedup();
        Self {
            boots: boots.len(),
            runs: runs.iter().map(RunRecord::of).collect(),
        }
    }
}

impl RunRecord {
    fn of(run: &Run) -> Self {
        Self {
            name: run.name.clone(),
            started_at: run.report.started_at.clone(),
            label: run.report.label.clone(),
            boot_id: run.report.boot_id.clone(),
            interrupted: run.report.interrupted,
        }
    }
}
