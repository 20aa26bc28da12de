//! Promise 9, without multicast: datagrams keep their borders, and one socket serves many peers.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tautline::{
    Address, IoOptions, IoThread, Link, LinkOptions, Pressure, Reason, SendError, ServerOptions,
    Strategy, Tally,
};

use crate::common::*;

over! {
    borders_are_kept_and_empty_ones_are_delivered: udp;
    a_datagram_longer_than_the_buffer_is_flagged: udp;
    the_networks_word_is_an_event_and_the_link_lives_on: udp;
    the_networks_word_to_a_server_is_counted_and_ends_nothing: udp;
    a_peer_is_opened_by_its_first_datagram: udp;
    a_server_answers_from_the_address_it_was_asked_on: udp;
    a_silent_peer_expires: udp;
    when_the_table_is_full_the_longest_silent_makes_room_but_nobody_active: udp;
    all_peers_share_one_queue_and_its_limit: udp;
    keeplatest_evicts_the_oldest_to_the_same_peer_and_is_full_if_there_is_none: udp;
    pressure_is_the_servers_and_every_peer_is_told: udp;
    a_panic_over_pressure_ends_that_peer_alone: udp;
    counters_are_each_peers_too: udp;
    closing_one_peer_leaves_the_others: udp;
    a_peer_that_was_aborted_opens_anew: udp;
    ipv6_and_ipv4_reach_a_server_bound_to_everything: udp;
    two_servers_cannot_have_one_port: udp;
    a_paused_peer_does_not_hold_up_the_others: udp;
    a_hundred_thousand_sources_displace_nobody_active_and_take_no_memory: udp;
}

/// A plain socket that talks to a server of ours.
fn plain(server: &Address) -> UdpSocket {
    let Address::Udp { host, port } = server else {
        panic!("{server} is no datagram address");
    };
    let remote: SocketAddr = (host.parse::<std::net::IpAddr>().unwrap(), *port).into();
    let any = if remote.is_ipv4() {
        "127.0.0.1:0"
    } else {
        "[::1]:0"
    };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket.connect(remote).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let bytes = socket.recv(&mut buffer).unwrap();
    buffer.truncate(bytes);
    buffer
}

/// A server with this many recorders, and plain peers that have said their number.
struct Hall {
    io: IoThread,
    served: Served,
    inboxes: Vec<Inbox>,
    peers: Vec<Link>,
    sockets: Vec<UdpSocket>,
}

impl Hall {
    fn new(options: ServerOptions, count: u8, handlers: usize) -> Self {
        let io = start();
        let recorders: Vec<_> = (0..handlers).map(|_| recorder()).collect();
        let (handlers, inboxes): (Vec<_>, Vec<_>) = recorders.into_iter().unzip();
        let served = Served::listen(&io, udp(), options, handlers);
        let (mut peers, mut sockets) = (Vec::new(), Vec::new());
        for number in 0..count {
            let socket = plain(&served.server.local_address());
            socket.send(&[number]).unwrap();
            let inbox = &inboxes[usize::from(number)];
            inbox.expect_opened();
            assert_eq!(inbox.expect_message(), [number]);
            peers.push(served.peer());
            sockets.push(socket);
        }
        Self {
            io,
            served,
            inboxes,
            peers,
            sockets,
        }
    }
}

fn borders_are_kept_and_empty_ones_are_delivered(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 1, 1);
    let lengths = [0, 1, 1000, 0, 65_507, 0];
    for length in lengths {
        hall.sockets[0].send(&vec![7; length]).unwrap();
        assert_eq!(hall.inboxes[0].expect_message(), vec![7; length]);
        hall.peers[0].send(&vec![8; length]).unwrap();
        assert_eq!(receive(&hall.sockets[0]), vec![8; length]);
    }
    // The client's side of it.
    let (handler, inbox) = recorder();
    let (link, mut far) = reach(&hall.io, udp(), LinkOptions::default(), handler);
    inbox.expect_opened();
    for length in lengths {
        far.write_message(&vec![7; length]);
        assert_eq!(inbox.expect_message(), vec![7; length]);
        link.send(&vec![8; length]).unwrap();
        assert_eq!(far.read_message(), vec![8; length]);
    }
}

fn a_datagram_longer_than_the_buffer_is_flagged(transport: Transport) {
    let io = IoThread::start(IoOptions {
        read_buffer_bytes: 100,
        ..IoOptions::default()
    })
    .unwrap();
    let (handler, inbox) = recorder();
    let (link, mut far) = reach(&io, transport, LinkOptions::default(), handler);
    let (handler, peer_inbox) = recorder();
    let served = Served::listen(&io, transport, ServerOptions::default(), vec![handler]);
    let socket = plain(&served.server.local_address());
    inbox.expect_opened();
    for (length, truncated) in [(99, false), (100, false), (101, true), (5000, true)] {
        far.write_message(&vec![7; length]);
        socket.send(&vec![7; length]).unwrap();
        let received = |inbox: &Inbox| {
            inbox.skip_to(|told| match told {
                Told::Message(message, received) => Some((message, received.truncated)),
                _ => None,
            })
        };
        let expected = (vec![7; length.min(100)], truncated);
        assert_eq!(received(&inbox), expected);
        assert_eq!(received(&peer_inbox), expected);
    }
    until("both have counted", || {
        let peer = served.server.statistics().peers.receiving.truncated;
        (link.statistics().receiving.truncated, peer) == (2, 2)
    });
}

fn the_networks_word_is_an_event_and_the_link_lives_on(_: Transport) {
    let io = start();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap();
    drop(socket);
    let (handler, inbox) = recorder();
    let link = io
        .connect(&Address::udp(port), LinkOptions::default(), handler)
        .unwrap();
    inbox.expect_opened();
    for times in 1..=5 {
        link.send(b"anybody?").unwrap();
        assert_eq!(inbox.expect_event(), Happened::Unreachable);
        assert_eq!(link.statistics().receiving.unreachable, times);
    }
    // Somebody comes.
    let socket = UdpSocket::bind(port).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    link.send(b"now?").unwrap();
    let mut buffer = [0; 100];
    let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..bytes], b"now?");
    socket.send_to(b"yes", from).unwrap();
    assert_eq!(inbox.expect_message(), b"yes");
    let sending = link.statistics().sending;
    assert_eq!(sending.written.messages, 6);
    assert!(sending.closes() && link.is_open());
}

fn the_networks_word_to_a_server_is_counted_and_ends_nothing(_: Transport) {
    // An unconnected socket is told only when it asks to be; what matters is that nothing ends.
    let mut hall = Hall::new(ServerOptions::default(), 2, 2);
    drop(hall.sockets.remove(0));
    for _ in 0..20 {
        hall.peers[0].send(b"are you there?").unwrap();
    }
    hall.peers[0].flush(WATCHDOG).unwrap();
    hall.peers[1].send(b"and you?").unwrap();
    assert_eq!(receive(&hall.sockets[0]), b"and you?");
    assert!(hall.peers[0].is_open());
    let sending = hall.served.server.statistics().peers.sending;
    assert_eq!(sending.written.messages, 21);
    assert!(sending.closes());
}

fn a_peer_is_opened_by_its_first_datagram(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 3, 3);
    for (peer, socket) in hall.peers.iter().zip(&hall.sockets) {
        let client = Address::udp(socket.local_addr().unwrap());
        assert_eq!(peer.peer_address(), Some(client));
        assert_eq!(
            peer.local_address(),
            Some(hall.served.server.local_address())
        );
    }
    // Many more datagrams make no more peers.
    for (socket, inbox) in hall.sockets.iter().zip(&hall.inboxes) {
        for message in numbered(10, 10) {
            socket.send(&message).unwrap();
            assert_eq!(inbox.expect_message(), message);
        }
    }
    let statistics = hall.served.server.statistics();
    assert_eq!((statistics.connected, statistics.accepted), (3, 3));
}

/// Bound to everything, asked on two addresses of this machine by the same socket: two peers, and
/// each answer comes from where it was asked.
fn a_server_answers_from_the_address_it_was_asked_on(_: Transport) {
    let io = start();
    let handlers = vec![recorder(), recorder()];
    let (handlers, inboxes): (Vec<_>, Vec<_>) = handlers.into_iter().unzip();
    let mut handlers = handlers.into_iter();
    let (accepted, peers) = std::sync::mpsc::channel();
    let server = io
        .listen(
            &"udp://0.0.0.0:0".parse().unwrap(),
            ServerOptions::default(),
            move |peer: &Link| {
                accepted.send(peer.clone()).unwrap();
                handlers.next().ok_or_else(|| "enough".into())
            },
        )
        .unwrap();
    let Address::Udp { port, .. } = server.local_address() else {
        panic!("it is a datagram server");
    };
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    for (inbox, asked) in inboxes.iter().zip(["127.0.0.1", "127.0.0.2"]) {
        let asked: SocketAddr = format!("{asked}:{port}").parse().unwrap();
        socket.send_to(b"question", asked).unwrap();
        let opened = inbox.expect_opened();
        assert_eq!(opened.local, Some(Address::udp(asked)));
        assert_eq!(inbox.expect_message(), b"question");
        let peer = peers.recv_timeout(WATCHDOG).unwrap();
        peer.send(b"answer").unwrap();
        let mut buffer = [0; 100];
        let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..bytes], from), (&b"answer"[..], asked));
    }
    assert_eq!(server.statistics().connected, 2);
}

fn a_silent_peer_expires(_: Transport) {
    let options = ServerOptions {
        peer_expiry: Duration::from_millis(100),
        ..ServerOptions::default()
    };
    let hall = Hall::new(options, 1, 2);
    let closed = hall.inboxes[0].expect_end();
    assert!(matches!(closed.reason, Reason::Expired));
    assert_eq!(hall.peers[0].send(b"a"), Err(SendError::NotConnected));
    hall.served.expect_connected(0);
    // It speaks again, and is a new one.
    hall.sockets[0].send(b"back").unwrap();
    hall.inboxes[1].expect_opened();
    assert_eq!(hall.inboxes[1].expect_message(), b"back");
    assert_eq!(hall.peers[0].send(b"a"), Err(SendError::NotConnected));
    hall.served.peer().send(b"welcome").unwrap();
    assert_eq!(receive(&hall.sockets[0]), b"welcome");
}

fn when_the_table_is_full_the_longest_silent_makes_room_but_nobody_active(_: Transport) {
    let options = ServerOptions {
        connection_limit: 2,
        ..ServerOptions::default()
    };
    let hall = Hall::new(options, 2, 3);
    let third = plain(&hall.served.server.local_address());
    third.send(b"too soon").unwrap();
    until("it is turned away", || {
        hall.served.server.statistics().turned_away == 1
    });
    assert!(hall.peers[0].is_open() && hall.peers[1].is_open());
    // The second speaks on; the first has been silent for a second some time.
    let inbox = &hall.inboxes[2];
    until("there is room", || {
        hall.sockets[1].send(b"active").unwrap();
        third.send(b"now?").unwrap();
        std::thread::yield_now();
        !hall.peers[0].is_open()
    });
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"now?");
    assert!(matches!(
        hall.inboxes[0].expect_end().reason,
        Reason::Expired
    ));
    assert!(hall.peers[1].is_open());
    hall.served.expect_connected(2);
}

fn small_queue(strategy: Strategy) -> ServerOptions {
    ServerOptions {
        link: LinkOptions {
            strategy,
            queue_limit_bytes: 1000,
            queue_limit_messages: 10,
            ..LinkOptions::default()
        },
        ..ServerOptions::default()
    }
}

fn all_peers_share_one_queue_and_its_limit(_: Transport) {
    let hall = Hall::new(small_queue(Strategy::BestEffort), 2, 2);
    let (one, two) = (hall.peers[0].clone(), hall.peers[1].clone());
    let (gate, sent) = Gate::after(&hall.io, move || {
        [
            one.try_send(&[1; 600]),
            two.try_send(&[2; 401]),
            two.try_send(&[2; 400]),
            one.try_send(&[1; 1]),
        ]
    });
    let full = Err(SendError::Full);
    assert_eq!(sent, [Ok(()), full, Ok(()), full]);
    let sending = hall.served.server.statistics().peers.sending;
    let (messages, bytes) = (2, 1000);
    assert_eq!(sending.waiting, Tally { messages, bytes });
    drop(gate);
    assert_eq!(receive(&hall.sockets[0]), [1; 600]);
    assert_eq!(receive(&hall.sockets[1]), [2; 400]);
}

fn keeplatest_evicts_the_oldest_to_the_same_peer_and_is_full_if_there_is_none(_: Transport) {
    let hall = Hall::new(small_queue(Strategy::KeepLatest), 2, 2);
    let (one, two) = (hall.peers[0].clone(), hall.peers[1].clone());
    let (gate, sent) = Gate::after(&hall.io, move || {
        [
            one.send(&[1; 300]),
            one.send(&[2; 300]),
            one.send(&[3; 300]),
            // Nothing of its own to give up.
            two.send(&[4; 300]),
            two.send(&[5; 100]),
            // Its own oldest goes, not the other's.
            two.send(&[6; 50]),
            one.send(&[7; 300]),
        ]
    });
    let full = Err(SendError::Full);
    let ok = Ok(());
    assert_eq!(sent, [ok, ok, ok, full, ok, ok, ok]);
    drop(gate);
    for expected in [vec![2; 300], vec![3; 300], vec![7; 300]] {
        assert_eq!(receive(&hall.sockets[0]), expected);
    }
    assert_eq!(receive(&hall.sockets[1]), [6; 50]);
    let evicted = |peer: &Link| peer.statistics().sending.discarded.evicted.messages;
    assert_eq!((evicted(&hall.peers[0]), evicted(&hall.peers[1])), (1, 1));
}

/// Queues more, inside a callback, than the driver writes in one turn: so it comes to tell pressure
/// while it is on.
fn press(io: &IoThread, peer: &Link) {
    let sender = peer.clone();
    inside_callback(io, move || {
        for _ in 0..17 {
            sender.try_send(&[0; 60_000]).unwrap();
        }
    });
}

fn pressure_is_the_servers_and_every_peer_is_told(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 2, 2);
    press(&hall.io, &hall.peers[0]);
    for inbox in &hall.inboxes {
        for expected in [Pressure::On, Pressure::Off] {
            let told = inbox.next();
            let Told::Pressure(pressure) = told else {
                panic!("expected pressure, was told {told:?}");
            };
            assert_eq!(pressure, expected);
        }
    }
    let sending = hall.served.server.statistics().peers.sending;
    assert_eq!(sending.pressure_crossings, 2);
}

fn a_panic_over_pressure_ends_that_peer_alone(_: Transport) {
    let io = start();
    let (bad, bad_inbox) = recorder_that(|_, told| {
        assert!(!matches!(told, Told::Pressure(_)), "as the test wants it");
    });
    let (good, good_inbox) = recorder();
    let served = Served::listen(&io, udp(), ServerOptions::default(), vec![bad, good]);
    let sockets = [(), ()].map(|()| plain(&served.server.local_address()));
    sockets[0].send(b"hello").unwrap();
    served.peer();
    sockets[1].send(b"hello").unwrap();
    let good_peer = served.peer();
    press(&io, &good_peer);
    let closed = bad_inbox.skip_to_closed();
    assert!(matches!(closed.reason, Reason::Panicked));
    let off = |told: &Told| matches!(told, Told::Pressure(Pressure::Off));
    assert!(matches!(
        good_inbox.all_up_to(off).last(),
        Some(Told::Pressure(_))
    ));
    sockets[1].send(b"still here").unwrap();
    assert_eq!(good_inbox.expect_message(), b"still here");
    served.expect_connected(1);
}

fn counters_are_each_peers_too(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 2, 2);
    for (number, peer) in hall.peers.iter().enumerate() {
        for _ in 0..=number {
            peer.send(&[7; 100]).unwrap();
        }
        peer.flush(WATCHDOG).unwrap();
        let written = peer.statistics().sending.written;
        let messages = number as u64 + 1;
        let bytes = 100 * messages;
        assert_eq!(written, Tally { messages, bytes });
        until("its own number is counted", || {
            peer.statistics().receiving.payload_bytes == 1
        });
    }
    let peers = hall.served.server.statistics().peers;
    assert_eq!(
        peers.sending.written,
        Tally {
            messages: 3,
            bytes: 300
        }
    );
    assert_eq!(peers.receiving.messages, 2, "both have been counted by now");
}

fn closing_one_peer_leaves_the_others(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 3, 3);
    let ends: [fn(&Link); 2] = [|peer| _ = peer.close(WATCHDOG), Link::abort];
    for (index, end) in ends.into_iter().enumerate() {
        hall.peers[index].send(b"goodbye").unwrap();
        hall.peers[index].flush(WATCHDOG).unwrap();
        end(&hall.peers[index]);
        assert_eq!(receive(&hall.sockets[index]), b"goodbye");
        assert_eq!(hall.peers[index].send(b"a"), Err(SendError::Closed));
        hall.inboxes[index].expect_end();
        hall.peers[2].send(b"still here").unwrap();
        assert_eq!(receive(&hall.sockets[2]), b"still here");
    }
    hall.served.expect_connected(1);
}

fn a_peer_that_was_aborted_opens_anew(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 1, 2);
    hall.peers[0].abort();
    hall.inboxes[0].expect_end();
    hall.sockets[0].send(b"again").unwrap();
    hall.inboxes[1].expect_opened();
    assert_eq!(hall.inboxes[1].expect_message(), b"again");
    // The old handle reaches nobody.
    assert_eq!(hall.peers[0].send(b"a"), Err(SendError::Closed));
    hall.served.peer().send(b"hello").unwrap();
    assert_eq!(receive(&hall.sockets[0]), b"hello");
}

fn ipv6_and_ipv4_reach_a_server_bound_to_everything(_: Transport) {
    let io = start();
    let (accepted, inboxes) = std::sync::mpsc::channel();
    let server = io
        .listen(
            &"udp://[::]:0".parse().unwrap(),
            ServerOptions::default(),
            move |_: &Link| {
                let (handler, inbox) = recorder_that(|link, told| {
                    if let Told::Message(message, _) = told {
                        link.send(message).unwrap();
                    }
                });
                accepted.send(inbox).unwrap();
                Ok(handler)
            },
        )
        .unwrap();
    let Address::Udp { port, .. } = server.local_address() else {
        panic!("it is a datagram server");
    };
    for host in ["127.0.0.1", "[::1]"] {
        let address: Address = format!("udp://{host}:{port}").parse().unwrap();
        let (handler, inbox) = recorder();
        let link = io
            .connect(&address, LinkOptions::default(), handler)
            .unwrap();
        inbox.expect_opened();
        link.send(b"hello").unwrap();
        assert_eq!(inbox.expect_message(), b"hello");
        let opened = inboxes.recv_timeout(WATCHDOG).unwrap().expect_opened();
        assert_eq!(opened.local, Some(address));
        assert_eq!(opened.peer, link.local_address());
    }
}

fn two_servers_cannot_have_one_port(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 1, 1);
    let address = hall.served.server.local_address();
    let again = hall
        .io
        .listen(&address, ServerOptions::default(), |_: &Link| {
            Ok(recorder().0)
        });
    let error = again.unwrap_err();
    assert_eq!(error.kind(), tautline::ErrorKind::AddressInUse);
    hall.sockets[0].send(b"still mine").unwrap();
    assert_eq!(hall.inboxes[0].expect_message(), b"still mine");
}

fn a_paused_peer_does_not_hold_up_the_others(_: Transport) {
    let hall = Hall::new(ServerOptions::default(), 2, 2);
    hall.peers[0].pause_reading();
    for message in numbered(500, 1000) {
        hall.sockets[0].send(&message).unwrap();
        hall.sockets[1].send(&message).unwrap();
        assert_eq!(hall.inboxes[1].expect_message(), message);
    }
    assert!(hall.inboxes[0].so_far().is_empty());
    let receiving = hall.peers[0].statistics().receiving;
    assert_eq!(receiving.dropped_while_paused, 500, "and counted");
    hall.peers[0].resume_reading();
    let_turn(&hall.io);
    hall.sockets[0].send(b"after").unwrap();
    assert_eq!(hall.inboxes[0].expect_message(), b"after");
}

/// Whoever can send datagrams can invent as many addresses as he likes.
fn a_hundred_thousand_sources_displace_nobody_active_and_take_no_memory(transport: Transport) {
    const SOURCES: u64 = 100_000;
    const AT_A_TIME: u64 = 100;
    let test = "datagrams::a_hundred_thousand_sources_displace_nobody_active_and_take_no_memory";
    let test = name_of(test, transport);
    if !in_child(&test) {
        // Memory is counted: nobody else's.
        return child(&test, "");
    }
    let io = start();
    let options = ServerOptions {
        connection_limit: 64,
        ..ServerOptions::default()
    };
    let accept = |_: &Link| {
        Ok(|peer: &Link, message: &[u8], _: tautline::Received| {
            // It may have gone already.
            let _ = peer.send(message);
        })
    };
    let address = "udp://0.0.0.0:0".parse().unwrap();
    let server = io.listen(&address, options, accept).unwrap();
    let Address::Udp { port, .. } = server.local_address() else {
        panic!("it is a datagram server");
    };
    let active = UdpSocket::bind("127.0.0.1:0").unwrap();
    active.set_read_timeout(Some(WATCHDOG)).unwrap();
    active.connect(("127.0.0.1", port)).unwrap();
    let speak = || {
        active.send(b"I am here").unwrap();
        assert_eq!(receive(&active), b"I am here");
    };
    speak();
    let peer = server.peers().remove(0);

    let mut resident_before = 0;
    for sent in 1..=SOURCES {
        // So many addresses that no port is taken twice: it would be the same source.
        let host = [
            127,
            1,
            (sent / 250 / 250) as u8,
            (1 + sent / 250 % 250) as u8,
        ];
        let source =
            UdpSocket::bind((std::net::Ipv4Addr::from(host), 10_000 + (sent % 250) as u16));
        source
            .unwrap()
            .send_to(b"I am new", ("127.0.0.1", port))
            .unwrap();
        if sent % AT_A_TIME == 0 {
            // All were seen: the kernel dropped none for want of buffer.
            until("all have been seen", || {
                let seen = server.statistics();
                seen.accepted + seen.turned_away == sent + 1
            });
            speak();
        }
        if sent == 10_000 {
            resident_before = resident_bytes();
        }
    }
    let statistics = server.statistics();
    assert_eq!(statistics.connected, 64);
    assert!(statistics.accepted >= 64 && statistics.turned_away > 0);
    // One word from each that was let in, and those of the active peer.
    let words = 1 + SOURCES / AT_A_TIME;
    let heard = statistics.peers.receiving.messages;
    assert_eq!(heard, statistics.accepted - 1 + words);
    let sending = &statistics.peers.sending;
    assert!(sending.closes(), "{sending:?}");
    assert_eq!(sending.accepted.messages, heard);
    assert!(peer.is_open(), "it was active all the time");
    assert_eq!(peer.statistics().receiving.messages, words);
    let grown = resident_bytes().saturating_sub(resident_before);
    assert!(grown < 2 * 1024 * 1024, "{grown} bytes more");
}
