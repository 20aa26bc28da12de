//! Many datagrams a call, and what this socket lets the kernel do by itself: cut one buffer into
//! datagrams of equal length (`UDP_SEGMENT`), and join those that came (`UDP_GRO`). Both are tried, and
//! what is refused is remembered.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tautline_session::{PeerId, Run};

use super::{Remote, is_icmp};
use crate::channel::RunsWritten;
use crate::sys::bulk::{self, Asks, JOINED_LIMIT_BYTES, Mailbag, OUTGOING_LIMIT, Outgoing};
use crate::sys::datagram::LocalEnd;
use crate::transport::Socket;

/// What the kernel does with several datagrams at once, as far as we know by now.
#[derive(Debug)]
pub(in crate::transport) struct Bulk {
    /// The longest datagrams that it cuts; [`UNKNOWN`] before it was asked.
    cut_limit_bytes: AtomicU32,
    /// It joins those that came.
    joins: AtomicBool,
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            cut_limit_bytes: AtomicU32::new(UNKNOWN),
            joins: AtomicBool::new(false),
        }
    }
}

impl Bulk {
    fn cuts(&self, fd: BorrowedFd<'_>, segment_bytes: usize) -> bool {
        let mut limit_bytes = self.cut_limit_bytes.load(Ordering::Relaxed);
        if limit_bytes == UNKNOWN {
            limit_bytes = if bulk::knows_udp_segment(fd) {
                u32::from(u16::MAX)
            } else {
                0
            };
            self.cut_limit_bytes.store(limit_bytes, Ordering::Relaxed);
        }
        segment_bytes as u32 <= limit_bytes
    }

    /// Whether the error says that the kernel would not cut; then datagrams as long as these are not
    /// given to it again.
    fn will_not_cut(&self, segment_bytes: u16, error: &io::Error) -> bool {
        let limit_bytes = match error.raw_os_error() {
            // The way leads through something that leaves checksums to us.
            Some(libc::EIO | libc::EOPNOTSUPP | libc::ENOPROTOOPT) => 0,
            // Longer than a packet on the way; the second one is older kernels'.
            Some(libc::EMSGSIZE | libc::EINVAL) => u32::from(segment_bytes) - 1,
            _ => return false,
        };
        self.cut_limit_bytes
            .fetch_min(limit_bytes, Ordering::Relaxed);
        true
    }
}

/// Where a datagram goes, and from which of our addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    to: Option<SocketAddr>,
    from: Option<LocalEnd>,
}

impl Way {
    pub(crate) fn to(remote: &Remote) -> Self {
        Self {
            to: Some(remote.address),
            from: remote.local.map(|ip| LocalEnd {
                ip,
                interface: remote.interface,
            }),
        }
    }
}

/// What goes into one call.
struct Batch<'a> {
    outgoing: [Outgoing<'a>; OUTGOING_LIMIT],
    /// How many datagrams are done with when the message at this place has gone.
    datagrams: [usize; OUTGOING_LIMIT],
    count: usize,
    /// Those before the first message are for nobody.
    for_nobody: usize,
}

impl Socket {
    /// Where this socket sends by itself.
    pub(crate) fn own_way(&self) -> Way {
        Way {
            to: self.target(),
            from: None,
        }
    }

    /// Sends as many of these as go into one call, from the first on. Never waits. What `way` knows
    /// no way for is for nobody any more, as if it were sent and lost.
    pub(crate) fn send_runs(
        &self,
        runs: &[Run<'_>],
        way: impl Fn(PeerId) -> Option<Way>,
    ) -> RunsWritten {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let (mut calls, mut again) = (0, true);
        loop {
            let batch = self.batch(runs, &way);
            let mut written = RunsWritten {
                datagrams: batch.for_nobody,
                calls,
                error: None,
            };
            let outgoing = &batch.outgoing[..batch.count];
            let Some(first) = outgoing.first() else {
                return written;
            };
            calls += 1;
            written.calls = calls;
            match bulk::sendmmsg(self.as_fd(), outgoing, flags) {
                Ok(count) => {
                    written.datagrams += batch.datagrams[..count].iter().sum::<usize>();
                    return written;
                }
                // ICMP's word on an earlier datagram, handed to whoever calls next (`udp(7)`); the
                // driver hears of it by itself. This one has not been tried yet.
                Err(error) if is_icmp(&error) && again => again = false,
                Err(error) => {
                    let cut = first.segment_bytes;
                    if !cut.is_some_and(|bytes| self.bulk().will_not_cut(bytes, &error)) {
                        written.error = Some(error);
                        return written;
                    }
                    again = true;
                }
            }
        }
    }

    fn batch<'a>(&self, runs: &[Run<'a>], way: &impl Fn(PeerId) -> Option<Way>) -> Batch<'a> {
        let mut batch = Batch {
            outgoing: [Outgoing::NONE; OUTGOING_LIMIT],
            datagrams: [0; OUTGOING_LIMIT],
            count: 0,
            for_nobody: 0,
        };
        for run in runs {
            let Some(way) = way(run.peer) else {
                match batch.count {
                    0 => batch.for_nobody += run.datagrams,
                    count => batch.datagrams[count - 1] += run.datagrams,
                }
                continue;
            };
            let whole = run.datagrams == 1 || self.bulk().cuts(self.as_fd(), run.segment_bytes);
            let added = if whole {
                let cut = (run.datagrams > 1).then_some(run.segment_bytes as u16);
                batch.add(run.bytes, cut, run.datagrams, way)
            } else {
                run.each().all(|payload| batch.add(payload, None, 1, way))
            };
            if !added {
                break;
            }
        }
        batch
    }

    /// Has the kernel join datagrams of equal length that come together, where it can and there is room
    /// for what comes of that.
    pub(crate) fn join_datagrams(&self, room_bytes: usize) {
        let joins = room_bytes >= JOINED_LIMIT_BYTES && bulk::set_udp_gro(self.as_fd()).is_ok();
        self.bulk().joins.store(joins, Ordering::Relaxed);
    }

    /// Receives what is there, so many messages at most: fewer say that no more were there. Never waits.
    /// From `anybody`, or from the peer that the socket is connected to.
    pub(crate) fn recv_many(
        &self,
        mail: &mut Mailbag,
        most: usize,
        anybody: bool,
    ) -> io::Result<usize> {
        let asks = Asks {
            names: anybody || self.target().is_some(),
            control: self.tells_local_end() || self.bulk().joins.load(Ordering::Relaxed),
        };
        mail.recvmmsg(self.as_fd(), most, asks, libc::MSG_DONTWAIT)
    }
}

impl<'a> Batch<'a> {
    /// False when there is no room.
    fn add(&mut self, payload: &'a [u8], cut: Option<u16>, datagrams: usize, way: Way) -> bool {
        let Some(place) = self.outgoing.get_mut(self.count) else {
            return false;
        };
        *place = Outgoing {
            payload,
            segment_bytes: cut,
            to: way.to,
            from: way.from,
        };
        self.datagrams[self.count] = datagrams;
        self.count += 1;
        true
    }
}

const UNKNOWN: u32 = u32::MAX;
