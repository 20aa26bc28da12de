//! From recorders and rounds to a row of the report.

use crate::plan::{Driver, LatencyPlan, Transport};
use crate::recorder::Recorder;
use crate::report::{DriverRow, LatencyRow, LatencyRun, Medium, RoundPair};
use crate::statistics::{Random, median, median_interval};

/// What one side did in one run.
#[derive(Debug)]
pub(super) struct SideRun {
    pub(super) recorder: Recorder,
    pub(super) elapsed_ns: u64,
    /// The median of each round that every side finished.
    pub(super) medians_ns: Vec<u64>,
}

impl SideRun {
    pub(super) fn new() -> Self {
        Self {
            recorder: Recorder::new(),
            elapsed_ns: 0,
            medians_ns: Vec::new(),
        }
    }
}

/// Everything measured so far for one transport and payload.
#[derive(Debug)]
pub(in crate::run) struct Cell {
    transport: Transport,
    payload_bytes: usize,
    /// Of the server, where it is elsewhere.
    address: Option<String>,
    medium: Medium,
    control: Recorder,
    drivers: Vec<DriverCell>,
    runs: usize,
    each_run: Vec<LatencyRun>,
}

#[derive(Debug)]
struct DriverCell {
    driver: Driver,
    recorder: Recorder,
    rounds: Vec<RoundPair>,
}

impl Cell {
    pub(in crate::run) fn new(
        plan: &LatencyPlan,
        transport: Transport,
        payload_bytes: usize,
        address: Option<String>,
    ) -> Self {
        let cell = |&driver| DriverCell {
            driver,
            recorder: Recorder::new(),
            rounds: Vec::new(),
        };
        Self {
            transport,
            payload_bytes,
            address,
            medium: Medium::default(),
            control: Recorder::new(),
            drivers: plan.drivers.iter().map(cell).collect(),
            runs: 0,
            each_run: Vec::new(),
        }
    }

    /// What a run of it found out about that.
    pub(in crate::run) fn went_over(&mut self, medium: Medium) {
        self.medium = medium;
    }

    pub(in crate::run) fn transport(&self) -> Transport {
        self.transport
    }

    pub(in crate::run) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Adds one run: the control first, then the drivers in the order of the plan.
    pub(super) fn add(&mut self, sides: &[SideRun]) {
        let Some((control, drivers)) = sides.split_first() else {
            return;
        };
        let run = self.runs;
        self.runs += 1;
        self.control.merge(&control.recorder);
        for (cell, side) in self.drivers.iter_mut().zip(drivers) {
            cell.recorder.merge(&side.recorder);
            let pairs = control.medians_ns.iter().zip(&side.medians_ns).enumerate();
            cell.rounds
                .extend(pairs.map(|(round, (&control, &product))| RoundPair {
                    run,
                    round,
                    control: control as f64,
                    product: product as f64,
                }));
        }
        if let Some(side) = drivers.get(self.leading()) {
            self.each_run
                .extend(each_run(run, side, self.payload_bytes));
        }
    }

    /// Whether there is anything to show.
    pub(in crate::run) fn is_empty(&self) -> bool {
        self.control.count() == 0 && self.drivers.iter().all(|cell| cell.recorder.count() == 0)
    }

    /// The row, with an interval wherever there are rounds enough.
    pub(in crate::run) fn into_row(
        mut self,
        plan: &LatencyPlan,
        random: &mut Random,
    ) -> LatencyRow {
        let leading = self.leading();
        let over = self
            .drivers
            .get(leading)
            .map(|cell| cell.recorder.over())
            .unwrap_or_default();
        let figure = |of: fn(&LatencyRun) -> f64| {
            median(&mut self.each_run.iter().map(of).collect::<Vec<_>>())
        };
        LatencyRow {
            transport: self.transport.to_string(),
            payload_bytes: self.payload_bytes,
            address: self.address,
            medium: self.medium,
            runs: self.runs,
            iterations: plan.iterations,
            warmup: plan.warmup,
            driver: self
                .drivers
                .get(leading)
                .map(|cell| cell.driver.to_string()),
            messages_per_s: figure(|run| run.messages_per_s),
            mib_per_s: figure(|run| run.mib_per_s),
            summary: self
                .drivers
                .get(leading)
                .map(|cell| cell.recorder.summary())
                .unwrap_or_default(),
            over_5ms: over.ms5,
            over_10ms: over.ms10,
            over_50ms: over.ms50,
            control: self.control.summary_with_hdr(),
            drivers: self
                .drivers
                .drain(..)
                .map(|cell| driver_row(cell, random))
                .collect(),
            each_run: self.each_run,
        }
    }

    /// The driver whose figures stand on the row itself: `handoff`, else the first.
    fn leading(&self) -> usize {
        let handoff = self
            .drivers
            .iter()
            .position(|cell| cell.driver == Driver::Handoff);
        handoff.unwrap_or(0)
    }
}

fn driver_row(cell: DriverCell, random: &mut Random) -> DriverRow {
    let ratios: Vec<f64> = cell
        .rounds
        .iter()
        .filter(|pair| pair.control > 0.0)
        .map(|pair| pair.product / pair.control)
        .collect();
    let interval = median_interval(&ratios, random);
    DriverRow {
        driver: cell.driver.to_string(),
        summary: cell.recorder.summary_with_hdr(),
        p50_ratio: median(&mut ratios.clone()),
        ratio_low: interval.map(|interval| interval.low),
        ratio_high: interval.map(|interval| interval.high),
        rounds: cell.rounds,
    }
}

/// `None` for a run that was broken off before its first echo.
fn each_run(run: usize, side: &SideRun, payload_bytes: usize) -> Option<LatencyRun> {
    if side.recorder.count() == 0 || side.elapsed_ns == 0 {
        return None;
    }
    let elapsed_s = side.elapsed_ns as f64 / 1e9;
    let messages_per_s = side.recorder.count() as f64 / elapsed_s;
    let over = side.recorder.over();
    Some(LatencyRun {
        run,
        elapsed_s,
        messages_per_s,
        mib_per_s: messages_per_s * payload_bytes as f64 / MIB,
        summary: side.recorder.summary(),
        over_5ms: over.ms5,
        over_10ms: over.ms10,
        over_50ms: over.ms50,
    })
}

const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn side(rtts: &[u64], elapsed_ns: u64, medians_ns: &[u64]) -> SideRun {
        let mut side = SideRun::new();
        rtts.iter().for_each(|&rtt| side.recorder.record(rtt));
        side.elapsed_ns = elapsed_ns;
        side.medians_ns = medians_ns.to_vec();
        side
    }

    fn plan(drivers: &[Driver]) -> LatencyPlan {
        LatencyPlan {
            drivers: drivers.to_vec(),
            ..LatencyPlan::default()
        }
    }

    #[test]
    fn the_row_shows_handoff_and_each_driver_beside_the_control() {
        let plan = plan(&[Driver::Direct, Driver::Handoff]);
        let mut cell = Cell::new(&plan, Transport::Tcp, 64, None);
        let medians = [10_000; 6];
        cell.add(&[
            side(&[10_000; 30], 300_000, &medians),
            side(&[11_000; 30], 330_000, &[11_000; 6]),
            side(
                &[20_000; 30],
                1_000_000_000,
                &[15_000, 16_000, 14_000, 15_000, 15_000, 15_000],
            ),
        ]);
        let row = cell.into_row(&plan, &mut Random::seeded(1));
        assert_eq!(row.driver.as_deref(), Some("handoff"));
        assert_eq!(
            (row.runs, row.summary.count, row.control.count),
            (1, 30, 30)
        );
        assert_eq!(row.messages_per_s, Some(30.0));
        assert_eq!(row.mib_per_s, Some(30.0 * 64.0 / 1_048_576.0));
        assert_eq!(row.drivers[0].driver, "direct");
        assert_eq!(row.drivers[0].p50_ratio, Some(1.1));
        assert_eq!(
            (row.drivers[0].ratio_low, row.drivers[0].ratio_high),
            (Some(1.1), Some(1.1))
        );
        assert_eq!(row.drivers[1].p50_ratio, Some(1.5));
        assert!(row.drivers[1].ratio_low.unwrap() >= 1.4);
        assert!(row.drivers[1].ratio_high.unwrap() <= 1.6);
    }

    #[test]
    fn rates_are_medians_of_runs_and_rounds_of_all_runs_make_the_interval() {
        let plan = plan(&[Driver::Direct]);
        let mut cell = Cell::new(&plan, Transport::Uds, 64, None);
        for elapsed_ns in [1_000_000_000, 500_000_000, 2_000_000_000] {
            cell.add(&[
                side(&[5], 10, &[5, 5]),
                side(&[5; 100], elapsed_ns, &[6, 6]),
            ]);
        }
        let row = cell.into_row(&plan, &mut Random::seeded(1));
        assert_eq!(
            row.driver.as_deref(),
            Some("direct"),
            "without handoff the first one leads"
        );
        assert_eq!(row.messages_per_s, Some(100.0));
        assert_eq!(row.each_run.len(), 3);
        assert_eq!(row.drivers[0].rounds.len(), 6);
        assert_eq!(
            (row.drivers[0].rounds[5].run, row.drivers[0].rounds[5].round),
            (2, 1)
        );
        assert!(row.drivers[0].ratio_low.is_some());
    }

    #[test]
    fn five_rounds_have_a_ratio_and_no_interval() {
        let plan = plan(&[Driver::Direct]);
        let mut cell = Cell::new(&plan, Transport::Uds, 64, None);
        cell.add(&[side(&[5], 10, &[5; 5]), side(&[6], 10, &[6; 5])]);
        let row = cell.into_row(&plan, &mut Random::seeded(1));
        assert_eq!(row.drivers[0].p50_ratio, Some(1.2));
        assert_eq!(
            (row.drivers[0].ratio_low, row.drivers[0].ratio_high),
            (None, None)
        );
    }

    #[test]
    fn a_run_that_never_began_leaves_the_cell_empty() {
        let plan = plan(&[Driver::Direct]);
        let mut cell = Cell::new(&plan, Transport::Uds, 64, None);
        cell.add(&[]);
        assert!(cell.is_empty());
        assert_eq!(cell.into_row(&plan, &mut Random::seeded(1)).runs, 0);
    }
}
