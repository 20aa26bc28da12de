//! Datagrams of a block that may leave in one call.

use super::store::Walk;
use super::{Block, Message, PeerId};

/// Datagrams side by side, to one peer and all of one length but the last, which may be shorter: what the
/// kernel can cut out of one buffer by itself (`UDP_SEGMENT`, udp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// Whom they are for.
    pub peer: PeerId,
    /// All of them, without a gap.
    pub bytes: &'a [u8],
    /// The length of each but the last.
    pub segment_bytes: usize,
    /// How many there are, one at least.
    pub datagrams: usize,
}

impl<'a> Run<'a> {
    /// A place for one.
    pub const NONE: Self = Self {
        peer: PeerId::SOLE,
        bytes: &[],
        segment_bytes: 0,
        datagrams: 0,
    };

    /// Each datagram, in order.
    pub fn each(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.datagrams).map(move |number| {
            let from = number * self.segment_bytes;
            let to = self.bytes.len().min(from + self.segment_bytes);
            &self.bytes[from..to]
        })
    }
}

/// The datagrams of a block that are not sent yet, as runs as long as one call takes. One that was not
/// copied lies alone.
#[derive(Debug, Clone)]
pub struct Runs<'a> {
    messages: &'a [Message],
    /// The number of the first of them in the block.
    number: usize,
    walk: Walk<'a>,
}

impl<'a> Runs<'a> {
    pub(super) fn of(block: &'a Block) -> Self {
        Self {
            messages: &block.messages[block.head..],
            number: block.head,
            walk: block.store.walk(),
        }
    }

    /// Passes over so many datagrams.
    pub fn pass(&mut self, datagrams: usize) {
        for _ in 0..datagrams {
            self.skip_taken_out();
            self.pass_message();
        }
    }

    fn skip_taken_out(&mut self) {
        while self
            .messages
            .first()
            .is_some_and(|message| message.peer == PeerId::NOBODY)
        {
            self.pass_message();
        }
    }

    fn pass_message(&mut self) -> &'a [u8] {
        let Some((message, rest)) = self.messages.split_first() else {
            return &[];
        };
        let payload = self.walk.datagram(self.number, message.bytes as usize);
        self.messages = rest;
        self.number += 1;
        payload
    }

    /// How many of the next messages, which begin with this one, are one run, and their length.
    fn measure(&self, first: &Message) -> (usize, usize) {
        let segment_bytes = first.bytes as usize;
        // An empty datagram is no segment of anything.
        let most = match segment_bytes {
            0 => 1,
            _ => (RUN_BYTES / segment_bytes).clamp(1, RUN_DATAGRAMS),
        };
        let (mut datagrams, mut bytes) = (1, segment_bytes);
        for message in &self.messages[1..] {
            let length = message.bytes as usize;
            let joins = message.peer == first.peer && (1..=segment_bytes).contains(&length);
            if datagrams == most || !joins || self.walk.is_owned(self.number + datagrams) {
                break;
            }
            datagrams += 1;
            bytes += length;
            if length < segment_bytes {
                break;
            }
        }
        (datagrams, bytes)
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        self.skip_taken_out();
        let first = self.messages.first()?;
        let (datagrams, bytes) = if self.walk.is_owned(self.number) {
            (1, self.pass_message())
        } else {
            let (datagrams, length) = self.measure(first);
            self.messages = &self.messages[datagrams..];
            self.number += datagrams;
            (datagrams, self.walk.copied(length))
        };
        Some(Run {
            peer: first.peer,
            bytes,
            segment_bytes: first.bytes as usize,
            datagrams,
        })
    }
}

/// `UDP_MAX_SEGMENTS` of the kernels that have the fewest.
const RUN_DATAGRAMS: usize = 64;
/// The kernel makes one packet of them first: an IPv4 packet, and its headers.
const RUN_BYTES: usize = 65_507;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId { slot: 1, life: 1 };
    const TWO: PeerId = PeerId { slot: 2, life: 1 };

    fn block(lengths: &[(usize, PeerId)]) -> Block {
        let mut block = Block::with_room(1 << 20);
        for (number, &(length, peer)) in lengths.iter().enumerate() {
            block.push(b"", &vec![number as u8; length], peer);
        }
        block
    }

    fn shapes(block: &Block) -> Vec<(usize, usize, usize)> {
        let shape = |run: Run<'_>| (run.segment_bytes, run.datagrams, run.bytes.len());
        Runs::of(block).map(shape).collect()
    }

    #[test]
    fn equal_ones_to_one_peer_are_one_run_and_a_shorter_one_ends_it() {
        let block = block(&[(8, ONE), (8, ONE), (3, ONE), (8, ONE), (8, TWO), (9, TWO)]);
        assert_eq!(
            shapes(&block),
            [(8, 3, 19), (8, 1, 8), (8, 1, 8), (9, 1, 9)]
        );
    }

    #[test]
    fn empty_ones_are_runs_of_their_own() {
        let block = block(&[(0, ONE), (0, ONE), (4, ONE), (0, ONE)]);
        assert_eq!(shapes(&block), [(0, 1, 0), (0, 1, 0), (4, 1, 4), (0, 1, 0)]);
        let mut runs = Runs::of(&block);
        let each: Vec<&[u8]> = runs.next().unwrap().each().collect();
        assert_eq!(each, [b""]);
    }

    #[test]
    fn a_run_is_no_longer_than_one_call_takes() {
        let small = block(&[(10, ONE); 130]);
        assert_eq!(shapes(&small), [(10, 64, 640), (10, 64, 640), (10, 2, 20)]);
        let large = block(&[(30_000, ONE); 5]);
        assert_eq!(
            shapes(&large),
            [
                (30_000, 2, 60_000),
                (30_000, 2, 60_000),
                (30_000, 1, 30_000)
            ]
        );
        assert_eq!(
            shapes(&block(&[(65_507, ONE); 2])),
            [(65_507, 1, 65_507); 2]
        );
    }

    #[test]
    fn what_was_taken_out_is_in_no_run_and_parts_its_neighbours() {
        let mut block = block(&[(4, ONE), (4, TWO), (4, ONE), (4, ONE)]);
        block.evict_oldest_to(TWO);
        assert_eq!(shapes(&block), [(4, 1, 4), (4, 2, 8)]);
        let mut runs = Runs::of(&block);
        runs.pass(2);
        let rest: Vec<&[u8]> = runs.flat_map(Run::each).collect();
        assert_eq!(rest, [[3; 4]]);
    }

    #[test]
    fn one_that_was_not_copied_is_alone_and_the_others_lie_side_by_side() {
        let mut block = block(&[(4, ONE), (4, ONE)]);
        block.push_owned(b"", bytes::Bytes::from_static(b"good"), ONE);
        block.push(b"", b"more", ONE);
        assert_eq!(shapes(&block), [(4, 2, 8), (4, 1, 4), (4, 1, 4)]);
        let mut rest = Runs::of(&block);
        rest.pass(2);
        let each: Vec<&[u8]> = rest.flat_map(Run::each).collect();
        assert_eq!(each, [b"good", b"more"]);
    }

    #[test]
    fn each_datagram_comes_out_with_its_borders() {
        let block = block(&[(3, ONE), (3, ONE), (2, ONE), (5, TWO)]);
        let each: Vec<&[u8]> = Runs::of(&block).flat_map(Run::each).collect();
        assert_eq!(each, [&[0; 3][..], &[1; 3], &[2; 2], &[3; 5]]);
    }
}
