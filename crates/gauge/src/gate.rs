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
mod tests {
    use super::*;
    use crate::report::sample;

    fn outcome(gate: &str) -> (Outcome, Vec<String>) {
        let verdict = gate.parse::<Gate>().unwrap().judge(&sample::report());
        (verdict.outcome, verdict.findings)
    }

    fn refusal(gate: &str) -> String {
        gate.parse::<Gate>().unwrap_err().to_string()
    }

    #[test]
    fn one_row_that_meets_the_condition_fails_the_gate() {
        assert_eq!(outcome("p99.9 > 1ms"), (Outcome::Passed, vec![]));
        assert_eq!(
            outcome("p99.9 > 600us"),
            (
                Outcome::Failed,
                vec!["tcp handoff 65536 B: p99.9 is 988.0 us".to_owned()]
            )
        );
        assert_eq!(outcome("p99.9>600us").0, Outcome::Failed);
        assert_eq!(outcome("p99.9 > 600 us or lost > 0").0, Outcome::Failed);
        assert_eq!(outcome("lost > 0"), (Outcome::Passed, vec![]));
    }

    #[test]
    fn and_asks_for_one_row_that_has_it_all() {
        // The slowest p50 and the largest maximum are the same row; 800 us and 70 us are not.
        assert_eq!(outcome("p50 > 500us and max > 1ms").0, Outcome::Failed);
        assert_eq!(outcome("p50 < 71us and max > 1ms").0, Outcome::Passed);
    }

    #[test]
    fn rows_are_chosen_by_transport_payload_strategy_and_driver() {
        assert_eq!(
            outcome("transport == uds and p50 > 300us").0,
            Outcome::Passed
        );
        assert_eq!(outcome("payload <= 1Ki and p50 > 200us").0, Outcome::Passed);
        assert_eq!(
            outcome("strategy == reliable and dropped > 0").0,
            Outcome::Passed
        );
        assert_eq!(
            outcome("strategy != reliable and dropped > 0").0,
            Outcome::Failed
        );
        assert_eq!(
            outcome("driver == direct and ratio_low > 1.05").0,
            Outcome::Passed
        );
        assert_eq!(
            outcome("driver == handoff and ratio_low > 1.05").0,
            Outcome::Failed
        );
    }

    #[test]
    fn delivery_queue_and_rates_have_their_units() {
        assert_eq!(
            outcome("strategy == besteffort and delivery < 100%").1,
            ["udp besteffort 64 B: delivery is 99.96 %"]
        );
        assert_eq!(outcome("max_queue > 1Mi").0, Outcome::Passed);
        assert_eq!(outcome("failed_sends >= 23k").0, Outcome::Failed);
        assert_eq!(
            outcome("payload == 64 and received_mib_per_s < 6.6").0,
            Outcome::Failed
        );
    }

    #[test]
    fn a_percentile_with_too_few_samples_is_undecided_not_passed() {
        let mut report = sample::report();
        report.latency.truncate(1);
        report.latency[0].summary.count = 900;
        report.latency[0].summary.p99_ns = None;
        let judge = |gate: &str| gate.parse::<Gate>().unwrap().judge(&report);
        let verdict = judge("p99 > 10s");
        assert_eq!(verdict.outcome, Outcome::Undecided);
        assert_eq!(
            verdict.findings,
            ["tcp handoff 64 B: p99 needs 1000 samples and has 900"]
        );
        // The other part settles it, one way or the other.
        assert_eq!(judge("p99 > 10s or max > 100us").outcome, Outcome::Failed);
        assert_eq!(judge("p99 > 10s and max > 10s").outcome, Outcome::Passed);
    }

    #[test]
    fn a_gate_that_no_row_answers_is_undecided() {
        assert_eq!(
            outcome("payload == 63 and p50 > 1s"),
            (
                Outcome::Undecided,
                vec!["p50 > 1s: no row was measured that it concerns".to_owned()]
            )
        );
        let mut report = sample::report();
        report.latency.clear();
        let verdict = "p50 > 1s".parse::<Gate>().unwrap().judge(&report);
        assert_eq!(verdict.outcome, Outcome::Undecided);
    }

    #[test]
    fn what_the_run_does_not_make_is_refused_before_it() {
        let latency = Tables {
            latency: true,
            ..Tables::default()
        };
        let gate = |text: &str| text.parse::<Gate>().unwrap().check(latency);
        assert_eq!(gate("p99 > 1ms"), Ok(()));
        assert_eq!(gate("lost > 0"), Ok(()));
        assert_eq!(
            gate("p99 > 1ms or delivery < 100").unwrap_err().to_string(),
            "delivery stands in the strategy table, which this command does not make"
        );
    }

    #[test]
    fn a_ping_is_judged_by_its_response_where_it_has_one() {
        let report = sample::ping_report();
        let judge = |gate: &str| gate.parse::<Gate>().unwrap().judge(&report);
        assert_eq!(judge("lost == 0 and max > 900us").outcome, Outcome::Failed);
        assert_eq!(
            judge("lost > 0").findings,
            ["udp://127.0.0.1:6001 64 B: lost is 3"]
        );
        let verdict = judge("p99.99 > 200us");
        assert_eq!(
            verdict.findings,
            ["udp://127.0.0.1:6001 64 B: p99.99 is 266.0 us"]
        );
        let verdict = judge("transport == tcp and p99.999 > 1us");
        assert_eq!(verdict.outcome, Outcome::Undecided);
        assert_eq!(
            verdict.findings,
            ["tcp://127.0.0.1:6001 64 B: p99.999 needs 1000000 samples and has 412345"]
        );
    }

    #[test]
    fn a_stream_is_judged_by_what_its_server_told() {
        let mut report = sample::stream_report();
        let judge = |report: &Report, gate: &str| gate.parse::<Gate>().unwrap().judge(report);
        assert_eq!(judge(&report, "delivered < 1").outcome, Outcome::Passed);
        assert_eq!(
            judge(&report, "strategy == keeplatest and mib_per_s < 60").findings,
            ["tcp://10.0.0.5:6001 64 B: mib_per_s is 54.93"]
        );
        assert_eq!(
            judge(&report, "queue_delay_p99 > 1ms").findings,
            ["tcp://10.0.0.5:6001 64 B: queue_delay_p99 is 4608.0 us"]
        );
        report.stream[0].lost = None;
        assert_eq!(judge(&report, "lost > 0").outcome, Outcome::Undecided);
    }

    #[test]
    fn what_is_no_gate_says_what_is_wrong() {
        assert_eq!(refusal(""), "expected a figure, found its end");
        assert_eq!(
            refusal("p99"),
            "expected > >= < <= == or != after 'p99', found its end"
        );
        assert_eq!(refusal("p99 >"), "expected a value, found its end");
        assert_eq!(
            refusal("p99 > 200"),
            "'p99 > 200': give it a unit, such as 200us or 200ms"
        );
        assert_eq!(refusal("p99 => 2us"), "'=>' is none of > >= < <= == !=");
        assert_eq!(
            refusal("p99 > 2us p50 > 1us"),
            "expected 'and' or 'or' before 'p50'"
        );
        assert_eq!(
            refusal("max_queue > 64k"),
            "'max_queue > 64k': did you mean 64Ki (65536)?"
        );
        assert_eq!(
            refusal("transport == tcp"),
            "it chooses rows and compares no figure of them"
        );
        assert_eq!(
            refusal("transport > tcp and p50 > 1s"),
            "transport takes == and != only"
        );
        assert_eq!(
            refusal("p50 > 1s and delivery < 100"),
            "'p50 > 1s and delivery < 100': no row has all of it, 'and' joins figures of one table"
        );
        assert!(
            refusal("p99.95 > 1us").starts_with("'p99.95' is no figure; there are min, mean, p50,")
        );
    }

    #[test]
    fn timers_and_soaks_have_rows_of_their_own() {
        use crate::report::soak::{Phase, Rtt, Soak};

        let phase = |load: &str, max_ns: u64| Phase {
            load: load.to_owned(),
            rtt: Rtt {
                count: 5,
                max_ns: Some(max_ns),
                ..Rtt::default()
            },
            ..Phase::default()
        };
        let mut report = sample::report();
        report.latency.clear();
        report.soak = Some(Soak {
            rounds: vec![phase("none", 1_000_000), phase("primes", 9_000_000)],
            ..Soak::default()
        });
        let judge = |gate: &str| {
            let verdict = gate.parse::<Gate>().unwrap().judge(&report);
            (verdict.outcome, verdict.findings)
        };
        assert_eq!(
            judge("load == none and max > 5ms"),
            (Outcome::Passed, vec![])
        );
        assert_eq!(
            judge("max > 5ms"),
            (
                Outcome::Failed,
                vec!["load primes #1: max is 9000.0 us".to_owned()]
            )
        );
        assert_eq!(judge("p99.999 > 1s").0, Outcome::Undecided);
        let timers = Tables {
            wakeup: true,
            ..Tables::default()
        };
        let gate: Gate = "over_20ms > 0".parse().unwrap();
        assert_eq!(
            gate.check(timers).unwrap_err().to_string(),
            "over_20ms stands in the ping or soak table, which this command does not make"
        );
    }

    #[test]
    fn a_gate_is_shown_as_it_was_typed() {
        let gate: Gate = " p99.9>200us  or lost > 0 ".parse().unwrap();
        assert_eq!(gate.to_string(), "p99.9>200us  or lost > 0");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9.<>=! ]{0,40}") {
            if let Ok(gate) = text.parse::<Gate>() {
                let _ = gate.judge(&sample::report());
            }
        }
    }
}
