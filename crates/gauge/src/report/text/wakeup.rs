//! The wake-up lines, as readers of cyclictest know them.

use std::fmt::Write as _;

use super::section::{self, Section};
use crate::report::Report;
use crate::report::wakeup::WakeupRow;

/// What was not had, how the CPUs were held, the lines, the histogram.
#[must_use]
pub fn page(report: &Report) -> String {
    section::page(&[section(report)])
}

pub(super) fn section(report: &Report) -> Section {
    let mut section = Section::default();
    let rows = &report.wakeup;
    if rows.is_empty() {
        return section;
    }
    let mut text = String::new();
    if let Some(note) = &report.placement.note {
        let _ = writeln!(text, "# {note}");
    }
    if let Some(row) = rows
        .iter()
        .find(|row| row.sched_requested != row.sched_effective)
    {
        let _ = writeln!(text, "# measured as {}", row.sched_effective);
    }
    text.push_str(if report.placement.stay_awake {
        "# the CPUs were kept from halting; times in us\n"
    } else {
        "# idle CPUs could halt, and waking one is part of the times; times in us\n"
    });
    section.lines(text + &lines(rows) + &histogram(rows));
    section
}

/// A line for each CPU: thread, id, priority, interval, timers, and their lateness in microseconds.
#[must_use]
pub fn lines(rows: &[WakeupRow]) -> String {
    rows.iter()
        .enumerate()
        .map(|(index, row)| line(index, row))
        .collect()
}

fn line(index: usize, row: &WakeupRow) -> String {
    let us = |ns: Option<u64>| ns.unwrap_or(0) / 1_000;
    let mean_us = row.mean_ns.unwrap_or(0.0) as u64 / 1_000;
    let mut line = format!(
        "T:{index:2} ({:5}) P:{:2} I:{} C:{:7} ",
        row.thread_id,
        row.priority,
        row.interval_ns / 1_000,
        row.count
    );
    if row.count == 0 {
        line.push_str("Min:      - Act:    - Avg:    - Max:       -\n");
    } else {
        let _ = writeln!(
            line,
            "Min:{:7} Act:{:5} Avg:{mean_us:5} Max:{:8}",
            us(row.min_ns),
            us(row.last_ns),
            us(row.max_ns)
        );
    }
    line
}

/// A line for each microsecond that came, a column for each CPU; then what lies beyond.
#[must_use]
pub fn histogram(rows: &[WakeupRow]) -> String {
    let longest = rows
        .iter()
        .map(|row| row.histogram_us.len())
        .max()
        .unwrap_or(0);
    if longest == 0 {
        return String::new();
    }
    let mut text = "# Histogram\n".to_owned();
    for us in 0..longest {
        let counts = rows
            .iter()
            .map(|row| row.histogram_us.get(us).copied().unwrap_or(0));
        if counts.clone().all(|count| count == 0) {
            continue;
        }
        let _ = write!(text, "{us:06}");
        counts.for_each(|count| {
            let _ = write!(text, " {count:06}");
        });
        text.push('\n');
    }
    text.push_str("# Above:");
    for row in rows {
        let _ = write!(text, " {:05}", row.histogram_above);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> WakeupRow {
        WakeupRow {
            cpu: 0,
            thread_id: 1_234,
            priority: 80,
            sched_requested: "fifo:80".to_owned(),
            sched_effective: "fifo:80".to_owned(),
            interval_ns: 1_000_000,
            count: 10_000,
            min_ns: Some(1_900),
            last_ns: Some(2_000),
            mean_ns: Some(2_400.5),
            p50_ns: Some(2_300),
            p99_ns: Some(8_000),
            p999_ns: Some(15_000),
            max_ns: Some(19_999),
            missed: 0,
            histogram_us: Vec::new(),
            histogram_above: 0,
        }
    }

    #[test]
    fn a_line_is_what_scripts_for_cyclictest_read() {
        assert_eq!(
            lines(&[row()]),
            "T: 0 ( 1234) P:80 I:1000 C:  10000 Min:      1 Act:    2 Avg:    2 Max:      19\n"
        );
    }

    #[test]
    fn nothing_measured_is_no_zero() {
        let none = WakeupRow { count: 0, ..row() };
        assert_eq!(
            lines(&[none]),
            "T: 0 ( 1234) P:80 I:1000 C:      0 Min:      - Act:    - Avg:    - Max:       -\n"
        );
    }

    #[test]
    fn the_histogram_has_a_column_for_each_cpu_and_no_empty_lines() {
        let one = WakeupRow {
            histogram_us: vec![0, 3, 0, 1],
            histogram_above: 2,
            ..row()
        };
        let other = WakeupRow {
            histogram_us: vec![0, 0, 0, 7],
            ..row()
        };
        assert_eq!(
            histogram(&[one, other]),
            "# Histogram\n000001 000003 000000\n000003 000001 000007\n# Above: 00002 00000\n"
        );
    }
}
