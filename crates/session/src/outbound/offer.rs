//! The way in: accepted, queued, in line for room, or refused.

use super::{Call, Caller, Discard, Offer, Outbound, Refusal, Stage, Surroundings, Token, Writer};
use crate::account::Tally;
use crate::block::PeerId;
use crate::budget::Budget;
use crate::strategy::Strategy;
use crate::waiters::{Ticket, TicketState};

impl Outbound {
    /// A message comes. On [`Offer::WriteNow`] the caller has to write and settle; on
    /// [`Offer::Wait`] it has to [`redeem`](Self::redeem) or [`cancel`](Self::cancel).
    pub fn offer(
        &mut self,
        message: &[u8],
        peer: PeerId,
        call: Call,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        if message.len() > self.payload_limit_bytes {
            return Offer::Refused(Refusal::TooLarge {
                limit_bytes: self.payload_limit_bytes,
            });
        }
        if let Some(refusal) = self.not_open(peer) {
            return Offer::Refused(refusal);
        }
        let encoded_bytes = self.framing.header_bytes() + message.len();
        let hook = self.is_hook(caller);
        if self.make_room(encoded_bytes, peer, hook, surroundings) {
            self.accept(message, peer, caller, surroundings)
        } else {
            self.no_room(encoded_bytes, peer, call, caller)
        }
    }

    /// A waiting send that was granted room takes it.
    pub fn redeem(
        &mut self,
        ticket: Ticket,
        message: &[u8],
        peer: PeerId,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        let refusal = match self.waiters.leave(ticket) {
            Some((TicketState::Granted, reserved)) => {
                // The end of the connection, or of the peer, would have dismissed it.
                debug_assert_eq!(self.not_open(peer), None);
                let encoded_bytes = self.framing.header_bytes() + message.len();
                debug_assert_eq!(reserved, Tally::one(encoded_bytes));
                self.hot.free_again(surroundings.now_ns());
                return self.accept(message, peer, caller, surroundings);
            }
            Some((TicketState::Waiting, _)) => {
                // It came too early and lost its place; those behind it may fit.
                self.grant();
                Refusal::WouldWait
            }
            Some((TicketState::Closed, _)) => Refusal::Closed,
            Some((TicketState::NotConnected, _)) | None => Refusal::NotConnected,
        };
        Offer::Refused(refusal)
    }

    /// The caller of an offer that had to call the driver is back from it.
    pub fn woke_driver(&mut self, now_ns: u64) {
        self.hot.free_again(now_ns);
    }

    /// A waiting send gives up; what had been granted goes to the next.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<TicketState> {
        let (state, reserved) = self.waiters.leave(ticket)?;
        self.give_back(reserved.bytes);
        self.grant();
        Some(state)
    }

    /// What has become of a waiting send. Of several that were granted room the first comes first:
    /// the next one waits until it has come.
    pub fn ticket(&self, ticket: Ticket) -> TicketState {
        let gone = TicketState::NotConnected;
        self.waiters.state(ticket).unwrap_or(gone)
    }

    /// Looks again for room that a shared total may have given back elsewhere.
    pub fn grant(&mut self) {
        if !self.waiters.anyone_waits() {
            return;
        }
        let (limit, busy, budget) = (self.limit, self.waiting(), self.budget.as_deref());
        self.waiters
            .grant(|encoded_bytes, granted| reserve(limit, busy + granted, encoded_bytes, budget));
    }

    /// Whether the reopen hook sends.
    #[inline]
    fn is_hook(&self, caller: Caller) -> bool {
        self.hook && caller == Caller::Driver
    }

    /// Whether the first in line would find room here, and only the shared total has none. Then nothing
    /// that happens to this queue ends its wait: somebody has to look again, by the clock.
    pub fn waits_for_total(&self) -> bool {
        let held = self.waiting() + self.waiters.granted();
        let mut first = self.waiters.first_waiting().into_iter();
        self.budget.is_some() && first.any(|bytes| reserve(self.limit, held, bytes, None))
    }

    #[inline]
    fn not_open(&self, peer: PeerId) -> Option<Refusal> {
        match self.stage {
            Stage::NotOpen | Stage::Closing(Discard::ConnectionLost) => Some(Refusal::NotConnected),
            Stage::Closing(Discard::Closed) | Stage::Ended => Some(Refusal::Closed),
            Stage::Open => match &self.peers {
                Some(peers) if !peers.is_open(peer) => Some(Refusal::NotConnected),
                _ => None,
            },
        }
    }

    /// Reserves room, evicting for it where the strategy says so.
    fn make_room(
        &mut self,
        encoded_bytes: usize,
        peer: PeerId,
        hook: bool,
        surroundings: &impl Surroundings,
    ) -> bool {
        // The hook goes before everybody, and has room that nobody else waits for.
        let limit = if hook { self.hook_limit } else { self.limit };
        let room = |outbound: &Self| {
            (hook || !outbound.waiters.anyone_waits()) && outbound.reserve(encoded_bytes, limit)
        };
        if room(self) || (self.discard_too_old(surroundings) && room(self)) {
            return true;
        }
        if self.strategy != Strategy::KeepLatest
            || !self.eviction_makes_room(encoded_bytes, peer, limit)
        {
            return false;
        }
        while self.evict(peer, surroundings) {
            if self.reserve(encoded_bytes, limit) {
                return true;
            }
        }
        // Another queue was quicker to take what this one gave back to their total.
        false
    }

    /// Reserves room, if there is some and nobody waits for it.
    #[inline]
    pub(super) fn has_room(&self, encoded_bytes: usize) -> bool {
        !self.waiters.anyone_waits() && self.reserve(encoded_bytes, self.limit)
    }

    #[inline]
    fn reserve(&self, encoded_bytes: usize, limit: Tally) -> bool {
        let held = self.waiting() + self.waiters.granted();
        reserve(limit, held, encoded_bytes, self.budget.as_deref())
    }

    /// Whether evicting would be enough. A sample that cannot come in costs no others their place.
    fn eviction_makes_room(&self, encoded_bytes: usize, peer: PeerId, limit: Tally) -> bool {
        let held = self.waiting();
        let bytes = encoded_bytes as u64;
        let enough = |evictable: Tally| {
            let mut kept = held;
            kept -= evictable;
            kept.messages < limit.messages
                && kept.bytes + bytes <= limit.bytes
                && self
                    .budget
                    .as_deref()
                    .is_none_or(|budget| budget.could_take(bytes, kept.bytes, evictable.bytes))
        };
        match &self.peers {
            None => enough(self.queue.evictable()),
            Some(peers) if peers.waiting(peer).messages == 0 => false,
            Some(_) => self.queue.evictable_to(peer, enough),
        }
    }

    fn evict(&mut self, peer: PeerId, surroundings: &impl Surroundings) -> bool {
        let evicted = match self.peers {
            None => self
                .queue
                .evict_oldest(surroundings)
                .map(|(_, tally)| tally),
            Some(_) => self.queue.evict_oldest_to(peer, surroundings),
        };
        let Some(evicted) = evicted else {
            return false;
        };
        self.give_back(evicted.bytes);
        self.each_account(peer, |account| account.discarded.evicted += evicted);
        self.judge_pressure();
        true
    }

    fn no_room(&mut self, encoded_bytes: usize, peer: PeerId, call: Call, caller: Caller) -> Offer {
        let waits = match (call, self.strategy) {
            (Call::Send | Call::Await, Strategy::Reliable)
            | (Call::Within, Strategy::Reliable | Strategy::BestEffort) => true,
            (Call::Try, _)
            | (Call::Send | Call::Await, Strategy::BestEffort)
            | (Call::Send | Call::Await | Call::Within, Strategy::KeepLatest) => false,
        };
        if !waits {
            let refused = Tally::one(encoded_bytes);
            self.each_account(peer, |account| account.refused += refused);
            return Offer::Refused(Refusal::Full);
        }
        match (call, caller) {
            (Call::Await, _) | (_, Caller::Thread) => {
                self.waits += 1;
                Offer::Wait(self.waiters.join(encoded_bytes, peer))
            }
            (_, Caller::Callback | Caller::Driver | Caller::Direct) => {
                Offer::Refused(Refusal::WouldWait)
            }
        }
    }

    /// Room is reserved: the message is ours.
    fn accept(
        &mut self,
        message: &[u8],
        peer: PeerId,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        let header = self.framing.header(message.len());
        let accepted = Tally::one(header.len() + message.len());
        self.note_accepted(accepted, peer);

        let idle =
            self.queue.is_empty() && self.writer == Writer::Nobody && !self.blocked && !self.hook;
        let mut now_ns = None;
        let writes_now = idle
            && match caller {
                Caller::Driver => false,
                Caller::Direct => true,
                Caller::Thread | Caller::Callback => {
                    let at_ns = surroundings.now_ns();
                    now_ns = Some(at_ns);
                    !self.hot.send_comes(at_ns)
                }
            };
        if writes_now {
            self.writer = Writer::Sender;
            self.in_flight = accepted;
            if self.max_queue_delay_ns.is_some() {
                now_ns = now_ns.or_else(|| Some(surroundings.now_ns()));
            }
            return Offer::WriteNow(Token {
                generation: self.generation,
                timed: caller != Caller::Direct,
                accepted_ns: now_ns,
            });
        }

        if self.is_hook(caller) {
            self.queue.push_ahead(&header, message, peer, surroundings);
            self.judge_pressure();
        } else {
            self.enqueue(&header, message, peer, now_ns, surroundings);
        }
        Offer::Queued {
            wake: self.call_driver(),
        }
    }

    #[inline]
    pub(super) fn note_accepted(&mut self, accepted: Tally, peer: PeerId) {
        self.each_account(peer, |account| account.accepted += accepted);
        self.peak = self.peak.max(self.waiting() + accepted);
    }

    /// Appends, with the time where it is wanted and was not read already.
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        header: &[u8],
        payload: &[u8],
        peer: PeerId,
        now_ns: Option<u64>,
        surroundings: &impl Surroundings,
    ) {
        let wants_time = self.queue.wants_time();
        let at_ns = wants_time.then(|| now_ns.unwrap_or_else(|| surroundings.now_ns()));
        self.queue.push(header, payload, peer, at_ns, surroundings);
        self.judge_pressure();
    }
}

fn reserve(limit: Tally, held: Tally, encoded_bytes: usize, budget: Option<&Budget>) -> bool {
    held.messages < limit.messages
        && held.bytes + encoded_bytes as u64 <= limit.bytes
        && budget.is_none_or(|budget| budget.take(encoded_bytes as u64, held.bytes))
}
