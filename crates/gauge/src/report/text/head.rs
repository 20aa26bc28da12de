//! The head of the page: what ran when, on which machine, and where its threads sat.

use std::fmt::Write as _;

use super::WIDTH;
use super::ping::peer_line;
use super::section::Section;
use crate::environment::Environment;
use crate::report::{Report, ThreadRecord};

pub(super) fn head(report: &Report) -> Section {
    let mut section = Section::default();
    let mut head = format!("tautline {}, {}", report.version, report.started_at);
    if let Some(label) = &report.label {
        let _ = write!(head, ", {label}");
    }
    section.title(head, "");
    section.lines(machine(&report.environment) + "\n");
    section.words(placement(report), "  ");
    against(&mut section, report);
    section
}

/// The machine in one line: what of it fits, most telling first.
pub(in crate::report) fn machine(environment: &Environment) -> String {
    let unknown = || "unknown".to_owned();
    let cpu = &environment.cpu;
    let cpus = match (cpu.logical, cpu.cores) {
        (Some(logical), Some(cores)) if logical != cores => {
            format!("{logical} CPUs on {cores} cores")
        }
        (Some(1), _) => "1 CPU".to_owned(),
        (Some(logical), _) => format!("{logical} CPUs"),
        (None, _) => "CPUs unknown".to_owned(),
    };
    let kernel = &environment.kernel;
    let mut parts = vec![
        cpu.model.as_ref().map_or_else(
            || "CPU model unknown".to_owned(),
            // The longest in use have some 48; a longer one must not drive out the rest.
            |model| model.chars().take(50).collect(),
        ),
        cpus,
        format!("Linux {}", kernel.release.clone().unwrap_or_else(unknown)),
        match environment.hypervisor.as_deref() {
            Some("none") => "bare metal".to_owned(),
            Some(name) => format!("{name} guest"),
            None => "hypervisor unknown".to_owned(),
        },
        format!(
            "governor {}",
            environment
                .frequency
                .governors
                .as_ref()
                .map_or_else(unknown, |names| names.join("+"))
        ),
        format!(
            "idle {}",
            environment.idle.driver.clone().unwrap_or_else(unknown)
        ),
        format!(
            "clock {}",
            environment
                .clocksource
                .current
                .clone()
                .unwrap_or_else(unknown)
        ),
    ];
    parts.extend(
        environment
            .memory
            .total_bytes
            .map(|bytes| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)),
    );
    let mut line = String::new();
    for part in parts {
        let separator = if line.is_empty() { "" } else { ", " };
        if line.len() + separator.len() + part.len() <= WIDTH {
            line.push_str(separator);
            line.push_str(&part);
        }
    }
    line
}

/// The servers elsewhere that the tables were measured against, and who they are.
fn against(section: &mut Section, report: &Report) {
    let addresses = report.servers_elsewhere();
    let Some(peer) = report.peer.as_ref().filter(|_| !addresses.is_empty()) else {
        return;
    };
    section.words(format!("against {}", addresses.join(" ")), "  ");
    section.words(peer_line(peer, report.same_host), "    ");
}

/// Where the threads ran, as read back, and how the machine was held.
pub(super) fn placement(report: &Report) -> String {
    let placement = &report.placement;
    let mut places: Vec<(String, Vec<&str>)> = Vec::new();
    for thread in &placement.threads {
        let place = place(thread);
        match places.iter_mut().find(|(of, _)| *of == place) {
            Some((_, roles)) => roles.push(&thread.role),
            None => places.push((place, vec![&thread.role])),
        }
    }
    let mut text = format!("placement {}", placement.requested);
    for (place, roles) in places {
        let _ = write!(text, "; {place}: {}", roles.join(" "));
    }
    if placement.stay_awake {
        text.push_str("; kept awake");
    }
    if placement.keep_cpus_busy {
        text.push_str("; CPUs kept busy");
    }
    if let Some(note) = &placement.note {
        let _ = write!(text, "; {note}");
    }
    text
}

/// The CPUs a thread may use, and its scheduler where that is not the usual one.
fn place(thread: &ThreadRecord) -> String {
    let cpus: Vec<String> = thread.cpus_effective.iter().map(usize::to_string).collect();
    let mut place = format!("CPU {}", cpus.join("+"));
    if thread.sched_requested != thread.sched_effective {
        let _ = write!(
            place,
            " as {}, {} refused",
            thread.sched_effective, thread.sched_requested
        );
    } else if thread.sched_effective != "other" {
        let _ = write!(place, " as {}", thread.sched_effective);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::wire::PeerRecord;

    fn against_lines(report: &Report) -> String {
        let mut section = Section::default();
        against(&mut section, report);
        section.render()
    }

    #[test]
    fn a_run_against_a_server_elsewhere_says_where_and_who_that_is() {
        let mut report = sample::report();
        assert_eq!(against_lines(&report), "");
        report.peer = Some(PeerRecord {
            version: "0.1.0".to_owned(),
            host: Some("orin".to_owned()),
            kernel: Some("6.1.0".to_owned()),
            ..PeerRecord::default()
        });
        report.same_host = Some(false);
        for row in &mut report.latency {
            row.address = Some("tcp://10.0.0.5:6001".to_owned());
        }
        for row in &mut report.strategy {
            row.address = Some("uds:///run/x.sock".to_owned());
        }
        assert_eq!(
            against_lines(&report),
            "against tcp://10.0.0.5:6001 uds:///run/x.sock\n  server: another host, tautline 0.1.0, \
             on orin, Linux 6.1.0\n"
        );
    }

    #[test]
    fn the_machine_is_one_line_however_long_its_names() {
        let mut environment = sample::report().environment;
        environment.cpu.model = Some("Z".repeat(200));
        environment.cpu.logical = Some(128);
        environment.cpu.cores = Some(64);
        assert_eq!(
            machine(&environment),
            format!(
                "{}, 128 CPUs on 64 cores, Linux 5.15.185-tegra",
                "Z".repeat(50)
            )
        );
        assert_eq!(
            machine(&Environment::default()),
            "CPU model unknown, CPUs unknown, Linux unknown, hypervisor unknown, governor unknown, \
             idle unknown"
        );
    }
}
