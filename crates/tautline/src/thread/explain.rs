//! Why the system refused, and what it would take: nobody knows EPERM of a scheduler by heart.

use std::fs;
use std::io;

use super::Scheduling;
use crate::sys::sched;

pub(super) use crate::error::plain;

/// Why a thread may not run on these CPUs.
pub(super) fn affinity(cpus: &[usize], cause: &io::Error) -> String {
    if cause.raw_os_error() != Some(libc::EINVAL) {
        return plain(cause);
    }
    if cpus.is_empty() {
        return "no CPU was named".to_owned();
    }
    let asked = list(cpus);
    match fs::read_to_string("/sys/devices/system/cpu/online") {
        Ok(online) => format!(
            "this process may use none of CPUs {asked}; there are {}, of which its cpuset may allow fewer",
            online.trim_end()
        ),
        Err(_) => format!("this process may use none of CPUs {asked}"),
    }
}

/// Why a thread may not be scheduled so.
pub(super) fn scheduling(asked: Scheduling, cause: &io::Error) -> String {
    if cause.raw_os_error() != Some(libc::EPERM) {
        return format!("{asked}: {}", plain(cause));
    }
    let (limit, needed, resource) = match asked {
        Scheduling::Fifo { priority } | Scheduling::RoundRobin { priority } => (
            "RLIMIT_RTPRIO, ulimit -r",
            u64::from(priority),
            libc::RLIMIT_RTPRIO,
        ),
        Scheduling::Other { nice } | Scheduling::Batch { nice } => (
            "RLIMIT_NICE, ulimit -e",
            nice_limit(nice),
            libc::RLIMIT_NICE,
        ),
        // Only out of it is there a way that needs a privilege.
        Scheduling::Idle | Scheduling::Foreign { .. } => {
            return format!("{asked}: {}", plain(cause));
        }
    };
    let there_is = match sched::getrlimit(resource) {
        Ok(there_is) => format!(", which is {there_is} here"),
        Err(_) => String::new(),
    };
    format!(
        "{asked}: not permitted; it takes CAP_SYS_NICE, or a limit ({limit}) of at least {needed}{there_is}"
    )
}

/// The kernel counts the nice values backwards there: 1 for 19 up to 40 for -20.
const fn nice_limit(nice: i32) -> u64 {
    (20 - nice) as u64
}

fn list(cpus: &[usize]) -> String {
    let numbers: Vec<_> = cpus.iter().map(usize::to_string).collect();
    numbers.join(", ")
}
