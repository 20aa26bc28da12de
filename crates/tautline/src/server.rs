//! The handle to a server, and what all its peers share.

mod broadcast;
mod statistics;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tautline_session::{Budget, Caller, Discard, OutboundOptions};

use crate::address::Address;
use crate::channel::Channel;
use crate::driver::{Command, IoHome, IoShared, Newcomer, wake};
use crate::error::{Error, ErrorKind};
use crate::handler::{Reason, Unsent};
use crate::link::{Link, LinkShared};
use crate::notice::Notice;
use crate::options::LinkOptions;
use crate::outlet::Outlet;
use crate::statistics::{LinkStatistics, SocketBuffers};
use crate::transport::{self, Listener};
use crate::wakers::Wakers;
#[cfg(feature = "futures")]
use crate::wakers::{Watch, Watched};

pub use broadcast::Broadcast;
pub use statistics::{HandshakeStatistics, ServerStatistics};

use broadcast::BroadcastCounters;

/// A listening server. It owns its peers: dropping it aborts them all.
pub struct Server {
    shared: Arc<ServerShared>,
    /// Whether its drop may wait for the I/O thread.
    drop_waits: bool,
}

/// What the server's handle, its listener and its peers share.
pub(crate) struct ServerShared {
    pub(crate) id: u64,
    pub(crate) address: Address,
    io: Arc<IoShared>,
    /// How a datagram server sends.
    sending: LinkOptions,
    /// What all queues together may hold.
    budget: Arc<Budget>,
    socket: ServerSocket,
    state: Mutex<State>,
    changed: Notice,
    live: AtomicUsize,
    turned_away: AtomicU64,
    accept_shortages: AtomicU64,
    accept_failures: AtomicU64,
    /// ICMP's word on a datagram server's socket, which does not say which peer it is about.
    unreachable: AtomicU64,
    groups_joined: AtomicUsize,
    groups_lost: AtomicU64,
    broadcasts: BroadcastCounters,
}

/// What the server's peers share of the kernel.
enum ServerSocket {
    /// Gone once the server is stopped, by whichever thread: the address is free at once.
    Stream(Mutex<Option<Listener>>),
    /// One queue for all peers; the driver closes the socket.
    Datagram(Arc<Channel<Outlet, IoHome>>),
}

#[derive(Default)]
struct State {
    /// Newcomers are closed unseen: whoever stopped the server counts on knowing all peers.
    stopped: bool,
    live: HashMap<u64, Arc<LinkShared>>,
    /// Peers that are counted as gone, and whose own end is just being told.
    ending: usize,
    /// `live` as a list, for broadcasts; `None` once it has changed.
    roster: Option<Arc<Vec<Arc<LinkShared>>>>,
    accepted: u64,
    handshakes: HandshakeStatistics,
    /// What peers counted that have ended.
    gone: LinkStatistics,
    unsent: Unsent,
    /// The driver has closed a datagram server's socket.
    closed: bool,
    /// Tasks that wait for the end.
    tasks: Wakers<u64>,
}

#[cfg(feature = "futures")]
impl Watched for State {
    fn tasks(&mut self) -> &mut Wakers<u64> {
        &mut self.tasks
    }
}

impl State {
    /// Whether no callback of a peer runs, and each peer says so itself.
    fn all_ended(&self) -> bool {
        self.live.is_empty() && self.ending == 0
    }
}

impl Server {
    pub(crate) const fn new(shared: Arc<ServerShared>) -> Self {
        Self {
            shared,
            drop_waits: true,
        }
    }

    /// The same, but its drop never waits.
    #[cfg(feature = "futures")]
    pub(crate) const fn without_waiting(mut self) -> Self {
        self.drop_waits = false;
        self
    }

    /// [`close`](Self::close) for a task.
    #[cfg(feature = "futures")]
    pub(crate) async fn close_async(&self, timeout: Duration) -> Unsent {
        let deadline = Instant::now().checked_add(timeout);
        self.shared.stop(|id| Command::Close { id, deadline });
        let has_socket = matches!(self.shared.socket, ServerSocket::Datagram(_));
        Watch::new(&self.shared.state, |state: &State| {
            let ended = state.all_ended() && (state.closed || !has_socket);
            ended.then_some(state.unsent)
        })
        .await
    }

    /// Where it listens: with the port that the kernel chose.
    pub fn local_address(&self) -> Address {
        self.shared.address.clone()
    }

    /// The peers connected now.
    pub fn peers(&self) -> Vec<Link> {
        let state = self.shared.state();
        state.live.values().cloned().map(Link::uncounted).collect()
    }

    /// Has a UDP server speak first: makes a peer of an address from which nothing has come. The accept
    /// callback is asked as for any other newcomer; the link takes messages when it has
    /// [opened](Link::wait_open).
    ///
    /// A multicast group or, with `link.broadcast`, a broadcast address is a peer that many hear: what
    /// they answer comes from their own addresses and makes peers of them. It never answers itself, so it
    /// does not expire and makes no room for others. [`broadcast`](Self::broadcast) includes it. Anybody
    /// else is a peer like those who came by themselves.
    ///
    /// May wait for the resolver where the address has a name.
    ///
    /// # Errors
    /// Not a UDP server, or not a UDP address of its family; no route; a broadcast address without
    /// `broadcast`; a server that was stopped. The link ends with
    /// [`Reason::Refused`](crate::Reason::Refused) where the address is a peer already, the table is full
    /// or the callback refuses.
    pub fn reach(&self, address: &Address) -> Result<Link, Error> {
        let shared = &self.shared;
        let ServerSocket::Datagram(channel) = &shared.socket else {
            let why = "the peers of this server come by themselves; only udp reaches them";
            let kind = ErrorKind::InvalidAddress;
            return Err(Error::because(kind, "reach", address, why));
        };
        let stopped = || Error::closed("reach", Some(address));
        let outlet = channel.outlet().ok_or_else(stopped)?;
        let (remote, whom) = transport::reach(address, outlet.socket(), &shared.sending)?;
        let local = remote.local_address(&shared.address);
        let newcomer = Newcomer::new(&shared.io, channel, remote, local, whom);
        let link = Link::uncounted(Arc::clone(newcomer.link()));
        shared
            .io
            .command(Command::Reach(shared.id, Box::new(newcomer)));
        Ok(link)
    }

    /// The buffers of its socket as granted; a stream's peers have begun with the same. `None` once it
    /// was stopped.
    pub fn socket_buffers(&self) -> Option<SocketBuffers> {
        match &self.shared.socket {
            ServerSocket::Stream(_) => self.shared.listener().as_ref()?.buffers(),
            ServerSocket::Datagram(channel) => channel.outlet()?.socket().buffers(),
        }
    }

    /// What it has counted so far; totals survive their peers.
    pub fn statistics(&self) -> ServerStatistics {
        self.shared.statistics()
    }

    /// Stops accepting and closes every peer as [`Link::close`] does; returns what was not sent.
    ///
    /// Outside callbacks it returns when all have ended: no callback runs then or will. Inside a
    /// callback it only starts.
    pub fn close(&self, timeout: Duration) -> Unsent {
        let deadline = Instant::now().checked_add(timeout);
        self.shared.stop(|id| Command::Close { id, deadline });
        self.shared.wait_ended()
    }

    /// Stops accepting and ends every peer at once.
    ///
    /// Outside callbacks it returns when all have ended: no callback runs then or will. Inside a
    /// callback it only starts.
    pub fn abort(&self) {
        self.shared.abort_all();
        self.shared.wait_ended();
    }
}

impl Drop for Server {
    /// Aborts all peers. Outside callbacks the address is free again when this returns; it does not
    /// wait for the peers' last callbacks. That of a UDP server in an [`IoLoop`](crate::IoLoop) is free
    /// after the next turn, if this is the loop's thread.
    fn drop(&mut self) {
        self.shared.abort_all();
        if self.drop_waits {
            self.shared.wait_socket_closed();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.shared.address)
            .field("connected", &self.shared.live())
            .finish_non_exhaustive()
    }
}

impl ServerShared {
    /// A server of streams.
    pub(crate) fn of_streams(
        id: u64,
        listener: Listener,
        io: Arc<IoShared>,
        total_queue_limit_bytes: usize,
    ) -> Self {
        let address = listener.local_address();
        let socket = ServerSocket::Stream(Mutex::new(Some(listener)));
        Self::new(id, address, socket, io, total_queue_limit_bytes)
    }

    /// A server of datagrams, whose queue has its own limit.
    pub(crate) fn of_datagrams(
        id: u64,
        address: Address,
        channel: Arc<Channel<Outlet, IoHome>>,
        io: Arc<IoShared>,
        sending: LinkOptions,
    ) -> Self {
        Self {
            sending,
            ..Self::new(id, address, ServerSocket::Datagram(channel), io, usize::MAX)
        }
    }

    fn new(
        id: u64,
        address: Address,
        socket: ServerSocket,
        io: Arc<IoShared>,
        total_queue_limit_bytes: usize,
    ) -> Self {
        Self {
            id,
            address,
            io,
            sending: LinkOptions::default(),
            socket,
            budget: Arc::new(Budget::new(total_queue_limit_bytes as u64)),
            state: Mutex::default(),
            changed: Notice::default(),
            live: AtomicUsize::new(0),
            turned_away: AtomicU64::new(0),
            accept_shortages: AtomicU64::new(0),
            accept_failures: AtomicU64::new(0),
            unreachable: AtomicU64::new(0),
            groups_joined: AtomicUsize::new(0),
            groups_lost: AtomicU64::new(0),
            broadcasts: BroadcastCounters::default(),
        }
    }

    /// The queue of one peer.
    pub(crate) fn outbound_options(&self, options: &LinkOptions) -> OutboundOptions {
        OutboundOptions {
            budget: Some(Arc::clone(&self.budget)),
            ..options.outbound(&self.address)
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// The listening socket, `None` once the server was stopped. Held for single calls that do not
    /// wait.
    ///
    /// # Panics
    /// If this is a datagram server, which has none.
    pub(crate) fn listener(&self) -> MutexGuard<'_, Option<Listener>> {
        match &self.socket {
            ServerSocket::Stream(listener) => {
                listener.lock().unwrap_or_else(PoisonError::into_inner)
            }
            ServerSocket::Datagram(_) => unreachable!("datagram servers do not listen"),
        }
    }

    pub(crate) fn turned_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unreachable(&self) {
        self.unreachable.fetch_add(1, Ordering::Relaxed);
    }

    /// So many groups are joined now.
    pub(crate) fn groups_joined(&self, count: usize) {
        self.groups_joined.store(count, Ordering::Relaxed);
    }

    /// So many memberships have gone with their interfaces.
    pub(crate) fn groups_lost(&self, count: usize) {
        self.groups_lost.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The accept callback did not take a newcomer.
    pub(crate) fn turn_away(&self, peer: &LinkShared, reason: Reason) {
        self.turned_away();
        peer.stop_accepting();
        self.peer_ended(peer, reason);
    }

    pub(crate) fn accept_failed(&self, shortage: bool) {
        let counter = if shortage {
            &self.accept_shortages
        } else {
            &self.accept_failures
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A newcomer, before the application hears of it. False once the server was stopped.
    pub(crate) fn peer_comes(&self, peer: &Arc<LinkShared>) -> bool {
        let mut state = self.state();
        if state.stopped {
            return false;
        }
        state.live.insert(peer.id, Arc::clone(peer));
        self.live.store(state.live.len(), Ordering::Relaxed);
        let roster = state.roster.take();
        drop(state);
        // Without the lock: it may be long, and the last to hold some of its peers.
        drop(roster);
        true
    }

    /// The accept callback took a newcomer.
    pub(crate) fn peer_accepted(&self) {
        self.state().accepted += 1;
    }

    /// A newcomer has done its handshake.
    pub(crate) fn handshake_done(&self) {
        self.state().handshakes.completed += 1;
    }

    /// A newcomer's handshake came to nothing.
    pub(crate) fn handshake_failed(&self, error: Error) {
        let mut state = self.state();
        if error.kind() == ErrorKind::TimedOut {
            state.handshakes.timed_out += 1;
        } else {
            state.handshakes.failed += 1;
        }
        state.handshakes.last_failure = Some(error);
    }

    /// A peer has had its last callback. Its counters are kept first: whoever waits for its end finds
    /// them here; and then whoever waits for all peers finds that each has ended.
    pub(crate) fn peer_ended(&self, peer: &LinkShared, reason: Reason) {
        let counted = peer.statistics();
        let mut state = self.state();
        state.gone.add(&counted);
        state.unsent.add(peer.unsent());
        state.live.remove(&peer.id);
        self.live.store(state.live.len(), Ordering::Relaxed);
        let roster = state.roster.take();
        state.ending += 1;
        drop(state);
        drop(roster);
        peer.finish(reason);
        let mut state = self.state();
        state.ending -= 1;
        self.tell(state);
    }

    /// Closes the listening socket, and has every peer end at once.
    pub(crate) fn abort_all(&self) {
        self.stop(Command::Abort);
    }

    /// Closes the listening socket, and has every peer end in this way.
    fn stop(&self, end: impl Fn(u64) -> Command) {
        match &self.socket {
            // The kernel forgets a closed descriptor's watch by itself (`epoll(7)`).
            ServerSocket::Stream(_) => drop(self.listener().take()),
            ServerSocket::Datagram(channel) => channel.closing(Discard::Closed),
        }
        self.io.command(Command::StopServer(self.id));
        let mut state = self.state();
        state.stopped = true;
        for (id, peer) in &state.live {
            peer.stop_accepting();
            self.io.command(end(*id));
        }
    }

    /// The driver has closed a datagram server's socket.
    pub(crate) fn socket_closed(&self) {
        let mut state = self.state();
        state.closed = true;
        self.tell(state);
    }

    /// Tells whoever waits for the end.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let tasks = state.tasks.take_all();
        drop(state);
        self.changed.tell_all();
        wake(tasks);
    }

    fn wait_socket_closed(&self) {
        if self.must_not_wait() || matches!(self.socket, ServerSocket::Stream(_)) {
            return;
        }
        let mut state = self.state();
        while !state.closed {
            state = self.changed.wait(state, None);
        }
    }

    fn wait_ended(&self) -> Unsent {
        if self.must_not_wait() {
            return Unsent::default();
        }
        let mut state = self.state();
        while !state.all_ended() {
            state = self.changed.wait(state, None);
        }
        let unsent = state.unsent;
        drop(state);
        self.wait_socket_closed();
        unsent
    }

    /// Inside a callback, or on the thread whose own loop would never end it meanwhile.
    fn must_not_wait(&self) -> bool {
        self.io.caller() != Caller::Thread
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
