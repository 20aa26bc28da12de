//! Promises 7, 13 and 14 against peers that do what no polite program does.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tautline::{
    ByteOrder, FrameFault, Framing, Handler, IoOptions, IoThread, Link, LinkOptions, PrefixWidth,
    Reason, Received, ServerOptions,
};

use crate::common::*;

over! {
    a_peer_that_announces_four_gigabytes_is_cut_off: tcp tls uds;
    a_frame_of_just_the_limit_passes_and_one_byte_more_is_a_fault: tcp tls uds;
    what_came_before_a_bad_frame_is_delivered: tcp tls uds;
    an_announced_length_sets_no_memory_aside: tcp tls uds;
    half_a_frame_and_then_the_end_is_an_event: tcp tls uds;
    half_a_header_and_then_the_end_is_an_event: tcp tls uds;
    half_a_frame_and_then_nothing_holds_up_nobody: tcp tls uds;
    half_a_frame_and_then_a_reset_ends_the_link: tcp tls uds;
    a_peer_that_writes_byte_by_byte_is_understood: tcp tls uds;
    a_peer_that_reads_byte_by_byte_gets_all_and_holds_up_nobody: tcp tls uds;
    a_peer_that_stalls_holds_up_nobody: tcp tls uds;
    a_peer_that_vanishes_is_noticed_and_harms_nobody: tcp uds;
    a_peer_that_resets_with_data_unread_is_noticed: tcp tls uds;
    a_peer_that_connects_and_says_nothing_costs_nothing: tcp uds;
    a_peer_that_connects_and_goes_at_once_is_over: tcp uds;
    a_peer_that_never_stops_talking_leaves_the_others_their_turn: tcp uds;
    a_peer_that_hears_nothing_and_never_stops_talking_is_cut_off: uds;
    noise_is_never_more_than_a_fault: tcp tls uds;
}

/// A server whose peers are recorded; one raw peer is connected, and another one that is polite.
struct Scene {
    io: IoThread,
    inbox: Inbox,
    link: Link,
    raw: RawStream,
    polite: RawStream,
    polite_inbox: Inbox,
    polite_link: Link,
    _served: Served,
}

impl Scene {
    fn new(transport: Transport, options: LinkOptions) -> Self {
        let io = start();
        let (bad, inbox) = recorder();
        let (good, polite_inbox) = recorder();
        let options = ServerOptions {
            link: options,
            ..ServerOptions::default()
        };
        let served = Served::listen(&io, transport, options, vec![bad, good]);
        let raw = RawStream::connect(&served.server.local_address());
        let link = served.peer();
        let polite = RawStream::connect(&served.server.local_address());
        let polite_link = served.peer();
        inbox.expect_opened();
        polite_inbox.expect_opened();
        Self {
            io,
            inbox,
            link,
            raw,
            polite,
            polite_inbox,
            polite_link,
            _served: served,
        }
    }

    /// The other peer is served as if nothing were.
    fn nobody_else_notices(&mut self) {
        for message in numbered(20, 1000) {
            self.polite.write_frame(&message);
            assert_eq!(self.polite_inbox.expect_message(), message);
            self.polite_link.send(&message).unwrap();
            assert_eq!(self.polite.read_frame(), message);
        }
    }
}

fn a_peer_that_announces_four_gigabytes_is_cut_off(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    scene
        .raw
        .write_all(&[0xff, 0xff, 0xff, 0xff, 1, 2])
        .unwrap();
    let fault = FrameFault::TooLarge {
        announced_bytes: 4_294_967_295,
        limit_bytes: 1_048_576,
    };
    assert_eq!(scene.inbox.expect_event(), Happened::BadFrame(fault));
    let closed = scene.inbox.expect_end();
    assert!(matches!(closed.reason, Reason::BadFrame(found) if found == fault));
    let receiving = scene.link.statistics().receiving;
    assert_eq!((receiving.faults, receiving.messages), (1, 0));
    scene.raw.expect_cut_off();
    scene.nobody_else_notices();
}

fn a_frame_of_just_the_limit_passes_and_one_byte_more_is_a_fault(transport: Transport) {
    let options = LinkOptions {
        framing: Framing::LengthPrefix {
            width: PrefixWidth::Two,
            order: ByteOrder::Little,
        },
        frame_limit_bytes: 300,
        ..LinkOptions::default()
    };
    let mut scene = Scene::new(transport, options);
    let write = |raw: &mut RawStream, length: u16| {
        let frame = [&length.to_le_bytes()[..], &vec![7; length.into()]].concat();
        raw.write_all(&frame).unwrap();
    };
    write(&mut scene.raw, 300);
    assert_eq!(scene.inbox.expect_message(), [7; 300]);
    write(&mut scene.raw, 0);
    assert_eq!(scene.inbox.expect_message(), b"");
    write(&mut scene.raw, 301);
    let fault = FrameFault::TooLarge {
        announced_bytes: 301,
        limit_bytes: 300,
    };
    assert_eq!(scene.inbox.expect_event(), Happened::BadFrame(fault));
    scene.inbox.expect_end();
}

fn what_came_before_a_bad_frame_is_delivered(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    let bytes = [frame(b"one"), frame(b"two"), vec![0xff; 100]].concat();
    scene.raw.write_all(&bytes).unwrap();
    assert_eq!(scene.inbox.expect_message(), b"one");
    assert_eq!(scene.inbox.expect_message(), b"two");
    assert!(matches!(scene.inbox.expect_event(), Happened::BadFrame(_)));
    scene.inbox.expect_end();
}

/// A hundred peers each announce the largest frame there may be, nearly 4 GiB, and send a byte of it.
fn an_announced_length_sets_no_memory_aside(transport: Transport) {
    let io = start();
    let options = ServerOptions {
        link: LinkOptions {
            frame_limit_bytes: 0xffff_fffb,
            ..framed(transport)
        },
        ..ServerOptions::default()
    };
    let handlers = (0..100).map(|_| recorder().0).collect();
    let served = Served::listen(&io, transport, options, handlers);
    let mut raws = Vec::new();
    let before = reserved_bytes();
    for _ in 0..100 {
        let mut raw = RawStream::connect(&served.server.local_address());
        raw.write_all(&[0xff, 0xff, 0xff, 0xfb, 1]).unwrap();
        raws.push(raw);
    }
    until("all bytes have come", || {
        served.server.statistics().peers.receiving.wire_bytes == 500
    });
    // Other tests run beside this one; what was announced is four hundred times as much.
    let grown = reserved_bytes().saturating_sub(before);
    assert!(grown < 1 << 30, "{grown} bytes more");
}

fn half_a_frame_and_then_the_end_is_an_event(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    let whole = frame(&[7; 100]);
    scene
        .raw
        .write_all(&[&whole[..], &whole[..50]].concat())
        .unwrap();
    scene.raw.end();
    assert_eq!(scene.inbox.expect_message(), [7; 100]);
    assert_eq!(scene.inbox.expect_event(), Happened::CutFrame(50));
    let closed = scene.inbox.expect_end();
    assert!(matches!(closed.reason, Reason::PeerEnded));
    let receiving = scene.link.statistics().receiving;
    assert_eq!((receiving.faults, receiving.messages), (1, 1));
    assert_eq!((receiving.payload_bytes, receiving.wire_bytes), (100, 154));
}

fn half_a_header_and_then_the_end_is_an_event(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    scene.raw.write_all(&[0, 0]).unwrap();
    scene.raw.end();
    assert_eq!(scene.inbox.expect_event(), Happened::CutFrame(2));
    assert!(matches!(scene.inbox.expect_end().reason, Reason::PeerEnded));
}

fn half_a_frame_and_then_nothing_holds_up_nobody(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    let whole = frame(&[7; 1000]);
    scene.raw.write_all(&whole[..500]).unwrap();
    scene.nobody_else_notices();
    assert!(scene.link.is_open());
    assert!(scene.inbox.so_far().is_empty());
    scene.raw.write_all(&whole[500..]).unwrap();
    assert_eq!(scene.inbox.expect_message(), [7; 1000]);
}

fn half_a_frame_and_then_a_reset_ends_the_link(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    // Unread at its end, so that there is a reset on Unix sockets too.
    scene.link.send(b"unread").unwrap();
    scene.raw.write_all(&frame(&[7; 1000])[..500]).unwrap();
    until("it has come", || {
        scene.link.statistics().receiving.wire_bytes == 500
    });
    let Scene { raw, inbox, .. } = scene;
    raw.vanish();
    let closed = inbox.expect_end();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
}

fn a_peer_that_writes_byte_by_byte_is_understood(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    let bytes = [frame(b""), frame(b"a"), frame(&[7; 20])].concat();
    for (index, byte) in bytes.iter().enumerate() {
        scene.raw.write_all(&[*byte]).unwrap();
        // Each is a read of its own.
        until("it has come", || {
            scene.link.statistics().receiving.wire_bytes == index as u64 + 1
        });
    }
    assert_eq!(scene.inbox.expect_message(), b"");
    assert_eq!(scene.inbox.expect_message(), b"a");
    assert_eq!(scene.inbox.expect_message(), [7; 20]);
    assert!(scene.link.statistics().receiving.read_calls >= 33);
}

fn a_peer_that_reads_byte_by_byte_gets_all_and_holds_up_nobody(transport: Transport) {
    let io = start();
    let (link, mut slow) = stalled(&io, transport, recorder().0);
    let mut echo = Echo::new(&io, transport);
    let accepted = link.statistics().sending.accepted;
    for read in 0..accepted.bytes {
        let byte = slow.read_exactly(1)[0];
        // Frames of 996 zeros: only the prefix is something else.
        let expected = [0, 0, 0x03, 0xe4].get(read as usize % 1000).copied();
        assert_eq!(byte, expected.unwrap_or(0));
        if read % 1000 == 0 {
            echo.answers();
        }
    }
    assert_eq!(link.statistics().sending.written, accepted);
}

/// A link on the same thread as the one under trial, to a peer that answers at once.
struct Echo {
    link: Link,
    inbox: Inbox,
    peer: RawStream,
}

impl Echo {
    fn new(io: &IoThread, transport: Transport) -> Self {
        let (handler, inbox) = recorder();
        let listener = RawListener::bind(transport);
        let (link, peer) = client_of_raw(io, &listener, framed(transport), handler);
        inbox.expect_opened();
        Self { link, inbox, peer }
    }

    fn answers(&mut self) {
        self.link.send(b"are you there?").unwrap();
        assert_eq!(self.peer.read_frame(), b"are you there?");
        self.peer.write_frame(b"I am");
        assert_eq!(self.inbox.expect_message(), b"I am");
    }
}

fn a_peer_that_stalls_holds_up_nobody(transport: Transport) {
    let io = start();
    let mut echo = Echo::new(&io, transport);
    let (link, peer) = stalled(&io, transport, recorder().0);
    let sender = link.clone();
    let waiting = thread::spawn(move || sender.send(&[0; 996]));
    until("a send waits for it", || {
        link.statistics().sending.waits == 1
    });
    for _ in 0..100 {
        echo.answers();
    }
    drop(peer);
    waiting.join().unwrap().unwrap_err();
    echo.answers();
}

fn a_peer_that_vanishes_is_noticed_and_harms_nobody(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    let raw = std::mem::replace(&mut scene.raw, scene.polite.try_clone());
    raw.vanish();
    let closed = scene.inbox.expect_end();
    match transport {
        Transport::Tcp => assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}"),
        // A Unix socket that is closed with nothing unread just ends.
        _ => assert!(matches!(closed.reason, Reason::PeerEnded), "{closed:?}"),
    }
    scene.link.send(b"hello?").unwrap_err();
    scene.nobody_else_notices();
}

fn a_peer_that_resets_with_data_unread_is_noticed(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    for message in numbered(10, 1000) {
        scene.link.send(&message).unwrap();
    }
    scene.link.flush(WATCHDOG).unwrap();
    // Dropped with ten messages unread: the kernel answers with a reset.
    scene.raw = scene.polite.try_clone();
    let closed = scene.inbox.expect_end();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
    let sending = scene.link.statistics().sending;
    assert_eq!(sending.written.messages, 10, "the kernel had them");
    scene.nobody_else_notices();
}

fn a_peer_that_connects_and_says_nothing_costs_nothing(transport: Transport) {
    let mut scene = Scene::new(transport, framed(transport));
    scene.nobody_else_notices();
    assert!(scene.link.is_open() && scene.inbox.so_far().is_empty());
    let statistics = scene.link.statistics();
    assert_eq!(statistics.receiving.read_calls, 0);
    assert_eq!(statistics.receiving.last_receive_age, None);
    assert_eq!(statistics.sending.write_calls, 0);
    let_turn(&scene.io);
}

fn a_peer_that_connects_and_goes_at_once_is_over(transport: Transport) {
    let io = start();
    let (inboxes, options) = (
        (0..50).map(|_| recorder()).collect::<Vec<_>>(),
        ServerOptions {
            link: framed(transport),
            ..ServerOptions::default()
        },
    );
    let (handlers, inboxes): (Vec<_>, Vec<_>) = inboxes.into_iter().unzip();
    let served = Served::listen(&io, transport, options, handlers);
    for index in 0..50 {
        let raw = RawStream::connect(&served.server.local_address());
        if index % 2 == 0 {
            raw.vanish();
        }
    }
    for inbox in inboxes {
        // All of them came to life, for however short a time.
        inbox.expect_opened();
        inbox.expect_end();
    }
    served.expect_connected(0);
    assert_eq!(served.server.statistics().accepted, 50);
}

/// A handler that has its peer write as much as it was given, so that there is always more to read;
/// and that has another link's peer send a ping whenever the last one has come.
struct Flood {
    ends: mpsc::Receiver<[RawStream; 2]>,
    peers: Option<[RawStream; 2]>,
    /// Messages since the ping was sent; none before the first.
    since_ping: Arc<AtomicU64>,
}

impl Handler for Flood {
    fn message(&mut self, _: &Link, message: &[u8], _: Received) {
        let ends = &self.ends;
        let [own, others] = self
            .peers
            .get_or_insert_with(|| ends.recv_timeout(WATCHDOG).unwrap());
        own.write_all(message).unwrap();
        if self.since_ping.fetch_add(1, Ordering::SeqCst) == 0 {
            others.write_all(b"ping").unwrap();
        }
    }
}

/// All of it happens on one thread, so that shares can be counted. A turn gives a link so many reads
/// when the kernel tells of it, and as many when the turn before left work; and a ping comes at
/// worst in the turn after the one in which it was sent. It was once so that such a link had one
/// more share with every turn.
fn a_peer_that_never_stops_talking_leaves_the_others_their_turn(transport: Transport) {
    let io = IoThread::start(IoOptions {
        read_buffer_bytes: 4096,
        ..IoOptions::default()
    })
    .unwrap();
    let listener = RawListener::bind(transport);
    let since_ping = Arc::new(AtomicU64::new(0));
    let (give, ends) = mpsc::channel();
    let mut flood = Flood {
        ends,
        peers: None,
        since_ping: Arc::clone(&since_ping),
    };
    let (_flooded, mut flooding) = connect_with(
        &io,
        &listener,
        move |link: &Link, message: &[u8], received: Received| {
            flood.message(link, message, received);
        },
    );
    let (tell, shares) = mpsc::channel();
    let (_pinged, pinging) =
        connect_with(&io, &listener, move |_: &Link, _: &[u8], _: Received| {
            // The test may be over.
            let _ = tell.send(since_ping.swap(0, Ordering::SeqCst));
        });
    give.send([flooding.try_clone(), pinging]).unwrap();
    // More than a read takes: a short one would say that this was all.
    flooding.write_all(&[0; 4 * 4096]).unwrap();
    let most = (0..1000)
        .map(|_| shares.recv_timeout(WATCHDOG).unwrap())
        .max();
    assert!(
        most <= Some(4 * 16),
        "{most:?} reads while another link waited"
    );
}

fn connect_with(
    io: &IoThread,
    listener: &RawListener,
    handler: impl FnMut(&Link, &[u8], Received) + Send + 'static,
) -> (Link, RawStream) {
    let link = io
        .connect(&listener.address(), LinkOptions::default(), handler)
        .unwrap();
    let peer = listener.accept();
    link.wait_open(WATCHDOG).unwrap();
    (link, peer)
}

/// It shuts its reading side, so that our writes fail, and goes on writing: what came is read to the
/// end, but there is none.
fn a_peer_that_hears_nothing_and_never_stops_talking_is_cut_off(transport: Transport) {
    let io = start();
    let mut echo = Echo::new(&io, transport);
    let (handler, inbox) = recorder();
    let listener = RawListener::bind(transport);
    let (link, mut peer) = client_of_raw(&io, &listener, LinkOptions::default(), handler);
    let RawStream::Uds(stream) = &peer else {
        panic!("only a Unix socket's peer notices");
    };
    stream.shutdown(std::net::Shutdown::Read).unwrap();
    let talking = thread::spawn(move || while peer.write_all(&[0; 65_536]).is_ok() {});
    until("a send finds out", || link.send(b"quiet!").is_err());
    let closed = inbox.skip_to_closed();
    assert!(matches!(closed.reason, Reason::Lost(_)), "{closed:?}");
    echo.answers();
    talking.join().unwrap();
}

fn noise_is_never_more_than_a_fault(transport: Transport) {
    let io = start();
    let mut random = Random::new(0x5eed);
    for _ in 0..100 {
        let options = ServerOptions {
            link: LinkOptions {
                framing: some_framing(&mut random),
                frame_limit_bytes: 200,
                ..LinkOptions::default()
            },
            ..ServerOptions::default()
        };
        let (handler, inbox) = recorder();
        let (served, mut raw) = server_of_raw(&io, transport, options, handler);
        let noise: Vec<u8> = (0..random.below(3000))
            .map(|_| random.next() as u8)
            .collect();
        // It may be cut off before the end.
        for piece in noise.chunks(1 + random.below(700) as usize) {
            let _ = raw.write_all(piece);
        }
        let _ = raw.try_end();
        let told = inbox.all_to_the_end();
        assert!(matches!(told.last(), Some(Told::Ended(_))));
        let faults = served.server.statistics().peers.receiving.faults;
        assert!(faults <= 1, "{faults}");
    }
}

fn some_framing(random: &mut Random) -> Framing {
    let widths = [PrefixWidth::One, PrefixWidth::Two, PrefixWidth::Four];
    let orders = [ByteOrder::Big, ByteOrder::Little];
    match random.below(4) {
        0 => Framing::Raw,
        width => Framing::LengthPrefix {
            width: widths[width as usize - 1],
            order: orders[random.below(2) as usize],
        },
    }
}
