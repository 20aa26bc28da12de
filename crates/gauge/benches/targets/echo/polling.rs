//! The control for spinning: raw sockets that never block, read again and again with a `sched_yield`
//! in between. It never sleeps within a block and does nothing but read, so it is the floor.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tautline_gauge::control::End;

use super::super::rounds::Side;
use super::super::site::{Site, said};
use super::{Echo, Exchange};

pub(crate) fn start_polling(site: &Site) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    for end in [&client, &server] {
        set_nonblocking(end).map_err(said)?;
    }
    let gate = Arc::new(Gate::default());
    let (own, wire_bytes) = (Arc::clone(&gate), site.wire_bytes());
    let server = site.spawn(site.seats.server("poll-server"), move || {
        serve(&server, wire_bytes, &own)
    })?;
    let prefix_bytes = site.transport.overhead_bytes();
    let mut message = vec![0; wire_bytes];
    let length = u32::try_from(site.payload_bytes)
        .map_err(said)?
        .to_be_bytes();
    message[..prefix_bytes].copy_from_slice(&length[..prefix_bytes]);
    let polling = Polling {
        end: client,
        prefix_bytes,
        reply: vec![0; wire_bytes],
        message,
        gate,
        server,
    };
    Echo::start(polling, site)
}

struct Polling {
    end: End,
    message: Vec<u8>,
    reply: Vec<u8>,
    prefix_bytes: usize,
    gate: Arc<Gate>,
    server: JoinHandle<Option<io::Result<()>>>,
}

/// Lets the server poll during blocks only: between them the CPU is others'.
#[derive(Debug, Default)]
struct Gate {
    open: AtomicBool,
    over: AtomicBool,
}

impl Exchange for Polling {
    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.message[self.prefix_bytes..]
    }

    #[inline]
    fn send(&mut self) -> Result<(), String> {
        write_all(&self.end, &self.message).map_err(said)
    }

    #[inline]
    fn recv(&mut self) -> Result<&[u8], String> {
        let bytes = read_message(&self.end, &mut self.reply, || true).map_err(said)?;
        let bytes = bytes.ok_or("the server is gone")?;
        let (prefix, payload) = self.reply[..bytes].split_at(self.prefix_bytes.min(bytes));
        if prefix != &self.message[..self.prefix_bytes] {
            return Err("the prefix came back changed".to_owned());
        }
        Ok(payload)
    }

    fn wake(&mut self) {
        self.gate.open.store(true, Ordering::Release);
        self.server.thread().unpark();
    }

    fn rest(&mut self) {
        self.gate.open.store(false, Ordering::Release);
    }

    fn finish(self, _messages: u64) -> Result<Option<String>, String> {
        self.gate.over.store(true, Ordering::Release);
        self.server.thread().unpark();
        match self.server.join() {
            Ok(Some(outcome)) => outcome.map(|()| None).map_err(said),
            Ok(None) | Err(_) => Err("the server panicked".to_owned()),
        }
    }
}

fn serve(end: &End, wire_bytes: usize, gate: &Gate) -> io::Result<()> {
    let mut buffer = vec![0; wire_bytes];
    while !gate.over.load(Ordering::Acquire) {
        match read_message(end, &mut buffer, || gate.open.load(Ordering::Relaxed))? {
            Some(bytes) => write_all(end, &buffer[..bytes])?,
            // Between blocks nothing is under way.
            None => thread::park(),
        }
    }
    Ok(())
}

/// One message: as many bytes as fit on a stream, one datagram on UDP. `None` when polling is not
/// wanted any more before the first byte.
#[inline]
fn read_message(
    end: &End,
    buffer: &mut [u8],
    mut goes_on: impl FnMut() -> bool,
) -> io::Result<Option<usize>> {
    let mut filled = 0;
    loop {
        match end.read(&mut buffer[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                filled += bytes;
                if filled == buffer.len() || matches!(end, End::Udp(_)) {
                    return Ok(Some(filled));
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                if filled == 0 && !goes_on() {
                    return Ok(None);
                }
                thread::yield_now();
            }
            Err(cause) => return Err(cause),
        }
    }
}

#[inline]
fn write_all(end: &End, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = match end {
            End::Tcp(stream) => (&mut &*stream).write(bytes),
            End::Udp(socket) => socket.send(bytes),
            End::Uds(stream) => (&mut &*stream).write(bytes),
            End::Tls(_) | End::Serial(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        match written {
            Ok(written) => bytes = &bytes[written..],
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

fn set_nonblocking(end: &End) -> io::Result<()> {
    match end {
        End::Tcp(stream) => stream.set_nonblocking(true),
        End::Udp(socket) => socket.set_nonblocking(true),
        End::Uds(stream) => stream.set_nonblocking(true),
        End::Tls(_) | End::Serial(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}
