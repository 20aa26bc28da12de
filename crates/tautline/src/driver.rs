//! The driver: waits for the kernel, reads and writes for its links, calls their handlers. It is
//! turned by a thread of its own, or by the application's in an own loop.
//!
//! ```text
//! wait ─▶ dispatch events ─▶ carry on with what was left ─▶ obey commands ─▶ timers ─▶ wait
//! ```
//! Replies that handlers send are only queued; their links are flushed while commands are obeyed, so
//! once per batch of events and not once per reply.
//!
//! A link has one share of each turn to read. Whoever has spent it is read again among what was left,
//! behind all others that have news and behind their replies.

mod alarm;
mod answering;
mod audience;
mod datagram;
mod gathering;
mod handshake;
mod home;
mod link;
mod listener;
mod pool;
mod resolver;
mod spin;
mod timers;
mod turn;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use audience::contain;
pub(crate) use datagram::{DatagramDriver, Newcomer};
pub(crate) use handshake::handshake_timed_out;
pub(crate) use home::{Command, IoHome, IoShared, in_callback, wake};
pub(crate) use link::{LinkDriver, LinkStart};
pub(crate) use listener::{Accept, ListenerDriver};
pub(crate) use turn::Turn;

pub(crate) use spin::{Polled, Spin};

use handshake::HandshakeDriver;
use timers::ALARM;

/// Everything that one I/O thread or own loop owns.
pub(crate) struct Driver {
    poll: mio::Poll,
    events: mio::Events,
    /// The kernel may have had more.
    left_events: bool,
    entries: HashMap<u64, Entry, BuildHasherDefault<IdHasher>>,
    turn: Turn,
    /// Emptied, to be swapped for the mailbox: so commands allocate nothing.
    commands: Vec<Command>,
    spin: Spin,
    /// The `IoThread` was dropped: the thread ends with its last link.
    retiring: bool,
}

/// Something registered with the poller.
pub(crate) enum Entry {
    /// A client's link, or a stream server's peer.
    Link(Box<LinkDriver>),
    /// A stream server's listening socket.
    Listener(Box<ListenerDriver>),
    /// A newcomer of a TLS server.
    Handshake(Box<HandshakeDriver>),
    /// A datagram server.
    Datagram(Box<DatagramDriver>),
    /// A peer of the datagram server with this id.
    PeerOf(u64),
}

impl Driver {
    pub(crate) fn new(
        poll: mio::Poll,
        io: Arc<IoShared>,
        read_buffer_bytes: usize,
        spin: Duration,
    ) -> io::Result<Self> {
        let registry = poll.registry().try_clone()?;
        Ok(Self {
            poll,
            events: mio::Events::with_capacity(EVENTS_PER_TURN),
            left_events: false,
            entries: HashMap::default(),
            turn: Turn::new(registry, io, read_buffer_bytes)?,
            commands: Vec::new(),
            spin: Spin::new(spin),
            retiring: false,
        })
    }

    /// The whole life of an I/O thread.
    pub(crate) fn run(mut self) {
        let io = Arc::clone(&self.turn.io);
        let _inside = io.enter();
        while !(self.retiring && self.entries.is_empty()) {
            self.turn_once(None);
        }
        io.close_mailbox();
    }

    /// Waits, at most this long, and does what there is to do.
    pub(crate) fn turn_once(&mut self, at_most: Option<Duration>) {
        let mut events = std::mem::replace(&mut self.events, mio::Events::with_capacity(0));
        self.wait(&mut events, at_most);
        self.turn.begins();
        let mut taken = 0;
        for event in &events {
            self.dispatch(event);
            taken += 1;
        }
        self.left_events = taken == EVENTS_PER_TURN;
        self.events = events;
        if self.turn.has_ready() {
            // What was answered meanwhile leaves before those with much to do have their share.
            self.obey();
        }
        self.carry_on();
        self.obey();
        self.expire_timers();
    }

    /// Before a thread of the application does something else: whatever the next turn has to do makes
    /// the descriptor readable, at its time. Whether there is something already.
    pub(crate) fn leave(&mut self) -> bool {
        // Whoever left a command has rung already.
        let rings = self.left_events || self.turn.has_ready();
        if rings {
            self.turn.io.ring();
        }
        let until_next_turn = self.until_next_turn();
        rings || until_next_turn == Some(Duration::ZERO)
    }

    /// The descriptor that is readable when a turn has something to do.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.registry().as_fd()
    }

    /// Ends every link and server, with their last callbacks. Nobody turns it after that.
    pub(crate) fn end_all(&mut self) {
        loop {
            let ids: Vec<u64> = self.entries.keys().copied().collect();
            for id in ids {
                self.with(id, |entry, turn| match entry {
                    Entry::Link(link) => link.abort(turn),
                    Entry::Listener(listener) => listener.abort_server(),
                    Entry::Handshake(_) => Alive::No,
                    Entry::Datagram(server) => server.abort_server(),
                    Entry::PeerOf(_) => Alive::Yes,
                });
            }
            self.obey();
            if self.entries.is_empty() && self.turn.io.close_mailbox() {
                return;
            }
            // Some thread is writing, and calls when it is back; or was asking for something.
            self.turn_once(None);
        }
    }

    fn wait(&mut self, events: &mut mio::Events, at_most: Option<Duration>) {
        let timeout = match (self.until_next_turn(), at_most) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match self.spin.wait(&mut self.poll, events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            // The poller is ours and valid: nothing else is possible (`epoll_wait(2)`).
            Err(error) => unreachable!("epoll_wait: {error}"),
        }
    }

    fn until_next_turn(&mut self) -> Option<Duration> {
        let entries = &mut self.entries;
        self.turn
            .until_next_turn(|id, at| match entries.get_mut(&id) {
                Some(Entry::Link(link)) => link.lets_pass(at),
                Some(
                    Entry::Listener(_)
                    | Entry::Handshake(_)
                    | Entry::Datagram(_)
                    | Entry::PeerOf(_),
                ) => false,
                None => true,
            })
    }

    fn dispatch(&mut self, event: &mio::event::Event) {
        if event.token() == ALARM {
            return self.turn.timers.rang();
        }
        let id = event.token().0 as u64;
        self.with(id, |entry, turn| match entry {
            Entry::Link(link) => link.on_event(event, turn),
            Entry::Listener(listener) => listener.on_event(turn),
            Entry::Handshake(newcomer) => newcomer.go_on(turn),
            Entry::Datagram(server) => server.on_event(event, turn),
            Entry::PeerOf(_) => Alive::Yes,
        });
    }

    /// Links whose last turn ended with work left.
    fn carry_on(&mut self) {
        self.turn.allow_handshakes();
        let ready = self.turn.take_ready();
        for &id in &ready {
            self.with(id, |entry, turn| match entry {
                Entry::Link(link) => link.carry_on(turn),
                Entry::Listener(listener) => listener.on_event(turn),
                Entry::Handshake(newcomer) => newcomer.go_on(turn),
                Entry::Datagram(server) => server.carry_on(turn),
                Entry::PeerOf(_) => Alive::Yes,
            });
        }
        self.turn.give_back_ready(ready);
    }

    /// What other threads and this turn's callbacks asked for. Callbacks ask for more while commands
    /// are obeyed; a bound leaves the rest to the next turn.
    fn obey(&mut self) {
        for _ in 0..COMMAND_BATCHES_PER_TURN {
            if !self.turn.io.has_commands() {
                break;
            }
            let mut commands = std::mem::take(&mut self.commands);
            self.turn.io.take_commands(&mut commands);
            for command in commands.drain(..) {
                self.obey_one(command);
            }
            self.commands = commands;
        }
    }

    fn obey_one(&mut self, command: Command) {
        match command {
            Command::Retire => self.retiring = true,
            Command::Connect(start) => {
                let (id, link) = LinkDriver::connect(*start, &mut self.turn);
                self.adopt(id, link.map(Entry::Link));
            }
            Command::Listen(listener) => {
                let id = listener.id();
                let listener = listener.start(&mut self.turn);
                self.adopt(id, listener.map(Entry::Listener));
            }
            Command::Receive(server) => {
                let id = server.id();
                let server = server.start(&mut self.turn);
                self.adopt(id, Some(Entry::Datagram(server)));
            }
            Command::Reach(id, newcomer) => self.with(id, |entry, turn| match entry {
                Entry::Datagram(server) => server.reach(*newcomer, turn),
                Entry::Listener(_) | Entry::Link(_) | Entry::Handshake(_) | Entry::PeerOf(_) => {
                    Alive::Yes
                }
            }),
            Command::StopServer(id) => self.with(id, |entry, turn| match entry {
                Entry::Datagram(server) => server.stop(turn),
                Entry::Listener(listener) => listener.stop(turn),
                Entry::Link(_) | Entry::Handshake(_) | Entry::PeerOf(_) => Alive::Yes,
            }),
            Command::Resolved(id, targets) => {
                self.with_link(id, |link, turn| link.resolved(targets, turn), no_peer);
            }
            Command::Serve(id) => self.with(id, |entry, turn| match entry {
                Entry::Link(link) => link.serve(turn),
                Entry::Datagram(server) => server.serve_queue(turn),
                Entry::Listener(_) | Entry::Handshake(_) | Entry::PeerOf(_) => Alive::Yes,
            }),
            Command::Finish(id) => self.with_link(id, LinkDriver::finish, |server, turn| {
                server.close_peer(id, None, turn)
            }),
            Command::Close { id, deadline } => self.with_link(
                id,
                |link, turn| link.close(deadline, turn),
                |server, turn| server.close_peer(id, deadline, turn),
            ),
            Command::Abort(id) => self.with_link(id, LinkDriver::abort, |server, turn| {
                server.abort_peer(id, turn)
            }),
            Command::Dropped(id) => self.with_link(id, LinkDriver::dropped, |server, turn| {
                server.drop_peer(id, turn)
            }),
            Command::Resume(id) => self.with_link(id, LinkDriver::resume, |server, turn| {
                server.resume_peer(id, turn)
            }),
        }
    }

    fn expire_timers(&mut self) {
        let entries = &self.entries;
        self.turn
            .timers
            .forget_gone(entries.len(), |id| entries.contains_key(&id));
        if !self.turn.timers.may_be_due() {
            return;
        }
        let now = Instant::now();
        while let Some(id) = self.turn.timers.expired(now) {
            let owner = self.owner_of(id);
            self.with(owner, |entry, turn| match entry {
                Entry::Link(link) => link.on_timer(now, turn),
                Entry::Listener(listener) => listener.on_event(turn),
                Entry::Handshake(newcomer) => newcomer.on_timer(now, turn),
                Entry::Datagram(server) if owner == id => server.on_timer(now, turn),
                Entry::Datagram(server) => server.on_peer_timer(id, now, turn),
                Entry::PeerOf(_) => Alive::Yes,
            });
        }
    }

    /// Acts on a link by its id, or on the datagram server whose peer has it.
    fn with_link(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut LinkDriver, &mut Turn) -> Alive,
        act_on_peer: impl FnOnce(&mut DatagramDriver, &mut Turn) -> Alive,
    ) {
        self.with(self.owner_of(id), |entry, turn| match entry {
            Entry::Link(link) => act(link, turn),
            Entry::Datagram(server) => act_on_peer(server, turn),
            Entry::Listener(_) | Entry::Handshake(_) | Entry::PeerOf(_) => Alive::Yes,
        });
    }

    /// Whose entry acts for this id: a peer's datagram server for the peer.
    fn owner_of(&self, id: u64) -> u64 {
        match self.entries.get(&id) {
            Some(Entry::PeerOf(server)) => *server,
            _ => id,
        }
    }

    /// Acts on an entry that may have ended meanwhile, then takes in whoever it brought.
    fn with(&mut self, id: u64, act: impl FnOnce(&mut Entry, &mut Turn) -> Alive) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if act(entry, &mut self.turn) == Alive::No {
            self.entries.remove(&id);
        }
        while let Some(over) = self.turn.handshakes_over.pop() {
            // Stopped meanwhile, the server wants nobody: the socket is closed here.
            if let Some(Entry::Listener(listener)) = self.entries.get_mut(&over.listener) {
                listener.handshake_over(over, &mut self.turn);
            }
        }
        while let Some((id, newcomer)) = self.turn.newcomers.pop() {
            self.adopt(id, Some(newcomer));
        }
        while let Some((id, server)) = self.turn.aliases.pop() {
            self.adopt(id, Some(Entry::PeerOf(server)));
        }
        while let Some(id) = self.turn.gone.pop() {
            self.entries.remove(&id);
        }
    }

    fn adopt(&mut self, id: u64, entry: Option<Entry>) {
        if let Some(entry) = entry {
            self.entries.insert(id, entry);
        }
    }
}

/// For commands that mean nothing to a peer of a datagram server.
const fn no_peer(_: &mut DatagramDriver, _: &mut Turn) -> Alive {
    Alive::Yes
}

/// Whether an entry stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Alive {
    Yes,
    No,
}

/// Ids are counted up, so they are their own hash.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("ids are u64");
    }

    fn write_u64(&mut self, id: u64) {
        // The table takes its bucket from the low bits and its tag from the high ones.
        self.0 = id ^ id.rotate_left(57);
    }
}

/// Before a kernel that had no memory is asked again: nothing tells when it has some.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(10);
/// Events taken from the kernel at a time.
const EVENTS_PER_TURN: usize = 1024;
/// Rounds of commands in a turn: callbacks that keep asking must not starve reading.
const COMMAND_BATCHES_PER_TURN: usize = 16;
