//! Medians, the bootstrap interval of a median, and the random numbers both need.
//!
//! The generator is our own so that a seed means the same order in every version.

/// The middle of `values`, the mean of the two middle ones when their number is even.
///
/// Reorders `values`; `None` if there are none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    if even {
        let lower = below
            .iter()
            .copied()
            .max_by(f64::total_cmp)
            .expect("even, so at least two");
        return Some(lower + (upper - lower) / 2.0);
    }
    Some(upper)
}

/// Both ends of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The 95 % percentile-bootstrap interval of the median of `values`.
///
/// `None` below [`LEAST_FOR_INTERVAL`] values: with fewer, even the whole range covers the median less
/// often than it would claim.
pub fn median_interval(values: &[f64], random: &mut Random) -> Option<Interval> {
    if values.len() < LEAST_FOR_INTERVAL {
        return None;
    }
    let resamples = (MOST_DRAWS / values.len()).clamp(200, 2_000);
    let mut resample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..resamples)
        .map(|_| {
            resample.fill_with(|| values[random.below(values.len())]);
            median(&mut resample).expect("not empty")
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| medians[((medians.len() - 1) as f64 * share).round() as usize];
    Some(Interval {
        low: at(0.025),
        high: at(0.975),
    })
}

/// Fewer rounds give no interval.
pub const LEAST_FOR_INTERVAL: usize = 6;

/// Bounds the time of one interval to some tenths of a second.
const MOST_DRAWS: usize = 20_000_000;

/// Seeded random numbers: SplitMix64 (Steele, Lea and Flood 2014). Fast, tiny, and good enough for
/// orders and resamples.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The same seed gives the same numbers, always.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number from 0 to below `end`.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there is no number below 0");
        // Multiply and shift (Lemire 2019). Its bias is below 2^-40 for every length used here.
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// Puts `items` into random order, each order as likely as any other.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// SplitMix64's finaliser: every input bit moves about half of the output bits.
#[inline]
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_both_middles() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [7.0]), Some(7.0));
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&mut [9.0, 1.0, 4.0, 6.0]), Some(5.0));
    }

    #[test]
    fn five_rounds_have_no_interval_and_six_have_one() {
        let mut random = Random::seeded(1);
        assert_eq!(
            median_interval(&[1.0, 1.1, 1.2, 1.3, 1.4], &mut random),
            None
        );
        assert!(median_interval(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5], &mut random).is_some());
    }

    #[test]
    fn equal_rounds_have_an_interval_of_no_width() {
        let interval = median_interval(&[1.25; 15], &mut Random::seeded(1)).unwrap();
        assert_eq!(
            interval,
            Interval {
                low: 1.25,
                high: 1.25
            }
        );
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
        // 15 uniform values around 0.5, a thousand times: 95 % of 1000 is 950, and the percentile
        // bootstrap of a median is known to sit a little beside it.
        let mut random = Random::seeded(42);
        let mut covered = 0;
        for _ in 0..1_000 {
            let values: Vec<f64> = (0..15)
                .map(|_| random.next_u64() as f64 / u64::MAX as f64)
                .collect();
            let interval = median_interval(&values, &mut random).unwrap();
            covered += usize::from(interval.low <= 0.5 && 0.5 <= interval.high);
        }
        assert!((900..=990).contains(&covered), "{covered}");
    }

    #[test]
    fn splitmix64_gives_its_published_numbers() {
        let mut random = Random::seeded(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(random.next_u64(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn a_seed_fixes_the_order() {
        let order = |seed| {
            let mut items = [0, 1, 2, 3, 4, 5, 6, 7];
            Random::seeded(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
    }

    #[test]
    fn every_order_of_three_comes_about_equally_often() {
        let mut random = Random::seeded(9);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(
            seen.values().all(|&times| (850..1_150).contains(&times)),
            "{seen:?}"
        );
    }

    proptest! {
        #[test]
        fn the_median_agrees_with_sorting(mut values in prop::collection::vec(-1e9..1e9, 1..60)) {
            let found = median(&mut values).unwrap();
            values.sort_by(f64::total_cmp);
            let middle = values.len() / 2;
            let expected = if values.len() % 2 == 1 {
                values[middle]
            } else {
                (values[middle - 1] + values[middle]) / 2.0
            };
            prop_assert!((found - expected).abs() <= 1e-6);
        }

        #[test]
        fn the_interval_lies_within_the_values(
            values in prop::collection::vec(0.1..10.0, 6..40),
            seed: u64,
        ) {
            let interval = median_interval(&values, &mut Random::seeded(seed)).unwrap();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(least <= interval.low && interval.low <= interval.high);
            prop_assert!(interval.high <= most);
        }
    }
}
