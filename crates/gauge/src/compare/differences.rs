//! What differs between the environments of two sides: what a reader wants to rule out before believing
//! that the product did it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Run;
use crate::report::Report;

/// One thing that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// Every value that A's reports have.
    pub a: Vec<String>,
    /// Every value that B's reports have.
    pub b: Vec<String>,
}

/// Everything that differs; nothing where nothing does.
pub(super) fn between(a: &[Run], b: &[Run]) -> Vec<Difference> {
    let fixed = FACTS.iter().filter_map(|(what, of)| {
        let values = |side: &[Run]| side.iter().map(|run| of(&run.report)).collect();
        difference((*what).to_owned(), values(a), values(b))
    });
    fixed
        .chain(vulnerabilities(a, b))
        .chain(options(a, b))
        .collect()
}

fn difference(what: String, a: BTreeSet<String>, b: BTreeSet<String>) -> Option<Difference> {
    (a != b).then(|| Difference {
        what,
        a: a.into_iter().collect(),
        b: b.into_iter().collect(),
    })
}

/// What a report says about its machine, each as one word or sentence.
type Fact = fn(&Report) -> String;

const FACTS: &[(&str, Fact)] = &[
    ("version", |r| r.version.to_string()),
    ("commit", |r| word(&r.commit)),
    ("kernel", |r| word(&r.environment.kernel.release)),
    ("kernel build", |r| word(&r.environment.kernel.version)),
    ("preemption", |r| word(&r.environment.kernel.preemption)),
    ("boot options", |r| list(&r.environment.kernel.boot_options)),
    ("boot", |r| word(&r.boot_id)),
    ("OS", |r| word(&r.environment.os)),
    ("board", |r| word(&r.environment.board)),
    ("hypervisor", |r| word(&r.environment.hypervisor)),
    ("CPU", |r| word(&r.environment.cpu.model)),
    ("CPUs", |r| word(&r.environment.cpu.logical)),
    ("SMT", |r| word(&r.environment.cpu.smt)),
    ("isolated CPUs", |r| {
        word(
            &r.environment
                .cpu
                .isolated
                .as_ref()
                .map(|cpus| format!("{cpus:?}")),
        )
    }),
    ("frequency driver", |r| {
        list(&r.environment.frequency.drivers)
    }),
    ("governor", |r| list(&r.environment.frequency.governors)),
    ("boost", |r| word(&r.environment.frequency.boost)),
    ("highest frequency in kHz", |r| {
        word(&r.environment.frequency.max_khz)
    }),
    ("idle driver", |r| word(&r.environment.idle.driver)),
    ("idle governor", |r| word(&r.environment.idle.governor)),
    ("idle states", |r| {
        let states = r.environment.idle.states.as_ref();
        list(&states.map(|states| {
            let in_use = states.iter().filter(|state| state.disabled != Some(true));
            in_use.map(|state| state.name.clone()).collect()
        }))
    }),
    ("clock source", |r| word(&r.environment.clocksource.current)),
    ("CPU quota", |r| word(&r.environment.cgroup.quota_cpus)),
    ("real-time share in us", |r| {
        word(&r.environment.scheduler.rt_runtime_us)
    }),
    ("autogroup", |r| word(&r.environment.scheduler.autogroup)),
    ("largest receive buffer", |r| {
        word(&r.environment.sockets.receive_max_bytes)
    }),
    ("largest send buffer", |r| {
        word(&r.environment.sockets.send_max_bytes)
    }),
    ("placement", |r| r.placement.requested.clone()),
    ("CPUs of threads", |r| {
        let places = r.placement.threads.iter();
        let mut places: Vec<String> = places
            .map(|thread| format!("{} {:?}", thread.role, thread.cpus_effective))
            .collect();
        places.sort();
        places.dedup();
        places.join(", ")
    }),
    ("scheduler", |r| {
        let mut scheds: Vec<&str> = r
            .placement
            .threads
            .iter()
            .map(|thread| thread.sched_effective.as_str())
            .collect();
        scheds.sort_unstable();
        scheds.dedup();
        scheds.join(", ")
    }),
    ("kept awake", |r| r.placement.stay_awake.to_string()),
    ("CPUs kept busy", |r| r.placement.keep_cpus_busy.to_string()),
    ("peer", |r| {
        r.peer.as_ref().map_or_else(
            || "none".to_owned(),
            |peer| format!("{} {}", word(&peer.host), word(&peer.kernel)),
        )
    }),
    ("peer's version", |r| {
        r.peer
            .as_ref()
            .map_or_else(|| "none".to_owned(), |peer| peer.version.clone())
    }),
    ("peer's boot", |r| {
        r.peer
            .as_ref()
            .map_or_else(|| "none".to_owned(), |peer| word(&peer.boot_id))
    }),
    ("same host", |r| word(&r.same_host)),
];

fn word<T: ToString>(value: &Option<T>) -> String {
    value
        .as_ref()
        .map_or_else(|| "unknown".to_owned(), ToString::to_string)
}

fn list(values: &Option<Vec<String>>) -> String {
    values
        .as_ref()
        .map_or_else(|| "unknown".to_owned(), |values| values.join(" "))
}

/// Mitigations one by one: of twenty lines one differs.
fn vulnerabilities(a: &[Run], b: &[Run]) -> Vec<Difference> {
    let all: BTreeSet<&String> = a
        .iter()
        .chain(b)
        .filter_map(|run| run.report.environment.mitigations.as_ref())
        .flat_map(|mitigations| mitigations.keys())
        .collect();
    all.into_iter()
        .filter_map(|name| {
            let values = |side: &[Run]| {
                let of = side
                    .iter()
                    .map(|run| run.report.environment.mitigations.as_ref());
                of.map(|all| word(&all.and_then(|all| all.get(name))))
                    .collect()
            };
            difference(format!("mitigation of {name}"), values(a), values(b))
        })
        .collect()
}

/// Options of the command lines, without those that only say where the report goes.
fn options(a: &[Run], b: &[Run]) -> Vec<Difference> {
    let [of_a, of_b] = [a, b].map(|side| -> Vec<Vec<(String, String)>> {
        let lines = side.iter().map(|run| &run.report.command_line);
        lines.map(|line| option_words(line)).collect()
    });
    let names: BTreeSet<&String> = of_a
        .iter()
        .chain(&of_b)
        .flatten()
        .map(|(name, _)| name)
        .collect();
    names
        .into_iter()
        .filter(|name| !OUTPUTS.contains(&name.as_str()))
        .filter_map(|name| {
            let values = |side: &[Vec<(String, String)>]| {
                let of_line = side.iter().map(|line| {
                    let values = line
                        .iter()
                        .filter(|(of, _)| of == name)
                        .map(|(_, value)| value.as_str());
                    let values: Vec<&str> = values.collect();
                    match values.is_empty() {
                        true => "not given".to_owned(),
                        false => values.join(", "),
                    }
                });
                of_line.collect()
            };
            difference(format!("option {name}"), values(&of_a), values(&of_b))
        })
        .collect()
}

/// Each option with the words up to the next one; what stands before the first is the command.
fn option_words(line: &[String]) -> Vec<(String, String)> {
    let mut options = vec![("(command)".to_owned(), String::new())];
    for word in line.iter().skip(1) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, Some(value)),
            _ => (word.as_str(), None),
        };
        if name.starts_with('-') && name.len() > 1 {
            options.push((name.to_owned(), value.unwrap_or("given").to_owned()));
            continue;
        }
        if let Some((_, words)) = options.last_mut() {
            match words.is_empty() || words == "given" {
                true => word.clone_into(words),
                false => *words = format!("{words} {word}"),
            }
        }
    }
    options
}

/// They change nothing that is measured.
const OUTPUTS: &[&str] = &[
    "--json",
    "--csv",
    "--out",
    "--label",
    "--fail-if",
    "--archive",
    "--hdr",
    "--samples",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn run() -> Run {
        Run {
            name: "a".to_owned(),
            report: sample::report(),
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_same_environment_differs_in_nothing() {
        assert_eq!(between(&[run()], &[run(), run()]), []);
    }

    #[test]
    fn what_differs_is_named_with_the_values_of_both_sides() {
        let mut other = run();
        other.report.environment.kernel.release = Some("6.9.0".to_owned());
        other.report.environment.frequency.governors = None;
        other.report.placement.stay_awake = true;
        let found = between(&[run()], &[other]);
        let of = |what: &str, a: &str, b: &str| Difference {
            what: what.to_owned(),
            a: vec![a.to_owned()],
            b: vec![b.to_owned()],
        };
        assert_eq!(
            found,
            [
                of("kernel", "5.15.185-tegra", "6.9.0"),
                of("governor", "schedutil", "unknown"),
                of("kept awake", "false", "true"),
            ]
        );
    }

    #[test]
    fn options_are_compared_and_outputs_are_not() {
        let (mut a, mut b) = (run(), run());
        a.report.command_line = words("tautline bench latency --sizes 64 --json a.json");
        b.report.command_line = words("./new/tautline bench latency --sizes=1Ki --quick --label x");
        let found = between(&[a], &[b]);
        let lines: Vec<String> = found
            .iter()
            .map(|of| format!("{}: {} | {}", of.what, of.a.join(","), of.b.join(",")))
            .collect();
        assert_eq!(
            lines,
            [
                "option --quick: not given | given",
                "option --sizes: 64 | 1Ki"
            ]
        );
    }

    #[test]
    fn a_mitigation_is_compared_by_its_name() {
        let (mut a, mut b) = (run(), run());
        let of = |state: &str| Some([("meltdown".to_owned(), state.to_owned())].into());
        a.report.environment.mitigations = of("Mitigation: PTI");
        b.report.environment.mitigations = of("Vulnerable");
        let found = between(&[a], &[b]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "mitigation of meltdown");
    }
}
