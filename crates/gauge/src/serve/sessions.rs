//! What is remembered of UDP clients: their counts, in bounded memory.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::probe::Arrivals;
use crate::wire::Counts;

/// The sessions of one socket.
#[derive(Debug)]
pub(super) struct Sessions {
    slots: Vec<Session>,
    by_key: HashMap<Key, usize>,
    /// The latest session of each source, to which a damaged datagram is laid.
    latest: HashMap<SocketAddr, usize>,
    /// Where the search for a slot to give away begins.
    hand: usize,
    limit: usize,
}

/// A client: its source and its cookie.
pub(super) type Key = (SocketAddr, u64);

/// What one client has sent.
#[derive(Debug)]
pub(super) struct Session {
    key: Key,
    arrivals: Arrivals,
    received_bytes: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Sessions {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            by_key: HashMap::new(),
            latest: HashMap::new(),
            hand: 0,
            limit,
        }
    }

    /// The session of a client, a new one if it has none; `None` if all are in use.
    pub(super) fn of(&mut self, key: Key, now_ns: u64) -> Option<(&mut Session, IsNew)> {
        if let Some(&slot) = self.by_key.get(&key) {
            return Some((&mut self.slots[slot], IsNew(false)));
        }
        let slot = self.free_slot(now_ns)?;
        let session = Session::new(key, now_ns);
        if slot == self.slots.len() {
            self.slots.push(session);
        } else {
            let forgotten = std::mem::replace(&mut self.slots[slot], session);
            self.by_key.remove(&forgotten.key);
            if self.latest.get(&forgotten.key.0) == Some(&slot) {
                self.latest.remove(&forgotten.key.0);
            }
        }
        self.by_key.insert(key, slot);
        self.latest.insert(key.0, slot);
        Some((&mut self.slots[slot], IsNew(true)))
    }

    /// The session of a client, if it has one.
    pub(super) fn known(&self, key: Key) -> Option<&Session> {
        self.by_key.get(&key).map(|&slot| &self.slots[slot])
    }

    /// The latest session of a source, if it has one.
    pub(super) fn latest_of(&mut self, source: SocketAddr) -> Option<&mut Session> {
        let slot = *self.latest.get(&source)?;
        Some(&mut self.slots[slot])
    }

    /// Whether a new client would find no slot.
    pub(super) fn is_full(&self, now_ns: u64) -> bool {
        self.slots.len() == self.limit && self.idle_slot(now_ns).is_none()
    }

    fn free_slot(&mut self, now_ns: u64) -> Option<usize> {
        if self.slots.len() < self.limit {
            return Some(self.slots.len());
        }
        let slot = self.idle_slot(now_ns)?;
        self.hand = (slot + 1) % self.limit;
        Some(slot)
    }

    /// The one that has been silent longest of the next few, so that a flood of new clients costs no
    /// search through all; none that is active.
    fn idle_slot(&self, now_ns: u64) -> Option<usize> {
        (0..SEARCHED.min(self.limit))
            .map(|step| (self.hand + step) % self.limit)
            .min_by_key(|&slot| self.slots[slot].last_ns)
            .filter(|&slot| now_ns.saturating_sub(self.slots[slot].last_ns) > ACTIVE_NS)
    }
}

/// Whether a session is a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IsNew(pub(super) bool);

impl Session {
    fn new(key: Key, now_ns: u64) -> Self {
        Self {
            key,
            arrivals: Arrivals::with_window(WINDOW),
            received_bytes: 0,
            first_ns: now_ns,
            last_ns: now_ns,
        }
    }

    /// Counts one intact message of `bytes`; how many different ones there are with it.
    pub(super) fn arrived(&mut self, sequence: u64, bytes: usize, now_ns: u64) -> u64 {
        let before = self.arrivals.received();
        self.arrivals.arrived(sequence);
        let received = self.arrivals.received();
        if received > before {
            self.received_bytes += bytes as u64;
        }
        self.last_ns = now_ns;
        received
    }

    /// Counts one message that was not intact.
    pub(super) fn corrupted(&mut self, now_ns: u64) {
        self.arrivals.corrupted();
        self.last_ns = now_ns;
    }

    pub(super) fn counts(&self) -> Counts {
        self.arrivals.counts(
            self.received_bytes,
            self.last_ns.saturating_sub(self.first_ns),
        )
    }
}

/// Sequence numbers that a session looks back: 8 KiB. Nothing on the way holds a datagram back while
/// 65,000 others pass it.
const WINDOW: usize = 1 << 16;

/// A client that sent something within a second keeps its slot.
const ACTIVE_NS: u64 = 1_000_000_000;

/// Slots looked at for one to give away.
const SEARCHED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn key(number: u16) -> Key {
        (SocketAddr::from(([10, 0, 0, 1], number)), number.into())
    }

    #[test]
    fn the_table_is_bounded_and_the_silent_make_room() {
        let mut sessions = Sessions::new(2);
        assert!(sessions.of(key(1), 0).is_some());
        assert!(sessions.of(key(2), SECOND).is_some());
        assert!(sessions.of(key(3), SECOND / 2).is_none(), "both are active");
        assert!(sessions.is_full(SECOND / 2));
        assert!(sessions.of(key(3), 2 * SECOND).is_some());
        assert!(sessions.known(key(1)).is_none(), "silent for two seconds");
        assert!(sessions.latest_of(key(1).0).is_none());
        assert!(sessions.known(key(2)).is_some());
    }

    #[test]
    fn a_session_counts_different_messages() {
        let mut sessions = Sessions::new(2);
        let (session, is_new) = sessions.of(key(1), 5).unwrap();
        assert_eq!(is_new, IsNew(true));
        let counted = [0, 2, 1, 1].map(|sequence| session.arrived(sequence, 100, 25));
        assert_eq!(counted, [1, 2, 3, 3]);
        sessions.latest_of(key(1).0).unwrap().corrupted(35);
        let counts = sessions.known(key(1)).unwrap().counts();
        let expected = Counts {
            received_messages: 3,
            received_bytes: 300,
            duplicates: 1,
            reordered: 1,
            corrupted: 1,
            elapsed_ns: 30,
        };
        assert_eq!(counts, expected);
    }
}
