//! Options of a server.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::{ClientCertificates, LinkOptions, non_zero, queue_bytes};
use crate::address::{Address, UdsName};
use crate::error::Error;

/// Options of a server: those of its links, and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Options of every peer's link. `connect_timeout` and `spin` have no use here, `reconnect` is
    /// refused.
    pub link: LinkOptions,
    /// Most peers at one time, those in a TLS handshake among them.
    ///
    /// Default 1,024. One more is turned away and counted; over UDP the peer that has been silent
    /// longest makes room, but never one active within a second. Newcomers are accepted 64 at a time,
    /// and then all others of the thread have their turn: a flood of them keeps no open link waiting.
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
    /// `SO_REUSEPORT`: whether other servers of this user may listen on the same port, if they ask for
    /// it too. TCP and UDP only.
    ///
    /// Default false: a second server on a port is an error. True to spread peers over several I/O
    /// threads, each with a server of its own on the one port: the kernel gives a connection, or all
    /// datagrams of a peer, to one of them by a hash of both addresses and ports. That evens out over
    /// many peers, not over few, and heeds nobody's load. A TCP server that stops resets the connections
    /// that wait for it to accept them; a UDP server that comes or goes moves peers to others.
    pub reuse_port: bool,
    /// `IPV6_V6ONLY`: whether `[::]` is for IPv6 alone. Only for a host that is written `[::]`.
    ///
    /// Default false: `[::]` takes IPv4 too, whatever the system's setting, and such a peer's address
    /// is told as plain IPv4. True where another server has `0.0.0.0` with the same port.
    pub v6_only: bool,
    /// Whether clients of a `tls://` server have to show a certificate; it is checked against
    /// `link.tls.roots`.
    ///
    /// Default [`ClientCertificates::None`]: anybody may connect. Required is mutual TLS.
    pub client_certificates: ClientCertificates,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            link: LinkOptions::default(),
            connection_limit: 1024,
            total_queue_limit_bytes: 256 * 1024 * 1024,
            peer_expiry: Duration::from_secs(60),
            uds_mode: None,
            reuse_port: false,
            v6_only: false,
            client_certificates: ClientCertificates::None,
        }
    }
}

impl ServerOptions {
    /// Refuses, by the option's name, what makes no sense for this address.
    pub(crate) fn validate(&self, address: &Address) -> Result<(), Error> {
        self.link.validate(address)?;
        self.link
            .refuse_reconnect("a server's peers come back by themselves")?;
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
        self.link
            .heartbeat_fits("total_queue_limit_bytes", self.total_queue_limit_bytes)?;
        if self.peer_expiry.is_zero() {
            return Err(Error::option(
                "peer_expiry",
                "0 would forget every peer at once",
            ));
        }
        self.link
            .tls
            .validate_server(self.client_certificates, address)?;
        self.validate_sharing(address)?;
        self.validate_uds_mode(address)
    }

    fn validate_sharing(&self, address: &Address) -> Result<(), Error> {
        let host = match address {
            Address::Uds(_) if self.reuse_port => {
                let why = "uds has no ports; a name belongs to one server";
                return Err(Error::option("reuse_port", why));
            }
            Address::Tcp { host, .. } | Address::Udp { host, .. } | Address::Tls { host, .. } => {
                host.parse().ok()
            }
            Address::Uds(_) | Address::Serial(_) => None,
        };
        if self.v6_only && host != Some(Ipv6Addr::UNSPECIFIED) {
            let why = "only [::] would take IPv4 too";
            return Err(Error::option("v6_only", why));
        }
        Ok(())
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
            Address::Tcp { .. }
            | Address::Udp { .. }
            | Address::Tls { .. }
            | Address::Serial(_) => Err(Error::option(
                "uds_mode",
                format!("{} has no file that could have a mode", address.scheme()),
            )),
        }
    }
}
