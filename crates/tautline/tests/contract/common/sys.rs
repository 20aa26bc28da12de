//! What these tests ask of the system and the standard library does not offer.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// `signal(SIGPIPE, SIG_DFL)`: the signal kills, as in programs that are not written in Rust.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn default_sigpipe() {
    // SAFETY: the default action is no function of ours.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    assert_ne!(before, libc::SIG_ERR);
}

/// `poll(2)` for reading: whether the descriptor is readable, or becomes so in time.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut asked = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout_ms = timeout.as_millis().try_into().unwrap();
    // SAFETY: one entry is passed, and lives through the call.
    let ready = unsafe { libc::poll(&mut asked, 1, timeout_ms) };
    assert!(ready >= 0, "{}", std::io::Error::last_os_error());
    ready == 1
}
