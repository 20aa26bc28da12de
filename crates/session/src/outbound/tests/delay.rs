//! Queue delay, and how seldom the clock is read for it.

use super::*;

/// A rig whose clock stands still unless it is moved.
fn rig() -> Rig {
    let rig = Rig::open(Strategy::Reliable, 1 << 20, 1 << 16);
    rig.desk.step_ns.set(0);
    rig.desk.now_ns.set(1_000_000);
    rig
}

fn pass(rig: &Rig, ns: u64) {
    rig.desk.now_ns.set(rig.desk.now_ns.get() + ns);
}

/// The longest delay noted; the upper edge of its step.
fn longest_ns(rig: &Rig) -> Option<u64> {
    rig.outbound.statistics().queue_delay?.percentile_ns(100.0)
}

#[test]
fn the_clock_is_read_when_the_queue_becomes_non_empty_and_then_once_per_64_messages() {
    let mut rig = rig();
    for _ in 0..64 {
        rig.queue(b"a");
    }
    assert_eq!(rig.desk.readings.get(), 1);
    rig.queue(b"a");
    assert_eq!(rig.desk.readings.get(), 2);
}

#[test]
fn the_clock_is_read_once_per_4_kib() {
    let mut rig = rig();
    for _ in 0..4 {
        rig.queue(&[0; 1024]);
    }
    assert_eq!(rig.desk.readings.get(), 1);
    rig.queue(b"a");
    assert_eq!(rig.desk.readings.get(), 2);
}

#[test]
fn each_message_is_noted_once_however_its_write_is_cut() {
    let mut rig = rig();
    for _ in 0..100 {
        rig.queue(b"abc");
    }
    pass(&rig, 50_000);
    for written_bytes in [1, 1, 150] {
        let taken = rig.take();
        rig.settle(taken, written_bytes);
    }
    rig.drain();
    let delays = rig.outbound.statistics().queue_delay.unwrap();
    assert_eq!(delays.count(), 100);
    assert_eq!(delays.percentile_ns(0.0), Some(53_248));
    assert_eq!(delays.percentile_ns(100.0), Some(53_248));
}

#[test]
fn nothing_is_noted_of_what_never_waited() {
    let mut rig = rig();
    let token = rig.write_now(b"abc");
    rig.settle_direct(token, b"abc", DirectWrite::Whole);
    assert_eq!(rig.outbound.statistics().queue_delay, None);
}

#[test]
fn a_message_queued_behind_a_senders_rest_is_not_as_old_as_the_last_reading_of_the_clock() {
    // Observed: an hour of idleness counted as the delay of the first message after it.
    let mut rig = rig();
    rig.queue(b"long ago");
    rig.drain();
    pass(&rig, 3_600_000_000_000);
    let large = vec![0; 100_000];
    let token = rig.write_now(&large);
    rig.settle_direct(token, &large, DirectWrite::Part(1));
    rig.queue(b"behind it");
    pass(&rig, 1_000);
    rig.drain();
    assert_eq!(longest_ns(&rig), Some(1_024));
}

#[test]
fn a_message_queued_behind_what_the_kernel_had_no_room_for_is_not_as_old() {
    let mut rig = rig();
    rig.queue(b"ab");
    let taken = rig.take();
    rig.settle(taken, 1);
    pass(&rig, 10_000_000);
    rig.queue(b"c");
    pass(&rig, 1_000);
    rig.drain();
    let delays = rig.outbound.statistics().queue_delay.unwrap();
    assert_eq!(delays.percentile_ns(50.0), Some(1_024));
}
