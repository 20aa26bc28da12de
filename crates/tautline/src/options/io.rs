//! Options of an I/O thread.

use std::fmt;
use std::time::Duration;

use super::{StartHook, non_zero, validate_spin_of};
use crate::error::Error;
use crate::sys::sched::CPU_LIMIT;
use crate::thread::{self, Scheduling};

/// Options of an I/O thread, or of an own loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoOptions {
    /// The thread's name, as `ps -T` and debuggers show it: 1 to 15 bytes.
    ///
    /// Default `tautline-io`. An [`IoLoop`](crate::IoLoop) refuses any other: its thread is the
    /// caller's own, and named already.
    pub name: String,
    /// The CPUs that the thread may run on.
    ///
    /// Default `None`: those of the thread that starts it. One CPU apart from the application's for
    /// the steadiest times. Refused where the system does not grant all of them.
    pub cpus: Option<Vec<usize>>,
    /// How the thread competes for its CPUs.
    ///
    /// Default `None`: as the thread that starts it. A real-time policy for control loops beside a
    /// busy system: callbacks run under it too. Refused where the system does not grant it.
    pub scheduling: Option<Scheduling>,
    /// What the thread does before anything else, with `cpus` and `scheduling` applied already.
    ///
    /// Default `None`. For what there is no option for: a signal mask, a tracer, memory that is local
    /// to its CPU. Its error, or a panic, fails the start.
    pub on_start: Option<StartHook>,
    /// How long the thread polls, giving way with `sched_yield`, before it sleeps.
    ///
    /// Default zero: idle costs no CPU. The rules of [`LinkOptions::spin`] hold for
    /// the policy and CPUs that the thread will have.
    ///
    /// [`LinkOptions::spin`]: crate::LinkOptions::spin
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
            cpus: None,
            scheduling: None,
            on_start: None,
            spin: Duration::ZERO,
            read_buffer_bytes: 68 * 1024,
        }
    }
}

impl IoOptions {
    /// Refuses, by the option's name, what makes no sense.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        thread::check_name(&self.name).map_err(|why| Error::option("name", why))?;
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
        self.validate_cpus()?;
        let mut policy = None;
        if let Some(scheduling) = self.scheduling {
            let (number, ..) = scheduling
                .parts()
                .map_err(|why| Error::option("scheduling", why))?;
            policy = Some(number);
        }
        validate_spin_of(self.spin, policy, self.cpus.as_ref().map(Vec::len))
    }

    fn validate_cpus(&self) -> Result<(), Error> {
        let Some(cpus) = &self.cpus else {
            return Ok(());
        };
        if cpus.is_empty() {
            return Err(Error::option("cpus", "none would let it never run"));
        }
        match cpus.iter().find(|cpu| **cpu >= CPU_LIMIT) {
            Some(cpu) => Err(Error::option(
                "cpus",
                format!("no CPU has the number {cpu}"),
            )),
            None => Ok(()),
        }
    }

    /// On the thread itself, before anything else.
    pub(crate) fn apply(&self) -> Result<(), Error> {
        if let Some(cpus) = &self.cpus {
            let applied = thread::pin_to(cpus).map_err(|error| error.of_option("cpus"))?;
            granted("cpus", &applied.requested, &applied.effective)?;
        }
        if let Some(scheduling) = self.scheduling {
            let applied = thread::set_scheduling(scheduling)
                .map_err(|error| error.of_option("scheduling"))?;
            granted("scheduling", &applied.requested, &applied.effective)?;
        }
        self.on_start.as_ref().map_or(Ok(()), StartHook::run)
    }

    /// An own loop has no thread to be named.
    pub(crate) fn refuse_those_of_threads(&self) -> Result<(), Error> {
        let default = Self::default();
        for (name, is_asked) in [
            ("name", self.name != default.name),
            ("cpus", self.cpus != default.cpus),
            ("scheduling", self.scheduling != default.scheduling),
            ("on_start", self.on_start != default.on_start),
        ] {
            if is_asked {
                return Err(Error::option(name, OWN_THREAD));
            }
        }
        Ok(())
    }
}

fn granted<T: PartialEq + fmt::Debug>(
    option: &'static str,
    asked: &T,
    granted: &T,
) -> Result<(), Error> {
    if asked == granted {
        return Ok(());
    }
    let why = format!("the system grants {granted:?} of {asked:?}");
    Err(Error::option(option, why))
}

const OWN_THREAD: &str = "a loop is turned by a thread of yours, which it leaves as it is";

/// Far above what the kernel hands out at a time, and no amount that a typing error could take.
const READ_BUFFER_LIMIT_BYTES: usize = 64 * 1024 * 1024;
