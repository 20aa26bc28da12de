//! The targets: what runs beside what, under which condition, and what the ratio has to be.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use tautline::Strategy;
use tautline_gauge::plan::{Placement, Transport};

use super::crowd::Crowd;
use super::options::Options;
use super::paced::Wait;
use super::peers::{self, PeerSide};
use super::stream::{Bulk, Gather};

/// One of the library's targets. Numbers missing here are measured elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Target {
    T1,
    T2,
    T3,
    T4,
    T5,
    T6,
    T7,
    T8,
    T9,
    T10,
    T11,
    T12,
    T13,
    T14,
    T15,
    /// No target: what one message costs.
    Cost,
    /// No target: polling beside other load.
    Spin,
    /// No target: messages of sizes that no target names, beside peers.
    P1,
    /// No target: many connections at once.
    P2,
}

impl Target {
    pub(crate) const ALL: [Self; 19] = [
        Self::T1,
        Self::T2,
        Self::T3,
        Self::T4,
        Self::T5,
        Self::T6,
        Self::T7,
        Self::T8,
        Self::T9,
        Self::T10,
        Self::T11,
        Self::T12,
        Self::T13,
        Self::T14,
        Self::T15,
        Self::Cost,
        Self::Spin,
        Self::P1,
        Self::P2,
    ];

    /// Whether it has a study of its own instead of comparisons.
    pub(crate) const fn is_studied(self) -> bool {
        matches!(
            self,
            Self::T11 | Self::T12 | Self::T13 | Self::T14 | Self::Cost | Self::Spin
        )
    }

    /// What is compared, in words.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::T1 => "direct echo p50 / blocking control",
            Self::T2 => "callback echo p50 / blocking control on one core, / raw epoll awake",
            Self::T3 => {
                "direct echo p50 with 50 us of spin / raw poll with yield, / blocking control"
            }
            Self::T4 => "reliable stream, 64 B tcp / raw writers that coalesce or write each",
            Self::T5 => "reliable stream, 64 B uds / raw writer that writes each",
            Self::T6 => "reliable stream of large messages / the best of four raw writers",
            Self::T7 => {
                "received rate of 64 B udp / raw send and recv (on loopback a batch is one skb)"
            }
            Self::T8 => "received rate of 64 B, reliable / besteffort that yields after a refusal",
            Self::T9 => "256 pipelined echoes, callback server / raw server that writes each reply",
            Self::T10 => "64 B tcp in an open loop, p99 response / raw sockets",
            Self::T11 => "allocations a message after the first thousand",
            Self::T12 => "many idle links, server and clients in two processes; one message to all",
            Self::T13 => "the program's ping / sockperf, both beside a raw blocking client, awake",
            Self::T14 => "recording one sample, and the memory of a billion",
            Self::T15 => "try_send p99 beside a thread that sends through the same link",
            Self::Cost => "what one message costs both ends together",
            Self::Spin => "direct echo with 50 us of spin, and without, beside two busy processes",
            Self::P2 => "callback echo on many connections at once / raw epoll, / tokio",
            Self::P1 => "streams of a size that no target names / what people would otherwise use",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::T1 => "T1",
            Self::T2 => "T2",
            Self::T3 => "T3",
            Self::T4 => "T4",
            Self::T5 => "T5",
            Self::T6 => "T6",
            Self::T7 => "T7",
            Self::T8 => "T8",
            Self::T9 => "T9",
            Self::T10 => "T10",
            Self::T11 => "T11",
            Self::T12 => "T12",
            Self::T13 => "T13",
            Self::T14 => "T14",
            Self::T15 => "T15",
            Self::Cost => "cost",
            Self::Spin => "spin",
            Self::P1 => "P1",
            Self::P2 => "P2",
        })
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL
            .into_iter()
            .find(|target| target.to_string().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let all = Self::ALL.map(|target| target.to_string());
            format!("no such target; there are {}", all.join(" "))
        })
    }
}

/// How the threads sit and whether CPUs may halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    /// Both ends on one CPU: it never halts in between.
    OneCore,
    /// Two CPUs that are kept from halting.
    Awake,
    /// Two CPUs as booted, in an exchange in which they would halt.
    Halting,
    /// Two CPUs as booted.
    Split,
    /// Nothing pinned, as booted.
    Free,
    /// As split, and over a veth pair between two namespaces instead of loopback.
    Veth,
}

impl Condition {
    pub(crate) const fn placement(self) -> Placement {
        match self {
            Self::OneCore => Placement::Same,
            Self::Awake | Self::Halting | Self::Split | Self::Veth => Placement::Split,
            Self::Free => Placement::Free,
        }
    }

    pub(crate) const fn stays_awake(self) -> bool {
        matches!(self, Self::Awake)
    }
}

impl FromStr for Condition {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "one-core" => Ok(Self::OneCore),
            "awake" => Ok(Self::Awake),
            "halting" => Ok(Self::Halting),
            "split" => Ok(Self::Split),
            "free" => Ok(Self::Free),
            "veth" => Ok(Self::Veth),
            _ => Err("no such condition; there are one-core awake halting split free veth"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OneCore => "one core",
            Self::Awake => "awake",
            Self::Halting => "halting",
            Self::Split => "split",
            Self::Free => "free",
            Self::Veth => "veth",
        })
    }
}

/// What runs on one side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideKind {
    /// `DirectLink` at both ends.
    Direct,
    /// The same, polling for a while before it sleeps.
    Spin,
    /// Client and server in callbacks, each on an I/O thread of its own.
    Callback,
    /// Raw blocking sockets.
    Blocking,
    /// Raw sockets that never block, polled with `sched_yield`.
    PollYield,
    /// Raw sockets on level-triggered epoll, answered inline.
    Epoll,
    /// A link's stream to a callback server.
    Link(Strategy),
    /// A raw stream to a raw receiver.
    Raw(Gather),
    /// Raw datagrams to a raw receiver.
    Datagrams(Bulk),
    /// A link in an open loop of this rate.
    Paced(u64),
    /// Raw sockets in an open loop of this rate.
    PacedRaw(Wait, u64),
    /// Pipelined echoes over a callback server.
    BatchCallback,
    /// Pipelined echoes over a raw server that writes each reply.
    BatchEach,
    /// `try_send` while another thread is in the system call of its own send.
    TrySendCaught,
    /// `try_send` while another thread sends without a pause.
    TrySendFlooded,
    /// A push onto a queue behind a mutex that nobody else wants.
    MutexPush,
    /// Client and server in callbacks, many connections at once.
    CrowdCallback(Crowd),
    /// The same over raw sockets in one epoll set at each end.
    CrowdEpoll(Crowd),
    /// What people would otherwise use.
    Peer(PeerSide),
}

impl SideKind {
    /// The raw stream of a call a message.
    pub(crate) const fn write_each(transport: Transport) -> Option<Self> {
        match transport {
            Transport::Tcp | Transport::Uds => Some(Self::Raw(Gather::Each)),
            Transport::Udp => Some(Self::Datagrams(Bulk::Each)),
            Transport::Tls | Transport::Serial => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Spin => "spin",
            Self::Callback => "callback",
            Self::Blocking => "blocking",
            Self::PollYield => "poll+yield",
            Self::Epoll => "epoll",
            Self::Link(Strategy::Reliable) => "reliable",
            Self::Link(Strategy::BestEffort) => "besteffort",
            Self::Link(Strategy::KeepLatest) => "keeplatest",
            Self::Raw(gather) => gather.name(),
            Self::Datagrams(bulk) => bulk.name(),
            Self::Paced(_) => "callback",
            Self::PacedRaw(Wait::Blocking, _) => "blocking",
            Self::PacedRaw(Wait::Epoll, _) => "epoll",
            Self::BatchCallback => "callback",
            Self::BatchEach => "write each",
            Self::TrySendCaught => "in its call",
            Self::TrySendFlooded => "flooded",
            Self::MutexPush => "mutex push",
            Self::CrowdCallback(_) => "callback",
            Self::CrowdEpoll(_) => "epoll",
            Self::Peer(peer) => peer.name(),
        }
    }

    fn expected(self, options: &Options) -> Duration {
        let rounds = options.rounds as u32;
        if let Self::Peer(peer) = self
            && let Some((most_rounds, round)) = peer.takes()
        {
            return rounds.min(most_rounds) * round;
        }
        // One block to warm up, and a tenth of one before each round.
        options.block + rounds * (options.block + options.block / 10)
    }

    /// How many connections it has, where that is the point.
    pub(crate) const fn connections(self) -> Option<usize> {
        match self {
            Self::CrowdCallback(crowd)
            | Self::CrowdEpoll(crowd)
            | Self::Peer(PeerSide::TokioCrowd(crowd)) => Some(crowd.connections()),
            Self::Direct
            | Self::Spin
            | Self::Callback
            | Self::Blocking
            | Self::PollYield
            | Self::Epoll
            | Self::Link(_)
            | Self::Raw(_)
            | Self::Datagrams(_)
            | Self::Paced(_)
            | Self::PacedRaw(_, _)
            | Self::BatchCallback
            | Self::BatchEach
            | Self::TrySendCaught
            | Self::TrySendFlooded
            | Self::MutexPush
            | Self::Peer(_) => None,
        }
    }
}

/// What is required of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    RatioWithin(f64, f64),
    /// Of the product's figure itself, in nanoseconds.
    NanosecondsAtMost(f64),
    /// No worse than the peer: a list of its own says where it is.
    Peer(Better),
    /// Nothing: the row is there to explain another.
    Reported,
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// One row to come: the product against one control, or against the best of several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) product: SideKind,
    /// One of the group's controls; where there are several, the one with the best median.
    pub(crate) controls: Vec<SideKind>,
    pub(crate) limit: Limit,
}

/// Sides that run in the same rounds, and the rows that come of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) target: Target,
    pub(crate) condition: Condition,
    pub(crate) transport: Transport,
    pub(crate) payload_bytes: usize,
    pub(crate) comparisons: Vec<Comparison>,
}

impl Group {
    /// Every side, each once.
    pub(crate) fn sides(&self) -> Vec<SideKind> {
        let mut sides = Vec::new();
        for comparison in &self.comparisons {
            for side in [&comparison.product]
                .into_iter()
                .chain(&comparison.controls)
            {
                if !sides.contains(side) {
                    sides.push(*side);
                }
            }
        }
        sides
    }
}

/// The groups of `target` that were asked for, in the order in which they run.
pub(crate) fn groups(target: Target, options: &Options) -> Vec<Group> {
    let mut groups = match target {
        Target::T1 => direct_echo(),
        Target::T2 => callback_echo(),
        Target::T3 => spinning_echo(),
        Target::T4 => small_stream_over_tcp(),
        Target::T5 => small_stream_over_uds(),
        Target::T6 => large_stream(),
        Target::T7 => datagrams(),
        Target::T8 => strategies(),
        Target::T9 => pipelined(),
        Target::T10 => open_loop(options.rate_hz),
        Target::T15 => try_send(),
        // These are no comparisons: `study` has them.
        Target::T11 | Target::T12 | Target::T13 | Target::T14 | Target::Cost | Target::Spin => {
            Vec::new()
        }
        Target::P1 => peers::streams(),
        Target::P2 => crowds(),
    };
    peers::join(&mut groups, &options.peers);
    groups.retain(|group| options.keeps(group));
    groups
}

/// How long all that was asked for takes on a quiet machine, setting up left out.
pub(crate) fn expected(options: &Options) -> Duration {
    let groups = Target::ALL
        .into_iter()
        .flat_map(|target| groups(target, options));
    let sides = groups.flat_map(|group| group.sides());
    sides.map(|side| side.expected(options)).sum()
}

fn direct_echo() -> Vec<Group> {
    each_echo(
        Target::T1,
        &[Condition::OneCore, Condition::Awake],
        |_, _| {
            vec![against(
                SideKind::Direct,
                SideKind::Blocking,
                Limit::RatioAtMost(1.05),
            )]
        },
    )
}

fn callback_echo() -> Vec<Group> {
    let conditions = [Condition::OneCore, Condition::Awake];
    each_echo(Target::T2, &conditions, |condition, transport| {
        let (control, most) = match (condition, transport) {
            (Condition::OneCore, Transport::Udp) => (SideKind::Blocking, 1.25),
            (
                Condition::OneCore,
                Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial,
            ) => (SideKind::Blocking, 1.15),
            (
                Condition::Awake
                | Condition::Halting
                | Condition::Split
                | Condition::Free
                | Condition::Veth,
                _,
            ) => (SideKind::Epoll, 1.1),
        };
        let mut comparisons = vec![against(
            SideKind::Callback,
            control,
            Limit::RatioAtMost(most),
        )];
        if control != SideKind::Epoll {
            // What any callback costs on this machine.
            comparisons.push(against(
                SideKind::Callback,
                SideKind::Epoll,
                Limit::Reported,
            ));
        }
        comparisons
    })
}

fn spinning_echo() -> Vec<Group> {
    let mut groups = each_echo(Target::T3, &[Condition::Halting], |_, transport| {
        let beside_polling = match transport {
            Transport::Udp => 1.3,
            Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => 1.2,
        };
        vec![
            against(
                SideKind::Spin,
                SideKind::PollYield,
                Limit::RatioAtMost(beside_polling),
            ),
            against(SideKind::Spin, SideKind::Blocking, Limit::RatioAtMost(0.2)),
        ]
    });
    groups.retain(|group| group.payload_bytes <= 16 * 1024);
    groups
}

fn small_stream_over_tcp() -> Vec<Group> {
    let cell = |condition, beside_coalescing, beside_each| Group {
        target: Target::T4,
        condition,
        transport: Transport::Tcp,
        payload_bytes: SMALL,
        comparisons: vec![
            against(RELIABLE, COALESCE, Limit::RatioAtLeast(beside_coalescing)),
            against(RELIABLE, WRITE_EACH, Limit::RatioAtLeast(beside_each)),
        ],
    };
    vec![
        cell(Condition::Split, 0.4, 100.0),
        cell(Condition::OneCore, 0.6, 40.0),
    ]
}

fn small_stream_over_uds() -> Vec<Group> {
    let cell = |condition, beside_each| Group {
        target: Target::T5,
        condition,
        transport: Transport::Uds,
        payload_bytes: SMALL,
        comparisons: vec![against(
            RELIABLE,
            WRITE_EACH,
            Limit::RatioAtLeast(beside_each),
        )],
    };
    vec![cell(Condition::Split, 20.0), cell(Condition::OneCore, 40.0)]
}

fn large_stream() -> Vec<Group> {
    let best = Comparison {
        product: RELIABLE,
        controls: vec![
            WRITE_EACH,
            COALESCE,
            SideKind::Raw(Gather::Slices(64 * 1024)),
            SideKind::Raw(Gather::Slices(256 * 1024)),
        ],
        limit: Limit::RatioAtLeast(0.9),
    };
    let mut groups = Vec::new();
    for condition in [Condition::Split, Condition::OneCore] {
        for transport in [Transport::Tcp, Transport::Uds] {
            for payload_bytes in [16 * 1024, 64 * 1024] {
                groups.push(Group {
                    target: Target::T6,
                    condition,
                    transport,
                    payload_bytes,
                    comparisons: vec![best.clone()],
                });
            }
        }
    }
    groups
}

fn datagrams() -> Vec<Group> {
    let cell = |condition, limit| Group {
        target: Target::T7,
        condition,
        transport: Transport::Udp,
        payload_bytes: SMALL,
        comparisons: vec![
            against(RELIABLE, SideKind::Datagrams(Bulk::Each), limit),
            // What a batch a call comes to on this machine.
            against(
                RELIABLE,
                SideKind::Datagrams(Bulk::Segments),
                Limit::Reported,
            ),
        ],
    };
    vec![
        cell(Condition::Split, Limit::RatioAtLeast(30.0)),
        cell(Condition::OneCore, Limit::Reported),
        cell(Condition::Veth, Limit::Reported),
    ]
}

fn open_loop(rate_hz: Option<u64>) -> Vec<Group> {
    let cell = |condition, rate_hz, limit| Group {
        target: Target::T10,
        condition,
        transport: Transport::Tcp,
        payload_bytes: SMALL,
        comparisons: vec![
            against(
                SideKind::Paced(rate_hz),
                SideKind::PacedRaw(Wait::Epoll, rate_hz),
                limit,
            ),
            against(
                SideKind::Paced(rate_hz),
                SideKind::PacedRaw(Wait::Blocking, rate_hz),
                Limit::Reported,
            ),
        ],
    };
    let at = |rate_hz: u64, limits: [Limit; 2]| {
        [Condition::Free, Condition::Awake]
            .into_iter()
            .zip(limits)
            .map(move |(condition, limit)| cell(condition, rate_hz, limit))
    };
    let reported = [Limit::Reported; 2];
    let target = [Limit::RatioAtMost(0.5), Limit::RatioAtMost(1.1)];
    match rate_hz {
        Some(TARGET_HZ) => at(TARGET_HZ, target).collect(),
        Some(rate_hz) => at(rate_hz, reported).collect(),
        None => {
            let mut groups: Vec<_> = at(TARGET_HZ, target).collect();
            groups.extend(at(FASTER_HZ, reported));
            groups.push(cell(Condition::OneCore, FASTER_HZ, Limit::Reported));
            groups
        }
    }
}

fn strategies() -> Vec<Group> {
    let mut groups = Vec::new();
    for condition in [Condition::Split, Condition::OneCore] {
        for transport in TRANSPORTS {
            groups.push(Group {
                target: Target::T8,
                condition,
                transport,
                payload_bytes: SMALL,
                comparisons: vec![against(
                    RELIABLE,
                    SideKind::Link(Strategy::BestEffort),
                    Limit::RatioWithin(0.95, 1.05),
                )],
            });
        }
    }
    groups
}

fn pipelined() -> Vec<Group> {
    let cell = |transport| Group {
        target: Target::T9,
        condition: Condition::Split,
        transport,
        payload_bytes: SMALL,
        comparisons: vec![against(
            SideKind::BatchCallback,
            SideKind::BatchEach,
            Limit::RatioAtMost(0.125),
        )],
    };
    vec![cell(Transport::Tcp), cell(Transport::Uds)]
}

fn try_send() -> Vec<Group> {
    let cell = |payload_bytes| Group {
        target: Target::T15,
        condition: Condition::Split,
        transport: Transport::Tcp,
        payload_bytes,
        comparisons: [SideKind::TrySendCaught, SideKind::TrySendFlooded]
            .map(|product| {
                against(
                    product,
                    SideKind::MutexPush,
                    Limit::NanosecondsAtMost(1_000.0),
                )
            })
            .to_vec(),
    };
    vec![cell(SMALL), cell(16 * 1024)]
}

fn crowds() -> Vec<Group> {
    let mut groups = Vec::new();
    for condition in [Condition::Split, Condition::OneCore] {
        for crowd in Crowd::ALL {
            groups.push(Group {
                target: Target::P2,
                condition,
                transport: Transport::Tcp,
                payload_bytes: SMALL,
                comparisons: vec![against(
                    SideKind::CrowdCallback(crowd),
                    SideKind::CrowdEpoll(crowd),
                    Limit::Reported,
                )],
            });
        }
    }
    groups
}

/// Round trips over every transport and payload, under each condition.
fn each_echo(
    target: Target,
    conditions: &[Condition],
    comparisons: impl Fn(Condition, Transport) -> Vec<Comparison>,
) -> Vec<Group> {
    let mut groups = Vec::new();
    for &condition in conditions {
        for transport in TRANSPORTS {
            for payload_bytes in [SMALL, 1024, 16 * 1024, 64 * 1024] {
                groups.push(Group {
                    target,
                    condition,
                    transport,
                    payload_bytes: payload_bytes.min(transport.payload_limit_bytes()),
                    comparisons: comparisons(condition, transport),
                });
            }
        }
    }
    groups
}

fn against(product: SideKind, control: SideKind, limit: Limit) -> Comparison {
    Comparison {
        product,
        controls: vec![control],
        limit,
    }
}

pub(crate) const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Uds, Transport::Udp];
pub(crate) const SMALL: usize = 64;
const TARGET_HZ: u64 = 100_000;
/// Where one that writes each message is near its end.
const FASTER_HZ: u64 = 150_000;
pub(crate) const RELIABLE: SideKind = SideKind::Link(Strategy::Reliable);
const WRITE_EACH: SideKind = SideKind::Raw(Gather::Each);
const COALESCE: SideKind = SideKind::Raw(Gather::Copies(64 * 1024));
