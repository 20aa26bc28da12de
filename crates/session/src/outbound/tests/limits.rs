//! The queue limit, in bytes and in messages, exact.

use super::*;

#[test]
fn the_byte_limit_is_exact() {
    let mut rig = Rig::open(Strategy::Reliable, 10, 100);
    rig.queue(b"0123456");
    let offer = rig.offer(b"789A", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full));
    rig.queue(b"789");
    let offer = rig.offer(b"A", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full));
    // A message of no bytes still fits.
    rig.queue(b"");
    assert_eq!(rig.outbound.waiting(), tally(3, 10));
    assert_eq!(rig.outbound.statistics().peak, tally(3, 10));
}

#[test]
fn the_message_limit_is_exact() {
    let mut rig = Rig::open(Strategy::Reliable, 1000, 2);
    rig.queue(b"a");
    rig.queue(b"b");
    let offer = rig.offer(b"", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full));
    assert_eq!(rig.outbound.statistics().peak, tally(2, 2));
}

#[test]
fn the_framing_counts() {
    let mut rig = Rig::with(&OutboundOptions {
        framing: Framing::length_prefix(),
        queue_limit_bytes: 12,
        ..options()
    });
    rig.outbound.opened();
    rig.queue(b"ab");
    rig.queue(b"cd");
    assert_eq!(rig.outbound.waiting(), tally(2, 12));
    let offer = rig.offer(b"", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full));
    rig.drain();
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.written, tally(2, 12));
    assert_eq!(statistics.written_payload_bytes, 4);
}

#[test]
fn what_is_in_flight_counts_until_it_is_settled() {
    let mut rig = Rig::open(Strategy::Reliable, 10, 2);
    rig.queue(b"01234");
    let taken = rig.take();
    rig.queue(b"56789");
    assert_eq!(rig.outbound.waiting(), tally(2, 10));
    let offer = rig.offer(b"A", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full));
    rig.settle(taken, 5);
    rig.queue(b"A");

    let mut rig = Rig::open(Strategy::Reliable, 10, 2);
    let token = rig.write_now(b"0123456789");
    let offer = rig.offer(b"A", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full));
    rig.settle_direct(token, b"0123456789", DirectWrite::Part(4));
    assert_eq!(rig.outbound.waiting(), tally(1, 6));
    rig.queue(b"ABCD");
}

#[test]
fn bytes_that_the_kernel_took_make_room_while_their_message_still_counts() {
    let mut rig = Rig::open(Strategy::Reliable, 10, 2);
    rig.queue(b"0123456789");
    let taken = rig.take();
    rig.settle(taken, 3);
    assert_eq!(rig.outbound.waiting(), tally(1, 7));
    rig.queue(b"ABC");
    let offer = rig.offer(b"", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full), "two messages wait");
    assert_eq!(rig.drain(), [b"3456789ABC".to_vec()]);
}

#[test]
fn a_writer_takes_at_most_a_block_or_one_larger_message() {
    let mut rig = Rig::open(Strategy::Reliable, 1 << 20, 1 << 16);
    let large = vec![7; 100_000];
    rig.queue(&large);
    for _ in 0..4 {
        rig.queue(&large[..32_768]);
    }
    let taken: Vec<usize> = rig.drain().iter().map(Vec::len).collect();
    assert_eq!(taken, [100_000, 65_536, 65_536]);
}

#[test]
fn a_queue_that_holds_most_of_a_shared_total_is_refused_while_others_find_room() {
    let budget = Arc::new(Budget::new(100));
    let with_budget = OutboundOptions {
        budget: Some(Arc::clone(&budget)),
        ..options()
    };
    let (mut greedy, mut modest) = (Rig::with(&with_budget), Rig::with(&with_budget));
    greedy.outbound.opened();
    modest.outbound.opened();
    greedy.queue(&[0; 40]);
    let offer = greedy.offer(&[0; 30], Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Refused(Refusal::Full));
    modest.queue(&[0; 30]);
    assert_eq!(budget.held_bytes(), 70);
}

#[test]
fn a_shared_total_has_everything_back_however_a_message_ends() {
    let budget = Arc::new(Budget::new(1_000));
    let mut rig = Rig::with(&OutboundOptions {
        strategy: Strategy::KeepLatest,
        queue_limit_bytes: 20,
        budget: Some(Arc::clone(&budget)),
        ..options()
    });
    let held = |rig: &Rig| {
        assert_eq!(rig.outbound.waiting().bytes, budget.held_bytes());
        budget.held_bytes()
    };
    rig.outbound.opened();
    // Evicted, written in part, written whole.
    rig.queue(&[0; 15]);
    rig.queue(&[0; 10]);
    assert_eq!(held(&rig), 10);
    let taken = rig.take();
    rig.settle(taken, 4);
    assert_eq!(held(&rig), 6);
    rig.drain();
    assert_eq!(held(&rig), 0);
    // By its sender: whole, failed, in part.
    let token = rig.write_now(&[0; 5]);
    rig.settle_direct(token, &[0; 5], DirectWrite::Whole);
    let token = rig.write_now(&[0; 5]);
    rig.settle_direct(token, &[0; 5], DirectWrite::Failed);
    let token = rig.write_now(&[0; 5]);
    rig.settle_direct(token, &[0; 5], DirectWrite::Part(2));
    assert_eq!(held(&rig), 3);
    // In flight and waiting when the connection ends.
    let taken = rig.take();
    rig.queue(&[0; 7]);
    rig.end(Discard::ConnectionLost);
    assert_eq!(held(&rig), 3);
    rig.settle(taken, 3);
    assert_eq!(held(&rig), 0);
    rig.outbound.opened();
    let token = rig.write_now(&[0; 5]);
    rig.end(Discard::Closed);
    rig.settle_direct(token, &[0; 5], DirectWrite::Whole);
    assert_eq!(held(&rig), 0);
}

#[test]
fn a_shared_total_has_the_room_back_that_was_granted_and_never_taken() {
    let budget = Arc::new(Budget::new(1_000));
    let mut rig = Rig::with(&OutboundOptions {
        queue_limit_bytes: 20,
        budget: Some(Arc::clone(&budget)),
        ..options()
    });
    for cause in [Discard::ConnectionLost, Discard::Closed] {
        rig.outbound.opened();
        rig.queue(&[0; 20]);
        let ticket = rig.wait(&[0; 5]);
        rig.drain();
        assert_eq!(rig.outbound.ticket(ticket), TicketState::Granted);
        assert_eq!(budget.held_bytes(), 5);
        rig.end(cause);
        assert_eq!(budget.held_bytes(), 0);
        assert_eq!(
            rig.outbound.cancel(ticket),
            Some(match cause {
                Discard::ConnectionLost => TicketState::NotConnected,
                Discard::Closed => TicketState::Closed,
            })
        );
        assert_eq!(budget.held_bytes(), 0);
    }
}

#[test]
fn room_that_comes_back_to_a_shared_total_serves_a_wait_elsewhere_when_asked_to_look() {
    let budget = Arc::new(Budget::new(100));
    let with_budget = OutboundOptions {
        budget: Some(Arc::clone(&budget)),
        ..options()
    };
    let (mut one, mut other) = (Rig::with(&with_budget), Rig::with(&with_budget));
    one.outbound.opened();
    other.outbound.opened();
    one.queue(&[0; 50]);
    let ticket = other.wait(&[0; 60]);
    one.drain();
    assert_eq!(other.outbound.ticket(ticket), TicketState::Waiting);
    other.outbound.grant();
    assert_eq!(other.outbound.ticket(ticket), TicketState::Granted);
    assert_eq!(budget.held_bytes(), 60);
    assert_eq!(other.outbound.cancel(ticket), Some(TicketState::Granted));
    assert_eq!(budget.held_bytes(), 0);
}
