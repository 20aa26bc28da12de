//! The processor: its model, also where `/proc/cpuinfo` has only ARM's numbers; cores, SMT, caches.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Tree, fields};
use super::{Cache, Cpu};

const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn cpu(tree: &Tree) -> Cpu {
    let online = online(tree);
    let topology = |file: &str| -> Option<BTreeSet<String>> {
        online
            .as_ref()?
            .iter()
            .map(|cpu| tree.word(&format!("{CPUS}/cpu{cpu}/topology/{file}")))
            .collect()
    };
    // A core is known by who shares it: ARM numbers its cores anew in every cluster.
    let siblings = topology("core_cpus_list").or_else(|| topology("thread_siblings_list"));
    Cpu {
        model: model(tree),
        logical: online.as_ref().map(Vec::len).or_else(|| listed(tree)),
        cores: siblings.as_ref().map(BTreeSet::len),
        packages: topology("physical_package_id").map(|packages| packages.len()),
        smt: tree.switch(&format!("{CPUS}/smt/active")).or_else(|| {
            Some(
                siblings
                    .as_ref()?
                    .iter()
                    .any(|shared| shared.contains(['-', ','])),
            )
        }),
        isolated: tree.cpus(&format!("{CPUS}/isolated")),
        caches: caches(tree, online.as_deref().unwrap_or_default()),
    }
}

fn online(tree: &Tree) -> Option<Vec<usize>> {
    tree.cpus(&format!("{CPUS}/online"))
}

/// CPUs that `/proc/cpuinfo` lists, where /sys is not mounted.
fn listed(tree: &Tree) -> Option<usize> {
    let text = tree.word("proc/cpuinfo")?;
    Some(
        text.lines()
            .filter(|line| line.starts_with("processor"))
            .count(),
    )
    .filter(|&n| n > 0)
}

fn model(tree: &Tree) -> Option<String> {
    let text = tree.word("proc/cpuinfo")?;
    let mut cores: BTreeMap<String, usize> = BTreeMap::new();
    for block in text.split("\n\n") {
        let block = fields(block, ':');
        let name = match (block.get("CPU implementer"), block.get("CPU part")) {
            (Some(implementer), Some(part)) => Some(arm_name(implementer, part)),
            _ => block.get("model name").map(|&name| name.to_owned()),
        };
        if let Some(name) = name {
            *cores
                .entry(name.split_whitespace().collect::<Vec<_>>().join(" "))
                .or_default() += 1;
        }
    }
    if cores.len() < 2 {
        return cores.into_keys().next();
    }
    let counted: Vec<String> = cores
        .iter()
        .map(|(name, count)| format!("{count}x {name}"))
        .collect();
    Some(counted.join(" + "))
}

/// The core's name from the two numbers of `MIDR_EL1`, which is all an ARM kernel prints.
fn arm_name(implementer: &str, part: &str) -> String {
    let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    ARM_CORES
        .iter()
        .find(|(i, p, _)| number(implementer) == Some(*i) && number(part) == Some(*p))
        .map_or_else(
            || format!("ARM implementer {implementer} part {part}"),
            |(_, _, name)| (*name).to_owned(),
        )
}

fn caches(tree: &Tree, online: &[usize]) -> Vec<Cache> {
    let mut found: BTreeMap<(u32, String, u64), BTreeSet<String>> = BTreeMap::new();
    for cpu in online {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        for index in tree.names(&folder, "index").unwrap_or_default() {
            let read = |file: &str| tree.word(&format!("{folder}/{index}/{file}"));
            let (Some(level), Some(kind), Some(size), Some(shared)) = (
                read("level").and_then(|text| text.parse().ok()),
                read("type"),
                read("size").and_then(|text| cache_size(&text)),
                read("shared_cpu_list"),
            ) else {
                continue;
            };
            found.entry((level, kind, size)).or_default().insert(shared);
        }
    }
    found
        .into_iter()
        .map(|((level, kind, size_bytes), shared)| {
            let instances = shared.len();
            Cache {
                level,
                kind,
                size_bytes,
                instances,
            }
        })
        .collect()
}

/// `32K`, as sysfs writes every size of a cache.
fn cache_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Implementer and part numbers of 64-bit cores, from the vendors' technical reference manuals.
#[rustfmt::skip]
const ARM_CORES: &[(u32, u32, &str)] = &[
    (0x41, 0xd03, "Cortex-A53"),   (0x41, 0xd04, "Cortex-A35"),   (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd06, "Cortex-A65"),   (0x41, 0xd07, "Cortex-A57"),   (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),   (0x41, 0xd0a, "Cortex-A75"),   (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),  (0x41, 0xd0d, "Cortex-A77"),   (0x41, 0xd0e, "Cortex-A76AE"),
    (0x41, 0xd40, "Neoverse-V1"),  (0x41, 0xd41, "Cortex-A78"),   (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd43, "Cortex-A65AE"), (0x41, 0xd44, "Cortex-X1"),    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),  (0x41, 0xd48, "Cortex-X2"),    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4a, "Neoverse-E1"),  (0x41, 0xd4b, "Cortex-A78C"),  (0x41, 0xd4c, "Cortex-X1C"),
    (0x41, 0xd4d, "Cortex-A715"),  (0x41, 0xd4e, "Cortex-X3"),    (0x41, 0xd4f, "Neoverse-V2"),
    (0x43, 0x0a1, "ThunderX"),     (0x43, 0x0af, "ThunderX2"),    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "Kunpeng-920"),  (0x4e, 0x003, "Denver 2"),     (0x4e, 0x004, "Carmel"),
    (0x51, 0x802, "Kryo-3XX-Gold"), (0x51, 0x803, "Kryo-3XX-Silver"),
    (0x51, 0x804, "Kryo-4XX-Gold"), (0x51, 0x805, "Kryo-4XX-Silver"),
    (0x61, 0x022, "Apple M1 Icestorm"),  (0x61, 0x023, "Apple M1 Firestorm"),
    (0x61, 0x032, "Apple M2 Blizzard"),  (0x61, 0x033, "Apple M2 Avalanche"),
    (0xc0, 0xac3, "Ampere-1"),     (0xc0, 0xac4, "Ampere-1A"),
];

#[cfg(test)]
mod tests {
    use super::super::tree::fixture;
    use super::*;

    fn read(files: &[(&str, &str)]) -> Cpu {
        let root = fixture(files);
        cpu(&Tree::new(root.path()))
    }

    #[test]
    fn an_arm_core_is_named_from_its_numbers() {
        let jetson = "processor\t: 0\nBogoMIPS\t: 62.50\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
                      CPU variant\t: 0x0\nCPU part\t: 0xd42\nCPU revision\t: 1\n\n\
                      processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd42\n";
        assert_eq!(
            read(&[("proc/cpuinfo", jetson)]).model.as_deref(),
            Some("Cortex-A78AE")
        );
    }

    #[test]
    fn several_core_types_are_counted() {
        let rock = "processor: 0\nCPU implementer: 0x41\nCPU part: 0xd03\n\n\
                    processor: 1\nCPU implementer: 0x41\nCPU part: 0xd03\n\n\
                    processor: 2\nCPU implementer: 0x41\nCPU part: 0xd08\n";
        let cpu = read(&[("proc/cpuinfo", rock)]);
        assert_eq!(cpu.model.as_deref(), Some("2x Cortex-A53 + 1x Cortex-A72"));
        assert_eq!(cpu.logical, Some(3));
    }

    #[test]
    fn an_unlisted_arm_core_keeps_its_numbers() {
        let odd = "processor: 0\nCPU implementer: 0x99\nCPU part: 0x123\n";
        assert_eq!(
            read(&[("proc/cpuinfo", odd)]).model.as_deref(),
            Some("ARM implementer 0x99 part 0x123")
        );
    }

    #[test]
    fn threads_of_one_core_are_told_from_cores() {
        let files = [
            ("sys/devices/system/cpu/online", "0-3\n"),
            (
                "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
                "0,2\n",
            ),
            (
                "sys/devices/system/cpu/cpu1/topology/core_cpus_list",
                "1,3\n",
            ),
            (
                "sys/devices/system/cpu/cpu2/topology/core_cpus_list",
                "0,2\n",
            ),
            (
                "sys/devices/system/cpu/cpu3/topology/core_cpus_list",
                "1,3\n",
            ),
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
            (
                "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
                "0,2\n",
            ),
            ("sys/devices/system/cpu/cpu1/cache/index0/level", "1\n"),
            ("sys/devices/system/cpu/cpu1/cache/index0/type", "Data\n"),
            ("sys/devices/system/cpu/cpu1/cache/index0/size", "48K\n"),
            (
                "sys/devices/system/cpu/cpu1/cache/index0/shared_cpu_list",
                "1,3\n",
            ),
        ];
        let cpu = read(&files);
        assert_eq!(
            (cpu.logical, cpu.cores, cpu.smt),
            (Some(4), Some(2), Some(true))
        );
        let l1 = Cache {
            level: 1,
            kind: "Data".to_owned(),
            size_bytes: 49_152,
            instances: 2,
        };
        assert_eq!(cpu.caches, [l1]);
    }

    #[test]
    fn without_sys_nothing_is_claimed() {
        assert_eq!(read(&[]), Cpu::default());
    }
}
