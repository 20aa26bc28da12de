//! High and low water: telling the producer before the queue is full.

use crate::account::Tally;

/// Which side of the water marks the queue is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pressure {
    /// The fuller of the two limits reached 75 %.
    On,
    /// Both limits fell to 25 % or below.
    Off,
}

/// Judges how full the queue is, counts crossings, and remembers what the driver has told.
#[derive(Debug)]
pub(crate) struct PressureGauge {
    limit: Tally,
    on: bool,
    told_on: bool,
    crossings: u64,
}

impl PressureGauge {
    pub(crate) const fn new(limit: Tally) -> Self {
        Self {
            limit,
            on: false,
            told_on: false,
            crossings: 0,
        }
    }

    /// Compares what waits with the marks. Between them nothing changes.
    #[inline]
    pub(crate) const fn judge(&mut self, waiting: Tally) {
        let crossed = if self.on {
            waiting.bytes <= self.limit.bytes / 4 && waiting.messages <= self.limit.messages / 4
        } else {
            waiting.bytes >= high(self.limit.bytes) || waiting.messages >= high(self.limit.messages)
        };
        if crossed {
            self.on = !self.on;
            self.crossings += 1;
        }
    }

    /// The state, if it is another than the one told last.
    pub(crate) const fn tell(&mut self) -> Option<Pressure> {
        if self.on == self.told_on {
            return None;
        }
        self.told_on = self.on;
        Some(if self.on { Pressure::On } else { Pressure::Off })
    }

    #[inline]
    pub(crate) const fn untold(&self) -> bool {
        self.on != self.told_on
    }

    /// The connection ended and what waited is gone.
    pub(crate) const fn release(&mut self) {
        if self.on {
            self.on = false;
            self.crossings += 1;
        }
    }

    pub(crate) const fn crossings(&self) -> u64 {
        self.crossings
    }
}

/// 75 % of a limit, rounded up: at a limit of one, full is high.
const fn high(limit: u64) -> u64 {
    limit - limit / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge() -> PressureGauge {
        PressureGauge::new(Tally {
            messages: 8,
            bytes: 1000,
        })
    }

    fn waiting(messages: u64, bytes: u64) -> Tally {
        Tally { messages, bytes }
    }

    #[test]
    fn either_limit_raises_it_and_both_must_fall() {
        let mut gauge = gauge();
        gauge.judge(waiting(1, 749));
        assert_eq!(gauge.tell(), None);
        gauge.judge(waiting(1, 750));
        assert_eq!(gauge.tell(), Some(Pressure::On));
        gauge.judge(waiting(3, 100));
        assert_eq!(gauge.tell(), None);
        gauge.judge(waiting(2, 250));
        assert_eq!(gauge.tell(), Some(Pressure::Off));
        gauge.judge(waiting(6, 10));
        assert_eq!(gauge.tell(), Some(Pressure::On));
        assert_eq!(gauge.crossings(), 3);
    }

    #[test]
    fn two_crossings_between_tellings_are_counted_and_cancel_out() {
        let mut gauge = gauge();
        gauge.judge(waiting(1, 900));
        gauge.judge(waiting(0, 0));
        assert_eq!(gauge.tell(), None);
        assert_eq!(gauge.crossings(), 2);
    }
}
