//! Where a thread runs, how soon, and under which name: for I/O threads ([`IoOptions`](crate::IoOptions)
//! has the same as options), and for any thread of the application.
//!
//! Each function acts on the calling thread, reads back what the system made of it, and returns both.
//!
//! ```
//! use tautline::thread::{self, Scheduling};
//!
//! # fn main() -> Result<(), tautline::Error> {
//! let before = thread::current()?;
//! let pinned = thread::pin_to(&before.cpus[..1])?;
//! assert_eq!(pinned.effective, pinned.requested);
//! if let Err(error) = thread::set_scheduling(Scheduling::Fifo { priority: 50 }) {
//!     eprintln!("{error}"); // What it would need, and what there is.
//! }
//! # thread::pin_to(&before.cpus)?;
//! # thread::set_scheduling(before.scheduling)?;
//! # Ok(())
//! # }
//! ```

mod explain;

use std::ffi::CString;
use std::fmt;

use crate::error::Error;
use crate::sys::sched::{self, Attributes};

/// How a thread competes with others for a CPU: see `sched(7)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheduling {
    /// `SCHED_OTHER`, as nearly every thread: a fair share, larger with a lower `nice`.
    Other {
        /// -20 to 19; 0 is the usual.
        nice: i32,
    },
    /// `SCHED_BATCH`: as `Other`, and taken for a thread that computes: it is woken less eagerly.
    Batch {
        /// -20 to 19.
        nice: i32,
    },
    /// `SCHED_IDLE`: runs when nobody else wants to.
    Idle,
    /// `SCHED_FIFO`: runs before every ordinary thread, until it waits or a higher priority comes.
    Fifo {
        /// 1 to 99; the kernel's own interrupt threads have 50.
        priority: u32,
    },
    /// `SCHED_RR`: as `Fifo`, in turns with others of the same priority.
    RoundRobin {
        /// 1 to 99.
        priority: u32,
    },
    /// Any other policy, by the kernel's number: `SCHED_DEADLINE` is 6. It is told, and cannot be set
    /// here.
    Foreign {
        /// As `sched_getscheduler(2)` tells it.
        policy: u32,
    },
}

/// What was asked for, and what the system made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied<T> {
    /// As it was passed.
    pub requested: T,
    /// As it was read back.
    pub effective: T,
}

/// How a thread runs, as the system tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadState {
    /// The number by which `ps -L` and `taskset` know it.
    pub id: u32,
    /// Its name, as `ps -L` and debuggers show it.
    pub name: String,
    /// The CPUs that it may run on, in order.
    pub cpus: Vec<usize>,
    /// How it competes for them.
    pub scheduling: Scheduling,
}

/// Lets the calling thread run on these CPUs only.
///
/// The kernel passes over those that do not exist or that the process may not use, as long as one is
/// left: then `effective` is less than `requested`. Both are in order, each once.
///
/// # Errors
/// None of them can be used, or a number that no CPU has; the error says which there are.
pub fn pin_to(cpus: &[usize]) -> Result<Applied<Vec<usize>>, Error> {
    let what = "pin the thread";
    if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= sched::CPU_LIMIT) {
        let why = format!("no CPU has the number {cpu}");
        return Err(Error::of_thread(what, why, None));
    }
    sched::sched_setaffinity(cpus).map_err(|cause| {
        let why = explain::affinity(cpus, &cause);
        Error::of_thread(what, why, Some(cause))
    })?;
    let mut requested = cpus.to_vec();
    requested.sort_unstable();
    requested.dedup();
    let effective = cpus_of(THIS_THREAD)?;
    Ok(Applied {
        requested,
        effective,
    })
}

/// Has the calling thread compete for its CPUs in this way. Threads that it starts later inherit it.
///
/// # Errors
/// A value out of range; or the system's refusal, with what it would take (`CAP_SYS_NICE`, or a limit
/// that is high enough) and what there is.
pub fn set_scheduling(scheduling: Scheduling) -> Result<Applied<Scheduling>, Error> {
    let what = "set the scheduling of the thread";
    let (policy, nice, priority) = scheduling
        .parts()
        .map_err(|why| Error::of_thread(what, why, None))?;
    // Whether children inherit it is not ours to change: giving that up takes a privilege.
    let flags = sched::sched_getattr(THIS_THREAD).map_or(0, |now| now.flags);
    let attributes = Attributes {
        policy: policy as u32,
        nice,
        priority,
        flags: flags & libc::SCHED_FLAG_RESET_ON_FORK as u64,
    };
    sched::sched_setattr(attributes).map_err(|cause| {
        let why = explain::scheduling(scheduling, &cause);
        Error::of_thread(what, why, Some(cause))
    })?;
    Ok(Applied {
        requested: scheduling,
        effective: scheduling_of(THIS_THREAD)?,
    })
}

/// Names the calling thread, for `ps -L`, `top -H` and debuggers: 1 to 15 bytes without a zero.
///
/// [`std::thread::Thread::name`], by which a panic is told, stays as it is.
///
/// # Errors
/// A name that the kernel would cut.
pub fn set_name(name: &str) -> Result<Applied<String>, Error> {
    let what = "name the thread";
    check_name(name).map_err(|why| Error::of_thread(what, why, None))?;
    let c_name = CString::new(name).expect("it has no zero");
    sched::prctl_set_name(&c_name)
        .map_err(|cause| Error::of_thread(what, explain::plain(&cause), Some(cause)))?;
    Ok(Applied {
        requested: name.to_owned(),
        effective: name_of(sched::gettid())?,
    })
}

/// How the calling thread runs.
///
/// # Errors
/// Where a sandbox forbids the question, or hides `/proc`.
pub fn current() -> Result<ThreadState, Error> {
    state_of(sched::gettid())
}

/// How a thread of this process runs.
pub(crate) fn state_of(id: u32) -> Result<ThreadState, Error> {
    Ok(ThreadState {
        id,
        name: name_of(id)?,
        cpus: cpus_of(id)?,
        scheduling: scheduling_of(id)?,
    })
}

/// Whether the kernel keeps the name whole.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let bytes = name.len();
    if !(1..=NAME_LIMIT).contains(&bytes) {
        return Err(format!(
            "{name:?} has {bytes} bytes, and a thread's name has 1 to {NAME_LIMIT}"
        ));
    }
    if name.contains('\0') {
        return Err("a thread's name has no NUL".to_owned());
    }
    Ok(())
}

impl Scheduling {
    /// The kernel's policy, nice and priority, or what is out of range.
    pub(crate) fn parts(self) -> Result<(i32, i32, u32), String> {
        let (policy, nice, priority) = match self {
            Self::Other { nice } => (libc::SCHED_OTHER, nice, 0),
            Self::Batch { nice } => (libc::SCHED_BATCH, nice, 0),
            Self::Idle => (libc::SCHED_IDLE, 0, 0),
            Self::Fifo { priority } => (libc::SCHED_FIFO, 0, priority),
            Self::RoundRobin { priority } => (libc::SCHED_RR, 0, priority),
            Self::Foreign { policy } => {
                return Err(format!("policy {policy} can only be told, not set"));
            }
        };
        if !NICE_RANGE.contains(&nice) {
            return Err(format!("nice {nice} is not in -20 to 19"));
        }
        let real_time = matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR);
        if real_time && !PRIORITY_RANGE.contains(&priority) {
            return Err(format!("priority {priority} is not in 1 to 99"));
        }
        Ok((policy, nice, priority))
    }

    const fn of(attributes: Attributes) -> Self {
        let Attributes { nice, priority, .. } = attributes;
        match attributes.policy as i32 {
            libc::SCHED_OTHER => Self::Other { nice },
            libc::SCHED_BATCH => Self::Batch { nice },
            libc::SCHED_IDLE => Self::Idle,
            libc::SCHED_FIFO => Self::Fifo { priority },
            libc::SCHED_RR => Self::RoundRobin { priority },
            _ => Self::Foreign {
                policy: attributes.policy,
            },
        }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other { nice } => write!(f, "other, nice {nice}"),
            Self::Batch { nice } => write!(f, "batch, nice {nice}"),
            Self::Idle => f.write_str("idle"),
            Self::Fifo { priority } => write!(f, "fifo, priority {priority}"),
            Self::RoundRobin { priority } => write!(f, "round robin, priority {priority}"),
            Self::Foreign { policy } => write!(f, "policy {policy}"),
        }
    }
}

fn cpus_of(thread: u32) -> Result<Vec<usize>, Error> {
    sched::sched_getaffinity(thread).map_err(unreadable)
}

fn scheduling_of(thread: u32) -> Result<Scheduling, Error> {
    let attributes = sched::sched_getattr(thread).map_err(unreadable)?;
    Ok(Scheduling::of(attributes))
}

fn name_of(id: u32) -> Result<String, Error> {
    let name = std::fs::read(format!("/proc/self/task/{id}/comm")).map_err(unreadable)?;
    let name = String::from_utf8_lossy(&name);
    Ok(name.strip_suffix('\n').unwrap_or(&name).to_owned())
}

fn unreadable(cause: std::io::Error) -> Error {
    Error::of_thread(
        "read how the thread runs",
        explain::plain(&cause),
        Some(cause),
    )
}

/// To the scheduler's calls.
const THIS_THREAD: u32 = 0;
const NICE_RANGE: std::ops::RangeInclusive<i32> = -20..=19;
const PRIORITY_RANGE: std::ops::RangeInclusive<u32> = 1..=99;
/// Most bytes of a thread's name: `TASK_COMM_LEN` with its zero is 16; the kernel would cut more.
const NAME_LIMIT: usize = 15;

#[cfg(test)]
mod tests;
