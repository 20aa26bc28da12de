//! What `stream` found out, one row for each address and payload.

use serde::{Deserialize, Serialize};
use tautline::QueueDelay;

use super::{Medium, Percentile};

/// A one-way stream to one address with one payload.
///
/// accepted = evicted + too old + discarded + written; what was written and not delivered is lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamRow {
    /// As it was asked for.
    pub address: String,
    /// `tcp`, `tls`, `udp`, `uds` or `serial`.
    pub transport: String,
    /// `reliable`, `besteffort` or `keeplatest`.
    pub strategy: String,
    /// Payload of each message, header included, framing not.
    pub payload_bytes: usize,
    /// Messages a second that were asked for; `None` is as fast as they go.
    pub asked_rate_hz: Option<f64>,
    /// Messages a second that were offered.
    pub offered_per_s: Option<f64>,
    /// How long they were offered.
    pub elapsed_s: f64,
    /// Sends tried.
    pub offered: u64,
    /// Sends that said `Ok`.
    pub accepted: u64,
    /// Sends that said `Full`.
    pub refused: u64,
    /// Accepted messages that made room for fresher ones.
    pub evicted: u64,
    /// What the link was to give up instead of writing: whatever waited longer than this.
    #[serde(default)]
    pub max_queue_delay_ns: Option<u64>,
    /// Accepted messages that were given up for their age.
    #[serde(default)]
    pub too_old: u64,
    /// Accepted messages that were given up for another reason: the connection ended, or the kernel
    /// would not send them.
    pub discarded: u64,
    /// Different messages that the server received whole; `None` where it could not be asked.
    pub delivered: Option<u64>,
    /// Written, and not delivered.
    pub lost: Option<u64>,
    /// Messages that the server received twice.
    pub duplicates: Option<u64>,
    /// Messages that the server received after a later one.
    pub reordered: Option<u64>,
    /// Messages that the server received damaged.
    pub corrupted: Option<u64>,
    /// From the first receipt to the last, by the server's clock.
    pub receiving_s: Option<f64>,
    /// Payload received, over that time.
    pub mib_per_s: Option<f64>,
    /// The same in decimal gigabits.
    pub gbit_per_s: Option<f64>,
    /// From being queued to the system call, of messages that were queued.
    pub queue_delay: QueueDelayRow,
    /// Most that ever waited or was in flight, in encoded bytes.
    pub max_queue_kib: f64,
    /// Crossings of high and low water.
    pub pressure_events: u64,
    /// System calls that wrote.
    pub write_calls: u64,
    /// accepted = written + waiting + discarded, in messages and bytes, at the end.
    pub accounting_closes: bool,
    /// Seconds of the stream, or more than seconds where it was long.
    #[serde(default)]
    pub slices: Vec<StreamSlice>,
    /// What it went over, where that is more than a socket.
    #[serde(flatten)]
    pub medium: Medium,
    /// What broke it off.
    pub error: Option<String>,
}

/// A part of a stream, as its sender saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSlice {
    /// When it began, from the first message.
    pub start_s: f64,
    /// How long it was.
    pub seconds: f64,
    /// Sends tried.
    pub offered: u64,
    /// Sends that said `Ok`.
    pub accepted: u64,
    /// Messages of which the kernel took the last byte.
    pub written: u64,
}

/// The link's own histogram of queue delay: upper edges of steps of an eighth of an octave. `None`
/// where too few messages were queued to support a percentile.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct QueueDelayRow {
    /// Messages that were queued.
    pub count: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// Longest.
    pub max_ns: Option<u64>,
}

impl QueueDelayRow {
    /// The figures of a histogram.
    #[must_use]
    pub fn new(delay: &QueueDelay) -> Self {
        let count = delay.count();
        let of = |percentile: Percentile, percent: f64| {
            let enough = count >= percentile.least_samples();
            enough.then(|| delay.percentile_ns(percent)).flatten()
        };
        Self {
            count,
            p50_ns: of(Percentile::P50, 50.0),
            p95_ns: of(Percentile::P95, 95.0),
            p99_ns: of(Percentile::P99, 99.0),
            p999_ns: of(Percentile::P999, 99.9),
            max_ns: delay.percentile_ns(100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_its_samples() {
        let mut delay = QueueDelay::default();
        assert_eq!(QueueDelayRow::new(&delay).max_ns, None);
        delay.record(1_000, 199);
        let row = QueueDelayRow::new(&delay);
        assert_eq!(
            (row.count, row.p50_ns, row.p95_ns),
            (199, Some(1_024), None)
        );
        assert_eq!(row.max_ns, Some(1_024));
    }
}
