//! A delimiter after each payload.

use super::fault::Unframeable;
use super::marks;
use super::parser::Sighting;

/// Payloads that each end with a delimiter, which is not part of them. Empty lines are messages.
///
/// A payload that contains the delimiter cannot be carried, nor one that ends with `\r` where that is
/// stripped; such sends are refused.
///
/// ```
/// use tautline_session::{Framing, Lines};
///
/// let telnet = Framing::Lines(Lines { delimiter: b"\r\n".to_vec(), ..Lines::default() });
/// let mut wire = Vec::new();
/// telnet.encode(b"*IDN?", &mut wire)?;
/// assert_eq!(wire, b"*IDN?\r\n");
/// assert!(telnet.encode(b"two\r\nlines", &mut wire).is_err());
/// # Ok::<(), tautline_session::Unframeable>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// What ends a line: 1 to 8 bytes.
    ///
    /// Default `\n`. Take `\r\n` where both ends send both, always: a `\n` alone is then payload.
    pub delimiter: Vec<u8>,
    /// Whether one `\r` at the end of a received line is taken off.
    ///
    /// Default false: every byte counts. True with `\n` reads both habits, `\n` and `\r\n`.
    pub strip_cr: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            delimiter: b"\n".to_vec(),
            strip_cr: false,
        }
    }
}

impl Lines {
    pub(super) fn check(&self) -> Result<(), String> {
        marks::check(&self.delimiter, "the delimiter of lines", LONGEST_DELIMITER)
    }

    /// Bytes added to a payload that can be carried.
    #[inline]
    pub(super) fn weigh(&self, payload: &[u8]) -> Result<usize, Unframeable> {
        let loses_its_end = self.strip_cr && payload.ends_with(b"\r");
        if loses_its_end || !marks::first_is_behind(payload, &self.delimiter) {
            return Err(Unframeable);
        }
        Ok(self.delimiter.len())
    }

    /// Looks for one line at the start of `bytes`, of which the first were searched already.
    pub(super) fn find(&self, bytes: &[u8], examined_bytes: usize, limit_bytes: usize) -> Sighting {
        let delimiter_bytes = self.delimiter.len();
        let longest = limit_bytes
            .saturating_add(usize::from(self.strip_cr))
            .saturating_add(delimiter_bytes);
        let near = &bytes[..bytes.len().min(longest)];
        let from = marks::resume(examined_bytes, &self.delimiter);
        match marks::find_from(near, &self.delimiter, from) {
            Some(line_bytes) => {
                let stripped = self.strip_cr && near[..line_bytes].ends_with(b"\r");
                let payload_bytes = line_bytes - usize::from(stripped);
                if payload_bytes > limit_bytes {
                    return Sighting::Endless {
                        examined_bytes: line_bytes,
                    };
                }
                Sighting::Frame {
                    header_bytes: 0,
                    payload_bytes,
                    trailer_bytes: usize::from(stripped) + delimiter_bytes,
                }
            }
            None if bytes.len() >= longest => Sighting::Endless {
                examined_bytes: longest,
            },
            None => Sighting::Incomplete {
                needed_bytes: marks::more_than(bytes.len(), longest),
            },
        }
    }
}

const LONGEST_DELIMITER: usize = 8;
