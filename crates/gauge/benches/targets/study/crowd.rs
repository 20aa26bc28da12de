//! T12: ten thousand links that do nothing, with their server in one process and the clients in
//! another; how fast they come in, and one message to a thousand of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tautline::{
    Address, Handler, IoOptions, IoThread, Link, LinkOptions, Opened, Received, Refusal,
    ServerOptions,
};
use tautline_gauge::clock::now_ns;
use tautline_gauge::statistics::median;
use tautline_gauge::usage;

use super::super::list::{SMALL, Target};
use super::super::options::Options;
use super::super::site::{Watchdog, said};
use super::child::{Child, obey, tell};
use super::{Figure, Finding};

pub(super) fn study(options: &Options, watchdog: &Watchdog) -> Vec<Result<Finding, String>> {
    let explain = |part: &'static str| move |why: String| format!("T12 {part}: {why}");
    vec![
        idle(options, watchdog).map_err(explain("idle links")),
        broadcast(options, watchdog).map_err(explain("broadcast")),
    ]
}

/// Both processes, connected by so many links.
struct Crowd {
    server: Child,
    clients: Child,
    address: String,
}

impl Crowd {
    fn start() -> Result<Self, String> {
        let mut server = Child::start(SERVER)?;
        let address = server.hear()?;
        let mut clients = Child::start(CLIENTS)?;
        clients.hear()?;
        Ok(Self {
            server,
            clients,
            address,
        })
    }

    /// Returns once so many links are open at both ends: when the server opened the first and the
    /// last.
    fn grow_to(&mut self, links: usize, watchdog: &Watchdog) -> Result<[u64; 2], String> {
        let mut opened = 0;
        while opened < links {
            opened = (opened + AT_ONCE).min(links);
            watchdog.beat(|| format!("T12, {opened} links"));
            self.clients
                .ask(&format!("connect {opened} {}", self.address))?;
            self.server.ask(&format!("opened {opened}"))?;
        }
        self.server.ask_numbers(&format!("opened {links}"))
    }
}

fn idle(options: &Options, watchdog: &Watchdog) -> Result<Finding, String> {
    let mut crowd = Crowd::start()?;
    let most = crowd.server.ask_numbers::<1>("limit")?[0] as usize;
    let links = options.links.min(most.saturating_sub(SPARE_DESCRIPTORS));
    // What the first link takes is not what each takes.
    crowd.grow_to(1, watchdog)?;
    let memory = |child: &mut Child| child.ask_numbers::<2>("memory");
    let (server, clients) = (memory(&mut crowd.server)?, memory(&mut crowd.clients)?);
    let [first_ns, last_ns] = crowd.grow_to(links, watchdog)?;
    let (crowded, clients_crowded) = (memory(&mut crowd.server)?, memory(&mut crowd.clients)?);
    let each = |name, [before, _]: [u64; 2], [after, _]: [u64; 2]| {
        let kib = after.saturating_sub(before) as f64 / 1024.0 / (links.max(2) - 1) as f64;
        Figure::counted(name, kib, "KiB", 4.0)
    };
    let more_threads = crowded[1].saturating_sub(server[1]) as f64;
    let accepted = links as f64 * 1e9 / last_ns.saturating_sub(first_ns).max(1) as f64;
    // With every peer's queue used once, and empty again.
    crowd.server.ask("broadcast")?;
    crowd.clients.ask(&format!("arrived {links}"))?;
    let after = memory(&mut crowd.server)?;
    let pool_mib = after[0].saturating_sub(crowded[0]) as f64 / f64::from(1 << 20);
    let figures = vec![
        each("a peer of the server", server, crowded),
        each("a client", clients, clients_crowded),
        Figure::counted("more threads", more_threads, "", 0.0),
        Figure::counted("more after a broadcast", pool_mib, "MiB", 16.0),
        Figure::reported("accepted", accepted, "/s"),
    ];
    let fewer = (links < options.links).then(|| {
        format!(
            "{most} descriptors are allowed, so {links} links and not {}",
            options.links
        )
    });
    Ok(Finding::new(Target::T12, format!("{links} idle links"), figures).noted(fewer))
}

fn broadcast(options: &Options, watchdog: &Watchdog) -> Result<Finding, String> {
    let peers = options.links.min(BROADCAST_PEERS);
    let mut crowd = Crowd::start()?;
    crowd.grow_to(peers, watchdog)?;
    let (mut times_us, mut calls_us, mut cpu_ns) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        watchdog.beat(|| "T12, broadcast".to_owned());
        let [before_ns] = crowd.server.ask_numbers("cpu")?;
        let [start_ns, call_end_ns, accepted] = crowd.server.ask_numbers("broadcast")?;
        let arrived = peers * (round + 1);
        let [last_ns] = crowd.clients.ask_numbers(&format!("arrived {arrived}"))?;
        let [after_ns] = crowd.server.ask_numbers("cpu")?;
        if accepted as usize != peers {
            return Err(format!("{accepted} of {peers} peers took the message"));
        }
        // The first is to warm up.
        if round > 0 {
            times_us.push(last_ns.saturating_sub(start_ns) as f64 / 1e3);
            calls_us.push((call_end_ns - start_ns) as f64 / 1e3);
            cpu_ns.push((after_ns - before_ns) as f64 / peers as f64);
        }
    }
    let middle = |values: &mut [f64]| median(values).unwrap_or(f64::NAN);
    let figures = vec![
        Figure::reported("the last has it after", middle(&mut times_us), "us"),
        Figure::reported("the call took", middle(&mut calls_us), "us"),
        Figure::reported("server CPU a peer", middle(&mut cpu_ns), "ns"),
    ];
    let what = format!("{SMALL} B to {peers} peers");
    Ok(Finding::new(Target::T12, what, figures))
}

/// The server's process.
pub(super) fn serve() -> Result<(), String> {
    let limit = usage::raise_descriptor_limit().map_err(said)?;
    let io = IoThread::start(IoOptions::default()).map_err(said)?;
    let opened = Arc::new(Events::new());
    let own = Arc::clone(&opened);
    let options = ServerOptions {
        connection_limit: usize::try_from(limit).map_err(said)?.min(MOST_LINKS),
        ..ServerOptions::default()
    };
    let address: Address = "tcp://127.0.0.1:0".parse().map_err(said)?;
    let accept = move |_peer: &Link| Ok::<_, Refusal>(Peer(Arc::clone(&own)));
    let server = io.listen(&address, options, accept).map_err(said)?;
    tell(&server.local_address().to_string());
    let message = [7; SMALL];
    obey(|command, rest| match command {
        "limit" => Ok(limit.to_string()),
        "opened" => {
            opened.wait(rest.parse().map_err(said)?);
            Ok(format!("{} {}", opened.first_ns(), opened.last_ns()))
        }
        "broadcast" => {
            let start_ns = now_ns();
            let outcome = server.broadcast(&message);
            let end_ns = now_ns();
            Ok(format!("{start_ns} {end_ns} {}", outcome.accepted))
        }
        _ => Err(format!("{command}: no such command")),
    })
}

/// The clients' process.
pub(super) fn connect() -> Result<(), String> {
    usage::raise_descriptor_limit().map_err(said)?;
    let io = IoThread::start(IoOptions::default()).map_err(said)?;
    let (opened, arrived) = (Arc::new(Events::new()), Arc::new(Events::new()));
    let mut links = Vec::with_capacity(MOST_LINKS);
    tell("ready");
    obey(|command, rest| match command {
        "connect" => {
            let (wanted, address) = rest.split_once(' ').ok_or("connect N ADDRESS")?;
            let (wanted, address) = (
                wanted.parse().map_err(said)?,
                address.parse().map_err(said)?,
            );
            while links.len() < wanted {
                let client = Client(Arc::clone(&opened), Arc::clone(&arrived));
                let link = io.connect(&address, LinkOptions::default(), client);
                links.push(link.map_err(said)?);
            }
            opened.wait(wanted as u64);
            Ok("connected".to_owned())
        }
        "arrived" => {
            arrived.wait(rest.parse().map_err(said)?);
            Ok(arrived.last_ns().to_string())
        }
        _ => Err(format!("{command}: no such command")),
    })
}

struct Peer(Arc<Events>);

impl Handler for Peer {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.0.note();
    }

    fn message(&mut self, _link: &Link, _message: &[u8], _received: Received) {}
}

struct Client(Arc<Events>, Arc<Events>);

impl Handler for Client {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.0.note();
    }

    fn message(&mut self, _link: &Link, _message: &[u8], _received: Received) {
        // Without a framing and with an empty socket, what was sent at once is read at once.
        self.1.note();
    }
}

/// How many there were, and the time of the first and of the last.
struct Events {
    seen: AtomicU64,
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Events {
    fn new() -> Self {
        Self {
            seen: AtomicU64::new(0),
            first_ns: AtomicU64::new(u64::MAX),
            last_ns: AtomicU64::new(0),
        }
    }

    fn note(&self) {
        let at_ns = now_ns();
        self.first_ns.fetch_min(at_ns, Ordering::Relaxed);
        self.last_ns.fetch_max(at_ns, Ordering::Relaxed);
        self.seen.fetch_add(1, Ordering::Release);
    }

    /// Looks now and then: waking somebody for every event would be in what is measured.
    fn wait(&self, least: u64) {
        while self.seen.load(Ordering::Acquire) < least {
            thread::sleep(A_MOMENT);
        }
    }

    fn first_ns(&self) -> u64 {
        self.first_ns.load(Ordering::Relaxed)
    }

    fn last_ns(&self) -> u64 {
        self.last_ns.load(Ordering::Relaxed)
    }
}

pub(super) const SERVER: &str = "server";
pub(super) const CLIENTS: &str = "clients";
/// Fewer than the queue of a listener holds, so that nobody is sent away to come again a second later.
const AT_ONCE: usize = 500;
const BROADCAST_PEERS: usize = 1_000;
const MOST_LINKS: usize = 100_000;
/// Beside the links': the standard streams, epoll and bell, libraries.
const SPARE_DESCRIPTORS: usize = 64;
const A_MOMENT: Duration = Duration::from_micros(500);
