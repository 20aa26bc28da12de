//! The plan of a `ping`: what will be measured, validated once.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tautline::{Address, Tls};

use super::percentile::Point;
use crate::line::frame_bytes;
use crate::plan::{PlacementPlan, PlanError, Transport, wire_time};
use crate::wire::{DATAGRAM_LIMIT_BYTES, HEADER_BYTES, MESSAGE_LIMIT_BYTES};

/// What one invocation of `ping` measures: every address with every size, one after the other.
#[derive(Debug, Clone)]
pub struct PingPlan {
    /// Where servers are.
    pub addresses: Vec<Address>,
    /// Bytes of a message, all of it.
    pub sizes: Vec<usize>,
    /// Connections at once to one address.
    pub connections: usize,
    /// Threads that share them; `None` is as many as connections, up to the CPUs.
    pub threads: Option<usize>,
    /// Pings of each connection.
    pub count: Option<u64>,
    /// How long a cell takes; `None` until `count` is reached.
    pub duration: Option<Duration>,
    /// Closed loop: least time from one ping of a connection to its next.
    pub interval: Duration,
    /// Open loop: pings a second over all connections.
    pub rate_hz: Option<f64>,
    /// Pings of each connection before those that count; at most a second of them.
    pub warmup: u64,
    /// A reply that takes longer is late.
    pub timeout: Duration,
    /// How long to try for a server that is not there yet.
    pub wait_for_server: Duration,
    /// Percentiles of the report, ascending.
    pub percentiles: Vec<Point>,
    /// Counts in equal steps, too.
    pub histogram: Option<HistogramPlan>,
    /// Half of each figure, too: an estimate of one way.
    pub half_rtt: bool,
    /// What keeps the machine busy meanwhile.
    pub load: Load,
    /// Options of every socket.
    pub socket: SocketPlan,
    /// Whom to trust over TLS, and who we are there.
    pub tls: Tls,
    /// Where threads run and how the machine is held.
    pub placement: PlacementPlan,
}

/// `FROM:STEP:COUNT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramPlan {
    /// Where the first step begins.
    pub from: Duration,
    /// How wide each is.
    pub step: Duration,
    /// How many there are.
    pub steps: usize,
}

/// What keeps the machine busy while it is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    /// Nothing of ours.
    None,
    /// A prime count on every CPU that may be used, in the idle class, over and over.
    Primes,
    /// So many one-way streams to the same server, as fast as they go.
    Stream(usize),
    /// A command, run by `sh -c` in a process group of its own.
    Command(String),
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Primes => f.write_str("primes"),
            Self::Stream(streams) => write!(f, "stream:{streams}"),
            Self::Command(command) => f.write_str(command),
        }
    }
}

/// Options of every socket; each is read back.
#[derive(Debug, Clone, Default)]
pub struct SocketPlan {
    /// Only addresses of this family.
    pub family: Option<Family>,
    /// Where to connect from.
    pub bind: Option<SocketAddr>,
    /// SO_BINDTODEVICE.
    pub interface: Option<String>,
    /// SO_SNDBUF.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF.
    pub receive_buffer_bytes: Option<usize>,
    /// IP_TOS or IPV6_TCLASS.
    pub tos: Option<u8>,
    /// TCP_CONGESTION.
    pub congestion: Option<String>,
    /// SO_BUSY_POLL.
    pub busy_poll: Option<Duration>,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Default for PingPlan {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            sizes: vec![64],
            connections: 1,
            threads: None,
            count: None,
            duration: Some(Duration::from_secs(10)),
            interval: Duration::ZERO,
            rate_hz: None,
            warmup: 1_000,
            timeout: Duration::from_secs(1),
            wait_for_server: Duration::ZERO,
            percentiles: Point::DEFAULT.to_vec(),
            histogram: None,
            half_rtt: false,
            load: Load::None,
            socket: SocketPlan::default(),
            tls: Tls::default(),
            placement: PlacementPlan::default(),
        }
    }
}

impl PingPlan {
    /// The same plan, if it can be measured.
    ///
    /// # Errors
    ///
    /// Names the first option that cannot be followed, and why.
    pub fn checked(mut self) -> Result<Self, PlanError> {
        let refused = |option, why: String| Err(PlanError::new(option, why));
        within(
            "--connections",
            self.connections as u64,
            1,
            MOST_CONNECTIONS,
        )?;
        if let Some(threads) = self.threads {
            within("--threads", threads as u64, 1, self.connections as u64)?;
        }
        if let Some(count) = self.count {
            within("-n", count, 1, u64::MAX)?;
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return refused("-t", "it has to be above 0".to_owned());
        }
        if self.count.is_none() && self.duration.is_none() {
            return refused("-t", "without it there has to be -n".to_owned());
        }
        if self.timeout < LEAST_TIMEOUT || self.timeout > MOST_TIMEOUT {
            return refused("--timeout", "it is not within 1ms to 1h".to_owned());
        }
        within("--warmup", self.warmup, 0, MOST_WARMUP)?;
        self.check_sizes()?;
        self.check_rate()?;
        if let Some(histogram) = self.histogram {
            within("--histogram", histogram.steps as u64, 1, MOST_STEPS)?;
            if histogram.step.is_zero() {
                return refused("--histogram", "a step has to be above 0".to_owned());
            }
        }
        if let Load::Stream(streams) = self.load {
            within("--load stream", streams as u64, 1, MOST_STREAMS)?;
        }
        self.check_socket_options()?;
        self.check_lines()?;
        self.check_load()?;
        let busy_poll = self.socket.busy_poll.unwrap_or_default();
        if busy_poll > MOST_BUSY_POLL {
            return refused("--so-busy-poll", "at most 1s".to_owned());
        }
        self.placement.check()?;
        self.percentiles.sort_unstable();
        self.percentiles.dedup();
        Ok(self)
    }

    /// How long it takes at most when nothing goes wrong.
    #[must_use]
    pub fn duration_bound(&self) -> Duration {
        let cells = (self.addresses.len() * self.sizes.len()) as u32;
        let counted = self.count.map(|count| {
            let ping_ns = match self.rate_hz {
                Some(rate_hz) => self.connections as f64 * 1e9 / rate_hz,
                None => (self.interval.max(self.slowest_round_trip()).as_nanos() as f64)
                    .max(PING_ESTIMATE_NS),
            };
            Duration::from_nanos((count as f64 * ping_ns).min(MOST_BOUND_NS) as u64)
        });
        let cell = counted
            .into_iter()
            .chain(self.duration)
            .min()
            .unwrap_or_default();
        EVIDENCE_BOUND + cell.saturating_add(CELL_OVERHEAD).saturating_mul(cells)
    }

    /// Threads that share the connections on a machine that lets us use so many CPUs.
    #[must_use]
    pub fn threads_on(&self, cpus: usize) -> usize {
        self.threads
            .unwrap_or_else(|| self.connections.min(cpus.max(1)))
    }

    /// Pings that may be unanswered at once on one connection.
    pub(crate) fn most_outstanding(&self) -> usize {
        match self.rate_hz {
            None => 1,
            Some(rate_hz) => outstanding(rate_hz / self.connections as f64, self.timeout) as usize,
        }
    }

    /// On the wire, of the largest message over the slowest line.
    fn slowest_round_trip(&self) -> Duration {
        let bytes = frame_bytes(self.sizes.iter().copied().max().unwrap_or(0));
        let each = self.addresses.iter().map(|address| match address {
            Address::Serial(line) => wire_time(line, bytes).saturating_mul(2),
            Address::Tcp { .. } | Address::Tls { .. } | Address::Udp { .. } | Address::Uds(_) => {
                Duration::ZERO
            }
        });
        each.max().unwrap_or_default()
    }

    /// A line is slow, and there is one of it.
    fn check_lines(&self) -> Result<(), PlanError> {
        let lines = self.addresses.iter().filter_map(|address| match address {
            Address::Serial(line) => Some((address, line)),
            Address::Tcp { .. } | Address::Tls { .. } | Address::Udp { .. } | Address::Uds(_) => {
                None
            }
        });
        let bytes = frame_bytes(self.sizes.iter().copied().max().unwrap_or(0));
        for (address, line) in lines {
            if self.connections > 1 {
                let why = format!("{address} is one line, and has one connection");
                return Err(PlanError::new("-P", why));
            }
            let round_trip = wire_time(line, bytes).saturating_mul(2);
            if round_trip >= self.timeout {
                return Err(PlanError::new(
                    "--timeout",
                    format!(
                        "at {} baud the largest message is on the wire for {round_trip:.1?} there and back, \
                         so every reply would be late; give it more, or send less by --size",
                        line.baud
                    ),
                ));
            }
            if let Some(rate_hz) = self.rate_hz
                && rate_hz * round_trip.as_secs_f64() / 2.0 > 1.0
            {
                let most = 2.0 / round_trip.as_secs_f64();
                return Err(PlanError::new(
                    "--rate",
                    format!(
                        "at {} baud {most:.1} such messages a second fill the line; ask for fewer",
                        line.baud
                    ),
                ));
            }
        }
        Ok(())
    }

    /// A load of streams is raw sockets beside those that are measured.
    fn check_load(&self) -> Result<(), PlanError> {
        let Load::Stream(_) = self.load else {
            return Ok(());
        };
        let missing = self.addresses.iter().find(|address| match address {
            Address::Tls { .. } | Address::Serial(_) => true,
            Address::Tcp { .. } | Address::Udp { .. } | Address::Uds(_) => false,
        });
        match missing {
            None => Ok(()),
            Some(address) => {
                let why = format!("it pours over plain sockets, which {address} is not");
                Err(PlanError::new("--load stream", why))
            }
        }
    }

    /// What a socket of an address does not have is refused, and not left out in silence.
    fn check_socket_options(&self) -> Result<(), PlanError> {
        let socket = &self.socket;
        let given = [
            ("-4 or -6", socket.family.is_some(), Transport::Udp),
            ("--bind", socket.bind.is_some(), Transport::Udp),
            ("--interface", socket.interface.is_some(), Transport::Udp),
            ("--tos", socket.tos.is_some(), Transport::Udp),
            ("--congestion", socket.congestion.is_some(), Transport::Tcp),
            (
                "--sndbuf",
                socket.send_buffer_bytes.is_some(),
                Transport::Uds,
            ),
            (
                "--rcvbuf",
                socket.receive_buffer_bytes.is_some(),
                Transport::Uds,
            ),
            ("--so-busy-poll", socket.busy_poll.is_some(), Transport::Uds),
        ];
        for (option, _, last) in given.into_iter().filter(|(_, given, _)| *given) {
            for address in &self.addresses {
                let has = match transport_of(address) {
                    Transport::Tcp | Transport::Tls => true,
                    Transport::Udp => last != Transport::Tcp,
                    Transport::Uds => last == Transport::Uds,
                    Transport::Serial => {
                        let why = format!("{address} is a serial line, and no socket");
                        return Err(PlanError::new(option, why));
                    }
                };
                if !has {
                    return Err(PlanError::new(
                        option,
                        format!("a socket to {address} has no such option"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), PlanError> {
        if self.sizes.is_empty() {
            return Err(PlanError::new("--size", "needs at least one".to_owned()));
        }
        for (position, size) in self.sizes.iter().enumerate() {
            if self.sizes[..position].contains(size) {
                return Err(PlanError::new(
                    "--size",
                    format!("{size} stands there twice"),
                ));
            }
        }
        for address in &self.addresses {
            let transport = transport_of(address);
            let (least, most) = match transport {
                Transport::Udp | Transport::Serial => (HEADER_BYTES, DATAGRAM_LIMIT_BYTES),
                Transport::Tcp | Transport::Tls | Transport::Uds if self.rate_hz.is_some() => {
                    (LEAST_OPEN_LOOP_BYTES, MESSAGE_LIMIT_BYTES)
                }
                Transport::Tcp | Transport::Tls | Transport::Uds => (1, MESSAGE_LIMIT_BYTES),
            };
            for &size in &self.sizes {
                if !(least..=most).contains(&size) {
                    let how = if self.rate_hz.is_some() {
                        " with --rate"
                    } else {
                        ""
                    };
                    return Err(PlanError::new(
                        "--size",
                        format!("{size} is not within {least} to {most} over {transport}{how}"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_rate(&self) -> Result<(), PlanError> {
        let Some(rate_hz) = self.rate_hz else {
            return Ok(());
        };
        let refused = |why: String| Err(PlanError::new("--rate", why));
        if !(LEAST_RATE_HZ..=MOST_RATE_HZ).contains(&rate_hz) {
            return refused(format!(
                "{rate_hz} is not within {LEAST_RATE_HZ} to {MOST_RATE_HZ} a second"
            ));
        }
        if !self.interval.is_zero() {
            return refused("it is open loop and has no --interval".to_owned());
        }
        let each = outstanding(rate_hz / self.connections as f64, self.timeout);
        if each * self.connections as f64 > MOST_OUTSTANDING {
            return refused(format!(
                "with this --timeout {:.0} pings could be under way at once; at most {MOST_OUTSTANDING:.0} \
                 are remembered",
                each * self.connections as f64
            ));
        }
        Ok(())
    }
}

/// The transport of an address.
pub(crate) fn transport_of(address: &Address) -> Transport {
    match address {
        Address::Tcp { .. } => Transport::Tcp,
        Address::Udp { .. } => Transport::Udp,
        Address::Uds(_) => Transport::Uds,
        Address::Tls { .. } => Transport::Tls,
        Address::Serial(_) => Transport::Serial,
    }
}

/// With a quarter to spare, and a little more for slow starts.
fn outstanding(rate_hz: f64, timeout: Duration) -> f64 {
    (rate_hz * timeout.as_secs_f64() * 1.25).ceil() + 256.0
}

fn within(option: &'static str, value: u64, least: u64, most: u64) -> Result<(), PlanError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PlanError::new(
        option,
        format!("{value} is not within {least} to {most}"),
    ))
}

/// As many clients as a responder serves unless it is told otherwise. Each has up to a megabyte of memory.
const MOST_CONNECTIONS: u64 = 1_024;
const MOST_STREAMS: u64 = 64;
const MOST_WARMUP: u64 = 1_000_000_000;
const MOST_STEPS: u64 = 100_000;
const MOST_BUSY_POLL: Duration = Duration::from_secs(1);
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);
const MOST_TIMEOUT: Duration = Duration::from_secs(3_600);
const LEAST_RATE_HZ: f64 = 0.001;
const MOST_RATE_HZ: f64 = 10_000_000.0;
/// A ping of which less is known cannot be told from its neighbours in open loop.
const LEAST_OPEN_LOOP_BYTES: usize = 16;
/// 24 bytes each.
const MOST_OUTSTANDING: f64 = 4_000_000.0;

/// What a ping on one machine takes when its CPUs halt in between.
const PING_ESTIMATE_NS: f64 = 100_000.0;
/// Connecting and warming up.
const CELL_OVERHEAD: Duration = Duration::from_millis(1_200);
/// Clock, wake-up cost and counters, measured once.
const EVIDENCE_BOUND: Duration = Duration::from_secs(1);
/// Some 290 years.
const MOST_BOUND_NS: f64 = 9e18;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(address: &str) -> PingPlan {
        PingPlan {
            addresses: vec![address.parse().unwrap()],
            ..PingPlan::default()
        }
    }

    fn refusal(address: &str, change: impl FnOnce(&mut PingPlan)) -> String {
        let mut plan = plan(address);
        change(&mut plan);
        plan.checked().unwrap_err().to_string()
    }

    const TCP: &str = "tcp://127.0.0.1:6001";
    const UDP: &str = "udp://127.0.0.1:6001";

    #[test]
    fn the_defaults_can_be_measured() {
        for address in [TCP, UDP, "uds://@a", "tls://h:1", "serial:///dev/ttyS0"] {
            plan(address).checked().unwrap();
        }
    }

    #[test]
    fn each_transport_has_its_least_size() {
        let mut one = plan(TCP);
        one.sizes = vec![1];
        one.checked().unwrap();
        let said = refusal(TCP, |plan| plan.sizes = vec![0]);
        assert_eq!(said, "--size: 0 is not within 1 to 67108864 over tcp");
        let said = refusal(UDP, |plan| plan.sizes = vec![64, 31]);
        assert_eq!(said, "--size: 31 is not within 32 to 65507 over udp");
        let said = refusal(TCP, |plan| {
            plan.sizes = vec![4];
            plan.rate_hz = Some(100.0);
        });
        assert_eq!(
            said,
            "--size: 4 is not within 16 to 67108864 over tcp with --rate"
        );
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_name() {
        let said = refusal(TCP, |plan| plan.connections = 0);
        assert_eq!(said, "--connections: 0 is not within 1 to 1024");
        let said = refusal(TCP, |plan| plan.threads = Some(2));
        assert_eq!(said, "--threads: 2 is not within 1 to 1");
        let said = refusal(TCP, |plan| plan.timeout = Duration::ZERO);
        assert_eq!(said, "--timeout: it is not within 1ms to 1h");
        let said = refusal(TCP, |plan| plan.rate_hz = Some(0.0));
        assert_eq!(said, "--rate: 0 is not within 0.001 to 10000000 a second");
        let said = refusal(TCP, |plan| {
            plan.rate_hz = Some(1e6);
            plan.timeout = Duration::from_secs(60);
        });
        assert!(
            said.starts_with("--rate: with this --timeout 75000256 pings"),
            "{said}"
        );
    }

    #[test]
    fn a_line_has_one_connection_no_socket_and_the_time_that_it_takes() {
        const LINE: &str = "serial:///dev/ttyS0?baud=9600";
        plan(LINE).checked().unwrap();
        let said = refusal(LINE, |plan| plan.sizes = vec![16]);
        assert_eq!(said, "--size: 16 is not within 32 to 65507 over serial");
        let said = refusal(LINE, |plan| plan.connections = 2);
        assert_eq!(
            said,
            format!("-P: {LINE} is one line, and has one connection")
        );
        let said = refusal(LINE, |plan| plan.socket.send_buffer_bytes = Some(1));
        assert_eq!(
            said,
            format!("--sndbuf: {LINE} is a serial line, and no socket")
        );
        let said = refusal(LINE, |plan| plan.sizes = vec![1_024]);
        // 1,034 bytes of 10 bits, twice.
        assert!(
            said.starts_with("--timeout: at 9600 baud the largest message is on the wire for 2.2s"),
            "{said}"
        );
        let said = refusal(LINE, |plan| plan.rate_hz = Some(100.0));
        assert!(
            said.starts_with("--rate: at 9600 baud 13.7 such messages"),
            "{said}"
        );
        let mut counted = plan(LINE);
        (counted.count, counted.duration) = (Some(100), None);
        // 100 round trips of 70 bytes each way, and what every run needs.
        assert_eq!(counted.checked().unwrap().duration_bound().as_secs(), 16);
    }

    #[test]
    fn a_load_of_streams_is_refused_where_no_plain_socket_goes() {
        let said = refusal("tls://h:1", |plan| plan.load = Load::Stream(1));
        assert_eq!(
            said,
            "--load stream: it pours over plain sockets, which tls://h:1 is not"
        );
    }

    #[test]
    fn ten_thousand_hours_are_a_plan_like_any_other() {
        let mut plan = plan(TCP);
        plan.duration = Some(Duration::from_secs(36_000_000));
        let bound = plan.checked().unwrap().duration_bound();
        assert_eq!(bound.as_secs(), 36_000_002);
    }

    #[test]
    fn threads_are_as_many_as_connections_up_to_the_cpus() {
        let mut plan = plan(TCP);
        plan.connections = 4;
        assert_eq!((plan.threads_on(2), plan.threads_on(8)), (2, 4));
        plan.threads = Some(3);
        assert_eq!(plan.threads_on(1), 3);
    }
}
