//! From the counters of both ends to a row of the report.

use tautline::{SendStatistics, Strategy};

use super::post::Receipt;
use super::{Produced, StrategyOutcome};
use crate::plan::Transport;
use crate::report::{EndStatistics, Integrity, Medium, StrategyRow, StrategyRun, StreamControl};
use crate::statistics::median;
use crate::wire::Counts;

/// The library's stream in one run.
#[derive(Debug, Clone)]
pub(super) struct LibraryRun {
    produced: Produced,
    received: u64,
    elapsed_s: Option<f64>,
    integrity: Integrity,
    sender: EndStatistics,
    receiver: Option<EndStatistics>,
    evicted: u64,
    closes: bool,
    given_up: bool,
}

impl LibraryRun {
    /// `before` is the link's account before the stream, `sending` behind it; `marked` says that the
    /// drain came to its end; `pass_corrupted` counts what the lockstep pass found.
    pub(super) fn new(
        produced: Produced,
        before: &SendStatistics,
        sending: &SendStatistics,
        arrived: Arrived,
        marked: bool,
        pass_corrupted: u64,
    ) -> Self {
        let sender = EndStatistics::of_sending(sending).since(EndStatistics::of_sending(before));
        // The library's counters and the producer's own have to agree, or one of them is wrong.
        let closes = sending.closes()
            && sender.accepted_messages == produced.accepted
            && sender.refused_messages == produced.refused;
        Self {
            produced,
            received: arrived.messages,
            elapsed_s: arrived.elapsed_s,
            integrity: Integrity {
                gaps: produced.accepted.saturating_sub(arrived.messages),
                duplicates: arrived.duplicates,
                reordered: arrived.reordered,
                corrupted: arrived.corrupted + pass_corrupted,
            },
            evicted: sending.discarded.evicted.messages,
            closes,
            given_up: !marked,
            sender,
            receiver: arrived.statistics,
        }
    }

    /// Whether anything was sent before the stop flag came.
    pub(super) fn is_begun(&self) -> bool {
        self.produced.offered > 0
    }
}

/// The control's stream in one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct ControlRun {
    messages_per_s: Option<f64>,
    mib_per_s: Option<f64>,
}

impl ControlRun {
    pub(super) fn new(payload_bytes: usize, arrived: &Arrived) -> Self {
        let messages_per_s = arrived.elapsed_s.map(|s| arrived.messages as f64 / s);
        let mib_per_s = messages_per_s.map(|rate| mib(rate, payload_bytes));
        Self {
            messages_per_s,
            mib_per_s,
        }
    }
}

/// What the receiver of a stream found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrived {
    messages: u64,
    duplicates: u64,
    reordered: u64,
    corrupted: u64,
    /// `None` if nothing came.
    elapsed_s: Option<f64>,
    /// The library's own, where it received and is ours.
    statistics: Option<EndStatistics>,
}

impl Arrived {
    /// By a receiver of our own: it tells the time from the first send on.
    pub(super) fn by_receipt(payload_bytes: usize, produced: &Produced, receipt: &Receipt) -> Self {
        let found = receipt.arrivals.integrity(produced.accepted);
        Self {
            messages: receipt.arrivals.received(),
            duplicates: found.duplicates,
            reordered: found.reordered,
            corrupted: found.corrupted,
            elapsed_s: elapsed_s(produced.first_send_ns, receipt),
            statistics: receiver(payload_bytes, receipt),
        }
    }

    /// By a server elsewhere: it tells the time from its first receipt on.
    pub(super) fn by_counts(counts: &Counts) -> Self {
        Self {
            messages: counts.received_messages,
            duplicates: counts.duplicates,
            reordered: counts.reordered,
            corrupted: counts.corrupted,
            elapsed_s: (counts.elapsed_ns > 0).then(|| counts.elapsed_ns as f64 / 1e9),
            statistics: None,
        }
    }
}

/// Everything measured so far for one transport, strategy and payload.
#[derive(Debug)]
pub(in crate::run) struct Cell {
    transport: Transport,
    strategy: Strategy,
    payload_bytes: usize,
    /// Of the server, where it is elsewhere.
    address: Option<String>,
    medium: Medium,
    runs: Vec<(LibraryRun, Option<ControlRun>)>,
}

impl Cell {
    pub(in crate::run) fn new(
        transport: Transport,
        strategy: Strategy,
        payload_bytes: usize,
        address: Option<String>,
    ) -> Self {
        Self {
            transport,
            strategy,
            payload_bytes,
            address,
            medium: Medium::default(),
            runs: Vec::new(),
        }
    }

    /// What a run of it found out about that.
    pub(in crate::run) fn went_over(&mut self, medium: Medium) {
        self.medium = medium;
    }

    pub(in crate::run) fn transport(&self) -> Transport {
        self.transport
    }

    pub(in crate::run) fn strategy(&self) -> Strategy {
        self.strategy
    }

    pub(in crate::run) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Adds one run, if the library's stream was measured in it.
    pub(in crate::run) fn add(&mut self, outcome: StrategyOutcome) {
        if let Some(library) = outcome.library {
            self.runs.push((library, outcome.control));
        }
    }

    /// The row; `None` if nothing was measured.
    pub(in crate::run) fn into_row(self) -> Option<StrategyRow> {
        if self.runs.is_empty() {
            return None;
        }
        let sum = |of: fn(&LibraryRun) -> u64| self.runs.iter().map(|(run, _)| of(run)).sum();
        let accepted: u64 = sum(|run| run.produced.accepted);
        let received: u64 = sum(|run| run.received);
        let refused: u64 = sum(|run| run.produced.refused);
        let evicted: u64 = sum(|run| run.evicted);
        let dropped = refused + evicted;
        Some(StrategyRow {
            transport: self.transport.to_string(),
            strategy: self.strategy.to_string(),
            payload_bytes: self.payload_bytes,
            address: self.address.clone(),
            runs: self.runs.len(),
            offered_messages: sum(|run| run.produced.offered),
            accepted_messages: accepted,
            received_messages: received,
            accepted_mib_per_s: self.rate(|run| run.produced.accepted),
            received_mib_per_s: self.rate(|run| run.received),
            delivery_percent: delivery_percent(received, accepted),
            failed_sends: refused,
            dropped_messages: dropped,
            refused_messages: refused,
            evicted_messages: evicted,
            dropped_mib: mib(dropped as f64, self.payload_bytes),
            lost_messages: sum(lost),
            max_queue_kib: self.max_queued_bytes() as f64 / 1_024.0,
            pressure_events: sum(|run| run.sender.pressure_events),
            runtime_stats: true,
            integrity: self.integrity(),
            accounting_closes: self.runs.iter().all(|(run, _)| run.closes),
            drains_given_up: self.runs.iter().filter(|(run, _)| run.given_up).count(),
            control: self.control(),
            each_run: self.each_run(),
            medium: self.medium.clone(),
        })
    }

    /// The median over runs of payload a second; runs in which nothing arrived have none.
    fn rate(&self, messages: fn(&LibraryRun) -> u64) -> Option<f64> {
        let rates = self.runs.iter().filter_map(|(run, _)| {
            Some(mib(messages(run) as f64, self.payload_bytes) / run.elapsed_s?)
        });
        median(&mut rates.collect::<Vec<_>>())
    }

    fn max_queued_bytes(&self) -> u64 {
        self.runs
            .iter()
            .map(|(run, _)| run.sender.max_queued_bytes)
            .max()
            .unwrap_or(0)
    }

    fn integrity(&self) -> Integrity {
        self.runs
            .iter()
            .fold(Integrity::default(), |sum, (run, _)| Integrity {
                gaps: sum.gaps + run.integrity.gaps,
                duplicates: sum.duplicates + run.integrity.duplicates,
                reordered: sum.reordered + run.integrity.reordered,
                corrupted: sum.corrupted + run.integrity.corrupted,
            })
    }

    fn control(&self) -> StreamControl {
        let controls = || self.runs.iter().filter_map(|(_, control)| *control);
        let middle = |rates: &mut dyn Iterator<Item = f64>| median(&mut rates.collect::<Vec<_>>());
        let ratios = self.runs.iter().filter_map(|(run, control)| {
            let library = run.received as f64 / run.elapsed_s?;
            Some(
                library
                    / control
                        .as_ref()?
                        .messages_per_s
                        .filter(|&rate| rate > 0.0)?,
            )
        });
        StreamControl {
            received_mib_per_s: middle(&mut controls().filter_map(|run| run.mib_per_s)),
            received_messages_per_s: middle(&mut controls().filter_map(|run| run.messages_per_s)),
            ratio: middle(&mut { ratios }),
        }
    }

    fn each_run(&self) -> Vec<StrategyRun> {
        let run =
            |(number, (run, control)): (usize, &(LibraryRun, Option<ControlRun>))| StrategyRun {
                run: number,
                elapsed_s: run.elapsed_s.unwrap_or(0.0),
                offered_messages: run.produced.offered,
                accepted_messages: run.produced.accepted,
                failed_sends: run.produced.refused,
                received_messages: run.received,
                evicted_messages: run.evicted,
                max_queue_bytes: run.sender.max_queued_bytes,
                pressure_events: run.sender.pressure_events,
                integrity: run.integrity,
                control_received_mib_per_s: control.and_then(|control| control.mib_per_s),
                sender: run.sender,
                receiver: run.receiver,
            };
        self.runs.iter().enumerate().map(run).collect()
    }
}

/// From the first send to the last receipt; `None` if nothing came.
fn elapsed_s(first_send_ns: u64, receipt: &Receipt) -> Option<f64> {
    let elapsed_ns = receipt.last_ns?.checked_sub(first_send_ns)?;
    (elapsed_ns > 0).then(|| elapsed_ns as f64 / 1e9)
}

fn mib(messages: f64, payload_bytes: usize) -> f64 {
    messages * payload_bytes as f64 / 1_048_576.0
}

/// Received over accepted, to a hundredth, rounded down: 100 means all. `None` if none was accepted.
fn delivery_percent(received: u64, accepted: u64) -> Option<f64> {
    let hundredths = (u128::from(received) * 10_000).checked_div(accepted.into())?;
    Some(hundredths as f64 / 100.0)
}

/// Accepted, not discarded by the library, and never received.
fn lost(run: &LibraryRun) -> u64 {
    run.produced
        .accepted
        .saturating_sub(run.sender.discarded_messages)
        .saturating_sub(run.received)
}

/// The receiver's own statistics, without the marks.
fn receiver(payload_bytes: usize, receipt: &Receipt) -> Option<EndStatistics> {
    let receiving = receipt.statistics?;
    let marked_bytes = receipt.marks * payload_bytes as u64;
    Some(EndStatistics {
        received_messages: receiving.messages.saturating_sub(receipt.marks),
        received_payload_bytes: receiving.payload_bytes.saturating_sub(marked_bytes),
        ..EndStatistics::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(accepted: u64, received: u64, elapsed_s: f64) -> LibraryRun {
        LibraryRun {
            produced: Produced {
                offered: accepted + 5,
                accepted,
                refused: 5,
                first_send_ns: 0,
            },
            received,
            elapsed_s: Some(elapsed_s),
            integrity: Integrity {
                gaps: accepted - received,
                ..Integrity::default()
            },
            sender: EndStatistics {
                discarded_messages: 10,
                max_queued_bytes: 2_048 * accepted,
                pressure_events: 3,
                ..EndStatistics::default()
            },
            receiver: None,
            evicted: 10,
            closes: true,
            given_up: false,
        }
    }

    fn row(runs: Vec<(LibraryRun, Option<ControlRun>)>) -> StrategyRow {
        let mut cell = Cell::new(Transport::Tcp, Strategy::KeepLatest, 1_048_576, None);
        for (library, control) in runs {
            cell.add(StrategyOutcome {
                library: Some(library),
                control,
                broken: None,
            });
        }
        cell.into_row().unwrap()
    }

    #[test]
    fn counts_are_sums_rates_are_medians_and_peaks_are_maxima() {
        let control = |rate| {
            Some(ControlRun {
                messages_per_s: Some(rate),
                mib_per_s: Some(rate),
            })
        };
        let row = row(vec![
            (library(100, 90, 1.0), control(30.0)),
            (library(100, 80, 2.0), control(10.0)),
            (library(300, 290, 1.0), None),
        ]);
        assert_eq!(
            (row.runs, row.offered_messages, row.accepted_messages),
            (3, 515, 500)
        );
        assert_eq!(row.received_messages, 460);
        assert_eq!(row.accepted_mib_per_s, Some(100.0));
        assert_eq!(row.received_mib_per_s, Some(90.0));
        assert_eq!(row.delivery_percent, Some(92.0));
        assert_eq!(
            (
                row.refused_messages,
                row.evicted_messages,
                row.dropped_messages
            ),
            (15, 30, 45)
        );
        assert_eq!(row.dropped_mib, 45.0);
        assert_eq!(row.lost_messages, 10);
        assert_eq!(row.max_queue_kib, 600.0);
        assert_eq!(row.pressure_events, 9);
        assert_eq!(row.control.received_mib_per_s, Some(20.0));
        assert_eq!(row.control.ratio, Some(3.5));
        assert_eq!(row.each_run.len(), 3);
        assert_eq!(row.each_run[2].control_received_mib_per_s, None);
    }

    #[test]
    fn delivery_is_never_rounded_up_to_100() {
        assert_eq!(delivery_percent(999_999, 1_000_000), Some(99.99));
        assert_eq!(delivery_percent(7, 7), Some(100.0));
        assert_eq!(delivery_percent(0, 0), None);
    }

    #[test]
    fn a_run_in_which_nothing_arrived_has_no_rate() {
        let mut nothing = library(100, 0, 1.0);
        nothing.elapsed_s = None;
        let row = row(vec![(nothing, None)]);
        assert_eq!(row.received_mib_per_s, None);
        assert_eq!(row.control.ratio, None);
        assert_eq!(row.delivery_percent, Some(0.0));
    }

    #[test]
    fn a_cell_without_runs_is_no_row() {
        assert!(
            Cell::new(Transport::Udp, Strategy::Reliable, 64, None)
                .into_row()
                .is_none()
        );
    }
}
