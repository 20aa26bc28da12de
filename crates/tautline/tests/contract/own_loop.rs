//! Promise 15 without a thread: the application's own loop turns the driver, and waits for it as for
//! any other descriptor.

use std::cell::RefCell;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline::{
    Address, ErrorKind, FlushError, IoLoop, IoOptions, Link, LinkOptions, Reason, Received,
    SendError, Server, ServerOptions, Strategy,
};

use crate::common::*;

over! {
    a_loop_serves_both_ends_of_a_link: tcp tls uds udp;
    a_loop_that_spins_serves_as_any_other: tcp tls uds udp;
    it_is_readable_for_what_another_thread_asks: tcp tls uds udp;
    it_is_readable_for_a_timer: udp;
    it_is_readable_while_a_turn_has_left_work: tcp uds;
    it_stands_in_a_poller_that_tells_of_edges_only: tcp uds;
    it_is_not_readable_when_nothing_is_to_be_done: tcp tls uds udp;
    a_turn_waits_no_longer_than_it_may: tcp tls;
    between_turns_nothing_waits_for_the_loop: tcp uds;
    between_turns_nothing_waits_for_the_loops_server: tcp tls uds udp;
    between_turns_links_of_other_threads_wait_as_usual: tcp tls uds udp;
    a_sender_on_another_thread_waits_for_turns: tcp uds;
    dropped_it_ends_its_links_on_this_thread: tcp tls uds udp;
    dropped_it_releases_whoever_waits_for_it: tcp uds;
    dropped_before_its_first_turn_it_ends_what_was_asked_for: tcp tls uds udp;
    two_loops_of_one_thread_are_independent: tcp tls uds udp;
    a_callback_turns_no_loop: tcp tls;
}

fn own_loop() -> IoLoop {
    IoLoop::new(IoOptions::default()).unwrap()
}

/// Turns whenever the descriptor says so, and never else, until something is so.
fn turn_until(io: &mut IoLoop, what: &str, mut so: impl FnMut() -> bool) {
    while !so() {
        assert!(is_readable(io, WATCHDOG), "waited in vain until {what}");
        io.turn(Some(Duration::ZERO)).unwrap();
    }
}

fn is_readable(io: &IoLoop, timeout: Duration) -> bool {
    sys::is_readable(io.as_fd(), timeout)
}

/// Turns until nothing is left to do.
fn come_to_rest(io: &mut IoLoop) {
    while is_readable(io, Duration::from_millis(20)) {
        io.turn(Some(Duration::ZERO)).unwrap();
    }
}

/// An echo, and where it is.
fn echo(io: &IoLoop, transport: Transport) -> (Server, Place) {
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let accept =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    (io.listen(&place.address, options, accept).unwrap(), place)
}

/// A link that is open, to an echo on the same loop.
fn linked(io: &mut IoLoop, transport: Transport) -> (Link, Inbox, Server, Place) {
    let (server, place) = echo(io, transport);
    let (handler, inbox) = recorder();
    let address = server.local_address();
    let link = io.connect(&address, framed(transport), handler).unwrap();
    turn_until(io, "it is open", || link.is_open());
    inbox.expect_opened();
    (link, inbox, server, place)
}

/// Asks the echo and waits for its answer.
fn ask(io: &mut IoLoop, link: &Link, inbox: &Inbox, message: &[u8]) {
    link.send(message).unwrap();
    let mut answers = Vec::new();
    turn_until(io, "the answer is there", || {
        answers.extend(inbox.so_far());
        !answers.is_empty()
    });
    let [Told::Message(answer, _)] = &answers[..] else {
        panic!("expected an answer, was told {answers:?}");
    };
    assert_eq!(answer, message);
}

fn a_loop_serves_both_ends_of_a_link(transport: Transport) {
    let mut io = own_loop();
    let (link, inbox, server, _place) = linked(&mut io, transport);
    for message in numbered(100, 100) {
        ask(&mut io, &link, &inbox, &message);
    }
    assert_eq!(server.statistics().peers.receiving.messages, 100);
    link.close(WATCHDOG);
    turn_until(&mut io, "it has ended", || link.is_ended());
    assert!(matches!(inbox.expect_end().reason, Reason::Closed));
}

fn a_loop_that_spins_serves_as_any_other(transport: Transport) {
    let mut io = IoLoop::new(IoOptions {
        spin: Duration::from_micros(50),
        ..IoOptions::default()
    })
    .unwrap();
    let (link, inbox, _server, _place) = linked(&mut io, transport);
    for message in numbered(100, 100) {
        link.send(&message).unwrap();
        let answer = loop {
            io.turn(Some(WATCHDOG)).unwrap();
            if let Some(Told::Message(answer, _)) = inbox.so_far().pop() {
                break answer;
            }
        };
        assert_eq!(answer, message);
    }
}

fn it_is_readable_for_what_another_thread_asks(transport: Transport) {
    let mut io = own_loop();
    let (link, inbox, _server, _place) = linked(&mut io, transport);
    ask(&mut io, &link, &inbox, b"hello");
    come_to_rest(&mut io);
    thread::scope(|scope| {
        // It waits there until we have turned.
        let closing = scope.spawn(|| link.close(WATCHDOG));
        turn_until(&mut io, "it has ended", || link.is_ended());
        closing.join().unwrap();
    });
    inbox.expect_end();
}

fn it_is_readable_for_a_timer(transport: Transport) {
    let mut io = own_loop();
    let place = fresh(transport);
    let (handler, peer_inbox) = recorder();
    let options = ServerOptions {
        peer_expiry: Duration::from_millis(50),
        ..ServerOptions::default()
    };
    let mut handler = Some(handler);
    let server = io
        .listen(&place.address, options, move |_: &Link| {
            handler.take().ok_or_else(|| "one is enough".into())
        })
        .unwrap();
    let link = io
        .connect(&server.local_address(), framed(transport), recorder().0)
        .unwrap();
    turn_until(&mut io, "it is open", || link.is_open());
    link.send(b"hello").unwrap();
    // Nothing comes after that but the time.
    let mut told = Vec::new();
    turn_until(&mut io, "the peer has expired", || {
        told.extend(peer_inbox.so_far());
        told.iter().any(|told| matches!(told, Told::Ended(_)))
    });
    let Some(Told::Closed(closed)) = told.iter().find(|told| told.kind() == "closed") else {
        panic!("{told:?}");
    };
    assert!(matches!(closed.reason, Reason::Expired));
}

fn it_is_readable_while_a_turn_has_left_work(transport: Transport) {
    // A link reads at most 16 times before others have their turn.
    let mut io = IoLoop::new(IoOptions {
        read_buffer_bytes: 10,
        ..IoOptions::default()
    })
    .unwrap();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let link = io
        .connect(&listener.address(), LinkOptions::default(), handler)
        .unwrap();
    turn_until(&mut io, "it is open", || link.is_open());
    inbox.expect_opened();
    let mut peer = listener.accept();
    come_to_rest(&mut io);
    peer.write_all(&[7; 1600]).unwrap();
    let read = |link: &Link| link.statistics().receiving.wire_bytes;
    // One edge tells of it all.
    assert!(is_readable(&io, WATCHDOG));
    let mut turns = 0;
    while read(&link) < 1600 {
        assert!(is_readable(&io, Duration::ZERO), "after {turns} turns");
        let before = read(&link);
        let turned = io.turn(Some(Duration::ZERO)).unwrap();
        assert!(read(&link) > before);
        assert!(turned.more || read(&link) == 1600);
        turns += 1;
    }
    // When the news come, and again as what was left.
    assert!(turns >= 5, "{turns} turns of at most 2 * 160 bytes");
}

/// Each news is told once: what a turn leaves has to be news again.
fn it_stands_in_a_poller_that_tells_of_edges_only(transport: Transport) {
    let mut poll = mio::Poll::new().unwrap();
    let mut events = mio::Events::with_capacity(4);
    let mut io = IoLoop::new(IoOptions {
        read_buffer_bytes: 10,
        ..IoOptions::default()
    })
    .unwrap();
    let fd = io.as_raw_fd();
    let (token, readable) = (mio::Token(0), mio::Interest::READABLE);
    let mut source = mio::unix::SourceFd(&fd);
    poll.registry()
        .register(&mut source, token, readable)
        .unwrap();

    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let link = io
        .connect(&listener.address(), LinkOptions::default(), handler)
        .unwrap();
    let mut edges_until = |what: &str, so: &dyn Fn() -> bool| {
        while !so() {
            poll.poll(&mut events, Some(WATCHDOG)).unwrap();
            assert!(!events.is_empty(), "waited in vain until {what}");
            io.turn(Some(Duration::ZERO)).unwrap();
        }
    };
    edges_until("it is open", &|| link.is_open());
    let mut peer = listener.accept();
    peer.write_all(&[7; 4000]).unwrap();
    let read = || link.statistics().receiving.wire_bytes;
    edges_until("all is read", &|| read() == 4000);
    peer.end();
    edges_until("it has ended", &|| link.is_ended());
    assert!(matches!(inbox.skip_to_closed().reason, Reason::PeerEnded));
}

fn it_is_not_readable_when_nothing_is_to_be_done(transport: Transport) {
    let mut io = own_loop();
    assert!(!is_readable(&io, Duration::ZERO));
    let (link, inbox, server, _place) = linked(&mut io, transport);
    ask(&mut io, &link, &inbox, b"hello");
    let peers = server.peers();
    // A pause is noted, and asks for nothing.
    link.pause_reading();
    come_to_rest(&mut io);
    assert!(!io.turn(Some(Duration::ZERO)).unwrap().more);
    assert!(!is_readable(&io, Duration::from_millis(100)));
    drop((server, peers));
}

fn a_turn_waits_no_longer_than_it_may(_: Transport) {
    let mut io = own_loop();
    for timeout in [Duration::ZERO, Duration::from_millis(5)] {
        let turned = io.turn(Some(timeout)).unwrap();
        assert!(!turned.more);
    }
}

fn between_turns_nothing_waits_for_the_loop(transport: Transport) {
    let mut io = own_loop();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: Some(16 * 1024),
        strategy: Strategy::Reliable,
        ..framed(transport)
    };
    let (handler, inbox) = recorder();
    let link = io.connect(&listener.address(), options, handler).unwrap();
    // Nobody turns it: it cannot open.
    let error = link.wait_open(WATCHDOG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    turn_until(&mut io, "it is open", || link.is_open());
    let peer = listener.accept();
    link.wait_open(WATCHDOG).unwrap();

    let full = (0..100_000).find_map(|_| link.send(&[0; 996]).err());
    assert_eq!(full, Some(SendError::WouldDeadlock));
    assert_eq!(link.try_send(&[0; 996]), Err(SendError::Full));
    assert_eq!(link.flush(WATCHDOG), Err(FlushError::WouldDeadlock));
    assert!(link.close(WATCHDOG).queued.is_zero());
    assert!(!link.is_ended());
    link.abort();
    assert!(!link.is_ended(), "it only starts");
    turn_until(&mut io, "it has ended", || link.is_ended());
    let closed = inbox.skip_to_closed();
    assert!(!closed.unsent.queued.is_zero());
    drop(peer);
}

fn between_turns_nothing_waits_for_the_loops_server(transport: Transport) {
    for drops in [false, true] {
        let mut io = own_loop();
        let (link, inbox, server, _place) = linked(&mut io, transport);
        ask(&mut io, &link, &inbox, b"hello");
        let peers = server.peers();
        if drops {
            drop(server);
        } else {
            server.close(WATCHDOG);
            server.abort();
        }
        assert!(!peers[0].is_ended(), "it only starts");
        turn_until(&mut io, "it has ended", || peers[0].is_ended());
    }
}

fn between_turns_links_of_other_threads_wait_as_usual(transport: Transport) {
    let _io = own_loop();
    let pair = Pair::open(transport, &framed(transport));
    pair.client.send(b"hello").unwrap();
    pair.client.flush(WATCHDOG).unwrap();
    pair.client.close(WATCHDOG);
    assert!(pair.client.is_ended());
    pair.client_inbox.expect_end();
    pair.served.unwrap().server.close(WATCHDOG);
    assert!(pair.peer.is_ended());
}

fn a_sender_on_another_thread_waits_for_turns(transport: Transport) {
    let mut io = own_loop();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: Some(16 * 1024),
        ..framed(transport)
    };
    let link = io
        .connect(&listener.address(), options, recorder().0)
        .unwrap();
    turn_until(&mut io, "it is open", || link.is_open());
    let mut peer = listener.accept();
    thread::scope(|scope| {
        let sender = link.clone();
        let sending = scope.spawn(move || {
            for message in numbered(500, 996) {
                sender.send(&message).unwrap();
            }
            sender.flush(WATCHDOG).unwrap();
        });
        scope.spawn(move || {
            for message in numbered(500, 996) {
                assert_eq!(peer.read_frame(), message);
            }
        });
        turn_until(&mut io, "all is sent", || sending.is_finished());
        sending.join().unwrap();
    });
    assert!(link.statistics().sending.waits > 0);
}

fn dropped_it_ends_its_links_on_this_thread(transport: Transport) {
    let mut io = own_loop();
    let (link, inbox, server, _place) = linked(&mut io, transport);
    let on = thread::current().id();
    let (handler, elsewhere) = recorder_that(move |_, _| assert_eq!(thread::current().id(), on));
    let second = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    turn_until(&mut io, "it is open", || second.is_open());
    elsewhere.expect_opened();
    ask(&mut io, &link, &inbox, b"hello");
    let address = server.local_address();
    drop(io);
    for inbox in [inbox, elsewhere] {
        assert!(matches!(inbox.expect_end().reason, Reason::Aborted));
    }
    assert!(link.is_ended() && second.is_ended());
    assert_eq!(server.statistics().connected, 0);
    assert_eq!(link.send(b"too late"), Err(SendError::Closed));
    // Nothing is waited for that has ended.
    link.close(WATCHDOG);
    server.close(WATCHDOG);
    if let Address::Tcp { host, port } = address {
        TcpListener::bind((host.as_str(), port)).unwrap();
    }
}

fn dropped_it_releases_whoever_waits_for_it(transport: Transport) {
    let mut io = own_loop();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: Some(16 * 1024),
        ..framed(transport)
    };
    let link = io
        .connect(&listener.address(), options, recorder().0)
        .unwrap();
    turn_until(&mut io, "it is open", || link.is_open());
    let _peer = listener.accept();
    thread::scope(|scope| {
        let sender = link.clone();
        let (closer, (closes, closing)) = (link.clone(), mpsc::channel());
        let sending = scope.spawn(move || while sender.send(&[0; 996]).is_ok() {});
        until("it waits for room", || link.statistics().sending.waits > 0);
        scope.spawn(move || {
            closes.send(()).unwrap();
            closer.close(10 * WATCHDOG);
        });
        closing.recv().unwrap();
        drop(io);
        sending.join().unwrap();
    });
    assert!(link.is_ended());
    assert!(link.statistics().sending.closes());
}

fn dropped_before_its_first_turn_it_ends_what_was_asked_for(transport: Transport) {
    let io = own_loop();
    let (server, _place) = echo(&io, transport);
    let (handler, inbox) = recorder();
    let link = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    drop(io);
    let told = inbox.all_to_the_end();
    let last = told.last().map(Told::kind);
    assert_eq!(last, Some("ended"), "{told:?}");
    assert!(link.is_ended());
    server.close(WATCHDOG);
}

fn two_loops_of_one_thread_are_independent(transport: Transport) {
    let (mut one, mut two) = (own_loop(), own_loop());
    let (server, _place) = echo(&one, transport);
    let (handler, inbox) = recorder();
    let address = server.local_address();
    let link = two.connect(&address, framed(transport), handler).unwrap();
    let mut both_until = |what: &str, so: &mut dyn FnMut() -> bool| {
        until(what, || {
            one.turn(Some(Duration::ZERO)).unwrap();
            two.turn(Some(Duration::ZERO)).unwrap();
            so()
        });
    };
    both_until("it is open", &mut || link.is_open());
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    both_until("the answer is there", &mut || !inbox.so_far().is_empty());
    let peers = server.peers();
    drop(one);
    assert!(peers[0].is_ended());
    assert!(!link.is_ended());
    link.abort();
    two.turn(Some(WATCHDOG)).unwrap();
    assert!(link.is_ended());
}

thread_local! {
    /// A handler cannot hold a loop, which is not `Send`; but it can find one.
    static OTHER: RefCell<Option<IoLoop>> = const { RefCell::new(None) };
}

fn a_callback_turns_no_loop(_: Transport) {
    let mut io = own_loop();
    OTHER.set(Some(own_loop()));
    let (handler, inbox) = recorder_that(|_, _| {
        let other = OTHER.take();
        let refused = other.map(|mut other| other.turn(None).unwrap_err().kind());
        // The other is dropped in here, too.
        assert_eq!(refused, Some(std::io::ErrorKind::Deadlock));
    });
    let link = io
        .connect(&nobody(), LinkOptions::default(), handler)
        .unwrap();
    turn_until(&mut io, "it has ended", || link.is_ended());
    inbox.expect_ended();
    assert!(OTHER.take().is_none(), "the callback took it");
    let in_thread = inside_callback(&start(), || own_loop().turn(None).unwrap_err().kind());
    assert_eq!(in_thread, std::io::ErrorKind::Deadlock);
}
