//! Good clients over TCP and Unix sockets.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;
use crate::probe;

#[test]
fn every_byte_comes_back_after_a_hello() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    let welcome = greet(&mut stream, Mode::Echo, 64);
    assert_eq!(welcome.refusal, None);
    let ours = PeerRecord::of(&Environment::read());
    assert_eq!(welcome.record.same_host(&ours), Some(true));
    for round in 0..100 {
        exchange(&mut stream, &[round; 64]);
    }
    drop(stream);
    let summary = stopped_after_all_left(server);
    assert_eq!((summary.clients, summary.refused), (1, 0));
    assert_eq!((summary.messages, summary.bytes), (100, 6_400));
}

#[test]
fn messages_larger_than_any_buffer_come_back() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    assert_eq!(greet(&mut stream, Mode::Echo, 8_000_000).refusal, None);
    let message: Vec<u8> = (0..8_000_000_u32).map(|at| (at * 7) as u8).collect();
    // The server has no room for all of it: it has to be read while it is written.
    let mut writing = stream.try_clone().unwrap();
    let mut back = vec![0; message.len()];
    thread::scope(|scope| {
        scope.spawn(|| writing.write_all(&message).unwrap());
        stream.read_exact(&mut back).unwrap();
    });
    assert!(back == message);
}

#[test]
fn bytes_sent_behind_the_hello_at_once_are_the_first_message() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    let mut bytes = hello::frame(hello(Mode::Echo, 4).encode());
    bytes.extend(b"abcd");
    stream.write_all(&bytes).unwrap();
    assert_eq!(
        Welcome::decode(&read_frame(&mut stream)).unwrap().refusal,
        None
    );
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"abcd");
}

#[test]
fn lagscope_senders_of_any_size_are_echoed() {
    let server = start(&["tcp://127.0.0.1:0"]);
    for size in [1, 2, 3, 4, 5, 64, 65_536, 300_000] {
        let mut stream = connect(&server);
        let mut message = vec![0x77; size];
        let start = [0xd0, 0x14, 0, 0];
        let length = size.min(4);
        message[..length].copy_from_slice(&start[..length]);
        exchange(&mut stream, &message);
        // The number of the ping follows, which may look like anything.
        for number in 0..3_u8 {
            message[0] = number;
            exchange(&mut stream, &message);
        }
    }
}

#[test]
fn unix_sockets_are_served_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let server = start(&[&format!("uds://{}", path.display())]);
    let mut stream = UnixStream::connect(&path).unwrap();
    assert_eq!(greet(&mut stream, Mode::Echo, 16).refusal, None);
    exchange(&mut stream, &[9; 16]);
    server.stop();
    assert!(!path.exists());
    assert_eq!(read_to_end(&mut stream), b"");
}

#[test]
fn one_way_messages_are_counted_and_told_at_the_end() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let mut stream = connect(&server);
    assert_eq!(greet(&mut stream, Mode::Sink, 32).refusal, None);
    for sequence in [0, 1, 3, 2, 2] {
        let mut message = vec![0; 4 + 32];
        message[3] = 32;
        probe::stamp(&mut message[4..], sequence);
        stream.write_all(&message).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let counts = Counts::decode(&read_frame(&mut stream)).unwrap();
    assert_eq!((counts.received_messages, counts.received_bytes), (4, 128));
    assert_eq!((counts.duplicates, counts.reordered), (1, 1));
    assert_eq!(counts.corrupted, 0);
    assert_eq!(read_to_end(&mut stream), b"");
}

#[test]
fn a_held_reply_is_never_early_and_keeps_its_order() {
    let mut plan = plan(&["tcp://127.0.0.1:0"]);
    plan.reply_delay = Duration::from_millis(20);
    let server = Server::start(plan).unwrap();
    let mut stream = connect(&server);
    assert_eq!(greet(&mut stream, Mode::Echo, 4).refusal, None);
    // Half a message first: it is held from its last byte on.
    stream.write_all(b"ab").unwrap();
    let sent = Instant::now();
    stream.write_all(b"cdefgh").unwrap();
    let mut back = [0; 8];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"abcdefgh");
    assert!(sent.elapsed() >= Duration::from_millis(20));
}

#[test]
fn what_is_held_when_the_client_ends_its_side_still_comes() {
    let mut plan = plan(&["tcp://127.0.0.1:0"]);
    plan.reply_delay = Duration::from_millis(20);
    let server = Server::start(plan).unwrap();
    let mut stream = connect(&server);
    assert_eq!(greet(&mut stream, Mode::Echo, 4).refusal, None);
    stream.write_all(b"abcd").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), b"abcd");
}

#[test]
fn with_a_delay_huge_messages_are_refused_because_they_would_be_kept() {
    let mut plan = plan(&["tcp://127.0.0.1:0"]);
    plan.reply_delay = Duration::from_millis(1);
    let server = Server::start(plan).unwrap();
    let why = refusal(greet(&mut connect(&server), Mode::Echo, 1_048_577));
    assert_eq!(
        why,
        "messages of 1048577 bytes: those that are echoed have 1 to 1048576 here"
    );
}

#[test]
fn once_ends_when_the_clients_have_left() {
    let mut plan = plan(&["tcp://127.0.0.1:0"]);
    plan.once = true;
    let server = Server::start(plan).unwrap();
    let mut first = connect(&server);
    greet(&mut first, Mode::Echo, 4);
    let mut second = connect(&server);
    greet(&mut second, Mode::Echo, 4);
    exchange(&mut first, b"abcd");
    drop(first);
    exchange(&mut second, b"abcd");
    drop(second);
    server.wait(&mut |notice| panic!("{notice}"));
    assert_eq!(server.stop().clients, 2);
}

#[test]
fn an_ender_ends_the_wait() {
    let server = start(&["tcp://127.0.0.1:0"]);
    let ender = server.ender();
    let ending = thread::spawn(move || ender.end());
    server.wait(&mut |notice| panic!("{notice}"));
    ending.join().unwrap();
    let summary = server.stop();
    assert_eq!((summary.clients, summary.threads_left), (0, 0));
}

#[test]
fn everything_at_once_on_ports_of_the_kernels_choice() {
    let folder = tempfile::tempdir().unwrap();
    let uds = format!("uds://{}", folder.path().join("s").display());
    let server = start(&["tcp://127.0.0.1:0", "udp://127.0.0.1:0", &uds]);
    let schemes: Vec<_> = server.addresses().iter().map(Address::scheme).collect();
    assert_eq!(schemes, ["tcp", "uds", "udp"]);
    assert!(port_of(&server.addresses()[0]) > 0);
    assert!(port_of(&server.addresses()[2]) > 0);
}

#[test]
fn a_port_in_use_is_explained_and_nothing_stays_behind() {
    let taken = start(&["tcp://127.0.0.1:0", "udp://127.0.0.1:0"]);
    for address in taken.addresses() {
        let error = Server::start(ServePlan {
            addresses: vec!["tcp://127.0.0.1:0".parse().unwrap(), address.clone()],
            ..ServePlan::default()
        })
        .unwrap_err()
        .to_string();
        let who = ["held by this process itself", "another process listens"];
        assert!(who.iter().any(|who| error.contains(who)), "{error}");
        assert!(error.contains(&address.to_string()), "{error}");
    }
}

/// Stops once the server has noticed that its clients have left, so that all is counted.
fn stopped_after_all_left(server: Server) -> ServeSummary {
    while server.clients.is_occupied() {
        thread::yield_now();
    }
    server.stop()
}
