//! The sending half of a direct link.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tautline_session::{
    BLOCK_BYTES, Block, Call, Caller, DirectWrite, Discard, Offer, Outbound, OutboundOptions,
    PeerId, Refusal, SendStatistics, Surroundings, Taken,
};

use super::{Closer, next_look, passed};
use crate::channel::{Trouble, refused, write_datagrams, write_one, write_stream};
use crate::error::SendError;
use crate::outlet::Outlet;
use crate::sys;
use crate::transport::{PollInterest, Socket, Wait, is_transient};

/// The sending half of a [`DirectLink`](super::DirectLink), usable while a message that it received
/// is still in use; see [`request`](super::DirectLink::request).
pub struct Replies {
    outlet: Arc<Outlet>,
    outbound: Outbound,
    surroundings: OneBlock,
    closed: Arc<AtomicBool>,
    /// What came while a send waited for room: the receive buffer may be in use then.
    read_ahead: Vec<u8>,
    /// Behind that.
    their_end: TheirEnd,
    /// The kernel had no memory for what waits, and does not tell when it has.
    short: bool,
}

/// Nothing can be sent any more.
struct Broken;

/// How the peer's stream goes on behind what was read ahead.
#[derive(Debug)]
enum TheirEnd {
    /// As far as we know.
    Open,
    /// It has ended. Ours may go on, and the kernel tells the next receive again.
    Ended,
    /// It broke. The kernel tells why only once.
    Broken(io::Error),
}

impl Replies {
    pub(super) fn new(outlet: Arc<Outlet>, options: OutboundOptions) -> Self {
        let mut outbound = Outbound::new(&OutboundOptions {
            queue_limit_messages: 1,
            ..options
        });
        outbound.opened();
        Self {
            outlet,
            outbound,
            surroundings: OneBlock::default(),
            closed: Arc::default(),
            read_ahead: Vec::new(),
            their_end: TheirEnd::Open,
            short: false,
        }
    }

    /// Sends one message, as [`DirectLink::send`](super::DirectLink::send) does.
    ///
    /// # Errors
    /// [`SendError`] says what became of it; the message was not accepted.
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.send_until(message, Call::Send, None)
    }

    pub(super) fn send_until(
        &mut self,
        message: &[u8],
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(self.give_up());
        }
        // The usual case, in as few steps as it takes.
        let alone = self.outbound.alone(message);
        let mut tried = alone.map(|header| {
            let (written, trouble) = write_one(&*self.outlet, &header, message, PeerId::SOLE);
            if written == DirectWrite::Whole {
                self.outbound.sent_alone(&header, message.len());
            }
            (written, trouble)
        });
        if let Some((DirectWrite::Whole, _)) = tried {
            self.short = false;
            return Ok(());
        }
        loop {
            if self.has_rest() && self.write_rest().is_err() {
                return Err(self.lose());
            }
            let (peer, surroundings) = (PeerId::SOLE, &self.surroundings);
            let offer = self
                .outbound
                .offer(message, peer, call, Caller::Direct, surroundings);
            match offer {
                Offer::WriteNow(token) => {
                    let (written, trouble) = tried
                        .take()
                        .unwrap_or_else(|| write_one(&*self.outlet, token.header(), message, peer));
                    self.outbound
                        .settle_direct(token, message, peer, written, surroundings);
                    // Why it broke is noted: the next call meets it.
                    let _ = self.note(trouble);
                    return Ok(());
                }
                Offer::WriteTaken(taken) => {
                    // Why it broke is noted: the next call meets it.
                    let _ = self.write_taken(taken);
                    return Ok(());
                }
                // It replaced the message that waited, and goes out with the next calls.
                Offer::Queued { .. } => return Ok(()),
                Offer::Refused(Refusal::WouldWait) => self.wait_for_room(deadline)?,
                Offer::Refused(refusal) => return Err(refused(refusal)),
                Offer::Wait(_) => unreachable!("a direct caller is never given a ticket"),
            }
        }
    }

    pub(super) fn closer(&self) -> Closer {
        Closer {
            outlet: Arc::downgrade(&self.outlet),
            closed: Arc::clone(&self.closed),
        }
    }

    pub(super) fn statistics(&self) -> SendStatistics {
        self.outbound.statistics()
    }

    pub(super) fn socket(&self) -> &Socket {
        self.outlet.socket()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether a message waits that the kernel did not take whole.
    pub(super) fn has_rest(&self) -> bool {
        !self.outbound.is_drained()
    }

    /// Writes what waits, as far as the kernel takes it. A failure gives it up.
    pub(super) fn write_rest_or_give_up(&mut self) {
        if self.write_rest().is_err() {
            self.lose();
        }
    }

    /// Why the connection broke, if a send found out.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        match std::mem::replace(&mut self.their_end, TheirEnd::Open) {
            TheirEnd::Broken(cause) => Some(cause),
            other => {
                self.their_end = other;
                None
            }
        }
    }

    /// Whether the kernel had no memory for what waits: its socket may be writable all the time.
    pub(super) const fn is_short(&self) -> bool {
        self.short
    }

    /// When to look up from a wait for room, whatever the kernel tells.
    pub(super) fn next_try(&self, deadline: Option<Instant>) -> Instant {
        let look = next_look(deadline);
        if self.short {
            look.min(Instant::now() + SHORTAGE_PAUSE)
        } else {
            look
        }
    }

    /// The kernel had no memory for a read: lets a moment pass.
    #[cold]
    pub(super) fn pause(&self, deadline: Option<Instant>) {
        let nothing = PollInterest {
            read: false,
            write: false,
        };
        let until = next_look(deadline).min(Instant::now() + SHORTAGE_PAUSE);
        // Whatever it says, the next read says it better.
        let _ = self.socket().wait_ready(nothing, Some(until));
    }

    /// What came while a send waited.
    pub(super) const fn read_ahead(&mut self) -> &mut Vec<u8> {
        &mut self.read_ahead
    }

    fn write_rest(&mut self) -> Result<(), Broken> {
        let Some(taken) = self.outbound.take(Caller::Direct, &self.surroundings) else {
            return Ok(());
        };
        self.write_taken(taken)
    }

    fn write_taken(&mut self, taken: Taken) -> Result<(), Broken> {
        let trouble = if self.socket().kind().is_datagram() {
            let (written, trouble) = write_datagrams(&*self.outlet, &taken);
            self.outbound
                .settle_datagrams(taken, written, &self.surroundings);
            trouble
        } else {
            let (written_bytes, trouble) = write_stream(&*self.outlet, &taken);
            self.outbound
                .settle_stream(taken, written_bytes, &self.surroundings);
            trouble
        };
        self.note(trouble)
    }

    fn note(&mut self, trouble: Option<Trouble>) -> Result<(), Broken> {
        self.short = false;
        match trouble {
            None => Ok(()),
            Some(Trouble::Short) => {
                self.short = true;
                self.outbound.note_shortage();
                Ok(())
            }
            Some(Trouble::Broken(cause)) => Err(self.note_failure(cause)),
        }
    }

    /// The kernel says only once why a connection broke: what a write was told is kept for the
    /// receive that meets the end. That the pipe is broken only says that somebody was told before.
    #[cold]
    fn note_failure(&mut self, cause: io::Error) -> Broken {
        if cause.kind() != io::ErrorKind::BrokenPipe {
            self.their_end = TheirEnd::Broken(cause);
        }
        Broken
    }

    /// Waits until the kernel takes more, reading meanwhile: a peer that sends as well may be waiting
    /// for us.
    #[cold]
    fn wait_for_room(&mut self, deadline: Option<Instant>) -> Result<(), SendError> {
        if passed(deadline) {
            return Err(SendError::TimedOut);
        }
        let stream = !self.socket().kind().is_datagram();
        let interest = PollInterest {
            // Nobody waits for a datagram to be read.
            read: stream
                && matches!(self.their_end, TheirEnd::Open)
                && self.read_ahead.len() < READ_AHEAD_LIMIT_BYTES,
            write: !self.short,
        };
        let until = self.next_try(deadline);
        let waited = self.socket().wait_ready(interest, Some(until));
        let Ok(ready) = waited else {
            return Err(self.lose());
        };
        if self.is_closed() {
            return Err(self.give_up());
        }
        if ready.read {
            self.read_some();
        }
        match self.their_end {
            TheirEnd::Open | TheirEnd::Ended => Ok(()),
            TheirEnd::Broken(_) => Err(self.lose()),
        }
    }

    fn read_some(&mut self) {
        let mut buffer = [0; 16 * 1024];
        match self.outlet.socket().recv(&mut buffer, Wait::No) {
            Ok(arrived) if arrived.bytes == 0 => self.their_end = TheirEnd::Ended,
            Ok(arrived) => self.read_ahead.extend_from_slice(&buffer[..arrived.bytes]),
            Err(error) if is_transient(&error) => {}
            // TLS's own words.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => self.their_end = TheirEnd::Broken(cause),
        }
    }

    /// A [`Closer`] ended the link: what waits is given up.
    #[cold]
    pub(super) fn give_up(&mut self) -> SendError {
        self.outbound.end(Discard::Closed, &self.surroundings);
        SendError::Closed
    }

    /// The connection is broken for sending: what waits is given up.
    #[cold]
    fn lose(&mut self) -> SendError {
        self.outbound
            .end(Discard::ConnectionLost, &self.surroundings);
        SendError::NotConnected
    }
}

impl Drop for Replies {
    /// An abort after one flush that does not wait. A [`Closer`] may just be at the socket and keep it
    /// open a moment longer: the peer hears of the end all the same.
    fn drop(&mut self) {
        if self.has_rest() && !self.is_closed() {
            let _ = self.write_rest();
        }
        if !self.has_rest() && !self.is_closed() {
            // Over TLS the peer knows by the goodbye that it has everything.
            let _ = self.socket().shutdown_write();
        }
        self.socket().read_off_tickets();
        self.socket().shutdown();
    }
}

impl fmt::Debug for Replies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replies").finish_non_exhaustive()
    }
}

/// What a session on one thread needs: a clock, and one block for the message that waits.
#[derive(Debug, Default)]
struct OneBlock(RefCell<Option<Block>>);

impl Surroundings for OneBlock {
    fn now_ns(&self) -> u64 {
        sys::clock::monotonic_ns()
    }

    fn block(&self) -> Block {
        let kept = self.0.borrow_mut().take();
        kept.unwrap_or_else(|| Block::with_room(BLOCK_BYTES))
    }

    fn recycle(&self, mut block: Block) {
        block.clear();
        *self.0.borrow_mut() = Some(block);
    }
}

/// Before a kernel that had no memory is asked again.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(1);
/// Most bytes read while a send waits; past it the peer has to wait as well.
const READ_AHEAD_LIMIT_BYTES: usize = 1024 * 1024;
