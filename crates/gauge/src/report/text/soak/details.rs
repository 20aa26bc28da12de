//! What stands below the table: all senders merged, loaded over idle, the count, the timers, the slowest
//! moments, the kernel.

use std::fmt::Write as _;

use super::super::figures::{micros, optional, ratio};
use super::super::section::{self, Section};
use super::super::table::{Column, Table};
use super::super::wakeup;
use crate::report::soak::{KernelLine, Moment, Phase, Soak};
use crate::report::wakeup::WakeupRow;

/// Everything of a run that its table does not hold.
#[must_use]
pub fn details(soak: &Soak) -> String {
    section::page(&sections(soak))
}

pub(in super::super) fn sections(soak: &Soak) -> Vec<Section> {
    vec![
        merged(soak),
        words(ratios(soak)),
        words(count(soak)),
        timers(soak),
        moments(soak),
        words(traced(soak)),
        words(processes(soak)),
        words(Some(kernel(&soak.kernel))),
    ]
}

fn words(line: Option<String>) -> Section {
    let mut section = Section::default();
    if let Some(line) = line {
        section.words(line, "  ");
    }
    section
}

/// Whether a ping stopped the kernel's trace, where that was asked for, and which.
fn traced(soak: &Soak) -> Option<String> {
    let over = micros(Some(soak.setting.trace_over_ns?));
    for phase in &soak.rounds {
        for (at, sender) in phase.senders.iter().enumerate() {
            if let Some(sequence) = sender.traced_sequence {
                return Some(format!(
                    "trace stopped by ping {sequence} of terminal {}, {}, which took longer than {over} us; \
                     it is marked there, in trace below tracefs",
                    at + 1,
                    phase_name(soak, phase)
                ));
            }
        }
    }
    Some(format!(
        "trace not stopped: no ping took longer than {over} us"
    ))
}

fn merged(soak: &Soak) -> Section {
    let mut section = Section::default();
    let mut table = Table::new(&[
        Column::word("all senders", ""),
        Column::figure("n", ""),
        Column::figure("p50", "us"),
        Column::figure("p99", "us"),
        Column::figure("p99.9", "us"),
        Column::figure("p99.99", "us"),
        Column::figure("p99.999", "us"),
        Column::figure("max", "us"),
        Column::figure(">1", "ms"),
        Column::figure(">5", "ms"),
        Column::figure(">10", "ms"),
        Column::figure(">20", "ms"),
    ]);
    for phase in &soak.rounds {
        let rtt = &phase.rtt;
        table.row(vec![
            phase_name(soak, phase),
            rtt.count.to_string(),
            micros(rtt.p50_ns),
            micros(rtt.p99_ns),
            micros(rtt.p999_ns),
            micros(rtt.p9999_ns),
            micros(rtt.p99999_ns),
            micros(rtt.max_ns),
            phase.over_1ms.to_string(),
            phase.over_5ms.to_string(),
            phase.over_10ms.to_string(),
            phase.over_20ms.to_string(),
        ]);
    }
    if soak.rounds.is_empty() {
        return section;
    }
    section.table(table);
    for phase in &soak.rounds {
        for (index, sender) in phase.senders.iter().enumerate() {
            if let Some(error) = &sender.error {
                let line = format!(
                    "{}, terminal {}: {error}",
                    phase_name(soak, phase),
                    index + 1
                );
                section.words(line, "  ");
            }
        }
    }
    section
}

fn phase_name(soak: &Soak, phase: &Phase) -> String {
    let name = if phase.load == "none" {
        "no load"
    } else {
        "full load"
    };
    match soak.setting.repeats {
        0 | 1 => name.to_owned(),
        _ => format!("{name} #{}", phase.repeat + 1),
    }
}

fn ratios(soak: &Soak) -> Option<String> {
    let first = soak.ratios.first()?;
    let each = soak.ratios.iter().map(|found| {
        let interval = match found.ratio_low.zip(found.ratio_high) {
            Some((low, high)) => format!(" ({} to {})", ratio(low), ratio(high)),
            None => " (too few slices for an interval)".to_owned(),
        };
        format!("{} {}{interval}", found.figure, ratio(found.ratio))
    });
    let each: Vec<String> = each.collect();
    Some(format!(
        "full / no load within this run: {}; medians over slices of one second of one sender, {} \
         without load and {} under it",
        each.join(", "),
        first.idle_slices,
        first.loaded_slices
    ))
}

fn count(soak: &Soak) -> Option<String> {
    let load = &soak.load;
    let limit = load.limit?;
    let seconds = |ns: Option<u64>| optional(ns, |ns| format!("{:.3} s", ns as f64 / 1e9));
    Some(format!(
        "count of primes up to {limit}: {}, on {} threads as {}; beside the pings {}, the same count \
         alone {}",
        optional(load.primes, |primes| primes.to_string()),
        load.threads,
        load.sched.as_deref().unwrap_or("unknown"),
        seconds(load.time_ns),
        seconds(load.alone_ns)
    ))
}

fn timers(soak: &Soak) -> Section {
    let of = |name: &str, rows: &[WakeupRow]| {
        if rows.is_empty() {
            return String::new();
        }
        let refused = rows
            .iter()
            .find(|row| row.sched_requested != row.sched_effective);
        let as_what = refused.map_or_else(String::new, |row| {
            format!(
                " as {}, {} refused",
                row.sched_effective, row.sched_requested
            )
        });
        format!(
            "wakeup before {name}, us{as_what}:\n{}",
            wakeup::lines(rows)
        )
    };
    let lines = of("no load", &soak.wakeup.idle) + &of("full load", &soak.wakeup.loaded);
    let mut section = Section::default();
    if !lines.is_empty() {
        section.lines(lines);
    }
    section
}

/// Of all phases, slowest first.
fn moments(soak: &Soak) -> Section {
    let mut section = Section::default();
    let mut slow: Vec<(&Phase, &Moment)> = soak
        .rounds
        .iter()
        .flat_map(|phase| phase.slow.iter().map(move |moment| (phase, moment)))
        .collect();
    slow.sort_by_key(|(_, moment)| std::cmp::Reverse(moment.rtt_ns));
    slow.truncate(SHOWN);
    if slow.is_empty() {
        return section;
    }
    let mut table = Table::new(&[
        Column::figure("slowest", "us"),
        Column::word("load", ""),
        Column::word("UTC", ""),
        Column::figure("monotonic", "s"),
        Column::word("terminals", ""),
        Column::word("CPU", ""),
        Column::figure("within", "ms"),
        Column::figure("inter-", "rupts"),
        Column::figure("soft-", "irqs"),
        Column::figure("swit-", "ches"),
        Column::figure("thrott-", "led"),
        Column::figure("steal", "ticks"),
    ]);
    for (phase, moment) in slow {
        let around = moment.around.clone().unwrap_or_default();
        let number = |value: Option<u64>| optional(value, |value| value.to_string());
        let senders = |of: fn(&crate::report::soak::SlowSender) -> String| {
            let mut each: Vec<String> = moment.senders.iter().map(of).collect();
            each.dedup();
            each.join(",")
        };
        // The date stands in the head of the report.
        let time = moment
            .at
            .split_once('T')
            .map_or(moment.at.as_str(), |(_, time)| time);
        table.row(vec![
            micros(Some(moment.rtt_ns)),
            if phase.load == "none" { "no" } else { "full" }.to_owned(),
            time.trim_end_matches('Z').to_owned(),
            format!("{:.3}", moment.sent_ns as f64 / 1e9),
            senders(|sender| sender.sender.to_string()),
            senders(|sender| optional(sender.cpu, |cpu| cpu.to_string())),
            optional(moment.around.as_ref(), |around| {
                format!("{:.0}", around.over_ms)
            }),
            number(around.interrupts),
            number(around.softirqs),
            number(around.context_switches),
            number(around.throttled_periods),
            number(around.steal_ticks),
        ]);
    }
    section.table(table);
    section
}

fn processes(soak: &Soak) -> Option<String> {
    let setting = &soak.setting;
    let mut line = String::new();
    match (&setting.address, setting.own_receiver) {
        (Some(address), true) => {
            let effective = setting
                .receiver_sched_effective
                .as_deref()
                .unwrap_or("unknown");
            let _ = write!(line, "receiver as {effective} at {address}");
        }
        (Some(address), false) => {
            let _ = write!(line, "receiver not ours, at {address}");
        }
        (None, _) => return None,
    }
    if let Some(refused) = &setting.receiver_sched_refused {
        let _ = write!(line, " ({refused})");
    }
    let _ = write!(
        line,
        "; {} senders, {} pings each of {} B",
        setting.senders, setting.pings, setting.payload_bytes
    );
    line.push_str(if setting.one_session {
        "; all processes in one session"
    } else {
        "; each process in a session of its own"
    });
    Some(line)
}

/// One line for the kernel.
pub(super) fn kernel(kernel: &KernelLine) -> String {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "kernel {}, preemption {}, HZ {}, governor {}, idle {}, mitigations {}, autogroup {}, \
         rt_runtime {}",
        or_unknown(&kernel.release),
        or_unknown(&kernel.preemption),
        or_unknown(&kernel.hz),
        or_unknown(&kernel.governor),
        or_unknown(&kernel.idle),
        or_unknown(&kernel.mitigations),
        match kernel.autogroup {
            Some(true) => "on",
            Some(false) => "off",
            None => "unknown",
        },
        kernel
            .rt_runtime_us
            .map_or_else(|| "unknown".to_owned(), |us| format!("{us} us")),
    )
}

const SHOWN: usize = 20;
