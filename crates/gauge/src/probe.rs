//! The probe: what every measuring message carries, and how its arrival is judged.
//!
//! A message begins with 16 bytes: a 64-bit sequence number and a 64-bit check over that number and
//! the message's length, both little-endian. In timed rounds only those are looked at. In the untimed
//! pass before them the rest is filled from the sequence number and compared whole.

use crate::plan::PAYLOAD_LEAST_BYTES;
use crate::statistics::mix;
use crate::wire::Counts;

/// Writes the header for `sequence` and leaves the rest as it is.
///
/// # Panics
///
/// If `message` is shorter than the header.
#[inline]
pub fn stamp(message: &mut [u8], sequence: u64) {
    let check = check_of(sequence, message.len());
    message[..8].copy_from_slice(&sequence.to_le_bytes());
    message[8..HEADER_BYTES].copy_from_slice(&check.to_le_bytes());
}

/// The sequence number of a message of the right length and with the right check; `None` if it was
/// corrupted.
#[inline]
pub fn sequence_of(message: &[u8], payload_bytes: usize) -> Option<u64> {
    if message.len() != payload_bytes {
        return None;
    }
    sequence_in(message.first_chunk()?, payload_bytes)
}

/// The sequence number in the header of a message that has `payload_bytes` in all; `None` if the header
/// was corrupted, or is that of another length. For whoever does not keep the rest.
#[inline]
pub fn sequence_in(header: &[u8; HEADER_BYTES], payload_bytes: usize) -> Option<u64> {
    let (sequence, check) = header.split_first_chunk::<8>()?;
    let sequence = u64::from_le_bytes(*sequence);
    let check = u64::from_le_bytes(*check.first_chunk()?);
    (check == check_of(sequence, payload_bytes)).then_some(sequence)
}

/// Writes the header and fills the rest with bytes that only this sequence number has.
///
/// # Panics
///
/// If `message` is shorter than the header.
pub fn fill(message: &mut [u8], sequence: u64) {
    stamp(message, sequence);
    fill_contents(&mut message[HEADER_BYTES..], sequence);
}

/// Whether `message` is, to the last byte, what [`fill`] makes of `sequence` and `payload_bytes`.
pub fn is_filled(message: &[u8], payload_bytes: usize, sequence: u64) -> bool {
    sequence_of(message, payload_bytes) == Some(sequence)
        && are_contents(&message[HEADER_BYTES..], sequence)
}

/// Fills what stands behind a header with bytes that only this sequence number has.
pub(crate) fn fill_contents(rest: &mut [u8], sequence: u64) {
    for (position, chunk) in rest.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&contents(sequence, position)[..chunk.len()]);
    }
}

/// Whether these are, to the last byte, the contents of this sequence number.
pub(crate) fn are_contents(rest: &[u8], sequence: u64) -> bool {
    rest.chunks(8)
        .enumerate()
        .all(|(position, chunk)| *chunk == contents(sequence, position)[..chunk.len()])
}

/// Which messages of a stream arrived: exact counts in constant memory.
///
/// It remembers about the last million sequence numbers, or what its window holds. What is older than
/// that and comes after all counts as a duplicate: nothing is held back for so many messages.
#[derive(Debug, Clone)]
pub struct Arrivals {
    /// A ring of one bit a sequence number, the last of them `next - 1`.
    seen: Vec<u64>,
    next: u64,
    received: u64,
    duplicates: u64,
    reordered: u64,
    corrupted: u64,
}

impl Arrivals {
    /// Nothing has arrived; the first message expected has the sequence number 0.
    pub fn new() -> Self {
        Self::with_window(WINDOW)
    }

    /// The same with a memory of its own size: `window` sequence numbers, one bit each.
    ///
    /// # Panics
    ///
    /// If `window` is not a power of two from 128 up.
    pub fn with_window(window: usize) -> Self {
        assert!(window.is_power_of_two() && window >= 128);
        Self {
            seen: vec![0; window / 64],
            next: 0,
            received: 0,
            duplicates: 0,
            reordered: 0,
            corrupted: 0,
        }
    }

    /// Judges one intact message.
    #[inline]
    pub fn arrived(&mut self, sequence: u64) {
        if sequence == self.next {
            // The common case: in order. A new word of the ring is clean when it is entered.
            let word = self.word_of(sequence);
            let word = &mut self.seen[word];
            *word = if sequence.is_multiple_of(64) {
                1
            } else {
                *word | bit_of(sequence)
            };
            self.next += 1;
            self.received += 1;
        } else {
            self.arrived_out_of_turn(sequence);
        }
    }

    /// Counts one message that was not intact.
    #[cold]
    pub fn corrupted(&mut self) {
        self.corrupted += 1;
    }

    /// Messages that arrived intact, duplicates not counted again.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The counts, when `sent` messages with the numbers from 0 to `sent - 1` were accepted.
    pub fn integrity(&self, sent: u64) -> crate::report::Integrity {
        crate::report::Integrity {
            gaps: sent.saturating_sub(self.received),
            duplicates: self.duplicates,
            reordered: self.reordered,
            corrupted: self.corrupted,
        }
    }

    /// The counts as a server tells them.
    pub fn counts(&self, received_bytes: u64, elapsed_ns: u64) -> Counts {
        Counts {
            received_messages: self.received,
            received_bytes,
            duplicates: self.duplicates,
            reordered: self.reordered,
            corrupted: self.corrupted,
            elapsed_ns,
        }
    }

    #[cold]
    fn arrived_out_of_turn(&mut self, sequence: u64) {
        if sequence > self.next {
            self.skip_to(sequence);
            self.arrived(sequence);
        } else if self.next - sequence > self.remembered() || self.has_seen(sequence) {
            self.duplicates += 1;
        } else {
            let word = self.word_of(sequence);
            self.seen[word] |= bit_of(sequence);
            self.reordered += 1;
            self.received += 1;
        }
    }

    /// Leaves a gap up to `sequence`: clears the words that are entered on the way.
    fn skip_to(&mut self, sequence: u64) {
        let entered = self.next.div_ceil(64)..sequence.div_ceil(64);
        if entered.end.saturating_sub(entered.start) >= self.seen.len() as u64 {
            self.seen.fill(0);
        } else {
            for number in entered {
                let word = self.word_of(number * 64);
                self.seen[word] = 0;
            }
        }
        self.next = sequence;
    }

    fn has_seen(&self, sequence: u64) -> bool {
        self.seen[self.word_of(sequence)] & bit_of(sequence) != 0
    }

    /// How many sequence numbers back a late message is still told from a duplicate: a word is cleared
    /// whole when its first number comes.
    const fn remembered(&self) -> u64 {
        self.seen.len() as u64 * 64 - 64
    }

    #[inline]
    fn word_of(&self, sequence: u64) -> usize {
        (sequence / 64) as usize & (self.seen.len() - 1)
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of sequence and check.
pub const HEADER_BYTES: usize = PAYLOAD_LEAST_BYTES;

/// Bits of the ring: 128 KiB.
const WINDOW: usize = 1 << 20;

const fn bit_of(sequence: u64) -> u64 {
    1 << (sequence % 64)
}

#[inline]
fn check_of(sequence: u64, payload_bytes: usize) -> u64 {
    // The salt keeps a message of zeros from passing.
    mix(sequence ^ (payload_bytes as u64).rotate_left(40) ^ 0x7461_7574_6c69_6e65)
}

fn contents(sequence: u64, position: usize) -> [u8; 8] {
    mix(sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ position as u64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn arrivals(order: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals::new();
        order
            .iter()
            .for_each(|&sequence| arrivals.arrived(sequence));
        arrivals
    }

    #[test]
    fn a_stamped_message_says_its_sequence_number() {
        let mut message = [0; 64];
        stamp(&mut message, 77);
        assert_eq!(sequence_of(&message, 64), Some(77));
    }

    #[test]
    fn zeros_a_cut_message_and_another_length_are_corrupted() {
        assert_eq!(sequence_of(&[0; 64], 64), None);
        let mut message = [0; 64];
        stamp(&mut message, 77);
        assert_eq!(sequence_of(&message[..63], 64), None);
        assert_eq!(sequence_of(&message[..63], 63), None);
        assert_eq!(sequence_of(&message[..7], 7), None);
    }

    #[test]
    fn any_flipped_bit_of_the_header_is_noticed() {
        let mut message = [0; 16];
        stamp(&mut message, 123_456);
        for bit in 0..128 {
            let mut broken = message;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sequence_of(&broken, 16), None, "bit {bit}");
        }
    }

    #[test]
    fn any_changed_byte_of_filled_contents_is_noticed() {
        let mut message = [0; 61];
        fill(&mut message, 5);
        assert!(is_filled(&message, 61, 5));
        assert!(!is_filled(&message, 61, 6));
        for position in 0..61 {
            let mut broken = message;
            broken[position] ^= 0x10;
            assert!(!is_filled(&broken, 61, 5), "byte {position}");
        }
    }

    #[test]
    fn two_blocks_of_contents_are_told_apart_when_swapped() {
        let mut message = [0; 64];
        fill(&mut message, 5);
        let (left, right) = message.split_at_mut(40);
        left[16..24].swap_with_slice(&mut right[..8]);
        assert!(!is_filled(&message, 64, 5));
    }

    #[test]
    fn messages_in_order_leave_no_trace() {
        let arrivals = arrivals(&(0..100_000).collect::<Vec<_>>());
        assert_eq!(arrivals.received(), 100_000);
        assert_eq!(
            arrivals.integrity(100_000),
            crate::report::Integrity::default()
        );
    }

    #[test]
    fn what_never_came_is_a_gap_at_the_end_too() {
        let integrity = arrivals(&[0, 1, 4, 5]).integrity(8);
        assert_eq!(
            (integrity.gaps, integrity.reordered, integrity.duplicates),
            (4, 0, 0)
        );
    }

    #[test]
    fn a_late_message_is_reordered_and_its_twin_a_duplicate() {
        let integrity = arrivals(&[0, 2, 3, 1, 1, 3]).integrity(4);
        assert_eq!(
            (integrity.gaps, integrity.reordered, integrity.duplicates),
            (0, 1, 2)
        );
    }

    #[test]
    fn a_jump_beyond_the_window_forgets_it() {
        let integrity = arrivals(&[0, 5_000_000, 4_999_999, 4_999_999]).integrity(5_000_001);
        assert_eq!(
            (integrity.gaps, integrity.reordered, integrity.duplicates),
            (4_999_998, 1, 1)
        );
    }

    #[test]
    fn a_small_window_tells_late_ones_from_duplicates_as_far_back_as_it_reaches() {
        let mut arrivals = Arrivals::with_window(128);
        for sequence in [0, 1, 80, 79, 79, 130, 79, 65] {
            arrivals.arrived(sequence);
        }
        let integrity = arrivals.integrity(131);
        assert_eq!(
            (integrity.gaps, integrity.reordered, integrity.duplicates),
            (126, 1, 3)
        );
    }

    proptest! {
        #[test]
        fn the_counts_agree_with_a_set(
            steps in prop::collection::vec((0_u64..300, any::<bool>()), 1..400),
        ) {
            let mut order = Vec::new();
            let mut next = 0;
            for (step, back) in steps {
                let sequence = if back { next - step.min(next) } else { next + step };
                next = next.max(sequence + 1);
                order.push(sequence);
            }
            let (mut seen, mut highest) = (HashSet::new(), None);
            let (mut duplicates, mut reordered) = (0, 0);
            for &sequence in &order {
                if !seen.insert(sequence) {
                    duplicates += 1;
                } else if highest.is_some_and(|highest| sequence < highest) {
                    reordered += 1;
                }
                highest = highest.max(Some(sequence));
            }
            let arrivals = arrivals(&order);
            let integrity = arrivals.integrity(next);
            prop_assert_eq!(arrivals.received(), seen.len() as u64);
            prop_assert_eq!(integrity.gaps, next - seen.len() as u64);
            prop_assert_eq!(integrity.duplicates, duplicates);
            prop_assert_eq!(integrity.reordered, reordered);
        }
    }
}
