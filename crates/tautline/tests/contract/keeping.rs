//! Promise 5, `on_loss: Keep`: what is whole and untouched goes to the next connection, once.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline::{
    FlushError, IoThread, Link, LinkOptions, LinkState, OnLoss, Reason, Reconnect, Strategy, Tally,
};

use crate::common::*;

over! {
    what_is_untouched_arrives_once_and_in_order_on_the_next_connection: tcp tls uds serial;
    the_reopen_hook_goes_first_and_other_threads_go_last: tcp tls uds serial;
    what_is_kept_waits_through_failed_attempts: tcp tls uds serial;
    a_close_in_a_pause_returns_what_was_kept: tcp tls uds serial;
    a_link_that_gives_up_tells_what_it_had_kept: tcp tls uds serial;
    closed_in_a_callback_of_the_loss_it_tells_what_it_had_kept: tcp tls uds serial;
    a_flush_belongs_to_one_connection: tcp tls uds serial;
    keeplatest_keeps_the_latest: tcp tls uds serial;
}

fn keeping(transport: Transport, attempts_limit: Option<u32>) -> LinkOptions {
    LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        reconnect: Some(Reconnect {
            base: Duration::from_millis(1),
            cap: Duration::from_millis(4),
            attempts_limit,
            ..Reconnect::default()
        }),
        on_loss: OnLoss::Keep,
        ..framed(transport)
    }
}

fn message(number: u32) -> Vec<u8> {
    let mut message = vec![0; 496];
    message[..4].copy_from_slice(&number.to_be_bytes());
    message
}

fn number(message: &[u8]) -> u32 {
    u32::from_be_bytes(message[..4].try_into().unwrap())
}

/// A link whose peer does not read: full, kernel and queue. Returns how many messages it accepted.
fn full(
    io: &IoThread,
    listener: &RawListener,
    options: LinkOptions,
    handler: Recorder,
) -> (Link, RawStream, u32) {
    let (link, peer) = client_of_raw(io, listener, options, handler);
    let sender = link.clone();
    let accepted = inside_callback(io, move || {
        (0..)
            .take_while(|&number| sender.send(&message(number)).is_ok())
            .count()
    });
    (link, peer, accepted as u32)
}

fn listener(transport: Transport) -> RawListener {
    RawListener::bind(transport).with_receive_buffer(4096)
}

fn what_is_untouched_arrives_once_and_in_order_on_the_next_connection(transport: Transport) {
    let io = start();
    let listener = listener(transport);
    let (handler, inbox) = recorder_that(|link, told| {
        if let Told::Opened(opened) = told {
            link.send(&opened.generation.to_be_bytes()).unwrap();
        }
    });
    let (link, mut peer, accepted) = full(&io, &listener, keeping(transport, None), handler);
    let mut arrived = Vec::new();
    assert_eq!(peer.read_frame(), 1_u64.to_be_bytes());
    arrived.push(number(&peer.read_frame()));
    peer.vanish();
    let closed = inbox.skip_to_closed();
    let before = link.statistics().sending;
    let kept = before.carried;
    assert!(kept.messages > 0 && before.closes(), "{before:?}");
    assert_eq!(before.waiting, kept, "nothing else waits");
    assert_eq!(closed.unsent.queued, before.discarded.connection_lost);
    assert!(
        before.discarded.connection_lost.messages <= 1,
        "what was cut"
    );

    let mut peer = listener.accept();
    assert_eq!(
        peer.read_frame(),
        2_u64.to_be_bytes(),
        "the hook comes first"
    );
    for _ in 0..kept.messages {
        arrived.push(number(&peer.read_frame()));
    }
    link.send(&message(accepted)).unwrap();
    arrived.push(number(&peer.read_frame()));
    let first_kept = accepted - kept.messages as u32;
    let expected: Vec<u32> = [0].into_iter().chain(first_kept..=accepted).collect();
    assert_eq!(arrived, expected);
    link.flush(WATCHDOG).unwrap();
    let sending = link.statistics().sending;
    assert!(sending.closes() && sending.waiting.is_zero());
    assert_eq!(sending.carried, kept);
    assert_eq!(sending.discarded, before.discarded);
}

fn the_reopen_hook_goes_first_and_other_threads_go_last(transport: Transport) {
    let io = start();
    let listener = listener(transport);
    let (reopened, reopening) = mpsc::channel::<()>();
    let (sent, others) = mpsc::channel::<()>();
    let (handler, inbox) = recorder_that(move |link, told| {
        if let Told::Opened(opened) = told
            && opened.generation == 2
        {
            link.send(b"log").unwrap();
            reopened.send(()).unwrap();
            others.recv_timeout(WATCHDOG).unwrap();
            link.send(b"in").unwrap();
        }
    });
    let options = LinkOptions {
        // Room for more than is kept.
        queue_limit_bytes: 100_000,
        ..keeping(transport, None)
    };
    let (link, peer) = client_of_raw(&io, &listener, options, handler);
    let sender = link.clone();
    inside_callback(&io, move || {
        // More than the kernel takes.
        while sender.statistics().sending.waiting.messages < 40 {
            sender.send(&message(7)).unwrap();
        }
    });
    until("the kernel is full", || {
        let waiting = link.statistics().sending.waiting.messages;
        let_turn(&io);
        waiting == link.statistics().sending.waiting.messages
    });
    let another = link.clone();
    let other = thread::spawn(move || {
        reopening.recv_timeout(WATCHDOG).unwrap();
        another.send(b"other").unwrap();
        sent.send(()).unwrap();
    });
    inbox.expect_opened();
    peer.vanish();
    let mut peer = listener.accept();
    assert_eq!(peer.read_frame(), b"log");
    assert_eq!(peer.read_frame(), b"in");
    let kept = link.statistics().sending.carried.messages;
    for _ in 0..kept {
        assert_eq!(number(&peer.read_frame()), 7);
    }
    assert_eq!(peer.read_frame(), b"other");
    other.join().unwrap();
}

fn what_is_kept_waits_through_failed_attempts(transport: Transport) {
    let io = start();
    let listener = listener(transport);
    let (handler, inbox) = recorder();
    let (link, peer, accepted) = full(&io, &listener, keeping(transport, None), handler);
    let mut lives = 1;
    let mut peer = Some(peer);
    // Each is lost before anything is read, and the kernel has taken its share of it.
    while lives < 4 {
        peer.take().unwrap().vanish();
        inbox.skip_to_closed();
        peer = Some(listener.accept());
        inbox.skip_to_opened();
        lives += 1;
    }
    let sending = link.statistics().sending;
    assert!(sending.closes());
    link.send(&message(accepted)).unwrap();
    let mut peer = peer.unwrap();
    let mut last = None;
    while last != Some(accepted) {
        let arrived = number(&peer.read_frame());
        assert!(last.is_none_or(|last| last < arrived));
        last = Some(arrived);
    }
}

fn a_close_in_a_pause_returns_what_was_kept(transport: Transport) {
    let io = start();
    let listener = listener(transport);
    let (handler, inbox) = recorder();
    let mut options = keeping(transport, None);
    let slow = Duration::from_secs(36_000);
    options.reconnect = Some(Reconnect {
        base: slow,
        cap: slow,
        ..Reconnect::default()
    });
    let (link, peer, _) = full(&io, &listener, options, handler);
    peer.vanish();
    inbox.skip_to_closed();
    until("it pauses", || {
        matches!(link.state(), LinkState::Retrying { .. })
    });
    let kept = link.statistics().sending.carried;
    assert!(kept.messages > 0);
    let unsent = link.close(WATCHDOG);
    assert_eq!(unsent.queued, kept);
    let sending = link.statistics().sending;
    assert_eq!(sending.discarded.closed, kept);
    assert!(sending.closes() && sending.waiting.is_zero());
    assert_eq!(expect_kept(&inbox).1, kept);
}

/// The last call of all: why, and what had been kept.
fn expect_kept(inbox: &Inbox) -> (Reason, Tally) {
    inbox.skip_to(|told| match told {
        Told::Ended(ended) => Some((ended.reason, ended.kept)),
        _ => None,
    })
}

fn a_link_that_gives_up_tells_what_it_had_kept(transport: Transport) {
    for limit in [1, 3] {
        let io = start();
        let listener = listener(transport);
        let (handler, inbox) = recorder();
        let (link, peer, _) = full(&io, &listener, keeping(transport, Some(limit)), handler);
        // Nobody listens any more.
        drop(listener);
        peer.vanish();
        let closed = inbox.skip_to_closed();
        let (_, kept) = expect_kept(&inbox);
        let sending = link.statistics().sending;
        assert!(kept.messages > 0);
        assert_eq!(kept, sending.carried);
        assert_eq!(
            sending.discarded.connection_lost,
            kept + closed.unsent.queued
        );
        assert!(sending.closes() && sending.waiting.is_zero());
    }
}

fn closed_in_a_callback_of_the_loss_it_tells_what_it_had_kept(transport: Transport) {
    let io = start();
    let listener = listener(transport);
    let (handler, inbox) = recorder_that(|link, told| {
        if let Told::Closed(_) = told {
            link.close(WATCHDOG);
        }
    });
    let (link, peer, _) = full(&io, &listener, keeping(transport, None), handler);
    peer.vanish();
    inbox.skip_to_closed();
    let (_, kept) = expect_kept(&inbox);
    let sending = link.statistics().sending;
    assert_eq!(kept, sending.carried);
    assert_eq!(sending.discarded.closed, kept);
}

fn a_flush_belongs_to_one_connection(transport: Transport) {
    let io = start();
    let listener = listener(transport);
    let (handler, inbox) = recorder();
    let (link, peer, _) = full(&io, &listener, keeping(transport, None), handler);
    let (tell, told) = mpsc::channel();
    let flushed = link.clone();
    let flushing = thread::spawn(move || {
        tell.send(own_thread_id()).unwrap();
        flushed.flush(WATCHDOG)
    });
    let flusher = told.recv_timeout(WATCHDOG).unwrap();
    until("the flush waits", || is_asleep(flusher));
    peer.vanish();
    inbox.skip_to_closed();
    let answer = flushing.join().unwrap();
    assert_eq!(answer, Err(FlushError::NotConnected));
    drop(listener.accept());
    link.abort();
}

fn keeplatest_keeps_the_latest(transport: Transport) {
    let io = start();
    let listener = listener(transport);
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        strategy: Strategy::KeepLatest,
        queue_limit_messages: 4,
        ..keeping(transport, None)
    };
    let (link, peer) = client_of_raw(&io, &listener, options, handler);
    let last = 500;
    for number in 0..=last {
        let _ = link.send(&message(number));
    }
    peer.vanish();
    inbox.skip_to_closed();
    let kept = link.statistics().sending.carried.messages;
    assert!(kept <= 4);
    let mut peer = listener.accept();
    inbox.skip_to_opened();
    let arrived: Vec<u32> = (0..kept).map(|_| number(&peer.read_frame())).collect();
    assert!(arrived.is_sorted());
    assert_eq!(arrived.last(), (kept > 0).then_some(&last));
}
