//! Peers that are silent, slow, speak something else, or go without a word.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tautline::{
    Address, DirectLink, DirectListener, ErrorKind, Link, LinkOptions, Reason, RecvError, Server,
    ServerOptions, Tls,
};

use super::{echo, echo_of, good};
use crate::common::*;

over! {
    a_client_that_says_nothing_is_cut_off_and_harms_nobody: tls;
    a_client_that_speaks_a_byte_at_a_time_is_cut_off: tls;
    newcomers_in_their_handshake_count_as_connections: tls;
    a_server_that_is_closed_drops_those_in_their_handshake: tls;
    a_server_that_says_nothing_is_given_up_in_time: tls;
    closed_in_its_handshake_a_link_ends_at_once: tls;
    a_server_that_does_not_speak_tls_is_told_as_that: tls;
    a_client_that_does_not_speak_tls_is_counted: tls;
    an_end_without_a_goodbye_is_a_loss: tls;
    garbage_after_the_handshake_is_a_loss: tls;
    a_silent_client_does_not_hold_up_a_direct_listener: tls;
}

fn hasty() -> LinkOptions {
    LinkOptions {
        tls: Tls {
            handshake_timeout: Duration::from_millis(100),
            ..trusting()
        },
        ..good()
    }
}

fn plain_to(server: &Server) -> TcpStream {
    let Address::Tls { host, port } = server.local_address() else {
        panic!("a TLS server has a port");
    };
    let stream = TcpStream::connect((host.as_str(), port)).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// The server has closed it; what it said before does not matter.
fn expect_closed(stream: &mut TcpStream) {
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut Vec::new());
}

fn a_client_that_says_nothing_is_cut_off_and_harms_nobody(_: Transport) {
    let (client_io, server_io) = (start(), start());
    let server = echo(&server_io, echo_of(hasty()));
    let (handler, inbox) = recorder();
    let address = server.local_address();
    let link = client_io.connect(&address, good(), handler).unwrap();
    inbox.expect_opened();
    let began = Instant::now();
    let mut silent = plain_to(&server);
    link.send(b"meanwhile").unwrap();
    assert_eq!(inbox.expect_message(), b"meanwhile");
    expect_closed(&mut silent);
    assert!(began.elapsed() >= Duration::from_millis(100));
    until("it is counted", || {
        server.statistics().handshakes.timed_out == 1
    });
    let handshakes = server.statistics().handshakes;
    assert_eq!(handshakes.failed, 0);
    let why = handshakes.last_failure.unwrap();
    assert_eq!(why.kind(), ErrorKind::TimedOut);
    assert!(
        why.to_string()
            .contains("the TLS handshake is not done after 100ms")
    );
    assert!(link.is_open());
}

fn a_client_that_speaks_a_byte_at_a_time_is_cut_off(_: Transport) {
    let io = start();
    let server = echo(&io, echo_of(hasty()));
    let mut slow = plain_to(&server);
    let mut byte = 0;
    // The head of a record that would be 16 KiB long, and then some of it, for ever.
    let hello = |at: usize| [0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc].get(at).copied();
    while slow.write_all(&[hello(byte).unwrap_or(0)]).is_ok() {
        byte += 1;
        thread::yield_now();
    }
    until("it is counted", || {
        let handshakes = server.statistics().handshakes;
        // Too slow; or, on a machine that is fast at it, found out.
        handshakes.timed_out + handshakes.failed == 1
    });
    assert_eq!(server.statistics().accepted, 0);
}

fn newcomers_in_their_handshake_count_as_connections(_: Transport) {
    let (client_io, server_io) = (start(), start());
    let options = ServerOptions {
        connection_limit: 3,
        ..echo_of(good())
    };
    let server = echo(&server_io, options);
    let address = server.local_address();
    let (handler, inbox) = recorder();
    let link = client_io.connect(&address, good(), handler).unwrap();
    inbox.expect_opened();
    let _silent = [plain_to(&server), plain_to(&server)];
    let mut too_many = plain_to(&server);
    expect_closed(&mut too_many);
    assert_eq!(server.statistics().turned_away, 1);
    // Whoever was open stays.
    link.send(b"still").unwrap();
    assert_eq!(inbox.expect_message(), b"still");
    drop(_silent);
    until("there is room again", || {
        server.statistics().handshakes.failed == 2
    });
    let (handler, inbox) = recorder();
    let _link = client_io.connect(&address, good(), handler).unwrap();
    inbox.expect_opened();
}

fn a_server_that_is_closed_drops_those_in_their_handshake(_: Transport) {
    let io = start();
    let server = echo(&io, echo_of(good()));
    let mut silent: Vec<_> = (0..10).map(|_| plain_to(&server)).collect();
    // They were accepted, for whoever came after them was.
    let link = io.connect(&server.local_address(), good(), recorder().0);
    link.unwrap().wait_open(WATCHDOG).unwrap();
    server.close(WATCHDOG);
    silent.iter_mut().for_each(expect_closed);
}

fn a_server_that_says_nothing_is_given_up_in_time(_: Transport) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tls(silent.local_addr().unwrap());
    let (handler, inbox) = recorder();
    let io = start();
    let _link = io.connect(&address, hasty(), handler).unwrap();
    let Reason::NotConnected(error) = inbox.expect_ended() else {
        panic!("it could not be made");
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(
        error.to_string(),
        format!(
            "connect to {address}: the TLS handshake is not done after 100ms \
             (LinkOptions::tls.handshake_timeout)"
        )
    );
    let error = DirectLink::connect(&address, hasty()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

fn closed_in_its_handshake_a_link_ends_at_once(_: Transport) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tls(silent.local_addr().unwrap());
    let io = start();
    let ends: [fn(&Link); 2] = [|link| _ = link.close(WATCHDOG), Link::abort];
    for end in ends {
        let (handler, inbox) = recorder();
        let link = io.connect(&address, good(), handler).unwrap();
        // It has said hello: it is in its handshake.
        let mut stream = silent.accept().unwrap().0;
        stream.read_exact(&mut [0; 1]).unwrap();
        end(&link);
        inbox.expect_ended();
        inbox.expect_gone();
        drop(stream);
    }
}

fn a_server_that_does_not_speak_tls_is_told_as_that(_: Transport) {
    for (says, words) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            "the peer does not speak TLS: its first bytes are \"HTTP/1.1 400 Bad",
        ),
        (
            b"220 ready\r\n",
            "the peer does not speak TLS: its first bytes are \"220 ready",
        ),
        (b"", "the peer ended the connection in the TLS handshake"),
    ] {
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::tls(plain.local_addr().unwrap());
        let server = thread::spawn(move || {
            let mut stream = plain.accept().unwrap().0;
            // All of its hello, so that the end is no reset.
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(says).unwrap();
        });
        let (handler, inbox) = recorder();
        let io = start();
        let _link = io.connect(&address, good(), handler).unwrap();
        let Reason::NotConnected(error) = inbox.expect_ended() else {
            panic!("it could not be made");
        };
        // It may be another program the next time: this is worth another attempt.
        assert_ne!(error.kind(), ErrorKind::Untrusted);
        assert!(error.to_string().contains(words), "{error}");
        server.join().unwrap();
    }
}

fn a_client_that_does_not_speak_tls_is_counted(_: Transport) {
    let io = start();
    let server = echo(&io, echo_of(good()));
    let Address::Tls { host, port } = server.local_address() else {
        panic!("a TLS server has a port");
    };
    let plain = Address::Tcp { host, port };
    let (handler, inbox) = recorder();
    let options = framed(tcp());
    let link = io.connect(&plain, options, handler).unwrap();
    inbox.expect_opened();
    link.send(b"in plain words").unwrap();
    inbox.skip_to_closed();
    let handshakes = server.statistics().handshakes;
    assert_eq!((handshakes.failed, handshakes.completed), (1, 0));
    let why = handshakes.last_failure.unwrap().to_string();
    let words = r#"the peer does not speak TLS: its first bytes are "\x00\x00\x00\x0ein plain"#;
    assert!(why.starts_with("accept tls://127.0.0.1:"), "{why}");
    assert!(why.contains(words), "{why}");
    assert_eq!(server.statistics().accepted, 0);
}

fn an_end_without_a_goodbye_is_a_loss(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (_link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    peer.write_frame(b"all of it?");
    drop(peer);
    assert_eq!(inbox.expect_message(), b"all of it?");
    let closed = inbox.expect_end();
    let Reason::Lost(error) = closed.reason else {
        panic!("{:?}", closed.reason);
    };
    assert!(
        error.to_string().ends_with("what it sent may be cut off"),
        "{error}"
    );
    // The same where no thread drives it.
    let address = listener.address();
    let connecting = thread::spawn(move || DirectLink::connect(&address, good()).unwrap());
    drop(listener.accept());
    let mut direct = connecting.join().unwrap();
    let Err(RecvError::Failed(cause)) = direct.recv(None) else {
        panic!("it is no proper end");
    };
    assert!(
        cause.to_string().ends_with("what it sent may be cut off"),
        "{cause}"
    );
}

fn garbage_after_the_handshake_is_a_loss(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (_link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    peer.write_frame(b"a good one");
    let RawStream::Tls(raw) = &peer else {
        panic!("it is a TLS peer");
    };
    // A record, but not of anybody who has the key.
    let mut forged = vec![0x17, 3, 3, 0, 32];
    forged.extend([7; 32]);
    raw.tcp().write_all(&forged).unwrap();
    assert_eq!(inbox.expect_message(), b"a good one");
    let closed = inbox.expect_end();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
}

fn a_silent_client_does_not_hold_up_a_direct_listener(_: Transport) {
    let mut listener = DirectListener::bind(&fresh(tls()).address, hasty()).unwrap();
    let Address::Tls { host, port } = listener.local_address() else {
        panic!("a TLS listener has a port");
    };
    let _silent = TcpStream::connect((host.as_str(), port)).unwrap();
    let error = listener.accept(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    // Whoever comes next is let in.
    let address = listener.local_address();
    let client = thread::spawn(move || DirectLink::connect(&address, good()).unwrap());
    listener.accept(None).unwrap();
    client.join().unwrap();
}
