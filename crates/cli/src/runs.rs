//! Reports of former soak runs, and `tautline report`, which prints several of them as one table.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tautline_gauge::report::export;
use tautline_gauge::report::soak::Soak;
use tautline_gauge::report::text::soak::{details, markdown, table};

use crate::exit::{Exit, Failure};
use crate::outputs;

/// Print the reports of several `tautline soak --json` as one table, a block for each
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tautline report kernel-a.json kernel-b.json")]
pub(crate) struct ReportCommand {
    /// Reports that `tautline soak --json` has written
    #[arg(value_name = "RUN", required = true, value_hint = ValueHint::FilePath)]
    runs: Vec<PathBuf>,

    /// Print as Markdown
    #[arg(long)]
    md: bool,
}

impl ReportCommand {
    /// Reads all of them before it prints any.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let runs: Vec<Soak> = self
            .runs
            .iter()
            .map(|path| read(path))
            .collect::<Result<_, _>>()?;
        let runs: Vec<&Soak> = runs.iter().collect();
        if self.md {
            return outputs::print(markdown(&runs).as_bytes());
        }
        let mut page = table(&runs);
        for run in &runs {
            page.push_str(&format!("\n{}:\n{}", run.label, details(run)));
        }
        outputs::print(page.as_bytes())
    }
}

/// The soak part of a report.
pub(crate) fn read(path: &Path) -> Result<Soak, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Unavailable, format!("read {name}: {error}")))?;
    export::read_soak(&text)
        .map_err(|why| Failure::new(Exit::Unavailable, format!("{name}: {why}")))
}
