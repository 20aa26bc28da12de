//! Round trips over raw sockets: a client that sends and waits, a server that sends back.

use std::io;

use super::{End, Frame};
use crate::plan::Transport;
use crate::wire::HELLO_DATAGRAM_BYTES;

/// Sends one message and waits for it to come back.
#[derive(Debug)]
pub struct EchoClient {
    end: End,
    message: Frame,
    reply: Vec<u8>,
    prefix_bytes: usize,
}

impl EchoClient {
    /// A client of one message size.
    pub fn new(end: End, transport: Transport, payload_bytes: usize) -> Self {
        let message = Frame::new(transport, payload_bytes);
        let mut reply = vec![0; message.wire().len()];
        if transport == Transport::Udp {
            // A longer datagram is another one: cut to the length of ours it could not be told.
            reply.resize(reply.len().max(HELLO_DATAGRAM_BYTES), 0);
        }
        Self {
            end,
            message,
            reply,
            prefix_bytes: transport.overhead_bytes(),
        }
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
        self.end.write_all(self.message.wire())
    }

    /// Waits for a reply and hands back its payload: whole on a stream, as it arrived on UDP.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when the server ended the stream, `InvalidData` when its prefix is wrong,
    /// `WouldBlock` after the read timeout of the end, else what the system said.
    #[inline]
    pub fn recv(&mut self) -> io::Result<&[u8]> {
        let Some(bytes) = read_message(&self.end, &mut self.reply)? else {
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

/// Sends every message of `wire_bytes` back until the client ends or the end is shut down.
///
/// # Errors
///
/// What the system said.
pub fn serve_echo(end: &End, wire_bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; wire_bytes];
    while let Some(bytes) = read_message(end, &mut buffer)? {
        end.write_all(&buffer[..bytes])?;
    }
    Ok(())
}

/// One message: as many bytes as fit on a stream, one datagram on UDP. `None` at the end, and for an
/// empty datagram, which nobody here sends.
#[inline]
fn read_message(end: &End, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut filled = end.read(buffer)?;
    if matches!(end, End::Udp(_)) {
        return Ok((filled > 0).then_some(filled));
    }
    while filled > 0 && filled < buffer.len() {
        match end.read(&mut buffer[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => filled += bytes,
        }
    }
    Ok((filled > 0).then_some(filled))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::thread;

    use super::*;
    use crate::probe;

    /// What this build speaks.
    fn built() -> impl Iterator<Item = Transport> {
        let has = |transport: &Transport| *transport != Transport::Tls || cfg!(feature = "tls");
        Transport::ALL.into_iter().filter(has)
    }

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn echo_comes_back_whole(transport: Transport, payload_bytes: usize) {
        let (client, server) = End::pair(transport, LOOPBACK).unwrap();
        let closer = server.closer().unwrap();
        thread::scope(|scope| {
            let wire_bytes = payload_bytes + transport.overhead_bytes();
            let serving = scope.spawn(move || serve_echo(&server, wire_bytes));
            let mut client = EchoClient::new(client, transport, payload_bytes);
            for sequence in 0..20 {
                probe::fill(client.payload_mut(), sequence);
                client.send().unwrap();
                assert!(probe::is_filled(
                    client.recv().unwrap(),
                    payload_bytes,
                    sequence
                ));
            }
            // Neither UDP nor a line has an end of its own; on streams dropping the client is enough.
            if matches!(transport, Transport::Udp | Transport::Serial) {
                closer.shutdown();
            }
            drop(client);
            serving.join().unwrap().unwrap();
        });
    }

    #[test]
    fn an_echo_comes_back_whole_over_every_transport() {
        for transport in built() {
            for payload_bytes in [16, 64, 1_000, 65_507] {
                echo_comes_back_whole(transport, payload_bytes);
            }
        }
        for transport in built().filter(|&transport| transport != Transport::Udp) {
            echo_comes_back_whole(transport, (1 << 20) - 4);
        }
    }

    #[test]
    fn a_client_without_a_server_is_told_so() {
        for transport in [Transport::Tcp, Transport::Uds] {
            let (client, server) = End::pair(transport, LOOPBACK).unwrap();
            drop(server);
            let mut client = EchoClient::new(client, transport, 64);
            let outcome = client.send().and_then(|()| client.recv().map(|_| ()));
            assert!(outcome.is_err());
        }
    }

    #[test]
    fn a_server_that_is_waiting_ends_when_its_socket_is_shut_down() {
        for transport in built() {
            let (_client, server) = End::pair(transport, LOOPBACK).unwrap();
            let closer = server.closer().unwrap();
            thread::scope(|scope| {
                let serving = scope.spawn(move || serve_echo(&server, 64));
                closer.shutdown();
                serving.join().unwrap().unwrap();
            });
        }
    }

    #[test]
    fn the_wire_carries_the_librarys_prefix() {
        let mut frame = Frame::new(Transport::Tcp, 258);
        frame.payload_mut().fill(7);
        assert_eq!(frame.wire()[..6], [0, 0, 1, 2, 7, 7]);
        assert_eq!(frame.wire().len(), 262);
        assert_eq!(Frame::new(Transport::Udp, 258).wire().len(), 258);
    }
}
