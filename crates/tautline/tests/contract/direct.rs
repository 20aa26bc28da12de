//! The promises as a direct link keeps them: no thread, no queue but one message's rest.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tautline::{
    Address, Closer, DirectLink, DirectListener, ErrorKind, FrameFault, Link, LinkOptions,
    Received, RecvError, SendError, ServerOptions, Strategy, Tally,
};

use crate::common::*;

over! {
    both_ends_exchange_messages_of_every_length: tcp tls uds udp serial;
    it_speaks_with_links_that_have_a_thread: tcp uds udp;
    a_request_is_answered_while_it_is_in_use: tcp tls uds udp serial;
    nothing_by_the_deadline_is_a_timeout_and_changes_nothing: tcp tls uds udp serial;
    the_peers_end_is_told_after_what_it_sent: tcp tls uds;
    a_reset_is_told_with_its_reason: tcp tls uds;
    half_a_frame_and_then_the_end_is_counted: tcp tls uds;
    a_frame_that_announces_four_gigabytes_is_a_fault_and_stays_one: tcp tls uds serial;
    bytes_that_come_one_by_one_make_a_message: tcp tls uds serial;
    too_large_is_refused: tcp tls uds udp serial;
    a_peer_that_does_not_read_is_full_or_waited_for: tcp tls uds;
    keeplatest_replaces_only_what_is_untouched: tcp tls uds;
    a_reliable_send_waits_and_reads_meanwhile: tcp tls uds serial;
    what_was_read_ahead_is_received_in_order: tcp tls uds serial;
    a_peer_that_has_ended_its_side_still_gets_everything: tcp tls uds;
    a_send_that_finds_the_connection_broken_leaves_the_reason_to_recv: tcp tls uds serial;
    accounting_closes: tcp tls uds udp serial;
    a_closer_ends_a_receive_that_waits: tcp tls uds udp serial;
    a_closer_ends_a_send_that_waits: tcp tls uds;
    after_a_closer_everything_says_closed: tcp tls uds udp serial;
    dropped_it_flushes_once_and_the_peer_sees_the_end: tcp tls uds serial;
    the_networks_word_is_counted_and_no_error: udp;
    empty_datagrams_are_messages: udp;
    over_udp_the_first_peer_is_the_only_one: udp;
    a_listener_bound_to_everything_answers_from_where_it_was_asked: udp;
    accepting_has_a_deadline: tcp tls uds udp;
    where_nobody_listens_connecting_says_so: tcp tls uds serial;
    with_spin_it_does_the_same: tcp tls uds udp serial;
    a_new_listener_on_the_same_address_works_at_once: tcp tls uds udp;
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + WATCHDOG)
}

/// Both ends direct. Over UDP the client has said hello, which the server has received.
fn pair(transport: Transport, options: &LinkOptions) -> (DirectLink, DirectLink, Place) {
    if transport == Transport::Serial {
        let (place, there) = Cable::new().into_places();
        let client = DirectLink::connect(&place.address, options.clone()).unwrap();
        let server = DirectLink::connect(&there, options.clone()).unwrap();
        return (client, server, place);
    }
    let place = fresh(transport);
    let mut listener = DirectListener::bind(&place.address, options.clone()).unwrap();
    let (address, options) = (listener.local_address(), options.clone());
    // On a thread of its own: a handshake takes two.
    let connecting = thread::spawn(move || {
        let mut client = DirectLink::connect(&address, options).unwrap();
        if !transport.is_stream() {
            client.send(b"hello").unwrap();
        }
        client
    });
    let mut server = listener.accept(soon()).unwrap();
    let client = connecting.join().unwrap();
    if !transport.is_stream() {
        assert_eq!(server.recv(soon()).unwrap(), b"hello");
    }
    (client, server, place)
}

/// Ours direct, theirs raw.
fn beside_raw(transport: Transport, options: LinkOptions) -> (DirectLink, RawStream) {
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let address = listener.address();
    let connecting = thread::spawn(move || DirectLink::connect(&address, options).unwrap());
    let peer = listener.accept();
    (connecting.join().unwrap(), peer)
}

/// With little room in the kernel for what we send.
fn narrow(transport: Transport, strategy: Strategy) -> LinkOptions {
    LinkOptions {
        strategy,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..framed(transport)
    }
}

fn both_ends_exchange_messages_of_every_length(transport: Transport) {
    let (mut client, mut server, _place) = pair(transport, &framed(transport));
    let lengths: &[usize] = if transport.is_stream() {
        &[0, 1, 1000, 65_536, 200_000, 1_000_000]
    } else {
        &[0, 1, 1000, 65_507]
    };
    for &length in lengths {
        let message = vec![7; length];
        thread::scope(|scope| {
            scope.spawn(|| {
                let received = server.recv(soon()).unwrap().to_vec();
                server.send(&received).unwrap();
                // The rest of a large one goes out while it waits for more.
                assert_eq!(server.recv(soon()).unwrap(), b"thanks");
            });
            client.send(&message).unwrap();
            assert_eq!(client.recv(soon()).unwrap(), message);
            client.send(b"thanks").unwrap();
        });
    }
}

fn it_speaks_with_links_that_have_a_thread(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let echo =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let server = io.listen(&place.address, options, echo).unwrap();
    let mut direct = DirectLink::connect(&server.local_address(), framed(transport)).unwrap();
    for message in numbered(100, 1000) {
        direct.send(&message).unwrap();
        assert_eq!(direct.recv(soon()).unwrap(), message);
    }
    // And the other way round.
    let place = fresh(transport);
    let mut listener = DirectListener::bind(&place.address, framed(transport)).unwrap();
    let (handler, inbox) = recorder();
    let link = io
        .connect(&listener.local_address(), framed(transport), handler)
        .unwrap();
    inbox.expect_opened();
    link.send(b"question").unwrap();
    let mut server = listener.accept(soon()).unwrap();
    assert_eq!(server.recv(soon()).unwrap(), b"question");
    server.send(b"answer").unwrap();
    assert_eq!(inbox.expect_message(), b"answer");
}

fn a_request_is_answered_while_it_is_in_use(transport: Transport) {
    let (mut client, mut server, _place) = pair(transport, &framed(transport));
    for message in numbered(10, 100) {
        client.send(&message).unwrap();
        let request = server.request(soon()).unwrap();
        request.replies.send(request.message).unwrap();
        request.replies.send(b"and").unwrap();
        assert_eq!(request.message, message);
        assert_eq!(client.recv(soon()).unwrap(), message);
        assert_eq!(client.recv(soon()).unwrap(), b"and");
    }
}

fn nothing_by_the_deadline_is_a_timeout_and_changes_nothing(transport: Transport) {
    let (mut client, mut server, _place) = pair(transport, &framed(transport));
    for wait in [0, 5, 250] {
        let deadline = Instant::now() + Duration::from_millis(wait);
        let nothing = client.recv(Some(deadline));
        assert!(matches!(nothing, Err(RecvError::TimedOut)));
        assert!(Instant::now() >= deadline);
        server.send(b"now").unwrap();
        assert_eq!(client.recv(soon()).unwrap(), b"now");
    }
    // What is there already is received, however late it is.
    server.send(b"early").unwrap();
    let gone_by = Instant::now();
    until("it has come", || match client.recv(Some(gone_by)) {
        Ok(message) => message == b"early",
        Err(RecvError::TimedOut) => false,
        Err(other) => panic!("{other}"),
    });
}

fn the_peers_end_is_told_after_what_it_sent(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, framed(transport));
    for message in numbered(3, 100) {
        raw.write_frame(&message);
    }
    drop(raw);
    for message in numbered(3, 100) {
        assert_eq!(link.recv(soon()).unwrap(), message);
    }
    for _ in 0..3 {
        expect_closed(link.recv(soon()));
    }
}

fn a_reset_is_told_with_its_reason(transport: Transport) {
    let (mut link, raw) = beside_raw(transport, framed(transport));
    // Unread at its end, so that there is a reset on Unix sockets too.
    link.send(b"unread").unwrap();
    raw.vanish();
    let Err(RecvError::Failed(cause)) = link.recv(soon()) else {
        panic!("it broke");
    };
    assert_eq!(cause.kind(), io::ErrorKind::ConnectionReset);
    expect_closed(link.recv(soon()));
    until("sending says so too", || link.send(b"a").is_err());
    assert_eq!(link.send(b"a"), Err(SendError::NotConnected));
    assert!(link.statistics().sending.closes());
}

fn half_a_frame_and_then_the_end_is_counted(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, framed(transport));
    raw.write_all(&frame(&[7; 100])[..50]).unwrap();
    raw.end();
    for _ in 0..2 {
        expect_closed(link.recv(soon()));
    }
    let receiving = link.statistics().receiving;
    assert_eq!((receiving.faults, receiving.messages), (1, 0));
    assert_eq!(receiving.wire_bytes, 50);
}

fn a_frame_that_announces_four_gigabytes_is_a_fault_and_stays_one(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, framed(transport));
    raw.write_frame(b"good");
    raw.write_all(&[0xff; 10]).unwrap();
    assert_eq!(link.recv(soon()).unwrap(), b"good");
    for _ in 0..3 {
        let Err(RecvError::BadFrame(fault)) = link.recv(soon()) else {
            panic!("it is no frame");
        };
        let expected = FrameFault::TooLarge {
            announced_bytes: 4_294_967_295,
            limit_bytes: 1_048_576,
        };
        assert_eq!(fault, expected);
    }
    assert_eq!(link.statistics().receiving.faults, 1);
}

fn bytes_that_come_one_by_one_make_a_message(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, framed(transport));
    let bytes = frame(&[7; 20]);
    let (last, first) = bytes.split_last().unwrap();
    for byte in first {
        raw.write_all(&[*byte]).unwrap();
        let nothing = link.recv(Some(Instant::now()));
        assert!(matches!(nothing, Err(RecvError::TimedOut)));
    }
    raw.write_all(&[*last]).unwrap();
    assert_eq!(link.recv(soon()).unwrap(), [7; 20]);
}

fn too_large_is_refused(transport: Transport) {
    let (mut client, mut server, _place) = pair(
        transport,
        &LinkOptions {
            frame_limit_bytes: 500,
            ..framed(transport)
        },
    );
    let refused = Err(SendError::TooLarge { limit: 500 });
    assert_eq!(client.send(&[0; 501]), refused);
    assert_eq!(client.try_send(&[0; 501]), refused);
    assert_eq!(client.send_timeout(&[0; 501], WATCHDOG), refused);
    client.send(&[1; 500]).unwrap();
    assert_eq!(server.recv(soon()).unwrap(), [1; 500]);
    if !transport.is_stream() {
        let (mut client, ..) = pair(transport, &framed(transport));
        let refused = Err(SendError::TooLarge { limit: 65_507 });
        assert_eq!(client.send(&[0; 65_508]), refused);
    }
}

/// Sends until the kernel takes no more; returns how many messages it took, the last one in part.
fn fill(link: &mut DirectLink) -> u64 {
    let mut accepted = 0;
    while link.try_send(&[0; 1000]).is_ok() {
        accepted += 1;
    }
    assert_eq!(link.try_send(&[0; 1000]), Err(SendError::Full));
    accepted
}

fn a_peer_that_does_not_read_is_full_or_waited_for(transport: Transport) {
    let timed_out = Err(SendError::TimedOut);
    let short = Duration::from_millis(2);
    let (mut link, mut raw) = beside_raw(transport, narrow(transport, Strategy::Reliable));
    let accepted = fill(&mut link);
    assert_eq!(link.send_timeout(&[0; 1000], short), timed_out);
    let reading = thread::spawn(move || {
        for _ in 0..=accepted {
            assert_eq!(raw.read_frame(), [0; 1000]);
        }
        raw
    });
    assert_eq!(link.send(&[0; 1000]), Ok(()));
    // The rest of it goes out with whatever is called next.
    until("it is all written", || {
        let nothing = link.recv(Some(Instant::now() + short));
        assert!(matches!(nothing, Err(RecvError::TimedOut)));
        link.statistics().sending.waiting.is_zero()
    });
    reading.join().unwrap();

    let (mut link, _raw) = beside_raw(transport, narrow(transport, Strategy::BestEffort));
    fill(&mut link);
    assert_eq!(link.send(&[0; 1000]), Err(SendError::Full));
    assert_eq!(link.send_timeout(&[0; 1000], short), timed_out);
}

fn keeplatest_replaces_only_what_is_untouched(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, narrow(transport, Strategy::KeepLatest));
    let mut messages = numbered(3000, 1000).into_iter();
    // The kernel is full when a message waits, in part or whole.
    let mut sent = Vec::new();
    while link.statistics().sending.waiting.is_zero() {
        let message = messages.next().unwrap();
        link.send(&message).unwrap();
        sent.push(message);
    }
    let (message, later) = (messages.next().unwrap(), messages.next().unwrap());
    let outcome = link.send(&message);
    if outcome == Ok(()) {
        // Untouched: replaced, and this one by the next.
        sent.pop();
        link.send(&later).unwrap();
        sent.push(later);
    } else {
        // Begun: it has to be finished first.
        assert_eq!(outcome, Err(SendError::Full));
        assert_eq!(link.send(&later), Err(SendError::Full));
    }
    let reading = thread::spawn(move || {
        for message in sent {
            assert_eq!(raw.read_frame(), message);
        }
    });
    until("all is written", || {
        let _ = link.recv(Some(Instant::now()));
        link.statistics().sending.waiting.is_zero()
    });
    reading.join().unwrap();
    assert!(link.statistics().sending.closes());
}

/// Both ends send more than the kernel holds before either receives.
fn a_reliable_send_waits_and_reads_meanwhile(transport: Transport) {
    let (mut client, mut server, _place) = pair(transport, &narrow(transport, Strategy::Reliable));
    let exchange = |link: &mut DirectLink| {
        for message in numbered(500, 1000) {
            link.send(&message).unwrap();
        }
        for message in numbered(500, 1000) {
            assert_eq!(link.recv(soon()).unwrap(), message);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            exchange(&mut server);
            server.send(b"done").unwrap();
            assert_eq!(server.recv(soon()).unwrap(), b"done");
        });
        exchange(&mut client);
        client.send(b"done").unwrap();
        assert_eq!(client.recv(soon()).unwrap(), b"done");
    });
}

/// Some is in the receive buffer, some was read by a send that waited, some comes later.
fn what_was_read_ahead_is_received_in_order(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, narrow(transport, Strategy::Reliable));
    let messages = numbered(9, 100);
    let bytes: Vec<Vec<u8>> = messages.iter().map(|message| frame(message)).collect();
    // Three and a half at once: one is received, the others lie in the buffer.
    raw.write_all(&[&bytes[..3].concat()[..], &bytes[3][..50]].concat())
        .unwrap();
    assert_eq!(link.recv(soon()).unwrap(), messages[0]);
    fill(&mut link);
    // The other half, and two more and a half, come while a send waits.
    raw.write_all(&[&bytes[3][50..], &bytes[4..6].concat(), &bytes[6][..7]].concat())
        .unwrap();
    // TCP may find a little more room once more.
    until("a send waits in vain", || {
        let sent = link.send_timeout(&[0; 1000], Duration::from_millis(5));
        sent == Err(SendError::TimedOut)
    });
    raw.write_all(&[&bytes[6][7..], &bytes[7..].concat()[..]].concat())
        .unwrap();
    for message in &messages[1..] {
        assert_eq!(link.recv(soon()).unwrap(), *message);
    }
    let receiving = link.statistics().receiving;
    assert_eq!((receiving.messages, receiving.payload_bytes), (9, 900));
    assert_eq!(receiving.wire_bytes, 936);
}

/// "That was my question": it sends no more and reads the long answer slowly.
fn a_peer_that_has_ended_its_side_still_gets_everything(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, narrow(transport, Strategy::Reliable));
    raw.write_frame(b"question");
    raw.end();
    assert_eq!(link.recv(soon()).unwrap(), b"question");
    let messages = numbered(300, 1000);
    let expected = messages.clone();
    let (full, is_full) = mpsc::channel::<()>();
    let reading = thread::spawn(move || {
        // Not before the kernel is full and the end has been met by a send that waits.
        is_full.recv_timeout(WATCHDOG).unwrap();
        for message in expected {
            assert_eq!(raw.read_frame(), message);
        }
        raw.expect_cut_off();
    });
    let mut rest = messages.iter();
    let waiting = loop {
        let message = rest.next().unwrap();
        match link.send_timeout(message, Duration::from_millis(5)) {
            Ok(()) => {}
            Err(SendError::TimedOut) => break message,
            Err(other) => panic!("{other}"),
        }
    };
    full.send(()).unwrap();
    link.send(waiting).unwrap();
    for message in rest {
        link.send(message).unwrap();
    }
    // The last one's rest goes out with the next calls, and at the latest when the link is dropped.
    until("the last is written", || {
        expect_closed(link.recv(soon()));
        link.statistics().sending.waiting.is_zero()
    });
    drop(link);
    reading.join().unwrap();
}

fn a_send_that_finds_the_connection_broken_leaves_the_reason_to_recv(transport: Transport) {
    let (mut link, raw) = beside_raw(transport, narrow(transport, Strategy::Reliable));
    fill(&mut link);
    raw.vanish();
    assert_eq!(link.send(&[0; 1000]), Err(SendError::NotConnected));
    let Err(error) = link.recv(soon()) else {
        panic!("it broke");
    };
    assert!(matches!(error, RecvError::Failed(_)), "{error:?}");
    let sending = link.statistics().sending;
    assert!(sending.closes() && sending.waiting.is_zero());
    assert_eq!(sending.discarded.connection_lost.messages, 1);
}

fn accounting_closes(transport: Transport) {
    let (mut client, mut server, _place) = pair(transport, &framed(transport));
    for message in numbered(10, 100) {
        client.send(&message).unwrap();
        assert_eq!(server.recv(soon()).unwrap(), message);
    }
    let sending = client.statistics().sending;
    let hello = u64::from(!transport.is_stream());
    let whole = Tally {
        messages: 10 + hello,
        bytes: 10 * transport.encoded(100) as u64 + 5 * hello,
    };
    assert_eq!((sending.accepted, sending.written), (whole, whole));
    assert!(sending.closes());
    let receiving = server.statistics().receiving;
    assert_eq!(receiving.messages, whole.messages);
    assert_eq!(receiving.wire_bytes, whole.bytes);
    assert_eq!(receiving.payload_bytes, 1000 + 5 * hello);
}

/// Calls a closer once this thread, which is about to wait, sleeps.
fn close_when_asleep(closer: Closer) -> JoinHandle<()> {
    let waiting = own_thread_id();
    thread::spawn(move || {
        until("it waits", || is_asleep(waiting));
        closer.close();
    })
}

fn expect_closed(received: Result<&[u8], RecvError>) {
    match received {
        Err(RecvError::Closed) => {}
        // Over TLS an end without a goodbye is told as that: a peer that was cut off says none.
        Err(RecvError::Failed(cause)) if cause.to_string().contains("without TLS's goodbye") => {}
        other => panic!("expected that it is closed: {other:?}"),
    }
}

/// A cable that was pulled out is no end of a stream.
fn expect_gone(received: Result<&[u8], RecvError>) {
    match received {
        Err(RecvError::Failed(error)) => assert_eq!(error.kind(), io::ErrorKind::NotConnected),
        other => panic!("expected that it is gone: {other:?}"),
    }
}

fn a_closer_ends_a_receive_that_waits(transport: Transport) {
    for deadline in [None, soon()] {
        let (mut client, _server, _place) = pair(transport, &framed(transport));
        let closing = close_when_asleep(client.closer());
        expect_closed(client.recv(deadline));
        closing.join().unwrap();
        expect_closed(client.recv(deadline));
        assert_eq!(client.statistics().receiving.messages, 0);
    }
}

fn a_closer_ends_a_send_that_waits(transport: Transport) {
    let (mut link, _raw) = beside_raw(transport, narrow(transport, Strategy::Reliable));
    fill(&mut link);
    let closing = close_when_asleep(link.closer());
    assert_eq!(link.send(&[0; 1000]), Err(SendError::Closed));
    closing.join().unwrap();
    // What had no room will not be written any more.
    let sending = link.statistics().sending;
    assert_eq!(sending.waiting.messages, 0);
    assert!(sending.closes() && sending.discarded.closed.messages > 0);
}

fn after_a_closer_everything_says_closed(transport: Transport) {
    let (mut client, mut server, _place) = pair(transport, &framed(transport));
    let closer = client.closer();
    closer.clone().close();
    closer.close();
    assert_eq!(client.send(b"a"), Err(SendError::Closed));
    assert_eq!(client.try_send(b"a"), Err(SendError::Closed));
    assert_eq!(client.send_timeout(b"a", WATCHDOG), Err(SendError::Closed));
    expect_closed(client.recv(soon()));
    // A serial line has no end that could be told: the device is let go of with the link.
    if transport.is_stream() && transport != Transport::Serial {
        expect_closed(server.recv(soon()));
    }
    drop(client);
    if transport == Transport::Serial {
        expect_gone(server.recv(soon()));
    }
    // It may outlive the link.
    closer.close();
}

fn dropped_it_flushes_once_and_the_peer_sees_the_end(transport: Transport) {
    let (mut link, mut raw) = beside_raw(transport, narrow(transport, Strategy::Reliable));
    // A closer holds the socket, but not the connection.
    let _closer = link.closer();
    let accepted = fill(&mut link);
    let waiting = link.statistics().sending.waiting;
    assert_eq!(waiting.messages, 1);
    // Room for the rest, and all of it.
    let read = 3 * (accepted as usize / 4);
    for _ in 0..read {
        assert_eq!(raw.read_frame(), [0; 1000]);
    }
    drop(link);
    let rest = raw.read_to_the_end();
    assert_eq!(rest.len(), (accepted as usize - read) * 1004);
}

/// An address to which nobody is bound, nor will be while this is held.
fn nobody_at() -> (Address, UdpSocket) {
    // Connected to itself alone: what others send is refused as if nobody were there.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let own: SocketAddr = socket.local_addr().unwrap();
    socket.connect(own).unwrap();
    (Address::udp(own), socket)
}

fn the_networks_word_is_counted_and_no_error(_: Transport) {
    let (address, _reserved) = nobody_at();
    let mut link = DirectLink::connect(&address, LinkOptions::default()).unwrap();
    for times in 1..=3 {
        link.send(b"anybody?").unwrap();
        let nothing = link.recv(Some(Instant::now() + Duration::from_millis(5)));
        assert!(matches!(nothing, Err(RecvError::TimedOut)));
        assert_eq!(link.statistics().receiving.unreachable, times);
    }
    assert_eq!(link.statistics().sending.written.messages, 3);
}

fn empty_datagrams_are_messages(transport: Transport) {
    let (mut client, mut server, _place) = pair(transport, &framed(transport));
    for message in [&b""[..], b"a", b"", b""] {
        client.send(message).unwrap();
        assert_eq!(server.recv(soon()).unwrap(), message);
        server.send(message).unwrap();
        assert_eq!(client.recv(soon()).unwrap(), message);
    }
}

fn over_udp_the_first_peer_is_the_only_one(transport: Transport) {
    let place = fresh(transport);
    let mut listener = DirectListener::bind(&place.address, LinkOptions::default()).unwrap();
    let address = listener.local_address();
    let mut first = DirectLink::connect(&address, LinkOptions::default()).unwrap();
    let mut second = DirectLink::connect(&address, LinkOptions::default()).unwrap();
    // All of it is there before anybody is accepted.
    first.send(b"one").unwrap();
    second.send(b"not you").unwrap();
    first.send(b"two").unwrap();
    first.send(b"").unwrap();
    let mut server = listener.accept(soon()).unwrap();
    for message in [&b"one"[..], b"two", b""] {
        assert_eq!(server.recv(soon()).unwrap(), message);
    }
    second.send(b"still not you").unwrap();
    first.send(b"three").unwrap();
    assert_eq!(server.recv(soon()).unwrap(), b"three");
    assert_eq!(server.peer_address(), first.local_address());
    server.send(b"hello").unwrap();
    assert_eq!(first.recv(soon()).unwrap(), b"hello");
    let error = listener.accept(soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

fn a_listener_bound_to_everything_answers_from_where_it_was_asked(_: Transport) {
    for (everything, asked) in [
        ("udp://0.0.0.0:0", "127.0.0.2"),
        ("udp://[::]:0", "127.0.0.2"),
        ("udp://[::]:0", "[::1]"),
    ] {
        let everything = everything.parse().unwrap();
        let mut listener = DirectListener::bind(&everything, LinkOptions::default()).unwrap();
        let Address::Udp { port, .. } = listener.local_address() else {
            panic!("it is a datagram listener");
        };
        let asked: Address = format!("udp://{asked}:{port}").parse().unwrap();
        // Connected, so that an answer from anywhere else would not be received.
        let mut client = DirectLink::connect(&asked, LinkOptions::default()).unwrap();
        client.send(b"question").unwrap();
        let mut server = listener.accept(soon()).unwrap();
        assert_eq!(server.recv(soon()).unwrap(), b"question");
        for message in numbered(10, 10) {
            server.send(&message).unwrap();
            assert_eq!(client.recv(soon()).unwrap(), message);
            client.send(&message).unwrap();
            assert_eq!(server.recv(soon()).unwrap(), message);
        }
    }
}

fn accepting_has_a_deadline(transport: Transport) {
    let place = fresh(transport);
    let mut listener = DirectListener::bind(&place.address, framed(transport)).unwrap();
    for wait in [0, 5] {
        let deadline = Instant::now() + Duration::from_millis(wait);
        let error = listener.accept(Some(deadline)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(Instant::now() >= deadline);
    }
    let address = listener.local_address();
    let _client = says_hello(transport, &address);
    let mut server = listener.accept(soon()).unwrap();
    assert_eq!(server.recv(soon()).unwrap(), b"hello");
}

/// Connects and says so, on a thread of its own: a handshake takes two.
fn says_hello(transport: Transport, address: &Address) -> JoinHandle<DirectLink> {
    let address = address.clone();
    thread::spawn(move || {
        let mut client = DirectLink::connect(&address, framed(transport)).unwrap();
        client.send(b"hello").unwrap();
        client
    })
}

fn where_nobody_listens_connecting_says_so(transport: Transport) {
    let address = match transport {
        // What was listened on a moment ago; nothing else in these tests takes a port by its number.
        Transport::Tcp => RawListener::bind(transport).address(),
        _ => nobody(),
    };
    let error = DirectLink::connect(&address, LinkOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(
        error
            .to_string()
            .starts_with(&format!("connect to {address}: ")),
        "{error}"
    );
}

fn with_spin_it_does_the_same(transport: Transport) {
    let options = LinkOptions {
        spin: Duration::from_micros(50),
        ..framed(transport)
    };
    let (mut client, mut server, _place) = pair(transport, &options);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                let request = server.request(soon()).unwrap();
                request.replies.send(request.message).unwrap();
            }
        });
        for message in numbered(200, 100) {
            client.send(&message).unwrap();
            assert_eq!(client.recv(soon()).unwrap(), message);
        }
    });
    let nothing = client.recv(Some(Instant::now() + Duration::from_millis(5)));
    if transport.is_stream() {
        drop(server);
        assert!(matches!(nothing, Err(RecvError::TimedOut)));
        match transport {
            Transport::Serial => expect_gone(client.recv(soon())),
            Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Udp => {
                expect_closed(client.recv(soon()));
            }
        }
    } else {
        assert!(matches!(nothing, Err(RecvError::TimedOut)));
    }
}

fn a_new_listener_on_the_same_address_works_at_once(transport: Transport) {
    let mut place = fresh(transport);
    for _ in 0..10 {
        let mut listener = DirectListener::bind(&place.address, framed(transport)).unwrap();
        place.address = listener.local_address();
        let client = says_hello(transport, &place.address);
        let mut server = listener.accept(soon()).unwrap();
        assert_eq!(server.recv(soon()).unwrap(), b"hello");
        // Ours goes first, so that its end of the connection is the one that lingers.
        drop((server, listener));
        drop(client.join().unwrap());
    }
}

/// Somebody else connects, and sets what we have no option for.
#[test]
fn a_link_takes_over_a_stream_socket_that_somebody_else_connected() {
    let mut listener = DirectListener::bind(
        &"tcp://127.0.0.1:0".parse().unwrap(),
        LinkOptions::default(),
    )
    .unwrap();
    let address = listener.local_address();
    let port = address
        .to_string()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let socket = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let newcomer = listener.accept_newcomer(None).unwrap();
    assert!(newcomer.peer_address().is_some());
    let mut server = newcomer.open().unwrap();
    let mut client = DirectLink::over(socket.into(), &address, LinkOptions::default()).unwrap();
    client.send(b"over").unwrap();
    assert!(client.is_drained());
    assert_eq!(server.recv(None).unwrap(), b"over");

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let datagrams = "udp://127.0.0.1:1".parse().unwrap();
    let refused = DirectLink::over(socket.into(), &datagrams, LinkOptions::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "connect to udp://127.0.0.1:1: only stream sockets are taken over"
    );
}

#[test]
fn a_direct_listener_refuses_what_only_a_server_with_peers_can_do() {
    let options = ServerOptions {
        connection_limit: 1,
        ..ServerOptions::default()
    };
    let refused = DirectListener::bind_with(&"tcp://127.0.0.1:0".parse().unwrap(), &options);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "connection_limit: a DirectListener holds no peers; whoever accepts them counts them"
    );
}
