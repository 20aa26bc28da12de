//! The streams to a server: a table for each address, what the server said of them, and who it is.

use std::fmt::Write as _;

use super::figures::{count, micros, optional};
use super::lines::wrapped;
use super::ping::peer_line;
use super::table::{Column, Table};
use crate::report::Report;
use crate::report::stream::StreamRow;

pub(super) fn stream(report: &Report) -> String {
    let mut section = String::new();
    for rows in report
        .stream
        .chunk_by(|one, two| one.address == two.address)
    {
        if !section.is_empty() {
            section.push('\n');
        }
        section.push_str(&wrapped(&title(&rows[0]), "  "));
        section.push_str(&table(rows));
        for row in rows {
            section.push_str(&remarks(row));
        }
    }
    if let Some(peer) = &report.peer
        && !report.stream.is_empty()
    {
        section.push_str(&wrapped(&peer_line(peer, report.same_host), "  "));
    }
    section
}

fn title(row: &StreamRow) -> String {
    let pace = match row.asked_rate_hz {
        None => "as fast as they go".to_owned(),
        Some(rate) => format!("at {rate} a second"),
    };
    format!("{}, one way, {}, {pace}", row.address, row.strategy)
}

fn table(rows: &[StreamRow]) -> String {
    let mut table = Table::new(&[
        Column::figure("", "bytes"),
        Column::figure("", "offered"),
        Column::figure("", "accepted"),
        Column::figure("", "refused"),
        Column::figure("", "evicted"),
        Column::figure("", "delivered"),
        Column::figure("", "lost"),
        Column::figure("", "MiB/s"),
        Column::figure("", "Gbit/s"),
        Column::figure("queued us", "p50"),
        Column::figure("", "p99"),
    ]);
    for row in rows {
        let counted = |value: u64| count(value, 8);
        table.row(vec![
            row.payload_bytes.to_string(),
            counted(row.offered),
            counted(row.accepted),
            counted(row.refused),
            counted(row.evicted),
            optional(row.delivered, counted),
            optional(row.lost, counted),
            optional(row.mib_per_s, |rate| format!("{rate:.1}")),
            optional(row.gbit_per_s, |rate| format!("{rate:.3}")),
            micros(row.queue_delay.p50_ns),
            micros(row.queue_delay.p99_ns),
        ]);
    }
    table.render()
}

/// What does not stand in every table: only where there is something to say.
fn remarks(row: &StreamRow) -> String {
    let mut remarks = String::new();
    let mut remark = |text: String| {
        let text = format!("  {} B: {text}", row.payload_bytes);
        remarks.push_str(&wrapped(&text, "    "));
    };
    let mut odd = String::new();
    for (name, value) in [
        ("discarded", Some(row.discarded)),
        ("received twice", row.duplicates),
        ("reordered", row.reordered),
        ("corrupted", row.corrupted),
    ] {
        if let Some(value) = value.filter(|&value| value > 0) {
            let separator = if odd.is_empty() { "" } else { ", " };
            let _ = write!(odd, "{separator}{name} {value}");
        }
    }
    if !odd.is_empty() {
        remark(odd);
    }
    if let (Some(asked), Some(offered)) = (row.asked_rate_hz, row.offered_per_s)
        && offered < asked * ACHIEVED
    {
        remark(format!(
            "only {offered:.1} a second were offered of {asked}"
        ));
    }
    if !row.accounting_closes {
        remark("the link's accounting does not close".to_owned());
    }
    if let Some(error) = &row.error {
        remark(format!("broke off: {error}"));
    }
    remarks
}

/// A rate that falls short by more than this is worth a word.
const ACHIEVED: f64 = 0.99;

#[cfg(test)]
mod tests {
    use crate::report::sample;

    #[test]
    fn the_page_of_streams() {
        let page = super::stream(&sample::stream_report());
        let expected = "\
tcp://10.0.0.5:6001, one way, keeplatest, as fast as they go
bytes  offered  accepted  refused  evicted  delivered  lost  MiB/s  Gbit/s  queued us
                                                                                  p50     p99
---------------------------------------------------------------------------------------------
   64  1000000    999000     1000    99000     900000     0   54.9   0.461      288.0  4608.0
";
        let lines: Vec<&str> = page.lines().take(5).map(str::trim_end).collect();
        let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], expected[0]);
        assert!(
            page.contains("64  1000000    999000     1000    99000     900000"),
            "{page}"
        );
        assert!(page.contains("  64 B: reordered 2"), "{page}");
        assert!(page.lines().all(|line| line.len() <= 100), "{page}");
    }
}
