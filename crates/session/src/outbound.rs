//! The sending half of a session: what becomes of each message offered.
//!
//! The session decides, the driver obeys. Whoever writes takes bytes out by value ([`Taken`]) and
//! settles what the kernel made of them, so that nothing is locked in between and a connection may
//! end, or another begin, while a write is under way.

mod control;
mod freshness;
mod hot;
mod offer;
mod settle;
mod terms;

use std::sync::Arc;

use crate::account::{Account, Discarded, SendStatistics, Tally};
use crate::block::PeerId;
use crate::budget::Budget;
use crate::delay::QueueDelay;
use crate::framing::{Framing, LONGEST_ENCODED};
use crate::peers::Peers;
use crate::pressure::{Pressure, PressureGauge};
use crate::queue::SendQueue;
use crate::reconnect::OnLoss;
use crate::strategy::Strategy;
use crate::waiters::{Ticket, TicketState, Waiters};

use hot::Hot;
pub use terms::{
    Call, Caller, DatagramsWritten, DirectWrite, Discard, Offer, OutboundOptions, Refusal, Settled,
    Stopped, Surroundings, Taken, Token,
};

/// The sending half of one link, or of the socket that a datagram server's peers share.
///
/// Inputs: [`opened`](Self::opened), [`hook_done`](Self::hook_done), [`offer`](Self::offer), [`redeem`](Self::redeem),
/// [`cancel`](Self::cancel), [`take`](Self::take), the `settle_*` calls, [`closing`](Self::closing),
/// [`end`](Self::end), [`give_up`](Self::give_up), and for shared queues [`open_peer`](Self::open_peer) and
/// [`close_peer`](Self::close_peer). After any input drain the outputs:
/// [`poll_ticket`](Self::poll_ticket) until `None` (whom to wake), and on the driver
/// [`poll_pressure`](Self::poll_pressure) once.
///
/// Its rooms: `terms` has the words, `offer` the way in, `freshness` what is given up on the way,
/// `settle` the way out, and this file what holds them: the lives of connections and peers, the outputs and the counters.
#[derive(Debug)]
pub struct Outbound {
    strategy: Strategy,
    framing: Framing,
    /// Whether a message may [`join`](Self::join) others: it goes behind a header or none, and nothing
    /// but the limits decides whether there is room.
    joins: bool,
    /// The limits for all but the reopen hook, which has the whole ones.
    limit: Tally,
    hook_limit: Tally,
    /// The longest payload, if its encoding fits.
    frame_limit_bytes: usize,
    /// The longest encoding.
    room_bytes: usize,
    /// Owned payloads from this length on are not copied.
    copy_limit_bytes: usize,
    /// The longest payload that fits however it is encoded: what a longer one is told.
    payload_limit_bytes: usize,
    /// Where the user's own framing encodes a message, whose length nobody knows before.
    scratch: Vec<u8>,
    /// A message that waited longer is given up.
    max_queue_delay_ns: Option<u64>,
    stage: Stage,
    generation: u64,
    queue: SendQueue,
    writer: Writer,
    in_flight: Tally,
    /// The connection that the writer writes to is over, if it ended under the writer.
    severed: Option<Severed>,
    on_loss: OnLoss,
    /// The reopen hook runs: what the driver's thread sends goes before what is kept, and what others
    /// send behind it.
    hook: bool,
    /// What was kept at losses, in all.
    carried: Tally,
    /// A peer closed while a writer had something for it. Looked at when something goes back to the
    /// queue.
    peer_left_in_flight: bool,
    waiters: Waiters,
    /// The driver was told that there is something to do and has not come yet.
    scheduled: bool,
    /// The driver waits until the kernel takes more.
    blocked: bool,
    hot: Hot,
    pressure: PressureGauge,
    account: Account,
    peers: Option<Peers>,
    peak: Tally,
    heartbeats: u64,
    waits: u64,
    direct_writes: u64,
    write_calls: u64,
    shortages: u64,
    queue_delay: Option<Box<QueueDelay>>,
    budget: Option<Arc<Budget>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    NotOpen,
    Open,
    /// Accepts nothing more, writes what waits. Why is what sends are told.
    Closing(Discard),
    Ended,
}

/// What becomes of bytes whose connection ended while a writer had them in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severed {
    GiveUp(Discard),
    /// What the kernel did not touch waits for the next connection.
    Keep,
}

impl Severed {
    /// Why what is not kept is given up.
    const fn cause(self) -> Discard {
        match self {
            Self::GiveUp(cause) => cause,
            Self::Keep => Discard::ConnectionLost,
        }
    }
}

/// Who has bytes in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Nobody,
    /// A sender, with its own message.
    Sender,
    /// Somebody with a block of the queue.
    Block,
}

impl Outbound {
    /// For a link that is not open yet.
    ///
    /// The options were validated by whoever offers them to users: limits are not zero, and one
    /// framed byte fits the queue.
    pub fn new(options: &OutboundOptions) -> Self {
        let hook_limit = Tally {
            messages: options.queue_limit_messages as u64,
            bytes: options.queue_limit_bytes as u64,
        };
        let limit = options.on_loss.ordinary_limit(hook_limit);
        let total = options.budget.as_deref().map(Budget::limit_bytes);
        let room_bytes = limit.bytes.min(total.unwrap_or(u64::MAX)) as usize;
        let framing = options.framing.clone();
        let frame_limit_bytes = options.frame_limit_bytes.min(framing.payload_limit_bytes());
        let room_bytes = room_bytes.min(LONGEST_ENCODED);
        Self {
            strategy: options.strategy,
            limit,
            hook_limit,
            frame_limit_bytes,
            room_bytes,
            copy_limit_bytes: options.copy_limit_bytes,
            payload_limit_bytes: frame_limit_bytes.min(framing.payload_within(room_bytes)),
            joins: matches!(framing, Framing::Raw | Framing::LengthPrefix { .. })
                && !options.shared
                && options.budget.is_none(),
            framing,
            scratch: Vec::new(),
            max_queue_delay_ns: options.max_queue_delay_ns,
            stage: Stage::NotOpen,
            generation: 0,
            queue: SendQueue::new(
                writer_share(options.strategy, limit),
                options.max_queue_delay_ns.is_some(),
            ),
            writer: Writer::Nobody,
            in_flight: Tally::default(),
            severed: None,
            on_loss: options.on_loss,
            hook: false,
            carried: Tally::default(),
            peer_left_in_flight: false,
            waiters: Waiters::default(),
            scheduled: false,
            blocked: false,
            hot: Hot::default(),
            pressure: PressureGauge::new(limit),
            account: Account::default(),
            peers: options.shared.then(Peers::default),
            peak: Tally::default(),
            heartbeats: 0,
            waits: 0,
            direct_writes: 0,
            write_calls: 0,
            shortages: 0,
            queue_delay: None,
            budget: options.budget.clone(),
        }
    }

    /// A connection is there, and the application speaks first: what the driver's thread sends until
    /// [`hook_done`](Self::hook_done) goes out before everything else. For streams.
    pub fn opened_with_hook(&mut self) -> u64 {
        let generation = self.opened();
        self.hook = true;
        generation
    }

    /// A connection is there; returns its generation, from 1. Where messages are kept over a loss, there
    /// is a hook all the same.
    pub fn opened(&mut self) -> u64 {
        debug_assert_eq!(self.stage, Stage::NotOpen);
        self.generation += 1;
        self.stage = Stage::Open;
        self.blocked = false;
        self.hook = self.on_loss == OnLoss::Keep;
        // What the driver was called for belonged to the connection before.
        self.scheduled = false;
        if self.hook {
            // What was kept may be much.
            self.judge_pressure();
        }
        self.generation
    }

    /// The hook has returned: what was kept, or came from others meanwhile, may go. Says whether the driver has to be told.
    pub fn hook_done(&mut self) -> bool {
        self.hook = false;
        self.call_driver()
    }

    /// A peer of a shared queue.
    ///
    /// # Panics
    /// If the queue is not shared.
    pub fn open_peer(&mut self) -> PeerId {
        self.peers.as_mut().expect("the queue is shared").open()
    }

    /// No more is accepted; what waits is still written.
    ///
    /// With [`Discard::Closed`] the link is closed, whatever becomes of its connection from now on.
    /// With [`Discard::ConnectionLost`] it is the connection that comes to its end.
    pub fn closing(&mut self, cause: Discard) {
        self.stage = match (self.stage, cause) {
            (Stage::Open, cause) => Stage::Closing(cause),
            (Stage::Closing(_), Discard::Closed) => Stage::Closing(Discard::Closed),
            (Stage::NotOpen, Discard::Closed) => Stage::Ended,
            (Stage::NotOpen | Stage::Closing(_), Discard::ConnectionLost) | (Stage::Ended, _) => {
                return;
            }
        };
        self.dismiss(None, ticket_state(cause));
    }

    /// The connection is over: what waits is given up, or kept for the next one, unless the link was
    /// closed. With [`Discard::Closed`] none will follow.
    ///
    /// What a writer has in hand is accounted when it settles. Returns what was given up now.
    pub fn end(&mut self, cause: Discard, surroundings: &impl Surroundings) -> Tally {
        let closed = matches!(self.stage, Stage::Closing(Discard::Closed) | Stage::Ended);
        let (stage, state) = if closed || cause == Discard::Closed {
            (Stage::Ended, TicketState::Closed)
        } else {
            (Stage::NotOpen, TicketState::NotConnected)
        };
        let was_open = matches!(self.stage, Stage::Open | Stage::Closing(_));
        self.stage = stage;
        self.hook = false;
        // Whoever ends the connection is the driver.
        self.scheduled = false;
        let keeps = stage == Stage::NotOpen && self.on_loss == OnLoss::Keep;
        let given_up = match (keeps, was_open) {
            (true, true) => self.keep_untouched(cause, surroundings),
            (true, false) => Tally::default(),
            (false, _) => self.give_up(cause, surroundings),
        };
        self.dismiss(None, state);
        self.pressure.release();
        given_up
    }

    /// Gives up what waits, or was kept for a connection that will not follow. Returns how much.
    ///
    /// What a writer has in hand is accounted when it settles.
    pub fn give_up(&mut self, cause: Discard, surroundings: &impl Surroundings) -> Tally {
        if self.is_writing() && self.severed.is_none_or(|severed| severed == Severed::Keep) {
            self.severed = Some(Severed::GiveUp(cause));
        }
        self.give_up_from_queue(cause, |queue, each| queue.clear(surroundings, each))
    }

    fn keep_untouched(&mut self, cause: Discard, surroundings: &impl Surroundings) -> Tally {
        if self.is_writing() {
            self.severed.get_or_insert(Severed::Keep);
        }
        let given_up = self.give_up_from_queue(cause, |queue, each| {
            queue.keep_untouched(surroundings, each)
        });
        self.carried += self.queue.tally();
        given_up
    }

    fn give_up_from_queue(
        &mut self,
        cause: Discard,
        take_out: impl FnOnce(&mut SendQueue, &mut dyn FnMut(PeerId, Tally)),
    ) -> Tally {
        let successor = self.queue.successor();
        let mut queue = std::mem::replace(&mut self.queue, successor);
        let mut given_up = Tally::default();
        take_out(&mut queue, &mut |peer, tally| {
            given_up += tally;
            self.each_account(peer, |account| account.discarded.add(cause, tally));
        });
        self.queue = queue;
        self.give_back(given_up.bytes);
        given_up
    }

    /// A peer of a shared queue is gone: what waits for it is given up. Returns how much.
    ///
    /// What a writer has in hand for it may still go out; else it is given up when it settles.
    pub fn close_peer(
        &mut self,
        peer: PeerId,
        cause: Discard,
        surroundings: &impl Surroundings,
    ) -> Tally {
        let given_up = self.queue.take_out(peer, surroundings);
        self.each_account(peer, |account| account.discarded.add(cause, given_up));
        if let Some(peers) = &mut self.peers {
            peers.close(peer, cause);
            self.peer_left_in_flight |= !peers.waiting(peer).is_zero();
        }
        self.give_back(given_up.bytes);
        self.dismiss(Some(peer), ticket_state(cause));
        self.judge_pressure();
        self.grant();
        given_up
    }

    /// Somebody whose waiting send was decided.
    pub fn poll_ticket(&mut self) -> Option<Ticket> {
        self.waiters.tell()
    }

    /// The pressure state, if the driver has to tell another than it told last.
    pub const fn poll_pressure(&mut self) -> Option<Pressure> {
        self.pressure.tell()
    }

    /// Whether a write is under way; the descriptor must not be closed before it settles.
    pub fn is_writing(&self) -> bool {
        self.writer != Writer::Nobody
    }

    /// Whether everything accepted is written or discarded.
    pub fn is_drained(&self) -> bool {
        self.queue.is_empty() && !self.is_writing()
    }

    /// Whether a connection is open and accepts messages.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether there is no connection, or one that is known to be lost: what the peer had sent may still
    /// be read.
    pub fn is_lost(&self) -> bool {
        matches!(
            self.stage,
            Stage::NotOpen | Stage::Closing(Discard::ConnectionLost)
        )
    }

    /// Whether the link was closed, so that no connection will follow.
    pub fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// What was given up so far, by cause.
    pub const fn discarded(&self) -> Discarded {
        self.account.discarded
    }

    /// What was kept so far when connections were lost.
    pub const fn carried(&self) -> Tally {
        self.carried
    }

    /// The connection's number, from 1; 0 before the first.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// When the kernel last took something, of the whole queue or for one of its peers; 0 for never. To
    /// within a write, and not known on a direct link, which is spared the clock.
    pub fn last_written_ns(&self, peer: PeerId) -> u64 {
        let of_peer = self.peers.as_ref().map(|peers| peers.account(peer));
        match of_peer {
            None => self.account.last_written_ns,
            Some(account) => account.map_or(0, |account| account.last_written_ns),
        }
    }

    /// Whether room also depends on a total that other queues share.
    pub const fn shares_total(&self) -> bool {
        self.budget.is_some()
    }

    /// How messages are marked.
    pub const fn framing(&self) -> &Framing {
        &self.framing
    }

    /// What waits or is in flight: the limits are judged by it.
    #[inline]
    pub fn waiting(&self) -> Tally {
        self.queue.tally() + self.in_flight
    }

    /// What waits for one peer of a shared queue.
    pub fn waiting_for(&self, peer: PeerId) -> Tally {
        self.peers
            .as_ref()
            .map_or_else(|| self.waiting(), |peers| peers.waiting(peer))
    }

    /// The counters at this moment.
    pub fn statistics(&self) -> SendStatistics {
        SendStatistics {
            carried: self.carried,
            peak: self.peak,
            heartbeats: self.heartbeats,
            pressure_crossings: self.pressure.crossings(),
            waits: self.waits,
            direct_writes: self.direct_writes,
            write_calls: self.write_calls,
            shortages: self.shortages,
            queue_delay: self.queue_delay.as_deref().cloned(),
            ..statistics_of(&self.account, self.waiting())
        }
    }

    /// One peer's counters; what belongs to the shared queue alone is zero in them.
    pub fn peer_statistics(&self, peer: PeerId) -> SendStatistics {
        let account = self.peers.as_ref().and_then(|peers| peers.account(peer));
        account.map_or_else(SendStatistics::default, |account| {
            statistics_of(account, account.waiting())
        })
    }

    /// Whether the driver has to be told: something waits, pressure changed, or the last of what
    /// was to be written before the end is. At most once until it comes. A writer that is under way
    /// looks again when it settles.
    #[inline]
    fn call_driver(&mut self) -> bool {
        let something_waits =
            !self.queue.is_empty() && self.writer == Writer::Nobody && !self.blocked;
        let may_end = matches!(self.stage, Stage::Closing(_)) && self.is_drained();
        if self.scheduled || !(something_waits || may_end || self.pressure.untold()) {
            return false;
        }
        self.scheduled = true;
        true
    }

    /// Pressure is of an open connection. A message that its sender is writing counts only after
    /// that: most such writes are done before anybody could act on it.
    #[inline]
    fn judge_pressure(&mut self) {
        match (self.stage, self.writer) {
            (Stage::NotOpen | Stage::Ended, _) => {}
            (Stage::Open | Stage::Closing(_), Writer::Sender) => {
                self.pressure.judge(self.queue.tally());
            }
            (Stage::Open | Stage::Closing(_), Writer::Nobody | Writer::Block) => {
                self.pressure.judge(self.waiting());
            }
        }
    }

    /// Sends that wait, to `peer` or all, will not be served.
    fn dismiss(&mut self, peer: Option<PeerId>, state: TicketState) {
        let reserved = self.waiters.dismiss(peer, state);
        self.give_back(reserved.bytes);
    }

    #[inline]
    fn give_back(&self, bytes: u64) {
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
    }

    /// The queue's own account, and the peer's where several share it.
    #[inline]
    fn each_account(&mut self, peer: PeerId, mut change: impl FnMut(&mut Account)) {
        change(&mut self.account);
        if let Some(peers) = &mut self.peers
            && let Some(account) = peers.account_mut(peer)
        {
            change(account);
        }
    }
}

/// How much of the queue a writer may have in its hands. Of a keeplatest queue half: what is in flight
/// cannot be evicted, and a fresh sample must not be refused for want of an old one that can.
fn writer_share(strategy: Strategy, limit: Tally) -> Tally {
    match strategy {
        Strategy::KeepLatest => Tally {
            messages: limit.messages / 2,
            bytes: limit.bytes / 2,
        },
        Strategy::Reliable | Strategy::BestEffort => limit,
    }
}

/// What a waiting send is told when this is the end.
const fn ticket_state(cause: Discard) -> TicketState {
    match cause {
        Discard::ConnectionLost => TicketState::NotConnected,
        Discard::Closed => TicketState::Closed,
    }
}

fn statistics_of(account: &Account, waiting: Tally) -> SendStatistics {
    SendStatistics {
        accepted: account.accepted,
        written: account.written,
        written_payload_bytes: account.written.bytes - account.framing_bytes,
        waiting,
        discarded: account.discarded,
        refused: account.refused,
        ..SendStatistics::default()
    }
}

#[cfg(test)]
mod tests;
