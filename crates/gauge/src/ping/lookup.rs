//! From the host of an address to socket addresses: literals at once, names by asking the system, within
//! a bound.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs as _};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockAddr;
use tautline::Address;

use super::plan::{Family, SocketPlan};
use super::socket::{TICK, refused};
use super::{PingError, Stop};
use crate::sys;

/// Every address of a host that the options allow. A name is asked for on a thread of its own: the
/// system's resolver has no deadline that we could set.
pub(super) fn look_up(
    address: &Address,
    host: &str,
    port: u16,
    plan: &SocketPlan,
    stop: &Stop<'_>,
) -> Result<Vec<SockAddr>, PingError> {
    if port == 0 {
        return Err(PingError::setup(format!(
            "{address}: port 0 is for listening; nobody can be reached there"
        )));
    }
    let found = match literal(host, port, plan) {
        Some(found) => vec![found.map_err(|cause| refused(address, &cause))?],
        None => ask(address, host, port, stop)?,
    };
    let allowed: Vec<SockAddr> = found
        .into_iter()
        .filter(|found| match plan.family {
            None => true,
            Some(Family::V4) => found.is_ipv4(),
            Some(Family::V6) => found.is_ipv6(),
        })
        .map(SockAddr::from)
        .collect();
    if allowed.is_empty() {
        let family = if plan.family == Some(Family::V4) {
            "-4"
        } else {
            "-6"
        };
        return Err(PingError::setup(format!(
            "{address}: {family}: it has no address of that family"
        )));
    }
    Ok(allowed)
}

fn ask(
    address: &Address,
    host: &str,
    port: u16,
    stop: &Stop<'_>,
) -> Result<Vec<SocketAddr>, PingError> {
    let (send, receive) = mpsc::sync_channel(1);
    let name = host.to_owned();
    thread::Builder::new()
        .name("gauge-lookup".to_owned())
        .spawn(move || {
            let found = (name.as_str(), port).to_socket_addrs();
            // Nobody waits any more when it has taken too long.
            let _ = send.send(found.map(Iterator::collect::<Vec<_>>));
        })
        .map_err(|cause| refused(address, &cause))?;
    let deadline = Instant::now() + LOOKUP_LIMIT;
    loop {
        match receive.recv_timeout(TICK) {
            Ok(Ok(found)) if !found.is_empty() => return Ok(found),
            Ok(Ok(_)) => {
                return Err(PingError::setup(format!(
                    "look up {address}: the name has no address"
                )));
            }
            Ok(Err(cause)) => {
                return Err(PingError::setup(format!("look up {address}: {cause}")));
            }
            Err(_) if stop.is_set() => return Err(PingError::setup("stopped")),
            Err(_) if Instant::now() >= deadline => {
                return Err(PingError::setup(format!(
                    "look up {address}: no answer within {} s",
                    LOOKUP_LIMIT.as_secs()
                )));
            }
            Err(_) => {}
        }
    }
}

/// An address that needs no looking up. A link-local one without its scope takes the interface's.
fn literal(host: &str, port: u16, plan: &SocketPlan) -> Option<io::Result<SocketAddr>> {
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Some(Ok(SocketAddr::new(IpAddr::V4(ip), port)));
    }
    let (ip, scope) = match host.split_once('%') {
        Some((ip, scope)) => (ip, Some(scope)),
        None => (host, None),
    };
    let ip = ip.parse::<Ipv6Addr>().ok()?;
    let through = plan.interface.as_deref();
    let scope = scope.or_else(|| through.filter(|_| ip.is_unicast_link_local()));
    let index = match scope {
        None if ip.is_unicast_link_local() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a link-local address needs its interface, as in {ip}%eth0"),
        )),
        None => Ok(0),
        Some(scope) => interface_index(scope).map_err(io::Error::other),
    };
    Some(index.map(|index| SocketAddrV6::new(ip, port, 0, index).into()))
}

/// The number of an interface, by its name or by the number itself.
///
/// # Errors
///
/// A sentence that names it and says why.
pub fn interface_index(name: &str) -> Result<u32, String> {
    sys::net::if_nametoindex(name).or_else(|cause| {
        name.parse()
            .map_err(|_| format!("interface {name}: {cause}"))
    })
}

/// The resolver's own default is 5 s for each server and 2 tries.
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_need_no_looking_up_and_scopes_are_interfaces() {
        let plan = SocketPlan::default();
        let of = |host: &str| literal(host, 9, &plan).map(|found| found.unwrap().to_string());
        assert_eq!(of("127.0.0.1").as_deref(), Some("127.0.0.1:9"));
        assert_eq!(of("::1").as_deref(), Some("[::1]:9"));
        assert_eq!(of("fe80::1%lo").as_deref(), Some("[fe80::1%1]:9"));
        assert_eq!(of("fe80::1%1").as_deref(), Some("[fe80::1%1]:9"));
        assert_eq!(of("localhost"), None);
        let scopeless = literal("fe80::1", 9, &plan)
            .unwrap()
            .unwrap_err()
            .to_string();
        assert_eq!(
            scopeless,
            "a link-local address needs its interface, as in fe80::1%eth0"
        );
        let lo = SocketPlan {
            interface: Some("lo".to_owned()),
            ..SocketPlan::default()
        };
        let found = literal("fe80::1", 9, &lo).unwrap().unwrap();
        assert_eq!(found.to_string(), "[fe80::1%1]:9");
    }
}
