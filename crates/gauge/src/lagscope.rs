//! lagscope's measurement: plain TCP messages that come back as they went, on the wire with the
//! original.
//!
//! No hello, no version: the first message begins with [`wire::LAGSCOPE_START`](crate::wire) and is
//! not timed, each that follows carries its number in its first four bytes, and the receiver sends
//! every byte back. What is printed about it is the program's business.

mod daemon;
mod outgoing;
mod receiver;
mod sender;
mod table;
mod tally;
mod traffic;

pub use self::daemon::{become_daemon, set_process_name};
pub use self::outgoing::{ConnectError, Outgoing};
pub use self::receiver::{Client, Receiver, Watch};
pub use self::sender::{End, Length, Ping, Run, Sender};
pub use self::table::{Histogram, write_frequencies};
pub use self::tally::{PERCENTILES, Tally, TooFew};
pub use self::traffic::{Buffers, REPLY_LIMIT};

use std::io;

use crate::sys;

/// Hour, minute and second of the wall clock in the local time zone, for the lines of the console.
pub fn local_time_of_day() -> (u8, u8, u8) {
    sys::clock::local_time_of_day()
}

/// Keeps the calling thread, and those it starts from here on, on one processor.
///
/// # Errors
///
/// When there is no such processor, or it may not be used.
pub fn pin(processor: usize) -> io::Result<()> {
    sys::sched::set_affinity(&[processor])
}
