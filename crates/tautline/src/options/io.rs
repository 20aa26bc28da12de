//! Options of an I/O thread.

use std::time::Duration;

use super::{non_zero, validate_spin};
use crate::error::Error;

/// Options of an I/O thread, or of an own loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoOptions {
    /// The thread's name, as `ps -T` and debuggers show it: 1 to 15 bytes.
    ///
    /// Default `tautline-io`. An [`IoLoop`](crate::IoLoop) refuses any other: its thread is the
    /// caller's own, and named already.
    pub name: String,
    /// How long the thread polls, giving way with `sched_yield`, before it sleeps.
    ///
    /// Default zero: idle costs no CPU. The rules of [`LinkOptions::spin`] hold, for the thread
    /// that starts this one: it inherits policy and CPUs.
    pub spin: Duration,
    /// Bytes of the one read buffer that all links of the thread share.
    ///
    /// Default 68 KiB: holds any datagram, and a message of 64 KiB with its prefix in one read. More
    /// costs the cache; less makes large messages cost a read and a copy more, and
    /// datagrams that do not fit are cut, and flagged.
    /// At most 64 MiB.
    pub read_buffer_bytes: usize,
}

impl Default for IoOptions {
    fn default() -> Self {
        Self {
            name: "tautline-io".to_owned(),
            spin: Duration::ZERO,
            read_buffer_bytes: 68 * 1024,
        }
    }
}

impl IoOptions {
    /// Refuses, by the option's name, what makes no sense.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if !(1..=THREAD_NAME_LIMIT).contains(&self.name.len()) {
            return Err(Error::option(
                "name",
                format!(
                    "{:?} has {} bytes, and a thread's name has 1 to {THREAD_NAME_LIMIT}",
                    self.name,
                    self.name.len()
                ),
            ));
        }
        if self.name.contains('\0') {
            return Err(Error::option("name", "a thread's name has no NUL"));
        }
        non_zero(
            "read_buffer_bytes",
            self.read_buffer_bytes,
            "0 could never read anything",
        )?;
        if self.read_buffer_bytes > READ_BUFFER_LIMIT_BYTES {
            return Err(Error::option(
                "read_buffer_bytes",
                format!("at most {READ_BUFFER_LIMIT_BYTES}: a read takes what is there"),
            ));
        }
        validate_spin(self.spin)
    }

    /// An own loop has no thread to be named.
    pub(crate) fn refuse_those_of_threads(&self) -> Result<(), Error> {
        if self.name != Self::default().name {
            return Err(Error::option("name", OWN_THREAD));
        }
        Ok(())
    }
}

const OWN_THREAD: &str = "a loop is turned by a thread of yours, which it leaves as it is";

/// Far above what the kernel hands out at a time, and no amount that a typing error could take.
const READ_BUFFER_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// Most bytes of a thread's name: `TASK_COMM_LEN` with its zero is 16; the kernel would cut more.
const THREAD_NAME_LIMIT: usize = 15;
