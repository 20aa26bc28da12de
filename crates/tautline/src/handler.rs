//! What the application is told, and in which order.

mod batch;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tautline_session::{FrameFault, IdleSide, Pressure, Tally};

use crate::address::Address;
use crate::error::{Error, Refusal};
use crate::link::Link;
use crate::secured::Secured;

pub use batch::Batched;
pub(crate) use batch::Piece;

/// What happens to a link, told one call at a time on its I/O thread.
///
/// The order is strict: `opened`, then messages, then `closed`, once each for every connection, and
/// `ended` as the last call of all. A link that never opened has only `ended`, after the events of
/// its attempts. One that [reconnects](crate::LinkOptions::reconnect) has several connections, one
/// after the other, each with a generation above the last. Calls of one link
/// never overlap. Data is valid during the call only. A slow call holds up every link of the same
/// [`IoThread`](crate::IoThread); nothing in it may wait, and sends that would have to say
/// [`WouldDeadlock`](crate::SendError::WouldDeadlock).
///
/// A call that panics closes that link with [`Reason::Panicked`]; other links go on.
///
/// A closure `FnMut(&Link, &[u8], Received)` is a handler that cares for messages alone.
pub trait Handler: Send + 'static {
    /// A connection is there and takes messages.
    ///
    /// On a stream what this call sends goes out first: messages that other threads send meanwhile are
    /// queued behind it, and so is what [`OnLoss::Keep`](crate::OnLoss::Keep) carried over. The place for a
    /// login or a subscription.
    fn opened(&mut self, link: &Link, opened: &Opened) {
        let _ = (link, opened);
    }

    /// A message came.
    fn message(&mut self, link: &Link, message: &[u8], received: Received);

    /// Several messages came: only on a link with [`LinkOptions::batch`](crate::LinkOptions::batch).
    ///
    /// Unless a handler does it better, each is given to [`message`](Self::message), up to the end of
    /// the batch or an `abort`. One call is one call: a pause in it takes effect after the batch.
    fn batch(&mut self, link: &Link, batch: &Batched<'_>) {
        for (message, received) in batch.iter() {
            if link.shared().is_aborted() {
                break;
            }
            self.message(link, message, received);
        }
    }

    /// The queue reached high water, or fell to low water again. On and Off alternate strictly, and
    /// Off comes before `closed`.
    fn pressure(&mut self, link: &Link, pressure: Pressure) {
        let _ = (link, pressure);
    }

    /// The connection is over.
    fn closed(&mut self, link: &Link, closed: &Closed) {
        let _ = (link, closed);
    }

    /// The last call: no connection will follow.
    fn ended(&mut self, link: &Link, ended: &Ended) {
        let _ = (link, ended);
    }

    /// Something worth knowing that changes nothing by itself.
    fn event(&mut self, link: &Link, event: &Event) {
        let _ = (link, event);
    }
}

impl<F: FnMut(&Link, &[u8], Received) + Send + 'static> Handler for F {
    fn message(&mut self, link: &Link, message: &[u8], received: Received) {
        self(link, message, received);
    }
}

/// A new connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Opened {
    /// Which life of the link this is, from 1.
    pub generation: u64,
    /// Our own address, where the socket has one.
    pub local: Option<Address>,
    /// The peer's, where it has one: a client of a Unix socket has none.
    pub peer: Option<Address>,
    /// Who the peer is, where the kernel vouches for it: on Unix sockets.
    pub credentials: Option<Credentials>,
    /// What TLS has agreed on, and the peer's certificate; `None` on all other transports.
    pub secured: Option<Secured>,
}

/// Who is at the other end of a Unix socket (`SO_PEERCRED`): the kernel's word, which no peer can forge.
///
/// A client's are those of the moment when it connected, a server's of when it began to listen. A
/// process that passes its socket on, or gives up rights, leaves them as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Credentials {
    /// The process; `None` where it is not visible from our PID namespace. It may have ended since, and
    /// its number been given to another: judge by `uid`.
    pub pid: Option<u32>,
    /// The effective user. One that our user namespace does not know is 65534.
    pub uid: u32,
    /// The effective group, likewise.
    pub gid: u32,
}

impl From<libc::ucred> for Credentials {
    fn from(told: libc::ucred) -> Self {
        Self {
            pid: u32::try_from(told.pid).ok().filter(|pid| *pid != 0),
            uid: told.uid,
            gid: told.gid,
        }
    }
}

/// What is known of a message besides its bytes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Received {
    /// When the read that brought its last byte returned.
    pub at: Instant,
    /// A datagram longer than the receive buffer: the rest is lost.
    pub truncated: bool,
    /// Who sent a datagram, on a link that hears anybody: one to a group or a broadcast address, or an
    /// [`unconnected`](crate::LinkOptions::unconnected) one. `None` on all others: it was the peer.
    pub from: Option<SocketAddr>,
}

/// The end of one connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Closed {
    /// Which life of the link this was.
    pub generation: u64,
    /// Why.
    pub reason: Reason,
    /// What was accepted and not sent.
    pub unsent: Unsent,
}

/// The end of a link: no connection will follow.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// Why.
    pub reason: Reason,
    /// What had been kept for a connection that did not come, and is given up now; see
    /// [`OnLoss::Keep`](crate::OnLoss::Keep).
    pub kept: Tally,
}

/// What was accepted and did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsent {
    /// Given up in our queue.
    pub queued: Tally,
    /// Bytes that the kernel had taken and the peer had not acknowledged when the socket was shut
    /// (`SIOCOUTQ`, see `tcp(7)` and `unix(7)`); `None` where it does not say.
    pub kernel_bytes: Option<u64>,
}

impl Unsent {
    /// Adds another link's. What one kernel does not say is counted as nothing.
    pub(crate) fn add(&mut self, other: Self) {
        self.queued += other.queued;
        self.kernel_bytes = match (self.kernel_bytes, other.kernel_bytes) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
    }
}

/// Why a connection is over, or why a link ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Reason {
    /// It could not be made.
    NotConnected(Error),
    /// The peer ended its stream; what it had sent was delivered.
    PeerEnded,
    /// It broke.
    Lost(Error),
    /// The peer sent something that is no frame.
    BadFrame(FrameFault),
    /// `close` on this side, whole.
    Closed,
    /// `abort` on this side, or the last handle or the server was dropped.
    Aborted,
    /// A callback panicked.
    Panicked,
    /// The server's accept callback refused the peer.
    Refused(Refusal),
    /// Nothing moved for as long as an idle timeout allows.
    Idle(IdleSide),
    /// The peer missed as many heartbeats as it may: its connection may stand, but nobody is there.
    HeartbeatLost,
    /// A peer of a datagram server was silent too long, or made room for another.
    Expired,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(error) | Self::Lost(error) => error.fmt(f),
            Self::PeerEnded => f.write_str("the peer ended its stream"),
            Self::BadFrame(fault) => write!(f, "bad frame: {fault}"),
            Self::Closed => f.write_str("closed on this side"),
            Self::Aborted => f.write_str("aborted on this side"),
            Self::Panicked => f.write_str("a callback panicked"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::Idle(side) => side.fmt(f),
            Self::HeartbeatLost => f.write_str("the peer missed its heartbeats"),
            Self::Expired => f.write_str("the peer was silent too long"),
        }
    }
}

/// Something worth knowing that changes nothing by itself. Each kind is counted in
/// [`LinkStatistics`](crate::LinkStatistics) too.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The peer sent something that is no frame. What becomes of the connection
    /// [`on_bad_frame`](crate::LinkOptions::on_bad_frame) has chosen.
    BadFrame(FrameFault),
    /// The peer's stream ended in the middle of a frame of which so many bytes had come.
    CutFrame {
        /// Bytes of the frame that came.
        bytes: usize,
    },
    /// The network says that a datagram did not arrive (ICMP, see `ip(7)`); the socket lives on.
    Unreachable(io::Error),
    /// The peer ended its stream; ours is still open (`half_open`).
    PeerFinished,
    /// An attempt to connect failed, or the connection was lost, and the link pauses before it tries
    /// (again). `close`, `abort` and the drop of the last handle end it at once.
    Retrying {
        /// Which attempt in a row comes after the pause. It begins again at 1 after a connection that
        /// lasted; see [`Reconnect`](crate::Reconnect).
        attempt: u32,
        /// The pause.
        after: Duration,
        /// Why the last attempt or connection failed.
        reason: Reason,
    },
}
