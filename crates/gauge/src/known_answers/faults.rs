//! Each fault of a way alone, all of them together, and none: the counts of the report, exactly, and
//! those of its bundle.

use std::thread;
use std::time::Duration;

use super::ways::{Fault, Injected, datagrams, down, up};
use super::{UDP, figure, measured, outcomes, plan, serve, table_of_bundle};
use crate::ping::PingPlan;
use crate::report::Report;

/// Forty pings that do not wait for each other, over a way with these faults.
fn through(faults: &[Injected]) -> Report {
    let (_server, address) = serve(UDP);
    measured(PingPlan {
        rate_hz: Some(100.0),
        timeout: TIMEOUT,
        ..plan(datagrams(&address, faults), 40)
    })
}

/// What is held for longer is late.
const TIMEOUT: Duration = Duration::from_secs(2);
const BEYOND_IT: Fault = Fault::Held(Duration::from_secs(3));
/// A byte of the header's number, and one of the contents.
const NUMBER: Fault = Fault::Damaged(17);
const CONTENTS: Fault = Fault::Damaged(50);

#[test]
fn each_fault_of_the_way_is_counted_once_and_as_what_it_is() {
    // sent, received, lost up, lost down, duplicate, reordered, late, corrupted.
    let known = [
        (vec![], [40, 40, 0, 0, 0, 0, 0, 0]),
        (vec![up(3..4, Fault::Lost)], [40, 39, 1, 0, 0, 0, 0, 0]),
        (vec![down(3..4, Fault::Lost)], [40, 39, 0, 1, 0, 0, 0, 0]),
        (vec![up(5..6, Fault::Twice)], [40, 40, 0, 0, 1, 0, 0, 0]),
        (vec![down(5..6, Fault::Twice)], [40, 40, 0, 0, 1, 0, 0, 0]),
        (vec![up(7..8, Fault::Overtaken)], [40, 40, 0, 0, 0, 1, 0, 0]),
        (
            vec![down(7..8, Fault::Overtaken)],
            [40, 40, 0, 0, 0, 1, 0, 0],
        ),
        (vec![up(9..10, BEYOND_IT)], [40, 39, 0, 0, 0, 0, 1, 0]),
        (vec![down(9..10, BEYOND_IT)], [40, 39, 0, 0, 0, 0, 1, 0]),
        (vec![up(11..12, NUMBER)], [40, 39, 0, 0, 0, 0, 0, 1]),
        (vec![down(11..12, NUMBER)], [40, 39, 0, 0, 0, 0, 0, 1]),
        (vec![up(11..12, CONTENTS)], [40, 39, 0, 0, 0, 0, 0, 1]),
        (vec![down(11..12, CONTENTS)], [40, 39, 0, 0, 0, 0, 0, 1]),
    ];
    // All at once: most of the time they wait.
    thread::scope(|scope| {
        for (faults, counts) in &known {
            scope.spawn(move || {
                let report = through(faults);
                assert_eq!(outcomes(&report.cells[0]), *counts, "{faults:?}");
            });
        }
    });
}

#[test]
fn a_way_with_every_fault_has_them_all_in_its_report_and_in_its_bundle() {
    let faults = [
        up(3..4, Fault::Lost),
        down(5..7, Fault::Lost),
        down(9..10, Fault::Twice),
        down(12..13, Fault::Overtaken),
        down(15..16, BEYOND_IT),
        up(18..19, CONTENTS),
        down(21..22, NUMBER),
    ];
    let report = through(&faults);
    let cell = &report.cells[0];
    assert_eq!(outcomes(cell), [40, 34, 1, 2, 1, 1, 1, 2]);
    // A reply that came too late is no figure of the table and a moment of the run.
    assert_eq!((cell.rtt.count, cell.slow[0].sequence), (34, 15));
    assert!(cell.slow[0].time_ns >= 3_000_000_000);

    let rows = table_of_bundle(&report, "ping.csv");
    let columns = [
        "sent",
        "received",
        "lost",
        "lost_up",
        "lost_down",
        "duplicate",
        "reordered",
        "late",
        "corrupted",
    ];
    let figures = columns.map(|column| figure(&rows[0], column));
    assert_eq!(figures, [40.0, 34.0, 3.0, 1.0, 2.0, 1.0, 1.0, 1.0, 2.0]);
}
