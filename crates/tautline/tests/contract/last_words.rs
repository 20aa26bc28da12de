//! Promise 8 where something is still unread: what a peer loses, and that `close` keeps it from that.

use std::io::{ErrorKind, Read};
use std::thread;

use tautline::{DirectLink, LinkOptions, Reason};

use crate::common::*;

over! {
    a_close_with_something_unread_costs_the_peer_nothing: tcp tls uds;
    an_abort_with_something_unread_costs_the_peer_no_more_than_it_says: tcp tls;
    a_peer_that_aborts_what_it_has_not_read_is_a_loss: tcp uds serial;
    what_a_peer_said_before_its_reset_is_delivered: tcp tls;
    no_signal_kills_a_direct_link_whose_peer_has_gone: tcp uds serial;
}

/// Closed with something unread in it, a socket is answered with a reset, and that overtakes what was
/// sent last. So `close` reads to the end.
fn a_close_with_something_unread_costs_the_peer_nothing(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    let gate = hold(&io);
    for message in numbered(10, 1000) {
        peer.write_frame(&message);
    }
    link.send(b"the last reply").unwrap();
    let closing = thread::spawn(move || link.close(WATCHDOG));
    drop(gate);
    assert_eq!(peer.read_frame(), b"the last reply");
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "an end and no reset");
    peer.end();
    let unsent = closing.join().unwrap();
    assert!(unsent.queued.is_zero());
    for message in numbered(10, 1000) {
        assert_eq!(inbox.expect_message(), message);
    }
    assert!(matches!(inbox.expect_end().reason, Reason::Closed));
}

/// An abort is a reset then. What had not left the kernel is lost, and `closed` has said how much that
/// is.
fn an_abort_with_something_unread_costs_the_peer_no_more_than_it_says(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let (handler, inbox) = recorder();
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    let gate = hold(&io);
    peer.write_frame(b"unread");
    link.send(&[7; 100_000]).unwrap();
    let written = link.statistics().sending.written.bytes;
    link.pause_reading();
    drop(gate);
    let_turn(&io);
    link.abort();
    let closed = inbox.skip_to_closed();
    let held = closed.unsent.kernel_bytes.unwrap();
    assert!(held > 0, "{closed:?}");
    let mut received = Vec::new();
    let error = peer.read_to_end(&mut received).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let written = written.max(link.statistics().sending.written.bytes);
    let lost = written - received.len() as u64;
    assert!(lost > 0, "there was a reset");
    assert!(lost <= held, "{lost} bytes lost, {held} told");
}

/// The reset of a peer that has read nothing of what we wrote: an error, not a peaceful end.
fn a_peer_that_aborts_what_it_has_not_read_is_a_loss(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    link.send(b"unread").unwrap();
    drop(peer);
    let closed = inbox.expect_end();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");

    let mut direct = DirectLink::connect(&listener.address(), framed(transport)).unwrap();
    let peer = listener.accept();
    direct.send(b"unread").unwrap();
    drop(peer);
    let received = direct.recv(None).map(<[u8]>::to_vec);
    assert!(
        matches!(received, Err(tautline::RecvError::Failed(_))),
        "{received:?}"
    );
}

/// It came before the reset, so it is handed out before the link ends.
fn what_a_peer_said_before_its_reset_is_delivered(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        half_open: true,
        ..framed(transport)
    };
    let (link, mut peer) = client_of_raw(&io, &listener, options, handler);
    inbox.expect_opened();
    let gate = hold(&io);
    for message in numbered(10, 1000) {
        peer.write_frame(&message);
    }
    link.send(b"unread").unwrap();
    drop(peer);
    drop(gate);
    for message in numbered(10, 1000) {
        assert_eq!(inbox.expect_message(), message);
    }
    let closed = inbox.expect_end();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
}

/// With the signal at its default, as in programs that are not written in Rust.
fn no_signal_kills_a_direct_link_whose_peer_has_gone(transport: Transport) {
    let test = "last_words::no_signal_kills_a_direct_link_whose_peer_has_gone";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    sys::default_sigpipe();
    let listener = RawListener::bind(transport);
    let mut link = DirectLink::connect(&listener.address(), framed(transport)).unwrap();
    drop(listener.accept());
    // Small ones, and one with a gathered rest.
    until("a send has failed", || {
        link.send(b"anybody?").is_err() || link.send(&[7; 100_000]).is_err()
    });
    link.recv(None).unwrap_err();
}
