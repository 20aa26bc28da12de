//! Names and numbers to addresses of one family.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

/// The addresses of a host, in the order to try them; never none.
pub(super) fn resolve(host: &str, port: u16, ipv6: bool) -> io::Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs()?;
    let addresses: Vec<_> = found.filter(|address| address.is_ipv6() == ipv6).collect();
    if addresses.is_empty() {
        let family = if ipv6 { "IPv6" } else { "IPv4" };
        return Err(io::Error::other(format!("it has no {family} address")));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_resolved_within_their_family() {
        let found = resolve("127.0.0.1", 6001, false).unwrap();
        assert_eq!(found, ["127.0.0.1:6001".parse().unwrap()]);
        let found = resolve("::1", 6001, true).unwrap();
        assert_eq!(found, ["[::1]:6001".parse().unwrap()]);
        assert!(resolve("localhost", 6001, false).unwrap()[0].is_ipv4());
    }

    #[test]
    fn a_host_without_an_address_of_the_family_is_an_error() {
        let error = resolve("127.0.0.1", 6001, true).unwrap_err();
        assert_eq!(error.to_string(), "it has no IPv6 address");
    }
}
