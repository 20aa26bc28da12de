//! What surrounds the processor: system, board, hypervisor, memory, load, socket buffers.

use super::tree::{Tree, fields};
use super::{Load, Memory, SocketBuffers, ThermalZone};

pub(super) fn os(tree: &Tree) -> Option<String> {
    let text = tree
        .word("etc/os-release")
        .or_else(|| tree.word("usr/lib/os-release"))?;
    fields(&text, '=')
        .get("PRETTY_NAME")
        .map(|name| name.trim_matches(['"', '\'']).to_owned())
}

pub(super) fn board(tree: &Tree) -> Option<String> {
    tree.word("proc/device-tree/model")
        .or_else(|| tree.word("sys/firmware/devicetree/base/model"))
        .or_else(|| {
            let vendor = tree.word("sys/class/dmi/id/sys_vendor")?;
            Some(format!(
                "{vendor} {}",
                tree.word("sys/class/dmi/id/product_name")?
            ))
        })
}

/// The kernel has no one file for it, so several witnesses are heard. On x86 the CPU's own `hypervisor`
/// flag decides between some and none; ARM has no such flag, and without a witness it is unknown.
pub(super) fn hypervisor(tree: &Tree) -> Option<String> {
    if let Some(kind) = tree.word("sys/hypervisor/type") {
        return Some(kind);
    }
    let flagged = tree.word("proc/cpuinfo").and_then(|text| {
        let fields = fields(&text, ':');
        Some(
            fields
                .get("flags")?
                .split_whitespace()
                .any(|flag| flag == "hypervisor"),
        )
    });
    if flagged == Some(false) {
        return Some("none".to_owned());
    }
    let named = by_firmware(tree).or_else(|| by_clock(tree));
    match (named, flagged) {
        (Some(name), _) => Some(name.to_owned()),
        (None, Some(true)) => Some("unnamed hypervisor".to_owned()),
        (None, _) => None,
    }
}

fn by_firmware(tree: &Tree) -> Option<&'static str> {
    const NAMES: &[(&str, &str)] = &[
        ("qemu", "kvm"),
        ("kvm", "kvm"),
        ("amazon ec2", "kvm"),
        ("google", "kvm"),
        ("firecracker", "kvm"),
        ("vmware", "vmware"),
        ("virtualbox", "virtualbox"),
        ("innotek", "virtualbox"),
        ("microsoft corporation virtual machine", "hyper-v"),
        ("parallels", "parallels"),
        ("xen", "xen"),
    ];
    let firmware = [
        tree.word("proc/device-tree/hypervisor/compatible"),
        tree.word("sys/class/dmi/id/sys_vendor"),
        tree.word("sys/class/dmi/id/product_name"),
    ];
    let said = firmware
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase();
    NAMES
        .iter()
        .find(|(word, _)| said.contains(word))
        .map(|(_, name)| *name)
}

fn by_clock(tree: &Tree) -> Option<&'static str> {
    let clocks = tree.word("sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    clocks.split_whitespace().find_map(|clock| match clock {
        "kvm-clock" => Some("kvm"),
        "xen" => Some("xen"),
        "hyperv_clocksource_tsc_page" | "hyperv_clocksource_msr" => Some("hyper-v"),
        _ => None,
    })
}

pub(super) fn memory(tree: &Tree) -> Memory {
    let text = tree.word("proc/meminfo").unwrap_or_default();
    let fields = fields(&text, ':');
    let bytes = |name: &str| -> Option<u64> {
        fields
            .get(name)?
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    Memory {
        total_bytes: bytes("MemTotal"),
        available_bytes: bytes("MemAvailable"),
        swap_used_bytes: bytes("SwapTotal")
            .zip(bytes("SwapFree"))
            .map(|(total, free)| total.saturating_sub(free)),
    }
}

pub(super) fn load(tree: &Tree) -> Load {
    let text = tree.word("proc/loadavg").unwrap_or_default();
    let mut averages = text.split_whitespace().map(|word| word.parse().ok());
    let mut next = || averages.next().flatten();
    Load {
        average_1m: next(),
        average_5m: next(),
        average_15m: next(),
        steal_percent: steal_percent(tree),
    }
}

/// From the first line of `/proc/stat`: user nice system idle iowait irq softirq steal. Guest time, which
/// follows, is already within user.
fn steal_percent(tree: &Tree) -> Option<f64> {
    let text = tree.word("proc/stat")?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let total: u64 = ticks.iter().sum();
    let steal = *ticks.get(7)?;
    (total > 0).then(|| steal as f64 * 100.0 / total as f64)
}

/// A sensor that is switched off cannot be read: its zone stands there without a temperature.
pub(super) fn thermal(tree: &Tree) -> Option<Vec<ThermalZone>> {
    const FOLDER: &str = "sys/class/thermal";
    let zones = tree.names(FOLDER, "thermal_zone")?;
    let read = |zone: &String| {
        let millidegrees: Option<i64> = tree.number(&format!("{FOLDER}/{zone}/temp"));
        Some(ThermalZone {
            name: tree.word(&format!("{FOLDER}/{zone}/type"))?,
            celsius: millidegrees.map(|millidegrees| millidegrees as f64 / 1e3),
        })
    };
    Some(zones.iter().filter_map(read).collect())
}

pub(super) fn sockets(tree: &Tree) -> SocketBuffers {
    let sysctl = |name: &str| tree.number(&format!("proc/sys/net/core/{name}"));
    SocketBuffers {
        receive_default_bytes: sysctl("rmem_default"),
        receive_max_bytes: sysctl("rmem_max"),
        send_default_bytes: sysctl("wmem_default"),
        send_max_bytes: sysctl("wmem_max"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixture;
    use super::*;

    fn hypervisor_of(files: &[(&str, &str)]) -> Option<String> {
        let root = fixture(files);
        hypervisor(&Tree::new(root.path()))
    }

    #[test]
    fn the_cpu_flag_tells_a_guest_from_bare_metal() {
        let guest = (
            "proc/cpuinfo",
            "processor : 0\nflags : fpu hypervisor tsc\n",
        );
        let metal = ("proc/cpuinfo", "processor : 0\nflags : fpu tsc\n");
        assert_eq!(
            hypervisor_of(&[guest]).as_deref(),
            Some("unnamed hypervisor")
        );
        assert_eq!(hypervisor_of(&[metal]).as_deref(), Some("none"));
        let clock = (
            "sys/devices/system/clocksource/clocksource0/available_clocksource",
            "tsc kvm-clock\n",
        );
        assert_eq!(hypervisor_of(&[guest, clock]).as_deref(), Some("kvm"));
    }

    #[test]
    fn an_arm_board_without_a_witness_is_unknown_not_bare() {
        let arm = ("proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\n");
        assert_eq!(hypervisor_of(&[arm]), None);
        let qemu = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(hypervisor_of(&[arm, qemu]).as_deref(), Some("kvm"));
    }

    #[test]
    fn a_hyper_v_guest_is_not_taken_for_a_surface_laptop() {
        let flags = ("proc/cpuinfo", "flags : fpu hypervisor\n");
        let vendor = ("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n");
        let guest = ("sys/class/dmi/id/product_name", "Virtual Machine\n");
        let laptop = ("sys/class/dmi/id/product_name", "Surface Laptop 3\n");
        assert_eq!(
            hypervisor_of(&[flags, vendor, guest]).as_deref(),
            Some("hyper-v")
        );
        assert_eq!(
            hypervisor_of(&[("proc/cpuinfo", "flags : fpu\n"), vendor, laptop]).as_deref(),
            Some("none")
        );
    }

    #[test]
    fn steal_counts_neither_guest_time_twice_nor_missing_columns_as_zero() {
        let of = |line: &str| {
            let root = fixture(&[("proc/stat", line)]);
            load(&Tree::new(root.path())).steal_percent
        };
        assert_eq!(of("cpu  50 0 25 100 5 0 10 10 40 0\ncpu0 1\n"), Some(5.0));
        assert_eq!(of("cpu  50 0 25 100\n"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_zone_whose_sensor_is_off_has_no_temperature() {
        let root = fixture(&[
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
            ("sys/class/thermal/thermal_zone0/temp", "51218\n"),
            ("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n"),
            ("sys/class/thermal/cooling_device0/type", "fan\n"),
        ]);
        let zones = thermal(&Tree::new(root.path())).unwrap();
        let zones: Vec<_> = zones.iter().map(|z| (z.name.as_str(), z.celsius)).collect();
        assert_eq!(
            zones,
            [("cpu-thermal", Some(51.218)), ("gpu-thermal", None)]
        );
        assert_eq!(thermal(&Tree::new(fixture(&[]).path())), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let root = fixture(&[(
            "proc/meminfo",
            "MemTotal:        7789952 kB\nMemAvailable:    100 kB\nSwapTotal: 8 kB\nSwapFree: 6 kB\n",
        )]);
        let memory = memory(&Tree::new(root.path()));
        assert_eq!(memory.total_bytes, Some(7_976_910_848));
        assert_eq!(memory.available_bytes, Some(102_400));
        assert_eq!(memory.swap_used_bytes, Some(2_048));
    }
}
