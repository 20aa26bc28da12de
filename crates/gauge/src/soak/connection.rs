//! One connection of a sender: a stream to a `serve` that has agreed to echo messages of its size.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use tautline::{Address, UdsName};

use crate::environment::Environment;
use crate::wire::{HELLO_LIMIT_BYTES, Hello, Mode, PeerRecord, Welcome};

/// An open connection. Every call is on `&self`, so that another thread can end it.
#[derive(Debug)]
pub(super) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects and agrees on the size, within bounds.
    ///
    /// # Errors
    ///
    /// Where, and what the system or the other side said.
    pub(super) fn open(
        address: &Address,
        payload_bytes: usize,
    ) -> Result<(Self, PeerRecord), String> {
        let connection =
            Self::connect(address).map_err(|cause| format!("connect to {address}: {cause}"))?;
        let peer = connection
            .handshake(payload_bytes)
            .map_err(|why| format!("{address}: {why}"))?;
        Ok((connection, peer))
    }

    fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => {
                let mut last = None;
                for socket_address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&socket_address, CONNECT_LIMIT) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return Ok(Self::Tcp(stream));
                        }
                        Err(cause) => last = Some(cause),
                    }
                }
                Err(last.unwrap_or_else(|| io::Error::other("the name has no address")))
            }
            Address::Uds(UdsName::Path(path)) => UnixStream::connect(path).map(Self::Unix),
            Address::Uds(UdsName::Abstract(name)) => {
                let name = SocketAddr::from_abstract_name(name)?;
                UnixStream::connect_addr(&name).map(Self::Unix)
            }
            Address::Udp { .. } => Err(io::Error::other("soak takes tcp:// and uds:// only")),
        }
    }

    fn handshake(&self, payload_bytes: usize) -> Result<PeerRecord, String> {
        let said = |cause: io::Error| {
            match cause.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "it ended the connection instead of a handshake: it is no `tautline serve`, or refuses us"
                    .to_owned()
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                "it took the connection and answers nothing: it is no `tautline serve`, or hangs".to_owned()
            }
            _ => format!("handshake: {cause}"),
        }
        };
        let hello = Hello {
            mode: Mode::Echo,
            message_bytes: u32::try_from(payload_bytes)
                .map_err(|_| "the size is too large".to_owned())?,
            record: PeerRecord::of(&Environment::read()),
        };
        let body = hello.encode();
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend(body);
        self.set_read_timeout(Some(HELLO_LIMIT)).map_err(said)?;
        self.write_all(&frame).map_err(said)?;
        let mut length = [0; 4];
        self.read_exact(&mut length).map_err(said)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > HELLO_LIMIT_BYTES {
            return Err("it does not speak the protocol of `tautline serve`".to_owned());
        }
        let mut body = vec![0; length];
        self.read_exact(&mut body).map_err(said)?;
        self.set_read_timeout(None).map_err(said)?;
        let welcome = Welcome::decode(&body).map_err(|why| why.to_string())?;
        match welcome.refusal {
            Some(refusal) => Err(format!("it refuses: {}", refusal.reason)),
            None => Ok(welcome.record),
        }
    }

    /// Sends a ping and waits for as many bytes.
    #[inline]
    pub(super) fn exchange(&self, ping: &[u8], reply: &mut [u8]) -> io::Result<()> {
        self.write_all(ping)?;
        self.read_exact(reply)
    }

    /// Ends both directions: whoever waits in [`exchange`](Self::exchange) finds the end.
    pub(super) fn shutdown(&self) {
        // A connection that the other side has ended needs none.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    #[inline]
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => (&mut &*stream).write_all(bytes),
            Self::Unix(stream) => (&mut &*stream).write_all(bytes),
        }
    }

    #[inline]
    fn read_exact(&self, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => (&mut &*stream).read_exact(bytes),
            Self::Unix(stream) => (&mut &*stream).read_exact(bytes),
        }
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }
}

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const HELLO_LIMIT: Duration = Duration::from_secs(5);
