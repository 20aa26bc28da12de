//! Promise 9: whoever sends to a broadcast address needs leave, by its option's name, and hears whoever
//! answers.

use std::net::UdpSocket;

use tautline::{
    Address, DirectLink, ErrorKind, Link, LinkOptions, Reason, Received, Reconnect, ServerOptions,
};

use crate::common::*;

over! {
    without_leave_a_broadcast_address_is_refused_by_the_options_name: udp;
    with_leave_everybody_hears_and_whoever_answers_is_heard: udp;
    a_server_with_leave_speaks_to_everybody_first: udp;
    leave_to_broadcast_makes_no_difference_to_one_host: udp;
}

/// Everybody on this machine, says its routing table.
const EVERYBODY: &str = "127.255.255.255";

fn with_leave() -> LinkOptions {
    LinkOptions {
        broadcast: true,
        ..LinkOptions::default()
    }
}

fn port_of(address: &Address) -> u16 {
    match address {
        Address::Udp { port, .. } => *port,
        other => panic!("{other} is no datagram address"),
    }
}

fn without_leave_a_broadcast_address_is_refused_by_the_options_name(_: Transport) {
    let io = start();
    let expected = "broadcast: 127.255.255.255 is a broadcast address: set it to send there";
    let to: Address = format!("udp://{EVERYBODY}:9").parse().unwrap();
    // No retry could cure it.
    let patient = LinkOptions {
        reconnect: Some(Reconnect::default()),
        ..LinkOptions::default()
    };
    let (handler, inbox) = recorder();
    let link = io.connect(&to, patient, handler).unwrap();
    let error = link.wait_open(WATCHDOG).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::InvalidOption, expected.into())
    );
    let Reason::NotConnected(error) = inbox.expect_ended() else {
        panic!("it never connected");
    };
    assert_eq!(error.to_string(), expected);
    for unconnected in [false, true] {
        let options = LinkOptions {
            unconnected,
            ..LinkOptions::default()
        };
        let error = DirectLink::connect(&to, options).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn with_leave_everybody_hears_and_whoever_answers_is_heard(_: Transport) {
    let io = start();
    let answer = |peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap();
    let any = "udp://0.0.0.0:0".parse().unwrap();
    let server = io
        .listen(&any, ServerOptions::default(), move |_: &Link| Ok(answer))
        .unwrap();
    let port = port_of(&server.local_address());
    let to: Address = format!("udp://{EVERYBODY}:{port}").parse().unwrap();
    let (handler, inbox) = recorder();
    let link = io.connect(&to, with_leave(), handler).unwrap();
    assert_eq!(inbox.expect_opened().peer, Some(to.clone()));
    link.send(b"who is there?").unwrap();
    let Told::Message(message, received) = inbox.next() else {
        panic!("expected a message");
    };
    assert_eq!(message, b"who is there?");
    assert_eq!(received.from, Some(([127, 0, 0, 1], port).into()));

    let mut direct = DirectLink::connect(&to, with_leave()).unwrap();
    direct.send(b"and again?").unwrap();
    assert_eq!(direct.recv(None).unwrap(), b"and again?");
    assert_eq!(direct.sender(), Some(([127, 0, 0, 1], port).into()));
}

fn a_server_with_leave_speaks_to_everybody_first(_: Transport) {
    let io = start();
    let everybody = UdpSocket::bind("0.0.0.0:0").unwrap();
    everybody.set_read_timeout(Some(WATCHDOG)).unwrap();
    let port = everybody.local_addr().unwrap().port();
    let options = ServerOptions {
        link: with_leave(),
        ..ServerOptions::default()
    };
    let handlers = [recorder(), recorder()];
    let [
        (to_everybody, told_of_everybody),
        (answering, told_of_answering),
    ] = handlers;
    let mut handlers = vec![answering, to_everybody];
    let accept = move |_: &Link| handlers.pop().ok_or_else(|| "enough".into());
    let server = io
        .listen(&"udp://0.0.0.0:0".parse().unwrap(), options, accept)
        .unwrap();
    let link = server
        .reach(&format!("udp://{EVERYBODY}:{port}").parse().unwrap())
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    told_of_everybody.expect_opened();
    link.send(b"who is there?").unwrap();
    let mut buffer = [0; 32];
    let (bytes, from) = everybody.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..bytes], b"who is there?");
    everybody.send_to(b"I am", from).unwrap();
    let answering = told_of_answering.expect_opened();
    assert_eq!(told_of_answering.expect_message(), b"I am");
    assert_eq!(answering.peer.as_ref().map(port_of), Some(port));
}

fn leave_to_broadcast_makes_no_difference_to_one_host(_: Transport) {
    let io = start();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(WATCHDOG)).unwrap();
    let (handler, inbox) = recorder();
    let to = Address::udp(peer.local_addr().unwrap());
    let link = io.connect(&to, with_leave(), handler).unwrap();
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    let (_, from) = peer.recv_from(&mut [0; 16]).unwrap();
    peer.send_to(b"hello", from).unwrap();
    let Told::Message(_, received) = inbox.next() else {
        panic!("expected a message");
    };
    assert_eq!(received.from, None, "it is connected");
    // The network's word is heard.
    drop(peer);
    until("the network's word is an event", || {
        // It may be told to the send in its place.
        let _ = link.send(b"are you there?");
        let told = inbox.so_far();
        told.iter()
            .any(|told| matches!(told, Told::Event(Happened::Unreachable)))
    });
}
