//! Promise 5: what `opened` sends goes out first, whoever else sends meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tautline::{Link, ServerOptions};

use crate::common::*;

over! {
    what_opened_sends_comes_before_what_others_send: tcp uds;
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
