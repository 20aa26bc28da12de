//! One end of a connected pair of raw sockets.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::{SockRef, Socket};

use crate::plan::Transport;

/// One end of a connected pair of raw blocking sockets.
#[derive(Debug)]
pub enum End {
    /// A TCP connection with TCP_NODELAY.
    Tcp(TcpStream),
    /// A connected UDP socket.
    Udp(UdpSocket),
    /// A Unix stream socket.
    Uds(UnixStream),
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
                let listener = TcpListener::bind((host, 0)).map_err(step("bind"))?;
                let address = listener.local_addr().map_err(step("bind"))?;
                let client =
                    TcpStream::connect_timeout(&address, CONNECT_LIMIT).map_err(step("connect"))?;
                let server = accept_from(&listener, &client).map_err(step("accept"))?;
                for end in [&client, &server] {
                    end.set_nodelay(true).map_err(step("set TCP_NODELAY"))?;
                }
                Ok((Self::Tcp(client), Self::Tcp(server)))
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
            Transport::Tls | Transport::Serial => {
                Err(step("open")(io::ErrorKind::Unsupported.into()))
            }
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
                Self::Uds(stream) => (&mut &*stream).read(buffer),
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
            Self::Uds(stream) => (&mut &*stream).write_all(bytes),
        }
    }

    /// `SO_RCVTIMEO`: how long a `read` waits.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(limit),
            Self::Udp(socket) => socket.set_read_timeout(limit),
            Self::Uds(stream) => stream.set_read_timeout(limit),
        }
    }

    /// A second handle of the same socket, from which another thread can [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    ///
    /// When there are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Udp(socket) => Self::Udp(socket.try_clone()?),
            Self::Uds(stream) => Self::Uds(stream.try_clone()?),
        })
    }

    /// Ends both directions: whoever waits in `read` or `write_all` comes back at once.
    pub fn shutdown(&self) {
        // The only failure is that the other end has gone first, which is what is wanted.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            // A connected UDP socket wakes its reader like a stream does.
            Self::Udp(socket) => SockRef::from(socket).shutdown(Shutdown::Both),
            Self::Uds(stream) => stream.shutdown(Shutdown::Both),
        };
    }
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
