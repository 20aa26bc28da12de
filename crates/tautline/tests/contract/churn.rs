//! Promises 5, 8 and 14 over thousands of short lives: nothing is left behind, and no end gets lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline::{Address, Error, ErrorKind, IoThread, Link, Received, Server, ServerOptions};

use crate::common::*;

over! {
    a_thousand_links_leave_nothing_behind_while_others_send: tcp tls uds udp;
    a_link_ended_while_it_connects_ends_once_a_thousand_times: tcp tls uds udp;
    a_server_dropped_while_peers_come_frees_its_address_a_hundred_times: tcp tls uds udp;
    a_server_restarts_twenty_times_on_its_address: tcp tls uds udp;
    of_servers_that_start_at_once_one_wins: tcp tls uds udp;
    whoever_stops_a_server_waits_for_its_callback: tcp tls uds udp;
}

fn echo_on(io: &IoThread, address: &Address, transport: Transport) -> Server {
    try_echo_on(io, address, transport).unwrap()
}

fn try_echo_on(io: &IoThread, address: &Address, transport: Transport) -> Result<Server, Error> {
    let options = ServerOptions {
        link: framed(transport),
        // A datagram server hears nothing of the end of a peer.
        peer_expiry: Duration::from_millis(100),
        ..ServerOptions::default()
    };
    let accept =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    io.listen(address, options, accept)
}

/// Sends and is answered until it is told to stop.
fn keep_talking(io: &IoThread, address: &Address, transport: Transport, over: &AtomicBool) {
    let (handler, inbox) = recorder();
    let link = io.connect(address, framed(transport), handler).unwrap();
    inbox.expect_opened();
    while !over.load(Ordering::SeqCst) {
        for message in numbered(10, 100) {
            link.send(&message).unwrap();
            assert_eq!(inbox.expect_message(), message);
        }
    }
    link.close(WATCHDOG);
}

/// A whole life, ended in one of the ways there are.
fn live_once(io: &IoThread, address: &Address, transport: Transport, round: usize) {
    let (handler, inbox) = recorder();
    let link = io.connect(address, framed(transport), handler).unwrap();
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    assert_eq!(inbox.expect_message(), b"hello");
    match round % 4 {
        0 => _ = link.close(WATCHDOG),
        1 => link.abort(),
        2 => drop(link),
        _ => {
            link.finish();
            drop(link);
        }
    }
    inbox.skip_to_closed();
    inbox.expect_ended();
    inbox.expect_gone();
}

fn a_thousand_links_leave_nothing_behind_while_others_send(transport: Transport) {
    let test = "churn::a_thousand_links_leave_nothing_behind_while_others_send";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let (io, server_io, place) = (start(), start(), fresh(transport));
    let server = echo_on(&server_io, &place.address, transport);
    let address = server.local_address();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| keep_talking(&io, &address, transport, &over));
        }
        let _over = SetWhenDropped(&over);
        let live = |times| {
            for round in 0..times {
                live_once(&io, &address, transport, round);
            }
            until("only those who talk are left", || {
                server.statistics().connected <= 2
            });
        };
        live(400);
        let descriptors = open_descriptors();
        let growth = [(); 3].map(|()| {
            let before = resident_bytes();
            live(200);
            resident_bytes().saturating_sub(before)
        });
        until("all descriptors are back", || {
            open_descriptors() <= descriptors
        });
        // What is left behind is left behind each time; what the allocator takes once it keeps.
        assert!(growth.iter().min() < Some(&(64 * 1024)), "{growth:?} bytes");
    });
}

fn a_link_ended_while_it_connects_ends_once_a_thousand_times(transport: Transport) {
    let (io, server_io, place) = (start(), start(), fresh(transport));
    let server = echo_on(&server_io, &place.address, transport);
    let mut random = Random::new(0xc0de);
    for round in 0..1000 {
        let (handler, inbox) = recorder();
        let link = io
            .connect(&server.local_address(), framed(transport), handler)
            .unwrap();
        for _ in 0..random.below(50) {
            std::hint::spin_loop();
        }
        let sent = link.send(b"hello");
        match round % 4 {
            0 => _ = link.close(Duration::ZERO),
            1 => link.abort(),
            2 => link.finish(),
            _ => {}
        }
        drop(link);
        let told = inbox.all_to_the_end();
        let kinds: Vec<_> = told.iter().map(Told::kind).collect();
        let quiet: Vec<_> = kinds.iter().filter(|kind| **kind != "message").collect();
        let whole = quiet == [&"opened", &"closed", &"ended"];
        let never_open = quiet == [&"ended"] && sent.is_err();
        assert!(whole || never_open, "{sent:?}: {kinds:?}");
    }
}

fn a_server_dropped_while_peers_come_frees_its_address_a_hundred_times(transport: Transport) {
    let (io, server_io) = (start(), start());
    let mut place = fresh(transport);
    for round in 0..100 {
        let server = echo_on(&server_io, &place.address, transport);
        place.address = server.local_address();
        let links: Vec<_> = (0..5)
            .map(|_| {
                let (handler, inbox) = recorder();
                let link = io
                    .connect(&place.address, framed(transport), handler)
                    .unwrap();
                // Over UDP that is what makes a peer; elsewhere it may be too early.
                let _ = link.send(b"hello");
                (link, inbox)
            })
            .collect();
        match round % 3 {
            0 => drop(server),
            1 => server.abort(),
            _ => _ = server.close(Duration::ZERO),
        }
        for (link, inbox) in links {
            link.abort();
            let told = inbox.all_to_the_end();
            assert!(matches!(told.last(), Some(Told::Ended(_))), "{told:?}");
        }
    }
}

/// With a conversation under way each time, whose socket lingers where this side ends first.
fn a_server_restarts_twenty_times_on_its_address(transport: Transport) {
    let (io, server_io) = (start(), start());
    let mut place = fresh(transport);
    for _ in 0..20 {
        let server = echo_on(&server_io, &place.address, transport);
        place.address = server.local_address();
        let (handler, inbox) = recorder();
        let link = io
            .connect(&place.address, framed(transport), handler)
            .unwrap();
        inbox.expect_opened();
        link.send(b"hello").unwrap();
        assert_eq!(inbox.expect_message(), b"hello");
        server.close(WATCHDOG);
    }
}

/// Some find out when they bind, and some, where the kernel let two of them bind, when they listen.
fn of_servers_that_start_at_once_one_wins(transport: Transport) {
    let (io, mut place) = (start(), fresh(transport));
    // A port that is free.
    place.address = echo_on(&io, &place.address, transport).local_address();
    for _ in 0..20 {
        let started: Vec<_> = thread::scope(|scope| {
            let starting: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| try_echo_on(&io, &place.address, transport)))
                .collect();
            starting.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let (winners, losers): (Vec<_>, Vec<_>) = started.into_iter().partition(Result::is_ok);
        assert_eq!(winners.len(), 1);
        for loser in losers {
            assert_eq!(loser.unwrap_err().kind(), ErrorKind::AddressInUse);
        }
        live_once(&io, &place.address, transport, 0);
    }
}

/// All who stop it, and not only the first.
fn whoever_stops_a_server_waits_for_its_callback(transport: Transport) {
    let io = start();
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let (handler, inbox) = recorder_that(move |_, told| {
        if matches!(told, Told::Message(..)) {
            enter.send(()).unwrap();
            // Until the test lets it go.
            let _ = left.recv();
        }
    });
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let served = Served::listen(&io, transport, options, vec![handler]);
    let client_io = start();
    let address = served.server.local_address();
    let client = client_io
        .connect(&address, framed(transport), recorder().0)
        .unwrap();
    client.wait_open(WATCHDOG).unwrap();
    client.send(b"wait").unwrap();
    entered.recv_timeout(WATCHDOG).unwrap();
    let server = &served.server;
    thread::scope(|scope| {
        let stops: [fn(&Server); 3] = [
            |server| _ = server.close(WATCHDOG),
            |server| _ = server.close(Duration::ZERO),
            Server::abort,
        ];
        let (tell, told) = mpsc::channel();
        let stopping = stops.map(|stop| {
            let tell = tell.clone();
            scope.spawn(move || {
                tell.send(own_thread_id()).unwrap();
                stop(server);
            })
        });
        for _ in &stopping {
            let id = told.recv_timeout(WATCHDOG).unwrap();
            until("it waits", || is_asleep(id));
        }
        assert!(stopping.iter().all(|stopping| !stopping.is_finished()));
        drop(leave);
        for stopping in stopping {
            stopping.join().unwrap();
        }
    });
    // What it counted it still tells.
    let statistics = server.statistics();
    assert_eq!((statistics.connected, statistics.accepted), (0, 1));
    assert_eq!(statistics.peers.receiving.messages, 1);
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"wait");
    inbox.expect_end();
}
