//! Where one message ends and the next begins on a byte stream.

/// How messages are marked on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Framing {
    /// No marks. On a byte stream a message is whatever one read returns; a datagram is a message.
    #[default]
    Raw,
    /// The payload's length goes before it.
    LengthPrefix {
        /// Bytes of the prefix.
        width: PrefixWidth,
        /// Which byte comes first.
        order: ByteOrder,
    },
}

/// Bytes of a length prefix, and so the longest payload it can announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrefixWidth {
    /// One byte: payloads to 255 bytes.
    One,
    /// Two bytes: payloads to 65,535 bytes.
    Two,
    /// Four bytes: payloads to 4,294,967,295 bytes.
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

impl Framing {
    /// The default length prefix: four bytes, big-endian.
    pub const fn length_prefix() -> Self {
        Self::LengthPrefix {
            width: PrefixWidth::Four,
            order: ByteOrder::Big,
        }
    }

    /// Bytes that this framing adds to a message.
    #[inline]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Raw => 0,
            Self::LengthPrefix { width, .. } => width.bytes(),
        }
    }

    /// The longest payload that this framing can carry.
    pub const fn payload_limit_bytes(self) -> usize {
        match self {
            // A queued message's length is kept in 32 bits.
            Self::Raw => u32::MAX as usize,
            Self::LengthPrefix { width, .. } => match width {
                PrefixWidth::One => u8::MAX as usize,
                PrefixWidth::Two => u16::MAX as usize,
                // Its own four bytes have to fit the 32 bits too.
                PrefixWidth::Four => u32::MAX as usize - 4,
            },
        }
    }

    /// The bytes that go before a payload of this length, which is within
    /// [`payload_limit_bytes`](Self::payload_limit_bytes).
    #[inline]
    pub fn header(self, payload_bytes: usize) -> Header {
        debug_assert!(payload_bytes <= self.payload_limit_bytes());
        match self {
            Self::Raw => Header::default(),
            Self::LengthPrefix { width, order } => {
                // Checked before by the payload limit: the bytes that do not fit are zero.
                let length = payload_bytes as u32;
                let unused_bits = 32 - 8 * width.bytes() as u32;
                let bytes = match order {
                    ByteOrder::Big => (length << unused_bits).to_be_bytes(),
                    ByteOrder::Little => length.to_le_bytes(),
                };
                Header {
                    bytes,
                    length: width.bytes() as u8,
                }
            }
        }
    }

    /// Looks for one frame at the start of `bytes`.
    ///
    /// A pure function: it keeps nothing between calls, so the same frames come out wherever the
    /// input was cut. A payload above `limit_bytes` is a fault, known from its header alone.
    #[inline]
    pub fn parse(self, bytes: &[u8], limit_bytes: usize) -> Step {
        match self {
            Self::Raw if bytes.is_empty() => Step::Incomplete { needed_bytes: 1 },
            Self::Raw => Step::Frame {
                header_bytes: 0,
                payload_bytes: bytes.len(),
            },
            Self::LengthPrefix { width, order } => {
                let header_bytes = width.bytes();
                let Some(prefix) = bytes.get(..header_bytes) else {
                    return Step::Incomplete {
                        needed_bytes: header_bytes,
                    };
                };
                let payload_bytes = order.read(prefix);
                if payload_bytes > limit_bytes {
                    return Step::Fault(FrameFault::TooLarge {
                        announced_bytes: payload_bytes as u64,
                        limit_bytes,
                    });
                }
                if bytes.len() - header_bytes < payload_bytes {
                    return Step::Incomplete {
                        needed_bytes: header_bytes + payload_bytes,
                    };
                }
                Step::Frame {
                    header_bytes,
                    payload_bytes,
                }
            }
        }
    }
}

impl PrefixWidth {
    #[inline]
    const fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

impl ByteOrder {
    #[inline]
    fn read(self, prefix: &[u8]) -> usize {
        let append = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
        match self {
            Self::Big => prefix.iter().fold(0, append),
            Self::Little => prefix.iter().rev().fold(0, append),
        }
    }
}

/// The bytes before a payload: none to four.
#[derive(Debug, Clone, Copy, Default)]
pub struct Header {
    bytes: [u8; 4],
    length: u8,
}

impl std::ops::Deref for Header {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What stands at the start of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A whole frame.
    Frame {
        /// Bytes before the payload.
        header_bytes: usize,
        /// Bytes of the payload.
        payload_bytes: usize,
    },
    /// The start of a frame.
    Incomplete {
        /// With so many bytes in all there is more to say: a whole header, or a whole frame.
        needed_bytes: usize,
    },
    /// Something that cannot be a frame.
    Fault(FrameFault),
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameFault {
    /// The header announces more than the frame limit.
    TooLarge {
        /// What the peer announced; nothing was allocated for it.
        announced_bytes: u64,
        /// The limit in force.
        limit_bytes: usize,
    },
}

impl std::fmt::Display for FrameFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge {
                announced_bytes,
                limit_bytes,
            } => write!(
                f,
                "a frame of {announced_bytes} bytes was announced, the limit is {limit_bytes}"
            ),
        }
    }
}

impl std::error::Error for FrameFault {}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_LITTLE: Framing = Framing::LengthPrefix {
        width: PrefixWidth::Two,
        order: ByteOrder::Little,
    };

    #[test]
    fn headers_have_the_width_and_order_asked_for() {
        let one = Framing::LengthPrefix {
            width: PrefixWidth::One,
            order: ByteOrder::Big,
        };
        let two_big = Framing::LengthPrefix {
            width: PrefixWidth::Two,
            order: ByteOrder::Big,
        };
        assert_eq!(&*Framing::Raw.header(300), &[] as &[u8]);
        assert_eq!(&*one.header(255), &[255]);
        assert_eq!(&*two_big.header(0x0102), &[1, 2]);
        assert_eq!(&*TWO_LITTLE.header(0x0102), &[2, 1]);
        assert_eq!(&*Framing::length_prefix().header(0x0102), &[0, 0, 1, 2]);
    }

    #[test]
    fn an_announced_length_above_the_limit_is_a_fault_before_any_payload_came() {
        let step = Framing::length_prefix().parse(&[0xff, 0xff, 0xff, 0xff], 1 << 20);
        assert_eq!(
            step,
            Step::Fault(FrameFault::TooLarge {
                announced_bytes: 4_294_967_295,
                limit_bytes: 1_048_576
            })
        );
    }

    #[test]
    fn a_frame_of_exactly_the_limit_passes() {
        let step = TWO_LITTLE.parse(&[3, 0, b'a', b'b', b'c', b'd'], 3);
        assert_eq!(
            step,
            Step::Frame {
                header_bytes: 2,
                payload_bytes: 3
            }
        );
    }

    #[test]
    fn an_empty_payload_is_a_frame() {
        assert_eq!(
            TWO_LITTLE.parse(&[0, 0], 3),
            Step::Frame {
                header_bytes: 2,
                payload_bytes: 0
            }
        );
    }

    #[test]
    fn half_a_header_and_half_a_payload_say_how_much_is_needed() {
        assert_eq!(
            TWO_LITTLE.parse(&[5], 9),
            Step::Incomplete { needed_bytes: 2 }
        );
        assert_eq!(
            TWO_LITTLE.parse(&[5, 0, 1], 9),
            Step::Incomplete { needed_bytes: 7 }
        );
    }
}
