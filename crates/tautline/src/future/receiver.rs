//! The receiving half of a link that tasks drive.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_core::{FusedStream, Stream};

use super::inbox::{End, Inbox, Taken};
use super::{AsyncRecvError, Message};
use crate::handler::Reason;
use crate::link::{INBOX, Link};

/// The receiving half of an [`AsyncLink`](crate::AsyncLink), for one task.
///
/// When it is dropped while the other half lives, what waits is dropped, and so is what comes.
pub struct AsyncReceiver {
    link: Link,
    inbox: Arc<Inbox>,
    /// The stream is over.
    over: bool,
}

impl AsyncReceiver {
    pub(super) const fn new(link: Link, inbox: Arc<Inbox>) -> Self {
        Self {
            link,
            inbox,
            over: false,
        }
    }

    /// The next message.
    ///
    /// When a connection is over this says so once, after all that it brought: messages of two connections
    /// never follow each other without a word. A slow task loses nothing: its inbox is bounded by
    /// [`InboxOptions`](crate::InboxOptions), and reading pauses when it is full. Cancel-safe: a message is
    /// taken only by the poll that returns it.
    ///
    /// # Errors
    /// [`AsyncRecvError::Closed`] at the end of each connection, and then [`AsyncRecvError::Ended`]
    /// if no other will follow.
    pub async fn recv(&mut self) -> Result<Message, AsyncRecvError> {
        poll_fn(|context| self.poll_take(End::Told, context.waker()))
            .await
            .into()
    }

    /// Messages that wait to be taken.
    pub fn waiting_messages(&self) -> u64 {
        self.inbox.messages()
    }

    /// The link behind it: statistics, addresses. Its calls that wait block the thread.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    fn poll_take(&self, end: End, waker: &Waker) -> Poll<Taken> {
        let shared = self.link.shared();
        let mut resumes = false;
        let taken = self
            .inbox
            .poll_take(end, waker, || resumes = shared.unpause(INBOX));
        if resumes {
            shared.resume();
        }
        taken
    }
}

impl From<Taken> for Result<Message, AsyncRecvError> {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Message(message) => Ok(message),
            Taken::Closed(closed) => Err(AsyncRecvError::Closed(closed)),
            Taken::Ended(ended) => Err(AsyncRecvError::Ended(ended)),
        }
    }
}

/// The messages, in order. What [`recv`](AsyncReceiver::recv) tells of every end, the stream tells as
/// streams do: it is over when the link has ended.
///
/// * A last connection that came to an ordinary end (the peer ended its stream, or we ours) is not told.
/// * A connection that failed is an `Err`, and so is one that ended when another has followed.
/// * A link that could not connect is an `Err` too.
impl Stream for AsyncReceiver {
    type Item = Result<Message, AsyncRecvError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        self.poll_take(End::Silent, context.waker()).map(|taken| {
            if let Taken::Ended(ended) = &taken {
                self.over = true;
                // Anything else was told by the end of a connection, or is no failure.
                if !matches!(ended.reason, Reason::NotConnected(_)) {
                    return None;
                }
            }
            Some(taken.into())
        })
    }
}

impl FusedStream for AsyncReceiver {
    fn is_terminated(&self) -> bool {
        self.over
    }
}

impl Drop for AsyncReceiver {
    fn drop(&mut self) {
        self.inbox.abandon();
        let shared = self.link.shared();
        if shared.unpause(INBOX) {
            shared.resume();
        }
    }
}

impl fmt::Debug for AsyncReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncReceiver")
            .field("link", &self.link)
            .field("waiting_messages", &self.waiting_messages())
            .finish_non_exhaustive()
    }
}
