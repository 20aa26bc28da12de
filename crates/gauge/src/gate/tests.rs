//! Gates of every kind, judged over a report made by hand.

use super::*;
use crate::report::sample;

fn outcome(gate: &str) -> (Outcome, Vec<String>) {
    let verdict = gate.parse::<Gate>().unwrap().judge(&sample::report());
    (verdict.outcome, verdict.findings)
}

fn refusal(gate: &str) -> String {
    gate.parse::<Gate>().unwrap_err().to_string()
}

#[test]
fn one_row_that_meets_the_condition_fails_the_gate() {
    assert_eq!(outcome("p99.9 > 1ms"), (Outcome::Passed, vec![]));
    assert_eq!(
        outcome("p99.9 > 600us"),
        (
            Outcome::Failed,
            vec!["tcp handoff 65536 B: p99.9 is 988.0 us".to_owned()]
        )
    );
    assert_eq!(outcome("p99.9>600us").0, Outcome::Failed);
    assert_eq!(outcome("p99.9 > 600 us or lost > 0").0, Outcome::Failed);
    assert_eq!(outcome("lost > 0"), (Outcome::Passed, vec![]));
}

#[test]
fn and_asks_for_one_row_that_has_it_all() {
    // The slowest p50 and the largest maximum are the same row; 800 us and 70 us are not.
    assert_eq!(outcome("p50 > 500us and max > 1ms").0, Outcome::Failed);
    assert_eq!(outcome("p50 < 71us and max > 1ms").0, Outcome::Passed);
}

#[test]
fn rows_are_chosen_by_transport_payload_strategy_and_driver() {
    assert_eq!(
        outcome("transport == uds and p50 > 300us").0,
        Outcome::Passed
    );
    assert_eq!(outcome("payload <= 1Ki and p50 > 200us").0, Outcome::Passed);
    assert_eq!(
        outcome("strategy == reliable and dropped > 0").0,
        Outcome::Passed
    );
    assert_eq!(
        outcome("strategy != reliable and dropped > 0").0,
        Outcome::Failed
    );
    assert_eq!(
        outcome("driver == direct and ratio_low > 1.05").0,
        Outcome::Passed
    );
    assert_eq!(
        outcome("driver == handoff and ratio_low > 1.05").0,
        Outcome::Failed
    );
}

#[test]
fn delivery_queue_and_rates_have_their_units() {
    assert_eq!(
        outcome("strategy == besteffort and delivery < 100%").1,
        ["udp besteffort 64 B: delivery is 99.96 %"]
    );
    assert_eq!(outcome("max_queue > 1Mi").0, Outcome::Passed);
    assert_eq!(outcome("failed_sends >= 23k").0, Outcome::Failed);
    assert_eq!(
        outcome("payload == 64 and received_mib_per_s < 6.6").0,
        Outcome::Failed
    );
}

#[test]
fn a_percentile_with_too_few_samples_is_undecided_not_passed() {
    let mut report = sample::report();
    report.latency.truncate(1);
    report.latency[0].summary.count = 900;
    report.latency[0].summary.p99_ns = None;
    let judge = |gate: &str| gate.parse::<Gate>().unwrap().judge(&report);
    let verdict = judge("p99 > 10s");
    assert_eq!(verdict.outcome, Outcome::Undecided);
    assert_eq!(
        verdict.findings,
        ["tcp handoff 64 B: p99 needs 1000 samples and has 900"]
    );
    // The other part settles it, one way or the other.
    assert_eq!(judge("p99 > 10s or max > 100us").outcome, Outcome::Failed);
    assert_eq!(judge("p99 > 10s and max > 10s").outcome, Outcome::Passed);
}

#[test]
fn a_gate_that_no_row_answers_is_undecided() {
    assert_eq!(
        outcome("payload == 63 and p50 > 1s"),
        (
            Outcome::Undecided,
            vec!["p50 > 1s: no row was measured that it concerns".to_owned()]
        )
    );
    let mut report = sample::report();
    report.latency.clear();
    let verdict = "p50 > 1s".parse::<Gate>().unwrap().judge(&report);
    assert_eq!(verdict.outcome, Outcome::Undecided);
}

#[test]
fn what_the_run_does_not_make_is_refused_before_it() {
    let latency = Tables {
        latency: true,
        ..Tables::default()
    };
    let gate = |text: &str| text.parse::<Gate>().unwrap().check(latency);
    assert_eq!(gate("p99 > 1ms"), Ok(()));
    assert_eq!(gate("lost > 0"), Ok(()));
    assert_eq!(
        gate("p99 > 1ms or delivery < 100").unwrap_err().to_string(),
        "delivery stands in the strategy table, which this command does not make"
    );
}

#[test]
fn a_ping_is_judged_by_its_response_where_it_has_one() {
    let report = sample::ping_report();
    let judge = |gate: &str| gate.parse::<Gate>().unwrap().judge(&report);
    assert_eq!(judge("lost == 0 and max > 900us").outcome, Outcome::Failed);
    assert_eq!(
        judge("lost > 0").findings,
        ["udp://127.0.0.1:6001 64 B: lost is 3"]
    );
    let verdict = judge("p99.99 > 200us");
    assert_eq!(
        verdict.findings,
        ["udp://127.0.0.1:6001 64 B: p99.99 is 266.0 us"]
    );
    let verdict = judge("transport == tcp and p99.999 > 1us");
    assert_eq!(verdict.outcome, Outcome::Undecided);
    assert_eq!(
        verdict.findings,
        ["tcp://127.0.0.1:6001 64 B: p99.999 needs 1000000 samples and has 412345"]
    );
}

#[test]
fn a_stream_is_judged_by_what_its_server_told() {
    let mut report = sample::stream_report();
    let judge = |report: &Report, gate: &str| gate.parse::<Gate>().unwrap().judge(report);
    assert_eq!(judge(&report, "delivered < 1").outcome, Outcome::Passed);
    assert_eq!(
        judge(&report, "strategy == keeplatest and mib_per_s < 60").findings,
        ["tcp://10.0.0.5:6001 64 B: mib_per_s is 54.93"]
    );
    assert_eq!(
        judge(&report, "queue_delay_p99 > 1ms").findings,
        ["tcp://10.0.0.5:6001 64 B: queue_delay_p99 is 4608.0 us"]
    );
    report.stream[0].lost = None;
    assert_eq!(judge(&report, "lost > 0").outcome, Outcome::Undecided);
}

#[test]
fn what_is_no_gate_says_what_is_wrong() {
    assert_eq!(refusal(""), "expected a figure, found its end");
    assert_eq!(
        refusal("p99"),
        "expected > >= < <= == or != after 'p99', found its end"
    );
    assert_eq!(refusal("p99 >"), "expected a value, found its end");
    assert_eq!(
        refusal("p99 > 200"),
        "'p99 > 200': give it a unit, such as 200us or 200ms"
    );
    assert_eq!(refusal("p99 => 2us"), "'=>' is none of > >= < <= == !=");
    assert_eq!(
        refusal("p99 > 2us p50 > 1us"),
        "expected 'and' or 'or' before 'p50'"
    );
    assert_eq!(
        refusal("max_queue > 64k"),
        "'max_queue > 64k': did you mean 64Ki (65536)?"
    );
    assert_eq!(
        refusal("transport == tcp"),
        "it chooses rows and compares no figure of them"
    );
    assert_eq!(
        refusal("transport > tcp and p50 > 1s"),
        "transport takes == and != only"
    );
    assert_eq!(
        refusal("p50 > 1s and delivery < 100"),
        "'p50 > 1s and delivery < 100': no row has all of it, 'and' joins figures of one table"
    );
    assert!(
        refusal("p99.95 > 1us").starts_with("'p99.95' is no figure; there are min, mean, p50,")
    );
}

#[test]
fn timers_and_soaks_have_rows_of_their_own() {
    use crate::report::soak::{Phase, Rtt, Soak};

    let phase = |load: &str, max_ns: u64| Phase {
        load: load.to_owned(),
        rtt: Rtt {
            count: 5,
            max_ns: Some(max_ns),
            ..Rtt::default()
        },
        ..Phase::default()
    };
    let mut report = sample::report();
    report.latency.clear();
    report.soak = Some(Soak {
        rounds: vec![phase("none", 1_000_000), phase("primes", 9_000_000)],
        ..Soak::default()
    });
    let judge = |gate: &str| {
        let verdict = gate.parse::<Gate>().unwrap().judge(&report);
        (verdict.outcome, verdict.findings)
    };
    assert_eq!(
        judge("load == none and max > 5ms"),
        (Outcome::Passed, vec![])
    );
    assert_eq!(
        judge("max > 5ms"),
        (
            Outcome::Failed,
            vec!["load primes #1: max is 9000.0 us".to_owned()]
        )
    );
    assert_eq!(judge("p99.999 > 1s").0, Outcome::Undecided);
    let timers = Tables {
        wakeup: true,
        ..Tables::default()
    };
    let gate: Gate = "over_20ms > 0".parse().unwrap();
    assert_eq!(
        gate.check(timers).unwrap_err().to_string(),
        "over_20ms stands in the ping or soak table, which this command does not make"
    );
}

#[test]
fn a_gate_is_shown_as_it_was_typed() {
    let gate: Gate = " p99.9>200us  or lost > 0 ".parse().unwrap();
    assert_eq!(gate.to_string(), "p99.9>200us  or lost > 0");
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[a-z0-9.<>=! ]{0,40}") {
        if let Ok(gate) = text.parse::<Gate>() {
            let _ = gate.judge(&sample::report());
        }
    }
}
