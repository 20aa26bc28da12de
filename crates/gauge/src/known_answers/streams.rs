//! What a way does to a one-way stream, as the server counts it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tautline::Address;

use super::ways::{Cut, Fault, datagrams, stream, up};
use super::{TCP, UDP, figure, serve, table_of_bundle, unpinned};
use crate::environment::Environment;
use crate::report::html::points;
use crate::report::stream::StreamRow;
use crate::report::{Report, sample};
use crate::stream::{Onlooker, StreamPlan};

/// A hundred messages of a kibibyte in a second.
fn through(way: Address) -> Report {
    let plan = StreamPlan {
        addresses: vec![way],
        rate_hz: Some(100.0),
        duration: Duration::from_secs(1),
        placement: unpinned(),
        ..StreamPlan::default()
    };
    let mut onlooker = Onlooker {
        progress: &mut |_| {},
        every: None,
        interval: &mut |_| {},
    };
    let stop = AtomicBool::new(false);
    let plan = plan.checked().unwrap();
    let result = crate::stream::run(&plan, &Environment::read(), &mut onlooker, &stop);
    assert_eq!(result.error, None);
    Report {
        version: env!("CARGO_PKG_VERSION").into(),
        stream: result.rows,
        ..sample::stream_report()
    }
}

/// `accepted, delivered, lost, duplicates, reordered, corrupted`.
fn counts(row: &StreamRow) -> [u64; 6] {
    let asked = [
        row.delivered,
        row.lost,
        row.duplicates,
        row.reordered,
        row.corrupted,
    ];
    assert_eq!((row.offered, row.discarded), (row.accepted, 0));
    let [delivered, lost, duplicates, reordered, corrupted] = asked.map(Option::unwrap);
    [
        row.accepted,
        delivered,
        lost,
        duplicates,
        reordered,
        corrupted,
    ]
}

/// The contents of a stream are not compared: a server knows damage by the header.
const IN_ITS_HEADER: Fault = Fault::Damaged(17);

#[test]
fn a_stream_of_datagrams_has_each_fault_in_its_report_and_in_its_bundle() {
    let (_server, address) = serve(UDP);
    let clean = through(datagrams(&address, &[]));
    assert_eq!(counts(&clean.stream[0]), [100, 100, 0, 0, 0, 0]);

    let faults = [
        up(3..5, Fault::Lost),
        up(7..8, Fault::Twice),
        up(9..10, Fault::Overtaken),
        up(13..14, IN_ITS_HEADER),
    ];
    let report = through(datagrams(&address, &faults));
    // What came damaged has not been delivered: it is one of those that are lost.
    assert_eq!(counts(&report.stream[0]), [100, 97, 3, 1, 1, 1]);
    let rows = table_of_bundle(&report, "stream.csv");
    let columns = ["delivered", "lost", "duplicates", "reordered", "corrupted"];
    let figures = columns.map(|column| figure(&rows[0], column));
    assert_eq!(figures, [97.0, 3.0, 1.0, 1.0, 1.0]);
}

#[test]
fn a_stalled_stream_loses_nothing_and_takes_at_least_the_stall() {
    let faults = [up(50..51, Fault::Slow(Duration::from_secs(2)))];
    let (_server, address) = serve(TCP);
    let report = through(stream(&address, Cut::Prefixed, &faults));
    let row = &report.stream[0];
    assert_eq!(counts(row), [100, 100, 0, 0, 0, 0]);
    assert!(row.receiving_s >= Some(2.0), "{row:?}");
    // 100 KiB in two seconds, or less a second.
    let most = 100.0 / 1_024.0 / 2.0;
    assert!(row.mib_per_s <= Some(most), "{row:?}");
    let plotted = points(&report, "Throughput by payload", &row.address);
    assert_eq!(plotted, [(1_024.0, row.mib_per_s.unwrap())]);
}
