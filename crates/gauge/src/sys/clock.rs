//! Clocks in nanoseconds.

/// `clock_gettime(CLOCK_MONOTONIC)`: nanoseconds since an arbitrary start, never going back.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_gettime(libc::CLOCK_MONOTONIC)
}

/// `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)`: sleeps until then, by the clock of
/// [`monotonic_ns`]. A signal wakes it early.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sleep_until_ns(then_ns: u64) {
    let then = libc::timespec {
        tv_sec: (then_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (then_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `then` is readable for the call, and an absolute sleep writes no remainder.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const then,
            std::ptr::null_mut(),
        )
    };
}

/// `clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`: CPU time of all threads of this process.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// `clock_getres(CLOCK_MONOTONIC_COARSE)`: the length of the kernel's tick in nanoseconds.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn tick_ns() -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable for the call.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (result == 0 && time.tv_nsec > 0).then_some(time.tv_nsec as u64)
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

/// `localtime_r`: hour, minute and second of the wall clock in the local time zone. For labels.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn local_time_of_day() -> (u8, u8, u8) {
    let seconds = std::time::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_secs());
    let seconds = libc::time_t::try_from(seconds).unwrap_or(libc::time_t::MAX);
    // SAFETY: a `tm` is integers and a pointer that may be null; all zero is a valid one.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers live through the call. A time out of range leaves `parts` as it is.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    let part = |number: libc::c_int| u8::try_from(number).unwrap_or(0);
    (part(parts.tm_hour), part(parts.tm_min), part(parts.tm_sec))
}
