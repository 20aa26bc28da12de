//! Messages kept over a loss: whole and untouched ones, once each, behind what the reopen hook sends.

use super::*;

fn keeping(strategy: Strategy, limit_bytes: usize) -> Rig {
    let mut rig = Rig::with(&OutboundOptions {
        strategy,
        queue_limit_bytes: limit_bytes,
        on_loss: OnLoss::Keep,
        ..options()
    });
    rig.outbound.opened();
    rig.outbound.hook_done();
    rig
}

fn lose(rig: &mut Rig) -> Tally {
    rig.end(Discard::ConnectionLost)
}

/// A new connection whose hook sends nothing.
fn reopen(rig: &mut Rig) -> bool {
    rig.outbound.opened();
    rig.outbound.hook_done()
}

#[test]
fn what_waits_goes_to_the_next_connection_in_order_and_is_counted() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"one");
    rig.queue(b"two!");
    assert_eq!(lose(&mut rig), tally(0, 0));
    assert_eq!(rig.outbound.statistics().carried, tally(2, 7));
    assert_eq!(rig.outbound.waiting(), tally(2, 7));
    assert!(rig.try_take().is_none(), "no connection is open");
    assert!(reopen(&mut rig), "the driver has to come");
    rig.queue(b"new");
    assert_eq!(rig.drain(), [b"onetwo!new".to_vec()]);
    assert_eq!(rig.outbound.statistics().written, tally(3, 10));
}

#[test]
fn the_hook_goes_first_and_other_threads_go_last() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"kept");
    lose(&mut rig);
    rig.outbound.opened();
    let other = rig.offer(b"other", Call::Try, Caller::Thread);
    assert!(matches!(other, Offer::Queued { .. }), "{other:?}");
    assert!(rig.try_take().is_none(), "only what the hook sends may go");
    rig.queue(b"log");
    rig.queue(b"in");
    rig.outbound.hook_done();
    rig.queue(b"after");
    assert_eq!(rig.drain(), [b"login".to_vec(), b"keptotherafter".to_vec()]);
}

#[test]
fn what_the_hook_sends_may_go_while_it_runs_and_comes_back_to_its_place() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"kept");
    lose(&mut rig);
    rig.outbound.opened();
    rig.queue(b"login");
    let taken = rig.take();
    rig.queue(b"more");
    rig.settle(taken, 2);
    rig.outbound.hook_done();
    let written = rig.drain().concat();
    assert_eq!(written, b"ginmorekept");
}

#[test]
fn what_the_hook_sent_is_not_kept_for_the_next_hook_sends_it_anew() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"kept");
    lose(&mut rig);
    rig.outbound.opened();
    rig.queue(b"login");
    rig.outbound.hook_done();
    assert_eq!(lose(&mut rig), tally(1, 5));
    assert_eq!(rig.outbound.statistics().carried, tally(2, 8));
    reopen(&mut rig);
    assert_eq!(rig.drain(), [b"kept".to_vec()]);
}

#[test]
fn a_message_begun_is_given_up_and_those_behind_it_are_kept() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"abc");
    rig.queue(b"def");
    let taken = rig.take();
    rig.settle(taken, 1);
    assert_eq!(lose(&mut rig), tally(1, 2));
    reopen(&mut rig);
    assert_eq!(rig.drain(), [b"def".to_vec()]);
    let statistics = rig.outbound.statistics();
    assert_eq!(statistics.written, tally(1, 4));
    assert_eq!(statistics.discarded.connection_lost, tally(1, 2));
}

#[test]
fn of_a_block_in_flight_only_what_the_kernel_did_not_touch_is_kept() {
    // (written by the old connection, given up, kept)
    let cases = [
        (0, tally(0, 0), "abcdef"),
        (1, tally(1, 3), "def"),
        (3, tally(1, 3), "def"),
        (4, tally(2, 6), ""),
        (6, tally(2, 6), ""),
    ];
    for (written, given_up, kept) in cases {
        for reopens_before in [false, true] {
            let mut rig = keeping(Strategy::Reliable, 100);
            rig.queue(b"abc");
            rig.queue(b"def");
            let taken = rig.take();
            rig.queue(b"ghi");
            assert_eq!(lose(&mut rig), tally(0, 0));
            if reopens_before {
                rig.outbound.opened();
                rig.queue(b"!");
            }
            rig.settle(taken, written);
            if !reopens_before {
                rig.outbound.opened();
                rig.queue(b"!");
            }
            rig.outbound.hook_done();
            let sent = rig.drain().concat();
            assert_eq!(sent, format!("!{kept}ghi").into_bytes(), "{written}");
            let lost = rig.outbound.statistics().discarded.connection_lost;
            assert_eq!(lost, given_up, "{written}");
        }
    }
}

#[test]
fn a_senders_own_message_is_kept_if_the_kernel_took_nothing_of_it() {
    let cases = [
        (DirectWrite::Part(0), tally(0, 0)),
        (DirectWrite::Part(1), tally(1, 3)),
        (DirectWrite::Whole, tally(1, 3)),
    ];
    for (written, given_up) in cases {
        let mut rig = keeping(Strategy::Reliable, 100);
        let token = rig.write_now(b"abc");
        lose(&mut rig);
        rig.settle_direct(token, b"abc", written);
        assert_eq!(
            rig.outbound.statistics().discarded.connection_lost,
            given_up
        );
        reopen(&mut rig);
        assert_eq!(rig.drain().is_empty(), given_up.messages == 1);
    }
}

#[test]
fn when_no_connection_follows_what_was_kept_is_given_up_for_the_right_cause() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"abc");
    lose(&mut rig);
    let given_up = rig.outbound.give_up(Discard::ConnectionLost, &rig.desk);
    assert_eq!(given_up, tally(1, 3));
    assert_eq!(rig.outbound.discarded().connection_lost, tally(1, 3));

    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"abc");
    lose(&mut rig);
    rig.outbound.closing(Discard::Closed);
    assert_eq!(rig.end(Discard::Closed), tally(1, 3));
    assert_eq!(rig.outbound.discarded().closed, tally(1, 3));
}

#[test]
fn a_writer_that_comes_back_when_no_connection_follows_gives_its_part_up_too() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"abc");
    let taken = rig.take();
    lose(&mut rig);
    rig.outbound.closing(Discard::Closed);
    rig.end(Discard::Closed);
    rig.settle(taken, 0);
    assert_eq!(rig.outbound.discarded().closed, tally(1, 3));
    assert_eq!(rig.desk.blocks_out.get(), 0);
}

#[test]
fn a_closed_link_keeps_nothing() {
    let mut rig = keeping(Strategy::Reliable, 100);
    rig.queue(b"abc");
    rig.outbound.closing(Discard::Closed);
    assert_eq!(lose(&mut rig), tally(1, 3));
    assert_eq!(rig.outbound.statistics().carried, tally(0, 0));
}

#[test]
fn those_who_wait_for_room_are_not_kept() {
    let mut rig = keeping(Strategy::Reliable, 3);
    rig.queue(b"abc");
    let ticket = rig.wait(b"def");
    lose(&mut rig);
    assert_eq!(rig.told(), [ticket]);
    let answer = rig.redeem(ticket, b"def");
    assert_eq!(answer, Offer::Refused(Refusal::NotConnected));
}

#[test]
fn keeplatest_evicts_what_was_kept_and_never_what_the_hook_sent() {
    // Ten for samples, and one more for the hook.
    let mut rig = keeping(Strategy::KeepLatest, 11);
    rig.queue(b"old1");
    rig.queue(b"old2");
    lose(&mut rig);
    rig.outbound.opened();
    rig.queue(b"hook");
    rig.outbound.hook_done();
    rig.queue(b"new1");
    rig.queue(b"new2");
    assert_eq!(rig.drain().concat(), b"hooknew2");
    assert_eq!(rig.outbound.discarded().evicted, tally(3, 12));
}

#[test]
fn pressure_is_off_between_connections_and_judged_again_with_what_was_kept() {
    let mut rig = keeping(Strategy::Reliable, 9);
    rig.queue(b"12345678");
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::On));
    lose(&mut rig);
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::Off));
    reopen(&mut rig);
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::On));
    rig.drain();
    assert_eq!(rig.outbound.poll_pressure(), Some(Pressure::Off));
}

#[test]
fn an_eighth_of_the_limits_is_the_hooks_however_much_is_kept() {
    let mut rig = keeping(Strategy::Reliable, 16);
    rig.queue(b"12345678901234");
    let full = rig.offer(b"x", Call::Try, Caller::Driver);
    assert_eq!(full, Offer::Refused(Refusal::Full));
    lose(&mut rig);
    rig.outbound.opened();
    let ticket = rig.wait(b"other");
    rig.queue(b"hi");
    let more = rig.offer(b"!", Call::Send, Caller::Driver);
    assert_eq!(more, Offer::Refused(Refusal::WouldWait));
    rig.outbound.hook_done();
    assert_eq!(rig.drain(), [b"hi".to_vec(), b"12345678901234".to_vec()]);
    assert_eq!(rig.told(), [ticket]);
    let longest = rig.offer(&[0; 15], Call::Try, Caller::Driver);
    let too_large = Refusal::TooLarge { limit_bytes: 14 };
    assert_eq!(longest, Offer::Refused(too_large));
}

#[test]
fn a_message_of_the_hook_has_room_however_small_the_limit() {
    // (limit, of which all others have)
    for (limit_messages, others) in [(2, 1), (7, 6), (8, 7), (16, 14)] {
        let mut rig = Rig::with(&OutboundOptions {
            queue_limit_messages: limit_messages,
            on_loss: OnLoss::Keep,
            ..options()
        });
        rig.outbound.opened();
        rig.outbound.hook_done();
        for _ in 0..others {
            rig.queue(b"kept");
        }
        let full = rig.offer(b"x", Call::Try, Caller::Driver);
        assert_eq!(full, Offer::Refused(Refusal::Full));
        lose(&mut rig);
        rig.outbound.opened();
        rig.queue(b"login");
        rig.outbound.hook_done();
        let written = rig.drain().concat();
        assert_eq!(written, [&b"login"[..], &b"kept".repeat(others)].concat());
    }
}

#[test]
fn what_drivers_say_is_of_one_connection() {
    let prefixed = |payload: &[u8]| [&[0, 0, 0, payload.len() as u8], payload].concat();
    for in_flight in [false, true] {
        let mut rig = Rig::with(&OutboundOptions {
            framing: Framing::length_prefix(),
            on_loss: OnLoss::Keep,
            ..options()
        });
        rig.outbound.opened();
        rig.outbound.hook_done();
        rig.queue(b"begun");
        let pong = |rig: &mut Rig| {
            let number = crate::control::Control::Pong(7);
            assert!(rig.outbound.offer_control(number, &rig.desk));
        };
        pong(&mut rig);
        rig.queue(b"one");
        pong(&mut rig);
        pong(&mut rig);
        rig.queue(b"two");
        pong(&mut rig);
        let taken = rig.take();
        let (lost, carried) = (tally(5, 52 + 6), tally(2, 14));
        if in_flight {
            lose(&mut rig);
            rig.settle(taken, 3);
        } else {
            rig.settle(taken, 3);
            assert_eq!(lose(&mut rig), lost);
        }
        let statistics = rig.outbound.statistics();
        assert_eq!(statistics.carried, carried);
        assert_eq!(statistics.waiting, carried);
        assert_eq!(statistics.discarded.connection_lost.messages, 5);
        assert!(statistics.closes());
        reopen(&mut rig);
        rig.queue(b"new");
        let kept = [prefixed(b"one"), prefixed(b"two"), prefixed(b"new")];
        assert_eq!(rig.drain().concat(), kept.concat());
        assert_eq!(
            rig.outbound.statistics().written_payload_bytes,
            if in_flight { 9 } else { 12 }
        );
    }
}
