//! A newcomer of a TLS server until its handshake is done: only then the server gets to know it.
//!
//! It is an entry of its own, so that whoever is slow or silent holds up nobody, and it has a deadline.
//! What became of it goes to the listener, which keeps count.

use std::io;
use std::time::{Duration, Instant};

use mio::Interest;

use super::Alive;
use super::turn::Turn;
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::options::LinkOptions;
use crate::transport::Socket;

/// One handshake of a server.
pub(crate) struct HandshakeDriver {
    id: u64,
    listener: u64,
    /// Who it says it is, for errors.
    peer: Address,
    /// `None` once it is over.
    socket: Option<Socket>,
    deadline: Option<Instant>,
    timeout: Duration,
}

/// What became of a handshake.
pub(crate) struct HandshakeOver {
    pub(super) listener: u64,
    pub(super) id: u64,
    /// The secured socket, or why there is none.
    pub(super) outcome: Result<Socket, Error>,
}

impl HandshakeDriver {
    /// Watches a socket on which a handshake may begin.
    ///
    /// # Errors
    /// The kernel has no memory for one more watch.
    pub(super) fn start(
        listener: u64,
        socket: Socket,
        peer: Address,
        options: &LinkOptions,
        turn: &mut Turn,
    ) -> Result<Self, Error> {
        let id = turn.io.next_id();
        // Told of both: which it waits for changes with every flight.
        let interest = Interest::READABLE | Interest::WRITABLE;
        turn.register(socket.as_fd(), id, interest)
            .map_err(|cause| Error::io("watch", &peer, cause))?;
        let timeout = options.tls.handshake_timeout;
        let deadline = Instant::now().checked_add(timeout);
        if let Some(deadline) = deadline {
            turn.set_timer(deadline, id);
        }
        Ok(Self {
            id,
            listener,
            peer,
            socket: Some(socket),
            deadline,
            timeout,
        })
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// The socket has news, or it is its turn again.
    pub(super) fn go_on(&mut self, turn: &mut Turn) -> Alive {
        let Some(socket) = &self.socket else {
            return Alive::No;
        };
        if !turn.may_compute() {
            turn.again(self.id);
            return Alive::Yes;
        }
        match socket.handshake() {
            Ok(true) => {
                let socket = self.socket.take().expect("it was there above");
                // Whoever has it next watches it in a way of its own.
                turn.deregister(socket.as_fd());
                self.over(Ok(socket), turn)
            }
            Ok(false) => Alive::Yes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                turn.again(self.id);
                Alive::Yes
            }
            Err(cause) => {
                let error = Error::io("accept", &self.peer, cause);
                self.over(Err(error), turn)
            }
        }
    }

    pub(super) fn on_timer(&mut self, now: Instant, turn: &mut Turn) -> Alive {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Alive::Yes;
        }
        let error = handshake_timed_out("accept", &self.peer, self.timeout);
        self.over(Err(error), turn)
    }

    fn over(&mut self, outcome: Result<Socket, Error>, turn: &mut Turn) -> Alive {
        turn.handshakes_over.push(HandshakeOver {
            listener: self.listener,
            id: self.id,
            outcome,
        });
        Alive::No
    }
}

/// The peer took longer than it may.
pub(crate) fn handshake_timed_out(
    operation: &'static str,
    address: &Address,
    timeout: Duration,
) -> Error {
    let why = format!(
        "the TLS handshake is not done after {timeout:?} (LinkOptions::tls.handshake_timeout)"
    );
    Error::because(ErrorKind::TimedOut, operation, address, why)
}
