//! From names to socket addresses: literals at once, names by asking the system.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use super::{Target, uds};
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::sys;

/// Where to connect to, in the order to try.
///
/// Only a host *name* waits, for as long as the system's resolver takes; see [`is_literal`].
pub(crate) fn resolve(address: &Address) -> Result<Vec<Target>, Error> {
    address.validate()?;
    match address {
        Address::Tcp { port: 0, .. }
        | Address::Udp { port: 0, .. }
        | Address::Tls { port: 0, .. } => Err(Error::because(
            ErrorKind::InvalidAddress,
            "connect to",
            address,
            "port 0 is for listening on a free port; nobody can be reached there",
        )),
        Address::Tcp { host, port } | Address::Udp { host, port } | Address::Tls { host, port } => {
            let found = inet(address, host, *port)?;
            Ok(found.into_iter().map(Target::Inet).collect())
        }
        Address::Uds(name) => Ok(vec![Target::Uds(uds::sockaddr(name))]),
        Address::Serial(line) => Ok(vec![Target::Serial(line.clone())]),
    }
}

/// Whether [`resolve`] answers at once, without asking anybody.
pub(crate) fn is_literal(address: &Address) -> bool {
    match address {
        Address::Tcp { host, .. } | Address::Udp { host, .. } | Address::Tls { host, .. } => {
            Literal::parse(host).is_some()
        }
        Address::Uds(_) | Address::Serial(_) => true,
    }
}

/// Every socket address of a host.
pub(super) fn inet(address: &Address, host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    if let Some(literal) = Literal::parse(host) {
        return literal.at(address, port).map(|found| vec![found]);
    }
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|cause| Error::resolve(address, cause))?;
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        let nobody = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        return Err(Error::resolve(address, nobody));
    }
    Ok(found)
}

struct Literal<'a> {
    ip: IpAddr,
    scope: Option<&'a str>,
}

impl<'a> Literal<'a> {
    fn parse(host: &'a str) -> Option<Self> {
        if let Ok(ip) = host.parse::<Ipv4Addr>() {
            let (ip, scope) = (ip.into(), None);
            return Some(Self { ip, scope });
        }
        let (ip, scope) = match host.split_once('%') {
            Some((ip, scope)) => (ip, Some(scope)),
            None => (host, None),
        };
        let ip = ip.parse::<Ipv6Addr>().ok()?.into();
        Some(Self { ip, scope })
    }

    fn at(&self, address: &Address, port: u16) -> Result<SocketAddr, Error> {
        match (self.ip, self.scope) {
            (IpAddr::V6(ip), Some(scope)) => {
                let scope = interface(address, scope)?;
                Ok(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            (ip, _) => Ok(SocketAddr::new(ip, port)),
        }
    }
}

/// An interface by number or name.
fn interface(address: &Address, scope: &str) -> Result<u32, Error> {
    // A name first: nothing forbids an interface that is called "7".
    match sys::net::if_nametoindex(scope) {
        Ok(index) => Ok(index),
        Err(_) if scope.parse::<u32>().is_ok() => Ok(scope.parse().expect("parsed just now")),
        Err(cause) => Err(Error::resolve(address, cause)),
    }
}
