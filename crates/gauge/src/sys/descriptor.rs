//! Descriptors that a parent process hands down by number, how many there may be, and locks on open
//! files.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `fcntl(F_GETFD)`: takes over a descriptor that was open when the program started.
///
/// # Errors
///
/// Those below 3 are the standard streams', and others may not be open.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn adopt(number: i32) -> io::Result<OwnedFd> {
    if number < 3 {
        let why = "0, 1 and 2 are the standard streams";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // SAFETY: it takes a number and looks it up.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, by the check, and by the contract of the option that names it nobody else in
    // this process uses it: it was handed to us for this.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `setrlimit(RLIMIT_NOFILE)`: this process may open as many descriptors as the system lets it raise the
/// limit to; returns how many those are.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable for the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` lives through the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

/// `flock(LOCK_EX | LOCK_NB)`: an advisory lock that ends with the open file.
///
/// # Errors
///
/// `WouldBlock` where somebody else has it.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn flock_exclusive(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for its borrow.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
