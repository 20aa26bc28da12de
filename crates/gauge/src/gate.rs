//! Gates: `--fail-if 'p99.9 > 200us or lost > 0'` over a finished report.
//!
//! A gate is judged on every row that it concerns, and one row that meets it fails it. What was not
//! measured never passes: a percentile with too few samples, or a gate that no row answers, leaves the
//! gate undecided, which is no success either.

mod figure;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use self::figure::{Figure, Row};
use crate::quantity;
use crate::report::Report;

/// One parsed `--fail-if`: alternatives (`or`) of conditions that hold together (`and`).
#[derive(Debug, Clone)]
pub struct Gate {
    text: String,
    alternatives: Vec<Alternative>,
}

/// Conditions joined by `and`, all met by the same row.
#[derive(Debug, Clone)]
struct Alternative {
    /// Which rows: `transport == tcp and payload <= 1Ki`.
    selectors: Vec<Selector>,
    /// What to find in them.
    comparisons: Vec<Comparison>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tables {
    /// `latency` is made.
    pub latency: bool,
    /// `strategy` is made.
    pub strategy: bool,
}

/// What became of one gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The gate as it was typed.
    pub expression: String,
    /// Whether it held.
    pub outcome: Outcome,
    /// The rows that failed it, or why it could not be decided; in table order.
    pub findings: Vec<String>,
}

/// The outcomes of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
    /// Refuses a gate that the tables of this run cannot answer.
    ///
    /// # Errors
    ///
    /// Names the first figure that none of the tables has.
    pub fn check(&self, made: Tables) -> Result<(), GateError> {
        for alternative in &self.alternatives {
            let needed = alternative.tables();
            if needed.latency && made.latency || needed.strategy && made.strategy {
                continue;
            }
            let figures: Vec<&str> = alternative
                .comparisons
                .iter()
                .map(|comparison| comparison.figure.name)
                .collect();
            let table = if needed.latency {
                "latency"
            } else {
                "strategy"
            };
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
        for alternative in &self.alternatives {
            alternative.judge(report, &mut failed, &mut undecided);
        }
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

impl Alternative {
    fn tables(&self) -> Tables {
        let mut tables = Tables {
            latency: true,
            strategy: true,
        };
        for comparison in &self.comparisons {
            tables.latency &= comparison.figure.latency.is_some();
            tables.strategy &= comparison.figure.strategy.is_some();
        }
        for selector in &self.selectors {
            if let Selector::Word { key, .. } = selector {
                tables.latency &= *key != Key::Strategy;
                tables.strategy &= *key != Key::Driver;
            }
        }
        tables
    }

    fn judge(&self, report: &Report, failed: &mut Vec<String>, undecided: &mut Vec<String>) {
        let tables = self.tables();
        // Without a word about drivers the rows are those of the latency table: the handoff's.
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
        let rows: Vec<Row<'_>> = latency
            .flat_map(|row| {
                if each_driver {
                    Row::drivers(row)
                } else {
                    vec![Row::handoff(row)]
                }
            })
            .chain(strategy.map(Row::Stream))
            .filter(|row| self.selectors.iter().all(|selector| selector.takes(row)))
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
    fn takes(&self, row: &Row<'_>) -> bool {
        match self {
            Self::Word { key, equal, value } => {
                let word = match key {
                    Key::Transport => Some(row.transport()),
                    Key::Strategy => row.strategy(),
                    Key::Driver => row.driver(),
                };
                (word == Some(value.as_str())) == *equal
            }
            Self::Payload { operator, bytes } => {
                operator.holds(row.payload_bytes() as f64, *bytes as f64)
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

impl FromStr for Gate {
    type Err = GateError;

    /// `FIGURE OP VALUE [and|or …]`, `and` binding closer. Also `transport`, `strategy`, `driver` and
    /// `payload` to choose rows.
    fn from_str(text: &str) -> Result<Self, GateError> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
        };
        let mut alternatives = vec![parser.alternative()?];
        while parser.take_word("or") {
            alternatives.push(parser.alternative()?);
        }
        match parser.next() {
            None => Ok(Self {
                text: text.trim().to_owned(),
                alternatives,
            }),
            Some(token) => Err(GateError(format!(
                "expected 'and' or 'or' before '{token}'"
            ))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Operator(Operator),
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn alternative(&mut self) -> Result<Alternative, GateError> {
        let mut alternative = Alternative {
            selectors: Vec::new(),
            comparisons: Vec::new(),
        };
        loop {
            self.condition(&mut alternative)?;
            if !self.take_word("and") {
                break;
            }
        }
        if alternative.comparisons.is_empty() {
            return Err(GateError(
                "it chooses rows and compares no figure of them".to_owned(),
            ));
        }
        let tables = alternative.tables();
        if !tables.latency && !tables.strategy {
            return Err(GateError(format!(
                "'{}': no row has all of it, 'and' joins figures of one table",
                alternative.text()
            )));
        }
        Ok(alternative)
    }

    fn condition(&mut self, alternative: &mut Alternative) -> Result<(), GateError> {
        let name = self.word("a figure")?;
        let operator = match self.next() {
            Some(Token::Operator(operator)) => operator,
            other => {
                let found =
                    other.map_or_else(|| "its end".to_owned(), |token| format!("'{token}'"));
                return Err(GateError(format!(
                    "expected > >= < <= == or != after '{name}', found {found}"
                )));
            }
        };
        let value = self.value()?;
        let key = match name.as_str() {
            "transport" => Key::Transport,
            "strategy" => Key::Strategy,
            "driver" => Key::Driver,
            "payload" => {
                let bytes = quantity::size(&value)
                    .map_err(|error| GateError(format!("payload {operator} {value}: {error}")))?;
                alternative
                    .selectors
                    .push(Selector::Payload { operator, bytes });
                return Ok(());
            }
            _ => {
                let comparison = comparison(&name, operator, &value)?;
                alternative.comparisons.push(comparison);
                return Ok(());
            }
        };
        let equal = match operator {
            Operator::Equal => true,
            Operator::Unequal => false,
            _ => return Err(GateError(format!("{name} takes == and != only"))),
        };
        alternative
            .selectors
            .push(Selector::Word { key, equal, value });
        Ok(())
    }

    /// The value, joined with a unit that stands apart: `200 us`.
    fn value(&mut self) -> Result<String, GateError> {
        let mut value = self.word("a value")?;
        let bare = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if bare
            && let Some(Token::Word(unit)) = self.tokens.get(self.at)
            && unit != "and"
            && unit != "or"
        {
            value.push_str(unit);
            self.at += 1;
        }
        Ok(value)
    }

    fn word(&mut self, expected: &str) -> Result<String, GateError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            Some(token) => Err(GateError(format!("expected {expected}, found '{token}'"))),
            None => Err(GateError(format!("expected {expected}, found its end"))),
        }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let there = matches!(self.tokens.get(self.at), Some(Token::Word(found)) if found == word);
        self.at += usize::from(there);
        there
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }
}

fn comparison(name: &str, operator: Operator, value: &str) -> Result<Comparison, GateError> {
    let figure = Figure::named(name).ok_or_else(|| {
        GateError(format!(
            "'{name}' is no figure; there are {}",
            Figure::names().join(", ")
        ))
    })?;
    let text = format!("{name} {operator} {value}");
    let bound = figure
        .unit
        .read(value)
        .map_err(|why| GateError(format!("'{text}': {why}")))?;
    Ok(Comparison {
        text,
        figure,
        operator,
        bound,
    })
}

fn tokens(text: &str) -> Result<Vec<Token>, GateError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_operator(first) {
            let length = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
            tokens.push(Token::Operator(operator(&rest[..length])?));
            length
        } else {
            let end = |c: char| c.is_whitespace() || is_operator(c);
            let length = rest.find(end).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn is_operator(c: char) -> bool {
    matches!(c, '<' | '>' | '=' | '!')
}

fn operator(text: &str) -> Result<Operator, GateError> {
    Ok(match text {
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        "=" | "==" => Operator::Equal,
        "!=" => Operator::Unequal,
        _ => return Err(GateError(format!("'{text}' is none of > >= < <= == !="))),
    })
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

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Operator(operator) => operator.fmt(f),
        }
    }
}
