//! The header of every datagram.

use super::MAGIC;
use crate::statistics::mix;

/// Bytes of a header; the least size of a measured datagram.
pub const HEADER_BYTES: usize = 32;

/// What a datagram begins with: 4 bytes of magic, its kind and three zeros, then three little-endian
/// 64-bit numbers: `word`, `sequence` and a check over all of it and the datagram's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// From a client the cookie, from a server what its kind says.
    pub word: u64,
    /// The number of a message, from 0; of a hello or a question one that its answer repeats.
    pub sequence: u64,
}

/// Kinds of datagrams. Clients send the first four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A [`Hello`](super::Hello) follows, padded to [`HELLO_DATAGRAM_BYTES`](super::HELLO_DATAGRAM_BYTES);
    /// needs no cookie.
    Hello,
    /// Wants to come back.
    Request,
    /// Is counted, not answered.
    Item,
    /// Asks for the [`Counts`](super::Counts), padded as a hello.
    Question,
    /// Answers a hello: `word` is the cookie, a [`Welcome`](super::Welcome) follows.
    Welcome,
    /// A request on its way back, its payload untouched: `word` is how many different requests of this
    /// client were received up to this one.
    Reply,
    /// Answers a question: [`Counts`](super::Counts) follow.
    Counts,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Hello,
        Self::Request,
        Self::Item,
        Self::Question,
        Self::Welcome,
        Self::Reply,
        Self::Counts,
    ];

    const fn code(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Request => 2,
            Self::Item => 3,
            Self::Question => 4,
            Self::Welcome => 0x81,
            Self::Reply => 0x82,
            Self::Counts => 0x84,
        }
    }
}

impl Header {
    /// Writes it over the first bytes of a datagram.
    ///
    /// # Panics
    /// If `datagram` is shorter than [`HEADER_BYTES`].
    #[inline]
    pub fn write(self, datagram: &mut [u8]) {
        let length = datagram.len();
        datagram[..4].copy_from_slice(&MAGIC);
        datagram[4..8].copy_from_slice(&[self.kind.code(), 0, 0, 0]);
        datagram[8..16].copy_from_slice(&self.word.to_le_bytes());
        datagram[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        datagram[24..32].copy_from_slice(&self.check(length).to_le_bytes());
    }

    /// Reads the header of a datagram; `None` if it is not ours or not intact.
    #[inline]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let (header, _) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let number = |at: usize| {
            let bytes = header[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| header[4] == kind.code())?;
        let found = Self {
            kind,
            word: number(8),
            sequence: number(16),
        };
        let ours = header[..4] == MAGIC && header[5..8] == [0, 0, 0];
        (ours && number(24) == found.check(datagram.len())).then_some(found)
    }

    fn check(self, length: usize) -> u64 {
        let kind = u64::from(self.kind.code()) << 56;
        mix(mix(self.word) ^ mix(self.sequence.wrapping_add(1)) ^ kind ^ length as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(length: usize) -> Vec<u8> {
        let mut datagram = vec![0xaa; length];
        Header {
            kind: Kind::Request,
            word: 0x0123_4567_89ab_cdef,
            sequence: 42,
        }
        .write(&mut datagram);
        datagram
    }

    #[test]
    fn a_header_is_read_back() {
        for kind in Kind::ALL {
            let mut bytes = [0; 64];
            let header = Header {
                kind,
                word: 7,
                sequence: u64::MAX,
            };
            header.write(&mut bytes);
            assert_eq!(Header::read(&bytes), Some(header));
        }
    }

    #[test]
    fn any_changed_bit_of_a_header_and_any_other_length_is_noticed() {
        let intact = datagram(64);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = intact.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(&bytes), None, "bit {bit}");
        }
        assert_eq!(Header::read(&intact[..63]), None);
        assert_eq!(Header::read(&intact[..HEADER_BYTES - 1]), None);
        assert_eq!(Header::read(&[]), None);
    }

    #[test]
    fn what_follows_the_header_is_not_its_business() {
        let mut bytes = datagram(64);
        bytes[40] ^= 1;
        assert!(Header::read(&bytes).is_some());
    }
}
