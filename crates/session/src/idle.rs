//! When a connection has been silent for too long.

use std::time::Duration;

/// Which way a connection was silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdleSide {
    /// Both ways at once (`idle_timeout`).
    Both,
    /// Nothing came (`receive_idle_timeout`).
    Receiving,
    /// Nothing was written (`send_idle_timeout`).
    Sending,
}

/// How long a connection may be silent; `None` for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleTimeouts {
    /// Both ways at once.
    pub both: Option<Duration>,
    /// Without anything coming.
    pub receiving: Option<Duration>,
    /// Without anything being written.
    pub sending: Option<Duration>,
}

/// For how long nothing moved. A side that has ended, so that nothing can move, is `None`: it has no
/// say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// Since something came.
    pub received: Option<Duration>,
    /// Since something was written.
    pub written: Option<Duration>,
}

impl IdleTimeouts {
    /// Whether there is nothing to watch.
    pub const fn is_none(&self) -> bool {
        self.both.is_none() && self.receiving.is_none() && self.sending.is_none()
    }

    /// How long until the first of the timeouts may have run out; `None` for never.
    ///
    /// # Errors
    /// The side that was silent for as long as it may.
    pub fn judge(&self, silence: Silence) -> Result<Option<Duration>, IdleSide> {
        let both = match (silence.received, silence.written) {
            (Some(received), Some(written)) => Some(received.min(written)),
            (one, other) => one.or(other),
        };
        let sides = [
            (self.receiving, silence.received, IdleSide::Receiving),
            (self.sending, silence.written, IdleSide::Sending),
            (self.both, both, IdleSide::Both),
        ];
        let mut next: Option<Duration> = None;
        for (timeout, silent, side) in sides {
            let (Some(timeout), Some(silent)) = (timeout, silent) else {
                continue;
            };
            if silent >= timeout {
                return Err(side);
            }
            let left = timeout - silent;
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        Ok(next)
    }
}

impl std::fmt::Display for IdleSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Both => "nothing was sent or received for too long",
            Self::Receiving => "nothing was received for too long",
            Self::Sending => "nothing was sent for too long",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    fn silence(received: Option<Duration>, written: Option<Duration>) -> Silence {
        Silence { received, written }
    }

    fn timeouts(both: u64, receiving: u64, sending: u64) -> IdleTimeouts {
        let of = |value| ms(value).filter(|duration| !duration.is_zero());
        IdleTimeouts {
            both: of(both),
            receiving: of(receiving),
            sending: of(sending),
        }
    }

    #[test]
    fn each_side_is_judged_by_its_own_silence() {
        let receiving = timeouts(0, 100, 0);
        assert_eq!(receiving.judge(silence(ms(99), ms(900))), Ok(ms(1)));
        assert_eq!(
            receiving.judge(silence(ms(100), ms(0))),
            Err(IdleSide::Receiving)
        );
        let sending = timeouts(0, 0, 100);
        assert_eq!(sending.judge(silence(ms(900), ms(30))), Ok(ms(70)));
        assert_eq!(
            sending.judge(silence(ms(0), ms(101))),
            Err(IdleSide::Sending)
        );
    }

    #[test]
    fn both_sides_have_to_be_silent_for_idle_timeout() {
        let both = timeouts(100, 0, 0);
        assert_eq!(both.judge(silence(ms(10), ms(900))), Ok(ms(90)));
        assert_eq!(both.judge(silence(ms(900), ms(10))), Ok(ms(90)));
        assert_eq!(both.judge(silence(ms(100), ms(200))), Err(IdleSide::Both));
    }

    #[test]
    fn a_side_that_has_ended_has_no_say() {
        let all = timeouts(100, 50, 50);
        assert_eq!(all.judge(silence(None, ms(20))), Ok(ms(30)));
        assert_eq!(all.judge(silence(ms(20), None)), Ok(ms(30)));
        assert_eq!(all.judge(silence(None, None)), Ok(None));
        assert_eq!(
            timeouts(100, 0, 0).judge(silence(None, ms(100))),
            Err(IdleSide::Both)
        );
    }

    #[test]
    fn the_next_look_is_at_the_first_that_may_run_out() {
        let all = timeouts(100, 300, 200);
        assert_eq!(all.judge(silence(ms(90), ms(10))), Ok(ms(90)));
        assert_eq!(
            IdleTimeouts::default().judge(silence(ms(1), ms(1))),
            Ok(None)
        );
    }
}
