//! T14: what recording one sample costs, and what a billion of them take.

use std::hint::black_box;

use tautline_gauge::clock::now_ns;
use tautline_gauge::recorder::Recorder;
use tautline_gauge::usage::peak_bytes;

use super::super::list::{Limit, Target};
use super::super::options::Options;
use super::super::site::{Watchdog, said};
use super::{Figure, Finding};

pub(super) fn study(options: &Options, watchdog: &Watchdog) -> Vec<Result<Finding, String>> {
    watchdog.beat(|| "T14".to_owned());
    vec![one(options).map_err(|why| format!("T14: {why}"))]
}

fn one(options: &Options) -> Result<Finding, String> {
    let before_bytes = peak_bytes().map_err(said)?;
    let mut recorder = Box::new(Recorder::new());
    let mut costs_ns = Vec::new();
    let mut recorded = 0_u64;
    for _ in 0..options.rounds {
        let start_ns = now_ns();
        let end_ns = start_ns + options.block.as_nanos() as u64;
        let (mut last_ns, mut samples) = (start_ns, 0);
        while last_ns < end_ns {
            let at_ns = now_ns();
            recorder.record(at_ns - last_ns);
            last_ns = at_ns;
            samples += 1;
        }
        costs_ns.push((last_ns - start_ns) as f64 / samples as f64);
        recorded += samples;
    }
    // The rest without the clock, which takes no memory.
    let whole = if options.decides() {
        BILLION
    } else {
        BILLION / 100
    };
    while recorded < whole {
        recorder.record(black_box(recorded % 1_000_000));
        recorded += 1;
    }
    let grown_bytes = peak_bytes().map_err(said)?.saturating_sub(before_bytes);
    let limit = Limit::NanosecondsAtMost(50.0);
    let unit = "ns, clock read included";
    let cost = Figure::judged("sample", costs_ns, unit, limit, options.seed)?;
    let grown_mib = grown_bytes as f64 / f64::from(1 << 20);
    let memory = Figure::counted("memory", grown_mib, "MiB", 64.0);
    let what = format!("{:.0e} samples", recorded as f64);
    Ok(Finding::new(Target::T14, what, vec![cost, memory]))
}

const BILLION: u64 = 1_000_000_000;
