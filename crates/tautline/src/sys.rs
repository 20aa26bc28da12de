//! System calls: one function each, named like the man page; the only `unsafe` code of the crate.
//!
//! Each function retries `EINTR` itself, unless its name says `once`, and reports failure as
//! [`std::io::Error`]; what a failure means is for the caller to say. Creating sockets and plain
//! options are socket2's.

pub(crate) mod bulk;
pub(crate) mod clock;
mod control;
pub(crate) mod datagram;
pub(crate) mod file;
pub(crate) mod net;
pub(crate) mod poll;
pub(crate) mod sched;
pub(crate) mod socket;
pub(crate) mod timer;
// The ioctls of opening are used where serial lines are built in.
#[cfg_attr(
    not(feature = "serial"),
    expect(dead_code, reason = "without the feature no line is opened")
)]
pub(crate) mod tty;

use std::io;

/// Calls until it is not interrupted by a signal handler, and turns -1 into `errno`.
fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match result(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Turns -1 into `errno`.
fn result(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests;
