//! What `soak` found out, as CSV: a line for each sender of each phase, and one for each of its seconds.

use std::io;

use serde::Serialize;

use super::{csv_of, us};
use crate::report::Report;
use crate::report::soak::{Phase, Sender};

/// Every sender of every phase, a line for each, and a line `all` for each phase with them merged.
///
/// # Errors
///
/// What the writer says.
pub fn soak_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let phases = report.soak.iter().flat_map(|soak| &soak.rounds);
    let lines = phases.flat_map(|phase| {
        let senders = phase.senders.iter().enumerate();
        senders
            .map(move |(number, sender)| SenderLine::of(phase, number + 1, sender))
            .chain([SenderLine::merged(phase)])
    });
    csv_of(lines, SenderLine::default(), to)
}

#[derive(Debug, Default, Serialize)]
struct SenderLine<'a> {
    load: &'a str,
    repeat: usize,
    sender: String,
    pings: u64,
    further_pings: Option<u64>,
    corrupted: Option<u64>,
    time_ms: Option<f64>,
    min_us: Option<f64>,
    mean_us: Option<f64>,
    max_us: Option<f64>,
    // Of all senders merged.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    p99_9_us: Option<f64>,
    p99_99_us: Option<f64>,
    p99_999_us: Option<f64>,
    over_1ms: Option<u64>,
    over_5ms: Option<u64>,
    over_10ms: Option<u64>,
    over_20ms: Option<u64>,
    primes_ms: Option<f64>,
}

impl<'a> SenderLine<'a> {
    fn of(phase: &'a Phase, number: usize, sender: &Sender) -> Self {
        Self {
            load: &phase.load,
            repeat: phase.repeat,
            sender: number.to_string(),
            pings: sender.pings,
            further_pings: Some(sender.further_pings),
            corrupted: Some(sender.corrupted),
            time_ms: sender.time_ns.map(|ns| ns as f64 / 1e6),
            min_us: us(sender.min_ns),
            mean_us: sender.mean_ns.map(|ns| ns / 1e3),
            max_us: us(sender.max_ns),
            ..Self::default()
        }
    }

    fn merged(phase: &'a Phase) -> Self {
        let rtt = &phase.rtt;
        Self {
            load: &phase.load,
            repeat: phase.repeat,
            sender: "all".to_owned(),
            pings: rtt.count,
            min_us: us(rtt.min_ns),
            mean_us: rtt.mean_ns.map(|ns| ns / 1e3),
            max_us: us(rtt.max_ns),
            p50_us: us(rtt.p50_ns),
            p99_us: us(rtt.p99_ns),
            p99_9_us: us(rtt.p999_ns),
            p99_99_us: us(rtt.p9999_ns),
            p99_999_us: us(rtt.p99999_ns),
            over_1ms: Some(phase.over_1ms),
            over_5ms: Some(phase.over_5ms),
            over_10ms: Some(phase.over_10ms),
            over_20ms: Some(phase.over_20ms),
            primes_ms: phase.primes_ns.map(|ns| ns as f64 / 1e6),
            ..Self::default()
        }
    }
}

/// Every second of every sender, a line for each.
///
/// # Errors
///
/// What the writer says.
pub fn soak_slices_csv(report: &Report, to: impl io::Write) -> io::Result<()> {
    let phases = report.soak.iter().flat_map(|soak| &soak.rounds);
    let senders = phases.flat_map(|phase| {
        let numbered = phase.senders.iter().enumerate();
        numbered.map(move |(number, sender)| (phase, number + 1, sender))
    });
    let lines = senders.flat_map(|(phase, number, sender)| {
        let slices = sender.slices.iter().enumerate();
        slices.map(move |(second, slice)| SliceLine {
            load: &phase.load,
            repeat: phase.repeat,
            sender: number,
            second,
            mean_us: slice.mean_ns / 1e3,
            p50_us: slice.p50_ns as f64 / 1e3,
            p99_us: us(slice.p99_ns),
        })
    });
    csv_of(lines, SliceLine::default(), to)
}

#[derive(Debug, Default, Serialize)]
struct SliceLine<'a> {
    load: &'a str,
    repeat: usize,
    sender: usize,
    second: usize,
    mean_us: f64,
    p50_us: f64,
    p99_us: Option<f64>,
}
