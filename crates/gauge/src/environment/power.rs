//! Frequency and idle states: what the kernel does with a CPU to save power.

use std::collections::BTreeSet;

use super::tree::Tree;
use super::{Frequency, Idle, IdleState};

const CPUS: &str = "sys/devices/system/cpu";

/// Over all frequency domains. A guest has the folder but no domain in it: then nothing is known.
pub(super) fn frequency(tree: &Tree) -> Frequency {
    let policies = tree
        .names(&format!("{CPUS}/cpufreq"), "policy")
        .unwrap_or_default();
    let words = |file: &str| {
        let found: BTreeSet<String> = policies
            .iter()
            .filter_map(|policy| tree.word(&format!("{CPUS}/cpufreq/{policy}/{file}")))
            .collect();
        (!found.is_empty()).then(|| found.into_iter().collect())
    };
    let numbers = |file: &str| -> Vec<u64> {
        policies
            .iter()
            .filter_map(|policy| tree.number(&format!("{CPUS}/cpufreq/{policy}/{file}")))
            .collect()
    };
    let current = numbers("scaling_cur_freq");
    Frequency {
        drivers: words("scaling_driver"),
        governors: words("scaling_governor"),
        min_khz: numbers("cpuinfo_min_freq").into_iter().min(),
        max_khz: numbers("cpuinfo_max_freq").into_iter().max(),
        current_low_khz: current.iter().copied().min(),
        current_high_khz: current.into_iter().max(),
        boost: tree
            .switch(&format!("{CPUS}/intel_pstate/no_turbo"))
            .map(|off| !off)
            .or_else(|| tree.switch(&format!("{CPUS}/cpufreq/boost"))),
    }
}

pub(super) fn idle(tree: &Tree) -> Idle {
    let word = |file: &str| tree.word(&format!("{CPUS}/cpuidle/{file}"));
    Idle {
        driver: word("current_driver"),
        governor: word("current_governor").or_else(|| word("current_governor_ro")),
        guest_halt_poll_ns: tree.number("sys/module/haltpoll/parameters/guest_halt_poll_ns"),
        states: tree
            .names(&format!("{CPUS}/cpu0/cpuidle"), "state")
            .map(|states| {
                states
                    .iter()
                    .filter_map(|state| idle_state(tree, state))
                    .collect()
            }),
    }
}

fn idle_state(tree: &Tree, state: &str) -> Option<IdleState> {
    let folder = format!("{CPUS}/cpu0/cpuidle/{state}");
    Some(IdleState {
        name: tree.word(&format!("{folder}/name"))?,
        exit_latency_us: tree.number(&format!("{folder}/latency")),
        disabled: tree.switch(&format!("{folder}/disable")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixture;
    use super::*;

    #[test]
    fn governors_and_the_spread_of_frequencies_cover_all_domains() {
        let root = fixture(&[
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                "schedutil\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_driver",
                "tegra194\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_min_freq",
                "115200\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq",
                "1728000\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq",
                "729600\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy4/scaling_governor",
                "performance\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy4/scaling_driver",
                "tegra194\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy4/scaling_cur_freq",
                "1728000\n",
            ),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ]);
        let frequency = frequency(&Tree::new(root.path()));
        assert_eq!(frequency.drivers, Some(vec!["tegra194".to_owned()]));
        assert_eq!(
            frequency.governors,
            Some(vec!["performance".to_owned(), "schedutil".to_owned()])
        );
        assert_eq!(
            (frequency.min_khz, frequency.max_khz),
            (Some(115_200), Some(1_728_000))
        );
        assert_eq!(frequency.current_low_khz, Some(729_600));
        assert_eq!(frequency.current_high_khz, Some(1_728_000));
        assert_eq!(frequency.boost, Some(false));
    }

    #[test]
    fn a_guest_without_frequency_domains_has_an_unknown_governor() {
        let root = fixture(&[("sys/devices/system/cpu/cpufreq/unrelated", "")]);
        assert_eq!(frequency(&Tree::new(root.path())), Frequency::default());
    }

    #[test]
    fn idle_states_come_in_their_order() {
        let root = fixture(&[
            (
                "sys/devices/system/cpu/cpuidle/current_driver",
                "intel_idle\n",
            ),
            (
                "sys/devices/system/cpu/cpuidle/current_governor_ro",
                "menu\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state10/name", "C10\n"),
            (
                "sys/devices/system/cpu/cpu0/cpuidle/state10/latency",
                "890\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state10/disable", "1\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C2\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "10\n"),
        ]);
        let idle = idle(&Tree::new(root.path()));
        assert_eq!(idle.driver.as_deref(), Some("intel_idle"));
        assert_eq!(idle.governor.as_deref(), Some("menu"));
        let states = idle.states.unwrap();
        assert_eq!(states[0].name, "C2");
        assert_eq!(states[0].disabled, None);
        assert_eq!(states[1].exit_latency_us, Some(890));
        assert_eq!(states[1].disabled, Some(true));
    }

    #[test]
    fn without_the_folder_idle_states_are_unknown_not_empty() {
        let root = fixture(&[]);
        assert_eq!(idle(&Tree::new(root.path())).states, None);
    }
}
