//! A link without a thread: the caller's own, one blocking call per receive.
//!
//! The fastest request and reply, and what the instrument measures with. There is no queue but one
//! message that the kernel did not take whole.

mod connecting;
mod listener;
mod receiving;
mod sending;

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tautline_session::Call;

use crate::address::Address;
use crate::error::{Error, ErrorKind, RecvError, SendError};
use crate::handler::Credentials;
use crate::options::LinkOptions;
use crate::outlet::Outlet;
use crate::secured::Secured;
use crate::statistics::{ConnectionStatistics, LinkStatistics, SocketBuffers};
use crate::transport::{self, Socket, TlsSetup};

pub use listener::{DirectListener, Newcomer};
pub use sending::Replies;

use receiving::Receiving;

/// A link that one thread owns and drives: `send`, `recv`, nothing in between.
///
/// Where an [`IoThread`](crate::IoThread) queues, this link holds one message that the kernel did not
/// take whole; it goes out with the next calls. While it is there, reliable waits for room and reads
/// meanwhile (up to 1 MiB ahead), so that two ends that both send do not hold each other up;
/// besteffort says `Full`; keeplatest replaces the message if nothing of it is written.
/// `queue_limit_messages` and `half_open` have no use here. Dropping the link closes the socket.
///
/// ```
/// use tautline::{DirectLink, DirectListener, Framing, LinkOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let framed = LinkOptions { framing: Framing::length_prefix(), ..LinkOptions::default() };
/// let mut listener = DirectListener::bind(&"tcp://127.0.0.1:0".parse()?, framed.clone())?;
/// let mut client = DirectLink::connect(&listener.local_address(), framed)?;
/// let mut server = listener.accept(None)?;
///
/// client.send(b"how much?")?;
/// let request = server.request(None)?;
/// assert_eq!(request.message, b"how much?");
/// request.replies.send(b"42")?;
/// assert_eq!(client.recv(None)?, b"42");
/// # Ok(())
/// # }
/// ```
pub struct DirectLink {
    sending: Replies,
    receiving: Receiving,
    connections: ConnectionStatistics,
}

/// A received message, and the way to answer it without copying it first.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The message.
    pub message: &'a [u8],
    /// Where answers go.
    pub replies: &'a mut Replies,
}

/// Ends a [`DirectLink`] from another thread.
#[derive(Debug, Clone)]
pub struct Closer {
    /// Weak: it keeps no device open that its link has let go of.
    outlet: Weak<Outlet>,
    closed: Arc<AtomicBool>,
}

impl DirectLink {
    /// Connects; waits at most `connect_timeout`, and for the resolver where the host is a name; over TLS
    /// also for the handshake, at most `tls.handshake_timeout`.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; or why the peer cannot be reached.
    pub fn connect(address: &Address, options: LinkOptions) -> Result<Self, Error> {
        options.validate(address)?;
        options.validate_peer(address)?;
        options.refuse_reconnect("a DirectLink has no thread; connect a new one")?;
        options.refuse_threads_work()?;
        let setup = TlsSetup::client(address, &options)?;
        let socket = connecting::connect(address, &options)?;
        let place = ("connect to", address);
        let socket = connecting::secure(socket, setup.as_ref(), place, &options, None)?;
        let mut link = Self::new(address, socket, &options)?;
        link.connections.attempts = 1;
        Ok(link)
    }

    /// Takes over a stream socket that somebody else has connected: one that was inherited, or that
    /// needs an option which [`LinkOptions`] does not have. Over TLS it does the handshake, as the side
    /// that connects; `address` is whom it is connected to, and whom the certificate has to be for.
    ///
    /// The socket is used as it is set: options for sockets, such as `tcp_nodelay`, are not set on it.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; an address of datagrams or of a serial line; or why
    /// the handshake failed.
    pub fn over(socket: OwnedFd, address: &Address, options: LinkOptions) -> Result<Self, Error> {
        options.validate(address)?;
        options.validate_peer(address)?;
        options.refuse_reconnect("a DirectLink has no thread; connect a new one")?;
        options.refuse_threads_work()?;
        transport::refuse_unbuilt(address)?;
        let setup = TlsSetup::client(address, &options)?;
        let place = ("connect to", address);
        let socket = match address {
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) => {
                Socket::adopt(socket, address).map_err(|cause| Error::connect(address, cause))?
            }
            Address::Udp { .. } | Address::Serial(_) => {
                let why = "only stream sockets are taken over";
                return Err(Error::because(
                    ErrorKind::InvalidAddress,
                    place.0,
                    address,
                    why,
                ));
            }
        };
        let socket = connecting::secure(socket, setup.as_ref(), place, &options, None)?;
        Self::new(address, socket, &options)
    }

    fn new(address: &Address, socket: Socket, options: &LinkOptions) -> Result<Self, Error> {
        let failed = |cause| Error::io("configure", address, cause);
        socket.set_blocking(true).map_err(failed)?;
        let receiving = Receiving::new(socket.kind().is_datagram(), options);
        let outlet = Arc::new(Outlet::Connected(socket));
        Ok(Self {
            sending: Replies::new(outlet, options.outbound(address)),
            receiving,
            connections: ConnectionStatistics {
                opened: 1,
                ..ConnectionStatistics::default()
            },
        })
    }

    /// Sends one message.
    ///
    /// `Ok`: the kernel has it, or has begun it and the rest goes out with the next calls. With
    /// reliable this waits, without limit, while an earlier message is not wholly taken.
    ///
    /// # Errors
    /// [`SendError`] says what became of it; the message was not accepted. Why a peer is gone is told
    /// by [`recv`](Self::recv).
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.sending.send(message)
    }

    /// Sends one message without waiting.
    ///
    /// # Errors
    /// As [`send`](Self::send), but `Full` where that would wait.
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.sending.send_until(message, Call::Try, None)
    }

    /// Sends one message, waiting at most this long while an earlier one is not wholly taken.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`SendError::TimedOut`].
    pub fn send_timeout(&mut self, message: &[u8], timeout: Duration) -> Result<(), SendError> {
        let deadline = Instant::now().checked_add(timeout);
        self.sending.send_until(message, Call::Within, deadline)
    }

    /// Receives one message; waits until the deadline, or without one for ever. The bytes are valid
    /// until the next call.
    ///
    /// # Errors
    /// [`RecvError`]: not in time, the end of the stream, a broken connection, or a bad frame. ICMP's
    /// word that a datagram did not arrive is counted and is no error.
    pub fn recv(&mut self, deadline: Option<Instant>) -> Result<&[u8], RecvError> {
        self.receiving.recv(&mut self.sending, deadline)
    }

    /// Receives one message as [`recv`](Self::recv) does, with the way to answer while it is in use.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn request(&mut self, deadline: Option<Instant>) -> Result<Request<'_>, RecvError> {
        let message = self.receiving.recv(&mut self.sending, deadline)?;
        let replies = &mut self.sending;
        Ok(Request { message, replies })
    }

    /// Whether the kernel has every byte of what was sent. Else the rest goes out with the next calls,
    /// and whoever waits for [this descriptor](AsFd) himself waits for it to be writable, too.
    pub fn is_drained(&self) -> bool {
        !self.sending.has_rest()
    }

    /// A handle that ends this link from another thread.
    pub fn closer(&self) -> Closer {
        self.sending.closer()
    }

    /// What the link has counted so far. A direct link reads no clock for a receive, so it does not
    /// know how long ago the last one was.
    pub fn statistics(&self) -> LinkStatistics {
        LinkStatistics {
            sending: self.sending.statistics(),
            receiving: self.receiving.statistics(),
            connections: self.connections,
            heartbeat_rtt: None,
            tls: self
                .sending
                .socket()
                .tls_counters()
                .map(|counters| counters.snapshot()),
        }
    }

    /// Times that polling gave way because somebody else wanted the CPU; see
    /// [`spin`](LinkOptions::spin).
    pub const fn spins_given_up(&self) -> u64 {
        self.receiving.spins_given_up()
    }

    /// Our own address, where the socket has one.
    pub fn local_address(&self) -> Option<Address> {
        self.sending.socket().local_address()
    }

    /// The peer's address, where it has one.
    pub fn peer_address(&self) -> Option<Address> {
        self.sending.socket().peer_address()
    }

    /// Who the peer is, where the kernel vouches for it: on Unix sockets.
    pub fn peer_credentials(&self) -> Option<Credentials> {
        self.sending.socket().peer_credentials()
    }

    /// The socket's buffers as granted.
    pub fn socket_buffers(&self) -> Option<SocketBuffers> {
        self.sending.socket().buffers()
    }

    /// Who sent the message received last, on a link that hears anybody: one to a group or a broadcast
    /// address, or an [`unconnected`](LinkOptions::unconnected) one. `None` on all others.
    pub const fn sender(&self) -> Option<SocketAddr> {
        self.receiving.sender()
    }

    /// What TLS has agreed on, and the peer's certificate. `None` on all other transports.
    pub fn secured(&self) -> Option<Secured> {
        self.sending.socket().secured()
    }
}

/// For waiting, in a loop of one's own. What is buffered in the link does not make it readable: receive
/// with a deadline that has passed until that says [`RecvError::TimedOut`].
impl AsFd for DirectLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sending.socket().as_fd()
    }
}

impl fmt::Debug for DirectLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectLink")
            .field("local", &self.local_address())
            .field("peer", &self.peer_address())
            .finish_non_exhaustive()
    }
}

impl Closer {
    /// Ends the link: its `recv` returns [`RecvError::Closed`], its sends [`SendError::Closed`]. Never
    /// blocks; a call that is waiting returns at once. A serial device is free once the link is dropped.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(outlet) = self.outlet.upgrade() {
            outlet.socket().shutdown();
        }
    }
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// The deadline, or the next tick where that is sooner.
fn next_look(deadline: Option<Instant>) -> Instant {
    let tick = Instant::now() + TICK;
    deadline.map_or(tick, |deadline| deadline.min(tick))
}

/// `SO_RCVTIMEO` of a direct link that receives with a deadline, and the pause between two looks at
/// a `Closer` while polling.
const TICK: Duration = Duration::from_millis(100);
