//! Promise 5 where a name has several addresses, and not all of them lead somewhere. In a process that has
//! a file of names of its own.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tautline::{
    Address, DirectLink, ErrorKind, IoThread, Link, LinkOptions, Reason, Received, Reconnect,
    Server, ServerOptions,
};

use crate::common::*;

over! {
    a_name_leads_to_whichever_of_its_addresses_answers: tcp;
    an_address_that_says_nothing_does_not_eat_the_time_of_the_next: tcp;
    a_name_server_that_says_nothing_does_not_outlast_the_deadline: tcp udp;
}

/// Whether this is the process with names of its own.
fn with_own_names(test: &str, transport: Transport) -> bool {
    let name = name_of(&format!("names::{test}"), transport);
    let alone = in_child(&name);
    if !alone {
        let prepare = format!(
            r#"F=$(mktemp) && printf "{NAMES}" >$F && mount --bind $F /etc/hosts && rm -f $F;
               F=$(mktemp) && printf "nameserver 127.0.0.1\n" >$F &&
               mount --bind $F /etc/resolv.conf && rm -f $F; ip link set lo up &&"#
        );
        child_in_namespaces(&name, "-n -m", &prepare);
    }
    alone
}

/// The server is at the first; at the other nobody listens.
const NAMES: &str = r"127.0.0.5 first.test\n127.0.0.7 first.test\n\
                      127.0.0.7 second.test\n127.0.0.5 second.test\n";

fn a_name_leads_to_whichever_of_its_addresses_answers(transport: Transport) {
    let test = "a_name_leads_to_whichever_of_its_addresses_answers";
    if !with_own_names(test, transport) {
        return;
    }
    let (io, server) = (start(), start());
    let server = echo(&server, transport);
    expect_both_names_lead_to(&server, &io, transport);
}

/// As one whose network swallows what is sent to it.
fn an_address_that_says_nothing_does_not_eat_the_time_of_the_next(transport: Transport) {
    let test = "an_address_that_says_nothing_does_not_eat_the_time_of_the_next";
    if !with_own_names(test, transport) {
        return;
    }
    let (io, server) = (start(), start());
    let server = echo(&server, transport);
    // Where there is no room for one more who waits, nobody is answered.
    let silent: SocketAddr = format!("127.0.0.7:{}", port_of(&server)).parse().unwrap();
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&silent.into()).unwrap();
    listener.listen(0).unwrap();
    let _the_only_one = TcpStream::connect(silent).unwrap();
    expect_both_names_lead_to(&server, &io, transport);
}

fn echo(io: &IoThread, transport: Transport) -> Server {
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let accept =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    io.listen(&"tcp://127.0.0.5:0".parse().unwrap(), options, accept)
        .unwrap()
}

fn port_of(server: &Server) -> u16 {
    let Address::Tcp { port, .. } = server.local_address() else {
        panic!("it is a TCP server");
    };
    port
}

/// One of them has the server's address first, the other has it last.
fn expect_both_names_lead_to(server: &Server, io: &IoThread, transport: Transport) {
    let options = LinkOptions {
        connect_timeout: WATCHDOG,
        ..framed(transport)
    };
    for host in ["first.test", "second.test"] {
        let address = format!("tcp://{host}:{}", port_of(server)).parse().unwrap();
        let (handler, inbox) = recorder();
        let link = io.connect(&address, options.clone(), handler).unwrap();
        let opened = inbox.expect_opened();
        assert_eq!(opened.peer, Some(server.local_address()));
        link.send(b"hello").unwrap();
        assert_eq!(inbox.expect_message(), b"hello");

        let mut direct = DirectLink::connect(&address, options.clone()).unwrap();
        direct.send(b"hello").unwrap();
        let soon = Some(Instant::now() + WATCHDOG);
        assert_eq!(direct.recv(soon).unwrap(), b"hello");
    }
}

/// The system's resolver asks again and again, for longer than an attempt may take.
fn a_name_server_that_says_nothing_does_not_outlast_the_deadline(transport: Transport) {
    let test = "a_name_server_that_says_nothing_does_not_outlast_the_deadline";
    if !with_own_names(test, transport) {
        return;
    }
    let silent = UdpSocket::bind("127.0.0.1:53").unwrap();
    silent.set_read_timeout(Some(WATCHDOG)).unwrap();
    let io = start();
    let scheme = if transport.is_stream() { "tcp" } else { "udp" };
    let address = format!("{scheme}://nobody.test:9").parse().unwrap();
    let short = LinkOptions {
        connect_timeout: Duration::from_millis(50),
        ..framed(transport)
    };
    let given_up = |error: &tautline::Error| {
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    };
    // An attempt, and the time for all of them.
    let patient = LinkOptions {
        connect_timeout: WATCHDOG,
        reconnect: Some(Reconnect {
            give_up_after: Some(Duration::from_millis(50)),
            ..Reconnect::default()
        }),
        ..framed(transport)
    };
    for options in [short, patient] {
        let (handler, inbox) = recorder();
        let _link = io.connect(&address, options, handler).unwrap();
        let Reason::NotConnected(error) = inbox.expect_ended() else {
            panic!("nobody knows the name");
        };
        given_up(&error);
    }
    // And whoever closes does not wait for the resolver.
    let (handler, inbox) = recorder();
    let patient = LinkOptions {
        connect_timeout: WATCHDOG,
        ..framed(transport)
    };
    let link = io.connect(&address, patient, handler).unwrap();
    link.close(WATCHDOG);
    assert!(matches!(inbox.expect_ended(), Reason::Closed));
    // It was asked all the time.
    silent.recv(&mut [0; 512]).unwrap();
}
