//! What lies in the folder, and whether a file is the one that was listed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::bundle::manifest::{FileRecord, hex};

/// An entry of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// A regular file of this length.
    File(u64),
    /// A folder, a link, a pipe: nothing that a bundle has.
    Other,
}

/// Everything in the folder by name.
pub(super) fn entries(folder: &Path) -> io::Result<BTreeMap<String, Hold>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Not followed: a link leads who knows where.
        let metadata = entry.metadata()?;
        let hold = match metadata.is_file() {
            true => Hold::File(metadata.len()),
            false => Hold::Other,
        };
        found.insert(entry.file_name().to_string_lossy().into_owned(), hold);
    }
    Ok(found)
}

/// Whether a file is there and as it was listed.
pub(super) fn check(
    folder: &Path,
    found: &BTreeMap<String, Hold>,
    record: &FileRecord,
) -> Result<(), String> {
    if Path::new(&record.path).file_name() != Some(record.path.as_ref()) {
        return Err("the manifest names a file outside the folder".to_owned());
    }
    let bytes = length(found, &record.path)?;
    if bytes < record.bytes {
        return Err(format!("cut short: {bytes} bytes of {}", record.bytes));
    }
    if bytes > record.bytes {
        return Err(format!(
            "changed: {bytes} bytes instead of {}",
            record.bytes
        ));
    }
    let sum = sum(&folder.join(&record.path)).map_err(|cause| cause.to_string())?;
    if sum != record.sha256 {
        return Err("changed: its SHA-256 is not the one in the manifest".to_owned());
    }
    Ok(())
}

/// The text of a file that a program of ours may have written.
pub(super) fn text_of(
    folder: &Path,
    found: &BTreeMap<String, Hold>,
    name: &str,
) -> Result<String, String> {
    let bytes = length(found, name)?;
    if bytes > MOST_BYTES {
        return Err(format!("{bytes} bytes are more than any of ours has"));
    }
    let file = File::open(folder.join(name)).map_err(|cause| cause.to_string())?;
    let mut text = Vec::new();
    let read = file.take(MOST_BYTES).read_to_end(&mut text);
    read.map_err(|cause| cause.to_string())?;
    String::from_utf8(text).map_err(|_| "it is no text".to_owned())
}

fn length(found: &BTreeMap<String, Hold>, name: &str) -> Result<u64, String> {
    match found.get(name) {
        Some(Hold::File(bytes)) => Ok(*bytes),
        Some(Hold::Other) => Err("it is no regular file".to_owned()),
        None => Err("it is missing".to_owned()),
    }
}

fn sum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Sha256::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(&sum.finalize())),
            read => sum.update(&chunk[..read]),
        }
    }
}

/// The report of a soak of days with its seconds and histograms has some ten MiB.
const MOST_BYTES: u64 = 512 << 20;
