//! An alarm that a poller can watch.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// `timerfd_create(CLOCK_MONOTONIC)`: an alarm, not set yet.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn timerfd_create() -> io::Result<OwnedFd> {
    let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
    // SAFETY: no pointer is passed.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so `fd` is open, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `timerfd_settime`: rings once, `after` from now; it becomes readable then. What it was set to
/// before is forgotten.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn timerfd_settime(timer: BorrowedFd<'_>, after: Duration) -> io::Result<()> {
    // Zero would put it out.
    let after = after.max(Duration::from_nanos(1));
    let setting = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: after.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: after.subsec_nanos().into(),
        },
    };
    // SAFETY: `timer` is open for the borrow, `setting` lives through the call, and the old setting
    // may be null.
    match unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &setting, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
