//! How many echoes each block has: the plan's counts, or as many as a time budget allows.

use std::time::Duration;

use super::exchange::{Done, Order};
use crate::plan::{Driver, LatencyPlan};

/// The pace of one run.
#[derive(Debug)]
pub(super) struct Pace {
    rounds: u64,
    iterations: u64,
    warmup: u64,
    deadline_ns: Option<u64>,
    sides: Vec<SidePace>,
}

#[derive(Debug)]
struct SidePace {
    weight: u64,
    /// The mean of the latest block.
    echo_ns: u64,
    /// Timed echoes so far.
    timed: u64,
}

impl Pace {
    /// The pace of a run that begins now and may take `slice`; without one the counts decide alone.
    /// Side 0 is the control, the others are the plan's drivers.
    pub(super) fn new(plan: &LatencyPlan, slice: Option<Duration>, now_ns: u64) -> Self {
        let others = plan.drivers.len().max(1) as u64;
        // `handoff` fills the widest table, whose p99.9 needs the most samples: it gets half.
        let weight = |driver| if driver == Driver::Handoff { others } else { 1 };
        let weights = [1]
            .into_iter()
            .chain(plan.drivers.iter().map(|&driver| weight(driver)));
        Self {
            rounds: plan.rounds as u64,
            iterations: plan.iterations,
            warmup: plan.warmup,
            deadline_ns: slice.map(|slice| now_ns.saturating_add(nanoseconds(slice))),
            sides: weights
                .map(|weight| SidePace {
                    weight,
                    echo_ns: 0,
                    timed: 0,
                })
                .collect(),
        }
    }

    /// The warm-up before the first round; with a budget at most a twentieth of the rest of it.
    pub(super) fn first_warmup(&self, now_ns: u64) -> Order {
        let share = self
            .left_ns(now_ns)
            .map(|left| left / (20 * self.sides.len() as u64));
        Order {
            echoes: self.warmup,
            until_ns: share.map_or(u64::MAX, |share| now_ns.saturating_add(share)),
            whole: false,
        }
    }

    /// The warm-up before a block of a later round: a tenth of the first, and with a budget at most a
    /// tenth of the block.
    pub(super) fn later_warmup(&self, block: Order) -> Order {
        let tenth = self.warmup / 10;
        let echoes = if self.deadline_ns.is_some() {
            tenth.min(block.echoes / 10)
        } else {
            tenth
        };
        Order { echoes, ..block }
    }

    /// The timed block of `side` in `round`, both counted from 0.
    pub(super) fn block(&self, side: usize, round: u64, now_ns: u64) -> Order {
        // What a budget cut from earlier rounds is made up for here, as far as there is time.
        let missing = self.iterations.saturating_sub(self.sides[side].timed);
        let planned = missing.div_ceil(self.rounds - round);
        let Some(left_ns) = self.left_ns(now_ns) else {
            return Order {
                echoes: planned,
                until_ns: u64::MAX,
                whole: false,
            };
        };
        let weights: u64 = self.sides.iter().map(|side| side.weight).sum();
        let round_ns = left_ns / (self.rounds - round);
        let block_ns = round_ns * self.sides[side].weight / weights;
        // A tenth is left for the warm-up.
        let affordable = block_ns / 10 * 9 / self.sides[side].echo_ns.max(1);
        Order {
            echoes: affordable.clamp(LEAST_ECHOES.min(planned), planned),
            // Twice, because the machine may change its mind between calibration and block.
            until_ns: now_ns.saturating_add(2 * block_ns.max(LEAST_BLOCK_NS)),
            whole: false,
        }
    }

    /// Takes note of a warm-up of `side`: how long its echoes take now.
    pub(super) fn warmed_up(&mut self, side: usize, done: Done) {
        if let Some(mean) = done.elapsed_ns.checked_div(done.echoes) {
            self.sides[side].echo_ns = mean;
        }
    }

    /// Takes note of a timed block of `side`.
    pub(super) fn timed(&mut self, side: usize, done: Done) {
        self.warmed_up(side, done);
        self.sides[side].timed += done.echoes;
    }

    fn left_ns(&self, now_ns: u64) -> Option<u64> {
        self.deadline_ns
            .map(|deadline| deadline.saturating_sub(now_ns))
    }
}

/// Below, the median of a round is a story of single echoes.
const LEAST_ECHOES: u64 = 20;
/// What even a budget that is used up leaves a block, so that every round has both its sides.
const LEAST_BLOCK_NS: u64 = 5_000_000;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(drivers: &[Driver]) -> LatencyPlan {
        LatencyPlan {
            drivers: drivers.to_vec(),
            ..LatencyPlan::default()
        }
    }

    fn done(echoes: u64, echo_ns: u64) -> Done {
        let elapsed_ns = echoes * echo_ns;
        Done { echoes, elapsed_ns }
    }

    #[test]
    fn without_a_budget_the_rounds_share_the_iterations() {
        let mut pace = Pace::new(&plan(&[Driver::Direct]), None, 0);
        let mut echoes = Vec::new();
        for round in 0..15 {
            echoes.push(pace.block(1, round, 0).echoes);
            pace.timed(1, done(echoes[echoes.len() - 1], 50_000));
        }
        assert_eq!(echoes.iter().sum::<u64>(), 10_000);
        assert_eq!(
            (echoes[0], echoes[9], echoes[10], echoes[14]),
            (667, 667, 666, 666)
        );
        assert_eq!(pace.first_warmup(0).echoes, 1_000);
        assert_eq!(pace.later_warmup(pace.block(0, 1, 0)).echoes, 100);
    }

    #[test]
    fn a_budget_is_shared_by_weight_and_by_what_an_echo_takes() {
        // 1.5 s for 15 rounds are 100 ms a round; of the weights 1, 1 and 2 handoff has half.
        let plan = plan(&[Driver::Direct, Driver::Handoff]);
        let mut pace = Pace::new(&plan, Some(Duration::from_millis(1_500)), 0);
        pace.warmed_up(0, done(10, 50_000));
        pace.warmed_up(2, done(10, 90_000));
        assert_eq!(pace.block(0, 0, 0).echoes, 450);
        assert_eq!(pace.block(2, 0, 0).echoes, 500);
        assert_eq!(pace.block(2, 0, 0).until_ns, 100_000_000);
    }

    #[test]
    fn time_that_others_left_makes_up_for_what_was_cut() {
        let plan = plan(&[Driver::Direct]);
        let mut pace = Pace::new(&plan, Some(Duration::from_millis(1_500)), 0);
        pace.timed(0, done(450, 100_000));
        // 1.45 s are left for 14 rounds: the last of them may take all that is missing in the end.
        assert_eq!(pace.block(0, 1, 50_000_000).echoes, 466);
        assert_eq!(pace.block(0, 14, 50_000_000).echoes, 6_525);
        pace.timed(0, done(9_000, 100_000));
        assert_eq!(pace.block(0, 14, 50_000_000).echoes, 550);
    }

    #[test]
    fn a_budget_never_asks_for_more_than_the_plan() {
        let mut pace = Pace::new(&plan(&[Driver::Direct]), Some(Duration::from_secs(60)), 0);
        pace.warmed_up(0, done(1, 1_000));
        assert_eq!(pace.block(0, 0, 0).echoes, 667);
    }

    #[test]
    fn a_budget_that_is_used_up_leaves_every_block_a_few_echoes() {
        let mut pace = Pace::new(&plan(&[Driver::Direct]), Some(Duration::from_secs(1)), 0);
        pace.warmed_up(0, done(1, 500_000));
        let block = pace.block(0, 14, 3_000_000_000);
        assert_eq!(block.echoes, 20);
        assert_eq!(block.until_ns, 3_010_000_000);
    }
}
