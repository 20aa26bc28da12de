//! The options of `tautline bench`, and the plan that they make.
//!
//! An option that is not given stays as the plan has it; a test holds the defaults in the help against
//! those of the plan.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Subcommand, ValueHint};
use tautline::{Address, Strategy};
use tautline_gauge::gate::{Gate, Tables};
use tautline_gauge::plan::{
    Driver, LatencyPlan, OnRefused, Placement, PlacementPlan, Plan, Sched, StrategyPlan, Transport,
};

use crate::cli::{Cli, indented};
use crate::exit::STATUSES;
use crate::outputs::CsvTable;
use crate::values;

/// Measure on loopback, in one process: the latency and the strategy table, each beside raw sockets
///
/// Round trips and one-way streams over TCP, UDP and Unix sockets, through the library and through raw
/// sockets doing the same in the same rounds. Nothing else is needed: no server, no peer, no privilege.
/// Without `latency` or `strategy` it makes both tables.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "One table alone",
    subcommand_value_name = "TABLE",
    after_help = after_help("tautline bench --quick")
)]
pub(crate) struct BenchCommand {
    #[command(subcommand)]
    table: Option<Table>,
    #[command(flatten)]
    matrix: Matrix,
    #[command(flatten)]
    latency: LatencyOptions,
    #[command(flatten)]
    strategy: StrategyOptions,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Table {
    Latency(Box<LatencyCommand>),
    Strategy(Box<StrategyCommand>),
}

/// Round trips: percentiles, and each driver of the library beside raw blocking sockets
#[derive(Debug, Args)]
#[command(after_help = after_help("tautline bench latency --transports uds --sizes 64,16Ki"))]
struct LatencyCommand {
    #[command(flatten)]
    matrix: Matrix,
    #[command(flatten)]
    latency: LatencyOptions,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

/// One-way streams: what each send strategy accepts, delivers and drops, beside a raw writer
#[derive(Debug, Args)]
#[command(after_help = after_help("tautline bench strategy --strategies keeplatest -t 1"))]
struct StrategyCommand {
    #[command(flatten)]
    matrix: Matrix,
    #[command(flatten)]
    strategy: StrategyOptions,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

/// What is measured, in every table.
#[derive(Debug, Args)]
struct Matrix {
    /// A page in about 25 s on any machine: sizes 64 and 16Ki, one run. Other options still count
    #[arg(long)]
    quick: bool,

    /// Transports: tcp, udp, uds [default: tcp,udp,uds]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::transport)]
    transports: Option<Vec<Transport>>,

    /// Payloads in bytes, 16 to 1048572; Ki and Mi are binary, M decimal
    /// [default: 64,256,1Ki,4Ki,16Ki,64Ki; with --quick 64,16Ki]
    #[arg(
        long,
        visible_alias = "size",
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::size
    )]
    sizes: Option<Vec<usize>>,

    /// Runs, each with fresh endpoints [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = values::times)]
    repeats: Option<usize>,

    /// Where to listen, with its scheme: tcp://127.0.0.1:7000, udp://[::1]:7000, uds:///run/x.sock.
    /// One a transport [default: a free loopback port; a socket in a fresh temporary folder]
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<Address>,

    /// Seed of the random order of rounds [default: a new one each time; the report has it]
    #[arg(long, value_name = "N", value_parser = values::count)]
    seed: Option<u64>,
}

/// Options of the latency table.
#[derive(Debug, Args)]
struct LatencyOptions {
    /// Drivers of the library: direct, callback, handoff, spin. The first table shows handoff,
    /// or the first of the list without it
    /// [default: direct,callback,handoff,spin]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::driver,
        help_heading = LATENCY
    )]
    drivers: Option<Vec<Driver>>,

    /// Timed echoes of one driver in one run; k and M are decimal [default: 10000]
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        value_parser = values::count,
        help_heading = LATENCY
    )]
    iterations: Option<u64>,

    /// Echoes before the first round of a run; a tenth as many before each later one
    /// [default: 1000; with --quick 200]
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = LATENCY)]
    warmup: Option<u64>,

    /// Rounds in a run: short blocks with the control and every driver once, in random order. From 6
    /// on ratios have an interval [default: 15; with --quick 10]
    #[arg(long, value_name = "N", value_parser = values::times, help_heading = LATENCY)]
    rounds: Option<usize>,

    /// How long the spin driver polls before it sleeps, with its unit [default: 50us]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = LATENCY)]
    spin: Option<Duration>,
}

/// Options of the strategy table.
#[derive(Debug, Args)]
struct StrategyOptions {
    /// Send strategies: reliable, besteffort, keeplatest [default: reliable,besteffort,keeplatest]
    #[arg(
        long,
        visible_alias = "strategy",
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = values::strategy,
        help_heading = STRATEGY
    )]
    strategies: Option<Vec<Strategy>>,

    /// How long the producer sends in each run; a bare number is seconds
    /// [default: 3s; with --quick 250ms]
    #[arg(
        long,
        short = 't',
        value_name = "TIME",
        value_parser = values::seconds,
        help_heading = STRATEGY
    )]
    duration: Option<Duration>,

    /// What the producer does after a refusal: yield, spin, sleep:50us [default: yield]
    #[arg(long, value_name = "WAY", value_parser = values::on_refused, help_heading = STRATEGY)]
    on_refused: Option<OnRefused>,
}

/// Where threads run and how the machine is held.
#[derive(Debug, Args)]
struct Place {
    /// Where threads run: free, same (one CPU), split (two cores that share a cache), cross (two that
    /// share none) [default: split]
    #[arg(long, value_name = "SHAPE", value_parser = values::placement, help_heading = PLACE)]
    placement: Option<Placement>,

    /// CPUs to use, such as 2,3 or 2-3: the client's, then the server's [default: by --placement]
    #[arg(long, value_name = "LIST", value_parser = values::cpus, help_heading = PLACE)]
    cpu: Option<::std::vec::Vec<usize>>,

    /// Scheduler of the measuring threads: other, idle, fifo:N or rr:N, N from 1 to 99
    /// [default: other]
    #[arg(long, value_name = "POLICY", value_parser = values::sched, help_heading = PLACE)]
    sched: Option<Sched>,

    /// Exit with 3 where --sched is refused, instead of measuring without and saying so
    #[arg(long, requires = "sched", help_heading = PLACE)]
    require_sched: bool,

    /// Keep idle CPUs from halting: hold /dev/cpu_dma_latency at 0 (usually root's)
    #[arg(long, help_heading = PLACE)]
    stay_awake: bool,

    /// Keep each CPU in use busy with a thread of the idle class: awake without privilege
    #[arg(long, help_heading = PLACE)]
    keep_cpus_busy: bool,
}

/// Where the report goes, and what is made of it.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Write the whole report as one JSON document; - is standard output, then text goes to standard
    /// error
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUT)]
    pub(crate) json: Option<PathBuf>,

    /// Write the table as CSV, a row for each run; with `latency` or `strategy`, one file being one
    /// table; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUT)]
    csv: Option<PathBuf>,

    /// Exit with 1 if a row meets this: 'p99.9 > 200us or lost > 0'. Conditions are joined by and, or;
    /// the figures stand below; transport, payload, strategy and driver choose rows: 'transport == uds
    /// and p99 > 90us'. Repeatable
    #[arg(long, value_name = "CONDITION", help_heading = OUT)]
    pub(crate) fail_if: Vec<Gate>,

    /// Print how many seconds the run takes at most, and measure nothing
    #[arg(long, help_heading = OUT)]
    pub(crate) print_duration: bool,

    /// A name for the run, kept in the report
    #[arg(long, value_name = "TEXT", help_heading = OUT)]
    pub(crate) label: Option<String>,
}

/// A command line that reads well and cannot be followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    message: String,
}

impl BenchCommand {
    /// The outputs, from where they were given: each table is a command of its own.
    pub(crate) fn output(&self) -> &Output {
        match &self.table {
            None => &self.output,
            Some(Table::Latency(command)) => &command.output,
            Some(Table::Strategy(command)) => &command.output,
        }
    }

    fn matrix(&self) -> &Matrix {
        match &self.table {
            None => &self.matrix,
            Some(Table::Latency(command)) => &command.matrix,
            Some(Table::Strategy(command)) => &command.matrix,
        }
    }

    fn place(&self) -> &Place {
        match &self.table {
            None => &self.place,
            Some(Table::Latency(command)) => &command.place,
            Some(Table::Strategy(command)) => &command.place,
        }
    }

    /// The CSV file with its table.
    pub(crate) fn csv(&self) -> Option<(CsvTable, &Path)> {
        let table = match &self.table {
            None => return None,
            Some(Table::Latency(_)) => CsvTable::Latency,
            Some(Table::Strategy(_)) => CsvTable::Strategy,
        };
        Some((table, self.output().csv.as_deref()?))
    }

    /// What is to be measured.
    ///
    /// # Errors
    ///
    /// Names the first option that cannot be followed.
    pub(crate) fn plan(&self) -> Result<Plan, Usage> {
        let matrix = self.matrix();
        let seed = matrix.seed.unwrap_or_else(new_seed);
        let mut plan = if matrix.quick {
            Plan::quick(seed)
        } else {
            Plan::full(seed)
        };
        let (latency, strategy) = match &self.table {
            None => (Some(&self.latency), Some(&self.strategy)),
            Some(Table::Latency(command)) => (Some(&command.latency), None),
            Some(Table::Strategy(command)) => (None, Some(&command.strategy)),
        };
        plan.latency = latency.and_then(|options| Some(options.applied(plan.latency?, matrix)));
        plan.strategy = strategy.and_then(|options| Some(options.applied(plan.strategy?, matrix)));
        plan.placement = self.place().plan();
        plan.bind.clone_from(&matrix.bind);
        let plan = plan.checked().map_err(Usage::new)?;
        self.check(&plan)?;
        Ok(plan)
    }

    /// What the plan does not know about.
    fn check(&self, plan: &Plan) -> Result<(), Usage> {
        let output = self.output();
        let made = Tables {
            latency: plan.latency.is_some(),
            strategy: plan.strategy.is_some(),
        };
        for gate in &output.fail_if {
            gate.check(made)
                .map_err(|error| Usage::new(format!("--fail-if '{gate}': {error}")))?;
        }
        if self.table.is_none() && output.csv.is_some() {
            return Err(Usage::new(
                "--csv: one file holds one table, say 'bench latency' or 'bench strategy'",
            ));
        }
        if output.json.is_some() && output.json == output.csv {
            return Err(Usage::new(
                "--json and --csv: each needs an output of its own",
            ));
        }
        let matrix = self.matrix();
        let transports = matrix.transports.as_deref().unwrap_or(&Transport::ALL);
        for address in &matrix.bind {
            if !transports
                .iter()
                .any(|transport| transport.token() == address.scheme())
            {
                return Err(Usage::new(format!(
                    "--bind {address}: {} is not among the transports that are measured",
                    address.scheme()
                )));
            }
        }
        Ok(())
    }
}

impl Place {
    fn plan(&self) -> PlacementPlan {
        let default = PlacementPlan::default();
        PlacementPlan {
            placement: self.placement.unwrap_or(default.placement),
            cpus: self.cpu.clone().unwrap_or(default.cpus),
            sched: self.sched.unwrap_or(default.sched),
            require_sched: self.require_sched,
            stay_awake: self.stay_awake,
            keep_cpus_busy: self.keep_cpus_busy,
        }
    }
}

impl LatencyOptions {
    fn applied(&self, plan: LatencyPlan, matrix: &Matrix) -> LatencyPlan {
        LatencyPlan {
            transports: matrix.transports.clone().unwrap_or(plan.transports),
            sizes: matrix.sizes.clone().unwrap_or(plan.sizes),
            drivers: self.drivers.clone().unwrap_or(plan.drivers),
            runs: matrix.repeats.unwrap_or(plan.runs),
            rounds: self.rounds.unwrap_or(plan.rounds),
            iterations: self.iterations.unwrap_or(plan.iterations),
            warmup: self.warmup.unwrap_or(plan.warmup),
            spin: self.spin.unwrap_or(plan.spin),
            budget: plan.budget,
        }
    }
}

impl StrategyOptions {
    fn applied(&self, plan: StrategyPlan, matrix: &Matrix) -> StrategyPlan {
        StrategyPlan {
            transports: matrix.transports.clone().unwrap_or(plan.transports),
            strategies: self.strategies.clone().unwrap_or(plan.strategies),
            sizes: matrix.sizes.clone().unwrap_or(plan.sizes),
            runs: matrix.repeats.unwrap_or(plan.runs),
            duration: self.duration.unwrap_or(plan.duration),
            on_refused: self.on_refused.unwrap_or(plan.on_refused),
            budget: plan.budget,
        }
    }
}

impl Usage {
    fn new(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
        }
    }

    /// Says it as clap says its own, and ends the program.
    pub(crate) fn exit<T>(self) -> T {
        let mut command = Cli::command();
        command.build();
        let bench = command
            .find_subcommand_mut("bench")
            .expect("it is one of our commands");
        bench.error(ErrorKind::ValueValidation, self.message).exit()
    }
}

/// 32 bits are seeds enough, and a number that every reader of JSON keeps whole.
fn new_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 32
}

fn after_help(example: &str) -> String {
    format!(
        "Figures for --fail-if:\n{}\nExit status:\n{}\nExample:\n  {example}",
        indented(&Gate::figures()),
        indented(STATUSES)
    )
}

const LATENCY: &str = "Latency table";
const STRATEGY: &str = "Strategy table";
const PLACE: &str = "Placement";
const OUT: &str = "Output";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Command;

    fn parsed(words: &[&str]) -> Result<BenchCommand, clap::Error> {
        let words = ["tautline", "bench"].iter().chain(words);
        match Cli::try_parse_from(words)?.command {
            Some(Command::Bench(command)) => Ok(*command),
            None => unreachable!("bench was given"),
        }
    }

    fn plan(words: &[&str]) -> Plan {
        parsed(words).unwrap().plan().unwrap()
    }

    fn usage(words: &[&str]) -> String {
        match parsed(words) {
            Ok(command) => command.plan().unwrap_err().message,
            Err(error) => error.to_string().lines().next().unwrap().to_owned(),
        }
    }

    /// Every default that the help states, typed out, with `--quick` its second half.
    fn stated_defaults(quick: bool) -> Vec<String> {
        let mut command = Cli::command();
        command.build();
        let bench = command.find_subcommand("bench").unwrap();
        let mut words = Vec::new();
        for option in bench.get_arguments() {
            let help = option.get_help().unwrap().to_string();
            let Some((_, stated)) = help.split_once("[default: ") else {
                continue;
            };
            let stated = stated.trim_end_matches(']');
            let (full, with_quick) = stated
                .split_once("; with --quick ")
                .unwrap_or((stated, stated));
            let value = if quick { with_quick } else { full };
            // A sentence is no value: where to listen, the seed, the CPUs.
            if !value.contains(' ') {
                words.push(format!("--{}={value}", option.get_long().unwrap()));
            }
        }
        words
    }

    #[test]
    fn the_defaults_in_the_help_are_those_of_the_plan() {
        let full = stated_defaults(false);
        assert_eq!(full.len(), 13, "{full:?}");
        let words: Vec<&str> = ["--seed=1"]
            .into_iter()
            .chain(full.iter().map(String::as_str))
            .collect();
        assert_eq!(
            format!("{:?}", plan(&words)),
            format!("{:?}", Plan::full(1))
        );

        let quick = stated_defaults(true);
        let words: Vec<&str> = ["--quick", "--seed=1"]
            .into_iter()
            .chain(quick.iter().map(String::as_str))
            .collect();
        assert_eq!(
            format!("{:?}", plan(&words)),
            format!("{:?}", Plan::quick(1))
        );
    }

    #[test]
    fn without_options_the_plan_is_the_full_one() {
        assert_eq!(
            format!("{:?}", plan(&["--seed", "9"])),
            format!("{:?}", Plan::full(9))
        );
    }

    #[test]
    fn each_table_can_be_made_alone() {
        let latency = plan(&["latency", "-n", "10k", "--size", "64"]);
        assert!(latency.strategy.is_none());
        let latency = latency.latency.unwrap();
        assert_eq!((latency.iterations, latency.sizes), (10_000, vec![64]));
        let strategy = plan(&["strategy", "-t", "1", "--strategy", "keeplatest"]);
        assert!(strategy.latency.is_none());
        let strategy = strategy.strategy.unwrap();
        assert_eq!(strategy.duration, Duration::from_secs(1));
        assert_eq!(strategy.strategies, [Strategy::KeepLatest]);
    }

    #[test]
    fn every_option_arrives_in_the_plan() {
        let plan = plan(&[
            "--transports=uds,tcp",
            "--sizes=32,1Ki",
            "--repeats=2",
            "--rounds=7",
            "--iterations=70",
            "--warmup=5",
            "--drivers=spin,direct",
            "--spin=20us",
            "--strategies=besteffort",
            "--duration=200ms",
            "--on-refused=sleep:50us",
            "--placement=same",
            "--cpu=1",
            "--sched=fifo:10",
            "--require-sched",
            "--stay-awake",
            "--keep-cpus-busy",
            "--bind=tcp://127.0.0.1:7000",
            "--bind=uds://@gauge",
            "--seed=3",
        ]);
        let latency = plan.latency.unwrap();
        assert_eq!(latency.transports, [Transport::Uds, Transport::Tcp]);
        assert_eq!(latency.sizes, [32, 1_024]);
        assert_eq!((latency.runs, latency.rounds), (2, 7));
        assert_eq!((latency.iterations, latency.warmup), (70, 5));
        assert_eq!(latency.drivers, [Driver::Spin, Driver::Direct]);
        assert_eq!(latency.spin, Duration::from_micros(20));
        let strategy = plan.strategy.unwrap();
        assert_eq!(strategy.transports, [Transport::Uds, Transport::Tcp]);
        assert_eq!(strategy.sizes, [32, 1_024]);
        assert_eq!(
            (strategy.runs, strategy.duration),
            (2, Duration::from_millis(200))
        );
        assert_eq!(strategy.strategies, [Strategy::BestEffort]);
        assert_eq!(
            strategy.on_refused,
            OnRefused::Sleep(Duration::from_micros(50))
        );
        assert_eq!(
            plan.placement,
            PlacementPlan {
                placement: Placement::Same,
                cpus: vec![1],
                sched: Sched::Fifo(10),
                require_sched: true,
                stay_awake: true,
                keep_cpus_busy: true,
            }
        );
        assert_eq!(plan.bind.len(), 2);
        assert_eq!(plan.seed, 3);
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_name() {
        assert_eq!(
            usage(&["--sizes", "0"]),
            "--sizes: 0 is not within 16 to 1048572"
        );
        assert_eq!(
            usage(&["--repeats", "0"]),
            "--repeats: 0 is not within 1 to 1000"
        );
        assert_eq!(
            usage(&["-t", "0"]),
            "--duration: more than 0, at most 1 day"
        );
        assert_eq!(
            usage(&["--csv", "x"]),
            "--csv: one file holds one table, say 'bench latency' or 'bench strategy'"
        );
        assert_eq!(
            usage(&["latency", "--csv", "-", "--json", "-"]),
            "--json and --csv: each needs an output of its own"
        );
        assert_eq!(
            usage(&["--transports", "tcp", "--bind", "uds://@x"]),
            "--bind uds://@x: uds is not among the transports that are measured"
        );
        assert_eq!(
            usage(&["latency", "--fail-if", "delivery < 100"]),
            "--fail-if 'delivery < 100': delivery stands in the strategy table, which this command \
             does not make"
        );
    }

    #[test]
    fn an_option_of_the_other_table_is_refused() {
        assert_eq!(
            usage(&["latency", "--strategies", "reliable"]),
            "error: unexpected argument '--strategies' found"
        );
        assert_eq!(
            usage(&["strategy", "--rounds", "3"]),
            "error: unexpected argument '--rounds' found"
        );
    }

    #[test]
    fn the_help_of_every_table() {
        let mut command = Cli::command();
        command.build();
        let bench = command.find_subcommand_mut("bench").unwrap();
        let help = |command: &mut clap::Command| {
            command
                .clone()
                .term_width(100)
                .render_long_help()
                .to_string()
        };
        insta::assert_snapshot!("bench", help(bench));
        insta::assert_snapshot!(
            "latency",
            help(bench.find_subcommand_mut("latency").unwrap())
        );
        insta::assert_snapshot!(
            "strategy",
            help(bench.find_subcommand_mut("strategy").unwrap())
        );
    }
}
