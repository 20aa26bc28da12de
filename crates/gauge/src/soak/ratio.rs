//! Loaded over idle within one run, with intervals.
//!
//! A slice is one second of one sender. Nothing here says that one kernel is better than another: that
//! takes several boots of each.

use crate::report::soak::{Ratio, Slice};
use crate::statistics::{LEAST_FOR_INTERVAL, Random, median};

/// Each figure's ratio: of means, of medians, of 99th percentiles.
pub(super) fn ratios(idle: &[Slice], loaded: &[Slice]) -> Vec<Ratio> {
    const FIGURES: [(&str, fn(&Slice) -> Option<f64>); 3] = [
        ("mean", |slice| Some(slice.mean_ns)),
        ("p50", |slice| Some(slice.p50_ns as f64)),
        ("p99", |slice| slice.p99_ns.map(|ns| ns as f64)),
    ];
    FIGURES
        .iter()
        .filter_map(|(name, of)| {
            let idle: Vec<f64> = idle.iter().filter_map(of).collect();
            let loaded: Vec<f64> = loaded.iter().filter_map(of).collect();
            ratio(name, &idle, &loaded)
        })
        .collect()
}

/// The median of the one side over the median of the other, and the percentile bootstrap of both.
fn ratio(figure: &str, idle: &[f64], loaded: &[f64]) -> Option<Ratio> {
    let of = |idle: &[f64], loaded: &[f64]| {
        let below = median(&mut idle.to_vec())?;
        Some(median(&mut loaded.to_vec())? / below).filter(|ratio| ratio.is_finite())
    };
    let enough = idle.len() >= LEAST_FOR_INTERVAL && loaded.len() >= LEAST_FOR_INTERVAL;
    let mut random = Random::seeded((idle.len() as u64) << 32 | loaded.len() as u64);
    let mut resampled = |of: &[f64]| {
        (0..of.len())
            .map(|_| of[random.below(of.len())])
            .collect::<Vec<_>>()
    };
    let mut ratios: Vec<f64> = (0..if enough { RESAMPLES } else { 0 })
        .filter_map(|_| of(&resampled(idle), &resampled(loaded)))
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        ratios
            .get((ratios.len().saturating_sub(1) as f64 * share).round() as usize)
            .copied()
    };
    Some(Ratio {
        figure: figure.to_owned(),
        ratio: of(idle, loaded)?,
        ratio_low: at(0.025),
        ratio_high: at(0.975),
        idle_slices: idle.len(),
        loaded_slices: loaded.len(),
    })
}

const RESAMPLES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(means: &[f64]) -> Vec<Slice> {
        let slice = |&mean_ns: &f64| Slice {
            mean_ns,
            p50_ns: mean_ns as u64,
            p99_ns: None,
        };
        means.iter().map(slice).collect()
    }

    #[test]
    fn a_ratio_is_of_medians_and_its_interval_holds_it() {
        let idle = slices(&[10.0, 11.0, 10.0, 9.0, 10.0, 50.0]);
        let loaded = slices(&[20.0, 21.0, 19.0, 20.0, 20.0, 20.0, 22.0]);
        let found = ratios(&idle, &loaded);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].figure.as_str(), found[0].ratio), ("mean", 2.0));
        assert!(found[0].ratio_low <= Some(2.0) && found[0].ratio_high >= Some(2.0));
        assert_eq!((found[0].idle_slices, found[0].loaded_slices), (6, 7));
    }

    #[test]
    fn a_side_with_five_slices_gives_no_interval_and_one_with_none_no_ratio() {
        let idle = slices(&[10.0; 5]);
        let loaded = slices(&[30.0; 9]);
        let found = ratios(&idle, &loaded);
        assert_eq!((found[0].ratio, found[0].ratio_low), (3.0, None));
        assert_eq!(ratios(&[], &loaded), []);
    }
}
