//! The machine in full: every fact in groups, then every doubt with the command that removes it or looks
//! further. What could not be read is `unknown`.

mod around;

use std::fmt::Write as _;

use self::around::{control_group, jetson_board, routes, sockets, temperatures};
use super::lines::{ascii, wrapped};
use super::{doubt_line, head, words};
use crate::bundle::Hardware;
use crate::environment::{Cache, Environment, Frequency, IdleState};
use crate::report::Report;

/// The whole page.
#[must_use]
pub fn render(report: &Report, hardware: &Hardware) -> String {
    let environment = &hardware.environment;
    let mut page = Page {
        text: format!("tautline {}, {}\n", report.version, report.started_at),
    };
    system(&mut page, environment);
    processor(&mut page, environment);
    power(&mut page, environment);
    kernel(&mut page, environment);
    control_group(&mut page, hardware);
    sockets(&mut page, environment);
    routes(&mut page, &hardware.routes);
    temperatures(&mut page, hardware);
    if let Some(jetson) = &environment.jetson {
        jetson_board(&mut page, jetson);
    }
    placement(&mut page, report);
    measured(&mut page, report);
    build(&mut page, hardware);
    page.text.push('\n');
    page.text.push_str(&doubts(report));
    ascii(&page.text)
}

/// Groups of facts, each a name and a value.
#[derive(Debug)]
struct Page {
    text: String,
}

impl Page {
    fn group(&mut self, name: &str) {
        let _ = writeln!(self.text, "\n{name}");
    }

    fn fact(&mut self, name: &str, value: Option<impl ToString>) {
        let value = value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        let line = format!("  {name}: {value}");
        self.text.push_str(&wrapped(&line, "      "));
    }
}

fn system(page: &mut Page, environment: &Environment) {
    page.group("System");
    page.fact("os", environment.os.as_ref());
    page.fact("board", environment.board.as_ref());
    page.fact("hypervisor", environment.hypervisor.as_ref());
    let kernel = &environment.kernel;
    page.fact("kernel", kernel.release.as_ref());
    page.fact("kernel version", kernel.version.as_ref());
    page.fact("architecture", kernel.architecture.as_ref());
    page.fact("boot id", kernel.boot_id.as_ref());
    page.fact("memory", environment.memory.total_bytes.map(bytes));
    page.fact(
        "memory available",
        environment.memory.available_bytes.map(bytes),
    );
    page.fact("swap in use", environment.memory.swap_used_bytes.map(bytes));
}

fn processor(page: &mut Page, environment: &Environment) {
    let cpu = &environment.cpu;
    page.group("Processor");
    page.fact("model", cpu.model.as_ref());
    page.fact("logical CPUs", cpu.logical);
    page.fact("physical cores", cpu.cores);
    page.fact("packages", cpu.packages);
    page.fact("two CPUs a core (SMT)", cpu.smt.map(yes));
    page.fact("isolated CPUs", cpu.isolated.as_deref().map(listed));
    let caches: Vec<String> = cpu.caches.iter().map(cache).collect();
    page.fact("caches", (!caches.is_empty()).then(|| caches.join(", ")));
    page.fact(
        "mitigations",
        environment.mitigations.as_ref().map(|all| {
            let in_effect = all.values().filter(|how| how.starts_with("Mitigation"));
            let open = all.values().filter(|how| how.starts_with("Vulnerable"));
            let (in_effect, open) = (in_effect.count(), open.count());
            format!("{in_effect} in effect, {open} left open, of {}", all.len())
        }),
    );
    for (name, how) in environment.mitigations.iter().flatten() {
        if !how.starts_with("Not affected") {
            page.fact(&format!("  {name}"), Some(how));
        }
    }
}

fn power(page: &mut Page, environment: &Environment) {
    let (frequency, idle) = (&environment.frequency, &environment.idle);
    page.group("Frequency and idle states");
    page.fact("driver", frequency.drivers.as_deref().map(words));
    page.fact("governor", frequency.governors.as_deref().map(words));
    page.fact("range", range(frequency.min_khz, frequency.max_khz));
    page.fact("current", current(frequency));
    page.fact("boost", frequency.boost.map(yes));
    page.fact("idle driver", idle.driver.as_ref());
    page.fact("idle governor", idle.governor.as_ref());
    if let Some(poll_ns) = idle.guest_halt_poll_ns {
        page.fact(
            "a guest polls before it halts",
            Some(format!("{poll_ns} ns")),
        );
    }
    let states = idle.states.as_ref().map(|states| {
        let state = |state: &IdleState| {
            let exit = state.exit_latency_us;
            let exit = exit.map_or_else(|| "unknown".to_owned(), |us| format!("{us} us"));
            let off = if state.disabled == Some(true) {
                ", off"
            } else {
                ""
            };
            format!("{} ({exit}{off})", state.name)
        };
        let states: Vec<String> = states.iter().map(state).collect();
        words(&states)
    });
    page.fact("idle states, and to leave each", states);
}

fn kernel(page: &mut Page, environment: &Environment) {
    let kernel = &environment.kernel;
    page.group("Kernel");
    page.fact("preemption", kernel.preemption.as_ref());
    page.fact(
        "boot options that bear on measurements",
        kernel.boot_options.as_deref().map(words),
    );
    let clock = &environment.clocksource;
    page.fact("clocksource", clock.current.as_ref());
    page.fact(
        "clocksources available",
        clock.available.as_deref().map(words),
    );
    let scheduler = &environment.scheduler;
    let share = scheduler.rt_runtime_us.zip(scheduler.rt_period_us);
    page.fact(
        "real-time threads may use",
        share.map(|(runtime, period)| match runtime {
            -1 => "all of each period".to_owned(),
            _ => format!("{runtime} us of each {period} us"),
        }),
    );
    page.fact("autogroup", scheduler.autogroup.map(yes));
    let load = &environment.load;
    let averages = [load.average_1m, load.average_5m, load.average_15m];
    let averages: Option<Vec<String>> = averages
        .iter()
        .map(|load| load.map(|load| format!("{load:.2}")))
        .collect();
    page.fact("load over 1, 5, 15 min", averages.map(|all| all.join(" ")));
    let steal = load.steal_percent;
    page.fact(
        "stolen since boot",
        steal.map(|percent| format!("{percent:.2} %")),
    );
}

fn placement(page: &mut Page, report: &Report) {
    if report.placement.threads.is_empty() {
        return;
    }
    page.group("Threads");
    page.fact("asked and had", Some(head::placement(report)));
}

fn measured(page: &mut Page, report: &Report) {
    let evidence = &report.evidence;
    page.group("Measured");
    page.fact(
        "clock",
        Some(format!(
            "{} steps by {} ns, {:.0} ns to read",
            report.clock.name, report.clock.resolution_ns, report.clock.read_ns
        )),
    );
    let us = |ns: f64| format!("{:.1} us", ns / 1e3);
    page.fact("to wake a halted CPU", evidence.wake_halted_ns.map(us));
    page.fact("to wake one kept awake", evidence.wake_awake_ns.map(us));
    let load = evidence.other_load_percent;
    page.fact(
        "used by others",
        load.map(|percent| format!("{percent:.1} % of all CPUs")),
    );
    let stolen = evidence.steal_ticks.zip(evidence.total_ticks);
    page.fact(
        "ticks stolen",
        stolen.map(|(stolen, all)| format!("{stolen} of {all}")),
    );
    page.fact("periods stopped by the quota", evidence.throttled_periods);
}

fn build(page: &mut Page, hardware: &Hardware) {
    let build = &hardware.build;
    page.group("Program");
    page.fact("compiler", Some(&build.compiler));
    page.fact(
        "built as",
        Some(format!("{}, opt-level {}", build.profile, build.opt_level)),
    );
    page.fact("target", Some(&build.target));
    let modified = match build.modified {
        Some(true) => ", with changes",
        Some(false) | None => "",
    };
    page.fact("commit", Some(format!("{}{modified}", build.commit)));
}

/// All of them: whoever reads this page has asked.
fn doubts(report: &Report) -> String {
    if report.warnings.is_empty() {
        return "No doubts.\n".to_owned();
    }
    let mut section = "Doubts, gravest first:\n".to_owned();
    for doubt in &report.warnings {
        section.push_str(&wrapped(&doubt_line(doubt), "    "));
    }
    section
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn bytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

fn listed(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    words(&cpus)
}

fn cache(cache: &Cache) -> String {
    let Cache {
        level,
        kind,
        size_bytes,
        instances,
    } = cache;
    let kib = size_bytes / 1024;
    format!("{instances}x L{level} {} {kib} KiB", kind.to_lowercase())
}

fn range(low_khz: Option<u64>, high_khz: Option<u64>) -> Option<String> {
    let (low, high) = low_khz.zip(high_khz)?;
    Some(format!(
        "{:.2} to {:.2} GHz",
        low as f64 / 1e6,
        high as f64 / 1e6
    ))
}

fn current(frequency: &Frequency) -> Option<String> {
    range(frequency.current_low_khz, frequency.current_high_khz)
}

#[cfg(test)]
mod tests;
