//! How a measuring message is marked, and known again when it comes back: by the probe's header, or by
//! that of the datagrams of `serve`. One small value that every sender and judge of a run shares.

use crate::plan::Transport;
use crate::probe;
use crate::wire::{HEADER_BYTES, Header, Kind, Mode};

/// The marks of one connection's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The probe's header: everywhere but in datagrams to `serve`.
    Probe,
    /// The header without which `serve` answers no datagram, and nothing on a serial line.
    Datagram {
        /// A request comes back, an item is counted.
        kind: Kind,
        /// What `serve` issued to this socket.
        cookie: u64,
    },
}

impl Stamp {
    /// What a handshake came to.
    pub(crate) fn agreed(transport: Transport, mode: Mode, cookie: u64) -> Self {
        let kind = match mode {
            Mode::Echo => Kind::Request,
            Mode::Sink => Kind::Item,
        };
        match transport {
            Transport::Tcp | Transport::Tls | Transport::Uds => Self::Probe,
            Transport::Udp | Transport::Serial => Self::Datagram { kind, cookie },
        }
    }

    /// Writes one message: the whole of it, or its header over what is there.
    #[inline]
    pub(crate) fn write(self, message: &mut [u8], sequence: u64, whole: bool) {
        match self {
            Self::Probe => probe::stamp(message, sequence),
            Self::Datagram { kind, cookie } => Header {
                kind,
                word: cookie,
                sequence,
            }
            .write(message),
        }
        if whole {
            probe::fill_contents(&mut message[self.header_bytes()..], sequence);
        }
    }

    /// The sequence number of an intact reply; `whole` compares it to the last byte.
    #[inline]
    pub(crate) fn judge(self, message: &[u8], payload_bytes: usize, whole: bool) -> Option<u64> {
        let sequence = match self {
            Self::Probe => probe::sequence_of(message, payload_bytes)?,
            Self::Datagram { .. } => {
                let header = Header::read(message)?;
                match header.kind {
                    Kind::Reply if message.len() == payload_bytes => header.sequence,
                    // A hello that was said twice is answered twice. Its number is a moment in
                    // nanoseconds, which no message of a run has: whoever waits goes on waiting.
                    Kind::Welcome => return Some(header.sequence),
                    _ => return None,
                }
            }
        };
        let rest = &message[self.header_bytes()..];
        (!whole || probe::are_contents(rest, sequence)).then_some(sequence)
    }

    fn header_bytes(self) -> usize {
        match self {
            Self::Probe => probe::HEADER_BYTES,
            Self::Datagram { .. } => HEADER_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: Stamp = Stamp::Datagram {
        kind: Kind::Request,
        cookie: 5,
    };

    /// What `serve` makes of a request: another header over the same contents.
    fn answered(mut message: Vec<u8>, kind: Kind, sequence: u64) -> Vec<u8> {
        let word = 1;
        Header {
            kind,
            word,
            sequence,
        }
        .write(&mut message);
        message
    }

    #[test]
    fn whole_contents_are_judged_when_asked_for() {
        let mut message = vec![0; 64];
        Stamp::Probe.write(&mut message, 9, false);
        assert_eq!(Stamp::Probe.judge(&message, 64, false), Some(9));
        assert_eq!(Stamp::Probe.judge(&message, 64, true), None);
        Stamp::Probe.write(&mut message, 9, true);
        assert_eq!(Stamp::Probe.judge(&message, 64, true), Some(9));
        assert_eq!(Stamp::Probe.judge(&message, 65, true), None);
    }

    #[test]
    fn a_datagrams_reply_is_known_by_its_header_and_by_all_of_it() {
        let mut message = vec![0; 64];
        DATAGRAM.write(&mut message, 9, true);
        assert_eq!(DATAGRAM.judge(&message, 64, true), None, "it is no reply");
        let mut reply = answered(message, Kind::Reply, 9);
        assert_eq!(DATAGRAM.judge(&reply, 64, true), Some(9));
        assert_eq!(DATAGRAM.judge(&reply, 65, false), None);
        reply[40] ^= 1;
        assert_eq!(DATAGRAM.judge(&reply, 64, false), Some(9));
        assert_eq!(DATAGRAM.judge(&reply, 64, true), None);
    }

    #[test]
    fn a_second_welcome_is_no_corrupted_reply() {
        let welcome = answered(vec![0; 300], Kind::Welcome, 123_456_789);
        assert_eq!(DATAGRAM.judge(&welcome, 64, true), Some(123_456_789));
    }

    #[test]
    fn streams_carry_the_probes_header_whatever_was_agreed() {
        for transport in [Transport::Tcp, Transport::Uds] {
            let agreed = Stamp::agreed(transport, Mode::Echo, 0);
            assert_eq!(agreed, Stamp::Probe);
        }
        assert_eq!(Stamp::agreed(Transport::Udp, Mode::Echo, 5), DATAGRAM);
    }
}
