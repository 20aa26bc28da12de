//! The client's half of the handshake with `serve`, and the question at the end, each within a bound.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::Address;

use super::{PingError, Stop};
use crate::plan::Transport;
use crate::sys;
use crate::wire::{
    Counts, HEADER_BYTES, HELLO_DATAGRAM_BYTES, HELLO_LIMIT_BYTES, Header, Hello, Kind, Mode,
    PeerRecord, Welcome,
};

/// What the server said.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// Who it is.
    pub(crate) peer: PeerRecord,
    /// What every datagram has to carry; 0 on streams.
    pub(crate) cookie: u64,
}

/// Agrees on a message size, and says who we are.
pub(crate) fn shake_hands(
    socket: &Socket,
    address: &Address,
    transport: Transport,
    hello: &Hello,
    deadline: Instant,
    stop: &Stop<'_>,
) -> Result<Agreed, PingError> {
    let wait = Wait { deadline, stop };
    let outcome = match transport {
        Transport::Udp => by_datagram(socket, hello, &wait),
        Transport::Tcp | Transport::Uds => by_stream(socket, hello, &wait),
    };
    outcome.map_err(|why| PingError::setup(format!("{address}: {why}")))
}

/// Asks a datagram server what it has had of us. `None` if it does not answer.
/// Other datagrams that come meanwhile are handed to `stray`.
pub(crate) fn ask_counts(
    socket: &Socket,
    cookie: u64,
    stop: &Stop<'_>,
    stray: &mut dyn FnMut(&[u8]),
) -> Option<Counts> {
    let nonce = crate::clock::now_ns();
    let mut question = vec![0; HELLO_DATAGRAM_BYTES];
    let header = Header {
        kind: Kind::Question,
        word: cookie,
        sequence: nonce,
    };
    header.write(&mut question);
    let wait = Wait {
        deadline: Instant::now() + QUESTION_LIMIT,
        stop,
    };
    let answer = exchange(socket, &question, Kind::Counts, nonce, &wait, stray).ok()?;
    Counts::decode(&answer.body).ok()
}

fn by_stream(socket: &Socket, hello: &Hello, wait: &Wait<'_, '_>) -> Result<Agreed, String> {
    let body = hello.encode();
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    // A fresh socket has room for it.
    let said = |cause: io::Error| {
        match cause.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            "it ended the connection instead of a handshake: it is no `tautline serve`, or refuses us"
                .to_owned()
        }
        io::ErrorKind::TimedOut => {
            "it took the connection and answers nothing: it is no `tautline serve`, or hangs"
                .to_owned()
        }
        _ => format!("handshake: {cause}"),
    }
    };
    let sent = socket.send(&frame).map_err(said)?;
    if sent < frame.len() {
        return Err("handshake: the socket takes no whole hello".to_owned());
    }
    let mut length = [0; 4];
    read_exact(socket, &mut length, wait).map_err(said)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > HELLO_LIMIT_BYTES {
        return Err("it does not speak the protocol of `tautline serve`".to_owned());
    }
    let mut body = vec![0; length];
    read_exact(socket, &mut body, wait).map_err(said)?;
    let welcome = Welcome::decode(&body).map_err(|why| why.to_string())?;
    agreed(welcome, 0)
}

fn by_datagram(socket: &Socket, hello: &Hello, wait: &Wait<'_, '_>) -> Result<Agreed, String> {
    let nonce = crate::clock::now_ns();
    let mut datagram = vec![0; HELLO_DATAGRAM_BYTES];
    let mut body = hello.encode();
    if HEADER_BYTES + body.len() > datagram.len() {
        // Names of unheard-of length: who we are matters less than that it fits.
        let nameless = Hello {
            record: PeerRecord {
                version: hello.record.version.clone(),
                boot_id: hello.record.boot_id.clone(),
                network_namespace: hello.record.network_namespace,
                ..PeerRecord::default()
            },
            ..hello.clone()
        };
        body = nameless.encode();
    }
    datagram[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(&body);
    let header = Header {
        kind: Kind::Hello,
        word: 0,
        sequence: nonce,
    };
    header.write(&mut datagram);
    let answer = exchange(socket, &datagram, Kind::Welcome, nonce, wait, &mut |_| {}).map_err(|cause| {
        match cause.kind() {
            io::ErrorKind::ConnectionRefused => {
                "connection refused: nobody listens there".to_owned()
            }
            io::ErrorKind::TimedOut => {
                "no answer: nobody listens there, it is no `tautline serve`, or a firewall is between"
                    .to_owned()
            }
            _ => format!("handshake: {cause}"),
        }
    })?;
    let welcome = Welcome::decode(&answer.body).map_err(|why| why.to_string())?;
    agreed(welcome, answer.word)
}

fn agreed(welcome: Welcome, cookie: u64) -> Result<Agreed, String> {
    match welcome.refusal {
        Some(refusal) => Err(format!("it refuses: {}", refusal.reason)),
        None => Ok(Agreed {
            peer: welcome.record,
            cookie,
        }),
    }
}

struct Wait<'a, 'b> {
    deadline: Instant,
    stop: &'a Stop<'b>,
}

impl Wait<'_, '_> {
    /// Whether `socket` has something within so long.
    fn readable(&self, socket: &Socket, most: Duration) -> io::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if self.stop.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let wait_ns = left.min(most).as_nanos() as u64;
        Ok(sys::poll::ppoll(socket.as_fd(), false, wait_ns)?.readable)
    }
}

fn read_exact(socket: &Socket, to: &mut [u8], wait: &Wait<'_, '_>) -> io::Result<()> {
    let mut filled = 0;
    while filled < to.len() {
        if !wait.readable(socket, TICK)? {
            continue;
        }
        match (&mut &*socket).read(&mut to[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => filled += bytes,
        }
    }
    Ok(())
}

struct Answer {
    word: u64,
    body: Vec<u8>,
}

/// Sends until the answer comes.
fn exchange(
    socket: &Socket,
    datagram: &[u8],
    kind: Kind,
    nonce: u64,
    wait: &Wait<'_, '_>,
    stray: &mut dyn FnMut(&[u8]),
) -> io::Result<Answer> {
    let mut buffer = vec![0; 65_536];
    loop {
        socket.send(datagram)?;
        let again = Instant::now() + AGAIN;
        while let Some(left) = again.checked_duration_since(Instant::now()) {
            if !wait.readable(socket, left)? {
                continue;
            }
            let bytes = (&mut &*socket).read(&mut buffer)?;
            let answer = &buffer[..bytes];
            if let Some(header) = Header::read(answer)
                && header.kind == kind
                && header.sequence == nonce
            {
                return Ok(Answer {
                    word: header.word,
                    body: answer[HEADER_BYTES..].to_vec(),
                });
            }
            stray(answer);
        }
    }
}

/// A hello of this mode and size from this machine.
pub(crate) fn hello(mode: Mode, message_bytes: usize, record: &PeerRecord) -> Hello {
    Hello {
        mode,
        message_bytes: message_bytes as u32,
        record: record.clone(),
    }
}

/// How soon a stop is noticed.
const TICK: Duration = Duration::from_millis(100);
/// A datagram that has not been answered by then is sent again.
const AGAIN: Duration = Duration::from_millis(200);
const QUESTION_LIMIT: Duration = Duration::from_secs(1);
