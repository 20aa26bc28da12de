//! Promise 7: callbacks come one at a time, and a panic in one harms its link alone.

use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use tautline::{Handler, IoThread, Link, LinkOptions, Reason, Received, ServerOptions};

use crate::common::*;

over! {
    a_panic_in_any_callback_ends_that_link_alone: tcp uds;
    a_panic_in_any_callback_of_a_servers_peer_ends_that_peer_alone: tcp tls uds udp;
    a_handler_that_panics_when_dropped_harms_nobody: tcp tls uds udp;
    what_was_panicked_with_may_panic_too: tcp tls uds udp;
    a_panic_in_the_accept_callback_turns_that_peer_away: tcp tls uds udp;
    an_accept_callback_that_panics_when_dropped_harms_nobody: tcp tls uds udp;
    a_peer_that_is_refused_is_told_why_on_its_link: tcp tls uds udp;
    calls_of_one_link_never_overlap_and_keep_their_order: tcp tls uds udp;
    the_time_of_arrival_is_attached: tcp tls uds udp serial;
    a_closure_is_a_handler: tcp tls uds udp;
    a_callback_may_connect_and_listen: tcp tls uds udp;
    replies_from_callbacks_go_out_once_a_batch: tcp tls uds serial;
}

/// An echo on the same thread, to see that it lives and serves.
struct Neighbour {
    link: Link,
    inbox: Inbox,
    _server: tautline::Server,
    _place: Place,
}

impl Neighbour {
    fn new(io: &IoThread, transport: Transport) -> Self {
        let place = fresh(transport);
        let options = ServerOptions {
            link: framed(transport),
            ..ServerOptions::default()
        };
        let echo =
            |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
        let server = io.listen(&place.address, options, echo).unwrap();
        let (handler, inbox) = recorder();
        let link = io
            .connect(&server.local_address(), framed(transport), handler)
            .unwrap();
        link.wait_open(WATCHDOG).unwrap();
        inbox.expect_opened();
        Self {
            link,
            inbox,
            _server: server,
            _place: place,
        }
    }

    fn answers(&self) {
        for message in numbered(3, 100) {
            self.link.send(&message).unwrap();
            assert_eq!(self.inbox.expect_message(), message);
        }
    }
}

fn a_panic_in_any_callback_ends_that_link_alone(transport: Transport) {
    let io = start();
    let neighbour = Neighbour::new(&io, transport);
    for wanted in CALLBACKS {
        let told = live_through_all(&io, transport, move |_, told| {
            assert!(told.kind() != wanted, "as the test wants it");
        });
        expect_order(&told, wanted);
        let reason = told.iter().find_map(|told| match told {
            Told::Closed(closed) => Some(closed.reason.clone()),
            _ => None,
        });
        // What panics at the end itself changes nothing about why it ended.
        if !["closed", "ended"].contains(&wanted) {
            assert!(
                matches!(reason, Some(Reason::Panicked)),
                "{wanted}: {told:?}"
            );
        }
        neighbour.answers();
    }
}

fn a_panic_in_any_callback_of_a_servers_peer_ends_that_peer_alone(transport: Transport) {
    for wanted in ["opened", "message", "closed", "ended"] {
        let io = start();
        let (bad, bad_inbox) = recorder_that(move |_, told| {
            assert!(told.kind() != wanted, "as the test wants it");
        });
        let (good, good_inbox) = recorder();
        let options = ServerOptions {
            link: framed(transport),
            ..ServerOptions::default()
        };
        let served = Served::listen(&io, transport, options, vec![bad, good]);
        let connect = |message: &[u8]| {
            let link = io
                .connect(
                    &served.server.local_address(),
                    framed(transport),
                    recorder().0,
                )
                .unwrap();
            // The other end may have panicked already.
            let _ = link.wait_open(WATCHDOG);
            let _ = link.send(message);
            link
        };
        let first = connect(b"one");
        let bad_peer = served.peer();
        if ["closed", "ended"].contains(&wanted) {
            bad_inbox.all_up_to(|told| matches!(told, Told::Message(..)));
            bad_peer.abort();
        }
        let told = bad_inbox.all_to_the_end();
        assert!(matches!(told.last(), Some(Told::Ended(_))), "{told:?}");
        let second = connect(b"two");
        let good_peer = served.peer();
        good_inbox.expect_opened();
        assert_eq!(good_inbox.expect_message(), b"two");
        good_peer.send(b"three").unwrap();
        second.flush(WATCHDOG).unwrap();
        served.expect_connected(1);
        assert_eq!(served.server.statistics().accepted, 2);
        drop(first);
    }
}

fn a_handler_that_panics_when_dropped_harms_nobody(transport: Transport) {
    let io = start();
    let neighbour = Neighbour::new(&io, transport);
    let (handler, inbox) = recorder();
    let (link, _peer) = reach(
        &io,
        transport,
        framed(transport),
        handler.panicking_when_dropped(),
    );
    link.abort();
    assert!(link.is_ended());
    inbox.expect_opened();
    assert!(matches!(inbox.expect_end().reason, Reason::Aborted));
    neighbour.answers();
    // One that never opened.
    let (handler, inbox) = recorder();
    let options = LinkOptions::default();
    let link = io.connect(&nobody(), options, handler.panicking_when_dropped());
    inbox.expect_ended();
    inbox.expect_gone();
    drop(link);
    neighbour.answers();
}

/// Panics when it is dropped; and what it panics with does so too.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Self(self.0 - 1));
        }
    }
}

fn what_was_panicked_with_may_panic_too(transport: Transport) {
    let io = start();
    let neighbour = Neighbour::new(&io, transport);
    let (handler, inbox) = recorder_that(|_, told| {
        if matches!(told, Told::Message(..)) {
            panic_any(Bomb(2));
        }
    });
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    peer.write_message(b"now");
    inbox.expect_opened();
    inbox.expect_message();
    assert!(matches!(inbox.expect_end().reason, Reason::Panicked));
    link.abort();
    neighbour.answers();
}

/// Connects and says hello, which over UDP is what makes a peer.
fn knock(io: &IoThread, transport: Transport, server: &tautline::Server) -> (Link, Inbox) {
    let (handler, inbox) = recorder();
    let link = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    inbox.expect_opened();
    // It may have been turned away already.
    let _ = link.send(b"hello");
    (link, inbox)
}

fn a_panic_in_the_accept_callback_turns_that_peer_away(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let (give, given) = mpsc::channel();
    let mut times = 0;
    let accept = move |peer: &Link| {
        give.send(peer.clone()).unwrap();
        times += 1;
        assert!(times != 1, "as the test wants it");
        Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap())
    };
    let server = io.listen(&place.address, options, accept).unwrap();
    let (link, inbox) = knock(&io, transport, &server);
    let peer = given.recv_timeout(WATCHDOG).unwrap();
    peer.wait_open(WATCHDOG).unwrap_err();
    peer.abort();
    if transport.is_stream() {
        inbox.expect_end();
    } else {
        // Nothing says so to a datagram's sender; what it sends next makes a new peer of it.
        link.send(b"again").unwrap();
        assert_eq!(inbox.expect_message(), b"again");
    }
    let (_link, inbox) = knock(&io, transport, &server);
    assert_eq!(inbox.expect_message(), b"hello");
    assert_eq!(server.statistics().turned_away, 1);
}

fn an_accept_callback_that_panics_when_dropped_harms_nobody(transport: Transport) {
    let io = start();
    let neighbour = Neighbour::new(&io, transport);
    let place = fresh(transport);
    let bomb = Bomb(2);
    let accept = move |_: &Link| {
        // All of it, and not its number alone.
        let _held = &bomb;
        Ok(recorder().0)
    };
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let server = io.listen(&place.address, options, accept).unwrap();
    let (_link, _inbox) = knock(&io, transport, &server);
    server.close(WATCHDOG);
    drop(server);
    let_turn(&io);
    neighbour.answers();
}

fn a_peer_that_is_refused_is_told_why_on_its_link(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let (give, given) = mpsc::channel();
    let accept = move |peer: &Link| {
        give.send(peer.clone()).unwrap();
        Err::<Recorder, _>("not today".into())
    };
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let server = io.listen(&place.address, options, accept).unwrap();
    let (link, inbox) = knock(&io, transport, &server);
    let peer = given.recv_timeout(WATCHDOG).unwrap();
    let error = peer.wait_open(WATCHDOG).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("open {}: refused: not today", peer_name(&peer))
    );
    assert!(peer.is_ended());
    peer.send(b"a").unwrap_err();
    if transport.is_stream() {
        inbox.expect_end();
    }
    until("it is counted and over", || {
        let statistics = server.statistics();
        (statistics.turned_away, statistics.connected) == (1, 0)
    });
    assert_eq!(server.statistics().accepted, 0);
    drop(link);
}

fn peer_name(peer: &Link) -> String {
    let name = peer.peer_address().or_else(|| peer.local_address());
    name.unwrap().to_string()
}

/// Checks that no two calls overlap, and that messages are counted up.
struct Strict {
    busy: Arc<AtomicBool>,
    next: u32,
    received: Arc<AtomicU64>,
}

impl Strict {
    fn enter(&self) {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two at once");
    }

    fn leave(&self) {
        self.busy.store(false, Ordering::SeqCst);
    }
}

impl Handler for Strict {
    fn message(&mut self, _: &Link, message: &[u8], _: Received) {
        self.enter();
        let number = u32::from_be_bytes(message[..4].try_into().unwrap());
        // Datagrams may be lost.
        assert!(number >= self.next);
        assert!(message[4..].iter().all(|byte| *byte == number as u8));
        self.next = number + 1;
        self.received.fetch_add(1, Ordering::SeqCst);
        self.leave();
    }

    fn pressure(&mut self, _: &Link, _: tautline::Pressure) {
        self.enter();
        self.leave();
    }
}

fn calls_of_one_link_never_overlap_and_keep_their_order(transport: Transport) {
    let (io, server_io) = (start(), start());
    let place = fresh(transport);
    let received = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&received);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let accept = move |_: &Link| {
        Ok(Strict {
            busy: Arc::default(),
            next: 0,
            received: Arc::clone(&counter),
        })
    };
    let server = server_io.listen(&place.address, options, accept).unwrap();
    let link = io
        .connect(&server.local_address(), framed(transport), recorder().0)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    for message in numbered(3000, 500) {
        link.send(&message).unwrap();
    }
    link.flush(WATCHDOG).unwrap();
    until("all have come", || {
        let received = received.load(Ordering::SeqCst);
        received == 3000 || (!transport.is_stream() && received > 0)
    });
}

fn the_time_of_arrival_is_attached(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (_link, mut peer) = reach(&io, transport, framed(transport), handler);
    inbox.expect_opened();
    for _ in 0..3 {
        let before = Instant::now();
        // It comes while the thread is busy, and is read when that is over.
        let gate = hold(&io);
        peer.write_message(b"tick");
        let during = Instant::now();
        drop(gate);
        let Told::Message(_, received) = inbox.next() else {
            panic!("a message was sent");
        };
        assert!(received.at >= during && during >= before);
        assert!(received.at <= Instant::now());
        assert!(!received.truncated);
    }
}

fn a_closure_is_a_handler(transport: Transport) {
    let (tell, told) = mpsc::channel();
    let io = start();
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let echo =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let server = io.listen(&place.address, options, echo).unwrap();
    let handler = move |_: &Link, message: &[u8], _: Received| tell.send(message.to_vec()).unwrap();
    let link = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    link.send(b"hello").unwrap();
    assert_eq!(told.recv_timeout(WATCHDOG).unwrap(), b"hello");
}

fn a_callback_may_connect_and_listen(transport: Transport) {
    let io = Arc::new(start());
    let inside = Arc::clone(&io);
    let (served, link, inbox) = inside_callback(&io, move || {
        let options = ServerOptions {
            link: framed(transport),
            ..ServerOptions::default()
        };
        let served = Served::listen(&inside, transport, options, vec![recorder().0]);
        let (handler, inbox) = recorder();
        let address = served.server.local_address();
        let link = inside
            .connect(&address, framed(transport), handler)
            .unwrap();
        // It cannot open while this callback runs, and nobody waits for that here.
        link.wait_open(WATCHDOG).unwrap_err();
        (served, link, inbox)
    });
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    let peer = served.peer();
    peer.send(b"hello yourself").unwrap();
    assert_eq!(inbox.expect_message(), b"hello yourself");
}

/// A hundred requests in one read are answered by one write, not by a hundred.
fn replies_from_callbacks_go_out_once_a_batch(transport: Transport) {
    let io = start();
    let (handler, _inbox) = recorder_that(|link, told| {
        if let Told::Message(message, _) = told {
            link.send(message).unwrap();
        }
    });
    let listener = RawListener::bind(transport);
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    let gate = hold(&io);
    for message in numbered(100, 16) {
        peer.write_frame(&message);
    }
    drop(gate);
    for message in numbered(100, 16) {
        assert_eq!(peer.read_frame(), message);
    }
    until("it is settled", || {
        link.statistics().sending.written.messages == 100
    });
    let calls = link.statistics().sending.write_calls;
    assert!(calls <= 3, "{calls} writes");
}
