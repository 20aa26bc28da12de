//! `tautline verify`: whether folders of evidence are what their runs wrote.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use tautline_gauge::bundle::{self, Verified};

use crate::exit::{Exit, Failure, say};
use crate::outputs;

/// Check folders of evidence: files missing, added, changed or cut short, and every table against the
/// histograms in the report
///
/// Prints one line for each thing that is wrong, and a closing line for each folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status:
  0  every folder is as its run wrote it
  1  something is wrong
  2  usage
  3  not available: no such folder, an empty one, or one without a manifest

Example:
  tautline bench --quick --out evidence && tautline verify evidence")]
pub(crate) struct VerifyCommand {
    /// Folders that --out has written
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::DirPath)]
    folders: Vec<PathBuf>,
}

impl VerifyCommand {
    /// Checks all of them, whatever is wrong with the first.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let mut exit = Exit::Good;
        let mut page = String::new();
        for folder in &self.folders {
            match bundle::verify(folder) {
                Ok(verified) => {
                    let name = folder.display().to_string();
                    page.push_str(&lines(&name, &verified));
                    if !verified.faults.is_empty() && exit == Exit::Good {
                        exit = Exit::CheckFailed;
                    }
                }
                Err(why) => {
                    say(format_args!("tautline: {why}"));
                    exit = Exit::Unavailable;
                }
            }
        }
        outputs::print(page.as_bytes())?;
        Ok(exit)
    }
}

fn lines(folder: &str, verified: &Verified) -> String {
    let mut lines = String::new();
    for fault in &verified.faults {
        let _ = writeln!(lines, "{folder}: {fault}");
    }
    let Verified { files, figures, .. } = verified;
    let run = verified.manifest.as_ref().map(|manifest| &manifest.run);
    match (run, verified.faults.len()) {
        (Some(run), 0) => {
            let (command, started_at) = (&run.command, &run.started_at);
            let status = run.status.token();
            let _ = writeln!(
                lines,
                "{folder}: ok: {files} files, {figures} figures as their histograms have them; \
                 {command} of {started_at}, {status}"
            );
        }
        (_, faults) => {
            let faults = match faults {
                1 => "1 fault".to_owned(),
                faults => format!("{faults} faults"),
            };
            let _ = writeln!(
                lines,
                "{folder}: NOT ok: {faults}, {files} files as they were"
            );
        }
    }
    lines
}
