//! The bytes of a block. Most were copied and stand in one buffer; a large payload that came as
//! [`Bytes`] stays where it is, and only its place among the others is kept.

use bytes::Bytes;

/// A sequence of bytes, of which the first were passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Store {
    /// What was copied: small messages, and the headers of large ones.
    copied: Vec<u8>,
    /// The first byte in there that is not passed.
    head_byte: usize,
    owned: Vec<Owned>,
    /// The first of them that is not wholly passed.
    head_owned: usize,
    /// Bytes of that one that are passed.
    cut_bytes: usize,
    /// The sum of them all.
    owned_bytes: usize,
}

/// A payload that was not copied: the end of one message.
#[derive(Debug, PartialEq, Eq)]
struct Owned {
    /// The message's number in the block.
    message: usize,
    /// So many copied bytes come before it.
    at: usize,
    payload: Bytes,
}

impl Store {
    pub(super) fn with_room(room_bytes: usize) -> Self {
        Self {
            copied: Vec::with_capacity(room_bytes),
            ..Self::default()
        }
    }

    pub(super) const fn room_bytes(&self) -> usize {
        self.copied.capacity()
    }

    /// Room that is left.
    #[inline]
    pub(super) const fn spare_bytes(&self) -> usize {
        self.copied.capacity() - self.copied.len()
    }

    #[inline]
    pub(super) const fn has_owned(&self) -> bool {
        !self.owned.is_empty()
    }

    pub(super) const fn owned_messages(&self) -> usize {
        self.owned.len()
    }

    /// Everything that is kept, passed or not.
    pub(super) const fn held_bytes(&self) -> usize {
        self.copied.len() + self.owned_bytes
    }

    pub(super) fn clear(&mut self) {
        self.copied.clear();
        self.owned.clear();
        (self.head_byte, self.head_owned, self.cut_bytes) = (0, 0, 0);
        self.owned_bytes = 0;
    }

    /// Lets `append` put bytes behind the others; returns how many it did.
    #[inline]
    pub(super) fn append(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.copied.len();
        append(&mut self.copied);
        self.copied.len() - before
    }

    /// Appends the message of this number, of which only the header is copied.
    pub(super) fn append_owned(&mut self, header: &[u8], payload: Bytes, message: usize) {
        self.copied.extend_from_slice(header);
        self.owned_bytes += payload.len();
        self.owned.push(Owned {
            message,
            at: self.copied.len(),
            payload,
        });
    }

    /// What is not passed, in order; no slice is empty.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (mut at, mut cut_bytes) = (self.head_byte, self.cut_bytes);
        let owned = &self.owned[self.head_owned..];
        let end = owned.last().map_or(self.head_byte, |last| last.at);
        owned
            .iter()
            .flat_map(move |next| {
                let copied = &self.copied[at..next.at];
                at = next.at;
                [copied, &next.payload[std::mem::take(&mut cut_bytes)..]]
            })
            .chain([&self.copied[end..]])
            .filter(|slice| !slice.is_empty())
    }

    /// Passes over the next `bytes`.
    #[inline]
    pub(super) fn pass(&mut self, bytes: usize) {
        if self.head_owned == self.owned.len() {
            self.head_byte += bytes;
        } else {
            self.pass_owned(bytes);
        }
        debug_assert!(self.head_byte <= self.copied.len());
    }

    fn pass_owned(&mut self, mut bytes: usize) {
        while let Some(next) = self.owned.get(self.head_owned) {
            let copied_bytes = next.at - self.head_byte;
            if bytes < copied_bytes {
                break;
            }
            bytes -= copied_bytes;
            self.head_byte = next.at;
            let left_bytes = next.payload.len() - self.cut_bytes;
            if bytes < left_bytes {
                self.cut_bytes += bytes;
                return;
            }
            bytes -= left_bytes;
            self.cut_bytes = 0;
            self.head_owned += 1;
        }
        self.head_byte += bytes;
    }

    /// How much of the front message is copied, of which so much is not passed.
    pub(super) fn copied_bytes(&self, message: usize, left_bytes: usize) -> usize {
        match self.owned_front(message) {
            Some(payload) => left_bytes - payload.len(),
            None => left_bytes,
        }
    }

    /// Moves what is not passed of the front message to the end of another store, where it has another
    /// number.
    pub(super) fn move_front(
        &mut self,
        message: usize,
        left_bytes: usize,
        to: &mut Self,
        to_message: usize,
    ) {
        let payload = self.owned_front(message);
        let copied_bytes = left_bytes - payload.as_ref().map_or(0, Bytes::len);
        let copied = &self.copied[self.head_byte..self.head_byte + copied_bytes];
        match payload {
            Some(payload) => to.append_owned(copied, payload, to_message),
            None => to.copied.extend_from_slice(copied),
        }
        self.pass(left_bytes);
    }

    /// What is not passed of the front message's payload, if that was not copied.
    fn owned_front(&self, message: usize) -> Option<Bytes> {
        let next = self.owned.get(self.head_owned)?;
        (next.message == message).then(|| next.payload.slice(self.cut_bytes..))
    }

    /// Goes through the messages that are not passed, one after the other.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk {
            copied: &self.copied[self.head_byte..],
            owned: &self.owned[self.head_owned..],
        }
    }

    /// Goes through them to leave some out; the first is not partly passed.
    pub(super) fn rewrite(&mut self) -> Rewrite<'_> {
        debug_assert_eq!(self.cut_bytes, 0);
        Rewrite {
            from_byte: self.head_byte,
            to_byte: self.head_byte,
            next_owned: self.head_owned,
            store: self,
        }
    }
}

/// Messages without framing, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Walk<'a> {
    copied: &'a [u8],
    owned: &'a [Owned],
}

impl<'a> Walk<'a> {
    /// The next message, of this number and length.
    pub(super) fn datagram(&mut self, message: usize, bytes: usize) -> &'a [u8] {
        if let Some((next, rest)) = self.owned.split_first()
            && next.message == message
        {
            debug_assert_eq!(next.payload.len(), bytes, "a datagram has no header");
            self.owned = rest;
            return &next.payload;
        }
        self.copied(bytes)
    }

    /// Whether the message of this number, the next or one behind it, was not copied.
    pub(super) fn is_owned(&self, message: usize) -> bool {
        let next = self.owned.first();
        next.is_some_and(|next| next.message == message)
    }

    /// The next messages, which were copied and are so long together.
    pub(super) fn copied(&mut self, bytes: usize) -> &'a [u8] {
        let (copied, rest) = self.copied.split_at(bytes);
        self.copied = rest;
        copied
    }
}

/// Messages that are moved to the front where others are left out.
pub(super) struct Rewrite<'a> {
    store: &'a mut Store,
    from_byte: usize,
    to_byte: usize,
    next_owned: usize,
}

impl Rewrite<'_> {
    /// The next message, of this number and length, stays and has another number.
    pub(super) fn keep(&mut self, message: usize, bytes: usize, to_message: usize) {
        let owned = self.store.owned.get_mut(self.next_owned);
        let owned = owned.filter(|owned| owned.message == message);
        let copied_bytes = bytes - owned.as_ref().map_or(0, |owned| owned.payload.len());
        if let Some(owned) = owned {
            owned.message = to_message;
            owned.at = self.to_byte + copied_bytes;
            self.next_owned += 1;
        }
        let from = self.from_byte..self.from_byte + copied_bytes;
        self.store.copied.copy_within(from, self.to_byte);
        self.from_byte += copied_bytes;
        self.to_byte += copied_bytes;
    }

    /// The next message, which was copied, goes.
    pub(super) const fn leave_out(&mut self, bytes: usize) {
        self.from_byte += bytes;
    }

    /// All were told.
    pub(super) fn end(self) {
        self.store.copied.truncate(self.to_byte);
    }
}
