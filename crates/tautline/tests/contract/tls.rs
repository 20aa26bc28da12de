//! Promise 12: TLS. Opened only after the handshake, which has a deadline; a peer that cannot prove
//! itself is not retried for ever; never plain text.
//!
//! What TLS has in common with other streams stands in the files of those promises. Here is what it has
//! alone; [`trust`] is about certificates, [`bad_days`] about peers that do not do their part,
//! [`openssl`] about one that neither of us wrote.

mod bad_days;
mod openssl;
mod trust;

use std::thread;
use std::time::Duration;

use tautline::{
    Address, ClientCertificates, DirectLink, DirectListener, IoThread, Link, LinkOptions,
    Reconnect, Server, ServerOptions, Tls, TlsVersion,
};

use crate::common::*;

over! {
    both_ends_are_told_what_was_agreed_on: tls;
    the_accept_callback_sees_who_it_is: tls;
    messages_of_every_length_arrive: tls;
    a_direct_link_speaks_it_too: tls;
    a_link_comes_back_after_a_loss: tls;
    a_hundred_handshakes_at_once_all_succeed: tls;
    new_keys_in_mid_stream_change_nothing: tls;
    what_the_peer_sends_with_its_last_flight_is_delivered: tls;
    what_was_counted_on_the_cable_is_what_was_sent: tls;
    its_options_are_refused_by_name: tls;
}

/// Options of a link over TLS that does everything right.
fn good() -> LinkOptions {
    framed(tls())
}

/// A server that sends back what it gets.
fn echo(io: &IoThread, options: ServerOptions) -> Server {
    let accept = |_: &Link| {
        Ok(recorder_that(|peer, told| {
            if let Told::Message(message, _) = told {
                // The peer may be gone.
                let _ = peer.send(message);
            }
        })
        .0)
    };
    io.listen(&fresh(tls()).address, options, accept).unwrap()
}

fn echo_of(link: LinkOptions) -> ServerOptions {
    ServerOptions {
        link,
        ..ServerOptions::default()
    }
}

/// Where a server is, under another name for the same machine.
fn under_name(server: &Server, host: &str) -> Address {
    let Address::Tls { port, .. } = server.local_address() else {
        panic!("a TLS server has a port");
    };
    format!("tls://{host}:{port}").parse().unwrap()
}

fn both_ends_are_told_what_was_agreed_on(transport: Transport) {
    let (handler, inbox) = recorder();
    let (client_io, server_io) = (start(), start());
    let server = echo(&server_io, echo_of(framed(transport)));
    let address = server.local_address();
    let link = client_io.connect(&address, good(), handler).unwrap();
    let opened = inbox.expect_opened();
    let secured = link.secured().unwrap();
    assert_eq!(opened.secured, Some(secured.clone()));
    assert_eq!(secured.version, TlsVersion::V1_3);
    assert!(secured.cipher_suite.starts_with("TLS_"), "{secured:?}");
    assert_eq!(secured.peer_certificates.len(), 1);
    link.send(b"over TLS").unwrap();
    assert_eq!(inbox.expect_message(), b"over TLS");
    // The server did not ask the client for one.
    let peer = server.peers().pop().unwrap();
    assert!(peer.secured().unwrap().peer_certificates.is_empty());
    let counted = link.statistics().tls.unwrap();
    assert_eq!(counted.handshakes, 1);
    assert!(counted.handshake_time > Duration::ZERO);
    let handshakes = server.statistics().handshakes;
    assert_eq!((handshakes.completed, handshakes.failed), (1, 0));
    assert_eq!(server.statistics().peers.tls.unwrap().handshakes, 1);
}

fn the_accept_callback_sees_who_it_is(_: Transport) {
    let (seen, see) = std::sync::mpsc::channel();
    let accept = move |peer: &Link| {
        seen.send(peer.secured().unwrap().peer_certificates.len())
            .unwrap();
        Ok(recorder().0)
    };
    let options = ServerOptions {
        client_certificates: ClientCertificates::Required,
        ..echo_of(good())
    };
    let io = start();
    let server = io.listen(&fresh(tls()).address, options, accept).unwrap();
    let link = io.connect(&server.local_address(), good(), recorder().0);
    link.unwrap().wait_open(WATCHDOG).unwrap();
    assert_eq!(see.recv_timeout(WATCHDOG), Ok(1));
}

fn messages_of_every_length_arrive(transport: Transport) {
    let options = LinkOptions {
        queue_limit_bytes: 4_000_000,
        ..framed(transport)
    };
    let pair = Pair::open(transport, &options);
    // Around the record of 16 KiB, with the prefix and without.
    for length in [
        0, 1, 2, 16_379, 16_380, 16_381, 16_384, 16_385, 32_764, 100_000, 1_000_000,
    ] {
        let message = vec![length as u8; length];
        pair.client.send(&message).unwrap();
        assert!(pair.peer_inbox.skip_to_message() == message, "{length}");
        pair.peer.send(&message).unwrap();
        assert!(pair.client_inbox.skip_to_message() == message, "{length}");
    }
}

fn a_direct_link_speaks_it_too(_: Transport) {
    let mut listener = DirectListener::bind(&fresh(tls()).address, good()).unwrap();
    let address = listener.local_address();
    let client = thread::spawn(move || {
        let mut client = DirectLink::connect(&address, good()).unwrap();
        client.send(&vec![7; 300_000]).unwrap();
        let answer = client.recv(None).unwrap().to_vec();
        (client.secured().unwrap(), client.statistics(), answer)
    });
    let mut server = listener.accept(None).unwrap();
    let request = server.request(None).unwrap();
    assert!(request.message == vec![7; 300_000]);
    request.replies.send(b"").unwrap();
    let (secured, counted, answer) = client.join().unwrap();
    assert_eq!(secured.peer_certificates.len(), 1);
    assert!(counted.tls.unwrap().sent_bytes > 300_004);
    assert!(answer.is_empty());
    // It went with nothing unsent, so it said goodbye.
    let end = server.recv(None).unwrap_err();
    assert!(matches!(end, tautline::RecvError::Closed), "{end:?}");
}

fn a_link_comes_back_after_a_loss(transport: Transport) {
    let listener = RawListener::bind(transport);
    let options = LinkOptions {
        reconnect: Some(Reconnect::default()),
        ..framed(transport)
    };
    let io = start();
    let (handler, inbox) = recorder();
    let (link, peer) = client_of_raw(&io, &listener, options, handler);
    assert_eq!(inbox.expect_opened().generation, 1);
    peer.vanish();
    inbox.expect_closed();
    let mut peer = listener.accept();
    assert_eq!(inbox.skip_to_opened().generation, 2);
    link.send(b"again").unwrap();
    assert_eq!(peer.read_frame(), b"again");
    assert_eq!(link.statistics().tls.unwrap().handshakes, 2);
}

fn a_hundred_handshakes_at_once_all_succeed(_: Transport) {
    let (client_io, server_io) = (start(), start());
    let server = echo(&server_io, echo_of(good()));
    let address = server.local_address();
    let links: Vec<_> = (0..100)
        .map(|_| {
            let (handler, inbox) = recorder();
            let link = client_io.connect(&address, good(), handler).unwrap();
            (link, inbox)
        })
        .collect();
    for (link, inbox) in &links {
        inbox.expect_opened();
        link.send(b"here").unwrap();
        assert_eq!(inbox.expect_message(), b"here");
    }
    assert_eq!(server.statistics().handshakes.completed, 100);
    assert_eq!(server.statistics().connected, 100);
}

fn new_keys_in_mid_stream_change_nothing(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    for message in numbered(20, 100) {
        let RawStream::Tls(raw) = &peer else {
            panic!("it is a TLS peer");
        };
        // A record that holds no message.
        raw.session().refresh_traffic_keys().unwrap();
        peer.write_frame(&message);
        assert_eq!(inbox.expect_message(), message);
        link.send(&message).unwrap();
        assert_eq!(peer.read_frame(), message);
    }
}

/// It is decrypted together with the end of the handshake: no news of the socket will tell of it.
fn what_the_peer_sends_with_its_last_flight_is_delivered(transport: Transport) {
    for _ in 0..50 {
        let (handler, inbox) = recorder();
        let io = start();
        let served = Served::listen(&io, transport, echo_of(good()), vec![handler]);
        let mut raw = RawStream::connect(&served.server.local_address());
        raw.write_frame(b"at once");
        inbox.expect_opened();
        assert_eq!(inbox.expect_message(), b"at once");
    }
}

/// Plaintext is what the other counters count; on the cable are the records.
fn what_was_counted_on_the_cable_is_what_was_sent(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    let before = pair.client.statistics();
    pair.client.send(&[7; 96]).unwrap();
    pair.peer_inbox.expect_message();
    let after = pair.client.statistics();
    let wire_bytes = after.sending.written.bytes - before.sending.written.bytes;
    assert_eq!(wire_bytes, 100);
    let cable_bytes = after.tls.unwrap().sent_bytes - before.tls.unwrap().sent_bytes;
    // A record of TLS 1.3: header 5, kind 1, tag 16.
    assert_eq!(cable_bytes, 122);
    let received = pair.peer.statistics().receiving;
    assert_eq!(received.wire_bytes, 100);
}

fn its_options_are_refused_by_name(_: Transport) {
    let io = start();
    let refused = |address: &str, tls: Tls, name: &str| {
        let options = LinkOptions {
            tls,
            ..LinkOptions::default()
        };
        let address = address.parse().unwrap();
        let error = io.connect(&address, options, recorder().0).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("{name}: ")), "{name}: {text}");
        text
    };
    let refused_server = |address: &str, options: ServerOptions, name: &str| {
        let accept = |_: &Link| Ok(recorder().0);
        let error = io.listen(&address.parse().unwrap(), options, accept);
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with(&format!("{name}: ")), "{name}: {text}");
    };
    trust::each_bad_option(&refused);
    trust::each_bad_server_option(&refused_server);
    let nobody = echo_of(LinkOptions::default());
    refused_server("tls://127.0.0.1:0", nobody, "tls.identity");
    let asking = ServerOptions {
        client_certificates: ClientCertificates::Required,
        ..ServerOptions::default()
    };
    refused_server("tcp://127.0.0.1:0", asking, "client_certificates");
}
