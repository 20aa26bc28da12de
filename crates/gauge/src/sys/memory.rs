//! Keeping pages in memory.

use std::io;

/// `mlockall(MCL_CURRENT | MCL_FUTURE)`: every page of the process is faulted in and stays.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn mlockall() -> io::Result<()> {
    // SAFETY: takes no pointers.
    let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `munlockall`: pages may be swapped again.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn munlockall() {
    // SAFETY: takes no pointers. It cannot fail for the calling process, whatever its limits.
    unsafe { libc::munlockall() };
}

/// `getrlimit(RLIMIT_MEMLOCK)`: bytes that may be locked, `None` when there is no limit.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn lockable_bytes() -> io::Result<Option<u64>> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable for the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur))
}

/// Whether this process has CAP_IPC_LOCK in effect, from `/proc/self/status`.
pub(crate) fn may_lock_beyond_limit() -> bool {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|capabilities| capabilities & CAP_IPC_LOCK != 0)
}
