//! Before the first client: where its thread will sit, and the sockets that it may reach.

use std::io;
use std::sync::Arc;
use std::thread;

use tautline::{Address, DirectListener};

use super::serial::SerialPort;
use super::udp::UdpSocket;
use super::{ServeError, ServePlan, stream};
use crate::placement::{PlacementError, Register, Seat, Seats};
use crate::plan::{Placement, PlacementPlan};
use crate::wire::DEFAULT_PORT;

/// The places of clients' threads, given to them in turn.
pub(super) fn seats(plan: &PlacementPlan) -> Result<Vec<Seat>, PlacementError> {
    let seat = |cpus: Vec<usize>| {
        let placement = if cpus.is_empty() {
            Placement::Free
        } else {
            Placement::Same
        };
        let seats = Seats::choose(&PlacementPlan {
            placement,
            cpus,
            ..plan.clone()
        })?;
        Ok(seats.server("serve"))
    };
    if plan.cpus.is_empty() {
        return Ok(vec![seat(Vec::new())?]);
    }
    plan.cpus.iter().map(|&cpu| seat(vec![cpu])).collect()
}

/// Sits down once on every seat, so that what is refused is known before the first client comes.
pub(super) fn try_seats(
    seats: &[Seat],
    register: &Register,
    required: bool,
) -> Result<(), ServeError> {
    for &seat in seats {
        thread::scope(|scope| {
            let trial = thread::Builder::new()
                .name("serve-trial".to_owned())
                .spawn_scoped(scope, || seat.take(register))
                .map_err(ServeError::Thread)?;
            trial
                .join()
                .expect("taking a seat does not panic")
                .map_err(ServeError::Placement)
        })?;
    }
    match register.refusal() {
        Some(refusal) if required => Err(ServeError::Scheduler(refusal)),
        Some(_) | None => Ok(()),
    }
}

/// What is listened on.
#[derive(Debug, Default)]
pub(super) struct Listening {
    pub(super) streams: Vec<DirectListener>,
    pub(super) sockets: Vec<Arc<UdpSocket>>,
    pub(super) lines: Vec<SerialPort>,
}

pub(super) fn listen(plan: &ServePlan) -> Result<Listening, ServeError> {
    let mut listening = Listening::default();
    let mut listen_on = |address: &Address| -> Result<(), ServeError> {
        match address {
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) => {
                let options = stream::options(plan, address);
                listening
                    .streams
                    .push(DirectListener::bind_with(address, &options)?);
            }
            Address::Udp { .. } => listening.sockets.push(Arc::new(UdpSocket::bind(address)?)),
            Address::Serial(_) => listening.lines.push(SerialPort::open(address)?),
        }
        Ok(())
    };
    for address in &plan.addresses {
        listen_on(address)?;
    }
    if plan.addresses.is_empty() {
        for of_host in [everywhere_tcp, everywhere_udp] {
            match listen_on(&of_host("::")) {
                Err(error) if error.is_without_ipv6() => listen_on(&of_host("0.0.0.0"))?,
                outcome => outcome?,
            }
        }
    }
    Ok(listening)
}

fn everywhere_tcp(host: &str) -> Address {
    Address::Tcp {
        host: host.to_owned(),
        port: DEFAULT_PORT,
    }
}

fn everywhere_udp(host: &str) -> Address {
    Address::Udp {
        host: host.to_owned(),
        port: DEFAULT_PORT,
    }
}

impl ServeError {
    /// Whether this machine has no IPv6 to listen on.
    fn is_without_ipv6(&self) -> bool {
        let cause = match self {
            Self::Listen(error) => error.io_error(),
            Self::ListenUdp { cause, .. } => Some(cause),
            Self::Placement(_) | Self::Scheduler(_) | Self::Thread(_) => None,
        };
        matches!(
            cause.and_then(io::Error::raw_os_error),
            Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
        )
    }
}
