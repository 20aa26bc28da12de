//! The driver without a thread of its own: turned by the application's loop.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::begin;
use crate::driver::{Driver, IoShared, in_callback};
use crate::error::{Error, Refusal};
use crate::handler::Handler;
use crate::link::Link;
use crate::options::{IoOptions, LinkOptions, ServerOptions};
use crate::server::Server;

/// What an [`IoThread`](crate::IoThread) does, done by a thread of the application whenever it calls
/// [`turn`](Self::turn): for programs that have a loop of their own, or want one thread for all.
///
/// Its descriptor (`AsFd`) is readable when a turn has something to do: news of a socket, a timer that
/// is due, what another thread asked for, work that the last turn left. So it stands beside other
/// descriptors in a `poll(2)` or `epoll(7)`, whether level- or edge-triggered; asked for reading only.
///
/// The thread that made it is the one that turns it (the type is not `Send`); its links are for any
/// thread, as always. During a turn this thread is inside a callback. Between turns it must not wait for
/// this loop, which nobody else would turn meanwhile: there calls on its links and servers answer as
/// inside a callback. `close` and `abort` only start, a send that finds no room and `flush` say
/// `WouldDeadlock`, `wait_open` answers at once. On links of other threads they wait as usual.
///
/// Dropping it ends its links and servers with their last callbacks, on this thread: `closed` and
/// `ended` say [`Aborted`](crate::Reason::Aborted). Handles that are left find them ended.
///
/// ```
/// use tautline::{IoLoop, IoOptions, Link, LinkOptions, Received, ServerOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut io = IoLoop::new(IoOptions::default())?;
/// let server = io.listen(&"tcp://127.0.0.1:0".parse()?, ServerOptions::default(), |_: &Link| {
///     Ok(|peer: &Link, message: &[u8], _: Received| drop(peer.send(message))) // Echo.
/// })?;
/// let (answers, inbox) = std::sync::mpsc::channel();
/// let link = io.connect(&server.local_address(), LinkOptions::default(),
///     move |_: &Link, message: &[u8], _: Received| drop(answers.send(message.to_vec())))?;
/// while !link.is_open() {
///     io.turn(None)?;
/// }
/// link.send(b"hello")?;
/// let answer = loop {
///     io.turn(None)?;
///     if let Ok(answer) = inbox.try_recv() {
///         break answer;
///     }
/// };
/// assert_eq!(answer, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct IoLoop {
    shared: Arc<IoShared>,
    driver: Driver,
    _stays_on_its_thread: PhantomData<Rc<()>>,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turned {
    /// Work was left, by a link that had its share or by a command that came: the descriptor is
    /// readable, and another turn would not wait.
    pub more: bool,
}

impl IoLoop {
    /// Makes a loop that the calling thread is to turn. Several on one thread are independent.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; so are those of an I/O thread (`name`, …), for this
    /// thread is the caller's own. Or a system that is out of descriptors.
    pub fn new(options: IoOptions) -> Result<Self, Error> {
        options.validate()?;
        options.refuse_those_of_threads()?;
        let poll = mio::Poll::new().map_err(Error::poller)?;
        let shared = IoShared::turned_here(poll.registry()).map_err(Error::poller)?;
        let shared = Arc::new(shared);
        let driver = Driver::new(
            poll,
            Arc::clone(&shared),
            options.read_buffer_bytes,
            options.spin,
        )
        .map_err(Error::poller)?;
        Ok(Self {
            shared,
            driver,
            _stays_on_its_thread: PhantomData,
        })
    }

    /// Waits until there is something to do, at most this long, and does it: one wait, then what the
    /// kernel told of, commands, timers, callbacks. With `Some(Duration::ZERO)` it does not wait, with
    /// `None` for as long as nothing happens.
    ///
    /// It polls for [`IoOptions::spin`] before it sleeps. A signal handler that ran ends the wait, with
    /// nothing done.
    ///
    /// # Errors
    /// [`Deadlock`](io::ErrorKind::Deadlock) inside a callback, of whichever loop or thread: those must
    /// not wait. Nothing else fails.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<Turned> {
        if in_callback() {
            let why = "turn: a callback must not wait for the events of a loop";
            return Err(io::Error::new(io::ErrorKind::Deadlock, why));
        }
        let inside = self.shared.enter();
        self.driver.turn_once(timeout);
        drop(inside);
        let more = self.driver.leave();
        Ok(Turned { more })
    }

    /// Begins a link to `address` and returns at once; `opened` or `ended` tells how it went, in one of
    /// the next turns.
    ///
    /// # Errors
    /// As [`IoThread::connect`](crate::IoThread::connect).
    pub fn connect(
        &self,
        address: &Address,
        options: LinkOptions,
        handler: impl Handler,
    ) -> Result<Link, Error> {
        begin::connect(&self.shared, address, options, handler)
    }

    /// Listens on `address`. `accept` is called for each newcomer, during a turn, and gives the handler
    /// of its link, or the reason why it is turned away.
    ///
    /// # Errors
    /// As [`IoThread::listen`](crate::IoThread::listen).
    pub fn listen<H: Handler>(
        &self,
        address: &Address,
        options: ServerOptions,
        accept: impl FnMut(&Link) -> Result<H, Refusal> + Send + 'static,
    ) -> Result<Server, Error> {
        begin::listen(&self.shared, address, options, accept)
    }
}

impl AsFd for IoLoop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.driver.as_fd()
    }
}

impl AsRawFd for IoLoop {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for IoLoop {
    fn drop(&mut self) {
        let _inside = self.shared.enter();
        self.driver.end_all();
    }
}

impl fmt::Debug for IoLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoLoop").finish_non_exhaustive()
    }
}
