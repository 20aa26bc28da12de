//! From the options of `tautline bench` to the plan, or to the usage error that names one of them.
//!
//! An option that is not given stays as the plan has it; a test holds the defaults in the help against
//! those of the plan.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use tautline::SerialLine;
use tautline_gauge::gate::Tables;
use tautline_gauge::plan::{LatencyPlan, Plan, SmokePlan, StrategyPlan, Transport};

use super::options::{BenchCommand, LatencyOptions, Matrix, SmokeCommand, StrategyOptions, Table};
use crate::options::Usage;

impl BenchCommand {
    /// What is to be measured.
    ///
    /// # Errors
    ///
    /// Names the first option that cannot be followed.
    pub(crate) fn plan(&self) -> Result<Plan, Usage> {
        let mut plan = match (&self.table, self.matrix()) {
            (Some(Table::UdpSmoke(command)), _) => command.plan(),
            (_, Some(matrix)) => self.matrix_plan(matrix),
            (_, None) => unreachable!("every other table has a matrix"),
        };
        plan.placement = self.place().plan();
        self.to()?.clone_into(&mut plan.to);
        follow_servers(&mut plan);
        let plan = plan.checked().map_err(Usage::new)?;
        self.check(&plan)?;
        Ok(plan)
    }

    fn matrix_plan(&self, matrix: &Matrix) -> Plan {
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
            Some(Table::UdpSmoke(_)) => (None, None),
        };
        let plug = self.plug();
        plan.latency = latency.and_then(|options| {
            let latency = plan.latency?;
            Some(match plug {
                None => options.applied(latency, matrix),
                Some(line) => options.applied_on_plug(latency, matrix, line),
            })
        });
        plan.strategy = strategy.and_then(|options| Some(options.applied(plan.strategy?, matrix)));
        plan.smoke = plan
            .smoke
            .filter(|_| self.table.is_none() && measured(matrix).contains(&Transport::Udp));
        plan.bind.clone_from(&matrix.bind);
        plan
    }

    /// What the plan does not know about.
    fn check(&self, plan: &Plan) -> Result<(), Usage> {
        let output = self.output();
        let made = Tables {
            latency: plan.latency.is_some(),
            strategy: plan.strategy.is_some(),
            ..Tables::default()
        };
        for gate in &output.fail_if {
            gate.check(made)
                .map_err(|error| Usage::new(format!("--fail-if '{gate}': {error}")))?;
        }
        if self.table.is_none() && self.rows().csv.is_some() {
            return Err(Usage::new(
                "--csv: one file holds one table, say 'bench latency', 'bench strategy' or \
                 'bench udp-smoke'",
            ));
        }
        if output.json.is_some() && output.json == self.rows().csv {
            return Err(Usage::new(
                "--json and --csv: each needs an output of its own",
            ));
        }
        let transports = self.matrix().map_or(&[Transport::Udp][..], measured);
        for address in &plan.bind {
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

/// The servers elsewhere decide the transports, in the order in which they were typed.
fn follow_servers(plan: &mut Plan) {
    if plan.to.is_empty() {
        return;
    }
    let mut transports: Vec<Transport> = Vec::new();
    for transport in plan.to.iter().filter_map(|to| to.scheme().parse().ok()) {
        // An address too many of one transport is the plan's to refuse.
        if !transports.contains(&transport) {
            transports.push(transport);
        }
    }
    if let Some(latency) = &mut plan.latency {
        latency.transports.clone_from(&transports);
    }
    if let Some(strategy) = &mut plan.strategy {
        strategy.transports = transports;
    }
}

fn measured(matrix: &Matrix) -> &[Transport] {
    matrix.transports.as_deref().unwrap_or(&Transport::DEFAULT)
}

impl SmokeCommand {
    fn plan(&self) -> Plan {
        let default = SmokePlan::default();
        Plan {
            latency: None,
            strategy: None,
            smoke: Some(SmokePlan {
                sizes: self.sizes.clone().unwrap_or(default.sizes),
                iterations: self.iterations.unwrap_or(default.iterations),
                warmup: self.warmup.unwrap_or(default.warmup),
                timeout: self.timeout.unwrap_or(default.timeout),
            }),
            bind: self.bind.clone(),
            // Nothing in it is random.
            ..Plan::full(0)
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
            plug: plan.plug,
        }
    }

    fn applied_on_plug(
        &self,
        plan: LatencyPlan,
        matrix: &Matrix,
        line: &SerialLine,
    ) -> LatencyPlan {
        let plan = self.applied(plan.on_plug(line.clone()), matrix);
        match self.iterations {
            // Asked for by number: it takes as long as it takes.
            Some(_) => plan,
            None => plan.half_a_minute_a_run(),
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

/// 32 bits are seeds enough, and a number that every reader of JSON keeps whole.
pub(super) fn new_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 32
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{CommandFactory as _, Parser as _};
    use tautline::Strategy;
    use tautline_gauge::plan::{Driver, OnRefused, Placement, PlacementPlan, Sched};

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(words: &[&str]) -> Result<BenchCommand, clap::Error> {
        let words = ["tautline", "bench"].iter().chain(words);
        match Cli::try_parse_from(words)?.command {
            Some(Command::Bench(command)) => Ok(*command),
            Some(_) | None => unreachable!("bench was given"),
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
            "--csv: one file holds one table, say 'bench latency', 'bench strategy' or \
             'bench udp-smoke'"
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
    fn servers_elsewhere_decide_the_transports() {
        let plan = plan(&[
            "latency",
            "--to",
            "uds://@x,10.0.0.5",
            "--to=udp://[fe80::1%eth0]:7000",
        ]);
        let to: Vec<String> = plan.to.iter().map(ToString::to_string).collect();
        assert_eq!(
            to,
            [
                "uds://@x",
                "tcp://10.0.0.5:6001",
                "udp://[fe80::1%eth0]:7000"
            ]
        );
        assert_eq!(
            plan.latency.unwrap().transports,
            [Transport::Uds, Transport::Tcp, Transport::Udp]
        );
    }

    #[test]
    fn servers_elsewhere_are_refused_where_they_cannot_be_had() {
        let nowhere = "--to: one table at a time is measured against a server elsewhere, say 'bench \
                       latency' or 'bench strategy'";
        assert_eq!(usage(&["--to", "10.0.0.5"]), nowhere);
        assert_eq!(usage(&["udp-smoke", "--to", "udp://10.0.0.5:1"]), nowhere);
        assert_eq!(
            usage(&["latency", "--to", "10.0.0.5", "--transports", "tcp"]),
            "error: the argument '--to <LIST>' cannot be used with '--transports <LIST>'"
        );
        assert_eq!(
            usage(&["strategy", "--to", "10.0.0.5", "--bind", "uds://@x"]),
            "error: the argument '--to <LIST>' cannot be used with '--bind <ADDRESS>'"
        );
        assert_eq!(
            usage(&["latency", "--to", "10.0.0.5,10.0.0.6"]),
            "--to: tcp://10.0.0.6:6001: one address a transport, tcp has two"
        );
        assert_eq!(
            usage(&["strategy", "--to=udp://10.0.0.5:1", "--sizes=16"]),
            "--sizes: 16: over udp to a server elsewhere a message has 32 bytes at least"
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
