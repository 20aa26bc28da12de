//! Which CPUs are one core, which share a cache, and which are of one kind: from `/sys`.

use std::fs;
use std::path::Path;

use crate::plan::Placement;

/// The CPUs that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
}

/// One CPU, as the scheduler counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: usize,
    /// The CPUs of its physical core, itself among them.
    pub core: Vec<usize>,
    /// The CPUs that share any cache with it, itself among them.
    pub shares: Vec<usize>,
    /// Relative speed, on machines with several kinds of core.
    pub capacity: Option<u64>,
}

impl Topology {
    /// Reads what `/sys` says of `allowed`.
    pub fn read(allowed: &[usize]) -> Self {
        Self::read_from(Path::new("/sys/devices/system/cpu"), allowed)
    }

    /// The same from another tree. Where nothing can be read, each CPU is a core of its own and all
    /// share a cache: the shape of most small machines.
    pub fn read_from(root: &Path, allowed: &[usize]) -> Self {
        Self::of(
            allowed
                .iter()
                .map(|&id| read_cpu(&root.join(format!("cpu{id}")), id, allowed)),
        )
    }

    /// A topology of these CPUs.
    pub fn of(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        Self {
            cpus: cpus.into_iter().collect(),
        }
    }

    /// All of them, ascending.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The CPU of this number, if it may be used.
    pub fn find(&self, id: usize) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// What two CPUs are to each other.
    pub(super) fn shape(&self, left: usize, right: usize) -> Placement {
        if left == right {
            return Placement::Same;
        }
        match self.find(left) {
            Some(cpu) if !cpu.shares.contains(&right) => Placement::Cross,
            Some(_) | None => Placement::Split,
        }
    }

    /// One CPU: the fastest, not CPU 0 where others are as good.
    pub(super) fn one(&self) -> (usize, Option<String>) {
        let best = self
            .cpus
            .iter()
            .min_by_key(|cpu| (slowness(cpu), cpu.id == 0, cpu.id));
        let id = best.expect("a running thread has a CPU").id;
        (
            id,
            (id == 0).then(|| "CPU 0 is in use: there is no other as fast".to_owned()),
        )
    }

    /// Two CPUs for `split`, with what is not ideal about them. There are at least two.
    pub(super) fn split(&self) -> (usize, usize, Option<String>) {
        let (left, right) = self
            .pairs()
            .min_by_key(|&(left, right)| {
                (
                    left.core.contains(&right.id),
                    !left.shares.contains(&right.id),
                    on_cpu_0(left, right),
                    left.capacity != right.capacity,
                    slowness(left),
                    (left.id, right.id),
                )
            })
            .expect("two CPUs make a pair");
        let note = if left.core.contains(&right.id) {
            Some(format!(
                "CPUs {} and {} are two threads of one core",
                left.id, right.id
            ))
        } else if !left.shares.contains(&right.id) {
            Some("no two cores share a cache".to_owned())
        } else if on_cpu_0(left, right) {
            Some("CPU 0 is in use: no other two cores share a cache".to_owned())
        } else if left.capacity != right.capacity {
            Some(format!(
                "CPUs {} and {} are of different kinds",
                left.id, right.id
            ))
        } else {
            None
        };
        (left.id, right.id, note)
    }

    /// Two CPUs for `cross`, if any two share no cache.
    pub(super) fn cross(&self) -> Option<(usize, usize, Option<String>)> {
        let (left, right) = self
            .pairs()
            .filter(|(left, right)| !left.shares.contains(&right.id))
            .min_by_key(|&(left, right)| {
                (
                    on_cpu_0(left, right),
                    left.capacity != right.capacity,
                    slowness(left),
                    (left.id, right.id),
                )
            })?;
        let note = on_cpu_0(left, right)
            .then(|| "CPU 0 is in use: no other two cores share no cache".to_owned());
        Some((left.id, right.id, note))
    }

    fn pairs(&self) -> impl Iterator<Item = (&Cpu, &Cpu)> {
        let each = self.cpus.iter().enumerate();
        each.flat_map(|(position, left)| {
            self.cpus[position + 1..]
                .iter()
                .map(move |right| (left, right))
        })
    }
}

/// CPU 0 serves most interrupts.
fn on_cpu_0(left: &Cpu, right: &Cpu) -> bool {
    left.id == 0 || right.id == 0
}

/// Orders faster kinds first.
fn slowness(cpu: &Cpu) -> u64 {
    u64::MAX - cpu.capacity.unwrap_or(0)
}

fn read_cpu(folder: &Path, id: usize, allowed: &[usize]) -> Cpu {
    let list = |name: &str| read_list(&folder.join(name));
    // Older kernels know only the first name.
    let core = list("topology/thread_siblings_list").or_else(|| list("topology/core_cpus_list"));
    let mut shares: Vec<usize> = (0..MOST_CACHES)
        .filter_map(|index| list(&format!("cache/index{index}/shared_cpu_list")))
        .flatten()
        .collect();
    if shares.is_empty() {
        // Many Arm boards and guests describe no caches; one cluster or package then stands for one.
        shares = list("topology/cluster_cpus_list")
            .filter(|cluster| cluster.len() > 1)
            .or_else(|| list("topology/package_cpus_list"))
            .or_else(|| list("topology/core_siblings_list"))
            .unwrap_or_else(|| allowed.to_vec());
    }
    shares.sort_unstable();
    shares.dedup();
    let capacity = fs::read_to_string(folder.join("cpu_capacity")).ok();
    Cpu {
        id,
        core: core.unwrap_or_else(|| vec![id]),
        shares,
        capacity: capacity.and_then(|text| text.trim().parse().ok()),
    }
}

fn read_list(path: &Path) -> Option<Vec<usize>> {
    parse_list(&fs::read_to_string(path).ok()?)
}

/// The kernel's lists: `0-3,8`. `None` for anything else.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// More index folders than any processor has.
const MOST_CACHES: usize = 16;
/// The kernel's own limit; a larger number is not a list of CPUs.
const MOST_CPUS: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(parse_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("0-x"), None);
        assert_eq!(parse_list("0-99999999"), None);
    }

    #[test]
    fn a_fixture_tree_is_understood() {
        let root = tempfile::tempdir().unwrap();
        for (cpu, core, last_level) in [(0, "0,2", "0-3"), (1, "1,3", "0-3"), (4, "4", "4-5")] {
            let folder = root.path().join(format!("cpu{cpu}"));
            for (name, text) in [
                ("topology/thread_siblings_list", core),
                ("cache/index0/shared_cpu_list", core),
                ("cache/index3/shared_cpu_list", last_level),
                ("cpu_capacity", "1024\n"),
            ] {
                let path = folder.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        let topology = Topology::read_from(root.path(), &[0, 1, 4]);
        let cpu = topology.find(0).unwrap();
        assert_eq!(cpu.core, [0, 2]);
        assert_eq!(cpu.shares, [0, 1, 2, 3]);
        assert_eq!(cpu.capacity, Some(1_024));
        assert_eq!(topology.shape(0, 1), Placement::Split);
        assert_eq!(topology.shape(0, 4), Placement::Cross);
    }

    #[test]
    fn a_tree_that_says_nothing_is_cores_that_share_a_cache() {
        let root = tempfile::tempdir().unwrap();
        let topology = Topology::read_from(root.path(), &[0, 1]);
        assert_eq!(topology.find(1).unwrap().core, [1]);
        assert_eq!(topology.shape(0, 1), Placement::Split);
    }

    #[test]
    fn this_machine_has_a_topology() {
        let allowed = crate::sys::sched::affinity().unwrap();
        let topology = Topology::read(&allowed);
        assert_eq!(topology.cpus().len(), allowed.len());
        for cpu in topology.cpus() {
            assert!(
                cpu.core.contains(&cpu.id) && cpu.shares.contains(&cpu.id),
                "{cpu:?}"
            );
        }
    }
}
