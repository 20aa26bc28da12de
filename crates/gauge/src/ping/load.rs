//! `--load`: what keeps the machine or the way busy while it is measured. Ended when it is dropped.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::Address;

use super::handshake::shake_hands;
use super::plan::{Load, PingPlan, transport_of};
use super::socket::Targets;
use super::{PingError, Stop};
use crate::handshake::hello;
use crate::leftovers;
use crate::plan::Sched;
use crate::primes::{self, Counting};
use crate::sys;
use crate::wire::{Mode, PeerRecord};

/// A load that runs.
#[derive(Debug)]
pub(crate) enum Running {
    Nothing,
    Primes(Counting),
    Streams(Streams),
    Command(Group),
}

impl Running {
    /// Starts it, and returns when it runs.
    pub(crate) fn start(
        plan: &PingPlan,
        address: &Address,
        own: &PeerRecord,
        stop: &Stop<'_>,
    ) -> Result<Self, PingError> {
        match &plan.load {
            Load::None => Ok(Self::Nothing),
            Load::Primes => count_primes()
                .map(Self::Primes)
                .map_err(|cause| PingError::setup(format!("--load primes: {cause}"))),
            Load::Stream(streams) => {
                Streams::start(*streams, plan, address, own, stop).map(Self::Streams)
            }
            Load::Command(command) => Group::start(command)
                .map(Self::Command)
                .map_err(|cause| PingError::setup(format!("--load: sh -c '{command}': {cause}"))),
        }
    }

    /// What to say of it when it did not keep running.
    pub(crate) fn complaint(&mut self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Primes(counting) => counting
                .refused()
                .map(|why| format!("the prime count runs as other, not idle: {why}")),
            Self::Streams(streams) => streams
                .broke
                .load(Ordering::Relaxed)
                .then(|| "a load stream broke off before the end".to_owned()),
            Self::Command(group) => match group.child.try_wait() {
                Ok(Some(status)) => Some(format!("the load command ended early, with {status}")),
                Ok(None) | Err(_) => None,
            },
        }
    }
}

/// Returns once it runs.
fn count_primes() -> io::Result<Counting> {
    let threads = sys::sched::affinity()?.len();
    let counting = Counting::start(&primes::Plan {
        repeat: true,
        ..primes::Plan::once(PRIMES_LIMIT, threads, Sched::Idle)
    })?;
    let deadline = Instant::now() + CONNECT_LIMIT;
    while counting.cpus_seen() < threads && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(counting)
}

/// One-way streams to the server, as fast as they go.
#[derive(Debug)]
pub(crate) struct Streams {
    stop: Arc<AtomicBool>,
    broke: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    bytes: Arc<AtomicU64>,
}

impl Streams {
    fn start(
        streams: usize,
        plan: &PingPlan,
        address: &Address,
        own: &PeerRecord,
        stop: &Stop<'_>,
    ) -> Result<Self, PingError> {
        // Beside a datagram server stands the stream server of the same number.
        let address = match address {
            Address::Udp { host, port } => Address::Tcp {
                host: host.clone(),
                port: *port,
            },
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => {
                address.clone()
            }
        };
        let in_words = |why: PingError| PingError::setup(format!("--load stream: {why}"));
        let targets = Targets::find(&address, &plan.socket, stop).map_err(in_words)?;
        let mut running = Self {
            stop: Arc::default(),
            broke: Arc::default(),
            threads: Vec::new(),
            bytes: Arc::default(),
        };
        for _ in 0..streams {
            let deadline = Instant::now() + CONNECT_LIMIT;
            let (socket, _) = targets
                .connect(&plan.socket, deadline, stop)
                .map_err(in_words)?;
            let hello = hello(Mode::Sink, MESSAGE_BYTES, own);
            let transport = transport_of(&address);
            shake_hands(&socket, &address, transport, &hello, deadline, stop).map_err(in_words)?;
            let (stopped, broke) = (Arc::clone(&running.stop), Arc::clone(&running.broke));
            let bytes = Arc::clone(&running.bytes);
            let thread = thread::Builder::new()
                .name("gauge-load".to_owned())
                .spawn(move || {
                    if pour(&socket, &stopped, &bytes).is_err() {
                        broke.store(true, Ordering::Relaxed);
                    }
                })
                .map_err(|cause| PingError::setup(format!("--load stream: {cause}")))?;
            running.threads.push(thread);
        }
        Ok(running)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing to hand back.
            let _ = thread.join();
        }
    }
}

/// Frames of one size until told to stop.
fn pour(socket: &Socket, stop: &AtomicBool, bytes: &AtomicU64) -> io::Result<()> {
    socket.set_write_timeout(Some(TICK))?;
    let mut frame = (MESSAGE_BYTES as u32).to_be_bytes().to_vec();
    frame.resize(4 + MESSAGE_BYTES, 0x5a);
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        match socket.send(&frame[written..]) {
            Ok(more) => {
                written = (written + more) % frame.len();
                bytes.fetch_add(more as u64, Ordering::Relaxed);
            }
            Err(cause)
                if matches!(
                    cause.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// A command and everything it started, as long as that stays in its process group.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
}

impl Group {
    fn start(command: &str) -> io::Result<Self> {
        // Standard output is the report's.
        let child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        leftovers::group_started(child.id());
        Ok(Self { child })
    }

    fn signal(&self, signal: libc::c_int) {
        // It may have ended by itself.
        let _ = sys::process::kill_group(self.child.id(), signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        // What ignored the first signal, and what the shell left behind.
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
        leftovers::group_ended(self.child.id());
    }
}

/// Hours of counting.
const PRIMES_LIMIT: u64 = 1_000_000_000_000;
/// Large enough that the way is what limits, not the calls.
const MESSAGE_BYTES: usize = 64 * 1_024;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(100);
const END_LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_and_its_children_end_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let command = format!("sleep 1000 & echo $! > {}; wait", pid_file.display());
        let group = Group::start(&command).unwrap();
        let pid = loop {
            match std::fs::read_to_string(&pid_file) {
                Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
                _ => thread::yield_now(),
            }
        };
        drop(group);
        // Whoever is killed ends a moment later; a zombie whose parent is init has ended.
        let is_alive = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            status
                .unwrap_or_default()
                .lines()
                .any(|line| line.starts_with("State:") && !line.contains('Z'))
        };
        let watchdog = Instant::now() + Duration::from_secs(60);
        while is_alive() {
            assert!(Instant::now() < watchdog, "{pid} goes on");
            thread::yield_now();
        }
    }
}
