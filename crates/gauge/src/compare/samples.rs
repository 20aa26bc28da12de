//! What one side measured of one row: boots of runs of rounds.
//!
//! The tree is kept because its leaves are not independent: rounds of a run share its endpoints and its
//! minute, runs of a boot share the state of that kernel. Whoever resamples or tests walks it from the top.

use crate::statistics::median;

/// One side of one row.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    pub(super) boots: Vec<Boot>,
}

/// One boot; reports that do not name theirs count as one.
#[derive(Debug, Clone, Default)]
pub(super) struct Boot {
    pub(super) id: Option<String>,
    /// The rounds of each run, in order of execution.
    pub(super) runs: Vec<Vec<f64>>,
}

impl Samples {
    /// Adds a run to its boot. A run without a round is none.
    pub(super) fn add(&mut self, boot_id: Option<&str>, rounds: Vec<f64>) {
        if rounds.is_empty() {
            return;
        }
        let known = self
            .boots
            .iter_mut()
            .find(|boot| boot.id.as_deref() == boot_id);
        match known {
            Some(boot) => boot.runs.push(rounds),
            None => self.boots.push(Boot {
                id: boot_id.map(str::to_owned),
                runs: vec![rounds],
            }),
        }
    }

    /// All of it, run after run.
    pub(super) fn rounds(&self) -> Vec<f64> {
        self.runs().flatten().copied().collect()
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &Vec<f64>> {
        self.boots.iter().flat_map(|boot| &boot.runs)
    }

    /// The middle of all rounds.
    pub(super) fn median(&self) -> Option<f64> {
        median(&mut self.rounds())
    }

    /// Whether a ratio can be made of every round.
    pub(super) fn is_positive(&self) -> bool {
        self.runs()
            .flatten()
            .all(|round| *round > 0.0 && round.is_finite())
    }
}

/// How the boots of two sides bear on what a difference between them can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boots {
    /// Both sides ran in one and the same.
    Same,
    /// Several a side: what changes from boot to boot is in the samples.
    Several,
    /// Different ones, and a side has only one.
    OneEach,
    /// A report does not say which it was.
    Unknown,
}

impl Boots {
    pub(super) fn of(a: &Samples, b: &Samples) -> Self {
        let mut all = a.boots.iter().chain(&b.boots);
        if all.any(|boot| boot.id.is_none()) {
            return Self::Unknown;
        }
        match (a.boots.as_slice(), b.boots.as_slice()) {
            ([a], [b]) if a.id == b.id => Self::Same,
            ([_, _, ..], [_, _, ..]) => Self::Several,
            _ => Self::OneEach,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_boots(ids: &[Option<&str>]) -> Samples {
        let mut samples = Samples::default();
        ids.iter().for_each(|id| samples.add(*id, vec![1.0]));
        samples
    }

    #[test]
    fn runs_of_a_boot_come_together_whatever_their_order() {
        let samples = in_boots(&[Some("x"), Some("y"), Some("x")]);
        let runs: Vec<usize> = samples.boots.iter().map(|boot| boot.runs.len()).collect();
        assert_eq!(runs, [2, 1]);
    }

    #[test]
    fn boots_are_the_same_several_one_each_or_unknown() {
        let of = |a: &[Option<&str>], b: &[Option<&str>]| Boots::of(&in_boots(a), &in_boots(b));
        assert_eq!(of(&[Some("x")], &[Some("x"), Some("x")]), Boots::Same);
        assert_eq!(of(&[Some("x")], &[Some("y")]), Boots::OneEach);
        assert_eq!(of(&[Some("x")], &[Some("x"), Some("y")]), Boots::OneEach);
        let two = [Some("x"), Some("y")];
        assert_eq!(of(&two, &[Some("z"), Some("w")]), Boots::Several);
        assert_eq!(of(&two, &two), Boots::Several);
        assert_eq!(of(&[None], &[None]), Boots::Unknown);
    }

    #[test]
    fn a_round_of_nothing_makes_no_ratio() {
        let mut samples = in_boots(&[Some("x")]);
        assert!(samples.is_positive());
        samples.add(Some("x"), vec![1.0, 0.0]);
        assert!(!samples.is_positive());
    }
}
