//! The sending half of a session: what becomes of each message offered.
//!
//! The session decides, the driver obeys. Whoever writes takes bytes out by value ([`Taken`]) and
//! settles what the kernel made of them, so that nothing is locked in between and a connection may
//! end, or another begin, while a write is under way.

use std::sync::Arc;

use crate::account::{Account, Discarded, SendStatistics, Tally};
use crate::block::{Block, Datagram, PeerId};
use crate::budget::Budget;
use crate::delay::QueueDelay;
use crate::framing::Framing;
use crate::peers::Peers;
use crate::pressure::{Pressure, PressureGauge};
use crate::queue::SendQueue;
use crate::strategy::Strategy;
use crate::waiters::{Ticket, TicketState, Waiters};

/// What a session asks of whatever drives it. Time is asked for only where it is used: a clock read
/// per message would cost a third of the throughput.
pub trait Surroundings {
    /// Monotonic time, from any epoch.
    fn now_ns(&self) -> u64;
    /// An empty block with the room of [`BLOCK_BYTES`](crate::BLOCK_BYTES).
    fn block(&self) -> Block;
    /// A block that is no longer needed.
    fn recycle(&self, block: Block);
}

/// How a queue behaves. The limits are exact: what is in flight counts.
#[derive(Debug, Clone)]
pub struct OutboundOptions {
    /// What a full queue means.
    pub strategy: Strategy,
    /// How messages are marked.
    pub framing: Framing,
    /// Most encoded bytes waiting or in flight.
    pub queue_limit_bytes: usize,
    /// Most messages waiting or in flight.
    pub queue_limit_messages: usize,
    /// Longest payload.
    pub frame_limit_bytes: usize,
    /// Several peers share the queue; keeplatest evicts among the messages to one peer.
    pub shared: bool,
    /// A total shared with other queues.
    pub budget: Option<Arc<Budget>>,
}

/// Which call offers a message: the columns of the table at [`Strategy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `try_send`
    Try,
    /// `send`
    Send,
    /// `send_timeout`
    Within,
}

/// Who is calling, and so what may be asked of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// An application thread: may write, may wait.
    Thread,
    /// A thread inside a callback of some other I/O thread: may write, never waits.
    Callback,
    /// The I/O thread of this link: appends, flushes once per dispatch batch, never waits.
    Driver,
    /// The owner of a direct link: always writes, and waits in its own way.
    Direct,
}

/// The answer to an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Offer {
    /// Accepted: the caller writes it now, then calls [`Outbound::settle_direct`].
    WriteNow(Token),
    /// Accepted and queued.
    Queued {
        /// The driver has to be told; it was not yet.
        wake: bool,
    },
    /// No room: the caller waits for its turn.
    Wait(Ticket),
    /// Not accepted.
    Refused(Refusal),
}

/// Why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No room.
    Full,
    /// No room, and the caller would have to wait but may not.
    WouldWait,
    /// It never fits.
    TooLarge {
        /// The longest payload accepted.
        limit_bytes: usize,
    },
    /// No connection is open.
    NotConnected,
    /// The link was closed.
    Closed,
}

/// The right to write, in one life of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    generation: u64,
}

/// Bytes in a writer's hands. It counts as waiting until settled, and is never evicted.
#[derive(Debug)]
#[must_use]
pub struct Taken {
    token: Token,
    caller: Caller,
    taken_ns: u64,
    block: Block,
}

impl Taken {
    /// What a stream has to write; may be empty.
    pub fn bytes(&self) -> &[u8] {
        self.block.unwritten()
    }

    /// The datagrams to send, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.block.datagrams()
    }
}

/// Where a batch of datagrams stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// All are sent.
    AtEnd,
    /// The kernel has no room for the next.
    WouldBlock,
    /// The kernel refused the next for good.
    Failed,
}

/// What a settled write leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// There is more to take now.
    pub more: bool,
    /// The kernel was full: write again when it says so.
    pub blocked: bool,
}

/// Why accepted messages are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// The connection was lost.
    ConnectionLost,
    /// The link was closed.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    NotOpen,
    Open,
    /// Accepts nothing more, writes what waits.
    Closing,
    Ended,
}

/// The sending half of one link, or of the socket that a datagram server's peers share.
///
/// Inputs: [`opened`](Self::opened), [`offer`](Self::offer), [`redeem`](Self::redeem),
/// [`cancel`](Self::cancel), [`take`](Self::take), the `settle_*` calls, [`closing`](Self::closing),
/// [`end`](Self::end), and for shared queues [`open_peer`](Self::open_peer) and
/// [`close_peer`](Self::close_peer). After any input drain the outputs:
/// [`poll_ticket`](Self::poll_ticket) until `None` (whom to wake), and on the driver
/// [`poll_pressure`](Self::poll_pressure) once.
#[derive(Debug)]
pub struct Outbound {
    strategy: Strategy,
    framing: Framing,
    limit: Tally,
    payload_limit_bytes: usize,
    stage: Stage,
    generation: u64,
    queue: SendQueue,
    writer: Writer,
    in_flight: Tally,
    waiters: Waiters,
    /// The driver was told that there is something to do and has not come yet.
    scheduled: bool,
    /// The driver waits until the kernel takes more.
    blocked: bool,
    hot: Hot,
    group: Group,
    pressure: PressureGauge,
    account: Account,
    peers: Option<Peers>,
    peak: Tally,
    waits: u64,
    direct_writes: u64,
    write_calls: u64,
    queue_delay: Option<Box<QueueDelay>>,
    budget: Option<Arc<Budget>>,
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
        let limit = Tally {
            messages: options.queue_limit_messages as u64,
            bytes: options.queue_limit_bytes as u64,
        };
        let payload_limit_bytes = options
            .frame_limit_bytes
            .min(options.framing.payload_limit_bytes())
            .min(options.queue_limit_bytes - options.framing.header_bytes());
        Self {
            strategy: options.strategy,
            framing: options.framing,
            limit,
            payload_limit_bytes,
            stage: Stage::NotOpen,
            generation: 0,
            queue: SendQueue::default(),
            writer: Writer::Nobody,
            in_flight: Tally::default(),
            waiters: Waiters::default(),
            scheduled: false,
            blocked: false,
            hot: Hot::default(),
            group: Group::default(),
            pressure: PressureGauge::new(limit),
            account: Account::default(),
            peers: options.shared.then(Peers::default),
            peak: Tally::default(),
            waits: 0,
            direct_writes: 0,
            write_calls: 0,
            queue_delay: None,
            budget: options.budget.clone(),
        }
    }

    /// A connection is there; returns its generation, from 1.
    pub fn opened(&mut self) -> u64 {
        debug_assert_eq!(self.stage, Stage::NotOpen);
        self.generation += 1;
        self.stage = Stage::Open;
        self.blocked = false;
        self.generation
    }

    /// A peer of a shared queue.
    ///
    /// # Panics
    /// If the queue is not shared.
    pub fn open_peer(&mut self) -> PeerId {
        self.peers.as_mut().expect("the queue is shared").open()
    }

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
        if self.make_room(encoded_bytes, peer, surroundings) {
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
            Some(TicketState::Granted) => match self.not_open(peer) {
                None => return self.accept(message, peer, caller, surroundings),
                Some(refusal) => {
                    self.give_back((self.framing.header_bytes() + message.len()) as u64);
                    self.grant();
                    refusal
                }
            },
            Some(TicketState::Closed) => Refusal::Closed,
            Some(TicketState::Waiting) => Refusal::WouldWait,
            Some(TicketState::NotConnected) | None => Refusal::NotConnected,
        };
        Offer::Refused(refusal)
    }

    /// A waiting send gives up; what had been granted goes to the next.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<TicketState> {
        let granted = self.waiters.granted();
        let state = self.waiters.leave(ticket);
        self.give_back(granted.bytes - self.waiters.granted().bytes);
        self.grant();
        state
    }

    /// What has become of a waiting send.
    pub fn ticket(&self, ticket: Ticket) -> TicketState {
        let gone = TicketState::NotConnected;
        self.waiters.state(ticket).unwrap_or(gone)
    }

    /// Looks again for room that a shared total may have given back elsewhere.
    pub fn grant(&mut self) {
        if !self.waiters.anyone_waits() {
            return;
        }
        let (limit, busy, budget) = (self.limit, self.busy(), self.budget.as_deref());
        self.waiters
            .grant(|encoded_bytes, granted| reserve(limit, busy + granted, encoded_bytes, budget));
    }

    /// Somebody whose waiting send was decided.
    pub fn poll_ticket(&mut self) -> Option<Ticket> {
        self.waiters.tell()
    }

    /// The pressure state, if the driver has to tell another than it told last.
    pub const fn poll_pressure(&mut self) -> Option<Pressure> {
        self.pressure.tell()
    }

    /// The oldest block, for whoever writes. `None` when there is nothing, when somebody else is
    /// writing, or when no connection is open.
    pub fn take(&mut self, caller: Caller, surroundings: &impl Surroundings) -> Option<Taken> {
        if caller == Caller::Driver {
            self.scheduled = false;
            self.blocked = false;
        }
        let open = matches!(self.stage, Stage::Open | Stage::Closing);
        if !open || self.writer != Writer::Nobody || self.blocked {
            return None;
        }
        let block = self.queue.take_front()?;
        self.writer = Writer::Block;
        self.in_flight = block.tally();
        self.write_calls += 1;
        Some(Taken {
            token: Token {
                generation: self.generation,
            },
            caller,
            taken_ns: surroundings.now_ns(),
            block,
        })
    }

    /// What the kernel took of a stream's block. Messages it did not touch may be evicted again.
    pub fn settle_stream(
        &mut self,
        mut taken: Taken,
        written_bytes: usize,
        surroundings: &impl Surroundings,
    ) -> Settled {
        if !self.settle_begins(taken.token) {
            return self.settle_stale(taken.block, surroundings);
        }
        let waited = (taken.taken_ns, &mut self.queue_delay);
        let written = taken.block.advance(written_bytes, record(waited));
        self.account.written += written;
        self.give_back(written.bytes);
        self.settle_ends(taken.block, taken.caller, true, surroundings)
    }

    /// What became of a block of datagrams: `sent` are gone, then it stopped.
    pub fn settle_datagrams(
        &mut self,
        mut taken: Taken,
        sent: usize,
        stopped: Stopped,
        surroundings: &impl Surroundings,
    ) -> Settled {
        if !self.settle_begins(taken.token) {
            return self.settle_stale(taken.block, surroundings);
        }
        self.write_calls += (sent as u64).saturating_sub(1);
        for _ in 0..sent {
            let waited = (taken.taken_ns, &mut self.queue_delay);
            if let Some((peer, written)) = taken.block.pass_front(record(waited)) {
                self.give_back(written.bytes);
                self.each_account(peer, |account| account.written += written);
            }
        }
        if stopped == Stopped::Failed
            && let Some((peer, failed)) = taken.block.pass_front(|_, _| {})
        {
            self.give_back(failed.bytes);
            self.each_account(peer, |account| account.discarded.failed += failed);
        }
        let blocked = stopped == Stopped::WouldBlock;
        self.settle_ends(taken.block, taken.caller, blocked, surroundings)
    }

    /// What the kernel took of a message that its sender wrote. The rest goes to the front of the
    /// queue.
    ///
    /// Returns whether the driver has to be told.
    pub fn settle_direct(
        &mut self,
        token: Token,
        message: &[u8],
        peer: PeerId,
        written: DirectWrite,
        surroundings: &impl Surroundings,
    ) -> bool {
        let header = self.framing.header(message.len());
        let whole = Tally::one(header.len() + message.len());
        self.direct_writes += 1;
        self.write_calls += 1;
        if !self.settle_begins(token) {
            self.give_back(whole.bytes);
            self.each_account(peer, |account| account.discarded.connection_lost += whole);
            return self.call_driver();
        }
        match written {
            DirectWrite::Whole => {
                self.give_back(whole.bytes);
                self.each_account(peer, |account| account.written += whole);
            }
            DirectWrite::Failed => {
                self.give_back(whole.bytes);
                self.each_account(peer, |account| account.discarded.failed += whole);
            }
            DirectWrite::Part(bytes) => {
                self.put_rest_first(&header, message, peer, bytes, surroundings);
            }
        }
        self.hot.write_ended(surroundings.now_ns());
        self.pressure.judge(self.busy());
        self.grant();
        self.call_driver()
    }

    /// No more is accepted; what waits is still written.
    pub fn closing(&mut self) {
        if matches!(self.stage, Stage::NotOpen | Stage::Open) {
            self.stage = match self.stage {
                Stage::Open => Stage::Closing,
                _ => Stage::Ended,
            };
            self.dismiss(TicketState::Closed);
        }
    }

    /// The connection is over: what waits is given up. With [`Discard::Closed`] none will follow.
    ///
    /// What a writer has in hand is accounted when it settles. Returns what was given up now.
    pub fn end(&mut self, cause: Discard, surroundings: &impl Surroundings) -> Tally {
        let (stage, state) = match cause {
            Discard::ConnectionLost => (Stage::NotOpen, TicketState::NotConnected),
            Discard::Closed => (Stage::Ended, TicketState::Closed),
        };
        self.stage = stage;
        self.blocked = false;
        self.scheduled = false;
        let mut queue = std::mem::take(&mut self.queue);
        let mut given_up = Tally::default();
        queue.clear(surroundings, |peer, tally| {
            given_up += tally;
            self.each_account(peer, |account| {
                discard(&mut account.discarded, cause, tally)
            });
        });
        self.give_back(given_up.bytes);
        self.dismiss(state);
        self.pressure.release();
        given_up
    }

    /// A peer of a shared queue is gone: what waits for it is given up. Returns how much.
    pub fn close_peer(
        &mut self,
        peer: PeerId,
        cause: Discard,
        surroundings: &impl Surroundings,
    ) -> Tally {
        let given_up = self.queue.take_out(peer, surroundings);
        self.each_account(peer, |account| {
            discard(&mut account.discarded, cause, given_up);
        });
        if let Some(peers) = &mut self.peers {
            peers.close(peer);
        }
        self.give_back(given_up.bytes);
        self.pressure.judge(self.busy());
        self.grant();
        given_up
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

    /// The connection's number, from 1; 0 before the first.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether room also depends on a total that other queues share.
    pub const fn shares_total(&self) -> bool {
        self.budget.is_some()
    }

    /// How messages are marked.
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// What waits or is in flight.
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
            peak: self.peak,
            pressure_crossings: self.pressure.crossings(),
            waits: self.waits,
            direct_writes: self.direct_writes,
            write_calls: self.write_calls,
            queue_delay: self.queue_delay.as_deref().cloned(),
            ..statistics_of(&self.account, self.waiting(), self.framing)
        }
    }

    /// One peer's counters; what belongs to the shared queue alone is zero in them.
    pub fn peer_statistics(&self, peer: PeerId) -> SendStatistics {
        let account = self.peers.as_ref().and_then(|peers| peers.account(peer));
        account.map_or_else(SendStatistics::default, |account| {
            statistics_of(account, account.waiting(), self.framing)
        })
    }

    fn not_open(&self, peer: PeerId) -> Option<Refusal> {
        match self.stage {
            Stage::NotOpen => Some(Refusal::NotConnected),
            Stage::Closing | Stage::Ended => Some(Refusal::Closed),
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
        surroundings: &impl Surroundings,
    ) -> bool {
        if self.waiters.anyone_waits() {
            return false;
        }
        loop {
            let held = self.busy() + self.waiters.granted();
            if reserve(self.limit, held, encoded_bytes, self.budget.as_deref()) {
                return true;
            }
            if self.strategy != Strategy::KeepLatest || !self.evict(peer, surroundings) {
                return false;
            }
        }
    }

    fn evict(&mut self, peer: PeerId, surroundings: &impl Surroundings) -> bool {
        let evicted = match &self.peers {
            None => self.queue.evict_oldest(surroundings),
            Some(peers) if peers.waiting(peer).messages == 0 => None,
            Some(_) => self.queue.evict_oldest_to(peer, surroundings),
        };
        let Some(evicted) = evicted else {
            return false;
        };
        self.give_back(evicted.bytes);
        self.each_account(peer, |account| account.discarded.evicted += evicted);
        self.pressure.judge(self.pressing());
        true
    }

    fn no_room(&mut self, encoded_bytes: usize, peer: PeerId, call: Call, caller: Caller) -> Offer {
        let waits = match (call, self.strategy) {
            (Call::Send, Strategy::Reliable)
            | (Call::Within, Strategy::Reliable | Strategy::BestEffort) => true,
            (Call::Try, _)
            | (Call::Send, Strategy::BestEffort)
            | (Call::Send | Call::Within, Strategy::KeepLatest) => false,
        };
        if !waits {
            let refused = Tally::one(encoded_bytes);
            self.each_account(peer, |account| account.refused += refused);
            return Offer::Refused(Refusal::Full);
        }
        match caller {
            Caller::Thread => {
                self.waits += 1;
                Offer::Wait(self.waiters.join(encoded_bytes))
            }
            Caller::Callback | Caller::Driver | Caller::Direct => {
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
        self.each_account(peer, |account| account.accepted += accepted);
        self.peak = self.peak.max(self.waiting() + accepted);

        let idle = self.queue.is_empty() && self.writer == Writer::Nobody && !self.blocked;
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
            return Offer::WriteNow(Token {
                generation: self.generation,
            });
        }

        let at_ns = if self.queue.is_empty() || self.group.is_full() {
            self.group = Group::default();
            Some(now_ns.unwrap_or_else(|| surroundings.now_ns()))
        } else {
            None
        };
        self.group.add(accepted);
        self.queue.push(&header, message, peer, at_ns, surroundings);
        self.pressure.judge(self.pressing());
        Offer::Queued {
            wake: self.call_driver(),
        }
    }

    /// Whether the driver has to be told, now that something waits or pressure changed. At most once
    /// until it comes. A writer that is under way looks again when it settles.
    fn call_driver(&mut self) -> bool {
        let something_waits =
            !self.queue.is_empty() && self.writer == Writer::Nobody && !self.blocked;
        if self.scheduled || !(something_waits || self.pressure.untold()) {
            return false;
        }
        self.scheduled = true;
        true
    }

    /// After a thread that is not the driver settled a block: whether the driver has to be told.
    pub fn needs_driver(&mut self) -> bool {
        self.call_driver()
    }

    /// Waiting and in flight, of which the limits are judged.
    fn busy(&self) -> Tally {
        self.queue.tally() + self.in_flight
    }

    /// What pressure is judged by: a message that its sender is writing counts only after that.
    fn pressing(&self) -> Tally {
        match self.writer {
            Writer::Sender => self.queue.tally(),
            Writer::Nobody | Writer::Block => self.busy(),
        }
    }

    /// The writer is back. False when its connection is not the one that is open.
    fn settle_begins(&mut self, token: Token) -> bool {
        self.writer = Writer::Nobody;
        self.in_flight = Tally::default();
        matches!(self.stage, Stage::Open | Stage::Closing) && token.generation == self.generation
    }

    fn settle_ends(
        &mut self,
        block: Block,
        caller: Caller,
        would_block: bool,
        surroundings: &impl Surroundings,
    ) -> Settled {
        let rest = !block.is_empty();
        if rest {
            self.queue.put_front(block);
        } else {
            surroundings.recycle(block);
        }
        let blocked = rest && would_block;
        // Only the driver can ask the kernel for a word when there is room again.
        self.blocked = blocked && caller == Caller::Driver;
        self.hot.write_ended(surroundings.now_ns());
        self.pressure.judge(self.busy());
        self.grant();
        Settled {
            more: !blocked && !self.queue.is_empty(),
            blocked,
        }
    }

    /// The connection ended under the writer: whatever the kernel took went nowhere we know of.
    #[cold]
    fn settle_stale(&mut self, block: Block, surroundings: &impl Surroundings) -> Settled {
        let mut lost = Tally::default();
        block.each().for_each(|(peer, tally)| {
            lost += tally;
            self.each_account(peer, |account| account.discarded.connection_lost += tally);
        });
        self.give_back(lost.bytes);
        surroundings.recycle(block);
        self.grant();
        Settled {
            more: !self.queue.is_empty(),
            blocked: false,
        }
    }

    #[cold]
    fn put_rest_first(
        &mut self,
        header: &[u8],
        message: &[u8],
        peer: PeerId,
        written_bytes: usize,
        surroundings: &impl Surroundings,
    ) {
        let encoded_bytes = header.len() + message.len();
        let mut rest = if encoded_bytes <= crate::BLOCK_BYTES {
            surroundings.block()
        } else {
            Block::with_room(encoded_bytes)
        };
        rest.stamp(surroundings.now_ns());
        rest.push(header, message, peer);
        if written_bytes > 0 {
            rest.cut(written_bytes);
            self.give_back(written_bytes as u64);
            self.account.written.bytes += written_bytes as u64;
        }
        self.queue.put_front(rest);
    }

    fn dismiss(&mut self, state: TicketState) {
        let reserved = self.waiters.dismiss(state);
        self.give_back(reserved.bytes);
    }

    fn give_back(&self, bytes: u64) {
        if let Some(budget) = &self.budget {
            budget.give_back(bytes);
        }
    }

    /// The queue's own account, and the peer's where several share it.
    fn each_account(&mut self, peer: PeerId, mut change: impl FnMut(&mut Account)) {
        change(&mut self.account);
        if let Some(peers) = &mut self.peers
            && let Some(account) = peers.account_mut(peer)
        {
            change(account);
        }
    }
}

/// What the kernel made of a message that its sender wrote itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectWrite {
    /// It took all of it.
    Whole,
    /// It took the first so many bytes of the encoded message and has no room for more; 0 of a
    /// datagram.
    Part(usize),
    /// It refused the datagram for good.
    Failed,
}

/// Whether sends come so fast that gathering them beats writing each.
///
/// Three in a row, each within a microsecond of the end of the last write: a producer that does
/// nothing else. Measured: writing each, such a producer gets a hundredth of the throughput.
#[derive(Debug, Default)]
struct Hot {
    write_ended_ns: u64,
    sends: u32,
}

const HOT_GAP_NS: u64 = 1_000;
const HOT_SENDS: u32 = 3;

impl Hot {
    const fn send_comes(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.write_ended_ns) < HOT_GAP_NS {
            self.sends = self.sends.saturating_add(1);
        } else {
            self.sends = 0;
        }
        self.sends >= HOT_SENDS
    }

    const fn write_ended(&mut self, now_ns: u64) {
        self.write_ended_ns = now_ns;
    }
}

/// Messages queued since the clock was last read for the queue delay.
#[derive(Debug, Default)]
struct Group(Tally);

impl Group {
    const fn is_full(&self) -> bool {
        self.0.messages >= 64 || self.0.bytes >= 4096
    }

    fn add(&mut self, message: Tally) {
        self.0 += message;
    }
}

fn reserve(limit: Tally, held: Tally, encoded_bytes: usize, budget: Option<&Budget>) -> bool {
    held.messages < limit.messages
        && held.bytes + encoded_bytes as u64 <= limit.bytes
        && budget.is_none_or(|budget| budget.take(encoded_bytes as u64, held.bytes))
}

/// Notes in the histogram, made with the first queued message, how long messages waited.
fn record((taken_ns, histogram): (u64, &mut Option<Box<QueueDelay>>)) -> impl FnMut(u64, u32) + '_ {
    move |queued_ns, messages| {
        histogram
            .get_or_insert_default()
            .record(taken_ns.saturating_sub(queued_ns), messages);
    }
}

fn discard(discarded: &mut Discarded, cause: Discard, tally: Tally) {
    *match cause {
        Discard::ConnectionLost => &mut discarded.connection_lost,
        Discard::Closed => &mut discarded.closed,
    } += tally;
}

fn statistics_of(account: &Account, waiting: Tally, framing: Framing) -> SendStatistics {
    let framing_bytes = account.written.messages * framing.header_bytes() as u64;
    SendStatistics {
        accepted: account.accepted,
        written: account.written,
        written_payload_bytes: account.written.bytes.saturating_sub(framing_bytes),
        waiting,
        discarded: account.discarded,
        refused: account.refused,
        ..SendStatistics::default()
    }
}
