//! The way in: accepted, queued, in line for room, or refused.

use super::{
    Call, Caller, Discard, Offer, Outbound, Refusal, Stage, Surroundings, Taken, Token, Writer,
};
use crate::account::Tally;
use crate::block::{Block, PeerId, Size};
use crate::budget::Budget;
use crate::framing::{Encoded, Framing, Header, Weight};
use crate::payload::Payload;
use crate::queue::{Part, block_for};
use crate::strategy::Strategy;
use crate::waiters::{Ticket, TicketState};

/// A message on its way in, of which it is known what it weighs.
#[derive(Debug, Clone, Copy)]
struct Weighed<'a> {
    form: Form<'a>,
    size: Size,
    payload_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    /// A header goes before it, and that is all.
    Headed {
        header: Header,
        payload: Payload<'a>,
    },
    /// It is encoded when there is room for it.
    Plain { weight: Weight, payload: &'a [u8] },
    /// It is encoded already.
    Encoded(&'a [u8]),
}

impl Outbound {
    /// A message comes. On [`Offer::WriteNow`] and [`Offer::WriteTaken`] the caller has to write and
    /// settle; on [`Offer::Wait`] it has to [`redeem`](Self::redeem) or [`cancel`](Self::cancel).
    pub fn offer<'a>(
        &mut self,
        message: impl Into<Payload<'a>>,
        peer: PeerId,
        call: Call,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        self.weighing(message.into(), |outbound, weighed| {
            outbound.offer_weighed(weighed, peer, call, caller, surroundings)
        })
    }

    /// One message more behind others that wait: what a stream's producer does nearly always, in as few
    /// steps as it takes. `None` says that something has to be decided, and that nothing has happened:
    /// [`offer`](Self::offer) it. Else it is accepted and queued; whether the driver has to be told.
    #[inline]
    pub fn join<'a>(&mut self, message: impl Into<Payload<'a>>) -> Option<bool> {
        let message = message.into();
        let payload_bytes = message.len();
        let decides = !self.joins
            || self.stage != Stage::Open
            || self.hook
            || !self.waiters.is_empty()
            || payload_bytes > self.frame_limit_bytes
            || self.keeps(message);
        if decides {
            return None;
        }
        let header = self.framing.header(payload_bytes);
        let encoded = Tally::one(header.len() + payload_bytes);
        let held = self.waiting() + encoded;
        // An empty queue is never joined, so it is no question who writes.
        let within = held.messages <= self.limit.messages && held.bytes <= self.limit.bytes;
        if !within || !self.queue.join(&header, &message) {
            return None;
        }
        self.account.accepted += encoded;
        self.peak = self.peak.max(held);
        self.judge_pressure();
        Some(self.call_driver())
    }

    /// What goes before a message that its owner, a direct caller, can write by itself: nothing about it
    /// has to be decided, and nothing waits. Nothing is noted: if the kernel takes it whole, that is
    /// [`sent_alone`](Self::sent_alone); else [`offer`](Self::offer) it, and settle what became of it.
    #[inline]
    pub fn alone(&self, message: &[u8]) -> Option<Header> {
        let decides = !self.joins
            || self.stage != Stage::Open
            || self.hook
            || !self.queue.is_empty()
            || self.is_writing()
            || message.len() > self.frame_limit_bytes
            || !self.waiters.is_empty();
        if decides {
            return None;
        }
        let header = self.framing.header(message.len());
        let fits = header.len() + message.len() <= self.limit.bytes as usize;
        fits.then_some(header)
    }

    /// The kernel took a message behind the header of [`alone`](Self::alone), whole.
    #[inline]
    pub fn sent_alone(&mut self, header: &Header, payload_bytes: usize) {
        let whole = Tally::one(header.len() + payload_bytes);
        self.account.accepted += whole;
        self.account.written += whole;
        self.account.framing_bytes += header.len() as u64;
        self.peak = self.peak.max(whole);
        self.direct_writes += 1;
        self.write_calls += 1;
    }

    /// A message comes that was encoded before, by this queue's framing, for more queues than this
    /// one. Else as [`offer`](Self::offer), but never [`Offer::WriteNow`]; what waits is taken with
    /// [`redeem_encoded`](Self::redeem_encoded).
    pub fn offer_encoded(
        &mut self,
        message: &Encoded,
        peer: PeerId,
        call: Call,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        self.offer_weighed(weighed(message), peer, call, caller, surroundings)
    }

    /// A waiting send that was granted room takes it.
    pub fn redeem<'a>(
        &mut self,
        ticket: Ticket,
        message: impl Into<Payload<'a>>,
        peer: PeerId,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        let offer = self.weighing(message.into(), |outbound, weighed| {
            outbound.redeem_weighed(ticket, weighed, peer, caller, surroundings)
        });
        if let Offer::Refused(Refusal::Unframeable | Refusal::TooLarge { .. }) = offer {
            // The user's own framing says something else than when the message was offered.
            self.cancel(ticket);
        }
        offer
    }

    /// A waiting send of [`offer_encoded`](Self::offer_encoded) that was granted room takes it.
    pub fn redeem_encoded(
        &mut self,
        ticket: Ticket,
        message: &Encoded,
        peer: PeerId,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        self.redeem_weighed(ticket, weighed(message), peer, caller, surroundings)
    }

    /// Weighs a message and goes on with it.
    #[inline]
    fn weighing(
        &mut self,
        payload: Payload<'_>,
        go_on: impl FnOnce(&mut Self, Weighed<'_>) -> Offer,
    ) -> Offer {
        let payload_bytes = payload.len();
        if payload_bytes > self.frame_limit_bytes {
            return self.too_large();
        }
        let (form, size) = match &self.framing {
            Framing::Raw | Framing::LengthPrefix { .. } => {
                let header = self.framing.header(payload_bytes);
                let size = self.headed_size(&header, payload);
                (Form::Headed { header, payload }, size)
            }
            Framing::Lines(_) | Framing::Pattern(_) | Framing::Cobs => {
                let payload = &*payload;
                let Ok(weight) = self.framing.weigh(payload) else {
                    return Offer::Refused(Refusal::Unframeable);
                };
                let size = Size::copied(weight.encoded_bytes);
                (Form::Plain { weight, payload }, size)
            }
            Framing::Own(_) => return self.weighing_own(&payload, go_on),
        };
        let weighed = Weighed {
            form,
            size,
            payload_bytes,
        };
        go_on(self, weighed)
    }

    /// Whether a payload stays where it is and is not copied.
    #[inline]
    const fn keeps(&self, payload: Payload<'_>) -> bool {
        match payload {
            Payload::Owned(bytes) => bytes.len() >= self.copy_limit_bytes,
            Payload::Borrowed(_) => false,
        }
    }

    /// What is copied of a message behind a header, if it has to be kept.
    #[inline]
    pub(super) fn headed_size(&self, header: &Header, payload: Payload<'_>) -> Size {
        let encoded_bytes = header.len() + payload.len();
        let copied_bytes = if self.keeps(payload) {
            header.len()
        } else {
            encoded_bytes
        };
        Size {
            encoded_bytes,
            copied_bytes,
        }
    }

    /// What only the user's own framing knows is known once it is encoded.
    fn weighing_own(
        &mut self,
        payload: &[u8],
        go_on: impl FnOnce(&mut Self, Weighed<'_>) -> Offer,
    ) -> Offer {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let offer = match self.framing.encode(payload, &mut scratch) {
            Ok(()) => {
                let weighed = Weighed {
                    form: Form::Encoded(&scratch),
                    size: Size::copied(scratch.len()),
                    payload_bytes: payload.len(),
                };
                go_on(self, weighed)
            }
            Err(_) => Offer::Refused(Refusal::Unframeable),
        };
        self.scratch = scratch;
        offer
    }

    #[inline]
    fn offer_weighed(
        &mut self,
        message: Weighed<'_>,
        peer: PeerId,
        call: Call,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        let encoded_bytes = message.size.encoded_bytes;
        if message.payload_bytes > self.frame_limit_bytes || encoded_bytes > self.room_bytes {
            return self.too_large();
        }
        if let Some(refusal) = self.not_open(peer) {
            return Offer::Refused(refusal);
        }
        let hook = self.is_hook(caller);
        if self.make_room(encoded_bytes, peer, hook, surroundings) {
            self.accept(message, peer, caller, surroundings)
        } else {
            self.no_room(encoded_bytes, peer, call, caller)
        }
    }

    #[cold]
    const fn too_large(&self) -> Offer {
        Offer::Refused(Refusal::TooLarge {
            limit_bytes: self.payload_limit_bytes,
        })
    }

    fn redeem_weighed(
        &mut self,
        ticket: Ticket,
        message: Weighed<'_>,
        peer: PeerId,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        let refusal = match self.waiters.leave(ticket) {
            Some((TicketState::Granted, reserved)) => {
                // The end of the connection, or of the peer, would have dismissed it.
                debug_assert_eq!(self.not_open(peer), None);
                if reserved.bytes != message.size.encoded_bytes as u64 {
                    // So it does here: what was reserved is of no use.
                    self.give_back(reserved.bytes);
                    return self.offer_weighed(message, peer, Call::Try, caller, surroundings);
                }
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
        self.hook && matches!(caller, Caller::Driver | Caller::Answering)
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
            (_, Caller::Callback | Caller::Driver | Caller::Answering | Caller::Direct) => {
                Offer::Refused(Refusal::WouldWait)
            }
        }
    }

    /// Room is reserved: the message is ours.
    fn accept(
        &mut self,
        message: Weighed<'_>,
        peer: PeerId,
        caller: Caller,
        surroundings: &impl Surroundings,
    ) -> Offer {
        let accepted = Tally::one(message.size.encoded_bytes);
        self.note_accepted(accepted, peer);

        let idle =
            self.queue.is_empty() && self.writer == Writer::Nobody && !self.blocked && !self.hook;
        let mut now_ns = None;
        let writes_now = idle
            && match caller {
                Caller::Driver => false,
                Caller::Direct => true,
                Caller::Thread | Caller::Callback | Caller::Answering => {
                    let at_ns = surroundings.now_ns();
                    now_ns = Some(at_ns);
                    // Gathering saves calls. Of large messages calls are the smaller part, and copying
                    // them for another thread to write is the larger.
                    let comes_fast = self.hot.send_comes(at_ns);
                    !comes_fast || message.size.encoded_bytes >= WRITTEN_AT_ONCE_BYTES
                }
            };
        if writes_now {
            self.writer = Writer::Sender;
            self.in_flight = accepted;
            if self.max_queue_delay_ns.is_some() {
                now_ns = now_ns.or_else(|| Some(surroundings.now_ns()));
            }
            return self.hand_to_sender(message, peer, caller, now_ns, surroundings);
        }

        let framing = &self.framing;
        let push = |block: &mut Block| message.push_to(block, framing, peer);
        if self.is_hook(caller) {
            self.queue.push_ahead(message.size, surroundings, push);
        } else {
            let wants_time = self.queue.wants_time();
            let at_ns = wants_time.then(|| now_ns.unwrap_or_else(|| surroundings.now_ns()));
            self.queue.push(message.size, at_ns, surroundings, push);
        }
        self.judge_pressure();
        Offer::Queued {
            wake: self.call_driver(),
        }
    }

    /// The sender writes: behind a header from where its message stands, else from a block as if it had
    /// come to the front of the queue.
    #[inline]
    fn hand_to_sender(
        &mut self,
        message: Weighed<'_>,
        peer: PeerId,
        caller: Caller,
        accepted_ns: Option<u64>,
        surroundings: &impl Surroundings,
    ) -> Offer {
        let mut token = Token {
            generation: self.generation,
            timed: caller != Caller::Direct,
            accepted_ns,
            header: Header::default(),
        };
        if let Form::Headed { header, .. } = message.form {
            token.header = header;
            return Offer::WriteNow(token);
        }
        let mut block = block_for(message.size.copied_bytes, surroundings);
        message.push_to(&mut block, &self.framing, peer);
        self.write_calls += 1;
        Offer::WriteTaken(Taken {
            token,
            caller,
            own: true,
            taken_ns: 0,
            part: Part::Main,
            block,
        })
    }

    #[inline]
    pub(super) fn note_accepted(&mut self, accepted: Tally, peer: PeerId) {
        self.each_account(peer, |account| account.accepted += accepted);
        self.peak = self.peak.max(self.waiting() + accepted);
    }

    /// Appends what the driver says itself.
    pub(super) fn enqueue(
        &mut self,
        header: &[u8],
        payload: &[u8],
        surroundings: &impl Surroundings,
    ) {
        let at_ns = self.queue.wants_time().then(|| surroundings.now_ns());
        let size = Size::copied(header.len() + payload.len());
        self.queue.push(size, at_ns, surroundings, |block| {
            block.push(header, payload, PeerId::DRIVER);
        });
        self.judge_pressure();
    }
}

impl Weighed<'_> {
    #[inline]
    fn push_to(self, block: &mut Block, framing: &Framing, peer: PeerId) {
        let framing_bytes = self.size.encoded_bytes.saturating_sub(self.payload_bytes);
        match self.form {
            Form::Headed { header, payload } => {
                push_headed(block, &header, payload, self.size, peer)
            }
            Form::Plain { weight, payload } => block.push_with(framing_bytes, peer, |bytes| {
                framing.append(payload, weight, bytes);
            }),
            Form::Encoded(encoded) => block.push_with(framing_bytes, peer, |bytes| {
                bytes.extend_from_slice(encoded);
            }),
        }
    }
}

/// Appends a message behind its header, and copies so much of it.
#[inline]
pub(super) fn push_headed(
    block: &mut Block,
    header: &Header,
    payload: Payload<'_>,
    size: Size,
    peer: PeerId,
) {
    match payload {
        Payload::Owned(bytes) if size.copied_bytes < size.encoded_bytes => {
            block.push_owned(header, bytes.clone(), peer);
        }
        Payload::Owned(_) | Payload::Borrowed(_) => block.push(header, &payload, peer),
    }
}

fn weighed(message: &Encoded) -> Weighed<'_> {
    Weighed {
        form: Form::Encoded(message.bytes()),
        size: Size::copied(message.bytes().len()),
        payload_bytes: message.payload_bytes(),
    }
}

/// Messages of this length are never left to be gathered. Measured on two cores, 64 KiB: a stream over TCP takes
/// 23 µs a message instead of 32, over a Unix socket 17 instead of 26; on one core both are the same. Of 16 KiB over
/// TCP four together are faster.
const WRITTEN_AT_ONCE_BYTES: usize = 32 * 1024;

fn reserve(limit: Tally, held: Tally, encoded_bytes: usize, budget: Option<&Budget>) -> bool {
    held.messages < limit.messages
        && held.bytes + encoded_bytes as u64 <= limit.bytes
        && budget.is_none_or(|budget| budget.take(encoded_bytes as u64, held.bytes))
}
