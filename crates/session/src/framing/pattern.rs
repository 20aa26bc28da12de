//! A pattern before each payload and one behind it.

use super::fault::Unframeable;
use super::marks;
use super::parser::{JUNK_NOTICE_BYTES, Sighting};

/// Payloads between a start and an end pattern, which are not part of them.
///
/// Both are needed: without a start it would be [`Lines`](super::Lines), without an end nothing would
/// say that a frame is whole. They may be the same. Bytes before a start are junk, which is a fault.
/// The first end pattern ends the frame, and nothing is escaped: a payload that contains it cannot be
/// carried, and such a send is refused.
///
/// ```
/// use tautline_session::Framing;
///
/// let mut wire = Vec::new();
/// Framing::pattern(b"\x02", b"\x03").encode(b"12.5 bar", &mut wire)?;
/// assert_eq!(wire, b"\x0212.5 bar\x03");
/// # Ok::<(), tautline_session::Unframeable>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// What begins a frame: 1 to 16 bytes.
    pub start: Vec<u8>,
    /// What ends it: 1 to 16 bytes.
    pub end: Vec<u8>,
}

impl Pattern {
    pub(super) fn check(&self) -> Result<(), String> {
        marks::check(&self.start, "the start pattern", LONGEST_PATTERN)?;
        marks::check(&self.end, "the end pattern", LONGEST_PATTERN)
    }

    /// Bytes added to a payload that can be carried.
    #[inline]
    pub(super) fn weigh(&self, payload: &[u8]) -> Result<usize, Unframeable> {
        if !marks::first_is_behind(payload, &self.end) {
            return Err(Unframeable);
        }
        Ok(self.start.len() + self.end.len())
    }

    /// Looks for one frame at the start of `bytes`, of which the first were searched for an end
    /// already.
    pub(super) fn find(&self, bytes: &[u8], examined_bytes: usize, limit_bytes: usize) -> Sighting {
        if !bytes.starts_with(&self.start) {
            return self.find_start(bytes);
        }
        let header_bytes = self.start.len();
        let longest = limit_bytes
            .saturating_add(header_bytes)
            .saturating_add(self.end.len());
        let near = &bytes[..bytes.len().min(longest)];
        let from = marks::resume(examined_bytes, &self.end).max(header_bytes);
        match marks::find_from(near, &self.end, from) {
            Some(end) => Sighting::Frame {
                header_bytes,
                payload_bytes: end - header_bytes,
                trailer_bytes: self.end.len(),
            },
            None if bytes.len() >= longest => Sighting::Endless {
                examined_bytes: longest,
            },
            None => Sighting::Incomplete {
                needed_bytes: marks::more_than(bytes.len(), longest),
            },
        }
    }

    /// No start stands here: how far it is to where one does, or may.
    fn find_start(&self, bytes: &[u8]) -> Sighting {
        // No more is passed over at once: further on would be searched again and again.
        let near = &bytes[..bytes.len().min(JUNK_NOTICE_BYTES + self.start.len())];
        let junk_bytes = marks::find(near, &self.start).unwrap_or_else(|| {
            // The start may have begun in the last few bytes.
            let mut begins = marks::resume(near.len(), &self.start);
            while !self.start.starts_with(&near[begins..]) {
                begins += 1;
            }
            begins
        });
        if junk_bytes == 0 {
            return Sighting::Incomplete {
                needed_bytes: self.start.len(),
            };
        }
        Sighting::Junk { bytes: junk_bytes }
    }
}

const LONGEST_PATTERN: usize = 16;
