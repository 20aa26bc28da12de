//! What streams carry and what of it arrives, by payload: each strategy beside a raw writer, each way of
//! the smoke test beside raw sockets, each stream to a server.

use super::{Axis, Look, Place, Plot, Scale, Series, Shape, Unit, distinct};
use crate::report::{Report, StrategyRow};

pub(super) fn strategies(report: &Report) -> Vec<Vec<Place>> {
    let names = distinct(report.strategy.iter().map(|row| row.strategy.as_str()));
    let transports = distinct(report.strategy.iter().map(|row| row.transport.as_str()));
    let each = transports.iter().map(|transport| {
        vec![
            rates(report, transport, &names),
            delivery(report, transport, &names),
        ]
    });
    each.collect()
}

/// The writer of a row is measured beside that row: each strategy has a line of its own, and all of
/// them one name.
fn rates(report: &Report, transport: &str, names: &[&str]) -> Place {
    // First, so that the others are drawn over them.
    let writers = names.iter().map(|name| Series {
        name: "raw writer".to_owned(),
        ..of_rows(report, transport, name, Look::Control, |row| {
            row.control.received_mib_per_s
        })
    });
    let strategies = names.iter().enumerate().map(|(pen, name)| {
        of_rows(report, transport, name, Look::Pen(pen), |row| {
            row.received_mib_per_s
        })
    });
    Plot {
        title: format!("Throughput by payload: {transport}"),
        caption: "What was received, each strategy and the raw writer that was measured beside \
                  each, every message its own write: higher is better."
            .to_owned(),
        source: "strategy[].received_mib_per_s, strategy[].control.received_mib_per_s".to_owned(),
        x: Axis::payload(),
        y: rate_axis(),
        series: writers.chain(strategies).collect(),
    }
    .or_absent("no row has a rate")
}

fn delivery(report: &Report, transport: &str, names: &[&str]) -> Place {
    let each = names.iter().enumerate().map(|(pen, name)| {
        of_rows(report, transport, name, Look::Pen(pen), |row| {
            row.delivery_percent
        })
    });
    Plot {
        title: format!("Delivery by payload: {transport}"),
        caption:
            "Of what the library accepted, how much arrived. keeplatest gives up what is stale; over \
                  udp the kernel drops what it has no room for."
            .to_owned(),
        source: "strategy[].delivery_percent".to_owned(),
        x: Axis::payload(),
        y: percent_axis("delivered, %"),
        series: each.collect(),
    }
    .or_absent("no row has a delivery")
}

fn of_rows(
    report: &Report,
    transport: &str,
    strategy: &str,
    look: Look,
    of: impl Fn(&StrategyRow) -> Option<f64>,
) -> Series {
    let rows = report
        .strategy
        .iter()
        .filter(|row| row.transport == transport && row.strategy == strategy);
    Series {
        name: strategy.to_owned(),
        look,
        shape: Shape::MarkedLine,
        points: rows
            .filter_map(|row| Some((row.payload_bytes as f64, of(row)?)))
            .collect(),
    }
}

pub(super) fn smoke(report: &Report) -> Vec<Vec<Place>> {
    let paths = distinct(report.udp_smoke.iter().map(|row| row.path.as_str()));
    if paths.is_empty() {
        return Vec::new();
    }
    let mut pens = 0..;
    let each = paths.iter().map(|path| {
        let (name, look) = match *path {
            "raw" => ("raw sockets".to_owned(), Look::Control),
            library => (library.to_owned(), Look::Pen(pens.next().unwrap_or(0))),
        };
        let rows = report.udp_smoke.iter().filter(|row| row.path == *path);
        Series {
            name,
            look,
            shape: Shape::MarkedLine,
            points: rows
                .filter_map(|row| Some((row.payload_bytes as f64, row.match_percent?)))
                .collect(),
        }
    });
    let plot = Plot {
        title: "Echoes that came back whole, by payload".to_owned(),
        caption: "Where only the library is below 100 %, it is the library; where raw sockets are \
                  too, it is the system."
            .to_owned(),
        source: "udp_smoke[].match_percent".to_owned(),
        x: Axis::payload(),
        y: percent_axis("matched, %"),
        series: each.collect(),
    };
    vec![vec![plot.or_absent("nothing was sent")]]
}

pub(super) fn streams(report: &Report) -> Vec<Vec<Place>> {
    if report.stream.is_empty() {
        return Vec::new();
    }
    let addresses = distinct(report.stream.iter().map(|row| row.address.as_str()));
    let each = addresses.iter().enumerate().map(|(pen, address)| {
        let rows = report.stream.iter().filter(|row| row.address == *address);
        Series {
            name: (*address).to_owned(),
            look: Look::Pen(pen),
            shape: Shape::MarkedLine,
            points: rows
                .filter_map(|row| Some((row.payload_bytes as f64, row.mib_per_s?)))
                .collect(),
        }
    });
    let plot = Plot {
        title: "Throughput by payload".to_owned(),
        caption: "What the server received, by its clock: higher is better.".to_owned(),
        source: "stream[].mib_per_s".to_owned(),
        x: Axis::payload(),
        y: rate_axis(),
        series: each.collect(),
    };
    vec![vec![
        plot.or_absent("the server could not be asked what it received"),
    ]]
}

fn rate_axis() -> Axis {
    Axis {
        name: "received, MiB/s",
        scale: Scale::Log,
        unit: Unit::Plain,
    }
}

fn percent_axis(name: &'static str) -> Axis {
    Axis {
        name,
        scale: Scale::Linear,
        unit: Unit::Percent,
    }
}
