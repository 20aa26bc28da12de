//! What the peer of a stream sent: up to a turn's share of reads, the messages in them, and the end of
//! its side. Datagrams are next door.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tautline_session::{Discard, FrameFault};

use super::{LinkDriver, Side, Stage};
use crate::driver::audience::Panicked;
use crate::driver::gathering::Gathering;
use crate::driver::turn::Turn;
use crate::driver::{Alive, SHORTAGE_PAUSE};
use crate::handler::{Event, Handler, Reason, Received};
use crate::transport::{is_icmp, is_of_tls, is_shortage};

impl LinkDriver {
    /// Everything the peer sent, up to a turn's share. A turn has one, however often it is asked for.
    pub(super) fn read_turn(&mut self, to_the_end: bool, turn: &mut Turn) -> Alive {
        if self.spent_in == turn.number() {
            turn.again(self.shared().id);
            return Alive::Yes;
        }
        if self.is_datagram() {
            return self.read_datagrams(to_the_end, turn);
        }
        let mut buffer = std::mem::take(&mut turn.buffer);
        let alive = self.read_into(&mut buffer, to_the_end, turn);
        turn.buffer = buffer;
        alive
    }

    pub(super) fn read_into(
        &mut self,
        buffer: &mut [u8],
        to_the_end: bool,
        turn: &mut Turn,
    ) -> Alive {
        self.share_left = BYTES_PER_TURN;
        for _ in 0..READS_PER_TURN {
            if self.share_left == 0 {
                break;
            }
            let Some(outlet) = self.outlet.clone() else {
                return Alive::Yes;
            };
            if !self.shared().delivers() {
                return Alive::Yes;
            }
            if std::mem::take(&mut self.held) {
                // Whoever paused may have resumed from another thread the moment after, and the end of
                // the stream must not overtake what was held back.
                if self.deliver(&[], 0, true, turn) == Alive::No {
                    return Alive::No;
                }
                continue;
            }
            if self.their_side == Side::Ended {
                return Alive::Yes;
            }
            let tells_drained = outlet.socket().kind().tells_drained();
            self.shared().counters.read_call();
            // A frame whose start has come is put together where the rest of it is read to.
            let room = self.inbound.room();
            let room_bytes = room.len();
            match outlet.socket().recv_split(room, buffer) {
                Ok(arrived) if arrived.bytes == 0 => return self.peer_ended(turn),
                Ok(arrived) => {
                    let in_room = arrived.bytes.min(room_bytes);
                    let more = arrived.bytes == room_bytes + buffer.len();
                    self.inbound.filled(in_room);
                    let rest = &buffer[..arrived.bytes - in_room];
                    let alive = self.deliver(rest, arrived.bytes, more, turn);
                    let drained = tells_drained && !to_the_end && self.broken.is_none() && !more;
                    if alive == Alive::No || drained {
                        return alive;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return match self.broken.take() {
                        Some(cause) => self.lost(cause, turn),
                        None => Alive::Yes,
                    };
                }
                Err(error) => {
                    if let Some(alive) = self.read_failed(error, turn) {
                        return alive;
                    }
                }
            }
        }
        self.spent_in = turn.number();
        turn.again(self.shared().id);
        Alive::Yes
    }

    /// What a read's failure means; nothing where it may be tried again.
    #[cold]
    pub(super) fn read_failed(&mut self, error: io::Error, turn: &mut Turn) -> Option<Alive> {
        // TLS's own words, of which there may be more.
        if error.kind() == io::ErrorKind::Interrupted {
            return None;
        }
        if is_shortage(&error) {
            // What came is still there, and the kernel has told of it.
            self.reads_again = true;
            let id = self.shared().id;
            self.alarm.set(Instant::now() + SHORTAGE_PAUSE, id, turn);
            return Some(Alive::Yes);
        }
        if self.is_datagram() && is_icmp(&error) {
            self.shared().counters.unreachable();
            let told = self.audience.event(&Event::Unreachable(error));
            let alive = self.survive(told, turn);
            return (alive == Alive::No).then_some(alive);
        }
        // What TLS says of the end is more than what a write found out.
        let broken = self.broken.take().filter(|_| !is_of_tls(&error));
        Some(self.lost(broken.unwrap_or(error), turn))
    }

    /// Hands out the messages in what one read brought, so many bytes in all and these behind what went
    /// into a frame's own room; whether there may be more to read.
    ///
    /// The answer to a message that is all there was is written where it is given: nothing could leave
    /// with it. Answers to several wait for each other.
    pub(super) fn deliver(
        &mut self,
        bytes: &[u8],
        arrived_bytes: usize,
        more: bool,
        turn: &mut Turn,
    ) -> Alive {
        let at = Instant::now();
        let shared = Arc::clone(self.shared());
        let end = bytes.as_ptr_range().end;
        let (inbound, held) = (&mut self.inbound, &mut self.held);
        let (closes, skipped_before) = (inbound.closes(), inbound.skipped_bytes());
        let (gathering, answers) = (&mut self.gathering, &mut self.answers);
        let (mut messages, mut payload_bytes) = (0, 0);
        let received = Received {
            at,
            truncated: false,
            from: None,
        };
        let outcome = self.audience.tell(|handler, link| {
            let mut hand_out = |gathering: &mut Option<Box<Gathering>>,
                                handler: &mut dyn Handler,
                                message: &[u8]| {
                if let Some(gathering) = gathering {
                    return gathering.add(message, received, handler, link);
                }
                let is_last = bytes.is_empty() || message.as_ptr_range().end == end;
                let is_all = messages == 0 && !more && is_last;
                messages += 1;
                payload_bytes += message.len() as u64;
                // The one dynamic call of the receive path: handlers of any type share a thread.
                if is_all {
                    let waiting = || shared.channel.read(|outbound| outbound.waiting().messages);
                    let hand_out = || handler.message(link, message, received);
                    answers.during(shared.id, waiting, hand_out);
                } else {
                    handler.message(link, message, received);
                }
            };
            let mut frames = inbound.frames(bytes);
            while let Some(frame) = frames.next() {
                match frame {
                    Ok(message) => hand_out(gathering, handler, message),
                    Err(fault) if closes => return Err(fault),
                    Err(fault) => {
                        shared.counters.fault();
                        if let Some(gathering) = gathering {
                            // What came before it is told before it.
                            gathering.hand_out(handler, link);
                        }
                        if shared.delivers() {
                            handler.event(link, &Event::BadFrame(fault));
                        }
                    }
                }
                if !shared.delivers() {
                    frames.keep();
                    *held = true;
                    break;
                }
            }
            Ok(())
        });
        let spent = bytes.len() + messages as usize * BYTES_A_MESSAGE;
        self.share_left = self.share_left.saturating_sub(spent);
        let skipped_bytes = self.inbound.skipped_bytes() - skipped_before;
        shared.counters.skipped(skipped_bytes);
        shared
            .counters
            .read(messages, payload_bytes, arrived_bytes as u64, at);
        if self.gathering.is_some() {
            self.watch_batch(turn);
        }
        match outcome {
            Ok(Ok(())) => {
                self.hear(at);
                Alive::Yes
            }
            Ok(Err(fault)) => self.bad_frame(fault, turn),
            Err(Panicked) => self.end(Reason::Panicked, turn),
        }
    }

    /// The peer ended its stream, and everything before was delivered.
    pub(super) fn peer_ended(&mut self, turn: &mut Turn) -> Alive {
        self.their_side = Side::Ended;
        let told = self.hand_out_batch();
        if self.survive(told, turn) == Alive::No {
            return Alive::No;
        }
        let untold = self.inbound.end().map(Event::BadFrame);
        let bytes = self.inbound.kept_bytes();
        self.shared().counters.skipped(bytes as u64);
        let cut = (bytes > 0).then_some(Event::CutFrame { bytes });
        for event in [untold, cut].into_iter().flatten() {
            self.shared().counters.fault();
            if !self.is_connected() {
                continue;
            }
            let told = self.audience.event(&event);
            if self.survive(told, turn) == Alive::No {
                return Alive::No;
            }
        }
        if !self.is_connected() {
            // A callback panicked, and the end waits for a writer.
            return Alive::Yes;
        }
        if let Some(cause) = self.broken.take() {
            return self.lost(cause, turn);
        }
        if self.our_side == Side::Ended {
            return self.end_our_side(turn);
        }
        if self.options.half_open && matches!(self.stage, Stage::Open) {
            let told = self.audience.event(&Event::PeerFinished);
            return self.survive(told, turn);
        }
        self.shared().channel.closing(Discard::ConnectionLost);
        if matches!(self.stage, Stage::Open) {
            self.stage = Stage::Closing(Reason::PeerEnded);
            self.set_deadline(Instant::now().checked_add(PEER_END_FLUSH), turn);
        }
        self.finish_our_side(turn)
    }

    pub(super) fn bad_frame(&mut self, fault: FrameFault, turn: &mut Turn) -> Alive {
        self.shared().counters.fault();
        let told = self
            .hand_out_batch()
            .and_then(|()| self.audience.event(&Event::BadFrame(fault)));
        match self.survive(told, turn) {
            Alive::Yes => self.end(Reason::BadFrame(fault), turn),
            Alive::No => Alive::No,
        }
    }
}

/// Reads of one link before others have their turn.
const READS_PER_TURN: usize = 16;
/// Bytes of one link before others have their turn; a read more where that is not used up. Some 50 µs of
/// copying, beside which a look at the kernel's news is little.
const BYTES_PER_TURN: usize = 256 * 1024;
/// To hand out a message takes as long as copying so many bytes: of small ones a turn reads once.
const BYTES_A_MESSAGE: usize = 256;
/// How long a peer that ended its own side may take to read what we still owe it.
const PEER_END_FLUSH: Duration = Duration::from_secs(5);
