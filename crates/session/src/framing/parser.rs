//! Frames out of a stream: where each one lies, and what becomes of what is none.

use super::fault::{FrameFault, OnBadFrame};
use super::{Framing, cobs, marks, prefix};

/// Finds the frames of one stream, wherever its reads were cut.
///
/// Input: [`next`](Self::next) with all bytes that are there and not passed yet; after each step the
/// caller passes over what it says. It remembers how far it has searched, so the work is linear in the
/// bytes, however small the reads.
#[derive(Debug)]
pub struct Parser {
    framing: Framing,
    limit_bytes: usize,
    on_bad_frame: OnBadFrame,
    passing: Passing,
    /// How many of the next bytes were searched for the end of a frame, in vain.
    examined_bytes: usize,
    /// Bytes before a start that were passed over and not told yet.
    junk_bytes: usize,
    /// A fault was told, and no frame came out since: what is passed over until then belongs to it.
    out_of_step: bool,
    /// The payload of a frame that does not stand on the wire as it is.
    decoded: Vec<u8>,
    skipped_bytes: u64,
}

/// What stands at the start of some bytes. All but `Incomplete` and `Fault` pass over what they found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A whole frame.
    Frame {
        /// Bytes before the payload.
        header_bytes: usize,
        /// Bytes of the payload.
        payload_bytes: usize,
        /// Bytes behind it.
        trailer_bytes: usize,
    },
    /// A whole frame, its payload in [`Parser::decoded`].
    Decoded {
        /// Bytes of the frame on the wire.
        frame_bytes: usize,
    },
    /// Bytes of no frame.
    Pass {
        /// How many.
        bytes: usize,
    },
    /// The start of a frame.
    Incomplete {
        /// More than there are. With a header or a length known it is what is needed in all; else a
        /// good number to read on to. Never more than a frame of the limit has.
        needed_bytes: usize,
    },
    /// Something that is no frame. Unless it closes the link, what comes next goes on behind it.
    Fault(FrameFault),
}

/// What a framing sees at the start of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sighting {
    Frame {
        header_bytes: usize,
        payload_bytes: usize,
        trailer_bytes: usize,
    },
    Decoded {
        frame_bytes: usize,
    },
    /// Bytes that the framing allows between frames.
    Padding {
        bytes: usize,
    },
    Incomplete {
        needed_bytes: usize,
    },
    /// A frame that is bad, as far as it goes.
    Bad {
        fault: FrameFault,
        pass_bytes: usize,
    },
    /// A frame that has not ended within the limit; its end is not among the first so many bytes.
    Endless {
        examined_bytes: usize,
    },
    /// No frame begins in these bytes.
    Junk {
        bytes: usize,
    },
}

/// What is being passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passing {
    Nothing,
    Bytes(usize),
    /// Everything up to the mark that ends a frame, and the mark.
    ToEnd,
    /// The link closes: there is no going on.
    Closed(FrameFault),
}

impl Parser {
    /// For one connection. Without a choice the framing's own outcome holds; see
    /// [`Framing::default_on_bad_frame`].
    ///
    /// # Panics
    /// If the framing is not valid; see [`Framing::check`].
    pub fn new(framing: Framing, limit_bytes: usize, on_bad_frame: Option<OnBadFrame>) -> Self {
        if let Err(why) = framing.check() {
            panic!("{why}");
        }
        Self {
            on_bad_frame: on_bad_frame.unwrap_or_else(|| framing.default_on_bad_frame()),
            framing,
            limit_bytes,
            passing: Passing::Nothing,
            examined_bytes: 0,
            junk_bytes: 0,
            out_of_step: false,
            decoded: Vec::new(),
            skipped_bytes: 0,
        }
    }

    /// What stands at the start of `bytes`: those of the call before that it did not pass over, and
    /// any number more.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Step {
        if self.is_passing() {
            return self.pass_on(bytes);
        }
        if bytes.is_empty() {
            return Step::Incomplete { needed_bytes: 1 };
        }
        let (limit_bytes, examined_bytes) = (self.limit_bytes, self.examined_bytes);
        let sighting = match &self.framing {
            Framing::Raw => {
                return Step::Frame {
                    header_bytes: 0,
                    payload_bytes: bytes.len(),
                    trailer_bytes: 0,
                };
            }
            Framing::LengthPrefix { width, order } => {
                prefix::find(*width, *order, bytes, limit_bytes)
            }
            Framing::Lines(lines) => lines.find(bytes, examined_bytes, limit_bytes),
            Framing::Pattern(pattern) => {
                if self.junk_bytes > 0 && bytes.starts_with(&pattern.start) {
                    return self.tell_junk();
                }
                pattern.find(bytes, examined_bytes, limit_bytes)
            }
            Framing::Cobs => cobs::find(bytes, examined_bytes, limit_bytes, &mut self.decoded),
            Framing::Own(own) => own.find(bytes, examined_bytes, limit_bytes, &mut self.decoded),
        };
        match sighting {
            Sighting::Frame {
                header_bytes,
                payload_bytes,
                trailer_bytes,
            } => {
                self.frame_ends();
                Step::Frame {
                    header_bytes,
                    payload_bytes,
                    trailer_bytes,
                }
            }
            Sighting::Incomplete { needed_bytes } => {
                self.examined_bytes = bytes.len();
                debug_assert!(needed_bytes > bytes.len());
                Step::Incomplete { needed_bytes }
            }
            Sighting::Decoded { frame_bytes } => {
                self.frame_ends();
                Step::Decoded { frame_bytes }
            }
            Sighting::Padding { bytes } => {
                self.examined_bytes = self.examined_bytes.saturating_sub(bytes);
                Step::Pass { bytes }
            }
            Sighting::Bad { fault, pass_bytes } => {
                self.fault(bytes, fault, Passing::Bytes(pass_bytes))
            }
            Sighting::Endless { examined_bytes } => self.endless(bytes, examined_bytes),
            Sighting::Junk { bytes } => self.junk(bytes),
        }
    }

    /// The frame behind a length prefix that stands whole at the start of `bytes`: where its payload
    /// begins, and how long it is. Everything else is for [`next`](Self::next) to say.
    #[inline]
    pub fn whole(&mut self, bytes: &[u8]) -> Option<(usize, usize)> {
        let Framing::LengthPrefix { width, order } = self.framing else {
            return None;
        };
        if self.is_passing() {
            return None;
        }
        match prefix::find(width, order, bytes, self.limit_bytes) {
            Sighting::Frame {
                header_bytes,
                payload_bytes,
                ..
            } => {
                self.frame_ends();
                Some((header_bytes, payload_bytes))
            }
            _ => None,
        }
    }

    /// The payload of the frame that the last step called decoded.
    pub fn decoded(&self) -> &[u8] {
        &self.decoded
    }

    pub(crate) const fn framing(&self) -> &Framing {
        &self.framing
    }

    /// Whether what comes next is still part of something bad.
    #[inline]
    pub(crate) const fn is_passing(&self) -> bool {
        !matches!(self.passing, Passing::Nothing)
    }

    /// Whether a bad frame is the end: the same fault comes again and again then.
    pub const fn closes(&self) -> bool {
        matches!(self.on_bad_frame, OnBadFrame::Close)
    }

    /// Bytes passed over because of faults, so far.
    pub const fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// The stream has ended: the fault that was not told yet, if there is one.
    pub fn end(&mut self) -> Option<FrameFault> {
        let bytes = std::mem::take(&mut self.junk_bytes);
        (bytes > 0).then_some(FrameFault::Junk { bytes })
    }

    #[inline]
    const fn frame_ends(&mut self) {
        self.examined_bytes = 0;
        self.out_of_step = false;
    }

    /// A bad frame: told, unless it belongs to a fault that was.
    #[cold]
    fn fault(&mut self, bytes: &[u8], fault: FrameFault, then: Passing) -> Step {
        let told = self.out_of_step;
        self.passing = then;
        match self.on_bad_frame {
            OnBadFrame::Close => self.passing = Passing::Closed(fault),
            OnBadFrame::Skip => {}
            OnBadFrame::Resynchronise => match self.framing {
                Framing::Pattern(_) | Framing::Own(_) => self.out_of_step = true,
                // There one frame's end is the next one's beginning.
                Framing::Raw | Framing::LengthPrefix { .. } | Framing::Lines(_) | Framing::Cobs => {
                }
            },
        }
        if told {
            self.pass_on(bytes)
        } else {
            Step::Fault(fault)
        }
    }

    #[cold]
    fn endless(&mut self, bytes: &[u8], examined_bytes: usize) -> Step {
        self.examined_bytes = examined_bytes;
        let fault = FrameFault::TooLong {
            limit_bytes: self.limit_bytes,
        };
        let then = match (&self.framing, self.on_bad_frame) {
            // The next start may stand anywhere behind this one's first byte.
            (Framing::Pattern(_), OnBadFrame::Resynchronise) => Passing::Bytes(1),
            _ => Passing::ToEnd,
        };
        self.fault(bytes, fault, then)
    }

    /// Passes over bytes before a start. A long run is told in parts, else nobody would hear of a peer
    /// that speaks something else.
    #[cold]
    fn junk(&mut self, bytes: usize) -> Step {
        if self.out_of_step {
            return self.skip(bytes);
        }
        let left = JUNK_NOTICE_BYTES - self.junk_bytes;
        if left == 0 {
            return self.tell_junk();
        }
        let bytes = bytes.min(left);
        self.junk_bytes += bytes;
        self.skip(bytes)
    }

    fn tell_junk(&mut self) -> Step {
        let bytes = std::mem::take(&mut self.junk_bytes);
        let fault = FrameFault::Junk { bytes };
        if self.closes() {
            self.passing = Passing::Closed(fault);
        }
        Step::Fault(fault)
    }

    #[cold]
    fn pass_on(&mut self, bytes: &[u8]) -> Step {
        match self.passing {
            Passing::Closed(fault) => Step::Fault(fault),
            _ if bytes.is_empty() => Step::Incomplete { needed_bytes: 1 },
            Passing::Bytes(left) => {
                let now = left.min(bytes.len());
                self.passing = if now == left {
                    Passing::Nothing
                } else {
                    Passing::Bytes(left - now)
                };
                self.skip(now)
            }
            Passing::ToEnd => self.pass_to_end(bytes),
            Passing::Nothing => Step::Pass { bytes: 0 },
        }
    }

    fn pass_to_end(&mut self, bytes: &[u8]) -> Step {
        let mark: &[u8] = match &self.framing {
            Framing::Lines(lines) => &lines.delimiter,
            Framing::Pattern(pattern) => &pattern.end,
            // The others know how long what they pass over is.
            Framing::Cobs | Framing::Raw | Framing::LengthPrefix { .. } | Framing::Own(_) => &[0],
        };
        let from = marks::resume(self.examined_bytes.min(bytes.len()), mark);
        if let Some(end) = marks::find_from(bytes, mark, from) {
            self.passing = Passing::Nothing;
            return self.skip(end + mark.len());
        }
        // The mark may have begun in the last few.
        match marks::resume(bytes.len(), mark) {
            0 => {
                self.examined_bytes = bytes.len();
                Step::Incomplete {
                    needed_bytes: bytes.len() + 1,
                }
            }
            passed_bytes => {
                self.examined_bytes = bytes.len();
                self.skip(passed_bytes)
            }
        }
    }

    fn skip(&mut self, bytes: usize) -> Step {
        self.skipped_bytes += bytes as u64;
        self.examined_bytes = self.examined_bytes.saturating_sub(bytes);
        Step::Pass { bytes }
    }
}

/// Bytes of a run of junk after which it is told, though it goes on.
pub(super) const JUNK_NOTICE_BYTES: usize = 4096;
