//! Many datagrams a call: `sendmmsg(2)` and `recvmmsg(2)`, and what lets the kernel cut one buffer into
//! datagrams of equal length, or join such ones again: `UDP_SEGMENT` and `UDP_GRO` (udp(7)).

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::c_int;
use socket2::SockAddr;

use super::control::{Control, LocalEnd, Told};
use super::datagram::slice_of;
use super::socket::{empty_msghdr, setsockopt_int};

/// A datagram to send, or several of equal length that lie side by side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) payload: &'a [u8],
    /// The length of each but the last, where the kernel is to cut.
    pub(crate) segment_bytes: Option<u16>,
    /// Where to; `None` for where the socket is connected to.
    pub(crate) to: Option<SocketAddr>,
    /// Where from; `None` leaves it to the routes.
    pub(crate) from: Option<LocalEnd>,
}

impl Outgoing<'_> {
    /// Nothing, to where the socket is connected to.
    pub(crate) const NONE: Self = Self {
        payload: &[],
        segment_bytes: None,
        to: None,
        from: None,
    };
}

/// `sendmmsg(2)`: how many of the messages the kernel took, from the first on. An error is the first's.
///
/// # Panics
/// With more than [`OUTGOING_LIMIT`].
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn sendmmsg(
    fd: BorrowedFd<'_>,
    outgoing: &[Outgoing<'_>],
    flags: c_int,
) -> io::Result<usize> {
    assert!(outgoing.len() <= OUTGOING_LIMIT);
    let mut names = [const { None::<SockAddr> }; OUTGOING_LIMIT];
    let mut slices = [const { MaybeUninit::<libc::iovec>::uninit() }; OUTGOING_LIMIT];
    let mut controls = [const { Control::new() }; OUTGOING_LIMIT];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; OUTGOING_LIMIT];
    for (index, message) in outgoing.iter().enumerate() {
        let mut header = empty_msghdr();
        if let Some(to) = message.to {
            let name = names[index].insert(SockAddr::from(to));
            header.msg_name = name.as_ptr().cast_mut().cast();
            header.msg_namelen = name.len();
        }
        let payload = message.payload;
        let slice = slice_of(payload.as_ptr().cast_mut(), payload.len());
        header.msg_iov = slices[index].write(slice);
        header.msg_iovlen = 1;
        let control = &mut controls[index];
        if let Some(from) = message.from {
            control.push_source(from);
        }
        if let Some(segment_bytes) = message.segment_bytes {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment_bytes);
        }
        control.attach_pushed(&mut header);
        headers[index].write(libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        });
    }
    let count = outgoing.len() as libc::c_uint;
    // SAFETY: the first `count` headers were written above; they point to names, slices and controls
    // that live through the call, and to payloads that the kernel only reads.
    super::retry(|| unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count,
            flags as _,
        ) as isize
    })
}

/// Whether the kernel knows `UDP_SEGMENT`. One that does not would take it for nothing, and send all in
/// one datagram.
#[expect(unsafe_code, reason = "libc call")]
pub(crate) fn knows_udp_segment(fd: BorrowedFd<'_>) -> bool {
    let mut segment_bytes: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the option is an int, and `segment_bytes` one of the length that is passed.
    let told = super::retry(|| unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            ptr::from_mut(&mut segment_bytes).cast(),
            &mut length,
        ) as isize
    });
    told.is_ok()
}

/// `setsockopt(SOL_UDP, UDP_GRO)`: datagrams of equal length that came together may be received as one,
/// with their length told. Nothing may be received into less room than [`JOINED_LIMIT_BYTES`] then.
pub(crate) fn set_udp_gro(fd: BorrowedFd<'_>) -> io::Result<()> {
    setsockopt_int(fd, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Room for several datagrams, and what the last call brought.
pub(crate) struct Mailbag {
    room_bytes: usize,
    /// One room behind the other. The kernel gives memory to those alone that are ever filled.
    rooms: Vec<u8>,
    arrivals: Vec<Arrival>,
}

/// What is known of what fills one room.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    /// Beyond the room too.
    whole_bytes: usize,
    from: Option<SocketAddr>,
    local: Option<LocalEnd>,
    segment_bytes: Option<usize>,
}

/// One datagram, or several of equal length but the last, which may be shorter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) payload: &'a [u8],
    /// It was longer than its room, and the rest is gone.
    pub(crate) truncated: bool,
    /// Whom it is from, where that was asked.
    pub(crate) from: Option<SocketAddr>,
    /// The address of ours that it was sent to, where the kernel tells.
    pub(crate) local: Option<LocalEnd>,
    segment_bytes: usize,
}

impl<'a> Incoming<'a> {
    /// How many datagrams it is.
    pub(crate) fn count(self) -> usize {
        self.payload.len().div_ceil(self.segment_bytes).max(1)
    }

    /// Each datagram, in order; an empty one is one.
    #[inline]
    pub(crate) fn each(self) -> impl Iterator<Item = &'a [u8]> {
        let empty = self.payload.is_empty().then_some(self.payload);
        empty
            .into_iter()
            .chain(self.payload.chunks(self.segment_bytes))
    }
}

/// What a receive has to tell besides the bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks {
    /// Whom each is from.
    pub(crate) names: bool,
    /// Local addresses, or the length of what was joined: whatever the socket was set to tell.
    pub(crate) control: bool,
}

impl Mailbag {
    pub(crate) fn new(room_bytes: usize) -> Self {
        Self {
            room_bytes,
            rooms: vec![0; room_bytes * INCOMING_LIMIT],
            arrivals: Vec::with_capacity(INCOMING_LIMIT),
        }
    }

    /// `recvmmsg(2)`: replaces what is here with what is there, `most` messages at most, and returns how
    /// many came. An error is that of the first.
    #[expect(unsafe_code, reason = "libc call")]
    pub(crate) fn recvmmsg(
        &mut self,
        fd: BorrowedFd<'_>,
        most: usize,
        asks: Asks,
        flags: c_int,
    ) -> io::Result<usize> {
        self.arrivals.clear();
        let most = most.min(INCOMING_LIMIT);
        let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; INCOMING_LIMIT];
        let mut slices = [const { MaybeUninit::<libc::iovec>::uninit() }; INCOMING_LIMIT];
        let mut controls = [const { Control::new() }; INCOMING_LIMIT];
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; INCOMING_LIMIT];
        for (index, room) in self
            .rooms
            .chunks_exact_mut(self.room_bytes)
            .take(most)
            .enumerate()
        {
            let mut header = empty_msghdr();
            if asks.names {
                header.msg_name = names[index].as_mut_ptr().cast();
                header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            }
            header.msg_iov = slices[index].write(slice_of(room.as_mut_ptr(), room.len()));
            header.msg_iovlen = 1;
            if asks.control {
                controls[index].attach(&mut header);
            }
            headers[index].write(libc::mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            });
        }
        let flags = (flags | libc::MSG_TRUNC) as _;
        // SAFETY: the first `most` headers were written above; they point to names, slices and controls
        // that live through the call, and to rooms of the lengths that are passed. A null timeout is none.
        let came = super::retry(|| unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                headers.as_mut_ptr().cast(),
                most as libc::c_uint,
                flags,
                ptr::null_mut(),
            ) as isize
        })?;
        for index in 0..came {
            // SAFETY: written above; the kernel has set its lengths.
            let header = unsafe { headers[index].assume_init_ref() };
            let from = asks.names.then(|| {
                // SAFETY: the kernel wrote an address of this length into the storage, or none.
                unsafe { read_name(&names[index], header.msg_hdr.msg_namelen) }
            });
            let told = if asks.control {
                controls[index].told(&header.msg_hdr)
            } else {
                Told::default()
            };
            self.arrivals.push(Arrival {
                whole_bytes: header.msg_len as usize,
                from: from.flatten(),
                local: told.local,
                segment_bytes: told.segment_bytes,
            });
        }
        Ok(came)
    }

    /// What the last call brought, in order.
    pub(crate) fn incoming(&self) -> impl Iterator<Item = Incoming<'_>> {
        let rooms = self.rooms.chunks_exact(self.room_bytes);
        self.arrivals.iter().zip(rooms).map(|(arrival, room)| {
            let bytes = arrival.whole_bytes.min(room.len());
            Incoming {
                payload: &room[..bytes],
                truncated: arrival.whole_bytes > room.len(),
                from: arrival.from,
                local: arrival.local,
                // The kernel says no length where it joined nothing, and no sane one is zero.
                segment_bytes: arrival
                    .segment_bytes
                    .filter(|&bytes| bytes > 0)
                    .unwrap_or(usize::MAX),
            }
        })
    }
}

/// An internet address that the kernel wrote; `None` for any other, or none.
///
/// # Safety
///
/// `length` bytes of `storage` are written.
#[expect(unsafe_code, reason = "reads what the kernel wrote")]
unsafe fn read_name(
    storage: &MaybeUninit<libc::sockaddr_storage>,
    length: libc::socklen_t,
) -> Option<SocketAddr> {
    let name = storage.as_ptr();
    if (length as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: the family stands at the start of what is written, by the check.
    let family = c_int::from(unsafe { (*name.cast::<libc::sockaddr>()).sa_family });
    match family {
        libc::AF_INET => {
            // SAFETY: as long as an IPv4 address, by the check, and aligned for any.
            let name = unsafe { &*name.cast::<libc::sockaddr_in>() };
            let ip = name.sin_addr.s_addr.to_ne_bytes();
            Some(SocketAddr::from((ip, u16::from_be(name.sin_port))))
        }
        libc::AF_INET6 if length as usize >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as long as an IPv6 address, by the check, and aligned for any.
            let name = unsafe { &*name.cast::<libc::sockaddr_in6>() };
            Some(
                std::net::SocketAddrV6::new(
                    name.sin6_addr.s6_addr.into(),
                    u16::from_be(name.sin6_port),
                    name.sin6_flowinfo,
                    name.sin6_scope_id,
                )
                .into(),
            )
        }
        _ => None,
    }
}

/// Messages of one [`sendmmsg`].
pub(crate) const OUTGOING_LIMIT: usize = 16;
/// Messages of one [`Mailbag::recvmmsg`].
pub(crate) const INCOMING_LIMIT: usize = 8;
/// The kernel joins no more than fits one packet.
pub(crate) const JOINED_LIMIT_BYTES: usize = 65_536;
