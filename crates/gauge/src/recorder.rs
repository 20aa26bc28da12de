//! The recorder of round trips: constant memory, no allocation and no lock while recording.
//!
//! An HDR histogram of three digits, and beside it what a histogram would blur: exact extremes, the
//! exact sum, and exact counts above the thresholds of the table.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::report::histogram::at_rank;
use crate::report::{self, RttSummary};

/// Round trips of one side of one cell.
#[derive(Debug, Clone)]
pub struct Recorder {
    histogram: Histogram<u64>,
    least_ns: u64,
    most_ns: u64,
    sum_ns: u128,
    over: Over,
    faults: Faults,
}

/// Echoes above the thresholds of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Over {
    /// Above 5 ms.
    pub ms5: u64,
    /// Above 10 ms.
    pub ms10: u64,
    /// Above 50 ms.
    pub ms50: u64,
}

/// Echoes that gave no round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// No reply came in time.
    pub lost: u64,
    /// A reply that nobody waited for any more.
    pub stray: u64,
    /// A reply of the wrong length or with the wrong check.
    pub corrupted: u64,
}

/// A recorder as another process hands it over: each step of the histogram that has samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) least_ns: u64,
    pub(crate) most_ns: u64,
    pub(crate) sum_ns: u64,
    pub(crate) steps: Vec<(u64, u64)>,
}

impl Recorder {
    /// An empty recorder whose memory has been touched already.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("fixed bounds");
        let mut recorder = Self {
            histogram,
            least_ns: u64::MAX,
            most_ns: 0,
            sum_ns: 0,
            over: Over::default(),
            faults: Faults::default(),
        };
        // Fresh zero pages are mapped at the first write: let it be here and not while recording.
        recorder.clear();
        recorder
    }

    /// Adds one round trip. Above an hour it is counted as an hour in the percentiles, exactly in
    /// the maximum.
    #[inline]
    pub fn record(&mut self, rtt_ns: u64) {
        self.histogram.saturating_record(rtt_ns);
        self.least_ns = self.least_ns.min(rtt_ns);
        self.most_ns = self.most_ns.max(rtt_ns);
        self.sum_ns += u128::from(rtt_ns);
        if rtt_ns > 5_000_000 {
            self.count_slow(rtt_ns);
        }
    }

    /// What gave no round trip, to be counted by the one who noticed.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// What gave no round trip.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Round trips recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Echoes above the thresholds.
    pub fn over(&self) -> Over {
        self.over
    }

    /// Adds everything that `other` has recorded.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("the bounds are the same");
        self.least_ns = self.least_ns.min(other.least_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
        self.sum_ns += other.sum_ns;
        self.over.ms5 += other.over.ms5;
        self.over.ms10 += other.over.ms10;
        self.over.ms50 += other.over.ms50;
        self.faults.lost += other.faults.lost;
        self.faults.stray += other.faults.stray;
        self.faults.corrupted += other.faults.corrupted;
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.least_ns = u64::MAX;
        self.most_ns = 0;
        self.sum_ns = 0;
        self.over = Over::default();
        self.faults = Faults::default();
    }

    /// Everything but the faults, for another process.
    pub(crate) fn recorded(&self) -> Recorded {
        let steps = self.histogram.iter_recorded();
        Recorded {
            least_ns: self.least_ns,
            most_ns: self.most_ns,
            sum_ns: u64::try_from(self.sum_ns).unwrap_or(u64::MAX),
            steps: steps
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }

    /// Adds what another process has recorded.
    pub(crate) fn add(&mut self, other: &Recorded) {
        for &(value_ns, count) in &other.steps {
            self.histogram.saturating_record_n(value_ns, count);
        }
        self.least_ns = self.least_ns.min(other.least_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
        self.sum_ns += u128::from(other.sum_ns);
    }

    /// The value that one sample in `one_in` lies beyond, if at least ten do.
    pub(crate) fn beyond(&self, one_in: u64) -> Option<u64> {
        let beyond = self.count() / one_in;
        (u128::from(beyond) >= SAMPLES_BEYOND).then(|| self.at_rank(self.count() - beyond))
    }

    /// The median, however few the samples: the figure of one short round.
    pub fn round_median_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.at_rank(self.count().div_ceil(2)))
    }

    /// The order statistics that the samples support: a percentile needs ten samples beyond it.
    pub fn summary(&self) -> RttSummary {
        let any = self.count() > 0;
        RttSummary {
            count: self.count(),
            min_ns: any.then_some(self.least_ns),
            mean_ns: any.then(|| self.sum_ns as f64 / self.count() as f64),
            p50_ns: self.per_mille(500),
            p95_ns: self.per_mille(950),
            p99_ns: self.per_mille(990),
            p999_ns: self.per_mille(999),
            max_ns: any.then_some(self.most_ns),
            lost: self.faults.lost,
            stray: self.faults.stray,
            corrupted: self.faults.corrupted,
            hdr: None,
        }
    }

    /// The order statistics, and the whole distribution they come from.
    pub(crate) fn summary_with_hdr(&self) -> RttSummary {
        RttSummary {
            hdr: Some(self.to_report()),
            ..self.summary()
        }
    }

    /// The whole distribution.
    pub(crate) fn to_report(&self) -> report::Histogram {
        report::Histogram::new(self.histogram.clone())
    }

    fn per_mille(&self, share: u64) -> Option<u64> {
        let count = u128::from(self.count());
        let beyond = count * u128::from(1_000 - share);
        if beyond < SAMPLES_BEYOND * 1_000 {
            return None;
        }
        let rank = (count * u128::from(share)).div_ceil(1_000);
        Some(self.at_rank(u64::try_from(rank).expect("at most the count")))
    }

    /// The standard deviation, within a digit of the histogram.
    pub(crate) fn stddev_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.histogram.stdev())
    }

    /// The sample of this rank, counted from 1, within a digit of the histogram.
    pub(crate) fn at_rank(&self, rank: u64) -> u64 {
        at_rank(&self.histogram, rank, self.least_ns, self.most_ns)
    }

    #[cold]
    fn count_slow(&mut self, rtt_ns: u64) {
        self.over.ms5 += 1;
        self.over.ms10 += u64::from(rtt_ns > 10_000_000);
        self.over.ms50 += u64::from(rtt_ns > 50_000_000);
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

/// An hour; no wait in the gauge is longer.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Steps of at most 0.1 %, below the spread of any round here.
const DIGITS: u8 = 3;
/// Fewer would make a percentile the story of single events.
const SAMPLES_BEYOND: u128 = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::new();
        values.into_iter().for_each(|value| recorder.record(value));
        recorder
    }

    #[test]
    fn nothing_recorded_is_nothing_known() {
        let summary = Recorder::new().summary();
        assert_eq!(summary.count, 0);
        assert_eq!(
            (summary.min_ns, summary.mean_ns, summary.max_ns),
            (None, None, None)
        );
        assert_eq!(summary.p50_ns, None);
        assert_eq!(Recorder::new().round_median_ns(), None);
    }

    #[test]
    fn extremes_and_mean_are_exact() {
        let summary = of([1_000_003, 7, 33]).summary();
        assert_eq!(summary.min_ns, Some(7));
        assert_eq!(summary.max_ns, Some(1_000_003));
        assert_eq!(summary.mean_ns, Some(1_000_043.0 / 3.0));
    }

    #[test]
    fn a_percentile_appears_with_ten_samples_beyond_it() {
        assert_eq!(of(1..=19).summary().p50_ns, None);
        assert_eq!(of(1..=20).summary().p50_ns, Some(10));
        assert_eq!(of(1..=199).summary().p95_ns, None);
        assert_eq!(of(1..=200).summary().p95_ns, Some(190));
        assert_eq!(of(1..=999).summary().p99_ns, None);
        assert_eq!(of(1..=1_000).summary().p99_ns, Some(990));
        assert_eq!(of((0..9_999).map(|_| 5)).summary().p999_ns, None);
        assert_eq!(of((0..10_000).map(|_| 5)).summary().p999_ns, Some(5));
    }

    #[test]
    fn thresholds_count_what_lies_above_them() {
        let over = of([5_000_000, 5_000_001, 10_000_001, 50_000_001]).over();
        assert_eq!(
            over,
            Over {
                ms5: 3,
                ms10: 2,
                ms50: 1
            }
        );
    }

    #[test]
    fn merging_is_recording_both() {
        let mut left = of(1..=500);
        left.faults_mut().lost = 1;
        let mut right = of(501..=1_000);
        right.faults_mut().stray = 2;
        left.merge(&right);
        let whole = left.summary();
        assert_eq!(
            (whole.count, whole.p99_ns, whole.lost, whole.stray),
            (1_000, Some(990), 1, 2)
        );
    }

    #[test]
    fn what_another_process_recorded_adds_up_to_the_same() {
        let (left, right) = (of(1_000..=41_000), of([7, 90_000_000]));
        let mut merged = left.clone();
        merged.merge(&right);
        let mut added = Recorder::new();
        added.add(&left.recorded());
        added.add(&right.recorded());
        let of = |recorder: &Recorder| {
            let summary = recorder.summary();
            (
                summary.count,
                summary.min_ns,
                summary.mean_ns,
                summary.p999_ns,
                summary.max_ns,
            )
        };
        assert_eq!(of(&added), of(&merged));
        assert_eq!(added.beyond(1_000), merged.beyond(1_000));
        assert_eq!(added.beyond(10_000), None);
    }

    #[test]
    fn clearing_forgets_everything() {
        let mut recorder = of([60_000_000; 30]);
        recorder.faults_mut().corrupted = 1;
        recorder.clear();
        assert_eq!(recorder.summary().max_ns, None);
        assert_eq!(recorder.over(), Over::default());
        assert_eq!(recorder.faults(), Faults::default());
    }

    #[test]
    fn more_than_an_hour_stays_exact_in_the_maximum() {
        assert_eq!(of([u64::MAX / 2]).summary().max_ns, Some(u64::MAX / 2));
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_sorting_within_a_digit(
            mut values in prop::collection::vec(1_000_u64..100_000_000, 1_000..1_500),
        ) {
            let summary = of(values.iter().copied()).summary();
            values.sort_unstable();
            for (share, found) in [(500, summary.p50_ns), (950, summary.p95_ns), (990, summary.p99_ns)] {
                let exact = values[(values.len() * share).div_ceil(1_000) - 1] as f64;
                let found = found.unwrap() as f64;
                prop_assert!((found / exact - 1.0).abs() < 0.001, "{share}: {found} for {exact}");
            }
        }
    }
}
