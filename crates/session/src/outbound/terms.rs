//! The words that a session and its driver speak with.

use std::sync::Arc;

use crate::block::{Block, Datagram, Runs};
use crate::budget::Budget;
use crate::framing::{Framing, Header};
use crate::queue::Part;
use crate::reconnect::OnLoss;
use crate::strategy::Strategy;
use crate::waiters::Ticket;

/// What a session asks of whatever drives it. Time is asked for only where it is used: a clock read
/// per message would cost a third of the throughput.
pub trait Surroundings {
    /// Monotonic time, from any epoch.
    fn now_ns(&self) -> u64;
    /// An empty block with the room of [`BLOCK_BYTES`](crate::BLOCK_BYTES).
    fn block(&self) -> Block;
    /// A block that is no longer needed.
    fn recycle(&self, block: Block);
}

/// How a queue behaves. The limits are exact: what is in flight counts.
#[derive(Debug, Clone)]
pub struct OutboundOptions {
    /// What a full queue means.
    pub strategy: Strategy,
    /// How messages are marked.
    pub framing: Framing,
    /// Most encoded bytes waiting or in flight.
    pub queue_limit_bytes: usize,
    /// Most messages waiting or in flight.
    pub queue_limit_messages: usize,
    /// Longest payload.
    pub frame_limit_bytes: usize,
    /// A payload of this length or more that is [owned](crate::Payload::Owned), and goes to the wire as it
    /// is, is kept instead of copied.
    pub copy_limit_bytes: usize,
    /// A message that waited longer is given up instead of written. With it the clock is read for
    /// every message that queues.
    pub max_queue_delay_ns: Option<u64>,
    /// What becomes of messages that wait when their connection is lost. To keep them takes a stream
    /// that is framed.
    pub on_loss: OnLoss,
    /// Several peers share the queue; keeplatest evicts among the messages to one peer.
    pub shared: bool,
    /// A total shared with other queues.
    pub budget: Option<Arc<Budget>>,
}

/// Which call offers a message: the columns of the table at [`Strategy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `try_send`
    Try,
    /// `send`
    Send,
    /// `send_timeout`
    Within,
    /// `send` of a task: as [`Send`](Self::Send), but its wait blocks no thread, so that any caller may.
    Await,
}

/// Who is calling, and so what may be asked of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// An application thread: may write, may wait.
    Thread,
    /// A thread inside a callback of some other I/O thread: may write, never waits.
    Callback,
    /// The I/O thread of this link: appends, flushes once per dispatch batch, never waits.
    Driver,
    /// The same, inside the callback of the only message that came: what it says can be joined by nothing,
    /// so it may write.
    Answering,
    /// The owner of a direct link: always writes, and waits in its own way.
    Direct,
}

/// The answer to an offer.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Offer {
    /// Accepted: the caller writes [`Token::header`] and the message now, then calls
    /// [`Outbound::settle_direct`](crate::Outbound::settle_direct).
    WriteNow(Token),
    /// Accepted and encoded: the caller writes what it is handed, as if it had taken it from the queue,
    /// then settles as for that and asks [`Outbound::needs_driver`](crate::Outbound::needs_driver).
    WriteTaken(Taken),
    /// Accepted and queued.
    Queued {
        /// The driver has to be told; it was not yet.
        wake: bool,
    },
    /// No room: the caller waits for its turn.
    Wait(Ticket),
    /// Not accepted.
    Refused(Refusal),
}

/// Why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No room.
    Full,
    /// No room, and the caller would have to wait but may not.
    WouldWait,
    /// It never fits.
    TooLarge {
        /// The longest payload accepted.
        limit_bytes: usize,
    },
    /// The framing cannot carry it: it contains a mark.
    Unframeable,
    /// No connection is open.
    NotConnected,
    /// The link was closed.
    Closed,
}

/// The right to write, in one life of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub(super) generation: u64,
    /// Whether it matters when the write ends; a direct caller never queues for being hot, and is
    /// spared the clock.
    pub(super) timed: bool,
    /// When its message was accepted, where the clock was read for that.
    pub(super) accepted_ns: Option<u64>,
    pub(super) header: Header,
}

impl Token {
    /// What goes before the message.
    #[inline]
    pub const fn header(&self) -> &Header {
        &self.header
    }
}

/// Bytes in a writer's hands. It counts as waiting until settled, and is never evicted.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Taken {
    pub(super) token: Token,
    pub(super) caller: Caller,
    /// It is the caller's own message, and was in no queue.
    pub(super) own: bool,
    pub(super) taken_ns: u64,
    pub(super) part: Part,
    pub(super) block: Block,
}

impl Taken {
    /// What a stream has to write, in order: [`BLOCK_SLICES`](crate::BLOCK_SLICES) at most, none of them
    /// empty, and none at all where there is nothing.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.block.unwritten()
    }

    /// The same, put together.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.slices().flatten().copied().collect()
    }

    /// How many messages it is, the rest of one among them.
    pub const fn messages(&self) -> u64 {
        self.block.tally().messages
    }

    /// The datagrams to send, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.block.datagrams()
    }

    /// The same, as runs that may leave in one call each.
    pub fn runs(&self) -> Runs<'_> {
        self.block.runs()
    }
}

/// What the kernel made of a message that its sender wrote itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectWrite {
    /// It took all of it.
    Whole,
    /// It took the first so many bytes of the encoded message and has no room for more; 0 of a
    /// datagram.
    Part(usize),
    /// It refused the datagram for good.
    Failed,
}

/// What became of a batch of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramsWritten {
    /// So many from the front are gone.
    pub sent: usize,
    /// Then it stopped.
    pub stopped: Stopped,
    /// System calls that it took, the one that did not go among them.
    pub calls: u64,
}

/// Where a batch of datagrams stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// All are sent.
    AtEnd,
    /// The kernel has no room for the next.
    WouldBlock,
    /// The kernel refused the next for good.
    Failed,
}

/// What a settled write leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// There is more to take now.
    pub more: bool,
    /// The kernel was full: write again when it says so.
    pub blocked: bool,
}

/// Why accepted messages are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// The connection was lost.
    ConnectionLost,
    /// The link was closed.
    Closed,
}
