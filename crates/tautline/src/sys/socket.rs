//! Sending, receiving and what sockets say about themselves.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::c_int;
use socket2::{SockAddr, SockAddrStorage};

/// `send(2)`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: c_int) -> io::Result<usize> {
    // SAFETY: `bytes` is readable for its length.
    super::retry(|| unsafe {
        libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags)
    })
}

/// `sendmsg(2)` of several slices as one: one packet where they fit, one datagram always.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sendmsg(
    fd: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    flags: c_int,
) -> io::Result<usize> {
    let mut message = empty_msghdr();
    // IoSlice is laid out as iovec, by its documentation; the kernel only reads here.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    // SAFETY: the header points to `slices`, which live through the call.
    super::retry(|| unsafe { libc::sendmsg(fd.as_raw_fd(), &message, flags) })
}

/// `send(2)` of two short slices, put together on the stack: for small messages that costs less than
/// the kernel's walk through a `msghdr`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn send_gathered(
    fd: BorrowedFd<'_>,
    first: &[u8],
    second: &[u8],
    flags: c_int,
) -> io::Result<usize> {
    let length = first.len() + second.len();
    assert!(length <= GATHER_LIMIT_BYTES);
    let mut gathered = [mem::MaybeUninit::<u8>::uninit(); GATHER_LIMIT_BYTES];
    let start = gathered.as_mut_ptr().cast::<u8>();
    // SAFETY: both slices fit, as asserted, and lie apart from a local array.
    unsafe {
        ptr::copy_nonoverlapping(first.as_ptr(), start, first.len());
        ptr::copy_nonoverlapping(second.as_ptr(), start.add(first.len()), second.len());
    }
    // SAFETY: the first `length` bytes were written above.
    super::retry(|| unsafe { libc::send(fd.as_raw_fd(), start.cast(), length, flags) })
}

/// Most bytes that [`send_gathered`] takes.
pub(crate) const GATHER_LIMIT_BYTES: usize = 2048;

/// `recv(2)`. With `MSG_TRUNC` on a datagram the count is its real length, beyond the buffer too.
pub(crate) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: c_int) -> io::Result<usize> {
    super::retry(|| call_recv(fd, buffer, flags))
}

/// `recvmsg(2)` into several places, one after the other.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn recvmsg(
    fd: BorrowedFd<'_>,
    slices: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> io::Result<usize> {
    let mut message = empty_msghdr();
    // IoSliceMut is laid out as iovec, by its documentation.
    message.msg_iov = slices.as_mut_ptr().cast();
    message.msg_iovlen = slices.len() as _;
    // SAFETY: the header points to `slices`, which are writable and live through the call.
    super::retry(|| unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, flags) })
}

/// `recv(2)`, tried once: a signal handler makes it `Interrupted`.
///
/// For a wait that the socket's own timeout ends. That timeout begins anew with each call, so that
/// signals which come faster would make the wait endless.
pub(crate) fn recv_once(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: c_int) -> io::Result<usize> {
    super::result(call_recv(fd, buffer, flags))
}

#[expect(unsafe_code, reason = "libc call")]
fn call_recv(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: c_int) -> isize {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: `buffer` is writable for its length, and the kernel writes no more than that.
    unsafe { libc::recv(fd.as_raw_fd(), start, length, flags) }
}

/// `accept4(2)`: the new socket does not block and is not inherited, from its first moment.
///
/// The peer's address comes with it: asked later, one that has reset the connection by then has none.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn accept4(fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, SockAddr)> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let accept = |address: *mut SockAddrStorage, length: *mut libc::socklen_t| {
        // SAFETY: `address` has the length that `length` says.
        super::retry(|| unsafe {
            libc::accept4(fd.as_raw_fd(), address.cast(), length, flags) as isize
        })
    };
    // SAFETY: the kernel has written an address and its length.
    let (accepted, peer) = unsafe { SockAddr::try_init(accept) }?;
    let accepted = c_int::try_from(accepted).expect("a descriptor is an int");
    // SAFETY: the descriptor is new, and nobody else knows it.
    Ok((unsafe { OwnedFd::from_raw_fd(accepted) }, peer))
}

/// `ioctl(SIOCOUTQ)`: what the kernel holds of what was sent (TCP: bytes not acknowledged).
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn ioctl_siocoutq(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut held: c_int = 0;
    // SIOCOUTQ is TIOCOUTQ by another name; libc has only that one.
    // SAFETY: this request writes one int, and `held` is one.
    super::retry(|| unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, ptr::from_mut(&mut held)) as isize
    })?;
    Ok(held.try_into().unwrap_or(0))
}

/// `getsockopt(TCP_INFO)`: the state of a TCP connection, as `TCP_ESTABLISHED` and its kin.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn tcp_state(fd: BorrowedFd<'_>) -> io::Result<u8> {
    // `tcpi_state` is the first byte; the kernel copies as much as is asked for.
    let mut state = 0u8;
    let mut length: libc::socklen_t = 1;
    // SAFETY: `state` has the length that is passed.
    super::retry(|| unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            ptr::from_mut(&mut state).cast(),
            &mut length,
        ) as isize
    })?;
    Ok(state)
}

/// `setsockopt(2)` of an int.
pub(super) fn setsockopt_int(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    setsockopt(fd, level, option, &value)
}

/// `setsockopt(2)` of a value that is laid out as the kernel wants it.
#[expect(unsafe_code, reason = "libc call")]
pub(super) fn setsockopt<T: Copy>(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads no more than the length of `value`, which is passed.
    super::retry(|| unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        ) as isize
    })?;
    Ok(())
}

/// `getsockopt(SO_PEERCRED)`: who was at the other end of a Unix socket when it connected or began to
/// listen.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn peercred(fd: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut told = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `told` has the length that is passed.
    super::retry(|| unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            ptr::from_mut(&mut told).cast(),
            &mut length,
        ) as isize
    })?;
    Ok(told)
}

#[expect(
    unsafe_code,
    reason = "libc has no constructor, and padding differs by platform"
)]
pub(super) fn empty_msghdr() -> libc::msghdr {
    // SAFETY: msghdr is numbers and pointers: all zeroes are an empty one.
    unsafe { mem::zeroed() }
}
