//! What TCP and UDP servers have in common: a socket bound to an address and a port.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};

use socket2::SockRef;

use super::{Kind, Socket, holder};
use crate::address::Address;
use crate::error::Error;
use crate::options::ServerOptions;

/// The first of a name's addresses that can be bound; else why the last one could not.
pub(super) fn first_that_binds<T>(
    candidates: Vec<SocketAddr>,
    bind: impl Fn(SocketAddr) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut failure = None;
    for candidate in candidates {
        match bind(candidate) {
            Ok(bound) => return Ok(bound),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.expect("a resolved name has an address"))
}

/// Binds so that a restarted server gets its address at once, and nobody shares it unasked.
pub(super) fn bind(
    socket: &Socket,
    address: &Address,
    local: SocketAddr,
    options: &ServerOptions,
) -> Result<(), Error> {
    set_sharing(socket, local, options)
        .map_err(|cause| Error::listen("setsockopt", address, cause))?;
    SockRef::from(&socket.as_fd())
        .bind(&local.into())
        .map_err(|cause| failed("bind", address, local, cause))
}

/// A step of listening that failed; where the address is in use, with whoever holds it.
pub(super) fn failed(
    step: &'static str,
    address: &Address,
    local: SocketAddr,
    cause: io::Error,
) -> Error {
    if cause.kind() == io::ErrorKind::AddrInUse {
        return Error::in_use(
            step,
            address,
            holder::of_port(Kind::of(address), local),
            cause,
        );
    }
    Error::listen(step, address, cause)
}

/// All this means something only before the socket is bound.
fn set_sharing(socket: &Socket, local: SocketAddr, options: &ServerOptions) -> io::Result<()> {
    let fd = socket.as_fd();
    let unbound = SockRef::from(&fd);
    match socket.kind() {
        // Connections of an earlier server may still be in TIME_WAIT.
        Kind::Tcp | Kind::Tls => unbound.set_reuse_address(true)?,
        // Every member of a group gets each datagram, and to a group's address nothing else comes.
        Kind::Udp if local.ip().is_multicast() => unbound.set_reuse_address(true)?,
        // Elsewhere on UDP it would let a second server take the datagrams of the first.
        Kind::Udp | Kind::Uds | Kind::Serial => {}
    }
    if options.reuse_port {
        unbound.set_reuse_port(true)?;
    }
    if local.ip() == Ipv6Addr::UNSPECIFIED {
        // Whatever net.ipv6.bindv6only says here.
        unbound.set_only_v6(options.v6_only)?;
    }
    Ok(())
}

/// An IPv4 peer of a socket that takes both is `::ffff:a.b.c.d` to the kernel: told as what it is.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(mapped) => match mapped.ip().to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), mapped.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_told_as_what_it_is_and_others_stay() {
        for (kernels, told) in [
            ("[::ffff:10.0.0.5]:9000", "10.0.0.5:9000"),
            ("10.0.0.5:9000", "10.0.0.5:9000"),
            ("[::1]:9000", "[::1]:9000"),
            ("[::10.0.0.5]:9000", "[::10.0.0.5]:9000"),
            ("[fe80::1%3]:9000", "[fe80::1%3]:9000"),
        ] {
            let kernels: SocketAddr = kernels.parse().unwrap();
            assert_eq!(plain(kernels), told.parse().unwrap());
        }
    }
}
