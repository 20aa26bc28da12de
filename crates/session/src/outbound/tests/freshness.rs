//! What waited longer than `max_queue_delay` is given up, and nothing else.

use std::time::Duration;

use super::*;

const LIMIT_NS: u64 = 1_000;

/// A rig with the limit, whose clock stands still unless it is moved.
fn rig(strategy: Strategy, limit_messages: usize) -> Rig {
    let mut rig = Rig::with(&OutboundOptions {
        strategy,
        queue_limit_messages: limit_messages,
        max_queue_delay_ns: Some(LIMIT_NS),
        ..options()
    });
    rig.outbound.opened();
    rig.desk.step_ns.set(0);
    rig.desk.now_ns.set(1_000_000);
    rig
}

fn pass(rig: &Rig, ns: u64) {
    rig.desk.now_ns.set(rig.desk.now_ns.get() + ns);
}

fn too_old(rig: &Rig) -> Tally {
    rig.outbound.statistics().discarded.too_old
}

#[test]
fn a_writer_gets_nothing_older_than_the_limit_though_a_block_holds_all() {
    let mut rig = rig(Strategy::BestEffort, 100);
    for message in [b"a", b"b", b"c"] {
        rig.queue(message);
        pass(&rig, 600);
    }
    assert_eq!(rig.drain(), [b"c".to_vec()], "1800, 1200 and 600 ns old");
    assert_eq!(too_old(&rig), tally(2, 2));
}

#[test]
fn what_has_waited_exactly_as_long_is_still_written() {
    let mut rig = rig(Strategy::BestEffort, 100);
    rig.queue(b"a");
    pass(&rig, LIMIT_NS);
    assert_eq!(rig.drain(), [b"a".to_vec()]);
}

#[test]
fn a_message_that_is_partly_written_is_never_too_old() {
    let mut rig = rig(Strategy::KeepLatest, 100);
    rig.queue(b"abc");
    rig.queue(b"de");
    let taken = rig.take();
    rig.settle(taken, 1);
    pass(&rig, 10 * LIMIT_NS);
    rig.queue(b"f");
    assert_eq!(rig.drain(), [b"bc".to_vec(), b"f".to_vec()]);
    assert_eq!(too_old(&rig), tally(1, 2));
}

#[test]
fn a_sender_s_rest_is_as_old_as_its_acceptance_not_as_its_failed_write() {
    let mut rig = rig(Strategy::BestEffort, 100);
    let token = rig.write_now(b"first");
    pass(&rig, 700);
    rig.queue(b"second");
    pass(&rig, 200);
    rig.settle_direct(token, b"first", DirectWrite::Part(0));
    pass(&rig, 200);
    assert_eq!(rig.drain(), [b"second".to_vec()]);
    assert_eq!(too_old(&rig), tally(1, 5));
}

#[test]
fn where_there_is_no_room_the_old_make_it_before_anything_is_refused_or_evicted() {
    for strategy in [Strategy::BestEffort, Strategy::KeepLatest] {
        let mut rig = rig(strategy, 3);
        rig.queue(b"a");
        rig.queue(b"b");
        pass(&rig, 800);
        rig.queue(b"c");
        pass(&rig, 800);
        rig.queue(b"d");
        let statistics = rig.outbound.statistics();
        assert_eq!(statistics.discarded.too_old, tally(2, 2), "{strategy}");
        assert_eq!(statistics.discarded.evicted, tally(0, 0));
        assert_eq!(statistics.waiting, tally(2, 2));
    }
}

#[test]
fn a_send_that_waits_is_served_when_the_old_have_made_room() {
    let mut rig = rig(Strategy::BestEffort, 1);
    rig.queue(b"a");
    let ticket = rig.wait(b"b");
    pass(&rig, 2 * LIMIT_NS);
    assert!(rig.try_take().is_none(), "all of it was too old");
    assert_eq!(rig.told(), [ticket]);
    assert!(rig.outbound.is_drained());
}

#[test]
fn by_the_clock_it_says_how_long_the_next_still_has() {
    let mut rig = rig(Strategy::BestEffort, 100);
    assert_eq!(rig.outbound.give_up_too_old(&rig.desk), None);
    rig.queue(b"a");
    pass(&rig, 600);
    rig.queue(b"b");
    let left = |ns| Some(Duration::from_nanos(ns));
    assert_eq!(rig.outbound.give_up_too_old(&rig.desk), left(401));
    pass(&rig, 401);
    assert_eq!(rig.outbound.give_up_too_old(&rig.desk), left(600));
    assert_eq!(too_old(&rig), tally(1, 1));
    pass(&rig, 600);
    assert_eq!(rig.outbound.give_up_too_old(&rig.desk), None);
    assert_eq!(too_old(&rig), tally(2, 2));
}

#[test]
fn pressure_falls_with_what_was_too_old() {
    let mut rig = rig(Strategy::BestEffort, 4);
    for _ in 0..4 {
        rig.queue(b"a");
    }
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::On));
    pass(&rig, 2 * LIMIT_NS);
    rig.outbound.give_up_too_old(&rig.desk);
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::Off));
}

#[test]
fn peers_of_a_shared_queue_lose_what_is_too_old_each_by_itself() {
    let mut rig = Rig::with(&OutboundOptions {
        strategy: Strategy::KeepLatest,
        max_queue_delay_ns: Some(LIMIT_NS),
        shared: true,
        ..options()
    });
    rig.outbound.opened();
    rig.desk.step_ns.set(0);
    let (one, two) = (rig.outbound.open_peer(), rig.outbound.open_peer());
    rig.queue_to(one, b"a");
    rig.queue_to(two, b"bb");
    pass(&rig, 800);
    rig.queue_to(one, b"ccc");
    pass(&rig, 800);
    assert_eq!(rig.drain_datagrams(), [(one, b"ccc".to_vec())]);
    let discarded = |peer| rig.outbound.peer_statistics(peer).discarded.too_old;
    assert_eq!((discarded(one), discarded(two)), (tally(1, 1), tally(1, 2)));
}

#[test]
fn without_the_limit_the_clock_is_read_no_more_often() {
    let mut rig = Rig::open(Strategy::BestEffort, 1 << 20, 100);
    for _ in 0..64 {
        rig.queue(b"a");
    }
    assert_eq!(rig.desk.readings.get(), 1);
    rig.drain();
    // For the delay of the block, and for when its writer was back.
    assert_eq!(rig.desk.readings.get(), 3);
}
