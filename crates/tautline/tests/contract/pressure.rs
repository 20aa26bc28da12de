//! Promise 4: pressure tells a producer before the queue is full.

use std::sync::mpsc;
use std::time::Duration;

use tautline::{IoThread, Link, LinkOptions, Pressure, SendError, Strategy};

use crate::common::*;

over! {
    high_water_is_three_quarters_of_the_bytes_and_low_water_a_quarter: tcp tls uds udp serial;
    high_water_is_three_quarters_of_the_messages_as_well: tcp tls uds udp serial;
    evicting_counts_for_pressure_too: tcp tls uds udp serial;
    on_is_told_when_the_peer_stalls_and_off_when_it_reads_again: tcp tls uds serial;
    off_is_told_before_closed_however_it_ends: tcp tls uds serial;
    a_producer_that_heeds_pressure_is_never_refused: tcp tls uds serial;
}

/// A link with room for 4,000 bytes and 40 messages.
fn link_of_4000(io: &IoThread, transport: Transport, strategy: Strategy) -> (Link, RawPeer) {
    let options = LinkOptions {
        strategy,
        queue_limit_bytes: 4000,
        queue_limit_messages: 40,
        ..framed(transport)
    };
    reach(io, transport, options, recorder().0)
}

/// Queues messages of these encoded lengths inside a callback; the crossings counted after each.
fn crossings_while_queueing(
    io: &IoThread,
    transport: Transport,
    link: &Link,
    lengths: Vec<usize>,
) -> Vec<u64> {
    let (link, header) = (link.clone(), transport.encoded(0));
    let (gate, crossings) = Gate::after(io, move || {
        let queue = |length: usize| {
            link.try_send(&vec![0; length - header]).unwrap();
            link.statistics().sending.pressure_crossings
        };
        lengths.into_iter().map(queue).collect()
    });
    drop(gate);
    crossings
}

fn high_water_is_three_quarters_of_the_bytes_and_low_water_a_quarter(transport: Transport) {
    let io = start();
    let (link, _peer) = link_of_4000(&io, transport, Strategy::Reliable);
    let crossings = crossings_while_queueing(&io, transport, &link, vec![1000, 1990, 10, 10]);
    assert_eq!(crossings, [0, 0, 1, 1]);
    link.flush(WATCHDOG).unwrap();
    assert_eq!(link.statistics().sending.pressure_crossings, 2);
}

fn high_water_is_three_quarters_of_the_messages_as_well(transport: Transport) {
    let io = start();
    let (link, _peer) = link_of_4000(&io, transport, Strategy::Reliable);
    let crossings = crossings_while_queueing(&io, transport, &link, vec![4; 31]);
    assert_eq!(crossings[28], 0);
    assert_eq!(crossings[29..], [1, 1]);
    link.flush(WATCHDOG).unwrap();
    assert_eq!(link.statistics().sending.pressure_crossings, 2);
}

fn evicting_counts_for_pressure_too(transport: Transport) {
    let io = start();
    let (link, _peer) = link_of_4000(&io, transport, Strategy::KeepLatest);
    // A large one makes room for a small one, which leaves next to nothing: Off. And On again.
    let crossings = crossings_while_queueing(&io, transport, &link, vec![3900, 200, 3000, 100]);
    assert_eq!(crossings, [1, 2, 3, 3]);
}

/// A link whose peer does not read, with little room in the kernel.
fn stalling(io: &IoThread, transport: Transport, handler: Recorder) -> (Link, RawStream) {
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 20_000,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..framed(transport)
    };
    client_of_raw(io, &listener, options, handler)
}

/// The kernel's buffers fill, then the queue.
fn send_until_told_on(link: &Link, inbox: &Inbox) {
    until("pressure is told", || {
        match link.try_send(&[0; 996]) {
            Ok(()) | Err(SendError::Full) => {}
            Err(other) => panic!("{other}"),
        }
        match inbox.so_far().pop() {
            None => false,
            Some(Told::Pressure(Pressure::On)) => true,
            Some(other) => panic!("expected pressure, was told {other:?}"),
        }
    });
}

fn expect_pressure(inbox: &Inbox, expected: Pressure) {
    match inbox.next() {
        Told::Pressure(pressure) => assert_eq!(pressure, expected),
        other => panic!("expected pressure {expected:?}, was told {other:?}"),
    }
}

fn on_is_told_when_the_peer_stalls_and_off_when_it_reads_again(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, mut peer) = stalling(&io, transport, handler);
    inbox.expect_opened();
    for round in 1..=5 {
        let before = link.statistics().sending.accepted.messages;
        send_until_told_on(&link, &inbox);
        let accepted = link.statistics().sending.accepted.messages;
        for _ in before..accepted {
            peer.read_frame();
        }
        expect_pressure(&inbox, Pressure::Off);
        assert!(inbox.so_far().is_empty());
        assert!(link.statistics().sending.pressure_crossings >= 2 * round);
    }
}

fn off_is_told_before_closed_however_it_ends(transport: Transport) {
    let ends: [fn(Link, RawStream); 4] = [
        |link, _peer| link.abort(),
        |_link, peer| peer.vanish(),
        |link, _peer| _ = link.close(Duration::ZERO),
        |link, _peer| drop(link),
    ];
    for end in ends {
        let io = start();
        let (handler, inbox) = recorder();
        let (link, peer) = stalling(&io, transport, handler);
        inbox.expect_opened();
        send_until_told_on(&link, &inbox);
        end(link, peer);
        expect_pressure(&inbox, Pressure::Off);
        inbox.expect_end();
    }
}

/// Sends only between Off and On, by what it is told in the callback.
fn a_producer_that_heeds_pressure_is_never_refused(transport: Transport) {
    let io = start();
    let (tell, told) = mpsc::channel();
    let (handler, _inbox) = recorder_that(move |_, what| {
        if let Told::Pressure(pressure) = what {
            tell.send(*pressure).unwrap();
        }
    });
    let (link, mut peer) = stalling(&io, transport, handler);
    let reading = std::thread::spawn(move || {
        for _ in 0..2000 {
            peer.read_frame();
        }
    });
    let mut high = false;
    for _ in 0..2000 {
        for pressure in told.try_iter() {
            high = pressure == Pressure::On;
        }
        while high {
            high = told.recv_timeout(WATCHDOG).unwrap() == Pressure::On;
        }
        // A message is a twentieth of the queue, and On comes with a quarter left; but the word may
        // come a little late.
        link.send(&[0; 996]).unwrap();
    }
    reading.join().unwrap();
    assert_eq!(link.statistics().sending.refused.messages, 0);
}
