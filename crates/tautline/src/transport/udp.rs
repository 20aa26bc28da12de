//! What only UDP does: one socket for many peers, and errors that end nothing.

mod bulk;
mod connect;
mod groups;

use std::hash::{Hash, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use socket2::{Domain, SockRef};

use super::{Arrived, Kind, Socket, Wait, configure, inet, plain, resolve};
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::options::{LinkOptions, ServerOptions};
use crate::sys::datagram::{self, Control, LocalEnd};

pub(super) use bulk::Bulk;
pub(crate) use bulk::Way;
pub(super) use connect::connect;
pub(crate) use connect::{Whom, reach};
pub(crate) use groups::Memberships;

/// A peer of a UDP server: its address, and the address of ours that it asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// As the kernel writes it: on a dual-stack socket an IPv4 peer is `::ffff:a.b.c.d`.
    pub(crate) address: SocketAddr,
    /// Told only where the socket is bound to every address: there an answer has to say from where.
    pub(crate) local: Option<IpAddr>,
    /// The interface of a link-local `local`, which is no address without it; 0 otherwise, so that
    /// a peer stays the same when its datagrams come in another way.
    pub(crate) interface: u32,
}

/// A UDP socket that serves many peers, and the groups that it has joined.
pub(crate) fn bind_datagram(
    address: &Address,
    options: &ServerOptions,
) -> Result<(Socket, Memberships), Error> {
    address.validate()?;
    let Address::Udp { host, port } = address else {
        let why = "only udp has datagrams";
        return Err(Error::because(
            ErrorKind::InvalidAddress,
            "listen on",
            address,
            why,
        ));
    };
    inet::first_that_binds(resolve::inet(address, host, *port)?, |local| {
        bind_at(address, local, options)
    })
}

fn bind_at(
    address: &Address,
    local: SocketAddr,
    options: &ServerOptions,
) -> Result<(Socket, Memberships), Error> {
    let failed = |step| move |cause| Error::listen(step, address, cause);
    let groups = groups::to_join(local, options)?;
    let local = groups::bindable(local, &groups).map_err(failed("bind"))?;
    let mut socket =
        Socket::create(Kind::Udp, Domain::for_address(local)).map_err(failed("socket"))?;
    configure(&socket, address, &options.link)?;
    groups::hear_joined_only(&socket, local).map_err(failed("setsockopt"))?;
    groups::send_by(&socket, local, &options.link.multicast)
        .map_err(|cause| groups::no_interface(address, &options.link.multicast.interface, cause))?;
    SockRef::from(&socket.as_fd())
        .set_broadcast(options.link.broadcast)
        .map_err(failed("setsockopt"))?;
    if local.ip().is_unspecified() {
        socket
            .ask_for_local_end(local)
            .map_err(failed("setsockopt"))?;
    }
    inet::bind(&socket, address, local, options)?;
    let memberships = Memberships::join(&socket, address, groups)?;
    Ok((socket, memberships))
}

impl Socket {
    /// Sends one datagram, from the address that the peer asked. Never waits.
    pub(crate) fn send_to(&self, payload: &[u8], to: &Remote) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        match to.local {
            None => datagram::sendto(self.as_fd(), payload, to.address, flags),
            Some(ip) => {
                let from = LocalEnd {
                    ip,
                    interface: to.interface,
                };
                datagram::sendmsg_from(self.as_fd(), payload, to.address, from, flags)
            }
        }
    }

    /// A socket that sends to and receives from this peer alone. What this one has received stays
    /// here.
    ///
    /// A socket that is bound to every address cannot be told by `connect` to answer from the one
    /// that was asked. So there it is another socket, bound to that address and the same port, which
    /// the kernel prefers from then on.
    pub(crate) fn connected_to(
        &self,
        remote: &Remote,
        address: &Address,
        options: &LinkOptions,
    ) -> Result<Option<Self>, Error> {
        let failed = |cause| Error::connect(address, cause);
        let Some(ip) = remote.local else {
            let connected = SockRef::from(&self.as_fd()).connect(&remote.address.into());
            return connected.map(|()| None).map_err(failed);
        };
        let port = SockRef::from(&self.as_fd()).local_addr().map_err(failed)?;
        let port = port.as_socket().map_or(0, |local| local.port());
        let local = match ip {
            // A dual-stack socket's IPv4 peers are asked from an IPv6 socket, mapped.
            IpAddr::V4(v4) if remote.address.is_ipv6() => {
                SocketAddr::new(v4.to_ipv6_mapped().into(), port)
            }
            IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, remote.interface).into(),
            IpAddr::V4(_) => SocketAddr::new(ip, port),
        };
        let socket = Self::create(Kind::Udp, Domain::for_address(local)).map_err(failed)?;
        configure(&socket, address, options)?;
        for sharing in [self, &socket] {
            // Both have to allow it, and only for this moment are there two.
            let fd = sharing.as_fd();
            SockRef::from(&fd).set_reuse_address(true).map_err(failed)?;
        }
        let bound = SockRef::from(&socket.as_fd()).bind(&local.into());
        let connected =
            bound.and_then(|()| SockRef::from(&socket.as_fd()).connect(&remote.address.into()));
        SockRef::from(&self.as_fd())
            .set_reuse_address(false)
            .map_err(failed)?;
        SockRef::from(&socket.as_fd())
            .set_reuse_address(false)
            .map_err(failed)?;
        connected.map(|()| Some(socket)).map_err(failed)
    }

    /// Receives one datagram on a socket that hears anybody, and whom it is from.
    pub(super) fn recv_from_anybody(&self, buffer: &mut [u8], wait: Wait) -> io::Result<Arrived> {
        let flags = wait.flag() | libc::MSG_TRUNC;
        let room = buffer.len();
        let (bytes, from) = match wait {
            Wait::No => datagram::recvfrom(self.as_fd(), buffer, flags)?,
            Wait::Block => datagram::recvfrom_once(self.as_fd(), buffer, flags)?,
        };
        Ok(Arrived {
            // None only where the socket was shut down, and nothing came.
            from: from.as_socket().map(plain),
            ..Arrived::new(bytes, room)
        })
    }

    /// Receives one datagram. Never waits.
    pub(crate) fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(Arrived, Remote)> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let room = buffer.len();
        let (bytes, from, local) = if self.tells_local_end() {
            datagram::recvmsg_to(self.as_fd(), buffer, &mut Control::new(), flags)?
        } else {
            let (bytes, from) = datagram::recvfrom(self.as_fd(), buffer, flags)?;
            (bytes, from, None)
        };
        let address = from
            .as_socket()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok((Arrived::new(bytes, room), Remote::of(address, local)))
    }

    fn ask_for_local_end(&mut self, local: SocketAddr) -> io::Result<()> {
        // An IPv6 socket takes IPv4 datagrams too, and tells of those in IPv4's own way as well.
        datagram::set_ip_pktinfo(self.as_fd())?;
        if local.is_ipv6() {
            datagram::set_ipv6_recvpktinfo(self.as_fd())?;
        }
        self.set_tells_local_end();
        Ok(())
    }
}

/// Hashed in one piece: field by field it takes several times as long, for every datagram.
impl Hash for Remote {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let number = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        // What is left out, as the scope, only makes equal hashes of addresses that differ.
        let mut key = [0; 40];
        key[..16].copy_from_slice(&number(self.address.ip()).to_ne_bytes());
        key[16..32].copy_from_slice(&self.local.map_or(0, number).to_ne_bytes());
        key[32..36].copy_from_slice(&self.interface.to_ne_bytes());
        key[36..38].copy_from_slice(&self.address.port().to_ne_bytes());
        state.write(&key);
    }
}

impl Remote {
    pub(crate) fn of(address: SocketAddr, local: Option<LocalEnd>) -> Self {
        // A datagram to a group is answered from wherever the routes say: no source to name.
        let local = local.filter(|end| !end.ip.is_multicast());
        let interface = match local {
            Some(LocalEnd {
                ip: IpAddr::V6(ip),
                interface,
            }) if ip.is_unicast_link_local() => interface,
            _ => 0,
        };
        Self {
            address,
            local: local.map(|end| end.ip),
            interface,
        }
    }

    /// The address of ours that it asked: told with the datagram, or the one the socket is bound to.
    pub(crate) fn local_address(&self, bound: &Address) -> Option<Address> {
        let (Some(ip), Address::Udp { port, .. }) = (self.local, bound) else {
            return Some(bound.clone());
        };
        Some(Address::udp(match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, *port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, *port, 0, self.interface).into(),
        }))
    }
}

/// Errors that concern one datagram or the way to one peer, reported by the network or by our own
/// routes and filters: an event and a counter. The socket goes on.
///
/// The first rows are what Linux makes of ICMP messages (`icmp_err_convert`, `icmpv6_err_convert`
/// in the kernel), the rest what the local side says in their place: filtered, the interface down,
/// too long, or an address to send from that this machine no longer has.
pub(crate) fn is_icmp(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::EPROTO
                | libc::EACCES
                | libc::EMSGSIZE
                | libc::EPERM
                | libc::ENETDOWN
                | libc::EADDRNOTAVAIL
                | libc::EINVAL
        )
    )
}

/// Most payload bytes of a datagram: 65,535 less the headers of IPv4 and UDP. IPv6 could carry 20
/// more; one number holds for every peer.
pub(crate) const DATAGRAM_LIMIT_BYTES: usize = 65_507;
