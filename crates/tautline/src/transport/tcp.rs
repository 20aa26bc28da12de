//! What only TCP does.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, SockRef, TcpKeepalive};
use tautline_session::Strategy;

use super::{BufferSizes, Kind, LISTEN_BACKLOG, Listener, Socket, inet, resolve};
use crate::address::Address;
use crate::error::Error;
use crate::options::{LinkOptions, ServerOptions};
use crate::sys;

/// What a connection needs before its first packet; accepted ones inherit it from their listener.
pub(super) fn configure(socket: &Socket, options: &LinkOptions) -> io::Result<()> {
    let fd = socket.as_fd();
    let options_of = SockRef::from(&fd);
    options_of.set_tcp_nodelay(options.tcp_nodelay)?;
    if let Some(keepalive) = &options.keepalive {
        let probes = TcpKeepalive::new()
            .with_time(keepalive.idle)
            .with_interval(keepalive.interval)
            .with_retries(keepalive.count);
        options_of.set_tcp_keepalive(&probes)?;
    }
    if options.tcp_user_timeout.is_some() {
        options_of.set_tcp_user_timeout(options.tcp_user_timeout)?;
    }
    if options.strategy == Strategy::KeepLatest || options.max_queue_delay.is_some() {
        socket.set_notsent_lowat(FRESH_UNSENT_BYTES)?;
    }
    Ok(())
}

pub(super) fn listen(
    address: &Address,
    (host, port): (&str, u16),
    options: &ServerOptions,
) -> Result<Listener, Error> {
    address.validate()?;
    inet::first_that_binds(resolve::inet(address, host, port)?, |local| {
        listen_at(address, local, options)
    })
}

fn listen_at(
    address: &Address,
    local: SocketAddr,
    options: &ServerOptions,
) -> Result<Listener, Error> {
    let socket = Socket::create(Kind::of(address), Domain::for_address(local))
        .map_err(|cause| Error::listen("socket", address, cause))?;
    super::configure(&socket, address, &options.link)?;
    inet::bind(&socket, address, local, options)?;
    // Here too the address may turn out to be in use: with SO_REUSEADDR two can bind it.
    SockRef::from(&socket.as_fd())
        .listen(LISTEN_BACKLOG)
        .map_err(|cause| inet::failed("listen", address, local, cause))?;
    let address = socket.local_address().unwrap_or_else(|| address.clone());
    Ok(Listener {
        address,
        _file: None,
        socket,
        buffers: BufferSizes::default(),
    })
}

/// A connect to a free port of the range that connecting sockets draw from can meet itself: then
/// both ends are this socket, and a server that comes later finds its port taken.
pub(super) fn refuse_self_connect(socket: &Socket) -> io::Result<()> {
    match socket.kind() {
        Kind::Tcp | Kind::Tls => {}
        Kind::Uds | Kind::Udp | Kind::Serial => return Ok(()),
    }
    let fd = socket.as_fd();
    let ends = SockRef::from(&fd);
    let (local, peer) = (
        ends.local_addr()?.as_socket(),
        ends.peer_addr()?.as_socket(),
    );
    if local == peer {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    Ok(())
}

/// The bytes among what SIOCOUTQ counts, where our end of stream may be one: it has a sequence number
/// of its own.
pub(super) fn without_fin(socket: &Socket, held: u64) -> u64 {
    // include/net/tcp_states.h; libc has no names for them.
    const FIN_WAIT1: u8 = 4;
    const LAST_ACK: u8 = 9;
    const CLOSING: u8 = 11;
    if held == 0 {
        return 0;
    }
    match sys::socket::tcp_state(socket.as_fd()) {
        Ok(FIN_WAIT1 | LAST_ACK | CLOSING) => held - 1,
        _ => held,
    }
}

/// Most unsent bytes in the kernel under keeplatest and with `max_queue_delay`: left alone it holds
/// megabytes of stale samples, where no newer one can take their place and none is given up.
const FRESH_UNSENT_BYTES: u32 = 16 * 1024;
