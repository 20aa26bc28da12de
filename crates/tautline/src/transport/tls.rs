//! TLS over a connected TCP socket, by rustls: the session that lives in a [`Socket`].
//!
//! A session is one state for both directions, so it has a lock of its own, and this lock is held
//! across the system call: else two records could leave in another order than they were encrypted in.
//! The calls do not wait, but for the blocking receive of a direct link, whose thread is the only one
//! that needs the session. The channel's lock is never held here.
//!
//! What the rules are stands in [`session`], which knows no socket; [`setup`] makes of options what a
//! handshake begins with; [`failure`] says in words what went wrong.

mod failure;
mod pem;
mod session;
mod setup;
mod verify;

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Arrived, PollInterest, Socket, Wait};
use crate::secured::{Secured, TlsCounters};
use crate::sys;

pub(crate) use failure::{is_of_tls, is_untrusted};
pub(crate) use setup::TlsSetup;

use session::{Session, Wire};

/// The TLS session of one connected socket. Nothing passes before its handshake is done.
#[derive(Debug)]
pub(super) struct TlsStream {
    session: Mutex<Session>,
    counters: Arc<TlsCounters>,
}

impl TlsStream {
    fn new(session: Session, counters: Arc<TlsCounters>) -> Self {
        Self {
            session: Mutex::new(session),
            counters,
        }
    }

    /// Goes on with the handshake as far as that needs no wait; whether it is done.
    pub(super) fn handshake(&self, socket: &Socket) -> io::Result<bool> {
        self.session().handshake(&mut wire(socket, Wait::No))
    }

    /// See [`Session::send`].
    pub(super) fn send(&self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.session().send(slices, &mut wire(socket, Wait::No))
    }

    /// See [`Session::recv`].
    pub(super) fn recv(
        &self,
        socket: &Socket,
        buffer: &mut [u8],
        wait: Wait,
    ) -> io::Result<Arrived> {
        let room = buffer.len();
        let bytes = self
            .session()
            .recv(buffer, wait == Wait::Block, &mut wire(socket, wait))?;
        Ok(Arrived::new(bytes, room))
    }

    /// Writes what waits here, encrypted, as far as the kernel takes it; whether nothing is left.
    pub(super) fn flush_owed(&self, socket: &Socket) -> io::Result<bool> {
        self.session().flush(&mut wire(socket, Wait::No))
    }

    /// Ends our side, behind everything that was sent; whether that has left.
    pub(super) fn say_goodbye(&self, socket: &Socket) -> io::Result<bool> {
        self.session().say_goodbye(&mut wire(socket, Wait::No))
    }

    /// Whether a receive has something to say that the kernel does not tell of any more.
    pub(super) fn has_news(&self) -> bool {
        self.session().has_news()
    }

    /// Whether something waits here, encrypted, for room in the kernel.
    pub(super) fn owes(&self) -> bool {
        self.session().owes()
    }

    /// How many bytes that are.
    pub(super) fn pending_bytes(&self) -> u64 {
        self.session().pending_bytes()
    }

    /// What the handshake came to; `None` before it is done.
    pub(super) fn secured(&self) -> Option<Secured> {
        self.session().secured()
    }

    pub(super) const fn counters(&self) -> &Arc<TlsCounters> {
        &self.counters
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kernel's side of a session.
struct SocketWire<'a> {
    socket: &'a Socket,
    wait: Wait,
}

fn wire(socket: &Socket, wait: Wait) -> SocketWire<'_> {
    SocketWire { socket, wait }
}

impl SocketWire<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Wire for SocketWire<'_> {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        match slices {
            [one] => sys::socket::send(self.fd(), one, flags),
            _ => sys::socket::sendmsg(self.fd(), slices, flags),
        }
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.recv_unsecured(buffer, self.wait)
    }

    fn is_writable(&mut self) -> io::Result<bool> {
        let interest = PollInterest {
            read: false,
            write: true,
        };
        let now = std::time::Instant::now();
        Ok(self.socket.poll_kernel(interest, Some(now))?.write)
    }

    fn end(&mut self) -> io::Result<()> {
        self.socket.shutdown_write_unsecured()
    }
}
