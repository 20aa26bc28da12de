//! Pings whose times are known to the nanosecond, recorded as those of a run are: where both bounds can
//! be held, they are.

use std::sync::Arc;

use super::report_of;
use crate::compare::{ComparedRow, Run, Verdict, compare};
use crate::ping::{Answered, Live, Point, Reader, Record, Slices};
use crate::report::html::points;
use crate::report::ping::{PingCell, SlowMoment};
use crate::report::{Report, sample};
use crate::statistics::Random;

/// An open loop at a thousand a second, whose ping due at this time is answered at that one.
fn simulated(seconds: u64, answered_at: impl Fn(u64) -> u64) -> Report {
    let live = Arc::new(Live::new());
    let mut reader = Reader::new(vec![live.clone()]);
    let mut record = Record::new(true, live, None);
    record.counts = true;
    let mut slices = Slices::starting_at(0);
    let pings = (0..seconds * 1_000).map(|sequence| Answered {
        connection: 0,
        sequence,
        intended_ns: sequence * MS,
        sent_ns: sequence * MS,
        received_ns: answered_at(sequence * MS),
    });
    let mut pings = pings.peekable();
    // The last ones are answered after the last second.
    for tenth in 1..=seconds * 10 + 1 {
        let now_ns = tenth * 100 * MS;
        while let Some(ping) = pings.next_if(|ping| ping.received_ns < now_ns) {
            record.sent();
            record.answered(ping);
        }
        slices.add(&reader.take(), now_ns);
    }
    assert_eq!(
        pings.next().map(|ping| ping.sequence),
        None,
        "all are answered"
    );
    let moment = |slow: crate::ping::Slow| SlowMoment {
        at_s: slow.from_ns as f64 / 1e9,
        at_monotonic_ns: slow.from_ns,
        time_ns: slow.time_ns(),
        sequence: slow.sequence,
        connection: 0,
        coincided: None,
    };
    let response = record.response.unwrap();
    let sample = sample::ping_report().cells.remove(1);
    report_of(vec![PingCell {
        sent: seconds * 1_000,
        received: seconds * 1_000,
        rtt: record.rtt.times_with_hdr(&Point::DEFAULT),
        response: Some(response.times_with_hdr(&Point::DEFAULT)),
        slices: slices.rows(),
        slow: record.slowest.moments().into_iter().map(moment).collect(),
        ..sample
    }])
}

/// Round trips of 30 us, a few percent more or less, that differ with the seed.
fn usual(seed: u64) -> impl Fn(u64) -> u64 {
    move |due_ns| {
        let mut of_second = Random::seeded((seed << 32) + due_ns / SECOND);
        let mut of_ping = Random::seeded((seed << 32) + due_ns);
        due_ns + 29_000 + of_second.below(1_000) as u64 + of_ping.below(1_000) as u64
    }
}

fn title(plot: &str, report: &Report) -> String {
    let cell = &report.cells[0];
    format!("{plot}: {}, {} B", cell.address, cell.payload_bytes)
}

#[test]
fn a_stall_of_half_a_second_has_exactly_its_figures() {
    let (from_ns, to_ns) = (2_200 * MS, 2_700 * MS);
    let report = simulated(5, |due_ns| match due_ns {
        _ if (from_ns..to_ns).contains(&due_ns) => to_ns + 30_000,
        _ => due_ns + 30_000,
    });
    let cell = &report.cells[0];
    let response = cell.response.as_ref().unwrap();
    assert_eq!(response.max_ns, Some(500_030_000));
    // Due k ms into it, a ping waits 500 ms less that, and its own 30 us.
    let over = [
        response.over_1ms,
        response.over_5ms,
        response.over_10ms,
        response.over_20ms,
    ];
    assert_eq!(over, [500, 496, 491, 481]);
    let slow = &cell.slow[0];
    assert_eq!(
        (slow.at_s, slow.sequence, slow.time_ns),
        (2.2, 2_200, 500_030_000)
    );

    let over_the_run = title("Over the run", &report);
    let slowest = points(&report, &over_the_run, "max");
    let usual = 30_000.0;
    assert_eq!(
        slowest,
        [
            (0.5, usual),
            (1.5, usual),
            (2.5, 500_030_000.0),
            (3.5, usual),
            (4.5, usual)
        ]
    );
    let marks = points(&report, &over_the_run, "slow moment");
    assert_eq!(marks[0], (2.2, 500_030_000.0));

    // The fiftieth of 5000 from the end has waited 450.03 ms.
    let curve = points(&report, &title("Percentiles", &report), RESPONSE);
    let at = |tail: f64| curve.iter().find(|point| point.0 == tail).unwrap().1;
    near(at(2.0), usual, 0.001);
    near(at(100.0), 450.03e6, 0.001);
    near(at(500.0), 490.03e6, 0.001);
    let bins = points(&report, &title("Histogram", &report), RESPONSE);
    let mass = |from_ns: f64, to_ns: f64| -> f64 {
        let within = bins
            .iter()
            .filter(|(edge, _)| (from_ns..to_ns).contains(edge));
        within.map(|(_, samples)| samples).sum()
    };
    assert_eq!((mass(0.0, 1e5), mass(1e5, 1e10)), (4_500.0, 500.0));
    assert_eq!(mass(19e6, 1e10), 481.0);
}

#[test]
fn a_slow_phase_stands_in_its_seconds_and_in_no_other() {
    let usual = usual(1);
    let report = simulated(8, |due_ns| match due_ns / SECOND {
        3..6 => usual(due_ns) + 2 * MS,
        _ => usual(due_ns),
    });
    // Two replies of the phase come after it, in a slice that has a thousand of its own.
    let medians = points(&report, &title("Over the run", &report), "p50");
    for (second, (at_s, p50_ns)) in medians.into_iter().enumerate() {
        assert_eq!(at_s, second as f64 + 0.5);
        match second {
            3..6 => near(p50_ns, 2_030_000.0, 0.035),
            _ => near(p50_ns, 30_000.0, 0.06),
        }
    }
    let response = report.cells[0].response.as_ref().unwrap();
    assert_eq!((response.over_1ms, response.over_5ms), (3_000, 0));
}

fn run(seed: u64, more_ns: u64) -> Vec<Run> {
    let usual = usual(seed);
    vec![Run {
        name: "report.json".to_owned(),
        report: simulated(15, |due_ns| usual(due_ns) + more_ns),
    }]
}

fn compared(a: &[Run], b: &[Run]) -> ComparedRow {
    compare(a, b).unwrap().rows.remove(0)
}

#[test]
fn clean_against_clean_shows_no_difference_and_two_milliseconds_their_factor() {
    let (clean, again, slow) = (run(1, 0), run(2, 0), run(3, 2 * MS));
    let same = compared(&clean, &again);
    assert_eq!(same.verdict, Verdict::NoDifferenceShown, "{same:?}");
    near(same.ratio.unwrap(), 1.0, 0.03);

    let worse = compared(&clean, &slow);
    assert_eq!(worse.verdict, Verdict::Worse);
    // 2.03 ms over 30 us.
    near(worse.ratio.unwrap(), 67.67, 0.05);
    assert!(worse.ratio_low > Some(60.0) && worse.ratio_high < Some(75.0));
    let better = compared(&slow, &clean);
    assert_eq!(better.verdict, Verdict::Better);
    near(better.ratio.unwrap(), 1.0 / 67.67, 0.05);
}

#[track_caller]
fn near(found: f64, expected: f64, share: f64) {
    assert!(
        (found / expected - 1.0).abs() <= share,
        "{found} for {expected}"
    );
}

const RESPONSE: &str = "response, from its intended time";
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
