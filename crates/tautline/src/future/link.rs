//! Both halves of a link that tasks drive, in one hand.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::{FusedStream, Stream};
use futures_sink::Sink;

use super::inbox::Inbox;
use super::{AsyncReceiver, AsyncRecvError, AsyncSender, Message};
use crate::error::{Error, FlushError, SendError};
use crate::handler::{Ended, Unsent};
use crate::link::Link;

/// One link, driven by futures.
///
/// Made by [`IoThread::connect_async`](crate::IoThread::connect_async) or accepted by an
/// [`AsyncServer`](crate::AsyncServer). It is a `Stream` of messages as [`AsyncReceiver`] is and a `Sink`
/// of [`Bytes`] as [`AsyncSender`] is; [`split`](Self::split) gives the two halves to different tasks.
///
/// Every future is cancel-safe: a dropped [`recv`](Self::recv) has taken nothing, and a dropped
/// [`send`](Self::send) has accepted the whole message or nothing of it. So they may stand in `select!`.
/// None of them blocks the thread, wherever it is polled: also inside a callback.
///
/// Dropping it, both halves included, aborts the link after one flush that does not wait; also the link
/// of an accepted peer. The drop never blocks, so it may happen in a task.
#[derive(Debug)]
pub struct AsyncLink {
    sender: AsyncSender,
    receiver: AsyncReceiver,
}

impl AsyncLink {
    pub(super) fn new(link: Link, inbox: Arc<Inbox>) -> Self {
        Self {
            sender: AsyncSender::new(link.clone()),
            receiver: AsyncReceiver::new(link, inbox),
        }
    }

    /// Waits until a connection is open; at once if one is.
    ///
    /// # Errors
    /// Why it could not be opened, or that the link has ended.
    pub async fn opened(&self) -> Result<(), Error> {
        self.sender.opened().await
    }

    /// The next message; see [`AsyncReceiver::recv`].
    ///
    /// # Errors
    /// The end of a connection, then the end of the link.
    pub async fn recv(&mut self) -> Result<Message, AsyncRecvError> {
        self.receiver.recv().await
    }

    /// Sends one message; see [`AsyncSender::send`].
    ///
    /// # Errors
    /// [`SendError`] says what became of it; the message was not accepted.
    pub async fn send(&self, message: &[u8]) -> Result<(), SendError> {
        self.sender.send(message).await
    }

    /// Sends one message without copying a large one; see [`AsyncSender::send_bytes`].
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_bytes(&self, message: Bytes) -> Result<(), SendError> {
        self.sender.send_bytes(message).await
    }

    /// Waits until everything accepted is written; see [`AsyncSender::flush`].
    ///
    /// # Errors
    /// No connection, or one that ended meanwhile.
    pub async fn flush(&self) -> Result<(), FlushError> {
        self.sender.flush().await
    }

    /// Stops accepting, writes what waits, ends our side, and reads to the peer's end or the deadline;
    /// returns what was not sent when the link has ended. Messages that come meanwhile are dropped: to
    /// read to the end, [`split`](Self::split) first.
    ///
    /// It begins when it is first polled. Dropped after that, it goes on without anybody waiting, but then
    /// the last handle is gone and it takes the time it was given at most.
    pub async fn close(self, timeout: Duration) -> Unsent {
        let Self { sender, receiver } = self;
        drop(receiver);
        sender.close(timeout).await
    }

    /// Waits until the link has ended: no connection will follow. Any number of tasks may wait.
    pub async fn ended(&self) -> Ended {
        self.sender.ended().await
    }

    /// Another sender to the same link, for another task.
    pub fn sender(&self) -> AsyncSender {
        self.sender.clone()
    }

    /// The two halves, for two tasks. The link lives while either does.
    pub fn split(self) -> (AsyncSender, AsyncReceiver) {
        (self.sender, self.receiver)
    }

    /// The link behind it: statistics, addresses, `try_send`. Its calls that wait block the thread.
    pub fn link(&self) -> &Link {
        self.sender.link()
    }
}

/// As that of [`AsyncReceiver`].
impl Stream for AsyncLink {
    type Item = Result<Message, AsyncRecvError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.receiver).poll_next(context)
    }
}

impl FusedStream for AsyncLink {
    fn is_terminated(&self) -> bool {
        self.receiver.is_terminated()
    }
}

/// As that of [`AsyncSender`].
impl Sink<Bytes> for AsyncLink {
    type Error = SendError;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        Pin::new(&mut self.sender).poll_ready(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Bytes) -> Result<(), SendError> {
        Pin::new(&mut self.sender).start_send(message)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        Pin::new(&mut self.sender).poll_flush(context)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        Pin::new(&mut self.sender).poll_close(context)
    }
}
