//! Clocks in nanoseconds.

/// `clock_gettime(CLOCK_MONOTONIC)`: nanoseconds since an arbitrary start, never going back.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_gettime(libc::CLOCK_MONOTONIC)
}

/// `clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`: CPU time of all threads of this process.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
#[expect(unsafe_code, reason = "libc call")]
fn clock_gettime(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable for the call, and both clocks exist on every Linux.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(result, 0, "these clocks cannot fail");
    // Neither clock is ever negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
