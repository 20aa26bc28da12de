//! Histograms as an HdrHistogram interval log, which other HDR tools read: one tagged line for each
//! distribution, in nanoseconds.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::{Histogram, Report, RttSummary, utc};

/// One line of a log.
#[derive(Debug)]
pub struct Line<'a> {
    /// From the start of the log.
    pub start: Duration,
    /// How long it was measured.
    pub duration: Duration,
    /// Names the distribution, with no white space and no comma.
    pub tag: String,
    /// What was recorded.
    pub times: &'a Histogram,
}

/// Writes a log.
///
/// # Errors
///
/// What the writer says.
pub fn write(mut to: impl io::Write, started_s: u64, lines: &[Line<'_>]) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let started = UNIX_EPOCH + Duration::from_secs(started_s);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("times in nanoseconds, by tautline")
        .with_start_time(started)
        .with_base_time(started)
        // The line's own maximum: in milliseconds, as readers of such logs expect.
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut to, &mut serializer)?;
    for line in lines {
        log.write_histogram(
            line.times.recorded(),
            line.start,
            line.duration,
            Tag::new(&tag(&line.tag)),
        )
        .map_err(|error| match error {
            IntervalLogWriterError::SerializeError(why) => io::Error::other(why.to_string()),
            IntervalLogWriterError::IoError(cause) => cause,
        })?;
    }
    to.flush()
}

/// What the format takes as a tag.
fn tag(text: &str) -> String {
    let plain = |c: char| match c {
        ',' => '_',
        c if c.is_whitespace() => '_',
        c => c,
    };
    text.chars().map(plain).collect()
}

/// The distributions of a log by their tags, in their order.
///
/// # Errors
///
/// A sentence about the first line that is none.
pub fn read(text: &str) -> Result<Vec<(String, Histogram)>, String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with(['#', '"']) {
            continue;
        }
        let at = |why: &str| format!("line {}: {why}", number + 1);
        let (tag, rest) = line
            .strip_prefix("Tag=")
            .and_then(|line| line.split_once(','))
            .ok_or_else(|| at("it has no tag"))?;
        let encoded = rest.rsplit(',').next().unwrap_or_default();
        let times = Histogram::from_base64(encoded).map_err(|why| at(&why))?;
        found.push((tag.to_owned(), times));
    }
    Ok(found)
}

impl Report {
    /// When the run began, in seconds since 1970; 0 where the label says no time.
    pub(crate) fn started_s(&self) -> u64 {
        utc::parse(&self.started_at).unwrap_or(0)
    }
}

/// The distributions of the latency table: each driver and the control of each row.
#[must_use]
pub fn latency(report: &Report) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut start = Duration::ZERO;
    for row in &report.latency {
        let duration = seconds(row.each_run.iter().map(|run| run.elapsed_s).sum());
        let sides = row
            .drivers
            .iter()
            .map(|driver| (driver.driver.as_str(), &driver.summary))
            .chain([("control", &row.control)]);
        for (side, summary) in sides {
            let RttSummary {
                hdr: Some(times), ..
            } = summary
            else {
                continue;
            };
            lines.push(Line {
                start,
                duration,
                tag: format!("{}_{}_{side}", row.transport, row.payload_bytes),
                times,
            });
        }
        start = start.saturating_add(duration);
    }
    lines
}

/// The distributions of a ping: of each cell the service times, and in open loop the response times.
#[must_use]
pub fn ping(report: &Report) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut start = Duration::ZERO;
    for cell in &report.cells {
        let duration = seconds(cell.elapsed_s);
        let response = cell.response.as_ref();
        let kinds = [("rtt", Some(&cell.rtt)), ("response", response)];
        for (kind, times) in kinds {
            let Some(times) = times.and_then(|times| times.hdr.as_ref()) else {
                continue;
            };
            lines.push(Line {
                start,
                duration,
                tag: tag(&format!("{}_{}_{kind}", cell.address, cell.payload_bytes)),
                times,
            });
        }
        start = start.saturating_add(duration);
    }
    lines
}

/// The distributions of a soak: of each phase all senders merged.
#[must_use]
pub fn soak(report: &Report) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut start = Duration::ZERO;
    for phase in report.soak.iter().flat_map(|soak| &soak.rounds) {
        let longest = phase.senders.iter().filter_map(|sender| sender.time_ns);
        let duration = Duration::from_nanos(longest.max().unwrap_or(0));
        if let Some(times) = &phase.rtt.hdr {
            lines.push(Line {
                start,
                duration,
                tag: tag(&format!("{}_{}", phase.load, phase.repeat)),
                times,
            });
        }
        start = start.saturating_add(duration);
    }
    lines
}

/// A report may have been edited by hand: what is no length of time is none.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    fn thousand() -> Histogram {
        let mut recorded = hdrhistogram::Histogram::new(3).unwrap();
        (1..=1_000).for_each(|us| recorded.record(us * 1_000).unwrap());
        Histogram::new(recorded)
    }

    fn written(tag: &str) -> String {
        let line = Line {
            start: Duration::from_secs(1),
            duration: Duration::from_secs(2),
            tag: tag.to_owned(),
            times: &thousand(),
        };
        let mut log = Vec::new();
        write(&mut log, 1_788_093_966, &[line]).unwrap();
        String::from_utf8(log).unwrap()
    }

    #[test]
    fn the_log_is_read_back_by_a_reader_of_such_logs() {
        let text = written("tcp://[::1]:6001,64 B");
        let entries: Vec<_> = IntervalLogIterator::new(text.as_bytes())
            .map(Result::unwrap)
            .collect();
        let interval = entries
            .iter()
            .find_map(|entry| match entry {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .unwrap();
        assert_eq!(interval.tag().unwrap().as_str(), "tcp://[::1]:6001_64_B");
        let found = Histogram::from_base64(interval.encoded_histogram()).unwrap();
        assert_eq!(found.count(), 1_000);
    }

    #[test]
    fn the_log_is_read_back_by_ours() {
        let found = read(&written("tcp_64_control")).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "tcp_64_control");
        assert_eq!(found[0].1.recorded(), thousand().recorded());
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        assert_eq!(
            read("# comment\n1.0,2.0,3.0,HISTF").unwrap_err(),
            "line 2: it has no tag"
        );
        let why = read("Tag=a,1.0,2.0,3.0,HISTF").unwrap_err();
        assert!(why.starts_with("line 1: a histogram that "), "{why}");
    }
}
