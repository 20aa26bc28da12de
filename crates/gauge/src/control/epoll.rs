//! Round trips over raw sockets on epoll: what a callback's price is measured against.
//!
//! One descriptor, level-triggered, the answer written inline by the thread that waited: per message
//! one wait, one read and one write. The sockets stay blocking. A read follows only when there is
//! something, and one message in each direction always fits the buffers, so that `O_NONBLOCK` would
//! change no call.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use super::{End, Frame};
use crate::plan::Transport;
use crate::sys;

/// Sends one message and waits in epoll for it to come back.
#[derive(Debug)]
pub struct EpollClient {
    watched: Watched,
    message: Frame,
    reply: Vec<u8>,
    prefix_bytes: usize,
}

impl EpollClient {
    /// A client of one message size.
    ///
    /// # Errors
    ///
    /// When epoll cannot watch the socket.
    pub fn new(end: End, transport: Transport, payload_bytes: usize) -> io::Result<Self> {
        let message = Frame::new(transport, payload_bytes);
        let reply = vec![0; message.wire().len()];
        Ok(Self {
            watched: Watched::new(end)?,
            message,
            reply,
            prefix_bytes: transport.overhead_bytes(),
        })
    }

    /// The payload of the message, to be written before it is sent.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.message.payload_mut()
    }

    /// Sends the message.
    ///
    /// # Errors
    ///
    /// What the system said.
    #[inline]
    pub fn send(&mut self) -> io::Result<()> {
        self.watched.end.write_all(self.message.wire())
    }

    /// Waits for a reply and hands back its payload.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when the server ended the stream, `InvalidData` when its prefix is wrong, else
    /// what the system said.
    #[inline]
    pub fn recv(&mut self) -> io::Result<&[u8]> {
        let Some(bytes) = self.watched.read_message(&mut self.reply)? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let (prefix, payload) = self.reply[..bytes].split_at(self.prefix_bytes.min(bytes));
        if prefix != &self.message.wire()[..self.prefix_bytes] {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the prefix came back changed",
            ));
        }
        Ok(payload)
    }
}

/// Sends every message of `wire_bytes` back, from an epoll loop, until the client ends or the end is
/// shut down.
///
/// # Errors
///
/// What the system said.
pub fn serve_echo_by_epoll(end: End, wire_bytes: usize) -> io::Result<()> {
    let watched = Watched::new(end)?;
    let mut buffer = vec![0; wire_bytes];
    while let Some(bytes) = watched.read_message(&mut buffer)? {
        watched.end.write_all(&buffer[..bytes])?;
    }
    Ok(())
}

/// A socket, and the epoll set that it alone is in.
#[derive(Debug)]
struct Watched {
    end: End,
    epoll: OwnedFd,
}

impl Watched {
    fn new(end: End) -> io::Result<Self> {
        let epoll = sys::epoll::epoll_create1()?;
        sys::epoll::epoll_add_readable(epoll.as_fd(), descriptor(&end))?;
        Ok(Self { end, epoll })
    }

    /// One message: as many bytes as fit on a stream, one datagram on UDP. `None` at the end, and for
    /// an empty datagram, which nobody here sends.
    #[inline]
    fn read_message(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut filled = self.read(buffer)?;
        if matches!(self.end, End::Udp(_)) {
            return Ok((filled > 0).then_some(filled));
        }
        while filled > 0 && filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => filled += bytes,
            }
        }
        Ok((filled > 0).then_some(filled))
    }

    /// One read after one wait, as a level-triggered loop does it: what is left rings again.
    #[inline]
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match sys::epoll::epoll_wait_one(self.epoll.as_fd()) {
                Ok(()) => return self.end.read(buffer),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
    }
}

fn descriptor(end: &End) -> BorrowedFd<'_> {
    match end {
        End::Tcp(stream) => stream.as_fd(),
        End::Udp(socket) => socket.as_fd(),
        End::Tls(stream) => stream.socket().as_fd(),
        End::Uds(stream) => stream.as_fd(),
        End::Serial(line) => line.as_fd(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::thread;

    use super::*;
    use crate::probe;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn echo_comes_back_whole(transport: Transport, payload_bytes: usize) {
        let (client, server) = End::pair(transport, LOOPBACK).unwrap();
        let closer = server.closer().unwrap();
        thread::scope(|scope| {
            let wire_bytes = payload_bytes + transport.overhead_bytes();
            let serving = scope.spawn(move || serve_echo_by_epoll(server, wire_bytes));
            let mut client = EpollClient::new(client, transport, payload_bytes).unwrap();
            for sequence in 0..20 {
                probe::fill(client.payload_mut(), sequence);
                client.send().unwrap();
                let reply = client.recv().unwrap();
                assert!(probe::is_filled(reply, payload_bytes, sequence));
            }
            closer.shutdown();
            serving.join().unwrap().unwrap();
        });
    }

    #[test]
    fn an_echo_comes_back_whole_over_every_transport() {
        for transport in Transport::DEFAULT {
            for payload_bytes in [16, 64, 1_000, 65_507] {
                echo_comes_back_whole(transport, payload_bytes);
            }
        }
    }

    #[test]
    fn a_client_without_a_server_is_told_so() {
        for transport in [Transport::Tcp, Transport::Uds] {
            let (client, server) = End::pair(transport, LOOPBACK).unwrap();
            drop(server);
            let mut client = EpollClient::new(client, transport, 64).unwrap();
            let outcome = client.send().and_then(|()| client.recv().map(|_| ()));
            assert!(outcome.is_err());
        }
    }
}
