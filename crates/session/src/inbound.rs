//! The receiving half of a session: bytes in, frames out.
//!
//! Frames that lie whole in the caller's buffer are handed out in place; only a frame that two reads
//! share is put together in a buffer of the link's own, which grows as bytes arrive and never by a
//! length that the peer announced.

use std::ops::Range;

use crate::control::{self, Heard};
use crate::framing::{FrameFault, Framing, Step};

/// Finds the frames in what one connection receives.
///
/// Input: [`frames`](Self::frames) with each read. Output: drain [`Frames::next`] until `None`; what
/// is left then is kept for the next read.
#[derive(Debug)]
pub struct Inbound {
    framing: Framing,
    frame_limit_bytes: usize,
    /// Bytes of the prefix that marks control frames, where the peer may send some.
    control_prefix_bytes: Option<usize>,
    heard: Heard,
    /// Bytes of earlier reads that are not delivered yet, from `start` on.
    carry: Vec<u8>,
    start: usize,
}

impl Inbound {
    /// For one connection: a new one starts with nothing of the old.
    pub const fn new(framing: Framing, frame_limit_bytes: usize) -> Self {
        Self {
            framing,
            frame_limit_bytes,
            control_prefix_bytes: None,
            heard: Heard {
                ping: None,
                pong: None,
                frames: 0,
            },
            carry: Vec::new(),
            start: 0,
        }
    }

    /// The peer may send control frames, which are no messages: see [`heard`](Self::heard). For a
    /// length prefix only.
    #[must_use]
    pub const fn with_control(mut self) -> Self {
        self.control_prefix_bytes = Some(self.framing.header_bytes());
        self
    }

    /// The control frames among the messages since the last time.
    pub fn heard(&mut self) -> Heard {
        std::mem::take(&mut self.heard)
    }

    /// Takes what one read returned. `bytes` may be empty, to go on after a pause.
    #[inline]
    pub const fn frames<'a>(&'a mut self, bytes: &'a [u8]) -> Frames<'a> {
        Frames {
            inbound: self,
            bytes,
        }
    }

    /// Bytes kept for later: part of a frame, or what [`Frames::keep`] put by.
    pub const fn kept_bytes(&self) -> usize {
        self.carry.len() - self.start
    }

    #[inline]
    fn step(&self, bytes: &[u8]) -> Step {
        if let Some(prefix_bytes) = self.control_prefix_bytes
            && let Some(step) = control::step(prefix_bytes, bytes)
        {
            return step;
        }
        self.framing.parse(bytes, self.frame_limit_bytes)
    }

    fn kept(&self) -> &[u8] {
        &self.carry[self.start..]
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.carry.drain(..self.start);
            self.start = 0;
        }
        self.carry.extend_from_slice(bytes);
    }
}

/// The frames of one read.
#[derive(Debug)]
pub struct Frames<'a> {
    inbound: &'a mut Inbound,
    bytes: &'a [u8],
}

/// Where the next payload lies.
enum Place {
    Carry(Range<usize>),
    Bytes(Range<usize>),
}

impl Frames<'_> {
    /// The next payload, valid until the next call; `None` when no whole frame is left.
    ///
    /// # Errors
    /// A [`FrameFault`] ends the connection's stream: what follows cannot be trusted.
    #[expect(
        clippy::should_implement_trait,
        reason = "the payload borrows from self, which Iterator cannot say"
    )]
    #[inline]
    pub fn next(&mut self) -> Option<Result<&[u8], FrameFault>> {
        loop {
            match self.locate()? {
                Ok(place) if self.is_control(&place) => {}
                Ok(Place::Carry(range)) => return Some(Ok(&self.inbound.carry[range])),
                Ok(Place::Bytes(range)) => {
                    let (payload, rest) = self.bytes.split_at(range.end);
                    self.bytes = rest;
                    return Some(Ok(&payload[range.start..]));
                }
                Err(fault) => return Some(Err(fault)),
            }
        }
    }

    /// Puts what is left by, whole frames too: the link was paused in the middle of a read.
    pub fn keep(self) {
        if !self.bytes.is_empty() {
            self.inbound.keep(self.bytes);
        }
    }

    /// Whether a frame is no message but for us; then it is taken note of and passed.
    #[inline]
    fn is_control(&mut self, place: &Place) -> bool {
        let Some(prefix_bytes) = self.inbound.control_prefix_bytes else {
            return false;
        };
        let (bytes, range) = match place {
            Place::Carry(range) => (&self.inbound.carry[..], range),
            Place::Bytes(range) => (self.bytes, range),
        };
        let header = &bytes[range.start - prefix_bytes..range.start];
        let Some(control) = control::read(header, &bytes[range.clone()]) else {
            return false;
        };
        self.inbound.heard.note(control);
        if let Place::Bytes(range) = place {
            self.bytes = &self.bytes[range.end..];
        }
        true
    }

    #[inline]
    fn locate(&mut self) -> Option<Result<Place, FrameFault>> {
        while self.inbound.kept_bytes() > 0 {
            match self.inbound.step(self.inbound.kept()) {
                Step::Frame {
                    header_bytes,
                    payload_bytes,
                } => {
                    let from = self.inbound.start + header_bytes;
                    self.inbound.start = from + payload_bytes;
                    return Some(Ok(Place::Carry(from..from + payload_bytes)));
                }
                Step::Fault(fault) => return Some(Err(fault)),
                Step::Incomplete { needed_bytes } => {
                    let wanted_bytes = needed_bytes - self.inbound.kept_bytes();
                    let (more, rest) = self.bytes.split_at(wanted_bytes.min(self.bytes.len()));
                    if more.is_empty() {
                        return None;
                    }
                    self.inbound.keep(more);
                    self.bytes = rest;
                }
            }
        }
        self.inbound.carry.clear();
        self.inbound.start = 0;
        match self.inbound.step(self.bytes) {
            Step::Frame {
                header_bytes,
                payload_bytes,
            } => Some(Ok(Place::Bytes(header_bytes..header_bytes + payload_bytes))),
            Step::Fault(fault) => Some(Err(fault)),
            Step::Incomplete { .. } => {
                if !self.bytes.is_empty() {
                    self.inbound.keep(self.bytes);
                    self.bytes = &[];
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;

    fn collect(inbound: &mut Inbound, bytes: &[u8], into: &mut Vec<Vec<u8>>) {
        let mut frames = inbound.frames(bytes);
        while let Some(frame) = frames.next() {
            into.push(frame.expect("no fault in this input").to_vec());
        }
    }

    const STREAM: &[u8] = b"\0\0\0\x03abc\0\0\0\0\0\0\0\x01z";

    #[test]
    fn the_same_frames_come_out_wherever_the_input_is_cut() {
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let mut inbound = Inbound::new(Framing::length_prefix(), 16);
                let mut frames = Vec::new();
                collect(&mut inbound, &STREAM[..first], &mut frames);
                collect(&mut inbound, &STREAM[first..second], &mut frames);
                collect(&mut inbound, &STREAM[second..], &mut frames);
                assert_eq!(
                    frames,
                    [b"abc".to_vec(), b"".to_vec(), b"z".to_vec()],
                    "cut at {first} and {second}"
                );
                assert_eq!(inbound.kept_bytes(), 0);
            }
        }
    }

    #[test]
    fn control_frames_are_heard_and_not_handed_out_wherever_the_input_is_cut() {
        let mut stream = b"\0\0\0\x03abc".to_vec();
        for control in [Control::Ping(7), Control::Pong(9), Control::Ping(8)] {
            stream.extend([0xff; 4]);
            stream.extend(control.encode());
        }
        stream.extend(b"\0\0\0\x01z");
        for cut in 0..=stream.len() {
            let mut inbound = Inbound::new(Framing::length_prefix(), 16).with_control();
            let mut frames = Vec::new();
            collect(&mut inbound, &stream[..cut], &mut frames);
            collect(&mut inbound, &stream[cut..], &mut frames);
            assert_eq!(frames, [b"abc".to_vec(), b"z".to_vec()], "cut at {cut}");
            let heard = inbound.heard();
            assert_eq!((heard.ping, heard.pong), (Some(8), Some(9)));
            assert_eq!(heard.frames, 3);
            assert_eq!(inbound.heard(), Heard::default());
            assert_eq!(inbound.kept_bytes(), 0);
        }
    }

    #[test]
    fn without_control_frames_their_mark_is_a_length_like_any_other() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 16);
        let mut frames = inbound.frames(&[0xff; 13]);
        assert!(matches!(
            frames.next(),
            Some(Err(FrameFault::TooLarge { .. }))
        ));
    }

    #[test]
    fn memory_follows_what_arrived_not_what_was_announced() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 1 << 30);
        let mut frames = Vec::new();
        collect(&mut inbound, &[0x3f, 0, 0, 0, 1, 2], &mut frames);
        assert!(frames.is_empty());
        assert_eq!(inbound.kept_bytes(), 6);
        assert!(inbound.carry.capacity() < 1024);
    }

    #[test]
    fn a_pause_keeps_whole_frames_for_later() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 16);
        let mut frames = inbound.frames(STREAM);
        assert_eq!(frames.next(), Some(Ok(&b"abc"[..])));
        frames.keep();
        let mut later = Vec::new();
        collect(&mut inbound, &[], &mut later);
        assert_eq!(later, [b"".to_vec(), b"z".to_vec()]);
    }

    #[test]
    fn raw_delivers_each_read_as_it_came() {
        let mut inbound = Inbound::new(Framing::Raw, 16);
        let mut frames = Vec::new();
        collect(&mut inbound, b"one", &mut frames);
        collect(&mut inbound, b"", &mut frames);
        collect(&mut inbound, b"two", &mut frames);
        assert_eq!(frames, [b"one".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn an_oversize_frame_is_a_fault_and_stays_one() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 2);
        let mut frames = inbound.frames(STREAM);
        assert!(matches!(frames.next(), Some(Err(_))));
        assert!(matches!(frames.next(), Some(Err(_))));
    }
}
