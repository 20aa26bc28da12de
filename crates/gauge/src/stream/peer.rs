//! A link to a server that counts: the handshake before the stream, and the counts behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use tautline::{
    Address, Closed, Event, Framing, Handler, IoThread, Link, LinkOptions, Opened, Received,
    Strategy,
};

use crate::clock::now_ns;
use crate::placement::{Register, Seat};
use crate::probe;
use crate::run::BenchError;
use crate::wire::{
    Counts, HEADER_BYTES, HELLO_DATAGRAM_BYTES, HELLO_LIMIT_BYTES, Header, Hello, Kind, Mode,
    PeerRecord, Welcome, WireError,
};

/// A server that has agreed to count.
#[derive(Debug)]
pub(super) struct Peer<'a> {
    pub(super) link: Link,
    pub(super) record: PeerRecord,
    /// What every datagram carries; `None` on streams, which carry the probe's header instead.
    cookie: Option<u64>,
    said: Receiver<Said>,
    stop: &'a AtomicBool,
}

/// How a link to a server begins.
pub(super) struct Beginning<'a> {
    pub(super) address: &'a Address,
    pub(super) strategy: Strategy,
    pub(super) payload_bytes: usize,
    pub(super) own: &'a PeerRecord,
    pub(super) seat: Seat,
    pub(super) register: &'a Arc<Register>,
    pub(super) stop: &'a AtomicBool,
}

/// What the link's callbacks tell.
#[derive(Debug)]
enum Said {
    Message(Vec<u8>),
    Unreachable(String),
    Closed(String),
}

impl<'a> Peer<'a> {
    /// Connects and agrees.
    pub(super) fn meet(io: &IoThread, beginning: &Beginning<'a>) -> Result<Self, BenchError> {
        let address = beginning.address;
        let datagram = matches!(address, Address::Udp { .. });
        let (tell, said) = mpsc::sync_channel(MOST_SAID);
        let ears = Ears {
            tell,
            seat: beginning.seat,
            register: Arc::clone(beginning.register),
        };
        let options = LinkOptions {
            framing: if datagram {
                Framing::Raw
            } else {
                Framing::length_prefix()
            },
            strategy: beginning.strategy,
            ..LinkOptions::default()
        };
        let link = io
            .connect(address, options, ears)
            .map_err(BenchError::setup)?;
        link.wait_open(MEETING_LIMIT).map_err(BenchError::setup)?;
        let mut peer = Self {
            link,
            record: PeerRecord::default(),
            cookie: None,
            said,
            stop: beginning.stop,
        };
        let hello = Hello {
            mode: Mode::Sink,
            message_bytes: beginning.payload_bytes as u32,
            record: beginning.own.clone(),
        };
        let agreed = if datagram {
            peer.agree_by_datagram(&hello)
        } else {
            peer.agree_by_stream(&hello)
        };
        agreed.map_err(|why| BenchError::setup(format!("{address}: {why}")))?;
        Ok(peer)
    }

    /// Writes the header of a message.
    #[inline]
    pub(super) fn stamp(&self, message: &mut [u8], sequence: u64) {
        match self.cookie {
            None => probe::stamp(message, sequence),
            Some(word) => Header {
                kind: Kind::Item,
                word,
                sequence,
            }
            .write(message),
        }
    }

    /// What the server has counted, once all that was sent has reached it.
    ///
    /// # Errors
    ///
    /// Why it cannot be known.
    pub(super) fn counts(&self) -> Result<Counts, String> {
        let body = match self.cookie {
            None => {
                self.link.finish();
                self.next_message(Instant::now() + COUNTS_LIMIT)?
            }
            Some(cookie) => {
                let (_, body) = self.ask(Kind::Question, cookie, &[], Kind::Counts)?;
                body
            }
        };
        Counts::decode(&body).map_err(|error| error.to_string())
    }

    /// Why the connection is over, if it is known by now.
    pub(super) fn why_lost(&self) -> String {
        let deadline = Instant::now() + REASON_LIMIT;
        loop {
            match self.next(deadline) {
                Ok(Said::Closed(why)) => return why,
                Ok(Said::Message(_) | Said::Unreachable(_)) => {}
                Err(_) => return "the connection is lost".to_owned(),
            }
        }
    }

    fn agree_by_stream(&mut self, hello: &Hello) -> Result<(), String> {
        // Where it fails the connection has ended already, and `closed` tells why.
        let _ = self.link.send(&hello.encode());
        let body = self.next_message(Instant::now() + MEETING_LIMIT)?;
        self.agree(&body, None)
    }

    fn agree_by_datagram(&mut self, hello: &Hello) -> Result<(), String> {
        let mut body = hello.encode();
        if HEADER_BYTES + body.len() > HELLO_DATAGRAM_BYTES {
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
        let (cookie, body) = self.ask(Kind::Hello, 0, &body, Kind::Welcome)?;
        self.agree(&body, Some(cookie))
    }

    fn agree(&mut self, body: &[u8], cookie: Option<u64>) -> Result<(), String> {
        let welcome = Welcome::decode(body).map_err(|error: WireError| error.to_string())?;
        if let Some(refusal) = welcome.refusal {
            return Err(format!("it refuses: {}", refusal.reason));
        }
        self.record = welcome.record;
        self.cookie = cookie;
        Ok(())
    }

    /// Sends a datagram until its answer comes: the answer's word, and what follows its header.
    fn ask(
        &self,
        kind: Kind,
        word: u64,
        body: &[u8],
        answer: Kind,
    ) -> Result<(u64, Vec<u8>), String> {
        let nonce = now_ns();
        let mut datagram = vec![0; HELLO_DATAGRAM_BYTES];
        datagram[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
        Header {
            kind,
            word,
            sequence: nonce,
        }
        .write(&mut datagram);
        let deadline = Instant::now() + MEETING_LIMIT;
        while Instant::now() < deadline {
            // Where there is no room now there is at the next try.
            let _ = self.link.send_timeout(&datagram, AGAIN);
            let again = deadline.min(Instant::now() + AGAIN);
            loop {
                let bytes = match self.next(again) {
                    Ok(Said::Message(bytes)) => bytes,
                    Ok(Said::Unreachable(why)) => {
                        return Err(format!("{why}: nobody listens there"));
                    }
                    Ok(Said::Closed(why)) => return Err(why),
                    Err(Silence::TimedOut) => break,
                    Err(Silence::Stopped) => return Err("interrupted".to_owned()),
                };
                if let Some(header) = Header::read(&bytes)
                    && header.kind == answer
                    && header.sequence == nonce
                {
                    return Ok((header.word, bytes[HEADER_BYTES..].to_vec()));
                }
            }
        }
        Err(
            "no answer: nobody listens there, it is no `tautline serve`, or a firewall is between"
                .to_owned(),
        )
    }

    fn next_message(&self, deadline: Instant) -> Result<Vec<u8>, String> {
        match self.next(deadline) {
            Ok(Said::Message(bytes)) => Ok(bytes),
            Ok(Said::Unreachable(why) | Said::Closed(why)) => Err(format!(
                "{why}, and no answer came: it is no `tautline serve`, or has ended"
            )),
            Err(Silence::TimedOut) => Err(
                "it took the connection and answers nothing: it is no `tautline serve`, or hangs"
                    .to_owned(),
            ),
            Err(Silence::Stopped) => Err("interrupted".to_owned()),
        }
    }

    fn next(&self, deadline: Instant) -> Result<Said, Silence> {
        let mut last = None;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left.min(TICK)) {
                Ok(said) => return Ok(said),
                // The link has ended, and with it who tells.
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(Said::Closed("the connection is lost".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(Silence::TimedOut),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                // Interrupted: what was asked for is given a moment, and no more.
                let until = *last.get_or_insert_with(|| Instant::now() + STOPPED_LIMIT);
                if Instant::now() >= until {
                    return Err(Silence::Stopped);
                }
            }
        }
    }
}

enum Silence {
    TimedOut,
    Stopped,
}

/// The link's callbacks: they only pass on.
struct Ears {
    tell: SyncSender<Said>,
    seat: Seat,
    register: Arc<Register>,
}

impl Handler for Ears {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.register.enter(self.seat);
    }

    fn message(&mut self, _link: &Link, message: &[u8], _received: Received) {
        // Nobody of ours says so much, or so long things: the rest is left out.
        if message.len() <= HELLO_LIMIT_BYTES {
            let _ = self.tell.try_send(Said::Message(message.to_vec()));
        }
    }

    fn closed(&mut self, _link: &Link, closed: &Closed) {
        let _ = self.tell.try_send(Said::Closed(closed.reason.to_string()));
    }

    fn event(&mut self, _link: &Link, event: &Event) {
        if let Event::Unreachable(error) = event {
            let _ = self.tell.try_send(Said::Unreachable(error.to_string()));
        }
    }
}

/// Most words of a server that wait to be heard.
const MOST_SAID: usize = 64;
/// Connecting and agreeing, each.
const MEETING_LIMIT: Duration = Duration::from_secs(5);
/// A datagram that has not been answered by then is sent again.
const AGAIN: Duration = Duration::from_millis(200);
/// What the kernels on the way still hold has to arrive before the counts come.
const COUNTS_LIMIT: Duration = Duration::from_secs(30);
/// The same when the run is interrupted.
const STOPPED_LIMIT: Duration = Duration::from_secs(2);
/// A send fails a moment before `closed` says why.
const REASON_LIMIT: Duration = Duration::from_secs(1);
/// How soon a stop is noticed.
const TICK: Duration = Duration::from_millis(100);
