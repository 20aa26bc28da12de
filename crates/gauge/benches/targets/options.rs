//! The command line: what to run, how long, and where to write it.

use std::path::PathBuf;
use std::time::Duration;

use tautline_gauge::plan::Transport;

use super::list::{Condition, Group, TRANSPORTS, Target};
use super::once::Once;
use super::peers::{self, Peer};
use super::rows::LEAST_FOR_VERDICT;

/// What was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    /// Targets to measure; all when empty.
    pub(crate) only: Vec<Target>,
    /// Conditions to keep; all when empty.
    pub(crate) conditions: Vec<Condition>,
    /// Transports to keep; all when empty.
    pub(crate) transports: Vec<Transport>,
    /// Payloads to keep; all when empty.
    pub(crate) payloads: Vec<usize>,
    /// What to measure beside the product, besides the controls.
    pub(crate) peers: Vec<Peer>,
    /// Rounds a cell.
    pub(crate) rounds: usize,
    /// The timed part of one block.
    pub(crate) block: Duration,
    /// Only this, so many times, and nothing measured.
    pub(crate) once: Option<Once>,
    /// Messages of `once`.
    pub(crate) messages: u64,
    /// Idle links of T12.
    pub(crate) links: usize,
    /// The one rate of the open loop; those of the target when there is none.
    pub(crate) rate_hz: Option<u64>,
    /// Decides the order within rounds, and the intervals.
    pub(crate) seed: u64,
    /// Where the rows go as JSON.
    pub(crate) json: Option<PathBuf>,
}

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Asked {
    Run(Box<Options>),
    Help,
}

impl Options {
    /// Reads the arguments after the program's name.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Asked, String> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(option) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("{option} needs a value"))
            };
            match option.as_str() {
                "--only" => options.only = list(&option, &value()?)?,
                "--conditions" => options.conditions = list(&option, &value()?)?,
                "--transports" => options.transports = list(&option, &value()?)?,
                "--payloads" => options.payloads = list(&option, &value()?)?,
                "--peers" => options.peers = peers::parse(&value()?)?,
                "--rounds" => options.rounds = number(&option, &value()?, 1..=1_000)? as usize,
                "--block-ms" => {
                    options.block = Duration::from_millis(number(&option, &value()?, 1..=100)?);
                }
                "--once" => {
                    let value = value()?;
                    let once = value.parse();
                    options.once = Some(once.map_err(|why| format!("{option} {value}: {why}"))?);
                }
                "--messages" => options.messages = number(&option, &value()?, 1..=u64::MAX)?,
                "--links" => options.links = number(&option, &value()?, 2..=100_000)? as usize,
                "--rate" => options.rate_hz = Some(number(&option, &value()?, 1..=1_000_000)?),
                "--seed" => options.seed = number(&option, &value()?, 0..=u64::MAX)?,
                "--json" => options.json = Some(PathBuf::from(value()?)),
                "--quick" => (options.rounds, options.block) = (QUICK_ROUNDS, QUICK_BLOCK),
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--help" | "-h" => return Ok(Asked::Help),
                _ => return Err(format!("{option}: no such option; --help names them")),
            }
        }
        Ok(Asked::Run(Box::new(options)))
    }

    /// Whether such a group was asked for.
    pub(crate) fn keeps(&self, group: &Group) -> bool {
        asks_for(&self.only, &group.target)
            && asks_for(&self.conditions, &group.condition)
            && asks_for(&self.transports, &group.transport)
            && asks_for(&self.payloads, &group.payload_bytes)
    }
}

impl Options {
    /// Whether a target that has no cells of conditions and payloads was asked for.
    pub(crate) fn studies(&self, target: Target) -> bool {
        target.is_studied()
            && asks_for(&self.only, &target)
            && self.conditions.is_empty()
            && self.payloads.is_empty()
    }

    /// Of those that every study goes through.
    pub(crate) fn kept_transports(&self) -> Vec<Transport> {
        let mut transports = TRANSPORTS.to_vec();
        transports.retain(|transport| asks_for(&self.transports, transport));
        transports
    }

    /// Whether there are enough rounds for a verdict.
    pub(crate) const fn decides(&self) -> bool {
        self.rounds >= LEAST_FOR_VERDICT
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            only: Vec::new(),
            conditions: Vec::new(),
            transports: Vec::new(),
            payloads: Vec::new(),
            peers: Peer::ALL.to_vec(),
            rounds: 15,
            block: Duration::from_millis(80),
            once: None,
            messages: 100_000,
            links: 10_000,
            rate_hz: None,
            seed: 1,
            json: None,
        }
    }
}

/// An empty list asks for all.
fn asks_for<T: PartialEq>(list: &[T], item: &T) -> bool {
    list.is_empty() || list.contains(item)
}

pub(crate) fn list<T: std::str::FromStr<Err: ToString>>(
    option: &str,
    text: &str,
) -> Result<Vec<T>, String> {
    let item = |item: &str| {
        let parsed = item.trim().parse();
        parsed.map_err(|why: T::Err| format!("{option} {item}: {}", why.to_string()))
    };
    text.split(',').map(item).collect()
}

fn number(option: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let parsed = text.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        format!("{option} {text}: a number from {least} to {most}")
    })
}

/// The fewest that give a verdict.
const QUICK_ROUNDS: usize = 8;
const QUICK_BLOCK: Duration = Duration::from_millis(20);

pub(crate) const HELP: &str = "\
The library's targets, measured: product and control interleaved, with the interval of their ratio.
Without options it takes about ten minutes with every peer there; each run says first how long.

  --only T1,T4           these targets (T1 to T15, cost, spin, P1, P2)
  --conditions one-core  these conditions, and no target without any (one-core awake halting split free veth)
  --transports tcp       these transports (tcp uds udp)
  --payloads 64,1024     these payloads, in bytes, and no target without any
  --peers tokio          these peers (tokio sockperf iperf3), or none; all that are there
  --rounds N             rounds a cell (15); below 6 there is no interval, below 8 no verdict
  --block-ms N           timed part of each block, 1 to 100 (80)
  --links N              idle links of T12, 2 to 100000 (10000)
  --rate N               messages a second of the open loop, instead of T10's
  --seed N               decides the order within rounds (1)
  --json FILE            the rows, with every round and what each side counted
  --quick                8 rounds of 20 ms
  --once stream          only send messages (stream burst echo), for tools that count
  --messages N           as many of --once (100000)
";
