//! The sieve of one thread: counts the primes within any range, a segment at a time.
//!
//! A byte stands for 30 numbers and a bit for one of the eight among them that 2, 3 and 5 do not
//! divide, so a segment of 32 KiB covers a million numbers. The primes to sieve with come from
//! `primal-sieve`, whose own count is one thread's, starts at 0 and cannot be stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use primal_sieve::Sieve;

/// The primes up to the root of the limit, and the pattern that the smallest of them leave.
#[derive(Debug)]
pub(super) struct Base {
    limit: u64,
    primes: Vec<u32>,
    pattern: Vec<u8>,
    segment_bytes: usize,
}

impl Base {
    /// What it takes to sieve up to and including `limit`.
    pub(super) fn new(limit: u64) -> Self {
        let root = limit.isqrt();
        // primal-sieve wants some room; primes beyond the root do no harm, they are not reached.
        let sieve = Sieve::new(usize::try_from(root).expect("within the limit") + 100);
        let primes = sieve
            .primes_from(PATTERN_END)
            .map(|prime| u32::try_from(prime).expect("roots of the limit fit 32 bits"))
            .take_while(|&prime| u64::from(prime) <= root)
            .collect();
        Self {
            limit,
            primes,
            pattern: pattern(),
            segment_bytes: segment_bytes(root),
        }
    }

    /// How many numbers one segment covers.
    pub(super) fn segment_numbers(&self) -> u64 {
        self.segment_bytes as u64 * NUMBERS_A_BYTE
    }
}

/// What one thread writes to: a segment, and where each prime goes on in it.
#[derive(Debug)]
pub(super) struct Desk {
    segment: Vec<u8>,
    /// For each prime in use and each of the eight residues: the byte of its next multiple.
    next: Vec<[u32; 8]>,
}

impl Desk {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            segment: vec![0; base.segment_bytes],
            next: Vec::with_capacity(base.primes.len()),
        }
    }

    /// Counts the primes from `start`, a multiple of 30, to below `end` or to the limit. `at_segment` is
    /// called before each segment. `None` if it was stopped.
    pub(super) fn count(
        &mut self,
        base: &Base,
        start: u64,
        end: u64,
        stop: &AtomicBool,
        mut at_segment: impl FnMut(),
    ) -> Option<u64> {
        assert!(start.is_multiple_of(NUMBERS_A_BYTE), "bytes begin there");
        let end = end.min(base.limit + 1);
        assert!(
            end.saturating_sub(start) <= LONGEST_RANGE,
            "places in a range fit 32 bits"
        );
        self.enter(base, start, end);
        let mut count = SMALL.iter().filter(|&&p| start <= p && p < end).count() as u64;
        let mut low = start;
        while low < end {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            at_segment();
            self.sieve(base, low);
            count += self.remaining(end - low);
            low += base.segment_numbers();
        }
        Some(count)
    }

    /// Finds the first multiple of each prime at or above `start`, for each residue.
    fn enter(&mut self, base: &Base, start: u64, end: u64) {
        self.next.clear();
        for &prime in &base.primes {
            let p = u64::from(prime);
            // Smaller multiples have a smaller factor.
            let least = p * p;
            if least >= end {
                break;
            }
            let cofactor = start.max(least).div_ceil(p);
            let (tens, rest) = (cofactor / NUMBERS_A_BYTE, cofactor % NUMBERS_A_BYTE);
            let mut next = [0; 8];
            for (next, &residue) in next.iter_mut().zip(&RESIDUES) {
                let turns = tens + u64::from(residue < rest);
                let multiple = p * (turns * NUMBERS_A_BYTE + residue);
                *next = ((multiple - start) / NUMBERS_A_BYTE) as u32;
            }
            self.next.push(next);
        }
    }

    /// Strikes out every composite in the segment that begins at `low`, and moves on behind it.
    fn sieve(&mut self, base: &Base, low: u64) {
        let offset = (low / NUMBERS_A_BYTE) % PATTERN_BYTES as u64;
        copy_pattern(&mut self.segment, &base.pattern, offset as usize);
        if low == 0 {
            // 1 is no prime; 7, 11, 13 and 17 are counted by name, with 2, 3 and 5.
            self.segment[0] &= !1;
        }
        let length = self.segment.len();
        for (&prime, next) in base.primes.iter().zip(&mut self.next) {
            let masks = &MASKS[RESIDUE_INDEX[(prime % 30) as usize] as usize];
            for (next, &mask) in next.iter_mut().zip(masks) {
                let mut byte = *next as usize;
                while byte < length {
                    self.segment[byte] &= mask;
                    byte += prime as usize;
                }
                *next = (byte - length) as u32;
            }
        }
    }

    /// Primes among the first `numbers` of the segment.
    fn remaining(&self, numbers: u64) -> u64 {
        let whole = (numbers / NUMBERS_A_BYTE) as usize;
        if whole >= self.segment.len() {
            return ones(&self.segment);
        }
        let rest = numbers % NUMBERS_A_BYTE;
        let within = RESIDUES.iter().filter(|&&residue| residue < rest).count();
        let last = u32::from(self.segment[whole]) & ((1 << within) - 1);
        ones(&self.segment[..whole]) + u64::from(last.count_ones())
    }
}

fn ones(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let whole: u64 = words
        .by_ref()
        .map(|word| u64::from_ne_bytes(word.try_into().expect("of eight")).count_ones())
        .map(u64::from)
        .sum();
    let rest: u32 = words.remainder().iter().map(|byte| byte.count_ones()).sum();
    whole + u64::from(rest)
}

/// The bytes that 7, 11, 13 and 17 leave, which repeat: copying them saves half of all strikes.
fn pattern() -> Vec<u8> {
    let mut pattern = vec![0; PATTERN_BYTES];
    for (index, byte) in pattern.iter_mut().enumerate() {
        for (bit, residue) in RESIDUES.iter().enumerate() {
            let number = index as u64 * NUMBERS_A_BYTE + residue;
            if [7, 11, 13, 17]
                .iter()
                .all(|prime| !number.is_multiple_of(*prime))
            {
                *byte |= 1 << bit;
            }
        }
    }
    pattern
}

fn copy_pattern(segment: &mut [u8], pattern: &[u8], offset: usize) {
    let first = (pattern.len() - offset).min(segment.len());
    segment[..first].copy_from_slice(&pattern[offset..offset + first]);
    for piece in segment[first..].chunks_mut(pattern.len()) {
        piece.copy_from_slice(&pattern[..piece.len()]);
    }
}

/// A segment within the first-level cache, unless there are more primes than it has bytes: then most
/// of them would pass over it without a strike.
fn segment_bytes(root: u64) -> usize {
    if root <= LEAST_SEGMENT_BYTES as u64 {
        LEAST_SEGMENT_BYTES
    } else {
        MOST_SEGMENT_BYTES
    }
}

const LEAST_SEGMENT_BYTES: usize = 32 * 1024;
/// Within the second-level cache of every CPU this is likely to run on.
const MOST_SEGMENT_BYTES: usize = 256 * 1024;

const NUMBERS_A_BYTE: u64 = 30;

/// A quarter of what 32 bits can tell: multiples go on behind the end of a range, by at most 30 times
/// the largest prime.
const LONGEST_RANGE: u64 = (u32::MAX / 4) as u64 * NUMBERS_A_BYTE;

/// What a number leaves when divided by 30, if 2, 3 and 5 do not divide it; a bit each, in this order.
const RESIDUES: [u64; 8] = [1, 7, 11, 13, 17, 19, 23, 29];

/// The first prime that is not in the pattern.
const PATTERN_END: usize = 19;
const PATTERN_BYTES: usize = 7 * 11 * 13 * 17;
/// Primes that no bit is left for.
const SMALL: [u64; 7] = [2, 3, 5, 7, 11, 13, 17];

/// The bit of a residue.
const RESIDUE_INDEX: [u8; 30] = {
    let mut index = [0; 30];
    let mut bit = 0;
    while bit < 8 {
        index[RESIDUES[bit] as usize] = bit as u8;
        bit += 1;
    }
    index
};

/// What to keep of a byte when a prime of one residue times a cofactor of another is struck out.
const MASKS: [[u8; 8]; 8] = {
    let mut masks = [[0; 8]; 8];
    let mut prime = 0;
    while prime < 8 {
        let mut cofactor = 0;
        while cofactor < 8 {
            let residue = RESIDUES[prime] * RESIDUES[cofactor] % NUMBERS_A_BYTE;
            masks[prime][cofactor] = !(1 << RESIDUE_INDEX[residue as usize]);
            cofactor += 1;
        }
        prime += 1;
    }
    masks
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count(base: &Base, start: u64, end: u64) -> u64 {
        let stop = AtomicBool::new(false);
        Desk::new(base)
            .count(base, start, end, &stop, || ())
            .unwrap()
    }

    #[test]
    fn small_limits_are_counted_to_the_last_number() {
        for (limit, primes) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (10, 4),
            (17, 7),
            (18, 7),
            (19, 8),
            (29, 10),
            (30, 10),
            (31, 11),
            (100, 25),
            (361, 72),
            (1_000, 168),
            (983_039, 77_279),
            (1_000_000, 78_498),
        ] {
            assert_eq!(count(&Base::new(limit), 0, u64::MAX), primes, "{limit}");
        }
    }

    #[test]
    fn larger_segments_count_the_same() {
        // The root of 2 * 10^9 is above the bytes of a small segment.
        let base = Base::new(2_000_000_000);
        assert_eq!(base.segment_bytes, MOST_SEGMENT_BYTES);
        assert_eq!(count(&base, 0, 10_000_001), 664_579);
        // By trial division.
        assert_eq!(count(&base, 1_999_998_990, u64::MAX), 43);
    }

    #[test]
    fn a_stop_is_obeyed_before_the_next_segment() {
        let base = Base::new(100_000_000);
        let stop = AtomicBool::new(false);
        let mut segments = 0;
        let counted = Desk::new(&base).count(&base, 0, u64::MAX, &stop, || {
            segments += 1;
            stop.store(segments == 3, Ordering::Relaxed);
        });
        assert_eq!((counted, segments), (None, 3));
    }

    proptest! {
        #[test]
        fn two_ranges_count_as_their_whole(cut in 0_u64..200_000, limit in 1_000_000_u64..6_000_000) {
            let base = Base::new(limit);
            let cut = cut * 30;
            let whole = count(&base, 0, u64::MAX);
            prop_assert_eq!(count(&base, 0, cut) + count(&base, cut, u64::MAX), whole);
            prop_assert_eq!(whole, Sieve::new(limit as usize).prime_pi(limit as usize) as u64);
        }
    }
}
