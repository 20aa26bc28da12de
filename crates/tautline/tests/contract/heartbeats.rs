//! Two ends that ask each other whether they live: whoever does not answer is lost, and no message is
//! touched by it.

use std::io::Write;
use std::time::{Duration, Instant};

use tautline::{ByteOrder, DirectLink, Framing, Heartbeat, LinkOptions, PrefixWidth, Reason};

use crate::common::*;

over! {
    two_ends_that_live_measure_their_round_trips: tcp tls uds serial;
    messages_pass_between_heartbeats_whole_and_in_order: tcp tls uds serial;
    a_ping_is_answered_at_once_with_its_number: tcp tls uds serial;
    a_peer_that_says_nothing_is_lost_though_its_connection_stands: tcp tls uds serial;
    a_program_that_stands_still_is_lost: tcp tls uds serial;
    any_byte_is_a_sign_of_life: tcp tls uds serial;
    an_end_that_does_not_read_is_alive_all_the_same: tcp tls uds serial;
    an_end_without_heartbeats_takes_them_for_bad_frames: tcp tls uds serial;
    every_width_of_prefix_carries_them: tcp tls uds serial;
}

fn beating(transport: Transport, interval: Duration, missed_limit: u32) -> LinkOptions {
    LinkOptions {
        heartbeat: Some(Heartbeat {
            interval,
            missed_limit,
        }),
        ..framed(transport)
    }
}

const SHORT: Duration = Duration::from_millis(10);
/// Nobody is lost by this in a test.
const PATIENT: u32 = 10_000;

fn pass(time: Duration) {
    let begun = Instant::now();
    until("time has passed", || begun.elapsed() > time);
}

fn expect_lost(reason: &Reason) {
    assert!(matches!(reason, Reason::HeartbeatLost), "{reason}");
}

fn two_ends_that_live_measure_their_round_trips(transport: Transport) {
    let pair = Pair::open(transport, &beating(transport, SHORT, PATIENT));
    for link in [&pair.client, &pair.peer] {
        until("three round trips are measured", || {
            let rtt = link.statistics().heartbeat_rtt;
            rtt.is_some_and(|rtt| rtt.count >= 3)
        });
        let statistics = link.statistics();
        let rtt = statistics.heartbeat_rtt.unwrap();
        assert!(rtt.min <= rtt.last && rtt.last <= rtt.max, "{rtt:?}");
        assert!(rtt.min > Duration::ZERO && rtt.smoothed <= rtt.max);
        // Pings and answers, and nothing else.
        assert!(statistics.sending.closes());
        // The other end may have asked less often by now.
        assert!(statistics.sending.heartbeats >= 3);
        assert_eq!(
            statistics.sending.accepted.messages,
            statistics.sending.heartbeats
        );
        assert!(statistics.receiving.heartbeats >= 3);
        assert_eq!(statistics.receiving.messages, 0);
    }
    assert!(pair.client_inbox.so_far().is_empty());
    assert!(pair.peer_inbox.so_far().is_empty());
}

fn messages_pass_between_heartbeats_whole_and_in_order(transport: Transport) {
    let often = Duration::from_micros(200);
    let pair = Pair::open(transport, &beating(transport, often, u32::MAX));
    let messages = numbered(3_000, 700);
    for message in &messages {
        pair.client.send(message).unwrap();
        pair.peer.send(message).unwrap();
    }
    for message in &messages {
        assert_eq!(pair.client_inbox.skip_to_message(), *message);
        assert_eq!(pair.peer_inbox.skip_to_message(), *message);
    }
    until("there were heartbeats as well", || {
        pair.client.statistics().receiving.heartbeats > 0
    });
    // A read is counted when its messages are handed out.
    until("all are counted", || {
        pair.client.statistics().receiving.messages == 3_000
    });
}

fn control(kind: u8, number: u64) -> Vec<u8> {
    let mut bytes = vec![0xff; 4];
    bytes.push(kind);
    bytes.extend(number.to_be_bytes());
    bytes
}

fn a_ping_is_answered_at_once_with_its_number(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let options = beating(transport, Duration::from_secs(3600), 1);
    let (handler, inbox) = recorder();
    let (_link, mut peer) = client_of_raw(&io, &listener, options, handler);
    let number = 0x0102_0304_0506_0708;
    let ping = control(1, number);
    for cut in 0..=ping.len() {
        peer.write_all(&ping[..cut]).unwrap();
        let_turn(&io);
        peer.write_all(&ping[cut..]).unwrap();
        assert_eq!(peer.read_exactly(13), control(2, number), "cut at {cut}");
    }
    inbox.expect_opened();
    assert!(inbox.so_far().is_empty(), "no handler hears of it");
}

fn a_peer_that_says_nothing_is_lost_though_its_connection_stands(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let interval = Duration::from_millis(50);
    let begun = Instant::now();
    let options = beating(transport, interval, 3);
    let (_link, mut peer) = reach(&io, transport, options, handler);
    inbox.expect_opened();
    let closed = inbox.expect_end();
    assert!(begun.elapsed() >= 3 * interval);
    expect_lost(&closed.reason);
    // It was asked.
    let RawPeer::Stream(stream) = &mut peer else {
        panic!("a stream");
    };
    assert_eq!(stream.read_exactly(5), [0xff, 0xff, 0xff, 0xff, 1]);
}

/// Its kernel takes everything, and would answer keepalive: as with a process that is stopped.
fn a_program_that_stands_still_is_lost(transport: Transport) {
    let pair = Pair::open(transport, &beating(transport, 5 * SHORT, 20));
    until("they have met", || {
        pair.client.statistics().heartbeat_rtt.is_some()
    });
    let gate = hold(&pair.server_io);
    let closed = pair.client_inbox.skip_to_closed();
    expect_lost(&closed.reason);
    drop(gate);
    pair.peer_inbox.skip_to_closed();
}

fn any_byte_is_a_sign_of_life(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let interval = Duration::from_millis(50);
    let options = beating(transport, interval, 20);
    let (link, peer) = reach(&io, transport, options, handler);
    let RawPeer::Stream(mut stream) = peer else {
        panic!("a stream");
    };
    inbox.expect_opened();
    // A large frame, byte by byte: no whole message for long.
    stream.write_all(&100u32.to_be_bytes()).unwrap();
    for _ in 0..30 {
        pass(interval);
        stream.write_all(&[7]).unwrap();
    }
    assert!(link.is_open());
    assert_eq!(link.statistics().receiving.messages, 0);
    expect_lost(&inbox.skip_to_closed().reason);
}

fn an_end_that_does_not_read_is_alive_all_the_same(transport: Transport) {
    let interval = Duration::from_millis(50);
    let pair = Pair::open(transport, &beating(transport, interval, 20));
    pair.peer.pause_reading();
    pair.client.send(b"unread").unwrap();
    pass(30 * interval);
    let_turn(&pair.client_io);
    let_turn(&pair.server_io);
    assert!(
        pair.client.is_open(),
        "the peer's own pings say that it lives"
    );
    assert!(pair.peer.is_open(), "what it does not read is no silence");
    pair.peer.resume_reading();
    assert_eq!(pair.peer_inbox.expect_message(), b"unread");
    until("heartbeats go on", || {
        pair.client.statistics().heartbeat_rtt.is_some()
    });
}

fn an_end_without_heartbeats_takes_them_for_bad_frames(transport: Transport) {
    let (client, peer) = (recorder(), recorder());
    let with = beating(transport, SHORT, PATIENT);
    let pair = Pair::connect(transport, &with, &framed(transport), client, peer);
    let closed = pair.peer_inbox.skip_to_closed();
    assert!(
        matches!(closed.reason, Reason::BadFrame(_)),
        "{}",
        closed.reason
    );
}

fn every_width_of_prefix_carries_them(transport: Transport) {
    let widths = [
        (PrefixWidth::One, 254),
        (PrefixWidth::Two, 65_534),
        (PrefixWidth::Four, 1 << 20),
    ];
    for (width, frame_limit_bytes) in widths {
        for order in [ByteOrder::Big, ByteOrder::Little] {
            let options = LinkOptions {
                framing: Framing::LengthPrefix { width, order },
                frame_limit_bytes,
                queue_limit_bytes: 2 << 20,
                ..beating(transport, SHORT, PATIENT)
            };
            let pair = Pair::open(transport, &options);
            for length in [0, 9, frame_limit_bytes] {
                pair.client.send(&vec![0xff; length]).unwrap();
                assert_eq!(pair.peer_inbox.expect_message(), vec![0xff; length]);
            }
            let too_large = pair.client.send(&vec![0; frame_limit_bytes + 1]);
            assert!(too_large.is_err());
            until("a heartbeat is answered", || {
                pair.client.statistics().heartbeat_rtt.is_some()
            });
        }
    }
}

#[test]
fn a_direct_link_refuses_heartbeats_by_name() {
    let options = beating(tcp(), SHORT, 3);
    let error = DirectLink::connect(&nobody(), options).unwrap_err();
    assert!(error.to_string().starts_with("heartbeat: "), "{error}");
}
