//! Sockets of five kinds behind one face: how they are made, what they have in common.
//!
//! Everything above asks for a [`Socket`] or a [`Listener`] and never for a file descriptor's
//! family. What only one kind does stands in its own file: [`tcp`], [`uds`], [`udp`]. Nothing here
//! waits, except [`resolve()`] of a name, and what a caller asks to wait.

mod ends;
mod holder;
mod inet;
mod race;
mod resolve;
#[cfg(feature = "serial")]
mod serial;
mod socket;
mod tcp;
#[cfg_attr(not(feature = "tls"), path = "transport/tls/absent.rs")]
mod tls;
mod tty;
mod udp;
mod uds;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use socket2::{Domain, SockAddr, SockRef, Type};

use crate::address::{Address, SerialLine};
use crate::error::{Error, ErrorKind};
use crate::options::{LinkOptions, ServerOptions};
use crate::statistics::SocketBuffers;
use crate::sys;

pub(crate) use ends::Ends;
pub(crate) use inet::plain;
pub(crate) use race::{Race, Standing};
pub(crate) use resolve::{is_literal, resolve};
pub(crate) use socket::{Arrived, PollInterest, PollReady, Socket, Wait};
pub(crate) use tls::{TlsSetup, is_of_tls, is_untrusted};
pub(crate) use udp::{
    DATAGRAM_LIMIT_BYTES, Memberships, Remote, Way, Whom, bind_datagram, is_icmp, reach,
};

/// The five kinds of sockets, a serial line among them: a closed set, so an enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tcp,
    Tls,
    Uds,
    Udp,
    Serial,
}

impl Kind {
    pub(crate) fn of(address: &Address) -> Self {
        match address {
            Address::Tcp { .. } => Self::Tcp,
            Address::Udp { .. } => Self::Udp,
            Address::Uds(_) => Self::Uds,
            Address::Tls { .. } => Self::Tls,
            Address::Serial(_) => Self::Serial,
        }
    }

    /// Whether borders of messages are kept, and an empty read is an empty message.
    pub(crate) fn is_datagram(self) -> bool {
        match self {
            Self::Tcp | Self::Tls | Self::Uds | Self::Serial => false,
            Self::Udp => true,
        }
    }

    /// Whether a receive that does not fill its buffer says that nothing more is there.
    pub(crate) fn tells_drained(self) -> bool {
        match self {
            Self::Tcp | Self::Uds => true,
            // One datagram, one record, or what stands in a terminal's line discipline, at a time.
            Self::Udp | Self::Tls | Self::Serial => false,
        }
    }

    fn socket_type(self) -> Type {
        match self {
            Self::Tcp | Self::Tls | Self::Uds => Type::STREAM,
            Self::Udp => Type::DGRAM,
            Self::Serial => unreachable!("a serial line is opened, not made"),
        }
    }
}

/// Where a name leads: what `connect(2)` and `bind(2)` take.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Inet(SocketAddr),
    Uds(SockAddr),
    Serial(SerialLine),
}

impl Target {
    /// Targets of one family are tried one after the other, of two in turn.
    fn is_same_family(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Inet(one), Self::Inet(other)) => one.is_ipv4() == other.is_ipv4(),
            (Self::Uds(_), Self::Uds(_)) | (Self::Serial(_), Self::Serial(_)) => true,
            (Self::Inet(_) | Self::Uds(_) | Self::Serial(_), _) => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Uds(name) => match uds::address(name) {
                Some(address) => address.fmt(f),
                None => f.write_str("a socket without a name"),
            },
            Self::Serial(line) => Address::Serial(line.clone()).fmt(f),
        }
    }
}

/// How far a connect got at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connecting {
    /// The socket is connected.
    Done,
    /// Wait until it is writable, then ask [`finish_connect`].
    InProgress,
}

/// Starts to connect, with the options applied before the first packet.
///
/// A Unix listener with a full backlog is an error of its own, which [`is_backlog_full`] tells and
/// which a retry can cure.
pub(crate) fn start_connect(
    address: &Address,
    target: &Target,
    options: &LinkOptions,
) -> Result<(Socket, Connecting), Error> {
    let failed = |cause| Error::connect(address, cause);
    let (domain, name) = match target {
        Target::Inet(address) => (Domain::for_address(*address), SockAddr::from(*address)),
        Target::Uds(name) => (Domain::UNIX, name.clone()),
        Target::Serial(line) => return Ok((open_line(address, line)?, Connecting::Done)),
    };
    if let (Target::Inet(to), Kind::Udp) = (target, Kind::of(address)) {
        return Ok((udp::connect(address, *to, options)?, Connecting::Done));
    }
    let socket = Socket::create(Kind::of(address), domain).map_err(failed)?;
    configure(&socket, address, options)?;
    let connecting = match SockRef::from(&socket.as_fd()).connect(&name) {
        Ok(()) => Connecting::Done,
        // Interrupted, a connect goes on by itself, just as one that does not wait.
        Err(error)
            if error.raw_os_error() == Some(libc::EINPROGRESS)
                || error.kind() == io::ErrorKind::Interrupted =>
        {
            Connecting::InProgress
        }
        Err(error) => return Err(failed(error)),
    };
    if connecting == Connecting::Done {
        tcp::refuse_self_connect(&socket).map_err(failed)?;
    }
    Ok((socket, connecting))
}

#[cfg(feature = "serial")]
fn open_line(address: &Address, line: &SerialLine) -> Result<Socket, Error> {
    serial::open(address, line)
}

#[cfg(not(feature = "serial"))]
fn open_line(address: &Address, _: &SerialLine) -> Result<Socket, Error> {
    Err(refuse_unbuilt(address).expect_err("a line is what this build does not speak"))
}

/// After writability: whether the connection stands. `WouldBlock` means not yet.
pub(crate) fn finish_connect(socket: &Socket) -> io::Result<()> {
    if let Some(error) = socket.take_error() {
        return Err(error);
    }
    match SockRef::from(&socket.as_fd()).peer_addr() {
        Ok(_) => tcp::refuse_self_connect(socket),
        // A wake-up without news.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error),
    }
}

/// Whether a Unix listener was there but had no room for one more waiting connection.
pub(crate) fn is_backlog_full(error: &Error) -> bool {
    // Of all kinds only a Unix socket's connect says EAGAIN for this; a busy TCP listener is slow.
    error
        .io_error()
        .is_some_and(|cause| cause.kind() == io::ErrorKind::WouldBlock)
}

/// Refuses what this build does not speak: never another transport in its place.
pub(crate) fn refuse_unbuilt(address: &Address) -> Result<(), Error> {
    let feature = match address {
        Address::Tls { .. } if !cfg!(feature = "tls") => "tls",
        Address::Serial(_) if !cfg!(feature = "serial") => "serial",
        Address::Tcp { .. }
        | Address::Tls { .. }
        | Address::Udp { .. }
        | Address::Uds(_)
        | Address::Serial(_) => return Ok(()),
    };
    Err(Error::because(
        ErrorKind::UnsupportedScheme,
        "use",
        address,
        format!("this program was built without the feature `{feature}` of tautline"),
    ))
}

/// Listens on a stream address.
///
/// A name with several addresses is listened on at the first that can be bound.
pub(crate) fn listen(address: &Address, options: &ServerOptions) -> Result<Listener, Error> {
    match address {
        Address::Tcp { host, port } | Address::Tls { host, port } => {
            tcp::listen(address, (host, *port), options)
        }
        Address::Uds(name) => uds::listen(address, name, options),
        Address::Udp { .. } => Err(Error::because(
            ErrorKind::InvalidAddress,
            "listen on",
            address,
            "udp has no connections",
        )),
        Address::Serial(_) => Err(Error::because(
            ErrorKind::InvalidAddress,
            "listen on",
            address,
            "a serial line has no servers: both ends connect",
        )),
    }
}

/// A listening stream socket.
#[derive(Debug)]
pub(crate) struct Listener {
    address: Address,
    /// Before the socket, for fields are dropped in order: while the socket lives its inode is not
    /// given to another file, so that only our own file can be taken for ours.
    _file: Option<uds::SocketFile>,
    socket: Socket,
    /// What each connection gets by our hand: Unix sockets inherit no buffer sizes.
    buffers: BufferSizes,
}

/// A connection that was waiting.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    /// `None` for a client of a Unix socket without a name, as nearly every one is.
    pub(crate) peer: Option<Address>,
}

/// Buffer sizes that were asked for.
#[derive(Debug, Clone, Copy, Default)]
struct BufferSizes {
    send_bytes: Option<usize>,
    receive_bytes: Option<usize>,
}

impl BufferSizes {
    const fn asked(options: &LinkOptions) -> Self {
        Self {
            send_bytes: options.send_buffer_bytes,
            receive_bytes: options.receive_buffer_bytes,
        }
    }

    /// Sets those that the listening socket was granted.
    fn set(self, socket: &Socket) -> io::Result<()> {
        let fd = socket.as_fd();
        let socket = SockRef::from(&fd);
        if let Some(bytes) = self.send_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        Ok(())
    }
}

impl Listener {
    /// The next waiting connection, or `WouldBlock`.
    ///
    /// Connections that died while they waited are passed over. Out of descriptors or memory is an
    /// error that [`is_shortage`] tells: back off, the connection waits on.
    pub(crate) fn accept(&self) -> io::Result<Accepted> {
        loop {
            match sys::socket::accept4(self.as_fd()) {
                Ok((fd, peer)) => {
                    let socket = Socket::new(fd, self.kind());
                    self.buffers.set(&socket)?;
                    let peer = socket.to_address(&peer);
                    return Ok(Accepted { socket, peer });
                }
                Err(error) if died_while_waiting(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.socket.kind()
    }

    pub(crate) fn buffers(&self) -> Option<SocketBuffers> {
        self.socket.buffers()
    }

    /// The address in use: with the port that the kernel chose.
    pub(crate) fn local_address(&self) -> Address {
        self.address.clone()
    }

    pub(crate) fn wait_ready(
        &self,
        interest: PollInterest,
        deadline: Option<Instant>,
    ) -> io::Result<PollReady> {
        self.socket.wait_ready(interest, deadline)
    }
}

/// The options that a socket has to have before it connects or listens.
fn configure(socket: &Socket, address: &Address, options: &LinkOptions) -> Result<(), Error> {
    set_buffers(socket, address, options)?;
    match socket.kind() {
        Kind::Tcp | Kind::Tls => tcp::configure(socket, options)
            .map_err(|cause| Error::io("set the options of", address, cause)),
        Kind::Uds | Kind::Udp | Kind::Serial => Ok(()),
    }
}

/// Sets what was asked for and reads it back: the kernel clamps in silence, we do not.
fn set_buffers(socket: &Socket, address: &Address, options: &LinkOptions) -> Result<(), Error> {
    let fd = socket.as_fd();
    let socket = SockRef::from(&fd);
    let failed = |cause| Error::io("set the buffers of", address, cause);
    if let Some(asked) = options.send_buffer_bytes {
        socket.set_send_buffer_size(asked).map_err(failed)?;
        let granted = socket.send_buffer_size().map_err(failed)?;
        check_buffer("send_buffer_bytes", "net.core.wmem_max", asked, granted)?;
    }
    if let Some(asked) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(asked).map_err(failed)?;
        let granted = socket.recv_buffer_size().map_err(failed)?;
        check_buffer("receive_buffer_bytes", "net.core.rmem_max", asked, granted)?;
    }
    Ok(())
}

/// The kernel reports twice what it grants (socket(7)).
fn check_buffer(
    option: &'static str,
    limit: &str,
    asked: usize,
    reported: usize,
) -> Result<(), Error> {
    let granted = reported / 2;
    if granted < asked {
        let why = format!("the system grants {granted} of {asked}; its limit is {limit}");
        return Err(Error::option(option, why));
    }
    if granted > asked {
        let why = format!("{asked} is less than the system's least, {granted}");
        return Err(Error::option(option, why));
    }
    Ok(())
}

/// Out of descriptors or memory: not the connection's fault, and it passes.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// No room at the moment, in the socket or in the kernel: try again later.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || is_shortage(error)
}

/// Errors of the new connection that accept(2) hands to the listener: treat as "not this one".
fn died_while_waiting(error: &io::Error) -> bool {
    // EOPNOTSUPP, which the man page lists too, is also "not a listener": that would never end.
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::ENETUNREACH
        )
    )
}

/// Most connections that wait to be accepted; the kernel caps it at net.core.somaxconn.
const LISTEN_BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests;
