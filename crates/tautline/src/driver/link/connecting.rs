//! From an address to an open connection: its name looked up, the race of what it leads to, and the
//! handshake of TLS.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use mio::Interest;

use super::{LinkDriver, Stage};
use crate::address::Address;
use crate::driver::home::Command;
use crate::driver::turn::Turn;
use crate::driver::{Alive, handshake_timed_out, resolver};
use crate::error::Error;
use crate::handler::{Opened, Reason};
use crate::outlet::Outlet;
use crate::transport::{self, Ends, Race, Socket, Standing, Target};

impl LinkDriver {
    /// Looks a name up where it may block: the resolver asks the network.
    pub(super) fn resolve_elsewhere(&mut self, address: Address, turn: &mut Turn) -> Alive {
        if self.looking_up {
            // The last attempt's look-up has not come back. One that hangs must not become many.
            return Alive::Yes;
        }
        let (id, io) = (self.shared().id, Arc::clone(&self.shared().io));
        let begun = resolver::look_up(move || {
            io.command(Command::Resolved(id, transport::resolve(&address)));
        });
        match begun {
            Ok(()) => {
                self.looking_up = true;
                Alive::Yes
            }
            Err(cause) => self.attempt_failed(Error::thread(cause), turn),
        }
    }

    /// The addresses of a name are known, or why not.
    pub(crate) fn resolved(
        &mut self,
        targets: Result<Vec<Target>, Error>,
        turn: &mut Turn,
    ) -> Alive {
        self.looking_up = false;
        if !matches!(self.stage, Stage::Resolving) {
            return Alive::Yes;
        }
        match targets {
            Ok(targets) => {
                let race = Race::new(&self.shared().address, targets, Instant::now());
                self.race(Box::new(race), turn)
            }
            Err(error) => self.attempt_failed(error, turn),
        }
    }

    /// A socket that connects has news, or the time has come for the next one.
    pub(super) fn go_on_connecting(&mut self, turn: &mut Turn) -> Alive {
        match std::mem::replace(&mut self.stage, Stage::Resolving) {
            Stage::Connecting(race) => self.race(race, turn),
            other => {
                self.stage = other;
                Alive::Yes
            }
        }
    }

    /// The attempt has taken as long as it may.
    pub(super) fn connect_timed_out(&mut self, turn: &mut Turn) -> Alive {
        let (address, timeout) = (&self.shared().address, self.options.connect_timeout);
        let error = match &self.stage {
            Stage::Connecting(race) => race.timed_out(address, timeout),
            Stage::Handshaking(_) => {
                let timeout = self.options.tls.handshake_timeout;
                handshake_timed_out("connect to", address, timeout)
            }
            _ => Error::timed_out("connect to", address, timeout),
        };
        self.attempt_failed(error, turn)
    }

    fn race(&mut self, mut race: Box<Race>, turn: &mut Turn) -> Alive {
        let shared = Arc::clone(self.shared());
        let now = Instant::now();
        let watch = |socket: &Socket| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            turn.register(socket.as_fd(), shared.id, interest)
        };
        match race.go_on(&shared.address, &self.options, now, watch) {
            Standing::Won(socket) => match self.tls {
                Some(_) => self.shake_hands(socket, turn),
                None => self.connected(socket, turn),
            },
            Standing::Running(next) => {
                if let Some(next) = next {
                    turn.set_timer(next, shared.id);
                }
                self.stage = Stage::Connecting(race);
                Alive::Yes
            }
            Standing::Lost(error) => self.attempt_failed(error, turn),
        }
    }

    /// Connected and, over TLS, secured.
    fn connected(&mut self, socket: Socket, turn: &mut Turn) -> Alive {
        let (id, address) = (self.shared().id, &self.shared().address);
        // What came already is told again.
        match turn.reregister(socket.as_fd(), id, Interest::READABLE) {
            Ok(()) => {
                let ends = Ends::of(&socket);
                self.shared().set_ends(ends.clone());
                self.open(socket, ends, turn)
            }
            Err(cause) => self.attempt_failed(Error::io("watch", address, cause), turn),
        }
    }

    /// Begins the handshake, which has a deadline of its own. The socket is watched for both already.
    fn shake_hands(&mut self, mut socket: Socket, turn: &mut Turn) -> Alive {
        let shared = Arc::clone(self.shared());
        let setup = self.tls.as_ref().expect("a link over TLS has a setup");
        if let Err(cause) = socket.secure(setup, shared.tls_counters()) {
            return self.attempt_failed(Error::connect(&shared.address, cause), turn);
        }
        self.stage = Stage::Handshaking(Box::new(socket));
        self.set_deadline(self.handshake_deadline(), turn);
        self.go_on_handshaking(turn)
    }

    /// The socket has news, or had more to do than one turn allows.
    pub(super) fn go_on_handshaking(&mut self, turn: &mut Turn) -> Alive {
        let Stage::Handshaking(socket) = std::mem::replace(&mut self.stage, Stage::Resolving)
        else {
            unreachable!("asked only while a handshake is under way");
        };
        match socket.handshake() {
            Ok(true) => return self.connected(*socket, turn),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                turn.again(self.shared().id);
            }
            Err(cause) => {
                let error = Error::connect(&self.shared().address, cause);
                return self.attempt_failed(error, turn);
            }
        }
        self.stage = Stage::Handshaking(socket);
        Alive::Yes
    }

    /// The connection is there, and the link knows its ends.
    pub(super) fn open(&mut self, socket: Socket, ends: Ends, turn: &mut Turn) -> Alive {
        if self.is_datagram() {
            socket.join_datagrams(turn.datagram_room_bytes());
        }
        let outlet = Arc::new(Outlet::Connected(socket));
        self.begin_anew(Arc::clone(&outlet));
        let shared = Arc::clone(self.shared());
        let Some(generation) = shared.channel.opened(outlet, !self.is_datagram()) else {
            // Closed while it connected: nobody was told that it opened.
            return self.end(Reason::Closed, turn);
        };
        self.generation = Some(generation);
        if let Some(comeback) = &mut self.comeback {
            comeback.opened();
        }
        shared.set_open();
        let opened = Opened {
            generation,
            local: ends.local,
            peer: ends.peer,
            credentials: ends.credentials,
            secured: ends.secured,
        };
        if opened.secured.is_some() {
            // With the last of the handshake the first message may have come: no news will tell of it.
            turn.again(shared.id);
        }
        self.begin_watching(turn);
        let told = self.audience.opened(&opened);
        shared.channel.hook_done();
        shared.set_opened_told();
        self.survive(told, turn)
    }
}
