//! Between two connections: what is worth another attempt, the pause before it, and giving up.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use tautline_session::{Next, Reconnect, Retries};

use super::{LinkDriver, Stage};
use crate::driver::Alive;
use crate::driver::turn::Turn;
use crate::error::{Error, ErrorKind};
use crate::handler::{Event, Reason};
use crate::transport;

/// What a link that reconnects keeps through all its connections.
pub(super) struct Comeback {
    retries: Retries,
    random: Random,
}

impl Comeback {
    pub(super) fn new(rules: Reconnect, now: Instant) -> Box<Self> {
        Box::new(Self {
            retries: Retries::new(rules, now),
            random: Random::seeded(),
        })
    }

    pub(super) fn opened(&mut self) {
        self.retries.opened(Instant::now());
    }
}

impl LinkDriver {
    /// Begins an attempt: a name is looked up anew for each, for it may lead elsewhere by now.
    pub(super) fn attempt(&mut self, turn: &mut Turn) -> Alive {
        let shared = Arc::clone(self.shared());
        self.stage = Stage::Resolving;
        shared.attempt_begins();
        let timeout = Instant::now().checked_add(self.options.connect_timeout);
        self.set_deadline(earlier(timeout, self.give_up_at()), turn);
        if transport::is_literal(&shared.address) {
            return self.resolved(transport::resolve(&shared.address), turn);
        }
        self.resolve_elsewhere(shared.address.clone(), turn)
    }

    /// An attempt came to nothing.
    pub(super) fn attempt_failed(&mut self, error: Error, turn: &mut Turn) -> Alive {
        // Whoever is still connecting is closed with the stage.
        self.stage = Stage::Resolving;
        let next = match &mut self.comeback {
            Some(comeback) if may_pass(&error) => {
                let random = comeback.random.next();
                comeback.retries.failed(Instant::now(), random)
            }
            _ => Next::GiveUp,
        };
        self.shared().attempt_failed();
        self.pause_or_end(next, Reason::NotConnected(error), turn)
    }

    /// What follows the end of a connection.
    pub(super) fn after_loss(&mut self, reason: &Reason) -> Next {
        let again = self.may_come_back(reason);
        match &mut self.comeback {
            Some(comeback) if again => {
                let random = comeback.random.next();
                comeback.retries.lost(Instant::now(), random)
            }
            _ => Next::GiveUp,
        }
    }

    /// Whether another attempt may follow this end of a connection; the rules may say no all the same.
    pub(super) fn may_come_back(&self, reason: &Reason) -> bool {
        let is_loss = match reason {
            Reason::PeerEnded | Reason::BadFrame(_) | Reason::Idle(_) | Reason::HeartbeatLost => {
                true
            }
            Reason::NotConnected(error) | Reason::Lost(error) => may_pass(error),
            Reason::Closed
            | Reason::Aborted
            | Reason::Panicked
            | Reason::Refused(_)
            | Reason::Expired => false,
        };
        // Closed or aborted meanwhile, it is over whatever ended the connection.
        is_loss
            && self.comeback.is_some()
            && !self.shared().channel.read(|outbound| outbound.is_ended())
    }

    pub(super) fn pause_or_end(&mut self, next: Next, reason: Reason, turn: &mut Turn) -> Alive {
        let Next::Retry { attempt, after } = next else {
            return self.end(reason, turn);
        };
        self.stage = Stage::Retrying;
        self.shared().set_retrying(attempt, reason.clone());
        let pause_ends = Instant::now().checked_add(after);
        self.set_deadline(earlier(pause_ends, self.give_up_at()), turn);
        let told = self.audience.event(&Event::Retrying {
            attempt,
            after,
            reason,
        });
        self.survive(told, turn)
    }

    /// The pause is over, or the time to give up has come.
    pub(super) fn pause_ended(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        if self.give_up_at().is_some_and(|at| at <= now) {
            let reason = self.shared().last_failure();
            return self.end(reason.expect("a pause follows a failure"), turn);
        }
        self.attempt(turn)
    }

    /// When a handshake that begins now has to be done.
    pub(super) fn handshake_deadline(&self) -> Option<Instant> {
        let timeout = self.options.tls.handshake_timeout;
        earlier(Instant::now().checked_add(timeout), self.give_up_at())
    }

    fn give_up_at(&self) -> Option<Instant> {
        self.comeback.as_ref()?.retries.deadline()
    }
}

/// Whether the same attempt may succeed another time: not where an option or the address is wrong, or
/// somebody's certificate.
fn may_pass(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::InvalidOption
            | ErrorKind::InvalidAddress
            | ErrorKind::UnsupportedScheme
            | ErrorKind::Untrusted
    )
}

fn earlier(one: Option<Instant>, two: Option<Instant>) -> Option<Instant> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.min(two)),
        (one, two) => one.or(two),
    }
}

/// Random numbers for pauses (splitmix64): each link has its own, seeded by the system, so that many
/// links that lost one server come back at different times.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        // The only randomness of std: its keys come from the system and differ each time.
        Self(RandomState::new().hash_one(0))
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
