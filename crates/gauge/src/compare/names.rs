//! What names a row: the words by which it is found on both sides, chosen by a gate, and printed.

use std::fmt;

use serde::Serialize;

/// The tables of a report, in the order in which they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// Round trips within one process.
    Latency,
    /// One-way streams within one process.
    Strategy,
    /// Round trips to a server.
    Ping,
    /// One-way streams to a server.
    Stream,
    /// Many senders, idle and loaded.
    Soak,
    /// Lateness of timers.
    Wakeup,
}

/// Everything that names a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Names {
    /// Where it stands.
    pub table: Table,
    /// `tcp`, `udp` or `uds`.
    pub transport: Option<String>,
    /// The driver, or `control`.
    pub driver: Option<String>,
    /// The send strategy.
    pub strategy: Option<String>,
    /// `none` or the load.
    pub load: Option<String>,
    /// The payload.
    pub payload_bytes: Option<usize>,
    /// The CPU whose timers they are.
    pub cpu: Option<usize>,
    /// Whether it is raw sockets: it speaks of the machine, not of the product.
    pub control: bool,
    /// What else tells it apart: connections and rate, senders, interval.
    pub detail: String,
    /// Which one, from 0, where a report has several of the same names: addresses of a ping, say.
    pub number: usize,
}

impl Names {
    pub(super) fn of(table: Table) -> Self {
        Self {
            table,
            transport: None,
            driver: None,
            strategy: None,
            load: None,
            payload_bytes: None,
            cpu: None,
            control: false,
            detail: String::new(),
            number: 0,
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.transport.clone(),
            self.driver.clone(),
            self.strategy.clone(),
            self.load.as_ref().map(|load| format!("load {load}")),
            self.cpu.map(|cpu| format!("CPU {cpu}")),
            self.payload_bytes.map(|bytes| format!("{bytes} B")),
            Some(self.detail.clone()).filter(|detail| !detail.is_empty()),
            (self.number > 0).then(|| format!("#{}", self.number + 1)),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        f.write_str(&words.join(" "))
    }
}

impl Table {
    /// What its rounds are.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Latency => "round",
            Self::Strategy | Self::Stream | Self::Wakeup => "run",
            Self::Ping | Self::Soak => "one-second slice",
        }
    }
}
