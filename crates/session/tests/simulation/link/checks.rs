//! What has to hold after every step, and at the end of a life.

use std::collections::{HashMap, HashSet};

use tautline_session::{Control, Discard, Framing, Heard, Pressure, TicketState};

use super::{Doing, Kind, Link};
use crate::model::{Message, Stage};
use crate::random::Random;
use crate::wire::Wire;

impl Link {
    pub(super) fn check(&mut self) {
        self.tell_those_that_wait();
        self.compare_accounts();
        self.compare_line();
    }

    /// Outputs are drained after every input: exactly those are told whose wait was decided, in the
    /// order of the line.
    fn tell_those_that_wait(&mut self) {
        let told: Vec<_> = std::iter::from_fn(|| self.outbound.poll_ticket()).collect();
        assert_eq!(told, self.model.told(), "who is told that its wait is over");
        for sender in &mut self.senders {
            if let Doing::Waiting {
                ticket,
                told: is_told,
                ..
            } = &mut sender.doing
                && told.contains(ticket)
            {
                *is_told = true;
            }
        }
    }

    fn compare_accounts(&self) {
        let (outbound, model) = (&self.outbound, &self.model);
        let statistics = outbound.statistics();
        assert!(statistics.closes(), "{statistics:?}");
        let held = statistics.waiting + model.granted();
        assert!(
            held.bytes <= model.hook_limit.bytes && held.messages <= model.hook_limit.messages,
            "{held:?} is above the limit {:?}",
            model.hook_limit
        );
        assert_eq!(statistics.waiting, model.waiting());
        assert_eq!(outbound.waiting(), model.waiting());
        assert_eq!(statistics.accepted, model.account.accepted);
        assert_eq!(statistics.written, model.account.written);
        assert_eq!(statistics.discarded, model.account.discarded);
        assert_eq!(statistics.refused, model.account.refused);
        assert_eq!(statistics.carried, model.carried);
        assert_eq!(statistics.peak, model.peak);
        assert_eq!(statistics.waits, model.waits);
        assert_eq!(statistics.heartbeats, model.heartbeats);
        assert_eq!(statistics.pressure_crossings, model.crossings);
        let noted = statistics.queue_delay.map_or(0, |delays| delays.count());
        assert_eq!(noted, model.noted, "messages noted in the queue delay");
        assert_eq!(outbound.is_open(), model.stage == Stage::Open);
        assert_eq!(outbound.is_writing(), model.is_writing());
        let drained = model.is_queue_empty() && !model.is_writing();
        assert_eq!(outbound.is_drained(), drained);
        for peer in model.peers.iter().filter(|peer| peer.departed.is_none()) {
            let statistics = outbound.peer_statistics(peer.id);
            assert!(statistics.closes(), "{statistics:?}");
            assert_eq!(statistics.accepted, peer.account.accepted);
            assert_eq!(statistics.written, peer.account.written);
            assert_eq!(statistics.discarded, peer.account.discarded);
            assert_eq!(statistics.refused, peer.account.refused);
            assert_eq!(outbound.waiting_for(peer.id), statistics.waiting);
        }
    }

    fn compare_line(&self) {
        for waiter in &self.model.line {
            let expected = match waiter.state {
                TicketState::Granted if !waiter.told => TicketState::Waiting,
                state => state,
            };
            assert_eq!(self.outbound.ticket(waiter.ticket), expected);
        }
        let mut waiting = self
            .model
            .line
            .iter()
            .filter(|waiter| waiter.state == TicketState::Waiting);
        if self.model.total.is_none()
            && let Some(first) = waiting.next()
        {
            assert!(
                !self.model.fits(first.encoded_bytes),
                "there is room, and it waits"
            );
        }
    }

    /// The driver's one look at pressure, when it comes and before it says `closed`.
    pub(super) fn poll_pressure(&mut self) {
        let pressure = self.outbound.poll_pressure();
        assert_eq!(pressure, self.model.pressure());
        if let Some(pressure) = pressure {
            assert_ne!(self.pressure, pressure, "On and Off alternate");
            self.pressure = pressure;
            self.saw("pressure changes");
        }
    }

    /// One round of everybody doing what they have a reason to do. False when nobody has any more:
    /// then nothing may be left, or somebody was not told.
    pub(crate) fn settles_down(&mut self, random: &mut Random) -> bool {
        let mut busy = false;
        for index in 0..self.senders.len() {
            let doing = &self.senders[index].doing;
            if matches!(
                doing,
                Doing::Writing { .. } | Doing::WritingBlock(_) | Doing::Waiting { told: true, .. }
            ) {
                busy = true;
                self.sender_goes_on(index, random);
                self.check();
            }
        }
        if self.hand.is_some() {
            busy = true;
            self.holder_acts(random);
            self.check();
        }
        if let Some(wire) = self.wires.last_mut() {
            wire.deliver_all();
        }
        let turned = self.driver_turns();
        self.check();
        // A wait for room in a total is not told when other links give it back; it looks.
        if self.model.total.is_some() {
            self.outbound.grant();
            self.model.grant();
            self.check();
        }
        busy || turned
            || !self
                .model
                .line
                .iter()
                .all(|waiter| waiter.state == TicketState::Waiting)
    }

    /// Nobody has a reason to do anything: then everything is done.
    pub(crate) fn is_quiet(&mut self) {
        let open = matches!(self.model.stage, Stage::Open | Stage::Closing(_));
        assert!(!self.outbound.is_writing());
        assert!(!open || self.outbound.is_drained(), "left lying");
        assert!(
            self.model.line.is_empty() || self.waits_for_what_others_keep(),
            "waits for ever"
        );
        if matches!(self.model.stage, Stage::Closing(_)) && !self.plan.direct {
            assert!(
                self.driver.saw_the_last_written,
                "the driver was not told that it may end the link"
            );
        }
        // Without a connection what was kept waits for the next one, or for the driver to end it.
        let keeps = self.model.keep && !open;
        assert!(keeps || self.outbound.waiting().is_zero());
        if !self.plan.direct {
            assert_eq!(self.model.pressure(), None, "the driver was not called");
        }
    }

    /// What waits for a connection that has not come holds a part of the total for as long.
    fn waits_for_what_others_keep(&self) -> bool {
        let kept = self
            .model
            .total
            .as_ref()
            .filter(|_| self.model.keep)
            .map_or(0, |total| total.held_bytes.get());
        let first = self.model.line.first();
        kept > 0 && first.is_some_and(|first| !self.model.fits(first.encoded_bytes))
    }

    /// The last step of a life: the link ends, and each connection carried what it should have.
    pub(crate) fn ends(&mut self, random: &mut Random) {
        let alive = matches!(self.model.stage, Stage::Open | Stage::Closing(_));
        if alive {
            let wire = self.wires.last().expect("one is open");
            assert!(wire.has_read_everything());
            if self.plan.kind == Kind::Stream {
                assert_eq!(wire.receiver.kept_bytes(), 0, "half a message");
            }
        }
        let mut came_out = HashSet::new();
        for (index, wire) in self.wires.iter().enumerate() {
            let whole = alive && index + 1 == self.wires.len();
            let written = &self.model.written[index];
            match self.plan.kind {
                Kind::Stream if self.plan.framing == Framing::Raw => {
                    check_raw(wire, written, whole);
                }
                Kind::Stream if self.model.keep => {
                    check_frames(wire, written, whole);
                    check_kept_marks(wire, index as u8 + 1, &mut came_out);
                }
                Kind::Stream => {
                    check_frames(wire, written, whole);
                    let messages = wire.receiver.messages.iter().map(Vec::as_slice);
                    check_marks(messages, index as u8 + 1);
                }
                Kind::Datagram { .. } => check_datagrams(wire, written, whole, index as u8 + 1),
            }
        }
        self.end(Discard::Closed, random);
        self.poll_pressure();
        self.check();
        let statistics = self.outbound.statistics();
        let gone = statistics.written + statistics.discarded.total();
        assert_eq!(statistics.accepted, gone, "nothing waits at the end");
        assert_eq!(self.pressure, Pressure::Off, "Off before closed");
    }
}

/// What came out is what was written, as far as it was read; all of it if the connection lived.
fn check_raw(wire: &Wire, written: &[Message], whole: bool) {
    let came_out = wire.receiver.messages.concat();
    let expected: Vec<u8> = written
        .iter()
        .flat_map(|message| &message.encoded)
        .copied()
        .collect();
    assert!(wire.carried.starts_with(&expected));
    assert!(wire.carried.starts_with(&came_out));
    if whole {
        assert_eq!(came_out, expected);
    }
}

fn check_frames(wire: &Wire, written: &[Message], whole: bool) {
    let came_out = &wire.receiver.messages;
    let (messages, controls): (Vec<_>, Vec<_>) = written
        .iter()
        .partition(|message| message.control.is_none());
    for (message, came_out) in messages.iter().zip(came_out) {
        assert_eq!(&message.payload, came_out);
    }
    if whole {
        assert_eq!(messages.len(), came_out.len());
        let mut heard = Heard::default();
        for control in controls.iter().filter_map(|message| message.control) {
            heard.frames += 1;
            match control {
                Control::Ping(number) => heard.ping = Some(number),
                Control::Pong(number) => heard.pong = Some(number),
            }
        }
        assert_eq!(wire.receiver.heard, heard);
    }
}

/// Where messages are kept over a loss: none from a connection to come, and nothing twice, over all
/// connections.
fn check_kept_marks(wire: &Wire, connection: u8, before: &mut HashSet<(u8, u32)>) {
    for payload in &wire.receiver.messages {
        let Some((&[of, sender], rest)) = payload.split_first_chunk::<2>() else {
            continue;
        };
        assert!(of <= connection, "a message of a connection to come");
        if let Some((number, _)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            assert!(before.insert((sender, number)), "message {number} twice");
        }
    }
}

fn check_datagrams(wire: &Wire, written: &[Message], whole: bool, connection: u8) {
    for (message, (peer, sent)) in written.iter().zip(&wire.datagrams) {
        assert_eq!((message.peer, &*message.payload), (*peer, &**sent));
    }
    assert!(wire.datagrams.len() >= written.len());
    if whole {
        assert_eq!(written.len(), wire.datagrams.len());
    }
    let sent = wire.datagrams.iter().map(|(_, payload)| payload.as_slice());
    check_marks(sent, connection);
}

/// Of what is long enough to say whose it is: nothing of another connection, nothing twice, and each
/// sender's in the order it sent them. This asks nobody but the bytes.
fn check_marks<'a>(payloads: impl Iterator<Item = &'a [u8]>, connection: u8) {
    let mut last = HashMap::new();
    for payload in payloads {
        let Some((&[of, sender], rest)) = payload.split_first_chunk::<2>() else {
            continue;
        };
        assert_eq!(of, connection, "a message of another connection");
        if let Some((number, _)) = rest.split_first_chunk::<4>() {
            let number = u32::from_le_bytes(*number);
            if let Some(before) = last.insert(sender, number) {
                assert!(before < number, "message {number} after {before}");
            }
        }
    }
}
