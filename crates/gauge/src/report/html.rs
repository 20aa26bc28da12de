//! The report as one page for a browser: doubts first, then the machine, the tables of the terminal's
//! page, and plots where people look rather than read.
//!
//! The page is whole by itself: no script, and no font, style or image from elsewhere; its own policy
//! forbids them. Light or dark is the reader's choice; paper is light.

mod draw;
mod facts;
mod figure;
mod pens;
mod plots;
mod tables;
mod ticks;

use maud::{DOCTYPE, Markup, PreEscaped, html};

#[cfg(test)]
pub(crate) use self::plots::tests::points;
use super::Report;
use super::soak::Soak;
use super::text::lines::quoted;
use super::text::{self, severity};
use crate::environment::{Doubt, Severity};

/// Reports on one page, each with the name it was asked for by.
#[must_use]
pub fn render(reports: &[(String, Report)]) -> String {
    let title = title(reports);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(pens::style())) }
            }
            body {
                main {
                    h1 { (title) }
                    (common_table(reports))
                    @for (name, report) in reports {
                        article {
                            @if reports.len() > 1 { h1 { (plain(name)) } }
                            (article(report))
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn title(reports: &[(String, Report)]) -> String {
    let Some((_, first)) = reports.first() else {
        return "tautline".to_owned();
    };
    let what = first.label.clone().unwrap_or_else(|| {
        let command = first.command_line.get(1).map(String::as_str);
        format!("tautline {}", command.unwrap_or("report"))
    });
    let more = match reports.len() {
        1 => String::new(),
        many => format!(" and {} more", many - 1),
    };
    plain(&format!("{what}, {}{more}", first.started_at))
}

/// Several soaks stand in one table, as on a terminal.
fn common_table(reports: &[(String, Report)]) -> Markup {
    let soaks = reports.iter().map(|(_, report)| report.soak.as_ref());
    let soaks: Option<Vec<&Soak>> = soaks.collect();
    html! {
        @if let Some(soaks) = soaks.filter(|soaks| soaks.len() > 1) {
            h2 { "All of them" }
            div.wide { pre { (plain(&text::soak::table(&soaks))) } }
        }
    }
}

fn article(report: &Report) -> Markup {
    html! {
        p.run {
            code { (plain(&command(report))) }
            br;
            "tautline " (plain(&report.version)) ", " (plain(&report.started_at))
        }
        @if report.interrupted || report.error.is_some() || !report.gates.is_empty() {
            section.verdicts { (tables::sections(&text::verdicts(report))) }
        }
        section {
            h2 { "Doubts" }
            @if report.warnings.is_empty() { p { "None." } }
            ul.doubts { @for found in worst_first(report) { (doubt(found)) } }
        }
        section {
            h2 { "Machine and run" }
            details {
                summary { (plain(&text::machine(&report.environment))) }
                (facts::facts(report))
            }
        }
        section {
            h2 { "Tables" }
            (tables::sections(&text::tables(report)))
        }
        @for group in plots::plots(report) {
            section {
                h2 { "Plots: " (group.title) }
                @for row in &group.rows {
                    div.plots { @for place in row { (figure::figure(place)) } }
                }
            }
        }
    }
}

fn command(report: &Report) -> String {
    let words: Vec<String> = report
        .command_line
        .iter()
        .map(|word| quoted(word))
        .collect();
    words.join(" ")
}

fn worst_first(report: &Report) -> Vec<&Doubt> {
    let mut doubts: Vec<&Doubt> = report.warnings.iter().collect();
    doubts.sort_by_key(|doubt| std::cmp::Reverse(doubt.severity));
    doubts
}

fn doubt(doubt: &Doubt) -> Markup {
    let class = match doubt.severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Invalid => "invalid",
    };
    html! {
        li class=(class) {
            b { (severity(doubt.severity)) " " (plain(&doubt.code)) } ": "
            (plain(&doubt.message))
            br;
            "Try: " code { (plain(&doubt.advice)) }
        }
    }
}

/// Text from outside: markup is escaped where it is written, and what cannot be seen is shown.
fn plain(text: &str) -> String {
    let seen = |c: char| {
        if c.is_control() && c != '\n' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(seen).collect()
}

const STYLE: &str = include_str!("html/style.css");

#[cfg(test)]
mod tests;
