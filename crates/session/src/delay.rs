//! A histogram of queue delay: small enough to stand in every link.

/// Time from being queued to the system call, in 8 steps an octave from 128 ns to 137 s.
///
/// Under 1 KiB, no allocation after it is made; counters saturate. A message is stamped with the
/// clock of its group (a reading when the queue becomes non-empty, then one per 64 messages or 4 KiB),
/// so a delay may be overstated by the time such a group takes to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDelay {
    counts: [u32; STEPS],
}

/// Steps an octave, as a power of two.
const SHIFT: u32 = 3;
/// Delays below 2^7 ns share the first step.
const FIRST_OCTAVE: u32 = 7;
const OCTAVES: usize = 30;
const STEPS: usize = OCTAVES << SHIFT;

impl Default for QueueDelay {
    fn default() -> Self {
        Self { counts: [0; STEPS] }
    }
}

impl QueueDelay {
    /// Notes that `messages` waited `delay_ns` each.
    pub fn record(&mut self, delay_ns: u64, messages: u32) {
        let count = &mut self.counts[step(delay_ns)];
        *count = count.saturating_add(messages);
    }

    /// Messages noted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// The delay that `percent` of the messages did not exceed, as the upper edge of its step (at
    /// most 12.5 % above the true value); `None` while nothing was noted.
    ///
    /// `percent` is from 0 to 100; outside it counts as the nearer end.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = (percent.clamp(0.0, 100.0) / 100.0 * total as f64)
            .ceil()
            .max(1.0) as u64;
        let mut seen = 0;
        for (step, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return Some(upper_edge_ns(step));
            }
        }
        None
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }
}

const fn step(delay_ns: u64) -> usize {
    if delay_ns < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = delay_ns.ilog2();
    let within = (delay_ns >> (octave - SHIFT)) as usize & ((1 << SHIFT) - 1);
    let step = ((octave - FIRST_OCTAVE) as usize) << SHIFT | within;
    if step < STEPS { step } else { STEPS - 1 }
}

const fn upper_edge_ns(step: usize) -> u64 {
    let octave = FIRST_OCTAVE + (step >> SHIFT) as u32;
    let within = (step & ((1 << SHIFT) - 1)) as u64;
    ((1 << SHIFT) + within + 1) << (octave - SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_under_a_kibibyte() {
        assert!(size_of::<QueueDelay>() < 1024);
    }

    #[test]
    fn a_percentile_is_at_most_an_eighth_above_the_sample() {
        for delay_ns in [128, 129, 1_000, 4_095, 4_096, 50_000, 3_000_000_000] {
            let mut delays = QueueDelay::default();
            delays.record(delay_ns, 1);
            let shown_ns = delays.percentile_ns(50.0).unwrap();
            assert!(shown_ns >= delay_ns, "{shown_ns} for {delay_ns}");
            assert!(
                shown_ns <= delay_ns + delay_ns / 8 + 1,
                "{shown_ns} for {delay_ns}"
            );
        }
    }

    #[test]
    fn the_ends_of_the_range_saturate() {
        let mut delays = QueueDelay::default();
        delays.record(0, u32::MAX);
        delays.record(0, 5);
        delays.record(u64::MAX, 1);
        assert_eq!(delays.percentile_ns(0.0), Some(144));
        assert_eq!(delays.percentile_ns(100.0), Some(1 << 37));
        assert_eq!(delays.count(), u64::from(u32::MAX) + 1);
    }

    #[test]
    fn no_samples_is_none_not_zero() {
        assert_eq!(QueueDelay::default().percentile_ns(50.0), None);
    }
}
