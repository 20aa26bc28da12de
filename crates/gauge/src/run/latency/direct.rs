//! `direct` and `spin`: a `DirectLink` at both ends, one thread each; at this end alone where the server
//! is elsewhere.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tautline::{
    Address, Closer, DirectLink, DirectListener, LinkOptions, RecvError, Request, Strategy,
};

use super::exchange::{Exchange, Fault, Reply};
use crate::null_modem::NullModem;
use crate::plan::{Driver, Transport};
use crate::run::Broken;
use crate::run::plug::Plug;
use crate::run::remote::Remote;
use crate::run::site::{SETUP_LIMIT, Site};
use crate::run::supervise::{Pulse, STALL};
use crate::stamp::Stamp;

/// A direct client, and its direct server where that is ours: it ends when this is dropped.
#[derive(Debug)]
pub(super) struct DirectEcho {
    link: DirectLink,
    driver: Driver,
    message: Vec<u8>,
    patience: Option<Patience>,
    stamp: Stamp,
    /// Where it is ours.
    server: Option<Server>,
    /// Between the two on a serial line; held until both are gone.
    modem: Option<NullModem>,
}

impl DirectEcho {
    /// Listens at `address` and connects; both ends poll for `spin` before they wait. Without one, as on
    /// serial lines, each opens its own end of a null modem.
    pub(super) fn start(
        site: &Site,
        driver: Driver,
        address: Option<Address>,
        spin: Duration,
    ) -> Result<Self, Broken> {
        let options = LinkOptions {
            spin,
            ..site.far_options(Strategy::Reliable)?
        };
        let Some(address) = address else {
            let modem = site.null_modem()?;
            let door = Door::Line(modem.far_address(), options);
            let (server, _) = Server::start(site, driver, door)?;
            let link = connect(site, &modem.near_address(), spin)?;
            let mut echo = Self::new(site, driver, link, Stamp::Probe, Some(server));
            echo.modem = Some(modem);
            return Ok(echo);
        };
        let (server, address) = Server::start(site, driver, Door::Listener(address, options))?;
        let link = connect(site, &address, spin)?;
        Ok(Self::new(site, driver, link, Stamp::Probe, Some(server)))
    }

    /// Opens a port that is its own other end; it polls for `spin` before it waits.
    pub(super) fn alone(
        site: &Site,
        driver: Driver,
        plug: &Plug,
        spin: Duration,
    ) -> Result<Self, Broken> {
        let link = connect(site, &plug.address(), spin)?;
        Ok(Self::new(site, driver, link, Stamp::Probe, None))
    }

    /// Connects to a server elsewhere; this end polls for `spin` before it waits.
    pub(super) fn reach(
        site: &Site,
        driver: Driver,
        remote: &Remote,
        spin: Duration,
    ) -> Result<Self, Broken> {
        let mut link = connect(site, &remote.reached, spin)?;
        let stamp = remote.greet(site, &mut link).map_err(Broken::setup)?;
        Ok(Self::new(site, driver, link, stamp, None))
    }

    fn new(
        site: &Site,
        driver: Driver,
        link: DirectLink,
        stamp: Stamp,
        server: Option<Server>,
    ) -> Self {
        // On streams nothing is lost, and the watching thread ends a wait that lasts too long.
        let patience = (site.transport == Transport::Udp).then(Patience::new);
        Self {
            link,
            driver,
            message: vec![0; site.payload_bytes],
            patience,
            stamp,
            server,
            modem: None,
        }
    }
}

/// A link that the watching thread can close.
fn connect(site: &Site, address: &Address, spin: Duration) -> Result<DirectLink, Broken> {
    let options = LinkOptions {
        spin,
        ..site.link_options(Strategy::Reliable)?
    };
    let link = DirectLink::connect(address, options).map_err(Broken::setup)?;
    site.secured(link.secured())?;
    let closer = link.closer();
    site.pulse.on_close(move || closer.close());
    Ok(link)
}

impl Drop for DirectEcho {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            server.end();
        }
    }
}

impl Exchange for DirectEcho {
    fn stamp(&self) -> Stamp {
        self.stamp
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.message
    }

    #[inline]
    fn send(&mut self, _whole: bool) -> Result<(), String> {
        let name = self.driver.token();
        self.link
            .send(&self.message)
            .map_err(|error| format!("{name}: send: {error}"))
    }

    #[inline]
    fn recv(&mut self) -> Result<Reply<'_>, Fault> {
        let deadline = self.patience.as_mut().map(Patience::deadline);
        match self.link.recv(deadline) {
            Ok(message) => Ok(Reply::Bytes(message)),
            Err(RecvError::TimedOut) => Err(Fault::NoReply),
            Err(error) => {
                let name = self.driver.token();
                Err(Fault::Broken(format!("{name}: receive: {error}")))
            }
        }
    }
}

/// A deadline that is read off the clock now and then only: it bounds a wait, it times nothing.
#[derive(Debug)]
struct Patience {
    deadline: Instant,
    uses: u32,
}

impl Patience {
    fn new() -> Self {
        Self {
            deadline: Instant::now(),
            uses: 0,
        }
    }

    fn deadline(&mut self) -> Instant {
        if self.uses == 0 || self.deadline <= Instant::now() {
            self.uses = USES;
            self.deadline = Instant::now() + 2 * STALL;
        }
        self.uses -= 1;
        self.deadline
    }
}

/// 64 echoes of 1 ms each still leave a wait most of its time.
const USES: u32 = 64;

/// The echo server's thread.
#[derive(Debug)]
struct Server {
    closer: Arc<Mutex<Ending>>,
    thread: Option<JoinHandle<()>>,
}

/// How to end the server, whether its peer has come yet or not.
#[derive(Debug, Default)]
struct Ending {
    closer: Option<Closer>,
    asked: bool,
}

impl Ending {
    fn ask(&mut self) {
        self.asked = true;
        if let Some(closer) = &self.closer {
            closer.close();
        }
    }
}

impl Server {
    /// With the address that clients reach it by.
    fn start(site: &Site, driver: Driver, door: Door) -> Result<(Self, Address), Broken> {
        let (bound, is_bound) = mpsc::sync_channel(1);
        let ending = Arc::new(Mutex::new(Ending::default()));
        let (own, closing) = (Arc::clone(&ending), Arc::clone(&ending));
        let pulse = Arc::clone(&site.pulse);
        let role = if driver == Driver::Spin {
            "spin-server"
        } else {
            "direct-server"
        };
        // Opened on the server's own thread: options may depend on where that runs.
        let thread = site.spawn(site.seats.server(role), move || {
            let (entrance, address) = match door.open() {
                Ok(open) => open,
                Err(error) => return drop(bound.send(Err(error))),
            };
            if bound.send(Ok(address)).is_ok()
                && let Some(link) = entrance.enter(&own, &pulse)
            {
                echo(link);
            }
        })?;
        site.pulse.on_close(move || lock(&closing).ask());
        let server = Self {
            closer: ending,
            thread: Some(thread),
        };
        match is_bound.recv() {
            Ok(Ok(address)) => Ok((server, address)),
            Ok(Err(error)) => Err(Broken::setup(error)),
            Err(_) => Err(Broken::Setup(format!("the {role} ended at once"))),
        }
    }

    fn end(&mut self) {
        lock(&self.closer).ask();
        if let Some(thread) = self.thread.take() {
            // A server that panicked has been noticed by its client.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where the server will be, not opened yet.
enum Door {
    /// A listener, for one peer.
    Listener(Address, LinkOptions),
    /// One end of a line, whose other end is the peer's.
    Line(Address, LinkOptions),
}

/// The same, opened.
enum Entrance {
    Listener(Box<DirectListener>),
    Line(Box<DirectLink>),
}

impl Door {
    fn open(self) -> Result<(Entrance, Address), tautline::Error> {
        match self {
            Self::Listener(address, options) => {
                let listener = DirectListener::bind(&address, options)?;
                let address = listener.local_address();
                Ok((Entrance::Listener(Box::new(listener)), address))
            }
            Self::Line(address, options) => {
                let link = DirectLink::connect(&address, options)?;
                Ok((Entrance::Line(Box::new(link)), address))
            }
        }
    }
}

impl Entrance {
    /// The link to the one peer, unless ending is asked for first.
    fn enter(self, ending: &Mutex<Ending>, pulse: &Pulse) -> Option<DirectLink> {
        let link = match self {
            Self::Listener(mut listener) => accept(&mut listener, ending, pulse)?,
            Self::Line(link) => *link,
        };
        let mut ending = lock(ending);
        ending.closer = Some(link.closer());
        (!ending.asked).then_some(link)
    }
}

/// Waits for the one peer, in steps, so that ending is noticed before it comes.
fn accept(
    listener: &mut DirectListener,
    ending: &Mutex<Ending>,
    pulse: &Pulse,
) -> Option<DirectLink> {
    let limit = Instant::now() + SETUP_LIMIT;
    while Instant::now() < limit && !pulse.is_stopping() && !lock(ending).asked {
        if let Ok(link) = listener.accept(Some(Instant::now() + ACCEPT_STEP)) {
            return Some(link);
        }
    }
    None
}

fn echo(mut link: DirectLink) {
    // However it ends, the client finds out: it misses the reply.
    while let Ok(Request {
        message, replies, ..
    }) = link.request(None)
    {
        if replies.send(message).is_err() {
            return;
        }
    }
}

fn lock(ending: &Mutex<Ending>) -> std::sync::MutexGuard<'_, Ending> {
    // Whatever panicked meanwhile, the server has to be ended.
    ending.lock().unwrap_or_else(PoisonError::into_inner)
}

const ACCEPT_STEP: Duration = Duration::from_millis(100);
