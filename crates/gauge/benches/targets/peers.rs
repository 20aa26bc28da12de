//! What people would otherwise use, measured in the same rounds and the same random order as the product.
//!
//! A peer does what its users do with it: its own runtime or process at each end, in the seats of the
//! product's ends, with the product's bytes on the wire where it lets us choose them. A peer that is not
//! on this machine, or does not work on it, is named and takes nothing else with it.

pub(crate) mod iperf3;
mod process;
pub(crate) mod sockperf;
mod tokio_echo;
pub(crate) mod tokio_end;
mod tokio_stream;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tautline_gauge::plan::Transport;

use super::crowd::{self, Crowd};
use super::list::{Better, Comparison, Condition, Group, Limit, RELIABLE, SMALL, SideKind, Target};
use super::options;
use super::rounds::Side;
use super::site::Site;
use tokio_stream::Way;

/// What is measured as a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Tokio,
    Sockperf,
    Iperf3,
}

impl Peer {
    pub(crate) const ALL: [Self; 3] = [Self::Tokio, Self::Sockperf, Self::Iperf3];

    /// What has to be on this machine for it.
    const fn program(self) -> Option<&'static str> {
        match self {
            Self::Tokio => None,
            Self::Sockperf => Some(sockperf::PROGRAM),
            Self::Iperf3 => Some(iperf3::PROGRAM),
        }
    }

    /// Why it cannot be measured here, in words.
    pub(crate) fn missing(self) -> Option<String> {
        let program = self.program()?;
        process::find(program)
            .is_none()
            .then(|| format!("{self}: not on this machine; `apt install {program}` brings it"))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tokio => "tokio",
            Self::Sockperf => "sockperf",
            Self::Iperf3 => "iperf3",
        })
    }
}

impl FromStr for Peer {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|peer| peer.to_string() == text);
        found.ok_or("no such peer; there are tokio sockperf iperf3, or none")
    }
}

/// The value of `--peers`.
pub(crate) fn parse(text: &str) -> Result<Vec<Peer>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    options::list("--peers", text)
}

/// One way of using a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerSide {
    /// Round trips, a `write_all` a reply, on a current-thread runtime at each end.
    TokioEcho,
    /// A stream between two such runtimes.
    TokioStream(Way),
    /// A task a connection, many at once.
    TokioCrowd(Crowd),
    Sockperf,
    Iperf3,
}

impl PeerSide {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TokioEcho | Self::TokioCrowd(_) => "tokio",
            Self::TokioStream(way) => way.name(),
            Self::Sockperf => "sockperf",
            Self::Iperf3 => "iperf3",
        }
    }

    const fn peer(self) -> Peer {
        match self {
            Self::TokioEcho | Self::TokioStream(_) | Self::TokioCrowd(_) => Peer::Tokio,
            Self::Sockperf => Peer::Sockperf,
            Self::Iperf3 => Peer::Iperf3,
        }
    }

    /// The most rounds of a program, and how long each takes, whatever is asked for.
    pub(crate) const fn takes(self) -> Option<(u32, Duration)> {
        match self {
            Self::TokioEcho | Self::TokioStream(_) | Self::TokioCrowd(_) => None,
            // It prints its figures two seconds after it has them.
            Self::Sockperf => Some((process::ROUNDS as u32, Duration::from_millis(3_300))),
            Self::Iperf3 => Some((process::ROUNDS as u32, Duration::from_millis(1_100))),
        }
    }

    /// Connects it; the calling thread will run its blocks.
    pub(crate) fn start(self, site: &Site) -> Result<Box<dyn Side>, String> {
        match self {
            Self::TokioEcho => tokio_echo::start(site),
            Self::TokioStream(way) => tokio_stream::start(site, way),
            Self::TokioCrowd(crowd) => crowd::start_tokio(site, crowd),
            Self::Sockperf => sockperf::start(site),
            Self::Iperf3 => iperf3::start(site),
        }
    }
}

/// The groups that are there for the peers' sake; `join` says what is in them.
pub(crate) fn streams() -> Vec<Group> {
    let mut groups = Vec::new();
    for condition in [Condition::Split, Condition::OneCore] {
        for transport in [Transport::Tcp, Transport::Uds] {
            groups.push(Group {
                target: Target::P1,
                condition,
                transport,
                payload_bytes: 1024,
                comparisons: Vec::new(),
            });
        }
    }
    groups
}

/// Sets those of `peers` that do what a group does beside its product.
pub(crate) fn join(groups: &mut Vec<Group>, peers: &[Peer]) {
    for group in &mut *groups {
        let (product, better, sides) = beside(group);
        let wanted = sides
            .into_iter()
            .filter(|side| peers.contains(&side.peer()));
        group.comparisons.extend(wanted.map(|side| Comparison {
            product,
            controls: vec![SideKind::Peer(side)],
            limit: Limit::Peer(better),
        }));
    }
    groups.retain(|group| !group.comparisons.is_empty());
}

/// Which side of a group its peers are compared with, and which peers there are.
fn beside(group: &Group) -> (SideKind, Better, Vec<PeerSide>) {
    let on_the_network = matches!(group.transport, Transport::Tcp | Transport::Udp);
    let mut sides = Vec::new();
    match group.target {
        Target::T1 => {
            if on_the_network && group.payload_bytes == SMALL {
                sides.push(PeerSide::Sockperf);
            }
            (SideKind::Direct, Better::Lower, sides)
        }
        Target::T2 => {
            if ECHO_PAYLOADS.contains(&group.payload_bytes) {
                sides.push(PeerSide::TokioEcho);
            }
            (SideKind::Callback, Better::Lower, sides)
        }
        Target::T4 | Target::T5 | Target::T6 | Target::P1 => {
            sides.extend(Way::OF_STREAMS.map(PeerSide::TokioStream));
            if group.transport == Transport::Tcp {
                // What no target names need not be told by everybody.
                sides.extend((group.target != Target::P1).then_some(PeerSide::Iperf3));
            }
            (RELIABLE, Better::Higher, sides)
        }
        Target::T7 | Target::T8 => {
            if group.transport == Transport::Udp && group.condition != Condition::Veth {
                sides.push(PeerSide::TokioStream(Way::Each));
            }
            (RELIABLE, Better::Higher, sides)
        }
        Target::P2 => {
            let product = group.comparisons[0].product;
            if let SideKind::CrowdCallback(crowd) = product {
                sides.push(PeerSide::TokioCrowd(crowd));
            }
            (product, Better::Lower, sides)
        }
        Target::T3
        | Target::T9
        | Target::T10
        | Target::T11
        | Target::T12
        | Target::T13
        | Target::T14
        | Target::T15
        | Target::Cost
        | Target::Spin => (RELIABLE, Better::Lower, sides),
    }
}

/// The smallest, and one that is mostly copying; the sizes between say nothing else about a peer.
const ECHO_PAYLOADS: [usize; 2] = [SMALL, 16 * 1024];
