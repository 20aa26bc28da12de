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
    stopped_at: Option<u64>,
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
        Self::open_in(folder, over_ns)
    }

    fn open_in(folder: &Path, over_ns: u64) -> Result<Self, String> {
        let open = |name: &str| {
            let path = folder.join(name);
            let opened = OpenOptions::new().write(true).open(&path);
            opened.map_err(|cause| format!("open {}: {cause}", path.display()))
        };
        Ok(Self {
            over_ns,
            marker: open("trace_marker")?,
            switch: open("tracing_on")?,
            stopped_at: None,
        })
    }

    /// Marks the first ping above the limit, and stops the trace.
    #[inline]
    pub(super) fn judge(&mut self, sequence: u64, rtt_ns: u64) {
        if rtt_ns > self.over_ns && self.stopped_at.is_none() {
            self.stop(sequence, rtt_ns);
        }
    }

    /// The ping that stopped it, if one did.
    pub(super) fn stopped_at(&self) -> Option<u64> {
        self.stopped_at
    }

    #[cold]
    fn stop(&mut self, sequence: u64, rtt_ns: u64) {
        self.stopped_at = Some(sequence);
        // One write is one mark. A trace that cannot be marked any more has been taken away: the
        // pings go on.
        let mark = format!("tautline soak: ping {sequence} took {rtt_ns} ns\n");
        let _ = self.marker.write_all(mark.as_bytes());
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_ping_above_the_limit_marks_the_trace_and_stops_it() {
        let folder = tempfile::tempdir().unwrap();
        let (marker, switch) = ("trace_marker", "tracing_on");
        fs::write(folder.path().join(marker), "").unwrap();
        fs::write(folder.path().join(switch), "1").unwrap();
        let mut trace = Trace::open_in(folder.path(), 5_000).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        trace.judge(1, 5_000);
        assert_eq!((read(marker).as_str(), read(switch).as_str()), ("", "1"));
        trace.judge(2, 5_001);
        trace.judge(3, 9_999);
        assert_eq!(read(marker), "tautline soak: ping 2 took 5001 ns\n");
        assert_eq!(read(switch), "0");
        assert_eq!(trace.stopped_at(), Some(2));
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let why = Trace::open_in(folder.path(), 1).unwrap_err();
        assert!(why.contains("/trace_marker: "), "{why}");
    }
}
