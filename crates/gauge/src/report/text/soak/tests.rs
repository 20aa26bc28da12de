//! The table against one that was made by hand, and what such a table could not hold.

use super::*;

/// Maximum and mean in microseconds and time in seconds of four terminals.
type Half = [(f64, f64, f64); 4];

fn phase(load: &str, half: Half, primes_s: Option<f64>) -> Phase {
    let ns = |seconds: f64| (seconds * 1e9).round() as u64;
    let senders = half.map(|(max_us, mean_us, time_s)| Sender {
        max_ns: Some((max_us * 1e3).round() as u64),
        mean_ns: Some(mean_us * 1e3),
        time_ns: Some(ns(time_s)),
        ..Sender::default()
    });
    Phase {
        load: load.to_owned(),
        senders: senders.to_vec(),
        primes_ns: primes_s.map(ns),
        ..Phase::default()
    }
}

fn run(label: &str, idle: Half, loaded: Half, primes_s: f64) -> Soak {
    Soak {
        label: label.to_owned(),
        rounds: vec![
            phase("none", idle, None),
            phase("primes", loaded, Some(primes_s)),
        ],
        ..Soak::default()
    }
}

#[rustfmt::skip]
fn four_kernels() -> [Soak; 4] {
    [
        run(
            "XanMod 6.1.82",
            [(19_994.25, 6.002, 6.402), (19_994.5, 6.858, 7.297), (19_999.0, 8.487, 8.953), (19_997.75, 8.365, 8.821)],
            [(18_011.5, 13.318, 14.313), (21_249.0, 15.215, 16.047), (17_548.5, 16.204, 16.978), (17_546.25, 15.883, 16.615)],
            15.617,
        ),
        run(
            "XanMod 6.6.22",
            [(19_958.5, 7.063, 7.480), (19_960.5, 8.027, 8.491), (19_968.75, 10.239, 10.772), (19_970.25, 10.074, 10.667)],
            [(20_318.0, 14.041, 15.059), (20_321.0, 15.334, 16.193), (20_336.25, 16.932, 17.655), (20_007.25, 16.639, 17.350)],
            15.648,
        ),
        run(
            "XanMod 6.8.1",
            [(21_114.0, 7.911, 8.356), (21_125.0, 8.868, 9.341), (21_124.0, 10.157, 10.640), (21_117.0, 10.013, 10.475)],
            [(20_035.0, 17.284, 18.156), (20_035.25, 17.735, 18.528), (20_056.25, 18.953, 19.669), (20_035.75, 18.662, 19.362)],
            16.680,
        ),
        run(
            "Clear 6.8.1",
            [(22.5, 7.949, 8.350), (28.75, 8.268, 8.699), (33.25, 10.284, 10.693), (237.5, 10.014, 10.459)],
            [(5_010.5, 17.664, 18.537), (4_012.0, 19.010, 19.830), (3_256.25, 19.698, 20.417), (4_011.25, 19.359, 20.057)],
            21.350,
        ),
    ]
}

#[test]
fn four_kernels_are_a_table_byte_for_byte_as_it_was_made_by_hand() {
    let kernels = four_kernels();
    let runs: Vec<&Soak> = kernels.iter().collect();
    assert_eq!(table(&runs), include_str!("kernels.txt"));
}

#[test]
fn a_run_that_was_ended_early_has_dashes_and_no_phase_that_was_not_begun() {
    let mut soak = four_kernels()[3].clone();
    soak.rounds.truncate(1);
    soak.rounds[0].senders[1] = Sender::default();
    soak.rounds[0].senders.truncate(2);
    assert_eq!(
        table(&[&soak]),
        "                  Terminal 1    Terminal 2    Terminal C\n\
         Linux Kernel     max/avg/time  max/avg/time  count primes\n\
         ---------------  ------------  ------------  ------------\n\
         Clear 6.8.1          22.500us           -\n\
        \x20                     7.949us           -\n\
        \x20  time no load       8.350s            -\n"
    );
}

#[test]
fn a_long_name_stands_on_a_line_of_its_own() {
    let mut soak = four_kernels()[3].clone();
    soak.rounds.truncate(1);
    soak.rounds[0].senders.truncate(1);
    soak.label = "6.18.44-generic-lowlatency".to_owned();
    let text = table(&[&soak]);
    let lines: Vec<&str> = text.lines().skip(3).collect();
    assert_eq!(lines[0], "6.18.44-generic-lowlatency");
    assert_eq!(lines[1], "                     22.500us");
}

#[test]
fn every_repetition_is_a_block() {
    let mut soak = four_kernels()[0].clone();
    let again = soak
        .rounds
        .iter()
        .cloned()
        .map(|phase| Phase { repeat: 1, ..phase });
    let again: Vec<Phase> = again.collect();
    soak.rounds.extend(again);
    let text = table(&[&soak]);
    assert_eq!(text.matches("Linux Kernel").count(), 2);
    assert_eq!(text.matches("Terminal 1").count(), 1);
    assert!(text.contains("\nXanMod 6.1.82 #2  19994.250us"), "{text}");
}

#[test]
fn more_terminals_than_a_page_is_wide_come_below() {
    let mut soak = four_kernels()[0].clone();
    for phase in &mut soak.rounds {
        phase.senders = phase.senders.iter().cycle().take(7).cloned().collect();
    }
    let text = table(&[&soak]);
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    assert!(text.contains("Terminal 5    Terminal C\n"));
    assert!(text.contains("\n                  Terminal 6    Terminal 7\n"));
    assert_eq!(text.matches("15.617s").count(), 1);
}

#[test]
fn what_stands_below_the_table_fits_the_page_and_says_what_was_refused() {
    use crate::moments::Coincidence;
    use crate::report::soak::{KernelLine, Load, Moment, Ratio, Rtt, Setting, SlowSender};

    let mut soak = four_kernels()[0].clone();
    soak.setting = Setting {
        senders: 4,
        pings: 1_000_000,
        payload_bytes: 4,
        address: Some("tcp://127.0.0.1:38211".to_owned()),
        own_receiver: true,
        receiver_sched: "fifo:10".to_owned(),
        receiver_sched_effective: Some("other".to_owned()),
        receiver_sched_refused: Some("fifo:10 is refused: it takes CAP_SYS_NICE".to_owned()),
        ..Setting::default()
    };
    soak.load = Load {
        limit: Some(10_000_000_000),
        primes: Some(455_052_511),
        time_ns: Some(15_617_000_000),
        alone_ns: Some(7_100_000_000),
        threads: 2,
        sched: Some("idle".to_owned()),
    };
    soak.ratios = vec![Ratio {
        figure: "mean".to_owned(),
        ratio: 2.17,
        ratio_low: Some(2.1),
        ratio_high: Some(2.25),
        idle_slices: 28,
        loaded_slices: 60,
    }];
    soak.kernel = KernelLine {
        release: Some("6.1.82".to_owned()),
        autogroup: Some(true),
        ..KernelLine::default()
    };
    for phase in &mut soak.rounds {
        phase.rtt = Rtt {
            count: 4_000_000,
            p50_ns: Some(999_999_900),
            p99_ns: Some(999_999_900),
            p999_ns: Some(999_999_900),
            p9999_ns: Some(999_999_900),
            p99999_ns: None,
            max_ns: Some(999_999_900),
            ..Rtt::default()
        };
        phase.over_1ms = 4_000_000;
        phase.slow = vec![Moment {
            rtt_ns: 19_999_000,
            sent_ns: 17_838_439_000_000,
            at: "2026-11-30T15:43:47.731Z".to_owned(),
            senders: (1..=4)
                .map(|sender| SlowSender {
                    sender,
                    rtt_ns: 19_000_000,
                    sequence: 7,
                    cpu: Some(sender % 2),
                })
                .collect(),
            around: Some(Coincidence {
                over_ms: 100.2,
                interrupts: Some(66),
                softirqs: Some(35_772),
                context_switches: Some(35_796),
                throttled_periods: None,
                steal_ticks: Some(0),
                ..Coincidence::default()
            }),
        }];
    }
    let text = details(&soak);
    for line in text.lines() {
        assert!(line.len() <= 100, "{}: {line}", line.len());
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    for said in [
        "full / no load within this run: mean 2.17 (2.10 to 2.25); medians over slices of one second",
        "primes up to 10000000000: 455052511, on 2 threads as idle; beside the pings 15.617 s",
        "receiver as other at tcp://127.0.0.1:38211 (fifo:10 is refused: it takes CAP_SYS_NICE);",
        "each process in a session of its own",
        "kernel 6.1.82, preemption unknown, HZ unknown,",
        "autogroup on, rt_runtime unknown",
        "15:43:47.731 17838.439 1,2,3,4 1,0,1,0 100 66 35772 35796 - 0",
    ] {
        assert!(words.contains(said), "{said}\n{text}");
    }
}

/// A report may come from anywhere, and its label with it.
#[test]
fn a_label_that_was_read_cannot_write_to_the_terminal() {
    let [mut soak, ..] = four_kernels();
    soak.label = "\u{1b}[31mred\u{7}\n# heading".to_owned();
    let mut report = crate::report::sample::ping_report();
    report.cells.clear();
    report.soak = Some(soak.clone());
    let texts = [
        page(&report),
        report_markdown(&report),
        table_and_details(&[&soak, &soak]),
    ];
    for text in texts {
        assert!(text.contains("?[31mred?"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || (' '..='~').contains(&c)));
    }
}

#[test]
fn a_soak_that_came_to_no_phase_has_its_reason() {
    let mut report = crate::report::sample::ping_report();
    report.cells.clear();
    report.soak = Some(Soak::default());
    report.error = Some("the receiver did not start".to_owned());
    assert_eq!(page(&report), "");
    for text in [
        crate::report::text::page(&report),
        crate::report::text::markdown(&report),
    ] {
        assert!(
            text.contains("Ended early: the receiver did not start"),
            "{text}"
        );
    }
}
