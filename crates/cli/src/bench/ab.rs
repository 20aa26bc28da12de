//! `tautline bench --ab`: two builds or settings in blocks, each block in an order of its own, and A a
//! second time in each, which shows what the method makes of no difference at all.

use clap::Args;
use tautline_gauge::command;
use tautline_gauge::compare::{self, Run, false_alarms};
use tautline_gauge::report::export;
use tautline_gauge::report::text::comparison::render;
use tautline_gauge::run::Progress;
use tautline_gauge::statistics::Random;

use super::BenchCommand;
use super::plan::new_seed;
use crate::compare::{check, judged, no_common_row};
use crate::exit::{Exit, Failure, say};
use crate::interrupt::Interrupt;
use crate::options::Usage;
use crate::outputs::ComparisonOutputs;
use crate::progress::ProgressLine;
use crate::values;

/// Options of a comparison of two commands.
#[derive(Debug, Args)]
pub(super) struct AbOptions {
    /// Compare two builds or settings instead: two commands for sh, each of which prints one report
    /// (--json -) on standard output. Every block runs A, B and A again once, in random order; what A
    /// against itself comes to is the method's false alarms on this machine. --fail-if then takes factors:
    /// 'p99 > 1.10x'
    #[arg(
        long,
        num_args = 2,
        value_names = ["CMD_A", "CMD_B"],
        conflicts_with_all = OF_ONE_RUN,
        help_heading = AB
    )]
    pub(super) ab: Option<Vec<String>>,

    /// Blocks of --ab, from 8 on with verdicts
    #[arg(
        long,
        value_name = "N",
        default_value_t = BLOCKS,
        requires = "ab",
        // Beside one of these clap takes the requirement back: it could not be met.
        conflicts_with_all = OF_ONE_RUN,
        value_parser = values::times,
        help_heading = AB
    )]
    pub(super) blocks: usize,
}

/// The three that take turns in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    A,
    B,
    AgainstItself,
}

/// What the blocks have given so far.
#[derive(Debug, Default)]
struct Blocks {
    a: Vec<Run>,
    b: Vec<Run>,
    again: Vec<Run>,
    error: Option<String>,
}

impl BenchCommand {
    /// Runs the blocks, compares, judges.
    pub(super) fn compare_commands(&self, commands: &[String]) -> Result<Exit, Failure> {
        let blocks = self.check_ab().unwrap_or_else(|usage| usage.exit("bench"));
        let output = &self.output;
        let outputs = ComparisonOutputs::open(output.json.as_deref())?;
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::new(Exit::Unavailable, format!("catch signals: {error}")))?;
        let seed = self.matrix.seed.unwrap_or_else(new_seed);
        let mut random = Random::seeded(seed);
        say(format_args!(
            "{blocks} blocks of A, B and A again, {} runs, seed {seed}; how long they take is up to the \
             commands; Ctrl-C ends early with the blocks that are whole",
            blocks * TURNS.len()
        ));
        let run = Blocks::run(commands, blocks, &interrupt, &mut random);
        let signal = interrupt.exit();
        if let Some(error) = &run.error {
            say(format_args!("tautline: {error}"));
        }
        if run.a.is_empty() || run.b.is_empty() {
            if run.error.is_none() {
                say(format_args!(
                    "tautline: ended before the first block was whole: there is nothing to compare"
                ));
            }
            return Ok(signal.unwrap_or(Exit::Unavailable));
        }
        let mut compared = compare::compare(&run.a, &run.b).ok_or_else(no_common_row)?;
        compared.false_alarms = false_alarms(&run.a, &run.again, &mut random);
        compared.interrupted = signal.is_some();
        compared.error.clone_from(&run.error);
        let gates = judged(&mut compared, &output.fail_if);
        let written = outputs
            .write(&compared, &render(&compared))
            .map_err(Failure::report);
        let broken = run.error.map(|_| Exit::Partial);
        Ok(signal.or(broken).or_else(|| written.err()).unwrap_or(gates))
    }

    /// How many blocks.
    fn check_ab(&self) -> Result<usize, Usage> {
        self.output.fail_if.iter().try_for_each(check)?;
        match self.ab.blocks {
            0 => Err(Usage::new("--blocks: 0 is not within 1 to 1000")),
            blocks if blocks > MOST_BLOCKS => Err(Usage::new(format_args!(
                "--blocks: {blocks} is not within 1 to {MOST_BLOCKS}"
            ))),
            blocks => Ok(blocks),
        }
    }
}

impl Blocks {
    /// Until all are done, one fails or a signal comes. A block that is not whole is left out: its order
    /// would no longer be random.
    fn run(commands: &[String], blocks: usize, interrupt: &Interrupt, random: &mut Random) -> Self {
        let line = ProgressLine::new();
        let mut all = Self::default();
        'blocks: for block in 0..blocks {
            let mut order = TURNS;
            random.shuffle(&mut order);
            let mut whole = Vec::new();
            for (at, turn) in order.into_iter().enumerate() {
                let command = &commands[usize::from(turn == Turn::B)];
                line.show(Progress {
                    done: (block * TURNS.len() + at) as f64 / (blocks * TURNS.len()) as f64,
                    cell: format!("block {} of {blocks}: {}", block + 1, turn.name()),
                });
                match one(command, interrupt) {
                    Ok(Some(run)) => whole.push((turn, run)),
                    Ok(None) => break 'blocks,
                    Err(why) => {
                        let name = turn.name();
                        all.error = Some(format!("block {} of {blocks}, {name}: {why}", block + 1));
                        break 'blocks;
                    }
                }
            }
            for (turn, run) in whole {
                match turn {
                    Turn::A => all.a.push(run),
                    Turn::B => all.b.push(run),
                    Turn::AgainstItself => all.again.push(run),
                }
            }
        }
        line.clear();
        all
    }
}

/// One run of one command; `None` when a signal came.
fn one(command: &str, interrupt: &Interrupt) -> Result<Option<Run>, String> {
    let finished = command::run(command, interrupt.stop())
        .map_err(|why| format!("sh -c '{command}': {why}"))?;
    let Some(finished) = finished else {
        return Ok(None);
    };
    // 1 is a gate of the command's own, and its report is whole.
    if !matches!(finished.status, Some(0 | 1)) {
        let how = match finished.status {
            Some(status) => format!("ended with status {status}"),
            None => "was ended by a signal".to_owned(),
        };
        let words = match finished.last_words.as_str() {
            "" => String::new(),
            words => format!(": {words}"),
        };
        return Err(format!("'{command}' {how}{words}"));
    }
    let text = String::from_utf8_lossy(&finished.stdout);
    let report = export::read(&text).map_err(|why| {
        format!("what '{command}' printed is no report: {why}; it needs --json - among its options")
    })?;
    Ok(Some(Run {
        name: command.to_owned(),
        report,
    }))
}

impl Turn {
    fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::AgainstItself => "A again",
        }
    }
}

/// What says how one run of our own measures, and where it goes.
const OF_ONE_RUN: [&str; 16] = [
    "quick",
    "transports",
    "sizes",
    "repeats",
    "bind",
    "LatencyOptions",
    "StrategyOptions",
    "Place",
    "Rows",
    "print_duration",
    "label",
    "out",
    "archive",
    "platform",
    "run_id",
    "to",
];

const TURNS: [Turn; 3] = [Turn::A, Turn::B, Turn::AgainstItself];
/// As many as rounds in a run of `bench`.
const BLOCKS: usize = 15;
const MOST_BLOCKS: usize = 1_000;
const AB: &str = "Two commands";
