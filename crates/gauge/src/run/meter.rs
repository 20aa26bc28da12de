//! What a run has left: its budget, shared among the runs to come, and how far it is.

use std::time::{Duration, Instant};

use super::Progress;
use crate::plan::Plan;

/// Shares what is left of a budget among the runs that are left, so that one that was quick leaves more
/// to the others.
#[derive(Debug)]
pub(super) struct Budget {
    deadline: Option<Instant>,
    runs_left: u32,
}

impl Budget {
    pub(super) fn new(budget: Option<Duration>, runs: usize) -> Self {
        Self {
            deadline: budget.map(|budget| Instant::now() + budget),
            runs_left: u32::try_from(runs).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn next_slice(&mut self) -> Option<Duration> {
        let deadline = self.deadline?;
        let left = deadline.saturating_duration_since(Instant::now());
        let slice = left / self.runs_left.max(1);
        self.runs_left = self.runs_left.saturating_sub(1);
        Some(slice)
    }
}

/// Turns what is done into progress. A run weighs what the plan's bound says it takes.
pub(super) struct Meter<'a> {
    report: &'a mut dyn FnMut(Progress),
    whole: Duration,
    before: Duration,
    current: Duration,
    cell: String,
    began: Instant,
}

impl<'a> Meter<'a> {
    pub(super) fn new(plan: &Plan, report: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            report,
            whole: plan.duration_bound(),
            before: Duration::ZERO,
            current: Duration::ZERO,
            cell: String::new(),
            began: Instant::now(),
        }
    }

    pub(super) fn begin(&mut self, cell: String, bound: Duration) {
        self.cell = cell;
        self.current = bound;
        self.began = Instant::now();
        self.tick(0.0);
    }

    /// So much of the current run is done.
    pub(super) fn tick(&mut self, share: f64) {
        let done = self.before.as_secs_f64() + self.current.as_secs_f64() * share.min(1.0);
        let whole = self.whole.as_secs_f64().max(f64::MIN_POSITIVE);
        (self.report)(Progress {
            done: (done / whole).min(1.0),
            cell: self.cell.clone(),
        });
    }

    /// As much of the current run is done as its time has passed.
    pub(super) fn tick_by_the_clock(&mut self) {
        self.tick(self.began.elapsed().as_secs_f64() / self.current.as_secs_f64());
    }

    pub(super) fn end(&mut self) {
        self.before += self.current;
        self.current = Duration::ZERO;
    }
}
