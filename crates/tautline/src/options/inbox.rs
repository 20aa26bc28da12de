//! Options of what futures take from: a link's inbox, and a server's backlog.

use tautline_session::{Intake, Tally};

use super::non_zero;
use crate::error::Error;

/// How much may wait for a task that receives.
///
/// When either limit is reached, reading pauses: the kernel's buffer fills, and a stream's peer has to
/// wait. Once half has been taken, it goes on. A stream is never closed because the application is slow.
/// Of a UDP link the kernel then drops what finds no room in its buffer; a peer of a UDP server shares
/// that buffer with others, so what comes for it is dropped and counted in
/// [`dropped_while_paused`](crate::ReceiveStatistics::dropped_while_paused).
///
/// ```
/// use tautline::InboxOptions;
///
/// let small = InboxOptions { limit_messages: 16, ..InboxOptions::default() };
/// assert_eq!(small.limit_bytes, 256 * 1024);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxOptions {
    /// Most messages waiting, whatever their size. At least 1.
    ///
    /// Default 4,096. Less where what is old is of no use any more.
    pub limit_messages: usize,
    /// Most bytes waiting, without framing. At least 1. The message that reaches the limit is still
    /// taken, so up to one message less a byte may lie beyond it.
    ///
    /// Default 256 KiB: some milliseconds of a fast line, and little beside the kernel's own buffer.
    pub limit_bytes: usize,
}

impl Default for InboxOptions {
    fn default() -> Self {
        Self {
            limit_messages: 4096,
            limit_bytes: 256 * 1024,
        }
    }
}

impl InboxOptions {
    /// Refuses, by the option's name, what makes no sense.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        const WHY: &str = "0 would never take a message";
        non_zero("limit_messages", self.limit_messages, WHY)?;
        non_zero("limit_bytes", self.limit_bytes, WHY)
    }

    pub(crate) const fn intake(&self) -> Intake {
        Intake::new(Tally {
            messages: self.limit_messages as u64,
            bytes: self.limit_bytes as u64,
        })
    }
}

/// How a server hands its peers to a task that accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptOptions {
    /// The inbox of every peer.
    pub inbox: InboxOptions,
    /// Most peers that wait to be accepted. At least 1. One more is turned away and counted.
    ///
    /// Default 1,024, as [`connection_limit`](crate::ServerOptions::connection_limit): then none is
    /// turned away because the task that accepts is slow. Each may have a full inbox.
    pub backlog_limit: usize,
}

impl Default for AcceptOptions {
    fn default() -> Self {
        Self {
            inbox: InboxOptions::default(),
            backlog_limit: 1024,
        }
    }
}

impl AcceptOptions {
    /// Refuses, by the option's name, what makes no sense.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        self.inbox.validate()?;
        non_zero(
            "backlog_limit",
            self.backlog_limit,
            "0 would turn every peer away",
        )
    }
}
