//! What must become of an offer, and of those that wait for room.

use std::collections::VecDeque;

use tautline_session::{
    Call, Caller, Control, Discard, Offer, PeerId, Refusal, Strategy, Tally, Ticket, TicketState,
};

use super::{Expected, Hand, Message, Model, Stage, Waiter, sum};

impl Model {
    /// What must become of an offer; evicts. Whoever was accepted then goes through `accept`.
    pub(crate) fn offer(
        &mut self,
        message: &Message,
        call: Call,
        caller: Caller,
        now_ns: u64,
    ) -> Expected {
        let (encoded_bytes, peer) = (message.encoded.len(), message.peer);
        let limit_bytes = self.longest.told_bytes;
        if message.payload.len() > self.longest.frame_bytes {
            return Expected::Refused(Refusal::TooLarge { limit_bytes });
        }
        if message.unframeable {
            return Expected::Refused(Refusal::Unframeable);
        }
        if encoded_bytes > self.longest.room_bytes {
            return Expected::Refused(Refusal::TooLarge { limit_bytes });
        }
        match self.stage {
            Stage::NotOpen | Stage::Closing(Discard::ConnectionLost) => {
                return Expected::Refused(Refusal::NotConnected);
            }
            Stage::Closing(Discard::Closed) | Stage::Ended => {
                return Expected::Refused(Refusal::Closed);
            }
            Stage::Open => {}
        }
        if self.shared && self.peer(peer).departed.is_some() {
            return Expected::Refused(Refusal::NotConnected);
        }
        let hook = self.hook && caller == Caller::Driver;
        let limit = if hook { self.hook_limit } else { self.limit };
        let first_in_line = hook || !self.anyone_waits();
        if first_in_line && self.fits_within(limit, encoded_bytes) {
            self.hold(encoded_bytes as i64);
            return Expected::Accepted;
        }
        self.discard_too_old(now_ns);
        let first_in_line = hook || !self.anyone_waits();
        if first_in_line && self.fits_within(limit, encoded_bytes) {
            self.hold(encoded_bytes as i64);
            return Expected::Accepted;
        }
        match (call, self.strategy) {
            (_, Strategy::KeepLatest) if self.evict_for(encoded_bytes, peer, limit) => {
                Expected::Accepted
            }
            (Call::Await, Strategy::Reliable) => {
                self.waits += 1;
                Expected::Waits
            }
            (Call::Send, Strategy::Reliable)
            | (Call::Within, Strategy::Reliable | Strategy::BestEffort) => {
                if caller == Caller::Thread {
                    self.waits += 1;
                    Expected::Waits
                } else {
                    Expected::Refused(Refusal::WouldWait)
                }
            }
            (Call::Try, Strategy::Reliable | Strategy::BestEffort)
            | (Call::Send | Call::Await, Strategy::BestEffort)
            | (_, Strategy::KeepLatest) => {
                let refused = Tally::one(encoded_bytes);
                self.each_account(peer, |account| account.refused += refused);
                Expected::Refused(Refusal::Full)
            }
        }
    }

    /// Whether the driver's own frame must be let in; then it is. A ping only says what anything says.
    pub(crate) fn offer_control(&mut self, message: Message) -> bool {
        let is_ping = matches!(message.control, Some(Control::Ping(_)));
        let needless = is_ping && !self.waiting().is_zero();
        let encoded_bytes = message.encoded.len();
        let room = !self.anyone_waits() && self.fits(encoded_bytes);
        if self.stage != Stage::Open || needless || !room {
            return false;
        }
        self.hold(encoded_bytes as i64);
        self.heartbeats += 1;
        self.note_accepted(&message);
        self.queue.push_back(message);
        self.judge();
        true
    }

    /// Room was found for it: it is queued, or its sender has it in hand.
    pub(crate) fn accept(&mut self, message: Message, offer: &Offer, caller: Caller) {
        self.note_accepted(&message);
        if matches!(offer, Offer::WriteNow(_) | Offer::WriteTaken(_)) {
            assert!(
                self.hand.is_none() && self.is_queue_empty() && !self.hook,
                "two writers, or past those that wait"
            );
            self.hand = Some(Hand {
                messages: VecDeque::from([message]),
                direct: true,
                ahead: false,
                severed: None,
            });
        } else if self.hook && caller == Caller::Driver {
            self.ahead.push_back(message);
            self.judge();
        } else {
            self.queue.push_back(message);
            self.judge();
        }
    }

    fn note_accepted(&mut self, message: &Message) {
        let tally = message.tally();
        self.each_account(message.peer, |account| account.accepted += tally);
        let waiting = self.waiting();
        self.peak.messages = self.peak.messages.max(waiting.messages + 1);
        self.peak.bytes = self.peak.bytes.max(waiting.bytes + tally.bytes);
    }

    pub(crate) fn join(&mut self, ticket: Ticket, peer: PeerId, encoded_bytes: usize) {
        self.line.push(Waiter {
            ticket,
            peer,
            encoded_bytes,
            state: TicketState::Waiting,
            told: false,
        });
    }

    /// Somebody leaves the line, to take the room granted or for good.
    pub(crate) fn leave(&mut self, ticket: Ticket, redeems: bool) -> TicketState {
        let index = self
            .line
            .iter()
            .position(|waiter| waiter.ticket == ticket)
            .expect("it is in line");
        let waiter = self.line.remove(index);
        // When it is redeemed the room passes on to the message.
        if waiter.state == TicketState::Granted && !redeems {
            self.hold(-(waiter.encoded_bytes as i64));
        }
        if waiter.state == TicketState::Waiting || !redeems {
            self.grant();
        }
        self.tell_first();
        waiter.state
    }

    /// Those who were granted room come one after the other.
    pub(super) fn tell_first(&mut self) {
        let first = self
            .line
            .iter_mut()
            .find(|waiter| waiter.state == TicketState::Granted);
        if let Some(waiter) = first.filter(|waiter| !waiter.told) {
            waiter.told = true;
            self.told.push(waiter.ticket);
        }
    }

    /// Serves the line from its front, as far as there is room.
    pub(crate) fn grant(&mut self) {
        while let Some(index) = self
            .line
            .iter()
            .position(|waiter| waiter.state == TicketState::Waiting)
        {
            let encoded_bytes = self.line[index].encoded_bytes;
            if !self.fits(encoded_bytes) {
                break;
            }
            self.hold(encoded_bytes as i64);
            self.line[index].state = TicketState::Granted;
        }
        self.tell_first();
    }

    /// Whether a message of this length would find room now, nobody being before it.
    pub(crate) fn fits(&self, encoded_bytes: usize) -> bool {
        self.fits_within(self.limit, encoded_bytes)
    }

    fn fits_within(&self, limit: Tally, encoded_bytes: usize) -> bool {
        self.fits_beside(self.waiting() + self.granted(), limit, encoded_bytes, 0)
    }

    fn fits_beside(
        &self,
        held: Tally,
        limit: Tally,
        encoded_bytes: usize,
        given_back_bytes: u64,
    ) -> bool {
        let bytes = encoded_bytes as u64;
        held.messages < limit.messages
            && held.bytes + bytes <= limit.bytes
            && self.total.as_ref().is_none_or(|total| {
                let held_by_all = total.held_bytes.get() - given_back_bytes;
                held.bytes + bytes + held_by_all <= total.limit_bytes
            })
    }

    fn evict_for(&mut self, encoded_bytes: usize, peer: PeerId, limit: Tally) -> bool {
        let evictable = |message: &Message| message.peer == peer && message.written == 0;
        let most = sum(self.queue.iter().filter(|message| evictable(message)));
        let mut kept = self.waiting() + self.granted();
        kept -= most;
        if !self.fits_beside(kept, limit, encoded_bytes, most.bytes) {
            return false;
        }
        while !self.fits_within(limit, encoded_bytes) {
            let index = self.queue.iter().position(evictable);
            let evicted = index.and_then(|index| self.queue.remove(index));
            let evicted = evicted.expect("evicting all is enough").tally();
            self.hold(-(evicted.bytes as i64));
            self.each_account(peer, |account| account.discarded.evicted += evicted);
            self.judge();
        }
        self.hold(encoded_bytes as i64);
        true
    }
}
