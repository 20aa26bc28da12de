//! What the peers of a datagram server do by the clock: each has an alarm of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tautline_session::Silence;

use super::{DatagramDriver, Peer};
use crate::driver::Alive;
use crate::driver::turn::Turn;
use crate::handler::Reason;
use crate::transport::Remote;

impl DatagramDriver {
    /// The alarm of a peer rang, perhaps too early: looks at everything that may be due.
    pub(crate) fn on_peer_timer(&mut self, link: u64, now: Instant, turn: &mut Turn) -> Alive {
        if let Some(remote) = self.links.get(&link).cloned() {
            if let Some(peer) = self.peers.get_mut(&remote) {
                peer.alarm.rang(now);
            }
            let peer = self.peers.get(&remote);
            if peer.is_some_and(|peer| self.judge_silence(peer, now).is_err()) {
                // What came while the thread was busy is no silence.
                self.read_turn(true, turn);
            }
            self.look_after(&remote, now, turn);
        }
        self.alive(turn)
    }

    /// Reading goes on after a pause. Datagrams that came meanwhile were dropped, but they came: the
    /// peer was not silent.
    pub(crate) fn resume_peer(&mut self, link: u64, turn: &mut Turn) -> Alive {
        if let Some(remote) = self.links.get(&link).cloned() {
            self.look_after(&remote, Instant::now(), turn);
        }
        self.alive(turn)
    }

    /// Hands out a batch that is ripe, ends a peer that was silent for too long, and plans the next
    /// look.
    pub(super) fn look_after(&mut self, remote: &Remote, now: Instant, turn: &mut Turn) {
        let Some(peer) = self.peers.get_mut(remote) else {
            return;
        };
        let ripe = peer.gathering.as_ref();
        if ripe.is_some_and(|gathering| gathering.is_ripe(now)) && peer.hand_out_batch().is_err() {
            return self.end_peer(remote, Reason::Panicked, turn);
        }
        let Some(peer) = self.peers.get(remote) else {
            return;
        };
        let next = match self.judge_silence(peer, now) {
            Ok(next) => next.and_then(|left| now.checked_add(left)),
            Err(reason) => return self.end_peer(remote, reason, turn),
        };
        let Some(peer) = self.peers.get_mut(remote) else {
            return;
        };
        let delivers = peer.audience.shared().delivers();
        let ripens = peer.gathering.as_ref().and_then(|batch| batch.due());
        let ripens = ripens.filter(|_| delivers);
        if let Some(at) = next.into_iter().chain(ripens).min() {
            let id = peer.audience.shared().id;
            peer.alarm.set(at, id, turn);
        }
    }

    /// How long until a peer may have been silent for too long. One that closes has its deadline.
    fn judge_silence(&self, peer: &Peer, now: Instant) -> Result<Option<Duration>, Reason> {
        let timeouts = self.options.link.idle_timeouts();
        if timeouts.is_none() || peer.closing.is_some() {
            return Ok(None);
        }
        let shared = peer.audience.shared();
        let written_ago = self.channel.written_ago(shared.peer);
        let since_opened = now.saturating_duration_since(peer.opened_at);
        let silence = Silence {
            received: Some(now.saturating_duration_since(peer.last_receive)),
            written: Some(since_opened.min(written_ago)),
        };
        timeouts.judge(silence).map_err(Reason::Idle)
    }
}

impl Peer {
    /// Hands out what was gathered, unless the application wants nothing now.
    pub(super) fn hand_out_batch(&mut self) -> Result<(), crate::driver::audience::Panicked> {
        let delivers = Arc::clone(self.audience.shared()).delivers();
        match &mut self.gathering {
            Some(gathering) if delivers => self
                .audience
                .tell(|handler, link| gathering.hand_out(handler, link)),
            _ => Ok(()),
        }
    }
}
