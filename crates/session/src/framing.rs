//! Where one message ends and the next begins on a byte stream.
//!
//! Here is what all framings have in common: their names, what they cost, and encoding. One file for
//! each framing below; reading them back out of a stream is [`parser`]'s.

mod cobs;
mod crc;
mod encoded;
mod fault;
mod lines;
mod marks;
mod own;
mod parser;
mod pattern;
mod prefix;

pub use encoded::Encoded;
pub use fault::{FrameFault, OnBadFrame, Unframeable};
pub use lines::Lines;
pub use own::{Found, Framer, OwnFraming};
pub use parser::{Parser, Step};
pub use pattern::Pattern;
pub use prefix::{ByteOrder, Header, PrefixWidth};

/// How messages are marked on the wire.
///
/// | | can carry | goes on after a bad frame | costs |
/// |---|---|---|---|
/// | raw | anything; a message is what one read returned | has none | nothing |
/// | length prefix | anything | no: nothing marks a beginning | 1, 2 or 4 bytes |
/// | lines | no delimiter | at the next line | the delimiter |
/// | pattern | no end pattern | at the next start pattern | both patterns |
/// | COBS | anything | at the next zero byte | 6 bytes, and 1 for every 254 |
/// | own | what you say | where you say | what you say |
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// A delimiter goes after the payload: text protocols, NMEA, SCPI.
    Lines(Lines),
    /// The payload stands between a start pattern and an end pattern.
    Pattern(Pattern),
    /// Consistent Overhead Byte Stuffing with a CRC-32: binary payloads on lines that lose or garble
    /// bytes, or that are joined while somebody talks.
    ///
    /// On the wire a frame is `stuff(payload ++ crc) ++ 00`. `crc` is the CRC-32 of the payload as in
    /// zlib, Ethernet and PNG (ISO-HDLC: polynomial 04C11DB7, reflected, from FFFFFFFF, inverted), its
    /// least significant byte first. `stuff` is COBS of Cheshire and Baker: the bytes are cut before
    /// each zero and after every 254 bytes without one; before each piece of n bytes goes n + 1, and
    /// the zeros are left out. After a last piece of 254 bytes no empty piece follows, though one is
    /// understood. Zeros between frames mean nothing: a sender may begin with one.
    Cobs,
    /// The user's own.
    Own(OwnFraming),
}

impl Framing {
    /// The default length prefix: four bytes, big-endian.
    pub const fn length_prefix() -> Self {
        Self::LengthPrefix {
            width: PrefixWidth::Four,
            order: ByteOrder::Big,
        }
    }

    /// Lines that end with `\n`; a `\r` before it is part of the payload. For other delimiters, or to
    /// strip the `\r`, see [`Lines`].
    pub fn lines() -> Self {
        Self::Lines(Lines::default())
    }

    /// Payloads between a start and an end pattern of 1 to 16 bytes each; see [`Pattern`].
    pub fn pattern(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self::Pattern(Pattern {
            start: start.into(),
            end: end.into(),
        })
    }

    /// COBS with a CRC-32; see [`Framing::Cobs`].
    pub const fn cobs() -> Self {
        Self::Cobs
    }

    /// The user's own; see [`Framer`].
    pub fn own(framer: impl Framer + 'static) -> Self {
        Self::Own(OwnFraming::new(framer))
    }

    /// Says what is wrong with it, if something is: a mark that is empty or too long.
    ///
    /// # Errors
    /// The sentence that goes on after the option's name.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Raw | Self::LengthPrefix { .. } | Self::Cobs | Self::Own(_) => Ok(()),
            Self::Lines(lines) => lines.check(),
            Self::Pattern(pattern) => pattern.check(),
        }
    }

    /// What to do with a bad frame where the user has not chosen: go on where the framing marks the
    /// next beginning, close where it does not.
    pub const fn default_on_bad_frame(&self) -> OnBadFrame {
        match self {
            Self::Raw | Self::LengthPrefix { .. } | Self::Own(_) => OnBadFrame::Close,
            Self::Lines(_) | Self::Pattern(_) | Self::Cobs => OnBadFrame::Resynchronise,
        }
    }

    /// Bytes that go before a payload and are all that is added to it; 0 for raw, and for framings
    /// that do more than that.
    #[inline]
    pub const fn header_bytes(&self) -> usize {
        match self {
            Self::LengthPrefix { width, .. } => width.bytes(),
            Self::Raw | Self::Lines(_) | Self::Pattern(_) | Self::Cobs | Self::Own(_) => 0,
        }
    }

    /// The bytes that go before a payload of this length, which is within
    /// [`payload_limit_bytes`](Self::payload_limit_bytes); none where
    /// [`header_bytes`](Self::header_bytes) is 0.
    #[inline]
    pub fn header(&self, payload_bytes: usize) -> Header {
        match self {
            Self::LengthPrefix { width, order } => {
                debug_assert!(payload_bytes <= self.payload_limit_bytes());
                Header::of(*width, *order, payload_bytes)
            }
            Self::Raw | Self::Lines(_) | Self::Pattern(_) | Self::Cobs | Self::Own(_) => {
                Header::default()
            }
        }
    }

    /// The most bytes that a payload of this length can become.
    pub fn encoded_limit_bytes(&self, payload_bytes: usize) -> usize {
        let added_bytes = match self {
            Self::Raw => 0,
            Self::LengthPrefix { width, .. } => width.bytes(),
            Self::Lines(lines) => lines.delimiter.len(),
            Self::Pattern(pattern) => pattern.start.len() + pattern.end.len(),
            Self::Cobs => cobs::overhead_limit_bytes(payload_bytes),
            Self::Own(own) => own.framer().overhead_limit_bytes(payload_bytes),
        };
        payload_bytes.saturating_add(added_bytes)
    }

    /// The longest payload that this framing can carry.
    pub fn payload_limit_bytes(&self) -> usize {
        let most = self.payload_within(LONGEST_ENCODED);
        match self {
            Self::LengthPrefix { width, .. } => most.min(width.announced_limit()),
            Self::Raw | Self::Lines(_) | Self::Pattern(_) | Self::Cobs | Self::Own(_) => most,
        }
    }

    /// The longest payload that is within so many bytes however it is encoded.
    pub fn payload_within(&self, room_bytes: usize) -> usize {
        // What is added only grows with the payload, so the answer lies between these two.
        let (mut fits, mut too_long) = (0, room_bytes.saturating_add(1));
        while too_long - fits > 1 {
            let middle = fits + (too_long - fits) / 2;
            if self.encoded_limit_bytes(middle) <= room_bytes {
                fits = middle;
            } else {
                too_long = middle;
            }
        }
        fits
    }

    /// Appends the payload as it goes to the wire.
    ///
    /// # Errors
    /// [`Unframeable`]: the payload contains what this framing takes for a mark, or is longer than
    /// [`payload_limit_bytes`](Self::payload_limit_bytes). Then nothing is appended.
    pub fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        match self {
            Self::Own(own) => return own.encode(payload, into),
            Self::LengthPrefix { width, .. } if payload.len() > width.announced_limit() => {
                return Err(Unframeable);
            }
            Self::Raw
            | Self::LengthPrefix { .. }
            | Self::Lines(_)
            | Self::Pattern(_)
            | Self::Cobs => {}
        }
        let weight = self.weigh(payload)?;
        if weight.encoded_bytes > LONGEST_ENCODED {
            return Err(Unframeable);
        }
        self.append(payload, weight, into);
        Ok(())
    }

    /// What a payload will be on the wire, known before it is encoded. For all but the user's own,
    /// which nobody knows before.
    #[inline]
    pub(crate) fn weigh(&self, payload: &[u8]) -> Result<Weight, Unframeable> {
        let plain = |added_bytes| Weight {
            encoded_bytes: payload.len() + added_bytes,
            checksum: 0,
        };
        match self {
            Self::Raw | Self::Own(_) => Ok(plain(0)),
            Self::LengthPrefix { width, .. } => Ok(plain(width.bytes())),
            Self::Lines(lines) => lines.weigh(payload).map(plain),
            Self::Pattern(pattern) => pattern.weigh(payload).map(plain),
            Self::Cobs => Ok(cobs::weigh(payload)),
        }
    }

    /// Appends a payload that was weighed.
    #[inline]
    pub(crate) fn append(&self, payload: &[u8], weight: Weight, into: &mut Vec<u8>) {
        let before = into.len();
        match self {
            Self::Raw | Self::LengthPrefix { .. } | Self::Own(_) => {
                into.extend_from_slice(&self.header(payload.len()));
                into.extend_from_slice(payload);
            }
            Self::Lines(lines) => {
                into.extend_from_slice(payload);
                into.extend_from_slice(&lines.delimiter);
            }
            Self::Pattern(pattern) => {
                into.extend_from_slice(&pattern.start);
                into.extend_from_slice(payload);
                into.extend_from_slice(&pattern.end);
            }
            Self::Cobs => cobs::encode(payload, weight.checksum, into),
        }
        debug_assert_eq!(into.len() - before, weight.encoded_bytes);
    }
}

/// A queued message's encoded length is kept in 32 bits.
pub(crate) const LONGEST_ENCODED: usize = u32::MAX as usize;

/// What a payload will be on the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    pub(crate) encoded_bytes: usize,
    /// Of the payload, where the framing has one: it is not computed twice.
    pub(crate) checksum: u32,
}

#[cfg(test)]
mod tests;
