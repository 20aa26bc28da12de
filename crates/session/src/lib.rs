//! The session: what a link decides, without a socket, a clock or a thread.
//!
//! Bytes, time and results come in as arguments; decisions come out. [`Outbound`] is the sending
//! half: the exact queue, the strategy, the waiters, pressure and the accounting. [`Inbound`] is the
//! receiving half: bytes in, frames out. The drivers of the `tautline` crate obey them, and so does
//! the simulation in `tests/`, which lives through thousands of connections a second.
//!
//! This crate is unstable by itself: use what `tautline` re-exports.

#![forbid(unsafe_code)]

mod account;
mod block;
mod budget;
mod control;
mod delay;
mod framing;
mod heartbeat;
mod idle;
mod inbound;
mod intake;
mod outbound;
mod payload;
mod peers;
mod pressure;
mod queue;
mod reconnect;
mod strategy;
mod waiters;

pub use account::{Discarded, SendStatistics, Tally};
pub use block::{BLOCK_BYTES, BLOCK_SLICES, Block, Datagram, PeerId, Run, Runs};
pub use budget::Budget;
pub use control::{CONTROL_BYTES, Control, Heard};
pub use delay::QueueDelay;
pub use framing::{
    ByteOrder, Encoded, Found, FrameFault, Framer, Framing, Header, Lines, OnBadFrame, OwnFraming,
    Parser, Pattern, PrefixWidth, Step, Unframeable,
};
pub use heartbeat::{Heartbeat, HeartbeatRtt, Pulse};
pub use idle::{IdleSide, IdleTimeouts, Silence};
pub use inbound::{Frames, Inbound};
pub use intake::Intake;
pub use outbound::{
    Call, Caller, DatagramsWritten, DirectWrite, Discard, Offer, Outbound, OutboundOptions,
    Refusal, Settled, Stopped, Surroundings, Taken, Token,
};
pub use payload::Payload;
pub use pressure::Pressure;
pub use reconnect::{FirstAttempt, Next, OnLoss, Reconnect, Retries};
pub use strategy::{Strategy, UnknownStrategy};
pub use waiters::{Ticket, TicketState};
