//! What this process is to others: its name, its parent, its standard streams.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// `prctl(PR_SET_NAME)`: the name of the calling thread, and for the main thread that of the process.
/// More than 15 bytes are cut.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn set_name(name: &CStr) -> io::Result<()> {
    // SAFETY: the name ends with a zero byte and lives through the call.
    check(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) }).map(|_| ())
}

/// `fork`: the parent is told `true`, the child `false`. To be called while no other thread runs: the
/// child would be left with whatever locks it held.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn fork_is_parent() -> io::Result<bool> {
    // SAFETY: the caller sees to it that there is one thread, so that nothing is left half done in the
    // child.
    check(unsafe { libc::fork() }).map(|pid| pid > 0)
}

/// `setsid`: a session of its own, without a terminal.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn setsid() -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::setsid() }).map(|_| ())
}

/// `dup2`: from now on the descriptor `number` is what `fd` is.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn dup2(fd: BorrowedFd<'_>, number: libc::c_int) -> io::Result<()> {
    // SAFETY: `fd` is open for its borrow. `number` is one of the three standard streams, which the
    // standard library never closes and always opens anew for each use.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }).map(|_| ())
}

/// `killpg`: sends a signal to every process of the group that `leader` leads.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn kill_group(leader: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::killpg(leader as libc::pid_t, signal) }).map(|_| ())
}

/// `getrusage(RUSAGE_SELF)`: how often all threads of this process, those that have ended too, gave up
/// their CPU: by waiting, and because somebody else's turn had come.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn context_switches() -> io::Result<(u64, u64)> {
    // SAFETY: `rusage` is integers only; zero is valid for each.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is writable for the call.
    check(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) })?;
    Ok((usage.ru_nvcsw as u64, usage.ru_nivcsw as u64))
}

/// `setrlimit(RLIMIT_NOFILE)`: the soft limit of open descriptors becomes the hard one, and is handed
/// back.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable for the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is readable for the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_max)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
