//! The messages that wait, in order, as a list of blocks.

use std::collections::VecDeque;

use crate::account::Tally;
use crate::block::{BLOCK_BYTES, Block, PeerId, Size};
use crate::outbound::Surroundings;

/// Blocks in order, oldest first. Holds what no writer has in hand.
#[derive(Debug)]
pub(crate) struct SendQueue {
    /// Most that a block holds of several messages, and so most that is in a writer's hands at once.
    share: Tally,
    /// A message that is partly written, alone: eviction never reaches it.
    started: Option<Block>,
    /// What the reopen hook sent: it goes out before `blocks`, and eviction never reaches it.
    ahead: VecDeque<Block>,
    blocks: VecDeque<Block>,
    tally: Tally,
    group: Group,
    /// The clock is read for each message: the age of each decides what becomes of it.
    times_each: bool,
}

/// Which part of the queue a block came from, and goes back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Ahead,
    Main,
}

impl SendQueue {
    /// A queue whose blocks hold no more than `share`, or one message.
    pub(crate) fn new(share: Tally, times_each: bool) -> Self {
        Self {
            share,
            times_each,
            started: None,
            ahead: VecDeque::new(),
            blocks: VecDeque::new(),
            tally: Tally::default(),
            group: Group::default(),
        }
    }

    /// An empty queue with the same rules.
    pub(crate) fn successor(&self) -> Self {
        Self::new(self.share, self.times_each)
    }

    #[inline]
    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.tally.messages == 0
    }

    /// Whether the clock has to be read for the next message.
    #[inline]
    pub(crate) const fn wants_time(&self) -> bool {
        self.times_each || self.is_empty() || self.group.is_full()
    }

    /// Appends the message of this length that `push` puts into a block; with the time if
    /// [`wants_time`](Self::wants_time).
    #[inline]
    pub(crate) fn push(
        &mut self,
        size: Size,
        at_ns: Option<u64>,
        surroundings: &impl Surroundings,
        push: impl FnOnce(&mut Block),
    ) {
        if let Some(at_ns) = at_ns {
            self.group = Group::new(at_ns);
        }
        let share = self.share;
        let has_room = |block: &Block| block.fits(size, share);
        let new_block = !self.blocks.back().is_some_and(has_room);
        if new_block {
            if self.blocks.capacity() == 0 {
                // Most links never have two blocks, and the list's own first step is four.
                self.blocks.reserve_exact(1);
            }
            self.blocks
                .push_back(block_for(size.copied_bytes, surroundings));
        }
        let block = self
            .blocks
            .back_mut()
            .expect("pushed above if there was none");
        if new_block || at_ns.is_some() {
            // A new block's first messages may share the reading with the last of the old one.
            block.stamp(self.group.at_ns);
        }
        push(block);
        let message = Tally::one(size.encoded_bytes);
        self.group.tally += message;
        self.tally += message;
    }

    /// Appends one message to those of its block that share a reading of the clock. False, and nothing
    /// happens, where it would be the first of a block or of such a group.
    #[inline]
    pub(crate) fn join(&mut self, header: &[u8], payload: &[u8]) -> bool {
        let message = Tally::one(header.len() + payload.len());
        if self.wants_time() {
            return false;
        }
        match self.blocks.back_mut() {
            Some(block) if block.fits(Size::copied(message.bytes as usize), self.share) => {
                block.push(header, payload, PeerId::SOLE);
            }
            Some(_) | None => return false,
        }
        self.group.tally += message;
        self.tally += message;
        true
    }

    /// Appends one message to those that go out before all others.
    #[cold]
    pub(crate) fn push_ahead(
        &mut self,
        size: Size,
        surroundings: &impl Surroundings,
        push: impl FnOnce(&mut Block),
    ) {
        let share = self.share;
        let has_room = |block: &Block| block.fits(size, share);
        if !self.ahead.back().is_some_and(has_room) {
            self.ahead
                .push_back(block_for(size.copied_bytes, surroundings));
        }
        let block = self.ahead.back_mut();
        let block = block.expect("pushed above if there was none");
        block.stamp(surroundings.now_ns());
        push(block);
        self.tally += Tally::one(size.encoded_bytes);
    }

    /// The oldest block, for a writer; of what goes ahead if nothing else may.
    pub(crate) fn take_front(
        &mut self,
        only_ahead: bool,
        surroundings: &impl Surroundings,
    ) -> Option<(Block, Part)> {
        let (block, part) = if let Some(block) = self.ahead.pop_front() {
            (block, Part::Ahead)
        } else if only_ahead {
            return None;
        } else if let Some(block) = self.started.take() {
            (block, Part::Main)
        } else {
            // A block in the middle is emptied where it stands.
            self.drop_empty_front(surroundings);
            (self.blocks.pop_front()?, Part::Main)
        };
        self.tally -= block.tally();
        Some((block, part))
    }

    /// What a writer could not write goes back to where it came from.
    pub(crate) fn put_front(&mut self, block: Block, part: Part) {
        self.tally += block.tally();
        match part {
            Part::Ahead => self.ahead.push_front(block),
            Part::Main => {
                debug_assert!(self.started.is_none());
                self.blocks.push_front(block);
            }
        }
        // The next message may come long after this block's last reading of the clock, or the queue's.
        self.group.end();
    }

    /// What eviction can reach: all but a message that is partly written, and what goes ahead.
    pub(crate) fn evictable(&self) -> Tally {
        let mut evictable = self.tally;
        for block in &self.ahead {
            evictable -= block.tally();
        }
        if let Some(started) = &self.started {
            evictable -= started.tally();
        } else if let Some(cut) = self.blocks.front().and_then(Block::cut_tally) {
            evictable -= cut;
        }
        evictable
    }

    /// Whether the messages to `peer`, from the oldest on, are ever `enough`. Walks no further.
    pub(crate) fn evictable_to(&self, peer: PeerId, mut enough: impl FnMut(Tally) -> bool) -> bool {
        let mut evictable = Tally::default();
        self.blocks
            .iter()
            .flat_map(Block::each)
            .filter(|&(to, _)| to == peer)
            .any(|(_, message)| {
                evictable += message;
                enough(evictable)
            })
    }

    /// When the oldest untouched message was queued; only where the clock is read for each.
    pub(crate) fn oldest_ns(&mut self, surroundings: &impl Surroundings) -> Option<u64> {
        self.drop_empty_front(surroundings);
        let mut blocks = self.blocks.iter_mut();
        // In the first block there may be none but the message that is partly written.
        let first = blocks.next()?;
        first.oldest_ns().or_else(|| blocks.next()?.oldest_ns())
    }

    /// Takes the oldest untouched message out.
    pub(crate) fn evict_oldest(
        &mut self,
        surroundings: &impl Surroundings,
    ) -> Option<(PeerId, Tally)> {
        if self.blocks.front().is_some_and(Block::is_cut) {
            self.set_started_aside(surroundings);
        }
        let front = self.blocks.front_mut()?;
        let (peer, evicted) = front.evict_front()?;
        self.tally -= evicted;
        self.drop_empty_front(surroundings);
        Some((peer, evicted))
    }

    /// Takes the oldest message to `peer` out. Walks the queue from the front, where it usually is.
    pub(crate) fn evict_oldest_to(
        &mut self,
        peer: PeerId,
        surroundings: &impl Surroundings,
    ) -> Option<Tally> {
        let (index, evicted) = self
            .blocks
            .iter_mut()
            .enumerate()
            .find_map(|(index, block)| Some((index, block.evict_oldest_to(peer)?)))?;
        self.tally -= evicted;
        if self.blocks[index].is_empty()
            && let Some(block) = self.blocks.remove(index)
        {
            surroundings.recycle(block);
        }
        self.compact(surroundings);
        Some(evicted)
    }

    /// Takes every message to `peer` out.
    pub(crate) fn take_out(&mut self, peer: PeerId, surroundings: &impl Surroundings) -> Tally {
        let taken_out = self
            .blocks
            .iter_mut()
            .map(|block| block.take_out(|to, _| to == peer))
            .fold(Tally::default(), |sum, tally| sum + tally);
        self.tally -= taken_out;
        self.drop_empty_front(surroundings);
        self.compact(surroundings);
        taken_out
    }

    /// Empties the queue and tells `each` of what was in it.
    pub(crate) fn clear(
        &mut self,
        surroundings: &impl Surroundings,
        mut each: impl FnMut(PeerId, Tally),
    ) {
        while let Some((block, _)) = self.take_front(false, surroundings) {
            block.each().for_each(|(peer, tally)| each(peer, tally));
            surroundings.recycle(block);
        }
    }

    /// Keeps what the connection that is over has not touched, but for what went ahead on it and what
    /// drivers say to each other, which is of one connection. Tells `each` of what is given up.
    pub(crate) fn keep_untouched(
        &mut self,
        surroundings: &impl Surroundings,
        mut each: impl FnMut(PeerId, Tally),
    ) {
        let touched = self.started.take();
        for block in touched.into_iter().chain(self.ahead.drain(..)) {
            self.tally -= block.tally();
            block.each().for_each(|(peer, tally)| each(peer, tally));
            surroundings.recycle(block);
        }
        if let Some((peer, rest)) = self.blocks.front_mut().and_then(Block::give_up_cut) {
            self.tally -= rest;
            each(peer, rest);
        }
        for block in &mut self.blocks {
            let control = block.remove_control();
            self.tally -= control;
            each(PeerId::DRIVER, control);
        }
        self.drop_empty_front(surroundings);
        // The next message may come long after the last reading of the clock.
        self.group.end();
    }

    #[cold]
    fn set_started_aside(&mut self, surroundings: &impl Surroundings) {
        let Some(front) = self.blocks.front_mut() else {
            return;
        };
        let mut rest = block_for(front.cut_copied_bytes(), surroundings);
        front.split_cut(&mut rest);
        self.started = Some(rest);
        self.drop_empty_front(surroundings);
    }

    fn drop_empty_front(&mut self, surroundings: &impl Surroundings) {
        while self.blocks.front().is_some_and(Block::is_empty) {
            if let Some(block) = self.blocks.pop_front() {
                surroundings.recycle(block);
            }
        }
    }

    /// Clears away messages taken out of the middle once they outweigh what is left.
    fn compact(&mut self, surroundings: &impl Surroundings) {
        let dead = self
            .blocks
            .iter()
            .map(Block::dead)
            .fold(Tally::default(), |sum, tally| sum + tally);
        // Bytes for the memory. Messages for the next eviction, which walks past them; and an empty
        // datagram has no bytes, but takes its place in a block.
        if dead.bytes <= self.tally.bytes + BLOCK_BYTES as u64
            && dead.messages <= self.tally.messages + DEAD_MESSAGES
        {
            return;
        }
        let crowded = std::mem::take(&mut self.blocks);
        let mut target = surroundings.block();
        for mut old in crowded {
            while let Some(next_bytes) = old.drain_into(&mut target, self.share) {
                let full = std::mem::replace(&mut target, block_for(next_bytes, surroundings));
                self.blocks.push_back(full);
            }
            surroundings.recycle(old);
        }
        self.blocks.push_back(target);
        self.drop_empty_front(surroundings);
    }
}

/// Messages taken out of the middle that are left alone: a walk past them costs half a microsecond.
const DEAD_MESSAGES: u64 = 1024;

/// Messages that share one reading of the clock, for the queue delay.
#[derive(Debug, Default)]
struct Group {
    at_ns: u64,
    tally: Tally,
}

const GROUP: Tally = Tally {
    messages: 64,
    bytes: 4096,
};

impl Group {
    const fn new(at_ns: u64) -> Self {
        let tally = Tally {
            messages: 0,
            bytes: 0,
        };
        Self { at_ns, tally }
    }

    const fn is_full(&self) -> bool {
        self.tally.messages >= GROUP.messages || self.tally.bytes >= GROUP.bytes
    }

    /// The next message starts another.
    const fn end(&mut self) {
        self.tally = GROUP;
    }
}

/// A pooled block, or one of the message's own size where what is copied of it is larger.
pub(crate) fn block_for(copied_bytes: usize, surroundings: &impl Surroundings) -> Block {
    if copied_bytes <= BLOCK_BYTES {
        surroundings.block()
    } else {
        Block::with_room(copied_bytes)
    }
}
