//! What a run and its processes say to each other: one JSON document a line, over pipes.

use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::primes::WholeCount;
use crate::recorder::Recorded;
use crate::report::soak::Slice;

/// What a process is for: the first line that it reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Job {
    /// Answers pings.
    Receiver {
        /// Where to listen.
        address: String,
        /// Under which scheduler, whole.
        sched: String,
    },
    /// Sends pings.
    Sender {
        /// Where to.
        address: String,
        payload_bytes: usize,
        pings: u64,
        warmup: u64,
        /// Stop the kernel's trace when a ping takes longer.
        trace_over_ns: Option<u64>,
    },
    /// Counts primes.
    Load {
        limit: LoadLimit,
        threads: usize,
        sched: String,
        /// Begins again after each whole count, and says so at once when it runs.
        repeat: bool,
    },
}

/// How far a load counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum LoadLimit {
    UpTo(u64),
    /// As far as it comes in about so long from its release on, beside whatever runs then.
    Within {
        time_ns: u64,
    },
}

/// What a run tells a process after its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Begin; with `on`, go on after the last ping that counts until told that it is enough.
    Go { on: bool },
    /// Say what there is, and end.
    Enough,
}

/// What a process says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Word {
    /// It can begin, or has begun.
    Ready(Box<Ready>),
    /// A sender has done the pings that count.
    Counted,
    /// How far a load counts, found out beside the pings.
    Limit(u64),
    /// A load has counted to its limit.
    Whole(WholeCount),
    /// A sender's last word.
    Sent(Box<Sent>),
    /// A load's last word.
    Load {
        whole: Option<WholeCount>,
        whole_counts: u64,
    },
    /// Why it cannot go on. The last word.
    Failed(String),
}

/// What is known of a process when it is ready.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) session: u32,
    pub(super) sched: String,
    pub(super) refused: Option<String>,
    /// Where a receiver listens.
    pub(super) address: Option<String>,
    /// How far a load counts.
    pub(super) limit: Option<u64>,
    /// On how many CPUs a load runs.
    pub(super) cpus: Option<usize>,
    /// What a sender's receiver said of itself.
    pub(super) peer: Option<crate::wire::PeerRecord>,
}

/// What a sender found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) recorded: Recorded,
    /// Above 1, 5, 10 and 20 ms.
    pub(super) over: [u64; 4],
    pub(super) time_ns: u64,
    pub(super) further_pings: u64,
    pub(super) corrupted: u64,
    pub(super) slices: Vec<Slice>,
    pub(super) slow: Vec<SlowPing>,
    pub(super) traced: Option<u64>,
    pub(super) error: Option<String>,
}

/// One of the slowest pings of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlowPing {
    pub(super) sent_ns: u64,
    pub(super) rtt_ns: u64,
    pub(super) sequence: u64,
    pub(super) cpu: Option<usize>,
}

/// Writes one line, at once.
pub(super) fn say(to: &mut impl Write, word: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(word).map_err(io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads one line; `None` at the end.
pub(super) fn hear<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line)
        .map(Some)
        .map_err(io::Error::other)
}
