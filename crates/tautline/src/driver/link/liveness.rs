//! What a link does by the clock while it is open: what waits grows old, batches ripen, silence lasts
//! too long.
//!
//! Nothing of it costs a message anything: each message leaves a trace behind anyway (when bytes last
//! came, when the kernel last took some), and the one alarm looks at the traces when it rings.

use std::time::{Duration, Instant};

use tautline_session::{Control, IdleTimeouts, PeerId, Pulse, Silence};

use super::{LinkDriver, Side, Stage};
use crate::channel::Home;
use crate::driver::Alive;
use crate::driver::turn::Turn;
use crate::handler::Reason;
use crate::options::LinkOptions;

/// What an open connection is watched by.
pub(super) struct Liveness {
    timeouts: IdleTimeouts,
    pulse: Option<Pulse>,
    opened_at: Instant,
    /// Silence before does not count: the connection opened then, or we ourselves did not read.
    reading_since: Instant,
}

impl Liveness {
    /// For an open connection; `None` where nothing is watched.
    pub(super) fn watch(options: &LinkOptions) -> Option<Box<Self>> {
        let timeouts = options.idle_timeouts();
        let pulse = options.heartbeat.map(Pulse::new);
        if timeouts.is_none() && pulse.is_none() {
            return None;
        }
        let now = Instant::now();
        Some(Box::new(Self {
            timeouts,
            pulse,
            opened_at: now,
            reading_since: now,
        }))
    }
}

impl LinkDriver {
    /// The connection is open.
    pub(super) fn begin_watching(&mut self, turn: &mut Turn) {
        self.liveness = Liveness::watch(&self.options);
        if let Some(liveness) = &self.liveness {
            let now = liveness.opened_at;
            self.plan_next_look(now, turn);
        }
    }

    /// The alarm rang, perhaps too early: looks at everything that may be due.
    pub(super) fn look_after(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        if !self.is_connected() {
            return Alive::Yes;
        }
        let delivers = self.shared().delivers();
        if delivers && self.batch_is_ripe(now) {
            let told = self.hand_out_batch();
            if self.survive(told, turn) == Alive::No {
                return Alive::No;
            }
        }
        if let Some(liveness) = &mut self.liveness
            && !delivers
        {
            liveness.reading_since = now;
        }
        if self.judge_silence(now).is_err() {
            // What came while the thread was busy is no silence.
            if self.read_turn(true, turn) == Alive::No {
                return Alive::No;
            }
            if let Err(reason) = self.judge_silence(now) {
                return self.end(reason, turn);
            }
        }
        if self.ping_if_due(now) && self.serve(turn) == Alive::No {
            return Alive::No;
        }
        if self.awaits_room && self.options.max_queue_delay.is_some() {
            // Taking is what gives up; if the kernel is still full this comes again.
            if self.serve(turn) == Alive::No {
                return Alive::No;
            }
        }
        self.plan_next_look(now, turn);
        Alive::Yes
    }

    /// Reading goes on after a pause, in which nothing could come.
    pub(crate) fn resume(&mut self, turn: &mut Turn) -> Alive {
        if self.is_connected() && (self.liveness.is_some() || self.gathering.is_some()) {
            let now = Instant::now();
            if let Some(liveness) = &mut self.liveness {
                liveness.reading_since = now;
            }
            if self.shared().delivers() && self.batch_is_ripe(now) {
                let told = self.hand_out_batch();
                if self.survive(told, turn) == Alive::No {
                    return Alive::No;
                }
            }
            self.plan_next_look(now, turn);
        }
        self.carry_on(turn)
    }

    /// What the peer's driver said between the messages of a read.
    pub(super) fn hear(&mut self, at: Instant) {
        if self.options.heartbeat.is_none() {
            return;
        }
        let heard = self.inbound.heard();
        let shared = self.audience.shared();
        shared.counters.heartbeats(heard.frames);
        if let Some(liveness) = &mut self.liveness
            && let Some(number) = heard.pong
            && let Some(pulse) = &mut liveness.pulse
            && let Some(rtt) = pulse.answered(number, at.duration_since(liveness.opened_at))
        {
            shared.counters.heartbeat_answered(rtt);
        }
        if let Some(number) = heard.ping
            && shared.channel.offer_control(Control::Pong(number))
        {
            // Written in this turn, with the replies of other callbacks.
            shared.channel.home().call_driver();
        }
    }

    /// The kernel is full: what waits grows old meanwhile.
    pub(super) fn watch_queue(&mut self, turn: &mut Turn) {
        if self.options.max_queue_delay.is_some()
            && let Some(left) = self.shared().channel.give_up_too_old()
            && let Some(at) = Instant::now().checked_add(left)
        {
            self.look_again(at, turn);
        }
    }

    /// A read may have begun a batch.
    pub(super) fn watch_batch(&mut self, turn: &mut Turn) {
        let due = self.gathering.as_ref().and_then(|batch| batch.due());
        if let Some(due) = due {
            self.look_again(due, turn);
        }
    }

    /// Hands out what was gathered, unless the application wants nothing now.
    pub(super) fn hand_out_batch(&mut self) -> Result<(), crate::driver::audience::Panicked> {
        let delivers = self.shared().delivers();
        match &mut self.gathering {
            Some(gathering) if delivers => self
                .audience
                .tell(|handler, link| gathering.hand_out(handler, link)),
            _ => Ok(()),
        }
    }

    fn batch_is_ripe(&self, now: Instant) -> bool {
        let gathering = self.gathering.as_ref();
        gathering.is_some_and(|gathering| gathering.is_ripe(now))
    }

    /// How long until the connection may have been silent for too long.
    fn judge_silence(&self, now: Instant) -> Result<Option<Duration>, Reason> {
        match &self.liveness {
            Some(liveness) if matches!(self.stage, Stage::Open) => {
                let silence = self.silence(liveness, now);
                let idle = liveness.timeouts.judge(silence).map_err(Reason::Idle)?;
                let Some((heartbeat, silent)) = self.options.heartbeat.zip(silence.received) else {
                    return Ok(idle);
                };
                let left = heartbeat
                    .patience_left(silent)
                    .ok_or(Reason::HeartbeatLost)?;
                Ok(Some(idle.map_or(left, |idle| idle.min(left))))
            }
            _ => Ok(None),
        }
    }

    /// How long until the next ping; `None` where there is none.
    fn next_ping_in(&self, now: Instant) -> Option<Duration> {
        let liveness = self.liveness.as_ref()?;
        let pulse = liveness.pulse.as_ref()?;
        let sends = matches!(self.stage, Stage::Open) && self.our_side == Side::Open;
        let since_opened = now.saturating_duration_since(liveness.opened_at);
        sends.then(|| pulse.ping_in(since_opened))
    }

    /// Queues a ping if one is due; whether it is in the queue.
    fn ping_if_due(&mut self, now: Instant) -> bool {
        if self.next_ping_in(now) != Some(Duration::ZERO) {
            return false;
        }
        let number = self.liveness.as_mut().and_then(|liveness| {
            let since_opened = now.saturating_duration_since(liveness.opened_at);
            Some(liveness.pulse.as_mut()?.ping(since_opened))
        });
        number.is_some_and(|number| {
            let channel = &self.shared().channel;
            channel.offer_control(Control::Ping(number))
        })
    }

    fn silence(&self, liveness: &Liveness, now: Instant) -> Silence {
        let shared = self.shared();
        let received = || {
            let since = now.saturating_duration_since(liveness.reading_since);
            shared
                .counters
                .silence(now)
                .map_or(since, |age| age.min(since))
        };
        let written = || {
            let since = now.saturating_duration_since(liveness.opened_at);
            since.min(shared.channel.written_ago(PeerId::SOLE))
        };
        Silence {
            received: (self.their_side == Side::Open).then(received),
            written: (self.our_side == Side::Open).then(written),
        }
    }

    fn plan_next_look(&mut self, now: Instant, turn: &mut Turn) {
        let to_judge = self.judge_silence(now).ok().flatten();
        let nearest = to_judge.into_iter().chain(self.next_ping_in(now)).min();
        if let Some(at) = nearest.and_then(|left| now.checked_add(left)) {
            self.look_again(at, turn);
        }
        if self.shared().delivers() {
            self.watch_batch(turn);
        }
    }

    fn look_again(&mut self, at: Instant, turn: &mut Turn) {
        let id = self.shared().id;
        self.alarm.set(at, id, turn);
    }

    pub(super) const fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Closing(_))
    }
}
