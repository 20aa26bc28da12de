//! Messages are handed out together where that was asked for: by number, bytes or age, whichever comes
//! first, and nothing is lost or mixed by it.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use tautline::{
    Batch, Batched, Closed, DirectLink, Event, Handler, Link, LinkOptions, Received, ServerOptions,
};

use crate::common::*;

over! {
    a_batch_is_handed_out_when_it_has_enough_messages: tcp tls uds udp serial;
    a_batch_never_holds_more_bytes_than_allowed_and_a_larger_message_goes_alone: tcp tls uds udp serial;
    the_age_of_its_first_message_hands_a_batch_out: tcp tls uds udp serial;
    what_was_gathered_comes_before_closed: tcp tls uds udp;
    what_was_gathered_comes_before_the_word_on_a_bad_frame: tcp tls uds serial;
    in_a_pause_a_batch_waits_for_the_end_of_it: tcp tls uds udp serial;
    the_peers_of_a_server_have_batches_of_their_own: tcp tls uds udp;
    a_handler_that_knows_no_batches_gets_each_message: tcp tls uds udp serial;
    an_abort_in_a_batch_ends_it: tcp tls uds udp serial;
    a_panic_in_a_batch_harms_that_link_alone: tcp tls uds udp serial;
}

/// What a handler with batches was told.
#[derive(Debug, PartialEq)]
enum Got {
    Batch(Vec<Vec<u8>>),
    Event,
    Closed,
}

struct Gatherer {
    got: Sender<Got>,
    /// Between the arrival of the oldest message and its call.
    oldest: Sender<Duration>,
}

fn gatherer() -> (Gatherer, Receiver<Got>, Receiver<Duration>) {
    let (got, inbox) = mpsc::channel();
    let (oldest, ages) = mpsc::channel();
    (Gatherer { got, oldest }, inbox, ages)
}

impl Handler for Gatherer {
    fn message(&mut self, _: &Link, _: &[u8], _: Received) {
        panic!("this handler takes batches");
    }

    fn batch(&mut self, _: &Link, batch: &Batched<'_>) {
        let times: Vec<Instant> = batch.iter().map(|(_, received)| received.at).collect();
        assert!(times.is_sorted());
        let messages: Vec<_> = batch.iter().map(|(message, _)| message.to_vec()).collect();
        assert_eq!(
            (batch.len(), batch.payload_bytes()),
            (messages.len(), messages.concat().len())
        );
        let _ = self.oldest.send(times[0].elapsed());
        let _ = self.got.send(Got::Batch(messages));
    }

    fn event(&mut self, _: &Link, _: &Event) {
        let _ = self.got.send(Got::Event);
    }

    fn closed(&mut self, _: &Link, _: &Closed) {
        let _ = self.got.send(Got::Closed);
    }
}

const LONG: Duration = Duration::from_secs(3600);

fn options(transport: Transport, messages: usize, bytes: usize, age: Duration) -> LinkOptions {
    LinkOptions {
        batch: Some(Batch {
            messages,
            bytes,
            age,
        }),
        ..framed(transport)
    }
}

/// A link with batches, and its raw peer.
fn link_to(
    io: &tautline::IoThread,
    transport: Transport,
    options: LinkOptions,
    handler: impl Handler,
) -> (Link, RawPeer) {
    if transport.is_stream() {
        let listener = RawListener::bind(transport);
        let link = io.connect(&listener.address(), options, handler).unwrap();
        let peer = RawPeer::Stream(listener.accept());
        link.wait_open(WATCHDOG).unwrap();
        return (link, peer);
    }
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = tautline::Address::udp(socket.local_addr().unwrap());
    let link = io.connect(&address, options, handler).unwrap();
    link.wait_open(WATCHDOG).unwrap();
    let Some(tautline::Address::Udp { host, port }) = link.local_address() else {
        panic!("an open UDP link has an address");
    };
    socket.connect((host.as_str(), port)).unwrap();
    (link, RawPeer::Datagram(socket))
}

fn next(inbox: &Receiver<Got>) -> Got {
    inbox.recv_timeout(WATCHDOG).unwrap()
}

fn batch_of(messages: &[Vec<u8>]) -> Got {
    Got::Batch(messages.to_vec())
}

fn a_batch_is_handed_out_when_it_has_enough_messages(transport: Transport) {
    let io = start();
    let (handler, inbox, _ages) = gatherer();
    let (link, mut peer) = link_to(
        &io,
        transport,
        options(transport, 4, 1 << 20, LONG),
        handler,
    );
    let messages = numbered(10, 100);
    for message in &messages {
        peer.write_message(message);
    }
    assert_eq!(next(&inbox), batch_of(&messages[..4]));
    assert_eq!(next(&inbox), batch_of(&messages[4..8]));
    until("the rest is read", || {
        link.statistics().receiving.wire_bytes == 10 * transport.encoded(100) as u64
    });
    let receiving = link.statistics().receiving;
    assert_eq!(receiving.messages, 8, "two are still gathered");
    assert_eq!(receiving.payload_bytes, 800);
    assert!(inbox.try_recv().is_err());
}

fn a_batch_never_holds_more_bytes_than_allowed_and_a_larger_message_goes_alone(
    transport: Transport,
) {
    let io = start();
    let (handler, inbox, _ages) = gatherer();
    let (_link, mut peer) = link_to(&io, transport, options(transport, 100, 250, LONG), handler);
    let small = numbered(6, 100);
    for message in &small[..3] {
        peer.write_message(message);
    }
    peer.write_message(&[9; 900]);
    peer.write_message(&small[3]);
    peer.write_message(&[8; 150]);
    assert_eq!(next(&inbox), batch_of(&small[..2]));
    assert_eq!(next(&inbox), batch_of(&small[2..3]));
    assert_eq!(next(&inbox), batch_of(&[vec![9; 900]]));
    // Exactly as many as allowed.
    assert_eq!(next(&inbox), batch_of(&[small[3].clone(), vec![8; 150]]));
}

fn the_age_of_its_first_message_hands_a_batch_out(transport: Transport) {
    let io = start();
    let age = Duration::from_millis(100);
    let (handler, inbox, ages) = gatherer();
    let (_link, mut peer) = link_to(
        &io,
        transport,
        options(transport, 100, 1 << 20, age),
        handler,
    );
    for round in 0..3 {
        let message = vec![round; 10];
        peer.write_message(&message);
        assert_eq!(next(&inbox), batch_of(&[message]));
        assert!(ages.recv().unwrap() >= age);
    }
}

fn what_was_gathered_comes_before_closed(transport: Transport) {
    let io = start();
    let (handler, inbox, _ages) = gatherer();
    let (link, mut peer) = link_to(
        &io,
        transport,
        options(transport, 100, 1 << 20, LONG),
        handler,
    );
    peer.write_message(b"one");
    peer.write_message(b"two");
    until("both are read", || {
        link.statistics().receiving.wire_bytes == 2 * transport.encoded(3) as u64
    });
    if let RawPeer::Stream(stream) = &peer {
        stream.end();
    } else {
        link.close(WATCHDOG);
    }
    assert_eq!(next(&inbox), batch_of(&[b"one".to_vec(), b"two".to_vec()]));
    assert_eq!(next(&inbox), Got::Closed);
    assert_eq!(link.statistics().receiving.messages, 2);
}

fn what_was_gathered_comes_before_the_word_on_a_bad_frame(transport: Transport) {
    let io = start();
    let (handler, inbox, _ages) = gatherer();
    let (_link, mut peer) = link_to(
        &io,
        transport,
        options(transport, 100, 1 << 20, LONG),
        handler,
    );
    peer.write_message(b"good");
    let RawPeer::Stream(stream) = &mut peer else {
        panic!("a stream");
    };
    std::io::Write::write_all(stream, &[0xff; 4]).unwrap();
    assert_eq!(next(&inbox), batch_of(&[b"good".to_vec()]));
    assert_eq!(next(&inbox), Got::Event);
    assert_eq!(next(&inbox), Got::Closed);
}

fn in_a_pause_a_batch_waits_for_the_end_of_it(transport: Transport) {
    let io = start();
    let age = Duration::from_millis(50);
    let (handler, inbox, ages) = gatherer();
    let (link, mut peer) = link_to(
        &io,
        transport,
        options(transport, 100, 1 << 20, age),
        handler,
    );
    // The thread is held, so that the pause comes between the reading and the time.
    let (reading, pausing) = (link.clone(), link.clone());
    peer.write_message(b"gathered");
    until("it is read", || {
        reading.statistics().receiving.wire_bytes > 0
    });
    let gate = hold(&io);
    pausing.pause_reading();
    let begun = Instant::now();
    until("it is old enough", || begun.elapsed() > 2 * age);
    drop(gate);
    let_turn(&io);
    // It may have been handed out before the pause: then the test has shown nothing, and goes on.
    let early = inbox.try_recv().is_ok();
    link.resume_reading();
    if !early {
        assert_eq!(next(&inbox), batch_of(&[b"gathered".to_vec()]));
        assert!(ages.recv().unwrap() > 2 * age);
    }
    peer.write_message(b"more");
    assert_eq!(next(&inbox), batch_of(&[b"more".to_vec()]));
}

fn the_peers_of_a_server_have_batches_of_their_own(transport: Transport) {
    let io = start();
    let server_io = start();
    let place = fresh(transport);
    let (inboxes, handlers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (handler, inbox, ages) = gatherer();
            ((inbox, ages), handler)
        })
        .unzip();
    let mut handlers = handlers.into_iter();
    let link = options(transport, 3, 1 << 20, LONG);
    let server_options = ServerOptions {
        link,
        ..ServerOptions::default()
    };
    let server = server_io
        .listen(&place.address, server_options, move |_: &Link| {
            handlers.next().ok_or_else(|| "no handler is left".into())
        })
        .unwrap();
    let clients: Vec<Link> = (0..2)
        .map(|number| {
            let address = server.local_address();
            let client = io
                .connect(&address, framed(transport), recorder().0)
                .unwrap();
            client.wait_open(WATCHDOG).unwrap();
            client.send(&[number, 0]).unwrap();
            until("it is a peer", || {
                server.peers().len() == usize::from(number) + 1
            });
            client
        })
        .collect();
    for round in 1..3 {
        for (number, client) in clients.iter().enumerate() {
            client.send(&[number as u8, round]).unwrap();
        }
    }
    for (number, (inbox, _ages)) in inboxes.iter().enumerate() {
        let own: Vec<Vec<u8>> = (0..3).map(|round| vec![number as u8, round]).collect();
        assert_eq!(next(inbox), batch_of(&own));
    }
    clients[0].send(b"last").unwrap();
    until("it is read", || {
        server.statistics().peers.receiving.wire_bytes
            == 6 * transport.encoded(2) as u64 + transport.encoded(4) as u64
    });
    server
        .peers()
        .into_iter()
        .for_each(|peer| _ = peer.close(Duration::ZERO));
    assert_eq!(next(&inboxes[0].0), batch_of(&[b"last".to_vec()]));
    assert_eq!(next(&inboxes[0].0), Got::Closed);
}

fn a_handler_that_knows_no_batches_gets_each_message(transport: Transport) {
    let pair = Pair::connect(
        transport,
        &framed(transport),
        &options(transport, 3, 1 << 20, Duration::from_millis(20)),
        recorder(),
        recorder(),
    );
    let messages = numbered(7, 50);
    for message in &messages {
        pair.client.send(message).unwrap();
    }
    pair.peer_inbox.expect_opened();
    if !transport.is_stream() {
        pair.peer_inbox.expect_message();
    }
    for message in &messages {
        assert_eq!(pair.peer_inbox.expect_message(), *message);
    }
}

fn an_abort_in_a_batch_ends_it(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Message(message, _) if message == b"stop") {
            link.abort();
        }
    });
    let (_link, mut peer) = link_to(
        &io,
        transport,
        options(transport, 3, 1 << 20, LONG),
        handler,
    );
    for message in ["first", "stop", "never"] {
        peer.write_message(message.as_bytes());
    }
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"first");
    assert_eq!(inbox.expect_message(), b"stop");
    inbox.expect_end();
}

fn a_panic_in_a_batch_harms_that_link_alone(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder_that(|_, told| {
        assert!(!matches!(told, Told::Message(..)), "as the test wants it");
    });
    let (_link, mut peer) = link_to(
        &io,
        transport,
        options(transport, 2, 1 << 20, LONG),
        handler,
    );
    peer.write_message(b"one");
    peer.write_message(b"two");
    let closed = inbox.skip_to_closed();
    assert!(matches!(closed.reason, tautline::Reason::Panicked));
    inside_callback(&io, || {});
}

#[test]
fn a_direct_link_refuses_batches_by_name() {
    let with_batch = options(tcp(), 4, 100, LONG);
    let error = DirectLink::connect(&nobody(), with_batch).unwrap_err();
    assert!(error.to_string().starts_with("batch: "), "{error}");
}
