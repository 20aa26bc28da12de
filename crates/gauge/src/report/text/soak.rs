//! The table of a soak: a block for each kernel, two header lines, three lines without load and three
//! under it. Whoever has collected such tables by hand can put ours below them.

mod details;

pub use self::details::details;
use super::lines::ascii;
use super::section::{self, Section};
use super::{closing, closing_sections, markdown as md};
use crate::report::Report;
use crate::report::soak::{Phase, Sender, Soak};

/// The page of one run; empty where no phase was come to.
#[must_use]
pub fn page(report: &Report) -> String {
    let Some(soak) = of(report) else {
        return String::new();
    };
    let parts = [
        head(report),
        ascii(&table(&[soak])),
        details(soak),
        closing(report),
    ];
    parts.join("\n")
}

/// What the reader has to know before the table: what was refused.
fn head(report: &Report) -> String {
    let mut section = Section::default();
    section.words(
        format!("tautline {} soak, {}", report.version, report.started_at),
        "",
    );
    let setting = report.soak.as_ref().map(|soak| &soak.setting);
    if let Some(refused) = setting.and_then(|setting| setting.receiver_sched_refused.as_ref()) {
        section.words("The receiver ran as other:", "");
        section.words(format!("  {refused}"), "  ");
    }
    section::page(&[section])
}

/// Whether there is anything to put into the table.
pub(super) fn has_a_phase(report: &Report) -> bool {
    of(report).is_some()
}

fn of(report: &Report) -> Option<&Soak> {
    let soak = report.soak.as_ref();
    soak.filter(|soak| !soak.rounds.is_empty())
}

/// The table and what it does not hold.
pub(super) fn sections(soak: &Soak) -> Vec<Section> {
    if soak.rounds.is_empty() {
        return Vec::new();
    }
    let mut first = Section::default();
    first.title(
        format!("Latency soak of {}: without load and under it", soak.label),
        "",
    );
    first.lines(table(&[soak]));
    let mut sections = vec![first];
    sections.extend(details::sections(soak));
    sections
}

/// One run as a Markdown document, as [`page`] has it.
#[must_use]
pub fn report_markdown(report: &Report) -> String {
    of(report).map_or_else(String::new, |soak| {
        markdown(&[soak]) + "\n" + &md::of(&closing_sections(report))
    })
}

/// Several runs as a Markdown document: their common table keeps its columns in a fence.
#[must_use]
pub fn markdown(runs: &[&Soak]) -> String {
    let mut text = String::from("# Latency soak");
    if let Some(first) = runs.first() {
        let setting = &first.setting;
        let pings = setting.pings.saturating_mul(setting.senders as u64);
        text.push_str(&format!(
            " - {pings} pings\n\n{} senders, {} pings each of {} bytes, without load and while primes \
             are counted.\n\n",
            setting.senders, setting.pings, setting.payload_bytes
        ));
    }
    text.push_str(&md::fenced(&table(runs)));
    for run in runs {
        let label = md::sentence(&run.label);
        let details = md::of(&details::sections(run));
        text.push_str(&format!("\n## {label}\n\n{details}"));
    }
    ascii(&text)
}

/// Several runs as one table, and below it what it does not hold of each.
#[must_use]
pub fn table_and_details(runs: &[&Soak]) -> String {
    let mut page = ascii(&table(runs));
    for run in runs {
        page.push_str(&ascii(&format!("\n{}:\n{}", run.label, details(run))));
    }
    page
}

/// Several runs as one table.
#[must_use]
pub fn table(runs: &[&Soak]) -> String {
    let senders = runs
        .iter()
        .flat_map(|run| &run.rounds)
        .map(|phase| phase.senders.len());
    let most = senders.max().unwrap_or(0).max(1);
    let mut text = String::new();
    // More terminals than a page is wide come below, a table for each handful.
    for first in (0..most).step_by(SENDERS_A_TABLE) {
        let columns = Columns {
            first,
            shown: (most - first).min(SENDERS_A_TABLE),
            with_load: first == 0,
        };
        if first > 0 {
            text.push('\n');
        }
        text.push_str(&columns.terminals());
        let blocks: Vec<String> = runs.iter().flat_map(|run| blocks(run, columns)).collect();
        text.push_str(&blocks.join("\n"));
    }
    text
}

/// Which columns a table has.
#[derive(Debug, Clone, Copy)]
struct Columns {
    first: usize,
    shown: usize,
    with_load: bool,
}

/// A block for each repetition.
fn blocks(run: &Soak, columns: Columns) -> Vec<String> {
    let repeats = run
        .rounds
        .iter()
        .map(|phase| phase.repeat + 1)
        .max()
        .unwrap_or(0);
    (0..repeats)
        .map(|repeat| {
            let label = match repeats {
                1 => run.label.clone(),
                _ => format!("{} #{}", run.label, repeat + 1),
            };
            let of = |load: &str| {
                run.rounds.iter().find(|phase| {
                    phase.repeat == repeat && (phase.load == "none") == (load == "none")
                })
            };
            columns.block(&label, of("none"), of("full"))
        })
        .collect()
}

impl Columns {
    fn terminals(self) -> String {
        let names = (0..self.shown).map(|column| format!("Terminal {}", self.first + column + 1));
        let names: Vec<String> = names
            .chain(self.with_load.then(|| "Terminal C".to_owned()))
            .collect();
        self.line("", &names, |name| format!(" {name:<11}"))
    }

    fn block(self, label: &str, idle: Option<&Phase>, loaded: Option<&Phase>) -> String {
        let load = |text: &str| self.with_load.then(|| text.to_owned());
        let repeated = |text: &str| vec![text.to_owned(); self.shown];
        let headings: Vec<String> = repeated("max/avg/time")
            .into_iter()
            .chain(load("count primes"))
            .collect();
        let rules: Vec<String> = repeated(RULE).into_iter().chain(load(RULE)).collect();
        let mut text = self.line("Linux Kernel", &headings, |cell| cell.to_owned());
        text.push_str(&self.line("---------------", &rules, |cell| cell.to_owned()));
        match idle {
            Some(phase) => text.push_str(&self.phase(label, "   time no load", phase)),
            None => text.push_str(&format!("{label}\n")),
        }
        if let Some(phase) = loaded {
            text.push('\n');
            text.push_str(&self.phase("", "   time full load", phase));
        }
        text
    }

    /// Three lines: maxima, means, times; the load's time stands beside the senders'.
    fn phase(self, label: &str, time_label: &str, phase: &Phase) -> String {
        let of = |show: fn(&Sender) -> String| -> Vec<String> {
            let senders = phase.senders.iter().skip(self.first).take(self.shown);
            senders.map(show).collect()
        };
        let maxima = of(|sender| micros(sender.max_ns.map(|ns| ns as f64)));
        let means = of(|sender| micros(sender.mean_ns));
        let mut times = of(|sender| seconds(sender.time_ns));
        if let Some(primes_ns) = phase.primes_ns.filter(|_| self.with_load) {
            times.resize(self.shown, String::new());
            times.push(seconds(Some(primes_ns)));
        }
        let right = |cell: &str| format!("{cell:>WIDTH$}");
        // A name that would run into its figures has a line of its own.
        let label = match maxima.first() {
            Some(first) if label.len() + first.len() + 1 > FIRST + GAP + WIDTH => {
                let alone = format!("{label}\n");
                return alone + &self.phase("", time_label, phase);
            }
            _ => label,
        };
        self.line(label, &maxima, right)
            + &self.line("", &means, right)
            + &self.line(time_label, &times, right)
    }

    /// One line: the first cell, and the others each at its place however long what stands before.
    fn line(self, first: &str, cells: &[String], show: impl Fn(&str) -> String) -> String {
        let mut line = first.to_owned();
        for (index, cell) in cells.iter().enumerate() {
            let shown = show(cell);
            let cell = shown.trim_start();
            let start = FIRST + GAP + index * (WIDTH + GAP) + (shown.len() - cell.len());
            let start = if line.is_empty() {
                start
            } else {
                start.max(line.len() + 1)
            };
            line.push_str(&" ".repeat(start - line.len()));
            line.push_str(cell);
        }
        format!("{}\n", line.trim_end())
    }
}

fn micros(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-  ".to_owned(), |ns| format!("{:.3}us", ns / 1e3))
}

/// One narrower than its column, so that its point stands nearer to those above.
fn seconds(ns: Option<u64>) -> String {
    ns.map_or_else(
        || "-  ".to_owned(),
        |ns| format!("{:.3}s ", ns as f64 / 1e9),
    )
}

/// Of the first column.
const FIRST: usize = 15;
/// Of every other one.
const WIDTH: usize = 12;
const GAP: usize = 2;
const RULE: &str = "------------";
/// With the load's column that makes 99 columns.
const SENDERS_A_TABLE: usize = 5;

#[cfg(test)]
mod tests;
