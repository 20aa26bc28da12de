//! A sender's way to its connection: buffers, a port to go out from, and a wait that ends.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, Protocol, Socket, Type};

use super::traffic::{REPLY_LIMIT, TICK, is_a_pause, passed};
use super::{Buffers, Sender};
use crate::clock::now_ns;
use crate::sys;

/// A socket on the way to becoming a [`Sender`].
#[derive(Debug)]
pub struct Outgoing {
    socket: Socket,
    address: SocketAddr,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The stop flag went up.
    Stopped,
    /// The kernel's reason; a timeout when nothing was heard for [`REPLY_LIMIT`].
    Failed(io::Error),
}

impl Outgoing {
    /// A socket of the right family with these buffers.
    ///
    /// # Errors
    ///
    /// When there can be no such socket.
    pub fn open(address: SocketAddr, buffers: Buffers) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        buffers.set(&socket)?;
        socket.set_tcp_nodelay(true)?;
        Ok(Self { socket, address })
    }

    /// The number of the socket.
    pub fn socket_number(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// The buffers that the kernel gave.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn buffers(&self) -> io::Result<Buffers> {
        Buffers::effective(&self.socket)
    }

    /// Takes a port of ours to go out from. Without it, or where that is refused, the kernel
    /// chooses.
    ///
    /// # Errors
    ///
    /// When the port is in use, or not ours to take.
    pub fn bind_source(&self, port: u16) -> io::Result<()> {
        let any = match self.address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        };
        self.socket.bind(&any.into())
    }

    /// Connects, for at most [`REPLY_LIMIT`].
    ///
    /// # Errors
    ///
    /// When nobody answers, or the stop flag goes up.
    pub fn connect(self, message_bytes: usize, stop: &AtomicBool) -> Result<Sender, ConnectError> {
        self.socket
            .set_nonblocking(true)
            .map_err(ConnectError::Failed)?;
        match self.socket.connect(&self.address.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                self.wait_for_connection(stop)?;
            }
            result => result.map_err(ConnectError::Failed)?,
        }
        self.into_sender(message_bytes)
            .map_err(ConnectError::Failed)
    }

    fn wait_for_connection(&self, stop: &AtomicBool) -> Result<(), ConnectError> {
        let begun_ns = now_ns();
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(ConnectError::Stopped);
            }
            let ready = match sys::poll::poll(self.socket.as_fd(), false, true, TICK) {
                Ok(ready) => ready,
                Err(error) if is_a_pause(&error) => continue,
                Err(error) => return Err(ConnectError::Failed(error)),
            };
            if ready.writable {
                let refused = self.socket.take_error().map_err(ConnectError::Failed)?;
                return refused.map_or(Ok(()), |error| Err(ConnectError::Failed(error)));
            }
            if passed(begun_ns, REPLY_LIMIT) {
                let timed_out = io::Error::from_raw_os_error(libc::ETIMEDOUT);
                return Err(ConnectError::Failed(timed_out));
            }
        }
    }

    fn into_sender(self, message_bytes: usize) -> io::Result<Sender> {
        self.socket.set_nonblocking(false)?;
        let stream = TcpStream::from(self.socket);
        // So that the limit and the stop flag are looked at; a reply ends the wait as before.
        stream.set_read_timeout(Some(TICK))?;
        Ok(Sender::new(stream, message_bytes))
    }
}
