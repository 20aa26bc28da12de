//! What a responder is asked to do, and what clients may take of it.

use std::time::Duration;

use tautline::{Address, ClientCertificates, Tls};

use super::allow::Network;
use crate::plan::PlacementPlan;

/// What to serve, where, and for whom.
#[derive(Debug, Clone)]
pub struct ServePlan {
    /// Where: `tcp`, `tls`, `udp`, `uds` and `serial`. Default: tcp and udp on every address of the machine, port 6001.
    pub addresses: Vec<Address>,
    /// Who may: networks over tcp, tls and udp; a Unix socket has its file's mode. Default: everybody.
    pub allow: Vec<Network>,
    /// Who we are over TLS, and whose clients are let in. An address of TLS needs an identity.
    pub tls: Tls,
    /// Whether TLS clients have to show a certificate. Default: they do not.
    pub client_certificates: ClientCertificates,
    /// Ends when the first client and whoever came meanwhile have left. Default: never.
    pub once: bool,
    /// Holds each reply exactly so long. Default: not at all.
    pub reply_delay: Duration,
    /// Polls so long for the next message of a stream before it sleeps. Default: sleeps at once.
    pub spin: Duration,
    /// Where the threads of clients run and how the machine is held. The CPUs are given to threads in
    /// turn; the shape has no meaning, a server has one side. Default: not pinned.
    pub placement: PlacementPlan,
    /// Bounds on what clients may take.
    pub limits: Limits,
}

/// Bounds on what clients may take. The defaults are far above what any measurement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most stream clients at a time, and most UDP clients that are remembered for each address a
    /// fourfold of it. Default 1,024: a thread each, some 200 KiB.
    pub clients: usize,
    /// A stream client that has not said what it wants by then is closed. Default 10 s: a slow link
    /// and a few retransmissions.
    pub hello: Duration,
    /// A client that does not take its replies for so long is closed. Default 30 s: a route that
    /// breaks and comes back.
    pub stalled: Duration,
    /// A client that sends nothing for so long is closed. Default 1 h: longer than any pause between
    /// two pings, and short enough that hosts that vanished do not fill the table.
    pub idle: Duration,
}

impl Default for ServePlan {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            allow: Vec::new(),
            tls: Tls::default(),
            client_certificates: ClientCertificates::None,
            once: false,
            reply_delay: Duration::ZERO,
            spin: Duration::ZERO,
            placement: PlacementPlan::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 1_024,
            hello: Duration::from_secs(10),
            stalled: Duration::from_secs(30),
            idle: Duration::from_secs(3_600),
        }
    }
}
