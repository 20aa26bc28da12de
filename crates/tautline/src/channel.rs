//! The path of a message from `send` to the system call.
//!
//! A [`Channel`] is what surrounds the sending half of a session: one mutex, the threads and tasks that
//! wait for room, and whoever has to be called to write. No lock is held across a system call or while
//! somebody is woken, and at most one thread writes: the session hands out the right to.

#[cfg(feature = "futures")]
mod tasks;

use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use tautline_session::{
    BLOCK_SLICES, Call, Caller, Control, DatagramsWritten, DirectWrite, Discard, Encoded, Framing,
    Header, Offer, Outbound, Payload, PeerId, Pressure, Refusal, Run, Settled, Stopped,
    Surroundings, Taken, Tally, Ticket, TicketState, Token,
};

use crate::error::{FlushError, SendError};
use crate::sync::{Condvar, Knocking, Mutex, MutexGuard, is_past, lock, wait_until};
use crate::transport::{is_shortage, is_transient};
use crate::wakers::Wakers;

#[cfg(feature = "futures")]
pub(crate) use tasks::Flushing;

/// Where bytes leave: a socket, or in the models something that remembers them. Never blocks.
pub(crate) trait Outlet {
    /// Whether each write is a message of its own.
    fn is_datagram(&self) -> bool;

    /// Writes some of the bytes of a stream, or one datagram whole.
    fn write(&self, header: &[u8], payload: &[u8], peer: PeerId) -> io::Result<usize>;

    /// Writes some of the bytes of a stream that lie in several places, [`BLOCK_SLICES`] at most.
    fn write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends datagrams, from the first on, as many as go into one call: one where nothing better is
    /// known, and the error is its own.
    fn write_runs(&self, runs: &[Run<'_>]) -> RunsWritten {
        write_first(self, runs)
    }
}

/// What became of runs of datagrams.
#[derive(Debug)]
pub(crate) struct RunsWritten {
    /// So many from the first on are gone.
    pub(crate) datagrams: usize,
    /// System calls that it took.
    pub(crate) calls: u64,
    /// Why the next one is not.
    pub(crate) error: Option<io::Error>,
}

/// The driver as a channel sees it.
pub(crate) trait Home: Surroundings {
    /// Who the calling thread is to this driver.
    fn caller(&self) -> Caller;

    /// Has the driver come to this link; never blocks.
    fn call_driver(&self);

    /// Wakes a task. While it does, this thread counts as inside a callback.
    fn wake(&self, task: Waker);
}

/// The sending half of a link with what surrounds it.
#[derive(Debug)]
pub(crate) struct Channel<O, H> {
    state: Mutex<State<O>>,
    /// Told when nothing waits any more, and when a connection ends.
    drained: Condvar,
    /// A task waits for a total shared with other links: the driver has to look again, by the clock.
    waits_for_total: AtomicBool,
    knocking: Knocking,
    home: H,
}

#[derive(Debug)]
struct State<O> {
    outbound: Outbound,
    /// Present while a connection is open. A writer clones it under the lock: so the descriptor is
    /// closed only when nobody is writing.
    outlet: Option<Arc<O>>,
    parked: Vec<Parked>,
    /// Tasks that wait for room.
    tasks: Wakers<Ticket>,
    /// Condition variables of earlier waits, so that a wait allocates nothing.
    spare: Vec<Arc<Condvar>>,
    /// Threads in `flush`.
    flushing: usize,
    /// Tasks in `flush`.
    flushing_tasks: Wakers<u64>,
    /// The driver waits for the writer to come back.
    ending: bool,
    /// Messages that joined others so far.
    joined: u8,
    /// Why a sender's own write failed: the kernel says it only once, and afterwards no more than that
    /// the pipe is broken.
    broken: Option<io::Error>,
}

#[derive(Debug)]
struct Parked {
    ticket: Ticket,
    condvar: Arc<Condvar>,
}

/// Where a flush stood when it began.
#[derive(Debug, Clone, Copy)]
struct FlushBegun {
    generation: u64,
    unwritten: Tally,
}

/// What a round of writing came to.
#[derive(Debug)]
pub(crate) enum Drained {
    /// Nothing is left, or another thread writes what is.
    Idle,
    /// The turn's share is written and more waits.
    More,
    /// The kernel has no room, and will tell when it has.
    Blocked,
    /// The kernel has no memory, and will not tell when it has: the socket may have room all the time.
    Short,
    /// The connection is broken; what was taken is back in the queue.
    Broken(io::Error),
}

impl<O: Outlet, H: Home> Channel<O, H> {
    pub(crate) fn new(outbound: Outbound, home: H) -> Self {
        Self {
            state: Mutex::new(State {
                outbound,
                outlet: None,
                parked: Vec::new(),
                tasks: Wakers::default(),
                spare: Vec::new(),
                flushing: 0,
                flushing_tasks: Wakers::default(),
                ending: false,
                joined: 0,
                broken: None,
            }),
            drained: Condvar::new(),
            waits_for_total: AtomicBool::new(false),
            knocking: Knocking::default(),
            home,
        }
    }

    pub(crate) const fn home(&self) -> &H {
        &self.home
    }

    /// Sends one message by the rules of the strategy; see [`Strategy`](crate::Strategy).
    pub(crate) fn send<'a>(
        &self,
        message: impl Into<Payload<'a>>,
        peer: PeerId,
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        let message = message.into();
        let mut state = self.knocking.lock(&self.state);
        if let Some(wake) = state.outbound.join(message) {
            state.joined = state.joined.wrapping_add(1);
            let gives_way = state.joined.is_multiple_of(JOINED_IN_A_ROW);
            drop(state);
            if wake {
                self.wake_driver(self.home.caller());
            } else if gives_way {
                self.knocking.give_way();
            }
            return Ok(());
        }
        self.send_as(state, Message::Payload(message), peer, call, deadline)
    }

    /// How messages are marked.
    pub(crate) fn framing(&self) -> Framing {
        lock(&self.state).outbound.framing().clone()
    }

    /// As [`send`](Self::send), of a message that this link's framing encoded before: one that goes to
    /// many links is encoded once.
    pub(crate) fn send_encoded(
        &self,
        message: &Encoded,
        peer: PeerId,
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        self.send_as(
            lock(&self.state),
            Message::Encoded(message),
            peer,
            call,
            deadline,
        )
    }

    fn send_as<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<O>>,
        message: Message<'_>,
        peer: PeerId,
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        let caller = self.home.caller();
        let mut offer = message.offer(&mut state.outbound, peer, call, caller, &self.home);
        let mut flushed = false;
        loop {
            match offer {
                Offer::WriteNow(token) => {
                    self.write_now(state, token, message.payload(), peer);
                    return Ok(());
                }
                Offer::WriteTaken(taken) => {
                    self.write_own(state, taken);
                    return Ok(());
                }
                Offer::Queued { wake } => {
                    self.queued(state, wake, caller);
                    return Ok(());
                }
                Offer::Wait(ticket) => {
                    state = self.wait_for_turn(state, ticket, deadline)?;
                    (state, offer) = self.redeem(state, ticket, message, peer, caller);
                }
                Offer::Refused(Refusal::WouldWait) if !flushed => {
                    // A callback may not wait, but it may make room by writing itself.
                    drop(state);
                    self.flush_from_callback();
                    flushed = true;
                    state = lock(&self.state);
                    offer = message.offer(&mut state.outbound, peer, call, caller, &self.home);
                }
                Offer::Refused(refusal) => {
                    // A wait in vain may have passed its place on.
                    self.publish(state);
                    return Err(refused(refusal));
                }
            }
        }
    }

    /// A message that waited has its turn. Encoding it may panic, if the framing is the user's own: that
    /// is its sender's affair, and the turn passes on.
    #[cold]
    fn redeem<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<O>>,
        ticket: Ticket,
        message: Message<'_>,
        peer: PeerId,
        caller: Caller,
    ) -> (MutexGuard<'a, State<O>>, Offer) {
        let redeem = || message.redeem(&mut state.outbound, ticket, peer, caller, &self.home);
        match catch_unwind(AssertUnwindSafe(redeem)) {
            Ok(offer) => (state, offer),
            Err(panic) => {
                state.outbound.cancel(ticket);
                self.publish(state);
                resume_unwind(panic)
            }
        }
    }

    /// Waits until everything accepted is written or discarded.
    pub(crate) fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        if self.home.caller() != Caller::Thread {
            return Err(FlushError::WouldDeadlock);
        }
        let deadline = Instant::now().checked_add(timeout);
        let mut state = lock(&self.state);
        if state.outlet.is_none() {
            return Err(FlushError::NotConnected);
        }
        let begun = state.flush_begins();
        state.flushing += 1;
        let mut in_time = true;
        let flushed = loop {
            if let Some(flushed) = state.flushed(begun) {
                break flushed;
            }
            if !in_time {
                break Err(FlushError::TimedOut);
            }
            state = wait_until(&self.drained, &self.state, state, deadline);
            in_time = !deadline.is_some_and(is_past);
        };
        state.flushing -= 1;
        flushed
    }

    /// Reads the session's state under the lock.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Outbound) -> T) -> T {
        read(&lock(&self.state).outbound)
    }

    /// A connection is there; returns its generation, or nothing if the link was closed meanwhile. With
    /// `hook` the application speaks first, until [`hook_done`](Self::hook_done).
    pub(crate) fn opened(&self, outlet: Arc<O>, hook: bool) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.outbound.is_ended() {
            return None;
        }
        state.outlet = Some(outlet);
        state.ending = false;
        state.broken = None;
        Some(if hook {
            state.outbound.opened_with_hook()
        } else {
            state.outbound.opened()
        })
    }

    /// `opened` has been told: what was kept for this connection may go now.
    pub(crate) fn hook_done(&self) {
        let wake = lock(&self.state).outbound.hook_done();
        if wake {
            self.home.call_driver();
        }
    }

    /// A peer of a shared queue is there.
    pub(crate) fn open_peer(&self) -> PeerId {
        lock(&self.state).outbound.open_peer()
    }

    /// A peer of a shared queue is gone; returns what was given up.
    pub(crate) fn close_peer(&self, peer: PeerId, cause: Discard) -> Tally {
        let mut state = lock(&self.state);
        let given_up = state.outbound.close_peer(peer, cause, &self.home);
        self.publish(state);
        given_up
    }

    /// The connection that is open.
    pub(crate) fn outlet(&self) -> Option<Arc<O>> {
        lock(&self.state).outlet.clone()
    }

    /// Accepts no more, for this reason; what waits is still written.
    pub(crate) fn closing(&self, cause: Discard) {
        let mut state = lock(&self.state);
        state.outbound.closing(cause);
        self.publish(state);
    }

    /// The connection is over. Returns what was given up; a writer that is still under way gives its
    /// part up when it settles, and the driver is called once it has.
    pub(crate) fn end(&self, cause: Discard) -> Tally {
        let mut state = lock(&self.state);
        let given_up = state.outbound.end(cause, &self.home);
        // Dropped without the lock: the last one closes a descriptor.
        let outlet = state.outlet.take();
        state.ending = true;
        self.publish(state);
        drop(outlet);
        given_up
    }

    /// How long ago the kernel last took something; for what was never sent to, since long before.
    pub(crate) fn written_ago(&self, peer: PeerId) -> Duration {
        let last_ns = self.read(|outbound| outbound.last_written_ns(peer));
        Duration::from_nanos(self.home.now_ns().saturating_sub(last_ns))
    }

    /// Queues a frame of the driver's own, who writes it next; whether it is in.
    pub(crate) fn offer_control(&self, control: Control) -> bool {
        lock(&self.state)
            .outbound
            .offer_control(control, &self.home)
    }

    /// Gives up what has waited too long; returns how long until the next would have.
    pub(crate) fn give_up_too_old(&self) -> Option<Duration> {
        let mut state = lock(&self.state);
        let next = state.outbound.give_up_too_old(&self.home);
        self.publish(state);
        next
    }

    /// No connection will follow: what was kept for one is given up. Returns how much.
    pub(crate) fn give_up(&self, cause: Discard) -> Tally {
        lock(&self.state).outbound.give_up(cause, &self.home)
    }

    pub(crate) fn poll_pressure(&self) -> Option<Pressure> {
        lock(&self.state).outbound.poll_pressure()
    }

    /// Writes up to `blocks` blocks of what waits: the driver's share of a turn.
    pub(crate) fn drain(&self, caller: Caller, blocks: usize) -> Drained {
        let mut untold_messages = 0;
        for block in 0..blocks {
            let mut state = lock(&self.state);
            let taken = match (caller, block) {
                (Caller::Driver, 0) => state.outbound.take(caller, &self.home),
                // Calls since then are still on their way.
                _ => state.outbound.take_more(caller, &self.home),
            };
            let Some(taken) = taken else {
                // All that waited may have been too old, and somebody may wait for that room.
                self.publish(state);
                return Drained::Idle;
            };
            let outlet = state.outlet.clone();
            drop(state);
            // `take` gives nothing while no connection is open, and both are set under one lock.
            let outlet = outlet.expect("a connection is open");
            untold_messages += taken.messages();
            let tells = untold_messages >= MESSAGES_A_WAKE
                || (block + 1) % BLOCKS_A_WAKE == 0
                || block + 1 == blocks;
            if tells {
                untold_messages = 0;
            }
            let (settled, trouble) = self.write_taken(outlet, taken, Writer::Drain { tells });
            match trouble {
                Some(Trouble::Broken(error)) => {
                    let first = lock(&self.state).broken.take();
                    return Drained::Broken(first.unwrap_or(error));
                }
                Some(Trouble::Short) => return Drained::Short,
                None => {}
            }
            if settled.blocked {
                return Drained::Blocked;
            }
            if !settled.more {
                return Drained::Idle;
            }
        }
        Drained::More
    }

    /// The sender's own write: nothing was waiting.
    fn write_now(
        &self,
        state: MutexGuard<'_, State<O>>,
        token: Token,
        message: Payload<'_>,
        peer: PeerId,
    ) {
        let outlet = state.outlet.clone();
        drop(state);
        let outlet = outlet.expect("a connection is open");
        let (written, trouble) = write_one(&*outlet, token.header(), &message, peer);
        // Before the session hears that nobody writes: the driver then counts on a closed descriptor.
        drop(outlet);
        let mut state = lock(&self.state);
        match trouble {
            Some(Trouble::Broken(error)) => state.broken = Some(error),
            Some(Trouble::Short) => state.outbound.note_shortage(),
            None => {}
        }
        let mut wake = state
            .outbound
            .settle_direct(token, message, peer, written, &self.home);
        wake |= state.ending;
        self.publish(state);
        if wake {
            self.home.call_driver();
        }
    }

    /// A message is accepted and waits for the driver.
    fn queued(&self, state: MutexGuard<'_, State<O>>, wake: bool, caller: Caller) {
        // After a wait it is the next one's turn.
        self.publish(state);
        if wake {
            self.wake_driver(caller);
        }
    }

    fn wake_driver(&self, caller: Caller) {
        self.home.call_driver();
        if caller == Caller::Thread {
            let now_ns = self.home.now_ns();
            lock(&self.state).outbound.woke_driver(now_ns);
        }
    }

    /// The sender's own write of a message that was encoded: as the driver writes.
    fn write_own(&self, state: MutexGuard<'_, State<O>>, taken: Taken) {
        let outlet = state.outlet.clone();
        drop(state);
        let outlet = outlet.expect("a connection is open");
        self.write_taken(outlet, taken, Writer::Sender);
    }

    fn write_taken(
        &self,
        outlet: Arc<O>,
        taken: Taken,
        writer: Writer,
    ) -> (Settled, Option<Trouble>) {
        if outlet.is_datagram() {
            let (written, trouble) = write_datagrams(&*outlet, &taken);
            drop(outlet);
            let settle = |state: &mut State<O>| {
                if matches!(trouble, Some(Trouble::Short)) {
                    state.outbound.note_shortage();
                }
                state.outbound.settle_datagrams(taken, written, &self.home)
            };
            return (self.settle(writer, settle), trouble);
        }
        let (written_bytes, mut trouble) = write_stream(&*outlet, &taken);
        drop(outlet);
        let settle = |state: &mut State<O>| {
            if matches!(trouble, Some(Trouble::Short)) {
                state.outbound.note_shortage();
            }
            if writer == Writer::Sender
                && let Some(Trouble::Broken(error)) =
                    trouble.take_if(|trouble| matches!(trouble, Trouble::Broken(_)))
            {
                state.broken = Some(error);
            }
            state
                .outbound
                .settle_stream(taken, written_bytes, &self.home)
        };
        (self.settle(writer, settle), trouble)
    }

    fn settle(&self, writer: Writer, settle: impl FnOnce(&mut State<O>) -> Settled) -> Settled {
        let mut state = lock(&self.state);
        let settled = settle(&mut state);
        let mut wake = state.ending;
        let tells = match writer {
            // A rest, and pressure, are the driver's from here on.
            Writer::Sender => {
                wake |= state.outbound.needs_driver();
                true
            }
            Writer::Drain { tells } => tells || settled.blocked || !settled.more,
        };
        if tells {
            self.publish(state);
        } else {
            self.unlock(state);
        }
        if wake {
            self.home.call_driver();
        }
        settled
    }

    /// One flush by a thread inside a callback, on whichever I/O thread.
    #[cold]
    fn flush_from_callback(&self) {
        // On the driver's own thread too it is a guest's write: the driver has not come yet. When it
        // does, it asks the kernel for writability, or meets the error that broke the connection.
        let _ = self.drain(Caller::Callback, 1);
        if lock(&self.state).outbound.needs_driver() {
            self.home.call_driver();
        }
    }

    /// Waits for the ticket's turn; comes back with the lock when there is something to redeem.
    #[cold]
    fn wait_for_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<O>>,
        ticket: Ticket,
        deadline: Option<Instant>,
    ) -> Result<MutexGuard<'a, State<O>>, SendError> {
        let condvar = state
            .spare
            .pop()
            .unwrap_or_else(|| Arc::new(Condvar::new()));
        state.parked.push(Parked {
            ticket,
            condvar: Arc::clone(&condvar),
        });
        let mut in_time = true;
        while in_time && state.outbound.ticket(ticket) == TicketState::Waiting {
            // A total shared with other links may have room again without a word to this one.
            let poll_total = Instant::now().checked_add(SHARED_TOTAL_POLL);
            let until = match (state.outbound.shares_total(), deadline, poll_total) {
                (true, Some(deadline), Some(poll)) => Some(deadline.min(poll)),
                (true, None, poll) => poll,
                (_, deadline, _) => deadline,
            };
            state = wait_until(&condvar, &self.state, state, until);
            state.outbound.grant();
            in_time = !deadline.is_some_and(is_past);
        }
        state.parked.retain(|parked| parked.ticket != ticket);
        state.spare.push(condvar);
        if state.outbound.ticket(ticket) == TicketState::Waiting {
            state.outbound.cancel(ticket);
            self.publish(state);
            return Err(SendError::TimedOut);
        }
        Ok(state)
    }

    /// Tells whoever waits what a change of state means for them.
    fn publish<'a>(&'a self, mut state: MutexGuard<'a, State<O>>) {
        if state.flushing > 0 && state.flush_is_over() {
            self.drained.notify_all();
        }
        if !state.flushing_tasks.is_empty() && state.flush_is_over() {
            let tasks = state.flushing_tasks.take_all();
            drop(state);
            tasks.for_each(|task| self.home.wake(task));
            state = lock(&self.state);
        }
        while let Some(ticket) = state.outbound.poll_ticket() {
            let parked = state.parked.iter().find(|parked| parked.ticket == ticket);
            if let Some(parked) = parked {
                let condvar = Arc::clone(&parked.condvar);
                // Told without the lock: waking costs a system call, and `try_send` would meet it.
                drop(state);
                condvar.notify_one();
                state = lock(&self.state);
            } else if let Some(task) = state.tasks.take(&ticket) {
                drop(state);
                self.home.wake(task);
                state = lock(&self.state);
            }
        }
        self.unlock(state);
    }

    /// Lets go of the state. Threads look by themselves whether a shared total has room again; for tasks
    /// the driver does.
    fn unlock(&self, state: MutexGuard<'_, State<O>>) {
        let waits = !state.tasks.is_empty() && state.outbound.waits_for_total();
        drop(state);
        if waits && !self.waits_for_total.swap(true, Ordering::Relaxed) {
            self.home.call_driver();
        }
    }

    /// Whether the driver has to [`look_again`](Self::look_again) after [`SHARED_TOTAL_POLL`].
    pub(crate) fn waits_for_total(&self) -> bool {
        self.waits_for_total.load(Ordering::Relaxed)
    }

    /// Looks whether the total shared with other links has room for the tasks that wait.
    #[cold]
    pub(crate) fn look_again(&self) {
        self.waits_for_total.store(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        state.outbound.grant();
        self.publish(state);
    }
}

impl<O> State<O> {
    fn flush_begins(&self) -> FlushBegun {
        FlushBegun {
            generation: self.outbound.generation(),
            unwritten: self.unwritten(),
        }
    }

    /// What no connection so far has written: given up with it, or kept for the next.
    fn unwritten(&self) -> Tally {
        self.outbound.discarded().lost() + self.outbound.carried()
    }

    /// Whether whoever flushes has to look.
    fn flush_is_over(&self) -> bool {
        self.outbound.is_drained() || self.outlet.is_none()
    }

    /// What a flush came to, once it is over.
    fn flushed(&self, begun: FlushBegun) -> Option<Result<(), FlushError>> {
        if self.outlet.is_none() || self.outbound.generation() != begun.generation {
            // It may have been written whole before the end, and whoever flushes is late.
            let whole = !self.outbound.is_writing() && self.unwritten() == begun.unwritten;
            return Some(if whole {
                Ok(())
            } else {
                Err(FlushError::NotConnected)
            });
        }
        self.outbound.is_drained().then_some(Ok(()))
    }
}

/// Who writes a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// A sender, its own message.
    Sender,
    /// Whoever drains the queue, and looks after what is left. It tells those that wait for room now, or
    /// when it has written more.
    Drain { tells: bool },
}

/// What is sent: encoded on its way in, or before.
#[derive(Debug, Clone, Copy)]
enum Message<'a> {
    Payload(Payload<'a>),
    Encoded(&'a Encoded),
}

impl<'a> Message<'a> {
    #[inline]
    fn offer(
        self,
        outbound: &mut Outbound,
        peer: PeerId,
        call: Call,
        caller: Caller,
        home: &impl Home,
    ) -> Offer {
        match self {
            Self::Payload(payload) => outbound.offer(payload, peer, call, caller, home),
            Self::Encoded(encoded) => outbound.offer_encoded(encoded, peer, call, caller, home),
        }
    }

    fn redeem(
        self,
        outbound: &mut Outbound,
        ticket: Ticket,
        peer: PeerId,
        caller: Caller,
        home: &impl Home,
    ) -> Offer {
        match self {
            Self::Payload(payload) => outbound.redeem(ticket, payload, peer, caller, home),
            Self::Encoded(encoded) => outbound.redeem_encoded(ticket, encoded, peer, caller, home),
        }
    }

    /// What its sender writes behind a header.
    fn payload(self) -> Payload<'a> {
        match self {
            Self::Payload(payload) => payload,
            Self::Encoded(_) => unreachable!("what is encoded is written from a block"),
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

/// Messages that join others before their senders look whether somebody waits for the lock: half a
/// microsecond's worth. At each one, two threads that send at once would only hand the lock to and fro.
const JOINED_IN_A_ROW: u8 = 8;
/// So many messages are written before those who wait for room are told, or so many blocks, if more of them
/// wait. Woken after each block, a sender of large messages found room for one and waited again: that was
/// a fifth of what they cost over a Unix socket on one core. Of small ones a block holds enough, and is
/// written while it is hot in the cache.
const MESSAGES_A_WAKE: u64 = 16;
const BLOCKS_A_WAKE: usize = 4;
/// How often a wait looks whether a total shared with other links has room.
pub(crate) const SHARED_TOTAL_POLL: Duration = Duration::from_millis(10);

/// What is wrong where a write did not go as far as it could.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The kernel has no memory: see [`Drained::Short`].
    Short,
    /// The connection is broken.
    Broken(io::Error),
}

/// One message, and what is wrong if it did not go: of a broken connection the driver meets the end
/// when it writes on.
pub(crate) fn write_one(
    outlet: &impl Outlet,
    header: &Header,
    message: &[u8],
    peer: PeerId,
) -> (DirectWrite, Option<Trouble>) {
    let encoded_bytes = header.len() + message.len();
    if encoded_bytes == 0 && !outlet.is_datagram() {
        return (DirectWrite::Whole, None);
    }
    match outlet.write(header, message, peer) {
        Ok(written_bytes) if written_bytes == encoded_bytes => (DirectWrite::Whole, None),
        Ok(written_bytes) => (DirectWrite::Part(written_bytes), None),
        Err(error) if is_shortage(&error) => (DirectWrite::Part(0), Some(Trouble::Short)),
        Err(error) if is_transient(&error) => (DirectWrite::Part(0), None),
        Err(_) if outlet.is_datagram() => (DirectWrite::Failed, None),
        Err(error) => (DirectWrite::Part(0), Some(Trouble::Broken(error))),
    }
}

pub(crate) fn write_stream(outlet: &impl Outlet, taken: &Taken) -> (usize, Option<Trouble>) {
    let mut slices = [IoSlice::new(&[]); BLOCK_SLICES];
    let mut count = 0;
    for slice in taken.slices() {
        slices[count] = IoSlice::new(slice);
        count += 1;
    }
    let written = match &slices[..count] {
        [] => return (0, None),
        [one] => outlet.write(&[], one, PeerId::SOLE),
        several => outlet.write_slices(several),
    };
    match written {
        Ok(written_bytes) => (written_bytes, None),
        Err(error) if is_shortage(&error) => (0, Some(Trouble::Short)),
        Err(error) if is_transient(&error) => (0, None),
        Err(error) => (0, Some(Trouble::Broken(error))),
    }
}

/// The first datagram of all, in a call of its own.
pub(crate) fn write_first(outlet: &(impl Outlet + ?Sized), runs: &[Run<'_>]) -> RunsWritten {
    let first = runs
        .first()
        .and_then(|run| Some((run.peer, run.each().next()?)));
    let (peer, payload) = first.expect("somebody has something to send");
    let written = outlet.write(&[], payload, peer);
    RunsWritten {
        datagrams: usize::from(written.is_ok()),
        calls: 1,
        error: written.err(),
    }
}

/// What became of them, and what is wrong if not all are sent.
pub(crate) fn write_datagrams(
    outlet: &impl Outlet,
    taken: &Taken,
) -> (DatagramsWritten, Option<Trouble>) {
    let mut written = DatagramsWritten {
        sent: 0,
        stopped: Stopped::AtEnd,
        calls: 0,
    };
    let mut rest = taken.runs();
    loop {
        let mut runs = [Run::NONE; RUNS_A_CALL];
        let mut count = 0;
        for (place, run) in runs.iter_mut().zip(rest.clone()) {
            *place = run;
            count += 1;
        }
        if count == 0 {
            return (written, None);
        }
        let sent = outlet.write_runs(&runs[..count]);
        debug_assert!(sent.datagrams > 0 || sent.error.is_some());
        rest.pass(sent.datagrams);
        written.sent += sent.datagrams;
        written.calls += sent.calls;
        let Some(error) = sent.error else {
            continue;
        };
        if is_transient(&error) {
            written.stopped = Stopped::WouldBlock;
            return (written, is_shortage(&error).then_some(Trouble::Short));
        }
        written.stopped = Stopped::Failed;
        return (written, None);
    }
}

/// Runs that an outlet is given at a time: a block of 64-byte datagrams has 16.
const RUNS_A_CALL: usize = 16;

pub(crate) const fn refused(refusal: Refusal) -> SendError {
    match refusal {
        Refusal::Full => SendError::Full,
        Refusal::WouldWait => SendError::WouldDeadlock,
        Refusal::TooLarge { limit_bytes } => SendError::TooLarge { limit: limit_bytes },
        Refusal::Unframeable => SendError::Unframeable,
        Refusal::NotConnected => SendError::NotConnected,
        Refusal::Closed => SendError::Closed,
    }
}
