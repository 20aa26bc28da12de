//! Sends that wait for room, served in order.

use std::collections::VecDeque;

use crate::account::Tally;
use crate::block::PeerId;

/// A place in the line of sends that wait for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// What has become of a waiting send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketState {
    /// Still in line.
    Waiting,
    /// Room is reserved for it.
    Granted,
    /// Its connection ended first.
    NotConnected,
    /// The link was closed first.
    Closed,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    peer: PeerId,
    encoded_bytes: usize,
    state: TicketState,
    /// It was told that room is reserved for it, and that it is its turn to take it.
    told: bool,
}

/// The line. Grants go to the front only, and those granted come one after the other: whoever came
/// first is served first, however the system runs their threads.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    line: VecDeque<Waiter>,
    /// How many in the line still wait.
    waiting: usize,
    /// Room reserved for those granted that have not come to take it.
    granted: Tally,
    /// Whose state changed and who were not told yet.
    untold: VecDeque<Ticket>,
    issued: u64,
}

impl Waiters {
    #[inline]
    pub(crate) const fn anyone_waits(&self) -> bool {
        self.waiting > 0
    }

    /// Whether there is nobody, served or not.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    #[inline]
    pub(crate) const fn granted(&self) -> Tally {
        self.granted
    }

    /// The encoded bytes of the first who still waits.
    pub(crate) fn first_waiting(&self) -> Option<usize> {
        let mut line = self.line.iter();
        let first = line.find(|waiter| waiter.state == TicketState::Waiting)?;
        Some(first.encoded_bytes)
    }

    pub(crate) fn join(&mut self, encoded_bytes: usize, peer: PeerId) -> Ticket {
        let ticket = Ticket(self.issued);
        self.issued += 1;
        self.waiting += 1;
        self.line.push_back(Waiter {
            ticket,
            peer,
            encoded_bytes,
            state: TicketState::Waiting,
            told: false,
        });
        ticket
    }

    pub(crate) fn state(&self, ticket: Ticket) -> Option<TicketState> {
        let waiter = self.line.iter().find(|waiter| waiter.ticket == ticket)?;
        match waiter.state {
            TicketState::Granted if !waiter.told => Some(TicketState::Waiting),
            state => Some(state),
        }
    }

    /// Takes somebody out of the line. Returns their state, and what was reserved for them.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<(TicketState, Tally)> {
        let index = self
            .line
            .iter()
            .position(|waiter| waiter.ticket == ticket)?;
        let waiter = self.line.remove(index)?;
        let mut reserved = Tally::default();
        match waiter.state {
            TicketState::Waiting => self.waiting -= 1,
            TicketState::Granted => reserved = Tally::one(waiter.encoded_bytes),
            TicketState::NotConnected | TicketState::Closed => {}
        }
        self.granted -= reserved;
        self.untold.retain(|&untold| untold != ticket);
        self.tell_first();
        Some((waiter.state, reserved))
    }

    /// Grants room from the front of the line, for as long as `reserve` finds it.
    pub(crate) fn grant(&mut self, mut reserve: impl FnMut(usize, Tally) -> bool) {
        if self.waiting == 0 {
            return;
        }
        for waiter in &mut self.line {
            if waiter.state != TicketState::Waiting {
                continue;
            }
            if !reserve(waiter.encoded_bytes, self.granted) {
                break;
            }
            waiter.state = TicketState::Granted;
            self.waiting -= 1;
            self.granted += Tally::one(waiter.encoded_bytes);
        }
        self.tell_first();
    }

    /// Nobody in the line, or none who waits to send to `peer`, will be served. Returns the room
    /// that had been reserved for them.
    pub(crate) fn dismiss(&mut self, peer: Option<PeerId>, state: TicketState) -> Tally {
        let mut reserved = Tally::default();
        for waiter in &mut self.line {
            if peer.is_some_and(|peer| peer != waiter.peer) {
                continue;
            }
            match waiter.state {
                TicketState::Waiting => self.waiting -= 1,
                TicketState::Granted => reserved += Tally::one(waiter.encoded_bytes),
                TicketState::NotConnected | TicketState::Closed => continue,
            }
            waiter.state = state;
            if !self.untold.contains(&waiter.ticket) {
                self.untold.push_back(waiter.ticket);
            }
        }
        self.granted -= reserved;
        self.tell_first();
        reserved
    }

    /// It is the turn of the first who was granted room.
    fn tell_first(&mut self) {
        let mut granted = self.line.iter_mut();
        if let Some(first) = granted.find(|waiter| waiter.state == TicketState::Granted)
            && !first.told
        {
            first.told = true;
            self.untold.push_back(first.ticket);
        }
    }

    /// Somebody whose state changed.
    pub(crate) fn tell(&mut self) -> Option<Ticket> {
        self.untold.pop_front()
    }
}
