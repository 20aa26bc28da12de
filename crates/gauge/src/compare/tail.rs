//! The tails of two sides, from the merged distributions of all their runs. Percentiles are never
//! averaged: where a side has no distribution, a percentile is known of a single report alone.

use hdrhistogram::Histogram as Recorded;
use serde::Serialize;

use crate::ping::Point;
use crate::report::Histogram;

/// The times of one side of one row.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    merged: Option<Recorded<u64>>,
    /// What a report says of itself, used where it has no distribution and stands alone.
    stated: Vec<(Point, u64)>,
    mean_ns: Option<f64>,
    reports: usize,
    /// A report without a distribution makes the merged one a part of the whole.
    lacking: bool,
}

/// One report's times of one row.
#[derive(Debug, Clone, Default)]
pub(super) struct OfReport<'a> {
    pub(super) hdr: Option<&'a Histogram>,
    /// Percentiles in percent, each with its time.
    pub(super) stated: Vec<(f64, Option<u64>)>,
    pub(super) mean_ns: Option<f64>,
}

impl Times {
    pub(super) fn add(&mut self, of: &OfReport<'_>) {
        self.reports += 1;
        self.mean_ns = of.mean_ns;
        self.stated = of
            .stated
            .iter()
            .filter_map(|&(percent, ns)| Some((percent.to_string().parse().ok()?, ns?)))
            .collect();
        match (of.hdr, &mut self.merged) {
            (None, _) => self.lacking = true,
            (Some(hdr), None) => self.merged = Some(hdr.recorded().clone()),
            // A range that cannot hold it all cannot be: both record any 64 bits.
            (Some(hdr), Some(merged)) => self.lacking |= merged.add(hdr.recorded()).is_err(),
        }
    }

    /// The percentile, where at least ten samples lie beyond it; else why there is none.
    pub(super) fn percentile_ns(&self, point: Point) -> Result<f64, String> {
        match self.whole() {
            Some(merged) => match point.rank(merged.len()) {
                Some(_) => Ok(merged.value_at_quantile(point.percent() / 100.0) as f64),
                None => Err(format!(
                    "needs {} samples and has {}",
                    point.least_samples(),
                    merged.len()
                )),
            },
            None if self.reports == 1 => self
                .stated
                .iter()
                .find(|(stated, _)| *stated == point)
                .map(|&(_, ns)| ns as f64)
                .ok_or_else(|| "is not in the report, which has no whole distribution".to_owned()),
            None => Err("needs whole distributions, which not every report has".to_owned()),
        }
    }

    pub(super) fn mean_ns(&self) -> Result<f64, String> {
        match self.whole() {
            Some(merged) if !merged.is_empty() => Ok(merged.mean()),
            Some(_) => Err("has no samples".to_owned()),
            None => self
                .mean_ns
                .filter(|_| self.reports == 1)
                .ok_or_else(|| "needs whole distributions, which not every report has".to_owned()),
        }
    }

    fn whole(&self) -> Option<&Recorded<u64>> {
        self.merged.as_ref().filter(|_| !self.lacking)
    }
}

/// How the tails differ: an effect size, which says how much and not how sure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tail {
    /// Samples of A.
    pub a_count: u64,
    /// Samples of B.
    pub b_count: u64,
    /// A's 99th percentile.
    pub a_p99_ns: f64,
    /// B's, where its samples support one.
    pub b_p99_ns: Option<f64>,
    /// B's over A's.
    pub p99_ratio: Option<f64>,
    /// Share of B's samples above A's p99: 1 when nothing changed.
    pub b_beyond_a_p99_percent: f64,
}

impl Tail {
    /// `None` where A's samples support no p99, or a side has no whole distribution.
    pub(super) fn between(a: &Times, b: &Times) -> Option<Self> {
        let (of_a, of_b) = (a.whole()?, b.whole().filter(|b| !b.is_empty())?);
        let a_p99_ns = a.percentile_ns(Point::P99).ok()?;
        let b_p99_ns = b.percentile_ns(Point::P99).ok();
        let within = of_b.count_between(0, a_p99_ns as u64);
        Some(Self {
            a_count: of_a.len(),
            b_count: of_b.len(),
            a_p99_ns,
            b_p99_ns,
            p99_ratio: b_p99_ns
                .map(|b| b / a_p99_ns)
                .filter(|ratio| ratio.is_finite()),
            b_beyond_a_p99_percent: of_b.len().saturating_sub(within) as f64 * 100.0
                / of_b.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(samples: impl Iterator<Item = u64>) -> Times {
        let mut recorded = Recorded::new(3).unwrap();
        samples.for_each(|ns| recorded.record(ns).unwrap());
        let mut times = Times::default();
        times.add(&OfReport {
            hdr: Some(&Histogram::new(recorded)),
            ..OfReport::default()
        });
        times
    }

    #[test]
    fn equal_tails_have_a_hundredth_beyond_and_a_ratio_of_one() {
        let same = times(1..=10_000);
        let tail = Tail::between(&same, &same).unwrap();
        assert_eq!(tail.p99_ratio, Some(1.0));
        assert!(
            (0.9..=1.0).contains(&tail.b_beyond_a_p99_percent),
            "{tail:?}"
        );
    }

    #[test]
    fn a_tenth_that_became_slow_is_a_tenth_beyond() {
        let b = (1..=10_000).map(|ns| if ns % 10 == 0 { 50_000 } else { ns / 2 });
        let tail = Tail::between(&times(1..=10_000), &times(b)).unwrap();
        assert!(
            (tail.b_beyond_a_p99_percent - 10.0).abs() < 1e-9,
            "{tail:?}"
        );
        assert!((tail.p99_ratio.unwrap() - 5.05).abs() < 0.02, "{tail:?}");
    }

    #[test]
    fn a_percentile_that_the_samples_do_not_support_says_what_it_needs() {
        let few = times(1..=999);
        assert_eq!(
            few.percentile_ns(Point::P99),
            Err("needs 1000 samples and has 999".to_owned())
        );
        assert!(Tail::between(&few, &times(1..=10_000)).is_none());
        let tail = Tail::between(&times(1..=10_000), &few).unwrap();
        assert_eq!((tail.b_p99_ns, tail.p99_ratio), (None, None));
    }

    #[test]
    fn a_report_without_a_distribution_is_believed_alone_and_not_among_others() {
        let stated = OfReport {
            stated: vec![(50.0, Some(7)), (99.0, None)],
            mean_ns: Some(8.0),
            ..OfReport::default()
        };
        let mut times = Times::default();
        times.add(&stated);
        let median: Point = "50".parse().unwrap();
        assert_eq!(
            (times.percentile_ns(median), times.mean_ns()),
            (Ok(7.0), Ok(8.0))
        );
        assert!(times.percentile_ns(Point::P99).is_err());
        times.add(&stated);
        assert!(times.percentile_ns(median).is_err() && times.mean_ns().is_err());
    }
}
