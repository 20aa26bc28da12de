//! The sending half of a link that tasks drive.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_sink::Sink;
use tautline_session::{Payload, Ticket};

use crate::channel::Flushing;
use crate::driver::Command;
use crate::error::{Error, FlushError, SendError};
use crate::handler::{Ended, Unsent};
use crate::life::Moment;
use crate::link::{Link, LinkShared};

/// The sending half of an [`AsyncLink`](crate::AsyncLink); clones send to the same link, from any task.
pub struct AsyncSender {
    link: Link,
    /// As a `Sink`: a message that waits for room, and its place in the line.
    waiting: Option<(Bytes, Option<Ticket>)>,
    /// As a `Sink`: the flush under way.
    flushing: Option<Flushing>,
}

impl AsyncSender {
    pub(super) const fn new(link: Link) -> Self {
        Self {
            link,
            waiting: None,
            flushing: None,
        }
    }

    /// Sends one message.
    ///
    /// `Ok` means accepted: the message is written now or waits in the queue, in order. When the queue is
    /// full the [`Strategy`](crate::Strategy) decides: reliable waits here for its turn, in one line with
    /// the threads that wait in [`Link::send`]; besteffort says `Full`; keeplatest evicts the oldest.
    /// Cancel-safe: dropped before it is ready, it has accepted nothing and gives its place up. A place
    /// whose turn has come holds up those behind it: do not keep this future without polling it.
    ///
    /// # Errors
    /// [`SendError`] says what became of it; the message was not accepted.
    pub async fn send(&self, message: &[u8]) -> Result<(), SendError> {
        self.sending(message.into()).await
    }

    /// Sends one message as [`send`](Self::send) does, and keeps a large one without copying it; see
    /// [`Link::send_bytes`]. As a `Sink` the sender does so too.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_bytes(&self, message: Bytes) -> Result<(), SendError> {
        self.sending(Payload::Owned(&message)).await
    }

    /// Waits until everything accepted is written, or given up with its connection.
    ///
    /// # Errors
    /// No connection, or one that ended meanwhile.
    pub async fn flush(&self) -> Result<(), FlushError> {
        let (link, flushing) = (self.shared(), None);
        Flush { link, flushing }.await
    }

    /// Waits until a connection is open, and its handler told; at once if one is. Through all attempts of a
    /// link that reconnects; a connection that sends have found broken counts no more.
    ///
    /// # Errors
    /// That the link has ended, and why: no connection will follow.
    pub async fn opened(&self) -> Result<(), Error> {
        let shared = self.shared();
        shared.watch(|now| shared.has_opened(now, true)).await
    }

    /// Waits until the link has ended: no connection will follow. Any number of tasks may wait.
    pub async fn ended(&self) -> Ended {
        let look = |now: &Moment| {
            let reason = now.ended()?.clone();
            Some(Ended {
                reason,
                kept: now.kept,
            })
        };
        self.shared().watch(look).await
    }

    /// Ends our side of the stream once what waits is written; see [`Link::finish`].
    pub fn finish(&self) {
        self.link.finish();
    }

    /// Stops accepting, writes what waits, ends our side, and reads to the peer's end or the deadline;
    /// returns what was not sent when the link has ended. It begins when it is first polled; dropped after
    /// that, it goes on without anybody waiting.
    ///
    /// Somebody has to receive meanwhile, or the inbox fills and the peer's end is not read.
    pub async fn close(&self, timeout: Duration) -> Unsent {
        let shared = self.shared();
        shared.stop_accepting();
        shared.command(Command::Close {
            id: shared.id,
            deadline: Instant::now().checked_add(timeout),
        });
        self.unsent().await
    }

    /// Ends the link at once, and waits until it has ended; what waits to be sent is discarded and
    /// counted. It begins when it is first polled.
    pub async fn abort(&self) {
        self.shared().begin_abort();
        self.unsent().await;
    }

    /// The link behind it: statistics, addresses, `try_send`. Its calls that wait block the thread.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    async fn unsent(&self) -> Unsent {
        let look = |now: &Moment| now.ended().map(|_| now.unsent);
        self.shared().watch(look).await
    }

    fn shared(&self) -> &LinkShared {
        self.link.shared()
    }

    fn sending<'a>(&'a self, message: Payload<'a>) -> Sending<'a> {
        Sending {
            link: self.shared(),
            message,
            place: None,
        }
    }

    /// Offers the message that waits.
    fn poll_waiting(&mut self, waker: &Waker) -> Poll<Result<(), SendError>> {
        let Some((message, place)) = &mut self.waiting else {
            return Poll::Ready(Ok(()));
        };
        let sent = self
            .link
            .shared()
            .poll_send(Payload::Owned(message), place, waker);
        if sent.is_ready() {
            self.waiting = None;
        }
        sent
    }
}

/// A message on its way into the queue.
struct Sending<'a> {
    link: &'a LinkShared,
    message: Payload<'a>,
    place: Option<Ticket>,
}

impl Future for Sending<'_> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            link,
            message,
            place,
        } = &mut *self;
        link.poll_send(*message, place, context.waker())
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.place.take() {
            self.link.channel.leave(ticket);
        }
    }
}

/// A wait for an empty queue.
struct Flush<'a> {
    link: &'a LinkShared,
    flushing: Option<Flushing>,
}

impl Future for Flush<'_> {
    type Output = Result<(), FlushError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { link, flushing } = &mut *self;
        link.channel.poll_flush(flushing, context.waker())
    }
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        if let Some(flushing) = &self.flushing {
            self.link.channel.leave_flush(flushing);
        }
    }
}

/// A message is offered when it is handed over; if it has to wait, it does so in the line, and the sink
/// is ready again once it is accepted. So at most one message is held here, beyond the queue. Flushed
/// means written; closing flushes and then ends our side as [`finish`](AsyncSender::finish) does.
///
/// # Errors
/// As [`send`](AsyncSender::send); with besteffort also `Full`, after which the sink can be used on.
impl Sink<Bytes> for AsyncSender {
    type Error = SendError;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        self.poll_waiting(context.waker())
    }

    fn start_send(mut self: Pin<&mut Self>, message: Bytes) -> Result<(), SendError> {
        if self.waiting.is_some() {
            // `poll_ready` was not asked, or said no.
            return Err(SendError::Full);
        }
        self.waiting = Some((message, None));
        // Whoever polls next brings the waker.
        match self.poll_waiting(Waker::noop()) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        let Self { link, flushing, .. } = match self.poll_waiting(context.waker()) {
            Poll::Ready(Ok(())) => &mut *self,
            other => return other,
        };
        let flushed = link.shared().channel.poll_flush(flushing, context.waker());
        flushed.map_err(|_| SendError::NotConnected)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        match self.as_mut().poll_flush(context) {
            Poll::Ready(Ok(())) => {
                self.finish();
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

impl Clone for AsyncSender {
    fn clone(&self) -> Self {
        Self::new(self.link.clone())
    }
}

impl Drop for AsyncSender {
    fn drop(&mut self) {
        if let Some((_, Some(ticket))) = self.waiting.take() {
            self.shared().channel.leave(ticket);
        }
        if let Some(flushing) = self.flushing.take() {
            self.shared().channel.leave_flush(&flushing);
        }
    }
}

impl fmt::Debug for AsyncSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncSender")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}
