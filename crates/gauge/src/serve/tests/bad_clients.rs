//! Clients that stall, flood, send garbage, half a message, or come in crowds.

use std::thread;

use super::*;

/// Whoever else does what, this one is served.
fn is_served(server: &Server) {
    let mut stream = connect(server);
    assert_eq!(greet(&mut stream, Mode::Echo, 4).refusal, None);
    exchange(&mut stream, b"abcd");
}

fn start_with(limits: Limits) -> Server {
    Server::start(ServePlan {
        limits,
        ..plan(&["tcp://127.0.0.1:0"])
    })
    .unwrap()
}

#[test]
fn garbage_is_refused_in_words_on_both_sides() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let why = refusal(Welcome::decode(&read_frame(&mut stream)).unwrap());
    assert!(why.contains("no client of `tautline serve`"), "{why}");
    let notice = notice(&server);
    assert!(notice.starts_with("refused tcp://127.0.0.1:"), "{notice}");
    assert!(notice.ends_with(&why), "{notice}");
    is_served(&server);
    assert_eq!(server.stop().refused, 1);
}

#[test]
fn four_gigabytes_announced_cost_nothing() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    stream.write_all(&u32::MAX.to_be_bytes()).unwrap();
    let why = refusal(Welcome::decode(&read_frame(&mut stream)).unwrap());
    assert!(why.contains("a length of 4294967295 bytes"), "{why}");
    is_served(&server);
}

#[test]
fn another_version_is_told_on_both_sides() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    let mut body = hello(Mode::Echo, 64).encode();
    body[4] = 9;
    stream.write_all(&hello::frame(body)).unwrap();
    let answer = read_frame(&mut stream);
    let sentence = "it speaks version 9 of the protocol, this program version 1";
    assert_eq!(refusal(Welcome::decode(&answer).unwrap()), sentence);
    assert!(notice(&server).ends_with(sentence));
    // A client of that version reads of ours in the answer.
    let mut theirs = answer;
    theirs[4] = 8;
    let read = Welcome::decode(&theirs);
    assert_eq!(read, Err(WireError::Version { theirs: 8 }));
}

#[test]
fn sizes_out_of_bounds_are_refused() {
    let server = start(&["tcp://127.0.0.1:0"]);
    for (mode, bytes) in [(Mode::Echo, 0), (Mode::Echo, u32::MAX), (Mode::Sink, 15)] {
        let why = refusal(greet(&mut connect(&server), mode, bytes));
        assert!(
            why.starts_with(&format!("messages of {bytes} bytes")),
            "{why}"
        );
    }
}

#[test]
fn half_a_hello_is_closed_after_its_time_and_explained() {
    let server = start_with(Limits {
        hello: Duration::from_millis(50),
        ..Limits::default()
    });
    let mut silent = connect(&server);
    let mut half = connect(&server);
    half.write_all(&[0, 0]).unwrap();
    assert_eq!(read_to_end(&mut silent), b"");
    read_to_end(&mut half);
    let said = [notice(&server), notice(&server), notice(&server)];
    let closed = "it has not said what it wants within 50ms";
    assert_eq!(said.iter().filter(|line| line.ends_with(closed)).count(), 2);
}

#[test]
fn a_client_that_does_not_take_its_replies_costs_the_others_nothing() {
    let server = start_with(Limits {
        stalled: Duration::from_millis(300),
        ..Limits::default()
    });
    let mut flood = connect(&server);
    greet(&mut flood, Mode::Echo, 65_536);
    // Until nobody takes any more; then the server gives it up, and a write fails.
    let flooding = thread::spawn(move || {
        let block = vec![1; 65_536];
        while flood.write_all(&block).is_ok() {}
    });
    is_served(&server);
    let notice = notice(&server);
    assert!(notice.starts_with("closed tcp://127.0.0.1:"), "{notice}");
    assert!(
        notice.ends_with("it has not taken its replies for 300ms"),
        "{notice}"
    );
    flooding.join().unwrap();
    is_served(&server);
}

#[test]
fn a_silent_client_is_closed_after_its_time() {
    let server = start_with(Limits {
        idle: Duration::from_millis(50),
        ..Limits::default()
    });
    let mut stream = connect(&server);
    greet(&mut stream, Mode::Echo, 4);
    assert_eq!(read_to_end(&mut stream), b"");
    assert!(notice(&server).ends_with("it has sent nothing for 50ms"));
}

#[test]
fn half_a_message_of_one_client_leaves_the_others_alone() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut half = connect(&server);
    half.write_all(&[0xd0, 0x14]).unwrap();
    let mut other_half = connect(&server);
    greet(&mut other_half, Mode::Sink, 1_000);
    other_half.write_all(&[0, 0, 3]).unwrap();
    is_served(&server);
}

#[test]
fn one_client_beyond_the_limit_is_told_so_and_has_room_when_another_has_left() {
    let server = start_with(Limits {
        clients: 2,
        ..Limits::default()
    });
    let mut first = connect(&server);
    greet(&mut first, Mode::Echo, 4);
    let mut second = connect(&server);
    greet(&mut second, Mode::Echo, 4);
    let why = refusal(greet(&mut connect(&server), Mode::Echo, 4));
    assert_eq!(why, "no more than 2 clients at a time");
    assert!(notice(&server).ends_with(&why));
    exchange(&mut first, b"abcd");
    drop(second);
    let mut third = loop {
        let mut third = connect(&server);
        if greet(&mut third, Mode::Echo, 4).refusal.is_none() {
            break third;
        }
    };
    exchange(&mut third, b"abcd");
}

#[test]
fn a_thousand_and_twenty_four_clients_are_served_and_one_more_is_not() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut crowd: Vec<_> = (0..1_024)
        .map(|_| {
            let mut stream = connect(&server);
            assert_eq!(greet(&mut stream, Mode::Echo, 4).refusal, None);
            stream
        })
        .collect();
    let why = refusal(greet(&mut connect(&server), Mode::Echo, 4));
    assert_eq!(why, "no more than 1024 clients at a time");
    for stream in &mut crowd {
        exchange(stream, b"abcd");
    }
    let summary = server.stop();
    assert_eq!((summary.clients, summary.refused), (1_024, 1));
    assert_eq!(summary.threads_left, 0);
}

#[test]
fn whoever_is_not_allowed_is_told_so() {
    let server = Server::start(ServePlan {
        allow: vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()],
        ..plan(&["tcp://127.0.0.1:0", "udp://127.0.0.1:0"])
    })
    .unwrap();
    let why = refusal(greet(&mut connect(&server), Mode::Echo, 4));
    assert!(why.ends_with("(--allow)"), "{why}");
    let (cookie, welcome) = Caller::new(&server).say_hello(&hello(Mode::Echo, 64));
    assert_eq!((cookie, refusal(welcome)), (0, why));
    assert_eq!(server.stop().refused, 2);
}

#[test]
fn an_absurd_frame_ends_a_one_way_client() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    greet(&mut stream, Mode::Sink, 1_000);
    stream.write_all(&[0xff; 64]).unwrap();
    read_to_end(&mut stream);
    let notice = notice(&server);
    assert!(
        notice.ends_with("it announced a message of 4294967295 bytes, agreed were 1000"),
        "{notice}"
    );
}

#[test]
fn too_many_notices_are_counted_instead() {
    let server = start(&["tcp://127.0.0.1:0"]);
    for _ in 0..100 {
        refusal(greet(&mut connect(&server), Mode::Echo, 0));
    }
    server.clients.notices().end();
    let mut lines = 0;
    server.wait(&mut |_| lines += 1);
    assert!(lines >= 20, "{lines}");
    assert_eq!(server.stop().refused, 100);
}
