//! High and low water: when it is judged, and that On and Off alternate.

use super::*;

/// The driver's one look.
fn told(rig: &mut Rig) -> Option<Pressure> {
    rig.outbound.poll_pressure()
}

#[test]
fn queueing_raises_it_and_a_settled_write_lowers_it() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 100);
    rig.queue(&[0; 74]);
    assert_eq!(told(&mut rig), None);
    rig.queue(&[0; 1]);
    assert_eq!(told(&mut rig), Some(Pressure::On));
    assert_eq!(told(&mut rig), None, "told once");
    let taken = rig.take();
    assert_eq!(told(&mut rig), None, "what is in flight still waits");
    rig.settle(taken, 49);
    assert_eq!(told(&mut rig), None);
    let taken = rig.take();
    rig.settle(taken, 1);
    assert_eq!(told(&mut rig), Some(Pressure::Off));
    assert_eq!(rig.outbound.statistics().pressure_crossings, 2);
}

#[test]
fn the_fuller_of_the_two_limits_counts() {
    let mut rig = Rig::open(Strategy::Reliable, 1000, 4);
    rig.queue(b"a");
    rig.queue(b"b");
    assert_eq!(told(&mut rig), None);
    rig.queue(b"c");
    assert_eq!(told(&mut rig), Some(Pressure::On));
}

#[test]
fn a_message_that_its_sender_writes_counts_only_after_that() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 100);
    let message = [0; 90];
    let token = rig.write_now(&message);
    rig.queue(b"a");
    assert_eq!(told(&mut rig), None);
    rig.settle_direct(token, &message, DirectWrite::Part(1));
    assert_eq!(told(&mut rig), Some(Pressure::On));
    rig.drain();
    assert_eq!(told(&mut rig), Some(Pressure::Off));

    let token = rig.write_now(&message);
    rig.settle_direct(token, &message, DirectWrite::Whole);
    assert_eq!(told(&mut rig), None);
    assert_eq!(rig.outbound.statistics().pressure_crossings, 2);
}

#[test]
fn eviction_lowers_it() {
    let mut rig = Rig::open(Strategy::KeepLatest, 100, 100);
    rig.queue(&[0; 90]);
    assert_eq!(told(&mut rig), Some(Pressure::On));
    rig.queue(&[0; 11]);
    assert_eq!(told(&mut rig), Some(Pressure::Off));
}

#[test]
fn crossings_that_the_driver_never_saw_are_counted_and_not_told() {
    let mut rig = Rig::open(Strategy::KeepLatest, 100, 100);
    for _ in 0..5 {
        rig.queue(&[0; 90]);
    }
    // On; then Off and On again with each of four evictions.
    assert_eq!(rig.outbound.statistics().pressure_crossings, 9);
    assert_eq!(told(&mut rig), Some(Pressure::On));
    assert_eq!(told(&mut rig), None);
}

#[test]
fn the_driver_is_called_for_pressure_although_somebody_else_writes() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 100);
    let _token = rig.write_now(b"a");
    let offer = rig.offer(&[0; 80], Call::Try, Caller::Thread);
    assert_eq!(offer, Offer::Queued { wake: true });
}

#[test]
fn the_end_of_a_connection_lowers_it_once() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 100);
    rig.queue(&[0; 80]);
    assert_eq!(told(&mut rig), Some(Pressure::On));
    let taken = rig.take();
    rig.end(Discard::ConnectionLost);
    assert_eq!(told(&mut rig), Some(Pressure::Off));
    rig.settle(taken, 80);
    assert_eq!(told(&mut rig), None);
    assert_eq!(rig.outbound.statistics().pressure_crossings, 2);
}

#[test]
fn a_write_to_a_lost_connection_that_comes_back_lowers_it() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 100);
    rig.queue(&[0; 80]);
    let taken = rig.take();
    rig.end(Discard::ConnectionLost);
    rig.outbound.opened();
    // Eighty bytes of the old connection are still in a writer's hands, and count.
    rig.queue(&[0; 1]);
    assert_eq!(told(&mut rig), Some(Pressure::On));
    rig.settle(taken, 80);
    assert_eq!(told(&mut rig), Some(Pressure::Off));

    // Also when what fills the queue was queued while a sender wrote to the old connection.
    let mut rig = Rig::open(Strategy::KeepLatest, 100, 100);
    let token = rig.write_now(&[0; 80]);
    rig.end(Discard::ConnectionLost);
    rig.outbound.opened();
    rig.queue(&[0; 20]);
    assert_eq!(told(&mut rig), None);
    rig.settle_direct(token, &[0; 80], DirectWrite::Whole);
    assert_eq!(told(&mut rig), None);
}

#[test]
fn nothing_raises_it_after_the_end() {
    // A datagram server's peers close after its socket did, while a write is still under way.
    let mut rig = Rig::with(&OutboundOptions {
        shared: true,
        queue_limit_bytes: 100,
        ..options()
    });
    rig.outbound.opened();
    let peer = rig.outbound.open_peer();
    rig.queue_to(peer, &[0; 80]);
    let _taken = rig.take();
    assert_eq!(told(&mut rig), Some(Pressure::On));
    rig.end(Discard::Closed);
    assert_eq!(told(&mut rig), Some(Pressure::Off));
    rig.close_peer(peer, Discard::Closed);
    assert_eq!(told(&mut rig), None);
}

#[test]
fn closing_a_peer_judges_it_without_what_a_sender_is_writing() {
    let mut rig = Rig::with(&OutboundOptions {
        shared: true,
        queue_limit_bytes: 100,
        ..options()
    });
    rig.outbound.opened();
    let (one, other) = (rig.outbound.open_peer(), rig.outbound.open_peer());
    let _token = rig.write_now_to(one, &[0; 80]);
    rig.close_peer(other, Discard::Closed);
    assert_eq!(told(&mut rig), None);
}
