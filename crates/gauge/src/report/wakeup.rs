//! The wake-up rows of the report: how late timers woke a thread of each CPU.

use serde::{Deserialize, Serialize};

/// One CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WakeupRow {
    /// The CPU whose thread it was.
    pub cpu: usize,
    /// The thread's id.
    pub thread_id: u32,
    /// Real-time priority in effect; 0 is none.
    pub priority: u8,
    /// Scheduler asked for.
    pub sched_requested: String,
    /// Scheduler read back.
    pub sched_effective: String,
    /// From one timer to the next.
    pub interval_ns: u64,
    /// Timers waited for.
    pub count: u64,
    /// Least lateness.
    pub min_ns: Option<u64>,
    /// Lateness of the last one.
    pub last_ns: Option<u64>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// Most lateness.
    pub max_ns: Option<u64>,
    /// Timers that were already over when the one before had been served.
    pub missed: u64,
    /// How often each lateness came, in whole microseconds from 0; empty unless asked for.
    pub histogram_us: Vec<u64>,
    /// Beyond the histogram.
    pub histogram_above: u64,
}
