//! What can be chosen, with its default and the situation it suits.
//!
//! The struct that the user fills is the struct that we read. Values and combinations that make no
//! sense are refused by name before anything starts; nothing is clamped. One file for each struct;
//! here stands what several of them check.

#[cfg(feature = "futures")]
mod inbox;
mod io;
mod link;
mod liveness;
mod reconnect;
mod server;
mod start_hook;
mod tls;
mod udp;

use std::time::Duration;

use tautline_session::Framing;

use crate::error::Error;
use crate::sys;

#[cfg(feature = "futures")]
pub use inbox::{AcceptOptions, InboxOptions};
pub use io::IoOptions;
pub use link::LinkOptions;
pub use liveness::{Batch, Keepalive};

pub use server::ServerOptions;
pub use start_hook::StartHook;
pub use tls::{ClientCertificates, Identity, Pem, Roots, Tls, Verification};
pub use udp::{Interface, Multicast, MulticastGroup};

fn non_zero(name: &'static str, value: usize, why: &str) -> Result<(), Error> {
    if value == 0 {
        return Err(Error::option(name, why));
    }
    Ok(())
}

/// A queue that cannot hold the shortest message is no queue.
fn queue_bytes(name: &'static str, limit: usize, framing: &Framing) -> Result<(), Error> {
    non_zero(name, limit, "0 would never accept a message")?;
    let shortest = framing.encoded_limit_bytes(1);
    if limit < shortest {
        return Err(Error::option(
            name,
            format!("{limit} is less than the shortest message: {shortest} bytes with its framing"),
        ));
    }
    Ok(())
}

fn validate_spin(spin: Duration) -> Result<(), Error> {
    validate_spin_of(spin, None, None)
}

/// For a thread that will have this policy and so many CPUs, or where they are not chosen those of the
/// calling thread.
fn validate_spin_of(spin: Duration, policy: Option<i32>, cpus: Option<usize>) -> Result<(), Error> {
    if spin <= SPIN_LIMIT_REAL_TIME {
        return Ok(());
    }
    // A sandbox may forbid the question. Then the policy is taken for the ordinary one, as nearly
    // always, rather than refuse what is nearly always right.
    let own_policy = || sys::sched::sched_getscheduler().unwrap_or(libc::SCHED_OTHER);
    let own_cpus = || sys::sched::sched_getaffinity(0).map_or(usize::MAX, |cpus| cpus.len());
    let policy = policy.unwrap_or_else(own_policy);
    if spin_starves_others(policy, cpus.unwrap_or_else(own_cpus)) {
        return Err(Error::option(
            "spin",
            format!(
                "{spin:?} under a real-time policy would starve others: {SPIN_LIMIT_REAL_TIME:?} \
                 at most, or give the thread one CPU of its own"
            ),
        ));
    }
    Ok(())
}

/// `sched_yield` gives way only to equals: under a real-time policy ordinary threads never run.
/// One CPU for this thread alone is somebody's decision to allow just that.
fn spin_starves_others(policy: i32, allowed_cpus: usize) -> bool {
    let real_time = [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&policy);
    real_time && allowed_cpus != 1
}

/// Longest spin allowed under a real-time policy: about what waking a sleeper costs anyway.
const SPIN_LIMIT_REAL_TIME: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests;
