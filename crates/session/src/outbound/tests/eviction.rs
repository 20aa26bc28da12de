//! keeplatest: whom it evicts, and whom never.

use super::*;

const FULL: Offer = Offer::Refused(Refusal::Full);

#[test]
fn the_oldest_makes_room_and_is_counted() {
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 3);
    for message in [&b"aaa"[..], b"bbb", b"ccc", b"ddd"] {
        rig.queue(message);
    }
    assert_eq!(rig.drain().concat(), b"bbbcccddd");
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.discarded.evicted, tally(1, 3));
    assert_eq!(statistics.accepted, tally(4, 12));
    assert_eq!(statistics.refused, tally(0, 0));
}

#[test]
fn as_many_as_it_takes_are_evicted_and_no_more() {
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    for message in [&b"aa"[..], b"bb", b"cc", b"dd"] {
        rig.queue(message);
    }
    rig.queue(b"01234");
    assert_eq!(rig.drain().concat(), b"ccdd01234");
}

#[test]
fn what_is_in_flight_is_never_evicted_and_where_it_leaves_no_room_the_send_is_full() {
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    rig.queue(b"01234567");
    let taken = rig.take();
    for call in [Call::Try, Call::Send, Call::Within] {
        assert_eq!(rig.offer(b"abc", call, Caller::Thread), FULL);
    }
    rig.queue(b"ab");
    rig.queue(b"cd");
    assert_eq!(taken.bytes(), b"01234567");
    rig.settle(taken, 8);
    assert_eq!(rig.drain(), [b"cd".to_vec()]);

    let mut rig = Rig::open(Strategy::KeepLatest, 100, 1);
    let _token = rig.write_now(b"a");
    assert_eq!(rig.offer(b"b", Call::Send, Caller::Thread), FULL);
}

// A sample was refused now and then because the writer had the whole of a short queue in its hands.
#[test]
fn a_writer_has_half_of_the_queue_so_that_a_fresh_sample_finds_an_old_one() {
    let mut rig = Rig::open(Strategy::KeepLatest, 1_000, 4);
    (0..4).for_each(|number| rig.queue(&[number]));
    let taken = rig.take();
    assert_eq!(taken.bytes(), [0, 1]);
    (4..100).for_each(|number| rig.queue(&[number]));
    rig.settle(taken, 2);
    assert_eq!(rig.drain().concat(), [98, 99]);

    let mut rig = Rig::open(Strategy::KeepLatest, 8, 1_000);
    (0..4).for_each(|number| rig.queue(&[number; 2]));
    let taken = rig.take();
    assert_eq!(taken.bytes(), [0, 0, 1, 1]);
    (4..100).for_each(|number| rig.queue(&[number; 2]));
    rig.settle(taken, 4);
    assert_eq!(rig.drain().concat(), [98, 98, 99, 99]);
}

#[test]
fn a_partly_written_message_is_never_evicted() {
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    rig.queue(b"0123456789");
    let taken = rig.take();
    rig.settle(taken, 1);
    assert_eq!(rig.offer(b"ab", Call::Try, Caller::Thread), FULL);
    rig.queue(b"a");
    rig.queue(b"b");
    assert_eq!(rig.drain().concat(), b"123456789b");

    // The same when its sender wrote the first part.
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    let token = rig.write_now(b"0123456789");
    rig.settle_direct(token, b"0123456789", DirectWrite::Part(1));
    assert_eq!(rig.offer(b"ab", Call::Try, Caller::Thread), FULL);
    rig.queue(b"a");
    rig.queue(b"b");
    assert_eq!(rig.drain().concat(), b"123456789b");
}

#[test]
fn messages_behind_a_partly_written_one_can_be_evicted_again_and_again() {
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    for message in [&b"aaaa"[..], b"bbb", b"ccc"] {
        rig.queue(message);
    }
    let taken = rig.take();
    rig.settle(taken, 2);
    rig.queue(b"ddddd");
    assert_eq!(rig.outbound.statistics().discarded.evicted, tally(1, 3));
    let taken = rig.take();
    assert_eq!(taken.bytes(), b"aa", "the cut message goes first, alone");
    rig.settle(taken, 1);
    rig.queue(b"eeee");
    assert_eq!(rig.drain().concat(), b"adddddeeee");
    assert_eq!(rig.outbound.statistics().discarded.evicted, tally(2, 6));
}

#[test]
fn untouched_messages_of_a_settled_write_can_be_evicted_again() {
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    rig.queue(b"aaaaa");
    rig.queue(b"bbbbb");
    let taken = rig.take();
    rig.settle(taken, 0);
    rig.queue(b"ccccc");
    assert_eq!(rig.drain().concat(), b"bbbbbccccc");

    // A sender that found the kernel full left its message untouched, too.
    let mut rig = Rig::open(Strategy::KeepLatest, 5, 100);
    let token = rig.write_now(b"aaaaa");
    rig.settle_direct(token, b"aaaaa", DirectWrite::Part(0));
    rig.queue(b"ccccc");
    assert_eq!(rig.drain().concat(), b"ccccc");
}

#[test]
fn a_sample_that_cannot_come_in_costs_no_others_their_place() {
    // Eight of ten bytes are in flight: three more cannot fit, whoever is evicted.
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    rig.queue(b"01234567");
    let taken = rig.take();
    rig.queue(b"a");
    rig.queue(b"b");
    assert_eq!(rig.offer(b"ccc", Call::Try, Caller::Thread), FULL);
    rig.settle(taken, 8);
    assert_eq!(rig.drain(), [b"ab".to_vec()]);
    assert_eq!(rig.outbound.statistics().discarded.evicted, tally(0, 0));

    // The same with a message that is partly written.
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 100);
    rig.queue(b"012345678");
    let taken = rig.take();
    rig.settle(taken, 1);
    rig.queue(b"ab");
    assert_eq!(rig.offer(b"ccc", Call::Try, Caller::Thread), FULL);
    assert_eq!(rig.drain().concat(), b"12345678ab");
}

#[test]
fn a_shared_total_that_would_not_let_the_newcomer_in_costs_no_others_their_place() {
    let budget = Arc::new(Budget::new(100));
    let with_budget = OutboundOptions {
        strategy: Strategy::KeepLatest,
        budget: Some(Arc::clone(&budget)),
        ..options()
    };
    let (mut greedy, mut late) = (Rig::with(&with_budget), Rig::with(&with_budget));
    greedy.outbound.opened();
    late.outbound.opened();
    late.queue(&[1; 10]);
    greedy.queue(&[2; 80]);
    // Even with its ten bytes given back only twenty are free.
    assert_eq!(late.offer(&[3; 30], Call::Try, Caller::Driver), FULL);
    assert_eq!(late.outbound.statistics().discarded.evicted, tally(0, 0));
    // Evicting its ten is enough for twenty.
    late.queue(&[3; 20]);
    assert_eq!(late.drain(), [vec![3; 20]]);
    assert_eq!(late.outbound.statistics().discarded.evicted, tally(1, 10));
}

#[test]
fn eviction_crosses_blocks_and_larger_messages() {
    let mut rig = Rig::open(Strategy::KeepLatest, 300_000, 100);
    rig.queue(&[1; 100_000]);
    rig.queue(&[2; 60_000]);
    rig.queue(&[3; 60_000]);
    rig.queue(&[4; 60_000]);
    rig.queue(&[5; 170_000]);
    let left: Vec<(u8, usize)> = rig
        .drain()
        .iter()
        .map(|bytes| (bytes[0], bytes.len()))
        .collect();
    assert_eq!(left, [(3, 60_000), (4, 60_000), (5, 170_000)]);
    assert_eq!(
        rig.outbound.statistics().discarded.evicted,
        tally(2, 160_000)
    );
}

#[test]
fn empty_messages_evicted_without_end_take_no_memory_without_end() {
    // Empty datagrams never fill a block by their bytes. Observed: one block that grew for ever.
    let mut rig = Rig::open(Strategy::KeepLatest, 10, 4);
    for _ in 0..50_000 {
        rig.queue(b"");
    }
    let taken = rig.take();
    assert!(
        taken.block.held_messages() <= 16 * 1024,
        "{}",
        taken.block.held_messages()
    );
}
