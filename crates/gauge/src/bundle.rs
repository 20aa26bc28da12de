//! A folder of evidence: the report, its tables for other programs, the machine's record, and a manifest
//! with the checksum of each file.
//!
//! Everything in it but the machine's record is rendered from the one [`Report`], so [`verify`] can
//! render it again and say where a file tells another story. The manifest is written last and put in
//! its place in one step: a folder without one is unfinished, whatever else is in it.

mod archive;
mod hardware;
mod manifest;
mod meta;
mod notes;
mod pieces;
mod summary;
mod verify;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use self::archive::Archive;
pub use self::hardware::{After, Build, HARDWARE_SCHEMA, Hardware};
pub use self::manifest::{FileRecord, MANIFEST_SCHEMA, Manifest, RunRecord, Status};
use self::pieces::Contents;
pub use self::verify::{Fault, Unreadable, Verified, verify};
use crate::leftovers::Leftover;
use crate::report::Report;

/// What only the command line knows of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// `bench`, `ping`, …
    pub command: String,
    /// What the machine is called where results of many are kept.
    pub platform: Option<String>,
    /// Names the run where many are kept, as a CI does.
    pub run_id: Option<String>,
}

/// Why a folder cannot take a bundle.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is something in it already.
    #[error("{} is not empty: name a new folder, or empty this one first", .0.display())]
    NotEmpty(PathBuf),
    /// It is no folder.
    #[error("{} is a file: name a folder", .0.display())]
    NoFolder(PathBuf),
    /// It cannot be made, or nothing can be made in it.
    #[error("{}: {cause}", path.display())]
    Refused {
        /// What was to be made.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// What failed while a bundle was written. What has been written by then stays, without a manifest.
#[derive(Debug, Error)]
#[error("{}: {cause}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub cause: io::Error,
}

/// A folder that is to become a bundle: made before the run, so that no run is wasted on a folder that
/// cannot be had, and filled after it.
#[derive(Debug)]
pub struct Bundle {
    folder: PathBuf,
    /// Opened at once: whoever is second in the same folder finds it taken.
    report: File,
    /// Where nothing comes to be written, the folder is left as empty as it was found.
    unwritten: Leftover,
}

impl Bundle {
    /// Makes the folder, with those above it, or takes an empty one.
    ///
    /// # Errors
    ///
    /// There is something in it, or it cannot be made.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let refused = |path: &Path, cause| OpenError::Refused {
            path: path.to_owned(),
            cause,
        };
        if folder.exists() && !folder.is_dir() {
            return Err(OpenError::NoFolder(folder.to_owned()));
        }
        fs::create_dir_all(folder).map_err(|cause| refused(folder, cause))?;
        let mut entries = fs::read_dir(folder).map_err(|cause| refused(folder, cause))?;
        if entries.next().is_some() {
            return Err(OpenError::NotEmpty(folder.to_owned()));
        }
        let path = folder.join(pieces::REPORT);
        let report = create(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => OpenError::NotEmpty(folder.to_owned()),
            _ => refused(&path, cause),
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            report,
            unwritten: Leftover::new(path),
        })
    }

    /// Writes everything, the manifest last.
    ///
    /// # Errors
    ///
    /// The first file that could not be written; then there is no manifest.
    pub fn write(
        self,
        report: &Report,
        hardware: &Hardware,
        origin: &Origin,
    ) -> Result<Manifest, WriteError> {
        let contents = Contents {
            report,
            hardware,
            origin,
        };
        self.unwritten.keep();
        let mut opened = Some(self.report);
        let mut files = Vec::new();
        for piece in pieces::of(report) {
            let path = self.folder.join(piece.name);
            let failed = |cause| WriteError {
                path: path.clone(),
                cause,
            };
            let mut bytes = Vec::new();
            piece.write(&contents, &mut bytes).map_err(failed)?;
            let file = match piece.name {
                pieces::REPORT => opened.take().map_or_else(|| create(&path), Ok),
                _ => create(&path),
            };
            fill(file.map_err(failed)?, &bytes).map_err(failed)?;
            files.push(FileRecord::of(piece.name, &bytes));
        }
        let manifest = Manifest::new(report, &hardware.build, origin, files);
        manifest.write(&self.folder)?;
        Ok(manifest)
    }
}

/// Creates a file that must not be there yet.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// To the disk: a bundle that has its manifest has all of its files, even after the power went.
fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
