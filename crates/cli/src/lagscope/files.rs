//! The two files of a sender: every latency as CSV while it runs, and how often each came as JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use tautline_gauge::lagscope::{Tally, write_frequencies};

/// The CSV file, written as the pings come. The first failure is kept, and ends the writing.
#[derive(Debug)]
pub(super) struct Csv {
    pub(super) path: PathBuf,
    file: BufWriter<File>,
    failure: Option<io::Error>,
}

impl Csv {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut csv = Self {
            path: path.to_owned(),
            file: BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?),
            failure: None,
        };
        csv.write(format_args!("Index, Latency(us)\n"));
        Ok(csv)
    }

    /// A row: the ping's index from 0, and its latency in whole microseconds.
    pub(super) fn record(&mut self, index: u64, rtt_ns: u64) {
        self.write(format_args!("{index}, {}\n", rtt_ns / 1_000));
    }

    /// Writes what waits, and says whether all of it could be written.
    pub(super) fn finish(mut self) -> io::Result<()> {
        match self.failure.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }

    fn write(&mut self, row: std::fmt::Arguments<'_>) {
        if self.failure.is_none() {
            self.failure = self.file.write_fmt(row).err();
        }
    }
}

/// The JSON file: opened before the run, so that an hour of it does not end at a folder that is not
/// there; what it holds is kept until there is something to write.
#[derive(Debug)]
pub(super) struct Json {
    pub(super) path: PathBuf,
    file: File,
}

impl Json {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    pub(super) fn write(&self, tally: &Tally) -> io::Result<()> {
        // A pipe or a device has nothing to cut.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        write_frequencies(tally, &mut BufWriter::new(&self.file))
    }
}

/// Some thousand rows to a system call.
const BUFFER_BYTES: usize = 64 * 1024;
