//! The kernel: release, preemption, mitigations, clock source, the scheduler's knobs.

use std::collections::BTreeMap;

use super::tree::{Tree, fields};
use super::{Clocksource, Kernel, Scheduler};

pub(super) fn kernel(tree: &Tree) -> Kernel {
    let sysctl = |name: &str| tree.word(&format!("proc/sys/kernel/{name}"));
    let release = sysctl("osrelease");
    let version = sysctl("version");
    let command_line = tree.word("proc/cmdline");
    Kernel {
        preemption: preemption(
            tree,
            release.as_deref(),
            version.as_deref(),
            command_line.as_deref(),
        ),
        release,
        version,
        // Linux before 6.1 has no such file; this program was built for the machine it runs on.
        architecture: sysctl("arch").or_else(|| {
            tree.exists("proc/version")
                .then(|| std::env::consts::ARCH.to_owned())
        }),
        boot_options: command_line.as_deref().map(boot_options),
        boot_id: sysctl("random/boot_id"),
    }
}

/// Reports are passed on, and a kernel's command line may hold what should not be: only these words.
fn boot_options(command_line: &str) -> Vec<String> {
    const BEARING: &[&str] = &[
        "amd_pstate",
        "clocksource",
        "cpufreq",
        "cpuidle",
        "haltpoll",
        "idle",
        "intel_idle",
        "intel_pstate",
        "irqaffinity",
        "isolcpus",
        "kthread_cpus",
        "mitigations",
        "nohlt",
        "nohz",
        "nohz_full",
        "nosmt",
        "nowatchdog",
        "preempt",
        "processor",
        "rcu_nocbs",
        "rcu_nocb_poll",
        "rcupdate",
        "skew_tick",
        "spectre_v2",
        "threadirqs",
        "tsc",
    ];
    command_line
        .split_whitespace()
        // What follows is for init, not for the kernel.
        .take_while(|word| *word != "--")
        .filter(|word| {
            let name = word.split(['=', '.']).next().unwrap_or_default();
            BEARING.contains(&name) || name.starts_with("cpuidle_")
        })
        .map(str::to_owned)
        .collect()
}

/// From the surest source to the vaguest. Only root sees the switch of a `PREEMPT_DYNAMIC` kernel; where
/// nothing decides, the choices left open are named.
fn preemption(
    tree: &Tree,
    release: Option<&str>,
    version: Option<&str>,
    command_line: Option<&str>,
) -> Option<String> {
    if tree.switch("sys/kernel/realtime") == Some(true) {
        return Some("rt".to_owned());
    }
    // The chosen one stands in brackets: "none voluntary (full) lazy".
    if let Some(choice) = tree.word("sys/kernel/debug/sched/preempt")
        && let Some((_, rest)) = choice.split_once('(')
        && let Some((chosen, _)) = rest.split_once(')')
    {
        return Some(chosen.to_owned());
    }
    let version = version?;
    if version.contains("PREEMPT_RT") || version.contains("PREEMPT RT") {
        return Some("rt".to_owned());
    }
    if version.contains("PREEMPT_DYNAMIC") {
        let asked = command_line.and_then(|line| {
            line.split_whitespace()
                .rev()
                .find_map(|word| word.strip_prefix("preempt="))
        });
        if let Some(asked) = asked {
            return Some(asked.to_owned());
        }
        return Some(
            built_in(tree, release)
                .unwrap_or("dynamic: none, voluntary, full or lazy")
                .to_owned(),
        );
    }
    if version.contains("PREEMPT_LAZY") {
        return Some("lazy".to_owned());
    }
    if version.contains("PREEMPT") {
        return Some("full".to_owned());
    }
    Some(
        built_in(tree, release)
            .unwrap_or("none or voluntary")
            .to_owned(),
    )
}

/// What the kernel was configured with, where its configuration lies beside it.
fn built_in(tree: &Tree, release: Option<&str>) -> Option<&'static str> {
    let release = release?;
    let config = tree
        .word(&format!("boot/config-{release}"))
        .or_else(|| tree.word(&format!("lib/modules/{release}/config")))?;
    let config = fields(&config, '=');
    [
        ("CONFIG_PREEMPT_NONE", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT", "full"),
    ]
    .into_iter()
    .find(|(key, _)| config.get(key) == Some(&"y"))
    .map(|(_, name)| name)
}

pub(super) fn mitigations(tree: &Tree) -> Option<BTreeMap<String, String>> {
    const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
    let names = tree.names(FOLDER, "")?;
    Some(
        names
            .into_iter()
            .filter_map(|name| Some((name.clone(), tree.word(&format!("{FOLDER}/{name}"))?)))
            .collect(),
    )
}

pub(super) fn clocksource(tree: &Tree) -> Clocksource {
    const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
    Clocksource {
        current: tree.word(&format!("{FOLDER}/current_clocksource")),
        available: tree
            .word(&format!("{FOLDER}/available_clocksource"))
            .map(|names| names.split_whitespace().map(str::to_owned).collect()),
    }
}

pub(super) fn scheduler(tree: &Tree) -> Scheduler {
    Scheduler {
        rt_runtime_us: tree.number("proc/sys/kernel/sched_rt_runtime_us"),
        rt_period_us: tree.number("proc/sys/kernel/sched_rt_period_us"),
        autogroup: tree.switch("proc/sys/kernel/sched_autogroup_enabled"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixture;
    use super::*;

    fn preemption_of(files: &[(&str, &str)]) -> Option<String> {
        let root = fixture(files);
        kernel(&Tree::new(root.path())).preemption
    }

    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.8.1\n");
    const DYNAMIC: (&str, &str) = (
        "proc/sys/kernel/version",
        "#1 SMP PREEMPT_DYNAMIC Mon Mar 18\n",
    );

    #[test]
    fn preemption_is_read_from_the_surest_source() {
        let switch = (
            "sys/kernel/debug/sched/preempt",
            "none voluntary (full) lazy\n",
        );
        assert_eq!(
            preemption_of(&[RELEASE, DYNAMIC, switch]).as_deref(),
            Some("full")
        );
        let line = ("proc/cmdline", "quiet preempt=voluntary preempt=none\n");
        assert_eq!(
            preemption_of(&[RELEASE, DYNAMIC, line]).as_deref(),
            Some("none")
        );
        let config = (
            "boot/config-6.8.1",
            "# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_VOLUNTARY=y\n",
        );
        assert_eq!(
            preemption_of(&[RELEASE, DYNAMIC, config]).as_deref(),
            Some("voluntary")
        );
    }

    #[test]
    fn preemption_of_a_dynamic_kernel_without_a_witness_is_left_open() {
        assert_eq!(
            preemption_of(&[RELEASE, DYNAMIC]).as_deref(),
            Some("dynamic: none, voluntary, full or lazy")
        );
    }

    #[test]
    fn preemption_that_the_version_names_needs_no_other_witness() {
        let version = |text: &'static str| [RELEASE, ("proc/sys/kernel/version", text)];
        assert_eq!(
            preemption_of(&version("#1 SMP PREEMPT_RT Tue")).as_deref(),
            Some("rt")
        );
        assert_eq!(
            preemption_of(&version("#2 SMP PREEMPT Tue")).as_deref(),
            Some("full")
        );
        assert_eq!(
            preemption_of(&version("#3 SMP Tue")).as_deref(),
            Some("none or voluntary")
        );
        assert_eq!(preemption_of(&[]), None);
    }

    #[test]
    fn only_boot_options_that_bear_on_measurements_are_kept() {
        let line =
            "root=UUID=1 password=x isolcpus=2,3 cpuidle_haltpoll.force=1 quiet -- idle=poll\n";
        let root = fixture(&[("proc/cmdline", line)]);
        let options = kernel(&Tree::new(root.path())).boot_options.unwrap();
        assert_eq!(options, ["isolcpus=2,3", "cpuidle_haltpoll.force=1"]);
    }

    #[test]
    fn each_vulnerability_keeps_its_line() {
        let root = fixture(&[
            (
                "sys/devices/system/cpu/vulnerabilities/meltdown",
                "Not affected\n",
            ),
            (
                "sys/devices/system/cpu/vulnerabilities/retbleed",
                "Vulnerable\n",
            ),
        ]);
        let mitigations = mitigations(&Tree::new(root.path())).unwrap();
        assert_eq!(mitigations["retbleed"], "Vulnerable");
        assert_eq!(mitigations["meltdown"], "Not affected");
    }
}
