//! The messages that wait, in order, as a list of blocks.

use std::collections::VecDeque;

use crate::account::Tally;
use crate::block::{BLOCK_BYTES, Block, PeerId};
use crate::outbound::Surroundings;

/// Blocks in order, oldest first. Holds what no writer has in hand.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// A message that is partly written, alone: eviction never reaches it.
    started: Option<Block>,
    blocks: VecDeque<Block>,
    tally: Tally,
    /// The last reading of the clock: a new block's first messages may share it with the old one's.
    group_ns: u64,
}

impl SendQueue {
    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.tally.messages == 0
    }

    /// Appends one message. `at_ns` starts a new group for the queue delay.
    pub(crate) fn push(
        &mut self,
        header: &[u8],
        payload: &[u8],
        peer: PeerId,
        at_ns: Option<u64>,
        surroundings: &impl Surroundings,
    ) {
        let encoded_bytes = header.len() + payload.len();
        self.group_ns = at_ns.unwrap_or(self.group_ns);
        let has_room = |block: &Block| block.fits(encoded_bytes);
        let new_block = !self.blocks.back().is_some_and(has_room);
        if new_block {
            self.blocks
                .push_back(block_for(encoded_bytes, surroundings));
        }
        let block = self
            .blocks
            .back_mut()
            .expect("pushed above if there was none");
        if new_block || at_ns.is_some() {
            block.stamp(self.group_ns);
        }
        block.push(header, payload, peer);
        self.tally += Tally::one(encoded_bytes);
    }

    /// The oldest block, for a writer.
    pub(crate) fn take_front(&mut self) -> Option<Block> {
        let block = self.started.take().or_else(|| self.blocks.pop_front())?;
        self.tally -= block.tally();
        Some(block)
    }

    /// What a writer could not write goes back to where it came from.
    pub(crate) fn put_front(&mut self, block: Block) {
        debug_assert!(self.started.is_none());
        self.tally += block.tally();
        self.blocks.push_front(block);
    }

    /// Takes the oldest untouched message out.
    pub(crate) fn evict_oldest(&mut self, surroundings: &impl Surroundings) -> Option<Tally> {
        if self.blocks.front().is_some_and(Block::is_cut) {
            self.set_started_aside(surroundings);
        }
        let front = self.blocks.front_mut()?;
        let (_, evicted) = front.evict_front()?;
        self.tally -= evicted;
        self.drop_empty_front(surroundings);
        Some(evicted)
    }

    /// Takes the oldest message to `peer` out. Walks the queue from the front, where it usually is.
    pub(crate) fn evict_oldest_to(
        &mut self,
        peer: PeerId,
        surroundings: &impl Surroundings,
    ) -> Option<Tally> {
        let evicted = self
            .blocks
            .iter_mut()
            .find_map(|block| block.evict_oldest_to(peer))?;
        self.tally -= evicted;
        self.drop_empty_front(surroundings);
        self.compact(surroundings);
        Some(evicted)
    }

    /// Takes every message to `peer` out.
    pub(crate) fn take_out(&mut self, peer: PeerId, surroundings: &impl Surroundings) -> Tally {
        let taken_out = self
            .blocks
            .iter_mut()
            .map(|block| block.take_out(peer))
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
        while let Some(block) = self.take_front() {
            block.each().for_each(|(peer, tally)| each(peer, tally));
            surroundings.recycle(block);
        }
    }

    #[cold]
    fn set_started_aside(&mut self, surroundings: &impl Surroundings) {
        let Some(front) = self.blocks.front_mut() else {
            return;
        };
        let mut rest = block_for(front.tally().bytes as usize, surroundings);
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

    /// Gives back the bytes of messages taken out of the middle once they outweigh what is left.
    fn compact(&mut self, surroundings: &impl Surroundings) {
        let dead_bytes: usize = match self.blocks.len() {
            // One block cannot hold more than its room.
            0 | 1 => return,
            _ => self.blocks.iter().map(Block::dead_bytes).sum(),
        };
        if dead_bytes <= self.tally.bytes as usize + BLOCK_BYTES {
            return;
        }
        let crowded = std::mem::take(&mut self.blocks);
        let mut target = surroundings.block();
        for mut old in crowded {
            while !old.drain_into(&mut target) {
                let full = std::mem::replace(&mut target, surroundings.block());
                self.blocks.push_back(full);
            }
            surroundings.recycle(old);
        }
        self.blocks.push_back(target);
        self.drop_empty_front(surroundings);
    }
}

/// A pooled block, or one of the message's own size where it is larger.
fn block_for(encoded_bytes: usize, surroundings: &impl Surroundings) -> Block {
    if encoded_bytes <= BLOCK_BYTES {
        surroundings.block()
    } else {
        Block::with_room(encoded_bytes)
    }
}
