//! Options of a server.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::{ClientCertificates, LinkOptions, MulticastGroup, non_zero, queue_bytes};
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
    /// Multicast groups that it joins, any number and on any interface. UDP only.
    ///
    /// Default none. A join that fails fails the start. Listen on `0.0.0.0` or `[::]`, and the port
    /// hears its groups and what is sent to this machine alone; or on a group's own address, which is
    /// joined by that, on `link.multicast.interface` unless it is named here: then only that group
    /// comes. Servers and programs on a group's own address share its port, and each gets every
    /// datagram; any other port belongs to one server, unless all ask for `reuse_port`. No socket hears
    /// groups that only another has joined.
    ///
    /// A membership goes with its interface. The server tries to join again every second, by the name
    /// or address given (for an IPv6 group that is left to the routes, the system does not tell that it
    /// was lost); [`groups_joined`](crate::ServerStatistics::groups_joined) and
    /// [`groups_lost`](crate::ServerStatistics::groups_lost) tell. An interface that is merely down
    /// keeps it.
    pub groups: Vec<MulticastGroup>,
    /// Permission bits of a Unix socket's file, such as `0o660`; it is never open to more than
    /// these, not for a moment, and the umask takes nothing away.
    ///
    /// Default `None`: what the umask of the process leaves. Only for `uds:///PATH`: abstract names
    /// have no file and are open to everybody.
    pub uds_mode: Option<u32>,
    /// The user that a Unix socket's file is to belong to, as a number. Nobody can connect before it
    /// does.
    ///
    /// Default `None`: the user that this process runs as. Giving a file away takes privileges
    /// (`CAP_CHOWN`); refused, the server does not start. Only for `uds:///PATH`.
    pub uds_owner: Option<u32>,
    /// The group that a Unix socket's file is to belong to, as a number; likewise.
    ///
    /// Default `None`: this process's. Together with a `uds_mode` of `0o660`, its members can connect
    /// and nobody else. Without privileges it may be any group that this process belongs to.
    pub uds_group: Option<u32>,
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
            groups: Vec::new(),
            uds_mode: None,
            uds_owner: None,
            uds_group: None,
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
        self.link.refuse_unconnected()?;
        self.validate_groups(address)?;
        self.link
            .tls
            .validate_server(self.client_certificates, address)?;
        self.validate_sharing(address)?;
        self.validate_uds_file(address)
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

    fn validate_uds_file(&self, address: &Address) -> Result<(), Error> {
        let asked = [
            ("uds_mode", self.uds_mode),
            ("uds_owner", self.uds_owner),
            ("uds_group", self.uds_group),
        ];
        let Some((name, _)) = asked.into_iter().find(|(_, value)| value.is_some()) else {
            return Ok(());
        };
        let why = match address {
            Address::Uds(UdsName::Path(_)) => return self.validate_uds_values(),
            Address::Uds(UdsName::Abstract(_)) => "an abstract name has no file".to_owned(),
            Address::Tcp { .. }
            | Address::Udp { .. }
            | Address::Tls { .. }
            | Address::Serial(_) => format!("{} has no file", address.scheme()),
        };
        let what = if name == "uds_mode" {
            "that could have a mode"
        } else {
            "that could belong to anybody"
        };
        Err(Error::option(name, format!("{why} {what}")))
    }

    fn validate_uds_values(&self) -> Result<(), Error> {
        if let Some(mode) = self.uds_mode.filter(|mode| *mode > 0o777) {
            let why = format!("{mode:#o} has more than permission bits, the most is 0o777");
            return Err(Error::option("uds_mode", why));
        }
        for (name, id) in [("uds_owner", self.uds_owner), ("uds_group", self.uds_group)] {
            if id == Some(u32::MAX) {
                let why = format!(
                    "{} is nobody's number; leave it out to change nothing",
                    u32::MAX
                );
                return Err(Error::option(name, why));
            }
        }
        Ok(())
    }
}
