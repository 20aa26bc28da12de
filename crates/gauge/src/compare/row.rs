//! One row of a comparison: its figures, and what can be said of them.

use serde::Serialize;

use super::holm::holm;
use super::interval::ratio_interval;
use super::names::Names;
use super::rows::Row;
use super::samples::{Boots, Samples};
use super::shift::Shift;
use super::tail::Tail;
use super::{LEAST_ROUNDS, LEVEL};
use crate::statistics::{Interval, Random};

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
    /// A's runs.
    pub a_runs: usize,
    /// B's runs.
    pub b_runs: usize,
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

/// Puts the rows of each pair beside each other, and judges them together.
pub(super) fn judged(pairs: &[(&Row, &Row)]) -> Vec<ComparedRow> {
    let mut compared: Vec<ComparedRow> = pairs.iter().map(|(a, b)| side_by_side(a, b)).collect();
    correct(&mut compared);
    for (row, (a, b)) in compared.iter_mut().zip(pairs) {
        judge(row, a, b);
    }
    compared
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
        a_runs: a.samples.runs().count(),
        b_runs: b.samples.runs().count(),
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
