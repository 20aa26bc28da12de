//! `handoff`: an application thread sends and waits, the reply comes by callback and wakes it. The
//! topology of programs that use a callback library from a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};

use tautline::{Ended, Handler, Link, Opened, Received};

use super::exchange::{Exchange, Fault, Reply};
use super::library::Library;
use crate::placement::{Register, Seat};
use crate::run::Broken;
use crate::run::site::Site;
use crate::run::supervise::Pulse;
use crate::stamp::Stamp;

/// The application's side.
#[derive(Debug)]
pub(super) struct HandoffEcho {
    link: Link,
    message: Vec<u8>,
    stamp: Stamp,
    mailbox: Arc<Mailbox>,
    pulse: Arc<Pulse>,
}

impl HandoffEcho {
    /// Connects. The calling thread is the application's.
    pub(super) fn start(site: &Site, library: &Library) -> Result<Self, Broken> {
        let mailbox = Arc::new(Mailbox {
            judged: AtomicU64::new(EMPTY),
            whole: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            application: thread::current(),
        });
        let postman = |stamp| Postman {
            mailbox: Arc::clone(&mailbox),
            payload_bytes: site.payload_bytes,
            stamp,
            seat: site.seats.client("client-io"),
            register: Arc::clone(&site.register),
        };
        let (link, stamp) = library.connect(site, postman)?;
        let message = vec![0; site.payload_bytes];
        Ok(Self {
            link,
            message,
            stamp,
            mailbox,
            pulse: Arc::clone(&site.pulse),
        })
    }
}

impl Drop for HandoffEcho {
    fn drop(&mut self) {
        self.link.abort();
    }
}

impl Exchange for HandoffEcho {
    fn stamp(&self) -> Stamp {
        self.stamp
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.message
    }

    #[inline]
    fn send(&mut self, whole: bool) -> Result<(), String> {
        self.mailbox.whole.store(whole, Ordering::Release);
        self.link
            .send(&self.message)
            .map_err(|error| format!("handoff: send: {error}"))
    }

    #[inline]
    fn recv(&mut self) -> Result<Reply<'_>, Fault> {
        let stalls = self.pulse.stalls();
        loop {
            match self.mailbox.judged.swap(EMPTY, Ordering::Acquire) {
                EMPTY => {}
                CORRUPTED => return Ok(Reply::Judged(None)),
                sequence => return Ok(Reply::Judged(Some(sequence - FIRST))),
            }
            if self.mailbox.ended.load(Ordering::Acquire) {
                return Err(Fault::Broken("handoff: the link ended".to_owned()));
            }
            if self.pulse.stalls() != stalls {
                return Err(Fault::NoReply);
            }
            // No time limit, which would set a timer for every message: the pulse rings.
            thread::park();
        }
    }
}

/// One reply at most, left by the callback.
#[derive(Debug)]
struct Mailbox {
    /// [`EMPTY`], [`CORRUPTED`], or a sequence number plus [`FIRST`].
    judged: AtomicU64,
    whole: AtomicBool,
    ended: AtomicBool,
    application: Thread,
}

const EMPTY: u64 = 0;
const CORRUPTED: u64 = 1;
const FIRST: u64 = 2;

/// The callback's side.
struct Postman {
    mailbox: Arc<Mailbox>,
    payload_bytes: usize,
    stamp: Stamp,
    seat: Seat,
    register: Arc<Register>,
}

impl Handler for Postman {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.register.enter(self.seat);
    }

    fn message(&mut self, _link: &Link, message: &[u8], _received: Received) {
        let mailbox = &*self.mailbox;
        let whole = mailbox.whole.load(Ordering::Acquire);
        let judged = self.stamp.judge(message, self.payload_bytes, whole);
        mailbox.judged.store(
            judged.map_or(CORRUPTED, |found| found + FIRST),
            Ordering::Release,
        );
        mailbox.application.unpark();
    }

    fn ended(&mut self, _link: &Link, _ended: &Ended) {
        self.mailbox.ended.store(true, Ordering::Release);
        self.mailbox.application.unpark();
    }
}
