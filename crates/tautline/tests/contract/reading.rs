//! Promise 4: reading can be paused. Nothing is lost, nothing is closed for it, nothing piles up.

use std::thread;

use tautline::{IoThread, Link, LinkOptions, Reason, SendError};

use crate::common::*;

over! {
    a_paused_reader_loses_nothing_and_holds_nothing: tcp tls uds serial;
    paused_in_a_callback_no_message_follows_until_it_resumes: tcp tls uds udp serial;
    paused_before_the_first_message_none_comes: tcp tls uds udp serial;
    a_peers_end_is_told_after_what_a_pause_held_back: tcp uds;
    what_a_pause_held_back_is_told_although_the_peer_is_found_gone_meanwhile: tcp tls uds;
    a_link_found_broken_in_a_pause_can_be_closed_and_aborted: tcp tls uds serial;
    a_paused_link_still_sends: tcp tls uds udp serial;
    a_paused_link_can_be_closed_and_aborted: tcp tls uds udp serial;
    pausing_and_resuming_from_anywhere_loses_nothing: tcp tls uds serial;
    resumed_the_moment_after_it_paused_it_hears_all_before_the_end: tcp tls uds;
}

fn a_paused_reader_loses_nothing_and_holds_nothing(transport: Transport) {
    let options = LinkOptions {
        queue_limit_bytes: 100_000,
        ..framed(transport)
    };
    let pair = Pair::open(transport, &options);
    pair.peer.pause_reading();
    // More than all buffers of the kernel hold, and a hundred times what the queue does.
    let (count, length) = (1000, 10_000);
    let sender = pair.client.clone();
    let sending = thread::spawn(move || {
        for message in numbered(count, length) {
            sender.send(&message).unwrap();
        }
    });
    let sent = || pair.client.statistics().sending;
    until("the sender waits", || sent().waits > 0);
    // A message may have been under way, and the rest of its read with it: no more than one read.
    let held = pair.peer.statistics().receiving;
    assert!(held.wire_bytes <= 128 * 1024, "{held:?}");
    assert!(pair.peer.is_open() && pair.client.is_open());

    pair.peer.resume_reading();
    for message in numbered(count, length) {
        assert_eq!(pair.peer_inbox.skip_to_message(), message);
    }
    sending.join().unwrap();
    assert!(sent().peak.bytes <= 100_000);
}

fn paused_in_a_callback_no_message_follows_until_it_resumes(transport: Transport) {
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Message(..)) {
            link.pause_reading();
        }
    });
    let options = framed(transport);
    let pair = Pair::connect(transport, &options, &options, (handler, inbox), recorder());
    pair.client_inbox.expect_opened();
    let messages = numbered(20, 100);
    for message in &messages {
        pair.peer.send(message).unwrap();
    }
    for message in &messages {
        assert_eq!(pair.client_inbox.expect_message(), *message);
        // Whatever else the thread has to do, it does now: a further message would come with it.
        let_turn(&pair.client_io);
        assert!(pair.client_inbox.so_far().is_empty());
        pair.client.resume_reading();
    }
}

fn paused_before_the_first_message_none_comes(transport: Transport) {
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Opened(_)) {
            link.pause_reading();
        }
    });
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    inbox.expect_opened();
    peer.write_message(b"first");
    peer.write_message(b"second");
    let_turn(&io);
    assert!(inbox.so_far().is_empty());
    link.resume_reading();
    assert_eq!(inbox.expect_message(), b"first");
    assert_eq!(inbox.expect_message(), b"second");
    // Nothing was paused: nothing happens.
    link.resume_reading();
    peer.write_message(b"third");
    assert_eq!(inbox.expect_message(), b"third");
}

fn a_peers_end_is_told_after_what_a_pause_held_back(transport: Transport) {
    let (handler, inbox) = recorder_that(|link, told| {
        if matches!(told, Told::Message(..)) {
            link.pause_reading();
        }
    });
    let io = start();
    let listener = RawListener::bind(transport);
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    for message in [&b"one"[..], b"two", b"three"] {
        peer.write_frame(message);
    }
    drop(peer);
    for message in [&b"one"[..], b"two", b"three"] {
        assert_eq!(inbox.expect_message(), message);
        let_turn(&io);
        assert!(inbox.so_far().is_empty() && link.is_open());
        link.resume_reading();
    }
    assert!(matches!(inbox.expect_end().reason, Reason::PeerEnded));
}

/// A link that was paused before anything came, and whose peer has sent three messages and gone; a send
/// has found that out.
fn found_gone(io: &IoThread, transport: Transport) -> (Link, Inbox) {
    let (handler, inbox) = recorder();
    let listener = RawListener::bind(transport);
    let (link, mut peer) = client_of_raw(io, &listener, framed(transport), handler);
    inbox.expect_opened();
    link.pause_reading();
    for message in [&b"one"[..], b"two", b"three"] {
        peer.write_frame(message);
    }
    drop(peer);
    until("a send finds out", || {
        link.send(b"anybody?") == Err(SendError::NotConnected)
    });
    let_turn(io);
    (link, inbox)
}

/// Because our application was slow, what its peer had sent would be lost by a send that failed.
fn what_a_pause_held_back_is_told_although_the_peer_is_found_gone_meanwhile(transport: Transport) {
    let io = start();
    let (link, inbox) = found_gone(&io, transport);
    assert!(inbox.so_far().is_empty() && link.is_open());
    link.resume_reading();
    for message in [&b"one"[..], b"two", b"three"] {
        assert_eq!(inbox.expect_message(), message);
    }
    let closed = inbox.expect_end();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
    assert!(closed.unsent.queued.messages > 0);
}

fn a_link_found_broken_in_a_pause_can_be_closed_and_aborted(transport: Transport) {
    let io = start();
    let (link, inbox) = found_gone(&io, transport);
    link.abort();
    assert!(matches!(inbox.expect_end().reason, Reason::Aborted));
    let (link, inbox) = found_gone(&io, transport);
    // It does not wait for what cannot come.
    link.close(2 * WATCHDOG);
    assert!(matches!(inbox.expect_end().reason, Reason::Lost(_)));
}

fn a_paused_link_still_sends(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    pair.client.pause_reading();
    for message in numbered(100, 1000) {
        pair.client.send(&message).unwrap();
        assert_eq!(pair.peer_inbox.expect_message(), message);
    }
}

fn a_paused_link_can_be_closed_and_aborted(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    link.pause_reading();
    peer.write_message(b"unread");
    link.abort();
    inbox.expect_opened();
    assert!(matches!(inbox.expect_end().reason, Reason::Aborted));

    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    link.pause_reading();
    link.send(b"last words").unwrap();
    let unsent = link.close(std::time::Duration::from_millis(10));
    assert!(unsent.queued.is_zero());
    inbox.expect_opened();
    assert!(matches!(inbox.expect_end().reason, Reason::Closed));
    assert_eq!(peer.read_message(), b"last words");
}

/// Pauses from one thread, resumes from another, neither of them in step with what arrives.
fn pausing_and_resuming_from_anywhere_loses_nothing(transport: Transport) {
    let pair = Pair::open(transport, &framed(transport));
    let messages = numbered(20_000, 50);
    let received = || pair.peer.statistics().receiving.messages;
    thread::scope(|scope| {
        scope.spawn(|| {
            for message in &messages {
                pair.client.send(message).unwrap();
            }
        });
        scope.spawn(|| {
            while received() < 20_000 {
                pair.peer.pause_reading();
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            until("all has been received", || {
                pair.peer.resume_reading();
                received() == 20_000
            });
            // The other thread may have had the last word.
            pair.peer.resume_reading();
        });
    });
    for message in &messages {
        assert_eq!(pair.peer_inbox.expect_message(), *message);
    }
}

/// A handler pauses after each message, and somebody else resumes all the time: where that fell between
/// the pause and the next read, the end of the stream was told first, and what the pause had held back was
/// lost.
fn resumed_the_moment_after_it_paused_it_hears_all_before_the_end(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    for life in 0..300 {
        let (handler, inbox) = recorder_that(|link: &Link, told| {
            if matches!(told, Told::Message(..)) {
                link.pause_reading();
            }
        });
        let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
        inbox.expect_opened();
        let resuming = thread::spawn(move || {
            while !link.is_ended() {
                link.resume_reading();
            }
        });
        let messages = numbered(40, 100);
        for message in &messages {
            peer.write_frame(message);
        }
        drop(peer);
        for message in messages {
            assert_eq!(inbox.expect_message(), message, "in life {life}");
        }
        inbox.expect_end();
        resuming.join().unwrap();
    }
}
