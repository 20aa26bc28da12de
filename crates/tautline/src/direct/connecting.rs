//! How direct links begin: the race of a name's addresses and the handshake of TLS, waited for.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use super::passed;
use crate::address::Address;
use crate::driver::handshake_timed_out;
use crate::error::Error;
use crate::options::LinkOptions;
use crate::secured::TlsCounters;
use crate::sys::poll::ppoll_writable;
use crate::transport::{self, PollInterest, Race, Socket, Standing, TlsSetup};

/// Connects to the first address of a name that answers.
pub(super) fn connect(address: &Address, options: &LinkOptions) -> Result<Socket, Error> {
    let deadline = Instant::now().checked_add(options.connect_timeout);
    let targets = transport::resolve(address)?;
    let mut race = Race::new(address, targets, Instant::now());
    loop {
        let next = match race.go_on(address, options, Instant::now(), |_| Ok(())) {
            Standing::Won(socket) => return Ok(socket),
            Standing::Lost(error) => return Err(error),
            Standing::Running(next) => next,
        };
        if passed(deadline) {
            return Err(race.timed_out(address, options.connect_timeout));
        }
        let until = match (next, deadline) {
            (Some(next), Some(deadline)) => Some(next.min(deadline)),
            (next, deadline) => next.or(deadline),
        };
        let runners: Vec<BorrowedFd<'_>> = race.sockets().map(Socket::as_fd).collect();
        ppoll_writable(&runners, until).map_err(|cause| Error::connect(address, cause))?;
    }
}

/// Does the handshake of TLS, if there is one to do; `operation` is what failed if it does.
pub(super) fn secure(
    mut socket: Socket,
    setup: Option<&TlsSetup>,
    (operation, address): (&'static str, &Address),
    options: &LinkOptions,
    deadline: Option<Instant>,
) -> Result<Socket, Error> {
    let Some(setup) = setup else {
        return Ok(socket);
    };
    let timeout = options.tls.handshake_timeout;
    let until = Instant::now().checked_add(timeout);
    let until = match (until, deadline) {
        (Some(until), Some(deadline)) => Some(until.min(deadline)),
        (until, deadline) => until.or(deadline),
    };
    let start = Instant::now();
    let failed = |cause| match operation {
        "connect to" => Error::connect(address, cause),
        _ => Error::io(operation, address, cause),
    };
    let counters = Arc::new(TlsCounters::default());
    socket.secure(setup, counters).map_err(failed)?;
    loop {
        match socket.handshake() {
            Ok(true) => return Ok(socket),
            Ok(false) => {
                let interest = PollInterest {
                    read: true,
                    write: socket.owes(),
                };
                socket.wait_ready(interest, until).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(failed(cause)),
        }
        if passed(until) {
            let took = start.elapsed().min(timeout);
            return Err(handshake_timed_out(operation, address, took));
        }
    }
}
