//! Promise 15: any number of links on one thread, which costs nothing while nothing happens.

use std::fs;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use tautline::{IoOptions, IoThread, Link, LinkOptions, Received, SendError, ServerOptions};

use crate::common::*;

over! {
    a_thread_has_the_name_it_was_given: tcp tls;
    many_links_share_one_thread: tcp tls uds udp;
    two_io_threads_serve_each_other: tcp tls uds udp serial;
    a_thread_that_spins_serves_as_any_other: tcp tls uds udp;
    an_idle_thread_does_not_wake: tcp tls uds udp;
    a_thread_ends_with_its_last_link_after_its_value_is_dropped: tcp tls uds udp;
    a_thread_without_links_ends_at_once: tcp tls;
    a_thread_whose_value_is_dropped_serves_on_while_a_link_lives: tcp tls uds udp serial;
    the_value_may_be_dropped_in_a_callback: tcp tls uds serial;
    no_signal_kills_who_writes_to_a_peer_that_has_gone: tcp tls uds serial;
    the_shared_thread_is_one: tcp tls;
}

fn named(name: &str) -> IoThread {
    IoThread::start(IoOptions {
        name: name.to_owned(),
        ..IoOptions::default()
    })
    .unwrap()
}

/// The one thread of this name.
fn thread_id(name: &str) -> u32 {
    let ids = thread_ids(name);
    assert_eq!(ids.len(), 1, "{name}: {ids:?}");
    ids[0]
}

fn expect_no_thread(name: &str) {
    until("the thread has ended", || thread_ids(name).is_empty());
}

fn a_thread_has_the_name_it_was_given(_: Transport) {
    let io = named("fifteen-bytes-n");
    inside_callback(&io, || {});
    thread_id("fifteen-bytes-n");
}

fn many_links_share_one_thread(transport: Transport) {
    let name = format!("many-{transport:?}");
    let io = named(&name);
    let place = fresh(transport);
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let echo =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let server = io.listen(&place.address, options, echo).unwrap();
    let links: Vec<_> = (0..100)
        .map(|_| {
            let (handler, inbox) = recorder();
            let address = server.local_address();
            let link = io.connect(&address, framed(transport), handler).unwrap();
            (link, inbox)
        })
        .collect();
    for (link, inbox) in &links {
        inbox.expect_opened();
        link.send(b"hello").unwrap();
    }
    for (_, inbox) in &links {
        assert_eq!(inbox.expect_message(), b"hello");
    }
    assert_eq!(server.statistics().connected, 100);
    thread_id(&name);
}

fn two_io_threads_serve_each_other(transport: Transport) {
    // The suite's pairs are made so; here a callback on either side answers the other.
    let (client, client_inbox) = recorder_that(|link, told| {
        if let Told::Message(message, _) = told {
            let count = message[0];
            if count > 0 {
                link.send(&[count - 1]).unwrap();
            }
        }
    });
    let (peer, peer_inbox) = recorder_that(|link, told| {
        if let Told::Message(message, _) = told
            && message.len() == 1
        {
            link.send(message).unwrap();
        }
    });
    let options = framed(transport);
    let pair = Pair::connect(
        transport,
        &options,
        &options,
        (client, client_inbox),
        (peer, peer_inbox),
    );
    pair.client.send(&[200]).unwrap();
    pair.client_inbox
        .all_up_to(|told| matches!(told, Told::Message(message, _) if message == &[0]));
}

fn a_thread_that_spins_serves_as_any_other(transport: Transport) {
    let spinning = || {
        IoThread::start(IoOptions {
            spin: Duration::from_micros(50),
            ..IoOptions::default()
        })
        .unwrap()
    };
    let (io, server_io) = (spinning(), spinning());
    let (handler, peer_inbox) = recorder_that(|link, told| {
        if let Told::Message(message, _) = told {
            link.send(message).unwrap();
        }
    });
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let served = Served::listen(&server_io, transport, options, vec![handler]);
    let (handler, inbox) = recorder();
    let address = served.server.local_address();
    let link = io.connect(&address, framed(transport), handler).unwrap();
    inbox.expect_opened();
    for message in numbered(200, 100) {
        link.send(&message).unwrap();
        assert_eq!(inbox.expect_message(), message);
    }
    link.close(WATCHDOG);
    inbox.expect_end();
    peer_inbox.expect_opened();
}

/// Times that a thread went to sleep or was made to.
fn switches(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap();
    status
        .lines()
        .filter(|line| line.contains("ctxt_switches"))
        .map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// Waits for what never comes, as a program with nothing to do.
fn do_nothing_for(while_: Duration) {
    let (never, nothing) = (Condvar::new(), Mutex::new(()));
    let waited = never.wait_timeout_while(nothing.lock().unwrap(), while_, |()| true);
    assert!(waited.unwrap().1.timed_out());
}

fn an_idle_thread_does_not_wake(transport: Transport) {
    let name = format!("idle-{transport:?}");
    let io = named(&name);
    let options = LinkOptions {
        // Its timer is still to come long after this test.
        connect_timeout: Duration::from_secs(3600),
        ..framed(transport)
    };
    let server_options = ServerOptions {
        link: framed(transport),
        // A datagram server looks for silent peers now and then; not within this test.
        peer_expiry: Duration::from_secs(3600),
        ..ServerOptions::default()
    };
    let handlers = vec![recorder().0, recorder().0];
    let served = Served::listen(&io, transport, server_options, handlers);
    let links: Vec<_> = (0..2)
        .map(|_| {
            let (handler, inbox) = recorder();
            let address = served.server.local_address();
            let link = io.connect(&address, options.clone(), handler).unwrap();
            inbox.expect_opened();
            link.send(b"hello").unwrap();
            let peer = served.peer();
            peer.send(b"hello").unwrap();
            inbox.expect_message();
            link
        })
        .collect();
    // A link whose peer does not read, so that somebody waits for writability too.
    let stalled = transport
        .is_stream()
        .then(|| stalled(&io, transport, recorder().0));
    let_turn(&io);
    let id = thread_id(&name);
    // What it has to do is done when it has slept once without being woken.
    let mut before = switches(id);
    until("it has come to rest", || {
        do_nothing_for(Duration::from_millis(20));
        let now = switches(id);
        std::mem::replace(&mut before, now) == now
    });
    do_nothing_for(Duration::from_millis(500));
    let woken = switches(id) - before;
    assert_eq!(woken, 0, "it went to sleep once and did nothing since");
    drop((links, stalled));
}

fn a_thread_ends_with_its_last_link_after_its_value_is_dropped(transport: Transport) {
    let name = format!("last-{transport:?}");
    let io = named(&name);
    let (handler, _inbox) = recorder();
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let served = Served::listen(&io, transport, options, vec![handler]);
    let (handler, inbox) = recorder();
    let address = served.server.local_address();
    let link = io.connect(&address, framed(transport), handler).unwrap();
    inbox.expect_opened();
    drop(io);
    link.send(b"hello").unwrap();
    served.peer().send(b"hello").unwrap();
    assert_eq!(inbox.expect_message(), b"hello");
    thread_id(&name);
    drop(link);
    inbox.expect_end();
    // The server is still there.
    thread_id(&name);
    drop(served);
    expect_no_thread(&name);
}

fn a_thread_without_links_ends_at_once(_: Transport) {
    let io = named("no-links");
    inside_callback(&io, || {});
    drop(io);
    expect_no_thread("no-links");
}

fn a_thread_whose_value_is_dropped_serves_on_while_a_link_lives(transport: Transport) {
    let name = format!("serves-{transport:?}");
    let io = named(&name);
    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    drop(io);
    inbox.expect_opened();
    for message in numbered(100, 100) {
        peer.write_message(&message);
        assert_eq!(inbox.expect_message(), message);
        link.send(&message).unwrap();
        assert_eq!(peer.read_message(), message);
    }
    link.close(Duration::ZERO);
    inbox.expect_end();
    expect_no_thread(&name);
}

fn the_value_may_be_dropped_in_a_callback(transport: Transport) {
    let name = format!("inside-{transport:?}");
    let io = named(&name);
    let (give, given) = std::sync::mpsc::channel::<IoThread>();
    let (handler, inbox) = recorder_that(move |_, told| {
        if matches!(told, Told::Message(..)) {
            drop(given.recv_timeout(WATCHDOG).unwrap());
        }
    });
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    peer.write_message(b"now");
    give.send(io).unwrap();
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"now");
    link.send(b"still here").unwrap();
    assert_eq!(peer.read_message(), b"still here");
    link.abort();
    expect_no_thread(&name);
}

/// The runtime of Rust programs ignores SIGPIPE; a program that is not one, or that gave the signal
/// back its default, would be killed by it.
fn no_signal_kills_who_writes_to_a_peer_that_has_gone(transport: Transport) {
    let name = match transport {
        Transport::Tcp => "threads::no_signal_kills_who_writes_to_a_peer_that_has_gone::tcp",
        _ => "threads::no_signal_kills_who_writes_to_a_peer_that_has_gone::uds",
    };
    if !in_child(name) {
        return child(name, "");
    }
    sys::default_sigpipe();
    let io = start();
    for from_callback in [false, true] {
        let listener = RawListener::bind(transport);
        let (handler, inbox) = recorder();
        let (link, peer) = client_of_raw(&io, &listener, framed(transport), handler);
        // It cannot hear of the end before it writes.
        link.pause_reading();
        drop(peer);
        let send_one = {
            let link = link.clone();
            move || {
                // Accepted or refused: what counts is that we live.
                let _ = link.send(b"anybody?");
            }
        };
        until("a send has failed", || {
            if from_callback {
                // Queued; the thread writes it.
                inside_callback(&io, send_one.clone());
            } else {
                send_one();
            }
            link.try_send(b"") == Err(SendError::NotConnected)
        });
        link.resume_reading();
        inbox.skip_to_closed();
    }
}

fn the_shared_thread_is_one(_: Transport) {
    let (one, two) = (IoThread::shared().unwrap(), IoThread::shared().unwrap());
    assert!(std::ptr::eq(one, two));
    let link = one
        .connect(&nobody(), LinkOptions::default(), recorder().0)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap_err();
}
