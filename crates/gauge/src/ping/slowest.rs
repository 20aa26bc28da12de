//! The slowest moments of a run: the slowest ping of each tenth of a second, and of those the slowest.
//!
//! One stall delays everything that is under way, so a moment has one ping, not a thousand.

/// One slow ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// When it was sent, or should have been in open loop.
    pub from_ns: u64,
    /// When its reply came.
    pub to_ns: u64,
    /// Its number.
    pub sequence: u64,
    /// Whose it was.
    pub connection: usize,
}

/// The slowest so far.
#[derive(Debug)]
pub struct Slowest {
    kept: Vec<Slow>,
    window_end_ns: u64,
    window_most_ns: u64,
    window: Option<Slow>,
}

impl Slow {
    /// How long it took.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

impl Slowest {
    /// Nothing yet; its memory is there.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kept: Vec::with_capacity(MOST + 1),
            window_end_ns: 0,
            window_most_ns: 0,
            window: None,
        }
    }

    /// One more ping, in the order of replies.
    #[inline]
    pub fn note(&mut self, slow: Slow) {
        if slow.to_ns >= self.window_end_ns {
            self.next_window(slow.to_ns);
        }
        let time_ns = slow.time_ns();
        if time_ns > self.window_most_ns {
            self.window_most_ns = time_ns;
            self.window = Some(slow);
        }
    }

    /// The slowest moments, slowest first.
    #[must_use]
    pub fn moments(mut self) -> Vec<Slow> {
        self.close_window();
        self.kept
    }

    /// Those of all threads together, slowest first.
    #[must_use]
    pub fn merged(of: impl IntoIterator<Item = Vec<Slow>>) -> Vec<Slow> {
        let mut slowest = Self::new();
        of.into_iter().flatten().for_each(|slow| slowest.keep(slow));
        slowest.kept
    }

    #[cold]
    fn next_window(&mut self, now_ns: u64) {
        self.close_window();
        self.window_end_ns = now_ns + WINDOW_NS;
    }

    fn close_window(&mut self) {
        self.window_most_ns = 0;
        if let Some(slow) = self.window.take() {
            self.keep(slow);
        }
    }

    /// What overlaps a moment that is known is part of it.
    fn keep(&mut self, slow: Slow) {
        let same = |kept: &Slow| kept.from_ns <= slow.to_ns && slow.from_ns <= kept.to_ns;
        match self.kept.iter().position(same) {
            Some(at) if self.kept[at].time_ns() >= slow.time_ns() => return,
            Some(at) => drop(self.kept.remove(at)),
            None => {}
        }
        let at = self
            .kept
            .partition_point(|kept| kept.time_ns() >= slow.time_ns());
        if at < MOST {
            self.kept.insert(at, slow);
            self.kept.truncate(MOST);
        }
    }
}

impl Default for Slowest {
    fn default() -> Self {
        Self::new()
    }
}

/// As many as the report has.
const MOST: usize = 20;
const WINDOW_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ping(from_ms: u64, to_ms: u64) -> Slow {
        Slow {
            from_ns: from_ms * MS,
            to_ns: to_ms * MS,
            sequence: from_ms,
            connection: 0,
        }
    }

    #[test]
    fn a_stall_is_one_moment_however_many_pings_it_delays() {
        let mut slowest = Slowest::new();
        (0..100).for_each(|at| slowest.note(ping(at * 10, at * 10 + 1)));
        (1_000..2_000).for_each(|at| slowest.note(ping(at, 2_000)));
        (201..300).for_each(|at| slowest.note(ping(at * 10, at * 10 + 2)));
        let moments = slowest.moments();
        assert_eq!(moments[0], ping(1_000, 2_000));
        assert_eq!(moments[1].time_ns(), 2 * MS);
        assert!(moments.len() <= 20);
    }

    #[test]
    fn only_the_slowest_twenty_are_kept_in_order() {
        let mut slowest = Slowest::new();
        (1..=50).for_each(|at| slowest.note(ping(at * 1_000, at * 1_000 + at)));
        let moments = slowest.moments();
        let times: Vec<u64> = moments.iter().map(|slow| slow.time_ns() / MS).collect();
        assert_eq!(times, (31..=50).rev().collect::<Vec<_>>());
        let merged = Slowest::merged([moments.clone(), moments]);
        assert_eq!(merged.len(), 20);
    }
}
