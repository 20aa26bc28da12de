//! The report: filled once by the run, rendered by everything else.
//!
//! Text, JSON and CSV only render these structs. Field names are what scripts rely on: add, do not
//! rename. Units stand in the names; what could not be measured is `None`, never zero.

pub mod export;
pub mod histogram;
pub mod hlog;
pub mod html;
pub mod ping;
#[cfg(test)]
pub(crate) mod sample;
mod smoke;
pub mod soak;
pub mod stream;
pub mod text;
pub mod utc;
pub mod wakeup;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tautline::{LinkStatistics, SendStatistics};

pub use self::smoke::{KernelUdp, SmokeClass, SmokeRow, SmokeRuntime, SmokeVerdict};

pub use self::histogram::Histogram;
use crate::environment::{Doubt, Environment, Evidence};
use crate::gate::Verdict;
use crate::wire::PeerRecord;

/// The schema that this report follows, as its first field says.
pub const SCHEMA: &str = "tautline.report/1";

/// How the schema of every version begins.
pub const SCHEMA_FAMILY: &str = "tautline.report/";

/// Everything one run found out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of the program that wrote it.
    pub version: Cow<'static, str>,
    /// The commit that program was built from.
    #[serde(default)]
    pub commit: Option<String>,
    /// The command as it was typed.
    pub command_line: Vec<String>,
    /// Wall clock at the start, RFC 3339 in UTC; a label, never used for arithmetic.
    pub started_at: String,
    /// The user's own name for the run.
    pub label: Option<String>,
    /// `/proc/sys/kernel/random/boot_id`: different kernels are different boots.
    pub boot_id: Option<String>,
    /// The clock that every figure comes from.
    pub clock: Clock,
    /// The machine, and what was asked of it and granted.
    pub environment: Environment,
    /// What the run measured about the machine.
    pub evidence: Evidence,
    /// The other end's record, where there is another end.
    pub peer: Option<PeerRecord>,
    /// Whether both ends are one host.
    pub same_host: Option<bool>,
    /// How the run was placed on the CPUs: asked and effective.
    pub placement: PlacementRecord,
    /// The seed of the random order of rounds.
    pub seed: u64,
    /// Round trips, one row per transport and payload.
    pub latency: Vec<LatencyRow>,
    /// One-way streams, one row per transport, strategy and payload.
    pub strategy: Vec<StrategyRow>,
    /// The UDP payload smoke test, one row per path and payload.
    pub udp_smoke: Vec<SmokeRow>,
    /// Its verdicts, one per payload.
    pub udp_smoke_verdicts: Vec<SmokeVerdict>,
    /// Round trips to a server, the first cell of `cells`.
    pub ping: Option<ping::PingCell>,
    /// Round trips to a server, one cell for each address and payload.
    pub cells: Vec<ping::PingCell>,
    /// One-way streams to a server, one row for each address and payload.
    pub stream: Vec<stream::StreamRow>,
    /// Lateness of timers, one row per CPU.
    pub wakeup: Vec<wakeup::WakeupRow>,
    /// Many senders against one receiver, idle and under load.
    pub soak: Option<soak::Soak>,
    /// Cells that were asked for and cannot be, each with its reason.
    pub absent: Vec<Absent>,
    /// What makes the figures doubtful, worst first.
    pub warnings: Vec<Doubt>,
    /// What became of each `--fail-if`.
    pub gates: Vec<Verdict>,
    /// Ctrl-C or SIGTERM ended the run early: what stands here is partial.
    pub interrupted: bool,
    /// What ended the run, when something did.
    pub error: Option<String>,
}

impl Report {
    /// The servers elsewhere that the tables of `bench` were measured against, each once.
    pub(crate) fn servers_elsewhere(&self) -> Vec<&str> {
        let latency = self.latency.iter().map(|row| &row.address);
        let strategy = self.strategy.iter().map(|row| &row.address);
        let mut servers: Vec<&str> = latency
            .chain(strategy)
            .filter_map(|address| address.as_deref())
            .collect();
        // The rows of one transport follow each other within each table.
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

/// The clock used and what reading it costs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Clock {
    /// `CLOCK_MONOTONIC`.
    pub name: Cow<'static, str>,
    /// Smallest step seen.
    pub resolution_ns: u64,
    /// Median cost of one reading.
    pub read_ns: f64,
}

/// Where the threads were asked to run, and where they did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlacementRecord {
    /// `free`, `same`, `split` or `cross`.
    pub requested: String,
    /// What was found on reading back, one entry a thread.
    pub threads: Vec<ThreadRecord>,
    /// Whether `/dev/cpu_dma_latency` was held at zero.
    pub stay_awake: bool,
    /// Whether a `SCHED_IDLE` spinner kept each CPU busy.
    pub keep_cpus_busy: bool,
    /// Why the effective placement differs from the request.
    pub note: Option<String>,
}

/// One measuring thread, as the kernel describes it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ThreadRecord {
    /// What the thread does: `client`, `server`, …
    pub role: String,
    /// CPUs asked for; empty is any.
    pub cpus_requested: Vec<usize>,
    /// CPUs allowed, read back.
    pub cpus_effective: Vec<usize>,
    /// Scheduler asked for.
    pub sched_requested: String,
    /// Scheduler read back.
    pub sched_effective: String,
}

/// One row of the latency table.
///
/// The figures on the row itself are those of one driver, `handoff` where it was measured: an
/// application thread sends and waits, the reply comes by callback.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LatencyRow {
    /// `tcp`, `tls`, `udp`, `uds` or `serial`.
    pub transport: String,
    /// Payload of each message, without framing.
    pub payload_bytes: usize,
    /// The server elsewhere that it was measured against, as it was typed; `None` for one of our own.
    #[serde(default)]
    pub address: Option<String>,
    /// Runs with fresh endpoints.
    pub runs: usize,
    /// Timed echoes of one driver in one run.
    pub iterations: u64,
    /// Echoes before the first round of each run.
    pub warmup: u64,
    /// Whose figures stand on the row: `handoff` where it was measured, else the first driver.
    pub driver: Option<String>,
    /// Median over runs.
    pub messages_per_s: Option<f64>,
    /// Median over runs, payload one way.
    pub mib_per_s: Option<f64>,
    /// From the merged histogram of all runs, as all below.
    #[serde(flatten)]
    pub summary: RttSummary,
    /// Echoes above 5 ms.
    pub over_5ms: u64,
    /// Echoes above 10 ms.
    pub over_10ms: u64,
    /// Echoes above 50 ms.
    pub over_50ms: u64,
    /// The same wire bytes over raw blocking sockets.
    pub control: RttSummary,
    /// Each way of driving the library, beside the control.
    pub drivers: Vec<DriverRow>,
    /// Each run of `driver`, for the CSV.
    pub each_run: Vec<LatencyRun>,
    /// What it went over.
    #[serde(flatten)]
    pub medium: Medium,
}

/// What the bytes of a row went over, where its transport does not say it all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Medium {
    /// The serial port whose ends are joined, with its settings; `None` where there is none.
    pub port: Option<String>,
    /// What the frame of a payload takes on the wire at the port's baud; `None` where no wire is.
    pub wire_time_ns: Option<u64>,
    /// How long the port's driver gathers bytes, where it says so.
    pub latency_timer_ms: Option<u64>,
    /// Whether the port's driver hands over bytes at once, as it was read back.
    pub low_latency: Option<bool>,
    /// What both ends agreed on, control and library alike; `None` without TLS.
    pub tls: Option<TlsRecord>,
    /// What a reader of the row has to know.
    pub note: Option<String>,
}

/// What both ends of a TLS connection agreed on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsRecord {
    /// `TLS 1.3`
    pub version: String,
    /// `TLS_AES_256_GCM_SHA384`
    pub cipher_suite: String,
    /// From the connected socket to the last byte of the client's handshake, of the first connection;
    /// `None` where there are many.
    #[serde(default)]
    pub handshake_ns: Option<u64>,
    /// Whether the server's certificate was checked; `None` where it is of the run's own making.
    #[serde(default)]
    pub verified: Option<bool>,
    /// SHA-256 of the server's certificate, where it is somebody else's.
    #[serde(default)]
    pub certificate_sha256: Option<String>,
}

/// Order statistics of a set of round trips; `None` where too few samples support one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RttSummary {
    /// Samples.
    pub count: u64,
    /// Fastest.
    pub min_ns: Option<u64>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// Slowest.
    pub max_ns: Option<u64>,
    /// Echoes that never came back, or came back too late to be told from lost ones.
    pub lost: u64,
    /// Replies to an echo that had already been given up as lost, or that had been answered before.
    pub stray: u64,
    /// Replies whose length, sequence or check was wrong.
    pub corrupted: u64,
    /// The whole distribution, where it is kept: of each driver and the control over all runs.
    #[serde(default)]
    pub hdr: Option<Histogram>,
}

/// The percentiles of an [`RttSummary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// The median.
    P50,
    /// 95th.
    P95,
    /// 99th.
    P99,
    /// 99.9th.
    P999,
}

impl Percentile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::P50, Self::P95, Self::P99, Self::P999];

    /// As it is written everywhere: `p99.9`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }

    /// Samples without which it is absent: ten have to lie beyond it.
    #[must_use]
    pub fn least_samples(self) -> u64 {
        match self {
            Self::P50 => 20,
            Self::P95 => 200,
            Self::P99 => 1_000,
            Self::P999 => 10_000,
        }
    }

    /// Its value, where enough samples support one.
    #[must_use]
    pub fn of(self, summary: &RttSummary) -> Option<u64> {
        match self {
            Self::P50 => summary.p50_ns,
            Self::P95 => summary.p95_ns,
            Self::P99 => summary.p99_ns,
            Self::P999 => summary.p999_ns,
        }
    }
}

/// One driver of the library in one cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DriverRow {
    /// `direct`, `callback`, `handoff` or `spin`.
    pub driver: String,
    /// Its own figures.
    #[serde(flatten)]
    pub summary: RttSummary,
    /// Median over rounds of (this driver's p50 in the round ÷ the control's).
    pub p50_ratio: Option<f64>,
    /// Lower end of the 95 % bootstrap interval; `None` below 6 rounds.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
    /// The rounds themselves: p50 of control and driver, in order of execution.
    pub rounds: Vec<RoundPair>,
}

/// One round: both sides within one short block.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct RoundPair {
    /// Which run.
    pub run: usize,
    /// Which round within it.
    pub round: usize,
    /// The control's figure.
    pub control: f64,
    /// The driver's.
    pub product: f64,
}

/// One run of one latency cell: a row of the CSV.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LatencyRun {
    /// Which run, from 0.
    pub run: usize,
    /// Time in timed echoes.
    pub elapsed_s: f64,
    /// Echoes a second.
    pub messages_per_s: f64,
    /// Payload one way.
    pub mib_per_s: f64,
    /// The run's own figures.
    pub summary: RttSummary,
    /// Echoes above 5 ms.
    pub over_5ms: u64,
    /// Echoes above 10 ms.
    pub over_10ms: u64,
    /// Echoes above 50 ms.
    pub over_50ms: u64,
}

/// One row of the strategy table. Rates are medians of runs; counts are sums over runs, peaks are
/// maxima; each run is in `each_run`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StrategyRow {
    /// `tcp`, `tls`, `udp`, `uds` or `serial`.
    pub transport: String,
    /// `reliable`, `besteffort` or `keeplatest`.
    pub strategy: String,
    /// Payload of each message, header included, framing not.
    pub payload_bytes: usize,
    /// The server elsewhere that counted, as it was typed; `None` for one of our own. It tells the time
    /// from its first receipt to its last, and rates are over that.
    #[serde(default)]
    pub address: Option<String>,
    /// Runs with fresh endpoints.
    pub runs: usize,
    /// Sends tried.
    pub offered_messages: u64,
    /// Sends that said `Ok`.
    pub accepted_messages: u64,
    /// Messages that arrived whole.
    pub received_messages: u64,
    /// Payload accepted, over first send to last receipt.
    pub accepted_mib_per_s: Option<f64>,
    /// Payload received, over the same time.
    pub received_mib_per_s: Option<f64>,
    /// Received over accepted, in messages; rounded down, so 100 means all.
    pub delivery_percent: Option<f64>,
    /// Sends refused.
    pub failed_sends: u64,
    /// Refused (besteffort) plus evicted (keeplatest).
    pub dropped_messages: u64,
    /// The first part of `dropped_messages`.
    pub refused_messages: u64,
    /// The second part of `dropped_messages`.
    pub evicted_messages: u64,
    /// Payload of `dropped_messages`.
    pub dropped_mib: f64,
    /// Accepted, not discarded by the library, and never received: what the transport lost.
    pub lost_messages: u64,
    /// Most that ever waited or was in flight, in encoded bytes.
    pub max_queue_kib: f64,
    /// Crossings of high and low water.
    pub pressure_events: u64,
    /// Whether the library's own statistics back the row: always, here.
    pub runtime_stats: bool,
    /// What the receiver checked.
    pub integrity: Integrity,
    /// accepted = written + waiting + discarded, in messages and bytes, at the end of every run.
    pub accounting_closes: bool,
    /// Runs whose drain gave up at its bound.
    pub drains_given_up: usize,
    /// The same bytes from a raw writer, each message its own write.
    pub control: StreamControl,
    /// Each run, for the CSV.
    pub each_run: Vec<StrategyRun>,
    /// What it went over.
    #[serde(flatten)]
    pub medium: Medium,
}

/// What the receiver found in the messages' sequence numbers and checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrity {
    /// Sequence numbers that never came, those of evicted messages among them.
    pub gaps: u64,
    /// Sequence numbers that came twice.
    pub duplicates: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// Messages whose check or length was wrong.
    pub corrupted: u64,
}

/// The raw writer beside a strategy row.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StreamControl {
    /// Median over runs.
    pub received_mib_per_s: Option<f64>,
    /// Median over runs.
    pub received_messages_per_s: Option<f64>,
    /// Median over runs of (library received ÷ control received).
    pub ratio: Option<f64>,
}

/// One run of one strategy cell: a row of the CSV.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StrategyRun {
    /// Which run, from 0.
    pub run: usize,
    /// First send to last receipt; of a server elsewhere first receipt to last, by its clock.
    pub elapsed_s: f64,
    /// Sends tried.
    pub offered_messages: u64,
    /// Sends that said `Ok`.
    pub accepted_messages: u64,
    /// Sends refused.
    pub failed_sends: u64,
    /// Messages that arrived whole.
    pub received_messages: u64,
    /// Evicted by keeplatest.
    pub evicted_messages: u64,
    /// Most that ever waited or was in flight, in encoded bytes.
    pub max_queue_bytes: u64,
    /// Crossings of high and low water.
    pub pressure_events: u64,
    /// What the receiver checked.
    pub integrity: Integrity,
    /// The control's rate in the same run.
    pub control_received_mib_per_s: Option<f64>,
    /// The sending end's own statistics after the drain.
    pub sender: EndStatistics,
    /// The receiving end's own statistics after the drain; `None` of a server elsewhere, which tells
    /// its counts and no more.
    pub receiver: Option<EndStatistics>,
}

/// One end of a stream as the library's own statistics describe it. Encoded bytes, framing included.
///
/// accepted = written + waiting + discarded holds in messages and in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndStatistics {
    /// Sends that said `Ok`.
    pub accepted_messages: u64,
    /// Their encoded bytes.
    pub accepted_bytes: u64,
    /// Messages of which the kernel has the last byte.
    pub written_messages: u64,
    /// Their encoded bytes.
    pub written_bytes: u64,
    /// Still waiting or in flight when this was read.
    pub waiting_messages: u64,
    /// Their encoded bytes.
    pub waiting_bytes: u64,
    /// Accepted and then discarded, whatever the cause.
    pub discarded_messages: u64,
    /// Their encoded bytes.
    pub discarded_bytes: u64,
    /// Sends refused.
    pub refused_messages: u64,
    /// Their encoded bytes.
    pub refused_bytes: u64,
    /// Most that ever waited or was in flight.
    pub max_queued_bytes: u64,
    /// Crossings of high and low water.
    pub pressure_events: u64,
    /// Messages received.
    pub received_messages: u64,
    /// Their payload.
    pub received_payload_bytes: u64,
}

impl EndStatistics {
    /// The sending half of a link.
    pub(crate) fn of_sending(sending: &SendStatistics) -> Self {
        let discarded = sending.discarded.total();
        Self {
            accepted_messages: sending.accepted.messages,
            accepted_bytes: sending.accepted.bytes,
            written_messages: sending.written.messages,
            written_bytes: sending.written.bytes,
            waiting_messages: sending.waiting.messages,
            waiting_bytes: sending.waiting.bytes,
            discarded_messages: discarded.messages,
            discarded_bytes: discarded.bytes,
            refused_messages: sending.refused.messages,
            refused_bytes: sending.refused.bytes,
            max_queued_bytes: sending.peak.bytes,
            pressure_events: sending.pressure_crossings,
            ..Self::default()
        }
    }

    /// Both halves of a link.
    pub(crate) fn of(link: &LinkStatistics) -> Self {
        Self {
            received_messages: link.receiving.messages,
            received_payload_bytes: link.receiving.payload_bytes,
            ..Self::of_sending(&link.sending)
        }
    }

    /// What was counted after `before`. What waits and what ever waited at most is no count, and stays.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            accepted_messages: self.accepted_messages - before.accepted_messages,
            accepted_bytes: self.accepted_bytes - before.accepted_bytes,
            written_messages: self.written_messages - before.written_messages,
            written_bytes: self.written_bytes - before.written_bytes,
            discarded_messages: self.discarded_messages - before.discarded_messages,
            discarded_bytes: self.discarded_bytes - before.discarded_bytes,
            refused_messages: self.refused_messages - before.refused_messages,
            refused_bytes: self.refused_bytes - before.refused_bytes,
            pressure_events: self.pressure_events - before.pressure_events,
            received_messages: self.received_messages - before.received_messages,
            received_payload_bytes: self.received_payload_bytes - before.received_payload_bytes,
            waiting_messages: self.waiting_messages,
            waiting_bytes: self.waiting_bytes,
            max_queued_bytes: self.max_queued_bytes,
        }
    }
}

/// A cell that was asked for and cannot be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Absent {
    /// `latency` or `strategy`.
    pub table: Cow<'static, str>,
    /// `tcp`, `udp` or `uds`.
    pub transport: String,
    /// The payload that does not fit.
    pub payload_bytes: usize,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;

    #[test]
    fn a_percentile_is_there_from_its_least_samples_on() {
        let summary = |samples: u64| {
            let mut recorder = Recorder::new();
            (0..samples).for_each(|rtt_ns| recorder.record(1_000 + rtt_ns));
            recorder.summary()
        };
        for percentile in Percentile::ALL {
            let least = percentile.least_samples();
            assert_eq!(
                percentile.of(&summary(least - 1)),
                None,
                "{}",
                percentile.name()
            );
            assert!(
                percentile.of(&summary(least)).is_some(),
                "{}",
                percentile.name()
            );
        }
    }
}
