//! Promises 4 and 6: with `max_queue_delay` nothing leaves that has waited longer, and what was given
//! up for it is counted.

use std::time::{Duration, Instant};

use tautline::{Address, DirectLink, LinkOptions, Pressure, ServerOptions, Strategy, Tally};

use crate::common::*;

over! {
    what_waited_too_long_is_given_up_and_counted: tcp tls uds udp serial;
    what_is_young_enough_is_sent_whatever_its_elders_came_to: tcp tls uds udp serial;
    where_there_is_no_room_the_old_make_it: tcp tls uds udp serial;
    while_the_kernel_takes_nothing_the_clock_gives_up: tcp tls uds serial;
    a_send_that_waits_is_served_by_what_the_clock_gives_up: tcp tls uds serial;
    it_leaves_little_in_the_kernel: tcp tls;
    the_peers_of_a_server_lose_what_is_too_old: tcp tls uds udp;
    a_direct_link_judges_what_waits_when_it_writes_again: tcp uds;
}

/// Long enough that a test is not overtaken by it between two lines, and short enough to wait for.
const LIMIT: Duration = Duration::from_millis(200);

fn fresh_options(transport: Transport) -> LinkOptions {
    LinkOptions {
        strategy: Strategy::BestEffort,
        max_queue_delay: Some(LIMIT),
        ..framed(transport)
    }
}

fn pass(time: Duration) {
    let begun = Instant::now();
    until("time has passed", || begun.elapsed() > time);
}

fn what_waited_too_long_is_given_up_and_counted(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, fresh_options(transport), recorder().0);
    let sender = link.clone();
    let (gate, ()) = Gate::after(&io, move || {
        for message in numbered(3, 100) {
            sender.try_send(&message).unwrap();
        }
    });
    pass(LIMIT);
    drop(gate);
    link.flush(WATCHDOG).unwrap();
    link.send(b"fresh").unwrap();
    assert_eq!(peer.read_message(), b"fresh");
    let sending = link.statistics().sending;
    let bytes = 3 * transport.encoded(100) as u64;
    assert_eq!(sending.discarded.too_old, Tally { messages: 3, bytes });
    assert_eq!(sending.discarded.total(), sending.discarded.too_old);
    assert!(sending.closes());
}

fn what_is_young_enough_is_sent_whatever_its_elders_came_to(transport: Transport) {
    let io = start();
    let (link, mut peer) = reach(&io, transport, fresh_options(transport), recorder().0);
    let sender = link.clone();
    let (gate, ()) = Gate::after(&io, move || sender.try_send(b"old").unwrap());
    pass(LIMIT);
    // It goes into the same block.
    let sender = link.clone();
    link.try_send(b"young").unwrap();
    drop(gate);
    assert_eq!(peer.read_message(), b"young");
    assert_eq!(sender.statistics().sending.discarded.too_old.messages, 1);
}

fn where_there_is_no_room_the_old_make_it(transport: Transport) {
    for strategy in [Strategy::BestEffort, Strategy::KeepLatest] {
        let io = start();
        let options = LinkOptions {
            strategy,
            queue_limit_messages: 2,
            ..fresh_options(transport)
        };
        let (link, mut peer) = reach(&io, transport, options, recorder().0);
        let sender = link.clone();
        let (gate, ()) = Gate::after(&io, move || {
            sender.try_send(b"one").unwrap();
            sender.try_send(b"two").unwrap();
        });
        pass(LIMIT);
        link.try_send(b"three").unwrap();
        let discarded = link.statistics().sending.discarded;
        assert_eq!(discarded.too_old.messages, 2);
        assert_eq!(discarded.evicted.messages, 0);
        drop(gate);
        assert_eq!(peer.read_message(), b"three");
    }
}

/// A link whose peer does not read, with little room in the kernel.
fn stalling(
    io: &tautline::IoThread,
    transport: Transport,
    queue_limit_messages: usize,
    handler: Recorder,
) -> (tautline::Link, RawStream) {
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_messages,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..fresh_options(transport)
    };
    client_of_raw(io, &listener, options, handler)
}

fn while_the_kernel_takes_nothing_the_clock_gives_up(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, mut peer) = stalling(&io, transport, 100, handler);
    inbox.expect_opened();
    let sender = link.clone();
    inside_callback(&io, move || while sender.try_send(&[7; 996]).is_ok() {});
    let pressure = |inbox: &Inbox| {
        inbox.skip_to(|told| match told {
            Told::Pressure(pressure) => Some(pressure),
            _ => None,
        })
    };
    assert_eq!(pressure(&inbox), Pressure::On);
    // Nobody sends, and nobody reads: it is the clock that makes room.
    assert_eq!(pressure(&inbox), Pressure::Off);
    until("all are given up but one that is partly written", || {
        link.statistics().sending.waiting.messages <= 1
    });
    let sending = link.statistics().sending;
    assert!(sending.discarded.too_old.messages >= 40, "{sending:?}");
    assert!(sending.closes());
    // What did leave is whole.
    for _ in 0..sending.written.messages + sending.waiting.messages {
        assert_eq!(peer.read_frame(), [7; 996]);
    }
    link.send(b"fresh").unwrap();
    assert_eq!(peer.read_frame(), b"fresh");
}

fn a_send_that_waits_is_served_by_what_the_clock_gives_up(transport: Transport) {
    let io = start();
    let (link, _peer) = stalling(&io, transport, 20, recorder().0);
    until("the queue is full and the kernel takes no more", || {
        while link.try_send(&[7; 996]).is_ok() {}
        let_turn(&io);
        let sending = link.statistics().sending;
        sending.waiting.messages == 20 || sending.discarded.too_old.messages > 0
    });
    // Nobody reads: what the kernel does not take after all, only the clock makes room for.
    until("the clock has made room", || {
        assert_eq!(link.send_timeout(&[7; 996], WATCHDOG), Ok(()));
        link.statistics().sending.discarded.too_old.messages > 0
    });
}

/// As under keeplatest: what the kernel holds can be given up no more.
fn it_leaves_little_in_the_kernel(transport: Transport) {
    let io = start();
    let taken = |max_queue_delay| {
        let listener = RawListener::bind(transport).with_receive_buffer(4096);
        let options = LinkOptions {
            max_queue_delay,
            ..fresh_options(transport)
        };
        let (link, _peer) = client_of_raw(&io, &listener, options, recorder().0);
        for message in numbered(50_000, 200) {
            let _ = link.try_send(&message);
        }
        let_turn(&io);
        link.statistics().sending.written.bytes
    };
    let fresh = taken(Some(Duration::from_secs(3600)));
    assert!(fresh < 300_000, "{fresh} bytes");
    assert!(taken(None) > 2 * fresh, "or this shows nothing");
}

fn the_peers_of_a_server_lose_what_is_too_old(transport: Transport) {
    let pair = Pair::open(transport, &fresh_options(transport));
    let peer = pair.peer.clone();
    let (gate, ()) = Gate::after(&pair.server_io, move || {
        peer.try_send(b"old").unwrap();
        peer.try_send(b"older by nothing").unwrap();
    });
    pass(LIMIT);
    drop(gate);
    until("they are given up", || {
        pair.peer.statistics().sending.waiting.messages == 0
    });
    pair.peer.send(b"fresh").unwrap();
    assert_eq!(pair.client_inbox.expect_message(), b"fresh");
    let of_peer = pair.peer.statistics().sending;
    let of_server = pair
        .served
        .as_ref()
        .unwrap()
        .server
        .statistics()
        .peers
        .sending;
    assert_eq!(of_peer.discarded.too_old.messages, 2);
    assert_eq!(of_server.discarded.too_old, of_peer.discarded.too_old);
    assert!(of_peer.closes() && of_server.closes());
}

fn a_direct_link_judges_what_waits_when_it_writes_again(transport: Transport) {
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..fresh_options(transport)
    };
    let mut link = DirectLink::connect(&listener.address(), options).unwrap();
    let mut peer = listener.accept();
    while link.try_send(&[7; 996]).is_ok() {}
    let waiting = link.statistics().sending.waiting;
    assert_eq!(waiting.messages, 1);
    pass(LIMIT);
    let untouched = waiting.bytes == 1000;
    let said = link.try_send(b"fresh");
    let sending = link.statistics().sending;
    if untouched {
        assert_eq!(sending.discarded.too_old.messages, 1);
        assert_eq!(said, Ok(()));
    } else {
        // What is partly written stays, and there is room for one alone.
        assert_eq!(sending.discarded.too_old.messages, 0);
        assert_eq!(said, Err(tautline::SendError::Full));
    }
    for _ in 0..sending.written.messages {
        assert_eq!(peer.read_frame(), [7; 996]);
    }
    assert!(sending.closes());
}

#[test]
fn it_is_refused_by_name_where_it_makes_no_sense() {
    let io = start();
    let cases = [
        (
            tcp(),
            LinkOptions {
                strategy: Strategy::Reliable,
                ..fresh_options(tcp())
            },
        ),
        (
            udp(),
            LinkOptions {
                strategy: Strategy::Reliable,
                ..fresh_options(udp())
            },
        ),
        (
            uds(),
            LinkOptions {
                framing: tautline::Framing::Raw,
                ..fresh_options(uds())
            },
        ),
        (
            udp(),
            LinkOptions {
                max_queue_delay: Some(Duration::ZERO),
                ..fresh_options(udp())
            },
        ),
    ];
    for (transport, link) in cases {
        let address: Address = fresh(transport).address.clone();
        let connecting = io
            .connect(&address, link.clone(), recorder().0)
            .unwrap_err();
        assert!(
            connecting.to_string().starts_with("max_queue_delay: "),
            "{connecting}"
        );
        let options = ServerOptions {
            link,
            ..ServerOptions::default()
        };
        let listening = io.listen(&address, options, |_: &tautline::Link| Ok(recorder().0));
        assert!(
            listening
                .unwrap_err()
                .to_string()
                .starts_with("max_queue_delay: ")
        );
    }
}
