//! The control: raw sockets in one epoll set at each end, answered inline, one read and one write a
//! message. `mio` is there for the system calls alone.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use tautline_gauge::control::End;

use super::super::peers::tokio_end::frame;
use super::super::rounds::Side;
use super::super::site::{Site, said};
use super::{Client, Crowd, Exchange, Floor, Together, room_for};

pub(crate) fn start(site: &Site, crowd: Crowd) -> Result<Box<dyn Side>, String> {
    room_for(crowd)?;
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..crowd.connections() {
        let (client, server) = site.raw_pair()?;
        near.push(client);
        far.push(server);
    }
    let mut set = Set::new(far).map_err(said)?;
    let stop = Waker::new(set.poll.registry(), STOP).map_err(said)?;
    let wire_bytes = site.wire_bytes();
    let server = site.spawn(site.seats.server("epoll-server"), move || {
        serve(&mut set, wire_bytes)
    })?;
    let sockets = Sockets {
        floor: Arc::new(Floor::new()?),
        exchanges: near.iter().map(|_| Exchange::new(site)).collect(),
        set: Set::new(near).map_err(said)?,
        wire: frame(site),
        reply: vec![0; wire_bytes],
        server,
        stop,
    };
    Together::start(sockets, crowd)
}

/// Sockets, each under its place as the token.
struct Set {
    poll: Poll,
    events: Events,
    ends: Vec<End>,
}

impl Set {
    fn new(ends: Vec<End>) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (place, end) in ends.iter().enumerate() {
            let descriptor = descriptor(end)?;
            let mut source = SourceFd(&descriptor);
            poll.registry()
                .register(&mut source, Token(place), Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(MOST_EVENTS),
            ends,
        })
    }

    fn wait(&mut self) -> io::Result<()> {
        loop {
            match self.poll.poll(&mut self.events, None) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }
}

fn serve(set: &mut Set, wire_bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; wire_bytes];
    loop {
        set.wait()?;
        for event in &set.events {
            let Some(end) = set.ends.get(event.token().0) else {
                return Ok(());
            };
            if read_message(end, &mut buffer)? {
                end.write_all(&buffer)?;
            }
        }
    }
}

/// The sockets block: the next message of a connection makes a new event, and the rest of a message that
/// has begun is on its way. False when the other end has gone.
fn read_message(end: &End, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match end.read(&mut buffer[filled..])? {
            0 => return Ok(false),
            bytes => filled += bytes,
        }
    }
    Ok(true)
}

struct Sockets {
    floor: Arc<Floor>,
    set: Set,
    exchanges: Vec<Exchange>,
    wire: Vec<u8>,
    reply: Vec<u8>,
    server: JoinHandle<Option<io::Result<()>>>,
    stop: Waker,
}

impl Client for Sockets {
    fn floor(&self) -> &Floor {
        &self.floor
    }

    fn exchange(&mut self) -> Result<(), String> {
        let prefix_bytes = self.wire.len() - self.exchanges[0].payload.len();
        for (exchange, end) in self.exchanges.iter_mut().zip(&self.set.ends) {
            self.wire[prefix_bytes..].copy_from_slice(exchange.first());
            end.write_all(&self.wire).map_err(said)?;
        }
        let mut busy = self.exchanges.len();
        while busy > 0 {
            self.set.wait().map_err(said)?;
            for event in &self.set.events {
                let place = event.token().0;
                let (end, exchange) = (&self.set.ends[place], &mut self.exchanges[place]);
                if !read_message(end, &mut self.reply).map_err(said)? {
                    return Err("the server has gone".to_owned());
                }
                if exchange.settle(&self.floor, &self.reply[prefix_bytes..]) {
                    self.wire[prefix_bytes..].copy_from_slice(exchange.next());
                    end.write_all(&self.wire).map_err(said)?;
                } else {
                    busy -= 1;
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Option<String>, String> {
        self.stop.wake().map_err(said)?;
        match self.server.join() {
            Ok(Some(outcome)) => outcome
                .map(|()| None)
                .map_err(|cause| format!("server: {cause}")),
            Ok(None) | Err(_) => Err("the server panicked".to_owned()),
        }
    }
}

fn descriptor(end: &End) -> io::Result<RawFd> {
    match end {
        End::Tcp(stream) => Ok(stream.as_raw_fd()),
        End::Uds(stream) => Ok(stream.as_raw_fd()),
        End::Udp(_) | End::Tls(_) | End::Serial(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// No socket has this place.
const STOP: Token = Token(usize::MAX);
/// As the library takes at most from one wait.
const MOST_EVENTS: usize = 1024;
