//! A cell of pings: its distribution, and how it went over the run.

use super::distribution::{self, Recorded};
use super::{Axis, Look, Place, Plot, Series, Shape};
use crate::report::Report;
use crate::report::ping::{PingCell, Slice, Times};

pub(super) fn rows(report: &Report) -> Vec<Vec<Place>> {
    let mut rows = Vec::new();
    for (index, cell) in report.cells.iter().enumerate() {
        let what = format!("{}, {} B", cell.address, cell.payload_bytes);
        let mut sides = vec![side("rtt, from leaving to coming back", 0, &cell.rtt)];
        let mut source = format!("cells[{index}].rtt.hdr");
        if let Some(response) = &cell.response {
            sides.push(side("response, from its intended time", 1, response));
            source.push_str(&format!(", cells[{index}].response.hdr"));
        }
        let mut row = Vec::from(distribution::places(&what, &sides, &source));
        row.push(over_the_run(index, &what, cell));
        rows.push(row);
    }
    rows
}

fn side<'a>(name: &str, pen: usize, times: &'a Times) -> Recorded<'a> {
    Recorded {
        name: name.to_owned(),
        look: Look::Pen(pen),
        hdr: times.hdr.as_ref(),
        min_ns: times.min_ns,
        max_ns: times.max_ns,
    }
}

fn over_the_run(index: usize, what: &str, cell: &PingCell) -> Place {
    let of = |name: &str, look, figure: fn(&Slice) -> Option<u64>| {
        let points = cell.slices.iter().filter_map(|slice| {
            let middle_s = slice.start_s + slice.seconds / 2.0;
            Some((middle_s, figure(slice)? as f64))
        });
        Series {
            name: name.to_owned(),
            look,
            shape: Shape::MarkedLine,
            points: points.collect(),
        }
    };
    let of_what = match cell.response {
        Some(_) => "response",
        None => "rtt",
    };
    let moments = cell.slow.iter();
    let moments = moments.map(|moment| (moment.at_s, moment.time_ns as f64));
    Plot {
        title: format!("Over the run: {what}"),
        caption: format!(
            "Median, 99th percentile and slowest {of_what} of each slice, at its middle; the slowest \
             moments of the run are marked where they were."
        ),
        source: format!("cells[{index}].slices[], cells[{index}].slow[]"),
        x: Axis::run(),
        y: Axis::time("time"),
        series: vec![
            of("p50", Look::Pen(0), |slice| slice.p50_ns),
            of("p99", Look::Pen(1), |slice| slice.p99_ns),
            of("max", Look::Pen(2), |slice| slice.max_ns),
            Series {
                name: "slow moment".to_owned(),
                look: Look::Pen(3),
                shape: Shape::Marks,
                points: moments.collect(),
            },
        ],
    }
    .or_absent("the run has no slices")
}
