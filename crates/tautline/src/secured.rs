//! What a TLS handshake came to, and what TLS has counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the two ends of a TLS connection agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Secured {
    /// The version of the protocol.
    pub version: TlsVersion,
    /// The cipher suite, by the name it is registered with, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
    /// What the peer showed, as DER: its own certificate first, then those that lead from it to a root.
    /// Empty where it showed none, as clients do not unless they are asked.
    pub peer_certificates: Vec<Vec<u8>>,
}

/// A version of TLS. Older ones are not spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "TLS 1.2",
            Self::V1_3 => "TLS 1.3",
        })
    }
}

/// What TLS has counted on a link, through all its connections, or on all peers of a server.
///
/// All other counters of a link are of what TLS carries: its wire bytes are those of frames before they
/// are encrypted. These are the bytes on the cable, handshakes and the frame of every record included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TlsStatistics {
    /// Encrypted bytes that the kernel took.
    pub sent_bytes: u64,
    /// Encrypted bytes that came.
    pub received_bytes: u64,
    /// Handshakes that were completed.
    pub handshakes: u64,
    /// How long these took together, from the connected socket to the last byte of ours.
    pub handshake_time: Duration,
}

impl TlsStatistics {
    /// Adds another link's; `None` is one that never spoke TLS.
    pub(crate) fn add(total: &mut Option<Self>, other: Option<Self>) {
        let Some(other) = other else {
            return;
        };
        let total = total.get_or_insert_default();
        total.sent_bytes += other.sent_bytes;
        total.received_bytes += other.received_bytes;
        total.handshakes += other.handshakes;
        total.handshake_time += other.handshake_time;
    }
}

/// The counters behind [`TlsStatistics`]: written by whoever holds a session's lock.
#[derive(Debug, Default)]
pub(crate) struct TlsCounters {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    handshakes: AtomicU64,
    handshake_ns: AtomicU64,
}

#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "nothing is counted where no TLS is spoken")
)]
impl TlsCounters {
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn completed(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.handshake_ns.fetch_add(ns, Ordering::Relaxed);
        self.handshakes.fetch_add(1, Ordering::Relaxed);
    }
}

impl TlsCounters {
    pub(crate) fn snapshot(&self) -> TlsStatistics {
        TlsStatistics {
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            handshakes: self.handshakes.load(Ordering::Relaxed),
            handshake_time: Duration::from_nanos(self.handshake_ns.load(Ordering::Relaxed)),
        }
    }
}
