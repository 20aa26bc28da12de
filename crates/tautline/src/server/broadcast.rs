//! One message to every peer of a server, without waiting for any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tautline_session::{Call, Encoded, Framing};

use super::{Server, ServerShared, ServerStatistics};
use crate::error::SendError;
use crate::link::{Link, LinkShared};

/// What became of a [`Server::broadcast`], peer by peer: `targets` is the sum of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Broadcast {
    /// Peers that were there. None is no failure, and is no refusal either.
    pub targets: usize,
    /// Peers whose queue took the message.
    pub accepted: usize,
    /// Peers without room: [`SendError::Full`].
    pub full: usize,
    /// Peers for which it is too large: [`SendError::TooLarge`].
    pub too_large: usize,
    /// Their framing cannot carry the message; see [`SendError::Unframeable`].
    pub unframeable: usize,
    /// Peers that were just coming, or had lost their connection: [`SendError::NotConnected`].
    pub not_connected: usize,
    /// Peers that are being closed: [`SendError::Closed`].
    pub closed: usize,
}

impl Broadcast {
    /// Peers that did not take the message, for whatever cause.
    pub const fn refused(&self) -> usize {
        self.targets - self.accepted
    }

    const fn count(&mut self, outcome: Result<(), SendError>) {
        self.targets += 1;
        let counter = match outcome {
            Ok(()) => &mut self.accepted,
            // A try never waits, so neither of the other two comes of it.
            Err(SendError::Full | SendError::TimedOut | SendError::WouldDeadlock) => &mut self.full,
            Err(SendError::TooLarge { .. }) => &mut self.too_large,
            Err(SendError::Unframeable) => &mut self.unframeable,
            Err(SendError::NotConnected) => &mut self.not_connected,
            Err(SendError::Closed) => &mut self.closed,
        };
        *counter += 1;
    }
}

impl Server {
    /// Offers one message to every peer that is connected now, by the rules of
    /// [`Link::try_send`](crate::Link::try_send): it never waits, whatever the strategy. A keeplatest
    /// peer evicts its oldest, the others are counted as full, so a stalled peer holds up nobody. From
    /// any thread, and inside callbacks.
    ///
    /// Peers that come while it runs may or may not get the message. Two broadcasts from one thread
    /// reach each peer in their order.
    ///
    /// The message is encoded once. With a framing that does more than put a header before it, that takes
    /// one buffer; nothing else is allocated while peers neither come nor go.
    pub fn broadcast(&self, message: &[u8]) -> Broadcast {
        self.shared.broadcast(message, None)
    }

    /// As [`broadcast`](Self::broadcast), to all but one: what a peer said, for the others.
    pub fn broadcast_except(&self, message: &[u8], except: &Link) -> Broadcast {
        self.shared.broadcast(message, Some(except))
    }
}

/// What a server counts of its broadcasts.
#[derive(Debug, Default)]
pub(super) struct BroadcastCounters {
    broadcasts: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl BroadcastCounters {
    pub(super) fn tell(&self, statistics: &mut ServerStatistics) {
        statistics.broadcasts = self.broadcasts.load(Ordering::Relaxed);
        statistics.broadcasts_accepted = self.accepted.load(Ordering::Relaxed);
        statistics.broadcasts_refused = self.refused.load(Ordering::Relaxed);
    }
}

impl ServerShared {
    fn broadcast(&self, message: &[u8], except: Option<&Link>) -> Broadcast {
        let mut broadcast = Broadcast::default();
        let roster = self.roster();
        let message = Once::encode(&roster, message);
        for peer in roster.iter() {
            if except.is_none_or(|except| !Arc::ptr_eq(peer, except.shared())) {
                broadcast.count(message.offer_to(peer));
            }
        }
        let counters = &self.broadcasts;
        let add = |counter: &AtomicU64, more: usize| {
            counter.fetch_add(more as u64, Ordering::Relaxed);
        };
        add(&counters.broadcasts, 1);
        add(&counters.accepted, broadcast.accepted);
        add(&counters.refused, broadcast.refused());
        broadcast
    }

    /// The peers of this moment, for whoever goes through them without the server's lock: a list that
    /// is made when one is asked for after a peer has come or gone.
    fn roster(&self) -> Arc<Vec<Arc<LinkShared>>> {
        let mut state = self.state();
        if let Some(roster) = &state.roster {
            return Arc::clone(roster);
        }
        let roster = Arc::new(state.live.values().cloned().collect());
        state.roster = Some(Arc::clone(&roster));
        roster
    }
}

/// A message for many peers, encoded once.
enum Once<'a> {
    /// A header of a few bytes goes before it, which is less than a copy: each peer does it for itself.
    Headed(&'a [u8]),
    Encoded(Encoded),
    Unframeable,
}

impl<'a> Once<'a> {
    /// All peers of a server have the framing of its options.
    fn encode(roster: &[Arc<LinkShared>], message: &'a [u8]) -> Self {
        let framing = roster.first().map(|peer| peer.channel.framing());
        match framing {
            None | Some(Framing::Raw | Framing::LengthPrefix { .. }) => Self::Headed(message),
            Some(
                framing @ (Framing::Lines(_)
                | Framing::Pattern(_)
                | Framing::Cobs
                | Framing::Own(_)),
            ) => {
                let mut encoded = Encoded::default();
                match encoded.encode(&framing, message) {
                    Ok(()) => Self::Encoded(encoded),
                    Err(_) => Self::Unframeable,
                }
            }
        }
    }

    fn offer_to(&self, peer: &LinkShared) -> Result<(), SendError> {
        match self {
            Self::Headed(message) => peer.try_send(message),
            Self::Encoded(encoded) => {
                peer.channel
                    .send_encoded(encoded, peer.peer, Call::Try, None)
            }
            Self::Unframeable => Err(SendError::Unframeable),
        }
    }
}
