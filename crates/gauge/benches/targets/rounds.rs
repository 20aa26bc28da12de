//! Rounds: short blocks, every side once in each, in seeded random order.

use std::time::Duration;

use serde::Serialize;
use tautline_gauge::statistics::{Random, median};

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
}

/// Runs all rounds of a group. The calling thread is the client of every side.
pub(crate) fn run(
    group: &Group,
    site: &Site,
    (rounds, block): (usize, Duration),
    random: &mut Random,
    watchdog: &Watchdog,
) -> Result<Vec<Record>, String> {
    let mut sides = Vec::new();
    let mut records = Vec::new();
    for kind in group.sides() {
        watchdog.beat(|| format!("{}: start", describe(group, kind)));
        let explain = |why| format!("{}: {why}", kind.name());
        let mut side = kind.start(site).map_err(explain)?;
        // Whole and thrown away: buffers grow, windows open, pages come in.
        side.block(block).map_err(explain)?;
        sides.push(side);
        records.push(Record {
            side: kind,
            figures: Vec::with_capacity(rounds),
            worst_ns: 0.0,
            counts: Counts::default(),
            evidence: None,
            pace: None,
        });
    }
    let mut order: Vec<usize> = (0..sides.len()).collect();
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &position in &order {
            let (side, record) = (&mut sides[position], &mut records[position]);
            watchdog.beat(|| describe(group, record.side));
            let explain = |why| format!("{}: {why}", record.side.name());
            // It slept while the others ran: caches and the CPU's clock have to come back.
            side.block(block / 10).map_err(explain)?;
            let done = side.block(block).map_err(explain)?;
            record.figures.push(done.figure);
            record.worst_ns = record.worst_ns.max(done.worst_ns);
            record.counts.add(done.counts);
        }
    }
    for (mut side, record) in sides.into_iter().zip(&mut records) {
        watchdog.beat(|| format!("{}: finish", describe(group, record.side)));
        let explain = |why| format!("{}: {why}", record.side.name());
        record.pace = side.pace();
        record.evidence = side.finish().map_err(explain)?;
    }
    Ok(records)
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
