//! A server whose peers are accepted by a task.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::AsyncLink;
use super::backlog::Backlog;
use crate::address::Address;
use crate::handler::Unsent;
use crate::server::Server;

/// A listening server whose peers are accepted by a task; a `Stream` of them too.
///
/// Peers are let in by the I/O thread and wait in a bounded backlog, where their inboxes fill already; see
/// [`AcceptOptions`](crate::AcceptOptions). An accepted peer is a link of its own: dropping it ends it. As
/// with every [`Server`], dropping the server aborts them all. The drop never blocks: over UDP the address
/// is free a moment later, and certainly after [`close`](Self::close).
#[derive(Debug)]
pub struct AsyncServer {
    server: Server,
    backlog: Arc<Backlog>,
}

impl AsyncServer {
    pub(super) const fn new(server: Server, backlog: Arc<Backlog>) -> Self {
        Self {
            server: server.without_waiting(),
            backlog,
        }
    }

    /// The next peer, open, or ended already; `None` once the server was closed and all were accepted.
    ///
    /// Cancel-safe: a peer is taken only by the poll that returns it. Failures to accept are not told here:
    /// they are counted, and accepting goes on after a pause.
    pub async fn accept(&mut self) -> Option<AsyncLink> {
        poll_fn(|context| self.backlog.poll_accept(context.waker())).await
    }

    /// Stops accepting and closes every peer as [`AsyncSender::close`](crate::AsyncSender::close) does;
    /// returns what was not sent when all have ended. It begins when it is first polled.
    pub async fn close(&self, timeout: Duration) -> Unsent {
        self.server.close_async(timeout).await
    }

    /// Where it listens: with the port that the kernel chose.
    pub fn local_address(&self) -> Address {
        self.server.local_address()
    }

    /// The server behind it: statistics, peers. Its calls that wait block the thread.
    pub const fn server(&self) -> &Server {
        &self.server
    }
}

impl Stream for AsyncServer {
    type Item = AsyncLink;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AsyncLink>> {
        self.backlog.poll_accept(context.waker())
    }
}

impl Drop for AsyncServer {
    fn drop(&mut self) {
        self.backlog.abandon();
    }
}
