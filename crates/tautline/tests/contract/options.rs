//! Promise 2: what makes no sense is refused by its name before anything starts.

use std::time::Duration;

use tautline::{
    ByteOrder, ErrorKind, Framing, IoOptions, IoThread, Keepalive, Link, LinkOptions, PrefixWidth,
    ServerOptions, Strategy,
};

use crate::common::*;

over! {
    the_defaults_are_those_promised: tcp tls;
    an_invalid_link_option_is_refused_by_name: tcp uds udp serial;
    an_invalid_server_option_is_refused_by_name: tcp uds udp;
    an_invalid_thread_option_is_refused_by_name: tcp tls;
    what_the_other_transports_have_is_refused_where_it_means_nothing: tcp uds udp serial;
    every_framing_carries_every_length_it_can: tcp tls uds serial;
    every_strategy_and_buffer_size_works: tcp tls uds udp;
    an_address_that_is_not_ours_is_refused_at_once: tcp tls udp;
}

fn the_defaults_are_those_promised(_: Transport) {
    let link = LinkOptions::default();
    assert_eq!(link.strategy, Strategy::Reliable);
    assert_eq!(link.framing, Framing::Raw);
    assert_eq!(link.frame_limit_bytes, 1_048_576);
    assert_eq!(link.queue_limit_bytes, 1_048_576);
    assert_eq!(link.queue_limit_messages, 65_536);
    assert!(link.tcp_nodelay && !link.half_open);
    let server = ServerOptions::default();
    assert_eq!(server.connection_limit, 1024);
    assert_eq!(server.total_queue_limit_bytes, 268_435_456);
    let four_big = Framing::LengthPrefix {
        width: PrefixWidth::Four,
        order: ByteOrder::Big,
    };
    assert_eq!(Framing::length_prefix(), four_big);
}

/// Refused where links are made and where they are accepted, in words that begin with the name.
fn refused_link(transport: Transport, name: &str, options: &LinkOptions) {
    let io = start();
    let place = fresh(transport);
    let server = ServerOptions {
        link: options.clone(),
        ..ServerOptions::default()
    };
    if transport != Transport::Serial {
        refused_server(transport, name, server);
    }
    let error = io
        .connect(&place.address, options.clone(), recorder().0)
        .unwrap_err();
    expect_named(&error, name);
}

fn refused_server(transport: Transport, name: &str, options: ServerOptions) {
    let io = start();
    let place = fresh(transport);
    let accept = |_: &Link| Ok(recorder().0);
    let error = io.listen(&place.address, options, accept).unwrap_err();
    expect_named(&error, name);
    // Nothing was started: no file, and nobody in the way.
    io.listen(&place.address, ServerOptions::default(), accept)
        .unwrap();
}

fn expect_named(error: &tautline::Error, name: &str) {
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    assert!(
        error.to_string().starts_with(&format!("{name}: ")),
        "{error}"
    );
}

fn an_invalid_link_option_is_refused_by_name(transport: Transport) {
    let valid = || framed(transport);
    let cases = [
        (
            "queue_limit_bytes",
            LinkOptions {
                queue_limit_bytes: 0,
                ..valid()
            },
        ),
        (
            "queue_limit_messages",
            LinkOptions {
                queue_limit_messages: 0,
                ..valid()
            },
        ),
        (
            "frame_limit_bytes",
            LinkOptions {
                frame_limit_bytes: 0,
                ..valid()
            },
        ),
        (
            "connect_timeout",
            LinkOptions {
                connect_timeout: Duration::ZERO,
                ..valid()
            },
        ),
        (
            "send_buffer_bytes",
            LinkOptions {
                send_buffer_bytes: Some(0),
                ..valid()
            },
        ),
        (
            "receive_buffer_bytes",
            LinkOptions {
                receive_buffer_bytes: Some(0),
                ..valid()
            },
        ),
        (
            "send_buffer_bytes",
            LinkOptions {
                send_buffer_bytes: Some(usize::MAX),
                ..valid()
            },
        ),
    ];
    let io = start();
    let place = fresh(transport);
    for (name, options) in cases {
        let error = io
            .connect(&place.address, options, recorder().0)
            .unwrap_err();
        expect_named(&error, name);
    }
    refused_link(
        transport,
        "queue_limit_bytes",
        &LinkOptions {
            queue_limit_bytes: 0,
            ..valid()
        },
    );
}

fn an_invalid_server_option_is_refused_by_name(transport: Transport) {
    let cases = [
        (
            "connection_limit",
            ServerOptions {
                connection_limit: 0,
                ..ServerOptions::default()
            },
        ),
        (
            "total_queue_limit_bytes",
            ServerOptions {
                total_queue_limit_bytes: 0,
                ..ServerOptions::default()
            },
        ),
        (
            "peer_expiry",
            ServerOptions {
                peer_expiry: Duration::ZERO,
                ..ServerOptions::default()
            },
        ),
        (
            "uds_mode",
            ServerOptions {
                uds_mode: Some(0o1777),
                ..ServerOptions::default()
            },
        ),
    ];
    for (name, options) in cases {
        refused_server(transport, name, options);
    }
}

fn an_invalid_thread_option_is_refused_by_name(_: Transport) {
    let cases = [
        (
            "name",
            IoOptions {
                name: String::new(),
                ..IoOptions::default()
            },
        ),
        (
            "name",
            IoOptions {
                name: "sixteen-bytes-it".to_owned(),
                ..IoOptions::default()
            },
        ),
        (
            "name",
            IoOptions {
                name: "a\0b".to_owned(),
                ..IoOptions::default()
            },
        ),
        (
            "read_buffer_bytes",
            IoOptions {
                read_buffer_bytes: 0,
                ..IoOptions::default()
            },
        ),
    ];
    for (name, options) in cases {
        expect_named(&IoThread::start(options).unwrap_err(), name);
    }
}

fn what_the_other_transports_have_is_refused_where_it_means_nothing(transport: Transport) {
    let raw_keeplatest = LinkOptions {
        strategy: Strategy::KeepLatest,
        ..LinkOptions::default()
    };
    let with_mode = ServerOptions {
        uds_mode: Some(0o600),
        ..ServerOptions::default()
    };
    match transport {
        Transport::Udp => {
            let framed = LinkOptions {
                framing: Framing::length_prefix(),
                ..LinkOptions::default()
            };
            refused_link(transport, "framing", &framed);
            let half_open = LinkOptions {
                half_open: true,
                ..LinkOptions::default()
            };
            refused_link(transport, "half_open", &half_open);
            refused_server(transport, "uds_mode", with_mode);
        }
        Transport::Tcp | Transport::Tls => {
            refused_link(transport, "strategy", &raw_keeplatest);
            refused_server(transport, "uds_mode", with_mode);
        }
        Transport::Uds => refused_link(transport, "strategy", &raw_keeplatest),
        Transport::Serial => {
            refused_link(transport, "strategy", &raw_keeplatest);
            for (name, options) in what_only_sockets_have() {
                refused_link(transport, name, &options);
            }
        }
    }
}

/// Each with the option that names it.
fn what_only_sockets_have() -> [(&'static str, LinkOptions); 5] {
    let default = LinkOptions::default;
    let keepalive = Keepalive {
        idle: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        count: 1,
    };
    [
        (
            "half_open",
            LinkOptions {
                half_open: true,
                ..default()
            },
        ),
        (
            "send_buffer_bytes",
            LinkOptions {
                send_buffer_bytes: Some(4096),
                ..default()
            },
        ),
        (
            "receive_buffer_bytes",
            LinkOptions {
                receive_buffer_bytes: Some(4096),
                ..default()
            },
        ),
        (
            "keepalive",
            LinkOptions {
                keepalive: Some(keepalive),
                ..default()
            },
        ),
        (
            "tcp_user_timeout",
            LinkOptions {
                tcp_user_timeout: Some(WATCHDOG),
                ..default()
            },
        ),
    ]
}

fn every_framing_carries_every_length_it_can(transport: Transport) {
    let widths = [
        (PrefixWidth::One, 255),
        (PrefixWidth::Two, 65_535),
        (PrefixWidth::Four, 1_000_000),
    ];
    for (width, most) in widths {
        for order in [ByteOrder::Big, ByteOrder::Little] {
            let options = LinkOptions {
                framing: Framing::LengthPrefix { width, order },
                frame_limit_bytes: most,
                queue_limit_bytes: 2_000_000,
                ..LinkOptions::default()
            };
            let pair = Pair::open(transport, &options);
            for length in [0, 1, most / 2, most - 1, most] {
                pair.client.send(&vec![7; length]).unwrap();
                assert_eq!(pair.peer_inbox.skip_to_message(), vec![7; length]);
            }
        }
    }
}

fn every_strategy_and_buffer_size_works(transport: Transport) {
    for strategy in Strategy::ALL {
        for buffer in [None, Some(8 * 1024), Some(100_000)] {
            let options = LinkOptions {
                strategy,
                send_buffer_bytes: buffer,
                receive_buffer_bytes: buffer,
                tcp_nodelay: buffer.is_none(),
                ..framed(transport)
            };
            let pair = Pair::open(transport, &options);
            for message in numbered(3, 3000) {
                pair.client.send(&message).unwrap();
                assert_eq!(pair.peer_inbox.expect_message(), message);
                pair.peer.send(&message).unwrap();
                assert_eq!(pair.client_inbox.expect_message(), message);
            }
        }
    }
}

fn an_address_that_is_not_ours_is_refused_at_once(transport: Transport) {
    let io = start();
    // Set aside for documentation: nobody has it.
    let address = match transport {
        Transport::Udp => "udp://192.0.2.1:0",
        _ => "tcp://192.0.2.1:0",
    };
    let accept = |_: &Link| Ok(recorder().0);
    let error = io
        .listen(&address.parse().unwrap(), ServerOptions::default(), accept)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bind);
    assert_eq!(
        error.to_string(),
        format!(
            "listen on {address}: bind: address not available: no interface of this machine has it"
        )
    );
}
