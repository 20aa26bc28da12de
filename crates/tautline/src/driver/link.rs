//! One connection on its I/O thread: from connecting to the last callback.
//!
//! Serves clients of every transport and the peers of stream servers; the transports differ below,
//! in [`crate::transport`].

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Interest;
use tautline_session::{Caller, Discard, FrameFault, Inbound, Tally};

use super::Alive;
use super::audience::{Audience, Panicked};
use super::home::Command;
use super::resolver;
use super::turn::Turn;
use crate::address::Address;
use crate::channel::Drained;
use crate::error::Error;
use crate::handler::{Event, Handler, Opened, Reason, Received, Unsent};
use crate::link::LinkShared;
use crate::options::LinkOptions;
use crate::outlet::Outlet;
use crate::server::ServerShared;
use crate::transport::{self, Connecting, Socket, Target, Wait, is_icmp};

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
            inbound: Inbound::new(options.framing, options.frame_limit_bytes),
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

    // --- connecting ---------------------------------------------------------------------------

    /// Looks a name up where it may block: the resolver asks the network.
    fn resolve_elsewhere(&mut self, address: Address, turn: &mut Turn) -> Alive {
        let (id, io) = (self.shared().id, Arc::clone(&self.shared().io));
        let begun = resolver::look_up(move || {
            io.command(Command::Resolved(id, transport::resolve(&address)));
        });
        match begun {
            Ok(()) => Alive::Yes,
            Err(cause) => self.end(Reason::NotConnected(Error::thread(cause)), turn),
        }
    }

    /// The addresses of a name are known, or why not.
    pub(crate) fn resolved(
        &mut self,
        targets: Result<Vec<Target>, Error>,
        turn: &mut Turn,
    ) -> Alive {
        if !matches!(self.stage, Stage::Resolving) {
            return Alive::Yes;
        }
        match targets {
            Ok(targets) => self.try_next(targets.into(), None, turn),
            Err(error) => self.end(Reason::NotConnected(error), turn),
        }
    }

    /// Connects to the first target that does not fail at once.
    fn try_next(
        &mut self,
        mut targets: VecDeque<Target>,
        mut failure: Option<Error>,
        turn: &mut Turn,
    ) -> Alive {
        let (id, address) = (self.shared().id, self.shared().address.clone());
        while let Some(target) = targets.pop_front() {
            let (socket, connecting) =
                match transport::start_connect(&address, &target, &self.options) {
                    Ok(started) => started,
                    Err(error) if transport::is_backlog_full(&error) => {
                        targets.push_front(target);
                        self.stage = Stage::WaitingForBacklog { targets };
                        turn.set_timer(Instant::now() + BACKLOG_PAUSE, id);
                        return Alive::Yes;
                    }
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                };
            let interest = match connecting {
                Connecting::Done => Interest::READABLE,
                Connecting::InProgress => Interest::READABLE | Interest::WRITABLE,
            };
            if let Err(cause) = turn.register(socket.as_fd(), id, interest) {
                failure = Some(Error::io("watch", &address, cause));
                continue;
            }
            match connecting {
                Connecting::Done => return self.open(socket, turn),
                Connecting::InProgress => {
                    self.stage = Stage::Connecting { socket, targets };
                    return Alive::Yes;
                }
            }
        }
        let error = failure
            .unwrap_or_else(|| Error::connect(&address, io::ErrorKind::AddrNotAvailable.into()));
        self.end(Reason::NotConnected(error), turn)
    }

    fn connect_event(&mut self, turn: &mut Turn) -> Alive {
        let stage = std::mem::replace(&mut self.stage, Stage::Resolving);
        let Stage::Connecting { socket, targets } = stage else {
            unreachable!("called in this stage only");
        };
        match transport::finish_connect(&socket) {
            Ok(()) => {
                let (fd, id) = (socket.as_fd(), self.shared().id);
                match turn.reregister(fd, id, Interest::READABLE) {
                    Ok(()) => self.open(socket, turn),
                    Err(cause) => {
                        let error = Error::io("watch", &self.shared().address, cause);
                        self.try_next(targets, Some(error), turn)
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.stage = Stage::Connecting { socket, targets };
                Alive::Yes
            }
            Err(cause) => {
                turn.deregister(socket.as_fd());
                let error = Error::connect(&self.shared().address, cause);
                self.try_next(targets, Some(error), turn)
            }
        }
    }

    fn open(&mut self, socket: Socket, turn: &mut Turn) -> Alive {
        let (local, peer) = (socket.local_address(), socket.peer_address());
        let outlet = Arc::new(Outlet::Connected(socket));
        self.outlet = Some(Arc::clone(&outlet));
        self.stage = Stage::Open;
        self.deadline = None;
        let shared = Arc::clone(self.shared());
        shared.set_addresses(local.clone(), peer.clone());
        let Some(generation) = shared.channel.opened(outlet) else {
            // Closed while it connected: nobody was told that it opened.
            return self.end(Reason::Closed, turn);
        };
        shared.set_open();
        let opened = Opened {
            generation,
            local,
            peer,
        };
        let told = self.audience.opened(&opened);
        self.survive(told, turn)
    }

    // --- the turns of an open connection ------------------------------------------------------

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

    /// Everything the peer sent, up to a turn's share.
    fn read_turn(&mut self, to_the_end: bool, turn: &mut Turn) -> Alive {
        let mut buffer = std::mem::take(&mut turn.buffer);
        let alive = self.read_into(&mut buffer, to_the_end, turn);
        turn.buffer = buffer;
        alive
    }

    fn read_into(&mut self, buffer: &mut [u8], to_the_end: bool, turn: &mut Turn) -> Alive {
        if self.held && self.shared().delivers() {
            self.held = false;
            if self.deliver(&[], Instant::now(), false, turn) == Alive::No {
                return Alive::No;
            }
        }
        for _ in 0..READS_PER_TURN {
            let Some(outlet) = self.outlet.clone() else {
                return Alive::Yes;
            };
            if !self.shared().delivers() || self.their_side == Side::Ended {
                return Alive::Yes;
            }
            let datagram = outlet.socket().kind().is_datagram();
            self.shared().counters.read_call();
            match outlet.socket().recv(buffer, Wait::No) {
                Ok(arrived) if arrived.bytes == 0 && !datagram => return self.peer_ended(turn),
                Ok(arrived) => {
                    let bytes = &buffer[..arrived.bytes];
                    let alive = self.deliver(bytes, Instant::now(), arrived.truncated, turn);
                    let drained = !datagram
                        && !to_the_end
                        && self.broken.is_none()
                        && arrived.bytes < buffer.len();
                    if alive == Alive::No || drained {
                        return alive;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return match self.broken.take() {
                        Some(cause) => self.lost(cause, turn),
                        None => Alive::Yes,
                    };
                }
                Err(error) if datagram && is_icmp(&error) => {
                    self.shared().counters.unreachable();
                    let event = Event::Unreachable(error);
                    let told = self.audience.event(&event);
                    if self.survive(told, turn) == Alive::No {
                        return Alive::No;
                    }
                }
                Err(cause) => {
                    let cause = self.broken.take().unwrap_or(cause);
                    return self.lost(cause, turn);
                }
            }
        }
        turn.again(self.shared().id);
        Alive::Yes
    }

    /// Hands out the messages in what one read brought.
    fn deliver(&mut self, bytes: &[u8], at: Instant, truncated: bool, turn: &mut Turn) -> Alive {
        let shared = Arc::clone(self.shared());
        let (inbound, held) = (&mut self.inbound, &mut self.held);
        let datagram = matches!(shared.address, Address::Udp { .. });
        let (mut messages, mut payload_bytes) = (0, 0);
        let received = Received { at, truncated };
        let outcome = self.audience.tell(|handler, link| {
            let mut hand_out = |message: &[u8]| {
                messages += 1;
                payload_bytes += message.len() as u64;
                // The one dynamic call of the receive path: handlers of any type share a thread.
                handler.message(link, message, received);
            };
            if datagram {
                hand_out(bytes);
                return Ok(());
            }
            let mut frames = inbound.frames(bytes);
            while let Some(frame) = frames.next() {
                hand_out(frame?);
                if !shared.delivers() {
                    frames.keep();
                    *held = true;
                    break;
                }
            }
            Ok(())
        });
        if truncated {
            shared.counters.truncation();
        }
        shared
            .counters
            .read(messages, payload_bytes, bytes.len() as u64, at);
        match outcome {
            Ok(Ok(())) => Alive::Yes,
            Ok(Err(fault)) => self.bad_frame(fault, turn),
            Err(Panicked) => self.end(Reason::Panicked, turn),
        }
    }

    /// Everything we owe the peer, up to a turn's share; then pressure.
    pub(crate) fn serve(&mut self, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Open | Stage::Closing(_) => {}
            Stage::Ending(_) => return self.finish_end(),
            Stage::Resolving
            | Stage::Connecting { .. }
            | Stage::WaitingForBacklog { .. }
            | Stage::Ended => return Alive::Yes,
        }
        let shared = Arc::clone(self.shared());
        if self.broken.is_some() {
            // In a pause what came waits to be read, unless the application has closed meanwhile.
            let closed = matches!(self.stage, Stage::Closing(_)) && !shared.delivers();
            return match self.broken.take_if(|_| closed) {
                Some(cause) => self.lost(cause, turn),
                None => self.tell_pressure(turn),
            };
        }
        match shared.channel.drain(Caller::Driver, BLOCKS_PER_TURN) {
            Drained::Idle => {
                self.await_room(false, turn);
                if self.our_side == Side::Finishing
                    && shared.channel.read(|outbound| outbound.is_drained())
                {
                    return self.end_our_side(turn);
                }
            }
            Drained::More => turn.again(shared.id),
            Drained::Blocked => self.await_room(true, turn),
            Drained::Broken(cause) => return self.write_failed(cause, turn),
        }
        self.tell_pressure(turn)
    }

    /// Asks for writability only while the kernel is full: on Unix sockets each read of the peer would
    /// tell of it, and that is a third of the latency.
    fn await_room(&mut self, awaits_room: bool, turn: &mut Turn) {
        let Some(outlet) = &self.outlet else {
            return;
        };
        // Told once, writability is told again after each time that the kernel was full.
        if awaits_room == self.awaits_room {
            return;
        }
        self.awaits_room = awaits_room;
        let interest = if awaits_room {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let (fd, id) = (outlet.socket().as_fd(), self.audience.shared().id);
        // It fails only for what is not registered, and this is.
        let reregistered = turn.reregister(fd, id, interest);
        debug_assert!(reregistered.is_ok(), "{reregistered:?}");
    }

    fn tell_pressure(&mut self, turn: &mut Turn) -> Alive {
        match self.shared().channel.poll_pressure() {
            Some(pressure) => {
                let told = self.audience.pressure(pressure);
                self.survive(told, turn)
            }
            None => Alive::Yes,
        }
    }

    /// A panic in a callback ends the link.
    fn survive(&mut self, told: Result<(), Panicked>, turn: &mut Turn) -> Alive {
        match told {
            Ok(()) => Alive::Yes,
            Err(Panicked) => self.end(Reason::Panicked, turn),
        }
    }

    // --- the end ------------------------------------------------------------------------------

    /// The application ends our side.
    pub(crate) fn finish(&mut self, turn: &mut Turn) -> Alive {
        match (&self.stage, self.is_datagram()) {
            (Stage::Open, false) => self.finish_our_side(turn),
            (Stage::Open, true) => self.close(None, turn),
            (Stage::Closing(_) | Stage::Ending(_) | Stage::Ended, _) => Alive::Yes,
            _ => self.end(Reason::Closed, turn),
        }
    }

    /// The application closes: write what waits, end our side, read to the peer's end.
    pub(crate) fn close(&mut self, deadline: Option<Instant>, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Open => {
                self.stage = Stage::Closing(Reason::Closed);
                self.set_deadline(deadline, turn);
                self.finish_our_side(turn)
            }
            Stage::Closing(_) => {
                // Whoever asked last has waited least: an earlier deadline stands.
                let earlier = match (self.deadline, deadline) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
                self.set_deadline(earlier, turn);
                Alive::Yes
            }
            Stage::Resolving | Stage::Connecting { .. } | Stage::WaitingForBacklog { .. } => {
                self.end(Reason::Closed, turn)
            }
            Stage::Ending(_) | Stage::Ended => Alive::Yes,
        }
    }

    /// The application aborts.
    pub(crate) fn abort(&mut self, turn: &mut Turn) -> Alive {
        self.end(Reason::Aborted, turn)
    }

    /// The last handle is gone: an abort after one flush that does not wait. A close that a callback
    /// has started takes its time all the same: that was the application's word.
    pub(crate) fn dropped(&mut self, turn: &mut Turn) -> Alive {
        if matches!(self.stage, Stage::Closing(Reason::Closed)) {
            return Alive::Yes;
        }
        if matches!(self.stage, Stage::Open | Stage::Closing(_)) {
            let shared = Arc::clone(self.shared());
            // Whatever it comes to: the end follows.
            let _ = shared.channel.drain(Caller::Driver, usize::MAX);
        }
        self.end(Reason::Aborted, turn)
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

    /// Ends our side once everything is written.
    fn finish_our_side(&mut self, turn: &mut Turn) -> Alive {
        if self.our_side == Side::Open {
            self.our_side = Side::Finishing;
        }
        self.serve(turn)
    }

    /// Everything is written.
    fn end_our_side(&mut self, turn: &mut Turn) -> Alive {
        self.our_side = Side::Ended;
        if let Some(outlet) = &self.outlet
            && !self.is_datagram()
        {
            // It fails where the peer has reset: reading tells.
            let _ = outlet.socket().shutdown_write();
        }
        if self.tell_pressure(turn) == Alive::No {
            return Alive::No;
        }
        let both_ended = self.their_side == Side::Ended || self.is_datagram();
        if !both_ended {
            return Alive::Yes;
        }
        match &self.stage {
            Stage::Closing(reason) => {
                let reason = reason.clone();
                self.end(reason, turn)
            }
            _ => self.end(Reason::PeerEnded, turn),
        }
    }

    /// The peer ended its stream, and everything before was delivered.
    fn peer_ended(&mut self, turn: &mut Turn) -> Alive {
        self.their_side = Side::Ended;
        let cut_bytes = self.inbound.kept_bytes();
        if cut_bytes > 0 {
            self.shared().counters.fault();
            let event = Event::CutFrame { bytes: cut_bytes };
            let told = self.audience.event(&event);
            if self.survive(told, turn) == Alive::No {
                return Alive::No;
            }
        }
        if let Some(cause) = self.broken.take() {
            return self.lost(cause, turn);
        }
        if self.our_side == Side::Ended {
            return self.end_our_side(turn);
        }
        if self.options.half_open && matches!(self.stage, Stage::Open) {
            let told = self.audience.event(&Event::PeerFinished);
            return self.survive(told, turn);
        }
        self.shared().channel.closing(Discard::ConnectionLost);
        if matches!(self.stage, Stage::Open) {
            self.stage = Stage::Closing(Reason::PeerEnded);
            self.set_deadline(Instant::now().checked_add(PEER_END_FLUSH), turn);
        }
        self.finish_our_side(turn)
    }

    /// Whether the peer has ended its stream and ours goes on.
    fn is_half_open(&self) -> bool {
        matches!(self.stage, Stage::Open) && self.their_side == Side::Ended
    }

    /// First it ended its stream, now it takes nothing either. No read would tell of it, and a write
    /// only if the application tried one.
    fn peer_gone(&mut self, turn: &mut Turn) -> Alive {
        let outlet = self.outlet.as_ref();
        match outlet.and_then(|outlet| outlet.socket().take_error()) {
            Some(cause) => self.lost(cause, turn),
            None => self.end(Reason::PeerEnded, turn),
        }
    }

    fn bad_frame(&mut self, fault: FrameFault, turn: &mut Turn) -> Alive {
        self.shared().counters.fault();
        let told = self.audience.event(&Event::BadFrame(fault));
        match self.survive(told, turn) {
            Alive::Yes => self.end(Reason::BadFrame(fault), turn),
            Alive::No => Alive::No,
        }
    }

    /// Writing failed. What the peer sent before it went may still be there to read, a turn's share at a
    /// time, and after a pause as well.
    fn write_failed(&mut self, cause: io::Error, turn: &mut Turn) -> Alive {
        self.shared().channel.closing(Discard::ConnectionLost);
        self.our_side = Side::Ended;
        if self.their_side == Side::Ended {
            return self.lost(cause, turn);
        }
        self.broken = Some(cause);
        self.read_turn(true, turn)
    }

    fn lost(&mut self, cause: io::Error, turn: &mut Turn) -> Alive {
        let error = Error::io("exchange with", &self.shared().address, cause);
        self.end(Reason::Lost(error), turn)
    }

    /// Ends the connection now. The socket is shut down at once; its descriptor is closed, and the end
    /// told, when nobody is writing.
    fn end(&mut self, reason: Reason, turn: &mut Turn) -> Alive {
        match self.stage {
            Stage::Ending(_) => return Alive::Yes,
            Stage::Ended => return Alive::No,
            _ => {}
        }
        let shared = Arc::clone(self.shared());
        let reason = match reason {
            Reason::Panicked => reason,
            // Whatever else came before the driver obeyed.
            _ if shared.is_aborted() => Reason::Aborted,
            _ => reason,
        };
        let cause = match reason {
            Reason::Closed | Reason::Aborted => Discard::Closed,
            _ => Discard::ConnectionLost,
        };
        let mut kernel_bytes = None;
        if let Some(outlet) = self.outlet.take() {
            kernel_bytes = outlet.socket().unsent_bytes();
            turn.deregister(outlet.socket().as_fd());
            outlet.socket().shutdown();
        }
        let (generation, discarded_before) = shared
            .channel
            .read(|outbound| (outbound.generation(), given_up(outbound)));
        shared.channel.end(cause);
        self.deadline = None;
        self.stage = Stage::Ending(Ending {
            reason,
            generation,
            discarded_before,
            kernel_bytes,
        });
        self.finish_end()
    }

    fn finish_end(&mut self) -> Alive {
        let shared = Arc::clone(self.shared());
        if shared.channel.read(|outbound| outbound.is_writing()) {
            // The writer calls us when it is back.
            return Alive::Yes;
        }
        let Stage::Ending(ending) = std::mem::replace(&mut self.stage, Stage::Ended) else {
            return Alive::No;
        };
        let mut queued = shared.channel.read(given_up);
        queued -= ending.discarded_before;
        let unsent = Unsent {
            queued,
            kernel_bytes: ending.kernel_bytes,
        };
        self.audience.end(ending.generation, unsent, &ending.reason);
        if let Some(server) = self.server.take() {
            server.peer_ended(&shared);
        }
        shared.finish(ending.reason);
        Alive::No
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

/// Messages lost with a connection or a close, so far.
fn given_up(outbound: &tautline_session::Outbound) -> Tally {
    outbound.discarded().lost()
}

/// Reads of one link before others have their turn.
const READS_PER_TURN: usize = 16;
/// Blocks of one link written before others have their turn: 1 MiB.
const BLOCKS_PER_TURN: usize = 16;
/// How long a peer that ended its own side may take to read what we still owe it.
const PEER_END_FLUSH: Duration = Duration::from_secs(5);
/// Between two tries to connect to a Unix listener whose backlog is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);
