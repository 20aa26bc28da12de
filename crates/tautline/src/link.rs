//! The handle to one link: what an application holds and sends through.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tautline_session::{Call, Caller, Discard, Outbound, Payload, PeerId, Tally};
#[cfg(feature = "futures")]
use {
    std::task::{Poll, Waker},
    tautline_session::Ticket,
};

use crate::address::Address;
use crate::channel::{Channel, Home};
use crate::driver::{Command, IoHome, IoShared};
use crate::error::{Error, ErrorKind, FlushError, SendError};
use crate::handler::{Credentials, Reason, Unsent};
use crate::life::{Life, LinkState, Moment};
use crate::outlet::Outlet;
use crate::secured::{Secured, TlsCounters};
use crate::statistics::{LinkStatistics, ReceiveCounters, SocketBuffers};
use crate::transport::Ends;
#[cfg(feature = "futures")]
use crate::wakers::Watch;

/// One link to one peer; clones are handles to the same link, from any thread.
///
/// A link made by [`IoThread::connect`](crate::IoThread::connect) is aborted, after one non-blocking
/// flush, when its last handle is dropped; one that a callback has closed takes the time it was
/// given. A peer of a [`Server`](crate::Server) belongs to the
/// server: dropping its handles does nothing.
pub struct Link {
    shared: Arc<LinkShared>,
    /// Whether this handle keeps the link alive: not the driver's own, and not a server's peer.
    counted: bool,
}

/// What all handles of one link and its driver share.
pub(crate) struct LinkShared {
    pub(crate) id: u64,
    pub(crate) address: Address,
    pub(crate) io: Arc<IoShared>,
    pub(crate) channel: Arc<Channel<Outlet, IoHome>>,
    /// Which peer of the channel; the sole one but for a datagram server's.
    pub(crate) peer: PeerId,
    /// Whether the channel is a datagram server's, shared by its peers.
    shared_queue: bool,
    pub(crate) counters: ReceiveCounters,
    /// Of a link over TLS, from its first handshake.
    tls: OnceLock<Arc<TlsCounters>>,
    /// Who wants no messages now: [`APPLICATION`], [`INBOX`].
    paused: AtomicU8,
    /// Nothing more is delivered: `abort` was called.
    aborted: AtomicBool,
    /// A peer of a shared queue accepts: it has opened.
    opened: AtomicBool,
    /// A peer of a shared queue accepts no more.
    closing: AtomicBool,
    handles: AtomicUsize,
    life: Life,
}

impl Link {
    /// Sends one message.
    ///
    /// `Ok` means accepted: the message is written now or waits in the queue, in order. What was
    /// accepted and is lost with its connection is counted, and told by `closed`. When the queue is
    /// full the [`Strategy`](crate::Strategy) decides: reliable waits here for its turn, besteffort
    /// says `Full`, keeplatest evicts the oldest waiting message. Inside a callback nothing waits.
    ///
    /// # Errors
    /// [`SendError`] says what became of it; the message was not accepted.
    pub fn send(&self, message: &[u8]) -> Result<(), SendError> {
        self.shared.send(message, Call::Send, None)
    }

    /// Sends one message without ever waiting.
    ///
    /// As [`send`](Self::send), but where that would wait this says `Full`.
    ///
    /// # Errors
    /// [`SendError`] says what became of it; the message was not accepted.
    pub fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        self.shared.try_send(message)
    }

    /// Sends one message, waiting at most this long for room: reliable and besteffort both wait,
    /// keeplatest evicts.
    ///
    /// # Errors
    /// [`SendError::TimedOut`] when no room came in time; otherwise as [`send`](Self::send).
    pub fn send_timeout(&self, message: &[u8], timeout: Duration) -> Result<(), SendError> {
        // A time beyond the clock's range is no deadline.
        let deadline = Instant::now().checked_add(timeout);
        self.shared.send(message, Call::Within, deadline)
    }

    /// Sends one message as [`send`](Self::send) does, and keeps a large one without copying it.
    ///
    /// From 16 KiB on the queue shares the buffer until the message is written or discarded; smaller ones are
    /// copied, which costs less. A framing that does more than put a header before a message copies all, and
    /// so does TLS. To send one buffer over many links, clone it: no link copies it.
    ///
    /// What a buffer made by [`Bytes::from_owner`] does when it is dropped may run on any thread and while
    /// the link is locked: it must not use the link.
    ///
    /// # Errors
    /// As [`send`](Self::send); the buffer is given up all the same. Whoever tries again sends a clone.
    pub fn send_bytes(&self, message: Bytes) -> Result<(), SendError> {
        self.shared.send(&message, Call::Send, None)
    }

    /// Sends one message as [`try_send`](Self::try_send) does, and keeps a large one without copying it; see
    /// [`send_bytes`](Self::send_bytes).
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send).
    pub fn try_send_bytes(&self, message: Bytes) -> Result<(), SendError> {
        self.shared.send(&message, Call::Try, None)
    }

    /// Sends one message as [`send_timeout`](Self::send_timeout) does, and keeps a large one without copying
    /// it; see [`send_bytes`](Self::send_bytes).
    ///
    /// # Errors
    /// As [`send_timeout`](Self::send_timeout).
    pub fn send_bytes_timeout(&self, message: Bytes, timeout: Duration) -> Result<(), SendError> {
        let deadline = Instant::now().checked_add(timeout);
        self.shared.send(&message, Call::Within, deadline)
    }

    /// Waits until everything accepted is written, or given up with its connection.
    ///
    /// # Errors
    /// [`FlushError`]: not in time, not connected, or called inside a callback.
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        self.shared.channel.flush(timeout)
    }

    /// Ends our side of the stream once what waits is written; the peer's side goes on until it ends.
    /// Sends say `Closed` from now on. A datagram link has no sides: there it is a `close`.
    ///
    /// The link goes on, and needs a handle as before: to drop the last one is an abort all the same. In a
    /// callback that holds the last one take [`close`](Self::close).
    pub fn finish(&self) {
        self.shared.stop_accepting();
        self.shared.command(Command::Finish(self.shared.id));
    }

    /// Stops accepting, writes what waits, ends our side, and reads to the peer's end or the deadline.
    ///
    /// Outside callbacks it returns when the link has ended: no callback runs then or will. Inside a
    /// callback it only starts, returns nothing unsent, and `closed` carries what was not sent.
    pub fn close(&self, timeout: Duration) -> Unsent {
        self.shared.stop_accepting();
        self.shared.command(Command::Close {
            id: self.shared.id,
            deadline: Instant::now().checked_add(timeout),
        });
        self.shared.wait_ended()
    }

    /// Ends the link at once; what waits is discarded and counted.
    ///
    /// Outside callbacks it returns when the link has ended: no callback runs then or will. Inside a
    /// callback it only starts.
    pub fn abort(&self) {
        self.shared.begin_abort();
        self.shared.wait_ended();
    }

    /// Delivers no more messages until [`resume_reading`](Self::resume_reading): the kernel's buffer
    /// fills, and a stream's peer has to wait. A call that is under way is the last. Nothing is lost,
    /// and the link is not closed for it; but the peer's end is not told meanwhile either, not even
    /// where a send finds it out.
    pub fn pause_reading(&self) {
        self.shared.pause(APPLICATION);
    }

    /// Delivers again what came meanwhile.
    pub fn resume_reading(&self) {
        if self.shared.unpause(APPLICATION) {
            self.shared.resume();
        }
    }

    /// Waits until the link is open and its handler's `opened` has returned, through all attempts of one
    /// that reconnects. A connection that sends have found broken counts no more, even where a pause of
    /// reading keeps its end from being told.
    ///
    /// # Errors
    /// Why it could not be opened; that it ended; or that the time went by, after which it may still
    /// open: then with what the last attempt failed of. Inside a callback it answers at once.
    pub fn wait_open(&self, timeout: Duration) -> Result<(), Error> {
        let shared = &*self.shared;
        let may_wait = shared.channel.home().caller() == Caller::Thread;
        let deadline = if may_wait {
            Instant::now().checked_add(timeout)
        } else {
            Some(Instant::now())
        };
        let opened = shared
            .life
            .wait(deadline, |now| shared.has_opened(now, may_wait));
        opened.unwrap_or_else(|now| {
            let error = Error::timed_out("connect to", &shared.address, timeout);
            Err(match &now.failure {
                None => error,
                Some(last) => {
                    let why = format!("{}; the last failure: {last}", error.reason());
                    error.with_reason(&shared.address, why)
                }
            })
        })
    }

    /// Where the link is in its life.
    pub fn state(&self) -> LinkState {
        self.shared.life.now().state.clone()
    }

    /// Whether a connection is open now.
    pub fn is_open(&self) -> bool {
        self.shared.life.now().is_open()
    }

    /// Whether the link has ended: no callback runs or will run.
    pub fn is_ended(&self) -> bool {
        self.shared.life.now().ended().is_some()
    }

    /// What the link has counted so far.
    pub fn statistics(&self) -> LinkStatistics {
        self.shared.statistics()
    }

    /// Our own address, once open and where the socket has one.
    pub fn local_address(&self) -> Option<Address> {
        self.shared.life.now().local.clone()
    }

    /// The peer's address, once open and where it has one.
    pub fn peer_address(&self) -> Option<Address> {
        self.shared.life.now().peer.clone()
    }

    /// Who the peer is, once open and where the kernel vouches for it: on Unix sockets. In an accept
    /// callback too, which can so refuse by user.
    pub fn peer_credentials(&self) -> Option<Credentials> {
        self.shared.life.now().credentials
    }

    /// The socket's buffers as granted, while a connection is open. A peer of a UDP server shares the
    /// server's socket.
    pub fn socket_buffers(&self) -> Option<SocketBuffers> {
        self.shared.channel.outlet()?.socket().buffers()
    }

    /// What TLS has agreed on, and the peer's certificate, once open. `None` on all other transports.
    pub fn secured(&self) -> Option<Secured> {
        self.shared.life.now().secured.clone()
    }

    /// A handle that keeps the link alive.
    pub(crate) fn counted(shared: Arc<LinkShared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            shared,
            counted: true,
        }
    }

    /// A handle that does not: the driver's own, or a server's peer.
    pub(crate) const fn uncounted(shared: Arc<LinkShared>) -> Self {
        Self {
            shared,
            counted: false,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<LinkShared> {
        &self.shared
    }

    /// A handle to a server's peer that, from now on, ends with its last handle as a client's link does.
    #[cfg(feature = "futures")]
    pub(crate) fn adopt(&self) -> Self {
        self.shared.handles.store(0, Ordering::Relaxed);
        Self::counted(Arc::clone(&self.shared))
    }
}

impl Clone for Link {
    fn clone(&self) -> Self {
        // A clone of the driver's handle, made in a callback, is a user's: it counts, unless the link
        // belongs to a server and handles mean nothing.
        if self.shared.handles.load(Ordering::Relaxed) == UNCOUNTED {
            Self::uncounted(Arc::clone(&self.shared))
        } else {
            Self::counted(Arc::clone(&self.shared))
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.counted && self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.stop_accepting();
            self.shared.command(Command::Dropped(self.shared.id));
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("address", &self.shared.address)
            .field("open", &self.is_open())
            .finish_non_exhaustive()
    }
}

/// Reading is paused by `pause_reading`.
const APPLICATION: u8 = 1;
/// Reading is paused because an inbox is full.
#[cfg(feature = "futures")]
pub(crate) const INBOX: u8 = 2;

/// The number of handles of a link whose handles do not matter.
const UNCOUNTED: usize = usize::MAX / 2;

impl LinkShared {
    /// `owned` links end with their last handle; a server's peers do not.
    pub(crate) fn new(
        id: u64,
        address: Address,
        io: Arc<IoShared>,
        channel: Arc<Channel<Outlet, IoHome>>,
        owned: bool,
    ) -> Self {
        Self {
            id,
            peer: PeerId::SOLE,
            shared_queue: false,
            address,
            io,
            channel,
            counters: ReceiveCounters::default(),
            tls: OnceLock::new(),
            paused: AtomicU8::new(0),
            aborted: AtomicBool::new(false),
            opened: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            handles: AtomicUsize::new(if owned { 0 } else { UNCOUNTED }),
            life: Life::default(),
        }
    }

    /// A peer of a datagram server.
    pub(crate) fn peer_of_shared_queue(
        io: Arc<IoShared>,
        address: Address,
        channel: Arc<Channel<Outlet, IoHome>>,
        peer: PeerId,
    ) -> Self {
        Self {
            peer,
            shared_queue: true,
            ..Self::new(io.next_id(), address, io, channel, false)
        }
    }

    /// Sends one message without ever waiting.
    pub(crate) fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        self.send(message, Call::Try, None)
    }

    pub(crate) fn send<'a>(
        &self,
        message: impl Into<Payload<'a>>,
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        self.takes_messages()?;
        self.channel.send(message, self.peer, call, deadline)
    }

    /// Sends one message for a task, which keeps its place if it has to wait.
    #[cfg(feature = "futures")]
    pub(crate) fn poll_send(
        &self,
        message: Payload<'_>,
        place: &mut Option<Ticket>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError>> {
        match self.takes_messages() {
            // Whoever has a place is told by the channel what becomes of it.
            Err(error) if place.is_none() => Poll::Ready(Err(error)),
            _ => self.channel.poll_send(message, self.peer, place, waker),
        }
    }

    /// Ends it at once, and delivers nothing more.
    pub(crate) fn begin_abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
        self.stop_accepting();
        self.command(Command::Abort(self.id));
    }

    /// Whether a peer of a shared queue is open: streams know by their own queue.
    pub(crate) fn takes_messages(&self) -> Result<(), SendError> {
        if self.shared_queue {
            if self.closing.load(Ordering::Relaxed) {
                return Err(SendError::Closed);
            }
            if !self.opened.load(Ordering::Acquire) {
                return Err(SendError::NotConnected);
            }
        }
        Ok(())
    }

    /// Whether the application has aborted it.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Whether the driver may hand out the next message.
    pub(crate) fn delivers(&self) -> bool {
        self.paused.load(Ordering::Relaxed) == 0 && !self.is_aborted()
    }

    /// Delivers nothing more until this one resumes.
    pub(crate) fn pause(&self, who: u8) {
        self.paused.fetch_or(who, Ordering::SeqCst);
    }

    /// Takes a pause back. True when nobody else has paused, and the driver has to be told.
    pub(crate) fn unpause(&self, who: u8) -> bool {
        self.paused.fetch_and(!who, Ordering::SeqCst) == who
    }

    /// Has the driver deliver again.
    pub(crate) fn resume(&self) {
        self.command(Command::Resume(self.id));
    }

    pub(crate) fn statistics(&self) -> LinkStatistics {
        let sending = self.channel.read(|outbound| {
            if self.shared_queue {
                outbound.peer_statistics(self.peer)
            } else {
                outbound.statistics()
            }
        });
        LinkStatistics {
            sending,
            receiving: self.counters.snapshot(),
            connections: self.life.now().connections,
            heartbeat_rtt: self.counters.heartbeat_rtt(),
            tls: self.tls.get().map(|counters| counters.snapshot()),
        }
    }

    pub(crate) fn attempt_begins(&self) {
        self.life.now().connections.attempts += 1;
    }

    pub(crate) fn attempt_failed(&self) {
        self.life.now().connections.failed_attempts += 1;
    }

    pub(crate) fn set_addresses(&self, local: Option<Address>, peer: Option<Address>) {
        let mut now = self.life.now();
        (now.local, now.peer) = (local, peer);
    }

    pub(crate) fn set_ends(&self, ends: Ends) {
        let mut now = self.life.now();
        (now.local, now.peer) = (ends.local, ends.peer);
        (now.credentials, now.secured) = (ends.credentials, ends.secured);
    }

    /// What TLS counts on this link from now on; only the first such call has an effect.
    pub(crate) fn count_tls(&self, counters: Arc<TlsCounters>) {
        self.tls.get_or_init(|| counters);
    }

    /// What TLS counts on this link.
    pub(crate) fn tls_counters(&self) -> Arc<TlsCounters> {
        Arc::clone(self.tls.get_or_init(Arc::default))
    }

    /// The link is open, which its handler is told next.
    pub(crate) fn set_open(&self) {
        self.opened.store(true, Ordering::Release);
        let mut now = self.life.now();
        now.state = LinkState::Open;
        now.failure = None;
        now.connections.opened += 1;
    }

    /// `opened` has returned.
    pub(crate) fn set_opened_told(&self) {
        self.life.change(|now| now.opened_told = true);
    }

    pub(crate) fn set_closed(&self, unsent: Unsent) {
        self.life.change(|now| {
            now.state = LinkState::Closed;
            now.opened_told = false;
            now.unsent = unsent;
        });
    }

    /// What was kept in vain.
    pub(crate) fn add_unsent(&self, kept: Tally) {
        let mut now = self.life.now();
        now.unsent.queued += kept;
        now.kept += kept;
    }

    /// A pause begins, for this reason.
    pub(crate) fn set_retrying(&self, attempt: u32, failure: Reason) {
        self.life.change(|now| {
            now.state = LinkState::Retrying { attempt };
            // That was the last connection's, and `closed` told it.
            now.unsent = Unsent::default();
            now.failure = Some(failure);
        });
    }

    /// Why the last attempt or connection failed.
    pub(crate) fn last_failure(&self) -> Option<Reason> {
        self.life.now().failure.clone()
    }

    /// The last callback has returned.
    pub(crate) fn finish(&self, reason: Reason) {
        self.life
            .change(|now| now.state = LinkState::Ended { reason });
    }

    /// For those who wait for the link to open, `behind` what its handler's `opened` sends or not.
    pub(crate) fn has_opened(&self, now: &Moment, behind: bool) -> Option<Result<(), Error>> {
        match &now.state {
            LinkState::Open => {
                let lost = self.channel.read(Outbound::is_lost);
                ((now.opened_told || !behind) && !lost).then_some(Ok(()))
            }
            LinkState::Ended { reason } => Some(Err(self.ended_error(reason))),
            LinkState::Connecting | LinkState::Closed | LinkState::Retrying { .. } => None,
        }
    }

    pub(crate) fn unsent(&self) -> Unsent {
        self.life.now().unsent
    }

    pub(crate) fn wait_ended(&self) -> Unsent {
        if self.channel.home().caller() != Caller::Thread {
            return Unsent::default();
        }
        let unsent = self.life.wait(None, |now| now.ended().map(|_| now.unsent));
        unsent.unwrap_or_else(|now| now.unsent)
    }

    pub(crate) fn command(&self, command: Command) {
        self.io.command(command);
    }

    pub(crate) fn stop_accepting(&self) {
        // The queue of a datagram server is not one peer's to close.
        if self.shared_queue {
            self.closing.store(true, Ordering::Relaxed);
        } else {
            self.channel.closing(Discard::Closed);
        }
    }

    /// Waits until something is so in the link's life.
    #[cfg(feature = "futures")]
    pub(crate) fn watch<T, L: FnMut(&Moment) -> Option<T>>(&self, look: L) -> Watch<'_, Moment, L> {
        self.life.watch(look)
    }

    pub(crate) fn ended_error(&self, reason: &Reason) -> Error {
        match reason {
            Reason::NotConnected(error) | Reason::Lost(error) => error.clone(),
            _ => Error::because(ErrorKind::Closed, "open", &self.address, reason.to_string()),
        }
    }
}
