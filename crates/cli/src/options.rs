//! Options that every measuring command has: where threads run, where the report goes.

use std::fmt;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, ValueHint};
use tautline_gauge::gate::Gate;
use tautline_gauge::plan::{Placement, PlacementPlan, Sched};

use crate::cli::{Cli, indented};
use crate::exit::STATUSES;
use crate::values;

/// Where threads run and how the machine is held.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Where threads run: free, same (one CPU), split (two cores that share a cache), cross (two that
    /// share none) [default: split]
    #[arg(long, value_name = "SHAPE", value_parser = values::placement, help_heading = PLACE)]
    pub(crate) placement: Option<Placement>,

    /// CPUs to use, such as 2,3 or 2-3: the client's, then the server's [default: by --placement]
    #[arg(long, value_name = "LIST", value_parser = values::cpus, help_heading = PLACE)]
    pub(crate) cpu: Option<::std::vec::Vec<usize>>,

    /// Scheduler of the measuring threads: other, idle, fifo:N or rr:N, N from 1 to 99
    /// [default: other]
    #[arg(long, value_name = "POLICY", value_parser = values::sched, help_heading = PLACE)]
    pub(crate) sched: Option<Sched>,

    /// Exit with 3 where --sched is refused, instead of measuring without and saying so
    #[arg(long, requires = "sched", help_heading = PLACE)]
    pub(crate) require_sched: bool,

    /// Keep idle CPUs from halting: hold /dev/cpu_dma_latency at 0 (usually root's)
    #[arg(long, help_heading = PLACE)]
    pub(crate) stay_awake: bool,

    /// Keep each CPU in use busy with a thread of the idle class: awake without privilege
    #[arg(long, help_heading = PLACE)]
    pub(crate) keep_cpus_busy: bool,
}

impl Place {
    /// The part of a plan that it is.
    pub(crate) fn plan(&self) -> PlacementPlan {
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

/// Where the report goes, and what is made of it.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Write the whole report as one JSON document; - is standard output, then text goes to standard
    /// error
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUT)]
    pub(crate) json: Option<PathBuf>,

    /// Exit with 1 if a row meets this: 'p99.9 > 200us or lost > 0'. Conditions are joined by and, or;
    /// the figures stand below; transport, payload, strategy and driver choose rows: 'transport == uds
    /// and p99 > 90us'. Repeatable
    #[arg(long, value_name = "CONDITION", help_heading = OUT)]
    pub(crate) fail_if: Vec<Gate>,

    /// Print how many seconds the run may take on a quiet machine, and measure nothing
    #[arg(long, help_heading = OUT)]
    pub(crate) print_duration: bool,

    /// Write a folder of evidence: report, tables, histograms, the machine, checksums; DIR must be new or
    /// empty
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = OUT)]
    pub(crate) out: Option<PathBuf>,

    /// Pack that folder, too: DIR.tar.gz and DIR.tar.gz.sha256
    #[arg(long, requires = "out", help_heading = OUT)]
    pub(crate) archive: bool,

    /// What this machine is called where results of many are kept, for the folder's manifest
    #[arg(long, value_name = "NAME", value_parser = values::name, requires = "out", help_heading = OUT)]
    pub(crate) platform: Option<String>,

    /// What this run is called where results of many are kept, for the folder's manifest [default: the
    /// first set of GITHUB_RUN_ID, CI_JOB_ID, BUILDKITE_BUILD_ID, CIRCLE_WORKFLOW_ID, BUILD_TAG]
    #[arg(long, value_name = "ID", value_parser = values::name, requires = "out", help_heading = OUT)]
    pub(crate) run_id: Option<String>,

    /// A name for the run, kept in the report
    #[arg(long, value_name = "TEXT", value_parser = values::text, help_heading = OUT)]
    pub(crate) label: Option<String>,
}

/// A command line that reads well and cannot be followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) message: String,
}

impl Usage {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
        }
    }

    /// Says it as clap says its own for this command, and ends the program.
    pub(crate) fn exit<T>(self, command: &str) -> T {
        let mut cli = Cli::command();
        cli.build();
        let command = cli
            .find_subcommand_mut(command)
            .expect("it is one of our commands");
        command
            .error(ErrorKind::ValueValidation, self.message)
            .exit()
    }
}

/// What stands below the options of a measuring command.
pub(crate) fn after_help(example: &str) -> String {
    format!(
        "Figures for --fail-if:\n{}\nExit status:\n{}\nExample:\n  {example}",
        indented(&Gate::figures()),
        indented(STATUSES)
    )
}

pub(crate) const PLACE: &str = "Placement";
pub(crate) const OUT: &str = "Output";
