//! What is plotted, before it is drawn: series of points in the units of the JSON, taken from the report
//! and nowhere else. Drawing only maps them to a sheet.

mod distribution;
mod latency;
mod ping;
mod soak;
mod throughput;
mod wakeup;

use crate::report::Report;

/// One place on the page: a plot, or the sentence that says why there is none.
#[derive(Debug)]
pub(super) enum Place {
    Plot(Plot),
    Absent(String),
}

/// Everything that one drawing shows.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    /// What is to be seen.
    pub(super) caption: String,
    /// Where its data stand in the JSON.
    pub(super) source: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// One direction of the sheet.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) scale: Scale,
    pub(super) unit: Unit,
}

/// How values lie along an axis.
#[derive(Debug, PartialEq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// What is not above zero has no place: a count of 0 lies on the lower edge.
    Log,
    /// The values are places in this list.
    Names(Vec<String>),
}

/// In what the values of an axis are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds.
    Time,
    /// Seconds of the run.
    Seconds,
    /// 1 / (1 - q): 1000 is p99.9.
    Tail,
    /// Bytes of a payload.
    Bytes,
    /// Of 100.
    Percent,
    /// Numbers of samples, MiB/s: their name says what.
    Plain,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) shape: Shape,
    pub(super) points: Vec<(f64, f64)>,
}

/// Which pen: each has a colour, a dash and a mark of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// What the others are compared with.
    Control,
    /// The others, in their order.
    Pen(usize),
}

/// How points are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One line through all.
    Line,
    /// A line, and a mark at each measured point.
    MarkedLine,
    /// From each point level to the next one.
    Steps,
    /// Marks alone.
    Marks,
}

impl Axis {
    /// Times on a log axis.
    fn time(name: &'static str) -> Self {
        Self {
            name,
            scale: Scale::Log,
            unit: Unit::Time,
        }
    }

    fn payload() -> Self {
        Self {
            name: "payload, bytes",
            scale: Scale::Log,
            unit: Unit::Bytes,
        }
    }

    /// Seconds from a start.
    fn run() -> Self {
        Self {
            name: "seconds of the run",
            scale: Scale::Linear,
            unit: Unit::Seconds,
        }
    }
}

impl Plot {
    /// The plot, or what there is to say where no series has a point.
    fn or_absent(mut self, why: &str) -> Place {
        self.series.retain(|series| !series.points.is_empty());
        if self.series.is_empty() {
            return Place::Absent(format!("{}: no plot, {why}.", self.title));
        }
        let points: usize = self.series.iter().map(|series| series.points.len()).sum();
        if points > MOST_POINTS {
            return Place::Absent(format!(
                "{}: no plot, {points} points are more than one shows; they are in the JSON at {}.",
                self.title, self.source
            ));
        }
        Place::Plot(self)
    }
}

/// A heading and the plots below it, in rows of what belongs together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) rows: Vec<Vec<Place>>,
}

/// Every plot that the report has data for, in the order of its tables.
pub(super) fn plots(report: &Report) -> Vec<Group> {
    let mut groups = vec![
        group("Round trips", latency::rows(report)),
        group("One-way streams", throughput::strategies(report)),
        group("UDP payload smoke test", throughput::smoke(report)),
        group("Pings", ping::rows(report)),
        group("Streams to a server", throughput::streams(report)),
        group("Wake-ups", wakeup::rows(report)),
        group("Idle beside load", soak::rows(report)),
    ];
    groups.retain(|group| !group.rows.is_empty());
    groups
}

fn group(title: &'static str, mut rows: Vec<Vec<Place>>) -> Group {
    let all = rows.len();
    if all > MOST_ROWS {
        rows.truncate(MOST_ROWS);
        rows.push(vec![Place::Absent(format!(
            "{} more rows of plots are left out, to keep the page readable; their data are in the JSON.",
            all - MOST_ROWS
        ))]);
    }
    Group { title, rows }
}

/// The values that occur, each once and in their first order.
fn distinct<'a, T: PartialEq + 'a>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// More is a grey band and a page of megabytes.
const MOST_POINTS: usize = 20_000;
/// A whole bench has some ten.
const MOST_ROWS: usize = 40;

#[cfg(test)]
pub(super) mod tests;
