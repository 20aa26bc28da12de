//! The plan: what will be measured, validated once.
//!
//! The command line fills a [`Plan`], [`Plan::checked`] refuses what cannot be measured with the name
//! of the option, and the engine does not check again. `--print-duration` prints
//! [`Plan::duration_bound`].

mod to;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tautline::{Address, Strategy};

/// What one invocation of `bench` measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The latency table, if it was asked for.
    pub latency: Option<LatencyPlan>,
    /// The strategy table, if it was asked for.
    pub strategy: Option<StrategyPlan>,
    /// The UDP payload smoke test, if it was asked for.
    pub smoke: Option<SmokePlan>,
    /// Where threads run and how the machine is held.
    pub placement: PlacementPlan,
    /// Where to listen, at most one address a transport; absent transports get an ephemeral loopback
    /// port or a socket in a fresh temporary folder.
    ///
    /// The library's server listens exactly there. The other ends of the same run (control, direct,
    /// spin) exist at the same time, so they take an ephemeral port of the same host, or a socket
    /// in the temporary folder.
    pub bind: Vec<Address>,
    /// Servers elsewhere, each a `tautline serve`, at most one a transport. Where there are any, the
    /// tables are of their transports alone, and every end of a run is a client of theirs.
    pub to: Vec<Address>,
    /// Seed of the random order of drivers within each round.
    pub seed: u64,
}

impl Plan {
    /// All tables at the defaults of the command line.
    pub fn full(seed: u64) -> Self {
        Self {
            latency: Some(LatencyPlan::default()),
            strategy: Some(StrategyPlan::default()),
            smoke: Some(SmokePlan::default()),
            placement: PlacementPlan::default(),
            bind: Vec::new(),
            to: Vec::new(),
            seed,
        }
    }

    /// The latency and the strategy table within about 25 s on any machine: small and large payloads,
    /// every transport, strategy and driver, one run each.
    ///
    /// The counts are upper limits; a short calibration and the budgets decide how much of them is
    /// done. Ten rounds are the least that is kept, so that every ratio has its interval.
    pub fn quick(seed: u64) -> Self {
        Self {
            latency: Some(LatencyPlan {
                sizes: QUICK_SIZES.to_vec(),
                runs: 1,
                rounds: 10,
                warmup: 200,
                budget: Some(Duration::from_secs(13)),
                ..LatencyPlan::default()
            }),
            strategy: Some(StrategyPlan {
                sizes: QUICK_SIZES.to_vec(),
                runs: 1,
                duration: Duration::from_millis(250),
                budget: Some(Duration::from_secs(10)),
                ..StrategyPlan::default()
            }),
            smoke: None,
            ..Self::full(seed)
        }
    }

    /// The same plan, if it can be measured.
    ///
    /// # Errors
    ///
    /// Names the first option that is out of its range, and the range.
    pub fn checked(self) -> Result<Self, PlanError> {
        if let Some(latency) = &self.latency {
            latency.check()?;
        }
        if let Some(strategy) = &self.strategy {
            strategy.check()?;
        }
        if let Some(smoke) = &self.smoke {
            smoke.check()?;
        }
        self.placement.check()?;
        check_one_a_transport("--bind", &self.bind)?;
        self.check_to()?;
        Ok(self)
    }

    /// How long the plan takes at most on a slow board with nothing going wrong.
    ///
    /// Computed from the counts and generous costs, without measuring anything: an echo is taken to
    /// cost 100 us and 8 us a KiB. A fast machine needs a fifth of it.
    pub fn duration_bound(&self) -> Duration {
        let latency = self
            .latency
            .as_ref()
            .map_or(Duration::ZERO, LatencyPlan::duration_bound);
        let strategy = self
            .strategy
            .as_ref()
            .map_or(Duration::ZERO, StrategyPlan::duration_bound);
        let smoke = self
            .smoke
            .as_ref()
            .map_or(Duration::ZERO, SmokePlan::duration_bound);
        EVIDENCE_BOUND + latency + strategy + smoke
    }

    /// The transports that any table needs.
    pub(crate) fn transports(&self) -> Vec<Transport> {
        let latency = self.latency.as_ref().map(|plan| &plan.transports);
        let strategy = self.strategy.as_ref().map(|plan| &plan.transports);
        let mut transports: Vec<_> = latency.into_iter().chain(strategy).flatten().collect();
        transports.sort_unstable();
        transports.dedup();
        transports.into_iter().copied().collect()
    }
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

impl Transport {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Uds];

    /// The name in addresses, options and reports.
    pub fn token(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Uds => "uds",
        }
    }

    /// Bytes that the framing adds to each payload: the 4-byte prefix on byte streams.
    pub fn overhead_bytes(self) -> usize {
        match self {
            Self::Tcp | Self::Uds => 4,
            Self::Udp => 0,
        }
    }

    /// The largest payload that this transport carries in one message here.
    pub fn payload_limit_bytes(self) -> usize {
        match self {
            Self::Tcp | Self::Uds => STREAM_PAYLOAD_LIMIT_BYTES,
            Self::Udp => DATAGRAM_PAYLOAD_LIMIT_BYTES,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

impl FromStr for Transport {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        one_of("--transports", text, &Self::ALL, Self::token)
    }
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
    /// Time for the whole matrix: the rounds stay, the echoes in each are cut to fit. `--quick`
    /// sets it.
    pub budget: Option<Duration>,
}

impl Default for LatencyPlan {
    fn default() -> Self {
        Self {
            transports: Transport::ALL.to_vec(),
            sizes: FULL_SIZES.to_vec(),
            drivers: Driver::ALL.to_vec(),
            runs: 3,
            rounds: 15,
            iterations: 10_000,
            warmup: 1_000,
            spin: Duration::from_micros(50),
            budget: None,
        }
    }
}

impl LatencyPlan {
    /// The cells that can be measured, in the order of the table.
    pub fn cells(&self) -> Vec<(Transport, usize)> {
        cells(&self.transports, &self.sizes)
    }

    fn check(&self) -> Result<(), PlanError> {
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
        Ok(())
    }

    fn duration_bound(&self) -> Duration {
        let runs = self
            .cells()
            .into_iter()
            .map(|(_, size)| self.run_bound(size));
        multiply(runs.sum(), self.runs as u64)
    }

    /// What one run of one cell takes at most: its share of the budget, or the sum of its echoes.
    pub(crate) fn run_bound(&self, payload_bytes: usize) -> Duration {
        let sides = self.drivers.len() as u64 + 1;
        let later_warmups = self.warmup / 10 * (self.rounds as u64).saturating_sub(1);
        let echoes = self.iterations + self.warmup + later_warmups + CONTENT_PASS_MESSAGES;
        let whole = SETUP_BOUND + multiply(echo_bound(payload_bytes), echoes.saturating_mul(sides));
        within(whole, self.budget, self.cells().len() * self.runs)
    }
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
    /// Time for the whole matrix: the sending time of each run is cut to fit. `--quick` sets it.
    pub budget: Option<Duration>,
}

impl Default for StrategyPlan {
    fn default() -> Self {
        Self {
            transports: Transport::ALL.to_vec(),
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

    fn check(&self) -> Result<(), PlanError> {
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

    fn duration_bound(&self) -> Duration {
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
    /// Sleep; the seed's producer slept 50 µs.
    Sleep(Duration),
}

/// The UDP payload smoke test.
#[derive(Debug, Clone)]
pub struct SmokePlan {
    /// Payload bytes, in the order of the table.
    pub sizes: Vec<usize>,
    /// Echoes of each size over each path.
    pub iterations: u64,
    /// Echoes before them that are not counted.
    pub warmup: u64,
    /// How long a reply may take.
    pub timeout: Duration,
}

impl Default for SmokePlan {
    fn default() -> Self {
        Self {
            sizes: SMOKE_SIZES.to_vec(),
            iterations: 1_000,
            warmup: 100,
            timeout: Duration::from_secs(1),
        }
    }
}

impl SmokePlan {
    fn check(&self) -> Result<(), PlanError> {
        check_list("--sizes", &self.sizes)?;
        for &size in &self.sizes {
            if size > DATAGRAM_PAYLOAD_LIMIT_BYTES {
                return Err(PlanError::new(
                    "--sizes",
                    format!(
                        "{size}: a datagram carries {DATAGRAM_PAYLOAD_LIMIT_BYTES} bytes at most"
                    ),
                ));
            }
            let (least, most) = (PAYLOAD_LEAST_BYTES, DATAGRAM_PAYLOAD_LIMIT_BYTES);
            check_range("--sizes", size as u64, least as u64, most as u64)?;
        }
        check_range("--iterations", self.iterations, 1, MOST_ITERATIONS)?;
        check_range("--warmup", self.warmup, 0, MOST_ITERATIONS)?;
        if self.timeout.is_zero() || self.timeout > MOST_TIMEOUT {
            return Err(PlanError::new(
                "--timeout",
                "more than 0, at most 1 min".to_owned(),
            ));
        }
        Ok(())
    }

    fn duration_bound(&self) -> Duration {
        self.sizes
            .iter()
            .map(|&size| multiply(self.path_bound(size), SMOKE_PATHS))
            .sum()
    }

    /// What one path of one payload takes where every reply comes.
    pub(crate) fn path_bound(&self, payload_bytes: usize) -> Duration {
        multiply(echo_bound(payload_bytes), self.warmup + self.iterations) + SETUP_BOUND
    }
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

/// An option that cannot be measured as given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {message}")]
pub struct PlanError {
    /// The option, as typed on the command line.
    pub option: &'static str,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl PlanError {
    pub(crate) fn new(option: &'static str, message: String) -> Self {
        Self { option, message }
    }
}

/// The smallest payload of `bench`: its header of sequence and check.
pub const PAYLOAD_LEAST_BYTES: usize = 16;

/// The largest payload on byte streams: with its prefix it fills the default queue exactly.
pub const STREAM_PAYLOAD_LIMIT_BYTES: usize = (1 << 20) - 4;

/// The largest payload of one UDP datagram over IPv4.
pub const DATAGRAM_PAYLOAD_LIMIT_BYTES: usize = 65_507;

/// Messages whose whole contents are compared, untimed, before each run of a cell.
pub const CONTENT_PASS_MESSAGES: u64 = 32;

const FULL_SIZES: [usize; 6] = [64, 256, 1_024, 4_096, 16_384, 65_536];
const SMOKE_SIZES: [usize; 4] = [1_024, 4_096, 16_384, DATAGRAM_PAYLOAD_LIMIT_BYTES];
/// Raw sockets, reliable, besteffort.
const SMOKE_PATHS: u64 = 3;
const MOST_TIMEOUT: Duration = Duration::from_secs(60);
const QUICK_SIZES: [usize; 2] = [64, 16_384];

/// Each run keeps one record for the CSV, each round one pair of figures: these keep them countable.
const MOST_RUNS: u64 = 1_000;
const MOST_ROUNDS: u64 = 10_000;
const MOST_ITERATIONS: u64 = 1_000_000_000;
/// A producer asleep hears of Ctrl-C when it wakes.
const MOST_PAUSE: Duration = Duration::from_millis(100);
const MOST_SPIN: Duration = Duration::from_secs(1);
const MOST_DURATION: Duration = Duration::from_secs(24 * 60 * 60);
/// What a `cpu_set_t` holds.
const MOST_CPUS: usize = 1_024;

/// Connecting, starting and joining the threads of one run.
const SETUP_BOUND: Duration = Duration::from_millis(50);
/// What a full queue and full socket buffers usually take to drain.
const DRAIN_ESTIMATE: Duration = Duration::from_millis(100);
/// Clock, wake-up cost and counters, measured once.
const EVIDENCE_BOUND: Duration = Duration::from_secs(1);

fn echo_bound(size: usize) -> Duration {
    Duration::from_micros(100) + Duration::from_nanos(8_000 * size as u64 / 1_024)
}

fn multiply(one: Duration, count: u64) -> Duration {
    let nanos = one.as_nanos().saturating_mul(count.into());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Cut to an even share of the budget, if there is one.
fn within(whole: Duration, budget: Option<Duration>, runs: usize) -> Duration {
    let share = budget.map(|budget| budget / u32::try_from(runs.max(1)).unwrap_or(u32::MAX));
    share.map_or(whole, |share| whole.min(share))
}

fn cells(transports: &[Transport], sizes: &[usize]) -> Vec<(Transport, usize)> {
    let pairs = transports
        .iter()
        .flat_map(|&transport| sizes.iter().map(move |&s| (transport, s)));
    pairs
        .filter(|&(transport, size)| size <= transport.payload_limit_bytes())
        .collect()
}

fn check_sizes(sizes: &[usize]) -> Result<(), PlanError> {
    check_list("--sizes", sizes)?;
    for &size in sizes {
        let (least, most) = (
            PAYLOAD_LEAST_BYTES as u64,
            STREAM_PAYLOAD_LIMIT_BYTES as u64,
        );
        check_range("--sizes", size as u64, least, most)?;
    }
    Ok(())
}

fn check_one_a_transport(option: &'static str, addresses: &[Address]) -> Result<(), PlanError> {
    for (position, address) in addresses.iter().enumerate() {
        let twice = addresses[..position]
            .iter()
            .any(|other| other.scheme() == address.scheme());
        if twice {
            return Err(PlanError::new(
                option,
                format!(
                    "{address}: one address a transport, {} has two",
                    address.scheme()
                ),
            ));
        }
    }
    Ok(())
}

fn check_list<T: PartialEq + fmt::Display>(
    option: &'static str,
    list: &[T],
) -> Result<(), PlanError> {
    if list.is_empty() {
        return Err(PlanError::new(option, "needs at least one".to_owned()));
    }
    for (position, item) in list.iter().enumerate() {
        if list[..position].contains(item) {
            return Err(PlanError::new(option, format!("{item} stands there twice")));
        }
    }
    Ok(())
}

fn check_range(option: &'static str, value: u64, least: u64, most: u64) -> Result<(), PlanError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PlanError::new(
        option,
        format!("{value} is not within {least} to {most}"),
    ))
}

fn one_of<T: Copy>(
    option: &'static str,
    text: &str,
    all: &[T],
    token: impl Fn(T) -> &'static str,
) -> Result<T, PlanError> {
    all.iter()
        .copied()
        .find(|&item| token(item) == text)
        .ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|&item| token(item)).collect();
            PlanError::new(
                option,
                format!("{text:?} is not one of {}", known.join(", ")),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::full(1);
        change(&mut plan);
        plan.checked()
            .expect_err("the change is out of range")
            .to_string()
    }

    fn latency(plan: &mut Plan) -> &mut LatencyPlan {
        plan.latency.as_mut().unwrap()
    }

    #[test]
    fn the_defaults_are_measurable() {
        Plan::full(1).checked().unwrap();
        Plan::quick(1).checked().unwrap();
    }

    #[test]
    fn a_payload_below_the_header_is_refused_with_the_limit() {
        let said = refusal(|plan| latency(plan).sizes = vec![15]);
        assert_eq!(said, "--sizes: 15 is not within 16 to 1048572");
    }

    #[test]
    fn no_repeats_no_rounds_and_no_iterations_are_refused_by_name() {
        let said = refusal(|plan| latency(plan).runs = 0);
        assert_eq!(said, "--repeats: 0 is not within 1 to 1000");
        let said = refusal(|plan| latency(plan).rounds = 0);
        assert_eq!(said, "--rounds: 0 is not within 1 to 10000");
        let said = refusal(|plan| latency(plan).iterations = 14);
        assert_eq!(said, "--iterations: 14 echoes do not fill 15 rounds");
    }

    #[test]
    fn two_addresses_for_one_transport_are_refused() {
        let said = refusal(|plan| {
            plan.bind = vec![
                "tcp://127.0.0.1:1".parse().unwrap(),
                "tcp://[::1]:2".parse().unwrap(),
            ];
        });
        assert_eq!(
            said,
            "--bind: tcp://[::1]:2: one address a transport, tcp has two"
        );
    }

    #[test]
    fn what_does_not_fit_a_datagram_is_no_cell() {
        let plan = LatencyPlan::default();
        assert_eq!(plan.cells().len(), 17);
        assert!(!plan.cells().contains(&(Transport::Udp, 65_536)));
        assert_eq!(StrategyPlan::default().cells().len(), 51);
    }

    #[test]
    fn schedulers_round_trip_and_others_are_refused() {
        for text in ["other", "idle", "fifo:1", "rr:99"] {
            assert_eq!(text.parse::<Sched>().unwrap().to_string(), text);
        }
        for text in [
            "", "fifo", "fifo:0", "fifo:100", "rr:x", "deadline", "other:1",
        ] {
            assert!(text.parse::<Sched>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pigeon_is_no_transport() {
        let said = "pigeon".parse::<Transport>().unwrap_err().to_string();
        assert_eq!(said, "--transports: \"pigeon\" is not one of tcp, udp, uds");
    }

    #[test]
    fn the_quick_plan_stays_within_its_budget() {
        assert!(Plan::quick(1).duration_bound() <= Duration::from_secs(27));
    }

    #[test]
    fn the_bound_grows_with_every_count() {
        let small = Plan::full(1).duration_bound();
        let mut plan = Plan::full(1);
        latency(&mut plan).iterations *= 10;
        assert!(plan.duration_bound() > small);
    }
}
