//! One raw client socket: looked up, with its options set and read back, connected within a bound.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tautline::{Address, UdsName};

use super::lookup::look_up;
use super::plan::{SocketPlan, transport_of};
use super::{PingError, Stop};
use crate::plan::Transport;
use crate::report::ping::{Path, SocketOption, TcpState};
use crate::sys;

/// Where an address leads, in the order to try.
#[derive(Debug, Clone)]
pub(crate) struct Targets {
    address: Address,
    found: Vec<SockAddr>,
}

impl Targets {
    /// Looks the address up, once.
    pub(crate) fn find(
        address: &Address,
        plan: &SocketPlan,
        stop: &Stop<'_>,
    ) -> Result<Self, PingError> {
        let found = match address {
            Address::Tcp { host, port }
            | Address::Tls { host, port }
            | Address::Udp { host, port } => look_up(address, host, *port, plan, stop)?,
            // A port is opened by its path, and nobody is looked up.
            Address::Serial(_) => Vec::new(),
            Address::Uds(name) => vec![unix(name).map_err(|cause| refused(address, &cause))?],
        };
        Ok(Self {
            address: address.clone(),
            found,
        })
    }

    /// Whom.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// A connected socket that blocks, and what is known of its path.
    pub(crate) fn connect(
        &self,
        plan: &SocketPlan,
        deadline: Instant,
        stop: &Stop<'_>,
    ) -> Result<(Socket, Path), PingError> {
        let mut first = None;
        for target in &self.found {
            match connect_one(&self.address, target, plan, deadline, stop) {
                Ok(connected) => return Ok(connected),
                Err(why) => first = first.or(Some(why)),
            }
        }
        // Of a serial line there is none: it has no sockets.
        let none = || refused(&self.address, &io::ErrorKind::Unsupported.into());
        Err(first.unwrap_or_else(none))
    }
}

fn connect_one(
    address: &Address,
    target: &SockAddr,
    plan: &SocketPlan,
    deadline: Instant,
    stop: &Stop<'_>,
) -> Result<(Socket, Path), PingError> {
    let transport = transport_of(address);
    let (kind, protocol) = match transport {
        Transport::Tcp | Transport::Tls => (Type::STREAM, Some(Protocol::TCP)),
        Transport::Udp => (Type::DGRAM, Some(Protocol::UDP)),
        Transport::Uds => (Type::STREAM, None),
        Transport::Serial => return Err(refused(address, &io::ErrorKind::Unsupported.into())),
    };
    let failed = |cause: io::Error| refused(address, &cause);
    let socket = Socket::new(target.domain(), kind, protocol).map_err(failed)?;
    set_options(&socket, target, transport, plan)?;
    socket.set_nonblocking(true).map_err(failed)?;
    match socket.connect(target) {
        Ok(()) => {}
        Err(cause)
            if cause.raw_os_error() == Some(libc::EINPROGRESS)
                || cause.kind() == io::ErrorKind::WouldBlock =>
        {
            wait_connected(&socket, deadline, stop).map_err(failed)?;
        }
        Err(cause) => return Err(failed(cause)),
    }
    socket.set_nonblocking(false).map_err(failed)?;
    let path = Path {
        local: socket.local_addr().ok().and_then(|local| shown(&local)),
        remote: shown(target),
        options: read_options(&socket, target, transport, plan),
        tcp_before: None,
        tcp_after: None,
        retransmits: None,
    };
    Ok((socket, path))
}

fn wait_connected(socket: &Socket, deadline: Instant, stop: &Stop<'_>) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answers"));
        }
        if stop.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let wait_ns = left.min(TICK).as_nanos() as u64;
        if sys::poll::ppoll(socket.as_fd(), true, wait_ns)?.writable {
            return socket.take_error()?.map_or(Ok(()), Err);
        }
    }
}

/// Before connecting: some are looked at only then.
fn set_options(
    socket: &Socket,
    target: &SockAddr,
    transport: Transport,
    plan: &SocketPlan,
) -> Result<(), PingError> {
    let step = |option: &str, value: &dyn std::fmt::Display, outcome: io::Result<()>| {
        outcome.map_err(|cause| PingError::setup(format!("{option} {value}: {cause}")))
    };
    if let Some(bytes) = plan.send_buffer_bytes {
        step("--sndbuf", &bytes, socket.set_send_buffer_size(bytes))?;
    }
    if let Some(bytes) = plan.receive_buffer_bytes {
        step("--rcvbuf", &bytes, socket.set_recv_buffer_size(bytes))?;
    }
    if let Some(time) = plan.busy_poll {
        let us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        // More than the default needs a right. What it is shows when it is read back.
        let _ = socket.set_busy_poll(us);
    }
    if transport == Transport::Uds {
        return Ok(());
    }
    if let Some(tos) = plan.tos {
        let outcome = match target.domain() {
            Domain::IPV6 => socket.set_tclass_v6(tos.into()),
            _ => socket.set_tos_v4(tos.into()),
        };
        step("--tos", &tos, outcome)?;
    }
    if let Some(interface) = &plan.interface {
        step(
            "--interface",
            interface,
            socket.bind_device(Some(interface.as_bytes())),
        )?;
    }
    if let Some(bind) = plan.bind {
        step("--bind", &bind, socket.bind(&bind.into()))?;
    }
    if transport.is_over_tcp() {
        step("TCP_NODELAY", &"on", socket.set_tcp_nodelay(true))?;
        if let Some(name) = &plan.congestion {
            step(
                "--congestion",
                name,
                socket.set_tcp_congestion(name.as_bytes()),
            )?;
        }
    }
    Ok(())
}

/// The options that were asked for and TCP_NODELAY, as the kernel has them.
fn read_options(
    socket: &Socket,
    target: &SockAddr,
    transport: Transport,
    plan: &SocketPlan,
) -> Vec<SocketOption> {
    let option =
        |name: &'static str, requested: Option<String>, effective: Option<String>| SocketOption {
            name: name.into(),
            requested,
            effective,
        };
    let text = |value: io::Result<usize>| value.ok().map(|value| value.to_string());
    // The kernel doubles what is asked for, for its own bookkeeping, and returns it doubled.
    let half = |value: io::Result<usize>| text(value.map(|bytes| bytes / 2));
    let mut options = vec![
        option(
            "sndbuf",
            plan.send_buffer_bytes.map(|bytes| bytes.to_string()),
            half(socket.send_buffer_size()),
        ),
        option(
            "rcvbuf",
            plan.receive_buffer_bytes.map(|bytes| bytes.to_string()),
            half(socket.recv_buffer_size()),
        ),
    ];
    if let Some(time) = plan.busy_poll {
        options.push(option(
            "so-busy-poll",
            Some(format!("{} us", time.as_micros())),
            socket.busy_poll().ok().map(|us| format!("{us} us")),
        ));
    }
    if transport == Transport::Uds {
        return options;
    }
    if let Some(tos) = plan.tos {
        let effective = match target.domain() {
            Domain::IPV6 => socket.tclass_v6(),
            _ => socket.tos_v4(),
        };
        options.push(option(
            "tos",
            Some(tos.to_string()),
            effective.ok().map(|tos| tos.to_string()),
        ));
    }
    if let Some(interface) = &plan.interface {
        let effective = socket.device().ok().flatten();
        options.push(option(
            "interface",
            Some(interface.clone()),
            effective.map(|name| String::from_utf8_lossy(&name).into_owned()),
        ));
    }
    if transport.is_over_tcp() {
        let nodelay = socket.tcp_nodelay().ok();
        options.push(option(
            "nodelay",
            Some("on".to_owned()),
            nodelay.map(|on| if on { "on" } else { "off" }.to_owned()),
        ));
        options.push(option(
            "congestion",
            plan.congestion.clone(),
            congestion(socket),
        ));
    }
    options
}

/// TCP_INFO of a connection; `None` on other sockets.
pub(crate) fn tcp_state(socket: &Socket, transport: Transport) -> Option<TcpState> {
    if !transport.is_over_tcp() {
        return None;
    }
    let info = sys::socket::tcp_info(socket.as_fd()).ok()?;
    Some(TcpState {
        retransmits: info.retransmits.into(),
        srtt_us: info.srtt_us.into(),
        rttvar_us: info.rttvar_us.into(),
        congestion_window: info.congestion_window.into(),
        mss_bytes: info.mss_bytes.into(),
        path_mtu_bytes: info.path_mtu_bytes.into(),
        congestion_control: congestion(socket),
    })
}

fn congestion(socket: &Socket) -> Option<String> {
    let name = socket.tcp_congestion().ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\0').to_owned()).filter(|name| !name.is_empty())
}

fn unix(name: &UdsName) -> io::Result<SockAddr> {
    match name {
        UdsName::Path(path) => SockAddr::unix(path),
        UdsName::Abstract(name) => {
            let mut bytes = vec![0];
            bytes.extend(name);
            SockAddr::unix(OsString::from_vec(bytes))
        }
    }
}

fn shown(address: &SockAddr) -> Option<String> {
    if let Some(inet) = address.as_socket() {
        return Some(inet.to_string());
    }
    if let Some(path) = address.as_pathname() {
        return Some(path.display().to_string());
    }
    let name = address.as_abstract_namespace()?;
    Some(format!("@{}", String::from_utf8_lossy(name)))
}

pub(super) fn refused(address: &Address, cause: &io::Error) -> PingError {
    let why = match cause.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused: nobody listens there".to_owned(),
        io::ErrorKind::NotFound => "there is no such socket".to_owned(),
        _ => cause.to_string(),
    };
    PingError::setup(format!("connect to {address}: {why}"))
}

/// How soon a stop is noticed.
pub(super) const TICK: Duration = Duration::from_millis(100);
