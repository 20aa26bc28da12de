//! What the sending half promises, written down a second time and as plainly as possible: one list
//! of messages, no blocks, no speed. After every step the session has to agree with it.

mod offering;
mod writing;

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use tautline_session::{
    Control, Discard, Discarded, OnLoss, PeerId, Pressure, Refusal, Strategy, Tally, Ticket,
    TicketState,
};

use crate::link::{Kind, Plan};

/// A message on its way.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) peer: PeerId,
    pub(crate) payload: Bytes,
    /// As it goes to the wire; empty if its framing cannot carry it.
    pub(crate) encoded: Vec<u8>,
    pub(crate) unframeable: bool,
    /// Bytes of it that are written.
    pub(crate) written: usize,
    /// When it was accepted.
    pub(crate) accepted_ns: u64,
    /// It is the driver's own word.
    pub(crate) control: Option<Control>,
}

impl Message {
    fn left(&self) -> &[u8] {
        &self.encoded[self.written..]
    }

    fn tally(&self) -> Tally {
        Tally::one(self.left().len())
    }
}

/// What an offer must be answered with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Accepted,
    Waits,
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    NotOpen,
    Open,
    Closing(Discard),
    Ended,
}

/// A send in line.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) peer: PeerId,
    pub(crate) encoded_bytes: usize,
    pub(crate) state: TicketState,
    /// It knows that it is its turn.
    pub(crate) told: bool,
}

/// What one writer holds.
#[derive(Debug)]
struct Hand {
    messages: VecDeque<Message>,
    /// A sender holds its own message.
    direct: bool,
    /// The messages are the hook's.
    ahead: bool,
    /// Its connection is over.
    severed: Option<Severed>,
}

/// What becomes of a writer's messages whose connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severed {
    GiveUp(Discard),
    Keep,
}

/// A peer of a shared queue.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) departed: Option<Discard>,
    pub(crate) account: Account,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) accepted: Tally,
    pub(crate) written: Tally,
    pub(crate) discarded: Discarded,
    pub(crate) refused: Tally,
}

/// A total that several queues share.
#[derive(Debug, Clone)]
pub(crate) struct Total {
    pub(crate) limit_bytes: u64,
    pub(crate) held_bytes: Rc<Cell<u64>>,
}

/// What is too large for good.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Longest {
    /// Longest payload.
    pub(crate) frame_bytes: usize,
    /// Longest encoding.
    pub(crate) room_bytes: usize,
    /// Longest payload that always fits: what others are told.
    pub(crate) told_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) strategy: Strategy,
    pub(crate) limit: Tally,
    pub(crate) hook_limit: Tally,
    pub(crate) longest: Longest,
    pub(crate) shared: bool,
    /// Messages wait for the next connection when theirs is lost.
    pub(crate) keep: bool,
    /// The reopen hook runs.
    pub(crate) hook: bool,
    pub(crate) carried: Tally,
    pub(crate) total: Option<Total>,
    /// Older messages are given up.
    pub(crate) max_delay_ns: Option<u64>,
    pub(crate) stage: Stage,
    /// What the hook sent: it goes before the queue.
    ahead: VecDeque<Message>,
    queue: VecDeque<Message>,
    hand: Option<Hand>,
    pub(crate) line: Vec<Waiter>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) account: Account,
    pub(crate) peak: Tally,
    pub(crate) waits: u64,
    pub(crate) heartbeats: u64,
    /// Messages written from the queue, each of which was noted in the queue delay.
    pub(crate) noted: u64,
    pub(crate) crossings: u64,
    pressure_on: bool,
    pressure_told: bool,
    told: Vec<Ticket>,
    /// What each connection must have carried, as far as we were told that it was written.
    pub(crate) written: Vec<Vec<Message>>,
}

impl Model {
    pub(crate) fn new(
        plan: &Plan,
        [limit, hook_limit]: [Tally; 2],
        longest: Longest,
        total: Option<Total>,
    ) -> Self {
        Self {
            strategy: plan.strategy,
            limit,
            hook_limit,
            longest,
            shared: plan.kind == Kind::Datagram { shared: true },
            keep: plan.on_loss == OnLoss::Keep,
            hook: false,
            carried: Tally::default(),
            total,
            max_delay_ns: None,
            stage: Stage::NotOpen,
            ahead: VecDeque::new(),
            queue: VecDeque::new(),
            hand: None,
            line: Vec::new(),
            peers: Vec::new(),
            account: Account::default(),
            peak: Tally::default(),
            waits: 0,
            heartbeats: 0,
            noted: 0,
            crossings: 0,
            pressure_on: false,
            pressure_told: false,
            told: Vec::new(),
            written: Vec::new(),
        }
    }

    pub(crate) fn with_max_delay(self, max_delay_ns: Option<u64>) -> Self {
        Self {
            max_delay_ns,
            ..self
        }
    }

    pub(crate) fn opened(&mut self, hook: bool) {
        self.stage = Stage::Open;
        self.hook = self.keep || hook;
        self.written.push(Vec::new());
        if self.keep {
            // What was kept may be much.
            self.judge();
        }
    }

    pub(crate) fn open_peer(&mut self, id: PeerId) {
        self.peers.push(Peer {
            id,
            departed: None,
            account: Account::default(),
        });
    }

    pub(crate) fn closing(&mut self, cause: Discard) {
        match cause {
            Discard::Closed => {
                self.stage = match self.stage {
                    Stage::NotOpen | Stage::Ended => Stage::Ended,
                    Stage::Open | Stage::Closing(_) => Stage::Closing(cause),
                };
                self.dismiss(None, TicketState::Closed);
            }
            Discard::ConnectionLost if self.stage == Stage::Open => {
                self.stage = Stage::Closing(cause);
                self.dismiss(None, TicketState::NotConnected);
            }
            Discard::ConnectionLost => {}
        }
    }

    /// Returns what is given up now.
    pub(crate) fn end(&mut self, cause: Discard) -> Tally {
        let closed = [Stage::Closing(Discard::Closed), Stage::Ended].contains(&self.stage);
        if cause == Discard::Closed || closed {
            self.stage = Stage::Ended;
            self.dismiss(None, TicketState::Closed);
        } else {
            self.stage = Stage::NotOpen;
            self.dismiss(None, TicketState::NotConnected);
        }
        self.hook = false;
        let given_up = if self.keep && self.stage == Stage::NotOpen {
            if let Some(hand) = &mut self.hand {
                hand.severed.get_or_insert(Severed::Keep);
            }
            let touched = |message: &Message| message.written > 0;
            let cut = if self.queue.front().is_some_and(touched) {
                self.queue.pop_front()
            } else {
                None
            };
            // What drivers say to each other is of one connection.
            let (control, kept): (VecDeque<_>, _) = std::mem::take(&mut self.queue)
                .into_iter()
                .partition(|message| message.control.is_some());
            self.queue = kept;
            let gone = std::mem::take(&mut self.ahead).into_iter();
            let given_up = self.give_up_these(gone.chain(cut).chain(control), cause);
            self.carried += sum(&self.queue);
            given_up
        } else {
            self.give_up_all(cause)
        };
        if self.pressure_on {
            self.pressure_on = false;
            self.crossings += 1;
        }
        given_up
    }

    /// All that waits is given up; what a writer has in hand, when it is back. Returns how much now.
    pub(crate) fn give_up_all(&mut self, cause: Discard) -> Tally {
        if let Some(hand) = &mut self.hand
            && hand.severed.is_none_or(|severed| severed == Severed::Keep)
        {
            hand.severed = Some(Severed::GiveUp(cause));
        }
        let ahead = std::mem::take(&mut self.ahead);
        let queue = std::mem::take(&mut self.queue);
        self.give_up_these(ahead.into_iter().chain(queue), cause)
    }

    fn give_up_these(&mut self, gone: impl Iterator<Item = Message>, cause: Discard) -> Tally {
        let mut given_up = Tally::default();
        for message in gone {
            given_up += message.tally();
            self.give_up(&message, cause);
        }
        given_up
    }

    /// Returns what is given up now.
    pub(crate) fn close_peer(&mut self, id: PeerId, cause: Discard) -> Tally {
        let peer = self.peers.iter_mut().find(|peer| peer.id == id);
        peer.expect("it was opened").departed = Some(cause);
        let state = match cause {
            Discard::ConnectionLost => TicketState::NotConnected,
            Discard::Closed => TicketState::Closed,
        };
        self.dismiss(Some(id), state);
        let (gone, left) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|message| message.peer == id);
        self.queue = left;
        let gone: VecDeque<Message> = gone;
        let mut given_up = Tally::default();
        for message in &gone {
            given_up += message.tally();
            self.give_up(message, cause);
        }
        self.judge();
        self.grant();
        given_up
    }

    /// Whether anything was too old. What is partly written never is.
    pub(crate) fn discard_too_old(&mut self, now_ns: u64) -> bool {
        let is_old = |message: &Message| {
            let age_ns = now_ns - message.accepted_ns;
            message.written == 0 && self.max_delay_ns.is_some_and(|limit_ns| age_ns > limit_ns)
        };
        let (old, fresh): (VecDeque<_>, _) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(is_old);
        self.queue = fresh;
        for message in &old {
            let tally = message.tally();
            self.hold(-(tally.bytes as i64));
            self.each_account(message.peer, |account| account.discarded.too_old += tally);
        }
        if old.is_empty() {
            return false;
        }
        self.judge();
        self.grant();
        true
    }

    /// How long until the next is too old.
    pub(crate) fn next_too_old_ns(&self, now_ns: u64) -> Option<u64> {
        let limit_ns = self.max_delay_ns?;
        let untouched = self.queue.iter().find(|message| message.written == 0)?;
        Some(untouched.accepted_ns + limit_ns + 1 - now_ns)
    }

    pub(crate) fn told(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.told)
    }

    pub(crate) fn pressure(&mut self) -> Option<Pressure> {
        if self.pressure_on == self.pressure_told {
            return None;
        }
        self.pressure_told = self.pressure_on;
        Some(if self.pressure_on {
            Pressure::On
        } else {
            Pressure::Off
        })
    }

    pub(crate) fn waiting(&self) -> Tally {
        self.in_flight() + sum(&self.ahead) + sum(&self.queue)
    }

    pub(crate) fn in_flight(&self) -> Tally {
        self.hand
            .as_ref()
            .map_or_else(Tally::default, |hand| sum(&hand.messages))
    }

    pub(crate) fn is_queue_empty(&self) -> bool {
        self.ahead.is_empty() && self.queue.is_empty()
    }

    /// Whether the kernel has a part of a message.
    pub(crate) fn is_cut(&self) -> bool {
        let first = self.ahead.front().into_iter().chain(self.queue.front());
        first.into_iter().any(|message| message.written > 0)
    }

    /// Whether something waits that a writer may have now.
    pub(crate) fn something_may_go(&self) -> bool {
        !self.ahead.is_empty() || (!self.hook && !self.queue.is_empty())
    }

    pub(crate) const fn is_writing(&self) -> bool {
        self.hand.is_some()
    }

    pub(crate) fn granted(&self) -> Tally {
        self.line
            .iter()
            .filter(|waiter| waiter.state == TicketState::Granted)
            .fold(Tally::default(), |sum, waiter| {
                sum + Tally::one(waiter.encoded_bytes)
            })
    }

    pub(crate) fn anyone_waits(&self) -> bool {
        self.line
            .iter()
            .any(|waiter| waiter.state == TicketState::Waiting)
    }

    fn give_up(&mut self, message: &Message, cause: Discard) {
        let tally = message.tally();
        self.hold(-(tally.bytes as i64));
        self.each_account(message.peer, |account| match cause {
            Discard::ConnectionLost => account.discarded.connection_lost += tally,
            Discard::Closed => account.discarded.closed += tally,
        });
    }

    fn dismiss(&mut self, peer: Option<PeerId>, state: TicketState) {
        let mut reserved = 0;
        for waiter in &mut self.line {
            let concerned = peer.is_none_or(|peer| peer == waiter.peer);
            match waiter.state {
                TicketState::Granted if concerned => reserved += waiter.encoded_bytes as i64,
                TicketState::Waiting if concerned => {}
                _ => continue,
            }
            waiter.state = state;
            self.told.push(waiter.ticket);
        }
        self.hold(-reserved);
        self.tell_first();
    }

    fn judge(&mut self) {
        if matches!(self.stage, Stage::NotOpen | Stage::Ended) {
            return;
        }
        let in_hand = match &self.hand {
            Some(hand) if !hand.direct => sum(&hand.messages),
            _ => Tally::default(),
        };
        let held = in_hand + sum(&self.ahead) + sum(&self.queue);
        // In quarters of the limit, so that nothing is rounded.
        let crossed = if self.pressure_on {
            held.bytes * 4 <= self.limit.bytes && held.messages * 4 <= self.limit.messages
        } else {
            held.bytes * 4 >= self.limit.bytes * 3 || held.messages * 4 >= self.limit.messages * 3
        };
        if crossed {
            self.pressure_on = !self.pressure_on;
            self.crossings += 1;
        }
    }

    fn hold(&self, bytes: i64) {
        if let Some(total) = &self.total {
            let held_bytes = total.held_bytes.get().checked_add_signed(bytes);
            total
                .held_bytes
                .set(held_bytes.expect("nothing is given back twice"));
        }
    }

    fn peer(&self, id: PeerId) -> &Peer {
        let peer = self.peers.iter().find(|peer| peer.id == id);
        peer.expect("it was opened")
    }

    fn each_account(&mut self, peer: PeerId, change: impl Fn(&mut Account)) {
        change(&mut self.account);
        if let Some(peer) = self.peers.iter_mut().find(|one| one.id == peer) {
            change(&mut peer.account);
        }
    }
}

fn sum<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Tally {
    messages
        .into_iter()
        .fold(Tally::default(), |sum, message| sum + message.tally())
}
