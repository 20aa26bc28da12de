//! What this process uses: CPU time, context switches, memory, threads; and how many descriptors it may
//! open. By its own counters, which are exact.

use std::fs;
use std::io;
use std::ops::Sub;

use crate::sys;

/// What all threads of this process have used so far; the difference of two is what happened between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub cpu_ns: u64,
    /// Times a thread waited.
    pub voluntary_switches: u64,
    /// Times a thread had to let another go first.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Until now.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn of_process() -> io::Result<Self> {
        let (voluntary_switches, involuntary_switches) = sys::process::context_switches()?;
        Ok(Self {
            cpu_ns: sys::clock::process_cpu_ns(),
            voluntary_switches,
            involuntary_switches,
        })
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
        }
    }
}

/// What this process has in memory that no file backs, in bytes: `RssAnon` of `/proc/self/status`.
///
/// # Errors
///
/// When the kernel does not say.
pub fn anonymous_bytes() -> io::Result<u64> {
    Ok(status("RssAnon:")? * 1024)
}

/// The most that this process ever had in memory, in bytes: `VmHWM`.
///
/// # Errors
///
/// When the kernel does not say.
pub fn peak_bytes() -> io::Result<u64> {
    Ok(status("VmHWM:")? * 1024)
}

/// Threads of this process.
///
/// # Errors
///
/// When the kernel does not say.
pub fn threads() -> io::Result<u64> {
    status("Threads:")
}

/// Lets this process open as many descriptors as it may, and says how many that are.
///
/// # Errors
///
/// What the system said.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    sys::process::raise_descriptor_limit()
}

/// A number of `/proc/self/status`.
fn status(name: &str) -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("/proc/self/status has no {name}")))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn what_a_process_does_shows_in_its_usage() {
        let before = Usage::of_process().unwrap();
        let mut turns = 0_u64;
        while (Usage::of_process().unwrap() - before).cpu_ns < 1_000_000 {
            turns = black_box(turns + 1);
        }
        // Another thread that waits is a switch of ours.
        let (ask, asked) = mpsc::channel();
        let waiting = thread::spawn(move || asked.recv().unwrap());
        while (Usage::of_process().unwrap() - before).voluntary_switches == 0 {
            thread::yield_now();
        }
        ask.send(()).unwrap();
        waiting.join().unwrap();
    }

    #[test]
    fn memory_that_is_touched_shows_and_the_peak_is_no_less() {
        let before = anonymous_bytes().unwrap();
        let block = black_box(vec![1_u8; 32 << 20]);
        assert!(anonymous_bytes().unwrap() >= before + (16 << 20));
        drop(block);
        assert!(peak_bytes().unwrap() >= before + (16 << 20));
    }

    #[test]
    fn there_is_a_thread_and_a_descriptor() {
        assert!(threads().unwrap() >= 1);
        assert!(raise_descriptor_limit().unwrap() >= 3);
    }
}
