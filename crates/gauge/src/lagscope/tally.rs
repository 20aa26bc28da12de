//! What a sender keeps of its pings: exact extremes and sum in nanoseconds, and how often each
//! whole microsecond came. Its memory does not grow with the run.

use std::collections::BTreeMap;

/// Round trips, counted by whole microseconds, cut as lagscope cuts them.
#[derive(Debug, Clone)]
pub struct Tally {
    count: u64,
    least_ns: u64,
    most_ns: u64,
    sum_ns: u128,
    /// One counter for each microsecond below [`TABLE_US`].
    table: Vec<u64>,
    /// What lies above. So slow a ping is rare, or the run long.
    above: BTreeMap<u64, u64>,
    coarse: u64,
}

/// Percentiles with fewer than ten pings beyond them: the figures are those of single pings.
#[derive(Debug, Clone, PartialEq)]
pub struct TooFew {
    /// Their names, such as `99.9`.
    pub percentiles: Vec<f64>,
}

/// The rows of lagscope's percentile table.
pub const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

impl Tally {
    /// An empty one, whose memory has been touched already.
    pub fn new() -> Self {
        let mut tally = Self {
            count: 0,
            least_ns: u64::MAX,
            most_ns: 0,
            sum_ns: 0,
            table: vec![0; TABLE_US],
            above: BTreeMap::new(),
            coarse: 0,
        };
        // Fresh zero pages are mapped at the first write: let it be here and not while measuring.
        tally.table.fill(0);
        tally
    }

    /// Adds one round trip.
    #[inline]
    pub fn record(&mut self, rtt_ns: u64) {
        self.count += 1;
        self.least_ns = self.least_ns.min(rtt_ns);
        self.most_ns = self.most_ns.max(rtt_ns);
        self.sum_ns += u128::from(rtt_ns);
        let us = rtt_ns / 1_000;
        match usize::try_from(us)
            .ok()
            .and_then(|us| self.table.get_mut(us))
        {
            Some(counter) => *counter += 1,
            None => self.record_above(us),
        }
    }

    /// Pings recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The shortest, `None` without any.
    pub fn least_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least_ns)
    }

    /// The longest, `None` without any.
    pub fn most_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.most_ns)
    }

    /// The mean, `None` without any.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Each whole microsecond that came and how often, ascending.
    pub fn frequencies(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let table = self.table.iter().enumerate();
        let table = table.map(|(us, &times)| (us as u64, times));
        table
            .filter(|&(_, times)| times > 0)
            .chain(self.above.iter().map(|(&us, &times)| (us, times)))
    }

    /// The whole microseconds of this percentile, by the rank that lagscope takes, so that ten
    /// pings have all eight rows; `None` without any.
    pub fn percentile_us(&self, percentile: f64) -> Option<u64> {
        // In this order of operations, whose rounding decides on the rank.
        let rank = (percentile * (self.count + 1) as f64) / 100.0 - 1.0;
        let rank = (rank.max(0.0) as u64).min(self.count.checked_sub(1)?);
        let mut seen = 0;
        self.frequencies().find_map(|(us, times)| {
            seen += times;
            (seen > rank).then_some(us)
        })
    }

    /// The rows of the table that so few pings do not support.
    pub fn too_few(&self) -> Option<TooFew> {
        let beyond = |percentile: f64| self.count as f64 * (100.0 - percentile) / 100.0;
        // A hair's breadth for the rounding of 100 - 99.9.
        let unsupported = |&percentile: &f64| beyond(percentile) < PINGS_BEYOND - 1e-6;
        let percentiles: Vec<f64> = PERCENTILES.into_iter().filter(unsupported).collect();
        (!percentiles.is_empty()).then_some(TooFew { percentiles })
    }

    /// Pings so slow and of so many different lengths that they were counted to within one percent.
    pub fn coarse(&self) -> u64 {
        self.coarse
    }

    #[cold]
    fn record_above(&mut self, us: u64) {
        if self.above.len() < MOST_ABOVE || self.above.contains_key(&us) {
            *self.above.entry(us).or_default() += 1;
        } else {
            *self.above.entry(within_one_percent(us)).or_default() += 1;
            self.coarse += 1;
        }
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

/// Keeps the eight leading bits: at most 128 different values an octave.
fn within_one_percent(us: u64) -> u64 {
    let cut = (u64::BITS - us.leading_zeros()).saturating_sub(8);
    us >> cut << cut
}

/// A quarter of a second by microseconds: 2 MiB.
const TABLE_US: usize = 1 << 18;
/// Exact beyond the table. Each has taken a quarter of a second, so this lasts for an hour of
/// nothing else.
const MOST_ABOVE: usize = 16_384;
/// Fewer would make a percentile the story of single pings.
const PINGS_BEYOND: f64 = 10.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Tally {
        let mut tally = Tally::new();
        values.into_iter().for_each(|value| tally.record(value));
        tally
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        let tally = Tally::new();
        assert_eq!((tally.count(), tally.least_ns()), (0, None));
        assert_eq!((tally.mean_ns(), tally.most_ns()), (None, None));
        assert_eq!(tally.percentile_us(50.0), None);
        assert_eq!(tally.frequencies().count(), 0);
    }

    #[test]
    fn extremes_and_mean_are_exact_in_nanoseconds() {
        let tally = of([13_250, 15_000, 13_503]);
        assert_eq!(tally.least_ns(), Some(13_250));
        assert_eq!(tally.most_ns(), Some(15_000));
        assert_eq!(tally.mean_ns(), Some(13_917.666_666_666_666));
    }

    #[test]
    fn microseconds_are_cut_not_rounded() {
        let tally = of([13_999, 13_000, 14_000, 999]);
        let found: Vec<_> = tally.frequencies().collect();
        assert_eq!(found, [(0, 1), (13, 2), (14, 1)]);
    }

    #[test]
    fn ten_pings_have_all_eight_rows() {
        let tally = of((1..=10).map(|us| us * 1_000));
        let rows = PERCENTILES.map(|percentile| tally.percentile_us(percentile));
        assert_eq!(rows, [5, 8, 9, 10, 10, 10, 10, 10].map(Some));
    }

    #[test]
    fn one_ping_is_every_percentile() {
        let tally = of([28_133_000]);
        assert!(
            PERCENTILES
                .iter()
                .all(|&row| tally.percentile_us(row) == Some(28_133))
        );
    }

    #[test]
    fn rows_with_fewer_than_ten_pings_beyond_are_named() {
        let unsupported = |count| {
            of((0..count).map(|_| 5_000))
                .too_few()
                .map(|few| few.percentiles)
        };
        assert_eq!(unsupported(10), Some(PERCENTILES.to_vec()));
        assert_eq!(unsupported(20), Some(PERCENTILES[1..].to_vec()));
        assert_eq!(unsupported(1_000), Some(vec![99.9, 99.99, 99.999]));
        assert_eq!(unsupported(10_000), Some(vec![99.99, 99.999]));
        assert_eq!(unsupported(1_000_000), None);
    }

    #[test]
    fn slow_pings_are_exact_until_there_are_very_many() {
        let tally = of([262_143_999, 262_144_000, 9_999_999_999]);
        let found: Vec<_> = tally.frequencies().collect();
        assert_eq!(found, [(262_143, 1), (262_144, 1), (9_999_999, 1)]);
        assert_eq!(tally.coarse(), 0);
    }

    #[test]
    fn very_many_slow_pings_stay_bounded_and_within_one_percent() {
        let tally = of((0..40_000).map(|step| (300_000 + step) * 1_000));
        assert_eq!(tally.coarse(), 40_000 - 16_384);
        assert!(tally.above.len() < 16_384 + 128);
        let counted: u64 = tally.frequencies().map(|(_, times)| times).sum();
        assert_eq!(counted, 40_000);
        let found = tally.percentile_us(99.0).unwrap();
        assert!((332_000..=339_600).contains(&found), "{found}");
    }

    proptest! {
        /// Against the sorted values, by lagscope's rule for the rank.
        #[test]
        fn percentiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(1_u64..400_000_000, 1..600),
        ) {
            let tally = of(values.iter().copied());
            values.sort_unstable();
            for percentile in PERCENTILES {
                let rank = (percentile * (values.len() + 1) as f64 / 100.0 - 1.0).floor() as usize;
                prop_assert_eq!(tally.percentile_us(percentile), Some(values[rank] / 1_000));
            }
        }
    }
}
