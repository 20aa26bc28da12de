//! The soak part of the report: many senders against one receiver, idle and under load.
//!
//! `tautline report` prints several runs as one table, and `--like` repeats one.

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::wakeup::WakeupRow;
use crate::moments::Coincidence;

/// One soak of one kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// Names the block of the table: the kernel, unless the user said otherwise.
    pub label: String,
    /// What was asked for and what came of it.
    pub setting: Setting,
    /// The phases in their order: idle and loaded, as often as repeated.
    pub rounds: Vec<Phase>,
    /// The load and what it counted.
    pub load: Load,
    /// Timers before the phases.
    pub wakeup: Wakeups,
    /// Loaded over idle.
    pub ratios: Vec<Ratio>,
    /// The kernel in words, for the line below the table.
    pub kernel: KernelLine,
}

/// What was asked for and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Senders.
    pub senders: usize,
    /// Pings of each sender in each phase.
    pub pings: u64,
    /// Bytes of a ping.
    pub payload_bytes: usize,
    /// Pings of each sender before each phase.
    pub warmup: u64,
    /// Idle and loaded, so often.
    pub repeats: usize,
    /// Where the receiver listened.
    pub address: Option<String>,
    /// Whether the receiver was started by the run; else somebody else's was measured.
    pub own_receiver: bool,
    /// Scheduler asked for the receiver.
    pub receiver_sched: String,
    /// Scheduler that its process had, read back; `None` for somebody else's receiver.
    pub receiver_sched_effective: Option<String>,
    /// Why it is not what was asked for.
    pub receiver_sched_refused: Option<String>,
    /// Whether every process stayed in the session of the program; else each had its own.
    pub one_session: bool,
    /// The limit of the count as it was asked for: a number or `auto`.
    pub limit: String,
    /// Threads of the load.
    pub load_threads: usize,
    /// Scheduler of the load.
    pub load_sched: String,
    /// How long timers were watched before each phase.
    pub wakeup_ns: u64,
    /// A ping that took longer stopped the kernel's trace; `None` where that was not asked for.
    #[serde(default)]
    pub trace_over_ns: Option<u64>,
    /// The processes of the run.
    pub processes: Vec<Process>,
}

/// One process of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// `receiver`, `sender 1`, `load`, …
    pub role: String,
    /// Its id.
    pub pid: u32,
    /// The session it was in.
    pub session: u32,
    /// Its scheduler, read back.
    pub sched: String,
}

/// One phase: every sender's pings, and beside them nothing or the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `none` or `primes`.
    pub load: String,
    /// Which repetition, from 0.
    pub repeat: usize,
    /// Each sender.
    pub senders: Vec<Sender>,
    /// All senders merged.
    pub rtt: Rtt,
    /// Round trips above 1 ms.
    pub over_1ms: u64,
    /// Round trips above 5 ms.
    pub over_5ms: u64,
    /// Round trips above 10 ms.
    pub over_10ms: u64,
    /// Round trips above 20 ms.
    pub over_20ms: u64,
    /// The slowest moments, slowest first.
    pub slow: Vec<Moment>,
    /// The first whole count of the load in this phase.
    pub primes_ns: Option<u64>,
    /// On how many CPUs the load ran when the senders were released.
    pub load_cpus: Option<usize>,
}

/// One sender in one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sender {
    /// Slowest of its pings.
    pub max_ns: Option<u64>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// From the release to its last ping that counts.
    pub time_ns: Option<u64>,
    /// Fastest.
    pub min_ns: Option<u64>,
    /// Pings that count.
    pub pings: u64,
    /// Pings after those, until the load's count had ended.
    pub further_pings: u64,
    /// Replies that were not what was sent.
    pub corrupted: u64,
    /// Why it ended early.
    pub error: Option<String>,
    /// Which of its pings stopped the kernel's trace.
    #[serde(default)]
    pub traced_sequence: Option<u64>,
    /// Its seconds, from the release.
    #[serde(default)]
    pub slices: Vec<Slice>,
}

/// One second of one sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile, where enough samples support one.
    pub p99_ns: Option<u64>,
}

/// All senders of a phase merged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rtt {
    /// Round trips.
    pub count: u64,
    /// Fastest.
    pub min_ns: Option<u64>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// 99.99th percentile.
    pub p9999_ns: Option<u64>,
    /// 99.999th percentile.
    pub p99999_ns: Option<u64>,
    /// Slowest.
    pub max_ns: Option<u64>,
    /// The whole distribution.
    #[serde(default)]
    pub hdr: Option<Histogram>,
}

/// One slow moment, and what happened around it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Its slowest round trip.
    pub rtt_ns: u64,
    /// When that one was sent, by CLOCK_MONOTONIC.
    pub sent_ns: u64,
    /// The same by the wall clock, in UTC.
    pub at: String,
    /// Every sender that had a slow ping under way then, from 1, and the CPU it found itself on after.
    pub senders: Vec<SlowSender>,
    /// What the kernel counted around it, machine-wide.
    pub around: Option<Coincidence>,
}

/// A sender within a slow moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowSender {
    /// Which one, from 1.
    pub sender: usize,
    /// Its round trip.
    pub rtt_ns: u64,
    /// Which of its pings.
    pub sequence: u64,
    /// Its CPU right after.
    pub cpu: Option<usize>,
}

/// The load and what it counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// How far it counted; `None` when it came to no load.
    pub limit: Option<u64>,
    /// Primes up to there.
    pub primes: Option<u64>,
    /// Median over repeats of the first whole count beside the pings.
    pub time_ns: Option<u64>,
    /// The same count with nothing beside it.
    pub alone_ns: Option<u64>,
    /// Threads.
    pub threads: usize,
    /// Their scheduler, read back.
    pub sched: Option<String>,
}

/// Lateness of timers before the phases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wakeups {
    /// Before the first idle phase.
    pub idle: Vec<WakeupRow>,
    /// Before the first loaded phase, with the load running.
    pub loaded: Vec<WakeupRow>,
}

/// One figure under full load over the same one without.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// `mean`, `p50` or `p99`.
    pub figure: String,
    /// Median of the loaded slices over the median of the idle ones. A slice is one second of one
    /// sender.
    pub ratio: f64,
    /// Lower end of the 95 % bootstrap interval; `None` below 6 slices a side.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// Slices without load.
    pub idle_slices: usize,
    /// Slices under load.
    pub loaded_slices: usize,
}

/// The kernel in words; `None` is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLine {
    /// `uname -r`.
    pub release: Option<String>,
    /// Preemption model.
    pub preemption: Option<String>,
    /// Ticks a second.
    pub hz: Option<String>,
    /// Frequency governors.
    pub governor: Option<String>,
    /// The cpuidle driver and governor.
    pub idle: Option<String>,
    /// Whether mitigations are on: so many in effect.
    pub mitigations: Option<String>,
    /// Whether sessions share the CPU as groups.
    pub autogroup: Option<bool>,
    /// What real-time threads may use, in microseconds of each period.
    pub rt_runtime_us: Option<i64>,
    /// Names the boot.
    pub boot_id: Option<String>,
}
