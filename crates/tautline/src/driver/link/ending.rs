//! How a connection ends: asked for, or met.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tautline_session::{Caller, Discard, Next, Tally};

use super::{Ending, LinkDriver, Stage};
use crate::driver::Alive;
use crate::driver::audience::Panicked;
use crate::driver::turn::Turn;
use crate::error::Error;
use crate::handler::{Reason, Unsent};

impl LinkDriver {
    /// The application ends our side.
    pub(crate) fn finish(&mut self, turn: &mut Turn) -> Alive {
        // Where no end can be told, ending our side is all that there is.
        match (&self.stage, self.tells_end()) {
            (Stage::Open, true) => self.finish_our_side(turn),
            (Stage::Open, false) => self.close(None, turn),
            (Stage::Closing(_) | Stage::Ending(_) | Stage::Ended, _) => Alive::Yes,
            _ => self.end(Reason::Closed, turn),
        }
    }

    /// The application closes: write what waits, end our side, read to the peer's end.
    pub(crate) fn close(&mut self, deadline: Option<Instant>, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Open => {
                self.stage = Stage::Closing(Reason::Closed);
                self.set_deadline(deadline, turn);
                self.finish_our_side(turn)
            }
            Stage::Closing(_) => {
                // Whoever asked last has waited least: an earlier deadline stands.
                let earlier = match (self.deadline, deadline) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
                self.set_deadline(earlier, turn);
                Alive::Yes
            }
            Stage::Resolving | Stage::Connecting(_) | Stage::Handshaking(_) | Stage::Retrying => {
                self.end(Reason::Closed, turn)
            }
            Stage::Ending(_) | Stage::Ended => Alive::Yes,
        }
    }

    /// The application aborts.
    pub(crate) fn abort(&mut self, turn: &mut Turn) -> Alive {
        self.end(Reason::Aborted, turn)
    }

    /// The last handle is gone: an abort after one flush that does not wait. A close that a callback
    /// has started takes its time all the same: that was the application's word.
    pub(crate) fn dropped(&mut self, turn: &mut Turn) -> Alive {
        if matches!(self.stage, Stage::Closing(Reason::Closed)) {
            return Alive::Yes;
        }
        if matches!(self.stage, Stage::Open | Stage::Closing(_)) {
            let shared = Arc::clone(self.shared());
            // Whatever it comes to: the end follows.
            let _ = shared.channel.drain(Caller::Driver, usize::MAX);
        }
        self.end(Reason::Aborted, turn)
    }

    pub(super) fn lost(&mut self, cause: io::Error, turn: &mut Turn) -> Alive {
        let error = Error::io("exchange with", &self.shared().address, cause);
        self.end(Reason::Lost(error), turn)
    }

    /// First it ended its stream, now it takes nothing either. No read would tell of it, and a write
    /// only if the application tried one.
    pub(super) fn peer_gone(&mut self, turn: &mut Turn) -> Alive {
        let outlet = self.outlet.as_ref();
        match outlet.and_then(|outlet| outlet.socket().take_error()) {
            Some(cause) => self.lost(cause, turn),
            None => self.end(Reason::PeerEnded, turn),
        }
    }

    /// Ends the connection now. The socket is shut down at once; its descriptor is closed, and the end
    /// told, when nobody is writing.
    pub(super) fn end(&mut self, reason: Reason, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Ending(_) => return Alive::Yes,
            Stage::Ended => return Alive::No,
            _ => {}
        }
        let shared = Arc::clone(self.shared());
        let reason = match reason {
            Reason::Panicked => reason,
            // Whatever else came before the driver obeyed.
            _ if shared.is_aborted() => Reason::Aborted,
            // What came before the end is told before it.
            _ if self.hand_out_batch().is_err() => Reason::Panicked,
            _ => reason,
        };
        if let Some(gathering) = &mut self.gathering {
            gathering.clear();
        }
        // What a pause kept is of this connection: nothing of it may come after `closed`.
        self.held = false;
        let cause = match reason {
            Reason::Closed | Reason::Aborted => Discard::Closed,
            _ => Discard::ConnectionLost,
        };
        let mut kernel_bytes = None;
        if let Some(outlet) = self.outlet.take() {
            kernel_bytes = outlet.socket().unsent_bytes();
            let sends_on = match reason {
                // Dropped, it is no more than not waited for.
                Reason::Aborted => !shared.is_aborted(),
                Reason::Closed => kernel_bytes.is_none_or(|held| held == 0),
                _ => false,
            };
            if !sends_on {
                outlet.socket().discard_unsent();
            }
            turn.deregister(outlet.socket().as_fd());
            outlet.socket().shutdown();
        }
        let discarded_before = shared.channel.read(given_up);
        shared.channel.end(cause);
        let generation = self.generation.take();
        if generation.is_none() || !self.may_come_back(&reason) {
            // What was kept is unsent, and told with the rest.
            shared.channel.give_up(cause);
        }
        self.deadline = None;
        self.stage = Stage::Ending(Ending {
            reason,
            generation,
            discarded_before,
            kernel_bytes,
        });
        self.finish_end(turn)
    }

    /// Tells the end, if nobody is writing any more; then another attempt follows, or the last call.
    pub(super) fn finish_end(&mut self, turn: &mut Turn) -> Alive {
        let shared = Arc::clone(self.shared());
        if shared.channel.read(|outbound| outbound.is_writing()) {
            // The writer calls us when it is back.
            return Alive::Yes;
        }
        let Stage::Ending(ending) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            return Alive::No;
        };
        let mut queued = shared.channel.read(given_up);
        queued -= ending.discarded_before;
        let unsent = Unsent {
            queued,
            kernel_bytes: ending.kernel_bytes,
        };
        let kept = if let Some(generation) = ending.generation {
            let told = self.audience.closed(generation, unsent, &ending.reason);
            let next = self.after_loss(&ending.reason);
            if let Next::Retry { .. } = next {
                self.stage = Stage::Retrying;
                return match told {
                    Ok(()) => self.pause_or_end(next, ending.reason, turn),
                    Err(Panicked) => self.end(Reason::Panicked, turn),
                };
            }
            let closed = shared.channel.read(|outbound| outbound.is_ended());
            shared.channel.give_up(if closed {
                Discard::Closed
            } else {
                Discard::ConnectionLost
            })
        } else {
            queued
        };
        shared.add_unsent(kept);
        self.audience.ended(kept, &ending.reason);
        match self.server.take() {
            Some(server) => server.peer_ended(&shared, ending.reason),
            None => shared.finish(ending.reason),
        }
        Alive::No
    }
}

/// Messages lost with a connection or a close, so far.
fn given_up(outbound: &tautline_session::Outbound) -> Tally {
    outbound.discarded().lost()
}
