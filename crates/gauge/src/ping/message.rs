//! What a ping is made of, and whether a reply is the same to the last byte.
//!
//! A number that names the ping stands first; the rest is a fixed pattern, so that it need not be
//! written anew for each. Which number it is depends on the room: a datagram has the protocol's header,
//! a message of 16 bytes or more a 64-bit number with its check, a shorter one as many low bits of the
//! number as fit, at most 32.

use crate::plan::Transport;
use crate::probe;
use crate::statistics::mix;
use crate::wire;

/// The bytes of the next ping of one connection.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With the cookie of the server.
    Datagram {
        cookie: u64,
    },
    Checked,
    /// So many bytes of the number.
    Short {
        bytes: usize,
    },
}

/// What a reply's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The ping of this number, whole.
    Intact { sequence: u64 },
    /// Not what was sent; the number where it can be trusted.
    Damaged { sequence: Option<u64> },
    /// Another datagram of the protocol.
    Other,
}

impl Message {
    /// A message of `payload_bytes`; `cookie` is the datagrams'.
    pub(crate) fn new(transport: Transport, payload_bytes: usize, cookie: u64) -> Self {
        let form = match (transport, payload_bytes) {
            (Transport::Udp | Transport::Serial, _) => Form::Datagram { cookie },
            (_, probe::HEADER_BYTES..) => Form::Checked,
            (_, short) => Form::Short {
                bytes: short.min(4),
            },
        };
        let mut bytes = vec![0; payload_bytes];
        for (position, chunk) in bytes.chunks_mut(8).enumerate() {
            let pattern = mix(position as u64 ^ 0x7069_6e67).to_le_bytes();
            chunk.copy_from_slice(&pattern[..chunk.len()]);
        }
        Self { bytes, form }
    }

    /// Bytes of a ping.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes as stamped.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes it the ping of this number.
    #[inline]
    pub(crate) fn stamp(&mut self, sequence: u64) {
        match self.form {
            Form::Datagram { cookie } => wire::Header {
                kind: wire::Kind::Request,
                word: cookie,
                sequence,
            }
            .write(&mut self.bytes),
            Form::Checked => probe::stamp(&mut self.bytes, sequence),
            Form::Short { bytes } => {
                self.bytes[..bytes].copy_from_slice(&sequence.to_le_bytes()[..bytes]);
            }
        }
    }

    /// Judges a whole reply when the oldest unanswered ping is `expected`.
    #[inline]
    pub(crate) fn judge(&self, reply: &[u8], expected: u64) -> Judged {
        match self.form {
            Form::Datagram { .. } => {
                let Some(header) = wire::Header::read(reply) else {
                    return Judged::Damaged { sequence: None };
                };
                if header.kind != wire::Kind::Reply {
                    return Judged::Other;
                }
                self.rest(reply, wire::HEADER_BYTES, header.sequence)
            }
            Form::Checked => match probe::sequence_of(reply, self.bytes.len()) {
                Some(sequence) => self.rest(reply, probe::HEADER_BYTES, sequence),
                None => Judged::Damaged { sequence: None },
            },
            Form::Short { bytes } => {
                match low_bits(&reply[..bytes.min(reply.len())], bytes, expected) {
                    Some(sequence) => self.rest(reply, bytes, sequence),
                    None => Judged::Damaged { sequence: None },
                }
            }
        }
    }

    #[inline]
    fn rest(&self, reply: &[u8], from: usize, sequence: u64) -> Judged {
        if reply.len() == self.bytes.len() && reply[from..] == self.bytes[from..] {
            Judged::Intact { sequence }
        } else {
            Judged::Damaged {
                sequence: Some(sequence),
            }
        }
    }
}

/// The number near `expected` whose low bytes came: itself, or one a little before it.
fn low_bits(came: &[u8], bytes: usize, expected: u64) -> Option<u64> {
    if came.len() < bytes {
        return None;
    }
    let mut low = [0; 8];
    low[..bytes].copy_from_slice(came);
    let mask = (1_u64 << (8 * bytes)) - 1;
    let behind = expected.wrapping_sub(u64::from_le_bytes(low)) & mask;
    (behind <= MOST_BEHIND && behind <= expected).then(|| expected - behind)
}

/// A repeated reply is a few pings old; other bytes are of any age.
const MOST_BEHIND: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_of_any_size_is_known_again() {
        for size in [1, 2, 3, 4, 5, 15, 16, 17, 64, 1_000] {
            let mut message = Message::new(Transport::Tcp, size, 0);
            message.stamp(70_000);
            assert_eq!(message.len(), size);
            let reply = message.bytes().to_vec();
            message.stamp(70_001);
            assert_eq!(
                message.judge(&reply, 70_000),
                Judged::Intact { sequence: 70_000 },
                "{size}"
            );
        }
    }

    #[test]
    fn short_pings_carry_the_low_bytes_of_their_number() {
        let mut message = Message::new(Transport::Uds, 4, 0);
        message.stamp(0x1_0203_0405);
        assert_eq!(message.bytes(), [5, 4, 3, 2]);
        let mut message = Message::new(Transport::Uds, 1, 0);
        message.stamp(0x1_0203_0405);
        assert_eq!(message.bytes(), [5]);
        assert_eq!(message.judge(&[4], 5), Judged::Intact { sequence: 4 });
        assert_eq!(message.judge(&[200], 5), Judged::Damaged { sequence: None });
    }

    #[test]
    fn any_changed_byte_is_damage_and_the_number_stays_known_where_it_can() {
        for (size, header) in [(64, 16), (5, 4)] {
            let mut message = Message::new(Transport::Tcp, size, 0);
            message.stamp(3);
            for position in 0..size {
                let mut reply = message.bytes().to_vec();
                reply[position] ^= 0x80;
                let sequence = (position >= header).then_some(3);
                assert_eq!(message.judge(&reply, 3), Judged::Damaged { sequence });
            }
        }
    }

    #[test]
    fn a_datagram_comes_back_as_a_reply_with_its_payload_untouched() {
        let mut message = Message::new(Transport::Udp, 40, 77);
        message.stamp(9);
        let mut reply = message.bytes().to_vec();
        let header = wire::Header {
            kind: wire::Kind::Reply,
            word: 10,
            sequence: 9,
        };
        header.write(&mut reply);
        assert_eq!(message.judge(&reply, 9), Judged::Intact { sequence: 9 });
        reply[35] ^= 1;
        assert_eq!(
            message.judge(&reply, 9),
            Judged::Damaged { sequence: Some(9) }
        );
        reply[20] ^= 1;
        assert_eq!(message.judge(&reply, 9), Judged::Damaged { sequence: None });
        let mut other = vec![0; 32];
        wire::Header {
            kind: wire::Kind::Welcome,
            ..header
        }
        .write(&mut other);
        assert_eq!(message.judge(&other, 9), Judged::Other);
        assert_eq!(message.judge(&[], 9), Judged::Damaged { sequence: None });
    }
}
