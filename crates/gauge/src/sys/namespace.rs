//! Network namespaces (network_namespaces(7)) of single threads.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// `unshare(CLONE_NEWNET)`: from now on the calling thread, and those it starts, have a network of
/// their own.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: takes no pointers, and sockets that are open keep the network they were opened in.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// `setns(CLONE_NEWNET)`: from now on the calling thread is in that network.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for its borrow; else as above.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
