//! A whole distribution as two plots: the percentile curve to the tail that its samples support, and the
//! histogram on a log axis.

use super::{Axis, Look, Place, Plot, Scale, Series, Shape, Unit};
use crate::report::Histogram;

/// One distribution, with the extremes that the report has to the nanosecond.
#[derive(Debug)]
pub(super) struct Recorded<'a> {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) hdr: Option<&'a Histogram>,
    pub(super) min_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
}

/// Both plots of distributions that are compared.
pub(super) fn places(what: &str, sides: &[Recorded<'_>], source: &str) -> [Place; 2] {
    let series = |shape, points: fn(&Recorded<'_>) -> Vec<(f64, f64)>| {
        let each = sides.iter().map(|side| Series {
            name: side.name.clone(),
            look: side.look,
            shape,
            points: points(side),
        });
        each.collect()
    };
    let curve = Plot {
        title: format!("Percentiles: {what}"),
        caption: "How slow the slowest share is: the further right, the rarer. A curve ends where \
                  fewer than ten samples lie beyond it."
            .to_owned(),
        source: source.to_owned(),
        x: Axis {
            name: "percentile",
            scale: Scale::Log,
            unit: Unit::Tail,
        },
        y: Axis::time("time"),
        series: series(Shape::Line, curve),
    };
    let histogram = Plot {
        title: format!("Histogram: {what}"),
        caption: "How often each time came, both axes logarithmic: the highest point is the usual \
                  time, islands on the right are what disturbs it."
            .to_owned(),
        source: source.to_owned(),
        x: Axis::time("time"),
        y: Axis {
            name: "samples",
            scale: Scale::Log,
            unit: Unit::Plain,
        },
        series: series(Shape::Steps, bins),
    };
    [curve, histogram].map(|plot| plot.or_absent("the report keeps no distribution of it"))
}

/// (1 / (1 - q), time): the percentiles of the tables, and enough between them for a smooth line.
fn curve(side: &Recorded<'_>) -> Vec<(f64, f64)> {
    let Some(hdr) = side.hdr.filter(|hdr| hdr.count() >= LEAST_BEYOND) else {
        return Vec::new();
    };
    let count = hdr.count();
    let end = count as f64 / LEAST_BEYOND as f64;
    let decades = end.log10();
    let steps = (decades * STEPS_A_DECADE).floor() as u64;
    let mut tails: Vec<f64> = (0..=steps)
        .map(|step| 10f64.powf(step as f64 / STEPS_A_DECADE))
        .collect();
    tails.extend(TABLED.into_iter().filter(|&tail| tail <= end));
    tails.push(end);
    tails.sort_by(f64::total_cmp);
    tails.dedup_by(|one, two| (*one - *two).abs() < *two * 1e-9);
    let value = |tail: f64| {
        if let Some(min_ns) = side.min_ns.filter(|_| tail <= 1.0) {
            return min_ns;
        }
        // As the tables have it: the rank below which the share lies, rounded up.
        let beyond = (count as f64 / tail + ROUNDING).floor() as u64;
        let rank = (count - beyond).max(1);
        let quantile = (rank as f64 - 0.5) / count as f64;
        let found = hdr.recorded().value_at_quantile(quantile);
        // The histogram's steps are a thousandth wide: the extremes are known better.
        found
            .max(side.min_ns.unwrap_or(0))
            .min(side.max_ns.unwrap_or(u64::MAX))
    };
    tails
        .into_iter()
        .map(|tail| (tail, value(tail) as f64))
        .collect()
}

/// (lower edge, samples) of bins of equal width on a log axis, without a gap, and the last edge with 0.
fn bins(side: &Recorded<'_>) -> Vec<(f64, f64)> {
    let Some(hdr) = side.hdr else {
        return Vec::new();
    };
    let bin = |ns: u64| ((ns.max(1) as f64).log10() * BINS_A_DECADE).floor() as i32;
    let edge = |bin: i32| 10f64.powf(f64::from(bin) / BINS_A_DECADE);
    let mut found: Vec<(i32, u64)> = Vec::new();
    for recorded in hdr.recorded().iter_recorded() {
        let bin = bin(recorded.value_iterated_to());
        match found.last_mut() {
            Some((last, count)) if *last == bin => *count += recorded.count_at_value(),
            _ => found.push((bin, recorded.count_at_value())),
        }
    }
    let mut points = Vec::new();
    for (index, &(bin, count)) in found.iter().enumerate() {
        points.push((edge(bin), count as f64));
        let next = found.get(index + 1);
        if next.is_none_or(|&(next, _)| next > bin + 1) {
            points.push((edge(bin + 1), 0.0));
        }
    }
    points
}

/// A percentile is shown when so many samples lie beyond it.
const LEAST_BEYOND: u64 = 10;
/// p50, p75, p90, p95, p99 and further nines.
const TABLED: [f64; 9] = [2.0, 4.0, 10.0, 20.0, 1e2, 1e3, 1e4, 1e5, 1e6];
const STEPS_A_DECADE: f64 = 24.0;
/// 12 % wide: peaks stand apart, and a hundred samples still have a shape.
const BINS_A_DECADE: f64 = 20.0;
/// 30000 / 1000 is 30, whatever the division makes of it.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl Iterator<Item = u64>) -> Histogram {
        let mut recorded = hdrhistogram::Histogram::new(3).unwrap();
        values.for_each(|ns| recorded.record(ns).unwrap());
        Histogram::new(recorded)
    }

    fn recorded(hdr: &Histogram) -> Recorded<'_> {
        Recorded {
            name: "rtt".to_owned(),
            look: Look::Control,
            hdr: Some(hdr),
            min_ns: Some(1),
            max_ns: Some(1_000),
        }
    }

    #[test]
    fn a_curve_ends_where_ten_samples_lie_beyond_it() {
        let hdr = histogram(1..=1_000);
        let curve = curve(&recorded(&hdr));
        assert_eq!(curve.first(), Some(&(1.0, 1.0)));
        assert_eq!(curve.last(), Some(&(100.0, 990.0)));
        assert!(curve.contains(&(2.0, 500.0)), "{curve:?}");
        assert!(curve.contains(&(20.0, 950.0)), "{curve:?}");
        assert!(curve.windows(2).all(|two| two[0].1 <= two[1].1));
    }

    #[test]
    fn nine_samples_have_no_curve_and_a_histogram() {
        let hdr = histogram(1..=9);
        assert_eq!(curve(&recorded(&hdr)), []);
        assert!(!bins(&recorded(&hdr)).is_empty());
    }

    #[test]
    fn every_sample_is_in_one_bin_and_a_gap_is_empty() {
        let hdr = histogram((1_000..1_100).chain([1_000_000]));
        let bins = bins(&recorded(&hdr));
        let total: f64 = bins.iter().map(|&(_, count)| count).sum();
        assert_eq!(total, 101.0);
        assert_eq!(bins.len(), 4, "{bins:?}");
        assert_eq!(
            (bins[0].1, bins[1].1, bins[2].1, bins[3].1),
            (100.0, 0.0, 1.0, 0.0)
        );
        assert!((bins[2].0 - 1_000_000.0).abs() < 1.0, "{bins:?}");
    }
}
