//! A datagram server on its I/O thread: one socket, one queue, many peers.
//!
//! A peer is an address and the address of ours that it asked. It opens with its first datagram, closes
//! by expiry, and when the table is full makes room by how long it was silent.

mod liveness;
mod newcomer;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Interest;
use tautline_session::{Caller, Discard, Outbound, Pressure, Tally};

use super::alarm::Alarm;
use super::answering::Answers;
use super::audience::{Audience, Panicked};
use super::gathering::Gathering;
use super::home::IoHome;
use super::listener::Accept;
use super::turn::{MailShare, Turn};
use super::{Alive, SHORTAGE_PAUSE};
use crate::channel::{Channel, Drained};
use crate::error::SendError;
use crate::handler::{Opened, Reason, Received, Unsent};
use crate::link::Link;
use crate::options::ServerOptions;
use crate::outlet::Outlet;
use crate::server::ServerShared;
use crate::sys::bulk::{Incoming, Mailbag};
use crate::transport::{Memberships, Remote, Whom, is_icmp};

pub(crate) use newcomer::Newcomer;

/// The server's socket and its peers.
pub(crate) struct DatagramDriver {
    server: Arc<ServerShared>,
    channel: Arc<Channel<Outlet, IoHome>>,
    outlet: Arc<Outlet>,
    memberships: Memberships,
    options: ServerOptions,
    accept: Accept,
    peers: HashMap<Remote, Peer>,
    /// The peer of each link, for commands.
    links: HashMap<u64, Remote>,
    /// Peers that close: looked at after every write, so not sought among all.
    closing: Vec<Remote>,
    answers: Answers,
    pressure: Pressure,
    awaits_room: bool,
    /// No peer may be replaced before: all were active a moment ago.
    full_until: Option<Instant>,
    next_expiry: Instant,
    /// For what waits while the kernel is full.
    alarm: Alarm,
    /// The kernel could not watch the socket for us.
    unwatched: bool,
    /// The kernel had no memory for a read.
    reads_again: bool,
    /// The server was stopped: it ends with its last peer.
    stopping: bool,
    /// The queue is closed, and nothing is left but to wait for a writer to come back.
    ended: bool,
    /// After the outlet: fields are dropped in order.
    _says_closed: SaysClosed,
}

/// Tells the server, when it is dropped, that its socket is closed.
struct SaysClosed(Arc<ServerShared>);

struct Peer {
    audience: Audience,
    /// A group never speaks: it does not expire.
    whom: Whom,
    opened_at: Instant,
    last_receive: Instant,
    /// What came and is handed out together with more, where that was asked for.
    gathering: Option<Box<Gathering>>,
    /// For what it does by the clock.
    alarm: Alarm,
    /// Closing: ends when nothing waits for it, or at the deadline.
    closing: Option<Option<Instant>>,
}

impl DatagramDriver {
    pub(crate) fn new(
        server: Arc<ServerShared>,
        channel: Arc<Channel<Outlet, IoHome>>,
        (outlet, memberships): (Arc<Outlet>, Memberships),
        options: ServerOptions,
        accept: Accept,
    ) -> Self {
        server.groups_joined(memberships.joined());
        Self {
            _says_closed: SaysClosed(Arc::clone(&server)),
            ended: false,
            server,
            channel,
            outlet,
            memberships,
            next_expiry: Instant::now(),
            options,
            accept,
            peers: HashMap::new(),
            links: HashMap::new(),
            closing: Vec::new(),
            answers: Answers::default(),
            pressure: Pressure::Off,
            awaits_room: false,
            full_until: None,
            alarm: Alarm::default(),
            unwatched: false,
            reads_again: false,
            stopping: false,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.server.id
    }

    /// Has the server and all its peers end; the commands for that are on their way.
    pub(crate) fn abort_server(&self) -> Alive {
        self.server.abort_all();
        Alive::Yes
    }

    /// Starts to receive.
    pub(crate) fn start(mut self: Box<Self>, turn: &mut Turn) -> Box<Self> {
        self.outlet
            .socket()
            .join_datagrams(turn.datagram_room_bytes());
        let fd = self.outlet.socket().as_fd();
        if turn.register(fd, self.id(), Interest::READABLE).is_err() {
            // Out of kernel memory for one more watch: the expiry timer reads instead.
            self.unwatched = true;
        }
        self.plan_expiry(Instant::now(), turn);
        self
    }

    /// News from the kernel.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event, turn: &mut Turn) -> Alive {
        if event.is_readable() || event.is_error() {
            // A call that brought something keeps an error for the next.
            self.read_turn(event.is_error(), turn);
        }
        if event.is_writable() && self.awaits_room {
            self.serve(turn);
        }
        self.alive(turn)
    }

    pub(crate) fn carry_on(&mut self, turn: &mut Turn) -> Alive {
        self.read_turn(true, turn);
        self.serve(turn);
        self.alive(turn)
    }

    /// Sends what waits, then tells pressure.
    pub(crate) fn serve_queue(&mut self, turn: &mut Turn) -> Alive {
        self.serve(turn);
        self.alive(turn)
    }

    pub(crate) fn on_timer(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        if now >= self.next_expiry {
            if self.unwatched {
                self.read_turn(true, turn);
            }
            self.expire(now, turn);
            self.look_after_groups();
            self.plan_expiry(now, turn);
        }
        self.alarm.rang(now);
        if std::mem::take(&mut self.reads_again) {
            self.read_turn(true, turn);
        }
        // Those who close are looked at; the kernel may have had no memory for what waits; and taking is
        // what gives up the old.
        self.serve(turn);
        self.alive(turn)
    }

    /// The server was stopped: no newcomers, and its end when the last peer has ended.
    pub(crate) fn stop(&mut self, turn: &mut Turn) -> Alive {
        self.stopping = true;
        self.alive(turn)
    }

    /// A peer closes: it ends when nothing waits for it, or at the deadline.
    pub(crate) fn close_peer(
        &mut self,
        link: u64,
        deadline: Option<Instant>,
        turn: &mut Turn,
    ) -> Alive {
        let remote = self.links.get(&link);
        if let Some(remote) = remote
            && let Some(peer) = self.peers.get_mut(remote)
        {
            let deadline = match peer.closing {
                // Whoever asked last has waited least: an earlier deadline stands.
                Some(before) => before.into_iter().chain(deadline).min(),
                None => {
                    self.closing.push(remote.clone());
                    deadline
                }
            };
            peer.closing = Some(deadline);
            if let Some(deadline) = deadline {
                turn.set_timer(deadline, self.server.id);
            }
            self.serve(turn);
        }
        self.alive(turn)
    }

    /// A peer aborts.
    pub(crate) fn abort_peer(&mut self, link: u64, turn: &mut Turn) -> Alive {
        if let Some(remote) = self.links.get(&link).cloned() {
            self.end_peer(&remote, Reason::Aborted, turn);
        }
        self.alive(turn)
    }

    /// The last handle of a peer that ends with it is gone: an abort after one flush that does not wait.
    pub(crate) fn drop_peer(&mut self, link: u64, turn: &mut Turn) -> Alive {
        self.serve(turn);
        self.abort_peer(link, turn)
    }

    fn alive(&mut self, turn: &mut Turn) -> Alive {
        if !self.stopping || !self.peers.is_empty() {
            return Alive::Yes;
        }
        if !self.ended {
            self.ended = true;
            self.awaits_room = false;
            turn.deregister(self.outlet.socket().as_fd());
            self.channel.end(Discard::Closed);
        }
        if self.channel.read(Outbound::is_writing) {
            // The writer calls us when it is back; until then it holds the socket open.
            return Alive::Yes;
        }
        Alive::No
    }

    /// Every datagram that came, up to a turn's share.
    fn read_turn(&mut self, to_the_end: bool, turn: &mut Turn) {
        let mut mail = turn.take_mail();
        self.read_mail(&mut mail, to_the_end, turn);
        turn.give_back_mail(mail);
    }

    fn read_mail(&mut self, mail: &mut Mailbag, to_the_end: bool, turn: &mut Turn) {
        let mut share = MailShare::default();
        while let Some(most) = share.most() {
            match self.outlet.socket().recv_many(mail, most, true) {
                Ok(came) => {
                    let is_all = share.take(mail) == 1 && came < most;
                    self.deliver_mail(mail, is_all, turn);
                    if came < most && !to_the_end {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // The network's word on something sent; the socket lives on.
                Err(error) if is_icmp(&error) => {
                    share.take_other();
                    self.server.unreachable();
                }
                // Out of kernel memory: what came is still there, and the kernel has told of it.
                Err(_) => {
                    self.reads_again = true;
                    let again = Instant::now() + SHORTAGE_PAUSE;
                    self.alarm.set(again, self.id(), turn);
                    return;
                }
            }
        }
        turn.again(self.id());
    }

    fn deliver_mail(&mut self, mail: &Mailbag, is_all: bool, turn: &mut Turn) {
        let at = Instant::now();
        let mut hand_out = |server: &mut Self| {
            for (number, message) in mail.incoming().enumerate() {
                let Some(from) = message.from else {
                    continue;
                };
                let remote = Remote::of(from, message.local);
                server.deliver(remote, message, at, number == 0, turn);
            }
        };
        if !is_all {
            return hand_out(self);
        }
        // The answer to one that is all there was is written at once.
        let (id, channel) = (self.id(), Arc::clone(&self.channel));
        let mut answers = std::mem::take(&mut self.answers);
        answers.during(
            id,
            || channel.read(|outbound| outbound.waiting().messages),
            || hand_out(self),
        );
        self.answers = answers;
    }

    /// Hands out what came in one message of a call: a datagram, or several that the kernel joined.
    fn deliver(
        &mut self,
        remote: Remote,
        message: Incoming<'_>,
        at: Instant,
        is_first: bool,
        turn: &mut Turn,
    ) {
        if !self.peers.contains_key(&remote) && !self.welcome(&remote, at, turn) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&remote) else {
            return;
        };
        peer.last_receive = at;
        let shared = Arc::clone(peer.audience.shared());
        let counters = &shared.counters;
        if is_first {
            // Of a call that brought several, one counts it.
            counters.read_call();
        }
        let truncated = message.truncated;
        let received = Received {
            at,
            truncated,
            from: None,
        };
        let gathering = &mut peer.gathering;
        let (mut messages, mut bytes, mut dropped) = (0, 0, 0);
        let told = peer.audience.tell(|handler, link| {
            for payload in message.each() {
                if !shared.delivers() {
                    // Peers share the kernel's buffer: holding one's datagrams there would hold all.
                    dropped += 1;
                } else if let Some(gathering) = gathering {
                    gathering.add(payload, received, handler, link);
                } else {
                    messages += 1;
                    bytes += payload.len() as u64;
                    handler.message(link, payload, received);
                }
            }
        });
        counters.truncations(u64::from(truncated));
        counters.dropped_while_paused(dropped);
        // What was gathered is counted when it is handed out.
        counters.read(messages, bytes, message.payload.len() as u64, at);
        if let Some(gathering) = gathering
            && let Some(due) = gathering.due()
        {
            peer.alarm.set(due, shared.id, turn);
        }
        if let Err(Panicked) = told {
            self.end_peer(&remote, Reason::Panicked, turn);
        }
    }

    /// Makes a peer of whoever sent a datagram from an address not known yet.
    fn welcome(&mut self, remote: &Remote, now: Instant, turn: &mut Turn) -> bool {
        if self.stopping {
            return false;
        }
        if self.peers.len() >= self.options.connection_limit && !self.replace_one(now, turn) {
            self.server.turned_away();
            return false;
        }
        let local = remote.local_address(&self.server.address);
        let newcomer = Newcomer::new(&turn.io, &self.channel, remote.clone(), local, Whom::Peer);
        self.admit(newcomer, now, turn)
    }

    /// Somebody is to be spoken to before he has spoken.
    pub(crate) fn reach(&mut self, newcomer: Newcomer, turn: &mut Turn) -> Alive {
        let now = Instant::now();
        if self.stopping {
            newcomer.refuse("the server was stopped");
        } else if newcomer.link().takes_messages() == Err(SendError::Closed) {
            // Its command to end came before it was known here.
            newcomer.refuse("it was closed before it opened");
        } else if self.peers.contains_key(&newcomer.remote) {
            newcomer.refuse("it is a peer already");
        } else if self.peers.len() >= self.options.connection_limit && !self.replace_one(now, turn)
        {
            self.server.turned_away();
            newcomer.refuse("the server has as many peers as it may");
        } else {
            self.admit(newcomer, now, turn);
        }
        self.alive(turn)
    }

    /// Asks the application for the newcomer's handler, and tells it that the peer is open.
    fn admit(&mut self, newcomer: Newcomer, now: Instant, turn: &mut Turn) -> bool {
        let shared = Arc::clone(newcomer.link());
        if !self.server.peer_comes(&shared) {
            return false;
        }
        let link = Link::uncounted(Arc::clone(&shared));
        let handler = match self.accept.ask(&link) {
            Ok(handler) => handler,
            Err(reason) => {
                newcomer.accepted();
                self.channel.close_peer(shared.peer, Discard::Closed);
                self.server.turn_away(&shared, reason);
                return false;
            }
        };
        let (remote, whom) = (newcomer.remote.clone(), newcomer.whom);
        newcomer.accepted();
        self.server.peer_accepted();
        if let Outlet::Shared(_, remotes) = &*self.outlet {
            remotes.set(shared.peer, Some(remote.clone()));
        }
        shared.set_open();
        self.links.insert(shared.id, remote.clone());
        turn.aliases.push((shared.id, self.server.id));
        let opened = Opened {
            secured: None,
            generation: 1,
            local: link.local_address(),
            peer: link.peer_address(),
            credentials: None,
        };
        let mut audience = Audience::new(shared, handler);
        let told = audience.opened(&opened);
        audience.shared().set_opened_told();
        let told = told.and_then(|()| audience.pressure(self.pressure));
        let peer = Peer {
            audience,
            whom,
            opened_at: now,
            last_receive: now,
            gathering: Gathering::for_link(self.options.link.batch),
            alarm: Alarm::default(),
            closing: None,
        };
        self.peers.insert(remote.clone(), peer);
        self.look_after(&remote, now, turn);
        if let Err(Panicked) = told {
            self.end_peer(&remote, Reason::Panicked, turn);
        }
        told.is_ok()
    }

    /// Replaces the peer that was silent longest, but never one active a moment ago.
    fn replace_one(&mut self, now: Instant, turn: &mut Turn) -> bool {
        if self.full_until.is_some_and(|until| now < until) {
            // So a flood of new addresses does not search the table for each.
            return false;
        }
        let silent = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.whom == Whom::Peer)
            .min_by_key(|(_, peer)| peer.last_receive);
        let Some((remote, peer)) = silent else {
            return false;
        };
        if now.duration_since(peer.last_receive) < ACTIVE {
            self.full_until = Some(peer.last_receive + ACTIVE);
            return false;
        }
        let remote = remote.clone();
        self.end_peer(&remote, Reason::Expired, turn);
        true
    }

    fn expire(&mut self, now: Instant, turn: &mut Turn) {
        let silent_since = |peer: &Peer| now.duration_since(peer.last_receive);
        let expired: Vec<Remote> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.whom == Whom::Peer)
            .filter(|(_, peer)| silent_since(peer) >= self.options.peer_expiry)
            .map(|(remote, _)| remote.clone())
            .collect();
        for remote in expired {
            self.end_peer(&remote, Reason::Expired, turn);
        }
    }

    /// A membership goes with its interface, and comes back with it.
    fn look_after_groups(&mut self) {
        if self.memberships.is_empty() {
            return;
        }
        let lost = self.memberships.look_again(self.outlet.socket());
        self.server.groups_lost(lost);
        self.server.groups_joined(self.memberships.joined());
    }

    /// Looks eight times in an expiry, so that a peer is gone at most an eighth late.
    fn plan_expiry(&mut self, now: Instant, turn: &mut Turn) {
        let most = if self.memberships.is_empty() {
            EXPIRY_MOST
        } else {
            GROUPS_LOOK
        };
        let pause = (self.options.peer_expiry / 8).clamp(EXPIRY_LEAST, most);
        self.next_expiry = now + pause;
        turn.set_timer(self.next_expiry, self.server.id);
    }

    fn serve(&mut self, turn: &mut Turn) {
        match self.channel.drain(Caller::Driver, BLOCKS_PER_TURN) {
            Drained::Idle => self.await_room(false, turn),
            Drained::More => turn.again(self.id()),
            Drained::Blocked => {
                self.await_room(true, turn);
                self.watch_queue(turn);
            }
            Drained::Short => turn.set_timer(Instant::now() + SHORTAGE_PAUSE, self.server.id),
            // A datagram that cannot be sent is given up alone; nothing breaks the socket.
            Drained::Broken(_) => {}
        }
        if let Some(pressure) = self.channel.poll_pressure() {
            self.pressure = pressure;
            let remotes: Vec<Remote> = self.peers.keys().cloned().collect();
            for remote in remotes {
                let told = self
                    .peers
                    .get_mut(&remote)
                    .map_or(Ok(()), |peer| peer.audience.pressure(pressure));
                if let Err(Panicked) = told {
                    self.end_peer(&remote, Reason::Panicked, turn);
                }
            }
        }
        self.end_closing(Instant::now(), turn);
    }

    /// The kernel is full: what waits grows old meanwhile.
    fn watch_queue(&mut self, turn: &mut Turn) {
        if self.options.link.max_queue_delay.is_some()
            && let Some(left) = self.channel.give_up_too_old()
            && let Some(at) = Instant::now().checked_add(left)
        {
            self.alarm.set(at, self.server.id, turn);
        }
    }

    fn await_room(&mut self, awaits_room: bool, turn: &Turn) {
        if awaits_room == self.awaits_room {
            return;
        }
        self.awaits_room = awaits_room;
        let interest = if awaits_room {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let reregistered = turn.reregister(self.outlet.socket().as_fd(), self.id(), interest);
        debug_assert!(reregistered.is_ok(), "{reregistered:?}");
    }

    /// Peers that close, and for whom nothing waits any more or no time is left.
    fn end_closing(&mut self, now: Instant, turn: &mut Turn) {
        let is_done = |remote: &Remote| {
            let peer = self.peers.get(remote)?;
            let deadline = peer.closing?;
            let expired = deadline.is_some_and(|deadline| deadline <= now);
            let id = peer.audience.shared().peer;
            let waits = self.channel.read(|outbound| outbound.waiting_for(id));
            Some(expired || waits.is_zero())
        };
        let done: Vec<Remote> = self
            .closing
            .iter()
            .filter(|remote| is_done(remote) == Some(true))
            .cloned()
            .collect();
        for remote in done {
            self.end_peer(&remote, Reason::Closed, turn);
        }
    }

    fn end_peer(&mut self, remote: &Remote, reason: Reason, turn: &mut Turn) {
        let Some(mut peer) = self.peers.remove(remote) else {
            return;
        };
        if peer.closing.is_some() {
            self.closing.retain(|closing| closing != remote);
        }
        let shared = Arc::clone(peer.audience.shared());
        let reason = match reason {
            Reason::Panicked | Reason::Aborted => reason,
            // What came before the end is told before it.
            _ if peer.hand_out_batch().is_err() => Reason::Panicked,
            _ => reason,
        };
        let cause = match reason {
            Reason::Closed | Reason::Aborted => Discard::Closed,
            _ => Discard::ConnectionLost,
        };
        let queued: Tally = self.channel.close_peer(shared.peer, cause);
        if let Outlet::Shared(_, remotes) = &*self.outlet {
            remotes.set(shared.peer, None);
        }
        self.links.remove(&shared.id);
        turn.gone.push(shared.id);
        let unsent = Unsent {
            queued,
            kernel_bytes: None,
        };
        let _ = peer.audience.closed(1, unsent, &reason);
        peer.audience.ended(Tally::default(), &reason);
        self.server.peer_ended(&shared, reason);
    }
}

impl Drop for SaysClosed {
    fn drop(&mut self) {
        self.0.socket_closed();
    }
}

/// A peer heard of so lately is never replaced.
const ACTIVE: Duration = Duration::from_secs(1);
/// Blocks sent before others have their turn.
const BLOCKS_PER_TURN: usize = 4;
/// Bounds of the pause between two looks at who has expired.
const EXPIRY_LEAST: Duration = Duration::from_millis(10);
const EXPIRY_MOST: Duration = Duration::from_secs(10);
/// Longest pause between two looks at whether the groups are still joined.
const GROUPS_LOOK: Duration = Duration::from_secs(1);
