//! Gates on two runs: `p99 > 1.10x` is B's 99th percentile more than 1.10 times A's.
//!
//! A percentile is taken from the merged distribution of each side, a rate from the medians of rounds.
//! What the samples of either side do not support leaves the gate undecided, which is no success.

use super::figure::Labels;
use super::{Alternative, GateError, Operator};
use crate::compare::{ComparedFigure, Comparison};
use crate::ping::Point;

/// One figure of both sides, and the bound of their ratio.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    text: String,
    figure: ComparedFigure,
    operator: Operator,
    bound: f64,
}

impl Factor {
    pub(super) fn read(name: &str, operator: Operator, value: &str) -> Result<Self, GateError> {
        let text = format!("{name} {operator} {value}");
        let figure = match name {
            "mean" => ComparedFigure::Mean,
            "rate" => ComparedFigure::Rate,
            _ => match name.strip_prefix('p').map(str::parse::<Point>) {
                Some(Ok(point)) => ComparedFigure::Percentile(point),
                Some(Err(why)) => return Err(GateError(format!("'{text}': {why}"))),
                None => {
                    return Err(GateError(format!(
                        "'{name}' is no figure of two runs; there are percentiles such as p50 or \
                         p99.9, mean and rate"
                    )));
                }
            },
        };
        let bound = value
            .strip_suffix('x')
            .and_then(|factor| factor.parse::<f64>().ok())
            .filter(|factor| *factor > 0.0 && factor.is_finite())
            .ok_or_else(|| {
                GateError(format!("'{text}': expected a factor above 0 such as 1.10x"))
            })?;
        Ok(Self {
            text,
            figure,
            operator,
            bound,
        })
    }
}

impl Alternative<Factor> {
    pub(super) fn judge_factors(
        &self,
        compared: &Comparison,
        failed: &mut Vec<String>,
        undecided: &mut Vec<String>,
    ) {
        let mut concerned = false;
        for (at, row) in compared.rows.iter().enumerate() {
            let names = &row.names;
            let labels = Labels {
                transport: names.transport.as_deref(),
                strategy: names.strategy.as_deref(),
                driver: names.driver.as_deref(),
                load: names.load.as_deref(),
                payload_bytes: names.payload_bytes.unwrap_or(0),
            };
            let chosen = self
                .selectors
                .iter()
                .all(|selector| selector.takes(&labels));
            // The control speaks of the machine; it is judged where a gate asks for it by name.
            let asked_for = !names.control || self.names_a_driver();
            let has_all = self
                .comparisons
                .iter()
                .all(|factor| factor.figure.is_of(row.quantity));
            if chosen && asked_for && has_all {
                concerned = true;
                self.judge_pair(compared, at, failed, undecided);
            }
        }
        if !concerned {
            let texts: Vec<&str> = self.comparisons.iter().map(|of| of.text.as_str()).collect();
            undecided.push(format!(
                "{}: no row of both sides is concerned",
                texts.join(" and ")
            ));
        }
    }

    /// As of one run: what is not known cannot make a conjunction true, but a false part settles it.
    fn judge_pair(
        &self,
        compared: &Comparison,
        at: usize,
        failed: &mut Vec<String>,
        undecided: &mut Vec<String>,
    ) {
        let name = &compared.rows[at].name;
        let mut met = Vec::new();
        let mut unknown = Vec::new();
        for factor in &self.comparisons {
            match compared.factor(at, factor.figure) {
                Ok(ratio) if factor.operator.holds(ratio, factor.bound) => {
                    met.push(format!("{} is {ratio:.3}x", factor.figure));
                }
                Ok(_) => return,
                Err(why) => unknown.push(format!("{name}: {} {why}", factor.figure)),
            }
        }
        if unknown.is_empty() {
            failed.push(format!("{name}: {}", met.join(", ")));
        } else {
            undecided.append(&mut unknown);
        }
    }

    fn names_a_driver(&self) -> bool {
        self.selectors.iter().any(|selector| {
            matches!(
                selector,
                super::Selector::Word {
                    key: super::Key::Driver,
                    ..
                }
            )
        })
    }
}
