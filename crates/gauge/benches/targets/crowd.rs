//! Many connections at once in a closed loop: one client thread, one server thread, on each connection
//! one message under way. Every time of a block goes into a histogram: its median and 99th percentile
//! are the block's, those of all blocks together come from the merged histogram.

mod callback;
mod epoll;
mod tokio_tasks;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tautline_gauge::clock::now_ns;
use tautline_gauge::probe;

use super::rounds::{Block, Counts, Side};
use super::site::Site;

pub(crate) use callback::start as start_callback;
pub(crate) use epoll::start as start_epoll;
pub(crate) use tokio_tasks::start as start_tokio;

/// So many connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crowd {
    One,
    Sixteen,
    Hundred,
    Thousand,
}

impl Crowd {
    pub(crate) const ALL: [Self; 4] = [Self::One, Self::Sixteen, Self::Hundred, Self::Thousand];

    pub(crate) const fn connections(self) -> usize {
        match self {
            Self::One => 1,
            Self::Sixteen => 16,
            Self::Hundred => 128,
            Self::Thousand => 1_000,
        }
    }
}

/// What the last block of a side recorded, where it recorded all of its times.
pub(crate) struct Spread<'a> {
    pub(crate) times_ns: &'a Histogram<u64>,
    pub(crate) messages_per_s: f64,
}

/// All rounds of a side that records all of its times.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Spreads {
    pub(crate) p99_ns: Vec<f64>,
    pub(crate) messages_per_s: Vec<f64>,
    pub(crate) merged: Option<Histogram<u64>>,
}

impl Spreads {
    pub(crate) fn add(&mut self, spread: &Spread<'_>) -> Result<(), String> {
        self.p99_ns
            .push(spread.times_ns.value_at_quantile(0.99) as f64);
        self.messages_per_s.push(spread.messages_per_s);
        match &mut self.merged {
            Some(merged) => merged
                .add(spread.times_ns)
                .map_err(|cause| cause.to_string()),
            none => {
                *none = Some(spread.times_ns.clone());
                Ok(())
            }
        }
    }
}

/// A merged histogram in figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Merged {
    pub(crate) count: u64,
    pub(crate) p50_ns: u64,
    /// From 1,000 times, so that ten lie beyond it.
    pub(crate) p99_ns: Option<u64>,
    /// From 10,000 times.
    pub(crate) p999_ns: Option<u64>,
    pub(crate) max_ns: u64,
}

impl Merged {
    pub(crate) fn of(times_ns: &Histogram<u64>) -> Self {
        let count = times_ns.len();
        let beyond = |share: f64| {
            (count as f64 * (1.0 - share) >= 9.99).then(|| times_ns.value_at_quantile(share))
        };
        Self {
            count,
            p50_ns: times_ns.value_at_quantile(0.5),
            p99_ns: beyond(0.99),
            p999_ns: beyond(0.999),
            max_ns: times_ns.max(),
        }
    }
}

/// What all connections of a client share; only its one thread takes the lock during a block.
pub(crate) struct Floor {
    state: Mutex<State>,
    waiting: Thread,
}

struct State {
    end_ns: u64,
    /// Connections with a message under way.
    busy: usize,
    times_ns: Histogram<u64>,
    counts: Counts,
    last_ns: u64,
    broken: Option<String>,
}

impl Floor {
    /// The calling thread will wait for the ends of blocks.
    fn new() -> Result<Self, String> {
        Ok(Self {
            state: Mutex::new(State {
                end_ns: 0,
                busy: 0,
                // Up to a minute, to three digits; nothing grows while it is recorded into.
                times_ns: Histogram::new_with_bounds(1, 60_000_000_000, 3)
                    .map_err(|cause| cause.to_string())?,
                counts: Counts::default(),
                last_ns: 0,
                broken: None,
            }),
            waiting: thread::current(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, connections: usize, end_ns: u64) {
        let mut state = self.state();
        state.times_ns.reset();
        (state.counts, state.busy) = (Counts::default(), connections);
        state.end_ns = end_ns;
    }

    /// A reply is here: whether another message is to follow. The first of a block, without a `sent_ns`,
    /// is not timed, and one that is timed follows it however late it is.
    #[inline]
    fn settle(&self, sent_ns: Option<u64>, received_ns: u64, intact: bool) -> bool {
        let mut state = self.state();
        if let Some(sent_ns) = sent_ns {
            if intact {
                state.counts.received += 1;
                state.times_ns.saturating_record(received_ns - sent_ns);
            } else {
                state.counts.wrong += 1;
            }
        }
        let goes_on = sent_ns.is_none() || received_ns < state.end_ns;
        if goes_on {
            state.counts.sent += 1;
        } else {
            state.busy -= 1;
            state.last_ns = received_ns;
            if state.busy == 0 {
                self.waiting.unpark();
            }
        }
        goes_on
    }

    fn broken(&self, why: String) {
        self.state().broken = Some(why);
        self.waiting.unpark();
    }

    /// Waits until no connection has a message under way.
    fn wait(&self, limit: Duration) -> Result<(), String> {
        let until_ns = now_ns() + limit.as_nanos() as u64;
        loop {
            let mut state = self.state();
            if let Some(why) = state.broken.take() {
                return Err(why);
            }
            if state.busy == 0 {
                return Ok(());
            }
            if now_ns() > until_ns {
                return Err(format!("{} connections had no reply", state.busy));
            }
            drop(state);
            thread::park_timeout(LOOK);
        }
    }
}

/// A client of so many connections, whoever moves their messages.
trait Client {
    fn floor(&self) -> &Floor;

    /// Exchanges messages on all connections until the floor's time is over; it may return before.
    fn exchange(&mut self) -> Result<(), String>;

    fn finish(self) -> Result<Option<String>, String>;
}

/// The measuring thread's side.
struct Together<C> {
    client: C,
    connections: usize,
    times_ns: Histogram<u64>,
    messages_per_s: f64,
}

impl<C: Client + 'static> Together<C> {
    fn start(client: C, crowd: Crowd) -> Result<Box<dyn Side>, String> {
        let times_ns = client.floor().state().times_ns.clone();
        Ok(Box::new(Self {
            client,
            connections: crowd.connections(),
            times_ns,
            messages_per_s: 0.0,
        }))
    }
}

impl<C: Client> Side for Together<C> {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let start_ns = now_ns();
        let end_ns = start_ns + length.as_nanos() as u64;
        self.client.floor().open(self.connections, end_ns);
        self.client.exchange()?;
        self.client.floor().wait(length + SILENCE_LIMIT)?;
        let state = self.client.floor().state();
        if state.counts.received == 0 {
            return Err("no reply came back intact".to_owned());
        }
        let elapsed_s = state.last_ns.saturating_sub(start_ns) as f64 / 1e9;
        // The first of each connection were not timed, and took their part of the time.
        let replies = state.counts.received + self.connections as u64;
        self.messages_per_s = replies as f64 / elapsed_s;
        self.times_ns.clone_from(&state.times_ns);
        Ok(Block {
            figure: self.times_ns.value_at_quantile(0.5) as f64,
            worst_ns: self.times_ns.max() as f64,
            counts: state.counts,
        })
    }

    fn spread(&self) -> Option<Spread<'_>> {
        Some(Spread {
            times_ns: &self.times_ns,
            messages_per_s: self.messages_per_s,
        })
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        self.client.finish()
    }
}

/// One connection's message and what it has to come back as.
struct Exchange {
    payload: Vec<u8>,
    sequence: u64,
    sent_ns: Option<u64>,
}

impl Exchange {
    fn new(site: &Site) -> Self {
        Self {
            payload: vec![0; site.payload_bytes],
            sequence: 0,
            sent_ns: None,
        }
    }

    /// The message that starts a block is not timed: a thousand of them start at once.
    fn first(&mut self) -> &[u8] {
        self.next();
        self.sent_ns = None;
        &self.payload
    }

    #[inline]
    fn next(&mut self) -> &[u8] {
        self.sequence += 1;
        probe::stamp(&mut self.payload, self.sequence);
        self.sent_ns = Some(now_ns());
        &self.payload
    }

    /// Whether another message is to follow this reply.
    #[inline]
    fn settle(&self, floor: &Floor, reply: &[u8]) -> bool {
        let intact = probe::sequence_of(reply, self.payload.len()) == Some(self.sequence);
        floor.settle(self.sent_ns, now_ns(), intact)
    }
}

/// Why so many connections cannot be had, if they cannot: both ends are in this process.
pub(crate) fn room_for(crowd: Crowd) -> Result<(), String> {
    // What the program has open besides: some dozens.
    let needed = 2 * crowd.connections() as u64 + 200;
    let (soft, hard) = open_files()?;
    if soft >= needed {
        return Ok(());
    }
    Err(format!(
        "{} connections need {needed} open files, and the soft limit is {soft}; `ulimit -n {needed}` \
         raises it up to the hard limit of {hard}",
        crowd.connections()
    ))
}

/// The soft and the hard limit of open files.
fn open_files() -> Result<(u64, u64), String> {
    let text = std::fs::read_to_string("/proc/self/limits").map_err(|cause| cause.to_string())?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let mut words = line.into_iter().flat_map(str::split_whitespace);
    let mut number = || match words.next() {
        Some("unlimited") => Some(u64::MAX),
        word => word.and_then(|word| word.parse().ok()),
    };
    number()
        .zip(number())
        .ok_or_else(|| "/proc/self/limits does not say".to_owned())
}

const LOOK: Duration = Duration::from_millis(100);
/// A block that ends so late has lost a reply.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
