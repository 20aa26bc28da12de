//! `NAME.tar.gz` beside the folder, and its checksum: one file to hand on.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::manifest::{MANIFEST, SUMS, hex};
use super::{Manifest, OpenError, WriteError, create};
use crate::leftovers::Leftover;

/// An archive that is to be written: its files are opened before the run.
#[derive(Debug)]
pub struct Archive {
    folder: PathBuf,
    archive: Output,
    checksum: Output,
}

/// A file that goes again where it does not come to be written.
#[derive(Debug)]
struct Output {
    file: File,
    unwritten: Leftover,
}

impl Output {
    fn create(path: PathBuf) -> Result<Self, OpenError> {
        match create(&path) {
            Ok(file) => Ok(Self {
                file,
                unwritten: Leftover::new(path),
            }),
            Err(cause) => Err(OpenError::Refused { path, cause }),
        }
    }

    /// Writes the file, which stays if that succeeds.
    fn write<T>(self, with: impl FnOnce(&File) -> io::Result<T>) -> Result<T, WriteError> {
        let Self { file, unwritten } = self;
        let written = with(&file).and_then(|written| file.sync_all().map(|()| written));
        match written {
            Ok(written) => {
                unwritten.keep();
                Ok(written)
            }
            Err(cause) => Err(WriteError {
                path: unwritten.path().to_owned(),
                cause,
            }),
        }
    }
}

impl Archive {
    /// Opens `NAME.tar.gz` and `NAME.tar.gz.sha256` beside the folder NAME.
    ///
    /// # Errors
    ///
    /// One is there already, or cannot be made.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        // Of `.` and `..` only the system knows the name.
        let folder = fs::canonicalize(folder).map_err(|cause| OpenError::Refused {
            path: folder.to_owned(),
            cause,
        })?;
        Ok(Self {
            archive: Output::create(with_ending(&folder, ".tar.gz"))?,
            checksum: Output::create(with_ending(&folder, ".tar.gz.sha256"))?,
            folder,
        })
    }

    /// Packs the folder's bundle, and says where it is.
    ///
    /// # Errors
    ///
    /// The file that could not be written, which is removed.
    pub fn write(self, manifest: &Manifest) -> Result<PathBuf, WriteError> {
        let path = self.archive.unwritten.path().to_owned();
        let packed = self
            .archive
            .write(|file| pack(&self.folder, manifest, file));
        let line = format!("{}  {}\n", packed?, name(&path));
        self.checksum
            .write(|mut file| file.write_all(line.as_bytes()))?;
        Ok(path)
    }
}

/// The folder's files in the order of the manifest, under the folder's name.
fn pack(folder: &Path, manifest: &Manifest, to: &File) -> io::Result<String> {
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
struct Summed<'a> {
    to: BufWriter<&'a File>,
    sum: Sha256,
}

impl io::Write for Summed<'_> {
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
