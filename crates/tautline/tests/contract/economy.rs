//! Promises 14 and 15: what is not used costs nothing, and nobody is woken twice for one thing.

use std::fs;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use tautline::{DirectLink, IoThread, Link, LinkOptions, Received, ServerOptions};

use crate::common::*;

over! {
    a_peer_that_has_ended_its_side_costs_no_cpu: tcp tls uds;
    a_peer_that_has_ended_its_side_and_never_reads_costs_no_cpu: tcp tls uds;
    an_end_of_our_side_alone_costs_no_cpu: tcp tls uds;
    many_queued_messages_ring_once: tcp tls uds udp;
    an_idle_link_costs_little_memory: tcp uds;
    deadlines_of_connects_that_are_over_wake_nobody: tcp uds;
}

/// How long these look at a thread that has nothing to do.
const WATCHED: Duration = Duration::from_millis(300);
/// A thread that spins is on a CPU for most of that, even beside others.
const NOTHING: Duration = Duration::from_millis(10);

/// That this thread has come to rest, and stays so.
fn expect_rest(io: &IoThread) {
    let id = inside_callback(io, own_thread_id);
    let_turn(io);
    until("it sleeps", || is_asleep(id));
    let before = cpu_time(id);
    let (never, nothing) = (Condvar::new(), Mutex::new(()));
    let waited = never.wait_timeout_while(nothing.lock().unwrap(), WATCHED, |()| true);
    assert!(waited.unwrap().1.timed_out());
    let spent = cpu_time(id) - before;
    assert!(spent < NOTHING, "{spent:?} for nothing");
}

/// Each link had a deadline to connect by, at a time of its own, and is open long before.
fn deadlines_of_connects_that_are_over_wake_nobody(transport: Transport) {
    const LINKS: usize = 100;
    let io = start();
    let listener = RawListener::bind(transport);
    let id = inside_callback(&io, own_thread_id);
    let options = || LinkOptions {
        connect_timeout: WATCHED / 2,
        ..framed(transport)
    };
    let began = Instant::now();
    let _links: Vec<_> = (0..LINKS)
        .map(|_| client_of_raw(&io, &listener, options(), recorder().0))
        .collect();
    let_turn(&io);
    until("it sleeps", || is_asleep(id));
    let before = times_slept(id);
    until("all deadlines are over", || began.elapsed() > 2 * WATCHED);
    let woken = times_slept(id) - before;
    assert!(woken <= 10, "it woke up {woken} times");
}

fn half_open(transport: Transport) -> LinkOptions {
    LinkOptions {
        half_open: true,
        ..framed(transport)
    }
}

/// To the kernel's pollers the end of one side is a lasting state, and a loop that takes it for news
/// never sleeps again.
fn a_peer_that_has_ended_its_side_costs_no_cpu(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, mut peer) = client_of_raw(&io, &listener, half_open(transport), handler);
    inbox.expect_opened();
    peer.end();
    assert_eq!(inbox.expect_event(), Happened::PeerFinished);
    expect_rest(&io);
    link.send(b"still here").unwrap();
    assert_eq!(peer.read_frame(), b"still here");
    expect_rest(&io);
}

/// We still owe it something, and wait for room that will not come.
fn a_peer_that_has_ended_its_side_and_never_reads_costs_no_cpu(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..half_open(transport)
    };
    let (handler, inbox) = recorder();
    let (link, peer) = client_of_raw(&io, &listener, options, handler);
    inbox.expect_opened();
    peer.end();
    assert_eq!(inbox.expect_event(), Happened::PeerFinished);
    let sender = link.clone();
    inside_callback(&io, move || sender.send(&[7; 900_000]).unwrap());
    expect_rest(&io);
    assert_eq!(link.statistics().sending.waiting.messages, 1);

    // As well where we are not half open, for as long as it may take.
    let (handler, inbox) = recorder();
    let (_stalled, peer) = stalled(&io, transport, handler);
    inbox.expect_opened();
    peer.end();
    expect_rest(&io);
}

fn an_end_of_our_side_alone_costs_no_cpu(transport: Transport) {
    let io = start();
    let listener = RawListener::bind(transport);
    let (handler, inbox) = recorder();
    let (link, mut peer) = client_of_raw(&io, &listener, framed(transport), handler);
    inbox.expect_opened();
    link.finish();
    peer.expect_cut_off();
    expect_rest(&io);
    let closing = link.clone();
    inside_callback(&io, move || _ = closing.close(WATCHDOG));
    expect_rest(&io);
    peer.write_frame(b"at last");
    assert_eq!(inbox.expect_message(), b"at last");
}

/// How often the eventfds of this process were ever written to: an I/O thread's bell is one, and is
/// heard without being read.
fn rings() -> u64 {
    let count = |entry: fs::DirEntry| {
        let told = fs::read_to_string(entry.path()).ok()?;
        let line = told
            .lines()
            .find_map(|line| line.strip_prefix("eventfd-count:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let descriptors = fs::read_dir("/proc/self/fdinfo").unwrap();
    descriptors.filter_map(|entry| count(entry.unwrap())).sum()
}

/// Its driver is busy, so that all of them wait: they call it once, and leave in one write; datagrams
/// too, of equal length as they are.
fn many_queued_messages_ring_once(transport: Transport) {
    let name = name_of("economy::many_queued_messages_ring_once", transport);
    if !in_child(&name) {
        return child(&name, "");
    }
    let io = start();
    let (link, mut peer) = reach(&io, transport, framed(transport), recorder().0);
    // Datagrams beyond what the peer's kernel holds would be lost.
    let count = if transport.is_stream() { 1000 } else { 100 };
    let messages = numbered(count, 16);
    let (first, rest) = messages.split_first().unwrap();
    let (sender, queued) = (link.clone(), first.clone());
    // Queued by the driver's own callback, so that the others find it waiting.
    let (gate, ()) = Gate::after(&io, move || sender.send(&queued).unwrap());
    let before = rings();
    for message in rest {
        link.send(message).unwrap();
    }
    let rings = rings() - before;
    assert!(rings <= 1, "{rings} rings");
    assert_eq!(link.statistics().sending.waiting.messages, count.into());
    drop(gate);
    for message in &messages {
        assert_eq!(peer.read_message(), *message);
    }
    let calls = link.statistics().sending.write_calls;
    assert!(calls <= 2, "{calls} writes");
}

/// A mebibyte of pool for each was once set aside elsewhere. Both ends count here, a thousand of each.
fn an_idle_link_costs_little_memory(transport: Transport) {
    let name = name_of("economy::an_idle_link_costs_little_memory", transport);
    if !in_child(&name) {
        return child(&name, "ulimit -n 4096;");
    }
    let (io, place) = (start(), fresh(transport));
    let options = ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    };
    let accept =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let server = io.listen(&place.address, options, accept).unwrap();
    let reach = || {
        let address = server.local_address();
        let (handler, inbox) = recorder();
        let link = io.connect(&address, framed(transport), handler).unwrap();
        inbox.expect_opened();
        link.send(b"hello").unwrap();
        assert_eq!(inbox.expect_message(), b"hello");
        (link, inbox)
    };
    let warm: Vec<_> = (0..10).map(|_| reach()).collect();
    let before = resident_bytes();
    let links: Vec<_> = (0..1000).map(|_| reach()).collect();
    let each = (resident_bytes() - before) / 2000;
    assert!(each < 8 * 1024, "{each} bytes for a link");
    // Those without a thread have a buffer each, which is theirs to keep.
    let direct = DirectLink::connect(&server.local_address(), framed(transport)).unwrap();
    drop((warm, links, direct));
}
