//! Options that only datagrams have: broadcast, groups, and whom a link hears.

use std::fmt;
use std::net::IpAddr;

use super::{LinkOptions, ServerOptions};
use crate::address::Address;
use crate::error::Error;

/// How datagrams to a multicast group leave.
///
/// ```
/// use tautline::{Interface, LinkOptions, Multicast};
///
/// let multicast = Multicast { interface: Interface::Name("eth0".to_owned()), ..Multicast::default() };
/// let options = LinkOptions { multicast, ..LinkOptions::default() };
/// assert_eq!(options.multicast.ttl, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multicast {
    /// The interface that they leave by (`IP_MULTICAST_IF`, `IPV6_MULTICAST_IF`).
    ///
    /// Default [`Interface::Routes`]. Name one on machines with several networks, where a default
    /// route is seldom the way to the devices, and where there is no route at all.
    pub interface: Interface,
    /// How many routers may pass them on, plus one: time to live in IPv4, hop limit in IPv6.
    ///
    /// Default 1: they stay in this network. 0: on this machine.
    pub ttl: u8,
    /// Whether members on this machine receive them too.
    ///
    /// Default true. False spares a program that has joined the group it sends to its own words, and
    /// every other program of this machine as well.
    pub loopback: bool,
}

/// A network interface of this machine, named in one of three ways or left to the routes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Interface {
    /// Whichever the routes choose for the group.
    #[default]
    Routes,
    /// By its name, such as `eth0`. One that goes away and comes back is the same.
    Name(String),
    /// By its number, as `ip link` counts them. A number is not given again.
    Index(u32),
    /// By one of its addresses, of the group's family. A link-local one says too little.
    Address(IpAddr),
}

/// A multicast group, and the interface on which a server joins it.
///
/// ```
/// use tautline::{Interface, MulticastGroup, ServerOptions};
///
/// let group = MulticastGroup {
///     interface: Interface::Name("eth0".to_owned()),
///     ..MulticastGroup::new([239, 1, 2, 3].into())
/// };
/// let options = ServerOptions { groups: vec![group], ..ServerOptions::default() };
/// assert_eq!(options.groups[0].to_string(), "239.1.2.3 on eth0");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MulticastGroup {
    /// The group: one of `224.0.0.0/4` or `ff00::/8`.
    pub address: IpAddr,
    /// Where it is joined. A group on several interfaces is as many entries.
    pub interface: Interface,
}

impl Default for Multicast {
    fn default() -> Self {
        Self {
            interface: Interface::Routes,
            ttl: 1,
            loopback: true,
        }
    }
}

impl MulticastGroup {
    /// The group on the interface that the routes choose.
    pub const fn new(address: IpAddr) -> Self {
        Self {
            address,
            interface: Interface::Routes,
        }
    }
}

impl fmt::Display for MulticastGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Interface::Routes => self.address.fmt(f),
            named => write!(f, "{} on {named}", self.address),
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routes => f.write_str("the interface that the routes choose"),
            // As it was given: it may hold anything.
            Self::Name(name) => f.write_str(&name.escape_debug().to_string()),
            Self::Index(index) => write!(f, "interface {index}"),
            Self::Address(address) => write!(f, "the interface of {address}"),
        }
    }
}

impl LinkOptions {
    /// What makes no sense wherever it stands, in a link's options or in a server's.
    pub(super) fn validate_datagrams(&self, address: &Address) -> Result<(), Error> {
        let scheme = address.scheme();
        let host = match address {
            Address::Udp { host, .. } => host,
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => {
                let refused = [
                    ("broadcast", self.broadcast, "has no broadcast"),
                    ("unconnected", self.unconnected, "is always connected"),
                    ("multicast", self.has_multicast(), "has no groups"),
                ];
                return match refused.into_iter().find(|(_, asked, _)| *asked) {
                    Some((name, _, why)) => Err(Error::option(name, format!("{scheme} {why}"))),
                    None => Ok(()),
                };
            }
        };
        let literal = address.literal_ip();
        let interface = &self.multicast.interface;
        if host.contains('%') && *interface != Interface::Routes {
            let why = format!("the address names its interface already, and this is {interface}");
            return Err(Error::option("multicast", why));
        }
        check_interface("multicast", interface, literal)
    }

    /// What makes no sense for a link to this address.
    pub(crate) fn validate_peer(&self, address: &Address) -> Result<(), Error> {
        let Some(ip) = address.literal_ip() else {
            // A name: looked at again when it has been looked up.
            return Ok(());
        };
        self.validate_target(ip)
    }

    /// The same for one of the addresses of its host.
    pub(crate) fn validate_target(&self, ip: IpAddr) -> Result<(), Error> {
        if self.broadcast && ip.is_multicast() {
            let why = format!("{ip} is a group, which needs no leave; leave it out");
            return Err(Error::option("broadcast", why));
        }
        if self.broadcast && ip.is_ipv6() {
            let why = "IPv6 has none; the group ff02::1 reaches every host of a network";
            return Err(Error::option("broadcast", why));
        }
        if self.has_multicast() && !ip.is_multicast() {
            let why = format!("{ip} is no group; leave it out");
            return Err(Error::option("multicast", why));
        }
        Ok(())
    }

    /// The one peer of a `DirectListener` is neither a group nor everybody.
    pub(crate) fn validate_listener(&self, address: &Address) -> Result<(), Error> {
        let refused = |name, why| Err(Error::option(name, why));
        let group = address.literal_ip().is_some_and(|ip| ip.is_multicast());
        if self.broadcast {
            return refused(
                "broadcast",
                "a DirectListener answers one peer; leave it out",
            );
        }
        if self.has_multicast() && !group {
            let why =
                "a DirectListener answers one peer; only on a group does it mean where to join";
            return refused("multicast", why);
        }
        Ok(())
    }

    /// A server's socket hears everybody.
    pub(super) fn refuse_unconnected(&self) -> Result<(), Error> {
        if !self.unconnected {
            return Ok(());
        }
        let why = "a server hears everybody, and each of its peers one; leave it out";
        Err(Error::option("unconnected", why))
    }

    fn has_multicast(&self) -> bool {
        self.multicast != Multicast::default()
    }
}

impl ServerOptions {
    pub(super) fn validate_groups(&self, address: &Address) -> Result<(), Error> {
        let refused = |why: String| Err(Error::option("groups", why));
        let has_groups = match address {
            Address::Udp { .. } => true,
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => {
                false
            }
        };
        if !has_groups && !self.groups.is_empty() {
            return refused(format!("{} has no groups", address.scheme()));
        }
        for (index, group) in self.groups.iter().enumerate() {
            if !group.address.is_multicast() {
                return refused(format!(
                    "{} is no group: those are 224.0.0.0/4 and ff00::/8",
                    group.address
                ));
            }
            check_interface("groups", &group.interface, Some(group.address))?;
            if self.groups[..index].contains(group) {
                return refused(format!("{group} is named twice"));
            }
        }
        Ok(())
    }
}

fn check_interface(
    option: &'static str,
    interface: &Interface,
    used_for: Option<IpAddr>,
) -> Result<(), Error> {
    let refused = |why: String| Err(Error::option(option, why));
    match interface {
        Interface::Routes => Ok(()),
        Interface::Name(name) if name.is_empty() || name.len() > NAME_LIMIT => refused(format!(
            "{name:?} is no interface: a name has 1 to {NAME_LIMIT} bytes"
        )),
        Interface::Name(name)
            if name.contains(['\0', '/']) || name.contains(char::is_whitespace) =>
        {
            refused(format!("{name:?} is no name of an interface"))
        }
        Interface::Index(0) => {
            refused("interface 0 is none; Interface::Routes leaves it to the routes".to_owned())
        }
        Interface::Address(ip) if ip.is_unspecified() || ip.is_multicast() => {
            refused(format!("{ip} is no address of an interface"))
        }
        Interface::Address(IpAddr::V6(ip)) if ip.is_unicast_link_local() => refused(format!(
            "{ip} is link-local, and any interface may have it; name the interface"
        )),
        Interface::Address(ip) => match used_for {
            Some(group) if group.is_ipv4() != ip.is_ipv4() => refused(format!(
                "{interface} is named by another family than {group}'s"
            )),
            Some(_) | None => Ok(()),
        },
        Interface::Name(_) | Interface::Index(_) => Ok(()),
    }
}

/// Most bytes of an interface's name: `IFNAMSIZ` less the zero.
const NAME_LIMIT: usize = libc::IFNAMSIZ - 1;
