//! Known answers: a fault of known size goes in between a measuring client and a responder, and report,
//! plot, comparison and bundle have to show it with that size.
//!
//! What a busy machine can only make slower is held from below and never from above; counts are exact.
//! The sleeps are the injected faults themselves. What needs both bounds is simulated, in `simulated`.

mod faults;
mod simulated;
mod slow_phase;
mod stalls;
mod streams;
mod ways;

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tautline::Address;

use crate::bundle::{self, Build, Bundle, Hardware, Origin};
use crate::environment::Environment;
use crate::ping::{Onlooker, Outputs, PingPlan};
use crate::plan::{Placement, PlacementPlan};
use crate::report::ping::PingCell;
use crate::report::{Report, sample};
use crate::serve::{ServePlan, Server};

/// A responder, listening on a port of its own.
fn serve(address: &str) -> (Server, Address) {
    let server = Server::start(ServePlan {
        addresses: vec![address.parse().unwrap()],
        ..ServePlan::default()
    });
    let server = server.unwrap();
    let address = server.addresses()[0].clone();
    (server, address)
}

/// Nothing pinned: several of these runs share the machine.
fn unpinned() -> PlacementPlan {
    PlacementPlan {
        placement: Placement::Free,
        ..PlacementPlan::default()
    }
}

/// So many pings without a warm-up, so that their numbers are those of the way; none of them is late.
fn plan(address: Address, count: u64) -> PingPlan {
    PingPlan {
        addresses: vec![address],
        count: Some(count),
        duration: None,
        warmup: 0,
        timeout: Duration::from_secs(30),
        placement: unpinned(),
        ..PingPlan::default()
    }
}

/// The report of such a run; what is not measured is the sample's.
fn measured(plan: PingPlan) -> Report {
    let plan = plan.checked().unwrap();
    let mut onlooker = Onlooker {
        progress: &mut |_| {},
        every: None,
        interval: &mut |_| {},
    };
    let stop = AtomicBool::new(false);
    let result = crate::ping::run(
        &plan,
        &Environment::read(),
        Outputs::default(),
        &mut onlooker,
        &stop,
    );
    assert_eq!(result.error, None);
    report_of(result.cells)
}

fn report_of(cells: Vec<PingCell>) -> Report {
    Report {
        version: env!("CARGO_PKG_VERSION").into(),
        ping: cells.first().cloned(),
        cells,
        ..sample::ping_report()
    }
}

/// `sent, received, lost up, lost down, duplicate, reordered, late, corrupted`.
fn outcomes(cell: &PingCell) -> [u64; 8] {
    assert_eq!(cell.in_flight_at_end, 0);
    let (up, down) = (cell.lost_up.unwrap(), cell.lost_down.unwrap());
    assert_eq!(cell.lost, up + down);
    [
        cell.sent,
        cell.received,
        up,
        down,
        cell.duplicate,
        cell.reordered,
        cell.late,
        cell.corrupted,
    ]
}

/// What `name` says in a bundle of this report, which verifies: a row of fields by their columns.
fn table_of_bundle(report: &Report, name: &str) -> Vec<Vec<(String, String)>> {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let build = Build {
        compiler: "unknown".to_owned(),
        profile: "test".to_owned(),
        opt_level: "unknown".to_owned(),
        target: "unknown".to_owned(),
        commit: "unknown".to_owned(),
        modified: None,
    };
    let hardware = Hardware::after_run(report, build);
    let bundle = Bundle::open(&folder).unwrap();
    bundle.write(report, &hardware, &Origin::default()).unwrap();
    let verified = bundle::verify(&folder).unwrap();
    assert_eq!(verified.faults, []);

    let text = fs::read_to_string(folder.join(name)).unwrap();
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let columns = table.headers().unwrap().clone();
    let rows = table.records().map(|row| {
        let row = row.unwrap();
        let fields = columns.iter().zip(row.iter());
        fields
            .map(|(column, field)| (column.to_owned(), field.to_owned()))
            .collect()
    });
    rows.collect()
}

/// One field of a row, as a number.
fn figure(row: &[(String, String)], column: &str) -> f64 {
    let found = row.iter().find(|(name, _)| name == column);
    let (_, field) = found.unwrap_or_else(|| panic!("no column {column}"));
    field
        .parse()
        .unwrap_or_else(|_| panic!("{column} is '{field}'"))
}

const TCP: &str = "tcp://127.0.0.1:0";
const UDP: &str = "udp://127.0.0.1:0";
