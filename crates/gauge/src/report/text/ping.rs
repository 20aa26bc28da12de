//! A cell of `ping`: counts first, then the figures on one line, the slowest moments, and the path.

use std::fmt::Write as _;

use super::figures::micros;
use super::media;
use super::section::Section;
use super::table::{Column, Table};
use crate::moments::Coincidence;
use crate::report::Report;
use crate::report::ping::{PercentileValue, PingCell, SlowMoment, Times};
use crate::wire::PeerRecord;

pub(super) fn cells(report: &Report) -> Vec<Section> {
    let mut cells: Vec<Section> = report.cells.iter().map(cell).collect();
    if let Some((peer, last)) = report.peer.as_ref().zip(cells.last_mut()) {
        last.words(peer_line(peer, report.same_host), "    ");
    }
    cells
}

fn cell(cell: &PingCell) -> Section {
    let mut section = Section::default();
    section.title(title(cell), "  ");
    section.words(counts(cell), "    ");
    figures(cell, &mut section);
    interval(cell, &mut section);
    each_thread(cell, &mut section);
    histogram(cell, &mut section);
    slowest(cell, &mut section);
    section.words(path(cell), "    ");
    media::of_way(&cell.medium, &mut section);
    if let Some(error) = &cell.error {
        section.words(format!("  broke off: {error}"), "    ");
    }
    section
}

fn title(cell: &PingCell) -> String {
    let mut title = format!("{}, {} B", cell.address, cell.payload_bytes);
    match cell.asked_rate_hz {
        None => title.push_str(", closed loop"),
        Some(asked) => {
            let achieved = cell
                .achieved_rate_hz
                .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
            let _ = write!(title, ", open loop at {asked} a second ({achieved} left)");
        }
    }
    let connections = plural(cell.connections as u64, "connection");
    let _ = write!(title, ", {connections}");
    if cell.connections > 1 {
        let _ = write!(title, " on {}", plural(cell.threads as u64, "thread"));
    }
    let _ = write!(title, ", {:.2} s", cell.elapsed_s);
    if cell.load != "none" {
        let _ = write!(title, ", under load: {}", cell.load);
    }
    title
}

fn counts(cell: &PingCell) -> String {
    let mut counts = format!("  sent {}, received {}", cell.sent, cell.received);
    let mut count = |name: &str, value: u64| {
        let _ = write!(counts, ", {name} {value}");
    };
    if ["udp", "serial"].contains(&&*cell.transport) {
        count("lost", cell.lost);
        count("duplicate", cell.duplicate);
        count("reordered", cell.reordered);
    } else if cell.duplicate > 0 {
        count("duplicate", cell.duplicate);
    }
    count("late", cell.late);
    count("corrupted", cell.corrupted);
    if cell.in_flight_at_end > 0 {
        count("in flight at the end", cell.in_flight_at_end);
    }
    if let Some(late) = cell.late_sends {
        count("late sends", late);
    }
    if cell.lost > 0 {
        let split = match (cell.lost_up, cell.lost_down) {
            (Some(up), Some(down)) => format!("; lost up {up}, down {down}"),
            _ => "; lost up and down unknown".to_owned(),
        };
        counts.push_str(&split);
    }
    counts
}

/// One line for each kind of time, and one for the percentiles that do not fit.
fn figures(cell: &PingCell, section: &mut Section) {
    let (table, shown) = table(cell);
    section.table(table);
    if cell.half_rtt.is_some() {
        let estimate = "  half rtt is an estimate of one way: it takes both ways to be alike";
        section.words(estimate, "    ");
    }
    let rest: Vec<String> = cell.rtt.percentiles[shown..]
        .iter()
        .map(|of| format!("p{} {}", of.percentile, value(of)))
        .collect();
    if !rest.is_empty() {
        section.words(format!("  rtt beyond: {}", rest.join(", ")), "    ");
    }
    let (name, times) = match &cell.response {
        Some(response) => ("response", response),
        None => ("rtt", &cell.rtt),
    };
    if times.over_1ms > 0 {
        let line = format!(
            "  {name} above 1 ms: {}, 5 ms: {}, 10 ms: {}, 20 ms: {}",
            times.over_1ms, times.over_5ms, times.over_10ms, times.over_20ms
        );
        section.words(line, "    ");
    }
}

/// With as many percentiles as the page is wide enough for.
fn table(cell: &PingCell) -> (Table, usize) {
    let mut shown = cell.rtt.percentiles.len().min(MOST_PERCENTILES);
    loop {
        let table = table_of(cell, shown);
        if shown == 0 || table.fits() {
            return (table, shown);
        }
        shown -= 1;
    }
}

fn table_of(cell: &PingCell, shown: usize) -> Table {
    let percentiles = cell.rtt.percentiles[..shown].iter();
    let mut columns = vec![Column::word("", "  us")];
    columns.extend(percentiles.map(|of| Column::figure("", &format!("p{}", of.percentile))));
    columns.extend(["min", "mean", "max"].map(|name| Column::figure("", name)));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, times: &Times| {
        let mut cells = vec![format!("  {name}")];
        // A report from elsewhere may have fewer of one kind of time than of another.
        let percentile = |of: usize| {
            times
                .percentiles
                .get(of)
                .map_or_else(|| micros(None), value)
        };
        cells.extend((0..shown).map(percentile));
        cells.push(micros(times.min_ns));
        cells.push(micros(times.mean_ns.map(|ns| ns as u64)));
        cells.push(micros(times.max_ns));
        table.row(cells);
    };
    row("rtt", &cell.rtt);
    if let Some(response) = &cell.response {
        row("response", response);
    }
    if let Some(half) = &cell.half_rtt {
        row("half rtt", half);
    }
    table
}

fn value(of: &PercentileValue) -> String {
    micros(of.value_ns)
}

fn interval(cell: &PingCell, section: &mut Section) {
    if let Some((low, high)) = cell.p50_low_ns.zip(cell.p50_high_ns) {
        let line = format!(
            "  p50 within {:.1} to {:.1} us: 95 % interval over {} of the run",
            low / 1e3,
            high / 1e3,
            plural(cell.slices.len() as u64, "slice")
        );
        section.words(line, "    ");
    }
}

fn each_thread(cell: &PingCell, section: &mut Section) {
    if cell.each_thread.len() < 2 {
        return;
    }
    for thread in cell.each_thread.iter().take(MOST_THREADS) {
        let p50 = thread.rtt.percentiles.first();
        let p50 = p50.map_or_else(String::new, |of| {
            format!(", p{} {}", of.percentile, value(of))
        });
        let line = format!(
            "  thread {}: {}, sent {}, received {}{p50}, max {} us",
            thread.thread,
            plural(thread.connections as u64, "connection"),
            thread.sent,
            thread.received,
            micros(thread.rtt.max_ns)
        );
        section.words(line, "    ");
    }
    if cell.each_thread.len() > MOST_THREADS {
        section.words("  the other threads are in --json", "    ");
    }
}

fn histogram(cell: &PingCell, section: &mut Section) {
    let Some(histogram) = &cell.histogram else {
        return;
    };
    let mut table = Table::new(&[
        Column::figure("", "  from us"),
        Column::figure("", "to us"),
        Column::figure("", "count"),
    ]);
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let mut row = |from: String, to: String, count: u64| {
        if count > 0 {
            table.row(vec![from, to, count.to_string()]);
        }
    };
    row("0.0".to_owned(), us(histogram.from_ns), histogram.below);
    let mut from_ns = histogram.from_ns;
    for &count in &histogram.counts {
        let to_ns = from_ns.saturating_add(histogram.step_ns);
        row(us(from_ns), us(to_ns), count);
        from_ns = to_ns;
    }
    row(us(from_ns), "-".to_owned(), histogram.above);
    section.table(table);
}

fn slowest(cell: &PingCell, section: &mut Section) {
    for (number, slow) in cell.slow.iter().take(MOST_SLOW).enumerate() {
        let lead = if number == 0 {
            "  slowest:"
        } else {
            "          "
        };
        section.words(format!("{lead}{}", moment(slow)), "            ");
    }
}

fn moment(slow: &SlowMoment) -> String {
    let coincided = slow
        .coincided
        .as_ref()
        .map_or_else(|| "nothing was read around it".to_owned(), happened);
    format!(
        " {} us at {:.3} s (ping {}): {coincided}",
        micros(Some(slow.time_ns)),
        slow.at_s,
        slow.sequence
    )
}

/// What tells most first; what did not happen is left out.
fn happened(coincided: &Coincidence) -> String {
    let mut parts = Vec::new();
    let mut part = |count: Option<u64>, name: &str| {
        if let Some(count) = count
            && count > 0
        {
            parts.push(plural(count, name));
        }
    };
    part(coincided.retransmissions, "retransmission");
    part(coincided.throttled_periods, "throttled period");
    part(coincided.steal_ticks, "tick stolen");
    part(coincided.interrupts, "interrupt");
    part(coincided.softirqs, "softirq");
    part(coincided.context_switches, "context switch");
    if parts.is_empty() {
        parts.push("nothing known".to_owned());
    }
    format!("{} in {:.0} ms", parts.join(", "), coincided.over_ms)
}

fn path(cell: &PingCell) -> String {
    let path = &cell.path;
    let end = |end: &Option<String>| end.clone().unwrap_or_else(|| "unnamed".to_owned());
    let mut line = format!("  path: {} to {}", end(&path.local), end(&path.remote));
    for option in &path.options {
        let effective = option.effective.as_deref().unwrap_or("unknown");
        match option.requested.as_deref() {
            Some(requested) if requested != effective => {
                let _ = write!(line, "; {} {effective}, {requested} asked for", option.name);
            }
            Some(_) => {
                let _ = write!(line, "; {} {effective}", option.name);
            }
            None => {}
        }
    }
    if let Some(tcp) = &path.tcp_after {
        let _ = write!(
            line,
            "; {}, MSS {}, cwnd {}, srtt {} us",
            tcp.congestion_control
                .as_deref()
                .unwrap_or("congestion control unknown"),
            tcp.mss_bytes,
            tcp.congestion_window,
            tcp.srtt_us
        );
    }
    if let Some(retransmits) = path.retransmits {
        let _ = write!(line, ", {}", plural(retransmits, "retransmission"));
    }
    line
}

pub(super) fn peer_line(peer: &PeerRecord, same_host: Option<bool>) -> String {
    let mut parts = vec![format!("tautline {}", peer.version)];
    parts.extend(peer.host.iter().map(|host| format!("on {host}")));
    parts.extend(peer.cpu.clone());
    parts.extend(peer.logical_cpus.map(|cpus| plural(cpus as u64, "CPU")));
    parts.extend(peer.kernel.iter().map(|kernel| format!("Linux {kernel}")));
    parts.extend(
        peer.preemption
            .iter()
            .map(|how| format!("preemption {how}")),
    );
    let host = match same_host {
        Some(true) => "this host",
        Some(false) => "another host",
        None => "whether it is this host is unknown",
    };
    format!("  server: {host}, {}", parts.join(", "))
}

fn plural(count: u64, name: &str) -> String {
    match (count, name) {
        (1, _) => format!("1 {name}"),
        (_, "context switch") => format!("{count} context switches"),
        (_, "tick stolen") => format!("{count} ticks stolen"),
        _ => format!("{count} {name}s"),
    }
}

/// With three more columns the line is full.
const MOST_PERCENTILES: usize = 7;
const MOST_SLOW: usize = 5;
const MOST_THREADS: usize = 16;

#[cfg(test)]
mod tests {
    use crate::report::sample;
    use crate::report::text::{WIDTH, render};

    #[test]
    fn the_page_of_a_ping() {
        insta::assert_snapshot!(render(&sample::ping_report()));
    }

    #[test]
    fn no_line_of_a_long_ping_is_longer_than_the_page() {
        let mut report = sample::ping_report();
        for cell in &mut report.cells {
            cell.address = format!("tcp://{}:6001", "a".repeat(200));
            cell.sent = u64::MAX / 3;
            cell.rtt.max_ns = Some(3_600_000_000_000);
            for of in &mut cell.rtt.percentiles {
                of.value_ns = Some(3_599_999_999_999);
            }
        }
        for line in render(&report).lines() {
            assert!(line.len() <= WIDTH, "{}: {line}", line.len());
        }
    }

    // Found by fuzzing: a file from elsewhere need not have as many of each.
    #[test]
    fn a_response_with_fewer_percentiles_than_the_round_trip_is_a_page_all_the_same() {
        let mut report = sample::ping_report();
        let mut response = report.cells[0].rtt.clone();
        response.percentiles.truncate(1);
        report.cells[0].response = Some(response);
        assert!(render(&report).contains("response"));
    }
}
