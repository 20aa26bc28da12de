//! The page of a comparison: what it says, and how wide it is.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::compare::{Run, compare};
use crate::report::sample;

fn sample_run() -> Run {
    Run {
        name: "a.json".to_owned(),
        report: sample::report(),
    }
}

/// Made once: its intervals are resampled a thousand times.
static SAMPLE: LazyLock<Comparison> =
    LazyLock::new(|| compare(&[sample_run()], &[sample_run()]).unwrap());

fn sample_comparison() -> Comparison {
    SAMPLE.clone()
}

#[test]
fn the_page_begins_with_what_differs_and_ends_with_how_sure_it_is() {
    let mut other = sample_run();
    other.report.environment.kernel.release = Some("6.9.0".to_owned());
    let page = render(&compare(&[sample_run()], &[other]).unwrap());
    assert!(
        page.starts_with(
            "A: a.json \"as delivered\"\nB: a.json \"as delivered\"\n\n\
             Environment, what differs:\n  kernel: A 5.15.185-tegra | B 6.9.0\n\nOf "
        ),
        "{page}"
    );
    assert!(page.contains(" rows: "), "{page}");
    assert!(page.contains(
        "\nVerdicts hold for all rows together at 5 % (Holm); an interval is of its row alone.\n"
    ));
}

#[test]
fn a_machine_that_moved_and_a_reason_are_said_below_the_table() {
    let mut comparison = sample_comparison();
    for row in &mut comparison.rows {
        row.reason = None;
    }
    comparison.rows[1].machine_moved = Some(true);
    comparison.rows[2].reason = Some("B has 7 rounds, a verdict needs 8".to_owned());
    let page = render(&comparison);
    let (moved, short) = (&comparison.rows[1].name, &comparison.rows[2].name);
    assert!(page.contains(&format!(
        "{moved}: the control moved by as much: the machine moved, not the product\n"
    )));
    assert!(page.contains(&format!("{short}: B has 7 rounds, a verdict needs 8\n")));
}

#[test]
fn fifteen_runs_of_a_command_are_named_once() {
    let mut run = sample_run();
    run.report.label = None;
    let runs = vec![run; 15];
    let page = render(&compare(&runs, &runs[..1]).unwrap());
    assert!(
        page.starts_with("A: a.json (15 runs)\nB: a.json\n"),
        "{page}"
    );
}

#[test]
fn markdown_has_a_table_with_as_many_cells_in_every_line() {
    let page = markdown(&sample_comparison());
    let tables: Vec<&str> = page
        .split("\n\n")
        .filter(|part| part.starts_with('|'))
        .collect();
    assert_eq!(tables.len(), 2);
    for table in tables {
        let mut cells: Vec<usize> = table
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.matches('|').count())
            .collect();
        cells.dedup();
        assert_eq!(cells.len(), 1, "{table}");
    }
}

proptest! {
    #[test]
    fn no_line_is_longer_than_the_page_and_all_is_ascii(
        value in 0.001f64..9e9,
        ratio in 0.001f64..5_000.0,
        name in ".{0,200}",
    ) {
        let mut comparison = sample_comparison();
        comparison.a.runs[0].name = name.clone();
        comparison.warnings.push(name.clone());
        for row in &mut comparison.rows {
            (row.a_median, row.b_median) = (value, value);
            (row.ratio, row.control_ratio) = (Some(ratio), Some(ratio));
            (row.ratio_low, row.ratio_high) = (Some(ratio), Some(ratio));
            row.name = format!("{}{name}", row.name);
            row.tail = Some(crate::compare::Tail {
                a_count: 1,
                b_count: 1,
                a_p99_ns: 1.0,
                b_p99_ns: None,
                p99_ratio: Some(ratio),
                b_beyond_a_p99_percent: 100.0,
            });
        }
        let page = render(&comparison);
        for line in page.lines() {
            prop_assert!(line.len() <= WIDTH, "{}: {line}", line.len());
        }
        prop_assert!(page.is_ascii());
    }
}
