//! The way out: a writer takes bytes, and settles what the kernel made of them.

use super::offer::push_headed;
use super::{
    Caller, DatagramsWritten, DirectWrite, Outbound, Settled, Severed, Stage, Stopped,
    Surroundings, Taken, Token, Writer,
};
use crate::account::Tally;
use crate::block::{Block, PeerId};
use crate::delay::QueueDelay;
use crate::framing::Header;
use crate::payload::Payload;
use crate::queue::{Part, block_for};

impl Outbound {
    /// The oldest block, for whoever writes. `None` when there is nothing, when somebody else is
    /// writing, or when no connection is open.
    pub fn take(&mut self, caller: Caller, surroundings: &impl Surroundings) -> Option<Taken> {
        if caller == Caller::Driver {
            self.scheduled = false;
            self.blocked = false;
        }
        if self.blocked {
            return None;
        }
        self.take_more(caller, surroundings)
    }

    /// As [`take`](Self::take), by somebody whom nobody called for: the driver that has just settled a
    /// block, or a callback that needs room. It tries a kernel that was full, too.
    pub fn take_more(&mut self, caller: Caller, surroundings: &impl Surroundings) -> Option<Taken> {
        let open = matches!(self.stage, Stage::Open | Stage::Closing(_));
        if !open || self.writer != Writer::Nobody {
            return None;
        }
        self.blocked = false;
        self.discard_too_old(surroundings);
        let (block, part) = self.queue.take_front(self.hook, surroundings)?;
        self.writer = Writer::Block;
        self.in_flight = block.tally();
        self.write_calls += 1;
        Some(Taken {
            token: Token {
                generation: self.generation,
                timed: true,
                accepted_ns: None,
                header: Header::default(),
            },
            caller,
            own: false,
            taken_ns: surroundings.now_ns(),
            part,
            block,
        })
    }

    /// What the kernel took of a stream's block. Messages it did not touch may be evicted again.
    pub fn settle_stream(
        &mut self,
        mut taken: Taken,
        written_bytes: usize,
        surroundings: &impl Surroundings,
    ) -> Settled {
        self.direct_writes += u64::from(taken.own);
        if let Some(severed) = self.settle_begins(taken.token, surroundings) {
            return self.settle_severed(taken, written_bytes, severed, surroundings);
        }
        let waited = (taken.taken_ns, &mut self.queue_delay);
        let completed = taken.block.advance(written_bytes, record(waited));
        self.account
            .wrote(completed.written, self.hot.free_since_ns());
        self.account.framing_bytes += completed.framing_bytes;
        self.give_back(completed.written.bytes);
        self.settle_ends(taken, true, surroundings)
    }

    /// What became of a block of datagrams.
    pub fn settle_datagrams(
        &mut self,
        mut taken: Taken,
        written: DatagramsWritten,
        surroundings: &impl Surroundings,
    ) -> Settled {
        let DatagramsWritten {
            sent,
            stopped,
            calls,
        } = written;
        // `take` counted the first.
        self.write_calls += calls.saturating_sub(1);
        self.direct_writes += u64::from(taken.own);
        if let Some(severed) = self.settle_begins(taken.token, surroundings) {
            return self.settle_severed(taken, 0, severed, surroundings);
        }
        let now_ns = self.hot.free_since_ns();
        if self.peers.is_none() {
            // One peer's: all in one pass.
            let waited = (taken.taken_ns, &mut self.queue_delay);
            let written = taken.block.pass_many(sent, record(waited));
            self.give_back(written.bytes);
            self.account.wrote(written, now_ns);
        } else {
            self.settle_each(&mut taken, sent, now_ns);
        }
        if stopped == Stopped::Failed
            && let Some((peer, failed)) = taken.block.pass_front(|_, _| {})
        {
            self.give_back(failed.bytes);
            self.each_account(peer, |account| account.discarded.failed += failed);
        }
        let blocked = stopped == Stopped::WouldBlock;
        self.settle_ends(taken, blocked, surroundings)
    }

    fn settle_each(&mut self, taken: &mut Taken, sent: usize, now_ns: u64) {
        for _ in 0..sent {
            let waited = (taken.taken_ns, &mut self.queue_delay);
            if let Some((peer, written)) = taken.block.pass_front(record(waited)) {
                self.give_back(written.bytes);
                self.each_account(peer, |account| account.wrote(written, now_ns));
            }
        }
    }

    /// What the kernel took of a message that its sender wrote. The rest goes to the front of the
    /// queue.
    ///
    /// Returns whether the driver has to be told.
    pub fn settle_direct<'a>(
        &mut self,
        token: Token,
        message: impl Into<Payload<'a>>,
        peer: PeerId,
        written: DirectWrite,
        surroundings: &impl Surroundings,
    ) -> bool {
        let message = message.into();
        let header = token.header;
        let whole = Tally::one(header.len() + message.len());
        self.direct_writes += 1;
        self.write_calls += 1;
        match (self.settle_begins(token, surroundings), written) {
            (Some(Severed::Keep), DirectWrite::Part(0)) => {
                self.carried += whole;
                self.put_rest_first(token, message, peer, 0, surroundings);
            }
            (Some(severed), _) => {
                let cause = severed.cause();
                self.give_back(whole.bytes);
                self.each_account(peer, |account| account.discarded.add(cause, whole));
            }
            (None, DirectWrite::Whole) => {
                self.give_back(whole.bytes);
                let now_ns = self.hot.free_since_ns();
                self.each_account(peer, |account| {
                    account.wrote(whole, now_ns);
                    account.framing_bytes += header.len() as u64;
                });
            }
            (None, DirectWrite::Failed) => {
                self.give_back(whole.bytes);
                self.each_account(peer, |account| account.discarded.failed += whole);
            }
            (None, DirectWrite::Part(bytes)) => {
                self.put_rest_first(token, message, peer, bytes, surroundings);
            }
        }
        self.judge_pressure();
        self.grant();
        self.call_driver()
    }

    /// The kernel had no memory for what is about to be settled.
    pub const fn note_shortage(&mut self) {
        self.shortages += 1;
    }

    /// After a thread that is not the driver settled a block: whether the driver has to be told.
    pub fn needs_driver(&mut self) -> bool {
        self.call_driver()
    }

    /// The writer is back. Says what becomes of what it had if its connection is over.
    fn settle_begins(&mut self, token: Token, surroundings: &impl Surroundings) -> Option<Severed> {
        debug_assert!(self.is_writing());
        if token.timed {
            self.hot.free_again(surroundings.now_ns());
        }
        self.writer = Writer::Nobody;
        self.in_flight = Tally::default();
        let severed = self.severed.take();
        debug_assert!(severed.is_some() || token.generation == self.generation);
        severed
    }

    fn settle_ends(
        &mut self,
        mut taken: Taken,
        would_block: bool,
        surroundings: &impl Surroundings,
    ) -> Settled {
        stamp_own(&mut taken, surroundings);
        let rest = self.put_back(taken.block, taken.part, surroundings);
        let blocked = rest && would_block;
        // Only the driver can ask the kernel for a word when there is room again.
        self.blocked = blocked && taken.caller == Caller::Driver;
        self.judge_pressure();
        self.grant();
        Settled {
            more: !blocked && !self.queue.is_empty(),
            blocked,
        }
    }

    /// The connection ended under the writer: whatever the kernel took went nowhere we know of.
    #[cold]
    fn settle_severed(
        &mut self,
        mut taken: Taken,
        written_bytes: usize,
        severed: Severed,
        surroundings: &impl Surroundings,
    ) -> Settled {
        stamp_own(&mut taken, surroundings);
        let Taken {
            mut block, part, ..
        } = taken;
        let cause = severed.cause();
        let mut lost = Tally::default();
        if severed == Severed::Keep && part == Part::Main {
            lost += block.advance(written_bytes, |_, _| {}).written;
            if let Some((_, rest)) = block.give_up_cut() {
                lost += rest;
            }
            lost += block.remove_control();
            // Only a stream keeps, and it has one peer.
            self.account.discarded.add(cause, lost);
            self.give_back(lost.bytes);
            self.carried += block.tally();
            return self.settle_kept(block, surroundings);
        }
        block.each().for_each(|(peer, tally)| {
            lost += tally;
            self.each_account(peer, |account| account.discarded.add(cause, tally));
        });
        self.give_back(lost.bytes);
        surroundings.recycle(block);
        self.judge_pressure();
        self.grant();
        Settled {
            more: !self.queue.is_empty(),
            blocked: false,
        }
    }

    /// What the kernel did not touch is the front of what is kept.
    fn settle_kept(&mut self, block: Block, surroundings: &impl Surroundings) -> Settled {
        self.put_back(block, Part::Main, surroundings);
        self.judge_pressure();
        self.grant();
        Settled {
            more: !self.queue.is_empty(),
            blocked: false,
        }
    }

    #[cold]
    fn put_rest_first(
        &mut self,
        token: Token,
        message: Payload<'_>,
        peer: PeerId,
        written_bytes: usize,
        surroundings: &impl Surroundings,
    ) {
        let header = token.header;
        let size = self.headed_size(&header, message);
        let mut rest = block_for(size.copied_bytes, surroundings);
        // Those behind it were queued while it was being written: it is the oldest.
        let accepted_ns = token.accepted_ns.unwrap_or_else(|| surroundings.now_ns());
        rest.stamp(accepted_ns);
        push_headed(&mut rest, &header, message, size, peer);
        if written_bytes > 0 {
            rest.cut(written_bytes);
            self.give_back(written_bytes as u64);
            let written = Tally {
                messages: 0,
                bytes: written_bytes as u64,
            };
            self.account.wrote(written, self.hot.free_since_ns());
        }
        self.put_back(rest, Part::Main, surroundings);
    }

    /// What was not written is the front of the queue again. Returns whether there is any.
    fn put_back(&mut self, mut block: Block, part: Part, surroundings: &impl Surroundings) -> bool {
        if std::mem::take(&mut self.peer_left_in_flight) {
            self.give_up_departed(&mut block);
        }
        if block.is_empty() {
            surroundings.recycle(block);
            return false;
        }
        self.queue.put_front(block, part);
        true
    }

    /// While the writer had the block, peers closed: what was not written is for nobody.
    #[cold]
    fn give_up_departed(&mut self, block: &mut Block) {
        let Self { peers, account, .. } = self;
        let Some(peers) = peers else { return };
        let given_up = block.take_out(|peer, tally| {
            let Some(cause) = peers.departed(peer) else {
                return false;
            };
            account.discarded.add(cause, tally);
            if let Some(account) = peers.account_mut(peer) {
                account.discarded.add(cause, tally);
            }
            true
        });
        self.give_back(given_up.bytes);
    }
}

/// What its sender could not write waits from now on like any other, and those behind it came later.
fn stamp_own(taken: &mut Taken, surroundings: &impl Surroundings) {
    if taken.own && !taken.block.is_empty() {
        let accepted_ns = taken.token.accepted_ns;
        let stamp_ns = accepted_ns.unwrap_or_else(|| surroundings.now_ns());
        taken.block.stamp_all(stamp_ns);
    }
}

/// Notes in the histogram, made with the first queued message, how long messages waited.
fn record((taken_ns, histogram): (u64, &mut Option<Box<QueueDelay>>)) -> impl FnMut(u64, u32) + '_ {
    move |queued_ns, messages| {
        histogram
            .get_or_insert_default()
            .record(taken_ns.saturating_sub(queued_ns), messages);
    }
}
