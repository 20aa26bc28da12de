//! What a send says: the table of the strategies, and what comes before it.

use super::*;

/// One message of 10 bytes waits, and no more fits.
fn full(strategy: Strategy) -> Rig {
    let mut rig = Rig::open(strategy, 10, 8);
    rig.queue(b"0123456789");
    rig
}

const FULL: Offer = Offer::Refused(Refusal::Full);

fn waits(offer: Offer) -> bool {
    matches!(offer, Offer::Wait(_))
}

fn accepted(offer: Offer) -> bool {
    matches!(offer, Offer::WriteNow(_) | Offer::Queued { .. })
}

#[test]
fn without_room_try_send_is_full_full_and_evicts() {
    let try_send = |strategy| full(strategy).offer(b"new", Call::Try, Caller::Thread);
    assert_eq!(try_send(Strategy::Reliable), FULL);
    assert_eq!(try_send(Strategy::BestEffort), FULL);
    assert!(accepted(try_send(Strategy::KeepLatest)));
}

#[test]
fn without_room_send_waits_is_full_and_evicts() {
    let send = |strategy| full(strategy).offer(b"new", Call::Send, Caller::Thread);
    assert!(waits(send(Strategy::Reliable)));
    assert_eq!(send(Strategy::BestEffort), FULL);
    assert!(accepted(send(Strategy::KeepLatest)));
}

#[test]
fn without_room_send_timeout_waits_waits_and_evicts() {
    let send_timeout = |strategy| full(strategy).offer(b"new", Call::Within, Caller::Thread);
    assert!(waits(send_timeout(Strategy::Reliable)));
    assert!(waits(send_timeout(Strategy::BestEffort)));
    assert!(accepted(send_timeout(Strategy::KeepLatest)));
}

#[test]
fn a_refused_message_is_counted_with_its_bytes_and_a_waiting_one_as_a_wait() {
    let mut rig = full(Strategy::BestEffort);
    let _ = rig.offer(b"new", Call::Send, Caller::Thread);
    let _ = rig.offer(b"newer", Call::Try, Caller::Thread);
    let _ = rig.offer(b"newest", Call::Within, Caller::Thread);
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.refused, tally(2, 8));
    assert_eq!(statistics.waits, 1);
    assert_eq!(statistics.accepted, tally(1, 10));
}

#[test]
fn whoever_may_not_wait_is_told_that_it_would_have_to() {
    for caller in [Caller::Callback, Caller::Driver, Caller::Direct] {
        let mut rig = full(Strategy::Reliable);
        let would_wait = Offer::Refused(Refusal::WouldWait);
        assert_eq!(rig.offer(b"new", Call::Send, caller), would_wait);
        assert_eq!(rig.offer(b"new", Call::Within, caller), would_wait);
        assert_eq!(rig.offer(b"new", Call::Try, caller), FULL);
        assert_eq!(rig.outbound.statistics().refused, tally(1, 3));
    }
}

#[test]
fn too_large_is_said_always_with_the_limit_that_applies() {
    let too_large = |limit_bytes| Offer::Refused(Refusal::TooLarge { limit_bytes });
    // By the queue limit, of which the prefix takes four bytes.
    let mut rig = Rig::with(&OutboundOptions {
        framing: Framing::length_prefix(),
        queue_limit_bytes: 24,
        ..options()
    });
    let offer = rig.offer(&[0; 21], Call::Try, Caller::Thread);
    assert_eq!(offer, too_large(20), "before a connection is open");
    rig.outbound.opened();
    let offer = rig.offer(&[0; 21], Call::Send, Caller::Thread);
    assert_eq!(offer, too_large(20));
    assert!(accepted(rig.offer(&[0; 20], Call::Try, Caller::Thread)));

    // By the frame limit.
    let mut rig = Rig::with(&OutboundOptions {
        frame_limit_bytes: 5,
        ..options()
    });
    rig.outbound.opened();
    let offer = rig.offer(b"123456", Call::Send, Caller::Thread);
    assert_eq!(offer, too_large(5));
}

#[test]
fn what_a_shared_total_could_never_hold_is_too_large_not_a_wait_for_ever() {
    let mut rig = Rig::with(&OutboundOptions {
        budget: Some(Arc::new(Budget::new(100))),
        ..options()
    });
    rig.outbound.opened();
    let offer = rig.offer(&[0; 101], Call::Send, Caller::Thread);
    assert_eq!(
        offer,
        Offer::Refused(Refusal::TooLarge { limit_bytes: 100 })
    );
    assert!(accepted(rig.offer(&[0; 100], Call::Send, Caller::Thread)));
}

#[test]
fn before_a_connection_is_open_and_after_it_is_lost_a_send_says_not_connected() {
    let not_connected = Offer::Refused(Refusal::NotConnected);
    let mut rig = Rig::with(&options());
    assert_eq!(rig.offer(b"a", Call::Send, Caller::Thread), not_connected);
    rig.outbound.opened();
    rig.end(Discard::ConnectionLost);
    assert_eq!(rig.offer(b"a", Call::Send, Caller::Thread), not_connected);
}

#[test]
fn after_close_a_send_says_closed_even_when_the_connection_is_lost_later() {
    let closed = Offer::Refused(Refusal::Closed);
    let mut rig = Rig::open(Strategy::Reliable, 10, 8);
    rig.outbound.closing(Discard::Closed);
    assert_eq!(rig.offer(b"a", Call::Try, Caller::Thread), closed);
    rig.end(Discard::Closed);
    assert_eq!(rig.offer(b"a", Call::Try, Caller::Thread), closed);
    // The driver may notice the lost connection after the user closed the link.
    rig.end(Discard::ConnectionLost);
    assert_eq!(rig.offer(b"a", Call::Try, Caller::Thread), closed);
}

#[test]
fn a_thread_writes_itself_when_nothing_waits_and_nobody_writes() {
    for caller in [Caller::Thread, Caller::Callback, Caller::Direct] {
        let mut rig = Rig::open(Strategy::Reliable, 10, 8);
        let offer = rig.offer(b"a", Call::Try, caller);
        assert!(matches!(offer, Offer::WriteNow(_)), "{caller:?}");
        // The next one comes while the first is being written.
        let offer = rig.offer(b"b", Call::Try, caller);
        assert_eq!(offer, Offer::Queued { wake: false }, "{caller:?}");
    }
    let mut rig = Rig::open(Strategy::Reliable, 10, 8);
    let offer = rig.offer(b"a", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Queued { wake: true });
}

#[test]
fn the_third_send_in_a_row_within_a_microsecond_is_gathered() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.desk.step_ns.set(0);
    rig.desk.now_ns.set(5_000);
    let mut gaps_ns = [5_000, 999, 999].into_iter();
    for gap_ns in gaps_ns.by_ref() {
        rig.desk.now_ns.set(rig.desk.now_ns.get() + gap_ns);
        let token = rig.write_now(b"a");
        rig.settle_direct(token, b"a", DirectWrite::Whole);
    }
    rig.desk.now_ns.set(rig.desk.now_ns.get() + 999);
    let offer = rig.offer(b"a", Call::Try, Caller::Thread);
    assert_eq!(offer, Offer::Queued { wake: true });
    // The driver's write counts as the last one; a microsecond later the sender is not hot.
    rig.drain();
    rig.desk.now_ns.set(rig.desk.now_ns.get() + 1_000);
    rig.write_now(b"a");
}

#[test]
fn time_that_a_sender_spends_waking_the_driver_is_no_pause_of_its_own() {
    for (woken, gathered) in [(true, true), (false, false)] {
        let mut rig = Rig::open(Strategy::Reliable, 100, 8);
        rig.desk.step_ns.set(0);
        rig.desk.now_ns.set(5_000);
        for _ in 0..3 {
            let token = rig.write_now(b"a");
            rig.settle_direct(token, b"a", DirectWrite::Whole);
        }
        let offer = rig.offer(b"a", Call::Try, Caller::Thread);
        assert_eq!(offer, Offer::Queued { wake: true });
        rig.drain();
        // The call took five microseconds, in which the driver wrote.
        rig.desk.now_ns.set(10_000);
        if woken {
            rig.outbound.woke_driver(10_000);
        }
        rig.desk.now_ns.set(10_999);
        let offer = rig.offer(b"a", Call::Try, Caller::Thread);
        assert_eq!(matches!(offer, Offer::Queued { .. }), gathered);
    }
}

#[test]
fn a_callback_that_needs_room_tries_a_kernel_that_was_full() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"abc");
    let taken = rig.take();
    rig.settle(taken, 0);
    assert!(rig.outbound.take(Caller::Callback, &rig.desk).is_none());
    let taken = rig.outbound.take_more(Caller::Callback, &rig.desk).unwrap();
    assert_eq!(taken.bytes(), b"abc");
    // One writer at a time, also for those who try harder.
    assert!(rig.outbound.take_more(Caller::Driver, &rig.desk).is_none());
    rig.settle(taken, 3);
}

#[test]
fn the_driver_is_called_once_until_it_comes_and_again_when_the_writer_left_something() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    let offer = rig.offer(b"a", Call::Try, Caller::Driver);
    assert_eq!(offer, Offer::Queued { wake: true });
    let offer = rig.offer(b"b", Call::Try, Caller::Thread);
    assert_eq!(offer, Offer::Queued { wake: false });
    assert_eq!(rig.drain(), [b"ab".to_vec()]);

    let token = rig.write_now(b"cde");
    rig.queue(b"f");
    assert!(rig.settle_direct(token, b"cde", DirectWrite::Part(1)));
    assert_eq!(rig.drain(), [b"de".to_vec(), b"f".to_vec()]);
}

#[test]
fn a_callback_that_met_a_full_kernel_leaves_the_asking_to_the_driver() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"ab");
    let taken = rig.take();
    rig.queue(b"c");
    rig.settle(taken, 2);
    let taken = rig.outbound.take(Caller::Callback, &rig.desk).unwrap();
    let settled = rig.settle(taken, 0);
    assert_eq!((settled.more, settled.blocked), (false, true));
    assert!(rig.outbound.needs_driver());
    assert_eq!(rig.drain(), [b"c".to_vec()]);
}

#[test]
fn a_full_kernel_is_asked_again_only_when_it_has_said_so_to_the_driver() {
    let mut rig = Rig::open(Strategy::Reliable, 100, 8);
    rig.queue(b"abc");
    let taken = rig.take();
    let settled = rig.settle(taken, 1);
    assert_eq!((settled.more, settled.blocked), (false, true));
    // Nobody else tries meanwhile, and the driver is not called for what it waits for.
    assert!(rig.outbound.take(Caller::Callback, &rig.desk).is_none());
    let offer = rig.offer(b"d", Call::Try, Caller::Thread);
    assert_eq!(offer, Offer::Queued { wake: false });
    assert_eq!(rig.drain(), [b"bcd".to_vec()]);
}
