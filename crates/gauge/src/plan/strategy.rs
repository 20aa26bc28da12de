//! The strategy matrix: which cells, for how long, and what a refused producer does.

use std::time::Duration;

use tautline::Strategy;

use super::{
    FULL_SIZES, MOST_RUNS, PlanError, SETUP_BOUND, Transport, cells, check_list, check_range,
    check_sizes, multiply, within,
};

/// The strategy matrix.
#[derive(Debug, Clone)]
pub struct StrategyPlan {
    /// In the order of the table.
    pub transports: Vec<Transport>,
    /// In the order of the table.
    pub strategies: Vec<Strategy>,
    /// Payload bytes, header included.
    pub sizes: Vec<usize>,
    /// Runs with fresh endpoints (`--repeats`).
    pub runs: usize,
    /// How long the producer sends in each run.
    pub duration: Duration,
    /// What the producer does after a refusal.
    pub on_refused: OnRefused,
    /// Time for the whole matrix: the sending time of each run is cut to fit. `--quick` sets it.
    pub budget: Option<Duration>,
}

impl Default for StrategyPlan {
    fn default() -> Self {
        Self {
            transports: Transport::DEFAULT.to_vec(),
            strategies: vec![
                Strategy::Reliable,
                Strategy::BestEffort,
                Strategy::KeepLatest,
            ],
            sizes: FULL_SIZES.to_vec(),
            runs: 3,
            duration: Duration::from_secs(3),
            on_refused: OnRefused::Yield,
            budget: None,
        }
    }
}

impl StrategyPlan {
    /// The cells that can be measured, in the order of the table.
    pub fn cells(&self) -> Vec<(Transport, Strategy, usize)> {
        let mut all = Vec::new();
        for &transport in &self.transports {
            for &strategy in &self.strategies {
                let sizes = cells(&[transport], &self.sizes);
                all.extend(
                    sizes
                        .into_iter()
                        .map(|(transport, size)| (transport, strategy, size)),
                );
            }
        }
        all
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        check_sizes(&self.sizes)?;
        check_list("--transports", &self.transports)?;
        check_list("--strategies", &self.strategies)?;
        check_range("--repeats", self.runs as u64, 1, MOST_RUNS)?;
        if self.duration.is_zero() || self.duration > MOST_DURATION {
            return Err(PlanError::new(
                "--duration",
                "more than 0, at most 1 day".to_owned(),
            ));
        }
        if matches!(self.on_refused, OnRefused::Sleep(pause) if pause > MOST_PAUSE) {
            return Err(PlanError::new(
                "--on-refused",
                "a sleep of at most 100ms".to_owned(),
            ));
        }
        Ok(())
    }

    pub(super) fn duration_bound(&self) -> Duration {
        multiply(self.run_bound(), (self.cells().len() * self.runs) as u64)
    }

    /// What one run of one cell takes: the library's stream and the control's, each sent and then
    /// drained; at most its share of the budget.
    pub(crate) fn run_bound(&self) -> Duration {
        let whole = multiply(self.duration + DRAIN_ESTIMATE, 2) + SETUP_BOUND;
        within(whole, self.budget, self.cells().len() * self.runs)
    }
}

/// What the producer does after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefused {
    /// `sched_yield`.
    Yield,
    /// Try again at once.
    Spin,
    /// Sleep: 50 µs is what producers of published strategy tables do.
    Sleep(Duration),
}

/// A producer asleep hears of Ctrl-C when it wakes.
const MOST_PAUSE: Duration = Duration::from_millis(100);
const MOST_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
/// What a full queue and full socket buffers usually take to drain.
const DRAIN_ESTIMATE: Duration = Duration::from_millis(100);
