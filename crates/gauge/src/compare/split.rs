//! The method against itself: runs of one and the same thing, split in two at random again and again.
//! Whatever is called different then is a false alarm of the method on this machine.

use serde::Serialize;

use super::holm::holm;
use super::rows::rows;
use super::shift::Shift;
use super::{LEAST_ROUNDS, LEVEL, Run};
use crate::statistics::Random;

/// What comparing A with itself came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FalseAlarms {
    /// Runs of A beside those that are compared with B.
    pub runs: usize,
    /// Rows that the two halves as they were measured called different.
    pub rows_called: usize,
    /// Rows judged.
    pub rows: usize,
    /// Random splits of all runs of A in two halves.
    pub splits: usize,
    /// Splits in which at least one row was called different.
    pub splits_called: usize,
    /// `splits_called` of `splits`, in percent; to be held against the level.
    pub percent: f64,
}

/// `first` are A's runs beside B, `second` those beside nothing.
#[must_use]
pub fn false_alarms(first: &[Run], second: &[Run], random: &mut Random) -> Option<FalseAlarms> {
    let (rows_called, rows) = called(
        &first.iter().collect::<Vec<_>>(),
        &second.iter().collect::<Vec<_>>(),
    )?;
    let mut all: Vec<&Run> = first.iter().chain(second).collect();
    let half = all.len() / 2;
    let mut splits_called = 0;
    for _ in 0..SPLITS {
        random.shuffle(&mut all);
        let (one, other) = all.split_at(half);
        splits_called += usize::from(called(one, other).is_some_and(|(called, _)| called > 0));
    }
    Some(FalseAlarms {
        runs: second.len(),
        rows_called,
        rows,
        splits: SPLITS,
        splits_called,
        percent: splits_called as f64 * 100.0 / SPLITS as f64,
    })
}

/// Rows called different, of how many; `None` where none could be judged.
fn called(one: &[&Run], other: &[&Run]) -> Option<(usize, usize)> {
    let [one, other] = [one, other].map(|side| rows(side.iter().map(|run| &run.report)));
    let ps: Vec<f64> = one
        .iter()
        .filter(|row| !row.names.control)
        .filter_map(|row| Some((row, other.iter().find(|of| of.names == row.names)?)))
        .filter(|(a, b)| {
            [a, b]
                .iter()
                .all(|row| row.samples.rounds().len() >= LEAST_ROUNDS && row.samples.is_positive())
        })
        .filter_map(|(a, b)| Some(Shift::between(&a.samples, &b.samples)?.p))
        .collect();
    let alarms = holm(&ps).iter().filter(|&&p| p <= LEVEL).count();
    (!ps.is_empty()).then_some((alarms, ps.len()))
}

const SPLITS: usize = 200;
