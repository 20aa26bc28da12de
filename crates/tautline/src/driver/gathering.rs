//! Messages of one link on their way to be handed out together.

use std::time::Instant;

use crate::handler::{Batched, Handler, Piece, Received};
use crate::link::Link;
use crate::options::Batch;

/// What came and is not handed out yet. Holds no more than the limits say, or one larger message.
pub(super) struct Gathering {
    limits: Batch,
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Gathering {
    /// For a link with these limits; nothing without. Memory comes with the first message.
    pub(super) fn for_link(limits: Option<Batch>) -> Option<Box<Self>> {
        let limits = limits?;
        Some(Box::new(Self {
            limits,
            bytes: Vec::new(),
            pieces: Vec::new(),
        }))
    }

    /// Takes a message in, and hands out what is full: before it, where it would not fit, and after it.
    ///
    /// A handler that pauses in between gets no more calls; what was taken in then waits.
    pub(super) fn add(
        &mut self,
        message: &[u8],
        received: Received,
        handler: &mut dyn Handler,
        link: &Link,
    ) {
        if !self.pieces.is_empty() && self.bytes.len() + message.len() > self.limits.bytes {
            self.hand_out(handler, link);
        }
        self.make_room(message.len());
        self.bytes.extend_from_slice(message);
        self.pieces.push(Piece {
            end: self.bytes.len(),
            received,
        });
        if self.is_full() && link.shared().delivers() {
            self.hand_out(handler, link);
        }
    }

    /// Hands out what there is, if there is anything.
    pub(super) fn hand_out(&mut self, handler: &mut dyn Handler, link: &Link) {
        if self.pieces.is_empty() {
            return;
        }
        let batch = Batched {
            bytes: &self.bytes,
            pieces: &self.pieces,
        };
        handler.batch(link, &batch);
        let (messages, bytes) = (self.pieces.len() as u64, self.bytes.len() as u64);
        link.shared().counters.delivered(messages, bytes);
        self.clear();
    }

    /// Forgets what was not handed out: its connection is over.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.bytes.clear();
        // One message was larger than all limits: its memory is not kept.
        self.bytes.shrink_to(self.limits.bytes);
    }

    /// Whether it is time to hand out what there is.
    pub(super) fn is_ripe(&self, now: Instant) -> bool {
        self.is_full() || self.due().is_some_and(|due| due <= now)
    }

    /// When its first message is old enough; `None` when it is empty.
    pub(super) fn due(&self) -> Option<Instant> {
        let first = self.pieces.first()?;
        // Beyond the clock's range it never is.
        first.received.at.checked_add(self.limits.age)
    }

    fn is_full(&self) -> bool {
        self.pieces.len() >= self.limits.messages || self.bytes.len() >= self.limits.bytes
    }

    /// Doubles as vectors do, but not past the limit.
    fn make_room(&mut self, more_bytes: usize) {
        let needed = self.bytes.len() + more_bytes;
        if needed > self.bytes.capacity() {
            let doubled = (2 * self.bytes.capacity()).min(self.limits.bytes);
            self.bytes
                .reserve_exact(needed.max(doubled) - self.bytes.len());
        }
    }
}
