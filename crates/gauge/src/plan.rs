//! The plan: what will be measured, validated once.
//!
//! The command line fills a [`Plan`], [`Plan::checked`] refuses what cannot be measured with the name
//! of the option, and the engine does not check again. `--print-duration` prints
//! [`Plan::duration_bound`].

mod latency;
mod line;
mod place;
mod smoke;
mod strategy;
mod to;
mod transport;

use std::fmt;
use std::time::Duration;

use tautline::Address;

pub use self::latency::{Driver, LatencyPlan};
pub use self::line::wire_time;
pub use self::place::{Placement, PlacementPlan, Sched};
pub use self::smoke::SmokePlan;
pub use self::strategy::{OnRefused, StrategyPlan};
pub use self::transport::Transport;

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
        self.check_built()?;
        check_one_a_transport("--bind", &self.bind)?;
        if let Some(address) = self
            .bind
            .iter()
            .find(|bind| matches!(bind, Address::Serial(_)))
        {
            return Err(PlanError::new(
                "--bind",
                format!(
                    "{address}: nobody listens on a serial line; a port is for --loopback-plug"
                ),
            ));
        }
        self.check_to()?;
        Ok(self)
    }

    /// A transport that this build does not speak is refused here, before anything starts.
    fn check_built(&self) -> Result<(), PlanError> {
        let transports = self.transports();
        match transports.iter().find(|transport| !transport.is_built()) {
            Some(transport) => Err(PlanError::new(
                "--transports",
                format!("this program was built without the feature `{transport}`"),
            )),
            None => Ok(()),
        }
    }

    /// How long the plan takes at most on a slow board with nothing going wrong.
    ///
    /// Computed from the counts and generous costs, without measuring anything: an echo is taken to
    /// cost 100 us and 8 us a KiB, over TLS and pseudo-terminals more, and on a port what the wire takes.
    /// A fast machine needs a fifth of it.
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
const QUICK_SIZES: [usize; 2] = [64, 16_384];

/// Each run keeps one record for the CSV, each round one pair of figures: these keep them countable.
const MOST_RUNS: u64 = 1_000;
const MOST_ITERATIONS: u64 = 1_000_000_000;

/// Connecting, starting and joining the threads of one run.
const SETUP_BOUND: Duration = Duration::from_millis(50);
/// Clock, wake-up cost and counters, measured once.
const EVIDENCE_BOUND: Duration = Duration::from_secs(1);

fn echo_bound(transport: Transport, size: usize) -> Duration {
    let (each_us, ns_a_kib) = match transport {
        Transport::Tcp | Transport::Udp | Transport::Uds => (100, 8_000),
        Transport::Tls => (120, 16_000),
        // Two pseudo-terminals and the thread between them, 4 KiB at a time.
        Transport::Serial => (250, 60_000),
    };
    Duration::from_micros(each_us) + Duration::from_nanos(ns_a_kib * size as u64 / 1_024)
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
        assert_eq!(
            said,
            "--transports: \"pigeon\" is not one of tcp, tls, udp, uds, serial"
        );
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
