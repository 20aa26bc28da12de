//! One serial port whose sending and receiving ends are joined: what is sent comes back by itself.
//!
//! The run holds the port open and locked from its beginning to its end, so that nobody comes in between,
//! its modem lines do not drop between blocks, and its settings stay. The sides open it beside that, each
//! for its block alone: two readers would each get a part of the bytes.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use tautline::{Address, DirectLink, LinkOptions, SerialLine};

use crate::line;
use crate::plan::wire_time;
use crate::sys;

/// The port, held for the run.
#[derive(Debug)]
pub(crate) struct Plug {
    /// For the sides' turns: as asked for, but not exclusive, because the run is that already.
    in_turn: SerialLine,
    effective: SerialLine,
    is_pseudo: bool,
    latency_timer_ms: Option<u64>,
    _held: File,
}

impl Plug {
    /// Has the library open and set the port once, and holds it from then on.
    ///
    /// # Errors
    ///
    /// What, where and why.
    pub(crate) fn hold(asked: &SerialLine) -> Result<Self, String> {
        let address = Address::Serial(asked.clone());
        let link = DirectLink::connect(&address, LinkOptions::default())
            .map_err(|error| error.to_string())?;
        let effective = match link.local_address() {
            Some(Address::Serial(line)) => line,
            _ => asked.clone(),
        };
        // Exclusive, it lets nobody else open the port; dropped, it has given that up.
        drop(link);
        let failed = |step: &str, cause| format!("{address}: {step}: {cause}");
        let held = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(&asked.path)
            .map_err(|cause| failed("open it", cause))?;
        if asked.exclusive {
            sys::descriptor::flock_exclusive(held.as_fd())
                .map_err(|cause| failed("somebody else has it: lock", cause))?;
        }
        Ok(Self {
            in_turn: SerialLine {
                exclusive: false,
                ..asked.clone()
            },
            effective,
            is_pseudo: line::is_pseudo(&asked.path),
            latency_timer_ms: line::latency_timer_ms(Path::new("/sys"), &asked.path),
            _held: held,
        })
    }

    /// Where the library's links connect.
    pub(crate) fn address(&self) -> Address {
        Address::Serial(self.in_turn.clone())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.in_turn.path
    }

    /// How it is set, as it was read back.
    pub(crate) fn effective(&self) -> &SerialLine {
        &self.effective
    }

    /// Whether it is a pseudo-terminal, which has no wire.
    pub(crate) fn is_pseudo(&self) -> bool {
        self.is_pseudo
    }

    /// How long so many bytes are on the wire, where there is one.
    pub(crate) fn wire_time(&self, bytes: usize) -> Option<Duration> {
        (!self.is_pseudo).then(|| wire_time(&self.effective, bytes))
    }

    pub(crate) fn latency_timer_ms(&self) -> Option<u64> {
        self.latency_timer_ms
    }
}
