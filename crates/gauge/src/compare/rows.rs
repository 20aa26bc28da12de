//! The rows of reports, each with a key by which two reports meet: what was measured, never where a port
//! happened to be or when.

use super::samples::Samples;
use super::tail::{OfReport, Times};
use super::{Names, Quantity, Table};
use crate::report::ping::PingCell;
use crate::report::soak::Soak;
use crate::report::stream::StreamRow;
use crate::report::wakeup::WakeupRow;
use crate::report::{LatencyRow, Percentile, Report, RttSummary, StrategyRow};

/// One row of one side, of all its reports.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) names: Names,
    pub(super) quantity: Quantity,
    pub(super) samples: Samples,
    pub(super) times: Times,
    /// The control's rounds, where the row has one beside it.
    pub(super) beside: Samples,
}

/// Every row of one side, in the order of its tables; what several reports have comes together.
pub(super) fn rows<'a>(reports: impl Iterator<Item = &'a Report>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for report in reports {
        let mut found = Found {
            boot_id: report.boot_id.as_deref(),
            own: Vec::new(),
            rows: &mut rows,
        };
        report.latency.iter().for_each(|row| found.latency(row));
        report.strategy.iter().for_each(|row| found.strategy(row));
        report.cells.iter().for_each(|cell| found.ping(cell));
        report.stream.iter().for_each(|row| found.stream(row));
        report.soak.iter().for_each(|soak| found.soak(soak));
        report.wakeup.iter().for_each(|row| found.wakeup(row));
    }
    rows.retain(|row| !row.samples.boots.is_empty());
    rows.sort_by_key(|row| row.names.table);
    rows
}

/// What one report adds.
struct Found<'a> {
    boot_id: Option<&'a str>,
    /// The rows that this report has had: a second one like it is another row.
    own: Vec<Names>,
    rows: &'a mut Vec<Row>,
}

impl Found<'_> {
    /// The row of these names, made where it is new.
    fn row(&mut self, mut names: Names, quantity: Quantity) -> usize {
        while self.own.contains(&names) {
            names.number += 1;
        }
        self.own.push(names.clone());
        let known = self.rows.iter().position(|row| row.names == names);
        known.unwrap_or_else(|| {
            self.rows.push(Row {
                names,
                quantity,
                samples: Samples::default(),
                times: Times::default(),
                beside: Samples::default(),
            });
            self.rows.len() - 1
        })
    }

    /// A row for the control, then one for each driver.
    fn latency(&mut self, row: &LatencyRow) {
        let names = |driver: &str| Names {
            transport: Some(row.transport.clone()),
            driver: Some(driver.to_owned()),
            detail: row.medium.port.clone().unwrap_or_default(),
            payload_bytes: Some(row.payload_bytes),
            control: driver == CONTROL,
            ..Names::of(Table::Latency)
        };
        // Every driver has the same control beside it in each round.
        let mut control = row.drivers.first().map(|driver| (&row.control, driver));
        for driver in &row.drivers {
            let rounds = |of: fn(&crate::report::RoundPair) -> f64| {
                by_run(driver.rounds.iter().map(|pair| (pair.run, of(pair))))
            };
            if let Some((summary, _)) = control.take() {
                let at = self.row(names(CONTROL), Quantity::Time);
                for run in rounds(|pair| pair.control) {
                    self.rows[at].samples.add(self.boot_id, run);
                }
                self.rows[at].times.add(&of_summary(summary));
            }
            let at = self.row(names(&driver.driver), Quantity::Time);
            for run in rounds(|pair| pair.product) {
                self.rows[at].samples.add(self.boot_id, run);
            }
            for run in rounds(|pair| pair.control) {
                self.rows[at].beside.add(self.boot_id, run);
            }
            self.rows[at].times.add(&of_summary(&driver.summary));
        }
    }

    /// A run is its own round: nothing shorter is kept.
    fn strategy(&mut self, row: &StrategyRow) {
        let names = Names {
            transport: Some(row.transport.clone()),
            strategy: Some(row.strategy.clone()),
            payload_bytes: Some(row.payload_bytes),
            ..Names::of(Table::Strategy)
        };
        let mib = row.payload_bytes as f64 / f64::from(1 << 20);
        let at = self.row(names, Quantity::Rate);
        for run in row.each_run.iter().filter(|run| run.elapsed_s > 0.0) {
            let rate = run.received_messages as f64 * mib / run.elapsed_s;
            self.rows[at].samples.add(self.boot_id, vec![rate]);
            let control = run.control_received_mib_per_s.into_iter().collect();
            self.rows[at].beside.add(self.boot_id, control);
        }
    }

    fn ping(&mut self, cell: &PingCell) {
        let names = Names {
            transport: Some(cell.transport.clone()),
            load: Some(cell.load.clone()).filter(|load| load != "none"),
            payload_bytes: Some(cell.payload_bytes),
            detail: match cell.asked_rate_hz {
                Some(rate) => format!("{}x at {rate}/s", cell.connections),
                None => format!("{}x closed", cell.connections),
            },
            ..Names::of(Table::Ping)
        };
        let times = cell.response.as_ref().unwrap_or(&cell.rtt);
        let seconds = cell.slices.iter().filter_map(|slice| slice.p50_ns);
        let at = self.row(names, Quantity::Time);
        let rounds = seconds.map(|ns| ns as f64).collect();
        self.rows[at].samples.add(self.boot_id, rounds);
        self.rows[at].times.add(&OfReport {
            hdr: times.hdr.as_ref(),
            stated: times
                .percentiles
                .iter()
                .map(|of| (of.percentile, of.value_ns))
                .collect(),
            mean_ns: times.mean_ns,
        });
    }

    /// The seconds of a stream are its rounds, at the rate at which the kernel took its messages; one of
    /// less than two is its own round.
    fn stream(&mut self, row: &StreamRow) {
        let names = Names {
            transport: Some(row.transport.clone()),
            strategy: Some(row.strategy.clone()),
            payload_bytes: Some(row.payload_bytes),
            detail: row
                .asked_rate_hz
                .map_or_else(String::new, |rate| format!("at {rate}/s")),
            ..Names::of(Table::Stream)
        };
        let at = self.row(names, Quantity::Rate);
        let mib = row.payload_bytes as f64 / f64::from(1 << 20);
        let seconds = row.slices.iter().filter(|slice| slice.seconds > 0.0);
        let mut rounds: Vec<f64> = seconds
            .map(|slice| slice.written as f64 * mib / slice.seconds)
            .collect();
        if rounds.len() < 2 {
            rounds = row.mib_per_s.into_iter().collect();
        }
        self.rows[at].samples.add(self.boot_id, rounds);
    }

    /// A row without load and one under it; each repeat is a run, its seconds are the rounds.
    fn soak(&mut self, soak: &Soak) {
        let setting = &soak.setting;
        let mut loads: Vec<(&str, usize)> = Vec::new();
        for phase in &soak.rounds {
            let known = loads.iter().find(|(load, _)| *load == phase.load);
            let at = known.map(|&(_, at)| at).unwrap_or_else(|| {
                let names = Names {
                    load: Some(phase.load.clone()),
                    payload_bytes: Some(setting.payload_bytes),
                    detail: format!("{} senders", setting.senders),
                    ..Names::of(Table::Soak)
                };
                let at = self.row(names, Quantity::Time);
                loads.push((&phase.load, at));
                at
            });
            self.rows[at].samples.add(self.boot_id, seconds_of(phase));
            self.rows[at].times.add(&OfReport {
                hdr: phase.rtt.hdr.as_ref(),
                stated: vec![
                    (50.0, phase.rtt.p50_ns),
                    (99.0, phase.rtt.p99_ns),
                    (99.9, phase.rtt.p999_ns),
                    (99.99, phase.rtt.p9999_ns),
                    (99.999, phase.rtt.p99999_ns),
                ],
                mean_ns: phase.rtt.mean_ns,
            });
        }
    }

    /// A run of timers is its own round.
    fn wakeup(&mut self, row: &WakeupRow) {
        let names = Names {
            cpu: Some(row.cpu),
            detail: format!("{} us, {}", row.interval_ns / 1_000, row.sched_effective),
            ..Names::of(Table::Wakeup)
        };
        let at = self.row(names, Quantity::Time);
        let rounds = row.p50_ns.map(|ns| ns as f64).into_iter().collect();
        self.rows[at].samples.add(self.boot_id, rounds);
        self.rows[at].times.add(&OfReport {
            hdr: None,
            stated: vec![(50.0, row.p50_ns), (99.0, row.p99_ns), (99.9, row.p999_ns)],
            mean_ns: row.mean_ns,
        });
    }
}

/// Rounds in order of execution, a list for each run.
fn by_run(rounds: impl Iterator<Item = (usize, f64)>) -> Vec<Vec<f64>> {
    let mut runs: Vec<(usize, Vec<f64>)> = Vec::new();
    for (run, value) in rounds {
        match runs.last_mut() {
            Some((last, values)) if *last == run => values.push(value),
            _ => runs.push((run, vec![value])),
        }
    }
    runs.into_iter().map(|(_, values)| values).collect()
}

/// The middle sender of each second: senders of one second share its machine, and are no rounds of
/// their own.
fn seconds_of(phase: &crate::report::soak::Phase) -> Vec<f64> {
    let longest = phase.senders.iter().map(|sender| sender.slices.len()).max();
    (0..longest.unwrap_or(0))
        .filter_map(|second| {
            let slices = phase
                .senders
                .iter()
                .filter_map(|sender| sender.slices.get(second));
            let mut medians: Vec<f64> = slices.map(|slice| slice.p50_ns as f64).collect();
            crate::statistics::median(&mut medians)
        })
        .collect()
}

fn of_summary(summary: &RttSummary) -> OfReport<'_> {
    let percent = |percentile| match percentile {
        Percentile::P50 => 50.0,
        Percentile::P95 => 95.0,
        Percentile::P99 => 99.0,
        Percentile::P999 => 99.9,
    };
    OfReport {
        hdr: summary.hdr.as_ref(),
        stated: Percentile::ALL
            .iter()
            .map(|&percentile| (percent(percentile), percentile.of(summary)))
            .collect(),
        mean_ns: summary.mean_ns,
    }
}

/// The word for raw sockets where drivers are named.
pub(super) const CONTROL: &str = "control";
