//! A message encoded once, for many queues.

use super::Framing;
use super::fault::Unframeable;

/// A message as it goes to the wire, to be offered to any number of queues of that framing.
///
/// ```
/// use tautline_session::{Encoded, Framing};
///
/// let mut encoded = Encoded::default();
/// encoded.encode(&Framing::lines(), b"to all")?;
/// assert_eq!(encoded.bytes(), b"to all\n");
/// # Ok::<(), tautline_session::Unframeable>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Encoded {
    bytes: Vec<u8>,
    payload_bytes: usize,
}

impl Encoded {
    /// Encodes a message in the place of the one before; what room there is is used again.
    ///
    /// # Errors
    /// [`Unframeable`]: the framing cannot carry it; see [`Framing::encode`]. Then it is empty.
    pub fn encode(&mut self, framing: &Framing, payload: &[u8]) -> Result<(), Unframeable> {
        self.bytes.clear();
        self.payload_bytes = 0;
        framing.encode(payload, &mut self.bytes)?;
        self.payload_bytes = payload.len();
        Ok(())
    }

    /// What goes to the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How long the message is without its framing.
    pub const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }
}
