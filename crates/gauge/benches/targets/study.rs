//! Targets that are no ratio of two sides in rounds: each has a way of its own of coming to its
//! figures, and all are told alike.

mod allocation;
mod child;
mod cost;
mod crowd;
mod instrument;
mod ping;
mod spin;

use std::fmt;

use serde::Serialize;
use tautline_gauge::statistics::{Random, median, median_interval};

use super::list::{Limit, Target};
use super::options::Options;
use super::rows::{Verdict, short};
use super::site::Watchdog;
pub(crate) use child::run_if_child;

/// A few figures of one thing.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) target: Target,
    /// What was looked at.
    pub(crate) what: String,
    pub(crate) figures: Vec<Figure>,
    pub(crate) note: Option<String>,
}

/// One of them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// Absent when it could not be had; the finding's note says why.
    pub(crate) value: Option<f64>,
    /// 95 %, where there are rounds.
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// `-` where nothing is required.
    pub(crate) limit: String,
    pub(crate) verdict: Verdict,
}

impl Figure {
    /// Of which nothing is required.
    pub(crate) fn reported(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            value: Some(value),
            low: None,
            high: None,
            limit: Limit::Reported.to_string(),
            verdict: Verdict::Reported,
        }
    }

    /// The median of one value a round, and whether all of its interval is within the limit.
    pub(crate) fn judged(
        name: &'static str,
        mut rounds: Vec<f64>,
        unit: &'static str,
        limit: Limit,
        seed: u64,
    ) -> Result<Self, String> {
        let interval = median_interval(&rounds, &mut Random::seeded(seed));
        let interval = interval.map(|interval| (interval.low, interval.high));
        Ok(Self {
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            limit: limit.to_string(),
            verdict: limit.judge(rounds.len(), interval),
            ..Self::reported(name, median(&mut rounds).ok_or("no rounds")?, unit)
        })
    }

    /// One that is counted, not sampled: it is its own interval.
    pub(crate) fn counted(name: &'static str, value: f64, unit: &'static str, most: f64) -> Self {
        Self {
            limit: format!("<= {}", shown(most)),
            verdict: if value <= most {
                Verdict::Met
            } else {
                Verdict::Missed
            },
            ..Self::reported(name, value, unit)
        }
    }

    /// One that could not be had.
    pub(crate) fn missing(name: &'static str, unit: &'static str, most: f64) -> Self {
        Self {
            value: None,
            verdict: Verdict::Undecided,
            ..Self::counted(name, f64::INFINITY, unit, most)
        }
    }
}

impl Finding {
    pub(crate) fn new(target: Target, what: impl Into<String>, figures: Vec<Figure>) -> Self {
        Self {
            target,
            what: what.into(),
            figures,
            note: None,
        }
    }

    pub(crate) fn noted(mut self, note: impl Into<Option<String>>) -> Self {
        self.note = note.into();
        self
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.map_or_else(|| "-".to_owned(), shown);
        write!(f, "{} {value}", self.name)?;
        if !self.unit.is_empty() {
            write!(f, " {}", self.unit)?;
        }
        if let (Some(low), Some(high)) = (self.low, self.high) {
            write!(f, " [{}, {}]", shown(low), shown(high))?;
        }
        if self.verdict != Verdict::Reported {
            write!(f, " ({}, {})", self.limit, self.verdict)?;
        }
        Ok(())
    }
}

/// A count of nothing is no decimal, and a share of a call has more of them than a ratio.
fn shown(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value < 0.1 => format!("{value:.2e}"),
        _ => short(value),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures: Vec<String> = self.figures.iter().map(Figure::to_string).collect();
        write!(
            f,
            "{:4} {:22} {}",
            self.target,
            self.what,
            figures.join(", ")
        )?;
        let note = self.note.as_ref();
        note.map_or(Ok(()), |note| write!(f, "\n     {note}"))
    }
}

/// What a target without rounds comes to: each part, or why there is none. `None` for the others.
pub(crate) fn of(
    target: Target,
    options: &Options,
    watchdog: &Watchdog,
) -> Option<Vec<Result<Finding, String>>> {
    let study: fn(&Options, &Watchdog) -> Vec<Result<Finding, String>> = match target {
        Target::T11 => allocation::study,
        Target::T12 => crowd::study,
        Target::T13 => ping::study,
        Target::T14 => instrument::study,
        Target::Cost => cost::study,
        Target::Spin => spin::study,
        Target::T1
        | Target::T2
        | Target::T3
        | Target::T4
        | Target::T5
        | Target::T6
        | Target::T7
        | Target::T8
        | Target::T9
        | Target::T10
        | Target::T15
        | Target::P1
        | Target::P2 => return None,
    };
    Some(study(options, watchdog))
}
