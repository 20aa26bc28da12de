//! Gates: `--fail-if 'p99.9 > 200us or lost > 0'` over a finished report.
//!
//! A gate is judged on every row that it concerns, and one row that meets it fails it. What was not
//! measured never passes: a percentile with too few samples, or a gate that no row answers, leaves the
//! gate undecided, which is no success either.

mod factor;
mod figure;
mod parse;

use std::fmt;

use serde::{Deserialize, Serialize};

use self::factor::Factor;
use self::figure::{Figure, Labels, Row};
use crate::compare::Comparison as Compared;
use crate::report::Report;

/// One parsed `--fail-if`: alternatives (`or`) of conditions that hold together (`and`).
#[derive(Debug, Clone)]
pub struct Gate {
    text: String,
    conditions: Conditions,
}

/// A gate is on one run or on two.
#[derive(Debug, Clone)]
enum Conditions {
    /// Figures of a report against bounds: `p99 > 200us`.
    Figures(Vec<Alternative<Comparison>>),
    /// Figures of one side against the other's: `p99 > 1.10x`.
    Factors(Vec<Alternative<Factor>>),
}

/// Conditions joined by `and`, all met by the same row.
#[derive(Debug, Clone)]
struct Alternative<C> {
    /// Which rows: `transport == tcp and payload <= 1Ki`.
    selectors: Vec<Selector>,
    /// What to find in them.
    comparisons: Vec<C>,
}

#[derive(Debug, Clone)]
enum Selector {
    Word {
        key: Key,
        equal: bool,
        value: String,
    },
    Payload {
        operator: Operator,
        bytes: u64,
    },
}

/// What names a row by a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Transport,
    Strategy,
    Driver,
    Load,
}

#[derive(Debug, Clone)]
struct Comparison {
    text: String,
    figure: &'static Figure,
    operator: Operator,
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    Unequal,
}

/// Which tables a run makes, so that a gate on another is refused before the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tables {
    /// `latency` is made.
    pub latency: bool,
    /// `strategy` is made.
    pub strategy: bool,
    /// The cells of a ping are made.
    pub ping: bool,
    /// `wakeup` is made.
    pub wakeup: bool,
    /// `soak` is made.
    pub soak: bool,
    /// The rows of a stream to a server are made.
    pub stream: bool,
}

impl Tables {
    /// The names of those that are set.
    fn names(self) -> Vec<&'static str> {
        let all = [
            (self.latency, "latency"),
            (self.strategy, "strategy"),
            (self.ping, "ping"),
            (self.wakeup, "wakeup"),
            (self.soak, "soak"),
            (self.stream, "stream"),
        ];
        all.into_iter()
            .filter(|(set, _)| *set)
            .map(|(_, name)| name)
            .collect()
    }

    /// Those that both have.
    fn common(self, other: Self) -> Self {
        Self {
            latency: self.latency && other.latency,
            strategy: self.strategy && other.strategy,
            ping: self.ping && other.ping,
            wakeup: self.wakeup && other.wakeup,
            soak: self.soak && other.soak,
            stream: self.stream && other.stream,
        }
    }
}

/// What became of one gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The gate as it was typed.
    pub expression: String,
    /// Whether it held.
    pub outcome: Outcome,
    /// The rows that failed it, or why it could not be decided; in table order.
    pub findings: Vec<String>,
}

/// The outcomes of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// No row met the condition, and every row could be judged.
    Passed,
    /// At least one row met the condition.
    Failed,
    /// No row met it, but not every row could be judged.
    Undecided,
}

/// Why a text is no gate, or none for this run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GateError(String);

impl Gate {
    /// The figures it knows, by table, for a help text.
    #[must_use]
    pub fn figures() -> String {
        figure::by_table()
    }

    /// Refuses a gate that the tables of this run cannot answer.
    ///
    /// # Errors
    ///
    /// Names the first figure that none of the tables has.
    pub fn check(&self, made: Tables) -> Result<(), GateError> {
        let alternatives = match &self.conditions {
            Conditions::Figures(alternatives) => alternatives,
            Conditions::Factors(_) => return Err(GateError(NEEDS_TWO.to_owned())),
        };
        for alternative in alternatives {
            let needed = alternative.tables();
            if !needed.common(made).names().is_empty() {
                continue;
            }
            let figures: Vec<&str> = alternative
                .comparisons
                .iter()
                .map(|comparison| comparison.figure.name)
                .collect();
            let table = needed.names().join(" or ");
            return Err(GateError(format!(
                "{} stands in the {table} table, which this command does not make",
                figures.join(" and ")
            )));
        }
        Ok(())
    }

    /// What the report says about this gate.
    #[must_use]
    pub fn judge(&self, report: &Report) -> Verdict {
        let mut failed = Vec::new();
        let mut undecided = Vec::new();
        match &self.conditions {
            Conditions::Figures(alternatives) => {
                for alternative in alternatives {
                    alternative.judge(report, &mut failed, &mut undecided);
                }
            }
            Conditions::Factors(_) => undecided.push(NEEDS_TWO.to_owned()),
        }
        self.verdict(failed, undecided)
    }

    /// Refuses a gate that two runs beside each other cannot answer.
    ///
    /// # Errors
    ///
    /// When its bounds are no factors.
    pub fn check_factors(&self) -> Result<(), GateError> {
        match self.conditions {
            Conditions::Factors(_) => Ok(()),
            Conditions::Figures(_) => Err(GateError(NEEDS_FACTORS.to_owned())),
        }
    }

    /// What a comparison says about this gate.
    #[must_use]
    pub fn judge_factors(&self, compared: &Compared) -> Verdict {
        let mut failed = Vec::new();
        let mut undecided = Vec::new();
        match &self.conditions {
            Conditions::Figures(_) => undecided.push(NEEDS_FACTORS.to_owned()),
            Conditions::Factors(alternatives) => {
                for alternative in alternatives {
                    alternative.judge_factors(compared, &mut failed, &mut undecided);
                }
            }
        }
        self.verdict(failed, undecided)
    }

    fn verdict(&self, failed: Vec<String>, undecided: Vec<String>) -> Verdict {
        let (outcome, findings) = if !failed.is_empty() {
            (Outcome::Failed, failed)
        } else if !undecided.is_empty() {
            (Outcome::Undecided, undecided)
        } else {
            (Outcome::Passed, Vec::new())
        };
        Verdict {
            expression: self.text.clone(),
            outcome,
            findings,
        }
    }
}

impl Alternative<Comparison> {
    fn tables(&self) -> Tables {
        let mut tables = Tables {
            latency: true,
            strategy: true,
            ping: true,
            wakeup: true,
            soak: true,
            stream: true,
        };
        for comparison in &self.comparisons {
            tables.latency &= comparison.figure.latency.is_some();
            tables.strategy &= comparison.figure.strategy.is_some();
            tables.ping &= comparison.figure.ping.is_some();
            tables.wakeup &= comparison.figure.wakeup.is_some();
            tables.soak &= comparison.figure.soak.is_some();
            tables.stream &= comparison.figure.streamed.is_some();
        }
        for selector in &self.selectors {
            tables.wakeup = false;
            match selector {
                Selector::Word { key, .. } => {
                    tables.latency &= !matches!(key, Key::Strategy | Key::Load);
                    tables.strategy &= !matches!(key, Key::Driver | Key::Load);
                    tables.ping &= *key == Key::Transport;
                    tables.soak &= *key == Key::Load;
                    tables.stream &= !matches!(key, Key::Driver | Key::Load);
                }
                Selector::Payload { .. } => tables.soak = false,
            }
        }
        tables
    }

    fn judge(&self, report: &Report, failed: &mut Vec<String>, undecided: &mut Vec<String>) {
        let tables = self.tables();
        // Without a word about drivers the rows are those of the latency table.
        let each_driver = self.selectors.iter().any(|selector| {
            matches!(
                selector,
                Selector::Word {
                    key: Key::Driver,
                    ..
                }
            )
        });
        let latency = report.latency.iter().filter(|_| tables.latency);
        let strategy = report.strategy.iter().filter(|_| tables.strategy);
        let ping = report.cells.iter().filter(|_| tables.ping);
        let phases = report.soak.iter().flat_map(|soak| &soak.rounds);
        let rows: Vec<Row<'_>> = latency
            .flat_map(|row| {
                if each_driver {
                    Row::drivers(row)
                } else {
                    vec![Row::shown(row)]
                }
            })
            .chain(strategy.map(Row::Stream))
            .chain(ping.map(Row::Ping))
            .chain(
                report
                    .wakeup
                    .iter()
                    .filter(|_| tables.wakeup)
                    .map(Row::Timer),
            )
            .chain(phases.filter(|_| tables.soak).map(Row::Soak))
            .chain(
                report
                    .stream
                    .iter()
                    .filter(|_| tables.stream)
                    .map(Row::Streamed),
            )
            .filter(|row| {
                self.selectors
                    .iter()
                    .all(|selector| selector.takes(&row.labels()))
            })
            .collect();
        if rows.is_empty() {
            undecided.push(format!(
                "{}: no row was measured that it concerns",
                self.text()
            ));
        }
        for row in &rows {
            self.judge_row(row, failed, undecided);
        }
    }

    /// In three values: what is not known cannot make a conjunction true, but a false part settles it.
    fn judge_row(&self, row: &Row<'_>, failed: &mut Vec<String>, undecided: &mut Vec<String>) {
        let mut met = Vec::new();
        let mut unknown = Vec::new();
        for comparison in &self.comparisons {
            let figure = comparison.figure;
            match figure.of(row) {
                Ok(value) if comparison.operator.holds(value, comparison.bound) => {
                    met.push(format!("{} is {}", figure.name, figure.unit.show(value)));
                }
                Ok(_) => return,
                Err(why) => unknown.push(format!("{}: {} {why}", row, figure.name)),
            }
        }
        if unknown.is_empty() {
            failed.push(format!("{row}: {}", met.join(", ")));
        } else {
            undecided.append(&mut unknown);
        }
    }

    fn text(&self) -> String {
        let texts: Vec<&str> = self
            .comparisons
            .iter()
            .map(|comparison| comparison.text.as_str())
            .collect();
        texts.join(" and ")
    }
}

impl Selector {
    fn takes(&self, row: &Labels<'_>) -> bool {
        match self {
            Self::Word { key, equal, value } => {
                let word = match key {
                    Key::Transport => row.transport,
                    Key::Strategy => row.strategy,
                    Key::Driver => row.driver,
                    Key::Load => row.load,
                };
                (word == Some(value.as_str())) == *equal
            }
            Self::Payload { operator, bytes } => {
                operator.holds(row.payload_bytes as f64, *bytes as f64)
            }
        }
    }
}

impl Operator {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Equal => value == bound,
            Self::Unequal => value != bound,
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "==",
            Self::Unequal => "!=",
        })
    }
}

const NEEDS_TWO: &str = "a factor such as 1.10x is of two runs: it is for compare and bench --ab";
const NEEDS_FACTORS: &str = "two runs are held against each other by a factor such as 1.10x";

#[cfg(test)]
mod tests;
