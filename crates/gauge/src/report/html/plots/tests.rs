//! What is plotted against what the report says: the points are its numbers.

use super::*;
use crate::recorder::Recorder;
use crate::report::sample;
use crate::report::soak::{Moment, Phase, Rtt, Sender, Slice, Soak};
use crate::report::wakeup::WakeupRow;
use crate::report::{Histogram, Percentile, RttSummary};

/// So many times with a peak, a shoulder and a tail, the same ones for each seed.
pub(in crate::report::html) fn recorded(samples: u64, seed: u64) -> RttSummary {
    let mut recorder = Recorder::new();
    let mut state = seed;
    for _ in 0..samples {
        // A generator of Knuth's: its high bits are random enough for a shape.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let tail = 1.0 / (1.0 - share);
        recorder.record((20_000.0 + 3_000.0 * tail.sqrt() + 400.0 * tail) as u64);
    }
    recorder.summary_with_hdr()
}

/// The sample, with a distribution in every place that has one.
pub(in crate::report::html) fn whole_bench() -> Report {
    let mut report = sample::report();
    let mut seed = 0;
    let mut next = || {
        seed += 1;
        recorded(30_000, seed)
    };
    for row in &mut report.latency {
        row.control = next();
        for driver in &mut row.drivers {
            driver.summary = next();
        }
    }
    report
}

fn all(report: &Report) -> Vec<Plot> {
    let rows = plots(report).into_iter().flat_map(|group| group.rows);
    let plots = rows.flatten().filter_map(|place| match place {
        Place::Plot(plot) => Some(plot),
        Place::Absent(_) => None,
    });
    plots.collect()
}

/// The points of one series of one plot.
#[track_caller]
pub(crate) fn points(report: &Report, title: &str, name: &str) -> Vec<(f64, f64)> {
    let plots = all(report);
    let plot = plots.iter().find(|plot| plot.title == title);
    let plot = plot.unwrap_or_else(|| panic!("no plot {title}"));
    let series = plot.series.iter().filter(|series| series.name == name);
    series.flat_map(|series| series.points.clone()).collect()
}

#[test]
fn a_percentile_curve_goes_through_the_percentiles_of_the_table() {
    let report = whole_bench();
    let row = &report.latency[3];
    for (name, summary) in [
        ("raw blocking sockets", &row.control),
        ("direct", &row.drivers[0].summary),
        ("spin", &row.drivers[3].summary),
    ] {
        let curve = points(&report, "Percentiles: udp 64 B", name);
        for (tail, percentile) in [
            (2.0, Percentile::P50),
            (20.0, Percentile::P95),
            (100.0, Percentile::P99),
            (1_000.0, Percentile::P999),
        ] {
            let of_table = percentile.of(summary).unwrap() as f64;
            assert!(curve.contains(&(tail, of_table)), "{name} {tail} {curve:?}");
        }
        assert_eq!(curve.first().unwrap().1, summary.min_ns.unwrap() as f64);
        assert_eq!(curve.last().unwrap().0, 3_000.0);
    }
}

#[test]
fn a_histogram_holds_every_sample() {
    let report = whole_bench();
    let bins = points(&report, "Histogram: uds 65536 B", "callback");
    let total: f64 = bins.iter().map(|bin| bin.1).sum();
    assert_eq!(total, 30_000.0);
}

#[test]
fn medians_by_payload_are_those_of_the_rows() {
    let report = sample::report();
    let title = "Median round trip by payload: tcp";
    assert_eq!(
        points(&report, title, "raw blocking sockets"),
        [
            (64.0, 64_900.0),
            (16_384.0, 149_600.0),
            (65_536.0, 306_350.0)
        ]
    );
    assert_eq!(
        points(&report, title, "handoff"),
        [
            (64.0, 118_000.0),
            (16_384.0, 272_000.0),
            (65_536.0, 557_000.0)
        ]
    );
}

#[test]
fn throughput_and_delivery_are_those_of_the_rows() {
    let report = sample::report();
    let rates = "Throughput by payload: tcp";
    assert_eq!(
        points(&report, rates, "besteffort"),
        [(64.0, 32.16), (65_536.0, 1_237.5)]
    );
    let writer = points(&report, rates, "raw writer");
    assert_eq!(writer[0], (64.0, 23.49 / 1.5));
    assert_eq!(writer.len(), 6, "one beside each strategy");
    assert_eq!(
        points(&report, "Delivery by payload: udp", "keeplatest"),
        [(64.0, 67.1)]
    );
    let smoke = "Echoes that came back whole, by payload";
    assert_eq!(
        points(&report, smoke, "besteffort"),
        [(1_024.0, 100.0), (65_507.0, 99.7)]
    );
    assert_eq!(
        points(&report, smoke, "raw sockets"),
        [(1_024.0, 100.0), (65_507.0, 100.0)]
    );
}

#[test]
fn a_ping_shows_its_slices_and_marks_its_slow_moments() {
    let mut report = sample::ping_report();
    let summary = recorded(1_000, 1);
    report.cells[1].response.as_mut().unwrap().hdr = summary.hdr;
    let title = "Over the run: tcp://127.0.0.1:6001, 64 B";
    assert_eq!(points(&report, title, "p50"), [(0.5, 23_100.0)]);
    assert_eq!(points(&report, title, "p99"), [(0.5, 31_000.0)]);
    assert_eq!(points(&report, title, "max"), [(0.5, 912_300.0)]);
    assert_eq!(
        points(&report, title, "slow moment"),
        [(3.204_5, 912_300.0)]
    );
    let curve = "Percentiles: udp://127.0.0.1:6001, 64 B";
    assert!(!points(&report, curve, "response, from its intended time").is_empty());
}

#[test]
fn a_stream_shows_what_was_received() {
    let report = sample::stream_report();
    assert_eq!(
        points(&report, "Throughput by payload", "tcp://10.0.0.5:6001"),
        [(64.0, 54.93)]
    );
}

#[test]
fn a_soak_puts_idle_beside_load() {
    let mut report = sample::ping_report();
    report.cells.clear();
    let phase = |load: &str, p50_ns, at_ns, seed| {
        let summary = recorded(2_000, seed);
        Phase {
            load: load.to_owned(),
            rtt: Rtt {
                count: summary.count,
                p50_ns: summary.p50_ns,
                min_ns: summary.min_ns,
                max_ns: summary.max_ns,
                hdr: summary.hdr,
                ..Rtt::default()
            },
            senders: vec![Sender {
                slices: vec![Slice {
                    p50_ns,
                    ..Slice::default()
                }],
                ..Sender::default()
            }],
            slow: vec![Moment {
                rtt_ns: 5_000_000,
                sent_ns: at_ns,
                ..Moment::default()
            }],
            ..Phase::default()
        }
    };
    let soak = Soak {
        rounds: vec![
            phase("none", 7_000, 10_000_000_000, 1),
            phase("primes", 15_000, 12_500_000_000, 2),
        ],
        ..Soak::default()
    };
    let p50 = soak.rounds[1].rtt.p50_ns.unwrap() as f64;
    report.soak = Some(soak);
    let title = "Percentiles: all senders, without load and under it";
    assert!(points(&report, title, "full load").contains(&(2.0, p50)));
    let title = "Over the run: median of each second of each sender";
    assert_eq!(points(&report, title, "no load"), [(0.0, 7_000.0)]);
    assert_eq!(points(&report, title, "full load"), [(0.0, 15_000.0)]);
    let title = "The slowest moments";
    assert_eq!(points(&report, title, "no load"), [(0.0, 5_000_000.0)]);
    assert_eq!(points(&report, title, "full load"), [(2.5, 5_000_000.0)]);
}

fn wakeup(cpu: usize, histogram_us: Vec<u64>) -> WakeupRow {
    WakeupRow {
        cpu,
        thread_id: 1,
        priority: 80,
        sched_requested: "fifo:80".to_owned(),
        sched_effective: "fifo:80".to_owned(),
        interval_ns: 1_000_000,
        count: 8,
        min_ns: Some(1_000),
        last_ns: Some(1_000),
        mean_ns: Some(1_500.0),
        p50_ns: Some(1_400),
        p99_ns: None,
        p999_ns: None,
        max_ns: Some(4_000 + cpu as u64),
        missed: 0,
        histogram_us,
        histogram_above: 0,
    }
}

#[test]
fn wake_ups_stand_cpu_beside_cpu() {
    let mut report = sample::ping_report();
    report.cells.clear();
    report.wakeup = vec![wakeup(2, vec![0, 7, 7, 1]), wakeup(5, Vec::new())];
    let title = "Lateness of timers by CPU";
    assert_eq!(
        points(&report, title, "max"),
        [(0.0, 4_002.0), (1.0, 4_005.0)]
    );
    assert_eq!(points(&report, title, "p99"), []);
    let plot = all(&report).remove(0);
    assert_eq!(
        plot.x.scale,
        Scale::Names(vec!["2".to_owned(), "5".to_owned()])
    );
    // A level holds until the next point.
    assert_eq!(
        points(&report, "Histogram of lateness", "CPU 2"),
        [(0.0, 0.0), (1_000.0, 7.0), (3_000.0, 1.0), (4_000.0, 0.0)]
    );
}

#[test]
fn where_there_are_no_data_a_sentence_says_so() {
    let report = sample::report();
    let absent = plots(&report).into_iter().flat_map(|group| group.rows);
    let absent: Vec<String> = absent
        .flatten()
        .filter_map(|place| match place {
            Place::Absent(why) => Some(why),
            Place::Plot(_) => None,
        })
        .collect();
    assert_eq!(
        absent[0],
        "Percentiles: tcp 64 B: no plot, the report keeps no distribution of it."
    );
    assert_eq!(absent.len(), 16, "{absent:?}");
}

#[test]
fn what_no_sheet_can_show_is_not_drawn() {
    let mut report = sample::ping_report();
    let slice = report.cells[0].slices[0].clone();
    report.cells[0].slices = vec![slice; 10_000];
    let cell = report.cells[0].clone();
    report.cells = vec![cell; 50];
    let groups = plots(&report);
    assert_eq!(groups[0].rows.len(), 41);
    let Some(Place::Absent(why)) = groups[0].rows[0].last() else {
        panic!("{:?}", groups[0].rows[0].last());
    };
    assert!(
        why.contains("30001 points are more than one shows"),
        "{why}"
    );
}

#[test]
fn a_histogram_without_a_sample_is_no_plot() {
    let mut report = sample::ping_report();
    let empty = Histogram::new(hdrhistogram::Histogram::new(3).unwrap());
    report.cells[0].rtt.hdr = Some(empty);
    let titles: Vec<String> = all(&report).into_iter().map(|plot| plot.title).collect();
    assert!(
        titles.iter().all(|title| title.starts_with("Over the run")),
        "{titles:?}"
    );
}
