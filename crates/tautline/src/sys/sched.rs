//! The scheduler: who runs, and giving way.

use std::io;

/// `sched_yield(2)`: lets whoever is ready on this CPU run first.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sched_yield() {
    // SAFETY: the call takes nothing, and on Linux always succeeds.
    unsafe { libc::sched_yield() };
}

/// `sched_getscheduler(2)`: the policy of the calling thread, such as `SCHED_FIFO`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sched_getscheduler() -> io::Result<i32> {
    // SAFETY: the call takes a number; 0 is the calling thread.
    match unsafe { libc::sched_getscheduler(0) } {
        -1 => Err(io::Error::last_os_error()),
        // The flag is reported with the policy.
        policy => Ok(policy & !libc::SCHED_RESET_ON_FORK),
    }
}

/// `sched_getaffinity(2)`: on how many CPUs the calling thread may run.
///
/// Beyond 1,024 CPUs the mask is too small for the kernel, which then says `EINVAL`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sched_getaffinity_count() -> io::Result<usize> {
    // SAFETY: cpu_set_t is an array of integers, for which all zeroes are valid.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `allowed` has the size that is passed; 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled `allowed`.
    let count = unsafe { libc::CPU_COUNT(&allowed) };
    Ok(usize::try_from(count).expect("a count of CPUs is not negative"))
}

/// `sched_setscheduler(SCHED_FIFO)` of the calling thread, at the least priority.
#[cfg(test)]
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn set_fifo_for_test() -> io::Result<()> {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: `least` lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_thread_has_an_ordinary_policy_and_somewhere_to_run() {
        sched_yield();
        assert_eq!(sched_getscheduler().unwrap(), libc::SCHED_OTHER);
        assert!(sched_getaffinity_count().unwrap() >= 1);
    }
}
