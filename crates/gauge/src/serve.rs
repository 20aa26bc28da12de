//! The responder: echoes and counts for any number of clients, on any number of addresses at once.
//!
//! A thread a stream client, so that with one client it blocks in `recv` and nothing else is on its
//! way, and a client that stalls, floods, sends garbage or half a message costs the others nothing. A
//! thread a UDP address and a serial line. A thread that accepts for each listener, and one that watches
//! over deadlines; neither has anything to do between two clients.
//!
//! Nobody proves who they are: whoever reaches an address may use it, unless [`ServePlan::allow`] or
//! [`ServePlan::client_certificates`] says otherwise.

mod allow;
mod clients;
mod cookie;
mod datagram;
mod descriptor;
mod desk;
mod echo;
mod held;
mod hello;
mod notice;
mod plan;
mod serial;
mod sessions;
mod sink;
mod start;
mod stream;
mod udp;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use tautline::{Address, DirectListener};

pub use self::allow::{Network, NetworkError};
use self::clients::Clients;
pub use self::descriptor::Descriptor;
use self::notice::Notices;
pub use self::plan::{Limits, ServePlan};
use self::serial::{Hangup, SerialPort};
use self::start::Listening;
use self::udp::UdpSocket;
pub use crate::certificate::{SelfSigned, self_signed};
use crate::environment::Environment;
use crate::placement::{Awake, Busy, PlacementError, Register};
use crate::report::ThreadRecord;
use crate::sys;
use crate::wire::PeerRecord;

/// A responder at work, until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    clients: Arc<Clients>,
    addresses: Vec<Address>,
    sockets: Vec<Arc<UdpSocket>>,
    lines: Vec<Arc<Hangup>>,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    started: Instant,
    hold: Vec<String>,
    _awake: Option<Awake>,
    _busy: Option<Busy>,
}

/// What a responder has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServeSummary {
    /// How long it served.
    pub elapsed: Duration,
    /// Clients served: connections that began well, and UDP clients that sent a message.
    pub clients: u64,
    /// Connections and hellos turned away.
    pub refused: u64,
    /// Messages received.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Datagrams that were none of ours, or could not be answered.
    pub dropped_datagrams: u64,
    /// Threads that did not end when they were told to.
    pub threads_left: usize,
}

/// Why a responder cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address, by the library's word.
    #[error("{0}")]
    Listen(#[from] tautline::Error),
    /// A UDP address.
    #[error("listen on {address}: {cause}{advice}")]
    ListenUdp {
        /// Where.
        address: Address,
        /// What the system said.
        cause: io::Error,
        /// What to do about it.
        advice: &'static str,
    },
    /// CPUs that cannot be had.
    #[error("{0}")]
    Placement(#[from] PlacementError),
    /// A scheduler that was required and is refused.
    #[error("{0}")]
    Scheduler(String),
    /// The system gives no thread.
    #[error("start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// What [`Server::wait`] waits for.
#[derive(Debug)]
enum Event {
    Notice(String),
    End,
}

/// Ends the wait of a [`Server::wait`] from another thread.
#[derive(Debug, Clone)]
pub struct Ender(SyncSender<Event>);

impl Ender {
    /// Ends it.
    pub fn end(&self) {
        // Nobody waits any more if the server is gone.
        let _ = self.0.send(Event::End);
    }
}

impl Server {
    /// Listens on every address, and answers from the moment that this returns.
    ///
    /// # Errors
    ///
    /// [`ServeError`]; then it listens nowhere.
    pub fn start(plan: ServePlan) -> Result<Self, ServeError> {
        // Where there is none for a client, that is told when it comes.
        let _ = sys::descriptor::raise_limit();
        let seats = start::seats(&plan.placement)?;
        let register = Register::default();
        start::try_seats(&seats, &register, plan.placement.require_sched)?;
        let Listening {
            streams,
            sockets,
            lines,
        } = start::listen(&plan)?;
        let (sender, events) = mpsc::sync_channel(EVENTS);
        let mut server = Self {
            addresses: streams
                .iter()
                .map(DirectListener::local_address)
                .chain(sockets.iter().map(|socket| socket.address().clone()))
                .chain(lines.iter().map(|line| line.address().clone()))
                .collect(),
            sockets,
            lines: lines.iter().map(SerialPort::hangup).collect(),
            events,
            started: Instant::now(),
            hold: Vec::new(),
            _awake: None,
            _busy: None,
            clients: Arc::new(Clients::new(
                plan,
                PeerRecord::of(&Environment::read()),
                Notices::new(sender.clone()),
                seats,
                register,
            )),
            sender,
        };
        server.hold();
        server.start_threads(streams, lines)?;
        Ok(server)
    }

    /// Where it listens: with the ports that the kernel chose, streams first, then udp, then
    /// serial lines with the settings that are in effect.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where and how the threads of clients run, as they read it back; each answer once.
    pub fn threads(&self) -> Vec<ThreadRecord> {
        self.clients.register().threads()
    }

    /// What of the placement could not be had, and why.
    pub fn refusals(&self) -> Vec<String> {
        let scheduler = self.clients.register().refusal();
        self.hold.iter().cloned().chain(scheduler).collect()
    }

    /// A handle that ends [`wait`](Self::wait).
    pub fn ender(&self) -> Ender {
        Ender(self.sender.clone())
    }

    /// Waits until an [`Ender`] ends it, or with [`ServePlan::once`] until the clients have left, and
    /// hands out what users should know meanwhile: who was turned away, and why.
    pub fn wait(&self, notice: &mut dyn FnMut(&str)) {
        loop {
            match self.events.recv() {
                Ok(Event::Notice(text)) => notice(&text),
                Ok(Event::End) | Err(_) => return,
            }
        }
    }

    /// Closes every client and socket, and says what was done. Bounded: what does not end within ten
    /// seconds is left and counted.
    pub fn stop(self) -> ServeSummary {
        self.end()
    }

    fn hold(&mut self) {
        let placement = &self.clients.plan().placement;
        let refused = |option: &str, cause: io::Error| format!("{option}: {cause}");
        if placement.stay_awake {
            match Awake::hold() {
                Ok(awake) => self._awake = Some(awake),
                Err(cause) => self.hold.push(refused("--stay-awake", cause)),
            }
        }
        if placement.keep_cpus_busy {
            match Busy::on(&placement.cpus) {
                Ok(busy) => self._busy = Some(busy),
                Err(cause) => self.hold.push(refused("--keep-cpus-busy", cause)),
            }
        }
    }

    fn start_threads(
        &self,
        listeners: Vec<DirectListener>,
        lines: Vec<SerialPort>,
    ) -> Result<(), ServeError> {
        let failed = ServeError::Thread;
        self.clients
            .spawn("serve-watch", watch::watch)
            .map_err(failed)?;
        for listener in listeners {
            self.clients
                .spawn("serve-accept", |clients| stream::accept(listener, clients))
                .map_err(failed)?;
        }
        for socket in &self.sockets {
            let socket = Arc::clone(socket);
            self.clients
                .spawn("serve-udp", move |clients| {
                    datagram::serve(&socket, clients)
                })
                .map_err(failed)?;
        }
        for line in lines {
            self.clients
                .spawn("serve-serial", |clients| serial::serve(line, clients))
                .map_err(failed)?;
        }
        Ok(())
    }

    fn end(&self) -> ServeSummary {
        self.clients.close_all();
        for socket in &self.sockets {
            socket.shut_down();
        }
        self.lines.iter().for_each(|line| line.hang_up());
        self.addresses.iter().for_each(stream::wake);
        let threads_left = self.clients.wait_until_gone(END_LIMIT);
        ServeSummary {
            elapsed: self.started.elapsed(),
            threads_left,
            ..self.clients.summary()
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Most notices that wait to be printed; more are counted and left out.
const EVENTS: usize = 256;

/// What ending may take on a loaded machine.
const END_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
