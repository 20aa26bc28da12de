//! NVIDIA Jetson boards: the release of their system, the power mode and the clocks, all from files.
//!
//! `nvpmodel` and `jetson_clocks` print the same, but only where they are installed and sometimes only
//! for root; what they print comes from these files.

use serde::{Deserialize, Serialize};

use super::tree::Tree;

/// What only a Jetson has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jetson {
    /// As the device tree names it.
    pub model: Option<String>,
    /// The first line of `/etc/nv_tegra_release`.
    pub l4t_release: Option<String>,
    /// The number of the power mode in use.
    pub power_mode_id: Option<u32>,
    /// Its name: `MAXN`, `15W`, …
    pub power_mode: Option<String>,
    /// Every clock that may be scaled.
    pub clocks: Vec<ScaledClock>,
}

/// One clock, and within what it is scaled. With `jetson_clocks` both bounds are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaledClock {
    /// `policy0` of cpufreq, or the device of devfreq.
    pub name: String,
    /// Now.
    pub current_hz: Option<u64>,
    /// Lower bound in force.
    pub min_hz: Option<u64>,
    /// Upper bound in force.
    pub max_hz: Option<u64>,
    /// Who scales it.
    pub governor: Option<String>,
}

/// `None` on any other machine.
pub(super) fn jetson(tree: &Tree) -> Option<Jetson> {
    let model = tree
        .word("proc/device-tree/model")
        .or_else(|| tree.word("sys/firmware/devicetree/base/model"));
    let release = tree.word("etc/nv_tegra_release");
    let named = model
        .as_ref()
        .is_some_and(|model| model.contains("Jetson") || model.contains("NVIDIA Orin"));
    if !named && release.is_none() {
        return None;
    }
    let id = power_mode_id(tree);
    let configured = tree.word("etc/nvpmodel.conf").unwrap_or_default();
    Some(Jetson {
        model,
        l4t_release: release.and_then(|text| {
            text.lines()
                .next()
                .map(|line| line.trim_start_matches(['#', ' ']).to_owned())
        }),
        power_mode_id: id,
        power_mode: id.and_then(|id| power_mode(&configured, id)),
        clocks: clocks(tree),
    })
}

/// `pmode:0002 fmode:quiet`, as nvpmodel leaves it.
fn power_mode_id(tree: &Tree) -> Option<u32> {
    let status = tree.word("var/lib/nvpmodel/status")?;
    let words = status.split_whitespace();
    words
        .filter_map(|word| word.strip_prefix("pmode:"))
        .find_map(|id| id.parse().ok())
}

/// `< POWER_MODEL ID=0 NAME=MAXN >`, one for each mode.
fn power_mode(configured: &str, id: u32) -> Option<String> {
    let modes = configured
        .lines()
        .filter_map(|line| line.trim().strip_prefix("< POWER_MODEL "));
    modes.into_iter().find_map(|mode| {
        let value = |key: &str| {
            mode.split_whitespace()
                .find_map(|word| word.strip_prefix(key))
        };
        (value("ID=")?.parse() == Ok(id)).then(|| value("NAME=").map(str::to_owned))?
    })
}

fn clocks(tree: &Tree) -> Vec<ScaledClock> {
    const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";
    const DEVFREQ: &str = "sys/class/devfreq";
    let mut clocks = Vec::new();
    for name in tree.names(CPUFREQ, "policy").unwrap_or_default() {
        let hz = |file: &str| {
            let khz: u64 = tree.number(&format!("{CPUFREQ}/{name}/{file}"))?;
            khz.checked_mul(1_000)
        };
        clocks.push(ScaledClock {
            current_hz: hz("scaling_cur_freq"),
            min_hz: hz("scaling_min_freq"),
            max_hz: hz("scaling_max_freq"),
            governor: tree.word(&format!("{CPUFREQ}/{name}/scaling_governor")),
            name,
        });
    }
    for name in tree.names(DEVFREQ, "").unwrap_or_default() {
        let hz = |file: &str| tree.number(&format!("{DEVFREQ}/{name}/{file}"));
        clocks.push(ScaledClock {
            current_hz: hz("cur_freq"),
            min_hz: hz("min_freq"),
            max_hz: hz("max_freq"),
            governor: tree.word(&format!("{DEVFREQ}/{name}/governor")),
            name,
        });
    }
    clocks
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixture;
    use super::*;

    const MODES: &str = "\
< PARAM TYPE=FILE NAME=CPU_ONLINE >
###
< POWER_MODEL ID=0 NAME=15W >
CPU_ONLINE CORE_0 1
< POWER_MODEL ID=2 NAME=MAXN_SUPER >
< PM_CONFIG DEFAULT=1 >
";

    #[test]
    fn a_jetson_tells_its_release_power_mode_and_clocks() {
        let policy = "sys/devices/system/cpu/cpufreq/policy0";
        let gpu = "sys/class/devfreq/17000000.gpu";
        let file = |folder: &str, name: &str| format!("{folder}/{name}");
        let root = fixture(&[
            (
                "proc/device-tree/model",
                "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super\0",
            ),
            (
                "etc/nv_tegra_release",
                "# R36 (release), REVISION: 5.0, GCID: 43688277, BOARD: generic, EABI: aarch64\n\
                 # KERNEL_VARIANT: oot\n",
            ),
            ("var/lib/nvpmodel/status", "pmode:0002 fmode:quiet\n"),
            ("etc/nvpmodel.conf", MODES),
            (&file(policy, "scaling_cur_freq"), "1728000\n"),
            (&file(policy, "scaling_min_freq"), "1728000\n"),
            (&file(policy, "scaling_max_freq"), "1728000\n"),
            (&file(policy, "scaling_governor"), "schedutil\n"),
            (&file(gpu, "cur_freq"), "306000000\n"),
            (&file(gpu, "max_freq"), "1020000000\n"),
        ]);
        let jetson = jetson(&Tree::new(root.path())).unwrap();
        assert!(jetson.model.unwrap().ends_with("Developer Kit Super"));
        assert!(
            jetson
                .l4t_release
                .unwrap()
                .starts_with("R36 (release), REVISION: 5.0")
        );
        assert_eq!(jetson.power_mode_id, Some(2));
        assert_eq!(jetson.power_mode.as_deref(), Some("MAXN_SUPER"));
        let [cpu, gpu] = &jetson.clocks[..] else {
            panic!("{:?}", jetson.clocks);
        };
        assert_eq!(
            (cpu.min_hz, cpu.max_hz),
            (Some(1_728_000_000), Some(1_728_000_000))
        );
        assert_eq!(
            (gpu.name.as_str(), gpu.current_hz),
            ("17000000.gpu", Some(306_000_000))
        );
        assert_eq!((gpu.min_hz, &gpu.governor), (None, &None));
    }

    #[test]
    fn any_other_board_is_none() {
        let root = fixture(&[("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")]);
        assert_eq!(jetson(&Tree::new(root.path())), None);
        assert_eq!(jetson(&Tree::new(fixture(&[]).path())), None);
    }

    #[test]
    fn a_mode_without_its_name_keeps_its_number() {
        let root = fixture(&[
            ("etc/nv_tegra_release", "# R35\n"),
            ("var/lib/nvpmodel/status", "pmode:0007\n"),
        ]);
        let jetson = jetson(&Tree::new(root.path())).unwrap();
        assert_eq!((jetson.power_mode_id, jetson.power_mode), (Some(7), None));
    }
}
