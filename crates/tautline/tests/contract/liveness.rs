//! A connection that is dead is noticed, and one that lives is left alone: idle timeouts, keepalive.

use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tautline::{DirectLink, IdleSide, Keepalive, Link, LinkOptions, Reason, ServerOptions};

use crate::common::*;

over! {
    a_peer_that_says_nothing_is_idle: tcp tls uds udp serial;
    a_peer_that_speaks_is_not_idle_until_it_falls_silent: tcp tls uds udp serial;
    a_link_that_sends_nothing_is_idle_by_send_idle_timeout_alone: tcp tls uds udp serial;
    idle_timeout_needs_silence_both_ways: tcp tls uds udp serial;
    a_peer_that_takes_nothing_is_idle_to_the_sender: tcp tls uds serial;
    in_a_pause_silence_does_not_count: tcp tls uds udp serial;
    a_side_that_has_ended_is_not_waited_for: tcp tls uds;
    the_peers_of_a_server_may_be_idle_each_by_itself: tcp tls uds udp;
    a_long_callback_is_no_silence_of_the_peer: tcp tls uds udp serial;
}

const IDLE: Duration = Duration::from_millis(150);

fn pass(time: Duration) {
    let begun = Instant::now();
    until("time has passed", || begun.elapsed() > time);
}

fn expect_idle(reason: &Reason, expected: IdleSide) {
    assert!(
        matches!(reason, Reason::Idle(side) if *side == expected),
        "{reason}"
    );
}

fn a_peer_that_says_nothing_is_idle(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        receive_idle_timeout: Some(IDLE),
        ..framed(transport)
    };
    let begun = Instant::now();
    let (link, _peer) = reach(&io, transport, options, handler);
    // What we send says nothing of the peer.
    link.send(b"are you there?").unwrap();
    inbox.expect_opened();
    let closed = inbox.expect_end();
    assert!(begun.elapsed() >= IDLE);
    expect_idle(&closed.reason, IdleSide::Receiving);
}

fn a_peer_that_speaks_is_not_idle_until_it_falls_silent(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        receive_idle_timeout: Some(8 * IDLE),
        ..framed(transport)
    };
    let (_link, mut peer) = reach(&io, transport, options, handler);
    inbox.expect_opened();
    for _ in 0..10 {
        pass(IDLE);
        peer.write_message(b"here");
        assert_eq!(inbox.expect_message(), b"here");
    }
    let silent = Instant::now();
    let closed = inbox.expect_end();
    // The last message may have been read a little before it was told.
    assert!(silent.elapsed() >= 7 * IDLE);
    expect_idle(&closed.reason, IdleSide::Receiving);
}

fn a_link_that_sends_nothing_is_idle_by_send_idle_timeout_alone(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        send_idle_timeout: Some(8 * IDLE),
        ..framed(transport)
    };
    let (link, mut peer) = reach(&io, transport, options, handler);
    inbox.expect_opened();
    for _ in 0..10 {
        pass(IDLE);
        link.send(b"here").unwrap();
        assert_eq!(peer.read_message(), b"here");
    }
    let silent = Instant::now();
    let told = loop {
        // What comes is no sign of life on our side.
        if !peer.try_write_message(b"noise") {
            break inbox.skip_to_closed();
        }
        match inbox.next() {
            Told::Message(..) => {}
            Told::Closed(closed) => break closed,
            other => panic!("{other:?}"),
        }
    };
    assert!(silent.elapsed() >= 7 * IDLE);
    expect_idle(&told.reason, IdleSide::Sending);
}

fn idle_timeout_needs_silence_both_ways(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        idle_timeout: Some(8 * IDLE),
        ..framed(transport)
    };
    let (link, mut peer) = reach(&io, transport, options, handler);
    inbox.expect_opened();
    for _ in 0..10 {
        pass(IDLE);
        link.send(b"here").unwrap();
        assert_eq!(peer.read_message(), b"here");
    }
    for _ in 0..10 {
        pass(IDLE);
        peer.write_message(b"and here");
        assert_eq!(inbox.expect_message(), b"and here");
    }
    let closed = inbox.expect_end();
    expect_idle(&closed.reason, IdleSide::Both);
}

fn a_peer_that_takes_nothing_is_idle_to_the_sender(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        send_idle_timeout: Some(IDLE),
        queue_limit_bytes: 10_000,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..framed(transport)
    };
    let (link, _peer) = client_of_raw(&io, &listener, options, handler);
    // Waits for room until the connection ends.
    while link.send(&[0; 996]).is_ok() {}
    let closed = inbox.skip_to_closed();
    expect_idle(&closed.reason, IdleSide::Sending);
    assert!(closed.unsent.queued.messages > 0);
}

fn in_a_pause_silence_does_not_count(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Opened(_)) {
            link.pause_reading();
        }
    });
    let options = LinkOptions {
        receive_idle_timeout: Some(IDLE),
        ..framed(transport)
    };
    let (link, mut peer) = reach(&io, transport, options, handler);
    peer.write_message(b"unread");
    pass(4 * IDLE);
    let_turn(&io);
    assert!(link.is_open(), "we ourselves do not read");
    inbox.expect_opened();
    let resumed = Instant::now();
    link.resume_reading();
    assert_eq!(inbox.expect_message(), b"unread");
    let closed = inbox.expect_end();
    assert!(resumed.elapsed() >= IDLE);
    expect_idle(&closed.reason, IdleSide::Receiving);
}

fn a_side_that_has_ended_is_not_waited_for(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        receive_idle_timeout: Some(IDLE),
        half_open: true,
        ..framed(transport)
    };
    let (link, peer) = reach(&io, transport, options, handler);
    let RawPeer::Stream(mut stream) = peer else {
        panic!("a stream");
    };
    stream.end();
    inbox.expect_opened();
    assert_eq!(inbox.expect_event(), Happened::PeerFinished);
    pass(3 * IDLE);
    let_turn(&io);
    link.send(b"still open").unwrap();
    assert_eq!(stream.read_frame(), b"still open");
}

fn the_peers_of_a_server_may_be_idle_each_by_itself(transport: Transport) {
    let (io, server_io) = (start(), start());
    let (busy_handler, busy_inbox) = recorder();
    let (idle_handler, idle_inbox) = recorder();
    let options = ServerOptions {
        link: LinkOptions {
            idle_timeout: Some(8 * IDLE),
            ..framed(transport)
        },
        ..ServerOptions::default()
    };
    let handlers = vec![busy_handler, idle_handler];
    let served = Served::listen(&server_io, transport, options, handlers);
    let connect = || {
        let address = served.server.local_address();
        let client = io
            .connect(&address, framed(transport), recorder().0)
            .unwrap();
        client.wait_open(WATCHDOG).unwrap();
        client.send(b"hello").unwrap();
        (client, served.peer())
    };
    let (busy, _) = connect();
    let (_idle, _) = connect();
    let mut ended = None;
    while ended.is_none() {
        busy.send(b"tick").unwrap();
        pass(IDLE / 4);
        ended = idle_inbox.so_far().into_iter().find_map(|told| match told {
            Told::Closed(closed) => Some(closed),
            _ => None,
        });
    }
    expect_idle(&ended.unwrap().reason, IdleSide::Both);
    assert_eq!(served.server.statistics().connected, 1);
    let closed = busy_inbox.skip_to_closed();
    expect_idle(&closed.reason, IdleSide::Both);
}

/// The thread is busy for longer than the timeout, and the peer spoke meanwhile.
fn a_long_callback_is_no_silence_of_the_peer(transport: Transport) {
    let io = start();
    let (release, held) = mpsc::channel::<()>();
    let mut holds = true;
    let (handler, inbox) = recorder_that(move |_, told| {
        if matches!(told, Told::Message(..)) && std::mem::take(&mut holds) {
            // Ends when the sender is dropped.
            let _ = held.recv();
        }
    });
    let options = LinkOptions {
        receive_idle_timeout: Some(IDLE),
        ..framed(transport)
    };
    let (_link, mut peer) = reach(&io, transport, options, handler);
    peer.write_message(b"first");
    pass(2 * IDLE);
    let spoken = Instant::now();
    peer.write_message(b"spoken");
    drop(release);
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"first");
    assert_eq!(inbox.expect_message(), b"spoken");
    let closed = inbox.expect_end();
    assert!(spoken.elapsed() >= IDLE);
    expect_idle(&closed.reason, IdleSide::Receiving);
}

#[test]
fn a_direct_link_refuses_by_name_what_needs_a_thread() {
    let cases: [(&str, fn(&mut LinkOptions)); 3] = [
        ("idle_timeout", |o| o.idle_timeout = Some(IDLE)),
        ("receive_idle_timeout", |o| {
            o.receive_idle_timeout = Some(IDLE)
        }),
        ("send_idle_timeout", |o| o.send_idle_timeout = Some(IDLE)),
    ];
    for (name, set) in cases {
        let mut options = LinkOptions::default();
        set(&mut options);
        let error = DirectLink::connect(&nobody(), options).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("{name}: ")),
            "{error}"
        );
    }
}

/// A network of its own, cut in the middle: nothing comes back, not even a reset.
#[test]
fn a_dead_network_is_noticed_by_keepalive_and_by_the_user_timeout() {
    const NAME: &str = "liveness::a_dead_network_is_noticed_by_keepalive_and_by_the_user_timeout";
    if !in_child(NAME) {
        return child_in_namespaces(NAME, "-n", "ip link set lo up &&");
    }
    let second = Duration::from_secs(1);
    let keepalive = LinkOptions {
        keepalive: Some(Keepalive {
            idle: second,
            interval: second,
            count: 2,
        }),
        ..framed(tcp())
    };
    let user_timeout = LinkOptions {
        tcp_user_timeout: Some(second),
        ..framed(tcp())
    };
    let probed = Pair::open(tcp(), &keepalive);
    let sending = Pair::open(tcp(), &user_timeout);
    let cut = Command::new("ip")
        .args(["link", "set", "lo", "down"])
        .status();
    assert!(cut.unwrap().success());
    sending.client.send(b"into the void").unwrap();
    for inbox in [
        &probed.client_inbox,
        &probed.peer_inbox,
        &sending.client_inbox,
    ] {
        let closed = inbox.skip_to_closed();
        assert!(
            matches!(closed.reason, Reason::Lost(_)),
            "{}",
            closed.reason
        );
        assert!(
            closed.reason.to_string().contains("timed out"),
            "{}",
            closed.reason
        );
    }
    let _: &Link = &sending.peer;
}
