//! Control messages: what travels beside a datagram (cmsg(3)).
//!
//! The local address, as `IP_PKTINFO` (ip(7)) and `IPV6_PKTINFO` (RFC 3542, section 6); and the length of
//! datagrams that the kernel cuts or has joined, as `UDP_SEGMENT` and `UDP_GRO` (udp(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

use libc::c_int;

/// The local end of one datagram: the address it was sent to, or is to leave from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalEnd {
    pub(crate) ip: IpAddr,
    /// The interface's number; 0 leaves it to the routes.
    pub(crate) interface: u32,
}

/// What came with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// The address of ours that it was sent to.
    pub(super) local: Option<LocalEnd>,
    /// The length of the datagrams in it, where the kernel has joined some.
    pub(super) segment_bytes: Option<usize>,
}

/// Room for control messages. It has to be aligned as their header is.
#[repr(align(8))]
pub(crate) struct Control {
    bytes: [u8; CONTROL_BYTES],
    room: usize,
    /// Bytes that were pushed.
    used: usize,
}

impl Control {
    pub(crate) const fn new() -> Self {
        Self::with_room(CONTROL_BYTES)
    }

    /// With less than the usual room, as if the kernel had more to say than we foresaw.
    pub(crate) const fn with_room(room: usize) -> Self {
        assert!(room <= CONTROL_BYTES);
        Self {
            bytes: [0; CONTROL_BYTES],
            room,
            used: 0,
        }
    }

    /// For a message that is to be received: the kernel may write into all of the room.
    pub(super) fn attach(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.bytes.as_mut_ptr().cast();
        message.msg_controllen = self.room as _;
    }

    /// For a message that is sent, with what was pushed; nothing is attached if that is nothing.
    pub(super) fn attach_pushed(&mut self, message: &mut libc::msghdr) {
        if self.used > 0 {
            message.msg_control = self.bytes.as_mut_ptr().cast();
            message.msg_controllen = self.used as _;
        }
    }

    /// The address that the message is to leave from.
    pub(super) fn push_source(&mut self, from: LocalEnd) {
        match from.ip {
            IpAddr::V4(ip) => self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, in_pktinfo(ip)),
            IpAddr::V6(ip) => self.push(
                libc::IPPROTO_IPV6,
                libc::IPV6_PKTINFO,
                in6_pktinfo(ip, from.interface),
            ),
        }
    }

    /// Appends one control message.
    #[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
    pub(super) fn push<T: Copy>(&mut self, level: c_int, kind: c_int, value: T) {
        let length = size_of::<T>() as libc::c_uint;
        // SAFETY: both only compute.
        let (with_header, with_padding) =
            unsafe { (libc::CMSG_LEN(length), libc::CMSG_SPACE(length) as usize) };
        assert!(self.used + with_padding <= self.room);
        // SAFETY: the padded message fits behind the others, by the assertion; the bytes are aligned as
        // a header is, and what was pushed before is padded to that.
        unsafe {
            let header = self.bytes.as_mut_ptr().add(self.used);
            let header = header.cast::<libc::cmsghdr>();
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = with_header as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast(), value);
        }
        self.used += with_padding;
    }

    /// What a received message, which was attached to us, says.
    ///
    /// On a dual-stack socket an IPv4 datagram brings both kinds. IPv4's own is the better one: it
    /// names an address to answer from even for a broadcast.
    #[expect(unsafe_code, reason = "the CMSG macros work on pointers")]
    pub(super) fn told(&self, message: &libc::msghdr) -> Told {
        debug_assert!(ptr::eq(message.msg_control.cast(), self.bytes.as_ptr()));
        let mut told = Told::default();
        let mut told_by_ipv6 = None;
        // SAFETY: the kernel filled `msg_controllen` bytes of our buffer with whole headers, of
        // which only the last one's content may be cut; `read_whole` checks for that.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            while let Some(found) = header.as_ref() {
                match (found.cmsg_level, found.cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        told.local = read_whole(found).map(from_in_pktinfo).or(told.local);
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        told_by_ipv6 = read_whole(found).map(from_in6_pktinfo);
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let segment_bytes = read_whole::<c_int>(found);
                        told.segment_bytes =
                            segment_bytes.and_then(|bytes| usize::try_from(bytes).ok());
                    }
                    _ => {}
                }
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
        told.local = told.local.or(told_by_ipv6);
        told
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

/// The two kinds of local address take 32 and 40 bytes, the length of what was joined 24.
pub(super) const CONTROL_BYTES: usize = 128;
