//! Promise 5: the life of a connection is strictly ordered.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Type};
use tautline::{
    Address, Error, ErrorKind, FlushError, IoThread, Link, LinkOptions, Opened, Reason, SendError,
    ServerOptions, UdsName,
};

use crate::common::*;

over! {
    opened_then_messages_then_closed_then_ended_once_each: tcp tls uds udp;
    it_ends_in_the_same_order_whoever_ends_it: tcp uds;
    what_was_sent_before_the_end_is_delivered_before_closed: tcp tls uds;
    opened_tells_both_addresses: tcp tls uds udp;
    a_name_is_looked_up: tcp udp;
    ipv6_literals_are_addresses_too: tcp tls udp;
    where_nobody_listens_there_is_only_ended: tcp uds;
    a_listener_with_a_full_backlog_ends_in_a_timeout: tcp tls uds serial;
    a_full_backlog_is_waited_for: uds;
    closed_while_it_connects_there_is_only_ended: tcp tls uds serial;
    waiters_get_not_connected_when_the_peer_vanishes: tcp tls uds serial;
    waiters_get_not_connected_when_the_peer_ends: tcp tls uds;
    waiters_get_closed_when_this_side_ends: tcp tls uds serial;
    what_waited_for_a_lost_connection_is_counted_and_told: tcp tls uds serial;
    a_new_link_and_a_new_server_on_the_same_address_work_at_once: tcp tls uds udp;
    waiting_for_a_link_to_open_is_answered_however_it_goes: tcp uds;
}

fn opened_then_messages_then_closed_then_ended_once_each(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    for message in numbered(3, 8) {
        pair.client.send(&message).unwrap();
        pair.peer.send(&message).unwrap();
    }
    for message in numbered(3, 8) {
        assert_eq!(pair.client_inbox.expect_message(), message);
        assert_eq!(pair.peer_inbox.expect_message(), message);
    }
    pair.client.close(WATCHDOG);
    let closed = pair.client_inbox.expect_end();
    assert_eq!(closed.generation, 1);
    assert!(matches!(closed.reason, Reason::Closed));
    assert!(pair.client.is_ended() && !pair.client.is_open());
    if !transport.is_stream() {
        // The peer hears nothing of it.
        pair.served.as_ref().unwrap().server.abort();
    }
    let closed = pair.peer_inbox.expect_end();
    assert_eq!(closed.generation, 1);
    let ended_by_us = matches!(closed.reason, Reason::Aborted);
    let ended_by_peer = matches!(closed.reason, Reason::PeerEnded);
    assert!(if transport.is_stream() {
        ended_by_peer
    } else {
        ended_by_us
    });
}

/// All there is to end a connection with.
struct Handles {
    client: Option<Link>,
    peer: Link,
    served: Option<Served>,
}

impl Handles {
    fn client(&self) -> &Link {
        self.client.as_ref().unwrap()
    }

    fn server(&self) -> &tautline::Server {
        &self.served.as_ref().unwrap().server
    }
}

fn it_ends_in_the_same_order_whoever_ends_it(transport: Transport) {
    const PEER: &str = "the peer ended its stream";
    const CLOSED: &str = "closed on this side";
    const ABORTED: &str = "aborted on this side";
    // How, and what the client and the server's peer are told as the reason.
    type End = (fn(&mut Handles), &'static str, &'static str);
    let ends: [End; 9] = [
        (|it| _ = it.client().close(WATCHDOG), CLOSED, PEER),
        (|it| it.client().abort(), ABORTED, PEER),
        (|it| drop(it.client.take()), ABORTED, PEER),
        // Ours alone; then the peer, which is not half open, ends its own.
        (|it| it.client().finish(), PEER, PEER),
        (|it| _ = it.peer.close(WATCHDOG), PEER, CLOSED),
        (|it| it.peer.abort(), PEER, ABORTED),
        (|it| _ = it.server().close(WATCHDOG), PEER, CLOSED),
        (|it| it.server().abort(), PEER, ABORTED),
        (|it| drop(it.served.take()), PEER, ABORTED),
    ];
    for (end, client_reason, peer_reason) in ends {
        let pair = Pair::open(transport, &framed(transport));
        let mut handles = Handles {
            client: Some(pair.client),
            peer: pair.peer,
            served: pair.served,
        };
        end(&mut handles);
        let (client_end, peer_end) = (pair.client_inbox.expect_end(), pair.peer_inbox.expect_end());
        let reasons = [client_end.reason.to_string(), peer_end.reason.to_string()];
        assert_eq!(reasons, [client_reason, peer_reason]);
        assert_eq!((client_end.generation, peer_end.generation), (1, 1));
    }
}

fn what_was_sent_before_the_end_is_delivered_before_closed(transport: Transport) {
    let ends: [fn(&Link); 2] = [|link| _ = link.close(WATCHDOG), Link::finish];
    for end in ends {
        let pair = Pair::open(transport, &framed(transport));
        let messages = numbered(2000, 1000);
        for message in &messages {
            pair.client.send(message).unwrap();
        }
        end(&pair.client);
        for message in &messages {
            assert_eq!(pair.peer_inbox.expect_message(), *message);
        }
        assert!(matches!(
            pair.peer_inbox.expect_end().reason,
            Reason::PeerEnded
        ));
    }
}

fn opened_tells_both_addresses(transport: Transport) {
    let options = framed(transport);
    let pair = Pair::connect(transport, &options, &options, recorder(), recorder());
    let server = pair.served.as_ref().unwrap().server.local_address();
    let told = |opened: Opened| (opened.generation, opened.local, opened.peer);
    let (generation, client_end, peer) = told(pair.client_inbox.expect_opened());
    assert_eq!((generation, peer), (1, Some(server.clone())));
    assert_eq!(client_end, pair.client.local_address());
    let (generation, local, peer) = told(pair.peer_inbox.expect_opened());
    // A client of a Unix socket has no name.
    assert_eq!(client_end.is_some(), transport != Transport::Uds);
    assert_eq!((generation, local, peer), (1, Some(server), client_end));
    assert_eq!(pair.client.peer_address(), pair.peer.local_address());
    assert_eq!(pair.peer.peer_address(), pair.client.local_address());
}

fn a_name_is_looked_up(transport: Transport) {
    let io = start();
    let served = Served::listen(&io, transport, ServerOptions::default(), vec![recorder().0]);
    let by_name = match served.server.local_address() {
        Address::Tcp { port, .. } => format!("tcp://localhost:{port}"),
        Address::Udp { port, .. } => format!("udp://localhost:{port}"),
        Address::Uds(_) | Address::Tls { .. } | Address::Serial(_) => {
            unreachable!("no names there")
        }
    };
    let (handler, inbox) = recorder();
    let link = io
        .connect(&by_name.parse().unwrap(), LinkOptions::default(), handler)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    inbox.expect_opened();
    // Taken back while it is looked up, a link only ends.
    let (handler, inbox) = recorder();
    let link = io
        .connect(&by_name.parse().unwrap(), LinkOptions::default(), handler)
        .unwrap();
    let gate = hold(&io);
    drop(gate);
    drop(link);
    let last = inbox.all_to_the_end().pop();
    assert!(matches!(last, Some(Told::Ended(_))), "{last:?}");
}

fn ipv6_literals_are_addresses_too(transport: Transport) {
    let io = start();
    let address = match transport {
        Transport::Udp => "udp://[::1]:0",
        _ => "tcp://[::1]:0",
    };
    let (handler, inbox) = recorder();
    let mut handlers = Some(handler);
    let accept = move |_: &Link| handlers.take().ok_or_else(|| "one is enough".into());
    let server = io
        .listen(&address.parse().unwrap(), ServerOptions::default(), accept)
        .unwrap();
    let printed = server.local_address().to_string();
    assert_eq!(printed.parse(), Ok(server.local_address()));
    let link = io
        .connect(
            &server.local_address(),
            LinkOptions::default(),
            recorder().0,
        )
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    link.send(b"hello").unwrap();
    assert_eq!(inbox.expect_opened().peer, link.local_address());
    assert_eq!(inbox.expect_message(), b"hello");
}

/// Only `ended` is told: the reason.
fn fails_to_connect(io: &IoThread, address: &Address, options: LinkOptions) -> Error {
    let (handler, inbox) = recorder();
    let link = io.connect(address, options, handler).unwrap();
    let Reason::NotConnected(error) = inbox.expect_ended() else {
        panic!("it could not be made");
    };
    inbox.expect_gone();
    let again = link.wait_open(WATCHDOG).unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    assert_eq!(link.send(b"a"), Err(SendError::NotConnected));
    error
}

fn where_nobody_listens_there_is_only_ended(transport: Transport) {
    let io = start();
    if transport == Transport::Tcp {
        // Bound, so that nobody else gets the port, but not listening.
        let bound = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = "127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap();
        bound.bind(&any.into()).unwrap();
        let address = Address::tcp(bound.local_addr().unwrap().as_socket().unwrap());
        let error = fails_to_connect(&io, &address, LinkOptions::default());
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert_eq!(
            error.to_string(),
            format!("connect to {address}: connection refused")
        );
        return;
    }
    let error = fails_to_connect(&io, &nobody(), LinkOptions::default());
    assert_eq!(error.kind(), ErrorKind::Connect);
    let place = fresh(transport);
    let error = fails_to_connect(&io, &place.address, LinkOptions::default());
    assert_eq!(
        error.to_string(),
        format!("connect to {}: no such file or directory", place.address)
    );
}

/// A listener whose backlog is full, the address of it, and what fills it.
fn full_backlog(transport: Transport) -> (socket2::Socket, Place, socket2::Socket) {
    let mut place = fresh(transport);
    let (domain, target) = match &place.address {
        Address::Uds(UdsName::Path(path)) => (Domain::UNIX, SockAddr::unix(path).unwrap()),
        _ => {
            let any = "127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap();
            (Domain::IPV4, any.into())
        }
    };
    let listener = socket2::Socket::new(domain, Type::STREAM, None).unwrap();
    listener.bind(&target).unwrap();
    listener.listen(0).unwrap();
    let bound = listener.local_addr().unwrap();
    if let Some(address) = bound.as_socket() {
        place.address = Address::tcp(address);
    }
    let first = socket2::Socket::new(domain, Type::STREAM, None).unwrap();
    first.connect(&bound).unwrap();
    (listener, place, first)
}

fn a_listener_with_a_full_backlog_ends_in_a_timeout(transport: Transport) {
    let io = start();
    let (_listener, place, _first) = full_backlog(transport);
    let options = LinkOptions {
        connect_timeout: Duration::from_millis(50),
        ..LinkOptions::default()
    };
    let error = fails_to_connect(&io, &place.address, options);
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(
        error.to_string(),
        format!("connect to {}: timed out after 50ms", place.address)
    );
}

fn a_full_backlog_is_waited_for(transport: Transport) {
    let io = start();
    let (listener, place, _first) = full_backlog(transport);
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        connect_timeout: WATCHDOG,
        ..LinkOptions::default()
    };
    let link = io.connect(&place.address, options, handler).unwrap();
    let_turn(&io);
    assert!(!link.is_open() && !link.is_ended());
    listener.accept().unwrap();
    link.wait_open(WATCHDOG).unwrap();
    inbox.expect_opened();
}

fn closed_while_it_connects_there_is_only_ended(transport: Transport) {
    type End = (fn(&mut Option<Link>), &'static str);
    let ends: [End; 4] = [
        (
            |link| _ = link.as_ref().unwrap().close(WATCHDOG),
            "closed on this side",
        ),
        (
            |link| link.as_ref().unwrap().abort(),
            "aborted on this side",
        ),
        (
            |link| link.as_ref().unwrap().finish(),
            "closed on this side",
        ),
        (|link| drop(link.take()), "aborted on this side"),
    ];
    for (end, reason) in ends {
        let io = start();
        let (_listener, place, _first) = full_backlog(transport);
        let (handler, inbox) = recorder();
        let link = io
            .connect(&place.address, LinkOptions::default(), handler)
            .unwrap();
        let watching = link.clone();
        // A handle that stays would keep the link from being dropped.
        let mut link = Some(link);
        if reason.starts_with("aborted") && link.is_some() {
            drop(watching);
        }
        end(&mut link);
        assert_eq!(inbox.expect_ended().to_string(), reason);
        inbox.expect_gone();
    }
}

/// A link whose peer does not read, and four threads that send on it until they are told why not.
struct Stalled {
    io: IoThread,
    link: Link,
    inbox: Inbox,
    peer: RawStream,
    senders: Vec<JoinHandle<SendError>>,
    flusher: JoinHandle<Result<(), FlushError>>,
}

fn crowd_that_waits(transport: Transport) -> Stalled {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, peer) = stalled(&io, transport, handler);
    let send = |link: Link| {
        move || loop {
            if let Err(error) = link.send(&[0; 996]) {
                return error;
            }
        }
    };
    let senders = (0..4).map(|_| thread::spawn(send(link.clone()))).collect();
    until("all wait", || link.statistics().sending.waits >= 4);
    let flushing = link.clone();
    let flusher = thread::spawn(move || flushing.flush(WATCHDOG));
    Stalled {
        io,
        link,
        inbox,
        peer,
        senders,
        flusher,
    }
}

fn expect_all(senders: Vec<JoinHandle<SendError>>, expected: SendError) {
    for sender in senders {
        assert_eq!(sender.join().unwrap(), expected);
    }
}

fn waiters_get_not_connected_when_the_peer_vanishes(transport: Transport) {
    let stalled = crowd_that_waits(transport);
    stalled.peer.vanish();
    expect_all(stalled.senders, SendError::NotConnected);
    let flushed = stalled.flusher.join().unwrap();
    assert_eq!(flushed, Err(FlushError::NotConnected));
    let closed = stalled.inbox.skip_to_closed();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
    assert_eq!(stalled.link.send(b"a"), Err(SendError::NotConnected));
}

/// The peer says that it will send no more, and does not read either: what waits has no hope but
/// the few seconds that such a peer is given, and whoever waits for room has none.
fn waiters_get_not_connected_when_the_peer_ends(transport: Transport) {
    let stalled = crowd_that_waits(transport);
    stalled.peer.end();
    expect_all(stalled.senders, SendError::NotConnected);
    assert_eq!(stalled.link.try_send(b"a"), Err(SendError::NotConnected));
    stalled.peer.vanish();
    let flushed = stalled.flusher.join().unwrap();
    assert_eq!(flushed, Err(FlushError::NotConnected));
    stalled.inbox.skip_to_closed();
    assert_eq!(stalled.link.try_send(b"a"), Err(SendError::NotConnected));
}

fn waiters_get_closed_when_this_side_ends(transport: Transport) {
    let ends: [fn(&Link); 2] = [|link| _ = link.close(Duration::ZERO), Link::abort];
    for end in ends {
        let stalled = crowd_that_waits(transport);
        end(&stalled.link);
        expect_all(stalled.senders, SendError::Closed);
        let flushed = stalled.flusher.join().unwrap();
        assert_eq!(flushed, Err(FlushError::NotConnected));
        assert_eq!(stalled.link.send(b"a"), Err(SendError::Closed));
    }
}

fn what_waited_for_a_lost_connection_is_counted_and_told(transport: Transport) {
    let stalled = crowd_that_waits(transport);
    let sent = stalled.link.statistics().sending;
    assert!(sent.closes(), "{sent:?}");
    stalled.peer.vanish();
    let closed = stalled.inbox.skip_to_closed();
    expect_all(stalled.senders, SendError::NotConnected);
    let sending = stalled.link.statistics().sending;
    assert!(sending.closes() && sending.waiting.is_zero(), "{sending:?}");
    assert!(sending.discarded.connection_lost.messages >= 9);
    assert_eq!(closed.unsent.queued, sending.discarded.connection_lost);
    assert_eq!(sending.discarded.total(), sending.discarded.connection_lost);
    drop(stalled.io);
}

fn a_new_link_and_a_new_server_on_the_same_address_work_at_once(transport: Transport) {
    let io = start();
    let mut place = fresh(transport);
    let ends: [fn(tautline::Server); 3] = [
        |server| _ = server.close(WATCHDOG),
        |server| server.abort(),
        |server| drop(server),
    ];
    for end in ends.into_iter().cycle().take(15) {
        let (give, inboxes) = mpsc::channel();
        let options = ServerOptions {
            link: framed(transport),
            ..ServerOptions::default()
        };
        let accept = move |_: &Link| {
            let (handler, inbox) = recorder();
            give.send(inbox).unwrap();
            Ok(handler)
        };
        let server = io.listen(&place.address, options, accept).unwrap();
        place.address = server.local_address();
        // Each link has another one before it on the same address that is ending just now.
        for _ in 0..2 {
            let (handler, _inbox) = recorder();
            let link = io
                .connect(&place.address, framed(transport), handler)
                .unwrap();
            link.wait_open(WATCHDOG).unwrap();
            link.send(b"hello").unwrap();
            let peer_inbox = inboxes.recv_timeout(WATCHDOG).unwrap();
            peer_inbox.expect_opened();
            assert_eq!(peer_inbox.expect_message(), b"hello");
        }
        end(server);
    }
}

fn waiting_for_a_link_to_open_is_answered_however_it_goes(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let gate = hold(&io);
    let (handler, _inbox) = recorder();
    let link = io
        .connect(&listener.address(), LinkOptions::default(), handler)
        .unwrap();
    let error = link.wait_open(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let waiting = {
        let link = link.clone();
        thread::spawn(move || link.wait_open(WATCHDOG))
    };
    drop(gate);
    waiting.join().unwrap().unwrap();
    // Inside a callback nothing waits; it is open, so there is nothing to wait for.
    let inside = link.clone();
    inside_callback(&io, move || inside.wait_open(WATCHDOG)).unwrap();
    link.abort();
    let error = link.wait_open(WATCHDOG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    drop(SockRef::from(&listener.as_fd()));
}
