//! Options that say when a connection is dead, and how messages are gathered: of one link each.

use std::time::Duration;

use tautline_session::{CONTROL_BYTES, Framing, Heartbeat};

use super::LinkOptions;
use crate::address::Address;
use crate::error::Error;

/// When messages that were received are handed out together; see
/// [`LinkOptions::batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// At most so many messages.
    pub messages: usize,
    /// At most so many payload bytes: what a link holds back. A message that is larger goes alone.
    pub bytes: usize,
    /// No message waits longer than this for others.
    pub age: Duration,
}

/// How the kernel probes a TCP peer that says nothing (`tcp(7)`); see
/// [`LinkOptions::keepalive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe (`TCP_KEEPIDLE`): whole seconds, 1 to 32,767.
    pub idle: Duration,
    /// Between two probes (`TCP_KEEPINTVL`): whole seconds, 1 to 32,767.
    pub interval: Duration,
    /// Probes without an answer before the peer counts as dead (`TCP_KEEPCNT`): 1 to 127.
    pub count: u32,
}

impl Batch {
    pub(super) fn validate(&self) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::option("batch", why));
        if self.messages == 0 {
            return refused("0 messages would never hand anything out");
        }
        if self.bytes == 0 {
            return refused("0 bytes would never hand anything out");
        }
        if self.age.is_zero() {
            return refused("an age of 0 gathers nothing; leave it None");
        }
        Ok(())
    }
}

impl Keepalive {
    fn validate(&self) -> Result<(), Error> {
        seconds("keepalive", "idle", self.idle)?;
        seconds("keepalive", "interval", self.interval)?;
        if self.count == 0 || self.count > KEEPALIVE_COUNT_LIMIT {
            return Err(Error::option(
                "keepalive",
                format!(
                    "a count of {} is outside 1 to {KEEPALIVE_COUNT_LIMIT}",
                    self.count
                ),
            ));
        }
        Ok(())
    }
}

impl LinkOptions {
    pub(super) fn validate_liveness(&self, address: &Address) -> Result<(), Error> {
        for (name, timeout) in [
            ("idle_timeout", self.idle_timeout),
            ("receive_idle_timeout", self.receive_idle_timeout),
            ("send_idle_timeout", self.send_idle_timeout),
        ] {
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                let why = "0 would end every connection at once; None is for ever";
                return Err(Error::option(name, why));
            }
        }
        if let Some(batch) = &self.batch {
            batch.validate()?;
        }
        if let Some(heartbeat) = &self.heartbeat {
            self.validate_heartbeat(heartbeat)?;
        }
        if let Some(keepalive) = &self.keepalive {
            only_tcp("keepalive", address)?;
            keepalive.validate()?;
        }
        if let Some(timeout) = self.tcp_user_timeout {
            only_tcp("tcp_user_timeout", address)?;
            user_timeout(timeout)?;
        }
        Ok(())
    }

    fn validate_heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::option("heartbeat", why));
        let Framing::LengthPrefix { .. } = self.framing else {
            return refused("only a length prefix can tell heartbeats from messages");
        };
        if heartbeat.interval.is_zero() {
            return refused("an interval of 0 would never stop asking");
        }
        if heartbeat.missed_limit == 0 {
            return refused("a missed_limit of 0 would lose every peer at once");
        }
        let most = self.framing.payload_limit_bytes() - 1;
        if self.frame_limit_bytes > most {
            let why = format!(
                "{} is what marks heartbeats: {most} at most",
                self.frame_limit_bytes
            );
            return Err(Error::option("frame_limit_bytes", why));
        }
        self.heartbeat_fits("queue_limit_bytes", self.ordinary_queue_bytes())
    }

    /// Refuses a limit that a heartbeat does not fit: none would ever be sent, and every peer be lost.
    pub(super) fn heartbeat_fits(&self, name: &'static str, limit: usize) -> Result<(), Error> {
        let frame_bytes = self.framing.header_bytes() + CONTROL_BYTES;
        if self.heartbeat.is_none() || limit >= frame_bytes {
            return Ok(());
        }
        let why = format!("{limit} has no room for a heartbeat: {frame_bytes} bytes");
        Err(Error::option(name, why))
    }

    /// What needs a thread that looks at the clock: a direct link has none.
    pub(crate) fn refuse_threads_work(&self) -> Result<(), Error> {
        let why = "a DirectLink has no thread that could watch the clock; receive with a deadline";
        for (name, asked) in [
            ("idle_timeout", self.idle_timeout.is_some()),
            ("receive_idle_timeout", self.receive_idle_timeout.is_some()),
            ("send_idle_timeout", self.send_idle_timeout.is_some()),
            ("heartbeat", self.heartbeat.is_some()),
        ] {
            if asked {
                return Err(Error::option(name, why));
            }
        }
        if self.batch.is_some() {
            return Err(Error::option(
                "batch",
                "a DirectLink hands out each message by itself",
            ));
        }
        Ok(())
    }
}

fn only_tcp(name: &'static str, address: &Address) -> Result<(), Error> {
    match address {
        Address::Tcp { .. } | Address::Tls { .. } => Ok(()),
        Address::Udp { .. } | Address::Uds(_) | Address::Serial(_) => Err(Error::option(
            name,
            format!("{} has no such thing, only tcp", address.scheme()),
        )),
    }
}

fn seconds(name: &'static str, which: &str, duration: Duration) -> Result<(), Error> {
    let whole = duration.subsec_nanos() == 0;
    if whole && (1..=KEEPALIVE_SECONDS_LIMIT).contains(&duration.as_secs()) {
        return Ok(());
    }
    Err(Error::option(
        name,
        format!("{which} {duration:?} is not in whole seconds from 1 to {KEEPALIVE_SECONDS_LIMIT}"),
    ))
}

fn user_timeout(timeout: Duration) -> Result<(), Error> {
    let whole = timeout.subsec_nanos().is_multiple_of(1_000_000);
    if whole && (1..=USER_TIMEOUT_LIMIT_MS).contains(&timeout.as_millis()) {
        return Ok(());
    }
    Err(Error::option(
        "tcp_user_timeout",
        format!("{timeout:?} is not in whole milliseconds from 1 to {USER_TIMEOUT_LIMIT_MS}"),
    ))
}

/// `MAX_TCP_KEEPIDLE` and `MAX_TCP_KEEPINTVL` of the kernel (include/net/tcp.h).
const KEEPALIVE_SECONDS_LIMIT: u64 = 32_767;
/// `MAX_TCP_KEEPCNT`.
const KEEPALIVE_COUNT_LIMIT: u32 = 127;
/// The option is an int that may not be negative.
const USER_TIMEOUT_LIMIT_MS: u128 = i32::MAX as u128;

#[cfg(test)]
mod tests;
