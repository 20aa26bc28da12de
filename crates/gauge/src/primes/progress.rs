//! Which chunk is whose, and what is known of the count: the part that threads take turns with.
//!
//! A thread that finds nothing left of this count takes a chunk that another is still at, and the
//! first to finish it counts. So a thread of the idle class that gets no CPU holds up nobody, the
//! other CPUs never rest, and nothing has to be remembered of more than one count.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Reached, WholeCount};

/// How the numbers up to the limit are cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunks {
    limit: u64,
    length: u64,
    pub(super) number: u64,
}

/// One chunk of one whole count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    round: u64,
    pub(super) chunk: u64,
}

/// The whole counts so far and the one in progress.
#[derive(Debug)]
pub(super) struct Rounds {
    /// Whole counts that have ended.
    pub(super) whole_counts: u64,
    pub(super) first: Option<WholeCount>,
    /// Chunks of this round that have been taken, from the first.
    taken: u64,
    /// Chunks done without a gap from the first, and the primes in them.
    done: u64,
    primes: u64,
    /// Chunks done beyond the first gap. Never more than one count has.
    ahead: BTreeMap<u64, u64>,
    /// Takes turns among the chunks that are helped with.
    helped: u64,
    /// The count in progress: what belongs to an earlier one counts no more.
    round: u64,
    /// When the first count began, by the clock of `elapsed`.
    began: Duration,
}

impl Chunks {
    pub(super) fn new(limit: u64, threads: usize, segment_numbers: u64) -> Self {
        // At the end threads wait for a chunk at most: let it be a hundredth of the whole. And what
        // finding the first multiples costs is to be lost in the sieving.
        let wanted = limit / (threads as u64 * 100) / segment_numbers;
        let length = wanted.clamp(1, MOST_SEGMENTS) * segment_numbers;
        Self {
            limit,
            length,
            number: limit / length + 1,
        }
    }

    /// From, and to below.
    pub(super) fn range(&self, chunk: u64) -> (u64, u64) {
        let start = chunk * self.length;
        (start, (start + self.length).min(self.limit + 1))
    }
}

impl Rounds {
    /// Goes on at the chunk that `from` lies in: only whole chunks of the same size are kept.
    pub(super) fn new(chunks: &Chunks, from: Reached) -> Self {
        // A count for another limit or number of threads may have been cut elsewhere.
        let fits = from.below.is_multiple_of(chunks.length) && from.below <= chunks.limit;
        let (done, primes) = if fits {
            (from.below / chunks.length, from.primes)
        } else {
            (0, 0)
        };
        Self {
            whole_counts: 0,
            first: None,
            taken: done,
            done,
            primes,
            ahead: BTreeMap::new(),
            helped: 0,
            round: 0,
            began: Duration::ZERO,
        }
    }

    /// Forgets everything and begins at the beginning, now.
    pub(super) fn restart(&mut self, elapsed: Duration) {
        *self = Self {
            whole_counts: 0,
            first: None,
            taken: 0,
            done: 0,
            primes: 0,
            ahead: BTreeMap::new(),
            helped: self.helped,
            round: self.round + 1,
            began: elapsed,
        };
    }

    /// What to do next; `None` when there is nothing.
    pub(super) fn next_task(&mut self, chunks: &Chunks, repeat: bool) -> Option<Task> {
        if !repeat && self.whole_counts > 0 {
            return None;
        }
        let round = self.round;
        if self.taken < chunks.number {
            self.taken += 1;
            return Some(Task {
                round,
                chunk: self.taken - 1,
            });
        }
        let open: Vec<u64> = (self.done..chunks.number)
            .filter(|chunk| !self.ahead.contains_key(chunk))
            .collect();
        self.helped += 1;
        let chunk = open[(self.helped % open.len() as u64) as usize];
        Some(Task { round, chunk })
    }

    /// A chunk has been counted. Says whether that completed a whole count.
    pub(super) fn settled(
        &mut self,
        chunks: &Chunks,
        task: Task,
        primes: u64,
        elapsed: Duration,
    ) -> bool {
        if task.round != self.round || task.chunk < self.done {
            return false; // Somebody else was faster.
        }
        self.ahead.insert(task.chunk, primes);
        while let Some(primes) = self.ahead.remove(&self.done) {
            self.done += 1;
            self.primes += primes;
        }
        if self.done < chunks.number {
            return false;
        }
        let primes = self.primes;
        let time = elapsed.saturating_sub(self.began);
        self.first.get_or_insert_with(|| WholeCount {
            primes,
            time_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        });
        self.whole_counts += 1;
        self.round += 1;
        (self.taken, self.done, self.primes) = (0, 0, 0);
        true
    }

    /// The count below the first unfinished chunk; after the last count of all, the whole of it.
    pub(super) fn reached(&self, chunks: &Chunks) -> Reached {
        match self.first {
            Some(whole) if self.done == 0 => Reached {
                primes: whole.primes,
                below: chunks.limit + 1,
            },
            _ => Reached {
                primes: self.primes,
                below: (self.done * chunks.length).min(chunks.limit + 1),
            },
        }
    }
}

/// Half a billion numbers of the larger segments: a chunk is done within seconds on any CPU.
const MOST_SEGMENTS: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: Chunks = Chunks {
        limit: 299,
        length: 100,
        number: 3,
    };

    fn rounds() -> Rounds {
        Rounds::new(&CHUNKS, Reached::default())
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_known_ends_at_the_first_gap() {
        let mut rounds = rounds();
        let tasks: Vec<Task> = (0..3)
            .map(|_| rounds.next_task(&CHUNKS, true).unwrap())
            .collect();
        assert!(!rounds.settled(&CHUNKS, tasks[1], 21, seconds(1)));
        assert_eq!(
            rounds.reached(&CHUNKS),
            Reached {
                primes: 0,
                below: 0
            }
        );
        assert!(!rounds.settled(&CHUNKS, tasks[0], 25, seconds(2)));
        assert_eq!(
            rounds.reached(&CHUNKS),
            Reached {
                primes: 46,
                below: 200
            }
        );
        assert!(rounds.settled(&CHUNKS, tasks[2], 16, seconds(3)));
        assert_eq!(
            rounds.reached(&CHUNKS),
            Reached {
                primes: 62,
                below: 300
            }
        );
        let first = rounds.first.unwrap();
        assert_eq!((first.primes, first.time_ns), (62, 3_000_000_000));
    }

    #[test]
    fn a_thread_without_a_chunk_helps_with_one_and_the_first_result_counts() {
        let mut rounds = rounds();
        let tasks: Vec<Task> = (0..3)
            .map(|_| rounds.next_task(&CHUNKS, false).unwrap())
            .collect();
        assert!(!rounds.settled(&CHUNKS, tasks[0], 25, seconds(1)));
        assert!(!rounds.settled(&CHUNKS, tasks[1], 21, seconds(1)));
        let help = rounds.next_task(&CHUNKS, false).unwrap();
        assert_eq!(help, tasks[2]);
        assert!(rounds.settled(&CHUNKS, help, 16, seconds(2)));
        assert!(!rounds.settled(&CHUNKS, tasks[2], 16, seconds(9)));
        assert_eq!(rounds.whole_counts, 1);
        assert_eq!(rounds.next_task(&CHUNKS, false), None);
    }

    #[test]
    fn a_count_that_repeats_begins_again_and_keeps_the_first_time() {
        let mut rounds = rounds();
        for second in 1..=6 {
            let task = rounds.next_task(&CHUNKS, true).unwrap();
            rounds.settled(&CHUNKS, task, 10, seconds(second));
        }
        assert_eq!(rounds.whole_counts, 2);
        assert_eq!(rounds.first.unwrap().time_ns, 3_000_000_000);
    }

    #[test]
    fn a_count_that_is_restarted_knows_nothing_of_the_one_before() {
        let mut rounds = rounds();
        let old = rounds.next_task(&CHUNKS, true).unwrap();
        rounds.restart(seconds(5));
        assert!(!rounds.settled(&CHUNKS, old, 25, seconds(6)));
        assert_eq!(
            rounds.reached(&CHUNKS),
            Reached {
                primes: 0,
                below: 0
            }
        );
        for _ in 0..3 {
            let task = rounds.next_task(&CHUNKS, true).unwrap();
            rounds.settled(&CHUNKS, task, 10, seconds(9));
        }
        let first = rounds.first.unwrap();
        assert_eq!((first.primes, first.time_ns), (30, 4_000_000_000));
    }

    #[test]
    fn a_count_goes_on_where_another_of_the_same_chunks_stopped() {
        let stopped = Reached {
            primes: 46,
            below: 200,
        };
        let mut rounds = Rounds::new(&CHUNKS, stopped);
        assert_eq!(rounds.reached(&CHUNKS), stopped);
        assert_eq!(rounds.next_task(&CHUNKS, false).unwrap().chunk, 2);
        let elsewhere = Reached {
            primes: 15,
            below: 50,
        };
        let fresh = Rounds::new(&CHUNKS, elsewhere);
        assert_eq!(
            fresh.reached(&CHUNKS),
            Reached {
                primes: 0,
                below: 0
            }
        );
    }
}
