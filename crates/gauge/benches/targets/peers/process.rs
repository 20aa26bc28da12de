//! A peer that is a program: its server runs in the server's seat as long as the side does, its client
//! once a block, as a child of the measuring thread and so in that thread's place.

use std::env;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tautline_gauge::plan::Transport;

use super::super::site::{SETUP_LIMIT, Site, said};

/// Where a program of this name is, as a shell would find it.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&folders).map(|folder| folder.join(name));
    candidates.find(|path| path.is_file())
}

/// A server process; it ends with this value.
pub(super) struct ServerProcess(Child);

impl ServerProcess {
    /// Starts it and waits until it has bound `port`.
    pub(super) fn start(site: &Site, mut command: Command, port: u16) -> Result<Self, String> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // A child takes the place of the thread that starts it.
        let starter = site.spawn(site.seats.server("server-process"), move || command.spawn())?;
        let started = match starter.join() {
            Ok(Some(started)) => started.map_err(said)?,
            Ok(None) | Err(_) => return Err("the server was not started".to_owned()),
        };
        let mut server = Self(started);
        let deadline = Instant::now() + SETUP_LIMIT;
        while is_free(site.transport, port) {
            if let Some(status) = server.0.try_wait().map_err(said)? {
                return Err(format!("the server ended at once: {status}"));
            }
            if Instant::now() > deadline {
                return Err(format!("the server did not take port {port}"));
            }
            thread::sleep(LOOK);
        }
        Ok(server)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of loopback that nobody has right now. A server takes a number only, so somebody else may
/// take it in between; then the server says so and the side is left out.
pub(super) fn free_port(transport: Transport) -> Result<u16, String> {
    let bound = match transport {
        Transport::Udp => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr()),
        Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr())
        }
    };
    bound.map(|address| address.port()).map_err(said)
}

fn is_free(transport: Transport, port: u16) -> bool {
    let bound = match transport {
        Transport::Udp => UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).map(drop),
        Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(drop)
        }
    };
    !matches!(bound, Err(cause) if cause.kind() == io::ErrorKind::AddrInUse)
}

/// Runs a client to its end and hands back what it printed.
pub(super) fn run(mut command: Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(said)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    // Some say why on stdout.
    let errors = String::from_utf8_lossy(&output.stderr);
    let why = errors
        .lines()
        .chain(text.lines())
        .rfind(|line| !line.trim().is_empty());
    Err(format!(
        "{}: {}",
        output.status,
        why.unwrap_or("nothing said").trim()
    ))
}

/// Their clients measure whole seconds: so few rounds give a verdict, and more would take too long.
pub(super) const ROUNDS: usize = 8;
const LOOK: Duration = Duration::from_millis(5);
