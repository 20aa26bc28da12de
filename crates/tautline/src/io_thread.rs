//! The value that stands for an I/O thread.

use std::fmt;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};

use crate::address::Address;
use crate::begin;
use crate::driver::{Command, Driver, IoShared};
use crate::error::{Error, Refusal};
use crate::handler::Handler;
use crate::link::Link;
use crate::options::{IoOptions, LinkOptions, ServerOptions};
use crate::server::Server;
use crate::sys;
use crate::thread::{self, ThreadState};

/// A thread that reads and writes for any number of links and calls their handlers.
///
/// Idle it sleeps and costs no CPU. Dropping this value does not stop it: it lives until its last
/// link has ended. It inherits the CPUs and the scheduling policy of the thread that starts it,
/// unless [`IoOptions`] say otherwise.
///
/// A program that has a loop of its own takes an [`IoLoop`](crate::IoLoop) into it instead.
pub struct IoThread {
    shared: Arc<IoShared>,
    /// As the kernel counts threads.
    thread_id: u32,
}

impl IoThread {
    /// Starts a thread, and returns once it runs as the options say and has run their hook.
    ///
    /// # Errors
    /// An option that makes no sense or that the system does not grant, by its name; what the start hook
    /// says; or a system that is out of threads or descriptors. No thread is left then.
    pub fn start(options: IoOptions) -> Result<Self, Error> {
        options.validate()?;
        let poll = mio::Poll::new().map_err(Error::thread)?;
        let shared = Arc::new(IoShared::new(poll.registry()).map_err(Error::thread)?);
        let driver = Driver::new(
            poll,
            Arc::clone(&shared),
            options.read_buffer_bytes,
            options.spin,
        )
        .map_err(Error::thread)?;
        let (tell, told) = mpsc::sync_channel(1);
        let its_options = options.clone();
        std::thread::Builder::new()
            .name(options.name)
            .spawn(move || {
                let applied = its_options.apply();
                // The last of the hook goes with the caller's options, and so does a panic in there.
                drop(its_options);
                let go_on = applied.is_ok();
                let told = tell.send(applied.map(|()| sys::sched::gettid()));
                if go_on && told.is_ok() {
                    driver.run();
                }
            })
            .map_err(Error::thread)?;
        let thread_id = told.recv().expect("the thread tells how it started")?;
        Ok(Self { shared, thread_id })
    }

    /// How the thread runs at this moment, as the system tells it: its name, CPUs and scheduling.
    ///
    /// # Errors
    /// Where a sandbox forbids the question, or hides `/proc`.
    pub fn thread_state(&self) -> Result<ThreadState, Error> {
        // The thread lives as long as this value, so its number is nobody else's.
        thread::state_of(self.thread_id)
    }

    /// The one thread that everybody in the process may share, started at the first call.
    ///
    /// # Errors
    /// As [`start`](Self::start); the next call tries again.
    pub fn shared() -> Result<&'static Self, Error> {
        static SHARED: OnceLock<IoThread> = OnceLock::new();
        if let Some(io) = SHARED.get() {
            return Ok(io);
        }
        // Two first calls at once may start two threads; the one that loses ends by its drop.
        let started = Self::start(IoOptions::default())?;
        Ok(SHARED.get_or_init(|| started))
    }

    /// Begins a link to `address` and returns at once; `opened` or `ended` tells how it went.
    ///
    /// # Errors
    /// An option that makes no sense, by its name. That nobody listens there is told by `ended`.
    pub fn connect(
        &self,
        address: &Address,
        options: LinkOptions,
        handler: impl Handler,
    ) -> Result<Link, Error> {
        begin::connect(&self.shared, address, options, handler)
    }

    /// Listens on `address`. `accept` is called for each newcomer, on the I/O thread, and gives the
    /// handler of its link, or the reason why it is turned away.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; an address that is in use or not ours.
    pub fn listen<H: Handler>(
        &self,
        address: &Address,
        options: ServerOptions,
        accept: impl FnMut(&Link) -> Result<H, Refusal> + Send + 'static,
    ) -> Result<Server, Error> {
        begin::listen(&self.shared, address, options, accept)
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.shared.command(Command::Retire);
    }
}

impl fmt::Debug for IoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoThread").finish_non_exhaustive()
    }
}
