//! Promise 5: what `opened` sends goes out first, whoever else sends meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tautline::{Link, LinkOptions, SendError, ServerOptions, Strategy};

use crate::common::*;

over! {
    what_opened_sends_comes_before_what_others_send: tcp tls uds;
    what_opened_sends_is_never_evicted: tcp tls uds serial;
    whoever_waited_for_it_to_open_finds_nothing_in_the_way: tcp tls uds serial;
}

/// A thread that sends all the time got its message in before a login or a subscription, within the
/// first fifty connections.
fn what_opened_sends_comes_before_what_others_send(transport: Transport) {
    let (io, server_io) = (start(), start());
    let (handlers, inboxes): (Vec<_>, Vec<_>) = (0..300).map(|_| recorder()).unzip();
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let served = Served::listen(&server_io, transport, options, handlers);
    for (life, inbox) in inboxes.into_iter().enumerate() {
        let (handler, _inbox) = recorder_that(|link: &Link, told| {
            if matches!(told, Told::Opened(_)) {
                link.send(b"subscribe").unwrap();
            }
        });
        let address = served.server.local_address();
        let link = io.connect(&address, framed(transport), handler).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (link, over) = (&link, &over);
            scope.spawn(
                move || while !over.load(Ordering::SeqCst) && link.try_send(b"other").is_err() {},
            );
            inbox.expect_opened();
            let first = inbox.expect_message();
            over.store(true, Ordering::SeqCst);
            assert_eq!(first, b"subscribe", "in life {life}");
        });
    }
}

/// A subscription that gave way to a sample would be missed for as long as the connection lasts.
fn what_opened_sends_is_never_evicted(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let options = LinkOptions {
        strategy: Strategy::KeepLatest,
        queue_limit_messages: 4,
        ..framed(transport)
    };
    let (handler, inbox) = recorder_that(|link: &Link, told| {
        if matches!(told, Told::Opened(_)) {
            for number in 0..4 {
                link.try_send(&[number]).unwrap();
            }
            assert_eq!(link.try_send(&[4]), Err(SendError::Full));
            let sample = link.clone();
            let other = thread::spawn(move || sample.try_send(b"sample"));
            assert_eq!(other.join().unwrap(), Err(SendError::Full));
        }
    });
    let (link, mut peer) = client_of_raw(&io, &listener, options, handler);
    inbox.expect_opened();
    for number in 0..4 {
        assert_eq!(peer.read_frame(), [number]);
    }
    let sending = link.statistics().sending;
    assert_eq!(sending.discarded.evicted.messages, 0);
    assert_eq!(sending.refused.messages, 2);
}

/// A send right after `wait_open` waited for `opened` to return, and with a short `max_queue_delay` was too
/// old by then.
fn whoever_waited_for_it_to_open_finds_nothing_in_the_way(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    for life in 0..100 {
        let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), recorder().0);
        link.send(b"hello").unwrap();
        assert_eq!(peer.read_frame(), b"hello");
        let sending = link.statistics().sending;
        assert_eq!(sending.direct_writes, 1, "in life {life}");
        assert_eq!(sending.queue_delay, None, "in life {life}");
    }
}
