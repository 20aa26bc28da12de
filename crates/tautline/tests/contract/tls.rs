//! Promise 12: TLS. Opened only after the handshake, which has a deadline; a peer that cannot prove
//! itself is not retried for ever; never plain text.
//!
//! All that TLS has in common with other streams stands in the files of those promises.

use std::time::Duration;

use tautline::{DirectLink, DirectListener, LinkOptions, TlsVersion};

use crate::common::*;

over! {
    both_ends_are_told_what_was_agreed_on: tls;
    a_direct_link_speaks_it_too: tls;
}

/// Options of a link over TLS that does everything right.
fn good() -> LinkOptions {
    framed(tls())
}

fn both_ends_are_told_what_was_agreed_on(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    let secured = pair.client.secured().unwrap();
    assert_eq!(secured.version, TlsVersion::V1_3);
    assert!(secured.cipher_suite.starts_with("TLS_"), "{secured:?}");
    assert_eq!(secured.peer_certificates.len(), 1);
    // The server did not ask the client for one.
    let secured = pair.peer.secured().unwrap();
    assert!(secured.peer_certificates.is_empty());
    pair.client.send(b"over TLS").unwrap();
    assert_eq!(pair.peer_inbox.expect_message(), b"over TLS");
    let counted = pair.client.statistics().tls.unwrap();
    assert_eq!(counted.handshakes, 1);
    assert!(counted.handshake_time > Duration::ZERO);
    assert!(counted.sent_bytes > 8 + 4 && counted.received_bytes > 0);
    let handshakes = pair.served.as_ref().unwrap().server.statistics().handshakes;
    assert_eq!((handshakes.completed, handshakes.failed), (1, 0));
}

fn a_direct_link_speaks_it_too(_: Transport) {
    let address = fresh(tls()).address;
    let mut listener = DirectListener::bind(&address, good()).unwrap();
    let address = listener.local_address();
    let client = std::thread::spawn(move || {
        let mut client = DirectLink::connect(&address, good()).unwrap();
        client.send(&vec![7; 300_000]).unwrap();
        let answer = client.recv(None).unwrap().to_vec();
        (client.secured().unwrap(), answer)
    });
    let mut server = listener.accept(None).unwrap();
    let request = server.request(None).unwrap();
    assert_eq!(request.message, vec![7; 300_000]);
    request.replies.send(b"").unwrap();
    let (secured, answer) = client.join().unwrap();
    assert_eq!(secured.peer_certificates.len(), 1);
    assert!(answer.is_empty());
}
