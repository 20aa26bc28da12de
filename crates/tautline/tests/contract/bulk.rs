//! Promise 9 where many datagrams leave or come in one call: borders, order and counts are those of one
//! at a time, whatever the kernel does for us or refuses to.

use tautline::{IoOptions, IoThread, Link, LinkOptions, ServerOptions};

use crate::common::*;

over! {
    datagrams_that_leave_together_keep_their_borders: udp;
    between_two_of_ours_they_keep_their_borders_too: udp;
    what_the_kernel_will_not_cut_is_sent_one_by_one: udp;
    datagrams_longer_than_a_packet_on_the_way_are_sent_one_by_one: udp;
    a_kernel_without_memory_for_many_loses_none: udp;
    what_a_pause_keeps_of_those_that_came_together_comes_after_it: udp;
    a_paused_peer_of_a_server_is_told_how_many_it_lost: udp;
    each_peer_of_a_server_gets_its_own: udp;
    small_room_for_datagrams_still_flags_those_that_are_cut: udp;
}

/// Datagrams of every kind of neighbourhood: equal, shorter at the end, longer behind shorter, empty.
fn mixed() -> Vec<Vec<u8>> {
    let lengths = [8, 8, 8, 3, 8, 0, 0, 8, 8, 9, 9, 1, 700, 700, 700, 2, 2];
    let datagram = |(number, &length): (usize, &usize)| vec![number as u8; length];
    let mut all: Vec<Vec<u8>> = lengths.iter().enumerate().map(datagram).collect();
    // More than one call to cut takes.
    all.extend(numbered(100, 24));
    all
}

/// Sends all of these while the driver is busy, so that they wait and leave together.
fn send_together(io: &IoThread, link: &Link, messages: &[Vec<u8>]) {
    let (first, rest) = messages.split_first().unwrap();
    let (sender, queued) = (link.clone(), first.clone());
    let (gate, ()) = Gate::after(io, move || sender.send(&queued).unwrap());
    for message in rest {
        link.send(message).unwrap();
    }
    drop(gate);
}

fn expect_written(link: &Link, messages: usize) {
    link.flush(WATCHDOG).unwrap();
    let sending = link.statistics().sending;
    assert!(sending.closes(), "{sending:?}");
    assert_eq!(sending.written.messages, messages as u64, "{sending:?}");
}

fn datagrams_that_leave_together_keep_their_borders(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    let messages = mixed();
    send_together(&io, &link, &messages);
    for message in &messages {
        assert_eq!(peer.read_message(), *message);
    }
    expect_written(&link, messages.len());
    // Far fewer calls than datagrams: that is what it is for.
    let calls = link.statistics().sending.write_calls;
    assert!(calls < messages.len() as u64 / 8, "{calls} calls");
}

fn between_two_of_ours_they_keep_their_borders_too(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    let messages = mixed();
    let bytes: usize = messages.iter().map(Vec::len).sum();
    // There, and back from the socket that peers share.
    for (io, from, to) in [
        (&pair.client_io, &pair.client, &pair.peer_inbox),
        (&pair.server_io, &pair.peer, &pair.client_inbox),
    ] {
        send_together(io, from, &messages);
        for message in &messages {
            assert_eq!(to.expect_message(), *message);
        }
    }
    expect_written(&pair.peer, messages.len());
    for (link, greeting) in [(&pair.peer, GREETING.len()), (&pair.client, 0)] {
        let messages = messages.len() + usize::from(greeting > 0);
        until("all are counted", || {
            link.statistics().receiving.messages == messages as u64
        });
        let received = link.statistics().receiving;
        assert_eq!(received.wire_bytes, (bytes + greeting) as u64);
    }
}

fn what_the_kernel_will_not_cut_is_sent_one_by_one(transport: Transport) {
    let test = "bulk::what_the_kernel_will_not_cut_is_sent_one_by_one";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let faults = Faults::of_bulk_sends();
    for error in [libc::EIO, libc::EMSGSIZE, libc::EINVAL, libc::EOPNOTSUPP] {
        let io = start();
        let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
        let messages = numbered(50, 64);
        // What may be the network's word on an earlier datagram is believed the second time.
        let times = if error == libc::EIO { 1 } else { 2 };
        faults.next_are(times, error);
        send_together(&io, &link, &messages);
        for message in &messages {
            assert_eq!(peer.read_message(), *message, "after {error}");
        }
        assert_eq!(faults.to_come(), 0);
        expect_written(&link, messages.len());
        // It is remembered: nothing is tried in vain again.
        let before = link.statistics().sending.write_calls;
        send_together(&io, &link, &messages);
        for message in &messages {
            assert_eq!(peer.read_message(), *message);
        }
        expect_written(&link, 2 * messages.len());
        let calls = link.statistics().sending.write_calls - before;
        assert!((4..=5).contains(&calls), "{calls} calls of 16 at most");
    }
}

fn datagrams_longer_than_a_packet_on_the_way_are_sent_one_by_one(transport: Transport) {
    let test = "bulk::datagrams_longer_than_a_packet_on_the_way_are_sent_one_by_one";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child_in_namespaces(&name, "-n", "ip link set lo up mtu 1500 &&");
    }
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    // Too long to cut, but not for fragments; then short enough; then too long again.
    for length in [2000, 1000, 2000] {
        let messages = numbered(20, length);
        send_together(&io, &link, &messages);
        for message in &messages {
            assert_eq!(peer.read_message(), *message);
        }
    }
    expect_written(&link, 60);
}

fn a_kernel_without_memory_for_many_loses_none(transport: Transport) {
    let test = "bulk::a_kernel_without_memory_for_many_loses_none";
    let name = name_of(test, transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let faults = Faults::of_bulk_sends();
    for error in [libc::ENOBUFS, libc::ENOMEM, libc::EAGAIN] {
        let io = start();
        let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
        let messages = mixed();
        faults.next_are(1, error);
        send_together(&io, &link, &messages);
        for message in &messages {
            assert_eq!(peer.read_message(), *message, "after {error}");
        }
        expect_written(&link, messages.len());
    }
}

fn what_a_pause_keeps_of_those_that_came_together_comes_after_it(transport: Transport) {
    let (io, server_io) = (start(), start());
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Message(message, _) if message.len() == 1) {
            link.pause_reading();
        }
    });
    let (greeted, greeting) = recorder();
    let served = Served::listen(
        &server_io,
        transport,
        ServerOptions::default(),
        vec![greeted],
    );
    let address = served.server.local_address();
    let link = io.connect(&address, framed(transport), handler).unwrap();
    inbox.expect_opened();
    link.send(GREETING).unwrap();
    greeting.expect_opened();
    let peer = served.peer();
    let mut messages = numbered(40, 32);
    messages.insert(5, b"p".to_vec());
    messages.insert(20, b"q".to_vec());
    // They leave in few calls, and all are there before the link looks.
    let gate = hold(&io);
    send_together(&server_io, &peer, &messages);
    expect_written(&peer, messages.len());
    drop(gate);
    let mut rest = &messages[..];
    for pause_at in [5, 20 - 6] {
        let (now, later) = rest.split_at(pause_at + 1);
        for message in now {
            assert_eq!(inbox.expect_message(), *message);
        }
        let_turn(&io);
        assert!(inbox.so_far().is_empty(), "it is paused");
        link.resume_reading();
        rest = later;
    }
    for message in rest {
        assert_eq!(inbox.expect_message(), *message);
    }
    until("all are counted", || {
        link.statistics().receiving.messages == messages.len() as u64
    });
    let bytes: usize = messages.iter().map(Vec::len).sum();
    assert_eq!(link.statistics().receiving.wire_bytes, bytes as u64);
}

fn a_paused_peer_of_a_server_is_told_how_many_it_lost(transport: Transport) {
    let (io, server_io) = (start(), start());
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Message(message, _) if message == b"pause") {
            link.pause_reading();
        }
    });
    let served = Served::listen(
        &server_io,
        transport,
        ServerOptions::default(),
        vec![handler],
    );
    let address = served.server.local_address();
    let link = io
        .connect(&address, framed(transport), recorder().0)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    let mut messages = vec![b"first".to_vec(), b"pause".to_vec()];
    messages.extend(vec![b"after".to_vec(); 20]);
    send_together(&io, &link, &messages);
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"first");
    assert_eq!(inbox.expect_message(), b"pause");
    let peer = served.peer();
    until("all are counted", || {
        peer.statistics().receiving.dropped_while_paused == 20
    });
    assert_eq!(peer.statistics().receiving.messages, 2);
}

/// Their datagrams lie side by side in the one queue, and come side by side to the one socket.
fn each_peer_of_a_server_gets_its_own(transport: Transport) {
    const PEERS: usize = 5;
    let (io, server_io) = (start(), start());
    let (handlers, at_server): (Vec<_>, Vec<_>) = (0..PEERS).map(|_| recorder()).unzip();
    let served = Served::listen(&server_io, transport, ServerOptions::default(), handlers);
    let address = served.server.local_address();
    let (mut links, mut inboxes, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for there in &at_server {
        let (handler, inbox) = recorder();
        let link = io.connect(&address, framed(transport), handler).unwrap();
        inbox.expect_opened();
        link.send(GREETING).unwrap();
        there.expect_opened();
        assert_eq!(there.expect_message(), GREETING);
        peers.push(served.peer());
        links.push(link);
        inboxes.push(inbox);
    }
    let messages = |peer: usize| numbered(30, 16 + peer % 2);
    let mut runs: Vec<_> = (0..PEERS).map(|peer| messages(peer).into_iter()).collect();
    // In turn, and now and then some in a row; sent by the server's own thread, so that all wait.
    let (order, senders) = (peers.clone(), PEERS);
    let (gate, ()) = Gate::after(&server_io, move || {
        for round in 0..30 {
            for (peer, run) in order.iter().zip(&mut runs) {
                let many = if round % 7 == 0 { senders } else { 1 };
                for message in run.by_ref().take(many) {
                    peer.send(&message).unwrap();
                }
            }
        }
    });
    drop(gate);
    for (peer, inbox) in inboxes.iter().enumerate() {
        for message in messages(peer) {
            assert_eq!(inbox.expect_message(), message, "peer {peer}");
        }
        assert_eq!(peers[peer].statistics().sending.written.messages, 30);
    }
    let sending = served.server.statistics().peers.sending;
    assert!(sending.closes(), "{sending:?}");
    // And all of them to the server.
    let gate = hold(&server_io);
    for (peer, link) in links.iter().enumerate() {
        for message in messages(peer) {
            link.send(&message).unwrap();
        }
    }
    drop(gate);
    for (peer, there) in at_server.iter().enumerate() {
        for message in messages(peer) {
            assert_eq!(there.expect_message(), message, "peer {peer}");
        }
    }
}

fn small_room_for_datagrams_still_flags_those_that_are_cut(transport: Transport) {
    let options = IoOptions {
        read_buffer_bytes: 100,
        ..IoOptions::default()
    };
    let io = IoThread::start(options).unwrap();
    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, LinkOptions::default(), handler);
    inbox.expect_opened();
    for length in [100, 101, 100] {
        peer.write_message(&vec![length as u8; length]);
    }
    for length in [100, 101, 100] {
        assert_eq!(inbox.expect_message(), vec![length; 100]);
    }
    assert_eq!(link.statistics().receiving.truncated, 1);
}
