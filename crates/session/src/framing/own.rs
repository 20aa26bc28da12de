//! The user's own framing: what it has to know, and how far it is trusted.

use std::fmt;
use std::sync::Arc;

use super::LONGEST_ENCODED;
use super::fault::{FrameFault, Unframeable};
use super::marks;
use super::parser::Sighting;

/// A framing of the user's own, for [`Framing::own`](super::Framing::own).
///
/// One value serves all links of the options it is given in, on whichever threads: it keeps nothing of
/// a stream between calls, and is handed all that it needs. It is called with the link's lock held: it
/// must not use a link, nor take long. It is not trusted with memory: a frame that is not whole within
/// the limit and [`overhead_limit_bytes`](Self::overhead_limit_bytes) is a fault.
///
/// Two sync bytes, a length, the payload, a checksum over both:
///
/// ```
/// use tautline_session::{Found, Framer, FrameFault, Framing, Unframeable};
///
/// #[derive(Debug)]
/// struct Ubx;
///
/// const SYNC: [u8; 2] = [0xb5, 0x62];
///
/// fn checksum(bytes: &[u8]) -> [u8; 2] {
///     bytes.iter().fold([0, 0], |[a, b], byte| {
///         let a: u8 = byte.wrapping_add(a);
///         [a, a.wrapping_add(b)]
///     })
/// }
///
/// impl Framer for Ubx {
///     fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
///         let length = u16::try_from(payload.len()).map_err(|_| Unframeable)?.to_le_bytes();
///         into.extend(SYNC);
///         into.extend(length);
///         into.extend(payload);
///         into.extend(checksum(&[&length, payload].concat()));
///         Ok(())
///     }
///
///     fn overhead_limit_bytes(&self, _: usize) -> usize {
///         6
///     }
///
///     fn parse(&self, bytes: &[u8], _: usize, limit_bytes: usize, _: &mut Vec<u8>) -> Found {
///         let sync = bytes.iter().zip(SYNC).take_while(|(is, wanted)| *is == wanted).count();
///         if sync < bytes.len().min(2) {
///             return Found::Bad { fault: FrameFault::BadEncoding, pass_bytes: sync.max(1) };
///         }
///         let Some(&[_, _, low, high]) = bytes.first_chunk() else {
///             return Found::Incomplete { needed_bytes: 4 };
///         };
///         let payload_bytes = usize::from(u16::from_le_bytes([low, high]));
///         if payload_bytes > limit_bytes {
///             let announced_bytes = payload_bytes as u64;
///             let fault = FrameFault::TooLarge { announced_bytes, limit_bytes };
///             return Found::Bad { fault, pass_bytes: 1 };
///         }
///         let Some(frame) = bytes.get(..payload_bytes + 6) else {
///             return Found::Incomplete { needed_bytes: payload_bytes + 6 };
///         };
///         let (summed, sum) = frame[2..].split_at(payload_bytes + 2);
///         if checksum(summed) != sum {
///             return Found::Bad { fault: FrameFault::BadChecksum, pass_bytes: 1 };
///         }
///         Found::Frame { header_bytes: 4, payload_bytes, trailer_bytes: 2 }
///     }
/// }
///
/// let framing = Framing::own(Ubx);
/// let mut wire = Vec::new();
/// framing.encode(&[1, 2, 3], &mut wire)?;
/// assert_eq!(wire, [0xb5, 0x62, 3, 0, 1, 2, 3, 9, 25]);
/// # Ok::<(), Unframeable>(())
/// ```
pub trait Framer: fmt::Debug + Send + Sync {
    /// Appends the payload as it goes to the wire; what is in `into` already is not its own.
    ///
    /// # Errors
    /// [`Unframeable`]: it cannot be carried. What was appended until then is taken away.
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable>;

    /// The most bytes that encoding adds to a payload of this length. Never less for a longer one.
    ///
    /// The limits are made of it: what a frame may weigh, and what is kept of one that is not whole.
    /// A payload to which more is added all the same is refused.
    fn overhead_limit_bytes(&self, payload_bytes: usize) -> usize;

    /// Looks for one frame at the start of `bytes`, which is not empty.
    ///
    /// The same has to come out however much of the stream stands behind a whole frame; no more is
    /// shown than the longest frame of the limit has. If a call
    /// before said that what stood here was incomplete, it had the first `examined_bytes` of these:
    /// who searches for a mark need not begin again at the front. A framing that transforms its
    /// payload puts it into `decoded`, which is empty, and says [`Found::Decoded`].
    fn parse(
        &self,
        bytes: &[u8],
        examined_bytes: usize,
        limit_bytes: usize,
        decoded: &mut Vec<u8>,
    ) -> Found;
}

/// What a [`Framer`] sees at the start of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A whole frame, its payload as it stands on the wire.
    Frame {
        /// Bytes before the payload.
        header_bytes: usize,
        /// Bytes of the payload.
        payload_bytes: usize,
        /// Bytes behind it.
        trailer_bytes: usize,
    },
    /// A whole frame, its payload in `decoded`.
    Decoded {
        /// Bytes of the frame on the wire.
        frame_bytes: usize,
    },
    /// The start of a frame.
    Incomplete {
        /// With so many bytes in all there may be more to say. One more than there are, if it is not
        /// known.
        needed_bytes: usize,
    },
    /// Something that is no frame.
    Bad {
        /// Why.
        fault: FrameFault,
        /// What to pass over unless the link closes: the bad frame where its end is known, else as far
        /// as no frame can begin. More than are there is fine; 0 counts as 1.
        pass_bytes: usize,
    },
}

/// A [`Framer`] in a [`Framing`](super::Framing); clones share it. Two are equal if they are clones.
#[derive(Clone)]
pub struct OwnFraming(Arc<dyn Framer>);

impl OwnFraming {
    pub(super) fn new(framer: impl Framer + 'static) -> Self {
        Self(Arc::new(framer))
    }

    pub(super) fn framer(&self) -> &dyn Framer {
        &*self.0
    }

    pub(super) fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        let before = into.len();
        let encoded = self.0.encode(payload, into);
        let most = before
            .saturating_add(payload.len())
            .saturating_add(self.0.overhead_limit_bytes(payload.len()));
        let most = most.min(before.saturating_add(LONGEST_ENCODED));
        if encoded.is_err() || into.len() < before || into.len() > most {
            into.truncate(before);
            return Err(Unframeable);
        }
        Ok(())
    }

    /// Looks for one frame, and does not believe what cannot be.
    pub(super) fn find(
        &self,
        bytes: &[u8],
        examined_bytes: usize,
        limit_bytes: usize,
        decoded: &mut Vec<u8>,
    ) -> Sighting {
        let longest = limit_bytes.saturating_add(self.0.overhead_limit_bytes(limit_bytes));
        decoded.clear();
        // Never more than a frame of the limit has: what becomes of a longer one may not depend on how
        // much of it is there already.
        let bytes = &bytes[..bytes.len().min(longest)];
        let there_bytes = bytes.len();
        let found = self.0.parse(bytes, examined_bytes, limit_bytes, decoded);
        let (frame_bytes, payload_bytes) = match found {
            Found::Frame {
                header_bytes,
                payload_bytes,
                trailer_bytes,
            } => {
                let around_bytes = header_bytes.saturating_add(trailer_bytes);
                (around_bytes.saturating_add(payload_bytes), payload_bytes)
            }
            Found::Decoded { frame_bytes } => (frame_bytes, decoded.len()),
            Found::Incomplete { .. } if there_bytes >= longest => {
                return Sighting::Bad {
                    fault: FrameFault::TooLong { limit_bytes },
                    pass_bytes: 1,
                };
            }
            Found::Incomplete { needed_bytes } => {
                let known = needed_bytes.min(longest);
                return Sighting::Incomplete {
                    needed_bytes: if known > there_bytes + 1 {
                        known
                    } else {
                        marks::more_than(there_bytes, longest)
                    },
                };
            }
            Found::Bad { fault, pass_bytes } => {
                return Sighting::Bad {
                    fault,
                    pass_bytes: pass_bytes.max(1),
                };
            }
        };
        if frame_bytes == 0 || frame_bytes > there_bytes {
            return Sighting::Bad {
                fault: FrameFault::BadEncoding,
                pass_bytes: 1,
            };
        }
        if payload_bytes > limit_bytes {
            return Sighting::Bad {
                fault: FrameFault::TooLong { limit_bytes },
                pass_bytes: frame_bytes,
            };
        }
        match found {
            Found::Frame {
                header_bytes,
                payload_bytes,
                trailer_bytes,
            } => Sighting::Frame {
                header_bytes,
                payload_bytes,
                trailer_bytes,
            },
            Found::Decoded { .. } | Found::Incomplete { .. } | Found::Bad { .. } => {
                Sighting::Decoded { frame_bytes }
            }
        }
    }
}

impl PartialEq for OwnFraming {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OwnFraming {}

impl fmt::Debug for OwnFraming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
