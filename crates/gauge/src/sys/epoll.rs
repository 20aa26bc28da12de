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

/// What one descriptor of a set is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// The number it was added with.
    pub(crate) tag: u64,
    /// A read would not wait. An error or a hang-up counts: the read tells which.
    pub(crate) readable: bool,
    /// A write would not wait.
    pub(crate) writable: bool,
}

/// `epoll_ctl(EPOLL_CTL_ADD, EPOLLIN)`: waits for `fd` to be readable, and calls it `tag`.
pub(crate) fn epoll_add(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
    epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, tag, false)
}

/// `epoll_ctl(EPOLL_CTL_MOD)`: waits for `fd` to be readable, or also writable.
pub(crate) fn epoll_modify(
    epoll: BorrowedFd<'_>,
    fd: BorrowedFd<'_>,
    tag: u64,
    or_writable: bool,
) -> io::Result<()> {
    epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, tag, or_writable)
}

#[expect(unsafe_code, reason = "libc call")]
fn epoll_ctl(
    epoll: BorrowedFd<'_>,
    operation: libc::c_int,
    fd: BorrowedFd<'_>,
    tag: u64,
    or_writable: bool,
) -> io::Result<()> {
    let writable = if or_writable { libc::EPOLLOUT } else { 0 };
    let mut event = libc::epoll_event {
        events: (libc::EPOLLIN | writable) as u32,
        u64: tag,
    };
    // SAFETY: both descriptors are open for their borrows, and `event` lives through the call.
    let result =
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `epoll_wait` with a timeout of 0: what is ready now, handed to `each`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn epoll_ready(epoll: BorrowedFd<'_>, mut each: impl FnMut(Event)) -> io::Result<()> {
    const MOST: usize = 64;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
    // SAFETY: there is room for as many events as are asked for.
    let found = unsafe {
        libc::epoll_wait(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            MOST as libc::c_int,
            0,
        )
    };
    if found < 0 {
        let cause = io::Error::last_os_error();
        return match cause.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(cause),
        };
    }
    for event in &events[..found as usize] {
        let failed = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        each(Event {
            tag: event.u64,
            readable: event.events & (libc::EPOLLIN as u32 | failed) != 0,
            writable: event.events & (libc::EPOLLOUT as u32 | failed) != 0,
        });
    }
    Ok(())
}
