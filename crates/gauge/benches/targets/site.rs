//! Where the sides of one group run: their CPUs, their addresses, and who watches that they move.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tautline::{Address, Framing, IoOptions, IoThread, LinkOptions, ServerOptions, Strategy};
use tautline_gauge::clock::now_ns;
use tautline_gauge::control::End;
use tautline_gauge::placement::{Register, Seat, Seats};
use tautline_gauge::plan::Transport;
use tautline_gauge::veth::Veth;

/// What every side of one group needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) transport: Transport,
    pub(crate) payload_bytes: usize,
    pub(crate) seats: Seats,
    pub(crate) register: Arc<Register>,
    /// Between the ends, where that is not loopback.
    pub(crate) veth: Option<Arc<Veth>>,
}

impl Site {
    /// Bytes of one message on the wire.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.payload_bytes + self.transport.overhead_bytes()
    }

    /// The library's defaults, with the prefix that the raw sides write too.
    pub(crate) fn link_options(&self, strategy: Strategy) -> LinkOptions {
        let framing = match self.transport {
            Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
                Framing::length_prefix()
            }
            Transport::Udp => Framing::Raw,
        };
        LinkOptions {
            framing,
            strategy,
            ..LinkOptions::default()
        }
    }

    pub(crate) fn server_options(&self, strategy: Strategy) -> ServerOptions {
        ServerOptions {
            link: self.link_options(strategy),
            ..ServerOptions::default()
        }
    }

    /// An ephemeral loopback port, or an abstract name that leaves no file behind.
    pub(crate) fn address(&self) -> Address {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let text = match self.transport {
            Transport::Tcp => "tcp://127.0.0.1:0".to_owned(),
            Transport::Tls => "tls://127.0.0.1:0".to_owned(),
            Transport::Udp => format!("udp://{}:0", self.hosts().1),
            Transport::Uds => {
                let number = NAMES.fetch_add(1, Ordering::Relaxed);
                format!("uds://@tautline-targets-{}-{number}", process::id())
            }
            Transport::Serial => unreachable!("no group of the list is over a serial line"),
        };
        text.parse().expect("these are addresses")
    }

    /// The addresses of client and server.
    fn hosts(&self) -> (IpAddr, IpAddr) {
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.veth.as_ref().map_or((localhost, localhost), |veth| {
            (veth.client_host(), veth.server_host())
        })
    }

    /// Opens what belongs to the server where the server is.
    pub(crate) fn at_server<T>(
        &self,
        there: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        match &self.veth {
            Some(veth) => veth.in_server(there).map_err(said)?,
            None => there(),
        }
    }

    /// Both ends of a pair of connected UDP sockets.
    pub(crate) fn udp_pair(&self) -> Result<(UdpSocket, UdpSocket), String> {
        let (client_host, server_host) = self.hosts();
        let client = UdpSocket::bind((client_host, 0)).map_err(said)?;
        let to = client.local_addr().map_err(said)?;
        let server = self.at_server(|| {
            let server = UdpSocket::bind((server_host, 0)).map_err(said)?;
            server.connect(to).map_err(said)?;
            Ok(server)
        })?;
        let to = server.local_addr().map_err(said)?;
        client.connect(to).map_err(said)?;
        Ok((client, server))
    }

    /// Both ends of a pair of raw sockets.
    pub(crate) fn raw_pair(&self) -> Result<(End, End), String> {
        End::pair(self.transport, IpAddr::V4(Ipv4Addr::LOCALHOST)).map_err(said)
    }

    /// Starts a thread that takes its seat first, and returns when it has.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        seat: Seat,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Option<T>>, String> {
        let register = Arc::clone(&self.register);
        let (seated, is_seated) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(seat.role.to_owned())
            .spawn(move || {
                let outcome = seat.take(&register);
                let may_begin = outcome.is_ok();
                // The starter waits for this: it cannot be gone.
                let _ = seated.send(outcome);
                may_begin.then(body)
            })
            .map_err(said)?;
        match is_seated.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(refused)) => Err(refused.to_string()),
            Err(_) => Err(format!("the {} ended at once", seat.role)),
        }
    }

    /// Starts an I/O thread in this seat: it inherits the place of the thread that starts it.
    pub(crate) fn io_thread(&self, seat: Seat) -> Result<IoThread, String> {
        let options = IoOptions {
            name: seat.role.to_owned(),
            ..IoOptions::default()
        };
        let starter = self.spawn(seat, move || IoThread::start(options))?;
        match starter.join() {
            Ok(Some(started)) => started.map_err(said),
            Ok(None) | Err(_) => Err(format!("the {} did not start", seat.role)),
        }
    }
}

/// An error as the last column of a row.
pub(crate) fn said(error: impl ToString) -> String {
    error.to_string()
}

/// Ends the program when nothing moves any more: every wait of a block is for the other end, and a
/// benchmark that hangs says nothing.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog(Arc<Beats>);

#[derive(Debug)]
struct Beats {
    last_ns: AtomicU64,
    doing: Mutex<String>,
}

impl Watchdog {
    pub(crate) fn start() -> Result<Self, String> {
        let beats = Arc::new(Beats {
            last_ns: AtomicU64::new(now_ns()),
            doing: Mutex::default(),
        });
        let watched = Arc::downgrade(&beats);
        let watch = move || {
            while let Some(beats) = watched.upgrade() {
                if now_ns().saturating_sub(beats.last_ns.load(Ordering::Relaxed)) > SILENCE_NS {
                    let doing = beats.doing.lock().unwrap_or_else(PoisonError::into_inner);
                    eprintln!("targets: nothing moved for a minute in: {doing}");
                    process::exit(4);
                }
                drop(beats);
                thread::sleep(LOOK);
            }
        };
        thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(watch)
            .map_err(said)?;
        Ok(Self(beats))
    }

    /// Something begins or is done.
    pub(crate) fn beat(&self, doing: impl FnOnce() -> String) {
        self.0.last_ns.store(now_ns(), Ordering::Relaxed);
        *self.0.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing();
    }
}

/// How long connecting and accepting may take: far above what loopback needs.
pub(crate) const SETUP_LIMIT: Duration = Duration::from_secs(10);
const SILENCE_NS: u64 = 60_000_000_000;
const LOOK: Duration = Duration::from_secs(1);
