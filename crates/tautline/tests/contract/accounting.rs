//! Promise 6: accounting closes, at every moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tautline::{LinkOptions, SendError, ServerOptions, Strategy, Tally};

use crate::common::*;

over! {
    accepted_is_written_and_waiting_and_discarded_at_every_moment: tcp tls uds udp serial;
    both_ends_count_the_same: tcp tls uds serial;
    written_is_when_the_kernel_has_the_last_byte: tcp tls uds serial;
    a_message_cut_by_the_end_is_discarded_and_its_written_bytes_stay_written: tcp tls uds serial;
    discards_are_split_by_cause: tcp tls uds serial;
    closed_reports_what_the_kernel_still_held: tcp uds serial;
    after_a_whole_close_the_kernel_holds_nothing: tcp tls uds;
    a_servers_totals_survive_its_peers: tcp tls uds udp;
    silence_is_visible: tcp tls uds udp serial;
    queue_delay_is_noted_for_every_queued_message_and_no_other: tcp tls uds udp serial;
    refusals_are_counted_in_messages_and_bytes: tcp tls uds udp serial;
}

fn accepted_is_written_and_waiting_and_discarded_at_every_moment(transport: Transport) {
    for strategy in Strategy::ALL {
        let options = LinkOptions {
            strategy,
            queue_limit_bytes: 5000,
            ..framed(transport)
        };
        let pair = Pair::open(transport, &options);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        for message in numbered(2000, 200) {
                            match pair.client.send(&message) {
                                Ok(()) | Err(SendError::Full) => {}
                                Err(other) => panic!("{other}"),
                            }
                        }
                    })
                })
                .collect();
            let watching = scope.spawn(|| {
                let mut looks = 0;
                while !over.load(Ordering::SeqCst) || looks == 0 {
                    let sending = pair.client.statistics().sending;
                    assert!(sending.closes(), "{strategy}: {sending:?}");
                    looks += 1;
                }
            });
            for sender in senders {
                sender.join().unwrap();
            }
            over.store(true, Ordering::SeqCst);
            watching.join().unwrap();
        });
        pair.client.close(WATCHDOG);
        let sending = pair.client.statistics().sending;
        assert!(sending.closes() && sending.waiting.is_zero());
        let greeting = u64::from(!transport.is_stream());
        let offered = sending.accepted.messages + sending.refused.messages;
        assert_eq!(offered, 6000 + greeting, "{strategy}: {sending:?}");
    }
}

fn both_ends_count_the_same(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    let lengths = [0, 1, 100, 5000, 70_000, 300_000];
    for length in lengths {
        pair.client.send(&vec![7; length]).unwrap();
        assert_eq!(pair.peer_inbox.skip_to_message().len(), length);
    }
    let payload: u64 = lengths.iter().map(|length| *length as u64).sum();
    let wire = payload + 6 * 4;
    until("all is settled and counted", || {
        let sent = pair.client.statistics().sending.written.messages;
        let received = pair.peer.statistics().receiving.messages;
        (sent, received) == (6, 6)
    });
    let sending = pair.client.statistics().sending;
    let whole = Tally {
        messages: 6,
        bytes: wire,
    };
    assert_eq!((sending.accepted, sending.written), (whole, whole));
    assert_eq!(sending.written_payload_bytes, payload);
    let receiving = pair.peer.statistics().receiving;
    assert_eq!(receiving.messages, 6);
    assert_eq!(
        (receiving.payload_bytes, receiving.wire_bytes),
        (payload, wire)
    );
    assert_eq!((receiving.faults, receiving.truncated), (0, 0));
}

fn written_is_when_the_kernel_has_the_last_byte(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(8 * 1024);
    let options = LinkOptions {
        send_buffer_bytes: transport.send_buffer(8 * 1024),
        ..framed(transport)
    };
    let (link, mut peer) = client_of_raw(&io, &listener, options, recorder().0);
    link.send(&[1; 100]).unwrap();
    link.send(&vec![2; 500_000]).unwrap();
    let sending = || link.statistics().sending;
    // The small one is there; of the large one the kernel has the beginning.
    until("the kernel is full", || sending().written.bytes > 104);
    assert_eq!(sending().written.messages, 1);
    assert_eq!(sending().waiting.messages, 1);
    assert_eq!(peer.read_frame(), [1; 100]);
    assert_eq!(peer.read_frame(), vec![2; 500_000]);
    until("the last byte is written", || {
        sending().written.messages == 2
    });
    assert_eq!(sending().written, sending().accepted);
}

fn a_message_cut_by_the_end_is_discarded_and_its_written_bytes_stay_written(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(8 * 1024);
    let options = LinkOptions {
        send_buffer_bytes: transport.send_buffer(8 * 1024),
        ..framed(transport)
    };
    let (handler, inbox) = recorder();
    let (link, _peer) = client_of_raw(&io, &listener, options, handler);
    link.send(&vec![2; 500_000]).unwrap();
    link.abort();
    let closed = inbox.skip_to_closed();
    let sending = link.statistics().sending;
    assert_eq!(
        sending.accepted,
        Tally {
            messages: 1,
            bytes: 500_004
        }
    );
    assert_eq!(sending.written.messages, 0);
    assert!(sending.written.bytes > 0);
    assert_eq!(sending.discarded.closed.messages, 1);
    assert_eq!(
        sending.written.bytes + sending.discarded.closed.bytes,
        500_004
    );
    assert_eq!(closed.unsent.queued, sending.discarded.closed);
}

fn discards_are_split_by_cause(transport: Transport) {
    let io = start();
    // Evicted.
    let options = LinkOptions {
        strategy: Strategy::KeepLatest,
        queue_limit_messages: 2,
        ..framed(transport)
    };
    let (link, _peer) = reach(&io, transport, options, recorder().0);
    let sender = link.clone();
    let (gate, ()) = Gate::after(&io, move || {
        for message in numbered(5, 100) {
            sender.send(&message).unwrap();
        }
    });
    drop(gate);
    link.flush(WATCHDOG).unwrap();
    let discarded = link.statistics().sending.discarded;
    assert_eq!(
        discarded.evicted,
        Tally {
            messages: 3,
            bytes: 312
        }
    );
    assert_eq!(discarded.total(), discarded.evicted);
    // Closed.
    let (link, _peer) = stalled(&io, transport, recorder().0);
    link.abort();
    let discarded = link.statistics().sending.discarded;
    assert!(discarded.closed.messages > 0);
    assert_eq!(discarded.total(), discarded.closed);
    // Lost.
    let (handler, inbox) = recorder();
    let (link, peer) = stalled(&io, transport, handler);
    peer.vanish();
    inbox.skip_to_closed();
    let discarded = link.statistics().sending.discarded;
    assert!(discarded.connection_lost.messages > 0);
    assert_eq!(discarded.total(), discarded.connection_lost);
}

fn closed_reports_what_the_kernel_still_held(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let listener = RawListener::bind(transport);
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    // All of it fits into the kernel, and none of it is read.
    link.send(&[7; 10_000]).unwrap();
    link.flush(WATCHDOG).unwrap();
    let unsent = link.close(Duration::from_millis(5));
    assert!(unsent.queued.is_zero());
    // TCP's peer has acknowledged without being read; a Unix socket says only whether all was read.
    let expected = match transport {
        Transport::Tcp => Some(0),
        _ => None,
    };
    assert_eq!(unsent.kernel_bytes, expected);
    assert_eq!(inbox.skip_to_closed().unsent, unsent);
    assert_eq!(peer.read_frame(), [7; 10_000]);

    let (handler, inbox) = recorder();
    let (link, _peer) = stalled(&io, transport, handler);
    link.abort();
    let held = inbox.skip_to_closed().unsent.kernel_bytes;
    match transport {
        Transport::Tcp => assert!(held > Some(0), "{held:?}"),
        _ => assert_eq!(held, None),
    }
}

fn after_a_whole_close_the_kernel_holds_nothing(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    for message in numbered(1000, 1000) {
        pair.client.send(&message).unwrap();
    }
    let unsent = pair.client.close(WATCHDOG);
    assert!(unsent.queued.is_zero());
    assert_eq!(unsent.kernel_bytes, Some(0));
}

fn a_servers_totals_survive_its_peers(transport: Transport) {
    let io = start();
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let recorders: Vec<_> = (0..3).map(|_| recorder()).collect();
    let (handlers, inboxes): (Vec<_>, Vec<_>) = recorders.into_iter().unzip();
    let served = Served::listen(&io, transport, options, handlers);
    for (index, inbox) in inboxes.iter().enumerate() {
        let (handler, client_inbox) = recorder();
        let link = io
            .connect(&served.server.local_address(), framed(transport), handler)
            .unwrap();
        link.wait_open(WATCHDOG).unwrap();
        for message in numbered(index as u32 + 1, 100) {
            link.send(&message).unwrap();
        }
        let peer = served.peer();
        for _ in 0..=index {
            inbox.skip_to_message();
            peer.send(&[7; 50]).unwrap();
            client_inbox.skip_to_message();
        }
        peer.flush(WATCHDOG).unwrap();
        until("the peer has counted", || {
            peer.statistics().receiving.messages == index as u64 + 1
        });
        let statistics = peer.statistics();
        let answered = Tally {
            messages: index as u64 + 1,
            bytes: (index as u64 + 1) * transport.encoded(50) as u64,
        };
        assert_eq!(statistics.sending.accepted, answered);
        peer.abort();
        assert_eq!(
            peer.statistics().sending.written,
            answered,
            "its own stay too"
        );
    }
    let statistics = served.server.statistics();
    assert_eq!((statistics.connected, statistics.accepted), (0, 3));
    let (sending, receiving) = (statistics.peers.sending, statistics.peers.receiving);
    assert_eq!(receiving.messages, 6);
    assert_eq!(receiving.payload_bytes, 600);
    assert_eq!(receiving.wire_bytes, 6 * transport.encoded(100) as u64);
    let bytes = 6 * transport.encoded(50) as u64;
    assert_eq!(sending.written, Tally { messages: 6, bytes });
    assert!(sending.closes());
}

fn silence_is_visible(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    inbox.expect_opened();
    let age = || link.statistics().receiving.last_receive_age;
    assert_eq!(age(), None);
    peer.write_message(b"tick");
    inbox.expect_message();
    until("it is noted", || age().is_some());
    let (one, two) = (age().unwrap(), age().unwrap());
    assert!(two >= one);
    until("it grows", || age().unwrap() > two);
}

fn queue_delay_is_noted_for_every_queued_message_and_no_other(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    // The first words are those of `opened`: when it has returned nothing waits, so the sender writes.
    let_turn(&io);
    link.send(b"direct").unwrap();
    assert_eq!(peer.read_message(), b"direct");
    let sending = link.statistics().sending;
    assert_eq!(sending.queue_delay, None);
    assert_eq!(sending.direct_writes, 1);
    let sender = link.clone();
    let (gate, ()) = Gate::after(&io, move || {
        for message in numbered(70, 100) {
            sender.send(&message).unwrap();
        }
    });
    let held = std::time::Instant::now();
    until("a while has gone by", || {
        held.elapsed() > Duration::from_millis(2)
    });
    drop(gate);
    link.flush(WATCHDOG).unwrap();
    let sending = link.statistics().sending;
    let delay = sending.queue_delay.unwrap();
    assert_eq!(delay.count(), 70);
    assert!(delay.percentile_ns(0.0).unwrap() >= 2_000_000);
    assert_eq!(sending.direct_writes, 1);
}

fn refusals_are_counted_in_messages_and_bytes(transport: Transport) {
    let io = start();
    let options = LinkOptions {
        strategy: Strategy::BestEffort,
        queue_limit_messages: 1,
        ..framed(transport)
    };
    let (link, _peer) = reach(&io, transport, options, recorder().0);
    let sender = link.clone();
    let (gate, ()) = Gate::after(&io, move || {
        sender.send(&[0; 10]).unwrap();
        assert_eq!(sender.send(&[0; 20]), Err(SendError::Full));
        assert_eq!(sender.try_send(&[0; 30]), Err(SendError::Full));
    });
    let sending = link.statistics().sending;
    let bytes = 50 + 2 * transport.encoded(0) as u64;
    assert_eq!(sending.refused, Tally { messages: 2, bytes });
    assert_eq!(sending.accepted.messages, 1);
    drop(gate);
}
