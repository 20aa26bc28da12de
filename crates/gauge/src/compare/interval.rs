//! The interval around a ratio of medians, by resampling what was measured as it hangs together: boots,
//! then runs, then stretches of neighbouring rounds.

use super::samples::Samples;
use crate::statistics::{Interval, LEAST_FOR_INTERVAL, Random, median};

/// The 95 % percentile-bootstrap interval of B's median over A's; `None` below
/// [`LEAST_FOR_INTERVAL`] rounds a side.
pub(super) fn ratio_interval(a: &Samples, b: &Samples, random: &mut Random) -> Option<Interval> {
    if a.rounds().len() < LEAST_FOR_INTERVAL || b.rounds().len() < LEAST_FOR_INTERVAL {
        return None;
    }
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| Some(resampled(b, random)? / resampled(a, random)?))
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let last = ratios.len().checked_sub(1)?;
        ratios.get((last as f64 * share).round() as usize).copied()
    };
    Some(Interval {
        low: at(0.025)?,
        high: at(0.975)?,
    })
}

/// The median of a side as it might as well have been measured.
fn resampled(side: &Samples, random: &mut Random) -> Option<f64> {
    let mut rounds = Vec::new();
    for boot in drawn(&side.boots, random) {
        for run in drawn(&boot.runs, random) {
            stretches(run, random, &mut rounds);
        }
    }
    median(&mut rounds)
}

/// As many as there are, each as likely as any other; one alone is itself.
fn drawn<'a, T>(all: &'a [T], random: &mut Random) -> Vec<&'a T> {
    (0..all.len())
        .map(|_| &all[random.below(all.len())])
        .collect()
}

/// Neighbours resemble each other, so they are drawn together; a stretch that runs over the end goes on
/// at the beginning, or the rounds there would be drawn less often.
fn stretches(run: &[f64], random: &mut Random, into: &mut Vec<f64>) {
    let stretch = (run.len() as f64).cbrt().round().max(1.0) as usize;
    let all = into.len() + run.len();
    while into.len() < all {
        let from = random.below(run.len());
        let more = stretch.min(all - into.len());
        into.extend((from..from + more).map(|at| run[at % run.len()]));
    }
}

const RESAMPLES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::samples::Boot;

    fn side(runs: &[&[f64]]) -> Samples {
        Samples {
            boots: vec![Boot {
                id: Some("boot".to_owned()),
                runs: runs.iter().map(|run| run.to_vec()).collect(),
            }],
        }
    }

    #[test]
    fn five_rounds_a_side_give_no_interval_and_six_give_one() {
        let random = &mut Random::seeded(1);
        let six = side(&[&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]]);
        assert_eq!(ratio_interval(&six, &side(&[&[1.0; 5]]), random), None);
        let interval = ratio_interval(&six, &six, random).unwrap();
        assert!(interval.low < 1.0 && 1.0 < interval.high, "{interval:?}");
    }

    #[test]
    fn runs_that_differ_make_the_interval_wide_though_their_rounds_agree() {
        let random = &mut Random::seeded(1);
        let flat = side(&[&[1.0; 10], &[1.0; 10], &[1.0; 10]]);
        let three = side(&[&[1.0; 10], &[1.5; 10], &[2.0; 10]]);
        let interval = ratio_interval(&flat, &three, random).unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 2.0));
    }

    #[test]
    fn a_stretch_is_of_neighbours_and_every_run_keeps_its_length() {
        let run: Vec<f64> = (0..27).map(f64::from).collect();
        let mut drawn = Vec::new();
        stretches(&run, &mut Random::seeded(3), &mut drawn);
        assert_eq!(drawn.len(), 27);
        for three in drawn.chunks(3) {
            assert_eq!(three[1], (three[0] + 1.0) % 27.0);
            assert_eq!(three[2], (three[1] + 1.0) % 27.0);
        }
    }
}
