//! The sending half, promise by promise. What many steps in many orders do is the simulation's.

mod control;
mod delay;
mod eviction;
mod framed;
mod freshness;
mod keeping;
mod life;
mod limits;
mod pressure;
mod shared;
mod short_ways;
mod table;
mod waiting;

use std::cell::Cell;
use std::sync::Arc;

use super::{
    Call, Caller, DatagramsWritten, DirectWrite, Discard, Offer, Outbound, OutboundOptions,
    Refusal, Settled, Stopped, Surroundings, Taken, Token,
};
use crate::account::Tally;
use crate::block::{BLOCK_BYTES, Block, PeerId};
use crate::budget::Budget;
use crate::framing::Framing;
use crate::pressure::Pressure;
use crate::reconnect::OnLoss;
use crate::strategy::Strategy;
use crate::waiters::{Ticket, TicketState};

/// A driver's desk: a clock set by hand, which counts how often it is read, and blocks.
struct Desk {
    now_ns: Cell<u64>,
    /// How far each reading moves the clock on: far enough apart that no sender is hot.
    step_ns: Cell<u64>,
    readings: Cell<u32>,
    blocks_out: Cell<i64>,
}

impl Surroundings for Desk {
    fn now_ns(&self) -> u64 {
        self.readings.set(self.readings.get() + 1);
        self.now_ns.set(self.now_ns.get() + self.step_ns.get());
        self.now_ns.get()
    }

    fn block(&self) -> Block {
        self.blocks_out.set(self.blocks_out.get() + 1);
        Block::with_room(BLOCK_BYTES)
    }

    fn recycle(&self, _: Block) {
        self.blocks_out.set(self.blocks_out.get() - 1);
    }
}

/// A queue with raw framing, so that a message of n bytes counts n bytes. Looks after every step
/// whether the account closes and the limits hold.
struct Rig {
    outbound: Outbound,
    desk: Desk,
    limit: Tally,
}

impl Rig {
    /// Open, with no limit but these.
    fn open(strategy: Strategy, limit_bytes: usize, limit_messages: usize) -> Self {
        let mut rig = Self::with(&OutboundOptions {
            strategy,
            queue_limit_bytes: limit_bytes,
            queue_limit_messages: limit_messages,
            ..options()
        });
        rig.outbound.opened();
        rig
    }

    fn with(options: &OutboundOptions) -> Self {
        Self {
            outbound: Outbound::new(options),
            desk: Desk {
                now_ns: Cell::new(0),
                step_ns: Cell::new(10_000),
                readings: Cell::new(0),
                blocks_out: Cell::new(0),
            },
            limit: tally(
                options.queue_limit_messages as u64,
                options.queue_limit_bytes as u64,
            ),
        }
    }

    fn offer(&mut self, message: &[u8], call: Call, caller: Caller) -> Offer {
        self.offer_to(PeerId::SOLE, message, call, caller)
    }

    fn offer_to(&mut self, peer: PeerId, message: &[u8], call: Call, caller: Caller) -> Offer {
        let offer = self.outbound.offer(message, peer, call, caller, &self.desk);
        self.check();
        offer
    }

    /// The driver queues a message; there must be room.
    fn queue(&mut self, message: &[u8]) {
        self.queue_to(PeerId::SOLE, message);
    }

    fn queue_to(&mut self, peer: PeerId, message: &[u8]) {
        let offer = self.offer_to(peer, message, Call::Try, Caller::Driver);
        assert!(matches!(offer, Offer::Queued { .. }), "{offer:?}");
    }

    /// A thread sends to an idle link; it must be told to write itself.
    fn write_now(&mut self, message: &[u8]) -> Token {
        self.write_now_to(PeerId::SOLE, message)
    }

    fn write_now_to(&mut self, peer: PeerId, message: &[u8]) -> Token {
        let offer = self.offer_to(peer, message, Call::Try, Caller::Thread);
        let Offer::WriteNow(token) = offer else {
            panic!("{offer:?}");
        };
        token
    }

    /// A thread's send that must wait.
    fn wait(&mut self, message: &[u8]) -> Ticket {
        self.wait_to(PeerId::SOLE, message)
    }

    fn wait_to(&mut self, peer: PeerId, message: &[u8]) -> Ticket {
        let offer = self.offer_to(peer, message, Call::Within, Caller::Thread);
        let Offer::Wait(ticket) = offer else {
            panic!("{offer:?}");
        };
        ticket
    }

    fn redeem(&mut self, ticket: Ticket, message: &[u8]) -> Offer {
        let offer = self
            .outbound
            .redeem(ticket, message, PeerId::SOLE, Caller::Thread, &self.desk);
        self.check();
        offer
    }

    fn take(&mut self) -> Taken {
        self.try_take().expect("something waits and nobody writes")
    }

    fn try_take(&mut self) -> Option<Taken> {
        let taken = self.outbound.take(Caller::Driver, &self.desk);
        self.check();
        taken
    }

    fn settle(&mut self, taken: Taken, written_bytes: usize) -> Settled {
        let settled = self
            .outbound
            .settle_stream(taken, written_bytes, &self.desk);
        self.check();
        settled
    }

    fn settle_datagrams(&mut self, taken: Taken, sent: usize, stopped: Stopped) -> Settled {
        let written = DatagramsWritten {
            sent,
            stopped,
            calls: (sent + usize::from(stopped != Stopped::AtEnd)) as u64,
        };
        let settled = self.outbound.settle_datagrams(taken, written, &self.desk);
        self.check();
        settled
    }

    fn settle_direct(&mut self, token: Token, message: &[u8], written: DirectWrite) -> bool {
        self.settle_direct_to(PeerId::SOLE, token, message, written)
    }

    fn settle_direct_to(
        &mut self,
        peer: PeerId,
        token: Token,
        message: &[u8],
        written: DirectWrite,
    ) -> bool {
        let wake = self
            .outbound
            .settle_direct(token, message, peer, written, &self.desk);
        self.check();
        wake
    }

    fn end(&mut self, cause: Discard) -> Tally {
        let given_up = self.outbound.end(cause, &self.desk);
        self.check();
        given_up
    }

    fn close_peer(&mut self, peer: PeerId, cause: Discard) -> Tally {
        let given_up = self.outbound.close_peer(peer, cause, &self.desk);
        self.check();
        given_up
    }

    /// Everyone told since the last time.
    fn told(&mut self) -> Vec<Ticket> {
        std::iter::from_fn(|| self.outbound.poll_ticket()).collect()
    }

    /// What the driver would write until nothing is left, block by block.
    fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut written = Vec::new();
        while let Some(taken) = self.try_take() {
            written.push(taken.bytes().to_vec());
            let all_bytes = taken.bytes().len();
            self.settle(taken, all_bytes);
        }
        written
    }

    /// What the driver would send until nothing is left.
    fn drain_datagrams(&mut self) -> Vec<(PeerId, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(taken) = self.try_take() {
            let before = sent.len();
            sent.extend(
                taken
                    .datagrams()
                    .map(|one| (one.peer, one.payload.to_vec())),
            );
            let count = sent.len() - before;
            self.settle_datagrams(taken, count, Stopped::AtEnd);
        }
        sent
    }

    fn check(&self) {
        let statistics = self.outbound.statistics();
        assert!(statistics.closes(), "{statistics:?}");
        assert!(statistics.waiting.bytes <= self.limit.bytes);
        assert!(statistics.waiting.messages <= self.limit.messages);
        assert!(statistics.peak.bytes <= self.limit.bytes);
        assert!(statistics.peak.messages <= self.limit.messages);
    }
}

/// Roomy, reliable, raw.
fn options() -> OutboundOptions {
    OutboundOptions {
        strategy: Strategy::Reliable,
        framing: Framing::Raw,
        queue_limit_bytes: 1 << 20,
        queue_limit_messages: 1 << 16,
        frame_limit_bytes: 1 << 20,
        copy_limit_bytes: 8,
        max_queue_delay_ns: None,
        shared: false,
        budget: None,
        on_loss: OnLoss::Discard,
    }
}

const fn tally(messages: u64, bytes: u64) -> Tally {
    Tally { messages, bytes }
}
