//! Promises 8 and 9 when the network goes away under a link, and comes back. In a network of the test's
//! own.

use std::process::Command;
use std::time::Duration;

use tautline::{Received, ServerOptions};

use crate::common::*;

over! {
    datagrams_without_a_network_are_counted_and_hold_up_nobody: udp;
    a_stream_without_a_network_is_closed_in_time_and_goes_on_if_it_comes_back: tcp;
}

/// Whether this is the process with a network of its own.
fn in_own_network(test: &str, transport: Transport) -> bool {
    let name = name_of(&format!("no_network::{test}"), transport);
    let alone = in_child(&name);
    if !alone {
        child_in_namespaces(&name, "-n", "ip link set lo up &&");
    }
    alone
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.unwrap().success());
}

/// An address that this machine has, and the way to which can be closed.
const SERVER: &str = "127.0.0.5";
const CLOSE_THE_WAY: &str = "route add unreachable 127.0.0.5 table local";
const OPEN_THE_WAY: &str = "route del unreachable 127.0.0.5 table local";

fn datagrams_without_a_network_are_counted_and_hold_up_nobody(transport: Transport) {
    let test = "datagrams_without_a_network_are_counted_and_hold_up_nobody";
    if !in_own_network(test, transport) {
        return;
    }
    let io = start();
    let address = format!("udp://{SERVER}:0").parse().unwrap();
    let accept = |_: &tautline::Link| {
        Ok(|peer: &tautline::Link, message: &[u8], _: Received| {
            // It may be the answer that finds no network.
            let _ = peer.send(message);
        })
    };
    let server = io
        .listen(&address, ServerOptions::default(), accept)
        .unwrap();
    let (handler, inbox) = recorder();
    let link = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    assert_eq!(inbox.expect_message(), b"hello");

    ip(CLOSE_THE_WAY);
    for _ in 0..1000 {
        link.send(b"anybody?").unwrap();
    }
    link.flush(WATCHDOG).unwrap();
    let sending = link.statistics().sending;
    assert!(sending.closes() && sending.waiting.is_zero());
    assert_eq!(sending.discarded.failed.messages, 1000, "{sending:?}");
    assert!(link.is_open());

    ip(OPEN_THE_WAY);
    link.send(b"hello again").unwrap();
    assert_eq!(inbox.skip_to_message(), b"hello again");
}

/// Nothing says that it has gone: TCP tries on.
fn a_stream_without_a_network_is_closed_in_time_and_goes_on_if_it_comes_back(transport: Transport) {
    let test = "a_stream_without_a_network_is_closed_in_time_and_goes_on_if_it_comes_back";
    if !in_own_network(test, transport) {
        return;
    }
    let pair = Pair::open(transport, &framed(transport));
    ip("link set lo down");
    pair.client.send(b"under way").unwrap();
    ip("link set lo up");
    assert_eq!(pair.peer_inbox.expect_message(), b"under way");

    ip("link set lo down");
    pair.client.send(&[7; 10_000]).unwrap();
    let unsent = pair.client.close(Duration::from_millis(50));
    assert!(unsent.queued.is_zero());
    assert_eq!(unsent.kernel_bytes, Some(10_004), "none was acknowledged");
    pair.client_inbox.expect_end();
}
