//! Promise 9, multicast: servers join groups, links send to them, and nobody hears what he did not join.

use tautline::{
    Address, Interface, Link, LinkOptions, Multicast, MulticastGroup, Received, ServerOptions,
};

use crate::common::*;

over! {
    what_is_sent_to_a_group_comes_to_its_members: udp;
}

fn on_loopback(group: &str) -> MulticastGroup {
    MulticastGroup {
        interface: Interface::Name("lo".to_owned()),
        ..MulticastGroup::new(group.parse().unwrap())
    }
}

fn sending_on_loopback() -> LinkOptions {
    LinkOptions {
        multicast: Multicast {
            interface: Interface::Name("lo".to_owned()),
            ..Multicast::default()
        },
        ..LinkOptions::default()
    }
}

fn what_is_sent_to_a_group_comes_to_its_members(transport: Transport) {
    let _ = transport;
    let io = start();
    let options = ServerOptions {
        groups: vec![on_loopback("239.255.1.1")],
        ..ServerOptions::default()
    };
    let accept =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let server = io
        .listen(&"udp://0.0.0.0:0".parse().unwrap(), options, accept)
        .unwrap();
    let Address::Udp { port, .. } = server.local_address() else {
        unreachable!()
    };
    let (handler, inbox) = recorder();
    let to = format!("udp://239.255.1.1:{port}").parse().unwrap();
    let link = io.connect(&to, sending_on_loopback(), handler).unwrap();
    inbox.expect_opened();
    link.send(b"anybody?").unwrap();
    let Told::Message(message, received) = inbox.next() else {
        panic!()
    };
    assert_eq!(message, b"anybody?");
    assert_eq!(received.from.map(|from| from.port()), Some(port));
}
