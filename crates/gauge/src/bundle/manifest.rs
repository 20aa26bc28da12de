//! `manifest.json` and `SHA256SUMS`: which files a bundle has, and what is in each.
//!
//! The manifest lists every file but itself and `SHA256SUMS`; `SHA256SUMS` lists every file but itself, in
//! the form that `sha256sum -c` takes. Each so vouches for the other: a change to either shows.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Build, Origin, WriteError, create, fill};
use crate::report::{Report, utc};

/// The schema that a manifest follows, as its first field says.
pub const MANIFEST_SCHEMA: &str = "tautline.manifest/1";
/// Its name in the folder.
pub(super) const MANIFEST: &str = "manifest.json";
/// The name of the list for `sha256sum -c`.
pub(super) const SUMS: &str = "SHA256SUMS";

/// What a bundle is, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`MANIFEST_SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of the program that wrote it.
    pub version: String,
    /// The commit that the program was built from; `unknown` where there was none.
    pub commit: String,
    /// When it was written, in UTC.
    pub written_at: String,
    /// The run it comes from.
    pub run: RunRecord,
    /// Every file but this one and `SHA256SUMS`.
    pub files: Vec<FileRecord>,
}

/// The run that a bundle comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// `bench`, `ping`, …
    pub command: String,
    /// The command as it was typed.
    pub command_line: Vec<String>,
    /// When it began, in UTC.
    pub started_at: String,
    /// Whether it came to its end.
    pub status: Status,
    /// The user's own name for the run.
    pub label: Option<String>,
    /// What the machine is called where results of many are kept.
    pub platform: Option<String>,
    /// Names the run where many are kept.
    pub run_id: Option<String>,
    /// Names the boot that it was measured in.
    pub boot_id: Option<String>,
}

/// Whether a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did.
    Complete,
    /// A signal ended it: what stands here is partial.
    Interrupted,
    /// Something else did; the report says what.
    Error,
}

impl Status {
    /// The word for it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }

    /// Of the run that a report is of.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        match (report.interrupted, &report.error) {
            (true, _) => Self::Interrupted,
            (false, Some(_)) => Self::Error,
            (false, None) => Self::Complete,
        }
    }
}

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its name in the folder; a bundle has no folders in it.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
}

impl FileRecord {
    pub(super) fn of(path: &str, bytes: &[u8]) -> Self {
        Self {
            path: path.to_owned(),
            bytes: bytes.len() as u64,
            sha256: hex(&Sha256::digest(bytes)),
        }
    }
}

impl Manifest {
    pub(super) fn new(
        report: &Report,
        build: &Build,
        origin: &Origin,
        files: Vec<FileRecord>,
    ) -> Self {
        Self {
            schema: MANIFEST_SCHEMA.into(),
            version: report.version.to_string(),
            commit: build.commit.clone(),
            written_at: now(),
            run: RunRecord {
                command: origin.command.clone(),
                command_line: report.command_line.clone(),
                started_at: report.started_at.clone(),
                status: Status::of(report),
                label: report.label.clone(),
                platform: origin.platform.clone(),
                run_id: origin.run_id.clone(),
                boot_id: report.boot_id.clone(),
            },
            files,
        }
    }

    /// Writes `SHA256SUMS`, then this: beside its place, to the disk, and into its place in one step.
    pub(super) fn write(&self, folder: &Path) -> Result<(), WriteError> {
        let at = |name: &str| folder.join(name);
        let failed = |name: &str| {
            let path = at(name);
            move |cause| WriteError { path, cause }
        };
        let bytes = self.to_json();
        let sums = self.sums(&bytes);
        let list = create(&at(SUMS)).map_err(failed(SUMS))?;
        fill(list, sums.as_bytes()).map_err(failed(SUMS))?;
        let beside = ".manifest.json.unfinished";
        let written = create(&at(beside))
            .and_then(|file| fill(file, &bytes))
            .and_then(|()| fs::rename(at(beside), at(MANIFEST)))
            .and_then(|()| File::open(folder)?.sync_all());
        written.map_err(failed(MANIFEST))
    }

    fn to_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("its fields are texts and numbers");
        bytes.push(b'\n');
        bytes
    }

    /// What `SHA256SUMS` says beside this manifest, whose file has these bytes.
    pub(super) fn sums(&self, bytes: &[u8]) -> String {
        let own = FileRecord::of(MANIFEST, bytes);
        let mut sums = String::new();
        for file in self.files.iter().chain([&own]) {
            let _ = writeln!(sums, "{}  {}", file.sha256, file.path);
        }
        sums
    }
}

/// The wall clock, as a label.
pub(super) fn now() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    utc::rfc3339(since_epoch.unwrap_or_default().as_secs())
}

/// As `sha256sum` prints it.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
