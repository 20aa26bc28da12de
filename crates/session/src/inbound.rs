//! The receiving half of a session: bytes in, frames out.
//!
//! Frames that lie whole in the caller's buffer are handed out in place; only a frame that two reads
//! share is put together in a buffer of the link's own, which grows as bytes arrive and never by a
//! length that the peer announced. Of a large one the rest can be read right there, see
//! [`Inbound::room`].

use std::ops::Range;

use crate::control::{self, Heard};
use crate::framing::{FrameFault, Framing, OnBadFrame, Parser, Step};

/// Finds the frames in what one connection receives.
///
/// Input: [`frames`](Self::frames) with each read. Output: drain [`Frames::next`] until `None`; what
/// is left then is kept for the next read. Who can read into two places at once offers the kernel
/// [`room`](Self::room) first and says with [`filled`](Self::filled) how much of that came.
#[derive(Debug)]
pub struct Inbound {
    parser: Parser,
    /// Bytes of the prefix that marks control frames, where the peer may send some.
    control_prefix_bytes: Option<usize>,
    heard: Heard,
    /// Bytes of earlier reads that are not delivered yet: `start..end`. What is behind that is room.
    carry: Vec<u8>,
    start: usize,
    end: usize,
    /// What the frame that begins there takes in all, as far as is known; 0 if none was begun.
    needed_bytes: usize,
}

impl Inbound {
    /// For one connection: a new one starts with nothing of the old. Without a choice a bad frame has
    /// the framing's own outcome; see [`Framing::default_on_bad_frame`].
    ///
    /// # Panics
    /// If the framing is not valid; see [`Framing::check`].
    pub fn new(
        framing: Framing,
        frame_limit_bytes: usize,
        on_bad_frame: Option<OnBadFrame>,
    ) -> Self {
        Self {
            parser: Parser::new(framing, frame_limit_bytes, on_bad_frame),
            control_prefix_bytes: None,
            heard: Heard::default(),
            carry: Vec::new(),
            start: 0,
            end: 0,
            needed_bytes: 0,
        }
    }

    /// The peer may send control frames, which are no messages: see [`heard`](Self::heard). For a
    /// length prefix only.
    #[must_use]
    pub const fn with_control(mut self) -> Self {
        self.control_prefix_bytes = Some(self.parser.framing().header_bytes());
        self
    }

    /// The control frames among the messages since the last time.
    pub fn heard(&mut self) -> Heard {
        std::mem::take(&mut self.heard)
    }

    /// Where the next read may put the rest of a large frame that has begun; empty where it is as well
    /// to read elsewhere. Never longer than that rest, and never more than has come of the frame, unless
    /// earlier ones were as long: a length that was only announced takes no memory.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        let missing_bytes = self.needed_bytes.saturating_sub(self.kept_bytes());
        if missing_bytes < ROOM_BYTES {
            return &mut [];
        }
        self.make_room(missing_bytes)
    }

    fn make_room(&mut self, missing_bytes: usize) -> &mut [u8] {
        self.move_to_front();
        let may_take_bytes = self.end.max(self.carry.capacity() - self.end);
        let room_bytes = missing_bytes.min(may_take_bytes);
        if room_bytes < ROOM_BYTES {
            return &mut [];
        }
        let end = self.end + room_bytes;
        if self.carry.len() < end {
            self.carry.resize(end, 0);
        }
        &mut self.carry[self.end..end]
    }

    /// The next `bytes` of the stream are in [`room`](Self::room). What came behind them, elsewhere, goes to
    /// [`frames`](Self::frames) next.
    pub fn filled(&mut self, bytes: usize) {
        assert!(
            bytes <= self.carry.len() - self.end,
            "there is room for them"
        );
        self.end += bytes;
    }

    /// Takes what one read returned. `bytes` may be empty, to go on after a pause.
    #[inline]
    pub const fn frames<'a>(&'a mut self, bytes: &'a [u8]) -> Frames<'a> {
        Frames {
            inbound: self,
            bytes,
            at: 0,
        }
    }

    /// Bytes kept for later: part of a frame, or what [`Frames::keep`] put by.
    pub const fn kept_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Bytes passed over because of faults, so far.
    pub const fn skipped_bytes(&self) -> u64 {
        self.parser.skipped_bytes()
    }

    /// Whether a bad frame is to end the connection.
    pub const fn closes(&self) -> bool {
        self.parser.closes()
    }

    /// The stream has ended: the fault that was not told yet, if there is one. What is
    /// [kept](Self::kept_bytes) is a frame cut short.
    pub fn end(&mut self) -> Option<FrameFault> {
        self.parser.end()
    }

    /// What stands at the start of these bytes, with what only drivers say among it.
    #[inline]
    fn step(parser: &mut Parser, control_prefix_bytes: Option<usize>, bytes: &[u8]) -> Step {
        if let Some(prefix_bytes) = control_prefix_bytes
            && !parser.is_passing()
            && let Some(step) = control::step(prefix_bytes, bytes)
        {
            return step;
        }
        parser.next(bytes)
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.move_to_front();
        let end = self.end + bytes.len();
        match self.carry.get_mut(self.end..end) {
            Some(room) => room.copy_from_slice(bytes),
            None => {
                self.carry.truncate(self.end);
                self.carry.extend_from_slice(bytes);
            }
        }
        self.end = end;
    }

    fn move_to_front(&mut self) {
        if self.start > 0 {
            self.carry.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    const fn forget(&mut self) {
        (self.start, self.end) = (0, 0);
        self.needed_bytes = 0;
    }
}

/// The frames of one read.
#[derive(Debug)]
pub struct Frames<'a> {
    inbound: &'a mut Inbound,
    bytes: &'a [u8],
    /// Up to here they are handed out, passed over, or kept.
    at: usize,
}

/// Where the next payload lies.
enum Place {
    Carry(Range<usize>),
    Bytes(Range<usize>),
    Decoded,
}

impl Frames<'_> {
    /// The next payload, valid until the next call; `None` when no whole frame is left.
    ///
    /// # Errors
    /// A [`FrameFault`]. If the link [closes](Inbound::closes) on it, what follows cannot be trusted
    /// and the same fault comes again; else the next call goes on behind it.
    #[expect(
        clippy::should_implement_trait,
        reason = "the payload borrows from self, which Iterator cannot say"
    )]
    #[inline]
    pub fn next(&mut self) -> Option<Result<&[u8], FrameFault>> {
        if let Some(range) = self.whole() {
            return Some(Ok(&self.bytes[range]));
        }
        loop {
            match self.locate()? {
                Ok(place) if self.is_control(&place) => {}
                Ok(Place::Bytes(range)) => return Some(Ok(&self.bytes[range])),
                Ok(Place::Carry(range)) => return Some(Ok(&self.inbound.carry[range])),
                Ok(Place::Decoded) => return Some(Ok(self.inbound.parser.decoded())),
                Err(fault) => return Some(Err(fault)),
            }
        }
    }

    /// The usual case, in as few steps as it takes: a frame behind its length, whole in what was read.
    #[inline]
    fn whole(&mut self) -> Option<Range<usize>> {
        let inbound = &mut *self.inbound;
        if !inbound.carry.is_empty() || inbound.control_prefix_bytes.is_some() {
            return None;
        }
        let (header_bytes, payload_bytes) = inbound.parser.whole(&self.bytes[self.at..])?;
        let from = self.at + header_bytes;
        self.at = from + payload_bytes;
        Some(from..self.at)
    }

    /// Puts what is left by, whole frames too: the link was paused in the middle of a read.
    pub fn keep(self) {
        // There may be whole frames among them.
        self.inbound.needed_bytes = 0;
        if self.at < self.bytes.len() {
            self.inbound.keep(&self.bytes[self.at..]);
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
            Place::Decoded => return false,
        };
        let header = &bytes[range.start - prefix_bytes..range.start];
        let Some(control) = control::read(header, &bytes[range.clone()]) else {
            return false;
        };
        self.inbound.heard.note(control);
        true
    }

    #[inline]
    fn locate(&mut self) -> Option<Result<Place, FrameFault>> {
        if self.inbound.kept_bytes() > 0
            && let Some(located) = self.locate_in_carry()
        {
            return located;
        }
        self.inbound.forget();
        loop {
            let left = &self.bytes[self.at..];
            let control = self.inbound.control_prefix_bytes;
            match Inbound::step(&mut self.inbound.parser, control, left) {
                Step::Frame {
                    header_bytes,
                    payload_bytes,
                    trailer_bytes,
                } => {
                    let from = self.at + header_bytes;
                    let to = from + payload_bytes;
                    self.at = to + trailer_bytes;
                    return Some(Ok(Place::Bytes(from..to)));
                }
                Step::Decoded { frame_bytes } => {
                    self.at += frame_bytes;
                    return Some(Ok(Place::Decoded));
                }
                Step::Pass { bytes } => self.at += bytes,
                Step::Fault(fault) => return Some(Err(fault)),
                Step::Incomplete { needed_bytes } => {
                    if !left.is_empty() {
                        self.inbound.keep(left);
                        self.inbound.needed_bytes = needed_bytes;
                        self.at = self.bytes.len();
                    }
                    return None;
                }
            }
        }
    }

    /// Goes on with what earlier reads left. `None` when nothing of it is left any more.
    #[cold]
    fn locate_in_carry(&mut self) -> Option<Option<Result<Place, FrameFault>>> {
        loop {
            let kept_bytes = self.inbound.kept_bytes();
            // More was put to the carry than its frame needed: the rest is read where it came from.
            if kept_bytes <= self.at {
                self.at -= kept_bytes;
                return None;
            }
            let Inbound {
                parser,
                carry,
                start,
                end,
                control_prefix_bytes,
                ..
            } = &mut *self.inbound;
            match Inbound::step(parser, *control_prefix_bytes, &carry[*start..*end]) {
                Step::Frame {
                    header_bytes,
                    payload_bytes,
                    trailer_bytes,
                } => {
                    let from = self.inbound.start + header_bytes;
                    let to = from + payload_bytes;
                    self.inbound.start = to + trailer_bytes;
                    return Some(Some(Ok(Place::Carry(from..to))));
                }
                Step::Decoded { frame_bytes } => {
                    self.inbound.start += frame_bytes;
                    return Some(Some(Ok(Place::Decoded)));
                }
                Step::Pass { bytes } => self.inbound.start += bytes,
                Step::Fault(fault) => return Some(Some(Err(fault))),
                Step::Incomplete { needed_bytes } => {
                    let left = &self.bytes[self.at..];
                    let more = &left[..left.len().min(needed_bytes - kept_bytes)];
                    if more.is_empty() {
                        self.inbound.needed_bytes = needed_bytes;
                        return Some(None);
                    }
                    self.inbound.keep(more);
                    self.at += more.len();
                }
            }
        }
    }
}

/// Less than that is copied: a second place to read to costs the kernel about as much.
const ROOM_BYTES: usize = 4 * 1024;

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
                let mut inbound = Inbound::new(Framing::length_prefix(), 16, None);
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
            let mut inbound = Inbound::new(Framing::length_prefix(), 16, None).with_control();
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
        let mut inbound = Inbound::new(Framing::length_prefix(), 16, None);
        let mut frames = inbound.frames(&[0xff; 13]);
        assert!(matches!(
            frames.next(),
            Some(Err(FrameFault::TooLarge { .. }))
        ));
    }

    #[test]
    fn memory_follows_what_arrived_not_what_was_announced() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 1 << 30, None);
        let mut frames = Vec::new();
        collect(&mut inbound, &[0x3f, 0, 0, 0, 1, 2], &mut frames);
        assert!(frames.is_empty());
        assert_eq!(inbound.kept_bytes(), 6);
        assert!(inbound.carry.capacity() < 1024);
    }

    /// What a link reads from a stream of which so many bytes come at a time, and the most room it had.
    fn read_into_room(stream: &[u8], each: usize, buffer: usize) -> (Vec<Vec<u8>>, usize, u64) {
        let mut inbound = Inbound::new(Framing::length_prefix(), 1 << 20, None);
        let (mut frames, mut copied) = (Vec::new(), 0);
        let mut left = stream;
        while !left.is_empty() {
            let room = inbound.room();
            let most = room.len() + buffer;
            let (came, rest) = left.split_at(each.min(most).min(left.len()));
            let (first, second) = came.split_at(came.len().min(room.len()));
            room[..first.len()].copy_from_slice(first);
            inbound.filled(first.len());
            collect(&mut inbound, second, &mut frames);
            copied += (inbound.kept_bytes().min(second.len())) as u64;
            left = rest;
        }
        (frames, inbound.carry.capacity(), copied)
    }

    fn stream_of(lengths: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (mut stream, mut payloads) = (Vec::new(), Vec::new());
        for (number, &length) in lengths.iter().enumerate() {
            let payload: Vec<u8> = (0..length).map(|at| (at / 7 + number) as u8).collect();
            stream.extend((length as u32).to_be_bytes());
            stream.extend(&payload);
            payloads.push(payload);
        }
        (stream, payloads)
    }

    #[test]
    fn the_same_frames_come_out_when_the_rest_of_a_large_one_is_read_into_its_place() {
        let lengths = [10_000, 3, 70_000, 70_000, 0, 20_000, 65_536, 65_536, 9_000];
        let (stream, payloads) = stream_of(&lengths);
        for each in [
            1_000,
            4_095,
            4_096,
            4_100,
            9_999,
            30_000,
            68 * 1024,
            usize::MAX,
        ] {
            for buffer in [1_024, 4_096, 68 * 1024] {
                let (frames, room_bytes, _) = read_into_room(&stream, each, buffer);
                assert!(frames == payloads, "reads of {each} beside {buffer}");
                assert!(room_bytes <= 2 * 70_004, "{room_bytes}");
            }
        }
    }

    #[test]
    fn of_large_frames_little_is_copied_once_they_have_room() {
        let (stream, payloads) = stream_of(&[65_536; 32]);
        let (frames, _, copied) = read_into_room(&stream, usize::MAX, 68 * 1024);
        assert_eq!(frames, payloads);
        assert!(
            copied < stream.len() as u64 / 4,
            "{copied} of {}",
            stream.len()
        );
    }

    #[test]
    fn an_announced_length_makes_no_room_before_bytes_of_it_have_come() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 1 << 30, None);
        let mut frames = Vec::new();
        collect(&mut inbound, &[0x3f, 0, 0, 0, 1, 2], &mut frames);
        assert!(inbound.room().is_empty());
        collect(&mut inbound, &[7; 5_000], &mut frames);
        assert_eq!(inbound.room().len(), 5_006);
        inbound.filled(5_006);
        collect(&mut inbound, &[], &mut frames);
        assert_eq!(inbound.room().len(), 10_012);
        assert!(frames.is_empty());
        assert!(inbound.carry.capacity() <= 2 * 10_012);
    }

    #[test]
    fn a_pause_leaves_no_room_until_what_was_kept_is_handed_out() {
        let (stream, payloads) = stream_of(&[10_000, 20_000]);
        let mut inbound = Inbound::new(Framing::length_prefix(), 1 << 20, None);
        let mut frames = inbound.frames(&stream[..19_000]);
        assert_eq!(frames.next(), Some(Ok(&payloads[0][..])));
        frames.keep();
        assert!(inbound.room().is_empty());
        let mut later = Vec::new();
        collect(&mut inbound, &[], &mut later);
        assert_eq!(inbound.room().len(), 19_000 - 10_004);
        collect(&mut inbound, &stream[19_000..], &mut later);
        assert_eq!(later, payloads[1..]);
    }

    #[test]
    fn a_pause_keeps_whole_frames_for_later() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 16, None);
        let mut frames = inbound.frames(STREAM);
        assert_eq!(frames.next(), Some(Ok(&b"abc"[..])));
        frames.keep();
        let mut later = Vec::new();
        collect(&mut inbound, &[], &mut later);
        assert_eq!(later, [b"".to_vec(), b"z".to_vec()]);
    }

    #[test]
    fn raw_delivers_each_read_as_it_came() {
        let mut inbound = Inbound::new(Framing::Raw, 16, None);
        let mut frames = Vec::new();
        collect(&mut inbound, b"one", &mut frames);
        collect(&mut inbound, b"", &mut frames);
        collect(&mut inbound, b"two", &mut frames);
        assert_eq!(frames, [b"one".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn an_oversize_frame_is_a_fault_and_stays_one() {
        let mut inbound = Inbound::new(Framing::length_prefix(), 2, None);
        let mut frames = inbound.frames(STREAM);
        assert!(matches!(frames.next(), Some(Err(_))));
        assert!(matches!(frames.next(), Some(Err(_))));
    }
}
