//! The run: does what the plan says, and hands back what it found.

use crate::environment::Evidence;
use crate::report::{Absent, Clock, LatencyRow, PlacementRecord, StrategyRow};

/// Everything one `bench` found out; what stands here is valid even when the run ended early.
#[derive(Debug, Clone)]
pub struct BenchResult {
    /// The clock that every figure comes from.
    pub clock: Clock,
    /// How the run was placed on the CPUs: asked and effective.
    pub placement: PlacementRecord,
    /// What was measured about the machine.
    pub evidence: Evidence,
    /// Round trips, one row per transport and payload.
    pub latency: Vec<LatencyRow>,
    /// One-way streams, one row per transport, strategy and payload.
    pub strategy: Vec<StrategyRow>,
    /// Cells that were asked for and cannot be, each with its reason.
    pub absent: Vec<Absent>,
    /// The stop flag ended the run early.
    pub interrupted: bool,
    /// What ended the run, when something did.
    pub error: Option<BenchError>,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub done: f64,
    /// What is being measured now: `tcp 64 B, run 1 of 3`.
    pub cell: String,
}

/// What ended a run before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BenchError {
    /// Decides the exit status.
    pub kind: BenchErrorKind,
    /// What, where and why.
    pub message: String,
}

/// The kinds of [`BenchError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchErrorKind {
    /// What was asked for could not be had: connect, bind, a required scheduler. Exit status 3.
    Setup,
    /// It began well and broke off; what was measured until then stands. Exit status 4.
    Partial,
}
