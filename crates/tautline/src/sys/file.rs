//! Descriptors that are no sockets: reading, writing, locks.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;

/// `read(2)`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: `buffer` is writable for its length, and the kernel writes no more than that.
    super::retry(|| unsafe { libc::read(fd.as_raw_fd(), start, length) })
}

/// `write(2)`. To a terminal; a pipe or socket would raise `SIGPIPE`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is readable for its length.
    super::retry(|| unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// `writev(2)`: several slices as one.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn writev(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = c_int::try_from(slices.len()).expect("few slices");
    // SAFETY: IoSlice is laid out as iovec, by its documentation; the slices live through the call.
    super::retry(|| unsafe { libc::writev(fd.as_raw_fd(), slices.as_ptr().cast(), count) })
}

/// `eventfd(2)`: a flag that pollers see once [`write`] has written a number to it.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    let flags = libc::EFD_NONBLOCK | libc::EFD_CLOEXEC;
    // SAFETY: the call takes two numbers.
    let made = super::retry(|| unsafe { libc::eventfd(0, flags) as isize })?;
    let made = c_int::try_from(made).expect("a descriptor is an int");
    // SAFETY: the descriptor is new, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// `flock(LOCK_EX | LOCK_NB)`: an exclusive lock until the descriptor is closed, or `WouldBlock`.
pub(crate) fn flock_exclusive(fd: BorrowedFd<'_>) -> io::Result<()> {
    flock(fd, libc::LOCK_EX | libc::LOCK_NB)
}

/// `flock(LOCK_UN)`: gives the lock back before the descriptor is closed.
pub(crate) fn flock_unlock(fd: BorrowedFd<'_>) -> io::Result<()> {
    flock(fd, libc::LOCK_UN)
}

#[expect(unsafe_code, reason = "libc call")]
fn flock(fd: BorrowedFd<'_>, operation: c_int) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    super::retry(|| unsafe { libc::flock(fd.as_raw_fd(), operation) as isize })?;
    Ok(())
}
