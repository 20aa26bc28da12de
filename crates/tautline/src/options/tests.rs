//! Each rule, by the name of its option.

use tautline_session::{
    ByteOrder, FirstAttempt, Lines, OnBadFrame, OnLoss, PrefixWidth, Reconnect, Strategy,
};

use super::*;
use crate::error::ErrorKind;

const TCP: &str = "tcp://127.0.0.1:1";
const UDP: &str = "udp://127.0.0.1:1";
const UDS: &str = "uds:///run/x";
const ABSTRACT: &str = "uds://@x";

fn prefix(width: PrefixWidth) -> Framing {
    let order = ByteOrder::Big;
    Framing::LengthPrefix { width, order }
}

fn link(change: impl FnOnce(&mut LinkOptions)) -> LinkOptions {
    let mut options = LinkOptions::default();
    change(&mut options);
    options
}

fn server(change: impl FnOnce(&mut ServerOptions)) -> ServerOptions {
    let mut options = ServerOptions::default();
    change(&mut options);
    options
}

fn io(change: impl FnOnce(&mut IoOptions)) -> IoOptions {
    let mut options = IoOptions::default();
    change(&mut options);
    options
}

fn refused(result: Result<(), Error>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    error.to_string()
}

#[test]
fn the_defaults_are_the_documented_ones_and_valid_everywhere() {
    let options = LinkOptions::default();
    assert_eq!(options.framing, Framing::Raw);
    assert_eq!(options.strategy, Strategy::Reliable);
    assert_eq!(options.queue_limit_bytes, 1_048_576);
    assert_eq!(options.queue_limit_messages, 65_536);
    assert_eq!(options.frame_limit_bytes, 1_048_576);
    assert_eq!(options.connect_timeout, Duration::from_secs(5));
    assert_eq!(options.spin, Duration::ZERO);
    assert_eq!(options.reconnect, None);
    assert_eq!(options.on_loss, OnLoss::Discard);
    assert!(options.tcp_nodelay && !options.half_open);
    assert_eq!(options.send_buffer_bytes, None);
    assert_eq!(options.receive_buffer_bytes, None);
    let server = ServerOptions::default();
    assert_eq!(server.connection_limit, 1024);
    assert_eq!(server.total_queue_limit_bytes, 268_435_456);
    assert_eq!(server.peer_expiry, Duration::from_secs(60));
    assert_eq!(server.uds_mode, None);
    for address in [TCP, UDP, UDS, ABSTRACT] {
        options.validate(&address.parse().unwrap()).unwrap();
        server.validate(&address.parse().unwrap()).unwrap();
    }
    IoOptions::default().validate().unwrap();
}

#[test]
fn a_link_option_that_makes_no_sense_is_refused_by_name() {
    let table = [
        (
            link(|o| o.queue_limit_bytes = 0),
            "queue_limit_bytes: 0 would never accept a message",
        ),
        (
            link(|o| {
                o.framing = Framing::length_prefix();
                o.queue_limit_bytes = 4;
            }),
            "queue_limit_bytes: 4 is less than the shortest message: 5 bytes with its framing",
        ),
        (
            link(|o| o.queue_limit_messages = 0),
            "queue_limit_messages: 0 would never accept a message",
        ),
        (
            link(|o| o.frame_limit_bytes = 0),
            "frame_limit_bytes: 0 would never accept a message",
        ),
        (
            link(|o| o.framing = prefix(PrefixWidth::One)),
            "frame_limit_bytes: 1048576 is more than the framing can say: 255",
        ),
        (
            link(|o| {
                o.framing = prefix(PrefixWidth::Two);
                o.frame_limit_bytes = 65_536;
            }),
            "frame_limit_bytes: 65536 is more than the framing can say: 65535",
        ),
        (
            link(|o| o.strategy = Strategy::KeepLatest),
            "strategy: keeplatest on a byte stream needs a framing other than raw, \
             or evicting would cut a message in two",
        ),
        (
            link(|o| {
                o.framing = Framing::Lines(Lines {
                    delimiter: Vec::new(),
                    strip_cr: false,
                });
            }),
            "framing: the delimiter of lines is empty: nothing would mark a frame",
        ),
        (
            link(|o| o.framing = Framing::pattern("<", [b'>'; 17])),
            "framing: the end pattern has 17 bytes, 16 is the most",
        ),
        (
            link(|o| o.on_bad_frame = Some(OnBadFrame::Close)),
            "on_bad_frame: raw has no frames that could be bad; leave it out",
        ),
        (
            link(|o| {
                o.framing = Framing::length_prefix();
                o.on_bad_frame = Some(OnBadFrame::Resynchronise);
            }),
            "on_bad_frame: a length prefix marks no beginning to look for; \
             skip passes over what was announced",
        ),
        (
            link(|o| {
                o.framing = Framing::cobs();
                o.queue_limit_bytes = 6;
            }),
            "queue_limit_bytes: 6 is less than the shortest message: 7 bytes with its framing",
        ),
        (
            link(|o| o.connect_timeout = Duration::ZERO),
            "connect_timeout: 0 would never reach anybody",
        ),
        (
            link(|o| o.send_buffer_bytes = Some(0)),
            "send_buffer_bytes: 0 leaves no buffer",
        ),
        (
            link(|o| o.receive_buffer_bytes = Some(usize::MAX)),
            "receive_buffer_bytes: 18446744073709551615 is more than the system can say: 1073741823",
        ),
    ];
    for address in [TCP, UDS] {
        for (options, expected) in &table {
            let result = options.validate(&address.parse().unwrap());
            assert_eq!(refused(result), *expected);
        }
    }
}

#[test]
fn limits_at_their_least_and_most_are_accepted() {
    let address = TCP.parse().unwrap();
    for options in [
        link(|o| o.queue_limit_bytes = 1),
        link(|o| {
            o.framing = Framing::cobs();
            o.queue_limit_bytes = 7;
            o.strategy = Strategy::KeepLatest;
            o.on_bad_frame = Some(OnBadFrame::Close);
        }),
        link(|o| {
            o.framing = Framing::length_prefix();
            o.on_bad_frame = Some(OnBadFrame::Skip);
        }),
        link(|o| {
            o.framing = Framing::pattern([b'<'; 16], [b'>'; 16]);
            o.on_bad_frame = Some(OnBadFrame::Skip);
        }),
        link(|o| {
            o.framing = Framing::length_prefix();
            o.queue_limit_bytes = 5;
        }),
        link(|o| {
            o.framing = prefix(PrefixWidth::One);
            o.frame_limit_bytes = 255;
        }),
        link(|o| {
            o.framing = prefix(PrefixWidth::Two);
            o.frame_limit_bytes = 65_535;
        }),
        link(|o| {
            o.framing = prefix(PrefixWidth::Two);
            o.frame_limit_bytes = 1;
            o.strategy = Strategy::KeepLatest;
            o.queue_limit_messages = 1;
        }),
    ] {
        options.validate(&address).unwrap();
    }
}

#[test]
fn udp_keeps_borders_itself_and_has_no_end() {
    let udp = UDP.parse().unwrap();
    assert_eq!(
        refused(link(|o| o.framing = Framing::length_prefix()).validate(&udp)),
        "framing: udp keeps the borders of messages by itself and takes only raw"
    );
    assert_eq!(
        refused(link(|o| o.half_open = true).validate(&udp)),
        "half_open: udp has no end of stream; leave it false"
    );
    // Every message stands by itself: evicting one harms no other.
    link(|o| o.strategy = Strategy::KeepLatest)
        .validate(&udp)
        .unwrap();
}

#[test]
fn a_server_option_that_makes_no_sense_is_refused_by_name() {
    let table = [
        (
            server(|o| o.connection_limit = 0),
            TCP,
            "connection_limit: 0 would turn every peer away",
        ),
        (
            server(|o| o.total_queue_limit_bytes = 0),
            TCP,
            "total_queue_limit_bytes: 0 would never accept a message",
        ),
        (
            server(|o| o.peer_expiry = Duration::ZERO),
            UDP,
            "peer_expiry: 0 would forget every peer at once",
        ),
        (
            server(|o| o.link.queue_limit_bytes = 0),
            TCP,
            "queue_limit_bytes: 0 would never accept a message",
        ),
        (
            server(|o| o.uds_mode = Some(0o1777)),
            UDS,
            "uds_mode: 0o1777 has more than permission bits, the most is 0o777",
        ),
        (
            server(|o| o.uds_mode = Some(0o600)),
            ABSTRACT,
            "uds_mode: an abstract name has no file that could have a mode",
        ),
        (
            server(|o| o.uds_mode = Some(0o600)),
            TCP,
            "uds_mode: tcp has no file that could have a mode",
        ),
    ];
    for (options, address, expected) in table {
        assert_eq!(
            refused(options.validate(&address.parse().unwrap())),
            expected
        );
    }
    server(|o| o.uds_mode = Some(0o777))
        .validate(&UDS.parse().unwrap())
        .unwrap();
}

#[test]
fn a_thread_option_that_makes_no_sense_is_refused_by_name() {
    let table = [
        (
            io(|o| o.name = String::new()),
            "name: \"\" has 0 bytes, and a thread's name has 1 to 15",
        ),
        (
            io(|o| o.name = "sixteen-bytes-xx".to_owned()),
            "name: \"sixteen-bytes-xx\" has 16 bytes, and a thread's name has 1 to 15",
        ),
        (
            io(|o| o.name = "a\0b".to_owned()),
            "name: a thread's name has no NUL",
        ),
        (
            io(|o| o.read_buffer_bytes = 0),
            "read_buffer_bytes: 0 could never read anything",
        ),
        (
            io(|o| o.read_buffer_bytes = usize::MAX),
            "read_buffer_bytes: at most 67108864: a read takes what is there",
        ),
    ];
    for (options, expected) in table {
        assert_eq!(refused(options.validate()), expected);
    }
    io(|o| o.name = "fifteen-bytes-x".to_owned())
        .validate()
        .unwrap();
}

#[test]
fn a_real_time_thread_may_spin_long_only_where_it_is_alone() {
    for policy in [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE] {
        assert!(spin_starves_others(policy, 2));
        assert!(!spin_starves_others(policy, 1));
    }
    for policy in [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE] {
        assert!(!spin_starves_others(policy, 64));
    }
}

#[test]
fn an_ordinary_thread_may_spin_as_long_as_it_likes() {
    let spin = Duration::from_secs(3600);
    link(|o| o.spin = spin)
        .validate(&TCP.parse().unwrap())
        .unwrap();
    io(|o| o.spin = spin).validate().unwrap();
}

#[test]
fn a_real_time_thread_is_refused_a_long_spin_and_granted_a_short_one() {
    // On a thread of its own, which takes the policy with it. Without the right to it, or with one
    // CPU in all, there is nothing to see.
    std::thread::spawn(|| {
        let one_cpu = sys::sched::sched_getaffinity(0).unwrap().len() == 1;
        if one_cpu || sys::sched::set_fifo_for_test().is_err() {
            return;
        }
        let granted = link(|o| o.spin = Duration::from_micros(50));
        granted.validate(&TCP.parse().unwrap()).unwrap();
        let long = Duration::from_micros(51);
        let refused_link = refused(link(|o| o.spin = long).validate(&TCP.parse().unwrap()));
        assert_eq!(
            refused_link,
            "spin: 51µs under a real-time policy would starve others: 50µs at most, \
             or give the thread one CPU of its own"
        );
        assert_eq!(refused(io(|o| o.spin = long).validate()), refused_link);
    })
    .join()
    .unwrap();
}

#[test]
fn the_defaults_of_coming_back_are_the_documented_ones() {
    let rules = Reconnect::default();
    assert_eq!(rules.base, Duration::from_millis(100));
    assert_eq!(rules.cap, Duration::from_secs(30));
    assert_eq!(rules.first_attempt, FirstAttempt::Retry);
    assert_eq!(rules.attempts_limit, None);
    assert_eq!(rules.give_up_after, None);
    assert_eq!(rules.steady_after, Duration::from_secs(5));
    for address in [TCP, UDP, UDS] {
        let options = link(|options| options.reconnect = Some(rules));
        options.validate(&address.parse().unwrap()).unwrap();
    }
}

#[test]
fn rules_of_coming_back_that_make_no_sense_are_refused_by_name() {
    let cases: [(&str, fn(&mut Reconnect)); 8] = [
        ("base", |rules| rules.base = Duration::ZERO),
        ("base", |rules| rules.base = Duration::from_micros(999)),
        ("cap", |rules| rules.cap = Duration::ZERO),
        ("cap", |rules| rules.cap = Duration::from_millis(99)),
        ("attempts_limit", |rules| rules.attempts_limit = Some(0)),
        ("give_up_after", |rules| {
            rules.give_up_after = Some(Duration::ZERO)
        }),
        ("steady_after", |rules| rules.steady_after = Duration::ZERO),
        ("base", |rules| {
            *rules = Reconnect {
                base: Duration::ZERO,
                cap: Duration::ZERO,
                ..*rules
            }
        }),
    ];
    for (name, change) in cases {
        let options = link(|options| {
            let mut rules = Reconnect::default();
            change(&mut rules);
            options.reconnect = Some(rules);
        });
        let text = refused(options.validate(&TCP.parse().unwrap()));
        assert!(text.starts_with(&format!("reconnect.{name}: ")), "{text}");
    }
}

#[test]
fn to_keep_messages_takes_borders_and_a_connection_to_come() {
    let keeping = |address: &str, framing: &Framing, reconnect| {
        let options = link(|options| {
            options.on_loss = OnLoss::Keep;
            options.framing = framing.clone();
            options.reconnect = reconnect;
        });
        options.validate(&address.parse().unwrap())
    };
    let (framed, rules) = (&Framing::length_prefix(), Some(Reconnect::default()));
    for address in [TCP, UDS, ABSTRACT] {
        keeping(address, framed, rules).unwrap();
        for refusal in [
            keeping(address, &Framing::Raw, rules),
            keeping(address, framed, None),
        ] {
            let text = refused(refusal);
            assert!(text.starts_with("on_loss: "), "{text}");
        }
    }
    let text = refused(keeping(UDP, &Framing::Raw, rules));
    assert!(text.starts_with("on_loss: "), "{text}");
    let one = link(|options| {
        options.on_loss = OnLoss::Keep;
        options.framing = framed.clone();
        options.reconnect = rules;
        options.queue_limit_messages = 1;
    });
    assert_eq!(
        refused(one.validate(&TCP.parse().unwrap())),
        "queue_limit_messages: keep needs 2: one is set aside for what `opened` sends"
    );
}

fn group(address: &str, interface: Interface) -> MulticastGroup {
    let address = address.parse().unwrap();
    MulticastGroup { address, interface }
}

#[test]
fn what_only_datagrams_have_is_refused_elsewhere_and_where_it_means_nothing() {
    let by = |interface| Multicast {
        interface,
        ..Multicast::default()
    };
    let name = |name: &str| Interface::Name(name.to_owned());
    let table = [
        (
            TCP,
            link(|o| o.broadcast = true),
            "broadcast: tcp has no broadcast",
        ),
        (
            UDS,
            link(|o| o.unconnected = true),
            "unconnected: uds is always connected",
        ),
        (
            TCP,
            link(|o| o.multicast.ttl = 2),
            "multicast: tcp has no groups",
        ),
        (
            "udp://239.1.2.3:1",
            link(|o| o.broadcast = true),
            "broadcast: 239.1.2.3 is a group, which needs no leave; leave it out",
        ),
        (
            "udp://[::1]:1",
            link(|o| o.broadcast = true),
            "broadcast: IPv6 has none; the group ff02::1 reaches every host of a network",
        ),
        (
            UDP,
            link(|o| o.multicast.loopback = false),
            "multicast: 127.0.0.1 is no group; leave it out",
        ),
        (
            "udp://[ff02::1%lo]:1",
            link(|o| o.multicast = by(name("eth0"))),
            "multicast: the address names its interface already, and this is eth0",
        ),
        (
            "udp://[ff02::1]:1",
            link(|o| o.multicast = by(Interface::Address([10, 0, 0, 1].into()))),
            "multicast: the interface of 10.0.0.1 is named by another family than ff02::1's",
        ),
        (
            "udp://239.1.2.3:1",
            link(|o| o.multicast = by(name("a name that is too long"))),
            "multicast: \"a name that is too long\" is no interface: a name has 1 to 15 bytes",
        ),
        (
            "udp://239.1.2.3:1",
            link(|o| o.multicast = by(name("no name"))),
            "multicast: \"no name\" is no name of an interface",
        ),
        (
            "udp://239.1.2.3:1",
            link(|o| o.multicast = by(Interface::Index(0))),
            "multicast: interface 0 is none; Interface::Routes leaves it to the routes",
        ),
    ];
    for (address, options, expected) in table {
        let address = address.parse().unwrap();
        let checked = options.validate(&address);
        let checked = checked.and_then(|()| options.validate_peer(&address));
        assert_eq!(refused(checked), expected);
    }
    for (address, options) in [
        ("udp://239.1.2.3:1", link(|o| o.multicast.ttl = 0)),
        (
            "udp://[ff02::1]:1",
            link(|o| o.multicast = by(name("eth0"))),
        ),
        ("udp://some.name:1", link(|o| o.multicast.ttl = 255)),
        ("udp://10.0.0.255:1", link(|o| o.broadcast = true)),
        (UDP, link(|o| o.unconnected = true)),
    ] {
        let address = address.parse().unwrap();
        options.validate(&address).unwrap();
        options.validate_peer(&address).unwrap();
    }
}

#[test]
fn groups_that_make_no_sense_are_refused() {
    let any = "239.1.2.3";
    let table = [
        (
            TCP,
            vec![group(any, Interface::Routes)],
            "groups: tcp has no groups",
        ),
        (
            UDP,
            vec![group("10.0.0.1", Interface::Routes)],
            "groups: 10.0.0.1 is no group: those are 224.0.0.0/4 and ff00::/8",
        ),
        (
            UDP,
            vec![group(any, Interface::Address("::1".parse().unwrap()))],
            "groups: the interface of ::1 is named by another family than 239.1.2.3's",
        ),
        (
            UDP,
            vec![group(
                "ff02::9",
                Interface::Address("fe80::1".parse().unwrap()),
            )],
            "groups: fe80::1 is link-local, and any interface may have it; name the interface",
        ),
        (
            UDP,
            vec![group(any, Interface::Address(any.parse().unwrap()))],
            "groups: 239.1.2.3 is no address of an interface",
        ),
        (
            UDP,
            vec![
                group(any, Interface::Index(1)),
                group(any, Interface::Index(1)),
            ],
            "groups: 239.1.2.3 on interface 1 is named twice",
        ),
    ];
    for (address, groups, expected) in table {
        let options = server(|o| o.groups = groups);
        assert_eq!(
            refused(options.validate(&address.parse().unwrap())),
            expected
        );
    }
    let unconnected = server(|o| o.link.unconnected = true);
    assert_eq!(
        refused(unconnected.validate(&UDP.parse().unwrap())),
        "unconnected: a server hears everybody, and each of its peers one; leave it out"
    );
    let listener = |options: LinkOptions| refused(options.validate_listener(&UDP.parse().unwrap()));
    assert_eq!(
        listener(link(|o| o.broadcast = true)),
        "broadcast: a DirectListener answers one peer; leave it out"
    );
    assert_eq!(
        listener(link(|o| o.multicast.ttl = 2)),
        "multicast: a DirectListener answers one peer; only on a group does it mean where to join"
    );
}

#[test]
fn a_file_can_belong_to_somebody_only_where_there_is_one() {
    let owned = server(|o| o.uds_owner = Some(1));
    let grouped = server(|o| o.uds_group = Some(1));
    for options in [&owned, &grouped] {
        options.validate(&UDS.parse().unwrap()).unwrap();
    }
    assert_eq!(
        refused(owned.validate(&ABSTRACT.parse().unwrap())),
        "uds_owner: an abstract name has no file that could belong to anybody"
    );
    assert_eq!(
        refused(grouped.validate(&TCP.parse().unwrap())),
        "uds_group: tcp has no file that could belong to anybody"
    );
    let nobody = server(|o| o.uds_group = Some(u32::MAX));
    assert_eq!(
        refused(nobody.validate(&UDS.parse().unwrap())),
        "uds_group: 4294967295 is nobody's number; leave it out to change nothing"
    );
}
