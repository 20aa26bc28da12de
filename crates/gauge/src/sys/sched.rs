//! Where and how the calling thread runs.

use std::io;
use std::mem;

use crate::plan::Sched;

/// `sched_setaffinity`: the calling thread runs only on `cpus`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: a `cpu_set_t` is an array of integers; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: `cpu` is below CPU_SETSIZE, so the bit lies within the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: 0 is the calling thread; the size is that of the set passed.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    check(result)
}

/// `sched_getaffinity`: the CPUs on which the calling thread may run, ascending.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn affinity() -> io::Result<Vec<usize>> {
    // SAFETY: a `cpu_set_t` is an array of integers; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: 0 is the calling thread; the size is that of the set passed.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    check(result)?;
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: every `cpu` is below CPU_SETSIZE, so the bit lies within the set.
    Ok(all
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// `sched_setscheduler`: policy and priority of the calling thread.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn set_scheduler(sched: Sched) -> io::Result<()> {
    let (policy, priority) = match sched {
        Sched::Other => (libc::SCHED_OTHER, 0),
        Sched::Fifo(priority) => (libc::SCHED_FIFO, priority.into()),
        Sched::RoundRobin(priority) => (libc::SCHED_RR, priority.into()),
        Sched::Idle => (libc::SCHED_IDLE, 0),
    };
    // SAFETY: a `sched_param` is integers only; zero is valid for each.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: 0 is the calling thread; the parameters live for the call.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })
}

/// `sched_getscheduler` and `sched_getparam`: policy and priority of the calling thread in the words
/// of [`Sched`], or the policy's number where there is no such word.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn scheduler() -> io::Result<String> {
    // SAFETY: 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a `sched_param` is integers only; zero is valid for each.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    // SAFETY: 0 is the calling thread; the parameters are writable for the call.
    check(unsafe { libc::sched_getparam(0, &raw mut parameters) })?;
    let priority = u8::try_from(parameters.sched_priority).unwrap_or(u8::MAX);
    Ok(match policy & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Sched::Other.to_string(),
        libc::SCHED_FIFO => Sched::Fifo(priority).to_string(),
        libc::SCHED_RR => Sched::RoundRobin(priority).to_string(),
        libc::SCHED_IDLE => Sched::Idle.to_string(),
        libc::SCHED_BATCH => "batch".to_owned(),
        unknown => format!("policy {unknown}"),
    })
}

/// `sched_getcpu`: the CPU that the calling thread runs on at this moment.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn getcpu() -> Option<usize> {
    // SAFETY: takes no pointers.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok()
}

/// `gettid`: the id of the calling thread.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn gettid() -> u32 {
    // SAFETY: takes no pointers, and always succeeds.
    let id = unsafe { libc::gettid() };
    u32::try_from(id).expect("thread ids are positive")
}

/// `prctl(PR_SET_TIMERSLACK)`: by how much timers of the calling thread may be late, in nanoseconds.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn set_timer_slack(slack_ns: u64) -> io::Result<()> {
    // SAFETY: this option takes an integer and no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns as libc::c_ulong, 0, 0, 0) })
}

/// `prctl(PR_GET_TIMERSLACK)`: by how much timers of the calling thread may be late.
#[cfg(test)]
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn timer_slack_ns() -> i32 {
    // SAFETY: this option takes no pointers; the slack is the result.
    unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
