//! The same page as Markdown: headings, sentences, and every table as a table. ASCII as on a terminal.

use super::lines::ascii;
use super::section::{Block, Section};
use super::table::Table;
use super::{closing_sections, head, soak, tables};
use crate::report::Report;

/// The page of a run of any kind.
#[must_use]
pub fn markdown(report: &Report) -> String {
    if soak::has_a_phase(report) {
        return soak::report_markdown(report);
    }
    let mut sections = vec![head(report)];
    sections.extend(tables(report));
    sections.extend(closing_sections(report));
    of(&sections)
}

/// Sections one below the other; the first title of a page names it.
pub(super) fn of(sections: &[Section]) -> String {
    let mut text = String::new();
    for (index, section) in sections.iter().enumerate() {
        for block in section.blocks() {
            if !text.is_empty() {
                text.push('\n');
            }
            match block {
                Block::Title(title) => {
                    let level = if index == 0 { "##" } else { "###" };
                    text.push_str(&format!("{level} {}\n", sentence(title.plain())));
                }
                Block::Words(words) => text.push_str(&format!("{}\n", sentence(words.plain()))),
                Block::Table(table) => text.push_str(&table_of(table)),
                Block::Lines(lines) => text.push_str(&fenced(lines)),
            }
        }
    }
    ascii(&text)
}

fn table_of(table: &Table) -> String {
    let columns = table.columns();
    let headings = columns.iter().map(|column| escaped(&column.name()));
    let rules = columns.iter().map(|column| {
        if column.is_figure() {
            "---:".to_owned()
        } else {
            "---".to_owned()
        }
    });
    let rows = table.rows().iter().map(|cells| {
        let cells = cells.iter().map(|cell| escaped(cell.trim()));
        // A cell of two lines: figures, and below them their interval.
        line(cells.map(|cell| cell.replace('\n', "<br>")))
    });
    line(headings) + &line(rules) + &rows.collect::<String>()
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Lines as they are. A fence of their own cannot end this one.
pub(super) fn fenced(lines: &str) -> String {
    let lines = lines.replace("```", "'''");
    format!("```text\n{}\n```\n", lines.trim_end_matches('\n'))
}

/// Words on one line, whatever a label holds.
pub(super) fn sentence(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    escaped(&words.join(" "))
}

/// Labels and names come from outside: none of them becomes markup.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '[' | '|' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn every_table_of_the_page_is_a_table_in_markdown() {
        let text = markdown(&sample::report());
        assert!(
            text.starts_with("## tautline 0.1.0, 2026-08-30T12:46:06Z, as delivered\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "| transport | payload bytes | runs | msg/s median | MiB/s median | p50 us |"
            ),
            "{text}"
        );
        assert!(text.contains("\n| --- | ---: | ---: |"), "{text}");
        assert!(
            text.contains(
                "\n| tcp | 64 | 3 | 8631 | 0.53 | 118.0 | 127.0 | 153.0 | 238.0 | 880.0 |"
            ),
            "{text}"
        );
        assert!(text.contains(" | 1.02<br>1.00-1.05 | "), "{text}");
        let rules = text.lines().filter(|line| line.starts_with("| --- |"));
        assert_eq!(rules.count(), 6, "{text}");
    }

    #[test]
    fn a_label_is_no_markup() {
        let mut report = sample::report();
        report.label = Some("<script> |\n# `x` *y* [z](w)".to_owned());
        let text = markdown(&report);
        assert!(
            text.contains(r", &lt;script> \| \# \`x\` \*y\* \[z](w)"),
            "{text}"
        );
    }

    #[test]
    fn a_fence_is_not_ended_from_within() {
        assert_eq!(fenced("a\n```\nb\n"), "```text\na\n'''\nb\n```\n");
    }
}
