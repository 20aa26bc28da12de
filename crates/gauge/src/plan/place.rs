//! Where threads run and how the machine is held.

use std::fmt;
use std::str::FromStr;

use super::{PlanError, check_range, one_of};

/// Where threads run and how the machine is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementPlan {
    /// The shape.
    pub placement: Placement,
    /// CPUs to use, in order client, server; empty chooses by `placement`.
    pub cpus: Vec<usize>,
    /// Scheduler of the measuring threads.
    pub sched: Sched,
    /// A refused scheduler ends the run instead of being reported.
    pub require_sched: bool,
    /// Hold `/dev/cpu_dma_latency` at zero.
    pub stay_awake: bool,
    /// One `SCHED_IDLE` spinner on each CPU in use.
    pub keep_cpus_busy: bool,
}

impl Default for PlacementPlan {
    fn default() -> Self {
        Self {
            placement: Placement::Split,
            cpus: Vec::new(),
            sched: Sched::Other,
            require_sched: false,
            stay_awake: false,
            keep_cpus_busy: false,
        }
    }
}

impl PlacementPlan {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if let Sched::Fifo(priority) | Sched::RoundRobin(priority) = self.sched {
            check_range("--sched", priority.into(), 1, 99)?;
        }
        if self.cpus.iter().any(|&cpu| cpu >= MOST_CPUS) {
            return Err(PlanError::new(
                "--cpu",
                format!("CPUs from 0 to {}", MOST_CPUS - 1),
            ));
        }
        Ok(())
    }
}

/// The shapes of placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The scheduler chooses.
    Free,
    /// Both ends on one CPU.
    Same,
    /// Two physical cores that share a cache.
    Split,
    /// Two physical cores that share none.
    Cross,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Free, Self::Same, Self::Split, Self::Cross];

    /// The name in options and reports.
    pub fn token(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Same => "same",
            Self::Split => "split",
            Self::Cross => "cross",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

impl FromStr for Placement {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        one_of("--placement", text, &Self::ALL, Self::token)
    }
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sched {
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_FIFO` at a priority from 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` at a priority from 1 to 99.
    RoundRobin(u8),
    /// `SCHED_IDLE`.
    Idle,
}

impl fmt::Display for Sched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.pad("other"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
            Self::Idle => f.pad("idle"),
        }
    }
}

impl FromStr for Sched {
    type Err = PlanError;

    /// `other`, `idle`, `fifo:N` or `rr:N`, N from 1 to 99.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let refusal = || {
            let expected = "other, idle, fifo:N or rr:N with N from 1 to 99";
            PlanError::new("--sched", format!("{text:?} is not one of {expected}"))
        };
        let priority = |digits: &str| match digits.parse() {
            Ok(priority @ 1..=99) => Ok(priority),
            Ok(_) | Err(_) => Err(refusal()),
        };
        match text.split_once(':') {
            None if text == "other" => Ok(Self::Other),
            None if text == "idle" => Ok(Self::Idle),
            Some(("fifo", digits)) => priority(digits).map(Self::Fifo),
            Some(("rr", digits)) => priority(digits).map(Self::RoundRobin),
            None | Some(_) => Err(refusal()),
        }
    }
}

/// What a `cpu_set_t` holds.
const MOST_CPUS: usize = 1_024;
