//! From an address to an open connection: names, targets, and the first that answers.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Interest;

use super::{LinkDriver, Stage};
use crate::address::Address;
use crate::driver::home::Command;
use crate::driver::turn::Turn;
use crate::driver::{Alive, resolver};
use crate::error::Error;
use crate::handler::{Opened, Reason};
use crate::outlet::Outlet;
use crate::transport::{self, Connecting, Socket, Target};

impl LinkDriver {
    /// Looks a name up where it may block: the resolver asks the network.
    pub(super) fn resolve_elsewhere(&mut self, address: Address, turn: &mut Turn) -> Alive {
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
    pub(super) fn try_next(
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

    pub(super) fn connect_event(&mut self, turn: &mut Turn) -> Alive {
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

    pub(super) fn open(&mut self, socket: Socket, turn: &mut Turn) -> Alive {
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
        self.begin_watching(turn);
        let told = self.audience.opened(&opened);
        self.survive(told, turn)
    }
}

/// Between two tries to connect to a Unix listener whose backlog is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);
