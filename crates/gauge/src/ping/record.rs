//! What one measuring thread records: constant memory, no allocation and no lock.

use std::sync::Arc;

use super::live::Live;
use super::percentile::Point;
use super::samples::{Feed, Sample};
use super::slowest::{Slow, Slowest};
use crate::recorder::Recorder;
use crate::report::ping::{LinearHistogram, PercentileValue, Times};

/// The times of one thread.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) rtt: Sorted,
    /// In open loop, from the intended time.
    pub(crate) response: Option<Sorted>,
    pub(crate) slowest: Slowest,
    pub(crate) histogram: Option<LinearHistogram>,
    pub(crate) live: Arc<Live>,
    pub(crate) samples: Option<Feed>,
    /// Off during the warm-up.
    pub(crate) counts: bool,
}

/// One answered ping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) connection: usize,
    pub(crate) sequence: u64,
    pub(crate) intended_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
}

impl Record {
    pub(crate) fn new(open_loop: bool, live: Arc<Live>, samples: Option<Feed>) -> Self {
        Self {
            rtt: Sorted::new(),
            response: open_loop.then(Sorted::new),
            slowest: Slowest::new(),
            histogram: None,
            live,
            samples,
            counts: false,
        }
    }

    /// A ping has left.
    #[inline]
    pub(crate) fn sent(&self) {
        if self.counts {
            self.live.sent();
        }
    }

    /// A ping has come back in time.
    #[inline]
    pub(crate) fn answered(&mut self, ping: Answered) {
        if !self.counts {
            return;
        }
        let rtt_ns = ping.received_ns.saturating_sub(ping.sent_ns);
        self.rtt.record(rtt_ns);
        let (mut from_ns, mut time_ns) = (ping.sent_ns, rtt_ns);
        if let Some(response) = &mut self.response {
            (from_ns, time_ns) = (
                ping.intended_ns,
                ping.received_ns.saturating_sub(ping.intended_ns),
            );
            response.record(time_ns);
        }
        self.live.received(time_ns);
        self.slow(from_ns, &ping);
        if let Some(histogram) = &mut self.histogram {
            count(histogram, time_ns);
        }
        if let Some(samples) = &mut self.samples {
            samples.push(Sample {
                ping,
                rtt_ns,
                response_ns: self.response.is_some().then_some(time_ns),
            });
        }
    }

    /// A ping has come back too late: no figure, but a moment worth naming.
    #[cold]
    pub(crate) fn late(&mut self, ping: Answered) {
        if self.counts {
            self.slow(ping.sent_ns, &ping);
        }
    }

    #[inline]
    fn slow(&mut self, from_ns: u64, ping: &Answered) {
        self.slowest.note(Slow {
            from_ns: from_ns.min(ping.received_ns),
            to_ns: ping.received_ns,
            sequence: ping.sequence,
            connection: ping.connection,
        });
    }
}

/// Recorded times with exact counts above limits.
#[derive(Debug)]
pub struct Sorted {
    recorder: Recorder,
    over: [u64; 4],
}

impl Sorted {
    /// Nothing yet; its memory has been touched.
    #[must_use]
    pub fn new() -> Self {
        Self {
            recorder: Recorder::new(),
            over: [0; 4],
        }
    }

    /// Adds one time.
    #[inline]
    pub fn record(&mut self, time_ns: u64) {
        self.recorder.record(time_ns);
        if time_ns > OVER_NS[0] {
            self.count_slow(time_ns);
        }
    }

    /// Adds all times of another.
    pub fn merge(&mut self, other: &Self) {
        self.recorder.merge(&other.recorder);
        for (over, more) in self.over.iter_mut().zip(other.over) {
            *over += more;
        }
    }

    /// The recorder, for whoever writes it out.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Times recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.recorder.count()
    }

    /// The order statistics.
    #[must_use]
    pub fn times(&self, points: &[Point]) -> Times {
        let summary = self.recorder.summary();
        let percentiles = points.iter().map(|&point| {
            let value_ns = point
                .rank(summary.count)
                .map(|rank| self.recorder.at_rank(rank));
            PercentileValue {
                percentile: point.percent(),
                value_ns,
                reason: value_ns.is_none().then(|| {
                    format!(
                        "needs {} samples and has {}",
                        point.least_samples(),
                        summary.count
                    )
                }),
            }
        });
        Times {
            percentiles: percentiles.collect(),
            count: summary.count,
            min_ns: summary.min_ns,
            mean_ns: summary.mean_ns,
            stddev_ns: self.recorder.stddev_ns(),
            max_ns: summary.max_ns,
            over_1ms: self.over[0],
            over_5ms: self.over[1],
            over_10ms: self.over[2],
            over_20ms: self.over[3],
            hdr: None,
        }
    }

    /// The order statistics, and the whole distribution they come from.
    pub(crate) fn times_with_hdr(&self, points: &[Point]) -> Times {
        Times {
            hdr: Some(self.recorder.to_report()),
            ..self.times(points)
        }
    }

    #[cold]
    fn count_slow(&mut self, time_ns: u64) {
        for (over, limit_ns) in self.over.iter_mut().zip(OVER_NS) {
            *over += u64::from(time_ns > limit_ns);
        }
    }
}

impl Default for Sorted {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// Half of each time: an estimate of one way, were both ways alike.
    #[must_use]
    pub fn halved(&self) -> Self {
        let half = |ns: Option<u64>| ns.map(|ns| ns / 2);
        Self {
            min_ns: half(self.min_ns),
            mean_ns: self.mean_ns.map(|ns| ns / 2.0),
            stddev_ns: self.stddev_ns.map(|ns| ns / 2.0),
            max_ns: half(self.max_ns),
            percentiles: self
                .percentiles
                .iter()
                .map(|of| PercentileValue {
                    value_ns: half(of.value_ns),
                    ..of.clone()
                })
                .collect(),
            // Those are counts of round trips.
            over_1ms: 0,
            over_5ms: 0,
            over_10ms: 0,
            over_20ms: 0,
            hdr: None,
            count: self.count,
        }
    }
}

/// Counts one time in its step.
#[inline]
pub(crate) fn count(histogram: &mut LinearHistogram, time_ns: u64) {
    let Some(beyond) = time_ns.checked_sub(histogram.from_ns) else {
        histogram.below += 1;
        return;
    };
    match histogram
        .counts
        .get_mut((beyond / histogram.step_ns) as usize)
    {
        Some(step) => *step += 1,
        None => histogram.above += 1,
    }
}

const OVER_NS: [u64; 4] = [1_000_000, 5_000_000, 10_000_000, 20_000_000];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Sorted {
        let mut sorted = Sorted::new();
        times.into_iter().for_each(|time| sorted.record(time));
        sorted
    }

    #[test]
    fn a_percentile_without_enough_samples_says_why() {
        let times = of(1..=999).times(&["50".parse().unwrap(), "99".parse().unwrap()]);
        assert_eq!(times.percentiles[0].value_ns, Some(500));
        assert_eq!(times.percentiles[1].value_ns, None);
        assert_eq!(
            times.percentiles[1].reason.as_deref(),
            Some("needs 1000 samples and has 999")
        );
    }

    #[test]
    fn limits_count_what_lies_above_them() {
        let times = of([1_000_000, 1_000_001, 5_000_001, 10_000_001, 20_000_001]).times(&[]);
        let over = (
            times.over_1ms,
            times.over_5ms,
            times.over_10ms,
            times.over_20ms,
        );
        assert_eq!(over, (4, 3, 2, 1));
    }

    #[test]
    fn half_of_a_round_trip_is_half_of_every_figure() {
        let times = of([10_000; 40]).times(&["50".parse().unwrap()]).halved();
        assert_eq!((times.count, times.min_ns), (40, Some(5_000)));
        assert_eq!(times.percentiles[0].value_ns, Some(5_000));
    }

    #[test]
    fn every_time_lies_in_one_step() {
        let mut histogram = LinearHistogram {
            from_ns: 30,
            step_ns: 15,
            below: 0,
            counts: vec![0; 2],
            above: 0,
        };
        [29, 30, 44, 45, 59, 60, u64::MAX]
            .into_iter()
            .for_each(|time| count(&mut histogram, time));
        assert_eq!(
            (histogram.below, histogram.counts, histogram.above),
            (1, vec![2, 2], 2)
        );
    }

    proptest::proptest! {
        #[test]
        fn percentiles_and_merges_agree_with_the_sorted_samples(
            mut left in proptest::collection::vec(500_u64..3_000_000_000, 1..900),
            right in proptest::collection::vec(500_u64..3_000_000_000, 0..900),
            percent in 1_u64..999,
        ) {
            let mut merged = of(left.iter().copied());
            merged.merge(&of(right.iter().copied()));
            left.extend(right);
            left.sort_unstable();
            let point: Point = format!("{}.{}", percent / 10, percent % 10).parse().unwrap();
            let times = merged.times(&[point]);
            proptest::prop_assert_eq!(times.count, left.len() as u64);
            proptest::prop_assert_eq!(times.max_ns, left.last().copied());
            let beyond = left.len() as u64 * (1_000 - percent);
            match times.percentiles[0].value_ns {
                None => proptest::prop_assert!(beyond < 10_000),
                Some(found) => {
                    let rank = (left.len() * percent as usize).div_ceil(1_000).max(1);
                    let exact = left[rank - 1] as f64;
                    proptest::prop_assert!((found as f64 / exact - 1.0).abs() < 0.002);
                }
            }
        }
    }
}
