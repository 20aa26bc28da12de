//! `tautline compare`: two sides of evidence beside each other.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tautline_gauge::compare::{self, Comparison, Run};
use tautline_gauge::gate::{Gate, Outcome};
use tautline_gauge::report::text::comparison::{markdown, render};

use crate::exit::{Exit, Failure, say};
use crate::options::Usage;
use crate::outputs::ComparisonOutputs;
use crate::{report, started_at};

/// Say whether two runs differ, by how much, and how sure that is
///
/// A run is a report that --json has written, or a folder that --out has written. First comes what differs
/// between the two environments. Then for each row that both sides have: B's median over A's with an
/// interval from resampled rounds, the tails, and a verdict: better, worse, no difference shown, cannot
/// tell (below 8 rounds, runs or seconds a side). Verdicts are corrected for the number of rows. Between
/// boots there is a verdict only with several boots a side.
#[derive(Debug, Args)]
#[command(
    override_usage = "tautline compare [OPTIONS] A B\n       tautline compare [OPTIONS] --a RUN... --b RUN...",
    after_help = "Figures for --fail-if, B's over A's: percentiles such as p50, p99 or p99.9; mean; rate\n\n\
                  Examples:\n  tautline compare before.json after.json --fail-if 'p99 > 1.10x'\n  \
                  tautline compare --a old1 old2 old3 --b new1 new2 new3"
)]
pub(crate) struct CompareCommand {
    /// What to hold against what: one run each
    #[arg(value_names = ["A", "B"], num_args = 2, required_unless_present = "a", value_hint = ValueHint::AnyPath)]
    pair: Vec<PathBuf>,

    /// Several runs of side A
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "b", conflicts_with = "pair", value_hint = ValueHint::AnyPath)]
    a: Vec<PathBuf>,

    /// Several runs of side B
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "a", conflicts_with = "pair", value_hint = ValueHint::AnyPath)]
    b: Vec<PathBuf>,

    /// Exit with 1 if a row meets this: 'p99 > 1.10x or rate < 0.9x'. Conditions are joined by and, or;
    /// transport, payload, strategy, driver and load choose rows: 'transport == uds and p99 > 1.2x'.
    /// Repeatable
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Gate>,

    /// Write the comparison as one JSON document; - is standard output, then text goes to standard error
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// Print as Markdown
    #[arg(long)]
    md: bool,
}

impl CompareCommand {
    /// Reads all of them before it says anything of one.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        for gate in &self.fail_if {
            check(gate).unwrap_or_else(|usage| usage.exit("compare"));
        }
        let outputs = ComparisonOutputs::open(self.json.as_deref())?;
        let (a, b) = match self.pair.as_slice() {
            [a, b] => (std::slice::from_ref(a), std::slice::from_ref(b)),
            _ => (self.a.as_slice(), self.b.as_slice()),
        };
        let a = read_all(a)?;
        let b = read_all(b)?;
        let mut compared = compare::compare(&a, &b).ok_or_else(no_common_row)?;
        let gates = judged(&mut compared, &self.fail_if);
        let page = match self.md {
            true => markdown(&compared),
            false => render(&compared),
        };
        let written = outputs.write(&compared, &page).map_err(Failure::report);
        Ok(written.err().unwrap_or(gates))
    }
}

/// Refuses a gate on one run.
pub(crate) fn check(gate: &Gate) -> Result<(), Usage> {
    gate.check_factors()
        .map_err(|error| Usage::new(format_args!("--fail-if '{gate}': {error}")))
}

/// Adds who made it and what became of its gates. A gate that cannot be decided is said on standard error
/// too: a script that reads JSON shall not have to look for it.
pub(crate) fn judged(compared: &mut Comparison, gates: &[Gate]) -> Exit {
    compared.command_line = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    compared.made_at = started_at::now();
    compared.gates = gates
        .iter()
        .map(|gate| gate.judge_factors(compared))
        .collect();
    for gate in &compared.gates {
        if gate.outcome == Outcome::Undecided {
            let why = match gate.findings.as_slice() {
                [first, more @ ..] if !more.is_empty() => {
                    format!("{first}; and {} more", more.len())
                }
                findings => findings.concat(),
            };
            say(format_args!(
                "tautline: --fail-if '{}' cannot be decided: {why}",
                gate.expression
            ));
        }
    }
    let passed = |gate: &tautline_gauge::gate::Verdict| gate.outcome == Outcome::Passed;
    match compared.gates.iter().all(passed) {
        true => Exit::Good,
        false => Exit::CheckFailed,
    }
}

/// Two sides that measured different things.
pub(crate) fn no_common_row() -> Failure {
    Failure::new(
        Exit::Unavailable,
        "A and B have no row in common: they measured different transports, payloads, drivers or commands",
    )
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Run>, Failure> {
    paths.iter().map(|path| read(path)).collect()
}

/// A report, or the one in a bundle's folder.
fn read(path: &Path) -> Result<Run, Failure> {
    Ok(Run {
        name: path.display().to_string(),
        report: report::read(path)?,
    })
}
