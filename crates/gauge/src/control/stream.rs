//! One-way streams over raw sockets: a writer whose every message is its own write, and a receiver
//! that reads as much as has arrived.

use std::io;

use super::{End, Frame, prefix};
use crate::clock::now_ns;
use crate::plan::Transport;

/// Writes messages, each with one system call.
#[derive(Debug)]
pub struct StreamWriter {
    end: End,
    message: Frame,
}

impl StreamWriter {
    /// A writer of one message size.
    pub fn new(end: End, transport: Transport, payload_bytes: usize) -> Self {
        Self {
            end,
            message: Frame::new(transport, payload_bytes),
        }
    }

    /// The payload of the next message.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.message.payload_mut()
    }

    /// Writes the message, waiting for room.
    ///
    /// # Errors
    ///
    /// What the system said.
    #[inline]
    pub fn send(&mut self) -> io::Result<()> {
        self.end.write_all(self.message.wire())
    }
}

/// Hands the payload of each message to `each`, with the time when the read that completed it returned,
/// until the writer ends or the end is shut down.
///
/// It reads up to 64 KiB at a time and the clock once a read, as the library does by default.
///
/// # Errors
///
/// `InvalidData` for a prefix that is not `payload_bytes`, `UnexpectedEof` for half a message at the
/// end, else what the system said.
pub fn receive_stream(
    end: &End,
    payload_bytes: usize,
    mut each: impl FnMut(&[u8], u64),
) -> io::Result<()> {
    if matches!(end, End::Udp(_)) {
        return receive_datagrams(end, each);
    }
    let wire_bytes = payload_bytes + PREFIX_BYTES;
    let mut buffer = vec![0; READ_BYTES.max(wire_bytes) + wire_bytes];
    let mut filled = 0;
    loop {
        let room = READ_BYTES.min(buffer.len() - filled);
        match end.read(&mut buffer[filled..filled + room])? {
            0 if filled == 0 => return Ok(()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => filled += bytes,
        }
        let at_ns = now_ns();
        let mut taken = 0;
        while filled - taken >= wire_bytes {
            let (found, payload) = buffer[taken..taken + wire_bytes].split_at(PREFIX_BYTES);
            if found != prefix(payload_bytes) {
                let why = "the prefix is not the length of the message";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            each(payload, at_ns);
            taken += wire_bytes;
        }
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

fn receive_datagrams(end: &End, mut each: impl FnMut(&[u8], u64)) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match end.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => each(&buffer[..bytes], now_ns()),
        }
    }
}

const PREFIX_BYTES: usize = 4;
const READ_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::thread;

    use super::*;
    use crate::probe::{self, Arrivals};
    use crate::report::Integrity;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn everything_arrives(transport: Transport, payload_bytes: usize, messages: u64) {
        let (client, server) = End::pair(transport, LOOPBACK).unwrap();
        thread::scope(|scope| {
            let receiving = scope.spawn(move || {
                let mut arrivals = Arrivals::new();
                let each = |message: &[u8], _at_ns: u64| match probe::sequence_of(
                    message,
                    payload_bytes,
                ) {
                    Some(sequence) => arrivals.arrived(sequence),
                    None => arrivals.corrupted(),
                };
                receive_stream(&server, payload_bytes, each).map(|()| arrivals)
            });
            let mut writer = StreamWriter::new(client, transport, payload_bytes);
            for sequence in 0..messages {
                probe::stamp(writer.payload_mut(), sequence);
                writer.send().unwrap();
            }
            drop(writer);
            let arrivals = receiving.join().unwrap().unwrap();
            assert_eq!(arrivals.received(), messages);
            assert_eq!(arrivals.integrity(messages), Integrity::default());
        });
    }

    #[test]
    fn everything_arrives_in_order_over_byte_streams() {
        for transport in [Transport::Tcp, Transport::Uds] {
            everything_arrives(transport, 16, 20_000);
            everything_arrives(transport, 65_536, 100);
            everything_arrives(transport, 100_003, 50);
        }
    }

    #[test]
    #[cfg(feature = "tls")]
    fn everything_arrives_in_order_over_tls() {
        everything_arrives(Transport::Tls, 16, 20_000);
        everything_arrives(Transport::Tls, 100_003, 50);
    }

    #[test]
    fn datagrams_are_handed_over_one_by_one() {
        let (client, server) = End::pair(Transport::Udp, LOOPBACK).unwrap();
        let mut writer = StreamWriter::new(client, Transport::Udp, 64);
        // Few enough for the default receive buffer, so that none can be dropped.
        for sequence in 0..50 {
            probe::stamp(writer.payload_mut(), sequence);
            writer.send().unwrap();
        }
        let closer = server.closer().unwrap();
        let mut seen = Vec::new();
        receive_stream(&server, 64, |message, _at_ns| {
            seen.push(probe::sequence_of(message, 64));
            if seen.len() == 50 {
                closer.shutdown();
            }
        })
        .unwrap();
        assert_eq!(seen, (0..50).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn half_a_message_at_the_end_is_an_error() {
        let (client, server) = End::pair(Transport::Tcp, LOOPBACK).unwrap();
        client.write_all(&[0, 0, 0, 64, 1, 2]).unwrap();
        drop(client);
        let outcome = receive_stream(&server, 64, |_, _| panic!("there is no message"));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_wrong_prefix_is_an_error() {
        let (client, server) = End::pair(Transport::Uds, LOOPBACK).unwrap();
        client.write_all(&[0xff; 68]).unwrap();
        let outcome = receive_stream(&server, 64, |_, _| panic!("there is no message"));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
