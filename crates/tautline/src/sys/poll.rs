//! Waiting for a descriptor, or for the first of several.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::{Duration, Instant};

/// `ppoll(2)` on one descriptor: what is ready, or nothing when the deadline has passed.
///
/// Without a deadline it waits for as long as it takes. An interruption does not extend the wait.
pub(crate) fn ppoll(
    fd: BorrowedFd<'_>,
    events: libc::c_short,
    deadline: Option<Instant>,
) -> io::Result<libc::c_short> {
    let mut entries = [entry(fd, events)];
    ppoll_entries(&mut entries, deadline)?;
    Ok(entries[0].revents)
}

/// `ppoll(2)` on one descriptor that another, once it is readable, calls off; then it is ready as if it
/// were hung up.
pub(crate) fn ppoll_unless(
    fd: BorrowedFd<'_>,
    events: libc::c_short,
    called_off: BorrowedFd<'_>,
    deadline: Option<Instant>,
) -> io::Result<libc::c_short> {
    let mut entries = [entry(fd, events), entry(called_off, libc::POLLIN)];
    ppoll_entries(&mut entries, deadline)?;
    let hung_up = if entries[1].revents == 0 {
        0
    } else {
        libc::POLLHUP
    };
    Ok(entries[0].revents | hung_up)
}

/// `ppoll(2)` until one of these is writable, or broken, or the deadline has passed.
pub(crate) fn ppoll_writable(fds: &[BorrowedFd<'_>], deadline: Option<Instant>) -> io::Result<()> {
    let mut entries: Vec<_> = fds.iter().map(|fd| entry(*fd, libc::POLLOUT)).collect();
    ppoll_entries(&mut entries, deadline)
}

fn entry(fd: BorrowedFd<'_>, events: libc::c_short) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    }
}

#[expect(unsafe_code, reason = "libc call")]
fn ppoll_entries(entries: &mut [libc::pollfd], deadline: Option<Instant>) -> io::Result<()> {
    super::retry(|| {
        let left = deadline.map(|end| timespec(end.saturating_duration_since(Instant::now())));
        let left = left.as_ref().map_or(ptr::null(), ptr::from_ref);
        let count = entries.len() as libc::nfds_t;
        // SAFETY: so many pollfds and a timespec or null, all of which live through the call; a null
        // mask leaves the signals as they are.
        let result = unsafe { libc::ppoll(entries.as_mut_ptr(), count, left, ptr::null()) };
        result as isize
    })?;
    Ok(())
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        // 292 billion years are as good as for ever.
        tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
