//! What carries the pings of one connection: a raw socket, or a direct link where there is more between
//! us and the wire than a system call: the records of TLS, the frames of a serial line.
//!
//! A link is asked what a socket is asked, in the same terms: bytes taken, bytes come, `WouldBlock`.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::{Address, DirectLink, ErrorKind, Framing, LinkOptions, RecvError, SendError, Tls};

use super::handshake::QUESTION_LIMIT;
use super::socket::Targets;
use super::{PingError, SocketPlan, Stop};
use crate::handshake::direct::DirectLine;
use crate::handshake::session::SessionLine;
use crate::handshake::socket::SocketLine;
use crate::handshake::{self, Agreed};
use crate::line;
use crate::plan::Transport;
use crate::report::ping::Path;
use crate::report::{Medium, TlsRecord};
use crate::secured::in_options;
use crate::wire::{Counts, Hello};

/// A connection, without what is known of its pings.
#[derive(Debug)]
pub(crate) enum Carrier {
    Socket(Socket),
    Link(Box<Linked>),
}

/// A direct link, and what a flow wants of it.
#[derive(Debug)]
pub(crate) struct Linked {
    link: DirectLink,
    /// The socket under it, where there is one: how it is set, and what TCP knows.
    socket: Option<Socket>,
    /// Each message is a frame.
    framed: bool,
    /// How long a call waits; zero in an event loop.
    wait: Duration,
    /// Before a question is asked again.
    patience: Duration,
    /// Bad frames that were told already.
    faults: u64,
}

/// A connection, and what is known of the way.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) carrier: Carrier,
    pub(crate) path: Path,
    pub(crate) medium: Medium,
}

impl Carrier {
    /// Connects, and over TLS shakes hands; on a line it opens the port.
    pub(crate) fn open(
        targets: &Targets,
        (sockets, tls): (&SocketPlan, &Tls),
        payload_bytes: usize,
        deadline: Instant,
        stop: &Stop<'_>,
    ) -> Result<Opening, PingError> {
        let address = targets.address();
        if let Address::Serial(asked) = address {
            return open_line(address, asked, payload_bytes);
        }
        let (socket, path) = targets.connect(sockets, deadline, stop)?;
        let medium = Medium::default();
        if !matches!(address, Address::Tls { .. }) {
            let carrier = Self::Socket(socket);
            return Ok(Opening {
                carrier,
                path,
                medium,
            });
        }
        let failed = |cause: io::Error| PingError::setup(format!("connect to {address}: {cause}"));
        let options = LinkOptions {
            tls: tls.clone(),
            ..LinkOptions::default()
        };
        let below = socket.try_clone().map_err(failed)?;
        let link = DirectLink::over(below.into(), address, options)
            .map_err(|error| in_words(address, &error))?;
        let handshake_time = link.statistics().tls.map(|tls| tls.handshake_time);
        let tls = link
            .secured()
            .map(|secured| TlsRecord::of_client(&secured, tls.verification, handshake_time));
        let linked = Linked::new(link, Some(socket), false, handshake::AGAIN);
        Ok(Opening {
            carrier: Self::Link(Box::new(linked)),
            path,
            medium: Medium { tls, ..medium },
        })
    }

    /// The socket that it is, or that it is over.
    pub(crate) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Link(linked) => linked.socket.as_ref(),
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) => socket.as_fd(),
            Self::Link(linked) => linked.link.as_fd(),
        }
    }

    /// Makes its calls wait, at most so long.
    pub(crate) fn wait_at_most(&mut self, tick: Duration) -> io::Result<()> {
        match self {
            Self::Socket(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_read_timeout(Some(tick))?;
                socket.set_write_timeout(Some(tick))
            }
            Self::Link(linked) => {
                // A wait of a tenth of a second and more is one call for a direct link, a shorter one
                // is two.
                linked.wait = if tick >= ONE_CALL {
                    tick + MARGIN
                } else {
                    tick
                };
                Ok(())
            }
        }
    }

    /// Makes its calls return at once.
    pub(crate) fn never_wait(&mut self) -> io::Result<()> {
        match self {
            Self::Socket(socket) => socket.set_nonblocking(true),
            Self::Link(linked) => {
                linked.wait = Duration::ZERO;
                Ok(())
            }
        }
    }

    /// Sends some of the bytes, from the first on; a frame whole or not at all.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => socket.send(bytes),
            Self::Link(linked) => linked.send(bytes),
        }
    }

    /// Whether the kernel has every byte that [`send`](Self::send) took. Else a link writes the rest with
    /// its next calls.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Link(linked) => linked.link.is_drained(),
        }
    }

    /// Puts what has come behind the first `from` bytes of the buffer: up to `until`, or all of it from a
    /// link, which may make the buffer longer.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        buffer: &mut Vec<u8>,
        from: usize,
        until: usize,
    ) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => (&mut &*socket).read(&mut buffer[from..until]),
            Self::Link(linked) => linked.receive(buffer, from),
        }
    }

    /// Bad frames since the last time: each may have been a reply.
    #[inline]
    pub(crate) fn new_faults(&mut self) -> u64 {
        match self {
            Self::Socket(_) => 0,
            Self::Link(linked) if !linked.framed => 0,
            Self::Link(linked) => {
                let faults = linked.link.statistics().receiving.faults;
                faults - std::mem::replace(&mut linked.faults, faults)
            }
        }
    }

    /// Agrees on a message size, and says who we are.
    pub(crate) fn shake_hands(
        &mut self,
        address: &Address,
        transport: Transport,
        hello: &Hello,
        deadline: Instant,
        stop: &Stop<'_>,
    ) -> Result<Agreed, PingError> {
        let agreed = match self {
            Self::Socket(socket) => {
                let mut line = SocketLine::new(socket, transport, *stop);
                handshake::shake_hands(&mut line, transport, hello, deadline)
            }
            Self::Link(linked) if linked.framed => {
                let deadline = deadline.max(Instant::now() + linked.patience * TRIES);
                handshake::shake_hands(&mut linked.line(stop), transport, hello, deadline)
            }
            Self::Link(linked) => {
                let mut line = SessionLine::new(&mut linked.link, *stop);
                handshake::shake_hands(&mut line, transport, hello, deadline)
            }
        };
        agreed.map_err(|why| PingError::setup(in_options(&format!("{address}: {why}"))))
    }

    /// Asks a server of datagrams what it has had of us. `None` if it does not answer. Other messages that
    /// come meanwhile are handed to `stray`.
    pub(crate) fn ask_counts(
        &mut self,
        transport: Transport,
        cookie: u64,
        stop: &Stop<'_>,
        stray: &mut dyn FnMut(&[u8]),
    ) -> Option<Counts> {
        let until = Instant::now() + QUESTION_LIMIT;
        let counts = match self {
            Self::Socket(socket) => {
                let mut line = SocketLine::new(socket, transport, *stop);
                handshake::ask_counts(&mut line, transport, cookie, until, stray)
            }
            Self::Link(linked) => {
                let until = until.max(Instant::now() + linked.patience * TRIES);
                handshake::ask_counts(&mut linked.line(stop), transport, cookie, until, stray)
            }
        };
        counts.ok()
    }
}

impl Linked {
    fn new(link: DirectLink, socket: Option<Socket>, framed: bool, patience: Duration) -> Self {
        Self {
            link,
            socket,
            framed,
            wait: Duration::ZERO,
            patience,
            faults: 0,
        }
    }

    fn line<'a>(&'a mut self, stop: &Stop<'a>) -> DirectLine<'a> {
        DirectLine {
            link: &mut self.link,
            stop: stop.flag(),
            patience: self.patience,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = match self.framed {
            true => bytes,
            false => &bytes[..bytes.len().min(PIECE_BYTES)],
        };
        let sent = match self.wait.is_zero() {
            true => self.link.try_send(piece),
            false => self.link.send_timeout(piece, self.wait),
        };
        match sent {
            Ok(()) => Ok(piece.len()),
            Err(SendError::Full | SendError::TimedOut) => Err(io::ErrorKind::WouldBlock.into()),
            Err(SendError::NotConnected | SendError::Closed) => Err(self.why_ended()),
            Err(error @ (SendError::TooLarge { .. } | SendError::WouldDeadlock)) => {
                Err(io::Error::other(error))
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn receive(&mut self, buffer: &mut Vec<u8>, from: usize) -> io::Result<usize> {
        match self.link.recv(Some(Instant::now() + self.wait)) {
            Ok(message) => {
                let to = from + message.len();
                if to > buffer.len() {
                    // More than one look's worth came while a send waited.
                    buffer.resize(to, 0);
                }
                buffer[from..to].copy_from_slice(message);
                Ok(message.len())
            }
            Err(error) => Err(not_received(error)),
        }
    }

    /// A send only says that the connection is over.
    #[cold]
    fn why_ended(&mut self) -> io::Error {
        loop {
            match self.link.recv(Some(Instant::now())) {
                Ok(_) => {}
                Err(RecvError::TimedOut) => return io::ErrorKind::UnexpectedEof.into(),
                Err(error) => return not_received(error),
            }
        }
    }
}

fn not_received(error: RecvError) -> io::Error {
    match error {
        RecvError::TimedOut => io::ErrorKind::WouldBlock.into(),
        RecvError::Closed => io::ErrorKind::UnexpectedEof.into(),
        RecvError::Failed(cause) => cause,
        error => io::Error::other(error),
    }
}

fn open_line(
    address: &Address,
    asked: &tautline::SerialLine,
    payload_bytes: usize,
) -> Result<Opening, PingError> {
    let options = LinkOptions {
        framing: Framing::cobs(),
        ..LinkOptions::default()
    };
    let link = DirectLink::connect(address, options).map_err(|error| in_words(address, &error))?;
    let effective = match link.local_address() {
        Some(Address::Serial(line)) => line,
        _ => asked.clone(),
    };
    let patience = line::patience(&effective);
    Ok(Opening {
        path: Path {
            local: Some(Address::Serial(effective.clone()).to_string()),
            remote: Some("whoever is at the other end".to_owned()),
            ..Path::default()
        },
        medium: line::medium(&effective, payload_bytes),
        carrier: Carrier::Link(Box::new(Linked::new(link, None, true, patience))),
    })
}

fn in_words(address: &Address, error: &tautline::Error) -> PingError {
    let words = in_options(&error.to_string());
    PingError::setup(match error.kind() {
        // It names the option, and not the address.
        ErrorKind::InvalidOption => format!("{address}: {words}"),
        _ => words,
    })
}

/// Far below what a direct link takes at once.
const PIECE_BYTES: usize = 256 * 1024;
/// From here on a direct link lets the kernel keep the time of a wait.
const ONE_CALL: Duration = Duration::from_millis(100);
/// So that it is not below when the link looks.
const MARGIN: Duration = Duration::from_millis(5);
/// A line loses bytes: a question is asked so often.
const TRIES: u32 = 6;
