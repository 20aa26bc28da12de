//! Promises 3, 5 and 8 while signals interrupt every call that waits, as profilers and timers do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tautline::{
    DirectLink, DirectListener, IoLoop, IoOptions, Link, LinkOptions, Received, RecvError,
    SendError, ServerOptions,
};

use crate::common::*;

over! {
    links_exchange_as_if_nothing_were: tcp tls uds udp serial;
    direct_links_exchange_as_if_nothing_were: tcp uds udp serial;
    an_own_loop_exchanges_as_if_nothing_were: tcp tls uds udp;
    a_receive_ends_at_its_deadline: tcp uds udp;
    a_wait_for_room_ends_at_its_deadline: tcp uds;
}

/// Runs the test in a process of its own, where every thread but one is interrupted without end.
fn in_a_storm(test: &str, transport: Transport, run: impl FnOnce()) {
    let name = name_of(&format!("signals::{test}"), transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    sys::let_signals_interrupt();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let own = own_thread_id();
            while !over.load(Ordering::SeqCst) {
                let others = all_thread_ids().into_iter().filter(|id| *id != own);
                others.for_each(sys::interrupt);
                // Those who were interrupted have to get somewhere, with two CPUs for all.
                thread::park_timeout(Duration::from_micros(200));
            }
        });
        until("the storm has begun", || sys::interruptions() > 10);
        // However the test ends, the storm does.
        let _over = SetWhenDropped(&over);
        run();
    });
}

fn links_exchange_as_if_nothing_were(transport: Transport) {
    in_a_storm("links_exchange_as_if_nothing_were", transport, || {
        // Connecting and accepting, many times.
        for _ in 0..20 {
            let pair = Pair::open(transport, &framed(transport));
            // Large ones go out and come in by parts.
            for length in [1, 1000, 60_000] {
                for message in numbered(20, length + 4) {
                    pair.client.send(&message).unwrap();
                    assert_eq!(pair.peer_inbox.expect_message(), message);
                    pair.peer.send(&message).unwrap();
                    assert_eq!(pair.client_inbox.expect_message(), message);
                }
            }
            assert!(pair.client.close(WATCHDOG).queued.is_zero());
            pair.client_inbox.expect_end();
        }
    });
}

fn direct_links_exchange_as_if_nothing_were(transport: Transport) {
    in_a_storm(
        "direct_links_exchange_as_if_nothing_were",
        transport,
        || {
            for _ in 0..20 {
                let (mut client, mut server, _place) = direct_pair(transport, framed(transport));
                thread::scope(|scope| {
                    scope.spawn(move || {
                        while let Ok(message) = server.recv(None).map(<[u8]>::to_vec) {
                            if message == b"goodbye" {
                                break;
                            }
                            server.send(&message).unwrap();
                        }
                    });
                    for length in [1, 1000, 60_000] {
                        for message in numbered(20, length + 4) {
                            client.send(&message).unwrap();
                            let soon = Instant::now() + WATCHDOG;
                            assert_eq!(client.recv(Some(soon)).unwrap(), message);
                        }
                    }
                    client.send(b"goodbye").unwrap();
                });
            }
        },
    );
}

/// A turn may end early, with nothing done, and is never an error.
fn an_own_loop_exchanges_as_if_nothing_were(transport: Transport) {
    in_a_storm(
        "an_own_loop_exchanges_as_if_nothing_were",
        transport,
        || {
            let mut io = IoLoop::new(IoOptions::default()).unwrap();
            let place = fresh(transport);
            let options = ServerOptions {
                link: framed(transport),
                ..ServerOptions::default()
            };
            let accept = |_: &Link| {
                Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap())
            };
            let server = io.listen(&place.address, options, accept).unwrap();
            let (handler, inbox) = recorder();
            let address = server.local_address();
            let link = io.connect(&address, framed(transport), handler).unwrap();
            until("it is open", || {
                io.turn(Some(WATCHDOG)).unwrap();
                link.is_open()
            });
            inbox.expect_opened();
            for message in numbered(200, 1000) {
                link.send(&message).unwrap();
                let mut answers = Vec::new();
                until("the answer is there", || {
                    io.turn(Some(WATCHDOG)).unwrap();
                    answers.extend(inbox.so_far());
                    !answers.is_empty()
                });
                assert!(matches!(&answers[..], [Told::Message(answer, _)] if *answer == message));
            }
        },
    );
}

/// Over UDP both have said hello.
fn direct_pair(transport: Transport, options: LinkOptions) -> (DirectLink, DirectLink, Place) {
    if transport == Transport::Serial {
        let (place, there) = Cable::new().into_places();
        let client = DirectLink::connect(&place.address, options.clone()).unwrap();
        let server = DirectLink::connect(&there, options).unwrap();
        return (client, server, place);
    }
    let place = fresh(transport);
    let mut listener = DirectListener::bind(&place.address, options.clone()).unwrap();
    let mut client = DirectLink::connect(&listener.local_address(), options).unwrap();
    if !transport.is_stream() {
        client.send(b"hello").unwrap();
    }
    let soon = Some(Instant::now() + WATCHDOG);
    let mut server = listener.accept(soon).unwrap();
    if !transport.is_stream() {
        assert_eq!(server.recv(soon).unwrap(), b"hello");
    }
    (client, server, place)
}

/// The wait was once begun anew, whole, after each signal: faster ones made it endless.
fn a_receive_ends_at_its_deadline(transport: Transport) {
    in_a_storm("a_receive_ends_at_its_deadline", transport, || {
        let (mut client, _server, _place) = direct_pair(transport, framed(transport));
        // The second waits in another call, for the socket has a timeout by then.
        for timeout in [10, 250, 250, 10].map(Duration::from_millis) {
            let deadline = Instant::now() + timeout;
            let received = client.recv(Some(deadline));
            assert!(matches!(received, Err(RecvError::TimedOut)), "{received:?}");
            assert!(Instant::now() >= deadline);
        }
        let place = fresh(transport);
        let mut listener = DirectListener::bind(&place.address, framed(transport)).unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        listener.accept(Some(deadline)).unwrap_err();
        assert!(Instant::now() >= deadline);
    });
}

fn a_wait_for_room_ends_at_its_deadline(transport: Transport) {
    in_a_storm("a_wait_for_room_ends_at_its_deadline", transport, || {
        let timeout = Duration::from_millis(50);
        let io = start();
        let (link, _peer) = stalled(&io, transport, recorder().0);
        let begun = Instant::now();
        let sent = link.send_timeout(&[0; 996], timeout);
        assert_eq!(sent, Err(SendError::TimedOut));
        assert!(begun.elapsed() >= timeout);
        link.flush(timeout).unwrap_err();
        assert!(begun.elapsed() >= 2 * timeout);

        let (mut direct, _server, _place) = direct_pair(transport, framed(transport));
        let begun = Instant::now();
        let full = loop {
            match direct.send_timeout(&[0; 60_000], timeout) {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(full, SendError::TimedOut);
        assert!(begun.elapsed() >= timeout);
    });
}
