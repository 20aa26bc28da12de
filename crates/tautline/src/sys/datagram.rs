//! Datagrams to and from many peers, and the local address that each was sent to.
//!
//! The local address travels in control messages, `IP_PKTINFO` (ip(7)) and `IPV6_PKTINFO`
//! (RFC 3542, section 6).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::c_int;
use socket2::SockAddr;

/// The local end of one datagram: the address it was sent to, or is to leave from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalEnd {
    pub(crate) ip: IpAddr,
    /// The interface's number; 0 leaves it to the routes.
    pub(crate) interface: u32,
}

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
    control.attach(&mut message);
    message.msg_controllen = match from.ip {
        IpAddr::V4(ip) => {
            control.write(&message, libc::IPPROTO_IP, libc::IP_PKTINFO, in_pktinfo(ip))
        }
        IpAddr::V6(ip) => control.write(
            &message,
            libc::IPPROTO_IPV6,
            libc::IPV6_PKTINFO,
            in6_pktinfo(ip, from.interface),
        ),
    } as _;
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
    Ok((count, from, control.local_end(&message)))
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

/// Room for control messages. It has to be aligned as their header is.
#[repr(align(8))]
pub(crate) struct Control {
    bytes: [u8; CONTROL_BYTES],
    room: usize,
}

impl Control {
    pub(crate) fn new() -> Self {
        Self::with_room(CONTROL_BYTES)
    }

    /// With less than the usual room, as if the kernel had more to say than we foresaw.
    pub(crate) fn with_room(room: usize) -> Self {
        assert!(room <= CONTROL_BYTES);
        Self {
            bytes: [0; CONTROL_BYTES],
            room,
        }
    }

    fn attach(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.bytes.as_mut_ptr().cast();
        message.msg_controllen = self.room as _;
    }

    /// Writes the one control message of `message`, to which it is attached; returns its length.
    #[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
    fn write<T: Copy>(
        &mut self,
        message: &libc::msghdr,
        level: c_int,
        kind: c_int,
        value: T,
    ) -> usize {
        let length = size_of::<T>() as libc::c_uint;
        // SAFETY: both only compute.
        let (with_header, with_padding) =
            unsafe { (libc::CMSG_LEN(length), libc::CMSG_SPACE(length) as usize) };
        assert!(with_padding <= self.room);
        // SAFETY: `message` points to our aligned bytes, which have room for the padded message by
        // the assertion; so there is a first header, and `value` fits behind it.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = with_header as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast(), value);
        }
        with_padding
    }

    /// What a received message, which was attached to us, says of its local end.
    ///
    /// On a dual-stack socket an IPv4 datagram brings both kinds. IPv4's own is the better one: it
    /// names an address to answer from even for a broadcast.
    #[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
    fn local_end(&self, message: &libc::msghdr) -> Option<LocalEnd> {
        debug_assert!(ptr::eq(message.msg_control.cast(), self.bytes.as_ptr()));
        let mut told_by_ipv6 = None;
        // SAFETY: the kernel filled `msg_controllen` bytes of our buffer with whole headers, of
        // which only the last one's content may be cut; `read_whole` checks for that.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            while let Some(found) = header.as_ref() {
                match (found.cmsg_level, found.cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        if let Some(told) = read_whole(found) {
                            return Some(from_in_pktinfo(told));
                        }
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        told_by_ipv6 = read_whole(found).map(from_in6_pktinfo);
                    }
                    _ => {}
                }
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
        told_by_ipv6
    }
}

/// The content of a control message, unless it was cut.
///
/// # Safety
///
/// `header` is followed by as many bytes as it says, and any bytes are a valid `T`.
#[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
unsafe fn read_whole<T: Copy>(header: &libc::cmsghdr) -> Option<T> {
    // SAFETY: it only computes.
    let whole = unsafe { libc::CMSG_LEN(size_of::<T>() as libc::c_uint) };
    if header.cmsg_len < whole as _ {
        return None;
    }
    // SAFETY: the content is all there, by the check; it may be unaligned.
    Some(unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast()) })
}

fn in_pktinfo(from: Ipv4Addr) -> libc::in_pktinfo {
    libc::in_pktinfo {
        // The routes choose the way, as they would for a connected socket.
        ipi_ifindex: 0,
        ipi_spec_dst: libc::in_addr {
            s_addr: u32::from_ne_bytes(from.octets()),
        },
        ipi_addr: libc::in_addr { s_addr: 0 },
    }
}

fn in6_pktinfo(from: Ipv6Addr, interface: u32) -> libc::in6_pktinfo {
    libc::in6_pktinfo {
        ipi6_addr: libc::in6_addr {
            s6_addr: from.octets(),
        },
        ipi6_ifindex: interface,
    }
}

fn from_in_pktinfo(told: libc::in_pktinfo) -> LocalEnd {
    LocalEnd {
        // Not ipi_addr, which is the datagram's own: nothing can be sent from a broadcast address.
        ip: Ipv4Addr::from(told.ipi_spec_dst.s_addr.to_ne_bytes()).into(),
        interface: u32::try_from(told.ipi_ifindex).unwrap_or(0),
    }
}

fn from_in6_pktinfo(told: libc::in6_pktinfo) -> LocalEnd {
    LocalEnd {
        ip: Ipv6Addr::from(told.ipi6_addr.s6_addr).into(),
        interface: told.ipi6_ifindex,
    }
}

fn slice_of(bytes: *mut u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.cast(),
        iov_len: length,
    }
}

/// One message of each kind takes 32 and 40 bytes.
const CONTROL_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

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
