//! Waiting for sockets with epoll.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `epoll_create1(EPOLL_CLOEXEC)`: an empty set of descriptors to wait for.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn epoll_create1() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if epoll < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(epoll) })
}

/// `epoll_ctl(EPOLL_CTL_ADD, EPOLLIN)`: waits for `fd` to be readable, level-triggered.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn epoll_add_readable(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    // SAFETY: both descriptors are open for their borrows, and `event` lives through the call.
    let result = unsafe {
        libc::epoll_ctl(
            epoll.as_raw_fd(),
            libc::EPOLL_CTL_ADD,
            fd.as_raw_fd(),
            &raw mut event,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `epoll_wait` without a timeout, for one event. An interrupted call is an error of that kind.
#[inline]
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn epoll_wait_one(epoll: BorrowedFd<'_>) -> io::Result<()> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: there is room for the one event that is asked for.
    let events = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &raw mut event, 1, -1) };
    if events < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
