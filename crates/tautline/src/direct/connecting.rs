//! How direct links begin on the side that connects: the race of a name's addresses, waited for.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::passed;
use crate::address::Address;
use crate::error::Error;
use crate::options::LinkOptions;
use crate::sys::poll::ppoll_writable;
use crate::transport::{self, Race, Socket, Standing};

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
