//! Who shares one queue: the peers of a datagram server, each with counters of its own.

use crate::account::{Account, Tally};
use crate::block::PeerId;

/// A slot per peer. A slot is used again only when nothing of its last peer waits any more.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    slots: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    open: bool,
    account: Account,
}

impl Peers {
    pub(crate) fn open(&mut self) -> PeerId {
        let free = |slot: &Slot| !slot.open && slot.account.waiting().is_zero();
        let index = self.slots.iter().position(free).unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[index] = Slot {
            open: true,
            account: Account::default(),
        };
        // The table is bounded by the server's connection limit, far below 32 bits.
        PeerId(index as u32)
    }

    pub(crate) fn close(&mut self, peer: PeerId) {
        if let Some(slot) = self.slots.get_mut(peer.0 as usize) {
            slot.open = false;
        }
    }

    pub(crate) fn is_open(&self, peer: PeerId) -> bool {
        self.slots
            .get(peer.0 as usize)
            .is_some_and(|slot| slot.open)
    }

    pub(crate) fn account(&self, peer: PeerId) -> Option<&Account> {
        self.slots.get(peer.0 as usize).map(|slot| &slot.account)
    }

    pub(crate) fn account_mut(&mut self, peer: PeerId) -> Option<&mut Account> {
        self.slots
            .get_mut(peer.0 as usize)
            .map(|slot| &mut slot.account)
    }

    pub(crate) fn waiting(&self, peer: PeerId) -> Tally {
        self.account(peer)
            .map_or_else(Tally::default, Account::waiting)
    }
}
