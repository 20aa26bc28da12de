//! UDP in bulk (udp(7)): many datagrams of one size handed over, or handed out, in one call.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::c_int;

/// `setsockopt(UDP_SEGMENT)`: what is sent in one call leaves as datagrams of so many bytes, the last
/// of them shorter.
pub(crate) fn set_udp_segment(fd: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_udp_option(fd, libc::UDP_SEGMENT, bytes.into())
}

/// `setsockopt(UDP_GRO)`: datagrams that came together are handed out together.
pub(crate) fn set_udp_gro(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_udp_option(fd, libc::UDP_GRO, 1)
}

#[expect(unsafe_code, reason = "libc call")]
fn set_udp_option(fd: BorrowedFd<'_>, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for the borrow, and both options are an int, as passed.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_UDP,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    check(result as isize).map(|_| ())
}

/// `recvmsg(2)`: waits for datagrams. Returns the bytes of all of them and the size of each but the
/// last: of one that came alone, its own.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn recvmsg_segments(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, usize)> {
    let mut control = Control([0; 64]);
    let mut slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: a `msghdr` is pointers and integers; all zero is an empty one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the header points to `slice` and `control`, with their lengths; both live through the
    // call.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    let bytes = check(received)?;
    // SAFETY: the kernel has filled in the message's control bytes.
    let segment_bytes = unsafe { told_segment_bytes(&message) };
    Ok((bytes, segment_bytes.unwrap_or(bytes)))
}

/// The `UDP_GRO` control message: absent where a datagram came alone.
///
/// # Safety
///
/// The kernel has filled in the message's control bytes.
#[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
unsafe fn told_segment_bytes(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel wrote whole headers, and the content is an int, read unaligned.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        let found = header.as_ref()?;
        let whole = libc::CMSG_LEN(size_of::<c_int>() as libc::c_uint);
        let is_told = (found.cmsg_level, found.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO)
            && found.cmsg_len >= whole as _;
        let told = is_told.then(|| libc::CMSG_DATA(header).cast::<c_int>().read_unaligned())?;
        usize::try_from(told).ok().filter(|bytes| *bytes > 0)
    }
}

/// Room for one control message, aligned as its header is.
#[repr(align(8))]
struct Control([u8; 64]);

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
