//! What this machine is, and what spoils measurements on it.
//!
//! Reads `/proc` and `/sys` below a root path, so that fixture trees test every reader. What cannot
//! be read is `None` and prints as `unknown`: never "off", never zero. It measures nothing itself:
//! the run hands in its [`Evidence`], and [`doubts`] judges the two together.

mod cgroup;
mod doubts;
mod jetson;
mod kernel;
mod network;
mod power;
mod processor;
mod surroundings;
mod tree;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::doubts::doubts;
pub use self::jetson::{Jetson, ScaledClock};
pub use self::network::Route;
use self::tree::Tree;

/// One machine, as its kernel describes it at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub os: Option<String>,
    /// The board or product, where firmware names it.
    pub board: Option<String>,
    /// The kernel and how it was built and started.
    pub kernel: Kernel,
    /// The processor and its topology.
    pub cpu: Cpu,
    /// How fast the processor runs, and who decides it.
    pub frequency: Frequency,
    /// What an idle CPU does.
    pub idle: Idle,
    /// Under what this machine runs: `kvm`, `xen`, …; `none` on bare metal.
    pub hypervisor: Option<String>,
    /// Each CPU vulnerability and what the kernel does about it.
    pub mitigations: Option<BTreeMap<String, String>>,
    /// Where the kernel's clock comes from.
    pub clocksource: Clocksource,
    /// Main memory.
    pub memory: Memory,
    /// The CPU time this process may use.
    pub cgroup: Cgroup,
    /// What else the machine was doing.
    pub load: Load,
    /// Knobs of the scheduler.
    pub scheduler: Scheduler,
    /// Bounds of socket buffers, without which UDP figures cannot be read.
    pub sockets: SocketBuffers,
    /// Every thermal zone and how warm it was.
    #[serde(default)]
    pub thermal: Option<Vec<ThermalZone>>,
    /// What only a Jetson has; `None` elsewhere.
    #[serde(default)]
    pub jetson: Option<Jetson>,
}

/// The kernel and how it was built and started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// `uname -m`.
    pub architecture: Option<String>,
    /// `none`, `voluntary`, `full`, `lazy`, `rt`, or the choices that the evidence leaves open.
    pub preemption: Option<String>,
    /// The words of its command line that bear on measurements; the others are the owner's business.
    pub boot_options: Option<Vec<String>>,
    /// Names this boot: another boot is another kernel state, even of the same release.
    pub boot_id: Option<String>,
}

/// The processor and its topology.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The model; with several core types each with its count, as in `4x Cortex-A53 + 2x Cortex-A72`.
    pub model: Option<String>,
    /// CPUs that are on line.
    pub logical: Option<usize>,
    /// Distinct physical cores among them.
    pub cores: Option<usize>,
    /// Distinct sockets among them.
    pub packages: Option<usize>,
    /// Whether two CPUs of this machine share one core.
    pub smt: Option<bool>,
    /// CPUs kept away from the scheduler (`isolcpus`).
    pub isolated: Option<Vec<usize>>,
    /// Every cache, from the first level up.
    pub caches: Vec<Cache>,
}

/// Caches of one level, kind and size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Of each one.
    pub size_bytes: u64,
    /// How many there are.
    pub instances: usize,
}

/// How fast the processor runs, and who decides it. Over all frequency domains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Frequency {
    /// The drivers in use; guests usually have none.
    pub drivers: Option<Vec<String>>,
    /// The governors in use.
    pub governors: Option<Vec<String>>,
    /// Lowest frequency of any CPU.
    pub min_khz: Option<u64>,
    /// Highest frequency of any CPU.
    pub max_khz: Option<u64>,
    /// The slowest CPU when this was read.
    pub current_low_khz: Option<u64>,
    /// The fastest CPU when this was read.
    pub current_high_khz: Option<u64>,
    /// Whether the processor may exceed its nominal frequency.
    pub boost: Option<bool>,
}

/// What an idle CPU does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// The cpuidle driver.
    pub driver: Option<String>,
    /// The cpuidle governor.
    pub governor: Option<String>,
    /// How long a guest polls before it halts, under the haltpoll governor.
    pub guest_halt_poll_ns: Option<u64>,
    /// The idle states of the first CPU, shallowest first.
    pub states: Option<Vec<IdleState>>,
}

/// One idle state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// `POLL`, `C1`, `WFI`, …
    pub name: String,
    /// What leaving it takes, as the driver says.
    pub exit_latency_us: Option<u64>,
    /// Switched off by hand.
    pub disabled: Option<bool>,
}

/// Where the kernel's clock comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Clocksource {
    /// The one in use.
    pub current: Option<String>,
    /// What else it could be.
    pub available: Option<Vec<String>>,
}

/// Main memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Of the machine.
    pub total_bytes: Option<u64>,
    /// Free for use when this was read.
    pub available_bytes: Option<u64>,
    /// Swap space in use when this was read.
    pub swap_used_bytes: Option<u64>,
}

/// The CPU time this process may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Whether any group above this process has a CPU quota.
    pub limited: Option<bool>,
    /// The tightest quota, in CPUs.
    pub quota_cpus: Option<f64>,
    /// Periods in which the group was stopped since it exists.
    pub throttled_periods: Option<u64>,
    /// How long it was stopped in all.
    pub throttled_us: Option<u64>,
}

/// What else the machine was doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Load average over 1 minute.
    pub average_1m: Option<f64>,
    /// Load average over 5 minutes.
    pub average_5m: Option<f64>,
    /// Load average over 15 minutes.
    pub average_15m: Option<f64>,
    /// Share of all CPU time since the boot that the hypervisor gave to others.
    pub steal_percent: Option<f64>,
}

/// Knobs of the scheduler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheduler {
    /// What real-time threads may use of each period; -1 is all of it.
    pub rt_runtime_us: Option<i64>,
    /// The period.
    pub rt_period_us: Option<i64>,
    /// Whether sessions share the CPU as groups, which weakens `nice`.
    pub autogroup: Option<bool>,
}

/// Bounds of socket buffers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketBuffers {
    /// `net.core.rmem_default`.
    pub receive_default_bytes: Option<u64>,
    /// `net.core.rmem_max`.
    pub receive_max_bytes: Option<u64>,
    /// `net.core.wmem_default`.
    pub send_default_bytes: Option<u64>,
    /// `net.core.wmem_max`.
    pub send_max_bytes: Option<u64>,
}

/// One place whose temperature the machine knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThermalZone {
    /// `x86_pkg_temp`, `cpu-thermal`, …
    pub name: String,
    /// How warm it was; `None` where its sensor is off.
    pub celsius: Option<f64>,
}

/// What a run measured about the machine it ran on. `None` is "not measured".
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Smallest step of the clock seen.
    pub clock_resolution_ns: u64,
    /// Median cost of reading the clock.
    pub clock_read_ns: f64,
    /// Median time from waking a thread on a halted CPU to its first instruction.
    pub wake_halted_ns: Option<f64>,
    /// The same where the CPU was kept from halting.
    pub wake_awake_ns: Option<f64>,
    /// Ticks the hypervisor gave to others during the run, over all CPUs.
    pub steal_ticks: Option<u64>,
    /// All ticks during the run, over all CPUs.
    pub total_ticks: Option<u64>,
    /// CPU time that other processes used during the run, of all CPUs' time.
    pub other_load_percent: Option<f64>,
    /// Periods during the run in which the cgroup was stopped.
    pub throttled_periods: Option<u64>,
    /// A measuring thread had a real-time policy and the kernel keeps a share from such threads.
    pub rt_throttling_possible: bool,
    /// Both ends were this machine.
    pub loopback: bool,
}

/// One reason to doubt the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// A stable word for scripts: `wake-cost`, `governor`, …
    pub code: Cow<'static, str>,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, in one sentence.
    pub message: String,
    /// One command that removes it or looks further.
    pub advice: String,
    /// Its size, in `unit`.
    pub measured: Option<f64>,
    /// The unit of `measured`.
    pub unit: Option<Cow<'static, str>>,
}

/// How much a doubt matters, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know when reading the figures.
    Note,
    /// The figures are larger or more scattered than they need be.
    Warning,
    /// The figures do not show what they claim to show.
    Invalid,
}

impl Environment {
    /// This machine, now.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(Path::new("/"))
    }

    /// The machine whose `/proc`, `/sys` and `/etc` lie below `root`.
    #[must_use]
    pub fn read_from(root: &Path) -> Self {
        let tree = Tree::new(root);
        Self {
            os: surroundings::os(&tree),
            board: surroundings::board(&tree),
            kernel: kernel::kernel(&tree),
            cpu: processor::cpu(&tree),
            frequency: power::frequency(&tree),
            idle: power::idle(&tree),
            hypervisor: surroundings::hypervisor(&tree),
            mitigations: kernel::mitigations(&tree),
            clocksource: kernel::clocksource(&tree),
            memory: surroundings::memory(&tree),
            cgroup: cgroup::cgroup(&tree),
            load: surroundings::load(&tree),
            scheduler: kernel::scheduler(&tree),
            sockets: surroundings::sockets(&tree),
            thermal: surroundings::thermal(&tree),
            jetson: jetson::jetson(&tree),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_empty_tree_everything_is_unknown() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Environment::read_from(root.path()), Environment::default());
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_boot() {
        let environment = Environment::read();
        assert!(environment.kernel.release.is_some());
        assert!(environment.kernel.boot_id.is_some());
        assert!(environment.memory.total_bytes > Some(0));
    }

    #[test]
    fn severities_are_spelled_in_lower_case() {
        assert_eq!(
            serde_json::to_string(&Severity::Invalid).unwrap(),
            "\"invalid\""
        );
    }
}
