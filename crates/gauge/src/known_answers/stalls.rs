//! One stall of known length: it stands where it was, at least as long as it was, and in open loop it
//! has delayed as many pings as fell due meanwhile.

use std::thread;
use std::time::Duration;

use tautline::Address;

use super::ways::{Cut, Fault, Injected, datagrams, stream, up};
use super::{TCP, UDP, figure, measured, plan, serve, table_of_bundle};
use crate::ping::PingPlan;
use crate::report::Report;
use crate::report::html::points;
use crate::report::ping::{PingCell, SlowMoment};

/// 500 pings in 2.5 s. Number 240, due at 1.2 s, and all behind it wait half a second.
const RATE_HZ: f64 = 200.0;
const COUNT: u64 = 500;
const FIRST: u64 = 240;
const FROM_S: f64 = 1.2;
const STALL: Duration = Duration::from_millis(500);
const STALL_NS: u64 = 500_000_000;

fn stalled() -> [Injected; 1] {
    [up(FIRST..FIRST + 1, Fault::Slow(STALL))]
}

fn in_open_loop(address: Address) -> Report {
    measured(PingPlan {
        rate_hz: Some(RATE_HZ),
        ..plan(address, COUNT)
    })
}

#[test]
fn in_open_loop_a_stall_has_its_second_its_length_and_all_that_it_delayed() {
    let (_tcp, to_tcp) = serve(TCP);
    let (_udp, to_udp) = serve(UDP);
    let ways = [
        stream(&to_tcp, Cut::Every(64), &stalled()),
        datagrams(&to_udp, &stalled()),
    ];
    thread::scope(|scope| {
        for way in ways {
            scope.spawn(|| {
                let report = in_open_loop(way);
                let cell = &report.cells[0];
                assert_eq!((cell.sent, cell.received), (COUNT, COUNT), "{cell:?}");
                in_the_report(cell);
                in_the_plots(&report);
                in_the_bundle(&report);
            });
        }
    });
}

fn in_the_report(cell: &PingCell) {
    let response = cell.response.as_ref().unwrap();
    assert!(cell.rtt.max_ns >= Some(STALL_NS));
    assert!(response.max_ns >= Some(STALL_NS));
    // Number 240 + k was due 5 ms times k into the stall: it waited 500 ms less that, or longer.
    assert!(response.over_1ms >= 100, "{response:?}");
    assert!(response.over_5ms >= 99, "{response:?}");
    assert!(response.over_10ms >= 98, "{response:?}");
    assert!(response.over_20ms >= 96, "{response:?}");

    let moment = moment_of(cell);
    assert_eq!(moment.at_s.floor(), 1.0, "{moment:?}");
    let (_, max_ns) = slice_at(cell, moment.at_s + seconds(moment.time_ns));
    assert!(max_ns >= STALL_NS, "{:?}", cell.slices);
}

/// The moment that covers the stall: no later than it began, no shorter than it lasted.
fn moment_of(cell: &PingCell) -> &SlowMoment {
    let covers = |moment: &&SlowMoment| {
        moment.at_s < FROM_S + ROUNDING_S && moment.at_s + seconds(moment.time_ns) >= FROM_S + 0.5
    };
    let found = cell.slow.iter().find(covers);
    found.unwrap_or_else(|| panic!("{:?}", cell.slow))
}

/// The middle and the slowest of the slice that this second fell in.
fn slice_at(cell: &PingCell, at_s: f64) -> (f64, u64) {
    let mut slices = cell.slices.iter();
    let slice = slices.find(|slice| at_s < slice.start_s + slice.seconds);
    let slice = slice.unwrap_or_else(|| panic!("{:?}", cell.slices));
    (slice.start_s + slice.seconds / 2.0, slice.max_ns.unwrap())
}

fn in_the_plots(report: &Report) {
    let cell = &report.cells[0];
    let of = |plot: &str, series: &str| {
        let title = format!("{plot}: {}, 64 B", cell.address);
        points(report, &title, series)
    };
    let moment = moment_of(cell);
    let marks = of("Over the run", "slow moment");
    assert!(marks.contains(&(moment.at_s, moment.time_ns as f64)));

    let (middle_s, max_ns) = slice_at(cell, moment.at_s + seconds(moment.time_ns));
    let slowest = of("Over the run", "max");
    assert!(slowest.contains(&(middle_s, max_ns as f64)), "{slowest:?}");

    // 500 samples support the curve up to the 490th: ten delayed ones are slower, which it was due
    // 50 ms ahead of.
    let &(tail, reached_ns) = of("Percentiles", RESPONSE).last().unwrap();
    assert_eq!(tail, 50.0);
    assert!(reached_ns >= 450e6 * OF_THE_HISTOGRAM, "{reached_ns}");

    let bins = of("Histogram", RESPONSE);
    let mass = |from_ns: f64| -> f64 {
        let beyond = bins.iter().filter(|(edge_ns, _)| *edge_ns >= from_ns);
        beyond.map(|(_, samples)| samples).sum()
    };
    assert_eq!(mass(0.0), 500.0);
    // The bin of 20 ms begins a little below it.
    assert!(mass(19e6) >= 96.0, "{bins:?}");
}

fn in_the_bundle(report: &Report) {
    let rows = table_of_bundle(report, "ping.csv");
    assert!(figure(&rows[0], "response_max_us") >= 500_000.0);
    assert!(figure(&rows[0], "response_over_20ms") >= 96.0);
    let slices = table_of_bundle(report, "ping_slices.csv");
    let slowest = slices.iter().map(|slice| figure(slice, "max_us"));
    assert!(slowest.fold(0.0, f64::max) >= 500_000.0);
}

#[test]
fn in_closed_loop_a_stall_is_one_slow_round_trip() {
    let (_server, address) = serve(TCP);
    let report = measured(plan(stream(&address, Cut::Every(64), &stalled()), COUNT));
    let cell = &report.cells[0];
    assert_eq!((cell.sent, cell.received), (COUNT, COUNT));
    assert!(cell.rtt.max_ns >= Some(STALL_NS));
    let slow = cell.slow.iter().find(|moment| moment.sequence == FIRST);
    assert!(slow.unwrap().time_ns >= STALL_NS, "{:?}", cell.slow);
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

const RESPONSE: &str = "response, from its intended time";
/// Seconds as floating point are a fraction of a nanosecond off.
const ROUNDING_S: f64 = 1e-6;
/// A histogram's step is a thousandth wide.
const OF_THE_HISTOGRAM: f64 = 0.999;
