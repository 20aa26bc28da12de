//! Promise 7 for one message to all peers: whoever stalls holds up nobody, and every refusal is counted
//! by its cause.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tautline::{
    Address, Broadcast, Found, Framer, Framing, Link, LinkOptions, Received, Server, ServerOptions,
    Strategy, Unframeable,
};

use crate::common::*;

over! {
    every_peer_gets_it_and_nobody_else: tcp tls uds udp;
    without_peers_nothing_is_refused: tcp tls uds udp;
    all_but_one_get_what_one_said: tcp tls uds udp;
    one_stalled_peer_of_fifty_holds_up_no_other: tcp tls uds;
    a_peer_that_keeps_the_latest_evicts_and_accepts: tcp tls uds;
    what_is_too_large_is_too_large_for_all: tcp tls uds udp;
    a_peer_that_closes_is_counted_as_closed: tcp tls uds;
    it_adds_up_while_peers_come_and_go: tcp tls uds udp;
    each_peer_gets_them_in_their_order: tcp tls uds udp;
    it_is_encoded_once_for_all: tcp tls uds;
}

/// What was told of one broadcast adds up.
fn expect_sum(told: Broadcast) {
    let causes = told.full + told.too_large + told.not_connected + told.closed;
    assert_eq!(told.targets, told.accepted + causes, "{told:?}");
    assert_eq!(told.refused(), causes, "{told:?}");
}

fn server_options(transport: Transport) -> ServerOptions {
    ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    }
}

/// So many links of ours to a server that broadcasts, all open on both sides.
fn crowd(
    server_io: &tautline::IoThread,
    client_io: &tautline::IoThread,
    transport: Transport,
    count: usize,
) -> (Served, Vec<(Link, Inbox)>) {
    let handlers = (0..count).map(|_| recorder().0).collect();
    let served = Served::listen(server_io, transport, server_options(transport), handlers);
    let links: Vec<_> = (0..count)
        .map(|_| {
            let (handler, inbox) = recorder();
            let address = served.server.local_address();
            let link = client_io
                .connect(&address, framed(transport), handler)
                .unwrap();
            inbox.expect_opened();
            link.send(b"here I am").unwrap();
            assert!(served.peer().is_open());
            (link, inbox)
        })
        .collect();
    (served, links)
}

fn every_peer_gets_it_and_nobody_else(transport: Transport) {
    let (server_io, client_io) = (start(), start());
    let (served, links) = crowd(&server_io, &client_io, transport, 20);
    let told = served.server.broadcast(b"to all");
    expect_sum(told);
    assert_eq!((told.targets, told.accepted), (20, 20));
    // From a callback of its own thread as well.
    let server = Arc::new(served.server);
    let inside = Arc::clone(&server);
    let told = inside_callback(&server_io, move || inside.broadcast(b"again"));
    assert_eq!((told.targets, told.accepted), (20, 20));
    for (_, inbox) in &links {
        assert_eq!(inbox.expect_message(), b"to all");
        assert_eq!(inbox.expect_message(), b"again");
    }
    let statistics = server.statistics();
    assert_eq!(statistics.broadcasts, 2);
    assert_eq!(statistics.broadcasts_accepted, 40);
    assert_eq!(statistics.broadcasts_refused, 0);
    assert_eq!(statistics.peers.sending.accepted.messages, 40);
}

fn without_peers_nothing_is_refused(transport: Transport) {
    let io = start();
    let served = Served::listen(&io, transport, server_options(transport), vec![]);
    assert_eq!(served.server.broadcast(b"anybody?"), Broadcast::default());
    assert_eq!(served.server.statistics().broadcasts, 1);
}

fn all_but_one_get_what_one_said(transport: Transport) {
    let (server_io, client_io) = (start(), start());
    let place = fresh(transport);
    let (hand_over, server) = mpsc::channel::<Arc<Server>>();
    let server = std::sync::Mutex::new((server, None));
    let server = Arc::new(server);
    let relay = move |_: &Link| {
        let server = Arc::clone(&server);
        Ok(move |peer: &Link, message: &[u8], _: Received| {
            let mut server = server.lock().unwrap();
            let (handed_over, known) = &mut *server;
            let server = known.get_or_insert_with(|| handed_over.recv().unwrap());
            if message != b"here I am" {
                expect_sum(server.broadcast_except(message, peer));
            }
        })
    };
    let listened = server_io.listen(&place.address, server_options(transport), relay);
    let server = Arc::new(listened.unwrap());
    hand_over.send(Arc::clone(&server)).unwrap();
    let links: Vec<_> = (0..3)
        .map(|_| {
            let (handler, inbox) = recorder();
            let address = server.local_address();
            let link = client_io
                .connect(&address, framed(transport), handler)
                .unwrap();
            inbox.expect_opened();
            link.send(b"here I am").unwrap();
            (link, inbox)
        })
        .collect();
    until("all are there", || {
        server.statistics().peers.receiving.messages == 3
    });
    for (speaker, word) in [(0, b"one"), (1, b"two")] {
        links[speaker].0.send(word).unwrap();
        for (hearer, (_, inbox)) in links.iter().enumerate() {
            if hearer != speaker {
                assert_eq!(inbox.expect_message(), word);
            }
        }
    }
    for (_, inbox) in &links {
        assert!(inbox.so_far().is_empty(), "nobody heard his own word");
    }
    server.abort();
}

fn one_stalled_peer_of_fifty_holds_up_no_other(transport: Transport) {
    let (server_io, client_io) = (start(), start());
    let place = fresh(transport);
    let options = ServerOptions {
        link: LinkOptions {
            queue_limit_bytes: 20_000,
            send_buffer_bytes: Some(16 * 1024),
            ..framed(transport)
        },
        ..ServerOptions::default()
    };
    let nothing = |_: &Link| Ok(|_: &Link, _: &[u8], _: Received| {});
    let server = server_io.listen(&place.address, options, nothing).unwrap();
    let address = server.local_address();
    // It never reads.
    let stalled = RawStream::connect(&address);
    let links: Vec<_> = (0..49)
        .map(|_| {
            let (handler, inbox) = recorder();
            let link = client_io
                .connect(&address, framed(transport), handler)
                .unwrap();
            inbox.expect_opened();
            (link, inbox)
        })
        .collect();
    until("all are open", || {
        let peers = server.peers();
        peers.len() == 50 && peers.iter().all(Link::is_open)
    });
    // Far more than the stalled one's queue and the kernel hold; the others read as it comes.
    let mut full = 0;
    for message in numbered(5000, 1000) {
        let told = server.broadcast(&message);
        expect_sum(told);
        assert_eq!(told.targets, 50);
        assert!(told.full <= 1, "only one does not read: {told:?}");
        assert_eq!(told.accepted, 50 - told.full);
        full += told.full as u64;
        for (_, inbox) in &links {
            assert_eq!(inbox.expect_message(), message);
        }
    }
    assert!(full > 0, "the stalled one was full");
    assert_eq!(server.statistics().broadcasts_refused, full);
    drop(stalled);
}

fn a_peer_that_keeps_the_latest_evicts_and_accepts(transport: Transport) {
    let io = start();
    let options = ServerOptions {
        link: LinkOptions {
            queue_limit_bytes: 10_000,
            send_buffer_bytes: Some(16 * 1024),
            strategy: Strategy::KeepLatest,
            ..framed(transport)
        },
        ..ServerOptions::default()
    };
    let (served, raw) = server_of_raw(&io, transport, options, recorder().0);
    let peer = served.peer();
    while peer.statistics().sending.discarded.evicted.messages == 0 {
        let told = served.server.broadcast(&[0; 996]);
        assert_eq!((told.targets, told.accepted), (1, 1));
    }
    drop(raw);
}

fn what_is_too_large_is_too_large_for_all(transport: Transport) {
    let (server_io, client_io) = (start(), start());
    let (served, _links) = crowd(&server_io, &client_io, transport, 3);
    let told = served.server.broadcast(&vec![0; 2 * 1024 * 1024]);
    expect_sum(told);
    assert_eq!((told.targets, told.too_large), (3, 3));
    assert_eq!(served.server.statistics().broadcasts_refused, 3);
}

fn a_peer_that_closes_is_counted_as_closed(transport: Transport) {
    let io = start();
    let (served, raw) = server_of_raw(&io, transport, server_options(transport), recorder().0);
    let peer = served.peer();
    // It waits for the raw peer's end, which does not come.
    inside_callback(&io, move || peer.close(WATCHDOG));
    let told = served.server.broadcast(b"too late");
    expect_sum(told);
    assert_eq!((told.targets, told.closed), (1, 1));
    drop(raw);
}

fn it_adds_up_while_peers_come_and_go(transport: Transport) {
    let (server_io, client_io) = (start(), start());
    let place = fresh(transport);
    let nothing = |_: &Link| Ok(|_: &Link, _: &[u8], _: Received| {});
    let options = ServerOptions {
        // Over UDP they go when they have been silent for this long.
        peer_expiry: Duration::from_millis(20),
        ..server_options(transport)
    };
    let server = server_io.listen(&place.address, options, nothing).unwrap();
    let over = AtomicBool::new(false);
    let (mut accepted, mut refused, mut broadcasts) = (0, 0, 0);
    thread::scope(|scope| {
        let coming = scope.spawn(|| come_and_go(&client_io, &server.local_address(), transport));
        let watching = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert!(server.peers().len() <= 300);
            }
        });
        while !coming.is_finished() {
            let told = server.broadcast(b"to whom it may concern");
            expect_sum(told);
            accepted += told.accepted as u64;
            refused += told.refused() as u64;
            broadcasts += 1;
        }
        over.store(true, Ordering::Relaxed);
        coming.join().unwrap();
        watching.join().unwrap();
    });
    server.abort();
    let statistics = server.statistics();
    assert_eq!(statistics.broadcasts, broadcasts);
    assert_eq!(statistics.broadcasts_accepted, accepted);
    assert_eq!(statistics.broadcasts_refused, refused);
    assert_eq!(statistics.peers.sending.accepted.messages, accepted);
    assert!(statistics.peers.sending.closes());
}

/// 300 links, of which a few live at a time.
fn come_and_go(io: &tautline::IoThread, address: &Address, transport: Transport) {
    let mut alive = std::collections::VecDeque::new();
    for _ in 0..300 {
        let (handler, inbox) = recorder();
        let link = io.connect(address, framed(transport), handler).unwrap();
        link.wait_open(WATCHDOG).unwrap();
        link.send(b"hello").unwrap();
        if transport.is_stream() {
            // It was told of, so it is among the targets; datagrams may be lost in this crowd.
            inbox.skip_to_message();
        }
        alive.push_back(link);
        if alive.len() > 10 {
            alive.pop_front();
        }
    }
}

fn each_peer_gets_them_in_their_order(transport: Transport) {
    let (server_io, client_io) = (start(), start());
    let (served, links) = crowd(&server_io, &client_io, transport, 5);
    let messages = numbered(200, 50);
    for message in &messages {
        let told = served.server.broadcast(message);
        assert_eq!(told.accepted, 5, "{told:?}");
    }
    for (_, inbox) in &links {
        for message in &messages {
            assert_eq!(&inbox.expect_message(), message);
        }
    }
    let peers: HashSet<_> = served
        .server
        .peers()
        .iter()
        .map(Link::peer_address)
        .collect();
    assert!(peers.len() == 5 || transport == Transport::Uds);
}

/// The prefix that raw peers of these tests read, and a count of the messages it was put before.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Framer for Counted {
    fn encode(&self, payload: &[u8], into: &mut Vec<u8>) -> Result<(), Unframeable> {
        self.0.fetch_add(1, Ordering::SeqCst);
        into.extend(frame(payload));
        Ok(())
    }

    fn overhead_limit_bytes(&self, _: usize) -> usize {
        4
    }

    fn parse(&self, bytes: &[u8], _: usize, _: usize, _: &mut Vec<u8>) -> Found {
        Found::Incomplete {
            needed_bytes: bytes.len() + 1,
        }
    }
}

fn it_is_encoded_once_for_all(transport: Transport) {
    let io = start();
    let encoded = Arc::new(AtomicUsize::new(0));
    let options = ServerOptions {
        link: LinkOptions {
            framing: Framing::own(Counted(Arc::clone(&encoded))),
            ..LinkOptions::default()
        },
        ..ServerOptions::default()
    };
    let handlers = (0..20).map(|_| recorder().0).collect();
    let served = Served::listen(&io, transport, options, handlers);
    let mut peers: Vec<_> = (0..20)
        .map(|_| {
            let raw = RawStream::connect(&served.server.local_address());
            assert!(served.peer().wait_open(WATCHDOG).is_ok());
            raw
        })
        .collect();
    let told = served.server.broadcast(b"to all");
    assert_eq!((told.targets, told.accepted), (20, 20));
    for peer in &mut peers {
        assert_eq!(peer.read_frame(), b"to all");
    }
    assert_eq!(encoded.load(Ordering::SeqCst), 1);
}
