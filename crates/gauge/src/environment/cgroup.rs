//! The CPU quota of the control group this process is in, of either cgroup version.

use super::Cgroup;
use super::tree::{Tree, fields};

/// The tightest quota from this process's group up to the root, and how often it stopped us. A quota
/// anywhere above binds us as much as one of our own.
pub(super) fn cgroup(tree: &Tree) -> Cgroup {
    let Some(membership) = tree.word("proc/self/cgroup") else {
        return Cgroup::default();
    };
    let mut found = Cgroup::default();
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        // Version 2 has one hierarchy without named controllers; beside version 1 it is "unified".
        let mounts: &[&str] = match controllers {
            "" => &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|name| name == "cpu") => &[
                "sys/fs/cgroup/cpu",
                "sys/fs/cgroup/cpu,cpuacct",
                "sys/fs/cgroup/cpuacct,cpu",
            ],
            _ => continue,
        };
        let Some(mount) = mounts
            .iter()
            .find(|mount| tree.exists(&format!("{mount}/cgroup.procs")))
        else {
            continue;
        };
        for folder in up_from(mount, path) {
            hear(tree, &folder, &mut found);
        }
    }
    found
}

/// The group's folder, then each above it, the mount last.
fn up_from(mount: &str, path: &str) -> Vec<String> {
    let path = path.trim_matches('/');
    let mut folders = vec![];
    let mut rest = path;
    while !rest.is_empty() {
        folders.push(format!("{mount}/{rest}"));
        rest = rest.rsplit_once('/').map_or("", |(above, _)| above);
    }
    folders.push(mount.to_owned());
    folders
}

fn hear(tree: &Tree, folder: &str, found: &mut Cgroup) {
    if let Some(quota) = quota(tree, folder) {
        match quota {
            Quota::None => found.limited = Some(found.limited.unwrap_or(false)),
            Quota::Cpus(cpus) => {
                found.limited = Some(true);
                found.quota_cpus = Some(found.quota_cpus.map_or(cpus, |least| least.min(cpus)));
            }
        }
    } else if tree.exists(&format!("{folder}/cgroup.controllers")) {
        // Version 2 shows no quota file in the root or where the controller is not delegated: no
        // quota is set there.
        found.limited = Some(found.limited.unwrap_or(false));
    }
    let Some(stat) = tree.word(&format!("{folder}/cpu.stat")) else {
        return;
    };
    let stat = fields(&stat, ' ');
    let number = |name: &str| stat.get(name).and_then(|text| text.parse::<u64>().ok());
    // A group above us counts our stops and those of others: the most is what we can have felt.
    found.throttled_periods = found.throttled_periods.max(number("nr_throttled"));
    found.throttled_us = found
        .throttled_us
        .max(number("throttled_usec").or_else(|| number("throttled_time").map(|ns| ns / 1000)));
}

enum Quota {
    None,
    Cpus(f64),
}

fn quota(tree: &Tree, folder: &str) -> Option<Quota> {
    let (quota, period) = match tree.word(&format!("{folder}/cpu.max")) {
        Some(max) => {
            let (quota, period) = max.split_once(' ')?;
            if quota == "max" {
                return Some(Quota::None);
            }
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        None => {
            let quota: i64 = tree.number(&format!("{folder}/cpu.cfs_quota_us"))?;
            if quota < 0 {
                return Some(Quota::None);
            }
            (
                quota as f64,
                tree.number(&format!("{folder}/cpu.cfs_period_us"))?,
            )
        }
    };
    (period > 0.0).then(|| Quota::Cpus(quota / period))
}

#[cfg(test)]
mod tests {
    use super::super::tree::fixture;
    use super::*;

    fn read(files: &[(&str, &str)]) -> Cgroup {
        let root = fixture(files);
        cgroup(&Tree::new(root.path()))
    }

    #[test]
    fn the_tightest_quota_above_us_is_found() {
        let found = read(&[
            ("proc/self/cgroup", "0::/kube/pod/app\n"),
            ("sys/fs/cgroup/cgroup.procs", ""),
            ("sys/fs/cgroup/kube/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/kube/pod/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/kube/pod/app/cpu.max", "max 100000\n"),
            (
                "sys/fs/cgroup/kube/pod/cpu.stat",
                "usage_usec 9\nnr_throttled 12\nthrottled_usec 3400\n",
            ),
        ]);
        assert_eq!(found.limited, Some(true));
        assert_eq!(found.quota_cpus, Some(0.5));
        assert_eq!(found.throttled_periods, Some(12));
        assert_eq!(found.throttled_us, Some(3_400));
    }

    #[test]
    fn version_1_says_minus_one_for_no_quota() {
        let found = read(&[
            ("proc/self/cgroup", "9:memory:/x\n1:cpu,cpuacct:/\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cgroup.procs", ""),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
            ),
        ]);
        assert_eq!(found.limited, Some(false));
        assert_eq!(found.quota_cpus, None);
        assert_eq!(found.throttled_periods, Some(0));
    }

    #[test]
    fn unreadable_groups_are_unknown_not_unlimited() {
        assert_eq!(read(&[("proc/self/cgroup", "0::/a\n")]), Cgroup::default());
        assert_eq!(read(&[]), Cgroup::default());
    }
}
