//! UDP: cookies, counts, and what is never answered.

use super::*;

#[test]
fn a_request_with_a_cookie_comes_back_and_says_how_many_came() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    let cookie = caller.greet();
    for (sequence, received) in [(0, 1), (1, 2), (3, 3), (3, 3), (2, 4)] {
        caller.send(Kind::Request, cookie, sequence, 64);
        let (header, payload) = caller.receive();
        assert_eq!(header.kind, Kind::Reply);
        assert_eq!((header.word, header.sequence), (received, sequence));
        assert_eq!(payload, [0x5a; 32]);
    }
    let counts = caller.counts(cookie);
    assert_eq!((counts.received_messages, counts.received_bytes), (4, 256));
    assert_eq!((counts.duplicates, counts.reordered), (1, 1));
    let summary = server.stop();
    assert_eq!((summary.clients, summary.messages), (1, 5));
    assert_eq!((summary.bytes, summary.dropped_datagrams), (320, 0));
}

#[test]
fn the_largest_and_the_smallest_datagram_come_back() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    let cookie = caller.greet();
    for length in [32, 65_507] {
        caller.send(Kind::Request, cookie, 0, length);
        assert_eq!(caller.receive().1.len(), length - 32);
    }
}

#[test]
fn items_are_counted_and_not_answered() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    let cookie = caller.greet();
    for sequence in 0..3 {
        caller.send(Kind::Item, cookie, sequence, 100);
    }
    // The first answer is that to the question.
    assert_eq!(caller.counts(cookie).received_messages, 3);
}

#[test]
fn what_is_damaged_is_laid_to_its_source_and_not_answered() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    let cookie = caller.greet();
    caller.send(Kind::Request, cookie, 0, 64);
    caller.receive();
    let mut damaged = vec![0; 64];
    Header {
        kind: Kind::Request,
        word: cookie,
        sequence: 1,
    }
    .write(&mut damaged);
    damaged[20] ^= 4;
    caller.socket.send(&damaged).unwrap();
    let counts = caller.counts(cookie);
    assert_eq!((counts.received_messages, counts.corrupted), (1, 1));
}

#[test]
fn a_damaged_payload_comes_back_for_the_client_to_judge() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    let cookie = caller.greet();
    let mut damaged = vec![0; 64];
    Header {
        kind: Kind::Request,
        word: cookie,
        sequence: 0,
    }
    .write(&mut damaged);
    damaged[40] ^= 4;
    caller.socket.send(&damaged).unwrap();
    let (header, payload) = caller.receive();
    assert_eq!((header.kind, payload[8]), (Kind::Reply, 4));
    assert_eq!(caller.counts(cookie).corrupted, 0);
}

#[test]
fn without_a_cookie_of_its_own_nobody_is_answered() {
    let server = start(&["udp://127.0.0.1:0"]);
    let (thief, caller) = (Caller::new(&server), Caller::new(&server));
    let stolen = caller.greet();
    for kind in [Kind::Request, Kind::Item, Kind::Question] {
        thief.send(kind, stolen, 0, HELLO_DATAGRAM_BYTES);
        thief.send(kind, 0, 0, HELLO_DATAGRAM_BYTES);
    }
    thief.socket.send(b"").unwrap();
    thief.socket.send(b"garbage").unwrap();
    thief.socket.send(&[0; 1_400]).unwrap();
    // The first answer that it gets is that to its hello.
    thief.greet();
    assert_eq!(server.stop().dropped_datagrams, 9);
}

#[test]
fn answers_are_never_answered() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    let cookie = caller.greet();
    for kind in [Kind::Welcome, Kind::Reply, Kind::Counts] {
        caller.send(kind, cookie, 0, HELLO_DATAGRAM_BYTES);
    }
    caller.greet();
    assert_eq!(server.stop().dropped_datagrams, 3);
}

#[test]
fn no_answer_is_longer_than_what_it_answers() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    let mut short = vec![0; HEADER_BYTES];
    short.extend(hello(Mode::Echo, 64).encode());
    Header {
        kind: Kind::Hello,
        word: 0,
        sequence: 0,
    }
    .write(&mut short);
    caller.socket.send(&short).unwrap();
    let cookie = caller.greet();
    caller.send(Kind::Question, cookie, 0, HEADER_BYTES);
    // A question without room for its answer is not answered, this one is.
    caller.counts(cookie);
    assert_eq!(server.stop().dropped_datagrams, 2);
}

#[test]
fn sizes_out_of_bounds_and_another_version_are_refused_in_words() {
    let server = start(&["udp://127.0.0.1:0"]);
    let caller = Caller::new(&server);
    for bytes in [0, 31, 65_508] {
        let (cookie, welcome) = caller.say_hello(&hello(Mode::Echo, bytes));
        let expected = format!("messages of {bytes} bytes: over udp they have 32 to 65507");
        assert_eq!((cookie, refusal(welcome)), (0, expected));
    }
    assert!(notice(&server).starts_with("refused udp://127.0.0.1:"));
}

#[test]
fn two_servers_cannot_be_made_to_answer_each_other() {
    let (left, right) = (start(&["udp://127.0.0.1:0"]), start(&["udp://127.0.0.1:0"]));
    let port = |server: &Server| port_of(&server.addresses()[0]);
    // What each would send, as if the other one had asked: forged through its own socket.
    let forged_from = |server: &Server| server.sockets[0].clone();
    let right_socket = SocketAddr::from(([127, 0, 0, 1], port(&right)));
    let left_socket = SocketAddr::from(([127, 0, 0, 1], port(&left)));
    for (from, to) in [
        (forged_from(&left), right_socket),
        (forged_from(&right), left_socket),
    ] {
        for kind in [Kind::Hello, Kind::Request, Kind::Reply, Kind::Question] {
            let mut datagram = vec![0; HEADER_BYTES];
            datagram.extend(hello(Mode::Echo, 64).encode());
            datagram.resize(HELLO_DATAGRAM_BYTES, 0);
            Header {
                kind,
                word: 0,
                sequence: 0,
            }
            .write(&mut datagram);
            from.send_as_if_asked(&datagram, to);
        }
    }
    // Each has handled all of it when it answers us; one welcome went each way, and was dropped.
    for (server, address) in [(&left, left_socket), (&right, right_socket)] {
        let caller = Caller::to(address);
        let dropped = &server.clients.totals().dropped_datagrams;
        // Request, Reply, Question and the other one's Welcome.
        while dropped.load(std::sync::atomic::Ordering::Relaxed) < 4 {
            caller.greet();
        }
    }
    for server in [left, right] {
        let summary = server.stop();
        assert_eq!(summary.dropped_datagrams, 4);
        assert_eq!(summary.messages, 0);
    }
}

#[test]
fn a_server_of_every_address_answers_from_the_one_that_was_asked() {
    for everywhere in ["udp://[::]:0", "udp://0.0.0.0:0"] {
        let Ok(server) = Server::start(plan(&[everywhere])) else {
            println!("skipped: no {everywhere} here");
            continue;
        };
        let port = port_of(&server.addresses()[0]);
        // The socket is connected: an answer from another address would not be received.
        let caller = Caller::to(SocketAddr::from(([127, 0, 0, 2], port)));
        let cookie = caller.greet();
        caller.send(Kind::Request, cookie, 0, 64);
        assert_eq!(caller.receive().0.kind, Kind::Reply);
    }
}

#[test]
fn a_held_reply_is_never_early() {
    let mut plan = plan(&["udp://127.0.0.1:0"]);
    plan.reply_delay = Duration::from_millis(20);
    let server = Server::start(plan).unwrap();
    let caller = Caller::new(&server);
    let cookie = caller.greet();
    let sent = Instant::now();
    for sequence in 0..3 {
        caller.send(Kind::Request, cookie, sequence, 64);
    }
    for sequence in 0..3 {
        assert_eq!(caller.receive().0.sequence, sequence);
        assert!(sent.elapsed() >= Duration::from_millis(20));
    }
}
