//! The side that sends: threads and callbacks that offer, write, wait, redeem and give up.

use tautline_session::{
    Call, Caller, DirectWrite, Framing, Offer, PeerId, Refusal, Surroundings, Ticket, TicketState,
    Token,
};

use super::{Doing, Hand, Kind, Link, put_together};
use crate::model::{Expected, Message};
use crate::random::Random;

impl Link {
    pub(super) fn some_sender_acts(&mut self, random: &mut Random) {
        let index = random.up_to(self.senders.len() - 1);
        self.sender_goes_on(index, random);
    }

    pub(super) fn sender_goes_on(&mut self, index: usize, random: &mut Random) {
        match std::mem::replace(&mut self.senders[index].doing, Doing::Nothing) {
            Doing::Nothing => self.sender_offers(index, random),
            Doing::Writing {
                token,
                message,
                wire,
                result: None,
            } => {
                let result = Some(self.write_one(&message, wire, random));
                self.senders[index].doing = Doing::Writing {
                    token,
                    message,
                    wire,
                    result,
                };
            }
            Doing::Writing {
                token,
                message,
                result: Some(result),
                ..
            } => self.sender_settles(token, &message, result),
            Doing::WritingBlock(mut hand) => match hand.result {
                None => {
                    hand.result = Some(self.write_block(&hand, random));
                    self.senders[index].doing = Doing::WritingBlock(hand);
                }
                Some((written, _)) => self.sender_settles_block(hand, written),
            },
            Doing::Waiting {
                ticket,
                message,
                told,
            } => {
                if told && !random.one_in(8) {
                    self.sender_redeems(index, ticket, message);
                } else if told || random.one_in(6) {
                    // Its time was up, perhaps when it had been granted room.
                    self.sender_gives_up(ticket);
                } else if random.one_in(20) {
                    // Nobody told it; a careless caller looks all the same.
                    self.sender_redeems(index, ticket, message);
                } else {
                    self.senders[index].doing = Doing::Waiting {
                        ticket,
                        message,
                        told,
                    };
                }
            }
        }
    }

    fn sender_offers(&mut self, index: usize, random: &mut Random) {
        let mut call = random.pick(&[Call::Try, Call::Send, Call::Within, Call::Await]);
        let caller = if self.plan.direct {
            // Its owner is a thread, and no task.
            call = if call == Call::Await {
                Call::Send
            } else {
                call
            };
            Caller::Direct
        } else {
            match random.up_to(9) {
                0..7 => Caller::Thread,
                7 => Caller::Callback,
                // The I/O thread's own callbacks run when it is not in the middle of a write.
                _ if self.driver_has_a_hand() => Caller::Thread,
                // What the hook sends answers nothing.
                _ if !self.model.hook && random.one_in(2) => Caller::Answering,
                _ => Caller::Driver,
            }
        };
        let Some(message) = self.compose(index, caller, random) else {
            return;
        };
        let too_old = self.model.account.discarded.too_old;
        let now_ns = self.desk.now_ns();
        let expected = self.model.offer(&message, call, caller, now_ns);
        if self.model.account.discarded.too_old != too_old {
            self.saw("an offer finds messages too old");
        }
        let must_write =
            expected == Expected::Accepted && self.must_write(caller, message.encoded.len());
        let joined = if !self.plan.direct && random.one_in(2) {
            self.outbound.join(&message.payload)
        } else {
            None
        };
        if joined.is_some() {
            self.saw("a message joins others by the short way");
        }
        let offer = match joined {
            Some(wake) => Offer::Queued { wake },
            None => self
                .outbound
                .offer(&message.payload, message.peer, call, caller, &*self.desk),
        };
        self.say_with(|| {
            let bytes = message.encoded.len();
            format!("sender {index} offers {bytes} bytes by {call:?} as {caller:?}: {offer:?}")
        });
        match (offer, expected) {
            (Offer::Wait(ticket), Expected::Waits) => {
                self.saw("a send waits");
                self.model.join(ticket, message.peer, message.encoded.len());
                self.senders[index].doing = Doing::Waiting {
                    ticket,
                    message,
                    told: false,
                };
            }
            (Offer::Refused(refusal), Expected::Refused(expected)) => {
                assert_eq!(refusal, expected);
                self.saw(match refusal {
                    Refusal::Full => "a send is refused: full",
                    Refusal::WouldWait => "a send is refused: it would wait",
                    Refusal::TooLarge { .. } => "a send is refused: too large",
                    Refusal::Unframeable => "a send is refused: its framing cannot carry it",
                    Refusal::NotConnected => "a send is refused: not connected",
                    Refusal::Closed => "a send is refused: closed",
                });
            }
            (offer, Expected::Accepted) => {
                self.accepted(index, message, offer, caller, must_write);
            }
            (offer, expected) => panic!("{offer:?} where {expected:?} was promised"),
        }
    }

    fn sender_redeems(&mut self, index: usize, ticket: Ticket, message: Message) {
        let state = self.model.leave(ticket, true);
        if state == TicketState::Granted {
            self.hot.free_since_ns = self.desk.now_ns();
        }
        let must_write =
            state == TicketState::Granted && self.must_write(Caller::Thread, message.encoded.len());
        let offer = self.outbound.redeem(
            ticket,
            &message.payload,
            message.peer,
            Caller::Thread,
            &*self.desk,
        );
        self.say_with(|| format!("sender {index} redeems {ticket:?}: {offer:?}"));
        match (state, offer) {
            (TicketState::Granted, offer) => {
                self.saw("a wait is served");
                self.accepted(index, message, offer, Caller::Thread, must_write);
            }
            (TicketState::Waiting, Offer::Refused(Refusal::WouldWait)) => {
                self.saw("a wait is redeemed too early");
            }
            (TicketState::NotConnected, Offer::Refused(Refusal::NotConnected)) => {
                self.saw("a wait ends with its connection");
            }
            (TicketState::Closed, Offer::Refused(Refusal::Closed)) => {
                self.saw("a wait ends with its link");
            }
            (state, offer) => panic!("{offer:?} for a ticket that was {state:?}"),
        }
    }

    fn sender_gives_up(&mut self, ticket: Ticket) {
        self.say("a wait is given up");
        let state = self.model.leave(ticket, false);
        assert_eq!(self.outbound.cancel(ticket), Some(state));
        self.saw(match state {
            TicketState::Waiting => "a wait is given up",
            TicketState::Granted => "a wait is given up that was granted room",
            TicketState::NotConnected | TicketState::Closed => "a wait is given up that was over",
        });
    }

    fn accepted(
        &mut self,
        index: usize,
        mut message: Message,
        offer: Offer,
        caller: Caller,
        must_write: bool,
    ) {
        message.accepted_ns = self.desk.now_ns();
        if self.model.hook && caller == Caller::Driver {
            self.saw("a hook sends");
            if !self.model.fits(message.encoded.len()) {
                self.saw("a hook uses the room set aside for it");
            }
        }
        self.model.accept(message.clone(), &offer, caller);
        match offer {
            Offer::WriteTaken(taken) => {
                assert!(must_write, "not the sender's to write");
                assert_eq!(put_together(&taken), message.encoded);
                self.saw("a sender writes what it was handed");
                self.senders[index].doing = Doing::WritingBlock(Hand {
                    taken,
                    caller,
                    wire: self.wires.len() - 1,
                    result: None,
                });
            }
            Offer::WriteNow(token) => {
                assert!(must_write, "not the sender's to write");
                self.senders[index].doing = Doing::Writing {
                    token,
                    message,
                    wire: self.wires.len() - 1,
                    result: None,
                };
            }
            Offer::Queued { wake } => {
                assert!(!must_write, "nobody was in the sender's way");
                self.driver_is_called(wake);
                if wake {
                    let now_ns = self.desk.now_ns();
                    self.outbound.woke_driver(now_ns);
                    self.hot.free_since_ns = now_ns;
                }
            }
            Offer::Wait(_) | Offer::Refused(_) => panic!("{offer:?} where there is room"),
        }
    }

    fn sender_settles(&mut self, token: Token, message: &Message, written: DirectWrite) {
        self.model.settle_direct(written);
        let carried_before = self.outbound.carried();
        self.hot.free_since_ns = self.desk.now_ns();
        let wake = self.outbound.settle_direct(
            token,
            &message.payload,
            message.peer,
            written,
            &*self.desk,
        );
        if self.outbound.carried() != carried_before {
            self.saw("untouched messages of a sender in hand are kept");
        }
        self.say_with(|| format!("a sender settles {written:?}, the driver is called: {wake}"));
        self.driver_is_called(wake);
    }

    fn sender_settles_block(&mut self, hand: Hand, written: usize) {
        let Hand { taken, caller, .. } = hand;
        self.model.settle_stream(written);
        self.hot.free_since_ns = self.desk.now_ns();
        let settled = self.outbound.settle_stream(taken, written, &*self.desk);
        let wake = caller != Caller::Direct && self.outbound.needs_driver();
        self.say_with(|| format!("a sender settles {settled:?}, the driver is called: {wake}"));
        self.driver_is_called(wake);
    }

    /// The system call of a sender, with no lock held.
    fn write_one(&mut self, message: &Message, wire: usize, random: &mut Random) -> DirectWrite {
        let encoded_bytes = message.encoded.len();
        let current = wire + 1 == self.wires.len();
        let wire = &mut self.wires[wire];
        let result = match self.plan.kind {
            Kind::Stream => match wire.write(&message.encoded, random) {
                written if written == encoded_bytes => DirectWrite::Whole,
                written => DirectWrite::Part(written),
            },
            Kind::Datagram { .. } if random.one_in(20) => DirectWrite::Failed,
            Kind::Datagram { .. } => {
                if wire.send(message.peer, &message.payload, random) {
                    DirectWrite::Whole
                } else {
                    DirectWrite::Part(0)
                }
            }
        };
        if !current {
            self.saw("a sender writes to an old connection");
        }
        self.saw(match result {
            DirectWrite::Whole => "a sender writes all",
            DirectWrite::Part(0) => "a sender finds the kernel full",
            DirectWrite::Part(_) => "a sender writes a part",
            DirectWrite::Failed => "the kernel refuses a sender's datagram",
        });
        self.say_with(|| format!("a sender writes: {result:?}"));
        result
    }

    /// A message that says whose it is, if it is long enough.
    fn compose(&mut self, index: usize, caller: Caller, random: &mut Random) -> Option<Message> {
        let peer = if self.model.shared {
            // Sometimes one that is gone: old handles do not know.
            let all: Vec<PeerId> = self.model.peers.iter().map(|peer| peer.id).collect();
            let open = self.open_peers();
            match (all.is_empty(), open.is_empty() || random.one_in(10)) {
                (true, _) => return None,
                (false, true) => random.pick(&all),
                (false, false) => random.pick(&open),
            }
        } else {
            PeerId::SOLE
        };
        // Nothing on a raw stream shows where a message of no bytes was.
        let least =
            usize::from(self.plan.kind == Kind::Stream && self.plan.framing == Framing::Raw);
        let length = if random.one_in(30) {
            self.plan.longest + random.up_to(2)
        } else {
            random.up_to(self.plan.longest)
        };
        let length = length.max(least);
        let sender = &mut self.senders[index];
        sender.sent += 1;
        // What the hook sends goes before what its thread has sent as somebody else.
        let hook = self.model.hook && caller == Caller::Driver;
        let mark = index as u8 | u8::from(hook) << 7;
        let payload = payload(self.wires.len() as u8, mark, sender.sent, length);
        let mut encoded = Vec::new();
        let unframeable = self.plan.framing.encode(&payload, &mut encoded).is_err();
        Some(Message {
            peer,
            payload: payload.into(),
            encoded,
            unframeable,
            written: 0,
            accepted_ns: 0,
            control: None,
        })
    }

    /// Whether a sender that is let in now has to write itself.
    fn must_write(&mut self, caller: Caller, encoded_bytes: usize) -> bool {
        let idle = self.model.is_queue_empty()
            && !self.model.is_writing()
            && !self.kernel_was_full
            && !self.model.hook;
        match caller {
            Caller::Driver => false,
            Caller::Direct => idle,
            Caller::Thread | Caller::Callback | Caller::Answering if !idle => false,
            Caller::Thread | Caller::Callback | Caller::Answering => {
                let gap_ns = self.desk.now_ns() - self.hot.free_since_ns;
                self.hot.sends = if gap_ns < 1_000 {
                    self.hot.sends + 1
                } else {
                    0
                };
                let gathers = self.hot.sends >= 3 && encoded_bytes < 32 * 1024;
                if gathers {
                    self.saw("a hot sender's message is gathered");
                }
                !gathers
            }
        }
    }
}

/// `[connection, sender, number…, a pattern]`, cut to the length.
fn payload(connection: u8, sender: u8, number: u32, length: usize) -> Vec<u8> {
    let mut payload = vec![connection, sender];
    payload.extend(number.to_le_bytes());
    payload.truncate(length);
    while payload.len() < length {
        payload.push(b'a' + ((number as usize + payload.len()) % 26) as u8);
    }
    payload
}
