//! Promises 3, 5 and 6 when the process at the other end is killed.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline::{Link, LinkOptions, Reason, Received, Reconnect, SendError, ServerOptions};

use crate::common::*;

over! {
    every_send_to_a_killed_process_has_one_outcome: tcp uds;
    a_killed_process_is_an_event_over_udp_and_its_successor_is_reached: udp;
    the_successor_of_a_killed_server_has_its_address_at_once: tcp uds udp;
    a_link_that_comes_back_finds_the_successor_and_says_nothing_old_to_it: tcp uds;
}

/// A server that reads nothing, so that everybody has to wait for it.
fn be_deaf() {
    let io = start();
    let options = ServerOptions {
        link: framed(Transport::Tcp),
        ..ServerOptions::default()
    };
    let accept = |peer: &Link| {
        peer.pause_reading();
        Ok(|_: &Link, _: &[u8], _: Received| {})
    };
    let server = io.listen(&listen_at(), options, accept).unwrap();
    tell_address(&server.local_address());
    wait_to_be_killed();
}

fn wait_to_be_killed() -> ! {
    loop {
        thread::park();
    }
}

fn every_send_to_a_killed_process_has_one_outcome(transport: Transport) {
    let test = "killed::every_send_to_a_killed_process_has_one_outcome";
    let name = name_of(test, transport);
    if in_child(&name) {
        return be_deaf();
    }
    let place = fresh(transport);
    let process = PeerProcess::start(&name, &place.address);
    let io = start();
    let (handler, inbox) = recorder();
    let link = io
        .connect(&process.address, framed(transport), handler)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    let driver = inside_callback(&io, own_thread_id);
    let (accepted, refusals) = thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let (link, tell) = (&link, tell.clone());
                scope.spawn(move || {
                    tell.send(own_thread_id()).unwrap();
                    send_until_refused(link)
                })
            })
            .collect();
        let mut threads: Vec<_> = senders.iter().map(|_| told.recv().unwrap()).collect();
        threads.push(driver);
        until("all wait for the kernel, which is full", || {
            let sent = || link.statistics().sending;
            let before = sent().written;
            threads.iter().all(|id| is_asleep(*id)) && sent().waits > 0 && sent().written == before
        });
        process.kill();
        senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .unzip::<u64, SendError, Vec<_>, Vec<_>>()
    });
    assert_eq!(refusals, [SendError::NotConnected; 4]);
    let closed = inbox.skip_to_closed();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
    assert!(matches!(inbox.expect_ended(), Reason::Lost(_)));
    inbox.expect_gone();
    let sending = link.statistics().sending;
    assert_eq!(sending.accepted.messages, accepted.iter().sum::<u64>());
    assert!(sending.closes() && sending.waiting.is_zero(), "{sending:?}");
    assert_eq!(sending.discarded.total(), closed.unsent.queued);
    assert!(!closed.unsent.queued.is_zero());
}

/// How many were accepted, and why the next was not.
fn send_until_refused(link: &Link) -> (u64, SendError) {
    let mut accepted = 0;
    loop {
        match link.send(&[7; 10_000]) {
            Ok(()) => accepted += 1,
            Err(refusal) => return (accepted, refusal),
        }
    }
}

/// Answers whatever it is told, until it is told to be deaf.
fn be_an_echo(transport: Transport) {
    let io = start();
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let answer = |peer: &Link, message: &[u8], _: Received| {
        peer.send(message).unwrap();
        if message == DEAF {
            peer.pause_reading();
        }
    };
    let server = io
        .listen(&listen_at(), options, move |_: &Link| Ok(answer))
        .unwrap();
    tell_address(&server.local_address());
    wait_to_be_killed();
}

fn a_killed_process_is_an_event_over_udp_and_its_successor_is_reached(transport: Transport) {
    let test = "killed::a_killed_process_is_an_event_over_udp_and_its_successor_is_reached";
    let name = name_of(test, transport);
    if in_child(&name) {
        return be_an_echo(transport);
    }
    let process = PeerProcess::start(&name, &fresh(transport).address);
    let address = process.address.clone();
    let io = start();
    let (handler, inbox) = recorder();
    let link = io.connect(&address, framed(transport), handler).unwrap();
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    assert_eq!(inbox.expect_message(), b"hello");
    process.kill();
    link.send(b"still there?").unwrap();
    assert_eq!(inbox.expect_event(), Happened::Unreachable);
    let successor = PeerProcess::start(&name, &address);
    assert_eq!(successor.address, address);
    link.send(b"and now?").unwrap();
    assert_eq!(inbox.expect_message(), b"and now?");
    assert!(link.is_open());
}

/// Killed in the middle of conversations, it leaves connections that linger, and the file of its socket.
fn the_successor_of_a_killed_server_has_its_address_at_once(transport: Transport) {
    let test = "killed::the_successor_of_a_killed_server_has_its_address_at_once";
    let name = name_of(test, transport);
    if in_child(&name) {
        return be_an_echo(transport);
    }
    let place = fresh(transport);
    let mut address = place.address.clone();
    let io = start();
    for _ in 0..5 {
        let process = PeerProcess::start(&name, &address);
        address = process.address.clone();
        let (handler, inbox) = recorder();
        let link = io.connect(&address, framed(transport), handler).unwrap();
        inbox.expect_opened();
        link.send(b"hello").unwrap();
        assert_eq!(inbox.expect_message(), b"hello");
        process.kill();
        if transport.is_stream() {
            inbox.expect_end();
        }
    }
}

const DEAF: &[u8] = b"be deaf from now on";

/// What was said to the dead is not said to its successor, and what is said first there is what `opened`
/// says: a subscription, say.
fn a_link_that_comes_back_finds_the_successor_and_says_nothing_old_to_it(transport: Transport) {
    let test = "killed::a_link_that_comes_back_finds_the_successor_and_says_nothing_old_to_it";
    let name = name_of(test, transport);
    if in_child(&name) {
        return be_an_echo(transport);
    }
    let place = fresh(transport);
    let process = PeerProcess::start(&name, &place.address);
    let address = process.address.clone();
    let (handler, inbox) = recorder_that(|link: &Link, told| {
        if matches!(told, Told::Opened(_)) {
            link.send(b"subscribe").unwrap();
        }
    });
    let options = LinkOptions {
        reconnect: Some(Reconnect {
            base: Duration::from_millis(1),
            cap: Duration::from_millis(10),
            ..Reconnect::default()
        }),
        // Left alone, the kernel's grows with what waits.
        send_buffer_bytes: Some(16 * 1024),
        ..framed(transport)
    };
    let io = start();
    let link = io.connect(&address, options, handler).unwrap();
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"subscribe");
    link.send(DEAF).unwrap();
    assert_eq!(inbox.expect_message(), DEAF);
    until("neither the kernel nor the queue takes more", || {
        while link.try_send(&[7; 10_000]).is_ok() {}
        let before = link.statistics().sending.written;
        let_turn(&io);
        link.statistics().sending.written == before
    });
    process.kill();
    let lost = inbox.skip_to_closed().unsent.queued;
    assert!(!lost.is_zero());

    let successor = PeerProcess::start(&name, &address);
    assert_eq!(successor.address, address);
    assert_eq!(inbox.skip_to_opened().generation, 2);
    assert_eq!(inbox.skip_to_message(), b"subscribe");
    link.send(b"something new").unwrap();
    assert_eq!(inbox.skip_to_message(), b"something new");
    let sending = link.statistics().sending;
    assert_eq!(sending.discarded.total(), lost);
    assert!(sending.closes(), "{sending:?}");
}
