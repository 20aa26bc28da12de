//! Promise 8: close, flush, finish, abort and drop, from any thread and from callbacks.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tautline::{
    FlushError, Handler, IoThread, Link, LinkOptions, Reason, Received, SendError, Server,
    ServerOptions, Unsent,
};

use crate::common::*;

over! {
    close_writes_what_waits_and_reads_to_the_peers_end: tcp uds;
    close_returns_what_a_stalled_peer_did_not_take: tcp uds;
    flush_waits_until_all_is_written: tcp tls uds udp serial;
    flush_says_when_it_was_not_in_time: tcp tls uds serial;
    flush_is_right_about_what_was_written_before_the_end: tcp tls uds serial;
    finish_ends_only_our_side: tcp tls uds;
    half_open_the_peers_end_is_an_event_and_sending_goes_on: tcp tls uds;
    half_open_ends_when_both_sides_have_ended: tcp tls uds;
    half_open_a_peer_that_vanishes_is_noticed: tcp uds;
    abort_discards_what_waits: tcp tls uds serial;
    drop_flushes_once_and_does_not_wait: tcp tls uds udp;
    clones_made_in_callbacks_keep_a_link_alive: tcp tls uds udp serial;
    dropping_the_handles_of_a_servers_peer_does_nothing: tcp tls uds udp;
    close_against_eight_sending_threads_loses_nothing_accepted: tcp tls uds;
    abort_against_eight_sending_threads_accounts_for_all: tcp tls uds udp serial;
    when_close_and_abort_have_returned_no_callback_runs: tcp tls uds udp;
    a_server_closed_while_peers_come_calls_nobody_afterwards: tcp tls uds;
    close_and_abort_and_drop_at_once_end_it_once: tcp tls uds udp serial;
    in_every_callback_it_can_be_closed: tcp uds;
    in_every_callback_it_can_be_aborted: tcp uds;
    in_every_callback_its_last_handle_can_be_dropped: tcp tls uds;
    in_every_callback_its_server_can_be_dropped: tcp tls uds;
    a_peer_may_end_itself_in_its_callback: tcp tls uds udp;
    a_server_may_be_ended_in_its_peers_callback: tcp uds udp;
    a_servers_close_returns_what_all_its_peers_did_not_take: tcp uds;
    in_every_callback_another_link_can_be_closed: tcp uds;
    the_peers_end_is_answered_after_what_waits: tcp tls uds;
    a_peer_that_ends_and_never_reads_is_not_waited_for_for_ever: tcp tls uds;
}

fn close_writes_what_waits_and_reads_to_the_peers_end(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    let messages = numbered(1000, 1000);
    let sender = link.clone();
    inside_callback(&io, move || {
        messages
            .iter()
            .for_each(|message| sender.send(message).unwrap());
    });
    let closing = thread::spawn(move || link.close(WATCHDOG));
    let received = peer.read_to_the_end();
    assert_eq!(received.len(), 1000 * 1004);
    // Our side has ended, theirs has not: what they still say is heard.
    peer.write_frame(b"last words");
    drop(peer);
    let unsent = closing.join().unwrap();
    assert!(unsent.queued.is_zero());
    assert_eq!(unsent.kernel_bytes, Some(0));
    inbox.expect_opened();
    let messages: Vec<_> = inbox
        .all_to_the_end()
        .into_iter()
        .filter(|told| !matches!(told, Told::Pressure(_)))
        .collect();
    assert!(
        matches!(&messages[..], [Told::Message(last, _), Told::Closed(closed), Told::Ended(_)]
            if last == b"last words" && matches!(closed.reason, Reason::Closed)),
        "{messages:?}"
    );
}

fn close_returns_what_a_stalled_peer_did_not_take(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, _peer) = stalled(&io, transport, handler);
    let waiting = link.statistics().sending.waiting;
    assert!(waiting.messages >= 9);
    let unsent = link.close(Duration::from_millis(20));
    assert_eq!(unsent.queued, waiting);
    match transport {
        Transport::Tcp => assert!(unsent.kernel_bytes > Some(0), "{unsent:?}"),
        _ => assert_eq!(unsent.kernel_bytes, None, "Unix sockets do not say"),
    }
    let closed = inbox.skip_to_closed();
    assert_eq!(closed.unsent, unsent);
    assert!(matches!(closed.reason, Reason::Closed));
    let sending = link.statistics().sending;
    assert_eq!(sending.discarded.closed, waiting);
    assert!(sending.closes() && sending.waiting.is_zero());
}

fn flush_waits_until_all_is_written(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    assert_eq!(link.flush(WATCHDOG), Ok(()), "nothing waits");
    let sender = link.clone();
    let (gate, ()) = Gate::after(&io, move || {
        numbered(10, 100)
            .iter()
            .for_each(|message| sender.send(message).unwrap());
    });
    assert_eq!(link.statistics().sending.waiting.messages, 10);
    let flusher = link.clone();
    let flushing = thread::spawn(move || flusher.flush(WATCHDOG));
    drop(gate);
    assert_eq!(flushing.join().unwrap(), Ok(()));
    let sending = link.statistics().sending;
    assert_eq!(
        (sending.written.messages, sending.waiting.messages),
        (10, 0)
    );
    for message in numbered(10, 100) {
        assert_eq!(peer.read_message(), message);
    }
}

fn flush_says_when_it_was_not_in_time(transport: Transport) {
    let io = start();
    let (link, mut peer) = stalled(&io, transport, recorder().0);
    let timed_out = Err(FlushError::TimedOut);
    assert_eq!(link.flush(Duration::ZERO), timed_out);
    assert_eq!(link.flush(Duration::from_millis(5)), timed_out);
    let accepted = link.statistics().sending.accepted.messages;
    let reading = thread::spawn(move || {
        (0..accepted).for_each(|_| drop(peer.read_frame()));
        peer
    });
    assert_eq!(link.flush(WATCHDOG), Ok(()));
    assert!(link.statistics().sending.waiting.is_zero());
    drop(reading.join().unwrap());
}

/// The peer goes as soon as it has all. Whoever waited for the queue to empty may run only after that,
/// and was once told that there is no connection.
fn flush_is_right_about_what_was_written_before_the_end(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    for _ in 0..200 {
        let (handler, inbox) = recorder();
        let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
        let sender = link.clone();
        let (gate, ()) = Gate::after(&io, move || sender.send(b"goodbye").unwrap());
        let flusher = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                flusher.store(own_thread_id(), Ordering::SeqCst);
                assert_eq!(link.flush(WATCHDOG), Ok(()));
            });
            until("it waits", || match flusher.load(Ordering::SeqCst) {
                0 => false,
                id => is_asleep(id),
            });
            drop(gate);
            assert_eq!(peer.read_frame(), b"goodbye");
            drop(peer);
        });
        inbox.skip_to_closed();
    }
}

fn finish_ends_only_our_side(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    link.send(b"that was all").unwrap();
    link.finish();
    assert_eq!(link.send(b"more"), Err(SendError::Closed));
    assert_eq!(peer.read_frame(), b"that was all");
    peer.expect_cut_off();
    for message in numbered(3, 100) {
        peer.write_frame(&message);
        assert_eq!(inbox.expect_message(), message);
    }
    assert!(link.is_open());
    // Once more changes nothing.
    link.finish();
    peer.end();
    assert!(matches!(inbox.expect_end().reason, Reason::PeerEnded));
}

fn half_open(transport: Transport) -> LinkOptions {
    LinkOptions {
        half_open: true,
        ..framed(transport)
    }
}

fn half_open_the_peers_end_is_an_event_and_sending_goes_on(transport: Transport) {
    let pair = Pair::open(transport, &half_open(transport));
    pair.client.send(b"question").unwrap();
    pair.client.finish();
    assert_eq!(pair.peer_inbox.expect_message(), b"question");
    assert_eq!(pair.peer_inbox.expect_event(), Happened::PeerFinished);
    for message in numbered(100, 10_000) {
        pair.peer.send(&message).unwrap();
        assert_eq!(pair.client_inbox.expect_message(), message);
    }
    pair.peer.finish();
    assert!(matches!(
        pair.peer_inbox.expect_end().reason,
        Reason::PeerEnded
    ));
    assert!(matches!(
        pair.client_inbox.expect_end().reason,
        Reason::PeerEnded
    ));
}

fn half_open_ends_when_both_sides_have_ended(transport: Transport) {
    type End = (fn(&Link), &'static str);
    let ends: [End; 3] = [
        (Link::finish, "the peer ended its stream"),
        (|link| _ = link.close(WATCHDOG), "closed on this side"),
        (Link::abort, "aborted on this side"),
    ];
    for (end, reason) in ends {
        let io = start();
        let listener = RawListener::bind(transport);
        let (handler, inbox) = recorder();
        let (link, mut peer) = client_of_raw(&io, &listener, half_open(transport), handler);
        inbox.expect_opened();
        peer.end();
        assert_eq!(inbox.expect_event(), Happened::PeerFinished);
        link.send(b"answer").unwrap();
        end(&link);
        assert_eq!(inbox.expect_end().reason.to_string(), reason);
        assert_eq!(peer.read_frame(), b"answer");
        peer.expect_cut_off();
    }
}

/// First it ends its side, then it is gone altogether: nothing can be sent to it, and waiting for
/// the application to try would keep the link for ever.
fn half_open_a_peer_that_vanishes_is_noticed(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, peer) = client_of_raw(&io, &listener, half_open(transport), handler);
    inbox.expect_opened();
    peer.end();
    assert_eq!(inbox.expect_event(), Happened::PeerFinished);
    peer.vanish();
    let closed = inbox.expect_end();
    match transport {
        Transport::Tcp | Transport::Tls => {
            assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
        }
        // There is no reset where nothing was left unread.
        _ => assert!(matches!(closed.reason, Reason::PeerEnded), "{closed:?}"),
    }
    assert_eq!(link.send(b"answer"), Err(SendError::NotConnected));
}

fn abort_discards_what_waits(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, _peer) = stalled(&io, transport, handler);
    let waiting = link.statistics().sending.waiting;
    link.abort();
    let closed = inbox.skip_to_closed();
    assert!(matches!(closed.reason, Reason::Aborted));
    assert_eq!(closed.unsent.queued, waiting);
    let sending = link.statistics().sending;
    assert_eq!(sending.discarded.closed, waiting);
    assert!(sending.closes());
    assert_eq!(link.close(WATCHDOG).queued, waiting, "it says it again");
}

fn drop_flushes_once_and_does_not_wait(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    inbox.expect_opened();
    let messages = numbered(50, 100);
    let offered = messages.clone();
    // Dropped in the callback that queued, with another handle dropped before.
    let sender = link.clone();
    drop(link);
    inside_callback(&io, move || {
        offered
            .iter()
            .for_each(|message| sender.send(message).unwrap());
        drop(sender);
    });
    for message in &messages {
        assert_eq!(peer.read_message(), *message);
    }
    let closed = inbox.expect_end();
    assert!(matches!(closed.reason, Reason::Aborted));
    assert!(closed.unsent.queued.is_zero());

    if transport.is_stream() {
        let (handler, inbox) = recorder();
        let (link, _peer) = stalled(&io, transport, handler);
        drop(link);
        let closed = inbox.skip_to_closed();
        assert!(closed.unsent.queued.messages >= 9, "{closed:?}");
    }
}

fn clones_made_in_callbacks_keep_a_link_alive(transport: Transport) {
    let (give, given) = mpsc::channel();
    let (handler, inbox) = recorder_that(move |link, told| {
        if matches!(told, Told::Opened(_)) {
            give.send(link.clone()).unwrap();
        }
    });
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), handler);
    let clone = given.recv_timeout(WATCHDOG).unwrap();
    drop(link);
    let_turn(&io);
    clone.send(b"still here").unwrap();
    assert_eq!(peer.read_message(), b"still here");
    drop(clone);
    inbox.expect_opened();
    assert!(matches!(inbox.expect_end().reason, Reason::Aborted));
}

fn dropping_the_handles_of_a_servers_peer_does_nothing(transport: Transport) {
    let Pair {
        client,
        client_inbox,
        peer,
        peer_inbox,
        served,
        server_io,
        ..
    } = Pair::open(transport, &framed(transport));
    drop(peer);
    let_turn(&server_io);
    client.send(b"still there?").unwrap();
    assert_eq!(peer_inbox.expect_message(), b"still there?");
    let peers = served.unwrap().server.peers();
    assert_eq!(peers.len(), 1);
    peers[0].send(b"yes").unwrap();
    assert_eq!(client_inbox.expect_message(), b"yes");
}

/// Sends until told not to; returns how many were accepted.
fn send_until_closed(link: &Link) -> u64 {
    let mut accepted = 0;
    loop {
        match link.send(&[accepted as u8; 100]) {
            Ok(()) => accepted += 1,
            Err(SendError::Closed) => return accepted,
            Err(other) => panic!("{other}"),
        }
    }
}

/// Counts what it is given.
struct Count(Arc<AtomicU64>);

impl Handler for Count {
    fn message(&mut self, _: &Link, _: &[u8], _: Received) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn close_against_eight_sending_threads_loses_nothing_accepted(transport: Transport) {
    let (io, server_io) = (start(), start());
    for round in 0..40 {
        let place = fresh(transport);
        let received = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&received);
        let options = ServerOptions {
            link: framed(transport),
            ..ServerOptions::default()
        };
        let accept = move |_: &Link| Ok(Count(Arc::clone(&counter)));
        let server = server_io.listen(&place.address, options, accept).unwrap();
        let (handler, inbox) = recorder();
        let link = io
            .connect(&server.local_address(), framed(transport), handler)
            .unwrap();
        link.wait_open(WATCHDOG).unwrap();
        let (accepted, unsent) = thread::scope(|scope| {
            let senders: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| send_until_closed(&link)))
                .collect();
            until("they are under way", || {
                received.load(Ordering::Relaxed) > round
            });
            // Longer than the watchdog: only the end itself may end it.
            let unsent = link.close(2 * WATCHDOG);
            let accepted = senders.into_iter().map(|sender| sender.join().unwrap());
            (accepted.sum::<u64>(), unsent)
        });
        assert_eq!(
            unsent,
            Unsent {
                kernel_bytes: Some(0),
                ..Unsent::default()
            }
        );
        let sending = link.statistics().sending;
        assert_eq!(sending.accepted.messages, accepted);
        assert_eq!(sending.written, sending.accepted);
        // The peer ended its side after it had read all.
        assert_eq!(received.load(Ordering::Relaxed), accepted);
        let last = inbox.all_to_the_end();
        assert!(matches!(last.last(), Some(Told::Ended(_))));
        // Close ended by the peer's end and not by the clock, or this test would take an hour.
        assert!(link.is_ended());
    }
}

fn abort_against_eight_sending_threads_accounts_for_all(transport: Transport) {
    let io = start();
    for round in 0..40 {
        let (handler, inbox) = recorder();
        let (link, _peer) = reach(&io, transport, framed(transport), handler);
        let accepted = thread::scope(|scope| {
            let senders: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| send_until_closed(&link)))
                .collect();
            until("they are under way", || {
                link.statistics().sending.accepted.messages > round
            });
            link.abort();
            senders
                .into_iter()
                .map(|sender| sender.join().unwrap())
                .sum::<u64>()
        });
        let closed = inbox.skip_to_closed();
        let sending = link.statistics().sending;
        assert_eq!(sending.accepted.messages, accepted);
        assert!(sending.closes() && sending.waiting.is_zero(), "{sending:?}");
        let discarded = sending.discarded;
        assert_eq!(closed.unsent.queued, discarded.total() + Default::default());
        assert_eq!(discarded.total(), discarded.closed, "{sending:?}");
    }
}

/// Notes whether a callback runs, and whether one ran after it was told that none would.
#[derive(Default)]
struct Watch {
    over: AtomicBool,
    late: AtomicBool,
}

impl Watch {
    fn look(&self) {
        if self.over.load(Ordering::SeqCst) {
            self.late.store(true, Ordering::SeqCst);
        }
    }
}

fn when_close_and_abort_have_returned_no_callback_runs(transport: Transport) {
    let ends: [fn(&Link); 2] = [|link| _ = link.close(Duration::ZERO), Link::abort];
    for end in ends {
        let io = start();
        for _ in 0..20 {
            let watch = Arc::new(Watch::default());
            let looker = Arc::clone(&watch);
            let (handler, inbox) = recorder_that(move |_, _| {
                looker.look();
                thread::yield_now();
                looker.look();
            });
            let (link, mut peer) = reach(&io, transport, framed(transport), handler);
            let writing = thread::spawn(move || {
                for message in numbered(200, 100) {
                    if !peer.try_write_message(&message) {
                        break;
                    }
                }
            });
            inbox.expect_opened();
            inbox.expect_message();
            end(&link);
            watch.over.store(true, Ordering::SeqCst);
            assert!(link.is_ended());
            // What it held is gone as well.
            let told = inbox.so_far();
            assert!(matches!(told.last(), Some(Told::Dropped)), "{told:?}");
            let_turn(&io);
            assert!(!watch.late.load(Ordering::SeqCst));
            writing.join().unwrap();
        }
    }
}

fn a_server_closed_while_peers_come_calls_nobody_afterwards(transport: Transport) {
    let io = start();
    let ends: [fn(&Server); 2] = [|server| _ = server.close(Duration::ZERO), Server::abort];
    for round in 0..100 {
        let place = fresh(transport);
        let watch = Arc::new(Watch::default());
        let looker = Arc::clone(&watch);
        let accept = move |_: &Link| {
            looker.look();
            let looker = Arc::clone(&looker);
            let (handler, _) = recorder_that(move |_, _| looker.look());
            Ok(handler)
        };
        let options = ServerOptions {
            link: framed(transport),
            ..ServerOptions::default()
        };
        let server = io.listen(&place.address, options, accept).unwrap();
        let address = server.local_address();
        let (stop, coming) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    drop(RawStream::try_connect(&address));
                    coming.fetch_add(1, Ordering::SeqCst);
                }
            });
            until("they come", || coming.load(Ordering::SeqCst) > round % 5);
            ends[round as usize % 2](&server);
            watch.over.store(true, Ordering::SeqCst);
            assert_eq!(server.statistics().connected, 0);
            let_turn(&io);
            assert!(!watch.late.load(Ordering::SeqCst), "round {round}");
            assert_eq!(server.statistics().connected, 0);
            stop.store(true, Ordering::SeqCst);
        });
    }
}

/// A callback is running when they come, and none of the three may return before it does.
fn close_and_abort_and_drop_at_once_end_it_once(transport: Transport) {
    for _ in 0..20 {
        let (enter, entered) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        let running = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&running);
        let (handler, inbox) = recorder_that(move |_, told| {
            if matches!(told, Told::Message(..)) {
                runs.store(true, Ordering::SeqCst);
                enter.send(()).unwrap();
                // Until the test lets it go.
                let _ = left.recv();
                runs.store(false, Ordering::SeqCst);
            }
        });
        let io = start();
        let (link, mut peer) = reach(&io, transport, framed(transport), handler);
        peer.write_message(b"wait");
        entered.recv_timeout(WATCHDOG).unwrap();
        let (closing, aborting, dropping) = (link.clone(), link.clone(), link);
        thread::scope(|scope| {
            let running = &running;
            scope.spawn(move || {
                closing.close(Duration::ZERO);
                assert!(!running.load(Ordering::SeqCst));
            });
            scope.spawn(move || {
                aborting.abort();
                assert!(!running.load(Ordering::SeqCst));
            });
            scope.spawn(move || {
                drop(dropping);
                // It does not wait; so it is the one to let the callback go.
                drop(leave);
            });
        });
        inbox.expect_opened();
        assert_eq!(inbox.expect_message(), b"wait");
        inbox.expect_end();
    }
}

/// Runs one life of a link in which each kind of callback comes, and acts in the one that is wanted.
fn act_in(transport: Transport, wanted: &'static str, act: fn(&Link)) -> Vec<Told> {
    act_in_with(transport, move |link, told| {
        if told.kind() == wanted {
            act(link);
        }
    })
}

fn act_in_with(transport: Transport, act: impl FnMut(&Link, &Told) + Send + 'static) -> Vec<Told> {
    let io = start();
    let told = live_through_all(&io, transport, act);
    // The thread lives.
    let_turn(&io);
    told
}

fn in_every_callback_it_can_be_closed(transport: Transport) {
    for wanted in CALLBACKS {
        let told = act_in(transport, wanted, |link| {
            // A peer that does not read would take all the time it is given.
            assert_eq!(link.close(Duration::from_millis(5)), Unsent::default());
            assert_eq!(link.send(b"a"), Err(SendError::Closed));
            assert_eq!(link.flush(WATCHDOG), Err(FlushError::WouldDeadlock));
        });
        expect_order(&told, wanted);
    }
}

fn in_every_callback_it_can_be_aborted(transport: Transport) {
    for wanted in CALLBACKS {
        let told = act_in(transport, wanted, |link| {
            link.abort();
            link.finish();
            link.pause_reading();
            link.resume_reading();
            assert_eq!(link.send(b"a"), Err(SendError::Closed));
        });
        expect_order(&told, wanted);
        if !["closed", "ended"].contains(&wanted) {
            let reason = told.iter().find_map(|told| match told {
                Told::Closed(closed) => Some(closed.reason.to_string()),
                _ => None,
            });
            assert_eq!(reason.unwrap(), "aborted on this side");
        }
    }
}

/// The handler's own is the last one.
fn in_every_callback_its_last_handle_can_be_dropped(transport: Transport) {
    for wanted in CALLBACKS {
        let mut own = None;
        let told = act_in_with(transport, move |link, told| {
            own.get_or_insert_with(|| link.clone());
            if told.kind() == wanted {
                own = None;
            }
        });
        expect_order(&told, wanted);
    }
}

fn in_every_callback_its_server_can_be_dropped(transport: Transport) {
    for wanted in ["opened", "message", "event", "closed", "ended"] {
        let (give, given) = mpsc::channel::<Served>();
        let (handler, inbox) = recorder_that(move |_, told| {
            if told.kind() == wanted {
                drop(given.recv_timeout(WATCHDOG).unwrap());
            }
        });
        let io = start();
        let options = ServerOptions {
            link: half_open(transport),
            ..ServerOptions::default()
        };
        let served = Served::listen(&io, transport, options, vec![handler]);
        let mut raw = RawStream::connect(&served.server.local_address());
        give.send(served).unwrap();
        // What it says may come too late.
        let _ = raw.write_all(&frame(b"message"));
        let _ = raw.try_end();
        let mut told = inbox.all_up_to(|told| matches!(told, Told::Event(_)));
        if matches!(told.last(), Some(Told::Event(_))) {
            raw.vanish();
            told.append(&mut inbox.all_up_to(|_| false));
        }
        assert!(matches!(told.pop(), Some(Told::Dropped)));
        expect_order(&told, wanted);
        let_turn(&io);
    }
}

/// A server on a thread of its own, and a client of it that says hello.
fn knock(
    io: &IoThread,
    server_io: &IoThread,
    transport: Transport,
    handlers: Vec<Recorder>,
) -> (Served, Link) {
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let served = Served::listen(server_io, transport, options, handlers);
    let address = served.server.local_address();
    let link = io
        .connect(&address, framed(transport), recorder().0)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    link.send(b"hello").unwrap();
    (served, link)
}

fn a_peer_may_end_itself_in_its_callback(transport: Transport) {
    let ends: [(fn(&Link), &str); 3] = [
        (|peer| _ = peer.close(Duration::ZERO), "closed on this side"),
        (Link::abort, "aborted on this side"),
        (Link::finish, "closed on this side"),
    ];
    for (end, reason) in ends {
        let (handler, inbox) = recorder_that(move |peer, told| {
            if matches!(told, Told::Message(..)) {
                // Over a stream, finish ends our side alone.
                peer.send(b"goodbye").unwrap();
                end(peer);
                assert_eq!(peer.send(b"more"), Err(SendError::Closed));
            }
        });
        let (io, server_io) = (start(), start());
        let (served, link) = knock(&io, &server_io, transport, vec![handler]);
        inbox.expect_opened();
        assert_eq!(inbox.expect_message(), b"hello");
        let told = inbox.expect_end().reason.to_string();
        assert!(told == reason || (transport.is_stream() && told == "the peer ended its stream"));
        served.expect_connected(0);
        drop(link);
    }
}

fn a_server_may_be_ended_in_its_peers_callback(transport: Transport) {
    let ends: [fn(Server); 3] = [
        |server| _ = server.close(Duration::ZERO),
        |server| server.abort(),
        |server| drop(server),
    ];
    for end in ends {
        let (give, given) = mpsc::channel();
        let (handler, inbox) = recorder_that(move |_, told| {
            if matches!(told, Told::Message(..)) {
                end(given.recv_timeout(WATCHDOG).unwrap());
            }
        });
        let (io, server_io) = (start(), start());
        let (served, _link) = knock(&io, &server_io, transport, vec![handler]);
        let (server, place) = served.split();
        let address = server.local_address();
        give.send(server).unwrap();
        inbox.expect_opened();
        assert_eq!(inbox.expect_message(), b"hello");
        inbox.expect_end();
        // Its address is free once the callback is over, and its thread serves on.
        until("there is another server", || {
            let accept = |_: &Link| Ok(recorder().0);
            server_io
                .listen(&address, ServerOptions::default(), accept)
                .is_ok()
        });
        drop(place);
    }
}

fn a_servers_close_returns_what_all_its_peers_did_not_take(transport: Transport) {
    let io = start();
    let options = ServerOptions {
        link: LinkOptions {
            send_buffer_bytes: transport.send_buffer(16 * 1024),
            ..framed(transport)
        },
        ..ServerOptions::default()
    };
    let handlers = (0..3).map(|_| recorder().0).collect();
    let served = Served::listen(&io, transport, options, handlers);
    let raws: Vec<_> = (0..3)
        .map(|_| {
            let raw = RawStream::connect(&served.server.local_address());
            (served.peer(), raw)
        })
        .collect();
    for (peer, _) in &raws {
        // More than TCP's buffers hold on either side.
        while peer.try_send(&[0; 60_000]).is_ok() {}
    }
    let unsent = served.server.close(Duration::from_millis(20));
    let of_each: u64 = raws
        .iter()
        .map(|(peer, _)| peer.statistics().sending.discarded.closed.messages)
        .sum();
    assert!(of_each >= 3, "{of_each}");
    assert_eq!(unsent.queued.messages, of_each);
    match transport {
        Transport::Tcp => assert!(unsent.kernel_bytes > Some(0), "{unsent:?}"),
        _ => assert_eq!(unsent.kernel_bytes, None),
    }
    assert_eq!(served.server.close(WATCHDOG), unsent, "it says it again");
}

fn in_every_callback_another_link_can_be_closed(transport: Transport) {
    for wanted in CALLBACKS {
        let (give, given) = mpsc::channel::<Link>();
        let io = start();
        let (other_handler, other_inbox) = recorder();
        let (other, _other_peer) = reach(&io, transport, framed(transport), other_handler);
        give.send(other).unwrap();
        let told = live_through_all(&io, transport, move |_, told| {
            if told.kind() == wanted
                && let Ok(other) = given.try_recv()
            {
                other.close(Duration::ZERO);
            }
        });
        expect_order(&told, wanted);
        other_inbox.expect_opened();
        assert!(matches!(other_inbox.expect_end().reason, Reason::Closed));
    }
}

fn the_peers_end_is_answered_after_what_waits(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, mut peer) = stalled(&io, transport, handler);
    let accepted = link.statistics().sending.accepted;
    peer.write_frame(b"last words");
    peer.end();
    let received = peer.read_to_the_end();
    assert_eq!(received.len() as u64, accepted.bytes);
    inbox.expect_opened();
    assert_eq!(inbox.skip_to_message(), b"last words");
    let closed = inbox.skip_to_closed();
    assert!(matches!(closed.reason, Reason::PeerEnded));
    assert!(closed.unsent.queued.is_zero());
}

/// It would hold its queue and its descriptor as long as it likes.
fn a_peer_that_ends_and_never_reads_is_not_waited_for_for_ever(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, peer) = stalled(&io, transport, handler);
    peer.end();
    let closed = inbox.skip_to_closed();
    assert!(matches!(closed.reason, Reason::PeerEnded));
    let lost = link.statistics().sending.discarded.connection_lost;
    assert!(lost.messages > 0);
    assert_eq!(closed.unsent.queued, lost);
}
