//! What a server counts over all its peers, those that have gone among them.

use std::sync::atomic::Ordering;

use tautline_session::Outbound;

use super::{ServerShared, ServerSocket};
use crate::error::Error;
use crate::secured::TlsStatistics;
use crate::statistics::LinkStatistics;

/// What a server has counted over all the peers it ever had.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ServerStatistics {
    /// All peers together. `peak` is the largest of theirs; `last_receive_age` the youngest.
    pub peers: LinkStatistics,
    /// Peers connected now.
    pub connected: usize,
    /// Peers accepted since the start: they were given a handler.
    pub accepted: u64,
    /// Peers turned away: over the connection limit, or refused by the accept callback.
    pub turned_away: u64,
    /// Times that accepting failed for want of descriptors or memory; tried again after a pause.
    pub accept_shortages: u64,
    /// Times that accepting failed for any other reason; tried again after a pause.
    pub accept_failures: u64,
    /// Multicast groups that a UDP server has joined now, of [`groups`](crate::ServerOptions::groups)
    /// and that which it listens on. Fewer than it was given: an interface is gone.
    pub groups_joined: usize,
    /// Times that a group was lost with its interface, or that the routes chose another.
    pub groups_lost: u64,
    /// The handshakes of a TLS server's newcomers.
    pub handshakes: HandshakeStatistics,
    /// Calls of [`Server::broadcast`](crate::Server::broadcast) and `broadcast_except`.
    pub broadcasts: u64,
    /// Messages that peers took from broadcasts; these are among `peers.sending.accepted`.
    pub broadcasts_accepted: u64,
    /// Messages from broadcasts that peers did not take, for whatever cause.
    pub broadcasts_refused: u64,
}

/// What became of newcomers before a TLS server got to know them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HandshakeStatistics {
    /// Handshakes that were completed: what the accept callback was asked about.
    pub completed: u64,
    /// Those that failed: certificates that are not trusted, peers that do not speak TLS or went away.
    pub failed: u64,
    /// Those that were cut off after [`handshake_timeout`](crate::Tls::handshake_timeout).
    pub timed_out: u64,
    /// Why the last one came to nothing, and from where it came.
    pub last_failure: Option<Error>,
}

impl ServerShared {
    pub(super) fn statistics(&self) -> ServerStatistics {
        let state = self.state();
        let mut peers = state.gone.clone();
        for peer in state.live.values() {
            peers.add(&peer.statistics());
        }
        peers.receiving.unreachable += self.unreachable.load(Ordering::Relaxed);
        if let ServerSocket::Datagram(channel) = &self.socket {
            peers.sending = channel.read(Outbound::statistics);
        }
        let mut statistics = ServerStatistics {
            peers,
            connected: state.live.len(),
            accepted: state.accepted,
            turned_away: self.turned_away.load(Ordering::Relaxed),
            accept_shortages: self.accept_shortages.load(Ordering::Relaxed),
            accept_failures: self.accept_failures.load(Ordering::Relaxed),
            groups_joined: self.groups_joined.load(Ordering::Relaxed),
            groups_lost: self.groups_lost.load(Ordering::Relaxed),
            handshakes: state.handshakes.clone(),
            ..ServerStatistics::default()
        };
        self.broadcasts.tell(&mut statistics);
        statistics
    }
}

impl LinkStatistics {
    /// Adds another link's counters: sums are summed, peaks are the larger.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sending.merge(&other.sending);
        self.receiving.add(&other.receiving);
        self.connections.add(other.connections);
        TlsStatistics::add(&mut self.tls, other.tls);
    }
}
