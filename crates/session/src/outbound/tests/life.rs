//! The lives of connections: nothing of one reaches the next, and every message is accounted for.

use super::*;

#[test]
fn what_waits_when_a_connection_is_lost_is_counted_and_never_written_to_the_next() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"old");
    rig.queue(b"older");
    assert_eq!(rig.end(Discard::ConnectionLost), tally(2, 8));
    assert_eq!(rig.outbound.opened(), 2);
    rig.queue(b"new");
    assert_eq!(rig.drain(), [b"new".to_vec()]);
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.discarded.connection_lost, tally(2, 8));
    assert_eq!(statistics.written, tally(1, 3));
}

#[test]
fn what_waits_when_the_link_is_closed_counts_as_closed() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"abc");
    rig.outbound.closing(Discard::Closed);
    assert_eq!(rig.end(Discard::Closed), tally(1, 3));
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.discarded.closed, tally(1, 3));
}

#[test]
fn a_block_in_flight_when_the_connection_is_lost_counts_as_lost_whatever_the_kernel_said() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"abc");
    rig.queue(b"de");
    let taken = rig.take();
    assert_eq!(rig.end(Discard::ConnectionLost), tally(0, 0));
    rig.outbound.opened();
    rig.queue(b"new");
    assert!(rig.try_take().is_none(), "one writer at a time");
    let settled = rig.settle(taken, 5);
    assert_eq!((settled.more, settled.blocked), (true, false));
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.discarded.connection_lost, tally(2, 5));
    assert_eq!(statistics.written, tally(0, 0));
    assert_eq!(rig.drain(), [b"new".to_vec()]);
}

#[test]
fn a_senders_write_to_a_lost_connection_counts_as_lost_and_its_rest_stays_away_from_the_next() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let token = rig.write_now(b"abc");
    rig.end(Discard::ConnectionLost);
    rig.outbound.opened();
    rig.settle_direct(token, b"abc", DirectWrite::Part(1));
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.discarded.connection_lost, tally(1, 3));
    assert_eq!(statistics.written, tally(0, 0));
    assert!(rig.try_take().is_none());
}

#[test]
fn what_is_in_flight_when_the_link_is_closed_counts_as_closed() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"abc");
    let taken = rig.take();
    rig.end(Discard::Closed);
    rig.settle(taken, 3);
    assert_eq!(
        rig.outbound.statistics().discarded.closed,
        tally(1, 3),
        "a block"
    );

    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let token = rig.write_now(b"abc");
    rig.end(Discard::Closed);
    rig.settle_direct(token, b"abc", DirectWrite::Whole);
    assert_eq!(
        rig.outbound.statistics().discarded.closed,
        tally(1, 3),
        "a sender's own"
    );
}

#[test]
fn what_was_in_flight_when_the_connection_was_lost_stays_lost_when_the_link_is_closed_then() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let token = rig.write_now(b"abc");
    rig.end(Discard::ConnectionLost);
    rig.end(Discard::Closed);
    rig.settle_direct(token, b"abc", DirectWrite::Whole);
    let discarded = rig.outbound.statistics().discarded;
    assert_eq!(discarded.connection_lost, tally(1, 3));
    assert_eq!(discarded.closed, tally(0, 0));
}

#[test]
fn a_message_cut_by_the_end_is_discarded_and_its_written_bytes_stay_written() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"abcdef");
    rig.queue(b"gh");
    let taken = rig.take();
    rig.settle(taken, 4);
    assert_eq!(rig.end(Discard::ConnectionLost), tally(2, 4));
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.written, tally(0, 4));
    assert_eq!(statistics.discarded.connection_lost, tally(2, 4));

    // The same when its sender wrote the first part.
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let token = rig.write_now(b"abcdef");
    rig.settle_direct(token, b"abcdef", DirectWrite::Part(1));
    assert_eq!(rig.end(Discard::Closed), tally(1, 5));
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.written, tally(0, 1));
    assert_eq!(statistics.discarded.closed, tally(1, 5));

    // And when the rest was in flight at the end.
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"abcdef");
    let taken = rig.take();
    rig.settle(taken, 2);
    let taken = rig.take();
    rig.end(Discard::ConnectionLost);
    rig.settle(taken, 4);
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.written, tally(0, 2));
    assert_eq!(statistics.discarded.connection_lost, tally(1, 4));
}

#[test]
fn the_rest_of_a_senders_write_goes_before_what_was_queued_meanwhile() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let token = rig.write_now(b"abc");
    rig.queue(b"d");
    rig.queue(b"e");
    rig.settle_direct(token, b"abc", DirectWrite::Part(2));
    assert_eq!(rig.drain().concat(), b"cde");
    assert_eq!(rig.outbound.statistics().written, tally(3, 5));
}

#[test]
fn a_block_written_in_parts_comes_out_whole_and_in_order() {
    for first in 0..=9 {
        for second in first..=9 {
            let mut rig = Rig::open(Strategy::Reliable, 100, 8);
            for message in [&b"abc"[..], b"", b"defg", b"hi"] {
                rig.queue(message);
            }
            let mut wire = Vec::new();
            for written_bytes in [first, second - first] {
                if let Some(taken) = rig.try_take() {
                    wire.extend_from_slice(&taken.bytes()[..written_bytes]);
                    rig.settle(taken, written_bytes);
                }
            }
            wire.extend(rig.drain().concat());
            assert_eq!(wire, b"abcdefghi", "cut at {first} and {second}");
            assert_eq!(rig.outbound.statistics().written, tally(4, 9));
        }
    }
}

#[test]
fn a_new_connection_forgets_that_the_driver_was_called_for_the_old_one() {
    let mut rig = Rig::open(Strategy::Reliable, 10, 8);
    let token = rig.write_now(b"a");
    rig.queue(b"12345678");
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::On));
    rig.end(Discard::ConnectionLost);
    // The writer comes back before the driver told that pressure is off, and calls it.
    assert!(rig.settle_direct(token, b"a", DirectWrite::Whole));
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::Off));
    // With no connection there was nothing for it to take.
    rig.outbound.opened();
    let offer = rig.offer(b"d", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Queued { wake: true });
}

#[test]
fn the_driver_is_called_when_a_sender_wrote_the_last_of_a_closing_link() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let token = rig.write_now(b"abc");
    rig.outbound.closing(Discard::Closed);
    assert!(!rig.outbound.is_drained());
    assert!(rig.settle_direct(token, b"abc", DirectWrite::Whole));
    assert!(rig.outbound.is_drained());
    // Once is enough.
    assert!(!rig.outbound.needs_driver());
}

#[test]
fn a_link_closed_by_its_application_stays_closed_however_its_connection_ends() {
    let closed = Offer::Refused(Refusal::Closed);
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.outbound.closing(Discard::ConnectionLost);
    rig.outbound.closing(Discard::Closed);
    assert_eq!(rig.offer(b"a", Call::Try, Caller::Thread), closed);
    rig.end(Discard::ConnectionLost);
    assert!(rig.outbound.is_ended());
    assert_eq!(rig.offer(b"a", Call::Try, Caller::Thread), closed);
}

#[test]
fn closing_before_a_connection_opened_ends_the_link() {
    let mut rig = Rig::with(&options());
    rig.outbound.closing(Discard::Closed);
    assert!(!rig.outbound.is_open());
    let offer = rig.offer(b"a", Call::Try, Caller::Thread);
    assert_eq!(offer, Offer::Refused(Refusal::Closed));
}

#[test]
fn every_block_goes_back_to_the_pool() {
    let mut rig = Rig::open(Strategy::KeepLatest, 300_000, 100);
    for round in 0..20 {
        for _ in 0..10 {
            rig.queue(&[0; 30_000]);
        }
        let taken = rig.take();
        let written_bytes = taken.bytes().len().min(30_000 + round);
        rig.settle(taken, written_bytes);
    }
    rig.drain();
    let token = rig.write_now(b"abc");
    rig.settle_direct(token, b"abc", DirectWrite::Part(1));
    rig.drain();
    rig.queue(b"abc");
    rig.end(Discard::ConnectionLost);
    assert_eq!(rig.desk.blocks_out.get(), 0);
}

#[test]
fn writes_are_counted_as_asked_of_the_kernel() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let token = rig.write_now(b"abc");
    rig.settle_direct(token, b"abc", DirectWrite::Whole);
    rig.queue(b"de");
    rig.queue(b"fg");
    rig.drain();
    let statistics = rig.outbound.statistics();
    assert_eq!((statistics.direct_writes, statistics.write_calls), (1, 2));
}
