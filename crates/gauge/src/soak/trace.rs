//! The kernel's trace, stopped at the first ping that takes too long: what led to it is then the last
//! that it holds.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// An open trace.
#[derive(Debug)]
pub(super) struct Trace {
    over_ns: u64,
    marker: File,
    switch: File,
    stopped: bool,
}

impl Trace {
    /// Opens the marker and the switch.
    ///
    /// # Errors
    ///
    /// Where they were sought, and what the system said.
    pub(super) fn open(over_ns: u64) -> Result<Self, String> {
        let folder = folder().ok_or_else(|| {
            format!(
                "no tracefs at {}: mount -t tracefs nodev {}",
                FOLDERS.join(" or "),
                FOLDERS[0]
            )
        })?;
        let open = |name: &str| {
            let path = folder.join(name);
            let opened = OpenOptions::new().write(true).open(&path);
            opened.map_err(|cause| format!("open {}: {cause}", path.display()))
        };
        Ok(Self {
            over_ns,
            marker: open("trace_marker")?,
            switch: open("tracing_on")?,
            stopped: false,
        })
    }

    /// Marks the first ping above the limit, and stops the trace.
    #[inline]
    pub(super) fn judge(&mut self, sequence: u64, rtt_ns: u64) {
        if rtt_ns > self.over_ns && !self.stopped {
            self.stop(sequence, rtt_ns);
        }
    }

    #[cold]
    fn stop(&mut self, sequence: u64, rtt_ns: u64) {
        self.stopped = true;
        // A trace that cannot be marked any more has been taken away: the pings go on.
        let _ = writeln!(
            self.marker,
            "tautline soak: ping {sequence} took {rtt_ns} ns"
        );
        let _ = self.switch.write_all(b"0");
    }
}

fn folder() -> Option<&'static Path> {
    FOLDERS
        .iter()
        .map(Path::new)
        .find(|folder| folder.join("trace_marker").exists())
}

const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
