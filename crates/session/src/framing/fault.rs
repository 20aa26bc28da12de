//! What can be wrong with received bytes, and what to do then.

use std::fmt;

/// What becomes of a link that received a bad frame. Whatever it is, the fault is counted and told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnBadFrame {
    /// The connection ends.
    Close,
    /// Exactly the bad frame is passed over, to its end: the announced bytes after a length prefix,
    /// or whatever comes before the delimiter, end pattern or zero byte. They are read, never stored.
    Skip,
    /// Looks for the next beginning right behind the bad one's own, so that a frame is found whose
    /// forerunner lost its end. Until a frame comes out nothing more is told: it is one loss of step.
    /// Where a beginning is wherever a frame ended (lines, COBS) it is the same as to skip.
    Resynchronise,
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
    /// A frame has no end within the frame limit. How long it is nobody has announced.
    TooLong {
        /// The limit in force.
        limit_bytes: usize,
    },
    /// The checksum does not fit the payload: something was garbled on the way, or a frame was joined
    /// in its middle.
    BadChecksum,
    /// Bytes that no sender of this framing makes.
    BadEncoding,
    /// Bytes before the start of a frame. Told when a frame starts or the stream ends, and for every
    /// 4,096 bytes of a longer run.
    Junk {
        /// How many.
        bytes: usize,
    },
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge {
                announced_bytes,
                limit_bytes,
            } => write!(
                f,
                "a frame of {announced_bytes} bytes was announced, the limit is {limit_bytes}"
            ),
            Self::TooLong { limit_bytes } => {
                write!(
                    f,
                    "a frame does not end within the limit of {limit_bytes} bytes"
                )
            }
            Self::BadChecksum => f.write_str("a frame's checksum does not fit it"),
            Self::BadEncoding => f.write_str("a frame is not encoded as its framing has it"),
            Self::Junk { bytes } => write!(f, "{bytes} bytes that belong to no frame"),
        }
    }
}

impl std::error::Error for FrameFault {}

/// A framing cannot carry a payload: it contains what the framing takes for a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unframeable;

impl fmt::Display for Unframeable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the framing cannot carry this message: it contains one of its marks")
    }
}

impl std::error::Error for Unframeable {}
