//! `tautline report`: former runs read back and shown again, as the page they printed, as Markdown or as
//! a page for a browser.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tautline_gauge::report::soak::Soak;
use tautline_gauge::report::{Report, export, html, text};

use crate::exit::{Exit, Failure};
use crate::outputs::{self, Output};

/// Show former runs again: as the page they printed, as Markdown, or as one page for a browser
///
/// Several runs of tautline soak are one table with a block for each; other runs follow each other.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    tautline report run.json --html run.html\n  \
    tautline report kernel-a.json kernel-b.json")]
pub(crate) struct ReportCommand {
    /// Reports that --json has written, or folders with a report.json
    #[arg(value_name = "RUN", required = true, value_hint = ValueHint::AnyPath)]
    runs: Vec<PathBuf>,

    /// Print as Markdown
    #[arg(long, conflicts_with = "html")]
    md: bool,

    /// Write one page for a browser, with plots and nothing from elsewhere; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
}

impl ReportCommand {
    /// Reads all of them before it shows any.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let reports: Vec<(String, Report)> = self
            .runs
            .iter()
            .map(|path| Ok((path.display().to_string(), read(path)?)))
            .collect::<Result<_, Failure>>()?;
        if let Some(path) = &self.html {
            let output = Output::open("--html", path)?;
            output.write(html::render(&reports).as_bytes())?;
            return Ok(Exit::Good);
        }
        outputs::print(page(&reports, self.md).as_bytes())
    }
}

fn page(reports: &[(String, Report)], markdown: bool) -> String {
    let soaks: Option<Vec<&Soak>> = reports
        .iter()
        .map(|(_, report)| report.soak.as_ref())
        .collect();
    match (soaks, reports) {
        // Blocks below each other compare what pages would keep apart.
        (Some(soaks), [_, _, ..]) if markdown => text::soak::markdown(&soaks),
        (Some(soaks), [_, _, ..]) => text::soak::table_and_details(&soaks),
        (_, [(_, report)]) if markdown => text::markdown(report),
        (_, [(_, report)]) => text::page(report),
        (_, several) => several
            .iter()
            .map(|(name, report)| headed(name, report, markdown))
            .collect::<Vec<String>>()
            .join("\n"),
    }
}

fn headed(name: &str, report: &Report, markdown: bool) -> String {
    if markdown {
        format!(
            "{}\n{}",
            text::markdown_heading(name),
            text::markdown(report)
        )
    } else {
        format!("{}{}", text::heading(name), text::page(report))
    }
}

/// The soak part of a report.
pub(crate) fn read_soak(path: &Path) -> Result<Soak, Failure> {
    read(path)?.soak.ok_or_else(|| {
        let name = path.display();
        let why = "it is no report of tautline soak";
        Failure::new(Exit::Unavailable, format!("{name}: {why}"))
    })
}

/// The report in this file, or in the folder of this name.
pub(crate) fn read(path: &Path) -> Result<Report, Failure> {
    let inside = path.join(IN_A_FOLDER);
    let file = if path.is_dir() { &inside } else { path };
    let name = file.display();
    let unavailable = |why: &dyn std::fmt::Display| {
        Failure::new(Exit::Unavailable, format!("read {name}: {why}"))
    };
    // A pipe that nobody writes to would be waited for without end.
    let metadata = fs::metadata(file).map_err(|error| unavailable(&error))?;
    if !metadata.is_file() {
        return Err(unavailable(&"it is no regular file"));
    }
    let mut text = String::new();
    File::open(file)
        .and_then(|opened| opened.take(MOST_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| unavailable(&error))?;
    if text.len() as u64 > MOST_BYTES {
        let mib = MOST_BYTES >> 20;
        return Err(unavailable(&format_args!(
            "it has more than {mib} MiB, which no report has"
        )));
    }
    export::read(&text).map_err(|why| Failure::new(Exit::Unavailable, format!("{name}: {why}")))
}

/// What a folder of evidence calls its report.
const IN_A_FOLDER: &str = "report.json";

/// The whole of a bench has below one; a soak with every second of a day and many senders some tens.
const MOST_BYTES: u64 = 256 << 20;
