//! What we owe the peer: up to a turn's share of writes, pressure, and the end of our side.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Interest;
use tautline_session::{Caller, Discard};

use super::{LinkDriver, Side, Stage};
use crate::channel::{Drained, SHARED_TOTAL_POLL};
use crate::driver::turn::Turn;
use crate::driver::{Alive, SHORTAGE_PAUSE};
use crate::handler::Reason;

impl LinkDriver {
    /// Everything we owe the peer, up to a turn's share; then pressure.
    pub(crate) fn serve(&mut self, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Open | Stage::Closing(_) => {}
            Stage::Ending(_) => return self.finish_end(turn),
            Stage::Resolving
            | Stage::Connecting(_)
            | Stage::Handshaking(_)
            | Stage::Retrying
            | Stage::Ended => return Alive::Yes,
        }
        let shared = Arc::clone(self.shared());
        if self.broken.is_some() {
            // In a pause what came waits to be read, unless the application has closed meanwhile.
            let closed = matches!(self.stage, Stage::Closing(_)) && !shared.delivers();
            return match self.broken.take_if(|_| closed) {
                Some(cause) => self.lost(cause, turn),
                None => self.tell_pressure(turn),
            };
        }
        if !self.looks_again && shared.channel.waits_for_total() {
            self.looks_again = true;
            self.alarm
                .set(Instant::now() + SHARED_TOTAL_POLL, shared.id, turn);
        }
        match shared.channel.drain(Caller::Driver, BLOCKS_PER_TURN) {
            Drained::Idle => {
                match self.flush_owed() {
                    Ok(all_left) => self.await_room(!all_left, turn),
                    Err(cause) => return self.write_failed(cause, turn),
                }
                if self.our_side == Side::Finishing
                    && shared.channel.read(|outbound| outbound.is_drained())
                {
                    return self.end_our_side(turn);
                }
                if self.our_side == Side::Ended && !self.awaits_room {
                    return self.end_if_both_ended(turn);
                }
            }
            Drained::More => turn.again(shared.id),
            Drained::Blocked => {
                self.await_room(true, turn);
                self.watch_queue(turn);
            }
            Drained::Short => turn.set_timer(Instant::now() + SHORTAGE_PAUSE, shared.id),
            Drained::Broken(cause) => return self.write_failed(cause, turn),
        }
        self.tell_pressure(turn)
    }

    /// What TLS owes besides messages; whether nothing of it is left.
    fn flush_owed(&self) -> io::Result<bool> {
        let outlet = self.outlet.as_ref();
        outlet.map_or(Ok(true), |outlet| outlet.socket().flush_owed())
    }

    /// Asks for writability only while the kernel is full: on Unix sockets each read of the peer would
    /// tell of it, and that is a third of the latency.
    pub(super) fn await_room(&mut self, awaits_room: bool, turn: &mut Turn) {
        let Some(outlet) = &self.outlet else {
            return;
        };
        // Told once, writability is told again after each time that the kernel was full.
        if awaits_room == self.awaits_room {
            return;
        }
        self.awaits_room = awaits_room;
        let interest = if awaits_room {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let (fd, id) = (outlet.socket().as_fd(), self.audience.shared().id);
        // It fails only for what is not registered, and this is.
        let reregistered = turn.reregister(fd, id, interest);
        debug_assert!(reregistered.is_ok(), "{reregistered:?}");
    }

    pub(super) fn tell_pressure(&mut self, turn: &mut Turn) -> Alive {
        match self.shared().channel.poll_pressure() {
            Some(pressure) => {
                let told = self.audience.pressure(pressure);
                self.survive(told, turn)
            }
            None => Alive::Yes,
        }
    }

    /// Ends our side once everything is written.
    pub(super) fn finish_our_side(&mut self, turn: &mut Turn) -> Alive {
        if self.our_side == Side::Open {
            self.our_side = Side::Finishing;
        }
        self.serve(turn)
    }

    /// Everything is written.
    pub(super) fn end_our_side(&mut self, turn: &mut Turn) -> Alive {
        if self.is_serial() && self.kernel_sends() {
            // Nothing tells when it has sent all.
            let look = Instant::now() + UNSENT_POLL;
            self.alarm.set(look, self.audience.shared().id, turn);
            return self.tell_pressure(turn);
        }
        self.our_side = Side::Ended;
        if let Some(outlet) = &self.outlet
            && self.tells_end()
        {
            // It fails where the peer has reset: reading tells.
            let said = outlet.socket().shutdown_write();
            // TLS's goodbye may have to wait for room.
            self.await_room(matches!(said, Ok(false)), turn);
        }
        if self.tell_pressure(turn) == Alive::No {
            return Alive::No;
        }
        if self.awaits_room {
            return Alive::Yes;
        }
        self.end_if_both_ended(turn)
    }

    fn end_if_both_ended(&mut self, turn: &mut Turn) -> Alive {
        if self.their_side != Side::Ended && self.tells_end() {
            return Alive::Yes;
        }
        match &self.stage {
            Stage::Closing(reason) => {
                let reason = reason.clone();
                self.end(reason, turn)
            }
            _ => self.end(Reason::PeerEnded, turn),
        }
    }

    /// Whether the driver of a serial line has something left to send, as far as it says.
    fn kernel_sends(&self) -> bool {
        let outlet = self.outlet.as_ref();
        outlet.is_some_and(|outlet| outlet.socket().unsent_bytes().is_some_and(|held| held > 0))
    }

    /// Writing failed. What the peer sent before it went may still be there to read, a turn's share at a
    /// time, and after a pause as well.
    pub(super) fn write_failed(&mut self, cause: io::Error, turn: &mut Turn) -> Alive {
        self.shared().channel.closing(Discard::ConnectionLost);
        self.our_side = Side::Ended;
        if self.their_side == Side::Ended {
            return self.lost(cause, turn);
        }
        self.broken = Some(cause);
        self.read_turn(true, turn)
    }
}

/// Blocks of one link written before others have their turn: 1 MiB.
const BLOCKS_PER_TURN: usize = 16;
/// Between two looks at what a serial line has left to send: 6 bytes at 9,600 baud.
const UNSENT_POLL: Duration = Duration::from_millis(6);
