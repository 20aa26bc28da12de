//! Whole comparisons of reports made by hand: every verdict, boots, the control, gates, the document.

use hdrhistogram::Histogram as Recorded;

use super::*;
use crate::gate::{Gate, Outcome};
use crate::report::{Histogram, RoundPair, sample};
use crate::statistics::Random;

/// Rounds that wobble by two percent around a level, the same on both sides.
const WOBBLE: [f64; 15] = [
    0.1, -1.2, 0.8, 1.9, -0.4, 0.3, -1.7, 1.1, 0.0, -0.9, 1.4, -0.2, 0.6, -1.5, 0.5,
];

/// A report of the sample's first row, its control at 20 us and its first driver at `product_us`.
fn run(product_us: f64) -> Run {
    run_of(product_us, 20.0, 15)
}

fn run_of(product_us: f64, control_us: f64, rounds: usize) -> Run {
    let mut report = sample::report();
    report.latency.truncate(1);
    report.strategy.clear();
    let row = &mut report.latency[0];
    row.drivers.truncate(1);
    row.control.hdr = Some(times(control_us));
    let driver = &mut row.drivers[0];
    driver.summary.hdr = Some(times(product_us));
    driver.rounds = (0..rounds)
        .map(|round| RoundPair {
            run: 0,
            round,
            // Another phase of the same wobble: a control does not move with its product.
            control: control_us * 1e3 * (1.0 + WOBBLE[(round + 7) % 15] / 100.0),
            product: product_us * 1e3 * (1.0 + WOBBLE[round] / 100.0),
        })
        .collect();
    Run {
        name: "run.json".to_owned(),
        report,
    }
}

/// Ten thousand, a hundredth of them twice as slow.
fn times(us: f64) -> Histogram {
    let mut recorded = Recorded::new(3).unwrap();
    recorded.record_n((us * 1e3) as u64, 9_850).unwrap();
    recorded.record_n((us * 2e3) as u64, 150).unwrap();
    Histogram::new(recorded)
}

fn in_boot(mut run: Run, boot: Option<&str>) -> Run {
    run.report.boot_id = boot.map(str::to_owned);
    run
}

/// The row of the driver; the control's stands before it.
fn product(a: &[Run], b: &[Run]) -> ComparedRow {
    let compared = compare(a, b).unwrap();
    compared
        .rows
        .into_iter()
        .find(|row| !row.names.control)
        .unwrap()
}

#[test]
fn the_same_evidence_twice_differs_in_nothing() {
    let compared = compare(&[run(25.0)], &[run(25.0)]).unwrap();
    assert_eq!(compared.differences, []);
    assert_eq!(compared.rows.len(), 2);
    for row in &compared.rows {
        assert_eq!(row.verdict, Verdict::NoDifferenceShown, "{}", row.name);
        assert_eq!(row.ratio, Some(1.0));
    }
    assert_eq!(compared.rows[0].name, "tcp control 64 B");
    assert_eq!(compared.rows[1].name, "tcp direct 64 B");
}

#[test]
fn a_fifth_slower_is_worse_and_a_fifth_faster_is_better() {
    let worse = product(&[run(25.0)], &[run(30.0)]);
    assert_eq!(worse.verdict, Verdict::Worse);
    assert!((worse.ratio.unwrap() - 1.2).abs() < 1e-9);
    assert!(worse.ratio_low > Some(1.15) && worse.ratio_high < Some(1.25));
    assert_eq!(worse.machine_moved, Some(false));
    assert_eq!(product(&[run(30.0)], &[run(25.0)]).verdict, Verdict::Better);
}

#[test]
fn of_rates_more_is_better() {
    let side = |mib: f64| -> Vec<Run> {
        let of = |wobble: &f64| {
            let mut run = run(25.0);
            run.report.latency.clear();
            let mut row = sample::stream_report().stream.remove(0);
            row.mib_per_s = Some(mib * (1.0 + wobble / 100.0));
            run.report.stream = vec![row];
            run
        };
        WOBBLE.iter().map(of).collect()
    };
    let compared = compare(&side(100.0), &side(150.0)).unwrap();
    assert_eq!(compared.rows[0].verdict, Verdict::Better);
    assert_eq!(compared.rows[0].name, "tcp keeplatest 64 B");
    assert_eq!(product(&side(150.0), &side(100.0)).verdict, Verdict::Worse);
    assert_eq!(
        gate("rate < 0.9x", &side(150.0), &side(100.0)).outcome,
        Outcome::Failed
    );
}

#[test]
fn with_seven_rounds_a_side_nobody_can_tell_and_with_eight_one_can() {
    let seven = product(&[run_of(25.0, 20.0, 15)], &[run_of(40.0, 20.0, 7)]);
    assert_eq!(seven.verdict, Verdict::CannotTell);
    assert_eq!(
        seven.reason.as_deref(),
        Some("B has 7 rounds, a verdict needs 8")
    );
    assert_eq!((seven.p, seven.p_corrected), (None, None));
    let eight = product(&[run_of(25.0, 20.0, 15)], &[run_of(40.0, 20.0, 8)]);
    assert_eq!(eight.verdict, Verdict::Worse);
}

#[test]
fn rounds_of_zero_make_no_verdict_and_no_number_that_is_none() {
    let row = product(&[run(0.0)], &[run(25.0)]);
    assert_eq!(row.verdict, Verdict::CannotTell);
    assert_eq!(row.ratio, None);
    let compared = compare(&[run(0.0)], &[run(25.0)]).unwrap();
    validated(&compared);
}

#[test]
fn with_one_boot_each_whatever_moved_its_cause_is_not_shown() {
    let a = in_boot(run(25.0), Some("first"));
    let row = product(
        std::slice::from_ref(&a),
        &[in_boot(run(40.0), Some("second"))],
    );
    assert_eq!(row.verdict, Verdict::DifferentBoots);
    assert_eq!(
        row.reason.as_deref(),
        Some("different boots, cause not shown")
    );
    assert!(row.ratio.is_some() && row.ratio_low.is_some());
    let unknown = product(&[a], &[in_boot(run(40.0), None)]);
    assert_eq!(unknown.verdict, Verdict::DifferentBoots);
}

#[test]
fn with_several_boots_a_side_what_changes_from_boot_to_boot_counts() {
    let side = |levels: [f64; 3], names: [&str; 3]| -> Vec<Run> {
        let boots = levels.into_iter().zip(names);
        boots
            .map(|(level, name)| in_boot(run(level), Some(name)))
            .collect()
    };
    let a = side([25.0, 25.2, 24.8], ["a1", "a2", "a3"]);
    let steady = product(&a, &side([30.0, 30.2, 29.8], ["b1", "b2", "b3"]));
    assert_eq!(steady.verdict, Verdict::Worse);
    let unsteady = product(&a, &side([24.0, 30.0, 37.0], ["b1", "b2", "b3"]));
    assert_eq!(unsteady.verdict, Verdict::NoDifferenceShown);
}

#[test]
fn a_control_that_moved_by_as_much_says_that_the_machine_moved() {
    let moved = product(&[run_of(25.0, 20.0, 15)], &[run_of(30.0, 24.0, 15)]);
    assert_eq!(
        (moved.verdict, moved.machine_moved),
        (Verdict::Worse, Some(true))
    );
    assert!((moved.control_ratio.unwrap() - 1.2).abs() < 1e-9);
    let a_little = product(&[run_of(25.0, 20.0, 15)], &[run_of(30.0, 20.6, 15)]);
    assert_eq!(a_little.machine_moved, Some(false));
}

#[test]
fn more_rows_ask_for_more() {
    // Alone the shift is just shown; beside eleven rows that stand still it is one of twelve.
    let with_rows = |level: f64, rows: usize| {
        let mut run = run(level);
        for more in 1..rows {
            let mut row = run_of(25.0, 20.0, 15).report.latency.remove(0);
            row.payload_bytes = 64 << more;
            run.report.latency.push(row);
        }
        run
    };
    let of = |rows| product(&[with_rows(25.0, rows)], &[with_rows(26.2, rows)]);
    let (alone, among) = (of(1), of(12));
    assert_eq!(alone.verdict, Verdict::Worse, "{:?}", alone.p);
    assert_eq!(alone.p, among.p);
    assert_eq!(among.verdict, Verdict::NoDifferenceShown);
    assert!((among.p_corrected.unwrap() - 12.0 * among.p.unwrap()).abs() < 1e-12);
}

#[test]
fn sides_without_a_common_row_are_not_compared_and_rows_of_one_side_are_named() {
    let mut other = run(25.0);
    other.report.latency[0].transport = "uds".to_owned();
    assert!(compare(&[run(25.0)], &[other.clone()]).is_none());
    let row = other.report.latency.remove(0);
    let mut both = run(25.0);
    both.report.latency.push(row);
    let compared = compare(&[run(25.0)], &[both]).unwrap();
    assert_eq!(compared.only_in_a, Vec::<String>::new());
    assert_eq!(compared.only_in_b, ["uds control 64 B", "uds direct 64 B"]);
}

#[test]
fn a_run_that_was_ended_early_is_compared_with_a_warning() {
    let mut cut = run(25.0);
    cut.report.interrupted = true;
    let compared = compare(&[run(25.0)], &[cut]).unwrap();
    assert_eq!(
        compared.warnings,
        ["B (run.json) was ended early: its figures are partial"]
    );
}

#[test]
fn every_table_of_a_report_has_its_rows() {
    let mut ping = sample::ping_report();
    ping.stream = sample::stream_report().stream;
    let mut bench = sample::report();
    bench.stream.clear();
    for report in [ping, bench] {
        let run = Run {
            name: "all.json".to_owned(),
            report,
        };
        let compared = compare(std::slice::from_ref(&run), std::slice::from_ref(&run)).unwrap();
        assert!(compared.rows.iter().all(|row| row.ratio == Some(1.0)));
        let tables: Vec<Table> = compared.rows.iter().map(|row| row.names.table).collect();
        assert!(tables.is_sorted(), "{tables:?}");
        validated(&compared);
    }
}

fn gate(text: &str, a: &[Run], b: &[Run]) -> gate::Verdict {
    let gate: Gate = text.parse().unwrap();
    gate.check_factors().unwrap();
    gate.judge_factors(&compare(a, b).unwrap())
}

#[test]
fn a_gate_is_a_factor_of_any_percentile_of_the_mean_or_of_a_rate() {
    let of = |text: &str| gate(text, &[run(25.0)], &[run(30.0)]);
    let failed = of("p99 > 1.10x");
    assert_eq!(failed.outcome, Outcome::Failed);
    assert_eq!(failed.findings, ["tcp direct 64 B: p99 is 1.200x"]);
    assert_eq!(of("p99 > 1.30x").outcome, Outcome::Passed);
    assert_eq!(of("p50>1.1x and p98.5 > 1.1x").outcome, Outcome::Failed);
    assert_eq!(of("p50 > 1.1x and p99 > 1.3x").outcome, Outcome::Passed);
    assert_eq!(of("p99 > 1.3x or mean > 1.1x").outcome, Outcome::Failed);
    assert_eq!(
        of("transport == tcp and p50 > 1.1 x").outcome,
        Outcome::Failed
    );
    // The control stood still, and is asked for by its name.
    assert_eq!(
        of("driver == control and p99 > 1.1x").outcome,
        Outcome::Passed
    );
}

#[test]
fn a_gate_that_the_samples_cannot_support_never_passes() {
    let of = |text: &str| gate(text, &[run(25.0)], &[run(30.0)]);
    let undecided = of("p99.99 > 2x");
    assert_eq!(undecided.outcome, Outcome::Undecided);
    assert_eq!(
        undecided.findings,
        ["tcp direct 64 B: p99.99 of B needs 100000 samples and has 10000"]
    );
    assert_eq!(of("rate < 0.9x").outcome, Outcome::Undecided);
    assert_eq!(
        of("transport == udp and p50 > 2x").outcome,
        Outcome::Undecided
    );
}

#[test]
fn gates_on_one_run_and_on_two_are_not_mixed_up() {
    let refusal = |text: &str| text.parse::<Gate>().unwrap_err().to_string();
    assert_eq!(
        refusal("p99 > 1.1x and p50 > 20us"),
        "'p50 > 20us': expected a factor above 0 such as 1.10x"
    );
    assert_eq!(
        refusal("lost > 1.1x"),
        "'lost' is no figure of two runs; there are percentiles such as p50 or p99.9, mean and rate"
    );
    assert_eq!(
        refusal("p99 > 0x"),
        "'p99 > 0x': expected a factor above 0 such as 1.10x"
    );
    let on_one: Gate = "p99 > 20us".parse().unwrap();
    assert!(on_one.check_factors().is_err());
    let on_two: Gate = "p99 > 1.1x".parse().unwrap();
    let latency = gate::Tables {
        latency: true,
        ..gate::Tables::default()
    };
    assert!(on_two.check(latency).is_err());
    assert_eq!(on_two.judge(&sample::report()).outcome, Outcome::Undecided);
}

#[test]
fn the_document_follows_its_schema_whatever_was_found() {
    let mut compared = compare(&[run(25.0)], &[in_boot(run(30.0), None)]).unwrap();
    validated(&compared);
    compared.false_alarms = false_alarms(&[run(25.0)], &[run(25.1)], &mut Random::seeded(1));
    assert!(compared.false_alarms.is_some());
    compared.gates = vec![gate("p99 > 1.1x", &[run(25.0)], &[run(30.0)])];
    compared.error = Some("block 2 of 15, B: no report".to_owned());
    validated(&compared);
}

fn validated(compared: &Comparison) {
    let mut text = Vec::new();
    json(compared, &mut text).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let schema = include_str!("../../../../schema/comparison-v1.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = validator
        .iter_errors(&document)
        .map(|fault| fault.to_string())
        .collect();
    assert_eq!(faults, Vec::<String>::new());
}
