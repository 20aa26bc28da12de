//! The report's figures, computed again from its histograms.
//!
//! Percentiles and counts are found by the rule of the recorder and have to be equal. The exact extremes
//! and means are finer than a histogram: they have to lie where it has its own.

use crate::ping::Point;
use crate::report::ping::Times;
use crate::report::soak::Phase;
use crate::report::{Histogram, Report, RttSummary};

/// How many figures are as the histograms have them; else each that is not, in a sentence.
pub(super) fn check(report: &Report) -> Result<usize, Vec<String>> {
    let mut figures = Figures::default();
    for row in &report.latency {
        let cell = format!("latency {} {} B", row.transport, row.payload_bytes);
        for driver in &row.drivers {
            figures.summary(&format!("{cell} {}", driver.driver), &driver.summary);
        }
        figures.summary(&format!("{cell} control"), &row.control);
        let leading = row.driver.as_ref();
        let leading = row.drivers.iter().find(|of| Some(&of.driver) == leading);
        if let Some(driver) = leading {
            figures.same_summary(&cell, &row.summary, &driver.summary);
            let over = [
                ("over_5ms", row.over_5ms, 5),
                ("over_10ms", row.over_10ms, 10),
                ("over_50ms", row.over_50ms, 50),
            ];
            figures.over(&cell, driver.summary.hdr.as_ref(), &over);
        }
    }
    for cell in &report.cells {
        let name = format!("ping {} {} B", cell.address, cell.payload_bytes);
        figures.times(&format!("{name} rtt"), &cell.rtt);
        if let Some(response) = &cell.response {
            figures.times(&format!("{name} response"), response);
        }
    }
    for phase in report.soak.iter().flat_map(|soak| &soak.rounds) {
        figures.phase(phase);
    }
    match figures.faults.is_empty() {
        true => Ok(figures.good),
        false => Err(figures.faults),
    }
}

#[derive(Debug, Default)]
struct Figures {
    good: usize,
    faults: Vec<String>,
}

impl Figures {
    fn summary(&mut self, name: &str, summary: &RttSummary) {
        let Some(times) = &summary.hdr else {
            return self.without_times(name, summary.count);
        };
        let ends = Ends {
            count: summary.count,
            min_ns: summary.min_ns,
            mean_ns: summary.mean_ns,
            max_ns: summary.max_ns,
        };
        self.ends(name, times, &ends);
        for (figure, percent, stands) in [
            ("p50_ns", "50", summary.p50_ns),
            ("p95_ns", "95", summary.p95_ns),
            ("p99_ns", "99", summary.p99_ns),
            ("p999_ns", "99.9", summary.p999_ns),
        ] {
            self.percentile(name, figure, percent, stands, times, &ends);
        }
    }

    /// The figures of a row are those of one driver.
    fn same_summary(&mut self, name: &str, row: &RttSummary, driver: &RttSummary) {
        let of = |summary: &RttSummary| {
            [
                ("count", Some(summary.count)),
                ("min_ns", summary.min_ns),
                ("p50_ns", summary.p50_ns),
                ("p95_ns", summary.p95_ns),
                ("p99_ns", summary.p99_ns),
                ("p999_ns", summary.p999_ns),
                ("max_ns", summary.max_ns),
            ]
        };
        for ((figure, here), (_, there)) in of(row).into_iter().zip(of(driver)) {
            self.equal(name, figure, here, there);
        }
    }

    fn times(&mut self, name: &str, of: &Times) {
        let Some(times) = &of.hdr else {
            return self.without_times(name, of.count);
        };
        let ends = Ends {
            count: of.count,
            min_ns: of.min_ns,
            mean_ns: of.mean_ns,
            max_ns: of.max_ns,
        };
        self.ends(name, times, &ends);
        for stands in &of.percentiles {
            let percent = stands.percentile.to_string();
            let figure = format!("p{percent}");
            self.percentile(name, &figure, &percent, stands.value_ns, times, &ends);
        }
        let over = [
            ("over_1ms", of.over_1ms, 1),
            ("over_5ms", of.over_5ms, 5),
            ("over_10ms", of.over_10ms, 10),
            ("over_20ms", of.over_20ms, 20),
        ];
        self.over(name, Some(times), &over);
    }

    fn phase(&mut self, phase: &Phase) {
        let name = format!("soak {} {}", phase.load, phase.repeat);
        let rtt = &phase.rtt;
        let Some(times) = &rtt.hdr else {
            return self.without_times(&name, rtt.count);
        };
        let ends = Ends {
            count: rtt.count,
            min_ns: rtt.min_ns,
            mean_ns: rtt.mean_ns,
            max_ns: rtt.max_ns,
        };
        self.ends(&name, times, &ends);
        for (figure, percent, stands) in [
            ("p50_ns", "50", rtt.p50_ns),
            ("p99_ns", "99", rtt.p99_ns),
            ("p999_ns", "99.9", rtt.p999_ns),
            ("p9999_ns", "99.99", rtt.p9999_ns),
            ("p99999_ns", "99.999", rtt.p99999_ns),
        ] {
            self.percentile(&name, figure, percent, stands, times, &ends);
        }
        let over = [
            ("over_1ms", phase.over_1ms, 1),
            ("over_5ms", phase.over_5ms, 5),
            ("over_10ms", phase.over_10ms, 10),
            ("over_20ms", phase.over_20ms, 20),
        ];
        self.over(&name, Some(times), &over);
    }

    /// Samples without their histogram: nobody can compute anything again.
    fn without_times(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.fault(name, "it has samples and no histogram of them");
        }
    }

    fn ends(&mut self, name: &str, times: &Histogram, ends: &Ends) {
        self.equal(name, "count", Some(ends.count), Some(times.count()));
        if times.count() == 0 {
            return;
        }
        let recorded = times.recorded();
        // Beyond its range a histogram has its last step.
        let step = |ns: u64| recorded.lowest_equivalent(ns.min(recorded.high()));
        let same =
            |stands: Option<u64>, ns: u64| stands.is_some_and(|stands| step(stands) == step(ns));
        let extremes = [
            ("min_ns", ends.min_ns, recorded.min()),
            ("max_ns", ends.max_ns, recorded.max()),
        ];
        for (figure, stands, ns) in extremes {
            match same(stands, ns) || beyond(recorded, stands) {
                true => self.good += 1,
                false => self.fault(
                    name,
                    format!("{figure} is {}, and its histogram has {ns}", shown(stands)),
                ),
            }
        }
        let mean = recorded.mean();
        // Three digits of each sample, and what lies beyond the range pulls the exact mean up.
        let blurred = |stands: f64| {
            (stands / mean - 1.0).abs() < 2e-3 || (beyond(recorded, ends.max_ns) && stands > mean)
        };
        match ends.mean_ns.is_some_and(blurred) {
            true => self.good += 1,
            false => self.fault(
                name,
                format!(
                    "mean_ns is {}, and its histogram has {mean:.0}",
                    ends.mean_ns
                        .map_or_else(|| "null".to_owned(), |ns| format!("{ns:.0}"))
                ),
            ),
        }
    }

    fn percentile(
        &mut self,
        name: &str,
        figure: &str,
        percent: &str,
        stands: Option<u64>,
        times: &Histogram,
        ends: &Ends,
    ) {
        let Ok(point) = percent.parse::<Point>() else {
            return self.fault(name, format!("{figure} is no percentile"));
        };
        let rank = point.rank(times.count());
        let (least, most) = (ends.min_ns.unwrap_or(0), ends.max_ns.unwrap_or(u64::MAX));
        let found = rank.map(|rank| times.at_rank(rank, least, most));
        self.equal(name, figure, stands, found);
    }

    /// The exact counts above limits lie between those of the steps that are wholly above, and those that
    /// reach above.
    fn over(&mut self, name: &str, times: Option<&Histogram>, over: &[(&str, u64, u64)]) {
        let Some(times) = times else {
            return;
        };
        let recorded = times.recorded();
        for &(figure, stands, limit_ms) in over {
            let limit_ns = limit_ms * 1_000_000;
            let steps = recorded.iter_recorded();
            let (mut least, mut most) = (0_u64, 0_u64);
            for step in steps {
                let value = step.value_iterated_to();
                let count = step.count_at_value();
                if recorded.lowest_equivalent(value) > limit_ns {
                    least = least.saturating_add(count);
                }
                if recorded.highest_equivalent(value) > limit_ns {
                    most = most.saturating_add(count);
                }
            }
            match (least..=most).contains(&stands) {
                true => self.good += 1,
                false => self.fault(
                    name,
                    format!("{figure} is {stands}, and its histogram has {least} to {most}"),
                ),
            }
        }
    }

    fn equal(&mut self, name: &str, figure: &str, stands: Option<u64>, found: Option<u64>) {
        match stands == found {
            true => self.good += 1,
            false => {
                let (stands, found) = (shown(stands), shown(found));
                self.fault(
                    name,
                    format!("{figure} is {stands}, and its histogram gives {found}"),
                );
            }
        }
    }

    fn fault(&mut self, name: &str, what: impl std::fmt::Display) {
        let name = super::quoted(name);
        self.faults.push(format!("{name}: {what}"));
    }
}

/// What a recorder keeps exactly.
#[derive(Debug)]
struct Ends {
    count: u64,
    min_ns: Option<u64>,
    mean_ns: Option<f64>,
    max_ns: Option<u64>,
}

/// Longer than a histogram records: there it has its longest time.
fn beyond(recorded: &hdrhistogram::Histogram<u64>, stands: Option<u64>) -> bool {
    stands.is_some_and(|ns| ns > recorded.high())
        && recorded.max() >= recorded.lowest_equivalent(recorded.high())
}

fn shown(value: Option<u64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}
