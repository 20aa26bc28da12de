//! Options of a server.

use std::time::Duration;

use super::{LinkOptions, non_zero, queue_bytes};
use crate::address::{Address, UdsName};
use crate::error::Error;

/// Options of a server: those of its links, and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Options of every peer's link. `connect_timeout` and `spin` have no use here.
    pub link: LinkOptions,
    /// Most peers at one time.
    ///
    /// Default 1,024. One more is turned away and counted; over UDP the peer that has been silent
    /// longest makes room, but never one active within a second.
    pub connection_limit: usize,
    /// Most encoded bytes that the queues of all peers hold together.
    ///
    /// Default 256 MiB. Past it the peer that holds most is refused first. A UDP server has one
    /// queue, whose limit is `link.queue_limit_bytes`.
    pub total_queue_limit_bytes: usize,
    /// How long a UDP peer may be silent before it counts as gone. UDP only.
    ///
    /// Default 60 s.
    pub peer_expiry: Duration,
    /// Permission bits of a Unix socket's file, such as `0o660`; it is never open to more than
    /// these, not for a moment, and the umask takes nothing away.
    ///
    /// Default `None`: what the umask of the process leaves. Only for `uds:///PATH`: abstract names
    /// have no file and are open to everybody.
    pub uds_mode: Option<u32>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            link: LinkOptions::default(),
            connection_limit: 1024,
            total_queue_limit_bytes: 256 * 1024 * 1024,
            peer_expiry: Duration::from_secs(60),
            uds_mode: None,
        }
    }
}

impl ServerOptions {
    /// Refuses, by the option's name, what makes no sense for this address.
    pub(crate) fn validate(&self, address: &Address) -> Result<(), Error> {
        self.link.validate(address)?;
        non_zero(
            "connection_limit",
            self.connection_limit,
            "0 would turn every peer away",
        )?;
        queue_bytes(
            "total_queue_limit_bytes",
            self.total_queue_limit_bytes,
            &self.link.framing,
        )?;
        if self.peer_expiry.is_zero() {
            return Err(Error::option(
                "peer_expiry",
                "0 would forget every peer at once",
            ));
        }
        self.validate_uds_mode(address)
    }

    fn validate_uds_mode(&self, address: &Address) -> Result<(), Error> {
        let Some(mode) = self.uds_mode else {
            return Ok(());
        };
        match address {
            Address::Uds(UdsName::Path(_)) if mode > 0o777 => Err(Error::option(
                "uds_mode",
                format!("{mode:#o} has more than permission bits, the most is 0o777"),
            )),
            Address::Uds(UdsName::Path(_)) => Ok(()),
            Address::Uds(UdsName::Abstract(_)) => Err(Error::option(
                "uds_mode",
                "an abstract name has no file that could have a mode",
            )),
            Address::Tcp { .. } | Address::Udp { .. } => Err(Error::option(
                "uds_mode",
                format!("{} has no file that could have a mode", address.scheme()),
            )),
        }
    }
}
