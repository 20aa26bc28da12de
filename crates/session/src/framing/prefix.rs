//! A length before each payload.

use super::fault::FrameFault;
use super::parser::Sighting;

/// Bytes of a length prefix, and so the longest payload it can announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrefixWidth {
    /// One byte: payloads to 255 bytes.
    One,
    /// Two bytes: payloads to 65,535 bytes.
    Two,
    /// Four bytes: payloads to 4,294,967,291 bytes; with their prefix they stay within 32 bits.
    Four,
}

/// Which byte of a number comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Most significant first: network order.
    Big,
    /// Least significant first.
    Little,
}

/// The bytes before a payload: none to four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    bytes: [u8; 4],
    length: u8,
}

/// Looks for one frame at the start of `bytes`. A payload above the limit is known from its header.
#[inline]
pub(super) fn find(
    width: PrefixWidth,
    order: ByteOrder,
    bytes: &[u8],
    limit_bytes: usize,
) -> Sighting {
    let header_bytes = width.bytes();
    let Some(prefix) = bytes.get(..header_bytes) else {
        return Sighting::Incomplete {
            needed_bytes: header_bytes,
        };
    };
    let payload_bytes = order.read(prefix);
    if payload_bytes > limit_bytes {
        return Sighting::Bad {
            fault: FrameFault::TooLarge {
                announced_bytes: payload_bytes as u64,
                limit_bytes,
            },
            pass_bytes: header_bytes + payload_bytes,
        };
    }
    if bytes.len() - header_bytes < payload_bytes {
        return Sighting::Incomplete {
            needed_bytes: header_bytes + payload_bytes,
        };
    }
    Sighting::Frame {
        header_bytes,
        payload_bytes,
        trailer_bytes: 0,
    }
}

impl Header {
    /// Announces a length that the width can say.
    #[inline]
    pub(super) fn of(width: PrefixWidth, order: ByteOrder, payload_bytes: usize) -> Self {
        // The bytes that do not fit are zero.
        let length = payload_bytes as u32;
        let unused_bits = 32 - 8 * width.bytes() as u32;
        let bytes = match order {
            ByteOrder::Big => (length << unused_bits).to_be_bytes(),
            ByteOrder::Little => length.to_le_bytes(),
        };
        Self {
            bytes,
            length: width.bytes() as u8,
        }
    }
}

impl std::ops::Deref for Header {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl PrefixWidth {
    #[inline]
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    pub(super) const fn announced_limit(self) -> usize {
        match self {
            Self::One => u8::MAX as usize,
            Self::Two => u16::MAX as usize,
            Self::Four => u32::MAX as usize,
        }
    }
}

impl ByteOrder {
    #[inline]
    fn read(self, prefix: &[u8]) -> usize {
        if let Ok(four) = <[u8; 4]>::try_from(prefix) {
            // The usual width, in one load.
            return match self {
                Self::Big => u32::from_be_bytes(four),
                Self::Little => u32::from_le_bytes(four),
            } as usize;
        }
        let append = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
        match self {
            Self::Big => prefix.iter().fold(0, append),
            Self::Little => prefix.iter().rev().fold(0, append),
        }
    }
}
