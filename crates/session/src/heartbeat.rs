//! When to ask the peer whether it lives, and when it is to be taken for dead.

use std::time::Duration;

/// Heartbeats between two Tautlines: both ask, both answer, and both ends have to set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Between two pings.
    pub interval: Duration,
    /// After so many intervals without a byte from the peer it is lost; at least 1. Of 2 or more a
    /// single late answer harms nothing.
    pub missed_limit: u32,
}

/// Round trips of heartbeats: from our driver to the peer's and back, their queues and threads
/// included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatRtt {
    /// How many were answered.
    pub count: u64,
    /// The last one.
    pub last: Duration,
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// A running mean in which the last counts an eighth (RFC 6298).
    pub smoothed: Duration,
}

/// Our own pings on one connection. Times are since it opened.
#[derive(Debug)]
pub struct Pulse {
    interval: Duration,
    next_ping: Duration,
    /// Numbers of pings are the times they were sent; 0 for none.
    sent: u64,
    answered: u64,
}

impl Heartbeat {
    /// How long a peer that was silent for so long may stay so; `None` when it is lost.
    pub fn patience_left(&self, silence: Duration) -> Option<Duration> {
        let patience = self.interval.saturating_mul(self.missed_limit);
        patience.checked_sub(silence).filter(|left| !left.is_zero())
    }
}

impl HeartbeatRtt {
    /// With one more; the first begins it.
    pub fn with(before: Option<Self>, rtt: Duration) -> Self {
        match before {
            None => Self {
                count: 1,
                last: rtt,
                min: rtt,
                max: rtt,
                smoothed: rtt,
            },
            Some(before) => Self {
                count: before.count + 1,
                last: rtt,
                min: before.min.min(rtt),
                max: before.max.max(rtt),
                smoothed: before.smoothed - before.smoothed / 8 + rtt / 8,
            },
        }
    }
}

impl Pulse {
    /// For a connection that opens now: the first ping comes an interval later.
    pub const fn new(heartbeat: Heartbeat) -> Self {
        Self {
            interval: heartbeat.interval,
            next_ping: heartbeat.interval,
            sent: 0,
            answered: 0,
        }
    }

    /// How long until the next ping; nothing when it is due.
    pub const fn ping_in(&self, now: Duration) -> Duration {
        self.next_ping.saturating_sub(now)
    }

    /// A ping is sent; its number.
    pub const fn ping(&mut self, now: Duration) -> u64 {
        self.next_ping = now.saturating_add(self.interval);
        // Five centuries fit.
        self.sent = now.as_nanos() as u64;
        self.sent
    }

    /// The peer answered; the round trip, unless it answers what was not asked, or was answered.
    pub fn answered(&mut self, number: u64, now: Duration) -> Option<Duration> {
        if number <= self.answered || number > self.sent {
            return None;
        }
        self.answered = number;
        Some(now.saturating_sub(Duration::from_nanos(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const HEARTBEAT: Heartbeat = Heartbeat {
        interval: ms(100),
        missed_limit: 3,
    };

    fn pulse() -> Pulse {
        Pulse::new(HEARTBEAT)
    }

    #[test]
    fn a_ping_is_due_every_interval_and_no_sooner() {
        let mut pulse = pulse();
        assert_eq!(pulse.ping_in(ms(0)), ms(100));
        assert_eq!(pulse.ping_in(ms(99)), ms(1));
        assert_eq!(pulse.ping_in(ms(103)), ms(0));
        assert_eq!(pulse.ping(ms(103)), 103_000_000);
        assert_eq!(pulse.ping_in(ms(103)), ms(100));
    }

    #[test]
    fn a_peer_is_lost_after_so_many_intervals_of_silence_and_not_before() {
        assert_eq!(HEARTBEAT.patience_left(ms(0)), Some(ms(300)));
        assert_eq!(HEARTBEAT.patience_left(ms(299)), Some(ms(1)));
        assert_eq!(HEARTBEAT.patience_left(ms(300)), None);
        assert_eq!(HEARTBEAT.patience_left(Duration::MAX), None);
    }

    #[test]
    fn only_what_was_asked_and_is_not_answered_makes_a_round_trip() {
        let mut pulse = pulse();
        assert_eq!(pulse.answered(7, ms(1)), None, "nothing was asked");
        pulse.ping(ms(100));
        assert_eq!(pulse.answered(100_000_001, ms(104)), None);
        assert_eq!(pulse.answered(100_000_000, ms(104)), Some(ms(4)));
        assert_eq!(pulse.answered(100_000_000, ms(105)), None, "twice");
        assert_eq!(pulse.answered(0, ms(105)), None);
    }

    #[test]
    fn round_trips_are_summed_up() {
        let first = HeartbeatRtt::with(None, ms(8));
        assert_eq!((first.count, first.smoothed), (1, ms(8)));
        let second = HeartbeatRtt::with(Some(first), ms(16));
        assert_eq!(
            (second.min, second.last, second.max),
            (ms(8), ms(16), ms(16))
        );
        assert_eq!((second.count, second.smoothed), (2, ms(9)));
    }

    #[test]
    fn no_interval_is_too_long_for_the_arithmetic() {
        let endless = Heartbeat {
            interval: Duration::MAX,
            missed_limit: u32::MAX,
        };
        assert!(endless.patience_left(ms(1)).is_some());
        let mut pulse = Pulse::new(endless);
        pulse.ping(ms(1));
        assert!(pulse.ping_in(ms(2)) > ms(1_000_000));
    }
}
