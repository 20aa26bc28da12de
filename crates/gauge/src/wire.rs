//! What `serve` and its clients say to each other.
//!
//! **Streams** (TCP, Unix sockets) begin with one [`Hello`] and its [`Welcome`], each a frame behind a
//! 4-byte big-endian length. From then on
//! * [`Mode::Echo`]: the server sends every byte back as it came, in messages of the agreed size;
//! * [`Mode::Sink`]: frames behind 4-byte lengths flow one way; when the client has ended its side the
//!   server answers with one frame, its [`Counts`], and ends its own.
//!
//! No frame of ours can begin with `d0 14`: [`is_lagscope`] tells the plain echo of lagscope apart.
//!
//! **Datagrams** carry a [`Header`] of 32 bytes. A [`Hello`] is answered with a cookie that is good for
//! its source alone, and nothing else is answered without one. No answer is longer than what it
//! answers, so the server is no amplifier, and answers are never answered.

mod datagram;
mod hello;

pub use self::datagram::{HEADER_BYTES, Header, Kind};
pub use self::hello::{Counts, Hello, Mode, PeerRecord, Refusal, Welcome, WireError};

/// The port of `serve`, and lagscope's.
pub const DEFAULT_PORT: u16 = 6001;

/// Of this protocol. Both sides have to have the same one.
pub const VERSION: u16 = 1;

/// How every hello and every datagram of ours begins.
pub const MAGIC: [u8; 4] = *b"TAUT";

/// Longest body of a hello or its answer on a stream.
pub const HELLO_LIMIT_BYTES: usize = 16 * 1024;

/// Length of the datagrams that ask for an answer of unknown length: it passes every path that IPv6
/// does, and the answer is cut to fit.
pub const HELLO_DATAGRAM_BYTES: usize = 1_232;

/// Largest message that `serve` agrees to on a stream.
pub const MESSAGE_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// Largest datagram's payload over IPv4.
pub const DATAGRAM_LIMIT_BYTES: usize = 65_507;

/// Sequence numbers from here on are a peer's invention: nobody sends so many messages, and the count
/// that follows them must not overflow.
pub const SEQUENCE_LIMIT: u64 = 1 << 62;

/// How the first message of a lagscope sender begins.
pub const LAGSCOPE_START: [u8; 4] = [0xd0, 0x14, 0, 0];

/// Whether a connection whose first bytes are these is lagscope's: its first message begins with
/// `d0 14 00 00`, or is as much of that as its message size allows.
pub fn is_lagscope(first: &[u8]) -> bool {
    let length = first.len().min(LAGSCOPE_START.len());
    length > 0 && first[..length] == LAGSCOPE_START[..length]
}

/// Whether these first bytes are the head of a record of TLS, an alert or a handshake (RFC 8446, 5.1). Read
/// as a length they are far above what a hello may have.
pub(crate) fn is_tls(first: &[u8; 4]) -> bool {
    matches!(first, [0x15 | 0x16, 3, 0..=4, _])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lagscope_is_known_by_as_much_of_its_start_as_came() {
        assert!(is_lagscope(&[0xd0]));
        assert!(is_lagscope(&[0xd0, 0x14]));
        assert!(is_lagscope(&[0xd0, 0x14, 0, 0, 0x77, 0x66]));
        assert!(!is_lagscope(&[]));
        assert!(!is_lagscope(&[0xd0, 0x15]));
        assert!(!is_lagscope(&[0, 0, 0, 40]));
    }
}
