//! The plan: what will be measured, validated once.
//!
//! A [`Plan`] that exists is valid; the engine does not check again. The command line fills it, the
//! engine reads it, `--print-duration` prints its bound.

use std::path::PathBuf;
use std::time::Duration;

use tautline::{Address, Strategy};

/// What one invocation of `bench` measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The latency table, if it was asked for.
    pub latency: Option<LatencyPlan>,
    /// The strategy table, if it was asked for.
    pub strategy: Option<StrategyPlan>,
    /// Where threads run and how the machine is held.
    pub placement: PlacementPlan,
    /// Where to listen, at most one address a transport; absent transports get an ephemeral loopback
    /// port or a socket in a fresh temporary folder.
    pub bind: Vec<Address>,
    /// Seed of the random order of drivers within each round.
    pub seed: u64,
}

/// The transports that `bench` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP over loopback.
    Tcp,
    /// UDP over loopback.
    Udp,
    /// Unix stream sockets.
    Uds,
}

/// The ways of driving the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Driver {
    /// `DirectLink` at both ends: one thread each, one blocking call per receive.
    Direct,
    /// Client and server entirely in callbacks, each on an I/O thread of its own.
    Callback,
    /// The seed's topology: an application thread sends and waits, the reply comes by callback.
    Handoff,
    /// `DirectLink` at both ends, polling with `sched_yield` before it sleeps.
    Spin,
}

/// The latency matrix.
#[derive(Debug, Clone)]
pub struct LatencyPlan {
    /// In the order of the table.
    pub transports: Vec<Transport>,
    /// Payload bytes, in the order of the table.
    pub sizes: Vec<usize>,
    /// Drivers beside the control. `Handoff` fills the seed's columns.
    pub drivers: Vec<Driver>,
    /// Runs with fresh endpoints (`--repeats`).
    pub runs: usize,
    /// Short blocks within a run (`--rounds`).
    pub rounds: usize,
    /// Timed echoes of one driver in one run, divided evenly over its rounds.
    pub iterations: u64,
    /// Echoes before the first round; a tenth as many before each later one.
    pub warmup: u64,
    /// How long the spin driver polls before it sleeps.
    pub spin: Duration,
    /// Stop adding rounds when this much time has gone by; `--quick` sets it.
    pub budget: Option<Duration>,
}

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
}

/// What the producer does after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefused {
    /// `sched_yield`.
    Yield,
    /// Try again at once.
    Spin,
    /// Sleep; the seed's producer slept 50 µs.
    Sleep(Duration),
}

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

/// Where a finished report goes besides the terminal.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// `--json FILE`, `-` being standard output.
    pub json: Option<PathBuf>,
    /// `--csv FILE`.
    pub csv: Option<PathBuf>,
}
