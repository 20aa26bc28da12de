//! One link on its I/O thread: from connecting to the last callback, through all its connections.
//!
//! Serves clients of every transport and the peers of stream servers; the transports differ below,
//! in [`crate::transport`].

mod connecting;
mod datagrams;
mod ending;
mod liveness;
mod reading;
mod retrying;
mod writing;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Interest;
use tautline_session::{Inbound, Outbound, Tally};

use super::Alive;
use super::alarm::Alarm;
use super::answering::Answers;
use super::audience::{Audience, Panicked};
use super::gathering::Gathering;
use super::turn::Turn;
use crate::address::Address;
use crate::error::Error;
use crate::handler::{Handler, Reason};
use crate::link::LinkShared;
use crate::options::LinkOptions;
use crate::outlet::Outlet;
use crate::server::ServerShared;
use crate::transport::{Ends, Race, Socket, TlsSetup};

use datagrams::Kept;
use liveness::Liveness;
use retrying::Comeback;

/// One link as its I/O thread drives it.
pub(crate) struct LinkDriver {
    audience: Audience,
    /// Shared by all peers of a server: they are most of what a link would hold.
    options: Arc<LinkOptions>,
    stage: Stage,
    /// What the handshakes of a client over TLS begin with.
    tls: Option<TlsSetup>,
    /// A link that reconnects; `None` for one that has one life.
    comeback: Option<Box<Comeback>>,
    /// A name is being looked up.
    looking_up: bool,
    /// The connection that was told to have opened.
    generation: Option<u64>,
    /// The open connection.
    outlet: Option<Arc<Outlet>>,
    inbound: Inbound,
    /// What came and is handed out together with more, where that was asked for.
    gathering: Option<Box<Gathering>>,
    /// A pause kept what was read already.
    held: bool,
    /// What that is, of datagrams.
    kept: Option<Box<Kept>>,
    answers: Answers,
    our_side: Side,
    their_side: Side,
    /// Writing failed, for this reason: the connection ends when what came is read.
    broken: Option<io::Error>,
    /// The kernel was full and tells when there is room.
    awaits_room: bool,
    deadline: Option<Instant>,
    /// For its deadline, and for what it does by the clock while it is open.
    alarm: Alarm,
    /// What it is watched by, if by anything.
    liveness: Option<Box<Liveness>>,
    /// The alarm is set to look whether a total shared with other links has room again.
    looks_again: bool,
    /// The kernel had no memory for a read.
    reads_again: bool,
    /// What is left of this turn's share of reads, in bytes.
    share_left: usize,
    /// The last turn whose share was not enough; 0 for none.
    spent_in: u64,
    /// The server it is a peer of.
    server: Option<Arc<ServerShared>>,
}

/// A client's link before it connects.
pub(crate) struct LinkStart {
    pub(crate) link: Arc<LinkShared>,
    pub(crate) handler: Box<dyn Handler>,
    pub(crate) options: Arc<LinkOptions>,
    pub(crate) tls: Option<TlsSetup>,
}

enum Stage {
    /// A name is being looked up on a thread of its own.
    Resolving,
    /// Sockets are connecting.
    Connecting(Box<Race>),
    /// Connected, and TLS is being agreed on.
    Handshaking(Box<Socket>),
    /// Pauses before the next attempt.
    Retrying,
    Open,
    /// Accepts no more; ends when everything is written and the peer has ended, or at the deadline.
    Closing(Reason),
    /// Waits for a writer to come back before it tells the end.
    Ending(Ending),
    Ended,
}

struct Ending {
    reason: Reason,
    /// The connection that ends, if there was one.
    generation: Option<u64>,
    discarded_before: Tally,
    kernel_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Open,
    /// Ours only: ends once everything is written.
    Finishing,
    Ended,
}

impl LinkDriver {
    /// Starts to connect. `None` when it has ended already.
    pub(crate) fn connect(start: LinkStart, turn: &mut Turn) -> (u64, Option<Box<Self>>) {
        let id = start.link.id;
        let mut link = Self::new(start.link, start.handler, start.options, Stage::Resolving);
        link.tls = start.tls;
        let rules = link.options.reconnect;
        link.comeback = rules.map(|rules| Comeback::new(rules, Instant::now()));
        let alive = link.attempt(turn);
        (id, (alive == Alive::Yes).then(|| Box::new(link)))
    }

    /// A connection that a listener accepted. `None` when it has ended already.
    pub(crate) fn accepted(
        shared: Arc<LinkShared>,
        handler: Box<dyn Handler>,
        options: Arc<LinkOptions>,
        server: Arc<ServerShared>,
        (socket, ends): (Socket, Ends),
        turn: &mut Turn,
    ) -> Option<Box<Self>> {
        let id = shared.id;
        let mut link = Self::new(shared, handler, options, Stage::Open);
        link.server = Some(server);
        let registered = turn.register(socket.as_fd(), id, Interest::READABLE);
        let alive = match registered {
            Ok(()) => link.open(socket, ends, turn),
            Err(cause) => {
                let error = Error::io("watch", &link.shared().address, cause);
                link.end(Reason::NotConnected(error), turn)
            }
        };
        (alive == Alive::Yes).then(|| Box::new(link))
    }

    fn new(
        shared: Arc<LinkShared>,
        handler: Box<dyn Handler>,
        options: Arc<LinkOptions>,
        stage: Stage,
    ) -> Self {
        Self {
            audience: Audience::new(shared, handler),
            inbound: options.inbound(),
            gathering: Gathering::for_link(options.batch),
            options,
            stage,
            tls: None,
            comeback: None,
            looking_up: false,
            generation: None,
            outlet: None,
            held: false,
            kept: None,
            answers: Answers::default(),
            our_side: Side::Open,
            their_side: Side::Open,
            broken: None,
            awaits_room: false,
            deadline: None,
            alarm: Alarm::default(),
            liveness: None,
            looks_again: false,
            reads_again: false,
            share_left: 0,
            spent_in: 0,
            server: None,
        }
    }

    /// A new connection begins with nothing of the one before.
    fn begin_anew(&mut self, outlet: Arc<Outlet>) {
        self.inbound = self.options.inbound();
        self.stage = Stage::Open;
        self.outlet = Some(outlet);
        self.held = false;
        self.kept = None;
        self.our_side = Side::Open;
        self.their_side = Side::Open;
        self.broken = None;
        self.awaits_room = false;
        self.deadline = None;
    }

    fn shared(&self) -> &Arc<LinkShared> {
        self.audience.shared()
    }

    /// News from the kernel.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Connecting(_) => return self.go_on_connecting(turn),
            Stage::Handshaking(_) => return self.go_on_handshaking(turn),
            Stage::Open | Stage::Closing(_) => {}
            Stage::Resolving | Stage::Retrying | Stage::Ending(_) | Stage::Ended => {
                return Alive::Yes;
            }
        }
        let has_news = event.is_readable() || event.is_read_closed() || event.is_error();
        if has_news && !self.is_left_to_read(turn) {
            // A short read means "drained", unless the end of the stream stands behind it: that edge
            // was told already and will not come again.
            let alive = self.read_turn(event.is_read_closed() || event.is_error(), turn);
            if alive == Alive::No {
                return Alive::No;
            }
        }
        if event.is_write_closed() && self.is_half_open() {
            return self.peer_gone(turn);
        }
        // Asked for; or TLS has an answer to what came.
        if (event.is_writable() && self.awaits_room) || self.owes() {
            return self.serve(turn);
        }
        Alive::Yes
    }

    /// Whether the last turn left something to read: then its turn comes when this one carries on.
    fn is_left_to_read(&self, turn: &Turn) -> bool {
        self.spent_in + 1 == turn.number() && self.spent_in != 0
    }

    /// Work was left, or reading goes on after a pause.
    pub(crate) fn carry_on(&mut self, turn: &mut Turn) -> Alive {
        if matches!(self.stage, Stage::Handshaking(_)) {
            return self.go_on_handshaking(turn);
        }
        match self.read_turn(true, turn) {
            Alive::Yes => self.serve(turn),
            Alive::No => Alive::No,
        }
    }

    pub(crate) fn on_timer(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        let rang = self.alarm.rang(now);
        let alive = self.look_at_the_time(now, turn);
        if rang && alive == Alive::Yes {
            self.set_alarm(turn);
        }
        alive
    }

    /// Whether it would do nothing when called at this time, which then it is not: an open link whom
    /// nothing but its last deadline had a timer for.
    pub(crate) fn lets_pass(&mut self, at: Instant) -> bool {
        let by_the_clock = self.deadline.is_some()
            || self.liveness.is_some()
            || self.gathering.is_some()
            || self.looks_again
            || self.reads_again
            || self.our_side != Side::Open;
        let passes = matches!(self.stage, Stage::Open)
            && !by_the_clock
            // What waits may be looked at again when the kernel has memory.
            && self.shared().channel.read(Outbound::is_drained);
        if passes {
            self.alarm.rang(at);
        }
        passes
    }

    fn look_at_the_time(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        if std::mem::take(&mut self.looks_again) {
            self.shared().channel.look_again();
        }
        if std::mem::take(&mut self.reads_again) && self.read_turn(true, turn) == Alive::No {
            return Alive::No;
        }
        let expired = self.deadline.is_some_and(|deadline| deadline <= now);
        match &self.stage {
            Stage::Closing(reason) if expired => {
                let reason = reason.clone();
                self.end(reason, turn)
            }
            Stage::Resolving | Stage::Connecting(_) | Stage::Handshaking(_) if expired => {
                self.connect_timed_out(turn)
            }
            Stage::Connecting(_) => self.go_on_connecting(turn),
            Stage::Retrying if expired => self.pause_ended(now, turn),
            Stage::Open | Stage::Closing(_) => match self.look_after(now, turn) {
                // The kernel may have had no memory for what waits.
                Alive::Yes => self.serve(turn),
                Alive::No => Alive::No,
            },
            Stage::Resolving
            | Stage::Handshaking(_)
            | Stage::Retrying
            | Stage::Ending(_)
            | Stage::Ended => Alive::Yes,
        }
    }

    /// A panic in a callback ends the link.
    fn survive(&mut self, told: Result<(), Panicked>, turn: &mut Turn) -> Alive {
        match told {
            Ok(()) => Alive::Yes,
            Err(Panicked) => self.end(Reason::Panicked, turn),
        }
    }

    /// Whether the peer has ended its stream and ours goes on.
    fn is_half_open(&self) -> bool {
        matches!(self.stage, Stage::Open) && self.their_side == Side::Ended
    }

    /// Whether bytes that TLS has encrypted wait for room.
    fn owes(&self) -> bool {
        let outlet = self.outlet.as_ref();
        outlet.is_some_and(|outlet| outlet.socket().owes())
    }

    fn is_datagram(&self) -> bool {
        matches!(self.shared().address, Address::Udp { .. })
    }

    fn is_serial(&self) -> bool {
        matches!(self.shared().address, Address::Serial(_))
    }

    /// Whether our end of stream is something the peer can be told, and the other way round.
    fn tells_end(&self) -> bool {
        !self.is_datagram() && !self.is_serial()
    }

    fn set_deadline(&mut self, deadline: Option<Instant>, turn: &mut Turn) {
        self.deadline = deadline;
        self.set_alarm(turn);
    }

    /// Timers are not taken back: each attempt of a link that reconnects would leave one behind for as
    /// long as its deadline was away. So a far deadline is looked at once in a while.
    fn set_alarm(&mut self, turn: &mut Turn) {
        let Some(deadline) = self.deadline else {
            return;
        };
        let look = Instant::now() + LONGEST_ALARM;
        let id = self.shared().id;
        self.alarm.set(deadline.min(look), id, turn);
    }
}

/// How long a timer that nobody needs any more is kept at most.
const LONGEST_ALARM: Duration = Duration::from_secs(30);
