//! A link with callbacks as a [`Line`]: its handler passes on what it hears to whoever waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tautline::{Closed, Ended, ErrorKind, Event, Handler, Link, Opened, Reason, Received};

use super::{AGAIN, Fault, Line, TICK};
use crate::placement::{Register, Seat};
use crate::wire::HELLO_LIMIT_BYTES;

/// A link whose handler has [`Ears`], and what they hear.
#[derive(Debug)]
pub(crate) struct LinkLine<'a> {
    pub(crate) link: Link,
    said: Receiver<Said>,
    stop: &'a AtomicBool,
    patience: Duration,
}

/// What the link's callbacks tell.
#[derive(Debug)]
pub(crate) enum Said {
    Message(Vec<u8>),
    Unreachable(String),
    BadFrame,
    /// One side does not trust the other; over TLS a server may say so only behind the handshake.
    Untrusted(String),
    Closed(String),
}

impl<'a> LinkLine<'a> {
    pub(crate) fn new(link: Link, said: Receiver<Said>, stop: &'a AtomicBool) -> Self {
        Self {
            link,
            said,
            stop,
            patience: AGAIN,
        }
    }

    /// The same where an answer takes longer.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Why the connection is over, if it is known by now.
    pub(crate) fn why_lost(&self) -> String {
        let deadline = Instant::now() + REASON_LIMIT;
        loop {
            match self.next(deadline) {
                Ok(Said::Closed(why) | Said::Untrusted(why)) => return why,
                Ok(_) => {}
                Err(_) => return "the connection is lost".to_owned(),
            }
        }
    }

    fn next(&self, until: Instant) -> Result<Said, Fault> {
        let mut last = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left.min(TICK)) {
                Ok(said) => return Ok(said),
                // The link has ended, and with it who tells.
                Err(RecvTimeoutError::Disconnected) => return Err(Fault::Ended),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(Fault::TimedOut),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                // Interrupted: what was asked for is given a moment, and no more.
                let until = *last.get_or_insert_with(|| Instant::now() + STOPPED_LIMIT);
                if Instant::now() >= until {
                    return Err(Fault::Stopped);
                }
            }
        }
    }
}

impl Line for LinkLine<'_> {
    fn say(&mut self, message: &[u8]) -> Result<(), Fault> {
        // Where there is no room for a datagram now there is when it is said again. Where it fails
        // otherwise the connection has ended already, and hearing tells so.
        let _ = self.link.send_timeout(message, ROOM_LIMIT);
        Ok(())
    }

    fn hear(&mut self, until: Instant) -> Result<Vec<u8>, Fault> {
        match self.next(until)? {
            Said::Message(bytes) => Ok(bytes),
            Said::Unreachable(why) => Err(Fault::Unreachable(why)),
            Said::BadFrame => Err(Fault::Foreign),
            Said::Untrusted(why) => Err(Fault::Failed(why)),
            Said::Closed(_) => Err(Fault::Ended),
        }
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}

/// The link's callbacks: they only pass on.
pub(crate) struct Ears {
    tell: SyncSender<Said>,
    limit_bytes: usize,
    seat: Seat,
    register: Arc<Register>,
}

impl Ears {
    /// Ears in this seat, for a hello's length or `message_bytes` where that is more; and where to
    /// wait for what they hear.
    pub(crate) fn new(
        seat: Seat,
        register: &Arc<Register>,
        message_bytes: usize,
    ) -> (Self, Receiver<Said>) {
        let (tell, said) = mpsc::sync_channel(MOST_SAID);
        let ears = Self {
            tell,
            limit_bytes: HELLO_LIMIT_BYTES.max(message_bytes),
            seat,
            register: Arc::clone(register),
        };
        (ears, said)
    }
}

impl Handler for Ears {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.register.enter(self.seat);
    }

    fn message(&mut self, _link: &Link, message: &[u8], _received: Received) {
        // Nobody of ours says so much, or so long things: the rest is left out.
        if message.len() <= self.limit_bytes {
            let _ = self.tell.try_send(Said::Message(message.to_vec()));
        }
    }

    fn closed(&mut self, _link: &Link, closed: &Closed) {
        let _ = self.tell.try_send(match &closed.reason {
            Reason::BadFrame(_) => Said::BadFrame,
            Reason::Lost(error) if error.kind() == ErrorKind::Untrusted => {
                Said::Untrusted(error.to_string())
            }
            _ => Said::Closed(closed.reason.to_string()),
        });
    }

    fn event(&mut self, _link: &Link, event: &Event) {
        if let Event::Unreachable(error) = event {
            let _ = self.tell.try_send(Said::Unreachable(error.to_string()));
        }
    }
}

/// Ears until the handshake is over, then the handler that its outcome was needed for. That one hears
/// messages and the end; the connection has opened before it is there.
pub(crate) struct Greeting<H> {
    ears: Ears,
    handler: Option<H>,
    next: Successor<H>,
}

/// Where the handler is put once it is there.
#[derive(Debug)]
pub(crate) struct Successor<H>(Arc<Mutex<Option<H>>>);

impl<H: Handler> Greeting<H> {
    pub(crate) fn new(ears: Ears) -> (Self, Successor<H>) {
        let slot = Arc::default();
        let next = Successor(Arc::clone(&slot));
        let greeting = Self {
            ears,
            handler: None,
            next: Successor(slot),
        };
        (greeting, next)
    }
}

impl<H> Successor<H> {
    /// From here on `handler` is told; nothing that it waits for may have been sent before.
    pub(crate) fn is(&self, handler: H) {
        *self.slot() = Some(handler);
    }

    fn slot(&self) -> MutexGuard<'_, Option<H>> {
        // A handler is there whole or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Handler> Handler for Greeting<H> {
    fn opened(&mut self, link: &Link, opened: &Opened) {
        self.ears.opened(link, opened);
    }

    fn message(&mut self, link: &Link, message: &[u8], received: Received) {
        if self.handler.is_none() {
            self.handler = self.next.slot().take();
        }
        match &mut self.handler {
            Some(handler) => handler.message(link, message, received),
            None => self.ears.message(link, message, received),
        }
    }

    fn closed(&mut self, link: &Link, closed: &Closed) {
        self.ears.closed(link, closed);
    }

    fn ended(&mut self, link: &Link, ended: &Ended) {
        let waiting = || self.next.slot().take();
        if let Some(mut handler) = self.handler.take().or_else(waiting) {
            handler.ended(link, ended);
        }
    }

    fn event(&mut self, link: &Link, event: &Event) {
        self.ears.event(link, event);
    }
}

/// Most words of a server that wait to be heard.
const MOST_SAID: usize = 64;
/// A datagram that finds no room for so long is said again anyway.
const ROOM_LIMIT: Duration = Duration::from_millis(200);
/// When the run is interrupted.
const STOPPED_LIMIT: Duration = Duration::from_secs(2);
/// A send fails a moment before `closed` says why.
const REASON_LIMIT: Duration = Duration::from_secs(1);
