//! Promise 3: a send says what became of it.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline::{
    FlushError, IoThread, Link, LinkOptions, SendError, ServerOptions, Strategy, Tally,
};

use crate::common::*;

over! {
    reliable_says_full_only_to_try_send: tcp tls uds udp serial;
    besteffort_refuses_unless_it_was_given_time: tcp tls uds udp serial;
    keeplatest_evicts_the_oldest_and_never_waits: tcp tls uds udp serial;
    keeplatest_leaves_little_in_the_kernel: tcp tls;
    keeplatest_is_full_where_a_half_written_message_leaves_no_room: tcp tls uds serial;
    waiters_are_served_in_order: tcp tls uds udp serial;
    while_one_waits_nobody_overtakes: tcp tls uds udp serial;
    a_waiter_that_gives_up_lets_the_next_one_in: tcp tls uds udp serial;
    larger_than_the_queue_limit_is_too_large_always: tcp tls uds udp serial;
    larger_than_the_frame_limit_is_too_large_always: tcp tls uds udp serial;
    larger_than_a_datagram_is_too_large_always: udp;
    before_it_is_open_a_send_says_not_connected: tcp uds serial;
    before_it_is_open_a_servers_peer_says_not_connected: tcp tls uds udp;
    after_close_a_send_says_closed: tcp tls uds udp serial;
    in_a_callback_a_full_queue_is_flushed_once_before_would_deadlock: tcp tls uds;
    in_a_callback_of_another_thread_it_is_the_same: tcp tls uds;
    in_a_callback_flush_says_would_deadlock: tcp tls uds udp serial;
    an_empty_message_is_a_message: tcp tls uds udp serial;
}

/// A link with room for four messages of 100 bytes and not a byte more.
struct Four {
    io: IoThread,
    link: Link,
    peer: RawPeer,
}

impl Four {
    fn new(transport: Transport, strategy: Strategy) -> Self {
        let io = start();
        let options = LinkOptions {
            strategy,
            queue_limit_bytes: 4 * transport.encoded(100),
            ..framed(transport)
        };
        let (link, peer) = reach(&io, transport, options, recorder().0);
        Self { io, link, peer }
    }

    /// Queues these with the I/O thread held, so that nothing leaves until the gate opens.
    fn queue(&self, messages: &[Vec<u8>]) -> Gate {
        let (link, messages) = (self.link.clone(), messages.to_vec());
        let (gate, sent) = Gate::after(&self.io, move || {
            messages
                .iter()
                .try_for_each(|message| link.try_send(message))
        });
        assert_eq!(sent, Ok(()));
        gate
    }

    /// Sends on a thread of its own, and returns when that send waits.
    fn send_waiting(&self, message: &[u8]) -> thread::JoinHandle<Result<(), SendError>> {
        let waits = self.link.statistics().sending.waits;
        let (link, message) = (self.link.clone(), message.to_vec());
        let sending = thread::spawn(move || link.send(&message));
        until("the send waits", || {
            self.link.statistics().sending.waits > waits
        });
        sending
    }

    fn expect(&mut self, messages: &[Vec<u8>]) {
        for message in messages {
            assert_eq!(self.peer.read_message(), *message);
        }
    }
}

fn reliable_says_full_only_to_try_send(transport: Transport) {
    let mut four = Four::new(transport, Strategy::Reliable);
    let messages = numbered(5, 100);
    let gate = four.queue(&messages[..4]);
    assert_eq!(four.link.try_send(b"a"), Err(SendError::Full));
    assert_eq!(four.link.try_send(&messages[4]), Err(SendError::Full));
    let timed_out = four
        .link
        .send_timeout(&messages[4], Duration::from_millis(1));
    assert_eq!(timed_out, Err(SendError::TimedOut));
    let sending = four.send_waiting(&messages[4]);
    drop(gate);
    assert_eq!(sending.join().unwrap(), Ok(()));
    four.expect(&messages);
    let sending = four.link.statistics().sending;
    assert_eq!(sending.refused.messages, 2);
    assert_eq!(sending.waits, 2);
}

fn besteffort_refuses_unless_it_was_given_time(transport: Transport) {
    let mut four = Four::new(transport, Strategy::BestEffort);
    let messages = numbered(5, 100);
    let gate = four.queue(&messages[..4]);
    assert_eq!(four.link.try_send(&messages[4]), Err(SendError::Full));
    assert_eq!(four.link.send(&messages[4]), Err(SendError::Full));
    let timed_out = four
        .link
        .send_timeout(&messages[4], Duration::from_millis(1));
    assert_eq!(timed_out, Err(SendError::TimedOut));
    let (link, last) = (four.link.clone(), messages[4].clone());
    let sending = thread::spawn(move || link.send_timeout(&last, WATCHDOG));
    until("the send waits", || {
        four.link.statistics().sending.waits == 2
    });
    drop(gate);
    assert_eq!(sending.join().unwrap(), Ok(()));
    four.expect(&messages);
    let refused = four.link.statistics().sending.refused;
    let bytes = 2 * transport.encoded(100) as u64;
    assert_eq!(refused, Tally { messages: 2, bytes });
}

fn keeplatest_evicts_the_oldest_and_never_waits(transport: Transport) {
    let mut four = Four::new(transport, Strategy::KeepLatest);
    let messages = numbered(7, 100);
    let gate = four.queue(&messages[..4]);
    assert_eq!(four.link.try_send(&messages[4]), Ok(()));
    assert_eq!(four.link.send(&messages[5]), Ok(()));
    assert_eq!(four.link.send_timeout(&messages[6], WATCHDOG), Ok(()));
    drop(gate);
    four.expect(&messages[3..]);
    let sending = four.link.statistics().sending;
    let bytes = 3 * transport.encoded(100) as u64;
    assert_eq!(sending.discarded.evicted, Tally { messages: 3, bytes });
    assert_eq!(sending.waits, 0);
    assert_eq!(sending.refused.messages, 0);
}

/// Left alone, the kernel would take megabytes of samples, which nothing can make fresher. The peer's
/// receive buffer is small here, so what is taken waits on our side.
fn keeplatest_leaves_little_in_the_kernel(transport: Transport) {
    let io = start();
    let taken = |strategy| {
        let listener = RawListener::bind(transport).with_receive_buffer(4096);
        let options = LinkOptions {
            strategy,
            ..framed(transport)
        };
        let (link, _peer) = client_of_raw(&io, &listener, options, recorder().0);
        for message in numbered(50_000, 200) {
            let _ = link.try_send(&message);
        }
        let_turn(&io);
        link.statistics().sending.written.bytes
    };
    let fresh = taken(Strategy::KeepLatest);
    assert!(fresh < 300_000, "{fresh} bytes");
    assert!(
        taken(Strategy::BestEffort) > 2 * fresh,
        "or this shows nothing"
    );
}

/// The kernel's buffers take some of a large message. The rest of it can be neither evicted nor, for
/// want of room, be followed by another large one; but a small one fits, and evicts a small one.
fn keeplatest_is_full_where_a_half_written_message_leaves_no_room(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(8 * 1024);
    let options = LinkOptions {
        strategy: Strategy::KeepLatest,
        queue_limit_bytes: 1_000_000,
        send_buffer_bytes: transport.send_buffer(8 * 1024),
        ..framed(transport)
    };
    let (link, mut peer) = client_of_raw(&io, &listener, options, recorder().0);
    // Until `opened` has returned the first words are its own, and all others wait untouched.
    let_turn(&io);
    let large = vec![1; 900_000];
    assert_eq!(link.try_send(&large), Ok(()));
    let waiting = link.statistics().sending.waiting;
    assert!(
        waiting.messages == 1 && waiting.bytes > 500_000,
        "{waiting:?}"
    );
    assert_eq!(link.try_send(&large), Err(SendError::Full));
    assert_eq!(link.send(&large), Err(SendError::Full));
    assert_eq!(link.send_timeout(&large, WATCHDOG), Err(SendError::Full));
    assert_eq!(link.statistics().sending.discarded.evicted.messages, 0);
    let small = numbered(10, 90_000);
    for message in &small {
        assert_eq!(link.send(message), Ok(()));
    }
    assert_eq!(peer.read_frame(), large);
    let mut latest = peer.read_frame();
    while latest != small[9] {
        let next = peer.read_frame();
        assert!(next > latest, "the order is kept");
        latest = next;
    }
    assert!(link.statistics().sending.closes());
}

fn waiters_are_served_in_order(transport: Transport) {
    let mut four = Four::new(transport, Strategy::Reliable);
    let messages = numbered(12, 100);
    let gate = four.queue(&messages[..4]);
    let sending: Vec<_> = messages[4..]
        .iter()
        .map(|message| four.send_waiting(message))
        .collect();
    drop(gate);
    for sending in sending {
        assert_eq!(sending.join().unwrap(), Ok(()));
    }
    four.expect(&messages);
    let peak = four.link.statistics().sending.peak;
    let bytes = 4 * transport.encoded(100) as u64;
    assert_eq!(peak, Tally { messages: 4, bytes });
}

fn while_one_waits_nobody_overtakes(transport: Transport) {
    let mut four = Four::new(transport, Strategy::Reliable);
    let messages = numbered(3, 100);
    let large = vec![7; 300];
    let gate = four.queue(&messages);
    let sending = four.send_waiting(&large);
    // One more would fit, but somebody came first.
    assert_eq!(four.link.try_send(&messages[0]), Err(SendError::Full));
    let timed_out = four
        .link
        .send_timeout(&messages[0], Duration::from_millis(1));
    assert_eq!(timed_out, Err(SendError::TimedOut));
    drop(gate);
    assert_eq!(sending.join().unwrap(), Ok(()));
    four.expect(&messages);
    four.expect(&[large]);
}

fn a_waiter_that_gives_up_lets_the_next_one_in(transport: Transport) {
    let mut four = Four::new(transport, Strategy::Reliable);
    let messages = numbered(4, 100);
    let gate = four.queue(&messages[..3]);
    let (link, gave_up) = (four.link.clone(), mpsc::channel());
    thread::spawn(move || {
        // Long enough for the next one to stand in line behind it, and if not the test still holds.
        let sent = link.send_timeout(&[7; 300], Duration::from_millis(100));
        gave_up.0.send(sent).unwrap();
    });
    until("the large one waits", || {
        four.link.statistics().sending.waits == 1
    });
    // It fits beside the three: it waits only for the large one, and with the gate still shut.
    assert_eq!(four.link.send(&messages[3]), Ok(()));
    let gave_up = gave_up.1.recv_timeout(WATCHDOG).unwrap();
    assert_eq!(gave_up, Err(SendError::TimedOut));
    drop(gate);
    four.expect(&messages);
}

fn larger_than_the_queue_limit_is_too_large_always(transport: Transport) {
    for strategy in Strategy::ALL {
        let four = Four::new(transport, strategy);
        let most = 4 * transport.encoded(100) - transport.encoded(0);
        expect_too_large(&four, &vec![0; most + 1], most);
        assert_eq!(four.link.send(&vec![0; most]), Ok(()));
    }
}

fn larger_than_the_frame_limit_is_too_large_always(transport: Transport) {
    let io = start();
    let options = LinkOptions {
        frame_limit_bytes: 50,
        ..framed(transport)
    };
    let (link, mut peer) = reach(&io, transport, options, recorder().0);
    assert_eq!(link.send(&[0; 51]), Err(SendError::TooLarge { limit: 50 }));
    assert_eq!(link.send(&[1; 50]), Ok(()));
    assert_eq!(peer.read_message(), [1; 50]);
}

fn larger_than_a_datagram_is_too_large_always(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    let refused = Err(SendError::TooLarge { limit: 65_507 });
    assert_eq!(link.send(&[0; 65_508]), refused);
    assert_eq!(link.try_send(&[0; 100_000]), refused);
    assert_eq!(
        link.statistics().sending.write_calls,
        0,
        "the kernel never saw it"
    );
    assert_eq!(link.send(&[1; 65_507]), Ok(()));
    assert_eq!(peer.read_message(), [1; 65_507]);
}

/// With room, without room, and once it is closed: it would never fit.
fn expect_too_large(four: &Four, message: &[u8], limit: usize) {
    let refused = Err(SendError::TooLarge { limit });
    let gate = four.queue(&numbered(4, 100));
    assert_eq!(four.link.try_send(message), refused);
    assert_eq!(four.link.send(message), refused);
    assert_eq!(four.link.send_timeout(message, WATCHDOG), refused);
    drop(gate);
    four.link.flush(WATCHDOG).unwrap();
    assert_eq!(four.link.send(message), refused);
    let sending = four.link.statistics().sending;
    assert_eq!(sending.accepted.messages, 4, "nothing was evicted for it");
    assert_eq!(sending.written.messages, 4);
    assert_eq!(sending.refused.messages, 0);
}

fn before_it_is_open_a_send_says_not_connected(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let gate = hold(&io);
    let link = io
        .connect(&listener.address(), framed(transport), recorder().0)
        .unwrap();
    assert!(!link.is_open());
    assert_eq!(link.try_send(b"a"), Err(SendError::NotConnected));
    assert_eq!(link.send(b"a"), Err(SendError::NotConnected));
    assert_eq!(
        link.send_timeout(b"a", WATCHDOG),
        Err(SendError::NotConnected)
    );
    assert_eq!(link.flush(WATCHDOG), Err(FlushError::NotConnected));
    drop(gate);
    link.wait_open(WATCHDOG).unwrap();
    assert_eq!(link.send(b"a"), Ok(()));
}

/// The accept callback has the link in its hands before it is one. Over UDP what it sent was once
/// taken, and went nowhere.
fn before_it_is_open_a_servers_peer_says_not_connected(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let (tell, told) = mpsc::channel();
    let accept = move |peer: &Link| {
        let sent = [peer.send(b"a"), peer.try_send(b"a")];
        tell.send((sent, peer.clone())).unwrap();
        Ok(recorder().0)
    };
    let server = io.listen(&place.address, options, accept).unwrap();
    let (handler, inbox) = recorder();
    let link = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    let (sent, peer) = told.recv_timeout(WATCHDOG).unwrap();
    assert_eq!(sent, [Err(SendError::NotConnected); 2]);
    peer.wait_open(WATCHDOG).unwrap();
    assert_eq!(peer.send(b"now"), Ok(()));
    assert_eq!(inbox.expect_message(), b"now");
    assert_eq!(peer.statistics().sending.accepted.messages, 1);
}

fn after_close_a_send_says_closed(transport: Transport) {
    let io = start();
    for end in [
        |link: &Link| _ = link.close(WATCHDOG),
        |link: &Link| link.abort(),
        |link: &Link| link.finish(),
    ] {
        let (link, peer) = reach(&io, transport, framed(transport), recorder().0);
        drop(peer);
        end(&link);
        assert_eq!(link.try_send(b"a"), Err(SendError::Closed));
        assert_eq!(link.send(b"a"), Err(SendError::Closed));
        assert_eq!(link.send_timeout(b"a", WATCHDOG), Err(SendError::Closed));
    }
}

fn in_a_callback_a_full_queue_is_flushed_once_before_would_deadlock(transport: Transport) {
    let io = start();
    let (link, _peer) = narrow(&io, transport);
    let sender = link.clone();
    let outcome = inside_callback(&io, move || send_until_refused(&sender));
    expect_self_flushed(&link, outcome);
}

fn in_a_callback_of_another_thread_it_is_the_same(transport: Transport) {
    let (io, other) = (start(), start());
    let (link, _peer) = narrow(&io, transport);
    // Its own thread cannot help.
    let _gate = hold(&io);
    let sender = link.clone();
    let outcome = inside_callback(&other, move || send_until_refused(&sender));
    expect_self_flushed(&link, outcome);
}

/// A link whose peer does not read, with little room in the kernel and less in the queue.
fn narrow(io: &IoThread, transport: Transport) -> (Link, (RawListener, RawStream)) {
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 4096,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..framed(transport)
    };
    let (link, peer) = client_of_raw(io, &listener, options, recorder().0);
    (link, (listener, peer))
}

fn send_until_refused(link: &Link) -> (u64, Vec<SendError>) {
    let mut accepted = 0;
    let refused = loop {
        match link.send(&[0; 508]) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    let others = [
        link.send_timeout(&[0; 508], WATCHDOG).unwrap_err(),
        link.try_send(&[0; 508]).unwrap_err(),
    ];
    (accepted, [vec![refused], others.to_vec()].concat())
}

fn expect_self_flushed(link: &Link, (accepted, refused): (u64, Vec<SendError>)) {
    assert_eq!(
        refused,
        [
            SendError::WouldDeadlock,
            SendError::WouldDeadlock,
            SendError::Full
        ]
    );
    let sending = link.statistics().sending;
    assert_eq!(sending.accepted.messages, accepted);
    // The queue holds eight: what is more was written by the callback itself.
    assert!(sending.written.messages > 0, "{sending:?}");
    assert!(sending.waiting.bytes + 512 > 4096, "{sending:?}");
    assert!(
        sending.peak.bytes <= 4096 && sending.closes(),
        "{sending:?}"
    );
    assert_eq!(sending.waits, 0);
}

fn in_a_callback_flush_says_would_deadlock(transport: Transport) {
    let io = start();
    let (link, _peer) = reach(&io, transport, framed(transport), recorder().0);
    let flushed = inside_callback(&io, move || (link.flush(WATCHDOG), link.send(b"a")));
    assert_eq!(flushed, (Err(FlushError::WouldDeadlock), Ok(())));
}

fn an_empty_message_is_a_message(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    for message in [&b""[..], b"a", b""] {
        pair.client.send(message).unwrap();
        assert_eq!(pair.peer_inbox.expect_message(), message);
        pair.peer.send(message).unwrap();
        assert_eq!(pair.client_inbox.expect_message(), message);
    }
    until("both have counted what they were told", || {
        let ends = [&pair.client, &pair.peer];
        ends.map(|end| end.statistics().receiving.messages) >= [3, 3]
    });
}
