//! The I/O thread as other threads see it: a mailbox, a bell, and the pool of blocks.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use tautline_session::{Block, Caller, Surroundings};

use super::audience::contain;
use super::datagram::DatagramDriver;
use super::link::LinkStart;
use super::listener::ListenerDriver;
use super::pool::BlockPool;
use crate::channel::Home;
use crate::error::Error;
use crate::sys;
use crate::transport::Target;

/// What may be asked of the I/O thread.
pub(crate) enum Command {
    /// Connect a new link.
    Connect(Box<LinkStart>),
    /// Accept on a socket that listens already.
    Listen(Box<ListenerDriver>),
    /// The addresses behind a name.
    Resolved(u64, Result<Vec<Target>, Error>),
    /// Write what waits and tell pressure.
    Serve(u64),
    /// End our side once everything is written.
    Finish(u64),
    /// Write what waits, end our side, read to the peer's end; at the deadline end anyway.
    Close { id: u64, deadline: Option<Instant> },
    /// End at once.
    Abort(u64),
    /// The last handle is gone.
    Dropped(u64),
    /// Reading was paused and goes on.
    Resume(u64),
    /// Receive on a datagram server's socket.
    Receive(Box<DatagramDriver>),
    /// A server takes no newcomers any more.
    StopServer(u64),
    /// End with the last link.
    Retire,
}

/// What the I/O thread shares with everybody who talks to it.
pub(crate) struct IoShared {
    id: u64,
    commands: Mutex<Vec<Command>>,
    /// The bell was rung and not answered yet.
    called: AtomicBool,
    waker: mio::Waker,
    pool: BlockPool,
    next_id: AtomicU64,
}

thread_local! {
    /// The I/O thread that this thread is, or [`WAKING`]; 0 for none. Callbacks run nowhere else.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    /// What callbacks ask of their own I/O thread, and so of nobody else: no lock, no bell.
    static OWN_COMMANDS: RefCell<Vec<Command>> = const { RefCell::new(Vec::new()) };
}

static NEXT_IO: AtomicU64 = AtomicU64::new(1);

/// No I/O thread, but inside a waker, where an executor may run anything.
const WAKING: u64 = u64::MAX;

/// The token of the bell; links count from 1.
pub(crate) const BELL: mio::Token = mio::Token(0);

impl IoShared {
    pub(crate) fn new(registry: &mio::Registry) -> io::Result<Self> {
        Ok(Self {
            id: NEXT_IO.fetch_add(1, Ordering::Relaxed),
            commands: Mutex::default(),
            called: AtomicBool::new(false),
            waker: mio::Waker::new(registry, BELL)?,
            pool: BlockPool::default(),
            next_id: AtomicU64::new(1),
        })
    }

    /// An id for a new link or listener.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Leaves a command, and rings once until the thread answers. Never blocks.
    pub(crate) fn command(&self, command: Command) {
        if self.is_current() {
            // The thread looks here before it sleeps.
            return OWN_COMMANDS.with_borrow_mut(|own| own.push(command));
        }
        self.mailbox().push(command);
        if !self.called.swap(true, Ordering::AcqRel) {
            // Fails only where the counter of the eventfd would overflow: then the bell rings anyway.
            let _ = self.waker.wake();
        }
    }

    pub(crate) fn become_current(&self) {
        CURRENT.set(self.id);
    }

    pub(crate) fn is_current(&self) -> bool {
        CURRENT.get() == self.id
    }

    /// Whether there is something to obey.
    pub(super) fn has_commands(&self) -> bool {
        self.called.load(Ordering::Relaxed) || OWN_COMMANDS.with_borrow(|own| !own.is_empty())
    }

    /// Takes what is to be obeyed into `empty`; its memory is used in turn.
    pub(super) fn take_commands(&self, empty: &mut Vec<Command>) {
        debug_assert!(empty.is_empty());
        OWN_COMMANDS.with_borrow_mut(|own| std::mem::swap(own, empty));
        // Answered before the mailbox is emptied: whoever comes after that rings again.
        if self.called.load(Ordering::Relaxed) && self.called.swap(false, Ordering::AcqRel) {
            empty.append(&mut self.mailbox());
        }
    }

    fn mailbox(&self) -> MutexGuard<'_, Vec<Command>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the calling thread is any I/O thread, so inside a callback, or inside a waker.
pub(crate) fn in_callback() -> bool {
    CURRENT.get() != 0
}

/// Wakes tasks; call it without a lock held.
///
/// Some executors run a task right there, in the middle of whatever the calling thread was doing: so it
/// counts as inside a callback meanwhile, and what panics in there is the executor's own affair.
pub(crate) fn wake(tasks: impl IntoIterator<Item = Waker>) {
    for task in tasks {
        let before = CURRENT.get();
        if before == 0 {
            CURRENT.set(WAKING);
        }
        let _ = contain(|| task.wake());
        CURRENT.set(before);
    }
}

/// The driver as one link's channel sees it.
pub(crate) struct IoHome {
    pub(crate) io: Arc<IoShared>,
    pub(crate) id: u64,
}

impl Surroundings for IoHome {
    fn now_ns(&self) -> u64 {
        sys::clock::monotonic_ns()
    }

    fn block(&self) -> Block {
        self.io.pool.take()
    }

    fn recycle(&self, block: Block) {
        self.io.pool.give_back(block);
    }
}

impl Home for IoHome {
    fn caller(&self) -> Caller {
        if self.io.is_current() {
            Caller::Driver
        } else if in_callback() {
            Caller::Callback
        } else {
            Caller::Thread
        }
    }

    fn wake(&self, task: Waker) {
        wake([task]);
    }

    fn call_driver(&self) {
        self.io.command(Command::Serve(self.id));
    }
}
