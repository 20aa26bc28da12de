//! What two drivers say to each other between messages: frames that no application sees.
//!
//! On the wire: a length prefix of which every bit is set, one byte of kind (1 ping, 2 pong), and the
//! number that a pong sends back, 8 bytes, most significant first. No message has such a length while
//! this is on; off, or of another kind, it announces too large a frame.

use crate::framing::Step;

/// A frame between two drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// "Are you there?" The number is the asker's own.
    Ping(u64),
    /// "I am", with the number asked by.
    Pong(u64),
}

/// What came between the messages of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heard {
    /// The last ping: answering it answers those before it.
    pub ping: Option<u64>,
    /// The last pong.
    pub pong: Option<u64>,
    /// How many frames in all.
    pub frames: u64,
}

impl Control {
    /// What goes after the mark.
    pub(crate) fn encode(self) -> [u8; CONTROL_BYTES] {
        let (kind, number) = match self {
            Self::Ping(number) => (PING, number),
            Self::Pong(number) => (PONG, number),
        };
        let mut bytes = [kind; CONTROL_BYTES];
        bytes[1..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn decode(bytes: [u8; CONTROL_BYTES]) -> Option<Self> {
        let [kind, number @ ..] = bytes;
        let number = u64::from_be_bytes(number);
        match kind {
            PING => Some(Self::Ping(number)),
            PONG => Some(Self::Pong(number)),
            _ => None,
        }
    }
}

impl Heard {
    /// Takes note of a payload that follows a mark.
    pub(crate) fn note(&mut self, control: Control) {
        self.frames += 1;
        match control {
            Control::Ping(number) => self.ping = Some(number),
            Control::Pong(number) => self.pong = Some(number),
        }
    }
}

/// What stands in the place of a length prefix of this width.
pub(crate) fn mark(prefix_bytes: usize) -> &'static [u8] {
    &[0xff; 4][..prefix_bytes]
}

/// Looks for a control frame at the start of `bytes`; `None` where there is none.
pub(crate) fn step(prefix_bytes: usize, bytes: &[u8]) -> Option<Step> {
    let rest = bytes.strip_prefix(mark(prefix_bytes))?;
    if rest.len() < CONTROL_BYTES {
        return Some(Step::Incomplete {
            needed_bytes: prefix_bytes + CONTROL_BYTES,
        });
    }
    read(mark(prefix_bytes), &rest[..CONTROL_BYTES])?;
    Some(Step::Frame {
        header_bytes: prefix_bytes,
        payload_bytes: CONTROL_BYTES,
        trailer_bytes: 0,
    })
}

/// The control frame that a frame is, if it is one.
pub(crate) fn read(header: &[u8], payload: &[u8]) -> Option<Control> {
    if header != mark(header.len()) {
        return None;
    }
    Control::decode(payload.try_into().ok()?)
}

/// A control frame without its mark.
pub const CONTROL_BYTES: usize = 9;
const PING: u8 = 1;
const PONG: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_kind_and_its_number() {
        let ping = Control::Ping(0x0102_0304_0506_0708);
        assert_eq!(ping.encode(), [1, 1, 2, 3, 4, 5, 6, 7, 8]);
        for control in [ping, Control::Pong(u64::MAX), Control::Pong(0)] {
            assert_eq!(read(&[0xff; 2], &control.encode()), Some(control));
        }
    }

    #[test]
    fn a_length_that_is_not_all_ones_is_no_mark() {
        assert_eq!(step(2, &[0xff, 0xfe, 1, 0, 0]), None);
        assert_eq!(read(&[0, 9], &Control::Ping(1).encode()), None);
    }

    #[test]
    fn a_kind_that_nobody_knows_is_no_control_frame() {
        let mut bytes = vec![0xff, 0xff, 9];
        bytes.extend([0; 8]);
        assert_eq!(step(2, &bytes), None);
    }

    #[test]
    fn half_a_frame_says_how_much_is_needed() {
        let needed_bytes = 13;
        assert_eq!(step(4, &[0xff; 3]), None, "it may be a length yet");
        assert_eq!(step(4, &[0xff; 4]), Some(Step::Incomplete { needed_bytes }));
        assert_eq!(
            step(4, &[0xff; 12]),
            Some(Step::Incomplete { needed_bytes })
        );
    }
}
