//! What the sending half promises, written down a second time and as plainly as possible: one list
//! of messages, no blocks, no speed. After every step the session has to agree with it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use tautline_session::{
    Call, Caller, DirectWrite, Discard, Discarded, Offer, PeerId, Pressure, Refusal, Stopped,
    Strategy, Tally, Ticket, TicketState,
};

/// A message on its way.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) peer: PeerId,
    pub(crate) payload: Vec<u8>,
    /// As it goes to the wire.
    pub(crate) encoded: Vec<u8>,
    /// Bytes of it that are written.
    pub(crate) written: usize,
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
    pub(crate) told: bool,
}

/// What one writer holds.
#[derive(Debug)]
struct Hand {
    messages: VecDeque<Message>,
    /// A sender holds its own message.
    direct: bool,
    /// Its connection is over.
    severed: Option<Discard>,
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

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) strategy: Strategy,
    pub(crate) limit: Tally,
    pub(crate) payload_limit: usize,
    pub(crate) shared: bool,
    pub(crate) total: Option<Total>,
    pub(crate) stage: Stage,
    queue: VecDeque<Message>,
    hand: Option<Hand>,
    pub(crate) line: Vec<Waiter>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) account: Account,
    pub(crate) peak: Tally,
    pub(crate) waits: u64,
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
        strategy: Strategy,
        limit: Tally,
        payload_limit: usize,
        shared: bool,
        total: Option<Total>,
    ) -> Self {
        Self {
            strategy,
            limit,
            payload_limit,
            shared,
            total,
            stage: Stage::NotOpen,
            queue: VecDeque::new(),
            hand: None,
            line: Vec::new(),
            peers: Vec::new(),
            account: Account::default(),
            peak: Tally::default(),
            waits: 0,
            noted: 0,
            crossings: 0,
            pressure_on: false,
            pressure_told: false,
            told: Vec::new(),
            written: Vec::new(),
        }
    }

    pub(crate) fn opened(&mut self) {
        self.stage = Stage::Open;
        self.written.push(Vec::new());
    }

    pub(crate) fn open_peer(&mut self, id: PeerId) {
        self.peers.push(Peer {
            id,
            departed: None,
            account: Account::default(),
        });
    }

    /// What must become of an offer; evicts. Whoever was accepted then goes through `accept`.
    pub(crate) fn offer(
        &mut self,
        encoded_bytes: usize,
        payload_bytes: usize,
        peer: PeerId,
        call: Call,
        caller: Caller,
    ) -> Expected {
        if payload_bytes > self.payload_limit {
            let limit_bytes = self.payload_limit;
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
        let line_is_empty = !self.anyone_waits();
        if line_is_empty && self.fits(encoded_bytes) {
            self.hold(encoded_bytes as i64);
            return Expected::Accepted;
        }
        match (call, self.strategy) {
            (_, Strategy::KeepLatest) if self.evict_for(encoded_bytes, peer) => Expected::Accepted,
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
            | (Call::Send, Strategy::BestEffort)
            | (_, Strategy::KeepLatest) => {
                let refused = Tally::one(encoded_bytes);
                self.each_account(peer, |account| account.refused += refused);
                Expected::Refused(Refusal::Full)
            }
        }
    }

    /// Room was found for it: it is queued, or its sender has it in hand.
    pub(crate) fn accept(&mut self, message: Message, offer: Offer) {
        let tally = message.tally();
        self.each_account(message.peer, |account| account.accepted += tally);
        let waiting = self.waiting();
        self.peak.messages = self.peak.messages.max(waiting.messages + 1);
        self.peak.bytes = self.peak.bytes.max(waiting.bytes + tally.bytes);
        if matches!(offer, Offer::WriteNow(_)) {
            assert!(
                self.hand.is_none() && self.queue.is_empty(),
                "two writers, or past those that wait"
            );
            self.hand = Some(Hand {
                messages: VecDeque::from([message]),
                direct: true,
                severed: None,
            });
        } else {
            self.queue.push_back(message);
            self.judge();
        }
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
    fn tell_first(&mut self) {
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

    /// A writer took these bytes of a stream.
    pub(crate) fn take_bytes(&mut self, bytes: &[u8]) {
        let mut messages = VecDeque::new();
        let mut left = bytes;
        while !left.is_empty() {
            let front = self.queue.pop_front().expect("as much waits");
            left = left
                .strip_prefix(front.left())
                .expect("a writer gets whole messages, or the rest of one, in order");
            messages.push_back(front);
        }
        self.take(messages);
    }

    /// A writer took these datagrams.
    pub(crate) fn take_datagrams<'a>(
        &mut self,
        datagrams: impl Iterator<Item = (PeerId, &'a [u8])>,
    ) {
        let mut messages = VecDeque::new();
        for (peer, payload) in datagrams {
            let front = self.queue.pop_front().expect("as many wait");
            assert_eq!((front.peer, &*front.payload), (peer, payload));
            messages.push_back(front);
        }
        self.take(messages);
    }

    fn take(&mut self, messages: VecDeque<Message>) {
        assert!(self.hand.is_none(), "two writers");
        assert!(matches!(self.stage, Stage::Open | Stage::Closing(_)));
        self.hand = Some(Hand {
            messages,
            direct: false,
            severed: None,
        });
    }

    pub(crate) fn settle_stream(&mut self, written_bytes: usize) {
        let Some(mut messages) = self.back_from_writing() else {
            return;
        };
        let left = self.write(&mut messages, written_bytes, true);
        assert_eq!(left, 0, "more was written than there was");
        self.put_back(messages);
    }

    pub(crate) fn settle_datagrams(&mut self, sent: usize, stopped: Stopped) {
        let Some(mut messages) = self.back_from_writing() else {
            return;
        };
        for message in messages.drain(..sent) {
            self.count_written(message, true);
        }
        if stopped == Stopped::Failed
            && let Some(failed) = messages.pop_front()
        {
            self.fail(&failed);
        }
        self.put_back(messages);
    }

    pub(crate) fn settle_direct(&mut self, written: DirectWrite) {
        let Some(mut messages) = self.back_from_writing() else {
            return;
        };
        match written {
            DirectWrite::Whole => {
                let message = messages.pop_front().expect("its own message");
                self.count_written(message, false);
            }
            DirectWrite::Failed => {
                let message = messages.pop_front().expect("its own message");
                self.fail(&message);
            }
            DirectWrite::Part(bytes) => {
                if bytes > 0 {
                    self.write(&mut messages, bytes, false);
                }
            }
        }
        self.put_back(messages);
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
        if let Some(hand) = &mut self.hand {
            hand.severed.get_or_insert(cause);
        }
        let mut given_up = Tally::default();
        for message in std::mem::take(&mut self.queue) {
            given_up += message.tally();
            self.give_up(&message, cause);
        }
        if self.pressure_on {
            self.pressure_on = false;
            self.crossings += 1;
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
        self.in_flight() + sum(&self.queue)
    }

    pub(crate) fn in_flight(&self) -> Tally {
        self.hand
            .as_ref()
            .map_or_else(Tally::default, |hand| sum(&hand.messages))
    }

    pub(crate) fn is_queue_empty(&self) -> bool {
        self.queue.is_empty()
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

    /// Whether a message of this length would find room now, nobody being before it.
    pub(crate) fn fits(&self, encoded_bytes: usize) -> bool {
        self.fits_beside(self.waiting() + self.granted(), encoded_bytes, 0)
    }

    fn fits_beside(&self, held: Tally, encoded_bytes: usize, given_back_bytes: u64) -> bool {
        let bytes = encoded_bytes as u64;
        held.messages < self.limit.messages
            && held.bytes + bytes <= self.limit.bytes
            && self.total.as_ref().is_none_or(|total| {
                let held_by_all = total.held_bytes.get() - given_back_bytes;
                held.bytes + bytes + held_by_all <= total.limit_bytes
            })
    }

    fn evict_for(&mut self, encoded_bytes: usize, peer: PeerId) -> bool {
        let evictable = |message: &Message| message.peer == peer && message.written == 0;
        let most = sum(self.queue.iter().filter(|message| evictable(message)));
        let mut kept = self.waiting() + self.granted();
        kept -= most;
        if !self.fits_beside(kept, encoded_bytes, most.bytes) {
            return false;
        }
        while !self.fits(encoded_bytes) {
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

    /// The writer is back; `None` when its connection is over, and then all it held is given up.
    fn back_from_writing(&mut self) -> Option<VecDeque<Message>> {
        let hand = self.hand.take().expect("somebody was writing");
        let Some(cause) = hand.severed else {
            return Some(hand.messages);
        };
        for message in &hand.messages {
            self.give_up(message, cause);
        }
        self.judge();
        self.grant();
        None
    }

    /// Returns the bytes that were written beyond what there was.
    fn write(&mut self, messages: &mut VecDeque<Message>, bytes: usize, queued: bool) -> usize {
        let mut left = bytes;
        while let Some(front) = messages.front_mut() {
            if left < front.left().len() {
                self.account.written.bytes += left as u64;
                front.written += left;
                self.hold(-(left as i64));
                return 0;
            }
            left -= front.left().len();
            let message = messages.pop_front().expect("it is the front");
            self.count_written(message, queued);
        }
        left
    }

    fn count_written(&mut self, mut message: Message, queued: bool) {
        let tally = message.tally();
        self.hold(-(tally.bytes as i64));
        self.each_account(message.peer, |account| account.written += tally);
        self.noted += u64::from(queued);
        message.written = message.encoded.len();
        self.written
            .last_mut()
            .expect("a connection is open")
            .push(message);
    }

    fn fail(&mut self, message: &Message) {
        let tally = message.tally();
        self.hold(-(tally.bytes as i64));
        self.each_account(message.peer, |account| account.discarded.failed += tally);
    }

    fn give_up(&mut self, message: &Message, cause: Discard) {
        let tally = message.tally();
        self.hold(-(tally.bytes as i64));
        self.each_account(message.peer, |account| match cause {
            Discard::ConnectionLost => account.discarded.connection_lost += tally,
            Discard::Closed => account.discarded.closed += tally,
        });
    }

    fn put_back(&mut self, mut messages: VecDeque<Message>) {
        while let Some(message) = messages.pop_back() {
            let departed = if self.shared {
                self.peer(message.peer).departed
            } else {
                None
            };
            match departed {
                Some(cause) => self.give_up(&message, cause),
                None => self.queue.push_front(message),
            }
        }
        self.judge();
        self.grant();
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
        let held = in_hand + sum(&self.queue);
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
