//! The streams to a server: a table for each address, what the server said of them, and who it is.

use std::fmt::Write as _;
use std::time::Duration;

use super::figures::{count, micros, optional};
use super::media;
use super::ping::peer_line;
use super::section::Section;
use super::table::{Column, Table};
use crate::report::Report;
use crate::report::stream::StreamRow;

pub(super) fn streams(report: &Report) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for rows in report
        .stream
        .chunk_by(|one, two| one.address == two.address)
    {
        let mut section = Section::default();
        section.title(title(&rows[0]), "  ");
        section.table(table(rows));
        for row in rows {
            remarks(row, &mut section);
        }
        media::of_way(&rows[0].medium, &mut section);
        sections.push(section);
    }
    if let Some((peer, last)) = report.peer.as_ref().zip(sections.last_mut()) {
        last.words(peer_line(peer, report.same_host), "  ");
    }
    sections
}

fn title(row: &StreamRow) -> String {
    let pace = match row.asked_rate_hz {
        None => "as fast as they go".to_owned(),
        Some(rate) => format!("at {rate} a second"),
    };
    let age = row
        .max_queue_delay_ns
        .map(|ns| format!(", none queued above {:?}", Duration::from_nanos(ns)))
        .unwrap_or_default();
    format!("{}, one way, {}, {pace}{age}", row.address, row.strategy)
}

fn table(rows: &[StreamRow]) -> Table {
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
    table
}

/// What does not stand in every table: only where there is something to say.
fn remarks(row: &StreamRow, section: &mut Section) {
    let mut remark = |text: String| {
        let text = format!("  {} B: {text}", row.payload_bytes);
        section.words(text, "    ");
    };
    let mut odd = String::new();
    for (name, value) in [
        ("too old", Some(row.too_old)),
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
}

/// A rate that falls short by more than this is worth a word.
const ACHIEVED: f64 = 0.99;

#[cfg(test)]
mod tests {
    use crate::report::sample;

    #[test]
    fn the_page_of_streams() {
        let page = crate::report::text::section::page(&super::streams(&sample::stream_report()));
        let expected = "\
tcp://10.0.0.5:6001, one way, keeplatest, as fast as they go, none queued above 20ms
bytes  offered  accepted  refused  evicted  delivered  lost  MiB/s  Gbit/s  queued us
                                                                                  p50     p99
---------------------------------------------------------------------------------------------
   64  1000000    999000     1000    98000     900000     0   54.9   0.461      288.0  4608.0
";
        let lines: Vec<&str> = page.lines().take(5).map(str::trim_end).collect();
        let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], expected[0]);
        assert!(
            page.contains("64  1000000    999000     1000    98000     900000"),
            "{page}"
        );
        assert!(page.contains("  64 B: too old 1000, reordered 2"), "{page}");
        assert!(page.lines().all(|line| line.len() <= 100), "{page}");
    }
}
