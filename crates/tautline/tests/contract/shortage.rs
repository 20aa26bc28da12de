//! Promise 14 when the machine has no more to give: what needs it says so, what does not goes on, and
//! all is well once there is some again.

use std::fs::File;
use std::time::{Duration, Instant};

use tautline::{
    Address, DirectLink, DirectListener, Error, ErrorKind, IoLoop, IoOptions, IoThread, Link,
    LinkOptions, Reason, Received, Reconnect, RecvError, Server, ServerOptions,
};

use crate::common::*;

over! {
    without_descriptors_connecting_says_so: tcp tls uds udp;
    without_descriptors_listening_says_so: tcp tls uds udp;
    without_descriptors_a_direct_listener_says_so_and_loses_nobody: tcp uds;
    without_descriptors_accepting_is_tried_less_and_less_often: tcp uds;
    without_descriptors_new_datagram_peers_are_served: udp;
    without_descriptors_a_link_that_comes_back_tries_on: tcp tls uds;
    a_kernel_that_was_short_of_memory_is_asked_again: tcp uds udp;
    a_kernel_that_was_short_of_memory_is_asked_again_by_direct_links: tcp uds udp;
    a_read_that_the_kernel_had_no_memory_for_is_tried_again: tcp tls uds udp;
    a_direct_receive_that_the_kernel_had_no_memory_for_goes_on: tcp tls uds udp;
}

/// All descriptors that this process may still open.
struct Hoard {
    files: Vec<File>,
}

impl Hoard {
    fn take_all() -> Self {
        let mut hoard = Self { files: Vec::new() };
        hoard.take_more();
        hoard
    }

    fn take_more(&mut self) {
        while let Ok(file) = File::open("/dev/null") {
            self.files.push(file);
        }
    }
}

/// Whether this is the process of its own that a test of descriptors runs in.
fn alone_with_few_descriptors(test: &str, transport: Transport) -> bool {
    let name = name_of(&format!("shortage::{test}"), transport);
    let alone = in_child(&name);
    if !alone {
        child(&name, "ulimit -n 64;");
    }
    alone
}

fn echo_on(io: &IoThread, address: &Address, transport: Transport) -> Result<Server, Error> {
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let accept =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    io.listen(address, options, accept)
}

/// A link that has been answered.
fn reach_echo(io: &IoThread, server: &Server, transport: Transport) -> (Link, Inbox) {
    let (handler, inbox) = recorder();
    let link = io
        .connect(&server.local_address(), framed(transport), handler)
        .unwrap();
    inbox.expect_opened();
    expect_answer(&link, &inbox);
    (link, inbox)
}

fn expect_answer(link: &Link, inbox: &Inbox) {
    link.send(b"hello").unwrap();
    assert_eq!(inbox.expect_message(), b"hello");
}

fn expect_too_many(error: &Error, operation: &str) {
    let cause = error.io_error().unwrap();
    assert_eq!(cause.raw_os_error(), Some(libc::EMFILE), "{error}");
    assert_eq!(
        error.to_string(),
        format!("{operation}: too many open files")
    );
}

fn without_descriptors_connecting_says_so(transport: Transport) {
    if !alone_with_few_descriptors("without_descriptors_connecting_says_so", transport) {
        return;
    }
    let (io, place) = (start(), fresh(transport));
    let server = echo_on(&io, &place.address, transport).unwrap();
    let address = server.local_address();
    let (before, before_inbox) = reach_echo(&io, &server, transport);

    let hoard = Hoard::take_all();
    let (handler, inbox) = recorder();
    let link = io.connect(&address, framed(transport), handler).unwrap();
    let Reason::NotConnected(error) = inbox.expect_ended() else {
        panic!("it had no descriptor");
    };
    assert_eq!(error.kind(), ErrorKind::Connect);
    expect_too_many(&error, &format!("connect to {address}"));
    inbox.expect_gone();
    link.wait_open(WATCHDOG).unwrap_err();
    let error = DirectLink::connect(&address, framed(transport)).unwrap_err();
    expect_too_many(&error, &format!("connect to {address}"));
    expect_answer(&before, &before_inbox);

    drop(hoard);
    reach_echo(&io, &server, transport);
    DirectLink::connect(&address, framed(transport)).unwrap();
}

fn without_descriptors_listening_says_so(transport: Transport) {
    if !alone_with_few_descriptors("without_descriptors_listening_says_so", transport) {
        return;
    }
    let (io, place) = (start(), fresh(transport));
    let address = &place.address;
    let hoard = Hoard::take_all();
    let error = echo_on(&io, address, transport).unwrap_err();
    expect_too_many(&error, &format!("listen on {address}: socket"));
    let error = DirectListener::bind(address, framed(transport)).unwrap_err();
    expect_too_many(&error, &format!("listen on {address}: socket"));
    let error = IoThread::start(IoOptions::default()).unwrap_err();
    expect_too_many(&error, "start a thread");
    let error = IoLoop::new(IoOptions::default()).unwrap_err();
    expect_too_many(&error, "make a loop");

    drop(hoard);
    let server = echo_on(&start(), address, transport).unwrap();
    reach_echo(&io, &server, transport);
}

fn without_descriptors_a_direct_listener_says_so_and_loses_nobody(transport: Transport) {
    let test = "without_descriptors_a_direct_listener_says_so_and_loses_nobody";
    if !alone_with_few_descriptors(test, transport) {
        return;
    }
    let place = fresh(transport);
    let mut listener = DirectListener::bind(&place.address, framed(transport)).unwrap();
    let address = listener.local_address();
    let mut waiting = RawStream::connect(&address);
    waiting.write_frame(b"patience");
    let hoard = Hoard::take_all();
    let soon = Some(Instant::now() + WATCHDOG);
    for _ in 0..3 {
        let error = listener.accept(soon).unwrap_err();
        expect_too_many(&error, &format!("accept on {address}"));
    }
    drop(hoard);
    let mut link = listener.accept(soon).unwrap();
    assert_eq!(link.recv(soon).unwrap(), b"patience");
}

/// The connection waits on all the time, and a loop that tried to accept it each time would spin.
fn without_descriptors_accepting_is_tried_less_and_less_often(transport: Transport) {
    let test = "without_descriptors_accepting_is_tried_less_and_less_often";
    if !alone_with_few_descriptors(test, transport) {
        return;
    }
    let (io, place) = (start(), fresh(transport));
    let server = echo_on(&io, &place.address, transport).unwrap();
    let mut hoard = Hoard::take_all();
    // One for the client's end.
    hoard.files.pop();
    let begun = Instant::now();
    let mut waiting = RawStream::connect(&server.local_address());
    waiting.write_frame(b"patience");
    let mut pause = Duration::from_millis(10);
    let mut earliest = Duration::ZERO;
    for tries in 1..=5 {
        until("it has tried so often", || {
            server.statistics().accept_shortages >= tries
        });
        assert!(begun.elapsed() >= earliest, "try {tries} came too early");
        earliest += pause;
        pause *= 2;
    }
    drop(hoard);
    assert_eq!(waiting.read_frame(), b"patience");
}

/// A datagram server has one socket, whoever comes.
fn without_descriptors_new_datagram_peers_are_served(transport: Transport) {
    let test = "without_descriptors_new_datagram_peers_are_served";
    if !alone_with_few_descriptors(test, transport) {
        return;
    }
    let (io, place) = (start(), fresh(transport));
    let server = echo_on(&io, &place.address, transport).unwrap();
    let newcomer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    newcomer.set_read_timeout(Some(WATCHDOG)).unwrap();
    let Address::Udp { host, port } = server.local_address() else {
        panic!("it is a datagram server");
    };
    let _hoard = Hoard::take_all();
    newcomer.send_to(b"hello", (host.as_str(), port)).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(newcomer.recv(&mut buffer).unwrap(), 5);
    assert_eq!(server.statistics().accepted, 1);
}

fn without_descriptors_a_link_that_comes_back_tries_on(transport: Transport) {
    let test = "without_descriptors_a_link_that_comes_back_tries_on";
    if !alone_with_few_descriptors(test, transport) {
        return;
    }
    let (io, place) = (start(), fresh(transport));
    let server = echo_on(&io, &place.address, transport).unwrap();
    let address = server.local_address();
    let options = LinkOptions {
        reconnect: Some(Reconnect {
            base: Duration::from_millis(1),
            cap: Duration::from_millis(10),
            ..Reconnect::default()
        }),
        ..framed(transport)
    };
    let (handler, inbox) = recorder();
    let link = io.connect(&address, options, handler).unwrap();
    inbox.expect_opened();
    drop(server);
    inbox.expect_closed();
    let mut hoard = Hoard::take_all();
    let mut in_vain = 0;
    while in_vain < 3 {
        // An attempt under way had one, and gives it back.
        hoard.take_more();
        if let Told::Event(Happened::Retrying { reason, .. }) = inbox.next() {
            in_vain += u32::from(reason.ends_with("too many open files"));
        }
    }
    drop(hoard);
    let _server = echo_on(&io, &address, transport).unwrap();
    assert_eq!(inbox.skip_to_opened().generation, 2);
    expect_answer(&link, &inbox);
}

/// The length, on the wire, of a message that the kernel has no memory for.
const UNLUCKY_BYTES: usize = 777;

/// The kernel says more than once that it has no memory, though the socket has room: so it will not tell
/// when it has. A link was once left waiting for that.
fn a_kernel_that_was_short_of_memory_is_asked_again(transport: Transport) {
    let test = "shortage::a_kernel_that_was_short_of_memory_is_asked_again";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let (io, server_io) = (start(), start());
    let unlucky = vec![7; UNLUCKY_BYTES - transport.encoded(0)];
    let (link_handler, link_inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, framed(transport), link_handler);
    link_inbox.expect_opened();
    let place = fresh(transport);
    let server = echo_on(&server_io, &place.address, transport).unwrap();
    let (asking, inbox) = reach_echo(&io, &server, transport);
    let faults = Faults::of_sends(UNLUCKY_BYTES);
    for error in [libc::ENOBUFS, libc::ENOMEM] {
        // By the sender, and then by the driver.
        faults.next_are(3, error);
        link.send(&unlucky).unwrap();
        assert_eq!(peer.read_message(), unlucky);
        assert_eq!(faults.to_come(), 0);
        // By the driver alone, for a link and for a server's peer.
        asking.send(&unlucky).unwrap();
        assert_eq!(inbox.expect_message(), unlucky);
        for busy in [&io, &server_io] {
            let gate = hold(busy);
            asking.send(&unlucky).unwrap();
            faults.next_are(3, error);
            drop(gate);
            assert_eq!(inbox.expect_message(), unlucky);
        }
    }
    let sending = link.statistics().sending;
    assert_eq!(sending.written.messages, 2);
    // Three for each of the two errors, all of them this link's: the peer that reads is raw.
    assert_eq!(sending.shortages, 6);
    assert!(sending.closes() && link.is_open());
    assert!(server.statistics().peers.sending.shortages >= 3);
}

fn a_kernel_that_was_short_of_memory_is_asked_again_by_direct_links(transport: Transport) {
    let test = "shortage::a_kernel_that_was_short_of_memory_is_asked_again_by_direct_links";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let (io, place) = (start(), fresh(transport));
    let server = echo_on(&io, &place.address, transport).unwrap();
    let mut link = DirectLink::connect(&server.local_address(), framed(transport)).unwrap();
    let faults = Faults::of_sends(UNLUCKY_BYTES);
    let unlucky = vec![7; UNLUCKY_BYTES - transport.encoded(0)];
    let soon = Some(Instant::now() + WATCHDOG);
    for error in [libc::ENOBUFS, libc::ENOMEM] {
        faults.next_are(3, error);
        link.send(&unlucky).unwrap();
        assert_eq!(link.recv(soon).unwrap(), unlucky);
        faults.next_are(3, error);
        link.send(&unlucky).unwrap();
        link.send(b"and another").unwrap();
        assert_eq!(link.recv(soon).unwrap(), unlucky);
        assert_eq!(link.recv(soon).unwrap(), b"and another");
    }
    let sending = link.statistics().sending;
    assert!(sending.shortages >= 6 && sending.closes(), "{sending:?}");
}

/// The kernel tells once that something came. A link that let it be when there was no memory to read it
/// heard of it with the next message only, and a datagram link ended.
fn a_read_that_the_kernel_had_no_memory_for_is_tried_again(transport: Transport) {
    let test = "shortage::a_read_that_the_kernel_had_no_memory_for_is_tried_again";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let (io, place) = (start(), fresh(transport));
    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    inbox.expect_opened();
    let server = echo_on(&start(), &place.address, transport).unwrap();
    let (asking, answers) = reach_echo(&io, &server, transport);
    let faults = Faults::of_receives();
    for error in [libc::ENOBUFS, libc::ENOMEM] {
        faults.next_are(3, error);
        peer.write_message(b"said once");
        assert_eq!(inbox.expect_message(), b"said once");
        assert_eq!(faults.to_come(), 0);
        // And by a server.
        faults.next_are(3, error);
        expect_answer(&asking, &answers);
        assert_eq!(faults.to_come(), 0);
    }
    assert!(link.is_open() && asking.is_open());
}

fn a_direct_receive_that_the_kernel_had_no_memory_for_goes_on(transport: Transport) {
    let test = "shortage::a_direct_receive_that_the_kernel_had_no_memory_for_goes_on";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let (io, place) = (start(), fresh(transport));
    let server = echo_on(&io, &place.address, transport).unwrap();
    let mut link = DirectLink::connect(&server.local_address(), framed(transport)).unwrap();
    let faults = Faults::of_receives();
    let soon = Some(Instant::now() + WATCHDOG);
    for (error, deadline) in [(libc::ENOBUFS, soon), (libc::ENOMEM, None)] {
        let answered = server.statistics().peers.sending.written.messages + 1;
        link.send(b"hello").unwrap();
        until("the answer is on its way", || {
            server.statistics().peers.sending.written.messages == answered
        });
        faults.next_are(3, error);
        assert_eq!(link.recv(deadline).unwrap(), b"hello");
        assert_eq!(faults.to_come(), 0);
    }
    // It is not the end of a wait in vain.
    faults.next_are(u64::MAX, libc::ENOMEM);
    let now = Some(Instant::now());
    assert!(matches!(link.recv(now), Err(RecvError::TimedOut)));
}
