//! Rounds: short blocks, every side once in each, in seeded random order.

use std::time::Duration;

use serde::Serialize;
use tautline_gauge::statistics::{Random, median};

use super::crowd::{Spread, Spreads};
use super::list::{Group, SideKind};
use super::site::{Site, Watchdog};

/// One side of a comparison, connected and warm. Between its blocks it sleeps.
pub(crate) trait Side {
    /// One block of about this length.
    ///
    /// # Errors
    /// Why there is no figure, in words.
    fn block(&mut self, length: Duration) -> Result<Block, String>;

    /// Of the last block, for a side that takes single times.
    fn p99_ns(&mut self) -> Option<f64> {
        None
    }

    /// A block that nobody looks at.
    ///
    /// # Errors
    /// Why it could not be, in words.
    fn warm(&mut self, length: Duration) -> Result<(), String> {
        self.block(length).map(drop)
    }

    /// Rounds after which it is measured no more, because its blocks are long.
    fn most_rounds(&self) -> usize {
        usize::MAX
    }

    /// All times of the last block, where they were recorded.
    fn spread(&self) -> Option<Spread<'_>> {
        None
    }

    /// For a side that sends at a rate: whether it could. Asked once, before the end.
    fn pace(&mut self) -> Option<Pace> {
        None
    }

    /// The end: what its own counters say, for those who look into a figure.
    ///
    /// # Errors
    /// Counters that contradict each other or what was sent.
    fn finish(self: Box<Self>) -> Result<Option<String>, String>;
}

/// What one block came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Block {
    /// Nanoseconds of one exchange, or messages a second.
    pub(crate) figure: f64,
    /// The worst single time, where single times are the point.
    pub(crate) worst_ns: f64,
    pub(crate) counts: Counts,
}

/// What was sent and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Messages sent and accepted.
    pub(crate) sent: u64,
    /// Messages that arrived intact.
    pub(crate) received: u64,
    /// Messages that arrived changed, twice or out of turn.
    pub(crate) wrong: u64,
    /// Sends that were refused.
    pub(crate) refused: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.wrong += other.wrong;
        self.refused += other.refused;
    }
}

/// What became of a rate that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Pace {
    pub(crate) asked_hz: u64,
    /// Of each block, the warm-ups too.
    pub(crate) achieved_hz: Vec<f64>,
}

impl Pace {
    /// The median of what was achieved, as a share of what was asked for.
    pub(crate) fn share(&self) -> f64 {
        let achieved_hz = median(&mut self.achieved_hz.clone()).unwrap_or_default();
        achieved_hz / self.asked_hz as f64
    }
}

/// All rounds of one side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) side: SideKind,
    /// One figure a round.
    pub(crate) figures: Vec<f64>,
    pub(crate) worst_ns: f64,
    pub(crate) counts: Counts,
    pub(crate) evidence: Option<String>,
    pub(crate) pace: Option<Pace>,
    /// Of sides that record all of their times.
    pub(crate) spreads: Spreads,
}

/// What the rounds of a group came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Measured {
    pub(crate) records: Vec<Record>,
    /// Peers that did not work here, each with its reason. They take nothing else with them.
    pub(crate) failed: Vec<String>,
}

/// Runs all rounds of a group. The calling thread is the client of every side.
///
/// # Errors
/// Why the product or a control did not work.
pub(crate) fn run(
    group: &Group,
    site: &Site,
    (rounds, block): (usize, Duration),
    random: &mut Random,
    watchdog: &Watchdog,
) -> Result<Measured, String> {
    let mut failed = Vec::new();
    let mut entries = Vec::new();
    for kind in group.sides() {
        watchdog.beat(|| format!("{}: start", describe(group, kind)));
        let start = || {
            let mut side = kind.start(site)?;
            // Whole and thrown away: buffers grow, windows open, pages come in.
            side.warm(block)?;
            Ok(side)
        };
        match start() {
            Ok(side) => entries.push(Entry::new(side, kind, rounds)),
            Err(why) => excuse(kind, why, &mut failed)?,
        }
    }
    for round in 0..rounds {
        random.shuffle(&mut entries);
        let mut position = 0;
        while let Some(entry) = entries.get_mut(position) {
            watchdog.beat(|| describe(group, entry.record.side));
            match entry.round(round, block) {
                Ok(()) => position += 1,
                Err(why) => excuse(entries.remove(position).record.side, why, &mut failed)?,
            }
        }
    }
    let mut records = Vec::new();
    for Entry {
        mut side,
        mut record,
    } in entries
    {
        watchdog.beat(|| format!("{}: finish", describe(group, record.side)));
        record.pace = side.pace();
        match side.finish() {
            Ok(evidence) => {
                record.evidence = evidence;
                records.push(record);
            }
            Err(why) => excuse(record.side, why, &mut failed)?,
        }
    }
    Ok(Measured { records, failed })
}

/// A side that runs, and what it came to so far.
struct Entry {
    side: Box<dyn Side>,
    record: Record,
}

impl Entry {
    fn new(side: Box<dyn Side>, kind: SideKind, rounds: usize) -> Self {
        let record = Record {
            side: kind,
            figures: Vec::with_capacity(rounds),
            worst_ns: 0.0,
            counts: Counts::default(),
            evidence: None,
            pace: None,
            spreads: Spreads::default(),
        };
        Self { side, record }
    }

    fn round(&mut self, round: usize, block: Duration) -> Result<(), String> {
        if round >= self.side.most_rounds() {
            return Ok(());
        }
        // It slept while the others ran: caches and the CPU's clock have to come back.
        self.side.warm(block / 10)?;
        let done = self.side.block(block)?;
        self.record.figures.push(done.figure);
        self.record.worst_ns = self.record.worst_ns.max(done.worst_ns);
        self.record.counts.add(done.counts);
        match self.side.spread() {
            Some(spread) => self.record.spreads.add(&spread),
            None => Ok(()),
        }
    }
}

/// A peer may fail and is listed; without the product or a control there is nothing to compare.
fn excuse(kind: SideKind, why: String, failed: &mut Vec<String>) -> Result<(), String> {
    let why = format!("{}: {why}", kind.name());
    if matches!(kind, SideKind::Peer(_)) {
        failed.push(why);
        Ok(())
    } else {
        Err(why)
    }
}

fn describe(group: &Group, side: SideKind) -> String {
    let (transport, payload_bytes) = (group.transport, group.payload_bytes);
    format!(
        "{}, {}, {transport} {payload_bytes} B, {}",
        group.target,
        group.condition,
        side.name()
    )
}
