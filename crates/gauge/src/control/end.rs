//! One end of a connected pair of raw sockets, or of joined terminals.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::Socket;

use super::serial::SerialEnd;
use super::tls::TlsEnd;
use crate::null_modem::{Hangup, NullModem};
use crate::plan::Transport;
use crate::report::TlsRecord;

/// One end of a connected pair of raw blocking sockets, or of two terminals joined by a null modem.
#[derive(Debug)]
pub enum End {
    /// A TCP connection with TCP_NODELAY.
    Tcp(TcpStream),
    /// TLS by rustls over a TCP connection with TCP_NODELAY.
    Tls(Box<TlsEnd>),
    /// A connected UDP socket.
    Udp(UdpSocket),
    /// A Unix stream socket.
    Uds(UnixStream),
    /// A terminal.
    Serial(SerialEnd),
}

impl End {
    /// Both ends of a fresh pair, on ephemeral ports of `host` where ports are needed.
    ///
    /// # Errors
    ///
    /// What the system said, with the step that it said it to.
    pub fn pair(transport: Transport, host: IpAddr) -> io::Result<(Self, Self)> {
        let step = |name: &'static str| {
            move |cause: io::Error| {
                io::Error::new(
                    cause.kind(),
                    format!("control over {transport}: {name}: {cause}"),
                )
            }
        };
        match transport {
            Transport::Tcp => {
                let (client, server) = tcp_pair(host, &step)?;
                Ok((Self::Tcp(client), Self::Tcp(server)))
            }
            Transport::Tls => {
                let (client, server) = tcp_pair(host, &step)?;
                let (client, server) = TlsEnd::pair(client, server).map_err(step("handshake"))?;
                Ok((Self::Tls(Box::new(client)), Self::Tls(Box::new(server))))
            }
            Transport::Udp => {
                let client = UdpSocket::bind((host, 0)).map_err(step("bind"))?;
                let server = UdpSocket::bind((host, 0)).map_err(step("bind"))?;
                let connect = |from: &UdpSocket, to: &UdpSocket| from.connect(to.local_addr()?);
                connect(&client, &server).map_err(step("connect"))?;
                connect(&server, &client).map_err(step("connect"))?;
                Ok((Self::Udp(client), Self::Udp(server)))
            }
            Transport::Uds => {
                let (client, server) = UnixStream::pair().map_err(step("socketpair"))?;
                Ok((Self::Uds(client), Self::Uds(server)))
            }
            Transport::Serial => {
                let modem = NullModem::start(|| Ok(())).map_err(step("null modem"))?;
                Self::joined_by(modem)
            }
        }
    }

    /// Both ends of this null modem, which lasts as long as one of them.
    ///
    /// # Errors
    ///
    /// What the system said, with the terminal that it said it of.
    pub fn joined_by(modem: NullModem) -> io::Result<(Self, Self)> {
        let (near, far) = SerialEnd::pair(modem)?;
        Ok((Self::Serial(near), Self::Serial(far)))
    }

    /// What its TLS handshake came to, where there was one.
    #[must_use]
    pub fn agreed(&self) -> Option<TlsRecord> {
        match self {
            Self::Tls(stream) => Some(stream.agreed()),
            Self::Tcp(_) | Self::Udp(_) | Self::Uds(_) | Self::Serial(_) => None,
        }
    }

    /// A connected socket of this transport as an end.
    pub(crate) fn of(socket: Socket, transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp(socket.into()),
            Transport::Udp => Self::Udp(socket.into()),
            Transport::Uds => Self::Uds(socket.into()),
            Transport::Tls | Transport::Serial => unreachable!("`--to` refuses them"),
        }
    }

    /// `recv`: what has arrived, at most as much as fits; 0 is the end.
    ///
    /// # Errors
    ///
    /// What the system said. An interrupted call is repeated.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let outcome = match self {
                Self::Tcp(stream) => (&mut &*stream).read(buffer),
                Self::Udp(socket) => socket.recv(buffer),
                Self::Tls(stream) => stream.read(buffer),
                Self::Uds(stream) => (&mut &*stream).read(buffer),
                Self::Serial(line) => line.read(buffer),
            };
            match outcome {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    /// `send`: all of `bytes`, waiting for room; one datagram on UDP.
    ///
    /// # Errors
    ///
    /// What the system said. An interrupted call is repeated.
    #[inline]
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => (&mut &*stream).write_all(bytes),
            Self::Udp(socket) => loop {
                match socket.send(bytes) {
                    Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                    outcome => return outcome.map(|_| ()),
                }
            },
            Self::Tls(stream) => stream.write_all(bytes),
            Self::Uds(stream) => (&mut &*stream).write_all(bytes),
            Self::Serial(line) => line.write_all(bytes),
        }
    }

    /// `SO_RCVTIMEO`: how long a `read` waits. A terminal has none: it is hung up instead.
    ///
    /// # Errors
    ///
    /// What the system said; `Unsupported` of a terminal.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(limit),
            Self::Udp(socket) => socket.set_read_timeout(limit),
            Self::Tls(stream) => stream.socket().set_read_timeout(limit),
            Self::Uds(stream) => stream.set_read_timeout(limit),
            Self::Serial(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// What ends it from another thread.
    ///
    /// # Errors
    ///
    /// When there are no descriptors left.
    pub fn closer(&self) -> io::Result<Closer> {
        Ok(Closer(match self {
            Self::Tcp(stream) => Way::Socket(stream.try_clone()?.into()),
            Self::Tls(stream) => Way::Socket(stream.socket().try_clone()?.into()),
            Self::Udp(socket) => Way::Socket(socket.try_clone()?.into()),
            Self::Uds(stream) => Way::Socket(stream.try_clone()?.into()),
            Self::Serial(line) => Way::Modem(line.hangup()),
        }))
    }
}

/// Ends an [`End`] from another thread.
#[derive(Debug)]
pub struct Closer(Way);

#[derive(Debug)]
enum Way {
    Socket(Socket),
    Modem(Hangup),
}

impl Closer {
    /// Ends both directions: whoever waits in `read` or `write_all` comes back at once.
    pub fn shutdown(&self) {
        match &self.0 {
            // The only failure is that the other end has gone first, which is what is wanted. A
            // connected UDP socket wakes its reader like a stream does.
            Way::Socket(socket) => drop(socket.shutdown(Shutdown::Both)),
            Way::Modem(hangup) => hangup.hang_up(),
        }
    }
}

/// A fresh connection, both ends with TCP_NODELAY; `step` names what failed.
fn tcp_pair<F: Fn(io::Error) -> io::Error>(
    host: IpAddr,
    step: &impl Fn(&'static str) -> F,
) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((host, 0)).map_err(step("bind"))?;
    let address = listener.local_addr().map_err(step("bind"))?;
    let client = TcpStream::connect_timeout(&address, CONNECT_LIMIT).map_err(step("connect"))?;
    let server = accept_from(&listener, &client).map_err(step("accept"))?;
    for end in [&client, &server] {
        end.set_nodelay(true).map_err(step("set TCP_NODELAY"))?;
    }
    Ok((client, server))
}

/// The connection of `client`; anybody else who found the port in between is sent away.
fn accept_from(listener: &TcpListener, client: &TcpStream) -> io::Result<TcpStream> {
    let expected = client.local_addr()?;
    // The client's handshake is complete, so its connection is in the backlog: this cannot wait long.
    loop {
        let (server, address) = listener.accept()?;
        if address == expected {
            return Ok(server);
        }
    }
}

/// Generous on loopback, where a handshake takes microseconds.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
