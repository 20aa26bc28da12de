//! A driver as other threads see it: a mailbox, a bell, and the pool of blocks; and which thread
//! is inside which driver's turn.

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
use super::{Newcomer, answering};
use crate::channel::Home;
use crate::error::Error;
use crate::sys;
use crate::transport::Target;

/// What may be asked of the driver.
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
    /// A datagram server is to speak first.
    Reach(u64, Box<Newcomer>),
    /// A server takes no newcomers any more.
    StopServer(u64),
    /// End with the last link.
    Retire,
}

/// What a driver, on an I/O thread or in an own loop, shares with everybody who talks to it.
pub(crate) struct IoShared {
    id: u64,
    /// The number of the thread that turns an own loop. 0 for an I/O thread, which is inside its
    /// driver for as long as it lives.
    turned_by: u64,
    mailbox: Mutex<Mailbox>,
    /// The bell was rung and not answered yet.
    called: AtomicBool,
    waker: mio::Waker,
    pool: BlockPool,
    next_id: AtomicU64,
}

#[derive(Default)]
struct Mailbox {
    commands: Vec<Command>,
    /// The driver is gone, and would never look here again.
    closed: bool,
}

thread_local! {
    /// The driver that this thread is inside of, or [`WAKING`]; 0 for none. Callbacks run nowhere else.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    /// What callbacks ask of their own driver, and so of nobody else: no lock, no bell.
    static OWN_COMMANDS: RefCell<Vec<Command>> = const { RefCell::new(Vec::new()) };
    /// This thread among those that ever had a loop of their own.
    static THREAD_NUMBER: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

static NEXT_IO: AtomicU64 = AtomicU64::new(1);

/// Inside no driver, but inside a waker, where an executor may run anything.
const WAKING: u64 = u64::MAX;

/// The token of the bell; links count from 1.
pub(crate) const BELL: mio::Token = mio::Token(0);

impl IoShared {
    /// For a driver with an I/O thread of its own.
    pub(crate) fn new(registry: &mio::Registry) -> io::Result<Self> {
        Ok(Self {
            id: NEXT_IO.fetch_add(1, Ordering::Relaxed),
            turned_by: 0,
            mailbox: Mutex::default(),
            called: AtomicBool::new(false),
            waker: mio::Waker::new(registry, BELL)?,
            pool: BlockPool::default(),
            next_id: AtomicU64::new(1),
        })
    }

    /// For a driver that the calling thread turns itself.
    pub(crate) fn turned_here(registry: &mio::Registry) -> io::Result<Self> {
        Ok(Self {
            turned_by: THREAD_NUMBER.with(|number| *number),
            ..Self::new(registry)?
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
        let mut mailbox = self.mailbox();
        if mailbox.closed {
            // Every link of it has ended. Dropped without the lock: it may hold a link.
            drop(mailbox);
            return drop(command);
        }
        mailbox.commands.push(command);
        drop(mailbox);
        if !self.called.swap(true, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Has the driver turn once more, and its descriptor be readable until then.
    pub(super) fn ring(&self) {
        // Fails only where the counter of the eventfd would overflow: then the bell rings anyway.
        let _ = self.waker.wake();
    }

    /// This thread is inside the driver until what is returned is dropped.
    pub(crate) fn enter(&self) -> Inside<'_> {
        Inside {
            io: self,
            before: CURRENT.replace(self.id),
            asked_before: OWN_COMMANDS.with_borrow_mut(|own| {
                // Empty it stays, and keeps its memory.
                let nested = !own.is_empty();
                if nested {
                    std::mem::take(own)
                } else {
                    Vec::new()
                }
            }),
        }
    }

    pub(crate) fn is_current(&self) -> bool {
        CURRENT.get() == self.id
    }

    /// Who the calling thread is to this driver. Between its turns the thread of an own loop must not
    /// wait for that loop: nobody else turns it.
    pub(crate) fn caller(&self) -> Caller {
        let current = CURRENT.get();
        if current == self.id {
            Caller::Driver
        } else if current != 0 || self.is_turned_here() {
            Caller::Callback
        } else {
            Caller::Thread
        }
    }

    fn is_turned_here(&self) -> bool {
        self.turned_by != 0 && self.turned_by == THREAD_NUMBER.with(|number| *number)
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
            empty.append(&mut self.mailbox().commands);
        }
    }

    /// The driver goes, unless somebody has just asked something of it.
    pub(super) fn close_mailbox(&self) -> bool {
        let mut mailbox = self.mailbox();
        mailbox.closed = mailbox.commands.is_empty();
        mailbox.closed
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread inside a driver: from here callbacks are called.
pub(crate) struct Inside<'a> {
    io: &'a IoShared,
    /// The driver in whose callback this one is turned or dropped; 0 nearly always.
    before: u64,
    asked_before: Vec<Command>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.before);
        let asked_before = std::mem::take(&mut self.asked_before);
        let left = OWN_COMMANDS.with_borrow_mut(|own| {
            if own.is_empty() && asked_before.is_empty() {
                // Its memory is used in the next turn.
                return Vec::new();
            }
            std::mem::replace(own, asked_before)
        });
        for command in left {
            // By way of the mailbox: until the next turn this thread may turn another loop.
            self.io.command(command);
        }
    }
}

/// Whether the calling thread is inside a callback, of whichever driver, or inside a waker.
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
        match self.io.caller() {
            Caller::Driver if answering::may_write(self.id) => Caller::Answering,
            caller => caller,
        }
    }

    fn wake(&self, task: Waker) {
        wake([task]);
    }

    fn call_driver(&self) {
        self.io.command(Command::Serve(self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Wake;

    use super::*;

    /// Notes whether it is woken as inside a callback, and then panics.
    #[derive(Default)]
    struct Rude(Mutex<Vec<bool>>);

    impl Wake for Rude {
        fn wake(self: Arc<Self>) {
            let woken = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
            woken().push(in_callback());
            panic!("as the test wants it");
        }
    }

    #[test]
    fn a_waker_runs_as_inside_a_callback_and_its_panic_stays_there() {
        let rude = Arc::new(Rude::default());
        assert!(!in_callback());
        wake([Arc::clone(&rude).into(), Arc::clone(&rude).into()]);
        assert!(!in_callback());
        assert_eq!(
            *rude.0.lock().unwrap_or_else(PoisonError::into_inner),
            [true, true]
        );
    }
}
