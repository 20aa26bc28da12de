//! Promises 4 and 14: everything has a limit, and the limit is exact.

use std::fs::File;
use std::thread;

use tautline::{Link, LinkOptions, Received, SendError, ServerOptions, Strategy, Tally};

use crate::common::*;

over! {
    the_queue_holds_as_many_bytes_as_its_limit_says_and_not_one_more: tcp tls uds udp serial;
    the_queue_holds_as_many_messages_as_its_limit_says_and_not_one_more: tcp tls uds udp serial;
    no_number_of_threads_brings_the_queue_above_its_limits: tcp tls uds udp serial;
    what_the_kernel_took_of_a_half_written_message_counts_no_more: tcp tls uds serial;
    a_servers_total_refuses_first_who_holds_most: tcp tls uds;
    a_servers_total_is_given_back_by_peers_that_end: tcp tls uds;
    a_message_larger_than_the_servers_total_is_too_large: tcp tls uds;
    one_peer_too_many_is_turned_away_until_another_leaves: tcp uds;
    without_descriptors_accepting_backs_off_and_recovers: tcp tls uds;
}

fn the_queue_holds_as_many_bytes_as_its_limit_says_and_not_one_more(transport: Transport) {
    for strategy in [Strategy::Reliable, Strategy::BestEffort] {
        let io = start();
        let options = LinkOptions {
            strategy,
            queue_limit_bytes: 1000,
            ..framed(transport)
        };
        let (link, mut peer) = reach(&io, transport, options, recorder().0);
        let (sender, header) = (link.clone(), transport.encoded(0));
        let (gate, sent) = Gate::after(&io, move || {
            [
                sender.try_send(&vec![1; 400 - header]),
                sender.try_send(&vec![2; 601 - header]),
                sender.try_send(&vec![2; 600 - header]),
                sender.try_send(&vec![3; 4 - header.min(4)]),
            ]
        });
        // An empty datagram weighs nothing, and only its number counts.
        let last = if transport.is_stream() {
            Err(SendError::Full)
        } else {
            Ok(())
        };
        let full = Err(SendError::Full);
        if transport.is_stream() {
            assert_eq!(sent, [Ok(()), full, Ok(()), last]);
        } else {
            assert_eq!(sent[..3], [Ok(()), full, Ok(())]);
            assert_eq!(link.try_send(b"a"), full);
        }
        let sending = link.statistics().sending;
        let (messages, bytes) = (2, 1000);
        assert_eq!(sending.waiting, Tally { messages, bytes });
        assert_eq!(sending.peak, Tally { messages, bytes });
        drop(gate);
        assert_eq!(peer.read_message(), vec![1; 400 - header]);
        assert_eq!(peer.read_message(), vec![2; 600 - header]);
    }
}

fn the_queue_holds_as_many_messages_as_its_limit_says_and_not_one_more(transport: Transport) {
    let io = start();
    let options = LinkOptions {
        queue_limit_messages: 3,
        ..framed(transport)
    };
    let (link, mut peer) = reach(&io, transport, options, recorder().0);
    let messages = numbered(4, 10);
    let (sender, offered) = (link.clone(), messages.clone());
    let (gate, sent) = Gate::after(&io, move || {
        offered
            .iter()
            .map(|message| sender.try_send(message))
            .collect::<Vec<_>>()
    });
    assert_eq!(sent, [Ok(()), Ok(()), Ok(()), Err(SendError::Full)]);
    assert_eq!(link.statistics().sending.peak.messages, 3);
    drop(gate);
    for message in &messages[..3] {
        assert_eq!(peer.read_message(), *message);
    }
    assert_eq!(link.send(&messages[3]), Ok(()));
    assert_eq!(peer.read_message(), messages[3]);
}

fn no_number_of_threads_brings_the_queue_above_its_limits(transport: Transport) {
    for strategy in Strategy::ALL {
        let pair = Pair::open(
            transport,
            &LinkOptions {
                strategy,
                queue_limit_bytes: 3000,
                queue_limit_messages: 20,
                ..framed(transport)
            },
        );
        thread::scope(|scope| {
            for thread in 0..8 {
                let link = &pair.client;
                scope.spawn(move || send_of_all_sizes(link, thread));
            }
        });
        pair.client.flush(WATCHDOG).unwrap();
        let sending = pair.client.statistics().sending;
        assert!(sending.peak.bytes <= 3000, "{strategy}: {sending:?}");
        assert!(sending.peak.messages <= 20, "{strategy}: {sending:?}");
        assert!(sending.closes() && sending.waiting.is_zero());
        if strategy == Strategy::Reliable {
            let greeting = u64::from(!transport.is_stream());
            assert_eq!(sending.written.messages, 8 * 500 + greeting);
        }
    }
}

fn send_of_all_sizes(link: &Link, thread: usize) {
    for round in 0..500 {
        let message = vec![thread as u8; (thread * 131 + round * 37) % 400];
        match link.send(&message) {
            Ok(()) | Err(SendError::Full) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

fn what_the_kernel_took_of_a_half_written_message_counts_no_more(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(8 * 1024);
    let options = LinkOptions {
        queue_limit_bytes: 1_000_000,
        send_buffer_bytes: transport.send_buffer(8 * 1024),
        ..framed(transport)
    };
    let (link, mut peer) = client_of_raw(&io, &listener, options, recorder().0);
    link.send(&vec![1; 999_996]).unwrap();
    let sending = link.statistics().sending;
    assert!(sending.written.bytes > 0 && sending.written.messages == 0);
    assert_eq!(sending.written.bytes + sending.waiting.bytes, 1_000_000);
    assert_eq!(sending.peak.bytes, 1_000_000);
    // There is room again for just what the kernel took.
    let freed = sending.written.bytes as usize;
    assert_eq!(link.try_send(&vec![2; freed - 4]), Ok(()));
    let sending = link.statistics().sending;
    assert!(sending.peak.bytes <= 1_000_000, "{sending:?}");
    assert_eq!(peer.read_frame(), vec![1; 999_996]);
    assert_eq!(peer.read_frame(), vec![2; freed - 4]);
}

/// A server with a total of 10,000 bytes, and two peers that may hold as much each.
fn two_peers(io: &tautline::IoThread, transport: Transport) -> (Served, [Link; 2], [RawStream; 2]) {
    let options = ServerOptions {
        link: LinkOptions {
            queue_limit_bytes: 10_000,
            ..framed(transport)
        },
        total_queue_limit_bytes: 10_000,
        ..ServerOptions::default()
    };
    let handlers = vec![recorder().0, recorder().0];
    let served = Served::listen(io, transport, options, handlers);
    let reach = || {
        let raw = RawStream::connect(&served.server.local_address());
        (served.peer(), raw)
    };
    let ((one, raw_one), (two, raw_two)) = (reach(), reach());
    (served, [one, two], [raw_one, raw_two])
}

/// How many messages of 100 encoded bytes it takes.
fn fill(link: &Link) -> u64 {
    let mut accepted = 0;
    while link.try_send(&[0; 96]).is_ok() {
        accepted += 1;
    }
    accepted
}

fn a_servers_total_refuses_first_who_holds_most(transport: Transport) {
    let io = start();
    let (_served, [one, two], _raw) = two_peers(&io, transport);
    let (_gate, (first, second, again)) = Gate::after(&io, move || {
        let first = fill(&one);
        let second = fill(&two);
        (first, second, fill(&one))
    });
    // Each may hold as much as is still free: half of all, then half of the rest.
    assert_eq!((first, second, again), (50, 25, 0));
}

fn a_servers_total_is_given_back_by_peers_that_end(transport: Transport) {
    let io = start();
    let (_served, [one, two], mut raw) = two_peers(&io, transport);
    let sender = one.clone();
    let (gate, first) = Gate::after(&io, move || fill(&sender));
    assert_eq!(first, 50);
    let sender = two.clone();
    // It waits for room that only the other peer can give back.
    let waiting = thread::spawn(move || sender.send(&[0; 9000]));
    until("the send waits", || two.statistics().sending.waits == 1);
    drop(gate);
    assert_eq!(waiting.join().unwrap(), Ok(()));
    assert_eq!(raw[1].read_frame(), [0; 9000]);
    one.abort();
    two.flush(WATCHDOG).unwrap();
    let sender = two.clone();
    assert_eq!(inside_callback(&io, move || fill(&sender)), 50);
}

fn a_message_larger_than_the_servers_total_is_too_large(transport: Transport) {
    let io = start();
    let options = ServerOptions {
        link: framed(transport),
        total_queue_limit_bytes: 10_000,
        ..ServerOptions::default()
    };
    let (served, mut raw) = server_of_raw(&io, transport, options, recorder().0);
    let peer = served.peer();
    let refused = Err(SendError::TooLarge { limit: 9996 });
    assert_eq!(peer.send(&[0; 9997]), refused);
    assert_eq!(peer.try_send(&[0; 9997]), refused);
    assert_eq!(peer.send(&[1; 9996]), Ok(()));
    assert_eq!(raw.read_frame(), [1; 9996]);
}

fn one_peer_too_many_is_turned_away_until_another_leaves(transport: Transport) {
    let io = start();
    let options = ServerOptions {
        link: framed(transport),
        connection_limit: 2,
        ..ServerOptions::default()
    };
    let handlers = (0..3).map(|_| recorder().0).collect();
    let served = Served::listen(&io, transport, options, handlers);
    let address = served.server.local_address();
    let first = RawStream::connect(&address);
    let mut second = RawStream::connect(&address);
    let (_, peer) = (served.peer(), served.peer());

    let mut third = RawStream::connect(&address);
    third.expect_cut_off();
    assert_eq!(served.server.statistics().turned_away, 1);
    assert_eq!(served.server.statistics().connected, 2);
    // Those who were there do not notice.
    peer.send(b"still here").unwrap();
    assert_eq!(second.read_frame(), b"still here");

    drop(first);
    served.expect_connected(1);
    let _fourth = RawStream::connect(&address);
    assert!(served.peer().is_open());
    let statistics = served.server.statistics();
    assert_eq!((statistics.accepted, statistics.turned_away), (3, 1));
}

fn without_descriptors_accepting_backs_off_and_recovers(transport: Transport) {
    let name = match transport {
        Transport::Tcp => "limits::without_descriptors_accepting_backs_off_and_recovers::tcp",
        _ => "limits::without_descriptors_accepting_backs_off_and_recovers::uds",
    };
    if !in_child(name) {
        return child(name, "ulimit -n 64;");
    }
    let io = start();
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let echo =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let server = io.listen(&place.address, options, echo).unwrap();
    let mut before = RawStream::connect(&server.local_address());
    before.write_frame(b"before");
    assert_eq!(before.read_frame(), b"before");

    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }
    // One for the client's end, none for the server's.
    hoard.pop();
    let mut waiting = RawStream::connect(&server.local_address());
    waiting.write_frame(b"patience");
    until("accepting has failed more than once", || {
        server.statistics().accept_shortages > 1
    });
    before.write_frame(b"meanwhile");
    assert_eq!(before.read_frame(), b"meanwhile");

    hoard.clear();
    assert_eq!(waiting.read_frame(), b"patience");
    let statistics = server.statistics();
    assert_eq!((statistics.accepted, statistics.accept_failures), (2, 0));
}
