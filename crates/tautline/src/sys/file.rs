//! Locks on files.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `flock(LOCK_EX | LOCK_NB)`: an exclusive lock until the descriptor is closed, or `WouldBlock`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn flock_exclusive(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    super::retry(|| unsafe {
        libc::flock(fd.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) as isize
    })?;
    Ok(())
}
