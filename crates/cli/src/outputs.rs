//! Where a report goes: the terminal, `--json`, `--csv`, `--out`. Opened before the run, so that an hour of
//! measuring does not end at a folder that is not there.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use tautline_gauge::compare::{self, Comparison};
use tautline_gauge::report::{Report, export, text};

use crate::bundle::Evidence;
use crate::exit::{Exit, Failure};
use crate::options;

/// Which table a CSV file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CsvTable {
    Latency,
    Strategy,
    UdpSmoke,
}

/// Every output of one run, open.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<Output>,
    csv: Option<(CsvTable, Output)>,
    evidence: Option<Evidence>,
}

/// One place to write to, open.
#[derive(Debug)]
pub(crate) enum Output {
    Stdout,
    File { name: String, file: File },
}

impl Outputs {
    /// Opens what was asked for. A file that exists keeps its contents until the report is written.
    pub(crate) fn open(
        output: &options::Output,
        command: &str,
        csv: Option<(CsvTable, &Path)>,
    ) -> Result<Self, Failure> {
        let json = output.json.as_deref();
        Ok(Self {
            json: json.map(|path| Output::open("--json", path)).transpose()?,
            csv: csv
                .map(|(table, path)| Ok((table, Output::open("--csv", path)?)))
                .transpose()?,
            evidence: Evidence::open(output, command)?,
        })
    }

    /// Whether standard output is one of them, and no place for a page.
    pub(crate) fn stdout_is_taken(&self) -> bool {
        matches!(self.json, Some(Output::Stdout)) || matches!(self.csv, Some((_, Output::Stdout)))
    }

    /// Writes the report and its usual page.
    pub(crate) fn write(self, report: &Report) -> Result<(), Failure> {
        let page = match worth_a_page(report) {
            true => text::render(report),
            false => String::new(),
        };
        self.write_page(report, &page)
    }

    /// Writes files first and standard output last: a reader that has gone away costs nothing but
    /// itself. Tries all of them; says every failure but the first, and
    /// returns that. An empty page is none.
    pub(crate) fn write_page(self, report: &Report, page: &str) -> Result<(), Failure> {
        let stdout_is_taken = self.stdout_is_taken();
        let mut writes: Vec<(Output, Vec<u8>)> = Vec::new();
        if let Some(json) = self.json {
            writes.push((json, rendered(|to| export::json(report, to))?));
        }
        if let Some((table, csv)) = self.csv {
            let bytes = match table {
                CsvTable::Latency => rendered(|to| export::latency_csv(report, to))?,
                CsvTable::Strategy => rendered(|to| export::strategy_csv(report, to))?,
                CsvTable::UdpSmoke => rendered(|to| export::smoke_csv(report, to))?,
            };
            writes.push((csv, bytes));
        }
        if !page.is_empty() {
            let page = page.as_bytes().to_vec();
            if stdout_is_taken {
                // Nobody waits for this copy: what reads our output reads the other one.
                let _ = io::stderr().lock().write_all(&page);
            } else {
                writes.push((Output::Stdout, page));
            }
        }
        writes.sort_by_key(|(output, _)| matches!(output, Output::Stdout));
        let mut first = self
            .evidence
            .map_or(Ok(()), |evidence| evidence.write(report));
        for (output, bytes) in writes {
            let written = output.write(&bytes);
            if first.is_ok() {
                first = written;
            } else if let Err(failure) = written {
                failure.report();
            }
        }
        first
    }
}

/// Where a comparison goes.
#[derive(Debug)]
pub(crate) struct ComparisonOutputs {
    json: Option<Output>,
}

impl ComparisonOutputs {
    /// Opens what was asked for.
    pub(crate) fn open(json: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self {
            json: json.map(|path| Output::open("--json", path)).transpose()?,
        })
    }

    /// Writes the document and the page; where the document takes standard output, the page goes to
    /// standard error.
    pub(crate) fn write(self, comparison: &Comparison, page: &str) -> Result<(), Failure> {
        let Some(json) = self.json else {
            return print(page.as_bytes()).map(|_| ());
        };
        let document = rendered(|to| compare::json(comparison, to))?;
        if matches!(json, Output::Stdout) {
            let _ = io::stderr().lock().write_all(page.as_bytes());
            return json.write(&document);
        }
        let written = json.write(&document);
        let printed = print(page.as_bytes()).map(|_| ());
        written.and(printed)
    }
}

impl Output {
    /// Opens it; `-` is standard output.
    pub(crate) fn open(option: &str, path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let name = format!("{option} {}", path.display());
        match OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
        {
            Ok(file) => Ok(Self::File { name, file }),
            Err(error) => Err(Failure::new(
                Exit::Unavailable,
                format!("open {name}: {error}"),
            )),
        }
    }

    /// Writes all of it.
    pub(crate) fn write(self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout => print(bytes).map(|_| ()),
            Self::File { name, mut file } => {
                overwrite(&mut file, bytes).map_err(|error| Failure::of_output(&name, &error))
            }
        }
    }
}

/// A run that failed before its first figure has nothing for a page: its reason has been said.
fn worth_a_page(report: &Report) -> bool {
    report.error.is_none()
        || !report.latency.is_empty()
        || !report.strategy.is_empty()
        || !report.cells.is_empty()
        || !report.udp_smoke.is_empty()
        || !report.stream.is_empty()
}

/// A regular file is cut to what is written now; a pipe or a device has nothing to cut.
fn overwrite(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(bytes)?;
    file.flush()
}

/// Writes to standard output.
pub(crate) fn print(bytes: &[u8]) -> Result<Exit, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Exit::Good),
        Err(error) => Err(Failure::of_output("standard output", &error)),
    }
}

fn rendered(render: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    render(&mut bytes).map_err(|error| Failure::of_output("the report", &error))?;
    Ok(bytes)
}

/// A write beyond the limit of a file's size (`ulimit -f`) fails like one to a full disk, with a sentence and
/// a status, where the signal that comes with it would end the program without either.
///
/// A handler, which programs that this one starts do not inherit, and not SIG_IGN, which they would.
pub(crate) fn survive_file_limits() {
    // Where it is refused the signal ends us, as it would have.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}
