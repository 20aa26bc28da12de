//! Waiting for one descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::{Duration, Instant};

/// `ppoll(2)` on one descriptor: what is ready, or nothing when the deadline has passed.
///
/// Without a deadline it waits for as long as it takes. An interruption does not extend the wait.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ppoll(
    fd: BorrowedFd<'_>,
    events: libc::c_short,
    deadline: Option<Instant>,
) -> io::Result<libc::c_short> {
    let mut entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    super::retry(|| {
        let left = deadline.map(|end| timespec(end.saturating_duration_since(Instant::now())));
        let left = left.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: one pollfd and a timespec or null, all of which live through the call; a null
        // mask leaves the signals as they are.
        let result = unsafe { libc::ppoll(&mut entry, 1, left, ptr::null()) };
        result as isize
    })?;
    Ok(entry.revents)
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        // 292 billion years are as good as for ever.
        tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
