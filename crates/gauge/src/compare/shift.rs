//! The test behind a verdict: did B's rounds move against A's?
//!
//! Times scatter by factors, so it works on logarithms, and a shift is a ratio. Of each run it takes the
//! 20 % trimmed mean with its winsorised variance (Yuen 1974): a tenth of the rounds hit by something
//! else is usual, and a mean would follow them. Rounds of a run resemble their neighbours; the variance
//! is inflated by what the first autocorrelation says, pooled over the runs of both sides because 15
//! rounds alone say it badly, and corrected for its bias in short runs.
//!
//! With several runs (or boots) the units are these, and the variance is what they show among each
//! other, never less than what their rounds leave open; the degrees of freedom are the units'. To each
//! run [`RUN_TO_RUN`] is added: fresh endpoints alone move a figure, and one run a side cannot show it.
//! The difference is referred to Student's distribution with Welch's degrees of freedom.
//!
//! Rejected: a permutation of rounds takes neighbours for strangers, and of blocks of neighbours there
//! are too few in 15 rounds to survive Holm's correction; a bootstrap of 15 rounds is too narrow in the
//! tails that the correction asks for. `simulation` holds the level and the power of what is here.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::samples::Samples;

/// What a side is known to be, in logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    middle: f64,
    /// What the samples leave open.
    variance: f64,
    freedom: f64,
    /// What one knows without samples: [`RUN_TO_RUN`].
    floor: f64,
    /// Values it was made of.
    many: usize,
}

/// How far B lies above A in logarithms, and how often chance alone would show as much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    pub(super) log_ratio: f64,
    pub(super) p: f64,
}

impl Shift {
    /// `None` where a side has a single round: then nothing says how much it scatters.
    pub(super) fn between(a: &Samples, b: &Samples) -> Option<Self> {
        let alike = alike(a.runs().chain(b.runs()));
        let (a, b) = (Estimate::of(a, alike)?, Estimate::of(b, alike)?);
        let log_ratio = b.middle - a.middle;
        let variance = a.variance + a.floor + b.variance + b.floor;
        let open = a.variance.powi(2) / a.freedom + b.variance.powi(2) / b.freedom;
        // Where nothing scatters, only the floor is left, and that is known.
        let freedom = (variance.powi(2) / open).min(MOST_FREEDOM);
        let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
        Some(Self {
            log_ratio,
            p: (2.0 * student.cdf(-log_ratio.abs() / variance.sqrt())).min(1.0),
        })
    }
}

impl Estimate {
    fn of(samples: &Samples, alike: f64) -> Option<Self> {
        let boots = samples.boots.iter();
        let whole = Self::of_units(boots.filter_map(|boot| {
            let runs = boot.runs.iter();
            Self::of_units(runs.filter_map(|rounds| Self::of_rounds(rounds, alike)))
        }))?;
        (whole.freedom > 0.0).then_some(whole)
    }

    /// One run.
    fn of_rounds(rounds: &[f64], alike: f64) -> Option<Self> {
        let rounds = Self::of_values(&logarithms(rounds))?;
        Some(Self {
            variance: rounds.variance * inflation(alike, rounds.many),
            floor: RUN_TO_RUN.powi(2),
            ..rounds
        })
    }

    /// Of units that may each be known more or less well; one alone is what it is.
    fn of_units(units: impl Iterator<Item = Self>) -> Option<Self> {
        let units: Vec<Self> = units.collect();
        if let [only] = units[..] {
            return Some(only);
        }
        // Units were started one by one: their neighbourhood says nothing.
        let middles: Vec<f64> = units.iter().map(|unit| unit.middle).collect();
        let among = Self::of_values(&middles)?;
        let many = units.len() as f64;
        let within = units.iter().map(|unit| unit.variance).sum::<f64>() / many.powi(2);
        let floor = units.iter().map(|unit| unit.floor).sum::<f64>() / many.powi(2);
        Some(Self {
            variance: among.variance.max(within),
            floor,
            ..among
        })
    }

    /// The trimmed mean. One value has no freedom: nothing says how it scatters.
    fn of_values(values: &[f64]) -> Option<Self> {
        let trimmed = Trimmed::of(values)?;
        let kept = trimmed.kept as f64;
        let variance = trimmed.squares() / (kept * (kept - 1.0));
        Some(Self {
            middle: trimmed.mean,
            variance: if values.len() > 1 { variance } else { 0.0 },
            freedom: kept - 1.0,
            floor: 0.0,
            many: values.len(),
        })
    }
}

/// Values without the outer fifths: a mean of those within, and all of them drawn in to their borders.
#[derive(Debug)]
struct Trimmed {
    mean: f64,
    kept: usize,
    drawn_in: Vec<f64>,
}

impl Trimmed {
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let cut = sorted.len() / 5;
        let kept = &sorted[cut..sorted.len() - cut];
        let (&low, &high) = (kept.first()?, kept.last()?);
        Some(Self {
            mean: kept.iter().sum::<f64>() / kept.len() as f64,
            kept: kept.len(),
            drawn_in: values.iter().map(|value| value.clamp(low, high)).collect(),
        })
    }

    /// What each value drawn in lies beside their mean.
    fn deviations(&self) -> Vec<f64> {
        let mean = self.drawn_in.iter().sum::<f64>() / self.drawn_in.len() as f64;
        self.drawn_in.iter().map(|value| value - mean).collect()
    }

    fn squares(&self) -> f64 {
        self.deviations().iter().map(|apart| apart * apart).sum()
    }
}

/// The first autocorrelation of rounds, over all runs of both sides: one run of 15 says little about it.
///
/// Runs below [`super::LEAST_ROUNDS`] say nothing.
fn alike<'a>(runs: impl Iterator<Item = &'a Vec<f64>>) -> f64 {
    let of_run = |rounds: &Vec<f64>| {
        let deviations = Trimmed::of(&logarithms(rounds))?.deviations();
        let squares: f64 = deviations.iter().map(|apart| apart * apart).sum();
        let neighbours: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let seen = neighbours / squares;
        // Marriott and Pope 1954: in short series it is seen too low.
        (squares > 0.0).then(|| seen + (1.0 + 3.0 * seen) / rounds.len() as f64)
    };
    let seen: Vec<f64> = runs
        .filter(|rounds| rounds.len() >= super::LEAST_ROUNDS)
        .filter_map(of_run)
        .collect();
    (seen.iter().sum::<f64>() / seen.len().max(1) as f64).clamp(0.0, MOST_ALIKE)
}

/// How much more the mean of so many values scatters because neighbours resemble each other: that of an
/// autoregression of the first order.
fn inflation(alike: f64, many: usize) -> f64 {
    let many = many as f64;
    let ends = 2.0 * alike * (1.0 - alike.powf(many)) / (many * (1.0 - alike).powi(2));
    (1.0 + alike) / (1.0 - alike) - ends
}

fn logarithms(rounds: &[f64]) -> Vec<f64> {
    rounds.iter().map(|round| round.ln()).collect()
}

/// Standard deviation, as a share, of what fresh endpoints alone do to a run.
const RUN_TO_RUN: f64 = 0.0125;
/// Above it a run is a trend, and its rounds say next to nothing about their scatter.
const MOST_ALIKE: f64 = 0.6;
/// Student's distribution is the normal one long before.
const MOST_FREEDOM: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    fn one_run(rounds: &[f64]) -> Samples {
        let mut samples = Samples::default();
        samples.add(Some("boot"), rounds.to_vec());
        samples
    }

    fn wobbling(around: f64) -> Vec<f64> {
        [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, -1.5, 0.0]
            .map(|percent| around * (1.0 + percent / 100.0))
            .to_vec()
    }

    #[test]
    fn a_shift_is_the_logarithm_of_the_ratio() {
        let shift = Shift::between(&one_run(&wobbling(100.0)), &one_run(&wobbling(120.0))).unwrap();
        assert!((shift.log_ratio - 1.2_f64.ln()).abs() < 1e-9, "{shift:?}");
        assert!(shift.p < 1e-4, "{shift:?}");
        let back = Shift::between(&one_run(&wobbling(120.0)), &one_run(&wobbling(100.0))).unwrap();
        assert!((shift.p - back.p).abs() < 1e-12 && back.log_ratio < 0.0);
    }

    #[test]
    fn rounds_without_any_scatter_are_still_judged_against_the_difference_between_runs() {
        let half_a_percent =
            Shift::between(&one_run(&[100.0; 15]), &one_run(&[100.5; 15])).unwrap();
        assert!(half_a_percent.p > 0.5, "{half_a_percent:?}");
        // 10 % is 5.4 standard deviations of the difference of two runs.
        let ten_percent = Shift::between(&one_run(&[100.0; 15]), &one_run(&[110.0; 15])).unwrap();
        assert!(ten_percent.p < 1e-6, "{ten_percent:?}");
    }

    #[test]
    fn a_fifth_of_the_rounds_may_be_hit_without_moving_a_shift() {
        let mut hit = wobbling(100.0);
        (hit[2], hit[7]) = (900.0, 400.0);
        let shift = Shift::between(&one_run(&wobbling(100.0)), &one_run(&hit)).unwrap();
        assert!(shift.log_ratio.abs() < 0.01, "{shift:?}");
    }

    #[test]
    fn neighbours_that_resemble_each_other_make_a_mean_scatter_more() {
        let mut trend = wobbling(100.0);
        trend.sort_by(f64::total_cmp);
        assert_eq!(alike([&trend].into_iter()), MOST_ALIKE);
        assert_eq!(alike([&wobbling(100.0)].into_iter()), 0.0);
        assert!(alike([&trend, &wobbling(100.0)].into_iter()) < 0.1);
        assert_eq!(inflation(0.0, 10), 1.0);
        assert!((inflation(0.6, 10) - 3.2545).abs() < 1e-3);
    }

    #[test]
    fn runs_that_differ_among_each_other_count_as_three_and_not_as_their_rounds() {
        let side = |levels: [f64; 3]| {
            let mut samples = Samples::default();
            for level in levels {
                samples.add(Some("boot"), wobbling(level));
            }
            samples
        };
        let a = side([100.0, 110.0, 120.0]);
        let b = side([110.0, 120.0, 130.0]);
        assert!(Shift::between(&a, &b).unwrap().p > 0.2);
    }

    #[test]
    fn a_single_round_has_no_scatter_to_judge_by() {
        assert_eq!(
            Shift::between(&one_run(&[1.0]), &one_run(&wobbling(1.0))),
            None
        );
        assert_eq!(
            Shift::between(&one_run(&wobbling(1.0)), &Samples::default()),
            None
        );
    }
}
