//! `tautline env`: what this machine is, and what spoils measurements on it.

use clap::Args;
use tautline_gauge::bundle::Hardware;
use tautline_gauge::environment::Environment;
use tautline_gauge::evidence;
use tautline_gauge::report::text::machine;
use tautline_gauge::report::{PlacementRecord, export};

use crate::bundle::build;
use crate::course;
use crate::exit::{Exit, Failure};
use crate::outputs;

/// Print what this machine is, and what spoils measurements on it, each with a command that helps
///
/// Reads /proc and /sys, and measures for less than a second what the clock costs and what waking a CPU
/// costs. What cannot be read is unknown, never off.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tautline env")]
pub(crate) struct EnvCommand {
    /// Print it as a report without a table: one JSON document
    #[arg(long)]
    json: bool,
}

impl EnvCommand {
    /// Looks, and prints.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let environment = Environment::read();
        let (clock, evidence) = evidence::look();
        let placement = PlacementRecord {
            requested: "free".to_owned(),
            threads: Vec::new(),
            stay_awake: false,
            keep_cpus_busy: false,
            note: None,
        };
        let report = course::report(environment, evidence, clock, placement);
        let mut page = Vec::new();
        if self.json {
            export::json(&report, &mut page)
                .map_err(|error| Failure::of_output("the report", &error))?;
        } else {
            let hardware = Hardware::now(report.environment.clone(), build());
            page = machine::render(&report, &hardware).into_bytes();
        }
        outputs::print(&page)
    }
}
