//! Several messages in one call.

use super::Received;

/// Messages of one link that came one after the other, as [`Handler::batch`](super::Handler::batch) is
/// given them. Valid during the call.
///
/// ```
/// use tautline::{Batched, Handler, Link, Received};
///
/// struct Total(u64);
///
/// impl Handler for Total {
///     fn batch(&mut self, _: &Link, batch: &Batched<'_>) {
///         self.0 += batch.iter().map(|(message, _)| message.len() as u64).sum::<u64>();
///     }
///
///     fn message(&mut self, _: &Link, _: &[u8], _: Received) {
///         unreachable!("the link was opened with LinkOptions::batch");
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Batched<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) pieces: &'a [Piece],
}

/// Where one message ends, and how it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) end: usize,
    pub(crate) received: Received,
}

impl<'a> Batched<'a> {
    /// The messages, oldest first, each with its own time of arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a [u8], Received)> + use<'a> {
        let (bytes, pieces) = (self.bytes, self.pieces);
        let mut from = 0;
        pieces.iter().map(move |piece| {
            let message = &bytes[from..piece.end];
            from = piece.end;
            (message, piece.received)
        })
    }

    /// How many messages; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub const fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Their bytes together, without framing.
    pub const fn payload_bytes(&self) -> usize {
        self.bytes.len()
    }
}
