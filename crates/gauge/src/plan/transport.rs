//! The transports that `bench` measures, as they are typed.

use std::fmt;
use std::str::FromStr;

use super::{DATAGRAM_PAYLOAD_LIMIT_BYTES, PlanError, STREAM_PAYLOAD_LIMIT_BYTES, one_of};

/// The transports that `bench` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP over loopback.
    Tcp,
    /// TLS over TCP over loopback.
    Tls,
    /// UDP over loopback.
    Udp,
    /// Unix stream sockets.
    Uds,
    /// A serial line: pseudo-terminals, or one port whose ends are joined.
    Serial,
}

impl Transport {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Tls, Self::Udp, Self::Uds, Self::Serial];

    /// What the tables take unasked: what every machine has, and every build.
    pub const DEFAULT: [Self; 3] = [Self::Tcp, Self::Udp, Self::Uds];

    /// The name in addresses, options and reports.
    pub fn token(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Udp => "udp",
            Self::Uds => "uds",
            Self::Serial => "serial",
        }
    }

    /// Whether this build speaks it: TLS and serial lines are features.
    pub fn is_built(self) -> bool {
        match self {
            Self::Tcp | Self::Udp | Self::Uds => true,
            Self::Tls => cfg!(feature = "tls"),
            Self::Serial => cfg!(feature = "serial"),
        }
    }

    /// Whether `serve` and its clients speak in datagrams there: each message stands for itself, and may
    /// be lost. A serial line does lose bytes, and nobody sees a client come or go.
    pub const fn speaks_datagrams(self) -> bool {
        match self {
            Self::Udp | Self::Serial => true,
            Self::Tcp | Self::Tls | Self::Uds => false,
        }
    }

    /// Whether a connection of TCP carries it.
    pub const fn is_over_tcp(self) -> bool {
        match self {
            Self::Tcp | Self::Tls => true,
            Self::Udp | Self::Uds | Self::Serial => false,
        }
    }

    /// Bytes that the framing adds to each payload: the 4-byte prefix on byte streams.
    pub fn overhead_bytes(self) -> usize {
        match self {
            Self::Tcp | Self::Tls | Self::Uds | Self::Serial => 4,
            Self::Udp => 0,
        }
    }

    /// The largest payload that this transport carries in one message here.
    pub fn payload_limit_bytes(self) -> usize {
        match self {
            Self::Tcp | Self::Tls | Self::Uds | Self::Serial => STREAM_PAYLOAD_LIMIT_BYTES,
            Self::Udp => DATAGRAM_PAYLOAD_LIMIT_BYTES,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

impl FromStr for Transport {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        one_of("--transports", text, &Self::ALL, Self::token)
    }
}
