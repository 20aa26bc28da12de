//! What the machine did while pings were slow: counters of the kernel ten times a second, in bounded
//! memory, and what they came to around a moment.
//!
//! Counters only ever grow, so that every other reading can be dropped when there are too many: a long
//! run is covered to its beginning, more coarsely.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Readings of the kernel's counters since the start of a run.
#[derive(Debug)]
pub struct Moments {
    root: PathBuf,
    cgroup: Option<PathBuf>,
    readings: Vec<Reading>,
    every: u64,
    skipped: u64,
}

/// The counters at one time. What cannot be read is `None`.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    at_ns: u64,
    retransmissions: Option<u64>,
    throttled_periods: Option<u64>,
    throttled_us: Option<u64>,
    interrupts: Option<u64>,
    softirqs: Option<u64>,
    context_switches: Option<u64>,
    steal_ticks: Option<u64>,
}

/// What happened around one moment. The kernel counts machine-wide, but for retransmissions, which are
/// those of the run's own connections, and throttling, which is its control group's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Coincidence {
    /// From the last reading before the moment to the first one after it.
    pub over_ms: f64,
    /// Segments sent again.
    pub retransmissions: Option<u64>,
    /// Periods in which the control group was stopped.
    pub throttled_periods: Option<u64>,
    /// For how long.
    pub throttled_us: Option<u64>,
    /// Hardware interrupts.
    pub interrupts: Option<u64>,
    /// Soft interrupts.
    pub softirqs: Option<u64>,
    /// Context switches.
    pub context_switches: Option<u64>,
    /// Ticks of 10 ms that the hypervisor gave to others.
    pub steal_ticks: Option<u64>,
}

impl Moments {
    /// Nothing has been read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> Self {
        Self {
            cgroup: cpu_stat(root),
            root: root.to_owned(),
            readings: Vec::with_capacity(MOST),
            every: 1,
            skipped: 0,
        }
    }

    /// Reads the counters; to be called about ten times a second.
    pub fn read(&mut self, now_ns: u64, retransmissions: Option<u64>) {
        self.skipped += 1;
        if self.skipped < self.every {
            return;
        }
        self.skipped = 0;
        if self.readings.len() == MOST {
            self.drop_every_other();
        }
        let reading = self.reading(now_ns, retransmissions);
        self.readings.push(reading);
    }

    /// What happened from `from_ns` to `to_ns`, as closely as there are readings. `None` before the
    /// second of them.
    #[must_use]
    pub fn around(&self, from_ns: u64, to_ns: u64) -> Option<Coincidence> {
        let before = self
            .readings
            .partition_point(|reading| reading.at_ns <= from_ns)
            .saturating_sub(1);
        let after = self
            .readings
            .partition_point(|reading| reading.at_ns < to_ns)
            .max(before + 1)
            .min(self.readings.len().checked_sub(1)?);
        if after <= before {
            return None;
        }
        let (start, end) = (&self.readings[before], &self.readings[after]);
        let grew = |of: fn(&Reading) -> Option<u64>| Some(of(end)?.saturating_sub(of(start)?));
        Some(Coincidence {
            over_ms: (end.at_ns - start.at_ns) as f64 / 1e6,
            retransmissions: grew(|reading| reading.retransmissions),
            throttled_periods: grew(|reading| reading.throttled_periods),
            throttled_us: grew(|reading| reading.throttled_us),
            interrupts: grew(|reading| reading.interrupts),
            softirqs: grew(|reading| reading.softirqs),
            context_switches: grew(|reading| reading.context_switches),
            steal_ticks: grew(|reading| reading.steal_ticks),
        })
    }

    fn reading(&self, at_ns: u64, retransmissions: Option<u64>) -> Reading {
        let mut reading = Reading {
            at_ns,
            retransmissions,
            ..Reading::default()
        };
        if let Ok(stat) = fs::read_to_string(self.root.join("proc/stat")) {
            for line in stat.lines() {
                let mut words = line.split_ascii_whitespace();
                let to = match words.next() {
                    Some("cpu") => {
                        reading.steal_ticks = words.nth(7).and_then(|word| word.parse().ok());
                        continue;
                    }
                    Some("intr") => &mut reading.interrupts,
                    Some("softirq") => &mut reading.softirqs,
                    Some("ctxt") => &mut reading.context_switches,
                    Some(_) | None => continue,
                };
                *to = words.next().and_then(|word| word.parse().ok());
            }
        }
        let group = self.cgroup.as_ref().map(fs::read_to_string);
        if let Some(Ok(group)) = group {
            for line in group.lines() {
                match line.split_once(' ') {
                    Some(("nr_throttled", n)) => reading.throttled_periods = n.trim().parse().ok(),
                    Some(("throttled_usec", n)) => reading.throttled_us = n.trim().parse().ok(),
                    // Version 1 counts nanoseconds.
                    Some(("throttled_time", n)) => {
                        let ns = n.trim().parse::<u64>().ok();
                        reading.throttled_us = ns.map(|ns| ns / 1_000);
                    }
                    Some(_) | None => {}
                }
            }
        }
        reading
    }

    fn drop_every_other(&mut self) {
        let mut at = 0;
        self.readings.retain(|_| {
            at += 1;
            at % 2 == 1
        });
        self.every *= 2;
    }
}

impl Default for Moments {
    fn default() -> Self {
        Self::new()
    }
}

/// `cpu.stat` of this process's control group, version 2 or 1.
fn cpu_stat(root: &Path) -> Option<PathBuf> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let mounts: &[&str] = match controllers {
            "" => &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|name| name == "cpu") => {
                &["sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu"]
            }
            _ => &[],
        };
        mounts
            .iter()
            .map(|mount| root.join(mount).join(path).join("cpu.stat"))
            .find(|file| file.exists())
    })
}

/// About 14 minutes of ten a second: above, readings lie further apart.
const MOST: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stat(root: &Path, interrupts: u64) {
        let text = format!(
            "cpu  1 2 3 4 5 6 7 {} 0 0\ncpu0 1 2\nintr {interrupts} 1 2\nctxt {}\nsoftirq {} 1\n",
            interrupts / 10,
            interrupts * 2,
            interrupts * 3
        );
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(root.join("proc/stat"), text).unwrap();
    }

    #[test]
    fn a_moment_has_what_happened_between_the_readings_around_it() {
        let root = tempfile::tempdir().unwrap();
        let mut moments = Moments::below(root.path());
        assert_eq!(moments.around(0, 1), None);
        for (tenth, interrupts) in [100, 110, 500, 510].into_iter().enumerate() {
            stat(root.path(), interrupts);
            moments.read(tenth as u64 * 100 * MS, Some(tenth as u64 / 2));
        }
        let found = moments.around(120 * MS, 180 * MS).unwrap();
        assert_eq!(
            found,
            Coincidence {
                over_ms: 100.0,
                retransmissions: Some(1),
                throttled_periods: None,
                throttled_us: None,
                interrupts: Some(390),
                softirqs: Some(1_170),
                context_switches: Some(780),
                steal_ticks: Some(39),
            }
        );
        // Longer than a step, and beyond the last reading.
        assert_eq!(moments.around(150 * MS, 250 * MS).unwrap().over_ms, 200.0);
        assert_eq!(moments.around(900 * MS, 950 * MS), None);
    }

    #[test]
    fn throttling_is_the_control_groups() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("sys/fs/cgroup/a");
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), "0::/a\n").unwrap();
        let mut moments = None;
        for (at, periods) in [(0, 3), (100 * MS, 5)] {
            let text = format!("nr_throttled {periods}\nthrottled_usec {}\n", periods * 100);
            fs::write(group.join("cpu.stat"), text).unwrap();
            moments
                .get_or_insert_with(|| Moments::below(root.path()))
                .read(at, None);
        }
        let found = moments.unwrap().around(1, 2).unwrap();
        assert_eq!(
            (
                found.throttled_periods,
                found.throttled_us,
                found.interrupts
            ),
            (Some(2), Some(200), None)
        );
    }

    #[test]
    fn a_long_run_is_covered_to_its_beginning() {
        let root = tempfile::tempdir().unwrap();
        let mut moments = Moments::below(root.path());
        (0..30_000).for_each(|tenth| moments.read(tenth * 100 * MS, Some(tenth)));
        assert!(moments.readings.len() <= MOST);
        let early = moments.around(1_000 * MS, 1_001 * MS).unwrap();
        assert_eq!(early.over_ms, 400.0);
        assert_eq!(early.retransmissions, Some(4));
    }
}
