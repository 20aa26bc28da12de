//! The queue of a datagram server, which all its peers share.

use super::*;

const FULL: Offer = Offer::Refused(Refusal::Full);

fn shared(strategy: Strategy, limit_bytes: usize, limit_messages: usize) -> (Rig, PeerId, PeerId) {
    let mut rig = Rig::with(&OutboundOptions {
        strategy,
        shared: true,
        queue_limit_bytes: limit_bytes,
        queue_limit_messages: limit_messages,
        ..options()
    });
    rig.outbound.opened();
    let (one, two) = (rig.outbound.open_peer(), rig.outbound.open_peer());
    (rig, one, two)
}

fn texts(sent: &[(PeerId, Vec<u8>)]) -> Vec<&str> {
    sent.iter()
        .map(|(_, payload)| std::str::from_utf8(payload).unwrap())
        .collect()
}

#[test]
fn a_peer_is_never_mistaken_for_the_sole_one() {
    let (_, one, two) = shared(Strategy::Reliable, 100, 8);
    assert_ne!(one, PeerId::SOLE);
    assert_ne!(two, PeerId::SOLE);
    assert_ne!(one, two);
}

#[test]
fn keeplatest_evicts_the_oldest_to_the_same_peer() {
    let (mut rig, one, two) = shared(Strategy::KeepLatest, 100, 4);
    rig.queue_to(one, b"one a");
    rig.queue_to(two, b"two a");
    rig.queue_to(one, b"one b");
    rig.queue_to(two, b"two b");
    rig.queue_to(two, b"two c");
    let sent = rig.drain_datagrams();
    assert_eq!(texts(&sent), ["one a", "one b", "two b", "two c"]);
    let evicted = |peer| rig.outbound.peer_statistics(peer).discarded.evicted;
    assert_eq!((evicted(one), evicted(two)), (tally(0, 0), tally(1, 5)));
    assert_eq!(rig.outbound.statistics().discarded.evicted, tally(1, 5));
}

#[test]
fn keeplatest_is_full_when_nothing_to_that_peer_can_be_evicted() {
    let (mut rig, one, two) = shared(Strategy::KeepLatest, 100, 2);
    rig.queue_to(one, b"one");
    rig.queue_to(one, b"one");
    assert_eq!(rig.offer_to(two, b"two", Call::Send, Caller::Thread), FULL);
    // What is in flight to it cannot be evicted either.
    rig.drain_datagrams();
    rig.queue_to(two, b"two");
    let _taken = rig.take();
    rig.queue_to(one, b"one");
    assert_eq!(rig.offer_to(two, b"two", Call::Send, Caller::Thread), FULL);
    assert_eq!(rig.outbound.peer_statistics(two).refused, tally(2, 6));
    assert_eq!(rig.outbound.statistics().discarded.evicted, tally(0, 0));
}

#[test]
fn a_datagram_that_cannot_come_in_costs_no_others_to_that_peer_their_place() {
    let (mut rig, one, two) = shared(Strategy::KeepLatest, 10, 8);
    rig.queue_to(one, b"01234567");
    rig.queue_to(two, b"a");
    rig.queue_to(two, b"b");
    assert_eq!(rig.offer_to(two, b"ccc", Call::Try, Caller::Thread), FULL);
    assert_eq!(texts(&rig.drain_datagrams()), ["01234567", "a", "b"]);
}

#[test]
fn each_peer_has_its_own_account_and_the_queue_the_sum() {
    let (mut rig, one, two) = shared(Strategy::BestEffort, 10, 8);
    rig.queue_to(one, b"aaaa");
    rig.queue_to(two, b"bbb");
    rig.queue_to(one, b"ccc");
    assert_eq!(rig.offer_to(two, b"d", Call::Try, Caller::Driver), FULL);
    let taken = rig.take();
    // The first is sent, the second the kernel refuses for good, the third has no room.
    rig.settle_datagrams(taken, 1, Stopped::Failed);
    let taken = rig.take();
    rig.settle_datagrams(taken, 0, Stopped::WouldBlock);

    let of_one = rig.outbound.peer_statistics(one);
    assert_eq!(of_one.accepted, tally(2, 7));
    assert_eq!(of_one.written, tally(1, 4));
    assert_eq!(of_one.waiting, tally(1, 3));
    assert_eq!(rig.outbound.waiting_for(one), tally(1, 3));
    let of_two = rig.outbound.peer_statistics(two);
    assert_eq!(of_two.discarded.failed, tally(1, 3));
    assert_eq!(of_two.refused, tally(1, 1));
    assert_eq!(rig.outbound.waiting_for(two), tally(0, 0));
    let all = rig.outbound.statistics();
    assert_eq!(all.accepted, tally(3, 10));
    assert_eq!(all.written, tally(1, 4));
    assert_eq!(all.discarded.failed, tally(1, 3));
    assert_eq!(all.waiting, tally(1, 3));
    assert!(of_one.closes() && of_two.closes());
}

#[test]
fn a_datagram_that_the_kernel_refuses_its_sender_for_good_counts_as_failed() {
    let (mut rig, one, _) = shared(Strategy::Reliable, 100, 8);
    let token = rig.write_now_to(one, b"abc");
    rig.settle_direct_to(one, token, b"abc", DirectWrite::Failed);
    for statistics in [rig.outbound.statistics(), rig.outbound.peer_statistics(one)] {
        assert_eq!(statistics.discarded.failed, tally(1, 3));
        assert_eq!(statistics.written, tally(0, 0));
    }
    assert!(rig.outbound.is_drained());
}

#[test]
fn every_datagram_is_a_call_and_so_is_the_one_that_did_not_go() {
    let (mut rig, one, _) = shared(Strategy::BestEffort, 100, 8);
    for _ in 0..3 {
        rig.queue_to(one, b"a");
    }
    let taken = rig.take();
    rig.settle_datagrams(taken, 2, Stopped::WouldBlock);
    assert_eq!(rig.outbound.statistics().write_calls, 3);
    let taken = rig.take();
    rig.settle_datagrams(taken, 0, Stopped::WouldBlock);
    assert_eq!(rig.outbound.statistics().write_calls, 4);
    let taken = rig.take();
    rig.settle_datagrams(taken, 1, Stopped::AtEnd);
    assert_eq!(rig.outbound.statistics().write_calls, 5);
}

#[test]
fn closing_a_peer_gives_up_what_waits_for_it_and_leaves_the_others_in_order() {
    let (mut rig, one, two) = shared(Strategy::Reliable, 100, 8);
    for (peer, message) in [(one, b"1a"), (two, b"2a"), (one, b"1b"), (two, b"2b")] {
        rig.queue_to(peer, message);
    }
    assert_eq!(rig.close_peer(one, Discard::ConnectionLost), tally(2, 4));
    let offer = rig.offer_to(one, b"1c", Call::Send, Caller::Thread);
    assert_eq!(offer, Offer::Refused(Refusal::NotConnected));
    assert_eq!(texts(&rig.drain_datagrams()), ["2a", "2b"]);
    assert_eq!(
        rig.outbound.peer_statistics(one).discarded.connection_lost,
        tally(2, 4)
    );
}

#[test]
fn a_datagram_in_flight_to_a_peer_that_closed_is_not_sent_again_when_the_kernel_was_full() {
    let (mut rig, one, two) = shared(Strategy::Reliable, 100, 8);
    rig.queue_to(one, b"1a");
    rig.queue_to(two, b"2a");
    rig.queue_to(one, b"1b");
    let taken = rig.take();
    assert_eq!(rig.close_peer(one, Discard::Closed), tally(0, 0));
    rig.settle_datagrams(taken, 1, Stopped::WouldBlock);
    let of_one = rig.outbound.peer_statistics(one);
    assert_eq!(of_one.written, tally(1, 2), "it went out before");
    assert_eq!(of_one.discarded.closed, tally(1, 2));
    assert_eq!(texts(&rig.drain_datagrams()), ["2a"]);

    // The same for a datagram that its sender wrote.
    let (mut rig, one, _) = shared(Strategy::Reliable, 100, 8);
    let token = rig.write_now_to(one, b"1a");
    rig.close_peer(one, Discard::ConnectionLost);
    rig.settle_direct_to(one, token, b"1a", DirectWrite::Part(0));
    assert_eq!(
        rig.outbound.statistics().discarded.connection_lost,
        tally(1, 2)
    );
    assert!(rig.try_take().is_none());
    assert_eq!(rig.desk.blocks_out.get(), 0);
}

#[test]
fn closing_a_peer_dismisses_the_sends_to_it_that_wait_and_serves_the_others() {
    let (mut rig, one, two) = shared(Strategy::Reliable, 10, 8);
    rig.queue_to(two, b"01234567");
    let to_one = rig.wait_to(one, b"abc");
    let to_two = rig.wait_to(two, b"de");
    rig.close_peer(one, Discard::ConnectionLost);
    assert_eq!(rig.outbound.ticket(to_one), TicketState::NotConnected);
    assert_eq!(rig.outbound.ticket(to_two), TicketState::Granted);
    assert_eq!(rig.told(), [to_one, to_two]);
}

#[test]
fn a_send_granted_room_to_a_peer_that_closes_gives_it_back_and_never_reaches_another() {
    let (mut rig, one, two) = shared(Strategy::Reliable, 10, 8);
    rig.queue_to(two, b"0123456789");
    let to_one = rig.wait_to(one, b"abcdef");
    let to_two = rig.wait_to(two, b"0123456789");
    rig.drain_datagrams();
    assert_eq!(rig.outbound.ticket(to_one), TicketState::Granted);
    rig.close_peer(one, Discard::Closed);
    assert_eq!(rig.outbound.ticket(to_one), TicketState::Closed);
    assert_eq!(rig.outbound.ticket(to_two), TicketState::Granted);
    let _newcomer = rig.outbound.open_peer();
    let offer = rig
        .outbound
        .redeem(to_one, b"abcdef", one, Caller::Thread, &rig.desk);
    assert_eq!(offer, Offer::Refused(Refusal::Closed));
}

#[test]
fn a_slot_is_used_again_but_nobody_who_remembers_its_last_peer_reaches_the_new_one() {
    let (mut rig, one, _) = shared(Strategy::Reliable, 100, 8);
    rig.queue_to(one, b"old");
    rig.close_peer(one, Discard::ConnectionLost);
    let newcomer = rig.outbound.open_peer();
    assert_eq!(newcomer.slot, one.slot);
    assert_ne!(newcomer, one);
    let offer = rig.offer_to(one, b"stray", Call::Try, Caller::Thread);
    assert_eq!(offer, Offer::Refused(Refusal::NotConnected));
    // A late close of the old one does not close the new one.
    rig.close_peer(one, Discard::Closed);
    rig.queue_to(newcomer, b"new");
    assert_eq!(rig.outbound.peer_statistics(newcomer).accepted, tally(1, 3));
    assert_eq!(rig.outbound.peer_statistics(one).accepted, tally(0, 0));
    assert_eq!(texts(&rig.drain_datagrams()), ["new"]);
}

#[test]
fn a_slot_is_not_used_again_while_something_to_its_last_peer_is_in_flight() {
    let (mut rig, one, _) = shared(Strategy::Reliable, 100, 8);
    rig.queue_to(one, b"");
    let taken = rig.take();
    rig.close_peer(one, Discard::ConnectionLost);
    let newcomer = rig.outbound.open_peer();
    assert_ne!(newcomer.slot, one.slot);
    rig.settle_datagrams(taken, 1, Stopped::AtEnd);
    assert_eq!(rig.outbound.open_peer().slot, one.slot);
}

#[test]
fn an_empty_datagram_that_the_kernel_had_no_room_for_waits() {
    let (mut rig, one, _) = shared(Strategy::Reliable, 100, 8);
    let token = rig.write_now_to(one, b"");
    rig.settle_direct_to(one, token, b"", DirectWrite::Part(0));
    assert_eq!(rig.outbound.waiting(), tally(1, 0));
    assert_eq!(texts(&rig.drain_datagrams()), [""]);
    assert_eq!(rig.outbound.statistics().written, tally(1, 0));
}

#[test]
fn a_block_emptied_in_the_middle_is_not_handed_to_a_writer() {
    let (mut rig, one, two) = shared(Strategy::Reliable, 1 << 20, 100);
    rig.queue_to(one, &[1; 60_000]);
    rig.queue_to(two, &[2; 60_000]);
    rig.close_peer(two, Discard::Closed);
    let taken = rig.take();
    rig.settle_datagrams(taken, 1, Stopped::AtEnd);
    assert!(rig.try_take().is_none());
    assert_eq!(rig.desk.blocks_out.get(), 0);
}

#[test]
fn evicting_to_one_peer_behind_anothers_message_takes_no_memory_without_end() {
    for (length, rounds) in [(0, 100_000), (1, 100_000), (3_000, 500)] {
        let (mut rig, one, two) = shared(Strategy::KeepLatest, 10_000, 4);
        rig.queue_to(one, b"first");
        for _ in 0..rounds {
            rig.queue_to(two, &vec![2; length]);
        }
        // One for each message at most.
        assert!(
            rig.desk.blocks_out.get() <= 4,
            "{} blocks for messages of {length} bytes",
            rig.desk.blocks_out.get()
        );
        let taken = rig.take();
        assert!(taken.block.held_messages() <= 2048);
        rig.settle_datagrams(taken, 0, Stopped::AtEnd);
        let sent = rig.drain_datagrams();
        assert_eq!(sent.len(), 4);
        assert_eq!(sent[0].1, b"first");
    }
}

#[test]
fn clearing_away_keeps_order_whenever_it_happens() {
    for rounds in 9..80_u8 {
        let (mut rig, one, two) = shared(Strategy::KeepLatest, 100_000, 10);
        rig.queue_to(one, b"first");
        for round in 0..rounds {
            rig.queue_to(two, &[round; 10_000]);
        }
        let numbers: Vec<u8> = rig
            .drain_datagrams()
            .iter()
            .skip(1)
            .map(|(_, payload)| payload[0])
            .collect();
        let freshest: Vec<u8> = (rounds - 9..rounds).collect();
        assert_eq!(numbers, freshest);
    }
}

#[test]
fn clearing_away_keeps_order_accounts_and_larger_messages() {
    let (mut rig, one, two) = shared(Strategy::KeepLatest, 400_000, 12);
    rig.queue_to(one, b"first");
    rig.queue_to(one, &[1; 150_000]);
    rig.queue_to(one, b"third");
    for round in 0..100 {
        rig.queue_to(two, &[round; 20_000]);
    }
    rig.queue_to(one, b"last");
    let sent = rig.drain_datagrams();
    let to_one: Vec<usize> = sent
        .iter()
        .filter(|(peer, _)| *peer == one)
        .map(|(_, payload)| payload.len())
        .collect();
    // The last made room by evicting the first to its own peer.
    assert_eq!(to_one, [150_000, 5, 4]);
    let to_two: Vec<u8> = sent
        .iter()
        .filter(|(peer, _)| *peer == two)
        .map(|(_, payload)| payload[0])
        .collect();
    assert_eq!(to_two, [91, 92, 93, 94, 95, 96, 97, 98, 99]);
}
