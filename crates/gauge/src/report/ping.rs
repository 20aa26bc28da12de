//! What `ping` found out, one cell for each address and payload.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Medium;
use super::histogram::Histogram;
use crate::moments::Coincidence;

/// Round trips to one address with one payload.
///
/// Every ping has one outcome: sent = received + late + lost + corrupted + `in_flight_at_end`, where
/// damaged repeats of answered pings are counted in `corrupted` beyond it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PingCell {
    /// As it was asked for.
    pub address: String,
    /// `tcp`, `tls`, `udp`, `uds` or `serial`.
    pub transport: String,
    /// Bytes of a message, all of it.
    pub payload_bytes: usize,
    /// Connections at once.
    pub connections: usize,
    /// Threads they were shared by.
    pub threads: usize,
    /// `closed`: the next ping waits for the reply to the last. `open`: it leaves at its time.
    pub pacing: Cow<'static, str>,
    /// What kept the machine or the way busy meanwhile: `none`, `primes`, `stream:N` or a command.
    #[serde(default = "no_load")]
    pub load: String,
    /// Pings before the first one that counts, over all connections.
    pub warmup: u64,
    /// From the first ping to the last reply.
    pub elapsed_s: f64,
    /// Pings sent.
    pub sent: u64,
    /// Pings answered whole and in time: those that `rtt` is made of.
    pub received: u64,
    /// Never answered; 0 on streams, where what does not come is in flight.
    pub lost: u64,
    /// Of those, lost on the way there: the server never had them. `None` where it could not be asked.
    pub lost_up: Option<u64>,
    /// Of those, lost on the way back.
    pub lost_down: Option<u64>,
    /// Replies to pings that had been answered before.
    pub duplicate: u64,
    /// Of `received`, those that came after the reply to a later ping.
    pub reordered: u64,
    /// Answered after the timeout: not lost, and not in the percentiles.
    pub late: u64,
    /// Damaged on either way.
    pub corrupted: u64,
    /// Unanswered when the run ended, with time left.
    pub in_flight_at_end: u64,
    /// Open loop: pings a second that were asked for.
    pub asked_rate_hz: Option<f64>,
    /// Open loop: those that left.
    pub achieved_rate_hz: Option<f64>,
    /// Open loop: pings that left more than `late_send_ns` after their time.
    pub late_sends: Option<u64>,
    /// Open loop: from here on a send counts as late.
    pub late_send_ns: Option<u64>,
    /// Open loop: the latest of them.
    pub latest_send_ns: Option<u64>,
    /// Service times, from leaving to coming back.
    pub rtt: Times,
    /// Open loop: response times, from the time a ping should have left.
    pub response: Option<Times>,
    /// Half of `rtt`, an estimate of one way, where it was asked for.
    pub half_rtt: Option<Times>,
    /// The 95 % interval of the slices' medians.
    pub p50_low_ns: Option<f64>,
    /// Its upper end.
    pub p50_high_ns: Option<f64>,
    /// Counts in steps of the user's.
    pub histogram: Option<LinearHistogram>,
    /// Seconds of the run, or more than seconds where it was long: of `response` in open loop, else
    /// of `rtt`.
    pub slices: Vec<Slice>,
    /// The slowest moments, slowest first.
    pub slow: Vec<SlowMoment>,
    /// Each thread alone.
    pub each_thread: Vec<ThreadCell>,
    /// The way there.
    pub path: Path,
    /// What it went over, where that is more than a socket.
    #[serde(flatten)]
    pub medium: Medium,
    /// Samples that `--samples` had to leave out because the file took them too slowly.
    pub samples_left_out: u64,
    /// What ended the cell, when something did.
    pub error: Option<String>,
}

fn no_load() -> String {
    "none".to_owned()
}

/// Order statistics of times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Samples.
    pub count: u64,
    /// Fastest.
    pub min_ns: Option<u64>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation.
    pub stddev_ns: Option<f64>,
    /// Slowest.
    pub max_ns: Option<u64>,
    /// Those asked for.
    pub percentiles: Vec<PercentileValue>,
    /// Above 1 ms.
    pub over_1ms: u64,
    /// Above 5 ms.
    pub over_5ms: u64,
    /// Above 10 ms.
    pub over_10ms: u64,
    /// Above 20 ms.
    pub over_20ms: u64,
    /// The whole distribution, where it is kept: of a cell, not of each thread.
    #[serde(default)]
    pub hdr: Option<Histogram>,
}

/// One percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PercentileValue {
    /// 99.9 for p99.9.
    pub percentile: f64,
    /// Its value, where at least ten samples lie beyond it.
    pub value_ns: Option<u64>,
    /// Why there is none.
    pub reason: Option<String>,
}

/// Counts in equal steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinearHistogram {
    /// Where the first step begins.
    pub from_ns: u64,
    /// How wide each is.
    pub step_ns: u64,
    /// Samples below the first.
    pub below: u64,
    /// Samples of each.
    pub counts: Vec<u64>,
    /// Samples above the last.
    pub above: u64,
}

/// A part of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// When it began, from the start of the run.
    pub start_s: f64,
    /// How long it was.
    pub seconds: f64,
    /// Pings sent.
    pub sent: u64,
    /// Replies in time.
    pub received: u64,
    /// Their mean.
    pub mean_ns: Option<f64>,
    /// Their median, to about 3 %.
    pub p50_ns: Option<u64>,
    /// Their 99th percentile, to about 3 %.
    pub p99_ns: Option<u64>,
    /// The slowest.
    pub max_ns: Option<u64>,
}

/// One slow ping, and what the machine did meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowMoment {
    /// When it was sent, or should have been, from the start of the run.
    pub at_s: f64,
    /// The same by the clock of the report.
    pub at_monotonic_ns: u64,
    /// How long it took.
    pub time_ns: u64,
    /// Its number on its connection.
    pub sequence: u64,
    /// Its connection.
    pub connection: usize,
    /// What happened around it; `None` where nothing was read in time.
    pub coincided: Option<Coincidence>,
}

/// One thread's share of a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ThreadCell {
    /// Which, from 0.
    pub thread: usize,
    /// Its connections.
    pub connections: usize,
    /// Pings sent.
    pub sent: u64,
    /// Replies in time.
    pub received: u64,
    /// Its own service times.
    pub rtt: Times,
}

/// The way to the server, as the first connection has it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Path {
    /// This end.
    pub local: Option<String>,
    /// The other end.
    pub remote: Option<String>,
    /// Options of the socket: what was asked for, and what the kernel says it is.
    pub options: Vec<SocketOption>,
    /// TCP before the first ping that counts.
    pub tcp_before: Option<TcpState>,
    /// TCP after the last.
    pub tcp_after: Option<TcpState>,
    /// Segments sent again on all connections meanwhile.
    pub retransmits: Option<u64>,
}

/// One option of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOption {
    /// Its name on the command line, without dashes.
    pub name: Cow<'static, str>,
    /// What was asked for; `None` is the kernel's default.
    pub requested: Option<String>,
    /// What it is, as read back.
    pub effective: Option<String>,
}

/// A connection as TCP_INFO describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpState {
    /// Segments sent again since it was opened.
    pub retransmits: u64,
    /// Smoothed round trip, as the kernel has it.
    pub srtt_us: u64,
    /// Its variation.
    pub rttvar_us: u64,
    /// Segments that may be under way.
    pub congestion_window: u64,
    /// Bytes of a segment.
    pub mss_bytes: u64,
    /// Of the path.
    pub path_mtu_bytes: u64,
    /// The algorithm.
    pub congestion_control: Option<String>,
}
