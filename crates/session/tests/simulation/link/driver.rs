//! The side that writes: the driver, a callback that flushes, whoever holds a block.

use tautline_session::{Caller, Control, DatagramsWritten, PeerId, Settled, Stopped, Surroundings};

use super::{Driver, Hand, Kind, Link, put_together};
use crate::model::{Message, Stage};
use crate::random::Random;
use crate::wire::Wire;
use bytes::Bytes;

impl Link {
    pub(super) fn driver_or_holder_acts(&mut self, random: &mut Random) {
        match &self.hand {
            // It goes on in the same turn.
            None if self.driver.ready && random.one_in(2) => {
                self.driver.ready = false;
                self.driver.saw_the_last_written |= self.outbound.is_drained();
                self.take(Caller::Driver, true);
            }
            None => {
                self.driver_turns();
            }
            // The driver comes although somebody else is writing.
            Some(hand) if hand.caller == Caller::Callback && random.one_in(4) => {
                self.driver_turns();
            }
            Some(_) => self.holder_acts(random),
        }
    }

    /// The driver comes if it has a reason to; false when it has none.
    pub(super) fn driver_turns(&mut self) -> bool {
        if self.plan.direct {
            return self.take(Caller::Direct, false);
        }
        let writable = self.wires.last().is_some_and(Wire::is_writable);
        let due =
            self.driver.called || self.driver.ready || (self.driver.awaits_writable && writable);
        if !due || self.driver_has_a_hand() {
            return false;
        }
        self.driver = Driver {
            saw_the_last_written: self.outbound.is_drained(),
            ..Driver::default()
        };
        // Without a connection there is nothing to take, and the driver need not ask.
        if self.model.stage != Stage::NotOpen {
            self.take(Caller::Driver, false);
        }
        self.poll_pressure();
        true
    }

    pub(super) fn callback_flushes(&mut self, random: &mut Random) {
        let flushes = !self.plan.direct && self.hand.is_none() && random.one_in(2);
        if flushes && !self.take(Caller::Callback, random.one_in(2)) {
            // All that waited may have been too old.
            let needed = self.outbound.needs_driver();
            self.driver_is_called(needed);
        }
    }

    /// A control frame, which the driver puts in and writes next.
    pub(super) fn driver_says_it_lives(&mut self, random: &mut Random) {
        if self.driver_has_a_hand() {
            return;
        }
        let number = random.next();
        let (control, kind) =
            random.pick(&[(Control::Ping(number), 1), (Control::Pong(number), 2)]);
        let mut encoded = vec![0xff; self.plan.framing.header_bytes()];
        encoded.push(kind);
        encoded.extend(number.to_be_bytes());
        let expected = self.model.offer_control(Message {
            peer: PeerId::SOLE,
            payload: Bytes::new(),
            encoded,
            unframeable: false,
            written: 0,
            accepted_ns: self.desk.now_ns(),
            control: Some(control),
        });
        let is_in = self.outbound.offer_control(control, &*self.desk);
        self.say_with(|| format!("the driver says {control:?}: {is_in}"));
        assert_eq!(is_in, expected);
        self.saw(if is_in {
            "a control frame is let in"
        } else {
            "a control frame is left out"
        });
        self.driver.called |= is_in;
    }

    /// Takes, if nobody writes and something waits; whoever was not called for takes `more`.
    fn take(&mut self, caller: Caller, more: bool) -> bool {
        let taken = if more {
            self.outbound.take_more(caller, &*self.desk)
        } else {
            self.outbound.take(caller, &*self.desk)
        };
        let open = matches!(self.model.stage, Stage::Open | Stage::Closing(_));
        let free = open && !self.model.is_writing();
        let tries = more || caller == Caller::Driver || !self.kernel_was_full;
        if (free && tries) || (caller == Caller::Driver && !more) {
            self.kernel_was_full = false;
        }
        self.say_with(|| format!("{caller:?} takes: {}", taken.is_some()));
        if free && tries && self.model.discard_too_old(self.desk.now_ns()) {
            self.saw("a writer finds messages too old");
        }
        let due = free && tries && self.model.something_may_go();
        assert_eq!(taken.is_some(), due, "whether there is something to take");
        let Some(taken) = taken else {
            // All that waited may have been too old.
            if caller == Caller::Driver {
                self.driver.saw_the_last_written |= self.outbound.is_drained();
                self.poll_pressure();
            }
            return false;
        };
        match self.plan.kind {
            Kind::Stream => self.model.take_bytes(&put_together(&taken)),
            Kind::Datagram { .. } => self
                .model
                .take_datagrams(taken.datagrams().map(|one| (one.peer, one.payload))),
        }
        self.hand = Some(Hand {
            taken,
            caller,
            wire: self.wires.len() - 1,
            result: None,
        });
        true
    }

    pub(super) fn holder_acts(&mut self, random: &mut Random) {
        let Some(mut hand) = self.hand.take() else {
            return;
        };
        match hand.result {
            None => {
                hand.result = Some(self.write_block(&hand, random));
                self.hand = Some(hand);
            }
            Some((written, stopped)) => self.holder_settles(hand, written, stopped),
        }
    }

    /// The system calls of whoever has a block, with no lock held.
    pub(super) fn write_block(&mut self, hand: &Hand, random: &mut Random) -> (usize, Stopped) {
        let current = hand.wire + 1 == self.wires.len();
        let wire = &mut self.wires[hand.wire];
        let (written, stopped) = match self.plan.kind {
            Kind::Stream => {
                let bytes = put_together(&hand.taken);
                (wire.write(&bytes, random), Stopped::WouldBlock)
            }
            Kind::Datagram { .. } => {
                let mut sent = 0;
                let mut stopped = Stopped::AtEnd;
                let runs = hand.taken.runs();
                let each = runs.flat_map(|run| run.each().map(move |one| (run.peer, one)));
                for (peer, payload) in each {
                    if random.one_in(20) {
                        stopped = Stopped::Failed;
                        break;
                    }
                    if !wire.send(peer, payload, random) {
                        stopped = Stopped::WouldBlock;
                        break;
                    }
                    sent += 1;
                }
                (sent, stopped)
            }
        };
        if !current {
            self.saw("a block is written to an old connection");
        }
        self.saw(match (stopped, written) {
            (Stopped::AtEnd, _) => "all of a block of datagrams is sent",
            (Stopped::Failed, _) => "the kernel refuses a datagram of a block",
            (Stopped::WouldBlock, 0) => "the kernel is full",
            (Stopped::WouldBlock, _) => "some of a block is written",
        });
        self.say_with(|| format!("{:?} writes {written}, {stopped:?}", hand.caller));
        (written, stopped)
    }

    fn holder_settles(&mut self, hand: Hand, written: usize, stopped: Stopped) {
        let Hand { taken, caller, .. } = hand;
        let carried_before = self.outbound.carried();
        let settled = match self.plan.kind {
            Kind::Stream => {
                self.model.settle_stream(written);
                self.outbound.settle_stream(taken, written, &*self.desk)
            }
            Kind::Datagram { .. } => {
                self.model.settle_datagrams(written, stopped);
                let written = DatagramsWritten {
                    sent: written,
                    stopped,
                    calls: 1,
                };
                self.outbound.settle_datagrams(taken, written, &*self.desk)
            }
        };
        self.say_with(|| format!("{caller:?} settles: {settled:?}"));
        if self.outbound.carried() != carried_before {
            self.saw("untouched messages of a block in hand are kept");
        }
        self.hot.free_since_ns = self.desk.now_ns();
        let Settled { more, blocked } = settled;
        self.kernel_was_full = blocked && caller == Caller::Driver;
        assert!(!(more && blocked));
        assert!(!more || !self.model.is_queue_empty());
        match caller {
            Caller::Driver => {
                self.driver.ready |= more;
                self.driver.awaits_writable |= blocked;
                self.driver.saw_the_last_written |= self.outbound.is_drained();
                self.poll_pressure();
            }
            Caller::Callback => {
                self.driver.called |= more || blocked;
                let needed = self.outbound.needs_driver();
                self.driver_is_called(needed);
            }
            Caller::Thread | Caller::Answering | Caller::Direct => {}
        }
    }
}
