//! The files of a bundle: the name of each, when it is there, and what writes it.

use std::io;

use super::{Hardware, Origin, meta, notes, summary};
use crate::report::text::machine;
use crate::report::{Report, export, hlog};

/// What everything is rendered from.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    pub(super) report: &'a Report,
    pub(super) hardware: &'a Hardware,
    pub(super) origin: &'a Origin,
}

/// One file.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) name: &'static str,
    /// Whether the run has what it shows.
    belongs: Belongs,
    pub(super) kind: Kind,
}

type Belongs = fn(&Report) -> bool;

/// What a file is rendered from, and so how it is held against the report.
#[derive(Debug)]
pub(super) enum Kind {
    /// The report itself.
    Report,
    /// The machine's record beside it.
    Hardware,
    /// A table: its figures are the report's.
    Table(fn(&Report, &mut Vec<u8>) -> io::Result<()>),
    /// A log of histograms: they are the report's.
    Log(fn(&Report) -> Vec<hlog::Line<'_>>),
    /// Words for readers: the same version of the program writes the same ones.
    Words(fn(&Contents<'_>) -> String),
}

impl Piece {
    /// Renders the file.
    pub(super) fn write(&self, contents: &Contents<'_>, to: &mut Vec<u8>) -> io::Result<()> {
        match self.kind {
            Kind::Report => export::json(contents.report, to),
            Kind::Hardware => {
                serde_json::to_writer_pretty(&mut *to, contents.hardware)?;
                to.push(b'\n');
                Ok(())
            }
            Kind::Table(write) => write(contents.report, to),
            Kind::Log(lines) => {
                let lines = lines(contents.report);
                hlog::write(to, contents.report.started_s(), &lines)
            }
            Kind::Words(words) => {
                to.extend_from_slice(words(contents).as_bytes());
                Ok(())
            }
        }
    }
}

/// The files that a report's bundle has.
pub(super) fn of(report: &Report) -> impl Iterator<Item = &'static Piece> {
    PIECES.iter().filter(|piece| (piece.belongs)(report))
}

pub(super) const REPORT: &str = "report.json";
pub(super) const HARDWARE: &str = "hardware.json";

const ALWAYS: Belongs = |_| true;
const LATENCY: Belongs = |report| !report.latency.is_empty();
const STRATEGY: Belongs = |report| !report.strategy.is_empty();
const RAW_SMOKE: Belongs = |report| report.udp_smoke.iter().any(|row| row.runtime.is_none());
const SMOKE: Belongs = |report| report.udp_smoke.iter().any(|row| row.runtime.is_some());
const PING: Belongs = |report| !report.cells.is_empty();
const PING_SLICES: Belongs = |report| report.cells.iter().any(|cell| !cell.slices.is_empty());
const STREAM: Belongs = |report| !report.stream.is_empty();
const STREAM_SLICES: Belongs = |report| report.stream.iter().any(|row| !row.slices.is_empty());
const WAKEUP: Belongs = |report| {
    let soak = report.soak.as_ref();
    !report.wakeup.is_empty() || soak.is_some_and(|soak| !soak.wakeup.idle.is_empty())
};
const SOAK: Belongs = |report| {
    let soak = report.soak.as_ref();
    soak.is_some_and(|soak| !soak.rounds.is_empty())
};
const SOAK_SLICES: Belongs = |report| {
    let phases = report.soak.iter().flat_map(|soak| &soak.rounds);
    let mut senders = phases.flat_map(|phase| &phase.senders);
    senders.any(|sender| !sender.slices.is_empty())
};

/// In the order in which they are written and listed.
#[rustfmt::skip]
const PIECES: &[Piece] = &[
    piece(REPORT, ALWAYS, Kind::Report),
    piece(HARDWARE, ALWAYS, Kind::Hardware),
    piece("latency_matrix.csv", LATENCY, Kind::Table(|report, to| export::latency_csv(report, to))),
    piece("latency_matrix_summary.md", LATENCY, Kind::Words(summary::latency)),
    piece("latency_matrix.csv.meta", LATENCY, Kind::Words(meta::latency)),
    piece("latency.hlog", LATENCY, Kind::Log(hlog::latency)),
    piece("strategy_sweep.csv", STRATEGY, Kind::Table(|report, to| export::strategy_csv(report, to))),
    piece("strategy_sweep_summary.md", STRATEGY, Kind::Words(summary::strategy)),
    piece("strategy_sweep.csv.meta", STRATEGY, Kind::Words(meta::strategy)),
    piece("raw_udp_payload_smoke.csv", RAW_SMOKE, Kind::Table(|report, to| export::raw_smoke_csv(report, to))),
    piece("raw_udp_payload_smoke_summary.md", RAW_SMOKE, Kind::Words(summary::raw_smoke)),
    piece("raw_udp_payload_smoke.csv.meta", RAW_SMOKE, Kind::Words(meta::raw_smoke)),
    piece("udp_payload_smoke.csv", SMOKE, Kind::Table(|report, to| export::smoke_csv(report, to))),
    piece("udp_payload_smoke_summary.md", SMOKE, Kind::Words(summary::smoke)),
    piece("udp_payload_smoke.csv.meta", SMOKE, Kind::Words(meta::smoke)),
    piece("ping.csv", PING, Kind::Table(|report, to| export::ping_csv(report, to))),
    piece("ping_slices.csv", PING_SLICES, Kind::Table(|report, to| export::ping_slices_csv(report, to))),
    piece("ping.hlog", PING, Kind::Log(hlog::ping)),
    piece("stream.csv", STREAM, Kind::Table(|report, to| export::stream_csv(report, to))),
    piece("stream_slices.csv", STREAM_SLICES, Kind::Table(|report, to| export::stream_slices_csv(report, to))),
    piece("wakeup.csv", WAKEUP, Kind::Table(|report, to| export::wakeup_csv(report, to))),
    piece("soak.csv", SOAK, Kind::Table(|report, to| export::soak_csv(report, to))),
    piece("soak_slices.csv", SOAK_SLICES, Kind::Table(|report, to| export::soak_slices_csv(report, to))),
    piece("soak.hlog", SOAK, Kind::Log(hlog::soak)),
    piece("release_notes.md", notes::belong, Kind::Words(notes::release_notes)),
    piece("environment.txt", ALWAYS, Kind::Words(environment)),
];

const fn piece(name: &'static str, belongs: Belongs, kind: Kind) -> Piece {
    Piece {
        name,
        belongs,
        kind,
    }
}

fn environment(contents: &Contents<'_>) -> String {
    machine::render(contents.report, contents.hardware)
}
