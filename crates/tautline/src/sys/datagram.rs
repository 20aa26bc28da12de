//! Datagrams to and from many peers, and the local address that each was sent to.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_int;
use socket2::SockAddr;

pub(crate) use super::control::{Control, LocalEnd};

/// `sendto(2)`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sendto(
    fd: BorrowedFd<'_>,
    payload: &[u8],
    to: SocketAddr,
    flags: c_int,
) -> io::Result<usize> {
    let to = SockAddr::from(to);
    let (bytes, room) = (payload.as_ptr().cast(), payload.len());
    // SAFETY: `payload` is readable for its length, and `to` for its own.
    super::retry(|| unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            bytes,
            room,
            flags,
            to.as_ptr().cast(),
            to.len(),
        )
    })
}

/// `sendmsg(2)` of one datagram that leaves from `from`.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sendmsg_from(
    fd: BorrowedFd<'_>,
    payload: &[u8],
    to: SocketAddr,
    from: LocalEnd,
    flags: c_int,
) -> io::Result<usize> {
    let to = SockAddr::from(to);
    let mut slice = slice_of(payload.as_ptr().cast_mut(), payload.len());
    let mut control = Control::new();
    let mut message = super::socket::empty_msghdr();
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = &mut slice;
    message.msg_iovlen = 1;
    control.push_source(from);
    control.attach_pushed(&mut message);
    // SAFETY: the header points to `to`, `slice` and `control`, which live through the call; the
    // kernel only reads what they hold.
    super::retry(|| unsafe { libc::sendmsg(fd.as_raw_fd(), &message, flags) })
}

/// `recvfrom(2)`. With `MSG_TRUNC` the count is the datagram's real length.
pub(crate) fn recvfrom(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: c_int,
) -> io::Result<(usize, SockAddr)> {
    loop {
        match recvfrom_once(fd, buffer, flags) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// `recvfrom(2)`, tried once: a signal handler makes it `Interrupted`, as for
/// [`recv_once`](super::socket::recv_once).
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn recvfrom_once(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: c_int,
) -> io::Result<(usize, SockAddr)> {
    // SAFETY: `buffer` is writable for its length; `address` and `length` are socket2's storage,
    // which holds any address, and the kernel sets both.
    unsafe {
        SockAddr::try_init(|address, length| {
            super::result(libc::recvfrom(
                fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                flags,
                address.cast(),
                length,
            ))
        })
    }
}

/// `recvmsg(2)` of one datagram and the local address it was sent to, where the kernel tells.
///
/// With `MSG_TRUNC` the count is the datagram's real length.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn recvmsg_to(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &mut Control,
    flags: c_int,
) -> io::Result<(usize, SockAddr, Option<LocalEnd>)> {
    let mut slice = slice_of(buffer.as_mut_ptr(), buffer.len());
    let mut message = super::socket::empty_msghdr();
    message.msg_iov = &mut slice;
    message.msg_iovlen = 1;
    control.attach(&mut message);
    // SAFETY: the header points to `buffer`, `control` and socket2's storage, with their lengths,
    // and they live through the call; the kernel sets the length of the address.
    let (count, from) = unsafe {
        SockAddr::try_init(|address, length| {
            message.msg_name = address.cast();
            message.msg_namelen = *length;
            let count = super::retry(|| libc::recvmsg(fd.as_raw_fd(), &mut message, flags))?;
            *length = message.msg_namelen;
            Ok(count)
        })?
    };
    Ok((count, from, control.told(&message).local))
}

/// `setsockopt(IPPROTO_IP, IP_PKTINFO)`: tell the local address with every IPv4 datagram.
pub(crate) fn set_ip_pktinfo(fd: BorrowedFd<'_>) -> io::Result<()> {
    super::socket::setsockopt_int(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
}

/// `setsockopt(IPPROTO_IPV6, IPV6_RECVPKTINFO)`: the same with every IPv6 datagram.
pub(crate) fn set_ipv6_recvpktinfo(fd: BorrowedFd<'_>) -> io::Result<()> {
    super::socket::setsockopt_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
}

/// `setsockopt(IPPROTO_IP, IP_MULTICAST_IF)` by the interface's number; 0 leaves it to the routes.
pub(crate) fn set_ip_multicast_if(fd: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let nowhere = libc::in_addr { s_addr: 0 };
    let chosen = libc::ip_mreqn {
        imr_multiaddr: nowhere,
        imr_address: nowhere,
        imr_ifindex: c_int::try_from(interface)
            .map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?,
    };
    super::socket::setsockopt(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &chosen)
}

pub(super) fn slice_of(bytes: *mut u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.cast(),
        iov_len: length,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::super::control::CONTROL_BYTES;
    use super::*;

    /// Receives a datagram that brings `IP_PKTINFO`, with only so much room to tell of it.
    fn receive_with_room(room: usize) -> (usize, Option<LocalEnd>) {
        let server = UdpSocket::bind("0.0.0.0:0").unwrap();
        set_ip_pktinfo(server.as_fd()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        client.send_to(b"ask", ("127.0.0.2", port)).unwrap();
        let mut buffer = [0; 16];
        let mut control = Control::with_room(room);
        let received = recvmsg_to(server.as_fd(), &mut buffer, &mut control, 0);
        let (count, from, local) = received.unwrap();
        assert_eq!(from.as_socket(), client.local_addr().ok());
        (count, local)
    }

    #[test]
    fn control_messages_that_are_cut_are_not_believed() {
        let whole = LocalEnd {
            ip: [127, 0, 0, 2].into(),
            interface: super::super::net::if_nametoindex("lo").unwrap(),
        };
        // A header is 16 bytes and in_pktinfo 12: from 28 on it is whole.
        for room in 0..CONTROL_BYTES {
            let expected = (room >= 28).then_some(whole);
            assert_eq!(
                receive_with_room(room),
                (3, expected),
                "{room} bytes of room"
            );
        }
    }

    #[test]
    fn the_source_is_the_one_asked_for() {
        let server = UdpSocket::bind("0.0.0.0:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = client.local_addr().unwrap();
        let from = LocalEnd {
            ip: [127, 0, 0, 7].into(),
            interface: 0,
        };
        sendmsg_from(server.as_fd(), b"answer", to, from, 0).unwrap();
        let (bytes, seen) = client.recv_from(&mut [0; 16]).unwrap();
        assert_eq!((bytes, seen.ip()), (6, from.ip));
    }

    #[test]
    fn a_source_that_is_not_ours_is_an_error() {
        let server = UdpSocket::bind("0.0.0.0:0").unwrap();
        let from = LocalEnd {
            ip: [198, 51, 100, 1].into(),
            interface: 0,
        };
        let to = server.local_addr().unwrap().port();
        let to = SocketAddr::from(([127, 0, 0, 1], to));
        let error = sendmsg_from(server.as_fd(), b"x", to, from, 0).unwrap_err();
        // The second one is older kernels'.
        let expected = [Some(libc::ENETUNREACH), Some(libc::EINVAL)];
        assert!(expected.contains(&error.raw_os_error()), "{error}");
    }
}
