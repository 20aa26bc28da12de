//! Waiting for one descriptor, to the nanosecond.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;

/// What a descriptor is ready for; neither when the time came first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// A read would not wait. An error or a hang-up counts: the read tells which.
    pub(crate) readable: bool,
    /// A write would not wait.
    pub(crate) writable: bool,
}

/// `ppoll`: waits for `fd` to be readable, or also writable, at most `timeout_ns`. An interrupted call
/// is as good as one whose time has come.
#[inline]
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ppoll(fd: BorrowedFd<'_>, or_writable: bool, timeout_ns: u64) -> io::Result<Ready> {
    let events = if or_writable {
        libc::POLLIN | libc::POLLOUT
    } else {
        libc::POLLIN
    };
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: one pollfd and the timeout live through the call; no signal mask is passed.
    let result = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, ptr::null()) };
    if result < 0 {
        let cause = io::Error::last_os_error();
        return match cause.kind() {
            io::ErrorKind::Interrupted => Ok(Ready::default()),
            _ => Err(cause),
        };
    }
    let failed = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    Ok(Ready {
        readable: poll.revents & (libc::POLLIN | failed) != 0,
        writable: poll.revents & (libc::POLLOUT | failed) != 0,
    })
}
