//! Framings of which the length is not known beforehand, and messages that were encoded before.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::framing::{Encoded, Found, Framer, Unframeable};

fn rig(framing: Framing, limit_bytes: usize) -> Rig {
    let mut rig = Rig::with(&OutboundOptions {
        framing,
        queue_limit_bytes: limit_bytes,
        ..options()
    });
    rig.outbound.opened();
    rig
}

fn own_block(offer: Offer) -> Taken {
    match offer {
        Offer::WriteTaken(taken) => taken,
        other => panic!("{other:?}"),
    }
}

const TOO_LARGE: fn(usize) -> Offer =
    |limit_bytes| Offer::Refused(Refusal::TooLarge { limit_bytes });

#[test]
fn a_sender_is_handed_what_it_has_to_write() {
    let mut rig = rig(Framing::lines(), 100);
    let taken = own_block(rig.offer(b"abc", Call::Send, Caller::Thread));
    assert_eq!(taken.bytes(), b"abc\n");
    assert!(rig.outbound.is_writing());
    assert_eq!(rig.outbound.waiting(), tally(1, 4));
    // Another sender's message waits behind it, and nobody else writes.
    assert_eq!(
        rig.offer(b"d", Call::Send, Caller::Thread),
        Offer::Queued { wake: false }
    );
    assert_eq!(rig.try_take(), None);
    let settled = rig.settle(taken, 4);
    assert_eq!((settled.more, settled.blocked), (true, false));
    assert!(rig.outbound.needs_driver());
    let statistics = rig.outbound.statistics();
    assert_eq!((statistics.direct_writes, statistics.write_calls), (1, 1));
    assert_eq!(statistics.written, tally(1, 4));
    assert_eq!(statistics.written_payload_bytes, 3);
    assert_eq!(statistics.queue_delay, None, "it waited for nothing");
    assert_eq!(rig.drain(), [b"d\n".to_vec()]);
    assert_eq!(rig.outbound.statistics().written_payload_bytes, 4);
    assert_eq!(rig.desk.blocks_out.get(), 0);
}

#[test]
fn the_rest_of_a_senders_own_block_is_the_front_of_the_queue() {
    let mut rig = rig(Framing::pattern("<", ">"), 100);
    let taken = own_block(rig.offer(b"abc", Call::Send, Caller::Thread));
    let _ = rig.offer(b"d", Call::Send, Caller::Driver);
    rig.settle(taken, 2);
    assert_eq!(rig.drain(), [b"bc>".to_vec(), b"<d>".to_vec()]);
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.written, tally(2, 8));
    assert_eq!(statistics.written_payload_bytes, 4);
    // From when it had to wait, each by itself.
    assert_eq!(statistics.queue_delay.unwrap().count(), 2);
}

#[test]
fn a_connection_that_ends_under_a_senders_own_block_gives_it_up() {
    let mut rig = rig(Framing::cobs(), 100);
    let taken = own_block(rig.offer(b"abc", Call::Send, Caller::Thread));
    rig.end(Discard::ConnectionLost);
    rig.settle(taken, 9);
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.discarded.connection_lost, tally(1, 9));
    assert_eq!(statistics.written, tally(0, 0));
    assert_eq!(rig.desk.blocks_out.get(), 0);
}

#[test]
fn the_limits_are_of_encoded_bytes_to_the_byte() {
    // A frame of n bytes without a zero takes n + 6 to 248, and one more from 251.
    let mut rig = rig(Framing::cobs(), 258);
    assert_eq!(
        rig.offer(&[1; 252], Call::Try, Caller::Driver),
        TOO_LARGE(251)
    );
    // With a zero in the right place no code is added.
    let mut zero = [1; 252];
    zero[100] = 0;
    assert_eq!(
        rig.offer(&zero, Call::Try, Caller::Driver),
        Offer::Queued { wake: true }
    );
    assert_eq!(rig.outbound.waiting(), tally(1, 258));
    assert_eq!(
        rig.offer(b"", Call::Try, Caller::Driver),
        Offer::Refused(Refusal::Full)
    );
    assert_eq!(rig.drain()[0].len(), 258);
    assert_eq!(rig.outbound.statistics().written_payload_bytes, 252);
}

#[test]
fn what_cannot_be_carried_is_refused_and_counted_nowhere() {
    let mut rig = rig(Framing::lines(), 100);
    let refused = rig.offer(b"a\nb", Call::Send, Caller::Thread);
    assert_eq!(refused, Offer::Refused(Refusal::Unframeable));
    assert_eq!(rig.outbound.statistics(), Default::default());
}

#[test]
fn what_was_encoded_before_waits_and_is_redeemed_like_any_other() {
    let framing = Framing::lines();
    let mut rig = rig(framing.clone(), 10);
    let mut encoded = Encoded::default();
    encoded.encode(&framing, b"sixty").unwrap();
    rig.queue(b"seven77");
    let peer = PeerId::SOLE;
    let offer = rig
        .outbound
        .offer_encoded(&encoded, peer, Call::Send, Caller::Thread, &rig.desk);
    let Offer::Wait(ticket) = offer else {
        panic!("{offer:?}");
    };
    assert_eq!(rig.drain(), [b"seven77\n".to_vec()]);
    assert_eq!(rig.told(), [ticket]);
    let offer = rig
        .outbound
        .redeem_encoded(ticket, &encoded, peer, Caller::Thread, &rig.desk);
    let taken = own_block(offer);
    assert_eq!(taken.bytes(), b"sixty\n");
    rig.settle(taken, 6);
    assert_eq!(rig.outbound.statistics().written, tally(2, 14));
    assert_eq!(rig.outbound.statistics().written_payload_bytes, 12);
}

/// Puts as many bytes behind a payload as it is told to: not what it said before.
#[derive(Debug)]
struct Fickle(&'static AtomicUsize);

impl Framer for Fickle {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        into.extend_from_slice(payload);
        let more = self.0.load(Ordering::Relaxed);
        into.resize(into.len() + more, b'.');
        if more == 9 { Err(Unframeable) } else { Ok(()) }
    }

    fn overhead_limit_bytes(&self, _: usize) -> usize {
        9
    }

    fn parse(&self, bytes: &[u8], _: usize, _: usize, _: &mut Vec<u8>) -> Found {
        let needed_bytes = bytes.len() + 1;
        Found::Incomplete { needed_bytes }
    }
}

#[test]
fn an_own_framing_that_changes_its_mind_while_a_send_waits_breaks_no_limit() {
    static MORE: AtomicUsize = AtomicUsize::new(1);
    let budget = Arc::new(Budget::new(20));
    for (now, expected) in [
        (3, b"b...".to_vec()),
        (0, b"b".to_vec()),
        (8, b"b........".to_vec()),
    ] {
        MORE.store(1, Ordering::Relaxed);
        let mut rig = Rig::with(&OutboundOptions {
            framing: Framing::own(Fickle(&MORE)),
            queue_limit_bytes: 12,
            budget: Some(Arc::clone(&budget)),
            ..options()
        });
        rig.outbound.opened();
        rig.queue(b"aaaaaaaaaa");
        let ticket = rig.wait(b"b");
        rig.drain();
        MORE.store(now, Ordering::Relaxed);
        let taken = own_block(rig.redeem(ticket, b"b"));
        assert_eq!(taken.bytes(), expected);
        rig.settle(taken, expected.len());
        assert_eq!(budget.held_bytes(), 0);
    }
    // Or no longer carries it at all: what was reserved is free again.
    MORE.store(1, Ordering::Relaxed);
    let mut rig = Rig::with(&OutboundOptions {
        framing: Framing::own(Fickle(&MORE)),
        queue_limit_bytes: 12,
        budget: Some(Arc::clone(&budget)),
        ..options()
    });
    rig.outbound.opened();
    rig.queue(b"aaaaaaaaaa");
    let ticket = rig.wait(b"b");
    rig.drain();
    MORE.store(9, Ordering::Relaxed);
    assert_eq!(
        rig.redeem(ticket, b"b"),
        Offer::Refused(Refusal::Unframeable)
    );
    assert_eq!(budget.held_bytes(), 0);
    MORE.store(1, Ordering::Relaxed);
    rig.queue(b"aaaaaaaaaa");
}
