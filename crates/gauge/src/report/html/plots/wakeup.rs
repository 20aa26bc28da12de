//! How late timers woke a thread, CPU beside CPU.

use super::{Axis, Look, Place, Plot, Scale, Series, Shape, Unit};
use crate::report::Report;
use crate::report::wakeup::WakeupRow;

pub(super) fn rows(report: &Report) -> Vec<Vec<Place>> {
    let rows = &report.wakeup;
    if rows.is_empty() {
        return Vec::new();
    }
    let by_cpu = by_cpu("Lateness of timers by CPU", "wakeup[]", &[("", rows)]);
    let histogram = histogram(rows);
    vec![vec![by_cpu, histogram]]
}

/// Figures by CPU, of one or more sets of rows.
pub(super) fn by_cpu(title: &str, source: &str, sets: &[(&str, &[WakeupRow])]) -> Place {
    let mut cpus: Vec<usize> = sets
        .iter()
        .flat_map(|(_, rows)| rows.iter().map(|row| row.cpu))
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    let figures: [(&str, fn(&WakeupRow) -> Option<u64>); 3] = [
        ("p50", |row| row.p50_ns),
        ("p99", |row| row.p99_ns),
        ("max", |row| row.max_ns),
    ];
    let mut series = Vec::new();
    for (set, rows) in sets {
        for (figure, of) in figures {
            let points = rows.iter().filter_map(|row| {
                let place = cpus.binary_search(&row.cpu).ok()?;
                Some((place as f64, of(row)? as f64))
            });
            series.push(Series {
                name: format!("{set} {figure}").trim().to_owned(),
                look: Look::Pen(series.len()),
                shape: Shape::Marks,
                points: points.collect(),
            });
        }
    }
    Plot {
        title: title.to_owned(),
        caption: "How long after its time a thread of each CPU ran: one CPU above the others has \
                  work that the others do not have."
            .to_owned(),
        source: source.to_owned(),
        x: Axis {
            name: "CPU",
            scale: Scale::Names(cpus.iter().map(usize::to_string).collect()),
            unit: Unit::Plain,
        },
        y: Axis::time("lateness"),
        series,
    }
    .or_absent("no timer was watched")
}

fn histogram(rows: &[WakeupRow]) -> Place {
    let each = rows.iter().take(MOST_CPUS).enumerate().map(|(pen, row)| {
        let counts = row.histogram_us.iter().enumerate();
        let counts = counts.map(|(us, &count)| (us as f64 * 1e3, count as f64));
        let end = counts.len() as f64 * 1e3;
        let mut points: Vec<(f64, f64)> = counts.collect();
        // What is beyond the last step has no place, and its number stands in the lines.
        if !points.is_empty() {
            points.push((end, 0.0));
        }
        // A level holds until the next point.
        points.dedup_by(|next, last| next.1 == last.1);
        Series {
            name: format!("CPU {}", row.cpu),
            look: Look::Pen(pen),
            shape: Shape::Steps,
            points,
        }
    });
    let more = match rows.len().saturating_sub(MOST_CPUS) {
        0 => String::new(),
        more => format!(" {more} more CPUs are in the JSON."),
    };
    Plot {
        title: "Histogram of lateness".to_owned(),
        caption: format!("How often each whole microsecond came, a line for each CPU.{more}"),
        source: "wakeup[].histogram_us".to_owned(),
        x: Axis {
            name: "lateness",
            scale: Scale::Linear,
            unit: Unit::Time,
        },
        y: Axis {
            name: "timers",
            scale: Scale::Log,
            unit: Unit::Plain,
        },
        series: each.collect(),
    }
    .or_absent("--histogram was not asked for")
}

/// As many as there are pens.
const MOST_CPUS: usize = 6;
