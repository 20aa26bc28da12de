//! A comparison for a terminal or as Markdown: what differs first, then a table of each kind, then what
//! there is to say about it.

use super::WIDTH;
use super::figures::{micros, optional, rate, ratio};
use super::lines::{ascii, wrapped};
use super::table::{Column, Table as Plain};
use crate::compare::{ComparedRow, Comparison, FalseAlarms, Quantity, Table, Verdict};
use crate::gate::Outcome;

/// The page for a terminal: ASCII, at most 100 columns.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    page(comparison, |section| section.plain())
}

/// The same as Markdown.
#[must_use]
pub fn markdown(comparison: &Comparison) -> String {
    page(comparison, |section| section.markdown())
}

fn page(comparison: &Comparison, table: fn(&Section<'_>) -> String) -> String {
    let mut parts = vec![
        sides(comparison),
        differences(comparison),
        summary(comparison),
    ];
    parts.extend(sections(comparison).iter().map(table));
    parts.extend([
        notes(comparison),
        false_alarms(comparison.false_alarms.as_ref()),
        gates(comparison),
        closing(comparison),
    ]);
    parts.retain(|part| !part.is_empty());
    ascii(&parts.join("\n"))
}

fn sides(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        // A command that was run fifteen times is named once.
        let mut names: Vec<(String, usize)> = Vec::new();
        for run in &side.runs {
            let name = match &run.label {
                Some(label) => format!("{} \"{label}\"", run.name),
                None => run.name.clone(),
            };
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, times)) => *times += 1,
                None => names.push((name, 1)),
            }
        }
        let shown = names
            .iter()
            .take(RUNS_NAMED)
            .map(|(name, times)| match times {
                1 => name.clone(),
                times => format!("{name} ({times} runs)"),
            });
        let shown: Vec<String> = shown.collect();
        let more = match names.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&wrapped(
            &format!("{name}: {}{more}", shown.join(", ")),
            "   ",
        ));
    }
    text
}

fn differences(comparison: &Comparison) -> String {
    if comparison.differences.is_empty() {
        return "Environment: nothing that is recorded differs.\n".to_owned();
    }
    let mut text = "Environment, what differs:\n".to_owned();
    for difference in &comparison.differences {
        let line = format!(
            "  {}: A {} | B {}",
            difference.what,
            values(&difference.a),
            values(&difference.b)
        );
        text.push_str(&wrapped(&line, "    "));
    }
    text
}

/// What it comes to, before the rows: how many of the product's say what, and what makes all of it doubtful.
fn summary(comparison: &Comparison) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let product = comparison.rows.iter().filter(|row| !row.names.control);
    for row in product {
        let word = verdict(row);
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    let counts: Vec<String> = counts
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let mut text = wrapped(&format!("Of {all} rows: {}.", counts.join(", ")), "  ");
    for doubt in &comparison.doubts {
        text.push_str(&wrapped(
            &format!("INVALID {doubt}: no verdict below holds"),
            "  ",
        ));
    }
    text
}

/// A few of them: fifteen runs can have fifteen.
fn values(values: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = values.iter().take(SHOWN).map(String::as_str).collect();
    let more = values.len().saturating_sub(SHOWN);
    match more {
        0 => shown.join("; "),
        more => format!("{}; {more} more", shown.join("; ")),
    }
}

/// The rows of one table of the report.
struct Section<'a> {
    table: Table,
    rows: Vec<&'a ComparedRow>,
}

fn sections(comparison: &Comparison) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for row in &comparison.rows {
        match sections.last_mut() {
            Some(section) if section.table == row.names.table => section.rows.push(row),
            _ => sections.push(Section {
                table: row.names.table,
                rows: vec![row],
            }),
        }
    }
    sections
}

impl Section<'_> {
    fn title(&self) -> &'static str {
        match self.table {
            Table::Latency => "Round trips in us, median of rounds; the control is raw sockets",
            Table::Strategy => "One-way streams, received MiB/s, median of runs",
            Table::Ping => "Ping in us, median of one-second slices",
            Table::Stream => "Streams to a server, received MiB/s, median of runs",
            Table::Soak => "Soak in us, median of one-second slices",
            Table::Wakeup => "Wake-up of timers in us, median of runs",
        }
    }

    fn headings(&self) -> Vec<(&'static str, &'static str)> {
        let mut headings = vec![
            ("", ""),
            ("", "A"),
            ("", "B"),
            ("", "B/A"),
            ("95 %", "interval"),
        ];
        if self.has_control() {
            headings.push(("control", "B/A"));
        }
        if self.has_tail() {
            headings.extend([("p99", "B/A"), ("beyond", "A's p99")]);
        }
        headings.push(("", "verdict"));
        headings
    }

    fn cells(&self, row: &ComparedRow) -> Vec<String> {
        let median = |value: f64| match row.quantity {
            Quantity::Time => micros(Some(value.round() as u64)),
            Quantity::Rate => rate(value),
        };
        let interval = row.ratio_low.zip(row.ratio_high);
        let mut cells = vec![
            row.name.clone(),
            median(row.a_median),
            median(row.b_median),
            optional(row.ratio, ratio),
            optional(interval, |(low, high)| {
                format!("{}-{}", ratio(low), ratio(high))
            }),
        ];
        if self.has_control() {
            cells.push(optional(row.control_ratio, ratio));
        }
        if self.has_tail() {
            cells.push(optional(row.tail.and_then(|tail| tail.p99_ratio), ratio));
            cells.push(optional(row.tail, |tail| {
                format!("{:.1}%", tail.b_beyond_a_p99_percent)
            }));
        }
        cells.push(verdict(row).to_owned());
        cells
    }

    fn has_control(&self) -> bool {
        self.rows.iter().any(|row| row.control_ratio.is_some())
    }

    fn has_tail(&self) -> bool {
        self.rows.iter().any(|row| row.tail.is_some())
    }

    fn plain(&self) -> String {
        let headings = self.headings();
        let last = headings.len() - 1;
        let columns: Vec<Column> = headings
            .iter()
            .enumerate()
            .map(|(at, (above, below))| match at == 0 || at == last {
                true => Column::word(above, below),
                false => Column::figure(above, below),
            })
            .collect();
        let mut table = Plain::new(&columns);
        for row in &self.rows {
            let mut cells = self.cells(row);
            // The names of a row are ours, but for what a server or a load was called.
            cells[0] = ascii(&cells[0]).chars().take(NAME_WIDTH).collect();
            table.row(cells);
        }
        format!("{}\n{}", self.title(), table.render())
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let headings = self.headings();
        let rule =
            headings
                .iter()
                .enumerate()
                .map(|(at, _)| match at == 0 || at + 1 == headings.len() {
                    true => "---".to_owned(),
                    false => "---:".to_owned(),
                });
        let mut text = format!("### {}\n\n", self.title());
        let joined = headings
            .iter()
            .map(|(above, below)| format!("{above} {below}").trim().to_owned());
        text.push_str(&line(joined.collect()));
        text.push_str(&line(rule.collect()));
        for row in &self.rows {
            let cells = self
                .cells(row)
                .into_iter()
                .map(|cell| cell.replace('|', "\\|"));
            text.push_str(&line(cells.collect()));
        }
        text
    }
}

/// In words, at most as wide as the table has room for.
fn verdict(row: &ComparedRow) -> &'static str {
    match row.verdict {
        // A control is the machine: nothing of ours is better or worse there.
        Verdict::Better if row.names.control => "machine faster",
        Verdict::Worse if row.names.control => "machine slower",
        Verdict::Better | Verdict::Worse if row.machine_moved == Some(true) => "machine moved",
        // Rounds of one run say what held in that run; the next may sit on the machine in another way.
        Verdict::Better if of_one_run(row) => "better, 1 run",
        Verdict::Worse if of_one_run(row) => "worse, 1 run",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifferenceShown => "no difference shown",
        Verdict::CannotTell => "cannot tell",
        Verdict::DifferentBoots => "different boots",
    }
}

fn of_one_run(row: &ComparedRow) -> bool {
    row.a_runs == 1 || row.b_runs == 1
}

fn notes(comparison: &Comparison) -> String {
    let mut text = String::new();
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &comparison.rows {
        if let Some(reason) = &row.reason {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, rows)) => rows.push(&row.name),
                None => reasons.push((reason, vec![&row.name])),
            }
        }
    }
    for (reason, rows) in reasons {
        let which = match rows.len() {
            all if all == comparison.rows.len() => "every row".to_owned(),
            _ => named(&rows),
        };
        text.push_str(&wrapped(&format!("{which}: {reason}"), "  "));
    }
    let moved: Vec<&str> = comparison
        .rows
        .iter()
        .filter(|row| row.machine_moved == Some(true))
        .map(|row| row.name.as_str())
        .collect();
    if !moved.is_empty() {
        let line = format!(
            "{}: the control moved by as much: the machine moved, not the product",
            named(&moved)
        );
        text.push_str(&wrapped(&line, "  "));
    }
    for (only, side) in [(&comparison.only_in_a, "A"), (&comparison.only_in_b, "B")] {
        if !only.is_empty() {
            let names: Vec<&str> = only.iter().map(String::as_str).collect();
            text.push_str(&wrapped(
                &format!("Only in {side}: {}", named(&names)),
                "  ",
            ));
        }
    }
    text
}

fn named(rows: &[&str]) -> String {
    const SHOWN: usize = 6;
    let shown = rows
        .iter()
        .take(SHOWN)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match rows.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn false_alarms(found: Option<&FalseAlarms>) -> String {
    found.map_or_else(String::new, |found| {
        let line = format!(
            "A against itself, {} runs more: {} of {} rows called different. All its runs split in two at \
             random {} times: {} splits with a false alarm, {:.1} %.",
            found.runs, found.rows_called, found.rows, found.splits, found.splits_called, found.percent
        );
        wrapped(&line, "  ")
    })
}

fn gates(comparison: &Comparison) -> String {
    let mut text = String::new();
    for gate in &comparison.gates {
        let word = match gate.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Undecided => "UNDECIDED",
        };
        text.push_str(&wrapped(&format!("Gate {word}: {}", gate.expression), "  "));
        for finding in &gate.findings {
            text.push_str(&wrapped(&format!("  {finding}"), "    "));
        }
    }
    text
}

fn closing(comparison: &Comparison) -> String {
    let mut text = String::new();
    for warning in &comparison.warnings {
        text.push_str(&wrapped(&format!("Warning: {warning}"), "  "));
    }
    if comparison.interrupted {
        text.push_str("Interrupted: these are the runs until then.\n");
    }
    if let Some(error) = &comparison.error {
        text.push_str(&wrapped(&format!("Ended early: {error}"), "  "));
    }
    let level = comparison.level * 100.0;
    text.push_str(&wrapped(
        &format!(
            "Verdicts hold for all rows together at {level} % (Holm); an interval is of its row alone."
        ),
        "  ",
    ));
    if comparison.a.runs.len().min(comparison.b.runs.len()) == 1 {
        text.push_str(&wrapped(
            "One report on a side shows little of what changes from run to run: several of each say more \
             (--a, --b, or bench --ab).",
            "  ",
        ));
    }
    text
}

/// Reports of a side that are named; the others are counted.
const RUNS_NAMED: usize = 4;
/// What the other columns leave.
const NAME_WIDTH: usize = WIDTH - 74;

#[cfg(test)]
mod tests;
