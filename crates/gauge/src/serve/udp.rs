//! The sockets of UDP addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tautline::Address;

use super::ServeError;
use crate::sys::datagram::{Origin, recvmsg, sendmsg, tell_local_address, wait_readable};

/// A socket of datagrams from anybody.
#[derive(Debug)]
pub(super) struct UdpSocket {
    socket: Socket,
    address: Address,
}

impl UdpSocket {
    /// Listens on the first address of the host that can be had.
    pub(super) fn bind(address: &Address) -> Result<Self, ServeError> {
        let failed = |cause: io::Error| {
            let advice = match cause.kind() {
                io::ErrorKind::AddrInUse => {
                    "; another process listens there, choose another port, or 0 for a free one"
                }
                io::ErrorKind::AddrNotAvailable => "; no interface of this machine has it",
                _ => "",
            };
            let address = address.clone();
            ServeError::ListenUdp {
                address,
                cause,
                advice,
            }
        };
        let Address::Udp { host, port } = address else {
            return Err(failed(io::ErrorKind::Unsupported.into()));
        };
        let mut failure = io::ErrorKind::NotFound.into();
        for local in (host.as_str(), *port).to_socket_addrs().map_err(failed)? {
            match bind_at(local) {
                Ok(socket) => {
                    let local = socket.local_addr().map_err(failed)?.as_socket();
                    let address = local.map_or_else(|| address.clone(), Address::udp);
                    return Ok(Self { socket, address });
                }
                Err(cause) => failure = cause,
            }
        }
        Err(failed(failure))
    }

    /// Where it listens.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Wakes whoever receives.
    pub(super) fn shut_down(&self) {
        // It says that the socket is not connected, and does it all the same.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Sends what somebody else could forge: a datagram that seems to come from this server.
    #[cfg(test)]
    pub(super) fn send_as_if_asked(&self, datagram: &[u8], to: SocketAddr) {
        self.socket.send_to(datagram, &to.into()).unwrap();
    }

    /// One datagram; `wait` blocks until one comes.
    pub(super) fn recv(&self, buffer: &mut [u8], wait: bool) -> io::Result<(usize, Origin)> {
        recvmsg(self.socket.as_fd(), buffer, wait)
    }

    /// Waits for a datagram, at most so long.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        wait_readable(self.socket.as_fd(), timeout)
    }

    /// Answers, from the address that was asked.
    pub(super) fn answer(&self, bytes: &[u8], origin: &Origin) -> io::Result<usize> {
        sendmsg(self.socket.as_fd(), bytes, origin)
    }
}

fn bind_at(local: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(local);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    if local.ip().is_unspecified() {
        tell_local_address(socket.as_fd(), local.is_ipv6())?;
    }
    socket.bind(&local.into())?;
    Ok(socket)
}
