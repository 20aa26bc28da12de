//! From the rounds of a group to its rows: ratio, interval, verdict; as text and as JSON.

use std::fmt;

use serde::Serialize;
use tautline_gauge::statistics::{Random, median, median_interval};

use super::crowd::Merged;
use super::list::{Better, Comparison, Condition, Group, Limit, SideKind, Target};
use super::rounds::{Counts, Pace, Record};

/// One comparison, judged.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) target: Target,
    pub(crate) condition: Condition,
    pub(crate) transport: &'static str,
    pub(crate) payload_bytes: usize,
    /// How many there are, where that is the point.
    pub(crate) connections: Option<usize>,
    /// Which figure is compared, where the sides have several.
    pub(crate) figure: Option<&'static str>,
    pub(crate) unit: &'static str,
    pub(crate) product: Column,
    pub(crate) control: Column,
    /// The control is what people would otherwise use.
    pub(crate) beside_peer: bool,
    /// The machine was not the same before and after.
    pub(crate) changed: bool,
    /// The median over rounds of the ratio within each.
    pub(crate) ratio: f64,
    /// What the limit is for, and what the interval is of: the ratio, or the product's own figure.
    pub(crate) judged: f64,
    /// 95 %, of `judged`.
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) limit: String,
    pub(crate) verdict: Verdict,
    /// What belongs beside the verdict.
    pub(crate) note: Option<String>,
}

/// One side of a row.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Column {
    pub(crate) side: &'static str,
    /// The median over rounds, or a percentile of all times.
    pub(crate) figure: f64,
    pub(crate) rounds: Vec<f64>,
    /// All times of all rounds, where they were recorded.
    pub(crate) merged: Option<Merged>,
    /// The worst single time, where single times were taken.
    pub(crate) worst_ns: Option<f64>,
    pub(crate) counts: Counts,
    pub(crate) evidence: Option<String>,
    pub(crate) pace: Option<Pace>,
}

/// What the interval says about the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// All of it is within.
    Met,
    /// All of it is outside.
    Missed,
    /// All of it says that the product is no worse than the peer.
    NoWorse,
    /// All of it says that it is.
    Worse,
    Undecided,
    TooFewRounds,
    /// Nothing is required.
    Reported,
}

/// All rows of a group.
pub(crate) fn rows(group: &Group, records: &[Record], random: &mut Random) -> Vec<Row> {
    let row = |(comparison, figure)| row(group, comparison, figure, records, random);
    group
        .comparisons
        .iter()
        .filter(|comparison| ran(comparison, records))
        .flat_map(|comparison| {
            let figures = Figure::of(comparison, records);
            figures.iter().map(move |&figure| (comparison, figure))
        })
        .map(row)
        .collect()
}

/// Whether there are figures: a peer that failed has none.
fn ran(comparison: &Comparison, records: &[Record]) -> bool {
    let sides = [&comparison.product]
        .into_iter()
        .chain(&comparison.controls);
    sides
        .into_iter()
        .all(|side| records.iter().any(|record| record.side == *side))
}

/// Which figure of its sides a row compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// The one that a block comes to.
    Only,
    P50,
    P99,
    MessagesPerS,
}

impl Figure {
    /// Sides that record all of their times have three.
    fn of(comparison: &Comparison, records: &[Record]) -> &'static [Self] {
        match record(records, comparison.product).spreads.merged {
            Some(_) => &[Self::P50, Self::P99, Self::MessagesPerS],
            None => &[Self::Only],
        }
    }

    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Only => None,
            Self::P50 => Some("p50"),
            Self::P99 => Some("p99"),
            Self::MessagesPerS => Some("rate"),
        }
    }

    fn rounds(self, record: &Record) -> &[f64] {
        match self {
            Self::Only | Self::P50 => &record.figures,
            Self::P99 => &record.spreads.p99_ns,
            Self::MessagesPerS => &record.spreads.messages_per_s,
        }
    }

    /// Percentiles are those of the merged histogram, all else is the median of rounds.
    fn shown(self, record: &Record) -> f64 {
        let share = match self {
            Self::Only | Self::MessagesPerS => None,
            Self::P50 => Some(0.5),
            Self::P99 => Some(0.99),
        };
        match (share, &record.spreads.merged) {
            (Some(share), Some(merged)) => merged.value_at_quantile(share) as f64,
            (Some(_) | None, _) => middle(self.rounds(record)),
        }
    }

    /// A limit that is for times, turned round where the figure is a rate.
    fn limit(self, limit: Limit) -> Limit {
        match (self, limit) {
            (Self::MessagesPerS, Limit::Peer(_)) => Limit::Peer(Better::Higher),
            (Self::Only | Self::P50 | Self::P99 | Self::MessagesPerS, limit) => limit,
        }
    }

    fn unit(self, target: Target) -> &'static str {
        if self == Self::MessagesPerS || is_rate(target) {
            "messages_per_s"
        } else {
            "ns"
        }
    }
}

fn row(
    group: &Group,
    comparison: &Comparison,
    figure: Figure,
    records: &[Record],
    random: &mut Random,
) -> Row {
    let product = record(records, comparison.product);
    let control = best(records, comparison);
    let (own, others) = (figure.rounds(product), figure.rounds(control));
    let pairs = own.iter().zip(others);
    let ratios: Vec<f64> = pairs.map(|(product, control)| product / control).collect();
    let limit = figure.limit(comparison.limit);
    let judged = match limit {
        Limit::RatioAtMost(_)
        | Limit::RatioAtLeast(_)
        | Limit::RatioWithin(_, _)
        | Limit::Peer(_)
        | Limit::Reported => &ratios[..],
        Limit::NanosecondsAtMost(_) => own,
    };
    let interval = median_interval(judged, random);
    let interval = interval.map(|interval| (interval.low, interval.high));
    Row {
        target: group.target,
        condition: group.condition,
        transport: group.transport.token(),
        payload_bytes: group.payload_bytes,
        connections: comparison.product.connections(),
        figure: figure.name(),
        unit: figure.unit(group.target),
        product: column(product, figure),
        control: column(control, figure),
        beside_peer: matches!(limit, Limit::Peer(_)),
        changed: false,
        ratio: middle(&ratios),
        judged: middle(judged),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        limit: limit.to_string(),
        verdict: paced(limit.judge(judged.len(), interval), product),
        note: note(group, product, control),
    }
}

/// Whoever could not keep the pace has not met a target of it.
fn paced(verdict: Verdict, product: &Record) -> Verdict {
    let kept = product.pace.as_ref().map(|pace| pace.share() >= LEAST_PACE);
    match (verdict, kept) {
        (Verdict::Met | Verdict::Undecided, Some(false)) => Verdict::Missed,
        (verdict, _) => verdict,
    }
}

fn note(group: &Group, product: &Record, control: &Record) -> Option<String> {
    let sides = [product, control];
    match group.target {
        Target::T7 => {
            let of = |record: &Record| {
                let Counts { sent, received, .. } = record.counts;
                format!("{received} of {sent}")
            };
            Some(format!("received {} / {}", of(product), of(control)))
        }
        Target::T10 => {
            let asked_hz = product.pace.as_ref()?.asked_hz;
            let [product, control] = sides.map(|record| {
                let share = record.pace.as_ref().map_or(0.0, Pace::share);
                format!("{:.2} %", share * 100.0)
            });
            Some(format!("{asked_hz}/s, achieved {product} / {control}"))
        }
        Target::T15 => Some(format!("max {}", time(product.worst_ns))),
        Target::T1
        | Target::T2
        | Target::T3
        | Target::T4
        | Target::T5
        | Target::T6
        | Target::T8
        | Target::T9
        | Target::T11
        | Target::T12
        | Target::T13
        | Target::T14
        | Target::Cost
        | Target::Spin
        | Target::P1
        | Target::P2 => None,
    }
}

fn record(records: &[Record], side: SideKind) -> &Record {
    let found = records.iter().find(|record| record.side == side);
    found.expect("every side of a comparison has run")
}

/// The control with the best median over all rounds. The best of each round would be a control that no
/// program could be: whichever the noise favoured just then.
fn best<'a>(records: &'a [Record], comparison: &Comparison) -> &'a Record {
    let records = comparison
        .controls
        .iter()
        .map(|&side| record(records, side));
    let best = records.max_by(|one, two| middle(&one.figures).total_cmp(&middle(&two.figures)));
    best.expect("every comparison has a control")
}

fn column(record: &Record, figure: Figure) -> Column {
    Column {
        side: record.side.name(),
        figure: figure.shown(record),
        rounds: figure.rounds(record).to_vec(),
        merged: record.spreads.merged.as_ref().map(Merged::of),
        worst_ns: (record.worst_ns > 0.0).then_some(record.worst_ns),
        counts: record.counts,
        evidence: record.evidence.clone(),
        pace: record.pace.clone(),
    }
}

fn middle(values: &[f64]) -> f64 {
    median(&mut values.to_vec()).expect("there are rounds")
}

impl Limit {
    pub(crate) fn judge(self, rounds: usize, interval: Option<(f64, f64)>) -> Verdict {
        if self == Self::Reported {
            return Verdict::Reported;
        }
        let Some((low, high)) = interval.filter(|_| rounds >= LEAST_FOR_VERDICT) else {
            return Verdict::TooFewRounds;
        };
        let (least, most) = match self {
            Self::RatioAtMost(most) | Self::NanosecondsAtMost(most) => (f64::NEG_INFINITY, most),
            Self::RatioAtLeast(least) => (least, f64::INFINITY),
            Self::RatioWithin(least, most) => (least, most),
            Self::Peer(Better::Lower) => (f64::NEG_INFINITY, 1.0),
            Self::Peer(Better::Higher) => (1.0, f64::INFINITY),
            Self::Reported => unreachable!("returned above"),
        };
        let beside_peer = matches!(self, Self::Peer(_));
        if least <= low && high <= most {
            if beside_peer {
                Verdict::NoWorse
            } else {
                Verdict::Met
            }
        } else if high < least || most < low {
            if beside_peer {
                Verdict::Worse
            } else {
                Verdict::Missed
            }
        } else {
            Verdict::Undecided
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtMost(most) => write!(f, "<= {most}"),
            Self::RatioAtLeast(least) => write!(f, ">= {least}"),
            Self::RatioWithin(least, most) => write!(f, "{least}-{most}"),
            Self::NanosecondsAtMost(most) => write!(f, "<= {most} ns"),
            Self::Peer(Better::Lower) => f.write_str("peer <= 1"),
            Self::Peer(Better::Higher) => f.write_str("peer >= 1"),
            Self::Reported => f.write_str("-"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::NoWorse => "no worse",
            Self::Worse => "WORSE",
            Self::Undecided => "undecided",
            Self::TooFewRounds => "few rounds",
            Self::Reported => "-",
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |figure| shown(self.unit, figure);
        let interval = match (self.low, self.high) {
            (Some(low), Some(high)) => format!("[{}, {}]", short(low), short(high)),
            _ => "-".to_owned(),
        };
        write!(
            f,
            "{:3} {:8} {:3} {:>5} {:>11} {:>8} / {:>11} {:>8} {:>6} {:>15} {:>9} {}",
            self.target,
            self.condition,
            self.transport,
            self.payload_bytes,
            self.product.side,
            shown(self.product.figure),
            self.control.side,
            shown(self.control.figure),
            short(self.ratio),
            interval,
            self.limit,
            self.verdict,
        )?;
        if let Some((connections, figure)) = self.connections.zip(self.figure) {
            write!(f, " ({figure}, {connections} connections)")?;
        }
        let note = self.note.as_ref();
        note.map_or(Ok(()), |note| write!(f, " ({note})"))
    }
}

/// The head of the table.
pub(crate) fn heading() -> String {
    format!(
        "{:3} {:8} {:3} {:>5} {:>20} / {:>20} {:>6} {:>15} {:>9} {}",
        "", "", "", "bytes", "product", "control", "ratio", "95 %", "target", "verdict"
    )
}

const fn is_rate(target: Target) -> bool {
    matches!(
        target,
        Target::T4 | Target::T5 | Target::T6 | Target::T7 | Target::T8 | Target::P1
    )
}

/// A figure with its unit.
pub(crate) fn shown(unit: &str, figure: f64) -> String {
    if unit == "ns" {
        time(figure)
    } else {
        rate(figure)
    }
}

fn time(ns: f64) -> String {
    if ns < 1_000.0 {
        format!("{ns:.0} ns")
    } else if ns < 100_000.0 {
        format!("{:.2} us", ns / 1e3)
    } else {
        format!("{:.0} us", ns / 1e3)
    }
}

fn rate(per_s: f64) -> String {
    if per_s < 1e6 {
        format!("{:.1} k/s", per_s / 1e3)
    } else {
        format!("{:.2} M/s", per_s / 1e6)
    }
}

/// Three or four digits, whatever the size.
pub(crate) fn short(value: f64) -> String {
    let decimals = match value {
        _ if value < 10.0 => 3,
        _ if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Of the asked rate.
const LEAST_PACE: f64 = 0.999;
/// Fewer rounds a side give no verdict, whatever the interval.
pub(crate) const LEAST_FOR_VERDICT: usize = 8;
