//! The handler behind an inbox: it keeps what the I/O thread hands out, and wakes the task that waits.
//!
//! What is handed out is valid during the call only, so it is copied: small messages into chunks that
//! many share, others into memory of their own. A message that the application keeps keeps its chunk.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::Message;
use super::backlog::Seat;
use super::inbox::Inbox;
use super::link::AsyncLink;
use crate::driver::wake;
use crate::handler::{Closed, Ended, Handler, Opened, Received};
use crate::link::{INBOX, Link};

/// Fills one inbox.
pub(super) struct Feed {
    inbox: Arc<Inbox>,
    generation: u64,
    chunk: BytesMut,
    /// A server's peer, and its seat among those that wait to be accepted, until it has opened.
    newcomer: Option<(Seat, AsyncLink)>,
}

impl Feed {
    pub(super) fn new(inbox: Arc<Inbox>, newcomer: Option<(Seat, AsyncLink)>) -> Self {
        Self {
            inbox,
            generation: 0,
            chunk: BytesMut::new(),
            newcomer,
        }
    }

    fn keep(&mut self, message: &[u8]) -> Bytes {
        if message.len() > CHUNK_BYTES / 4 || message.is_empty() {
            return Bytes::copy_from_slice(message);
        }
        if self.chunk.capacity() < message.len() && !self.chunk.try_reclaim(CHUNK_BYTES) {
            self.chunk = BytesMut::with_capacity(CHUNK_BYTES);
        }
        self.chunk.extend_from_slice(message);
        self.chunk.split().freeze()
    }
}

impl Handler for Feed {
    fn opened(&mut self, _: &Link, opened: &Opened) {
        self.generation = opened.generation;
        wake(self.inbox.opened(opened.generation));
        if let Some((seat, link)) = self.newcomer.take() {
            wake(seat.take(link));
        }
    }

    fn message(&mut self, link: &Link, message: &[u8], received: Received) {
        let message = Message {
            bytes: self.keep(message),
            received,
            generation: self.generation,
        };
        let pause = || link.shared().pause(INBOX);
        wake(self.inbox.put(message, pause));
    }

    fn closed(&mut self, _: &Link, closed: &Closed) {
        wake(self.inbox.closed(closed.clone()));
    }

    fn ended(&mut self, _: &Link, ended: &Ended) {
        wake(self.inbox.ended(ended.clone()));
    }
}

/// Small messages share an allocation of this size: one for every 64 of 64 bytes, and no more than this
/// is kept by an application that keeps one of them.
const CHUNK_BYTES: usize = 4096;
