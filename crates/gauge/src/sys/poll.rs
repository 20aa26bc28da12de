//! Waiting without a set of descriptors to keep.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use std::time::Duration;

/// What `poll` found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// A read would not wait: there are bytes, an end, or an error to fetch.
    pub(crate) readable: bool,
    /// A write would not wait.
    pub(crate) writable: bool,
}

/// `poll` for one descriptor: waits until it can be read (if `read`) or written (if `write`), at most
/// so long. Neither is set when the time has passed. A signal ends it with an error of that kind.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn poll(
    fd: BorrowedFd<'_>,
    read: bool,
    write: bool,
    timeout: Duration,
) -> io::Result<Ready> {
    let mut entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: if read { libc::POLLIN } else { 0 } | if write { libc::POLLOUT } else { 0 },
        revents: 0,
    };
    // SAFETY: one entry is passed, and it lives through the call.
    let result = unsafe { libc::poll(&raw mut entry, 1, milliseconds(timeout)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // An error or a hang-up comes unasked, and both a read and a write would report it.
    let failed = entry.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
    Ok(Ready {
        readable: entry.revents & libc::POLLIN != 0 || failed,
        writable: entry.revents & libc::POLLOUT != 0 || failed,
    })
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

/// A descriptor among several, and what it is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// `poll` for several descriptors, without a limit: what each is ready for. A signal ends it with an
/// error of that kind.
#[inline]
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn poll_several<const N: usize>(awaited: [Awaited<'_>; N]) -> io::Result<[Ready; N]> {
    let mut entries = awaited.map(|one| libc::pollfd {
        fd: one.fd.as_raw_fd(),
        events: if one.read { libc::POLLIN } else { 0 } | if one.write { libc::POLLOUT } else { 0 },
        revents: 0,
    });
    // SAFETY: as many entries are passed as there are, and they live through the call.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), N as libc::nfds_t, -1) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let failed = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    Ok(entries.map(|entry| Ready {
        readable: entry.revents & (libc::POLLIN | failed) != 0,
        writable: entry.revents & (libc::POLLOUT | failed) != 0,
    }))
}

/// `poll` without a descriptor: sleeps, and unlike `std::thread::sleep` returns early at a signal.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn pause(time: Duration) {
    // SAFETY: no entries are passed.
    unsafe { libc::poll(ptr::null_mut(), 0, milliseconds(time)) };
}

/// Rounded up, so that no wait ends before its time; at most what fits, 24 days.
fn milliseconds(time: Duration) -> libc::c_int {
    let milliseconds = time.as_nanos().div_ceil(1_000_000);
    libc::c_int::try_from(milliseconds).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_is_ready_for_what_it_was_asked() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let watchdog = Duration::from_secs(60);
        let ready = poll(near.as_fd(), true, true, watchdog).unwrap();
        assert!(ready.writable && !ready.readable);
        far.write_all(b"x").unwrap();
        let ready = poll(near.as_fd(), true, false, watchdog).unwrap();
        assert!(ready.readable && !ready.writable);
    }

    #[test]
    fn nothing_is_ready_when_the_time_has_passed() {
        let (near, _far) = UnixStream::pair().unwrap();
        let ready = poll(near.as_fd(), true, false, Duration::from_nanos(1)).unwrap();
        assert_eq!(ready, Ready::default());
    }

    #[test]
    fn waits_are_rounded_up_and_fit() {
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_millis(7)), 7);
        assert_eq!(milliseconds(Duration::MAX), i32::MAX);
    }
}
