//! How the machine is held while it measures: memory locked, CPUs kept from halting.

use std::fs::{File, OpenOptions};
use std::hint::spin_loop;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::plan::{PlacementPlan, Sched};
use crate::sys;

/// Holds the machine until it is dropped.
#[derive(Debug)]
pub struct Hold {
    awake: Option<Awake>,
    busy: Option<Busy>,
    locked: bool,
    notes: Vec<String>,
}

impl Hold {
    /// Takes hold as the plan asks, on these CPUs. What is refused is noted and done without.
    pub fn take(plan: &PlacementPlan, cpus: &[usize]) -> Self {
        let mut hold = Self {
            awake: None,
            busy: None,
            locked: false,
            notes: Vec::new(),
        };
        match lock_memory() {
            Ok(locked) => hold.locked = locked,
            Err(cause) => hold.notes.push(format!("memory is not locked: {cause}")),
        }
        if plan.stay_awake {
            match Awake::hold() {
                Ok(awake) => hold.awake = Some(awake),
                Err(cause) => hold.notes.push(format!("--stay-awake: {cause}")),
            }
        }
        if plan.keep_cpus_busy {
            match Busy::on(cpus) {
                Ok(busy) => hold.busy = Some(busy),
                Err(cause) => hold.notes.push(format!("--keep-cpus-busy: {cause}")),
            }
        }
        hold
    }

    /// Whether `/dev/cpu_dma_latency` is held at zero.
    pub fn stays_awake(&self) -> bool {
        self.awake.is_some()
    }

    /// Whether spinners keep the CPUs busy.
    pub fn keeps_cpus_busy(&self) -> bool {
        self.busy.is_some()
    }

    /// What could not be had, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.locked {
            sys::memory::munlockall();
        }
    }
}

/// `/dev/cpu_dma_latency` held at zero: no CPU of the machine enters an idle state that takes time to
/// leave, until this is dropped.
#[derive(Debug)]
pub(crate) struct Awake {
    _device: File,
}

impl Awake {
    pub(crate) fn hold() -> io::Result<Self> {
        Self::hold_at(Path::new("/dev/cpu_dma_latency"))
    }

    fn hold_at(path: &Path) -> io::Result<Self> {
        let named =
            |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
        let mut device = OpenOptions::new().write(true).open(path).map_err(named)?;
        // The kernel takes a 32-bit number of microseconds and forgets it when the file is closed.
        device.write_all(&0_i32.to_ne_bytes()).map_err(named)?;
        Ok(Self { _device: device })
    }
}

/// One spinner in SCHED_IDLE on each CPU: it runs only when nobody else wants to, and keeps the CPU
/// from halting.
#[derive(Debug)]
pub(crate) struct Busy {
    stop: Arc<AtomicBool>,
    spinners: Vec<JoinHandle<()>>,
}

impl Busy {
    /// No CPUs means nothing is pinned: then there is one on every CPU that may be used.
    pub(crate) fn on(cpus: &[usize]) -> io::Result<Self> {
        let all = if cpus.is_empty() {
            sys::sched::affinity()?
        } else {
            cpus.to_vec()
        };
        let mut busy = Self {
            stop: Arc::default(),
            spinners: Vec::new(),
        };
        for cpu in all {
            let stop = Arc::clone(&busy.stop);
            let (ready, readiness) = std::sync::mpsc::channel();
            let spinner = thread::Builder::new()
                .name(format!("gauge-busy-{cpu}"))
                .spawn(move || {
                    // Never spin at the normal priority: that would be load instead of idling.
                    let seated = sys::sched::set_scheduler(Sched::Idle)
                        .and_then(|()| sys::sched::set_affinity(&[cpu]));
                    let spin = seated.is_ok();
                    let _ = ready.send(seated);
                    while spin && !stop.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                })?;
            busy.spinners.push(spinner);
            readiness
                .recv()
                .unwrap_or_else(|_| Err(io::Error::other("the spinner ended")))?;
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for spinner in self.spinners.drain(..) {
            // A spinner has nothing that could panic, and nothing to hand back.
            let _ = spinner.join();
        }
    }
}

/// Locks all memory where there is no limit to locking. Below a limit, `MCL_FUTURE` would make later
/// allocations fail: thread stacks of the very run, so it is left alone.
fn lock_memory() -> io::Result<bool> {
    if let Some(limit) = sys::memory::lockable_bytes()? {
        // A process with CAP_IPC_LOCK ignores the limit; whether it has it shows only in the attempt,
        // and an attempt without it would count the whole address space against the limit.
        if !sys::memory::may_lock_beyond_limit() {
            let limit_kib = limit / 1_024;
            return Err(io::Error::other(format!("ulimit -l is {limit_kib} KiB")));
        }
    }
    sys::memory::mlockall()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn staying_awake_writes_a_binary_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu_dma_latency");
        fs::write(&path, "").unwrap();
        let awake = Awake::hold_at(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [0, 0, 0, 0]);
        drop(awake);
    }

    #[test]
    fn a_refused_device_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cause = Awake::hold_at(&folder.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(cause.contains("/none: "), "{cause}");
    }

    #[test]
    fn spinners_end_when_they_are_dropped() {
        let cpus = sys::sched::affinity().unwrap();
        let busy = Busy::on(&cpus).unwrap();
        assert_eq!(busy.spinners.len(), cpus.len());
        drop(busy);
    }

    #[test]
    fn a_spinner_on_a_cpu_that_is_not_there_is_refused() {
        assert!(Busy::on(&[1_023]).is_err());
    }

    #[test]
    fn holding_says_what_it_holds_or_why_not() {
        let plan = PlacementPlan {
            stay_awake: true,
            keep_cpus_busy: true,
            ..PlacementPlan::default()
        };
        let hold = Hold::take(&plan, &[]);
        assert!(hold.keeps_cpus_busy());
        let refused = hold
            .notes()
            .iter()
            .any(|note| note.starts_with("--stay-awake: "));
        assert_ne!(hold.stays_awake(), refused);
    }
}
