//! Messages side by side, with their borders and the times they were queued. Where their bytes lie is
//! the business of [`store`].

mod store;

use bytes::Bytes;

mod runs;

use crate::account::Tally;
use store::Store;

pub use runs::{Run, Runs};

/// Room of a pooled block: 64 KiB of payload with its framing, stuffed or not, so that a 64 KiB message
/// needs one.
pub const BLOCK_BYTES: usize = 64 * 1024 + 512;

/// Most slices that a block is written from.
pub const BLOCK_SLICES: usize = 2 * BLOCK_OWNED + 1;

/// Most messages in a block that stay where they are: each is a header and a slice of its own.
const BLOCK_OWNED: usize = 16;

/// Most bytes in a block with several messages of which one stays where it is. They cost no room, and one
/// write of four times 64 KiB took 10 to 35 % less time than four, over TCP and Unix sockets.
const GATHERED_BYTES: u64 = 4 * BLOCK_BYTES as u64;

/// Most messages in a block: without it a block of empty datagrams would never be full.
const BLOCK_MESSAGES: usize = 16 * 1024;

/// Which peer of a shared queue a message is for. A stream has one peer, [`PeerId::SOLE`].
///
/// Slots are used again, lives are not: whoever holds on to a peer that is gone reaches nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerId {
    pub(crate) slot: u32,
    /// From 1; 0 is no peer of a shared queue.
    pub(crate) life: u32,
}

impl PeerId {
    /// A small number that is no other open peer's, for tables.
    pub const fn index(self) -> usize {
        self.slot as usize
    }

    /// The only peer of a queue that is not shared.
    pub const SOLE: Self = Self { slot: 0, life: 0 };
    /// The driver of the peer of a stream: for what drivers say to each other.
    pub(crate) const DRIVER: Self = Self {
        slot: u32::MAX,
        life: 1,
    };
    /// Marks a message that was taken out of the middle of a queue.
    pub(crate) const NOBODY: Self = Self {
        slot: u32::MAX,
        life: 0,
    };
}

/// Whole messages, encoded, side by side. The front one may be partly written.
///
/// Blocks come from the driver's pool and go back to it; what a writer takes is a block, so moving it
/// out of the session is all that "in flight" needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Block {
    store: Store,
    messages: Vec<Message>,
    stamps: Vec<Stamp>,
    /// The first message that is not wholly written.
    head: usize,
    /// Bytes of the head message that are written.
    cut_bytes: usize,
    /// The stamp that covers the head message.
    head_stamp: usize,
    /// What is in it for somebody: all from `head` on, less the messages taken out.
    tally: Tally,
    /// How much of that is framing, whole messages' worth.
    framing_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    bytes: u32,
    framing_bytes: u32,
    peer: PeerId,
}

/// How long a message is, and how much of it is copied into a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) encoded_bytes: usize,
    pub(crate) copied_bytes: usize,
}

impl Size {
    /// Of a message that is copied whole.
    pub(crate) const fn copied(encoded_bytes: usize) -> Self {
        Self {
            encoded_bytes,
            copied_bytes: encoded_bytes,
        }
    }
}

/// What a write completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Completed {
    /// The messages of which the last byte is written, and all bytes written.
    pub(crate) written: Tally,
    /// The framing of those messages.
    pub(crate) framing_bytes: u64,
}

/// Messages from `first` up to the next stamp's were queued at `at_ns` or a little after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    first: u32,
    at_ns: u64,
}

/// A message at the front of a block of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Whom it is for.
    pub peer: PeerId,
    /// What to send.
    pub payload: &'a [u8],
}

impl Block {
    /// An empty block with the room of [`BLOCK_BYTES`]; a larger message gets a block of its own size.
    pub fn with_room(room_bytes: usize) -> Self {
        Self {
            store: Store::with_room(room_bytes),
            ..Self::default()
        }
    }

    /// The bytes that can be copied into it without growing.
    pub const fn room_bytes(&self) -> usize {
        self.store.room_bytes()
    }

    /// Makes it empty again; its buffers keep their room.
    pub fn clear(&mut self) {
        self.store.clear();
        self.messages.clear();
        self.stamps.clear();
        (self.head, self.cut_bytes, self.head_stamp) = (0, 0, 0);
        self.tally = Tally::default();
        self.framing_bytes = 0;
    }

    /// What a stream has to write: everything from the first unwritten byte on, in
    /// [`BLOCK_SLICES`] at most, none of them empty.
    pub fn unwritten(&self) -> impl Iterator<Item = &[u8]> {
        self.store.slices()
    }

    /// The datagram at the front, `None` when all are sent.
    #[cfg(test)]
    fn front(&mut self) -> Option<Datagram<'_>> {
        self.skip_taken_out();
        self.datagrams().next()
    }

    /// The datagrams that are not sent yet, in order.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let mut walk = self.store.walk();
        let messages = self.messages.iter().enumerate().skip(self.head);
        messages.filter_map(move |(index, message)| {
            let payload = walk.datagram(index, message.bytes as usize);
            let peer = message.peer;
            (peer != PeerId::NOBODY).then_some(Datagram { peer, payload })
        })
    }

    /// The same, as runs that may leave in one call each.
    pub(crate) fn runs(&self) -> Runs<'_> {
        Runs::of(self)
    }

    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.tally.messages == 0
    }

    /// Whether its front message is partly written.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut_bytes > 0
    }

    /// The rest of its front message, if that is partly written.
    pub(crate) fn cut_tally(&self) -> Option<Tally> {
        let message = self.messages.get(self.head).filter(|_| self.is_cut())?;
        Some(Tally::one(message.bytes as usize - self.cut_bytes))
    }

    /// Whether one more message goes in. Of several it holds no more than `share`.
    #[inline]
    pub(crate) const fn fits(&self, size: Size, share: Tally) -> bool {
        let encoded_bytes = size.encoded_bytes as u64;
        let within_share = self.is_empty()
            || (self.tally.messages < share.messages
                && self.tally.bytes + encoded_bytes <= share.bytes);
        // What is copied is limited by the room for it.
        let all_copied = !self.store.has_owned() && size.copied_bytes == size.encoded_bytes;
        within_share
            && self.store.spare_bytes() >= size.copied_bytes
            && self.messages.len() < BLOCK_MESSAGES
            && (all_copied || self.gathers(encoded_bytes))
    }

    const fn gathers(&self, encoded_bytes: u64) -> bool {
        self.is_empty() && !self.store.has_owned()
            || self.tally.bytes + encoded_bytes <= GATHERED_BYTES
                && self.store.owned_messages() < BLOCK_OWNED
    }

    /// Appends a message with its header.
    #[inline]
    pub(crate) fn push(&mut self, header: &[u8], payload: &[u8], peer: PeerId) {
        self.push_with(header.len(), peer, |bytes| {
            match <&[u8; 4]>::try_from(header) {
                // The usual header, in one store instead of a call.
                Ok(header) => bytes.extend_from_slice(header),
                Err(_) => bytes.extend_from_slice(header),
            }
            bytes.extend_from_slice(payload);
        });
    }

    /// Appends the message that `append` writes behind the others; so much of it is framing.
    #[inline]
    pub(crate) fn push_with(
        &mut self,
        framing_bytes: usize,
        peer: PeerId,
        append: impl FnOnce(&mut Vec<u8>),
    ) {
        let encoded_bytes = self.store.append(append);
        self.note(encoded_bytes, framing_bytes, peer);
    }

    /// Appends a message of which only the header is copied.
    pub(crate) fn push_owned(&mut self, header: &[u8], payload: Bytes, peer: PeerId) {
        let encoded_bytes = header.len() + payload.len();
        self.store
            .append_owned(header, payload, self.messages.len());
        self.note(encoded_bytes, header.len(), peer);
    }

    #[inline]
    fn note(&mut self, encoded_bytes: usize, framing_bytes: usize, peer: PeerId) {
        self.messages.push(Message {
            // The payload limit keeps an encoded message within 32 bits.
            bytes: encoded_bytes as u32,
            framing_bytes: framing_bytes as u32,
            peer,
        });
        self.tally += Tally::one(encoded_bytes);
        self.framing_bytes += framing_bytes as u64;
    }

    /// The next message pushed, and those after it, were queued at `at_ns`.
    pub(crate) fn stamp(&mut self, at_ns: u64) {
        self.stamps.push(Stamp {
            first: self.messages.len() as u32,
            at_ns,
        });
    }

    /// All that is in it was queued at `at_ns`, if nothing was said of that yet.
    pub(crate) fn stamp_all(&mut self, at_ns: u64) {
        if self.stamps.is_empty() {
            self.stamps.push(Stamp { first: 0, at_ns });
        }
    }

    /// Says that the head message's first `bytes` are written already.
    pub(crate) fn cut(&mut self, bytes: usize) {
        debug_assert!(bytes as u64 <= self.tally.bytes && self.cut_bytes == 0);
        self.cut_bytes = bytes;
        self.store.pass(bytes);
        self.tally.bytes -= bytes as u64;
    }

    /// Passes over `written_bytes` of a stream; returns what that completed, and tells `delayed` the
    /// stamp and number of the completed messages.
    pub(crate) fn advance(
        &mut self,
        written_bytes: usize,
        mut delayed: impl FnMut(u64, u32),
    ) -> Completed {
        // Nothing is taken out of the middle of a stream's block: its tally is what is to be written.
        let unwritten_bytes = self.tally.bytes as usize;
        debug_assert!(written_bytes <= unwritten_bytes);
        let first = self.head;
        let mut framing_bytes = 0;
        if written_bytes == unwritten_bytes {
            self.head = self.messages.len();
            self.cut_bytes = 0;
            framing_bytes = self.framing_bytes;
        } else {
            let mut left_bytes = written_bytes;
            while let Some(message) = self.messages.get(self.head) {
                let missing_bytes = message.bytes as usize - self.cut_bytes;
                if left_bytes < missing_bytes {
                    break;
                }
                left_bytes -= missing_bytes;
                framing_bytes += u64::from(message.framing_bytes);
                self.cut_bytes = 0;
                self.head += 1;
            }
            self.cut_bytes += left_bytes;
        }
        self.store.pass(written_bytes);
        let written = Tally {
            messages: (self.head - first) as u64,
            bytes: written_bytes as u64,
        };
        self.tally -= written;
        self.framing_bytes -= framing_bytes;
        self.tell_delays(first, self.head, &mut delayed);
        Completed {
            written,
            framing_bytes,
        }
    }

    /// Passes over the datagram at the front.
    pub(crate) fn pass_front(&mut self, delayed: impl FnMut(u64, u32)) -> Option<(PeerId, Tally)> {
        self.skip_taken_out();
        let message = *self.messages.get(self.head)?;
        self.head += 1;
        self.store.pass(message.bytes as usize);
        self.tally -= Tally::one(message.bytes as usize);
        self.framing_bytes -= u64::from(message.framing_bytes);
        self.tell_delays(self.head - 1, self.head, delayed);
        Some((message.peer, Tally::one(message.bytes as usize)))
    }

    /// Passes over so many datagrams at the front, of which none was taken out; returns what they were.
    pub(crate) fn pass_many(&mut self, datagrams: usize, delayed: impl FnMut(u64, u32)) -> Tally {
        let first = self.head;
        self.head += datagrams;
        let mut passed = Tally::default();
        for message in &self.messages[first..self.head] {
            debug_assert_ne!(message.peer, PeerId::NOBODY);
            passed += Tally::one(message.bytes as usize);
            self.framing_bytes -= u64::from(message.framing_bytes);
        }
        self.store.pass(passed.bytes as usize);
        self.tally -= passed;
        self.tell_delays(first, self.head, delayed);
        passed
    }

    /// When the first message that is not begun was queued, if times are kept for each.
    pub(crate) fn oldest_ns(&mut self) -> Option<u64> {
        self.skip_taken_out();
        let index = self.head + usize::from(self.is_cut());
        self.messages.get(index)?;
        self.stamps[self.head_stamp..]
            .iter()
            .take_while(|stamp| stamp.first as usize <= index)
            .last()
            .map(|stamp| stamp.at_ns)
    }

    /// Takes out the front message, which is not partly written.
    pub(crate) fn evict_front(&mut self) -> Option<(PeerId, Tally)> {
        debug_assert!(!self.is_cut());
        self.pass_front(|_, _| {})
    }

    /// Takes out the oldest message to `peer`.
    pub(crate) fn evict_oldest_to(&mut self, peer: PeerId) -> Option<Tally> {
        // Else each call would walk past what the calls before it took out.
        self.skip_taken_out();
        let message = self.messages[self.head..]
            .iter_mut()
            .find(|message| message.peer == peer)?;
        message.peer = PeerId::NOBODY;
        let evicted = Tally::one(message.bytes as usize);
        self.tally -= evicted;
        self.framing_bytes -= u64::from(message.framing_bytes);
        Some(evicted)
    }

    /// Takes out every message of which `gone` says so.
    pub(crate) fn take_out(&mut self, mut gone: impl FnMut(PeerId, Tally) -> bool) -> Tally {
        let mut taken_out = Tally::default();
        for message in &mut self.messages[self.head..] {
            let tally = Tally::one(message.bytes as usize);
            if message.peer != PeerId::NOBODY && gone(message.peer, tally) {
                message.peer = PeerId::NOBODY;
                taken_out += tally;
                self.framing_bytes -= u64::from(message.framing_bytes);
            }
        }
        self.tally -= taken_out;
        taken_out
    }

    /// Gives a partly written front message up; returns whose it is and its rest.
    pub(crate) fn give_up_cut(&mut self) -> Option<(PeerId, Tally)> {
        let rest = self.cut_tally()?;
        let Message {
            peer,
            framing_bytes,
            ..
        } = self.messages[self.head];
        self.framing_bytes -= u64::from(framing_bytes);
        self.head += 1;
        self.store.pass(rest.bytes as usize);
        self.cut_bytes = 0;
        self.tally -= rest;
        self.tell_delays(self.head - 1, self.head, |_, _| {});
        Some((peer, rest))
    }

    /// Removes what drivers say to each other, bytes and all, for a stream writes a block as it
    /// stands; nothing in it is partly written.
    pub(crate) fn remove_control(&mut self) -> Tally {
        debug_assert!(!self.is_cut());
        let mut removed = Tally::default();
        if self.messages[self.head..]
            .iter()
            .all(|message| message.peer != PeerId::DRIVER)
        {
            return removed;
        }
        let mut to = self.head;
        let mut rewrite = self.store.rewrite();
        let mut stamp = self.head_stamp;
        for from in self.head..self.messages.len() {
            while let Some(next) = self.stamps.get_mut(stamp)
                && next.first as usize <= from
            {
                next.first = next.first.min(to as u32);
                stamp += 1;
            }
            let message = self.messages[from];
            let bytes = message.bytes as usize;
            if message.peer == PeerId::DRIVER {
                removed += Tally::one(bytes);
                self.framing_bytes -= u64::from(message.framing_bytes);
                rewrite.leave_out(bytes);
            } else {
                rewrite.keep(from, bytes, to);
                self.messages[to] = message;
                to += 1;
            }
        }
        self.messages.truncate(to);
        rewrite.end();
        self.tally -= removed;
        removed
    }

    /// How much of a partly written front message [`split_cut`](Self::split_cut) copies.
    pub(crate) fn cut_copied_bytes(&self) -> usize {
        let rest = self.cut_tally().map_or(0, |rest| rest.bytes as usize);
        self.store.copied_bytes(self.head, rest)
    }

    /// Splits a partly written front message off into `rest`, an empty block with room for it.
    pub(crate) fn split_cut(&mut self, rest: &mut Self) {
        debug_assert!(self.is_cut());
        let message = self.messages[self.head];
        let rest_bytes = message.bytes as usize - self.cut_bytes;
        self.store
            .move_front(self.head, rest_bytes, &mut rest.store, 0);
        rest.messages.push(message);
        rest.cut_bytes = self.cut_bytes;
        rest.tally = Tally::one(rest_bytes);
        rest.framing_bytes = u64::from(message.framing_bytes);
        self.framing_bytes -= rest.framing_bytes;
        if let Some(stamp) = self.stamps.get(self.head_stamp) {
            rest.stamps.push(Stamp {
                first: 0,
                at_ns: stamp.at_ns,
            });
        }
        self.head += 1;
        self.cut_bytes = 0;
        self.tally -= rest.tally;
    }

    /// What it still holds memory for and is nobody's any more: passed, or taken out.
    pub(crate) fn dead(&self) -> Tally {
        Tally {
            messages: self.messages.len() as u64 - self.tally.messages,
            bytes: self.store.held_bytes() as u64 - self.tally.bytes,
        }
    }

    /// Messages it keeps a place for, somebody's or not.
    #[cfg(test)]
    pub(crate) const fn held_messages(&self) -> usize {
        self.messages.len()
    }

    /// Moves the messages that are somebody's into `to`, as far as they fit. Returns how much the first
    /// that does not would copy; `None` when all did.
    pub(crate) fn drain_into(&mut self, to: &mut Self, share: Tally) -> Option<usize> {
        loop {
            self.skip_taken_out();
            let at_ns = self.stamps.get(self.head_stamp).map(|stamp| stamp.at_ns);
            let message = *self.messages.get(self.head)?;
            let encoded_bytes = message.bytes as usize;
            let size = Size {
                encoded_bytes,
                copied_bytes: self.store.copied_bytes(self.head, encoded_bytes),
            };
            if !to.fits(size, share) {
                return Some(size.copied_bytes);
            }
            if let Some(at_ns) = at_ns
                && to.stamps.last().is_none_or(|last| last.at_ns != at_ns)
            {
                to.stamp(at_ns);
            }
            let index = to.messages.len();
            self.store
                .move_front(self.head, encoded_bytes, &mut to.store, index);
            to.note(encoded_bytes, message.framing_bytes as usize, message.peer);
            self.head += 1;
            self.tally -= Tally::one(encoded_bytes);
            self.framing_bytes -= u64::from(message.framing_bytes);
            self.tell_delays(self.head - 1, self.head, |_, _| {});
        }
    }

    /// Each message that is somebody's, from the front on.
    pub(crate) fn each(&self) -> impl Iterator<Item = (PeerId, Tally)> {
        let cut_bytes = self.cut_bytes;
        self.messages[self.head..]
            .iter()
            .enumerate()
            .filter(|(_, message)| message.peer != PeerId::NOBODY)
            .map(move |(index, message)| {
                let written_bytes = if index == 0 { cut_bytes } else { 0 };
                (
                    message.peer,
                    Tally::one(message.bytes as usize - written_bytes),
                )
            })
    }

    fn skip_taken_out(&mut self) {
        let first = self.head;
        while let Some(message) = self.messages.get(self.head)
            && message.peer == PeerId::NOBODY
        {
            self.head += 1;
            let bytes = message.bytes as usize;
            self.store.pass(bytes);
        }
        if self.head > first {
            self.tell_delays(first, self.head, |_, _| {});
        }
    }

    /// Tells the stamp of each group that messages `from..to` belong to.
    fn tell_delays(&mut self, mut from: usize, to: usize, mut delayed: impl FnMut(u64, u32)) {
        while let Some(stamp) = self.stamps.get(self.head_stamp) {
            let group_end = self
                .stamps
                .get(self.head_stamp + 1)
                .map_or(usize::MAX, |next| next.first as usize);
            let end = group_end.min(to);
            if from < end {
                delayed(stamp.at_ns, (end - from) as u32);
                from = end;
            }
            if to < group_end {
                break;
            }
            self.head_stamp += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId { slot: 1, life: 1 };
    const TWO: PeerId = PeerId { slot: 2, life: 1 };

    fn block(messages: &[(&[u8], PeerId)]) -> Block {
        let mut block = Block::with_room(256);
        for (payload, peer) in messages {
            block.push(b"", payload, *peer);
        }
        block
    }

    fn unwritten(block: &Block) -> Vec<u8> {
        block.unwritten().flatten().copied().collect()
    }

    fn tally(messages: u64, bytes: u64) -> Tally {
        Tally { messages, bytes }
    }

    #[test]
    fn a_write_may_end_anywhere_and_the_rest_is_what_was_not_written() {
        for written in 0..=6 {
            let mut block = block(&[(b"ab", ONE), (b"", ONE), (b"cdef", ONE)]);
            let completed = block.advance(written, |_, _| {}).written;
            assert_eq!(unwritten(&block), &b"abcdef"[written..]);
            assert_eq!(completed.bytes, written as u64);
            assert_eq!(block.is_cut(), [1, 3, 4, 5].contains(&written));
            assert_eq!(
                completed.messages + block.tally().messages,
                3,
                "after {written}"
            );
        }
    }

    #[test]
    fn splitting_a_cut_message_off_keeps_order_and_bytes() {
        let mut block = block(&[(b"abc", ONE), (b"de", ONE)]);
        block.advance(1, |_, _| {});
        let mut rest = Block::with_room(8);
        block.split_cut(&mut rest);
        assert_eq!(
            (unwritten(&rest), rest.tally()),
            (b"bc".to_vec(), tally(1, 2))
        );
        assert_eq!(
            (unwritten(&block), block.tally()),
            (b"de".to_vec(), tally(1, 2))
        );
        assert_eq!(rest.advance(2, |_, _| {}).written, tally(1, 2));
    }

    const ANY: Tally = Tally {
        messages: u64::MAX,
        bytes: u64::MAX,
    };

    #[test]
    fn the_oldest_to_a_peer_leaves_the_others_in_order() {
        let mut block = block(&[(b"a", ONE), (b"bb", TWO), (b"c", ONE), (b"dd", TWO)]);
        assert_eq!(block.evict_oldest_to(TWO), Some(tally(1, 2)));
        assert_eq!(block.tally(), tally(3, 4));
        assert_eq!(block.dead(), tally(1, 2));
        let mut sent = Vec::new();
        while let Some(datagram) = block.front() {
            sent.push(datagram.payload.to_vec());
            block.pass_front(|_, _| {});
        }
        assert_eq!(sent, [b"a".to_vec(), b"c".to_vec(), b"dd".to_vec()]);
        assert!(block.is_empty());
    }

    #[test]
    fn messages_moved_to_another_block_keep_their_age_not_that_of_what_was_taken_out_before() {
        let mut from = Block::with_room(64);
        from.stamp(100);
        from.push(b"", b"old", ONE);
        from.stamp(200);
        from.push(b"", b"young", TWO);
        assert_eq!(from.evict_oldest_to(ONE), Some(tally(1, 3)));
        let mut to = Block::with_room(64);
        assert_eq!(from.drain_into(&mut to, ANY), None);
        let mut told = Vec::new();
        to.pass_front(|at_ns, messages| told.push((at_ns, messages)));
        assert_eq!(told, [(200, 1)]);
    }

    #[test]
    fn framing_is_counted_with_the_message_it_belongs_to() {
        let mut block = Block::with_room(64);
        for (framing, payload) in [(&b"<"[..], &b"abc"[..]), (b"<<<<", b""), (b"<<", b"de")] {
            block.push(framing, payload, ONE);
        }
        let mut framing = |bytes| block.advance(bytes, |_, _| {}).framing_bytes;
        assert_eq!(framing(3), 0, "part of the first");
        assert_eq!(framing(2), 1, "the first, and a part of the second");
        assert_eq!(framing(3 + 4), 4 + 2, "all that is left");
        let mut cut = Block::with_room(64);
        cut.push(b"<", b"abc", ONE);
        cut.push(b"<<", b"de", ONE);
        cut.advance(1, |_, _| {});
        let mut rest = Block::with_room(64);
        cut.split_cut(&mut rest);
        assert_eq!(rest.advance(3, |_, _| {}).framing_bytes, 1);
        assert_eq!(cut.evict_front(), Some((ONE, tally(1, 4))));
        assert_eq!(cut.framing_bytes, 0);
    }

    #[test]
    fn delays_are_told_once_per_message_by_the_stamp_of_its_group() {
        let mut block = Block::with_room(64);
        block.stamp(100);
        block.push(b"", b"a", ONE);
        block.push(b"", b"b", ONE);
        block.stamp(200);
        block.push(b"", b"c", ONE);
        let mut told = Vec::new();
        block.advance(1, |at_ns, messages| told.push((at_ns, messages)));
        block.advance(2, |at_ns, messages| told.push((at_ns, messages)));
        assert_eq!(told, [(100, 1), (100, 1), (200, 1)]);
    }
}
