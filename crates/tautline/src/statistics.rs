//! What a link or server has counted so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tautline_session::{HeartbeatRtt, SendStatistics};

use crate::secured::TlsStatistics;

/// Everything a link counts, at one moment. Counters live through all its connections.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LinkStatistics {
    /// The sending half. It closes: accepted = written + waiting + discarded.
    pub sending: SendStatistics,
    /// The receiving half.
    pub receiving: ReceiveStatistics,
    /// Its connections.
    pub connections: ConnectionStatistics,
    /// Round trips of [`heartbeat`](crate::LinkOptions::heartbeat)s; `None` before the first answer, and
    /// for a server's peers together.
    pub heartbeat_rtt: Option<HeartbeatRtt>,
    /// What TLS adds on the cable; `None` on all other transports, and before the first handshake begins.
    pub tls: Option<TlsStatistics>,
}

/// The connections of a link, or of all peers of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConnectionStatistics {
    /// Connections that opened. All but the first are reconnects.
    pub opened: u64,
    /// Attempts to connect; none where the peer connects to us.
    pub attempts: u64,
    /// Attempts that came to nothing.
    pub failed_attempts: u64,
}

impl ConnectionStatistics {
    pub(crate) const fn add(&mut self, other: Self) {
        self.opened += other.opened;
        self.attempts += other.attempts;
        self.failed_attempts += other.failed_attempts;
    }
}

/// The receiving half of [`LinkStatistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReceiveStatistics {
    /// Messages delivered.
    pub messages: u64,
    /// Their bytes, without framing.
    pub payload_bytes: u64,
    /// Bytes that came from the kernel; over TLS, what they were before they were encrypted.
    pub wire_bytes: u64,
    /// Bad or cut frames.
    pub faults: u64,
    /// Bytes passed over because of them: of the wire's bytes, what is neither payload, nor framing, nor
    /// the start of a frame that has not come whole.
    pub skipped_bytes: u64,
    /// Datagrams longer than the receive buffer.
    pub truncated: u64,
    /// Times that the network said a datagram did not arrive (ICMP).
    pub unreachable: u64,
    /// Datagrams dropped because reading was paused: only for a peer of a datagram server, which shares
    /// the kernel's buffer with others.
    pub dropped_while_paused: u64,
    /// Heartbeats that came, which are no messages.
    pub heartbeats: u64,
    /// Reads asked of the kernel.
    pub read_calls: u64,
    /// Time since bytes last came; `None` before the first.
    pub last_receive_age: Option<Duration>,
}

impl ReceiveStatistics {
    /// Adds another link's counters; the age is the younger of the two.
    pub(crate) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.payload_bytes += other.payload_bytes;
        self.wire_bytes += other.wire_bytes;
        self.faults += other.faults;
        self.skipped_bytes += other.skipped_bytes;
        self.truncated += other.truncated;
        self.unreachable += other.unreachable;
        self.dropped_while_paused += other.dropped_while_paused;
        self.heartbeats += other.heartbeats;
        self.read_calls += other.read_calls;
        self.last_receive_age = match (self.last_receive_age, other.last_receive_age) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
    }
}

/// The counters behind [`ReceiveStatistics`]: written by the driver alone, read by anybody. Each is
/// right by itself; a reader may see one a read ahead of another.
#[derive(Debug, Default)]
pub(crate) struct ReceiveCounters {
    messages: AtomicU64,
    payload_bytes: AtomicU64,
    wire_bytes: AtomicU64,
    faults: AtomicU64,
    skipped_bytes: AtomicU64,
    truncated: AtomicU64,
    unreachable: AtomicU64,
    dropped_while_paused: AtomicU64,
    heartbeats: AtomicU64,
    heartbeat_rtt: Mutex<Option<HeartbeatRtt>>,
    read_calls: AtomicU64,
    /// 0 before the first.
    last_receive_ns: AtomicU64,
}

impl ReceiveCounters {
    /// One read: the messages in it, their payload, and the bytes it brought.
    pub(crate) fn read(&self, messages: u64, payload_bytes: u64, wire_bytes: u64, at: Instant) {
        add(&self.messages, messages);
        add(&self.payload_bytes, payload_bytes);
        add(&self.wire_bytes, wire_bytes);
        self.last_receive_ns.store(ns(at), Ordering::Relaxed);
    }

    /// Messages of earlier reads were handed out together.
    pub(crate) fn delivered(&self, messages: u64, payload_bytes: u64) {
        add(&self.messages, messages);
        add(&self.payload_bytes, payload_bytes);
    }

    /// How long ago bytes last came; `None` before the first.
    pub(crate) fn silence(&self, now: Instant) -> Option<Duration> {
        let last_ns = self.last_receive_ns();
        (last_ns > 0).then(|| Duration::from_nanos(ns(now).saturating_sub(last_ns)))
    }

    pub(crate) fn fault(&self) {
        add(&self.faults, 1);
    }

    pub(crate) fn skipped(&self, bytes: u64) {
        add(&self.skipped_bytes, bytes);
    }

    pub(crate) fn truncations(&self, datagrams: u64) {
        add(&self.truncated, datagrams);
    }

    pub(crate) fn dropped_while_paused(&self, datagrams: u64) {
        add(&self.dropped_while_paused, datagrams);
    }

    pub(crate) fn heartbeats(&self, frames: u64) {
        add(&self.heartbeats, frames);
    }

    pub(crate) fn heartbeat_answered(&self, rtt: Duration) {
        let mut known = self.rtt();
        *known = Some(HeartbeatRtt::with(*known, rtt));
    }

    pub(crate) fn heartbeat_rtt(&self) -> Option<HeartbeatRtt> {
        *self.rtt()
    }

    fn rtt(&self) -> MutexGuard<'_, Option<HeartbeatRtt>> {
        self.heartbeat_rtt
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unreachable(&self) {
        self.unreachable.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read_call(&self) {
        add(&self.read_calls, 1);
    }

    pub(crate) fn last_receive_ns(&self) -> u64 {
        self.last_receive_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn snapshot(&self) -> ReceiveStatistics {
        let last_receive_ns = self.last_receive_ns();
        ReceiveStatistics {
            messages: self.messages.load(Ordering::Relaxed),
            payload_bytes: self.payload_bytes.load(Ordering::Relaxed),
            wire_bytes: self.wire_bytes.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
            skipped_bytes: self.skipped_bytes.load(Ordering::Relaxed),
            truncated: self.truncated.load(Ordering::Relaxed),
            unreachable: self.unreachable.load(Ordering::Relaxed),
            dropped_while_paused: self.dropped_while_paused.load(Ordering::Relaxed),
            heartbeats: self.heartbeats.load(Ordering::Relaxed),
            read_calls: self.read_calls.load(Ordering::Relaxed),
            last_receive_age: (last_receive_ns > 0)
                .then(|| Duration::from_nanos(ns(Instant::now()).saturating_sub(last_receive_ns))),
        }
    }
}

/// A time as a number that fits an atomic; never 0.
fn ns(at: Instant) -> u64 {
    static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
    at.saturating_duration_since(*EPOCH).as_nanos() as u64 + 1
}

/// One writer: a load and a store cost less than a locked addition.
fn add(counter: &AtomicU64, more: u64) {
    if more > 0 {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

/// What the kernel has set aside for a socket, in bytes of data: the size granted, which
/// [`send_buffer_bytes`](crate::LinkOptions::send_buffer_bytes) and `receive_buffer_bytes` ask for, or
/// its own choice. TCP's own choices change while data flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketBuffers {
    /// `SO_SNDBUF`, without the kernel's allowance for its bookkeeping.
    pub send_bytes: usize,
    /// `SO_RCVBUF`, likewise.
    pub receive_bytes: usize,
}
