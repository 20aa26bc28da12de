//! One connection on its I/O thread: from connecting to the last callback.
//!
//! Serves clients of every transport and the peers of stream servers; the transports differ below,
//! in [`crate::transport`].

mod connecting;
mod ending;
mod reading;
mod writing;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use mio::Interest;
use tautline_session::{Inbound, Tally};

use super::Alive;
use super::audience::{Audience, Panicked};
use super::turn::Turn;
use crate::address::Address;
use crate::error::Error;
use crate::handler::{Handler, Reason};
use crate::link::LinkShared;
use crate::options::LinkOptions;
use crate::outlet::Outlet;
use crate::server::ServerShared;
use crate::transport::{self, Socket, Target};

/// One link as its I/O thread drives it.
pub(crate) struct LinkDriver {
    audience: Audience,
    options: LinkOptions,
    stage: Stage,
    /// The open connection.
    outlet: Option<Arc<Outlet>>,
    inbound: Inbound,
    /// A pause kept what was read already.
    held: bool,
    our_side: Side,
    their_side: Side,
    /// Writing failed, for this reason: the connection ends when what came is read.
    broken: Option<io::Error>,
    /// The kernel was full and tells when there is room.
    awaits_room: bool,
    deadline: Option<Instant>,
    /// The server it is a peer of.
    server: Option<Arc<ServerShared>>,
}

/// A client's link before it connects.
pub(crate) struct LinkStart {
    pub(crate) link: Arc<LinkShared>,
    pub(crate) handler: Box<dyn Handler>,
    pub(crate) options: LinkOptions,
}

enum Stage {
    /// A name is being looked up on a thread of its own.
    Resolving,
    /// A socket is connecting; `targets` are tried after it.
    Connecting {
        socket: Socket,
        targets: VecDeque<Target>,
    },
    /// All connects failed for want of room in a listener's backlog; tried again after a while.
    WaitingForBacklog {
        targets: VecDeque<Target>,
    },
    Open,
    /// Accepts no more; ends when everything is written and the peer has ended, or at the deadline.
    Closing(Reason),
    /// Waits for a writer to come back before it tells the end.
    Ending(Ending),
    Ended,
}

struct Ending {
    reason: Reason,
    generation: u64,
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
        let (id, address) = (start.link.id, start.link.address.clone());
        let deadline = Instant::now().checked_add(start.options.connect_timeout);
        let mut link = Self::new(start.link, start.handler, start.options, Stage::Resolving);
        link.set_deadline(deadline, turn);
        let alive = if transport::is_literal(&address) {
            link.resolved(transport::resolve(&address), turn)
        } else {
            link.resolve_elsewhere(address, turn)
        };
        (id, (alive == Alive::Yes).then(|| Box::new(link)))
    }

    /// A connection that a listener accepted. `None` when it has ended already.
    pub(crate) fn accepted(
        shared: Arc<LinkShared>,
        handler: Box<dyn Handler>,
        options: LinkOptions,
        server: Arc<ServerShared>,
        socket: Socket,
        turn: &mut Turn,
    ) -> Option<Box<Self>> {
        let id = shared.id;
        let mut link = Self::new(shared, handler, options, Stage::Open);
        link.server = Some(server);
        let registered = turn.register(socket.as_fd(), id, Interest::READABLE);
        let alive = match registered {
            Ok(()) => link.open(socket, turn),
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
        options: LinkOptions,
        stage: Stage,
    ) -> Self {
        Self {
            audience: Audience::new(shared, handler),
            inbound: options.inbound(),
            options,
            stage,
            outlet: None,
            held: false,
            our_side: Side::Open,
            their_side: Side::Open,
            broken: None,
            awaits_room: false,
            deadline: None,
            server: None,
        }
    }

    fn shared(&self) -> &Arc<LinkShared> {
        self.audience.shared()
    }

    /// News from the kernel.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Connecting { .. } => return self.connect_event(turn),
            Stage::Open | Stage::Closing(_) => {}
            Stage::Resolving
            | Stage::WaitingForBacklog { .. }
            | Stage::Ending(_)
            | Stage::Ended => return Alive::Yes,
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
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
        if event.is_writable() && self.awaits_room {
            return self.serve(turn);
        }
        Alive::Yes
    }

    /// Work was left, or reading goes on after a pause.
    pub(crate) fn carry_on(&mut self, turn: &mut Turn) -> Alive {
        match self.read_turn(true, turn) {
            Alive::Yes => self.serve(turn),
            Alive::No => Alive::No,
        }
    }

    pub(crate) fn on_timer(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        let expired = self.deadline.is_some_and(|deadline| deadline <= now);
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Closing(reason) if expired => {
                self.stage = Stage::Open;
                self.end(reason, turn)
            }
            Stage::Resolving | Stage::Connecting { .. } | Stage::WaitingForBacklog { .. }
                if expired =>
            {
                // The socket, if there was one, is closed with its stage.
                self.stage = Stage::Resolving;
                let timeout = self.options.connect_timeout;
                let error = Error::timed_out("connect to", &self.shared().address, timeout);
                self.end(Reason::NotConnected(error), turn)
            }
            Stage::WaitingForBacklog { targets } => self.try_next(targets, None, turn),
            other => {
                self.stage = other;
                Alive::Yes
            }
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

    fn is_datagram(&self) -> bool {
        matches!(self.shared().address, Address::Udp { .. })
    }

    fn set_deadline(&mut self, deadline: Option<Instant>, turn: &mut Turn) {
        self.deadline = deadline;
        if let Some(deadline) = deadline {
            turn.set_timer(deadline, self.shared().id);
        }
    }
}
