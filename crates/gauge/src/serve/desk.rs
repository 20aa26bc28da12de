//! What is done with a message that stands for itself: hellos are answered with a cookie, requests with
//! themselves, and everything is counted. The same over UDP and on a serial line.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use tautline::Address;

use super::clients::Clients;
use super::cookie::Cookies;
use super::sessions::{IsNew, Session, Sessions};
use crate::wire::{
    DATAGRAM_LIMIT_BYTES, HEADER_BYTES, HELLO_DATAGRAM_BYTES, Header, Hello, Kind, PeerRecord,
    Refusal, SEQUENCE_LIMIT, Welcome,
};

/// Who judges datagrams.
pub(super) struct Desk<'a> {
    clients: &'a Clients,
    cookies: Cookies,
    sessions: Sessions,
    record: PeerRecord,
    /// The serial line; `None` for a socket of UDP.
    line: Option<Address>,
}

/// What a datagram is answered with.
pub(super) enum Answer {
    /// Nothing.
    None,
    /// Itself, with the header of a reply, which is written already.
    Reply,
    /// Something else, not longer.
    Bytes(Vec<u8>),
}

impl<'a> Desk<'a> {
    /// For the datagrams of a socket, from anybody.
    pub(super) fn of_socket(clients: &'a Clients) -> Self {
        Self::new(clients, None)
    }

    /// For the frames of a line, from whoever is at its other end.
    pub(super) fn of_line(clients: &'a Clients, line: Address) -> Self {
        Self::new(clients, Some(line))
    }

    fn new(clients: &'a Clients, line: Option<Address>) -> Self {
        Self {
            clients,
            line,
            cookies: Cookies::default(),
            sessions: Sessions::new(clients.plan().limits.clients * SESSIONS_A_CLIENT),
            record: fitting(clients.record().clone()),
        }
    }

    /// Judges the datagram in the first `length` bytes of `buffer`.
    pub(super) fn answer(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        source: SocketAddr,
        now: u64,
    ) -> Answer {
        let datagram = &mut buffer[..length];
        let Some(header) = Header::read(datagram) else {
            self.damaged(source, now);
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

    /// Something came that was not intact, where the framing has thrown it away.
    pub(super) fn damaged(&mut self, source: SocketAddr, now: u64) {
        match self.sessions.latest_of(source) {
            Some(session) => session.corrupted(now),
            None => self.drop_one(),
        }
    }

    fn welcome(&mut self, datagram: &[u8], header: Header, source: SocketAddr, now: u64) -> Answer {
        if self.line.is_none() && datagram.len() < HELLO_DATAGRAM_BYTES {
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
                let peer = self.line.clone().unwrap_or_else(|| Address::udp(source));
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
        if self.line.is_none() && !self.clients.allows(source.ip()) {
            return Err(
                "its address is not among those that may use this server (--allow)".to_owned(),
            );
        }
        let bytes = hello.message_bytes as usize;
        if !(HEADER_BYTES..=DATAGRAM_LIMIT_BYTES).contains(&bytes) {
            let over = self.line.as_ref().map_or("udp", Address::scheme);
            return Err(format!(
                "messages of {bytes} bytes: over {over} they have {HEADER_BYTES} to \
                 {DATAGRAM_LIMIT_BYTES}"
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

    /// A datagram behind its header, unless it is longer than what it answers. On a line nobody else is
    /// flooded by a long answer.
    fn bytes(&self, header: Header, body: &[u8], most_bytes: usize) -> Answer {
        let mut bytes = vec![0; HEADER_BYTES + body.len()];
        if self.line.is_none() && bytes.len() > most_bytes {
            self.drop_one();
            return Answer::None;
        }
        bytes[HEADER_BYTES..].copy_from_slice(body);
        header.write(&mut bytes);
        Answer::Bytes(bytes)
    }

    pub(super) fn drop_one(&self) {
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

/// UDP clients that are remembered for each stream client that is admitted: 8 KiB instead of 200.
const SESSIONS_A_CLIENT: usize = 4;

/// Bytes kept free in a welcome for a refusal's words.
const REFUSAL_ROOM: usize = 200;
