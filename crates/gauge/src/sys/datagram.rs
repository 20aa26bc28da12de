//! Datagrams that are answered from the address they were sent to.
//!
//! Where a socket is bound to every address, the kernel tells with each datagram which one was asked
//! (`IP_PKTINFO`, ip(7); `IPV6_PKTINFO`, RFC 3542 section 6). The same control message, sent along with
//! the answer, makes it leave from there.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use std::time::Duration;

use libc::c_int;
use socket2::SockAddr;

/// Whom a datagram came from, and which address of ours was asked.
#[derive(Clone)]
pub(crate) struct Origin {
    source: SockAddr,
    control: Control,
    control_bytes: usize,
}

impl Origin {
    /// Whom it came from, as the kernel writes it.
    pub(crate) fn source(&self) -> Option<SocketAddr> {
        self.source.as_socket()
    }
}

/// Room for one control message of either kind, aligned as its header is.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; 64]);

/// `setsockopt(IP_PKTINFO)` or `setsockopt(IPV6_RECVPKTINFO)`: tell the local address with every
/// datagram. On a dual-stack socket IPv6's tells IPv4's too, mapped.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn tell_local_address(fd: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    let (level, option) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    let on: c_int = 1;
    // SAFETY: the descriptor is open for the borrow, and both options are an int, as passed.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    check(result as isize).map(|_| ())
}

/// `recvmsg(2)` of one datagram; what does not fit is cut. `wait` blocks until one comes.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn recvmsg(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    wait: bool,
) -> io::Result<(usize, Origin)> {
    let mut control = Control([0; 64]);
    let mut slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    let mut control_bytes = 0;
    // SAFETY: the header points to `slice`, `control` and socket2's storage, with their lengths; they
    // live through the call, and the kernel sets the length of the address.
    let (count, source) = unsafe {
        SockAddr::try_init(|address, length| {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_name = address.cast();
            message.msg_namelen = *length;
            message.msg_iov = &raw mut slice;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = control.0.len() as _;
            let count = retry(|| libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags))?;
            *length = message.msg_namelen;
            control_bytes = keep_local_end(&message);
            Ok(count)
        })?
    };
    let origin = Origin {
        source,
        control,
        control_bytes,
    };
    Ok((count, origin))
}

/// `sendmsg(2)` of an answer to `origin`, from the address that it asked. Never waits.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sendmsg(fd: BorrowedFd<'_>, payload: &[u8], origin: &Origin) -> io::Result<usize> {
    let mut slice = libc::iovec {
        iov_base: payload.as_ptr().cast_mut().cast(),
        iov_len: payload.len(),
    };
    // SAFETY: a `msghdr` is pointers and integers; all zero is an empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = origin.source.as_ptr().cast_mut().cast();
    message.msg_namelen = origin.source.len();
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    if origin.control_bytes > 0 {
        message.msg_control = origin.control.0.as_ptr().cast_mut().cast();
        message.msg_controllen = origin.control_bytes as _;
    }
    // SAFETY: the header points to the payload and to what `origin` owns, with their lengths; they live
    // through the call, in which the kernel only reads them.
    retry(|| unsafe {
        libc::sendmsg(
            fd.as_raw_fd(),
            &raw const message,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    })
}

/// `ppoll(2)`: waits until something can be read, at most this long. An interruption ends it early.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: one `pollfd` is passed and announced, and both it and the timeout live for the call.
    let result = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, ptr::null()) };
    match check(result as isize) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes the received control message fit to be sent: its length, or 0 if it says no local address.
///
/// The interface is left to the routes, as it is for a connected socket, unless the address is
/// link-local and would be none without it.
///
/// # Safety
///
/// The kernel has filled in the message's control bytes, which are writable.
#[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
unsafe fn keep_local_end(message: &libc::msghdr) -> usize {
    // SAFETY: the kernel wrote whole headers; the content is touched only if its length is that of the
    // struct, and unaligned.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        let Some(found) = header.as_ref() else {
            return 0;
        };
        let content = libc::CMSG_DATA(header);
        match (found.cmsg_level, found.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => rewritten(
                found,
                |told: &mut libc::in_pktinfo| told.ipi_ifindex = 0,
                content,
            ),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => rewritten(
                found,
                |told: &mut libc::in6_pktinfo| {
                    let link_local = told.ipi6_addr.s6_addr[0] == 0xfe
                        && told.ipi6_addr.s6_addr[1] & 0xc0 == 0x80;
                    if !link_local {
                        told.ipi6_ifindex = 0;
                    }
                },
                content,
            ),
            _ => 0,
        }
    }
}

/// Changes the content of a control message; returns its padded length, or 0 if it is cut.
///
/// # Safety
///
/// `content` is that of `header`, as many writable bytes as that says, and any bytes are a valid `T`.
#[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
unsafe fn rewritten<T: Copy>(
    header: &libc::cmsghdr,
    change: impl FnOnce(&mut T),
    content: *mut u8,
) -> usize {
    let length = size_of::<T>() as libc::c_uint;
    // SAFETY: both only compute.
    let (whole, padded) = unsafe { (libc::CMSG_LEN(length), libc::CMSG_SPACE(length)) };
    if header.cmsg_len < whole as _ {
        return 0;
    }
    // SAFETY: the content is all there, by the check.
    unsafe {
        let mut told: T = ptr::read_unaligned(content.cast());
        change(&mut told);
        ptr::write_unaligned(content.cast(), told);
    }
    padded as usize
}

/// Calls again while a signal interrupts.
fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
