//! The UDP payload smoke test: does every datagram of every size come back whole, and if not, why.

use serde::{Deserialize, Serialize};

use super::EndStatistics;

/// One way of sending one payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SmokeRow {
    /// `raw` sockets, or the library's `reliable` or `besteffort`.
    pub path: String,
    /// Bytes of each datagram.
    pub payload_bytes: usize,
    /// Echoes that were asked for; less were made where every one of the last failed.
    pub iterations: u64,
    /// Echoes before them that are not counted here.
    pub warmup: u64,
    /// Sends tried.
    pub send_attempts: u64,
    /// Sends that succeeded, warm-up not counted.
    pub sent: u64,
    /// Of those, what the server received.
    pub server_received: u64,
    /// What came back, intact or not.
    pub client_received: u64,
    /// What came back equal to what was sent, to the last byte.
    pub matched: u64,
    /// `client_received` in percent of `sent`, never rounded up to 100.
    pub delivery_percent: Option<f64>,
    /// `matched` in percent of `sent`, never rounded up to 100.
    pub match_percent: Option<f64>,
    /// Echoes that did not come within the timeout.
    pub timeouts: u64,
    /// Sends that failed.
    pub send_failures: u64,
    /// What the first failed send said.
    pub send_failure: Option<String>,
    /// It was given up after so many failures in a row that nothing else would have followed.
    pub stopped_early: bool,
    /// From the first send to the last reply or timeout.
    pub elapsed_s: f64,
    /// The library's own counters; raw sockets have none.
    pub runtime: Option<SmokeRuntime>,
    /// The verdict on this payload.
    pub classification: SmokeClass,
}

/// The library's counters at both ends, warm-up not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmokeRuntime {
    /// Of the client's link.
    pub client: EndStatistics,
    /// Of the server's peer.
    pub server: EndStatistics,
}

/// Where a payload's trouble comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SmokeClass {
    /// There is none.
    None,
    /// Raw sockets have it too: the system, its buffers, its limits.
    Environment,
    /// Raw sockets are clean and the library is not, without a full queue.
    LibraryPath,
    /// The library's queue was full: messages were refused or given up by its own rules.
    PressureModel,
    /// A path was not measured to its end.
    Undecided,
}

impl SmokeClass {
    /// The word in tables.
    pub fn token(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Environment => "environment",
            Self::LibraryPath => "library path",
            Self::PressureModel => "pressure model",
            Self::Undecided => "undecided",
        }
    }
}

/// The verdict on one payload, with what led to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SmokeVerdict {
    /// Bytes of each datagram.
    pub payload_bytes: usize,
    /// Where the trouble comes from.
    pub classification: SmokeClass,
    /// The figures that decided it, in words.
    pub because: String,
    /// What the kernel counted while this payload was sent, in this network namespace: datagrams that
    /// it dropped, whosever they were.
    pub kernel: KernelUdp,
    /// `SO_RCVBUF` of the raw sockets, as granted.
    pub receive_buffer_bytes: Option<u64>,
    /// `SO_SNDBUF` of the raw sockets, as granted.
    pub send_buffer_bytes: Option<u64>,
    /// Of the loopback interface.
    pub mtu_bytes: Option<u64>,
}

/// Kernel drop events of UDP, from `/proc/net/snmp` and `snmp6`; null where they cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelUdp {
    /// `InErrors`
    pub receive_errors: Option<u64>,
    /// `RcvbufErrors`: no room in a receive buffer.
    pub receive_buffer_errors: Option<u64>,
    /// `SndbufErrors`
    pub send_buffer_errors: Option<u64>,
    /// `InCsumErrors`
    pub checksum_errors: Option<u64>,
    /// `NoPorts`: nobody listened.
    pub no_ports: Option<u64>,
}
