//! What a measuring thread shows while it runs: counts and a small histogram, written by it alone and
//! read by whoever draws a live line or cuts the run into slices.
//!
//! Plain stores on memory that nobody else writes: recording costs no locked instruction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The figures of one measuring thread so far.
#[derive(Debug)]
pub(crate) struct Live {
    sent: AtomicU64,
    sum_ns: AtomicU64,
    most_ns: AtomicU64,
    bins: Box<[AtomicU32]>,
}

/// What happened within some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Pings sent.
    pub sent: u64,
    /// Replies in time.
    pub received: u64,
    /// The slowest of them; 0 if there is none.
    pub max_ns: u64,
    pub(super) sum_ns: u64,
    pub(super) bins: Box<[u64]>,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self {
            sent: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
            most_ns: AtomicU64::new(0),
            bins: (0..BINS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The measuring thread alone: one more was sent.
    #[inline]
    pub(crate) fn sent(&self) {
        add(&self.sent, 1);
    }

    /// The measuring thread alone: one came back.
    #[inline]
    pub(crate) fn received(&self, time_ns: u64) {
        let bin = &self.bins[bin_of(time_ns)];
        bin.store(
            bin.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        add(&self.sum_ns, time_ns);
        if time_ns > self.most_ns.load(Ordering::Relaxed) {
            self.most_ns.fetch_max(time_ns, Ordering::Relaxed);
        }
    }
}

/// Reads what threads show, a window at a time.
#[derive(Debug)]
pub(crate) struct Reader {
    lives: Vec<Arc<Live>>,
    sent: u64,
    sum_ns: u64,
    bins: Vec<Box<[u32]>>,
}

impl Reader {
    pub(crate) fn new(lives: Vec<Arc<Live>>) -> Self {
        let bins = lives.iter().map(|_| vec![0; BINS].into_boxed_slice());
        Self {
            bins: bins.collect(),
            lives,
            sent: 0,
            sum_ns: 0,
        }
    }

    /// What has happened since the last call.
    pub(crate) fn take(&mut self) -> Window {
        let mut window = Window::default();
        let (mut sent, mut sum_ns) = (0, 0_u64);
        for (live, before) in self.lives.iter().zip(&mut self.bins) {
            sent += live.sent.load(Ordering::Relaxed);
            sum_ns = sum_ns.wrapping_add(live.sum_ns.load(Ordering::Relaxed));
            window.max_ns = window.max_ns.max(live.most_ns.swap(0, Ordering::Relaxed));
            for (bin, (now, before)) in live.bins.iter().zip(before.iter_mut()).enumerate() {
                let now = now.load(Ordering::Relaxed);
                let more = u64::from(now.wrapping_sub(*before));
                *before = now;
                window.bins[bin] += more;
                window.received += more;
            }
        }
        window.sent = sent - self.sent;
        window.sum_ns = sum_ns.wrapping_sub(self.sum_ns);
        (self.sent, self.sum_ns) = (sent, sum_ns);
        window
    }
}

impl Default for Window {
    fn default() -> Self {
        Self {
            sent: 0,
            received: 0,
            max_ns: 0,
            sum_ns: 0,
            bins: vec![0; BINS].into_boxed_slice(),
        }
    }
}

impl Window {
    /// Adds another window's figures.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin += more;
        }
    }

    /// The mean of the replies.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.received > 0).then(|| self.sum_ns as f64 / self.received as f64)
    }

    /// The median, to within a bin, which is 3 % wide at most.
    #[must_use]
    pub fn p50_ns(&self) -> Option<u64> {
        self.at_rank(self.received.div_ceil(2))
    }

    /// The 99th percentile, if ten replies lie beyond it.
    #[must_use]
    pub fn p99_ns(&self) -> Option<u64> {
        let rank = (self.received * 99).div_ceil(100);
        (self.received >= 1_000)
            .then(|| self.at_rank(rank))
            .flatten()
    }

    /// The value of this rank, counted from 1, by straight lines within a bin.
    fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut below = 0;
        for (bin, &count) in self.bins.iter().enumerate() {
            if count > 0 && below + count >= rank {
                let (low, width) = bounds(bin);
                let share = (rank - below) as f64 - 0.5;
                let value = low + (share * width as f64 / count as f64) as u64;
                return Some(value.min(self.max_ns.max(low)));
            }
            below += count;
        }
        None
    }
}

/// The writer is alone, so that load and store lose nothing.
#[inline]
fn add(to: &AtomicU64, more: u64) {
    to.store(
        to.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

/// 32 steps an octave; everything above two minutes is one bin.
#[inline]
fn bin_of(time_ns: u64) -> usize {
    if time_ns < STEPS {
        return time_ns as usize;
    }
    let octave = 63 - time_ns.leading_zeros();
    let step = (time_ns >> (octave - STEP_BITS)) & (STEPS - 1);
    let bin = u64::from(octave - STEP_BITS + 1) * STEPS + step;
    (bin as usize).min(BINS - 1)
}

/// Where a bin begins, and how wide it is.
fn bounds(bin: usize) -> (u64, u64) {
    let (octave, step) = (bin as u64 / STEPS, bin as u64 % STEPS);
    match octave {
        0 => (step, 1),
        _ => ((STEPS + step) << (octave - 1), 1 << (octave - 1)),
    }
}

const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;
/// Up to 2^37 ns, which is 137 s.
const BINS: usize = 33 * STEPS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_bin() {
        for value in (0..2_000).chain([4_095, 4_096, 65_537, 1_000_000, 99_999_999_999]) {
            let (low, width) = bounds(bin_of(value));
            assert!((low..low + width).contains(&value), "{value}");
        }
        assert_eq!(bin_of(u64::MAX), BINS - 1);
    }

    #[test]
    fn a_window_has_what_came_since_the_last_one() {
        let live = Arc::new(Live::new());
        let mut reader = Reader::new(vec![live.clone()]);
        live.sent();
        live.received(50_000);
        let window = reader.take();
        assert_eq!(
            (window.sent, window.received, window.max_ns),
            (1, 1, 50_000)
        );
        assert_eq!(window.mean_ns(), Some(50_000.0));
        assert_eq!(reader.take(), Window::default());
        live.received(20_000);
        assert_eq!(reader.take().max_ns, 20_000);
    }

    proptest::proptest! {
        #[test]
        fn the_median_agrees_with_sorting_within_a_bin(
            mut values in proptest::collection::vec(1_000_u64..50_000_000, 30..400),
        ) {
            let live = Arc::new(Live::new());
            let mut reader = Reader::new(vec![live.clone()]);
            let (left, right) = values.split_at(values.len() / 3);
            left.iter().for_each(|&value| live.received(value));
            let mut window = reader.take();
            right.iter().for_each(|&value| live.received(value));
            window.merge(&reader.take());
            values.sort_unstable();
            let exact = values[values.len().div_ceil(2) - 1] as f64;
            let found = window.p50_ns().unwrap() as f64;
            proptest::prop_assert!((found / exact - 1.0).abs() < 0.035, "{found} for {exact}");
            proptest::prop_assert_eq!(window.max_ns, values[values.len() - 1]);
        }
    }
}
