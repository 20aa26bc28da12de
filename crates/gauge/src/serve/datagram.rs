//! UDP clients: one socket and one thread an address, and nothing kept of who has no cookie.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use tautline::Address;

use super::clients::Clients;
use super::cookie::Cookies;
use super::held::Held;
use super::sessions::{IsNew, Session, Sessions};
use super::udp::UdpSocket;
use crate::clock::now_ns;
use crate::sys::datagram::Origin;
use crate::wire::{
    DATAGRAM_LIMIT_BYTES, HEADER_BYTES, HELLO_DATAGRAM_BYTES, Header, Hello, Kind, PeerRecord,
    Refusal, SEQUENCE_LIMIT, Welcome,
};

/// Answers until the responder is stopped.
pub(super) fn serve(socket: &UdpSocket, clients: &Arc<Clients>) {
    clients.sit_down();
    let delay_ns = clients.plan().reply_delay.as_nanos() as u64;
    let mut desk = Desk::new(clients);
    let mut held = Held::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let received = held.receive(socket, &mut buffer);
        if clients.is_stopping() {
            return;
        }
        match received {
            Ok(Some((length, origin))) => {
                let now_ns = now_ns();
                let Some(source) = origin.source() else {
                    continue;
                };
                match desk.answer(&mut buffer[..], length, source, now_ns) {
                    Answer::None => {}
                    Answer::Reply if delay_ns > 0 => {
                        let due_ns = now_ns.saturating_add(delay_ns);
                        if !held.hold(due_ns, &buffer[..length], origin) {
                            desk.drop_one();
                        }
                    }
                    Answer::Reply => desk.send(socket, &buffer[..length], &origin),
                    Answer::Bytes(bytes) => desk.send(socket, &bytes, &origin),
                }
            }
            Ok(None) => {}
            Err(error) => {
                clients
                    .notices()
                    .say(|| format!("receive on {}: {error}", socket.address()));
                thread::sleep(TROUBLE_PAUSE);
            }
        }
        while let Some((datagram, origin)) = held.due(now_ns()) {
            desk.send(socket, &datagram, &origin);
        }
    }
}

/// Who judges datagrams.
struct Desk<'a> {
    clients: &'a Clients,
    cookies: Cookies,
    sessions: Sessions,
    record: PeerRecord,
}

/// What a datagram is answered with.
enum Answer {
    /// Nothing.
    None,
    /// Itself, with the header of a reply, which is written already.
    Reply,
    /// Something else, not longer.
    Bytes(Vec<u8>),
}

impl<'a> Desk<'a> {
    fn new(clients: &'a Clients) -> Self {
        Self {
            clients,
            cookies: Cookies::default(),
            sessions: Sessions::new(clients.plan().limits.clients * SESSIONS_A_CLIENT),
            record: fitting(clients.record().clone()),
        }
    }

    /// Judges the datagram in the first `length` bytes of `buffer`.
    fn answer(&mut self, buffer: &mut [u8], length: usize, source: SocketAddr, now: u64) -> Answer {
        let datagram = &mut buffer[..length];
        let Some(header) = Header::read(datagram) else {
            match self.sessions.latest_of(source) {
                Some(session) => session.corrupted(now),
                None => self.drop_one(),
            }
            return Answer::None;
        };
        match header.kind {
            Kind::Hello => self.welcome(datagram, header, source, now),
            Kind::Request | Kind::Item | Kind::Question => {
                if !self.cookies.is_good(source, header.word) {
                    self.drop_one();
                    return Answer::None;
                }
                match header.kind {
                    Kind::Question => self.tell_counts(length, header, source),
                    _ => self.count(datagram, header, source, now),
                }
            }
            // Answers are never answered, or two of us could be set upon each other.
            Kind::Welcome | Kind::Reply | Kind::Counts => {
                self.drop_one();
                Answer::None
            }
        }
    }

    fn welcome(&mut self, datagram: &[u8], header: Header, source: SocketAddr, now: u64) -> Answer {
        if datagram.len() < HELLO_DATAGRAM_BYTES {
            // Not worth an answer: it would have to be shorter still.
            self.drop_one();
            return Answer::None;
        }
        let hello = Hello::decode(&datagram[HEADER_BYTES..]).map_err(|error| error.to_string());
        let refusal = hello
            .and_then(|hello| self.check(&hello, source, now))
            .err();
        let word = match &refusal {
            None => self.cookies.issue(source),
            Some(reason) => {
                let totals = self.clients.totals();
                totals.refused.fetch_add(1, Ordering::Relaxed);
                let peer = Address::udp(source);
                self.clients
                    .notices()
                    .say(|| format!("refused {peer}: {reason}"));
                0
            }
        };
        let body = Welcome {
            refusal: refusal.map(|reason| Refusal { reason }),
            record: self.record.clone(),
        }
        .encode();
        let header = Header {
            kind: Kind::Welcome,
            word,
            ..header
        };
        self.bytes(header, &body, datagram.len())
    }

    fn check(&self, hello: &Hello, source: SocketAddr, now: u64) -> Result<(), String> {
        if !self.clients.allows(source.ip()) {
            return Err(
                "its address is not among those that may use this server (--allow)".to_owned(),
            );
        }
        let bytes = hello.message_bytes as usize;
        if !(HEADER_BYTES..=DATAGRAM_LIMIT_BYTES).contains(&bytes) {
            return Err(format!(
                "messages of {bytes} bytes: over udp they have {HEADER_BYTES} to {DATAGRAM_LIMIT_BYTES}"
            ));
        }
        if self.sessions.is_full(now) {
            return Err("too many clients at a time".to_owned());
        }
        Ok(())
    }

    fn tell_counts(&self, length: usize, header: Header, source: SocketAddr) -> Answer {
        let counts = self
            .sessions
            .known((source, header.word))
            .map(Session::counts)
            .unwrap_or_default();
        let header = Header {
            kind: Kind::Counts,
            ..header
        };
        self.bytes(header, &counts.encode(), length)
    }

    /// Counts a message, and makes its reply of it if it wants one.
    fn count(
        &mut self,
        datagram: &mut [u8],
        header: Header,
        source: SocketAddr,
        now: u64,
    ) -> Answer {
        let totals = self.clients.totals();
        if header.sequence >= SEQUENCE_LIMIT {
            self.drop_one();
            return Answer::None;
        }
        let Some((session, is_new)) = self.sessions.of((source, header.word), now) else {
            self.drop_one();
            return Answer::None;
        };
        let received = session.arrived(header.sequence, datagram.len(), now);
        if is_new == IsNew(true) {
            totals.clients.fetch_add(1, Ordering::Relaxed);
        }
        totals.messages.fetch_add(1, Ordering::Relaxed);
        totals
            .bytes
            .fetch_add(datagram.len() as u64, Ordering::Relaxed);
        totals.last_datagram_ns.store(now, Ordering::Relaxed);
        if header.kind == Kind::Item {
            return Answer::None;
        }
        let reply = Header {
            kind: Kind::Reply,
            word: received,
            sequence: header.sequence,
        };
        reply.write(datagram);
        Answer::Reply
    }

    /// A datagram behind its header, unless it is longer than what it answers.
    fn bytes(&self, header: Header, body: &[u8], most_bytes: usize) -> Answer {
        let mut bytes = vec![0; HEADER_BYTES + body.len()];
        if bytes.len() > most_bytes {
            self.drop_one();
            return Answer::None;
        }
        bytes[HEADER_BYTES..].copy_from_slice(body);
        header.write(&mut bytes);
        Answer::Bytes(bytes)
    }

    fn send(&self, socket: &UdpSocket, bytes: &[u8], origin: &Origin) {
        // No room, or nowhere to go: to the client it is lost, as anywhere on the way.
        if socket.answer(bytes, origin).is_err() {
            self.drop_one();
        }
    }

    fn drop_one(&self) {
        let dropped = &self.clients.totals().dropped_datagrams;
        dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// The record as far as it fits behind the header of a welcome, beside a refusal.
fn fitting(record: PeerRecord) -> PeerRecord {
    let whole = Welcome {
        refusal: None,
        record: record.clone(),
    };
    if whole.encode().len() + REFUSAL_ROOM <= HELLO_DATAGRAM_BYTES - HEADER_BYTES {
        return record;
    }
    PeerRecord {
        host: None,
        cpu: None,
        kernel: None,
        ..record
    }
}

/// Holds any datagram.
const BUFFER_BYTES: usize = 65_536;

/// UDP clients that are remembered for each stream client that is admitted: 8 KiB instead of 200.
const SESSIONS_A_CLIENT: usize = 4;

/// Bytes kept free in a welcome for a refusal's words.
const REFUSAL_ROOM: usize = 200;

/// After an error of the socket that is not a datagram's.
const TROUBLE_PAUSE: Duration = Duration::from_millis(10);
