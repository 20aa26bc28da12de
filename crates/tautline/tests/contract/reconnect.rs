//! Promise 5, the lives after the first: a link comes back, and ends when it should.

use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tautline::{
    Address, DirectLink, DirectListener, FirstAttempt, IoThread, Link, LinkOptions, LinkState,
    Pressure, Reason, Reconnect, SendError, ServerOptions,
};

use crate::common::*;

over! {
    a_server_that_restarts_is_found_again_each_time: tcp uds;
    nobody_there_at_the_start_is_no_end_unless_asked_for: tcp uds;
    attempts_in_a_row_are_limited_and_told: tcp uds;
    the_time_without_a_connection_is_limited: tcp uds serial;
    two_hundred_links_do_not_come_back_in_step: tcp tls uds serial;
    a_server_that_closes_at_once_is_met_with_growing_pauses: tcp tls uds serial;
    after_a_connection_that_lasted_the_count_starts_anew: tcp tls uds serial;
    a_bad_frame_leads_to_a_new_connection: tcp tls uds serial;
    a_new_connection_has_nothing_of_the_half_frame_before: tcp uds;
    what_waited_is_lost_with_its_connection_and_pressure_off_comes_first: tcp tls uds;
    a_paused_link_stays_paused_through_a_reconnect: tcp tls uds serial;
    waiting_for_a_link_to_open_goes_through_its_attempts: tcp uds;
    a_wait_that_times_out_says_what_the_last_attempt_failed_of: tcp uds;
    close_and_abort_and_drop_end_a_pause_at_once: tcp uds udp serial;
    a_callback_may_end_a_link_that_comes_back: tcp tls uds serial;
    a_panic_ends_a_link_that_comes_back: tcp tls uds serial;
    two_threads_stop_a_link_while_a_callback_runs: tcp tls uds serial;
    an_end_that_was_asked_for_is_no_loss: tcp tls uds serial;
    a_name_that_nobody_knows_is_asked_for_again: tcp udp;
    where_nobody_could_come_back_it_is_refused: tcp tls uds udp serial;
}

/// Pauses that a test can wait for.
const QUICK: Reconnect = Reconnect {
    base: Duration::from_millis(1),
    cap: Duration::from_millis(4),
    first_attempt: FirstAttempt::Retry,
    attempts_limit: None,
    give_up_after: None,
    steady_after: Duration::from_secs(3600),
};

/// Pauses that no test sees the end of, but for one in thousands.
const SLOW: Reconnect = Reconnect {
    base: Duration::from_secs(36_000),
    cap: Duration::from_secs(36_000),
    ..QUICK
};

fn coming_back(transport: Transport, rules: Reconnect) -> LinkOptions {
    LinkOptions {
        reconnect: Some(rules),
        ..framed(transport)
    }
}

/// Where nobody listens yet; the folder or the port is kept for whoever will.
fn empty_place(transport: Transport) -> Place {
    let mut place = fresh(transport);
    if let Address::Tcp { port, .. } | Address::Tls { port, .. } = &mut place.address {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        *port = socket.local_addr().unwrap().port();
    }
    place
}

/// A server of ours at this address, whose peers send back what they get.
fn echo_at(io: &IoThread, transport: Transport, address: &Address) -> tautline::Server {
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let listen = || {
        io.listen(address, options.clone(), |_: &Link| {
            Ok(|peer: &Link, message: &[u8], _: tautline::Received| {
                let _ = peer.send(message);
            })
        })
    };
    listen().unwrap()
}

fn a_server_that_restarts_is_found_again_each_time(transport: Transport) {
    let (io, server_io) = (start(), start());
    let place = empty_place(transport);
    let (handler, inbox) = recorder();
    let mut server = echo_at(&server_io, transport, &place.address);
    let link = io
        .connect(&place.address, coming_back(transport, QUICK), handler)
        .unwrap();
    for life in 1..=20 {
        let opened = inbox.skip_to_opened();
        assert_eq!(opened.generation, life);
        link.send(&life.to_be_bytes()).unwrap();
        assert_eq!(inbox.expect_message(), life.to_be_bytes());
        drop(server);
        let closed = inbox.expect_closed();
        assert_eq!(closed.generation, life);
        server = echo_at(&server_io, transport, &place.address);
    }
    assert_eq!(inbox.skip_to_opened().generation, 21);
    assert!(matches!(link.state(), LinkState::Open));
    link.close(WATCHDOG);
    assert_eq!(inbox.expect_end().generation, 21);
    let statistics = link.statistics();
    assert_eq!(statistics.connections.opened, 21);
    let failed = statistics.connections.failed_attempts;
    assert_eq!(statistics.connections.attempts, 21 + failed);
    assert_eq!(statistics.sending.accepted.messages, 20);
    assert_eq!(statistics.receiving.messages, 20);
}

fn nobody_there_at_the_start_is_no_end_unless_asked_for(transport: Transport) {
    let io = start();
    let place = empty_place(transport);
    let rules = Reconnect {
        first_attempt: FirstAttempt::Fail,
        ..QUICK
    };
    let (handler, inbox) = recorder();
    let _link = io
        .connect(&place.address, coming_back(transport, rules), handler)
        .unwrap();
    assert!(matches!(inbox.expect_ended(), Reason::NotConnected(_)));
    inbox.expect_gone();

    let (handler, inbox) = recorder();
    let link = io
        .connect(&place.address, coming_back(transport, QUICK), handler)
        .unwrap();
    assert_eq!(inbox.expect_retrying().0, 2);
    assert!(matches!(link.state(), LinkState::Retrying { .. }));
    assert_eq!(link.send(b"?"), Err(SendError::NotConnected));
    let _server = echo_at(&io, transport, &place.address);
    assert_eq!(inbox.skip_to_opened().generation, 1);
}

fn attempts_in_a_row_are_limited_and_told(transport: Transport) {
    let io = start();
    let place = empty_place(transport);
    let rules = Reconnect {
        attempts_limit: Some(3),
        ..QUICK
    };
    let (handler, inbox) = recorder();
    let link = io
        .connect(&place.address, coming_back(transport, rules), handler)
        .unwrap();
    for expected in [2, 3] {
        let Told::Event(Happened::Retrying {
            attempt, reason, ..
        }) = inbox.next()
        else {
            panic!("expected a pause");
        };
        assert_eq!(attempt, expected);
        assert!(reason.starts_with("connect to "), "{reason}");
    }
    assert!(matches!(inbox.expect_ended(), Reason::NotConnected(_)));
    inbox.expect_gone();
    until("the link has ended", || link.is_ended());
    let connections = link.statistics().connections;
    assert_eq!((connections.attempts, connections.failed_attempts), (3, 3));
    assert_eq!(connections.opened, 0);
}

fn the_time_without_a_connection_is_limited(transport: Transport) {
    let io = start();
    let place = empty_place(transport);
    for base in [QUICK.base, SLOW.base] {
        let rules = Reconnect {
            base,
            cap: base,
            give_up_after: Some(Duration::from_millis(50)),
            ..QUICK
        };
        let (handler, inbox) = recorder();
        let begun = Instant::now();
        let link = io
            .connect(&place.address, coming_back(transport, rules), handler)
            .unwrap();
        let told = inbox.all_to_the_end();
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(told.last().unwrap().kind(), "ended");
        assert!(link.statistics().connections.attempts >= 1);
    }
}

fn two_hundred_links_do_not_come_back_in_step(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let rules = Reconnect {
        base: Duration::from_secs(1000),
        cap: Duration::from_secs(1000),
        ..SLOW
    };
    let links: Vec<_> = (0..200)
        .map(|_| {
            let (handler, inbox) = recorder();
            let options = coming_back(transport, rules);
            let (link, peer) = client_of_raw(&io, &listener, options, handler);
            drop(peer);
            (link, inbox)
        })
        .collect();
    let mut tenths = [0; 10];
    for (_, inbox) in &links {
        inbox.expect_opened();
        inbox.expect_closed();
        let (_, after) = inbox.expect_retrying();
        tenths[(after.as_secs_f64() / 100.1) as usize] += 1;
    }
    // Twenty each would be even. Fewer than four in any is one run in a hundred thousand.
    assert!(tenths.iter().all(|&count| count >= 4), "{tenths:?}");
}

fn a_server_that_closes_at_once_is_met_with_growing_pauses(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let options = coming_back(transport, QUICK);
    let _link = io.connect(&listener.address(), options, handler).unwrap();
    for life in 1..=10 {
        drop(listener.accept());
        assert_eq!(inbox.expect_opened().generation, life);
        assert_eq!(inbox.expect_closed().generation, life);
        assert_eq!(u64::from(inbox.expect_retrying().0), life + 1);
    }
}

fn after_a_connection_that_lasted_the_count_starts_anew(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let rules = Reconnect {
        // Any lasts as long as that.
        steady_after: Duration::from_nanos(1),
        ..QUICK
    };
    let options = coming_back(transport, rules);
    let _link = io.connect(&listener.address(), options, handler).unwrap();
    for _ in 0..5 {
        drop(listener.accept());
        inbox.expect_opened();
        inbox.expect_closed();
        assert_eq!(inbox.expect_retrying().0, 1);
    }
}

fn a_bad_frame_leads_to_a_new_connection(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let options = coming_back(transport, QUICK);
    let (_link, mut peer) = client_of_raw(&io, &listener, options, handler);
    peer.write_all(&[0xff; 4]).unwrap();
    inbox.expect_opened();
    assert!(matches!(inbox.expect_event(), Happened::BadFrame(_)));
    assert!(matches!(inbox.expect_closed().reason, Reason::BadFrame(_)));
    inbox.expect_retrying();
    let mut peer = listener.accept();
    peer.write_frame(b"whole");
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"whole");
}

fn a_new_connection_has_nothing_of_the_half_frame_before(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let options = coming_back(transport, QUICK);
    let (link, mut peer) = client_of_raw(&io, &listener, options, handler);
    peer.write_all(&frame(b"never whole")[..9]).unwrap();
    drop(peer);
    inbox.expect_opened();
    assert_eq!(inbox.expect_event(), Happened::CutFrame(9));
    inbox.expect_closed();
    let mut peer = listener.accept();
    peer.write_frame(b"whole");
    assert_eq!(inbox.skip_to_message(), b"whole");
    link.abort();
    inbox.expect_end();
}

fn what_waited_is_lost_with_its_connection_and_pressure_off_comes_first(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..coming_back(transport, QUICK)
    };
    let (handler, inbox) = recorder();
    let (link, peer) = client_of_raw(&io, &listener, options, handler);
    let sender = link.clone();
    inside_callback(&io, move || while sender.send(&[1; 996]).is_ok() {});
    inbox.expect_opened();
    assert!(matches!(inbox.next(), Told::Pressure(Pressure::On)));
    peer.vanish();
    assert!(matches!(inbox.next(), Told::Pressure(Pressure::Off)));
    let closed = inbox.expect_closed();
    assert!(closed.unsent.queued.messages >= 10);
    let mut peer = listener.accept();
    inbox.skip_to_opened();
    link.send(&[2; 8]).unwrap();
    assert_eq!(peer.read_frame(), [2; 8]);
    let sending = link.statistics().sending;
    assert!(sending.closes());
    assert_eq!(sending.discarded.connection_lost, closed.unsent.queued);
    assert_eq!(sending.pressure_crossings % 2, 0);
}

fn a_paused_link_stays_paused_through_a_reconnect(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let options = coming_back(transport, QUICK);
    let (handler, inbox) = recorder_that(|link, told| {
        if let Told::Closed(_) = told {
            link.pause_reading();
        }
    });
    let (link, peer) = client_of_raw(&io, &listener, options, handler);
    drop(peer);
    let mut peer = listener.accept();
    inbox.expect_opened();
    inbox.expect_closed();
    inbox.expect_retrying();
    inbox.expect_opened();
    peer.write_frame(b"held back");
    let_turn(&io);
    assert_eq!(link.statistics().receiving.messages, 0);
    link.resume_reading();
    assert_eq!(inbox.expect_message(), b"held back");
}

fn waiting_for_a_link_to_open_goes_through_its_attempts(transport: Transport) {
    let io = start();
    let place = empty_place(transport);
    let (handler, inbox) = recorder();
    let link = io
        .connect(&place.address, coming_back(transport, QUICK), handler)
        .unwrap();
    let waiting = thread::spawn(move || link.wait_open(WATCHDOG).map(|()| link));
    inbox.expect_retrying();
    inbox.expect_retrying();
    let _server = echo_at(&io, transport, &place.address);
    let link = waiting.join().unwrap().unwrap();
    assert!(link.is_open());
}

fn a_wait_that_times_out_says_what_the_last_attempt_failed_of(transport: Transport) {
    let io = start();
    let place = empty_place(transport);
    let (handler, inbox) = recorder();
    let link = io
        .connect(&place.address, coming_back(transport, SLOW), handler)
        .unwrap();
    inbox.expect_retrying();
    let error = link.wait_open(Duration::from_millis(1)).unwrap_err();
    let why = match transport {
        Transport::Tcp | Transport::Tls => "connection refused",
        _ => "no such file or directory",
    };
    let text = error.to_string();
    assert!(text.contains("timed out after 1ms"), "{text}");
    assert!(
        text.contains("the last failure: ") && text.ends_with(why),
        "{text}"
    );
    assert_eq!(error.kind(), tautline::ErrorKind::TimedOut);
}

fn close_and_abort_and_drop_end_a_pause_at_once(transport: Transport) {
    let io = start();
    let place = match transport {
        // No way leads there without an interface.
        Transport::Udp => Place::of("udp://[fe80::1]:1"),
        _ => empty_place(transport),
    };
    let ends: [(fn(Link), fn(&Reason) -> bool); 3] = [
        (
            |link| {
                link.close(WATCHDOG);
            },
            |reason| matches!(reason, Reason::Closed),
        ),
        (
            |link| link.abort(),
            |reason| matches!(reason, Reason::Aborted),
        ),
        (drop, |reason| matches!(reason, Reason::Aborted)),
    ];
    for (end, is_expected) in ends {
        let (handler, inbox) = recorder();
        let link = io
            .connect(&place.address, coming_back(transport, SLOW), handler)
            .unwrap();
        inbox.expect_retrying();
        end(link);
        let reason = inbox.expect_ended();
        assert!(is_expected(&reason), "{reason}");
        inbox.expect_gone();
    }
}

fn a_callback_may_end_a_link_that_comes_back(transport: Transport) {
    let io = start();
    for acted_in in ["opened", "closed", "event"] {
        for abort in [true, false] {
            let listener = RawListener::bind(transport);
            let (handler, inbox) = recorder_that(move |link, told| {
                if told.kind() == acted_in {
                    if abort {
                        link.abort();
                    } else {
                        link.close(WATCHDOG);
                    }
                }
            });
            let options = coming_back(transport, SLOW);
            let (link, peer) = client_of_raw(&io, &listener, options, handler);
            drop(peer);
            let told = inbox.all_to_the_end();
            let kinds: Vec<_> = told.iter().map(Told::kind).collect();
            assert_eq!(kinds[..2], ["opened", "closed"], "{acted_in}");
            assert_eq!(kinds.last(), Some(&"ended"), "{acted_in}");
            assert!(kinds.len() <= 4, "{acted_in}: {kinds:?}");
            until("it has ended", || link.is_ended());
            assert_eq!(link.statistics().connections.opened, 1);
        }
    }
}

fn a_panic_ends_a_link_that_comes_back(transport: Transport) {
    let io = start();
    for acted_in in ["opened", "closed", "event"] {
        let listener = RawListener::bind(transport);
        let (handler, inbox) = recorder_that(move |_, told| {
            assert!(told.kind() != acted_in, "as the test wants it");
        });
        let options = coming_back(transport, SLOW);
        let (_link, peer) = client_of_raw(&io, &listener, options, handler);
        drop(peer);
        let told = inbox.all_to_the_end();
        let Some(Told::Ended(ended)) = told.last() else {
            panic!("{acted_in}: {told:?}");
        };
        assert!(matches!(ended.reason, Reason::Panicked), "{acted_in}");
    }
}

fn two_threads_stop_a_link_while_a_callback_runs(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    for acted_in in ["opened", "closed", "event"] {
        let (inside, entered) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let (handler, inbox) = recorder_that(move |_, told| {
            if told.kind() == acted_in {
                let _ = inside.send(());
                let _ = gate.recv();
            }
        });
        let options = coming_back(transport, SLOW);
        let link = io.connect(&listener.address(), options, handler).unwrap();
        drop(listener.accept());
        entered.recv_timeout(WATCHDOG).unwrap();
        let stops: [fn(&Link); 2] = [
            |link| {
                link.close(WATCHDOG);
            },
            Link::abort,
        ];
        let stopping = stops.map(|stop| {
            let link = link.clone();
            thread::spawn(move || {
                stop(&link);
                assert!(link.is_ended());
            })
        });
        go_on.send(()).unwrap();
        for stopped in stopping {
            stopped.join().unwrap();
        }
        // Nothing comes after them.
        let told = inbox.all_to_the_end();
        assert_eq!(told.last().unwrap().kind(), "ended", "{acted_in}");
        let opened = told.iter().filter(|told| told.kind() == "opened").count();
        assert_eq!(opened, 1);
    }
}

fn an_end_that_was_asked_for_is_no_loss(transport: Transport) {
    let io = start();
    let ends: [fn(&Link); 3] = [
        |link| {
            link.close(WATCHDOG);
        },
        Link::abort,
        Link::finish,
    ];
    for end in ends {
        let listener = RawListener::bind(transport);
        let (handler, inbox) = recorder();
        let options = coming_back(transport, QUICK);
        let (link, mut peer) = client_of_raw(&io, &listener, options, handler);
        let peer = thread::spawn(move || {
            peer.read_to_the_end();
            drop(peer);
        });
        end(&link);
        inbox.expect_opened();
        inbox.expect_end();
        peer.join().unwrap();
        assert_eq!(link.statistics().connections.attempts, 1);
    }
}

fn a_name_that_nobody_knows_is_asked_for_again(transport: Transport) {
    let io = start();
    let scheme = if transport.is_stream() { "tcp" } else { "udp" };
    // A label of 64 letters is no label: the resolver says so without asking anybody.
    let name = "x".repeat(64);
    let place = Place::of(&format!("{scheme}://{name}:7"));
    let rules = Reconnect {
        attempts_limit: Some(3),
        ..QUICK
    };
    let (handler, inbox) = recorder();
    let _link = io
        .connect(&place.address, coming_back(transport, rules), handler)
        .unwrap();
    inbox.expect_retrying();
    inbox.expect_retrying();
    let reason = inbox.expect_ended();
    let Reason::NotConnected(error) = reason else {
        panic!("{reason}");
    };
    assert_eq!(error.kind(), tautline::ErrorKind::Resolve);
    inbox.expect_gone();
}

fn where_nobody_could_come_back_it_is_refused(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let options = coming_back(transport, QUICK);
    let server = ServerOptions {
        link: options.clone(),
        ..ServerOptions::default()
    };
    let accept = |_: &Link| Ok(recorder().0);
    let refusals = [
        io.listen(&place.address, server, accept).unwrap_err(),
        DirectListener::bind(&place.address, options.clone()).unwrap_err(),
        DirectLink::connect(&place.address, options).unwrap_err(),
    ];
    for error in refusals {
        assert_eq!(error.kind(), tautline::ErrorKind::InvalidOption);
        assert!(error.to_string().starts_with("reconnect: "), "{error}");
    }
}
