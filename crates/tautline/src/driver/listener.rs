//! A stream server's listening socket on its I/O thread.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Interest;
use tautline_session::Outbound;

use super::audience::{Panicked, contain};
use super::handshake::{HandshakeDriver, HandshakeOver};
use super::home::IoHome;
use super::link::LinkDriver;
use super::turn::Turn;
use super::{Alive, Entry};
use crate::channel::Channel;
use crate::error::{Error, Refusal};
use crate::handler::{Handler, Reason};
use crate::link::{Link, LinkShared};
use crate::options::{LinkOptions, ServerOptions};
use crate::secured::TlsCounters;
use crate::server::ServerShared;
use crate::transport::{Accepted, Ends, Listener, Socket, TlsSetup, is_shortage};

/// The application's word on a newcomer: its handler, or why not.
pub(crate) struct Accept(Box<AcceptFn>);

type AcceptFn = dyn FnMut(&Link) -> Result<Box<dyn Handler>, Refusal> + Send;

/// Accepts, and makes a link of each connection.
pub(crate) struct ListenerDriver {
    server: Arc<ServerShared>,
    connection_limit: usize,
    /// What its peers share.
    options: Arc<LinkOptions>,
    accept: Accept,
    /// What the handshakes of a TLS server begin with.
    tls: Option<TlsSetup>,
    /// Newcomers in their handshake: these count as connections.
    handshakes: HashSet<u64>,
    /// The kernel tells of newcomers.
    watched: bool,
    /// Out of descriptors: not before this.
    retry_at: Option<Instant>,
    pause: Duration,
}

impl ListenerDriver {
    pub(crate) fn new(
        server: Arc<ServerShared>,
        options: ServerOptions,
        accept: Accept,
        tls: Option<TlsSetup>,
    ) -> Self {
        Self {
            server,
            connection_limit: options.connection_limit,
            options: Arc::new(options.link),
            accept,
            tls,
            handshakes: HashSet::new(),
            watched: false,
            retry_at: None,
            pause: FIRST_PAUSE,
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

    /// The server was stopped: newcomers in their handshake go with it.
    pub(crate) fn stop(&mut self, turn: &mut Turn) -> Alive {
        turn.gone.extend(self.handshakes.drain());
        Alive::No
    }

    /// Starts to accept. `None` if it was closed meanwhile.
    pub(crate) fn start(mut self: Box<Self>, turn: &mut Turn) -> Option<Box<Self>> {
        (self.watch(turn) == Alive::Yes).then_some(self)
    }

    /// Newcomers, or time to try again.
    pub(crate) fn on_event(&mut self, turn: &mut Turn) -> Alive {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return Alive::Yes;
        }
        self.retry_at = None;
        if !self.watched && self.watch(turn) == Alive::No {
            return Alive::No;
        }
        for _ in 0..ACCEPTS_PER_TURN {
            let accepted = self.server.listener().as_ref().map(Listener::accept);
            let Some(accepted) = accepted else {
                return self.stop(turn);
            };
            match accepted {
                Ok(accepted) => {
                    self.pause = FIRST_PAUSE;
                    self.meet(accepted, turn);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Alive::Yes;
                }
                Err(error) => {
                    // Out of descriptors, nearly always. The connection waits in the backlog, and
                    // trying again at once would only spin.
                    self.server.accept_failed(is_shortage(&error));
                    self.retry_at = Some(Instant::now() + self.pause);
                    turn.set_timer(Instant::now() + self.pause, self.id());
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    return Alive::Yes;
                }
            }
        }
        turn.again(self.id());
        Alive::Yes
    }

    /// Has the kernel tell of newcomers; out of memory for one more watch, looks by the clock until
    /// there is some.
    fn watch(&mut self, turn: &mut Turn) -> Alive {
        let Some(listener) = &*self.server.listener() else {
            return Alive::No;
        };
        match turn.register(listener.as_fd(), self.id(), Interest::READABLE) {
            Ok(()) => self.watched = true,
            Err(_) => turn.set_timer(Instant::now() + LONGEST_PAUSE, self.id()),
        }
        Alive::Yes
    }

    /// A newcomer. Over TLS it has to do its handshake first.
    fn meet(&mut self, accepted: Accepted, turn: &mut Turn) {
        if self.server.live() + self.handshakes.len() >= self.connection_limit {
            // The newcomer pays: its socket is closed here.
            self.server.turned_away();
            return;
        }
        let Accepted { mut socket, peer } = accepted;
        let Some(tls) = &self.tls else {
            let ends = Ends::with_peer(&socket, peer);
            return self.welcome(socket, ends, turn);
        };
        let peer = peer.unwrap_or_else(|| self.server.address.clone());
        let begun = socket
            .secure(tls, Arc::new(TlsCounters::default()))
            .map_err(|cause| Error::io("accept", &peer, cause))
            .and_then(|()| HandshakeDriver::start(self.id(), socket, peer, &self.options, turn));
        match begun {
            Ok(newcomer) => {
                let id = newcomer.id();
                self.handshakes.insert(id);
                turn.newcomers
                    .push((id, Entry::Handshake(Box::new(newcomer))));
            }
            Err(error) => self.server.handshake_failed(error),
        }
    }

    /// A newcomer has done its handshake, or failed to.
    pub(super) fn handshake_over(&mut self, over: HandshakeOver, turn: &mut Turn) {
        self.handshakes.remove(&over.id);
        match over.outcome {
            Ok(socket) => {
                self.server.handshake_done();
                let ends = Ends::of(&socket);
                self.welcome(socket, ends, turn);
            }
            Err(error) => self.server.handshake_failed(error),
        }
    }

    fn welcome(&mut self, socket: Socket, ends: Ends, turn: &mut Turn) {
        let Ok(shared) = contain(|| self.make_link(&socket, &ends, turn)) else {
            // The user's own framing panicked when it was asked how much it adds.
            self.server.turned_away();
            return;
        };
        if !self.server.peer_comes(&shared) {
            return;
        }
        let link = Link::uncounted(Arc::clone(&shared));
        let handler = match self.accept.ask(&link) {
            Ok(handler) => handler,
            Err(reason) => return self.server.turn_away(&shared, reason),
        };
        self.server.peer_accepted();
        let (id, options) = (shared.id, Arc::clone(&self.options));
        let server = Arc::clone(&self.server);
        let driven = LinkDriver::accepted(shared, handler, options, server, (socket, ends), turn);
        if let Some(link) = driven {
            turn.newcomers.push((id, Entry::Link(link)));
        }
    }

    fn make_link(&self, socket: &Socket, ends: &Ends, turn: &Turn) -> Arc<LinkShared> {
        let io = Arc::clone(&turn.io);
        let id = io.next_id();
        let home = IoHome {
            io: Arc::clone(&io),
            id,
        };
        let outbound = Outbound::new(&self.server.outbound_options(&self.options));
        let channel = Arc::new(Channel::new(outbound, home));
        // A client of a Unix socket has no name: the server's stands for the link.
        let address = ends.peer.as_ref().unwrap_or(&self.server.address).clone();
        let shared = LinkShared::new(id, address, io, channel, false);
        shared.set_ends(ends.clone());
        if let Some(counters) = socket.tls_counters() {
            shared.count_tls(counters);
        }
        Arc::new(shared)
    }
}

impl Accept {
    pub(crate) fn new<H: Handler>(
        mut accept: impl FnMut(&Link) -> Result<H, Refusal> + Send + 'static,
    ) -> Self {
        Self(Box::new(move |link| {
            accept(link).map(|handler| Box::new(handler) as Box<dyn Handler>)
        }))
    }

    /// Asks the application for the newcomer's handler.
    pub(super) fn ask(&mut self, link: &Link) -> Result<Box<dyn Handler>, Reason> {
        match contain(|| (self.0)(link)) {
            Ok(Ok(handler)) => Ok(handler),
            Ok(Err(refusal)) => Err(Reason::Refused(refusal)),
            Err(Panicked) => Err(Reason::Panicked),
        }
    }
}

impl Drop for Accept {
    /// What the callback holds is the application's, and may panic when it goes.
    fn drop(&mut self) {
        let accept = std::mem::replace(&mut self.0, Box::new(|_| Err("stopped".into())));
        let _ = contain(|| drop(accept));
    }
}

/// Connections accepted before others have their turn.
const ACCEPTS_PER_TURN: usize = 64;
/// After a failed accept, doubling up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
