//! The library's drivers beside raw blocking sockets: medians by payload, then each cell whole.

use super::distribution::{self, Recorded};
use super::{Axis, Look, Place, Plot, Series, Shape, distinct};
use crate::report::{LatencyRow, Report, RttSummary};

pub(super) fn rows(report: &Report) -> Vec<Vec<Place>> {
    let drivers = report.latency.iter().flat_map(|row| &row.drivers);
    let drivers = distinct(drivers.map(|driver| driver.driver.as_str()));
    let transports = distinct(report.latency.iter().map(|row| row.transport.as_str()));
    let medians = transports
        .iter()
        .map(|transport| medians(report, transport, &drivers));
    let cells = report.latency.iter().enumerate();
    let cells = cells.map(|(index, row)| Vec::from(cell(index, row, &drivers)));
    let mut rows = vec![medians.collect()];
    rows.extend(cells);
    rows.retain(|row: &Vec<Place>| !row.is_empty());
    rows
}

/// One point for each payload.
fn medians(report: &Report, transport: &str, drivers: &[&str]) -> Place {
    let series = |name: &str, look, of: &dyn Fn(&LatencyRow) -> Option<u64>| {
        let rows = report
            .latency
            .iter()
            .filter(|row| row.transport == transport);
        let points = rows.filter_map(|row| Some((row.payload_bytes as f64, of(row)? as f64)));
        Series {
            name: name.to_owned(),
            look,
            shape: Shape::MarkedLine,
            points: points.collect(),
        }
    };
    let mut all = vec![series(CONTROL, Look::Control, &|row| row.control.p50_ns)];
    for (pen, name) in drivers.iter().enumerate() {
        all.push(series(name, Look::Pen(pen), &|row| {
            let mut drivers = row.drivers.iter();
            drivers
                .find(|driver| driver.driver == *name)?
                .summary
                .p50_ns
        }));
    }
    Plot {
        title: format!("Median round trip by payload: {transport}"),
        caption:
            "What each way of driving the library costs beside raw blocking sockets that move \
                  the same bytes: lower is better."
                .to_owned(),
        source: "latency[].control.p50_ns, latency[].drivers[].p50_ns".to_owned(),
        x: Axis::payload(),
        y: Axis::time("p50"),
        series: all,
    }
    .or_absent("too few samples support a median")
}

fn cell(index: usize, row: &LatencyRow, drivers: &[&str]) -> [Place; 2] {
    let side = |name: &str, look, summary: &RttSummary| Recorded {
        name: name.to_owned(),
        look,
        hdr: None,
        min_ns: summary.min_ns,
        max_ns: summary.max_ns,
    };
    let mut sides = vec![Recorded {
        hdr: row.control.hdr.as_ref(),
        ..side(CONTROL, Look::Control, &row.control)
    }];
    for driver in &row.drivers {
        let pen = drivers.iter().position(|name| *name == driver.driver);
        sides.push(Recorded {
            hdr: driver.summary.hdr.as_ref(),
            ..side(&driver.driver, Look::Pen(pen.unwrap_or(0)), &driver.summary)
        });
    }
    distribution::places(
        &format!("{} {} B", row.transport, row.payload_bytes),
        &sides,
        &format!("latency[{index}].control.hdr, latency[{index}].drivers[].hdr"),
    )
}

const CONTROL: &str = "raw blocking sockets";
