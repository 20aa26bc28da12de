//! The socket of a UDP link: connected to its peer, or to nobody where anybody may answer.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, SockRef};

use super::{Remote, groups};
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::options::{Interface, LinkOptions};
use crate::sys::datagram::LocalEnd;
use crate::transport::{Kind, Socket, configure, resolve};

/// Who is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    /// One host.
    Peer,
    /// The members of a group, or every host of a network: none of them answers from that address.
    Everybody,
}

/// A socket that sends to `to`, and hears it alone unless the options or the address say otherwise.
///
/// A socket that hears anybody is not connected. What a connect would have found out, no route or a
/// missing leave to broadcast, a second socket finds out in its place: else every send would.
pub(in crate::transport) fn connect(
    address: &Address,
    to: SocketAddr,
    options: &LinkOptions,
) -> Result<Socket, Error> {
    options.validate_target(to.ip())?;
    let connected = prepared(address, to, options)?;
    let whom = connect_to(&connected, address, to, options)?;
    if whom == Whom::Peer && !options.unconnected {
        return Ok(connected);
    }
    let mut socket = prepared(address, to, options)?;
    let any = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let fd = socket.as_fd();
    let unbound = SockRef::from(&fd);
    unbound
        .set_broadcast(options.broadcast)
        .and_then(|()| groups::hear_joined_only(&socket, to))
        .and_then(|()| unbound.bind(&any.into()))
        .map_err(|cause| Error::connect(address, cause))?;
    socket.set_target(to);
    Ok(socket)
}

/// Where a server's socket finds `address`, and who is there; nothing is sent.
pub(crate) fn reach(
    address: &Address,
    server: &Socket,
    options: &LinkOptions,
) -> Result<(Remote, Whom), Error> {
    let Address::Udp { host, port } = address else {
        let why = "only udp reaches whoever has not connected";
        let kind = ErrorKind::InvalidAddress;
        return Err(Error::because(kind, "reach", address, why));
    };
    if *port == 0 {
        let (kind, why) = (ErrorKind::InvalidAddress, "nobody is at port 0");
        return Err(Error::because(kind, "reach", address, why));
    }
    let bound = SockRef::from(&server.as_fd())
        .local_addr()
        .ok()
        .and_then(|bound| bound.as_socket())
        .ok_or_else(|| Error::closed("reach", Some(address)))?;
    let found = resolve::inet(address, host, *port)?;
    let dual = bound.ip().is_unspecified();
    let to = found
        .into_iter()
        .find(|to| to.is_ipv4() == bound.is_ipv4() || (to.is_ipv4() && dual))
        .ok_or_else(|| {
            let why = format!("the server is bound to {bound}, which is of another family");
            Error::because(ErrorKind::InvalidAddress, "reach", address, why)
        })?;
    let socket = prepared(address, to, options)?;
    let whom = connect_to(&socket, address, to, options)?;
    let local = match whom {
        // As if it had asked: what it answers is then from the same peer.
        Whom::Peer if dual => SockRef::from(&socket.as_fd())
            .local_addr()
            .ok()
            .and_then(|local| local.as_socket()),
        Whom::Peer | Whom::Everybody => None,
    };
    let address = match to {
        SocketAddr::V4(v4) if bound.is_ipv6() => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
        }
        to => to,
    };
    let local = local.map(|local| LocalEnd {
        ip: local.ip(),
        interface: match local {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        },
    });
    Ok((Remote::of(address, local), whom))
}

fn prepared(address: &Address, to: SocketAddr, options: &LinkOptions) -> Result<Socket, Error> {
    let socket = Socket::create(Kind::Udp, Domain::for_address(to))
        .map_err(|cause| Error::connect(address, cause))?;
    configure(&socket, address, options)?;
    if to.ip().is_multicast() {
        groups::send_by(&socket, to, &options.multicast)
            .map_err(|cause| unreachable_group(address, &options.multicast.interface, cause))?;
    }
    Ok(socket)
}

fn connect_to(
    socket: &Socket,
    address: &Address,
    to: SocketAddr,
    options: &LinkOptions,
) -> Result<Whom, Error> {
    let fd = socket.as_fd();
    let socket = SockRef::from(&fd);
    let group = to.ip().is_multicast();
    let cause = match socket.connect(&to.into()) {
        Ok(()) if group => return Ok(Whom::Everybody),
        Ok(()) => return Ok(Whom::Peer),
        Err(cause) => cause,
    };
    if cause.raw_os_error() == Some(libc::EACCES) && to.is_ipv4() {
        // A broadcast address is one that the leave opens. A route may forbid the way as well.
        let with_leave = socket
            .set_broadcast(true)
            .and_then(|()| socket.connect(&to.into()));
        if with_leave.is_ok() && options.broadcast {
            return Ok(Whom::Everybody);
        }
        if with_leave.is_ok() {
            let why = format!("{} is a broadcast address: set it to send there", to.ip());
            return Err(Error::option("broadcast", why));
        }
    }
    if group {
        let interface = &options.multicast.interface;
        return Err(unreachable_group(address, interface, cause));
    }
    Err(Error::connect(address, cause))
}

/// Why nothing can be sent to a group: nearly always for want of an interface.
fn unreachable_group(address: &Address, interface: &Interface, cause: io::Error) -> Error {
    let error = Error::connect(address, cause);
    let why = match interface {
        Interface::Routes => format!(
            "{}; no route leads to this group, name an interface in multicast",
            error.reason()
        ),
        named => format!("{named}: {}", error.reason()),
    };
    error.with_reason(address, why)
}
