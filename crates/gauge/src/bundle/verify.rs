//! Whether a bundle is what its run wrote: every file there and unchanged, nothing beside them, and every
//! table the figures of the report's own histograms.
//!
//! What is read here may be anybody's: nothing is followed out of the folder, nothing that is no regular
//! file is opened, and a file whose checksum is wrong is not read any further.

mod figures;
mod files;
mod tables;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use self::files::{Hold, entries, text_of};
use super::hardware::{HARDWARE_SCHEMA, Hardware};
use super::manifest::{MANIFEST, MANIFEST_SCHEMA, Manifest, SUMS};
use super::pieces::{HARDWARE, REPORT};
use crate::report::Report;
use crate::report::export::{self, quoted};

/// Why there is no bundle to verify.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Unreadable {
    /// There is no such folder, or it may not be read.
    #[error("{}: {cause}", .folder.display())]
    NoFolder {
        /// What was named.
        folder: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// It is empty.
    #[error("{} is empty: it holds no bundle", .0.display())]
    Empty(PathBuf),
    /// It has no manifest.
    #[error(
        "{} has no manifest.json: its run has not written it to the end, or it is no bundle of tautline",
        .0.display()
    )]
    NoManifest(PathBuf),
}

/// Something that is not as the run wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// What is wrong with it, in one sentence.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.what)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// What the bundle says it is; `None` where its manifest cannot be read.
    pub manifest: Option<Manifest>,
    /// Files that are as they were written, those two that list them included.
    pub files: usize,
    /// Figures that were computed again from histograms, and found as they stand.
    pub figures: usize,
    /// Everything that is wrong; empty is good.
    pub faults: Vec<Fault>,
}

/// Verifies a bundle.
///
/// # Errors
///
/// There is no bundle.
pub fn verify(folder: &Path) -> Result<Verified, Unreadable> {
    let found = entries(folder).map_err(|cause| Unreadable::NoFolder {
        folder: folder.to_owned(),
        cause: cause.to_string(),
    })?;
    if found.is_empty() {
        return Err(Unreadable::Empty(folder.to_owned()));
    }
    if !found.contains_key(MANIFEST) {
        return Err(Unreadable::NoManifest(folder.to_owned()));
    }
    let mut checks = Checks::new(folder, found);
    let manifest = checks.manifest();
    if let Some((manifest, bytes)) = &manifest {
        checks.list(manifest, bytes);
        checks.files(manifest);
        checks.contents(manifest);
    }
    Ok(Verified {
        manifest: manifest.map(|(manifest, _)| manifest),
        files: checks.good.len(),
        figures: checks.figures,
        faults: checks.faults,
    })
}

/// The checks by and by.
#[derive(Debug)]
struct Checks<'a> {
    folder: &'a Path,
    /// What is in the folder.
    found: BTreeMap<String, Hold>,
    /// Files that are as they were written.
    good: Vec<String>,
    figures: usize,
    faults: Vec<Fault>,
}

impl<'a> Checks<'a> {
    fn new(folder: &'a Path, found: BTreeMap<String, Hold>) -> Self {
        Self {
            folder,
            found,
            good: Vec::new(),
            figures: 0,
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, file: &str, what: impl fmt::Display) {
        self.faults.push(Fault {
            file: file.to_owned(),
            what: what.to_string(),
        });
    }

    /// The manifest, where it is one that this program reads.
    fn manifest(&mut self) -> Option<(Manifest, Vec<u8>)> {
        let read = self
            .read(MANIFEST)
            .and_then(|text| Ok((parse_manifest(&text)?, text.into_bytes())));
        match read {
            Ok(read) => {
                self.good.push(MANIFEST.to_owned());
                Some(read)
            }
            Err(why) => {
                self.fault(MANIFEST, why);
                None
            }
        }
    }

    /// `SHA256SUMS` and the manifest vouch for each other.
    fn list(&mut self, manifest: &Manifest, bytes: &[u8]) {
        if !self.found.contains_key(SUMS) {
            return self.fault(SUMS, "it is missing");
        }
        let expected = manifest.sums(bytes);
        match self.read(SUMS) {
            Ok(found) if found == expected => self.good.push(SUMS.to_owned()),
            // Whatever in the manifest was changed, its own line shows it.
            Ok(found)
                if expected
                    .lines()
                    .last()
                    .is_some_and(|own| !has_line(&found, own)) =>
            {
                self.good.retain(|file| file != MANIFEST);
                self.fault(
                    MANIFEST,
                    "it does not agree with its line in SHA256SUMS: one of the two was changed",
                );
            }
            Ok(_) => self.fault(
                SUMS,
                "changed: it is not what manifest.json says of the files",
            ),
            Err(why) => self.fault(SUMS, why),
        }
    }

    /// Every file listed is there and unchanged, once; nothing else is there.
    fn files(&mut self, manifest: &Manifest) {
        let mut listed: Vec<&str> = vec![MANIFEST, SUMS];
        for record in &manifest.files {
            if listed.contains(&record.path.as_str()) {
                self.fault(
                    MANIFEST,
                    format_args!("it lists {} twice", quoted(&record.path)),
                );
                continue;
            }
            listed.push(&record.path);
            match files::check(self.folder, &self.found, record) {
                Ok(()) => self.good.push(record.path.clone()),
                Err(why) => self.fault(&quoted(&record.path), why),
            }
        }
        let extra = self
            .found
            .keys()
            .filter(|name| !listed.contains(&name.as_str()));
        for name in extra.cloned().collect::<Vec<_>>() {
            self.fault(&quoted(&name), "it is not in the manifest: it came later");
        }
    }

    /// The report makes sense, and every other file tells its story.
    fn contents(&mut self, manifest: &Manifest) {
        let hardware = self.document(HARDWARE, parse_hardware);
        let Some(report) = self.document(REPORT, export::read) else {
            return;
        };
        self.told_alike(manifest, &report);
        match figures::check(&report) {
            Ok(figures) => self.figures += figures,
            Err(faults) => {
                for what in faults {
                    self.fault(REPORT, what);
                }
            }
        }
        self.tables(manifest, &report, hardware.as_ref());
    }

    /// A document that is unchanged, read.
    fn document<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        if !self.is_good(name) {
            // Missing from the manifest, or its own fault has been said.
            if self.faults.iter().all(|fault| fault.file != name) {
                self.fault(name, "it is missing, and the manifest does not list it");
            }
            return None;
        }
        match self.read(name).and_then(|text| parse(&text)) {
            Ok(document) => Some(document),
            Err(why) => {
                self.fault(name, why);
                None
            }
        }
    }

    /// The manifest says of the run what the report says.
    fn told_alike(&mut self, manifest: &Manifest, report: &Report) {
        let run = &manifest.run;
        let pairs = [
            (
                "status",
                run.status.token(),
                super::Status::of(report).token(),
            ),
            ("started_at", &run.started_at, &report.started_at),
            ("version", &manifest.version, &report.version),
        ];
        for (what, here, there) in pairs {
            if here != there {
                let (here, there) = (quoted(here), quoted(there));
                self.fault(
                    MANIFEST,
                    format_args!("its {what} is {here}, and that of report.json is {there}"),
                );
            }
        }
        if run.command_line != report.command_line {
            self.fault(MANIFEST, "its command line is not that of report.json");
        }
    }

    fn is_good(&self, name: &str) -> bool {
        self.good.iter().any(|good| good == name)
    }

    fn read(&self, name: &str) -> Result<String, String> {
        text_of(self.folder, &self.found, name)
    }
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|other| other == line)
}

/// The first field of every document.
#[derive(Debug, Deserialize)]
struct Head {
    schema: Option<String>,
}

fn parse_manifest(text: &str) -> Result<Manifest, String> {
    parse(text, MANIFEST_SCHEMA, "manifest")
}

fn parse_hardware(text: &str) -> Result<Hardware, String> {
    parse(text, HARDWARE_SCHEMA, "record of a machine")
}

/// The schema first: what another program or a later version wrote has other fields.
fn parse<T: for<'de> Deserialize<'de>>(text: &str, schema: &str, kind: &str) -> Result<T, String> {
    let head: Head = serde_json::from_str(text).map_err(|why| {
        if why.is_eof() {
            format!("it is cut short: {why}")
        } else if why.is_data() {
            format!("it is no {kind} of tautline: it has no schema")
        } else {
            format!("it is no JSON: {why}")
        }
    })?;
    let family = schema.trim_end_matches(|c: char| c.is_ascii_digit());
    match head.schema.as_deref() {
        Some(found) if found == schema => {}
        Some(found) if found.starts_with(family) => {
            let found = quoted(found);
            return Err(format!(
                "its schema is {found}, and this program reads {schema}: a later version wrote it"
            ));
        }
        Some(found) => {
            let found = quoted(found);
            return Err(format!(
                "it is no {kind} of tautline: its schema is {found}"
            ));
        }
        None => return Err(format!("it is no {kind} of tautline: it has no schema")),
    }
    serde_json::from_str(text).map_err(|why| format!("it makes no sense as {schema}: {why}"))
}
