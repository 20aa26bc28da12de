//! What a turn of the I/O thread works with, besides its entries.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::Entry;
use super::handshake::HandshakeOver;
use super::home::IoShared;
use super::timers::Timers;
use crate::sys::bulk::{INCOMING_LIMIT, Incoming, JOINED_LIMIT_BYTES, Mailbag};

/// The thread's registry, read buffer, timers, and the lists of what is to be done next.
pub(crate) struct Turn {
    pub(crate) io: Arc<IoShared>,
    /// The one read buffer of the thread.
    pub(crate) buffer: Vec<u8>,
    /// The same for datagrams, of which a call brings many; made with the first.
    mail: Option<Box<Mailbag>>,
    /// Peers that a listener accepted in this turn, or whose handshake begins.
    pub(crate) newcomers: Vec<(u64, Entry)>,
    /// Handshakes that ended, for their listeners.
    pub(super) handshakes_over: Vec<HandshakeOver>,
    /// New peers of a datagram server: the link's id, and the server's.
    pub(crate) aliases: Vec<(u64, u64)>,
    /// Peers of a datagram server that ended, and newcomers whose server was stopped.
    pub(crate) gone: Vec<u64>,
    /// Turns so far, this one included.
    number: u64,
    registry: Registry,
    ready: Vec<u64>,
    spare_ready: Vec<u64>,
    pub(super) timers: Timers,
    /// How many handshakes may still go on in this turn.
    handshakes_left: usize,
}

impl Turn {
    pub(super) fn new(
        registry: Registry,
        io: Arc<IoShared>,
        read_buffer_bytes: usize,
    ) -> io::Result<Self> {
        let timers = Timers::new(&registry)?;
        Ok(Self {
            io,
            buffer: vec![0; read_buffer_bytes],
            mail: None,
            newcomers: Vec::new(),
            handshakes_over: Vec::new(),
            aliases: Vec::new(),
            gone: Vec::new(),
            number: 0,
            registry,
            ready: Vec::new(),
            spare_ready: Vec::new(),
            timers,
            handshakes_left: HANDSHAKES_PER_TURN,
        })
    }

    /// How long a datagram may be that is received whole.
    pub(crate) fn datagram_room_bytes(&self) -> usize {
        self.buffer.len().min(JOINED_LIMIT_BYTES)
    }

    /// Room for datagrams; give it back when what came is handed out.
    pub(crate) fn take_mail(&mut self) -> Box<Mailbag> {
        let mail = self.mail.take();
        mail.unwrap_or_else(|| Box::new(Mailbag::new(self.datagram_room_bytes())))
    }

    pub(crate) fn give_back_mail(&mut self, mail: Box<Mailbag>) {
        self.mail = Some(mail);
    }

    /// Asks for news of a socket. Edge-triggered: what is there already is told once.
    pub(crate) fn register(
        &self,
        fd: BorrowedFd<'_>,
        id: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        self.registry
            .register(&mut SourceFd(&fd), Token(id as usize), interest)
    }

    /// Asks for other news, and to be told again of what is there.
    pub(crate) fn reregister(
        &self,
        fd: BorrowedFd<'_>,
        id: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        self.registry
            .reregister(&mut SourceFd(&fd), Token(id as usize), interest)
    }

    pub(crate) fn deregister(&self, fd: BorrowedFd<'_>) {
        // It fails only for what is not registered.
        let _ = self.registry.deregister(&mut SourceFd(&fd.as_raw_fd()));
    }

    /// Comes back to this entry in the next turn without waiting for news.
    pub(crate) fn again(&mut self, id: u64) {
        self.ready.push(id);
    }

    /// Calls `on_timer` at `at` or a little later. Timers are not taken back: an entry that needs its
    /// timer no more lets the call pass.
    pub(crate) fn set_timer(&mut self, at: Instant, id: u64) {
        self.timers.add(at, id);
    }

    /// A new turn, of which every link may have its share again.
    pub(super) const fn begins(&mut self) {
        self.number += 1;
    }

    /// The number of this turn, from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Handshakes may go on again: first those that the last turn left.
    pub(super) const fn allow_handshakes(&mut self) {
        self.handshakes_left = HANDSHAKES_PER_TURN;
    }

    /// Whether one more handshake may go on in this turn, which counts as one.
    pub(super) const fn may_compute(&mut self) -> bool {
        let may = self.handshakes_left > 0;
        self.handshakes_left = self.handshakes_left.saturating_sub(1);
        may
    }

    /// Who is ready, once each: an entry that reads and writes much asks for it twice in a turn, and
    /// would otherwise have twice as many turns as before, each time. Give the list back when it is
    /// done: so turns allocate nothing.
    pub(super) fn take_ready(&mut self) -> Vec<u64> {
        self.ready.sort_unstable();
        self.ready.dedup();
        let spare = std::mem::take(&mut self.spare_ready);
        std::mem::replace(&mut self.ready, spare)
    }

    pub(super) fn give_back_ready(&mut self, mut done: Vec<u64>) {
        done.clear();
        self.spare_ready = done;
    }

    /// Whether the last turn left work.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How long the thread may sleep; `None` for as long as nothing happens. `unneeded` tells of a timer
    /// whether its entry would do nothing when called.
    pub(super) fn until_next_turn(
        &mut self,
        unneeded: impl FnMut(u64, Instant) -> bool,
    ) -> Option<Duration> {
        if self.has_ready() || self.io.has_commands() {
            return Some(Duration::ZERO);
        }
        self.timers.forget_unneeded(unneeded);
        self.timers.set_alarm()
    }
}

/// How much a datagram socket may still receive before others have their turn.
#[derive(Debug)]
pub(super) struct MailShare {
    datagrams_left: usize,
    began: bool,
}

impl Default for MailShare {
    fn default() -> Self {
        Self {
            datagrams_left: DATAGRAMS_PER_TURN,
            began: false,
        }
    }
}

impl MailShare {
    /// How many messages to ask for; `None` when it is used up.
    pub(super) fn most(&mut self) -> Option<usize> {
        let most = if std::mem::replace(&mut self.began, true) {
            INCOMING_LIMIT
        } else {
            // One that comes alone is the usual case: it, and whether there is another.
            2
        };
        Some(most.min(self.datagrams_left)).filter(|&most| most > 0)
    }

    /// What came, and how many datagrams that is. A message of which the kernel joined many counts as so many: what is over goes on the
    /// account of this turn all the same.
    pub(super) fn take(&mut self, mail: &Mailbag) -> usize {
        let came: usize = mail.incoming().map(Incoming::count).sum();
        self.datagrams_left = self.datagrams_left.saturating_sub(came);
        came
    }

    /// Something else was learnt.
    pub(super) fn take_other(&mut self) {
        self.datagrams_left -= 1;
    }
}

/// Datagrams of one socket that are handed out before others have their turn.
const DATAGRAMS_PER_TURN: usize = 64;
/// Handshakes that go on before the open links have their turn: each computes for a few tenths of a
/// millisecond.
const HANDSHAKES_PER_TURN: usize = 16;
