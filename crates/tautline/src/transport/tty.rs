//! What a serial line does in a socket's place: the descriptor is a terminal's.
//!
//! It never blocks: whoever may wait does so in `ppoll`, which the end of the link calls off. Nothing
//! else would: a terminal cannot be shut down as a socket can. How it is opened and set stands in
//! `serial.rs`.

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Wait;
use crate::address::{Address, SerialLine};
use crate::sys;

/// A serial line besides its descriptor.
#[derive(Debug)]
pub(super) struct Tty {
    /// As it is set, which is not always to the bit what was asked for.
    line: SerialLine,
    is_pseudo: bool,
    shut: AtomicBool,
    /// Readable once the line is shut: it calls off whoever waits.
    called_off: OwnedFd,
    /// How long a receive waits at most; 0 for ever.
    receive_timeout_ns: AtomicU64,
}

impl Tty {
    #[cfg(feature = "serial")]
    pub(super) fn new(line: SerialLine, is_pseudo: bool) -> io::Result<Self> {
        Ok(Self {
            line,
            is_pseudo,
            shut: AtomicBool::new(false),
            called_off: sys::file::eventfd()?,
            receive_timeout_ns: AtomicU64::new(0),
        })
    }

    pub(super) fn address(&self) -> Address {
        Address::Serial(self.line.clone())
    }

    pub(super) const fn is_pseudo(&self) -> bool {
        self.is_pseudo
    }

    pub(super) fn set_receive_timeout(&self, timeout: Duration) {
        let timeout_ns = timeout.as_nanos().try_into().unwrap_or(u64::MAX).max(1);
        self.receive_timeout_ns.store(timeout_ns, Ordering::Relaxed);
    }

    /// Sends header and payload in one call, as far as the driver has room.
    pub(super) fn send(&self, fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.shut.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = match slices {
            [one] => sys::file::write(fd, one),
            several => sys::file::writev(fd, several),
        };
        written.map_err(explained)
    }

    /// Receives what is there, at least a byte. The end is an error: nobody at the other side could have
    /// ended the stream, so the line itself is gone.
    pub(super) fn recv(
        &self,
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        wait: Wait,
    ) -> io::Result<usize> {
        match wait {
            Wait::No => {}
            Wait::Block => {
                let timeout_ns = self.receive_timeout_ns.load(Ordering::Relaxed);
                let deadline = (timeout_ns > 0)
                    .then(|| Instant::now().checked_add(Duration::from_nanos(timeout_ns)))
                    .flatten();
                self.ppoll(fd, libc::POLLIN, deadline)?;
            }
        }
        match sys::file::read(fd, buffer) {
            Ok(0) if !buffer.is_empty() => Err(gone()),
            result => result.map_err(explained),
        }
    }

    pub(super) fn ppoll(
        &self,
        fd: BorrowedFd<'_>,
        events: libc::c_short,
        deadline: Option<Instant>,
    ) -> io::Result<libc::c_short> {
        sys::poll::ppoll_unless(fd, events, self.called_off.as_fd(), deadline)
    }

    /// Ends both sides: nothing is sent any more, and nobody waits.
    pub(super) fn shut(&self) {
        self.shut.store(true, Ordering::Relaxed);
        // It fails only when 2^64 - 1 have shut it before.
        let _ = sys::file::write(self.called_off.as_fd(), &1_u64.to_ne_bytes());
    }

    pub(super) fn discard_unsent(&self, fd: BorrowedFd<'_>) {
        // It fails where the device has gone, and then there is nothing left to send.
        let _ = sys::tty::tcflush_output(fd);
    }

    /// Closes the line. Its driver may hold up the last close until it has sent what it holds, or for as
    /// long as its `closing_wait` says, by default 30 s: so that a thread of its own does that.
    pub(super) fn close(self, fd: &mut OwnedFd) {
        if self.line.exclusive {
            // Whoever opens it anew need not wait for that. It fails where the device has gone.
            let _ = sys::file::flock_unlock(fd.as_fd());
            let _ = sys::tty::ioctl_tiocnxcl(fd.as_fd());
        }
        if self.is_pseudo {
            return;
        }
        let line = mem::replace(fd, self.called_off);
        let closing = thread::Builder::new().name("tautline-close".to_owned());
        // Without a thread it is closed right here, with the closure that was to do it.
        let _ = closing.spawn(move || drop(line));
    }
}

/// The line is gone: what the kernel says of it depends on the driver and on who asks.
fn explained(cause: io::Error) -> io::Error {
    match cause.raw_os_error() {
        Some(libc::EIO | libc::ENODEV | libc::ENXIO) => gone(),
        _ => cause,
    }
}

fn gone() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "the line is gone: unplugged, or its other end closed",
    )
}
