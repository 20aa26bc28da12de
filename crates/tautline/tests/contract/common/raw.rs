//! Peers on plain sockets: they stall, lie and vanish as no polite program would.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use socket2::SockRef;
use tautline::{Address, UdsName};

#[cfg(feature = "tls")]
use super::raw_tls::RawTls;
use super::{Place, PtyListener, Transport, WATCHDOG, fresh, sys};

/// A listening stream socket of the standard library.
#[derive(Debug)]
pub(crate) enum RawListener {
    Tcp(TcpListener),
    #[cfg(feature = "tls")]
    Tls(TcpListener),
    Uds(UnixListener, Place),
    Serial(PtyListener),
}

/// One end of a stream of the standard library.
#[derive(Debug)]
pub(crate) enum RawStream {
    Tcp(TcpStream),
    #[cfg(feature = "tls")]
    Tls(RawTls),
    Uds(UnixStream),
    /// The master of a pseudo-terminal.
    Serial(File),
}

impl RawListener {
    pub(crate) fn bind(transport: Transport) -> Self {
        if transport == Transport::Serial {
            return Self::Serial(PtyListener::new());
        }
        let place = fresh(transport);
        match &place.address {
            Address::Tcp { .. } => Self::Tcp(TcpListener::bind("127.0.0.1:0").unwrap()),
            #[cfg(feature = "tls")]
            Address::Tls { .. } => Self::Tls(TcpListener::bind("127.0.0.1:0").unwrap()),
            Address::Uds(UdsName::Path(path)) => {
                Self::Uds(UnixListener::bind(path).unwrap(), place)
            }
            other => panic!("{other} is no stream"),
        }
    }

    /// Accepted streams inherit it. A terminal's is what it is: some 12 KiB.
    pub(crate) fn with_receive_buffer(self, bytes: usize) -> Self {
        if let Self::Serial(_) = &self {
            return self;
        }
        SockRef::from(&self.as_fd())
            .set_recv_buffer_size(bytes)
            .unwrap();
        self
    }

    pub(crate) fn address(&self) -> Address {
        match self {
            Self::Tcp(listener) => Address::tcp(listener.local_addr().unwrap()),
            #[cfg(feature = "tls")]
            Self::Tls(listener) => Address::tls(listener.local_addr().unwrap()),
            Self::Uds(_, place) => place.address.clone(),
            Self::Serial(listener) => listener.address(),
        }
    }

    pub(crate) fn accept(&self) -> RawStream {
        let stream = match self {
            Self::Tcp(listener) => RawStream::Tcp(listener.accept().unwrap().0),
            #[cfg(feature = "tls")]
            Self::Tls(listener) => {
                let stream = listener.accept().unwrap().0;
                RawStream::Tls(RawTls::accept(watched(stream)).unwrap())
            }
            Self::Uds(listener, _) => RawStream::Uds(listener.accept().unwrap().0),
            Self::Serial(listener) => RawStream::Serial(listener.accept()),
        };
        stream.watched()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(listener) => listener.as_fd(),
            Self::Uds(listener, _) => listener.as_fd(),
            Self::Serial(_) => panic!("no descriptor listens on a serial line"),
        }
    }
}

impl RawStream {
    pub(crate) fn connect(address: &Address) -> Self {
        Self::try_connect(address).unwrap()
    }

    pub(crate) fn try_connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Tcp { host, port } => Self::Tcp(TcpStream::connect((host.as_str(), *port))?),
            #[cfg(feature = "tls")]
            Address::Tls { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                Self::Tls(RawTls::connect(watched(stream))?)
            }
            Address::Uds(UdsName::Path(path)) => Self::Uds(UnixStream::connect(path)?),
            other => panic!("{other} is no stream that these tests connect to"),
        };
        Ok(stream.watched())
    }

    /// Nothing that it does takes longer than the watchdog, and nothing waits for a packet to fill.
    fn watched(self) -> Self {
        match &self {
            Self::Tcp(stream) => stream.set_nodelay(true).unwrap(),
            Self::Uds(_) => {}
            #[cfg(feature = "tls")]
            Self::Tls(_) => return self,
            // It looks before it reads.
            Self::Serial(_) => return self,
        }
        let fd = self.as_fd();
        let socket = SockRef::from(&fd);
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        socket.set_write_timeout(Some(WATCHDOG)).unwrap();
        self
    }

    /// Writes the payload as a frame with the default length prefix.
    pub(crate) fn write_frame(&mut self, payload: &[u8]) {
        self.write_all(&frame(payload)).unwrap();
    }

    pub(crate) fn read_exactly(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        self.read_exact(&mut buffer).unwrap();
        buffer
    }

    pub(crate) fn read_frame(&mut self) -> Vec<u8> {
        let prefix = self.read_exactly(4).try_into().unwrap();
        self.read_exactly(u32::from_be_bytes(prefix) as usize)
    }

    /// Everything up to the end of the stream.
    pub(crate) fn read_to_the_end(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        self.read_to_end(&mut all).unwrap();
        all
    }

    /// Waits for the end of the stream or its reset.
    pub(crate) fn expect_cut_off(&mut self) {
        match self.read(&mut [0; 1]) {
            Ok(0) => {}
            Ok(_) => panic!("expected the end, read a byte"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("expected the end: {error}"),
        }
    }

    /// "That was all", which nobody can say on a serial line: the other direction goes on.
    pub(crate) fn end(&self) {
        self.try_end().unwrap();
    }

    /// As [`end`](Self::end), to a link that may have ended already.
    pub(crate) fn try_end(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.end(),
            Self::Uds(stream) => stream.shutdown(Shutdown::Write),
            Self::Serial(_) => panic!("a serial line has no end"),
        }
    }

    /// Vanishes as a killed machine's peer does once it is back: with a reset, where there is one.
    pub(crate) fn vanish(self) {
        let reset = |stream| {
            let linger = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            linger.unwrap();
        };
        match &self {
            Self::Tcp(stream) => reset(stream),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => reset(stream.tcp()),
            Self::Uds(_) | Self::Serial(_) => {}
        }
        drop(self);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.tcp().as_fd(),
            Self::Uds(stream) => stream.as_fd(),
            Self::Serial(master) => master.as_fd(),
        }
    }

    pub(crate) fn try_clone(&self) -> Self {
        match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone().unwrap()),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Self::Tls(stream.clone()),
            Self::Uds(stream) => Self::Uds(stream.try_clone().unwrap()),
            Self::Serial(master) => Self::Serial(master.try_clone().unwrap()),
        }
    }
}

impl Read for RawStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(buffer),
            Self::Uds(stream) => stream.read(buffer),
            Self::Serial(master) => {
                if !sys::is_readable(master.as_fd(), WATCHDOG) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                match master.read(buffer) {
                    // The slave was closed.
                    Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
                    result => result,
                }
            }
        }
    }
}

impl Write for RawStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
            Self::Uds(stream) => stream.write(bytes),
            Self::Serial(master) => master.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Nothing that it does takes longer than the watchdog.
#[cfg(feature = "tls")]
fn watched(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.set_write_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// The payload as a frame with the default length prefix.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let prefix = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&prefix, payload].concat()
}

/// A raw peer on any transport, that speaks in whole messages.
#[derive(Debug)]
pub(crate) enum RawPeer {
    Stream(RawStream),
    Datagram(UdpSocket),
}

impl RawPeer {
    pub(crate) fn read_message(&mut self) -> Vec<u8> {
        match self {
            Self::Stream(stream) => stream.read_frame(),
            Self::Datagram(socket) => {
                let mut buffer = vec![0; 65_536];
                let bytes = socket.recv(&mut buffer).unwrap();
                buffer.truncate(bytes);
                buffer
            }
        }
    }

    pub(crate) fn write_message(&mut self, payload: &[u8]) {
        assert!(self.try_write_message(payload), "the link is gone");
    }

    /// Writes a message; false where nobody is there any more.
    pub(crate) fn try_write_message(&mut self, payload: &[u8]) -> bool {
        match self {
            Self::Stream(stream) => stream.write_all(&frame(payload)).is_ok(),
            Self::Datagram(socket) => socket.send(payload).is_ok(),
        }
    }
}
