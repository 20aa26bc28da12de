//! The latency matrix: which cells, by which drivers, in how many runs, rounds and echoes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tautline::SerialLine;

use super::{
    CONTENT_PASS_MESSAGES, FULL_SIZES, MOST_ITERATIONS, MOST_RUNS, PlanError, SETUP_BOUND,
    Transport, cells, check_list, check_range, check_sizes, echo_bound, multiply, one_of,
    wire_time, within,
};

/// The ways of driving the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Driver {
    /// `DirectLink` at both ends: one thread each, one blocking call per receive.
    Direct,
    /// Client and server entirely in callbacks, each on an I/O thread of its own.
    Callback,
    /// What most programs do: an application thread sends and waits, the reply comes by callback.
    Handoff,
    /// `DirectLink` at both ends, polling with `sched_yield` before it sleeps.
    Spin,
}

impl Driver {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Callback, Self::Handoff, Self::Spin];

    /// The name in options and reports.
    pub fn token(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Callback => "callback",
            Self::Handoff => "handoff",
            Self::Spin => "spin",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

impl FromStr for Driver {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        one_of("--drivers", text, &Self::ALL, Self::token)
    }
}

/// The latency matrix.
#[derive(Debug, Clone)]
pub struct LatencyPlan {
    /// In the order of the table.
    pub transports: Vec<Transport>,
    /// Payload bytes, in the order of the table.
    pub sizes: Vec<usize>,
    /// Drivers beside the control. `Handoff` fills the columns of the row itself.
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
    /// Time for the whole matrix: the rounds stay, the echoes in each are cut to fit. `--quick`
    /// sets it.
    pub budget: Option<Duration>,
    /// One serial port whose sending and receiving ends are joined, in place of pseudo-terminals.
    pub plug: Option<SerialLine>,
}

impl Default for LatencyPlan {
    fn default() -> Self {
        Self {
            transports: Transport::DEFAULT.to_vec(),
            sizes: FULL_SIZES.to_vec(),
            drivers: Driver::ALL.to_vec(),
            runs: 3,
            rounds: 15,
            iterations: 10_000,
            warmup: 1_000,
            spin: Duration::from_micros(50),
            budget: None,
            plug: None,
        }
    }
}

impl LatencyPlan {
    /// The cells that can be measured, in the order of the table.
    pub fn cells(&self) -> Vec<(Transport, usize)> {
        cells(&self.transports, &self.sizes)
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        check_sizes(&self.sizes)?;
        check_list("--transports", &self.transports)?;
        check_list("--drivers", &self.drivers)?;
        check_range("--repeats", self.runs as u64, 1, MOST_RUNS)?;
        check_range("--rounds", self.rounds as u64, 1, MOST_ROUNDS)?;
        check_range("--iterations", self.iterations, 1, MOST_ITERATIONS)?;
        check_range("--warmup", self.warmup, 0, MOST_ITERATIONS)?;
        if self.iterations < self.rounds as u64 {
            return Err(PlanError::new(
                "--iterations",
                format!(
                    "{} echoes do not fill {} rounds",
                    self.iterations, self.rounds
                ),
            ));
        }
        if self.spin > MOST_SPIN {
            return Err(PlanError::new("--spin", "at most 1s".to_owned()));
        }
        self.check_plug()
    }

    pub(super) fn duration_bound(&self) -> Duration {
        let runs = self
            .cells()
            .into_iter()
            .map(|(transport, size)| self.run_bound(transport, size));
        multiply(runs.sum(), self.runs as u64)
    }

    /// What one run of one cell takes at most: its share of the budget, or the sum of its echoes.
    pub(crate) fn run_bound(&self, transport: Transport, payload_bytes: usize) -> Duration {
        let echo = self.echo_bound(transport, payload_bytes);
        let sides = self.drivers.len() as u64 + 1;
        let later_warmups = self.warmup / 10 * (self.rounds as u64).saturating_sub(1);
        let contents = self.content_messages(transport, payload_bytes);
        let echoes = (self.iterations + self.warmup + later_warmups).saturating_add(contents);
        let whole = SETUP_BOUND + multiply(echo, echoes.saturating_mul(sides));
        let share = within(whole, self.budget, self.cells().len() * self.runs);
        match &self.plug {
            None => share,
            // The least that a round is: a warm-up and an echo of every side, however long that takes.
            Some(_) => {
                let least = (2 * self.rounds as u64 + contents + 1).saturating_mul(sides);
                share.max(multiply(echo, least))
            }
        }
    }

    /// Messages whose whole contents are compared before a run: fewer where each takes long.
    pub(crate) fn content_messages(&self, transport: Transport, payload_bytes: usize) -> u64 {
        let echo_ns = self.echo_bound(transport, payload_bytes).as_nanos().max(1);
        let in_a_second = u64::try_from(1_000_000_000 / echo_ns).unwrap_or(u64::MAX);
        in_a_second.clamp(1, CONTENT_PASS_MESSAGES)
    }

    fn echo_bound(&self, transport: Transport, payload_bytes: usize) -> Duration {
        let software = echo_bound(transport, payload_bytes);
        let on_wire = self.plug.as_ref().map_or(Duration::ZERO, |line| {
            wire_time(line, payload_bytes + transport.overhead_bytes()) + GATHERING
        });
        software + on_wire
    }
}

/// What the driver of a USB adapter may hold bytes back for.
const GATHERING: Duration = Duration::from_millis(16);
const MOST_ROUNDS: u64 = 10_000;
const MOST_SPIN: Duration = Duration::from_secs(1);
