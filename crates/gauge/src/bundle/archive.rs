//! `NAME.tar.gz` beside the folder, and its checksum: one file to hand on.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::manifest::{MANIFEST, SUMS, hex};
use super::{Manifest, OpenError, WriteError, create, fill};

/// An archive that is to be written: its files are opened before the run.
#[derive(Debug)]
pub struct Archive {
    folder: PathBuf,
    archive: (PathBuf, File),
    checksum: (PathBuf, File),
}

impl Archive {
    /// Opens `NAME.tar.gz` and `NAME.tar.gz.sha256` beside the folder NAME.
    ///
    /// # Errors
    ///
    /// One is there already, or cannot be made.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let open = |path: PathBuf| match create(&path) {
            Ok(file) => Ok((path, file)),
            Err(cause) => Err(OpenError::Refused { path, cause }),
        };
        // Of `.` and `..` only the system knows the name.
        let folder = fs::canonicalize(folder).map_err(|cause| OpenError::Refused {
            path: folder.to_owned(),
            cause,
        })?;
        let archive = open(with_ending(&folder, ".tar.gz"))?;
        let checksum = open(with_ending(&folder, ".tar.gz.sha256")).inspect_err(|_| {
            let _ = fs::remove_file(&archive.0);
        })?;
        Ok(Self {
            folder,
            archive,
            checksum,
        })
    }

    /// Packs the folder's bundle.
    ///
    /// # Errors
    ///
    /// The file that could not be written; what there is of the archive is removed.
    pub fn write(self, manifest: &Manifest) -> Result<PathBuf, WriteError> {
        let (path, file) = self.archive;
        let (sum_path, sum_file) = self.checksum;
        let packed = pack(&self.folder, manifest, file)
            .map_err(|cause| (path.clone(), cause))
            .and_then(|digest| {
                let line = format!("{digest}  {}\n", name(&path));
                fill(sum_file, line.as_bytes()).map_err(|cause| (sum_path.clone(), cause))
            });
        match packed {
            Ok(()) => Ok(path),
            Err((failed, cause)) => {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_file(&sum_path);
                Err(WriteError {
                    path: failed,
                    cause,
                })
            }
        }
    }

    /// Takes the files away again, where there is nothing to put into them.
    pub fn abandon(self) {
        let _ = fs::remove_file(self.archive.0);
        let _ = fs::remove_file(self.checksum.0);
    }
}

/// The folder's files in the order of the manifest, under the folder's name.
fn pack(folder: &Path, manifest: &Manifest, to: File) -> io::Result<String> {
    let to = Summed {
        to: BufWriter::new(to),
        sum: Sha256::new(),
    };
    let mut packed = tar::Builder::new(GzEncoder::new(to, Compression::default()));
    packed.mode(tar::HeaderMode::Deterministic);
    let within = PathBuf::from(name(folder));
    let listed = manifest.files.iter().map(|file| file.path.as_str());
    for file in listed.chain([SUMS, MANIFEST]) {
        packed.append_path_with_name(folder.join(file), within.join(file))?;
    }
    let summed = packed.into_inner()?.finish()?;
    let file = summed
        .to
        .into_inner()
        .map_err(|failed| failed.into_error())?;
    file.sync_all()?;
    Ok(hex(&summed.sum.finalize()))
}

/// Sums what goes by.
#[derive(Debug)]
struct Summed {
    to: BufWriter<File>,
    sum: Sha256,
}

impl io::Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut whole = OsString::from(path);
    whole.push(ending);
    PathBuf::from(whole)
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
