//! Two sides of evidence beside each other: what differs between their machines, how far each row moved,
//! and how sure that is.
//!
//! It measures nothing: reports go in, a [`Comparison`] comes out, and text and JSON render that. How a
//! verdict is reached stands in `shift`, what it is held to in `simulation`.

mod differences;
mod holm;
mod interval;
mod names;
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
use self::holm::holm;
use self::interval::ratio_interval;
pub use self::names::{Names, Table};
use self::rows::{Row, rows};
use self::samples::{Boots, Samples};
use self::shift::Shift;
pub use self::split::{FalseAlarms, false_alarms};
pub use self::tail::Tail;
use self::tail::Times;
use crate::gate;
use crate::ping::Point;
use crate::report::Report;
use crate::statistics::{Interval, Random};

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

/// What a row counts, and so which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// Nanoseconds: less is better.
    Time,
    /// MiB a second: more is better.
    Rate,
}

/// What can be said of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is faster.
    Better,
    /// B is slower.
    Worse,
    /// The rounds do not tell the two apart.
    NoDifferenceShown,
    /// There is too little to judge by.
    CannotTell,
    /// The sides ran in different boots and a side has only one: whatever moved, its cause is not shown.
    DifferentBoots,
}

/// One row that both sides have.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedRow {
    /// What was measured.
    #[serde(flatten)]
    pub names: Names,
    /// All of it in one line.
    pub name: String,
    /// Which way is better.
    pub quantity: Quantity,
    /// Median over A's rounds: of a time the round's own median in ns, of a rate MiB a second.
    pub a_median: f64,
    /// Median over B's rounds.
    pub b_median: f64,
    /// A's rounds.
    pub a_rounds: usize,
    /// B's rounds.
    pub b_rounds: usize,
    /// B's median over A's; `None` where A's is 0.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % bootstrap interval; `None` below 6 rounds a side.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// How often chance alone would show as much, of this row.
    pub p: Option<f64>,
    /// The same among all rows of its family: those of the product, or those of controls.
    pub p_corrected: Option<f64>,
    /// What can be said.
    pub verdict: Verdict,
    /// Why there is no other verdict.
    pub reason: Option<String>,
    /// How the tails differ.
    pub tail: Option<Tail>,
    /// B's control over A's, in the same rounds.
    pub control_ratio: Option<f64>,
    /// Lower end of its interval.
    pub control_low: Option<f64>,
    /// Upper end.
    pub control_high: Option<f64>,
    /// The control moved by as much: the machine moved, not the product. `None` where nothing moved, or
    /// no control stands beside it.
    pub machine_moved: Option<bool>,
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
    let mut compared: Vec<ComparedRow> = pairs.iter().map(|(a, b)| side_by_side(a, b)).collect();
    correct(&mut compared);
    for (row, (a, b)) in compared.iter_mut().zip(&pairs) {
        judge(row, a, b);
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
        rows: compared,
        only_in_a: only(&of_a, &of_b),
        only_in_b: only(&of_b, &of_a),
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

/// The figures of a row, before anything is judged.
fn side_by_side(a: &Row, b: &Row) -> ComparedRow {
    let seed = (a.samples.rounds().len() as u64) << 32 | b.samples.rounds().len() as u64;
    let mut random = Random::seeded(seed);
    let ratio = |a: &Samples, b: &Samples, random: &mut Random| {
        let ratio = Some(b.median()? / a.median()?).filter(|ratio| ratio.is_finite())?;
        Some((ratio, ratio_interval(a, b, random)))
    };
    let own = ratio(&a.samples, &b.samples, &mut random);
    let control = ratio(&a.beside, &b.beside, &mut random);
    let low =
        |of: &Option<(f64, Option<Interval>)>| of.and_then(|(_, interval)| Some(interval?.low));
    let high =
        |of: &Option<(f64, Option<Interval>)>| of.and_then(|(_, interval)| Some(interval?.high));
    let positive = a.samples.is_positive() && b.samples.is_positive();
    let shift = positive
        .then(|| Shift::between(&a.samples, &b.samples))
        .flatten();
    ComparedRow {
        name: a.names.to_string(),
        names: a.names.clone(),
        quantity: a.quantity,
        a_median: a.samples.median().unwrap_or(0.0),
        b_median: b.samples.median().unwrap_or(0.0),
        a_rounds: a.samples.rounds().len(),
        b_rounds: b.samples.rounds().len(),
        ratio: own.map(|(ratio, _)| ratio),
        ratio_low: low(&own),
        ratio_high: high(&own),
        p: shift
            .filter(|_| why_not(a, b).is_none())
            .map(|shift| shift.p),
        p_corrected: None,
        verdict: Verdict::CannotTell,
        reason: why_not(a, b),
        tail: Tail::between(&a.times, &b.times),
        control_ratio: control.map(|(ratio, _)| ratio),
        control_low: low(&control),
        control_high: high(&control),
        machine_moved: None,
    }
}

/// Why a row cannot be judged at all.
fn why_not(a: &Row, b: &Row) -> Option<String> {
    let least = [(&a.samples, "A"), (&b.samples, "B")]
        .map(|(samples, side)| (samples.rounds().len(), side))
        .into_iter()
        .min()?;
    if least.0 < LEAST_ROUNDS {
        let (rounds, side) = least;
        let unit = match rounds {
            1 => a.names.table.unit().to_owned(),
            _ => format!("{}s", a.names.table.unit()),
        };
        return Some(format!(
            "{side} has {rounds} {unit}, a verdict needs {LEAST_ROUNDS}"
        ));
    }
    if !a.samples.is_positive() || !b.samples.is_positive() {
        return Some("some of it is 0, and no ratio is made of that".to_owned());
    }
    None
}

/// Each family for itself: the rows of the product, and those of controls, which speak of the machine.
fn correct(rows: &mut [ComparedRow]) {
    for control in [false, true] {
        let mut family: Vec<&mut ComparedRow> = rows
            .iter_mut()
            .filter(|row| row.names.control == control && row.p.is_some())
            .collect();
        let ps: Vec<f64> = family.iter().filter_map(|row| row.p).collect();
        for (row, p) in family.iter_mut().zip(holm(&ps)) {
            row.p_corrected = Some(p);
        }
    }
}

fn judge(row: &mut ComparedRow, a: &Row, b: &Row) {
    let boots = Boots::of(&a.samples, &b.samples);
    row.verdict = match (boots, row.p_corrected) {
        (_, None) => Verdict::CannotTell,
        (Boots::OneEach | Boots::Unknown, Some(_)) => Verdict::DifferentBoots,
        (Boots::Same | Boots::Several, Some(p)) if p <= LEVEL => direction(row, a, b),
        (Boots::Same | Boots::Several, Some(_)) => Verdict::NoDifferenceShown,
    };
    if row.verdict == Verdict::DifferentBoots {
        row.reason = Some(match boots {
            Boots::Unknown => "a report does not say in which boot it ran".to_owned(),
            _ => "different boots, cause not shown".to_owned(),
        });
    }
    row.machine_moved = machine_moved(row);
}

/// The test looks at trimmed means and the page shows medians: where they disagree, nothing is shown.
fn direction(row: &ComparedRow, a: &Row, b: &Row) -> Verdict {
    let up = Shift::between(&a.samples, &b.samples).map(|shift| shift.log_ratio > 0.0);
    let more = row.ratio > Some(1.0);
    if row.ratio == Some(1.0) || up != Some(more) {
        return Verdict::NoDifferenceShown;
    }
    match (row.quantity, more) {
        (Quantity::Time, false) | (Quantity::Rate, true) => Verdict::Better,
        (Quantity::Time, true) | (Quantity::Rate, false) => Verdict::Worse,
    }
}

/// Whether the control moved by as much, of a row that moved: its interval reaches the row's ratio, or
/// it went even farther.
fn machine_moved(row: &ComparedRow) -> Option<bool> {
    let moved = match row.verdict {
        Verdict::Better | Verdict::Worse => true,
        Verdict::DifferentBoots => {
            row.ratio_low > Some(1.0) || row.ratio_high.is_some_and(|high| high < 1.0)
        }
        Verdict::NoDifferenceShown | Verdict::CannotTell => false,
    };
    let (ratio, control) = row.ratio.zip(row.control_ratio).filter(|_| moved)?;
    let (low, high) = (row.control_low?, row.control_high?);
    // An interval around 1 is that of a machine that stood still, however wide.
    let stood_still = low <= 1.0 && 1.0 <= high;
    let reaches = match ratio > 1.0 {
        true => high >= ratio && control > 1.0,
        false => low <= ratio && control < 1.0,
    };
    Some(reaches && !stood_still)
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
