//! Who shares one queue: the peers of a datagram server, each with counters of its own.

use crate::account::{Account, Tally};
use crate::block::PeerId;
use crate::outbound::Discard;

/// A slot per peer. A slot is used again only when nothing of its last peer waits any more.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    life: u32,
    /// Why its peer is gone; `None` while it is open.
    departed: Option<Discard>,
    account: Account,
}

impl Peers {
    pub(crate) fn open(&mut self) -> PeerId {
        let free = |slot: &Slot| slot.departed.is_some() && slot.account.waiting().is_zero();
        let index = self.slots.iter().position(free).unwrap_or_else(|| {
            self.slots.push(Slot {
                life: 0,
                departed: None,
                account: Account::default(),
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        *slot = Slot {
            // Four billion lives of one slot: a peer a second for more than a century.
            life: slot.life.wrapping_add(1).max(1),
            departed: None,
            account: Account::default(),
        };
        PeerId {
            // The table is bounded by the server's connection limit, far below 32 bits.
            slot: index as u32,
            life: slot.life,
        }
    }

    pub(crate) fn close(&mut self, peer: PeerId, cause: Discard) {
        let slot = self.slots.get_mut(peer.slot as usize);
        if let Some(slot) = slot.filter(|slot| slot.life == peer.life && slot.departed.is_none()) {
            slot.departed = Some(cause);
        }
    }

    pub(crate) fn is_open(&self, peer: PeerId) -> bool {
        self.slot(peer).is_some_and(|slot| slot.departed.is_none())
    }

    /// Why a peer for which something still waits is gone; `None` while it is open.
    pub(crate) fn departed(&self, peer: PeerId) -> Option<Discard> {
        self.slot(peer).and_then(|slot| slot.departed)
    }

    pub(crate) fn account(&self, peer: PeerId) -> Option<&Account> {
        self.slot(peer).map(|slot| &slot.account)
    }

    pub(crate) fn account_mut(&mut self, peer: PeerId) -> Option<&mut Account> {
        self.slots
            .get_mut(peer.slot as usize)
            .filter(|slot| slot.life == peer.life)
            .map(|slot| &mut slot.account)
    }

    pub(crate) fn waiting(&self, peer: PeerId) -> Tally {
        self.account(peer)
            .map_or_else(Tally::default, Account::waiting)
    }

    fn slot(&self, peer: PeerId) -> Option<&Slot> {
        self.slots
            .get(peer.slot as usize)
            .filter(|slot| slot.life == peer.life)
    }
}
