//! Sends that wait: in order, woken when they fit, dismissed with their connection.

use super::*;

const FULL: Offer = Offer::Refused(Refusal::Full);

/// Ten bytes wait of ten.
fn full() -> Rig {
    let mut rig = Rig::open(Strategy::Reliable, 10, 8);
    rig.queue(b"0123456789");
    rig
}

/// The driver writes so many bytes of what waits.
fn write(rig: &mut Rig, written_bytes: usize) {
    let taken = rig.take();
    rig.settle(taken, written_bytes);
}

#[test]
fn waits_are_served_in_order_and_only_those_that_now_fit_are_told() {
    let mut rig = full();
    let first = rig.wait(b"aaa");
    let second = rig.wait(b"bbb");
    let third = rig.wait(b"c");
    write(&mut rig, 2);
    assert_eq!(rig.told(), []);
    write(&mut rig, 4);
    // Six bytes are free: two fit, the third does not any more. They come one after the other.
    assert_eq!(rig.told(), [first]);
    assert_eq!(rig.outbound.ticket(second), TicketState::Waiting);
    let offer = rig.redeem(first, b"aaa");
    assert!(matches!(offer, Offer::Queued { .. }), "{offer:?}");
    assert_eq!(rig.told(), [second]);
    assert_eq!(rig.outbound.ticket(second), TicketState::Granted);
    let offer = rig.redeem(second, b"bbb");
    assert!(matches!(offer, Offer::Queued { .. }), "{offer:?}");
    assert_eq!(rig.told(), []);
    assert_eq!(rig.outbound.ticket(third), TicketState::Waiting);
    write(&mut rig, 1);
    assert_eq!(rig.told(), [third]);
}

#[test]
fn whoever_was_granted_room_has_its_turn_when_the_one_before_it_gives_up() {
    let mut rig = full();
    let first = rig.wait(b"aaa");
    let second = rig.wait(b"bbb");
    write(&mut rig, 6);
    assert_eq!(rig.told(), [first]);
    assert_eq!(rig.outbound.cancel(first), Some(TicketState::Granted));
    assert_eq!(rig.told(), [second]);
}

#[test]
fn a_small_send_does_not_overtake_a_large_one_that_waits() {
    let mut rig = full();
    let large = rig.wait(b"0123456789");
    let small = rig.wait(b"a");
    write(&mut rig, 9);
    assert_eq!(rig.told(), []);
    write(&mut rig, 1);
    assert_eq!(rig.told(), [large]);
    assert_eq!(rig.outbound.ticket(small), TicketState::Waiting);
}

#[test]
fn while_one_waits_nobody_else_is_let_in_although_there_is_room() {
    let mut rig = full();
    let large = rig.wait(b"0123456789");
    write(&mut rig, 9);
    assert_eq!(rig.offer(b"a", Call::Try, Caller::Thread), FULL);
    let would_wait = Offer::Refused(Refusal::WouldWait);
    assert_eq!(rig.offer(b"a", Call::Send, Caller::Driver), would_wait);
    let _second = rig.wait(b"a");
    assert_eq!(rig.outbound.ticket(large), TicketState::Waiting);
}

#[test]
fn room_that_was_granted_is_held_until_it_is_redeemed() {
    let mut rig = full();
    let ticket = rig.wait(b"abcdef");
    write(&mut rig, 8);
    assert_eq!(rig.told(), [ticket]);
    // Two bytes wait and six are promised.
    assert_eq!(rig.offer(b"xyz", Call::Try, Caller::Driver), FULL);
    rig.queue(b"xy");
    assert_eq!(rig.offer(b"z", Call::Try, Caller::Driver), FULL);
    let offer = rig.redeem(ticket, b"abcdef");
    assert!(matches!(offer, Offer::Queued { .. }), "{offer:?}");
    assert_eq!(rig.drain(), [b"89xyabcdef".to_vec()]);
}

#[test]
fn a_place_among_the_messages_is_held_too() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 2);
    rig.queue(b"a");
    rig.queue(b"b");
    let ticket = rig.wait(b"c");
    write(&mut rig, 1);
    assert_eq!(rig.told(), [ticket]);
    assert_eq!(rig.offer(b"d", Call::Try, Caller::Driver), FULL);
}

#[test]
fn a_redeemed_send_writes_itself_when_nothing_is_left_to_write() {
    let mut rig = full();
    let ticket = rig.wait(b"abc");
    write(&mut rig, 10);
    let offer = rig.redeem(ticket, b"abc");
    assert!(matches!(offer, Offer::WriteNow(_)), "{offer:?}");
}

#[test]
fn a_wait_given_up_passes_its_turn_or_its_room_on() {
    let mut rig = full();
    let first = rig.wait(b"0123456789");
    let second = rig.wait(b"a");
    let third = rig.wait(b"b");
    write(&mut rig, 1);
    assert_eq!(rig.told(), []);
    // It never had its turn; the next one fits.
    assert_eq!(rig.outbound.cancel(first), Some(TicketState::Waiting));
    assert_eq!(rig.told(), [second]);
    // It was granted room; that goes to the next.
    assert_eq!(rig.outbound.cancel(second), Some(TicketState::Granted));
    assert_eq!(rig.told(), [third]);
    assert_eq!(rig.outbound.cancel(second), None);
}

#[test]
fn whoever_is_no_longer_there_is_not_told() {
    let mut rig = full();
    let ticket = rig.wait(b"a");
    write(&mut rig, 1);
    rig.outbound.cancel(ticket);
    assert_eq!(rig.told(), []);
}

#[test]
fn whoever_redeems_too_early_loses_its_place_and_those_behind_it_get_their_turn() {
    let mut rig = full();
    let first = rig.wait(b"0123456789");
    let second = rig.wait(b"a");
    write(&mut rig, 1);
    let offer = rig.redeem(first, b"0123456789");
    assert_eq!(offer, Offer::Refused(Refusal::WouldWait));
    assert_eq!(rig.told(), [second]);
}

#[test]
fn the_end_of_the_connection_dismisses_those_that_wait_and_those_that_were_granted() {
    let mut rig = full();
    let granted = rig.wait(b"a");
    let waiting = rig.wait(b"0123456789");
    write(&mut rig, 1);
    assert_eq!(rig.told(), [granted]);
    rig.end(Discard::ConnectionLost);
    assert_eq!(rig.told(), [granted, waiting]);
    let not_connected = Offer::Refused(Refusal::NotConnected);
    // A wait belongs to one connection: the next does not serve it.
    rig.outbound.opened();
    assert_eq!(rig.redeem(granted, b"a"), not_connected);
    assert_eq!(rig.redeem(waiting, b"0123456789"), not_connected);
    rig.queue(b"0123456789");
}

#[test]
fn whoever_was_not_told_yet_of_a_grant_is_told_once_when_the_connection_ends() {
    let mut rig = full();
    let ticket = rig.wait(b"a");
    write(&mut rig, 1);
    rig.end(Discard::ConnectionLost);
    assert_eq!(rig.told(), [ticket]);
    assert_eq!(rig.outbound.ticket(ticket), TicketState::NotConnected);
}

#[test]
fn close_tells_those_that_wait_that_the_link_is_closed() {
    let mut rig = full();
    let ticket = rig.wait(b"a");
    rig.outbound.closing(Discard::Closed);
    assert_eq!(rig.told(), [ticket]);
    assert_eq!(rig.redeem(ticket, b"a"), Offer::Refused(Refusal::Closed));
    // What waits is still written.
    assert_eq!(rig.drain(), [b"0123456789".to_vec()]);
}

#[test]
fn a_connection_that_comes_to_its_end_tells_those_that_wait_that_it_is_not_connected() {
    let mut rig = full();
    let ticket = rig.wait(b"a");
    rig.outbound.closing(Discard::ConnectionLost);
    assert_eq!(rig.told(), [ticket]);
    let not_connected = Offer::Refused(Refusal::NotConnected);
    assert_eq!(rig.redeem(ticket, b"a"), not_connected);
    assert_eq!(rig.offer(b"a", Call::Try, Caller::Thread), not_connected);
    // What waits is still written, and the next connection is open to all.
    assert_eq!(rig.drain(), [b"0123456789".to_vec()]);
    rig.end(Discard::ConnectionLost);
    rig.outbound.opened();
    rig.queue(b"a");
}

#[test]
fn a_senders_write_to_a_lost_connection_makes_room_on_the_next_when_it_comes_back() {
    // Nothing else would ever look again: the queue is empty and nobody writes.
    let mut rig = Rig::open(Strategy::Reliable, 10, 8);
    let token = rig.write_now(b"0123456789");
    rig.end(Discard::ConnectionLost);
    rig.outbound.opened();
    let ticket = rig.wait(b"a");
    rig.settle_direct(token, b"0123456789", DirectWrite::Whole);
    assert_eq!(rig.told(), [ticket]);
}

#[test]
fn a_block_written_to_a_lost_connection_makes_room_on_the_next_when_it_comes_back() {
    let mut rig = full();
    let taken = rig.take();
    rig.end(Discard::ConnectionLost);
    rig.outbound.opened();
    let ticket = rig.wait(b"a");
    rig.settle(taken, 10);
    assert_eq!(rig.told(), [ticket]);
}

#[test]
fn a_task_joins_the_line_from_inside_a_callback_too() {
    let mut rig = full();
    let thread = rig.wait(b"aaa");
    for caller in [Caller::Driver, Caller::Callback, Caller::Thread] {
        let offer = rig.offer(b"b", Call::Await, caller);
        assert!(matches!(offer, Offer::Wait(_)), "{offer:?}");
    }
    write(&mut rig, 10);
    assert_eq!(rig.told(), [thread]);
    let mut besteffort = Rig::open(Strategy::BestEffort, 1, 8);
    besteffort.queue(b"a");
    assert_eq!(besteffort.offer(b"b", Call::Await, Caller::Thread), FULL);
}

#[test]
fn a_wait_that_only_the_shared_total_keeps_waiting_is_known_as_such() {
    let budget = Arc::new(Budget::new(100));
    let queue = || {
        let mut rig = Rig::with(&OutboundOptions {
            queue_limit_bytes: 50,
            budget: Some(Arc::clone(&budget)),
            ..options()
        });
        rig.outbound.opened();
        rig
    };
    let (mut other, mut third, mut rig) = (queue(), queue(), queue());
    other.queue(&[0; 50]);
    third.queue(&[0; 25]);
    rig.queue(&[0; 20]);
    let ticket = rig.wait(&[0; 40]);
    // Its own queue has no room: what is written from it is told.
    assert!(!rig.outbound.waits_for_total());
    write(&mut rig, 20);
    assert_eq!(rig.told(), []);
    assert!(rig.outbound.waits_for_total());
    other.drain();
    rig.outbound.grant();
    assert_eq!(rig.told(), [ticket]);
    assert!(!rig.outbound.waits_for_total());
}
