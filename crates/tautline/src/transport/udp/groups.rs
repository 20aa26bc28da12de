//! Multicast groups: by which interface datagrams leave to them, and on which a server joins them.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{InterfaceIndexOrAddress, SockRef};

use crate::address::Address;
use crate::error::Error;
use crate::options::{Interface, Multicast, MulticastGroup, ServerOptions};
use crate::sys;
use crate::transport::Socket;

/// The groups that a server's socket has joined.
#[derive(Debug, Default)]
pub(crate) struct Memberships(Vec<Membership>);

#[derive(Debug)]
struct Membership {
    group: MulticastGroup,
    /// 0 leaves it to the routes.
    interface: u32,
    joined: bool,
}

impl Memberships {
    /// Joins all, or says which failed.
    pub(super) fn join(
        socket: &Socket,
        address: &Address,
        groups: Vec<MulticastGroup>,
    ) -> Result<Self, Error> {
        let joined = groups.into_iter().map(|group| {
            let interface = index_of(&group.interface)
                .and_then(|index| join(socket, group.address, index).map(|()| index))
                .map_err(|cause| failed(address, &group, cause))?;
            Ok(Membership {
                group,
                interface,
                joined: true,
            })
        });
        joined.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many stand.
    pub(crate) fn joined(&self) -> usize {
        self.0.iter().filter(|member| member.joined).count()
    }

    /// Joins again where an interface has gone and come back. Returns how many had been lost since the
    /// last look.
    pub(crate) fn look_again(&mut self, socket: &Socket) -> usize {
        let lost = self.0.iter_mut().map(|member| member.look_again(socket));
        lost.filter(|lost| *lost).count()
    }
}

impl Membership {
    /// Whether it was lost since the last look.
    ///
    /// The kernel does not tell that a membership has gone with its interface. Joining once more does:
    /// while it stands, that is refused.
    fn look_again(&mut self, socket: &Socket) -> bool {
        let before = self.joined;
        let found = index_of(&self.group.interface);
        if let Ok(interface) = found
            && interface != self.interface
        {
            // What the socket remembers of the old one counts against the kernel's limit.
            let _ = leave(socket, self.group.address, self.interface);
            self.interface = interface;
        }
        let again = found.and_then(|interface| join(socket, self.group.address, interface));
        let stood = matches!(&again, Err(error) if error.kind() == io::ErrorKind::AddrInUse);
        self.joined = stood || again.is_ok();
        before && !stood
    }
}

/// The groups that a server joins: those asked for, and that which it listens on.
///
/// # Errors
/// Groups of which a socket that is bound to `local` would hear nothing.
pub(super) fn to_join(
    local: SocketAddr,
    options: &ServerOptions,
) -> Result<Vec<MulticastGroup>, Error> {
    let mut groups = options.groups.clone();
    let host = local.ip();
    if host.is_multicast() && !groups.iter().any(|group| group.address == host) {
        groups.push(MulticastGroup {
            address: host,
            interface: match local {
                SocketAddr::V6(v6) if v6.scope_id() != 0 => Interface::Index(v6.scope_id()),
                _ => options.link.multicast.interface.clone(),
            },
        });
    }
    let unheard = groups.iter().find(|group| {
        let heard = match host {
            IpAddr::V4(host) if host.is_unspecified() => group.address.is_ipv4(),
            IpAddr::V6(host) if host.is_unspecified() => {
                group.address.is_ipv6() || !options.v6_only
            }
            _ => group.address == host,
        };
        !heard
    });
    let Some(group) = unheard else {
        return Ok(groups);
    };
    let everything = match (group.address, host) {
        (IpAddr::V4(_), IpAddr::V6(_)) if options.v6_only => "0.0.0.0",
        (IpAddr::V4(_), _) => "0.0.0.0 or [::]",
        (IpAddr::V6(_), _) => "[::]",
    };
    let why = format!(
        "listening on {host}, nothing sent to {} is heard; listen on {everything}, or on the group",
        group.address
    );
    Err(Error::option("groups", why))
}

/// The address to bind: a link-local group is none without its interface.
pub(super) fn bindable(local: SocketAddr, groups: &[MulticastGroup]) -> io::Result<SocketAddr> {
    let SocketAddr::V6(mut v6) = local else {
        return Ok(local);
    };
    let own = groups.iter().find(|group| group.address == *v6.ip());
    if let Some(group) = own
        && v6.scope_id() == 0
    {
        v6.set_scope_id(index_of(&group.interface)?);
    }
    Ok(v6.into())
}

/// No datagrams of groups that other sockets have joined, as Linux would have it.
pub(super) fn hear_joined_only(socket: &Socket, local: SocketAddr) -> io::Result<()> {
    let fd = socket.as_fd();
    let socket = SockRef::from(&fd);
    // An IPv6 socket may take IPv4 datagrams too, and has both settings.
    socket.set_multicast_all_v4(false)?;
    if local.is_ipv6() {
        match socket.set_multicast_all_v6(false) {
            // Since Linux 4.20; before, there was no way.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
            result => result?,
        }
    }
    Ok(())
}

/// How datagrams to groups leave this socket, whose family is that of `address`.
pub(super) fn send_by(
    socket: &Socket,
    address: SocketAddr,
    multicast: &Multicast,
) -> io::Result<()> {
    let interface = index_of(&multicast.interface)?;
    let fd = socket.as_fd();
    let socket = SockRef::from(&fd);
    let Multicast { ttl, loopback, .. } = multicast;
    // An IPv6 socket may send over IPv4 too, and has both settings.
    sys::datagram::set_ip_multicast_if(fd, interface)?;
    socket.set_multicast_ttl_v4(u32::from(*ttl))?;
    socket.set_multicast_loop_v4(*loopback)?;
    if address.is_ipv6() {
        socket.set_multicast_if_v6(interface)?;
        socket.set_multicast_hops_v6(u32::from(*ttl))?;
        socket.set_multicast_loop_v6(*loopback)?;
    }
    Ok(())
}

fn join(socket: &Socket, group: IpAddr, interface: u32) -> io::Result<()> {
    let fd = socket.as_fd();
    let socket = SockRef::from(&fd);
    match group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface))
        }
        IpAddr::V6(group) => socket.join_multicast_v6(&group, interface),
    }
}

fn leave(socket: &Socket, group: IpAddr, interface: u32) -> io::Result<()> {
    let fd = socket.as_fd();
    let socket = SockRef::from(&fd);
    match group {
        IpAddr::V4(group) => {
            socket.leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface))
        }
        IpAddr::V6(group) => socket.leave_multicast_v6(&group, interface),
    }
}

/// Its number now; 0 leaves it to the routes.
fn index_of(interface: &Interface) -> io::Result<u32> {
    match interface {
        Interface::Routes => Ok(0),
        Interface::Name(name) => sys::net::if_nametoindex(name),
        Interface::Index(index) => Ok(*index),
        Interface::Address(address) => sys::net::interface_of(*address)?
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EADDRNOTAVAIL)),
    }
}

/// A server that could not send to any group.
pub(super) fn no_interface(address: &Address, interface: &Interface, cause: io::Error) -> Error {
    let error = Error::listen("setsockopt", address, cause);
    let words = error.reason().trim_start_matches("setsockopt: ");
    let why = format!("multicast by {interface}: {words}");
    error.with_reason(address, why)
}

fn failed(address: &Address, group: &MulticastGroup, cause: io::Error) -> Error {
    let advice = match (&group.interface, cause.raw_os_error(), group.address) {
        (Interface::Routes, Some(libc::ENODEV), _) => {
            "; no route leads to it, name an interface in groups"
        }
        (_, Some(libc::ENOBUFS), IpAddr::V4(_)) => {
            "; the limit is net.ipv4.igmp_max_memberships for each socket"
        }
        _ => "",
    };
    let error = Error::listen("join", address, cause);
    let words = error.reason().trim_start_matches("join: ");
    let why = format!("join {group}: {words}{advice}");
    error.with_reason(address, why)
}
