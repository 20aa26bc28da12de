//! Links and servers driven by futures, under any executor: no runtime is needed and none is started.
//!
//! An [`AsyncLink`] is a link whose handler is ours: it fills a bounded inbox, and wakes the task that
//! waits. The driver reads and writes as for any other link. Sends that wait stand in
//! the same line as the threads that do (`channel/tasks.rs`); what a link or server has come to is watched
//! (`wakers.rs`).

mod backlog;
mod feed;
mod inbox;
mod link;
mod receiver;
mod sender;
mod server;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

use crate::address::Address;
use crate::error::{Error, Refusal};
use crate::handler::{Closed, Ended, Received};
use crate::io_loop::IoLoop;
use crate::io_thread::IoThread;
use crate::link::Link;
use crate::options::{AcceptOptions, InboxOptions, LinkOptions, ServerOptions};

use backlog::{Backlog, Door};
use feed::Feed;
use inbox::Inbox;

pub use link::AsyncLink;
pub use receiver::AsyncReceiver;
pub use sender::AsyncSender;
pub use server::AsyncServer;

/// One message, owned.
///
/// It reads as a slice. Its bytes are not copied again; small messages share chunks of 4 KiB, so one
/// that is kept for long is better copied.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// What the peer sent, without framing.
    pub bytes: Bytes,
    /// When it arrived, and whether it is whole.
    pub received: Received,
    /// The connection that brought it, from 1; as in [`Opened`](crate::Opened).
    pub generation: u64,
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Message> for Bytes {
    fn from(message: Message) -> Self {
        message.bytes
    }
}

/// Why [`AsyncReceiver::recv`] returned no message.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AsyncRecvError {
    /// A connection is over, and all that it brought was returned before. What comes next is of
    /// another connection, or `Ended`.
    ///
    /// Connections that bring nothing while nobody receives are told as one, the last of them.
    Closed(Closed),
    /// The link has ended, and nothing more will come: each further call returns this again.
    Ended(Ended),
}

impl fmt::Display for AsyncRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(closed) => write!(f, "the connection is over: {}", closed.reason),
            Self::Ended(ended) => write!(f, "the link has ended: {}", ended.reason),
        }
    }
}

impl std::error::Error for AsyncRecvError {}

impl IoThread {
    /// Begins a link to `address` for tasks to drive, and returns at once: it connects whether it is
    /// polled or not. [`AsyncLink::opened`] tells how it went.
    ///
    /// ```
    /// use tautline::{AcceptOptions, Framing, InboxOptions, IoOptions, IoThread, LinkOptions, ServerOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let io = IoThread::start(IoOptions::default())?;
    /// let framed = LinkOptions { framing: Framing::length_prefix(), ..LinkOptions::default() };
    /// let options = ServerOptions { link: framed.clone(), ..ServerOptions::default() };
    /// let mut server =
    ///     io.listen_async(&"tcp://127.0.0.1:0".parse()?, options, AcceptOptions::default())?;
    /// let mut link =
    ///     io.connect_async(&server.local_address(), framed, InboxOptions::default())?;
    /// // Any executor: tokio, smol, one's own.
    /// # smol::block_on(async {
    /// link.opened().await?;
    /// link.send(b"hello").await?;
    /// let mut peer = server.accept().await.expect("the server was not closed");
    /// let message = peer.recv().await?;
    /// peer.send(&message).await?; // Echo.
    /// assert_eq!(&*link.recv().await?, b"hello");
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// An option that makes no sense, by its name. That nobody listens there is told by `opened`.
    pub fn connect_async(
        &self,
        address: &Address,
        options: LinkOptions,
        inbox: InboxOptions,
    ) -> Result<AsyncLink, Error> {
        refuse_batch(&options)?;
        let (inbox, feed) = receiving(inbox)?;
        let link = self.connect(address, options, feed)?;
        Ok(AsyncLink::new(link, inbox))
    }

    /// Listens on `address` for a task that accepts.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; an address that is in use or not ours.
    pub fn listen_async(
        &self,
        address: &Address,
        options: ServerOptions,
        accept: AcceptOptions,
    ) -> Result<AsyncServer, Error> {
        refuse_batch(&options.link)?;
        let (backlog, welcome) = accepting(accept)?;
        let server = self.listen(address, options, welcome)?;
        Ok(AsyncServer::new(server, backlog))
    }
}

impl IoLoop {
    /// Begins a link for tasks to drive; see [`IoThread::connect_async`]. Tasks are woken during a turn,
    /// so the executor and the loop may share one thread.
    ///
    /// # Errors
    /// As [`IoThread::connect_async`].
    pub fn connect_async(
        &self,
        address: &Address,
        options: LinkOptions,
        inbox: InboxOptions,
    ) -> Result<AsyncLink, Error> {
        refuse_batch(&options)?;
        let (inbox, feed) = receiving(inbox)?;
        let link = self.connect(address, options, feed)?;
        Ok(AsyncLink::new(link, inbox))
    }

    /// Listens on `address` for a task that accepts.
    ///
    /// # Errors
    /// As [`IoThread::listen_async`].
    pub fn listen_async(
        &self,
        address: &Address,
        options: ServerOptions,
        accept: AcceptOptions,
    ) -> Result<AsyncServer, Error> {
        refuse_batch(&options.link)?;
        let (backlog, welcome) = accepting(accept)?;
        let server = self.listen(address, options, welcome)?;
        Ok(AsyncServer::new(server, backlog))
    }
}

/// An inbox hands out one message at a time, and gathers them itself.
fn refuse_batch(options: &LinkOptions) -> Result<(), Error> {
    match options.batch {
        None => Ok(()),
        Some(_) => Err(Error::option(
            "batch",
            "is for handlers; an inbox gathers messages by itself",
        )),
    }
}

/// An inbox, and the handler that fills it.
fn receiving(options: InboxOptions) -> Result<(Arc<Inbox>, Feed), Error> {
    options.validate()?;
    let inbox = Arc::new(Inbox::new(options.intake()));
    let feed = Feed::new(Arc::clone(&inbox), None);
    Ok((inbox, feed))
}

/// A backlog, and what lets peers into it.
fn accepting(
    options: AcceptOptions,
) -> Result<(Arc<Backlog>, impl FnMut(&Link) -> Result<Feed, Refusal>), Error> {
    options.validate()?;
    let backlog = Arc::new(Backlog::new(options.backlog_limit));
    let door = Door(Arc::clone(&backlog));
    let welcome = move |peer: &Link| {
        let seat = door.0.reserve();
        let seat = seat.ok_or_else(|| Refusal::from("too many wait to be accepted"))?;
        let inbox = Arc::new(Inbox::new(options.inbox.intake()));
        let link = AsyncLink::new(peer.adopt(), Arc::clone(&inbox));
        Ok(Feed::new(inbox, Some((seat, link))))
    };
    Ok((backlog, welcome))
}

#[cfg(all(test, loom))]
mod models;
