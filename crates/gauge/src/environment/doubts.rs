//! The doubts: what in this machine or this run makes the figures larger, or worth less, than they look.
//!
//! One function a doubt. Each says what was found, how large it is, and one command that removes it or
//! looks further. Thresholds are constants beside the function, with the reason for their size.

use super::{Doubt, Environment, Evidence, Severity};

/// Every doubt about figures made on this machine in this run, gravest first.
#[must_use]
pub fn doubts(environment: &Environment, evidence: &Evidence) -> Vec<Doubt> {
    // Within one severity the order here stands: by how much each usually moves a round trip.
    let mut doubts: Vec<Doubt> = [
        wake_cost(evidence),
        throttled(environment, evidence),
        rt_throttling(environment, evidence),
        steal(evidence),
        other_load(evidence),
        coarse_clock(environment, evidence),
        governor(environment),
        frequency_spread(environment),
        power_mode(environment),
        idle_states(environment),
        smt(environment),
        loopback(evidence),
    ]
    .into_iter()
    .flatten()
    .collect();
    doubts.sort_by_key(|doubt| std::cmp::Reverse(doubt.severity));
    doubts
}

/// Below this the wake-up is lost in the scatter of a loopback round trip.
const WAKE_WORTH_NAMING_NS: f64 = 5_000.0;
/// Other load and a slow hypervisor cost a waking CPU about the same either way.
const HALTING_SHARE: f64 = 0.6;

fn wake_cost(evidence: &Evidence) -> Option<Doubt> {
    let halted = evidence.wake_halted_ns?;
    let awake = evidence.wake_awake_ns;
    let extra = halted - awake.unwrap_or(0.0);
    // Where a CPU that is kept awake takes nearly as long, it is not the halting that takes the time.
    let halting = awake.is_none_or(|awake| awake < halted * HALTING_SHARE);
    if extra < WAKE_WORTH_NAMING_NS || !halting {
        return None;
    }
    let beside = awake.map_or_else(String::new, |ns| {
        format!(", one kept awake {:.1} us", ns / 1e3)
    });
    Some(Doubt {
        code: "wake-cost".into(),
        severity: Severity::Warning,
        message: format!(
            "waking a halted CPU takes {:.1} us here{beside}; a blocking round trip wakes one twice",
            halted / 1e3
        ),
        advice: "tautline bench --quick --stay-awake".to_owned(),
        measured: Some(extra / 1e3),
        unit: Some("us".into()),
    })
}

fn throttled(environment: &Environment, evidence: &Evidence) -> Option<Doubt> {
    let advice = "systemd-run --scope tautline bench --quick".to_owned();
    match evidence.throttled_periods {
        Some(periods) if periods > 0 => Some(Doubt {
            code: "throttled".into(),
            severity: Severity::Invalid,
            message: format!(
                "the CPU quota of this control group stopped the run in {periods} periods: \
                 tails show the quota, not the transport"
            ),
            advice,
            measured: Some(periods as f64),
            unit: Some("periods".into()),
        }),
        // A quota that never bit, as far as anybody could see.
        _ => environment.cgroup.quota_cpus.map(|cpus| Doubt {
            code: "throttled".into(),
            severity: Severity::Note,
            message: format!("this control group may use {cpus:.2} CPUs and is stopped above that"),
            advice,
            measured: Some(cpus),
            unit: Some("CPUs".into()),
        }),
    }
}

fn rt_throttling(environment: &Environment, evidence: &Evidence) -> Option<Doubt> {
    if !evidence.rt_throttling_possible {
        return None;
    }
    let kept = environment
        .scheduler
        .rt_runtime_us
        .zip(environment.scheduler.rt_period_us)
        .map(|(runtime, period)| (period - runtime) as f64 / 1e3);
    let how_long = kept.map_or_else(|| "some time".to_owned(), |ms| format!("{ms:.0} ms"));
    Some(Doubt {
        code: "rt-throttling".into(),
        severity: Severity::Warning,
        message: format!(
            "the kernel keeps {how_long} of each period from real-time threads: under load such a \
             thread is stopped that long"
        ),
        advice: "sudo sysctl -w kernel.sched_rt_runtime_us=-1".to_owned(),
        measured: kept,
        unit: kept.map(|_| "ms".into()),
    })
}

/// One in a thousand ticks stolen moves p99.9; one in a hundred moves p99; one in ten is another machine.
const STEAL_PERCENT: [f64; 3] = [0.1, 1.0, 10.0];

fn steal(evidence: &Evidence) -> Option<Doubt> {
    let (stolen, total) = evidence.steal_ticks.zip(evidence.total_ticks)?;
    if total == 0 {
        return None;
    }
    let percent = stolen as f64 * 100.0 / total as f64;
    Some(Doubt {
        code: "steal".into(),
        severity: graded(percent, STEAL_PERCENT)?,
        message: format!(
            "the hypervisor gave {percent:.1} % of the CPU time of this run to others"
        ),
        advice: "tautline bench --repeats 8".to_owned(),
        measured: Some(percent),
        unit: Some("%".into()),
    })
}

/// Of all CPUs' time. Two measuring threads sleep most of theirs, so the scheduler can route around
/// little; from half the machine on it cannot.
const OTHER_LOAD_PERCENT: [f64; 3] = [2.0, 10.0, 50.0];

fn other_load(evidence: &Evidence) -> Option<Doubt> {
    let percent = evidence.other_load_percent?;
    Some(Doubt {
        code: "other-load".into(),
        severity: graded(percent, OTHER_LOAD_PERCENT)?,
        message: format!("other processes used {percent:.0} % of the CPU time during the run"),
        advice: "top -b -n 1 -o %CPU".to_owned(),
        measured: Some(percent),
        unit: Some("%".into()),
    })
}

/// A step of 100 ns blurs the second digit of the fastest round trips here; one of 10 us is all of them.
const CLOCK_STEP_NS: [f64; 3] = [100.0, 1_000.0, 10_000.0];
/// Read twice an echo: 200 ns is the cost of a clock that needs a system call.
const CLOCK_READ_NS: [f64; 3] = [200.0, 1_000.0, 10_000.0];

fn coarse_clock(environment: &Environment, evidence: &Evidence) -> Option<Doubt> {
    let step = evidence.clock_resolution_ns as f64;
    let severity =
        graded(step, CLOCK_STEP_NS).max(graded(evidence.clock_read_ns, CLOCK_READ_NS))?;
    let clock = &environment.clocksource;
    let current = clock.current.as_deref().unwrap_or("unknown");
    const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
    let faster = clock
        .available
        .iter()
        .flatten()
        .find(|name| ["tsc", "arch_sys_counter"].contains(&name.as_str()) && *name != current);
    Some(Doubt {
        code: "coarse-clock".into(),
        severity,
        message: format!(
            "the clock ({current}) steps by {step:.0} ns and takes {:.0} ns to read",
            evidence.clock_read_ns
        ),
        advice: faster.map_or_else(
            || format!("cat {FOLDER}/available_clocksource"),
            |name| format!("echo {name} | sudo tee {FOLDER}/current_clocksource"),
        ),
        measured: Some(step),
        unit: Some("ns".into()),
    })
}

fn governor(environment: &Environment) -> Option<Doubt> {
    let Some(governors) = &environment.frequency.governors else {
        return Some(Doubt {
            code: "governor".into(),
            severity: Severity::Note,
            message: "the frequency governor is unknown: this kernel shows none".to_owned(),
            advice: "cpupower frequency-info".to_owned(),
            measured: None,
            unit: None,
        });
    };
    if governors.iter().all(|governor| governor == "performance") {
        return None;
    }
    let frequency = &environment.frequency;
    let range = frequency.min_khz.zip(frequency.max_khz);
    let how_far = range.map_or_else(String::new, |(low, high)| {
        format!(
            ", from {:.2} to {:.2} GHz",
            low as f64 / 1e6,
            high as f64 / 1e6
        )
    });
    Some(Doubt {
        code: "governor".into(),
        severity: Severity::Warning,
        message: format!(
            "the frequency governor is {}: the CPU's speed follows the load{how_far}",
            governors.join(" and ")
        ),
        advice: "sudo cpupower frequency-set --governor performance".to_owned(),
        measured: range.map(|(low, high)| (high - low) as f64 / 1e6),
        unit: range.map(|_| "GHz".into()),
    })
}

/// Less than this is turbo's ordinary restlessness.
const FREQUENCY_SPREAD_PERCENT: f64 = 10.0;

fn frequency_spread(environment: &Environment) -> Option<Doubt> {
    let low = environment.frequency.current_low_khz?;
    let high = environment.frequency.current_high_khz?;
    if low == 0 {
        return None;
    }
    let percent = (high as f64 / low as f64 - 1.0) * 100.0;
    (percent > FREQUENCY_SPREAD_PERCENT).then(|| Doubt {
        code: "frequency-spread".into(),
        severity: Severity::Note,
        message: format!(
            "the CPUs ran at {:.2} to {:.2} GHz when this was read",
            low as f64 / 1e6,
            high as f64 / 1e6
        ),
        advice: "sudo cpupower frequency-set --governor performance".to_owned(),
        measured: Some(percent),
        unit: Some("%".into()),
    })
}

/// Every other mode caps clocks or switches cores off.
fn power_mode(environment: &Environment) -> Option<Doubt> {
    let mode = environment.jetson.as_ref()?.power_mode.as_deref()?;
    if mode.starts_with("MAXN") {
        return None;
    }
    Some(Doubt {
        code: "power-mode".into(),
        severity: Severity::Warning,
        message: format!("the board's power mode is {mode}: its clocks and cores are capped"),
        advice: "grep POWER_MODEL /etc/nvpmodel.conf".to_owned(),
        measured: None,
        unit: None,
    })
}

/// From here on leaving an idle state is as long as a round trip between awake CPUs.
const SLOW_EXIT_US: u64 = 10;

/// The driver's own figures; what waking really costs is [`wake_cost`].
fn idle_states(environment: &Environment) -> Option<Doubt> {
    let idle = &environment.idle;
    let note = |message: String, advice: &str, measured: Option<f64>| {
        Some(Doubt {
            code: "idle-states".into(),
            severity: Severity::Note,
            message,
            advice: advice.to_owned(),
            measured,
            unit: measured.map(|_| "us".into()),
        })
    };
    if idle.driver.as_deref() == Some("haltpoll") && idle.guest_halt_poll_ns == Some(0) {
        return note(
            "an idle CPU halts at once: guest_halt_poll_ns is 0".to_owned(),
            "echo 200000 | sudo tee /sys/module/haltpoll/parameters/guest_halt_poll_ns",
            Some(0.0),
        );
    }
    let Some(states) = &idle.states else {
        return note(
            "what an idle CPU does is unknown: this kernel shows no idle states".to_owned(),
            "cpupower idle-info",
            None,
        );
    };
    let deepest = states
        .iter()
        .filter(|state| state.disabled != Some(true))
        .max_by_key(|state| state.exit_latency_us)?;
    let exit_us = deepest.exit_latency_us.filter(|&us| us >= SLOW_EXIT_US)?;
    note(
        format!(
            "an idle CPU may fall into {}, which takes {exit_us} us to leave",
            deepest.name
        ),
        "sudo cpupower idle-set --disable-by-latency 10",
        Some(exit_us as f64),
    )
}

fn smt(environment: &Environment) -> Option<Doubt> {
    let cpu = &environment.cpu;
    if cpu.smt != Some(true) {
        return None;
    }
    let threads = cpu
        .logical
        .zip(cpu.cores)
        .map(|(cpus, cores)| cpus as f64 / cores as f64);
    Some(Doubt {
        code: "smt".into(),
        severity: Severity::Note,
        message: "two CPUs share each core (SMT): a busy neighbour slows a measuring thread"
            .to_owned(),
        advice: "echo off | sudo tee /sys/devices/system/cpu/smt/control".to_owned(),
        measured: threads,
        unit: threads.map(|_| "threads a core".into()),
    })
}

fn loopback(evidence: &Evidence) -> Option<Doubt> {
    evidence.loopback.then(|| Doubt {
        code: "loopback".into(),
        severity: Severity::Note,
        message: "both ends are this machine: no network card and no wire is in these figures"
            .to_owned(),
        advice: "ping -c 100 HOST".to_owned(),
        measured: None,
        unit: None,
    })
}

/// The severity of a measured size, by where note, warning and invalid begin.
fn graded(size: f64, [note, warning, invalid]: [f64; 3]) -> Option<Severity> {
    match size {
        _ if size >= invalid => Some(Severity::Invalid),
        _ if size >= warning => Some(Severity::Warning),
        _ if size >= note => Some(Severity::Note),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::environment::{Cgroup, Cpu, Frequency, Idle, IdleState, Jetson, Scheduler};

    /// A machine and a run without fault.
    fn quiet() -> (Environment, Evidence) {
        let environment = Environment {
            frequency: Frequency {
                governors: Some(vec!["performance".to_owned()]),
                ..Frequency::default()
            },
            idle: Idle {
                states: Some(vec![]),
                ..Idle::default()
            },
            cpu: Cpu {
                smt: Some(false),
                ..Cpu::default()
            },
            ..Environment::default()
        };
        let evidence = Evidence {
            clock_resolution_ns: 1,
            clock_read_ns: 25.0,
            ..Evidence::default()
        };
        (environment, evidence)
    }

    fn codes(environment: &Environment, evidence: &Evidence) -> Vec<(&'static str, Severity)> {
        doubts(environment, evidence)
            .into_iter()
            .map(|doubt| match doubt.code {
                Cow::Borrowed(code) => (code, doubt.severity),
                Cow::Owned(code) => panic!("{code} is no constant"),
            })
            .collect()
    }

    #[test]
    fn a_quiet_machine_leaves_no_doubt() {
        let (environment, evidence) = quiet();
        assert_eq!(doubts(&environment, &evidence), []);
    }

    #[test]
    fn a_power_mode_that_is_not_the_most_is_named() {
        let (mut environment, evidence) = quiet();
        let board = |mode: &str| Jetson {
            power_mode: Some(mode.to_owned()),
            ..Jetson::default()
        };
        environment.jetson = Some(board("MAXN_SUPER"));
        assert_eq!(doubts(&environment, &evidence), []);
        environment.jetson = Some(board("15W"));
        let found = codes(&environment, &evidence);
        assert_eq!(found, [("power-mode", Severity::Warning)]);
    }

    #[test]
    fn the_cost_of_waking_is_named_with_both_figures() {
        let (environment, mut evidence) = quiet();
        evidence.wake_halted_ns = Some(41_200.0);
        evidence.wake_awake_ns = Some(3_100.0);
        let doubt = &doubts(&environment, &evidence)[0];
        assert_eq!(doubt.code, "wake-cost");
        assert_eq!(
            doubt.message,
            "waking a halted CPU takes 41.2 us here, one kept awake 3.1 us; a blocking round trip \
             wakes one twice"
        );
        assert_eq!(
            (doubt.measured, doubt.unit.as_deref()),
            (Some(38.1), Some("us"))
        );
        evidence.wake_halted_ns = Some(3_200.0);
        assert_eq!(codes(&environment, &evidence), []);
    }

    #[test]
    fn a_run_that_was_throttled_is_invalid_and_a_quota_alone_is_a_note() {
        let (mut environment, mut evidence) = quiet();
        environment.cgroup = Cgroup {
            quota_cpus: Some(0.5),
            ..Cgroup::default()
        };
        assert_eq!(
            codes(&environment, &evidence),
            [("throttled", Severity::Note)]
        );
        evidence.throttled_periods = Some(3);
        assert_eq!(
            codes(&environment, &evidence),
            [("throttled", Severity::Invalid)]
        );
    }

    #[test]
    fn what_the_kernel_keeps_from_real_time_threads_is_said_in_milliseconds() {
        let (mut environment, mut evidence) = quiet();
        evidence.rt_throttling_possible = true;
        environment.scheduler = Scheduler {
            rt_runtime_us: Some(950_000),
            rt_period_us: Some(1_000_000),
            autogroup: None,
        };
        let doubt = &doubts(&environment, &evidence)[0];
        assert_eq!(
            (&*doubt.code, doubt.measured),
            ("rt-throttling", Some(50.0))
        );
    }

    #[test]
    fn steal_and_other_load_are_graded_by_size() {
        let (environment, mut evidence) = quiet();
        evidence.total_ticks = Some(1_000);
        for (stolen, expected) in [
            (0, vec![]),
            (1, vec![("steal", Severity::Note)]),
            (10, vec![("steal", Severity::Warning)]),
            (100, vec![("steal", Severity::Invalid)]),
        ] {
            evidence.steal_ticks = Some(stolen);
            assert_eq!(codes(&environment, &evidence), expected);
        }
        evidence.steal_ticks = None;
        evidence.other_load_percent = Some(12.0);
        assert_eq!(
            codes(&environment, &evidence),
            [("other-load", Severity::Warning)]
        );
    }

    #[test]
    fn a_coarse_clock_names_the_faster_one() {
        let (mut environment, mut evidence) = quiet();
        environment.clocksource.current = Some("hpet".to_owned());
        environment.clocksource.available = Some(vec![
            "hpet".to_owned(),
            "tsc".to_owned(),
            "acpi_pm".to_owned(),
        ]);
        evidence.clock_read_ns = 1_200.0;
        let doubt = &doubts(&environment, &evidence)[0];
        assert_eq!(
            (&*doubt.code, doubt.severity),
            ("coarse-clock", Severity::Warning)
        );
        assert_eq!(
            doubt.advice,
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
        );
    }

    #[test]
    fn an_unknown_governor_is_doubted_as_unknown() {
        let (mut environment, evidence) = quiet();
        environment.frequency.governors = None;
        let doubt = &doubts(&environment, &evidence)[0];
        assert_eq!(
            (&*doubt.code, doubt.severity, doubt.measured),
            ("governor", Severity::Note, None)
        );
        environment.frequency.governors = Some(vec!["schedutil".to_owned()]);
        assert_eq!(
            codes(&environment, &evidence),
            [("governor", Severity::Warning)]
        );
    }

    #[test]
    fn a_disabled_idle_state_is_no_doubt() {
        let (mut environment, evidence) = quiet();
        let state = |disabled| IdleState {
            name: "C6".to_owned(),
            exit_latency_us: Some(133),
            disabled: Some(disabled),
        };
        environment.idle.states = Some(vec![state(true)]);
        assert_eq!(codes(&environment, &evidence), []);
        environment.idle.states = Some(vec![state(false)]);
        assert_eq!(
            codes(&environment, &evidence),
            [("idle-states", Severity::Note)]
        );
        environment.idle.states = None;
        assert_eq!(
            codes(&environment, &evidence),
            [("idle-states", Severity::Note)]
        );
    }

    #[test]
    fn the_gravest_doubt_comes_first() {
        let (mut environment, mut evidence) = quiet();
        evidence.loopback = true;
        environment.cpu.smt = Some(true);
        evidence.other_load_percent = Some(60.0);
        evidence.wake_halted_ns = Some(50_000.0);
        assert_eq!(
            codes(&environment, &evidence),
            [
                ("other-load", Severity::Invalid),
                ("wake-cost", Severity::Warning),
                ("smt", Severity::Note),
                ("loopback", Severity::Note),
            ]
        );
    }
}
