//! The one clock.

/// `clock_gettime(CLOCK_MONOTONIC)` in nanoseconds: the clock of [`std::time::Instant`].
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec that lives through the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    // It fails only for a clock that does not exist.
    debug_assert_eq!(result, 0);
    // Neither is negative: this clock starts at boot.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_run_backwards() {
        let stamps: Vec<u64> = (0..1000).map(|_| monotonic_ns()).collect();
        assert!(stamps.is_sorted());
        assert!(stamps[0] > 0);
    }
}
