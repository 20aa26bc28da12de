//! Promise 5 at the beginning: what is said first, on either side, is not lost and comes first.

use std::io::Write;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Type};
use tautline::{
    Address, DirectLink, ErrorKind, IoThread, Link, LinkOptions, Reason, Received, SendError,
    ServerOptions,
};

use crate::common::*;

over! {
    what_came_before_it_was_accepted_is_delivered: tcp uds;
    sent_in_opened_it_comes_first: tcp tls uds udp;
    sent_right_after_connect_it_is_refused_or_arrives: tcp tls uds udp;
    a_link_made_in_a_message_opens_and_speaks: tcp tls uds udp;
    a_direct_link_waits_for_a_full_backlog_until_its_time_is_up: uds;
    peers_of_both_families_are_told_by_their_own_address: tcp tls;
}

/// A peer connects, says all it has to say and is gone before anybody looks.
fn what_came_before_it_was_accepted_is_delivered(transport: Transport) {
    let io = start();
    let (handlers, inboxes): (Vec<_>, Vec<_>) = (0..50).map(|_| recorder()).unzip();
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let served = Served::listen(&io, transport, options, handlers);
    let gate = hold(&io);
    for _ in 0..50 {
        let mut raw = RawStream::connect(&served.server.local_address());
        let all: Vec<u8> = numbered(10, 100).iter().flat_map(|it| frame(it)).collect();
        raw.write_all(&all).unwrap();
    }
    drop(gate);
    for inbox in inboxes {
        inbox.expect_opened();
        for message in numbered(10, 100) {
            assert_eq!(inbox.expect_message(), message);
        }
        assert!(matches!(inbox.expect_end().reason, Reason::PeerEnded));
    }
}

fn sent_in_opened_it_comes_first(transport: Transport) {
    for _ in 0..50 {
        let speaking = || {
            recorder_that(|link, told| {
                if matches!(told, Told::Opened(_)) {
                    for message in numbered(3, 100) {
                        link.send(&message).unwrap();
                    }
                }
            })
        };
        let options = framed(transport);
        let pair = Pair::connect(transport, &options, &options, speaking(), speaking());
        for inbox in [&pair.client_inbox, &pair.peer_inbox] {
            inbox.expect_opened();
            for message in numbered(3, 100) {
                // Over UDP the pair itself has said hello from another thread, at about this time.
                let next = || inbox.expect_message();
                let received = Some(next())
                    .filter(|it| it != GREETING)
                    .unwrap_or_else(next);
                assert_eq!(received, message);
            }
        }
    }
}

/// Nobody waits for it to open: what is said then is refused, or it arrives.
fn sent_right_after_connect_it_is_refused_or_arrives(transport: Transport) {
    let (io, server_io) = (start(), start());
    let (handlers, inboxes): (Vec<_>, Vec<_>) = (0..100).map(|_| recorder()).unzip();
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let served = Served::listen(&server_io, transport, options, handlers);
    let address = served.server.local_address();
    // Kept: the port of one that has ended may be the next one's, which a UDP server takes for the same.
    let mut links = Vec::new();
    for inbox in inboxes {
        let link = io
            .connect(&address, framed(transport), recorder().0)
            .unwrap();
        links.push(link.clone());
        let mut accepted = Vec::new();
        let mut numbers = 0_u32..;
        while accepted.len() < 10 {
            let message = numbers.next().unwrap().to_be_bytes();
            match link.send(&message) {
                Ok(()) => accepted.push(message),
                Err(refusal) => assert_eq!(refusal, SendError::NotConnected),
            }
        }
        inbox.expect_opened();
        for message in accepted {
            assert_eq!(inbox.expect_message(), message);
        }
    }
}

/// The thread that would complete the connection is the one that asks for it.
fn a_link_made_in_a_message_opens_and_speaks(transport: Transport) {
    let io = Arc::new(start());
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let (handler, second_inbox) = recorder();
    let second = Served::listen(&io, transport, options, vec![handler]);
    let (give, given) = mpsc::channel();
    let (inside, address) = (Arc::clone(&io), second.server.local_address());
    let (handler, inbox) = recorder_that(move |_, told| {
        if matches!(told, Told::Message(..)) {
            let link = speak_when_open(&inside, &address, framed(transport));
            give.send(link).unwrap();
        }
    });
    let (first, mut peer) = reach(&io, transport, framed(transport), handler);
    inbox.expect_opened();
    peer.write_message(b"now");
    let link = given.recv_timeout(WATCHDOG).unwrap();
    second_inbox.expect_opened();
    assert_eq!(second_inbox.expect_message(), b"from inside");
    assert!(link.is_open() && first.is_open());
}

fn speak_when_open(io: &IoThread, address: &Address, options: LinkOptions) -> Link {
    let (handler, _) = recorder_that(|link, told| {
        if matches!(told, Told::Opened(_)) {
            link.send(b"from inside").unwrap();
        }
    });
    io.connect(address, options, handler).unwrap()
}

/// A Unix listener with a full backlog is alive: that is no refusal, and no reason to wait for ever.
fn a_direct_link_waits_for_a_full_backlog_until_its_time_is_up(transport: Transport) {
    let place = fresh(transport);
    let listener = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    listener
        .bind(&SockAddr::unix(place.path()).unwrap())
        .unwrap();
    listener.listen(0).unwrap();
    let _first = RawStream::connect(&place.address);
    let connect = |timeout| {
        let options = LinkOptions {
            connect_timeout: timeout,
            ..framed(transport)
        };
        DirectLink::connect(&place.address, options)
    };
    let begun = Instant::now();
    let error = connect(Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(50));
    thread::scope(|scope| {
        let connecting = scope.spawn(|| connect(WATCHDOG));
        listener.accept().unwrap();
        connecting.join().unwrap().unwrap();
    });
}

/// On a socket for both families the kernel writes an IPv4 address as one of IPv6. The application is
/// told what the peer itself would say.
fn peers_of_both_families_are_told_by_their_own_address(_: Transport) {
    let io = start();
    let (tell, told) = mpsc::channel();
    let accept = move |peer: &Link| {
        tell.send(peer.peer_address()).unwrap();
        Ok(|_: &Link, _: &[u8], _: Received| {})
    };
    let everywhere = "tcp://[::]:0".parse().unwrap();
    let server = io
        .listen(&everywhere, ServerOptions::default(), accept)
        .unwrap();
    let Address::Tcp { port, .. } = server.local_address() else {
        panic!("it is a TCP server");
    };
    for host in ["127.0.0.1", "[::1]"] {
        let address = format!("tcp://{host}:{port}").parse().unwrap();
        let link = io
            .connect(&address, LinkOptions::default(), recorder().0)
            .unwrap();
        link.wait_open(WATCHDOG).unwrap();
        let peer = told.recv_timeout(WATCHDOG).unwrap();
        assert_eq!(peer, link.local_address());
        let shown = peer.unwrap().to_string();
        assert!(shown.starts_with(&format!("tcp://{host}:")), "{shown}");
    }
}
