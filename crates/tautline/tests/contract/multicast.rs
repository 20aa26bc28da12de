//! Promise 9, multicast: servers join groups, links and servers send to them, and nobody hears what he did
//! not join.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tautline::{
    Address, Batch, Batched, DirectLink, DirectListener, ErrorKind, Handler, Interface, IoThread,
    Link, LinkOptions, Multicast, MulticastGroup, Reason, Received, Server, ServerOptions,
};

use crate::common::*;

over! {
    what_is_sent_to_a_group_comes_to_its_members_and_answers_come_from_them: udp;
    a_server_on_every_address_hears_groups_of_both_families: udp;
    nobody_hears_a_group_that_only_another_has_joined: udp;
    all_who_listen_on_a_group_share_its_port: udp;
    a_port_that_is_not_a_groups_alone_is_not_shared: udp;
    a_failed_join_fails_the_start_and_says_which_where_and_why: udp;
    a_link_to_a_group_on_a_missing_interface_says_so: udp;
    a_group_that_would_not_be_heard_is_refused: udp;
    a_server_speaks_to_a_group_first_and_the_group_does_not_expire: udp;
    whom_a_server_reaches_is_a_peer_like_any_other: udp;
    whom_a_server_cannot_reach_is_told: udp;
    whom_a_server_reaches_ends_with_it_whenever_it_is_stopped: udp;
    an_unconnected_link_hears_whoever_answers_and_others_their_peer_alone: udp;
    gathered_messages_keep_whom_they_are_from: udp;
    a_direct_link_asks_a_group_and_a_listener_hears_one: udp;
    a_membership_goes_with_its_interface_and_comes_back_with_it: udp;
    without_a_route_a_group_needs_an_interface_and_loopback_is_obeyed: udp;
    what_socat_sends_to_a_group_is_heard: udp;
    what_is_sent_to_a_group_socat_hears: udp;
}

const LOOPBACK: &str = "lo";

fn on(interface: &str, group: &str) -> MulticastGroup {
    MulticastGroup {
        interface: Interface::Name(interface.to_owned()),
        ..MulticastGroup::new(group.parse().unwrap())
    }
}

fn joining(groups: &[&str]) -> ServerOptions {
    ServerOptions {
        groups: groups.iter().map(|group| on(LOOPBACK, group)).collect(),
        ..ServerOptions::default()
    }
}

fn sending_by(interface: &str) -> LinkOptions {
    LinkOptions {
        multicast: Multicast {
            interface: Interface::Name(interface.to_owned()),
            ..Multicast::default()
        },
        ..LinkOptions::default()
    }
}

fn listen(
    io: &IoThread,
    address: &str,
    options: ServerOptions,
) -> (Server, mpsc::Receiver<Vec<u8>>) {
    let (tell, told) = mpsc::channel();
    let accept = move |_: &Link| {
        let tell = tell.clone();
        Ok(move |peer: &Link, message: &[u8], _: Received| {
            // The test may be over.
            let _ = tell.send(message.to_vec());
            let _ = peer.send(&[b"re: ", message].concat());
        })
    };
    let server = io
        .listen(&address.parse().unwrap(), options, accept)
        .unwrap();
    (server, told)
}

fn port(server: &Server) -> u16 {
    match server.local_address() {
        Address::Udp { port, .. } => port,
        other => panic!("{other} is no datagram address"),
    }
}

/// A plain socket that sends to groups on loopback.
fn plain_sender() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let loopback = [127, 0, 0, 1].into();
    socket2::SockRef::from(&socket)
        .set_multicast_if_v4(&loopback)
        .unwrap();
    socket
}

fn what_is_sent_to_a_group_comes_to_its_members_and_answers_come_from_them(_: Transport) {
    for (bind, group) in [
        ("udp://0.0.0.0:0", "239.255.1.1"),
        ("udp://239.255.1.2:0", "239.255.1.2"),
        ("udp://[::]:0", "239.255.1.3"),
    ] {
        expect_talk(LOOPBACK, bind, group, &format!("udp://{group}"));
    }
}

/// A server that listens there and joins the group, and a link that sends to it.
fn expect_talk(interface: &str, bind: &str, group: &str, target: &str) {
    let io = start();
    let options = ServerOptions {
        groups: vec![on(interface, group)],
        ..ServerOptions::default()
    };
    let (server, heard) = listen(&io, bind, options);
    let port = port(&server);
    let (handler, inbox) = recorder();
    let target: Address = format!("{target}:{port}").parse().unwrap();
    let link = io.connect(&target, sending_by(interface), handler).unwrap();
    assert_eq!(inbox.expect_opened().peer, Some(target));
    // Said again until it is answered: in the first moments of an interface datagrams are lost.
    let mut sent = 0;
    for message in [&b"anybody?"[..], b"", b"again"] {
        let answer = [b"re: ", message].concat();
        let mut heard_it = false;
        until("it is answered", || {
            link.send(message).unwrap();
            sent += 1;
            let word = heard.recv_timeout(Duration::from_millis(100));
            heard_it |= word.is_ok_and(|word| word == message);
            inbox.so_far().iter().any(|told| match told {
                Told::Message(told, received) => {
                    *told == answer && received.from.is_some_and(|from| from.port() == port)
                }
                _ => false,
            })
        });
        assert!(heard_it, "{bind}");
    }
    assert_eq!(server.statistics().groups_joined, 1);
    let sending = link.statistics().sending;
    assert!(sending.closes() && sending.written.messages == sent);
    link.close(WATCHDOG);
    inbox.skip_to_closed();
}

/// The loopback interface has no way to IPv6 groups.
fn a_server_on_every_address_hears_groups_of_both_families(transport: Transport) {
    let test = "a_server_on_every_address_hears_groups_of_both_families";
    if !in_own_network(test, transport, "ip link set lo up &&") {
        return;
    }
    bring_up_v0();
    expect_talk("v0", "udp://[::]:0", "ff02::1:1", "udp://[ff02::1:1]");
    expect_talk("v0", "udp://[::]:0", "239.255.1.4", "udp://239.255.1.4");
    expect_talk(
        "v0",
        "udp://[ff02::1:2]:0",
        "ff02::1:2",
        "udp://[ff02::1:2]",
    );
    expect_talk(
        "v0",
        "udp://[ff02::1:3%v0]:0",
        "ff02::1:3",
        "udp://[ff02::1:3]",
    );
}

/// Linux hands a socket that is bound to every address the datagrams of any group that any socket of
/// the machine has joined, unless it is told not to.
fn nobody_hears_a_group_that_only_another_has_joined(_: Transport) {
    let io = start();
    let sharing = |groups: &[&str]| ServerOptions {
        reuse_port: true,
        ..joining(groups)
    };
    let (one, heard_by_one) = listen(&io, "udp://0.0.0.0:0", sharing(&["239.255.2.1"]));
    let same = format!("udp://0.0.0.0:{}", port(&one));
    let (_two, heard_by_two) = listen(&io, &same, sharing(&["239.255.2.2"]));
    let (_none, heard_by_none) = listen(&io, &same, sharing(&[]));
    let sender = plain_sender();
    for round in 0..10 {
        sender
            .send_to(&[1, round], ("239.255.2.1", port(&one)))
            .unwrap();
        sender
            .send_to(&[2, round], ("239.255.2.2", port(&one)))
            .unwrap();
    }
    for round in 0..10 {
        assert_eq!(heard_by_one.recv_timeout(WATCHDOG).unwrap(), [1, round]);
        assert_eq!(heard_by_two.recv_timeout(WATCHDOG).unwrap(), [2, round]);
    }
    let_turn(&io);
    for heard in [heard_by_one, heard_by_two, heard_by_none] {
        assert_eq!(heard.try_iter().count(), 0);
    }
}

fn all_who_listen_on_a_group_share_its_port(_: Transport) {
    let io = start();
    let on_loopback = || ServerOptions {
        link: sending_by(LOOPBACK),
        ..ServerOptions::default()
    };
    let (first, heard_by_first) = listen(&io, "udp://239.255.3.1:0", on_loopback());
    let same = format!("udp://239.255.3.1:{}", port(&first));
    let (_second, heard_by_second) = listen(&io, &same, on_loopback());
    assert_eq!(
        first.statistics().groups_joined,
        1,
        "joined by listening on it"
    );
    let sender = plain_sender();
    for number in 0..10 {
        sender
            .send_to(&[number], ("239.255.3.1", port(&first)))
            .unwrap();
        assert_eq!(heard_by_first.recv_timeout(WATCHDOG).unwrap(), [number]);
        assert_eq!(heard_by_second.recv_timeout(WATCHDOG).unwrap(), [number]);
    }
}

fn a_port_that_is_not_a_groups_alone_is_not_shared(_: Transport) {
    let io = start();
    let (server, _heard) = listen(&io, "udp://0.0.0.0:0", joining(&["239.255.3.2"]));
    for host in ["0.0.0.0", "127.0.0.1", "239.255.3.2"] {
        let address = format!("udp://{host}:{}", port(&server)).parse().unwrap();
        let second = io.listen(&address, joining(&[]), |_: &Link| Ok(recorder().0));
        assert_eq!(
            second.unwrap_err().kind(),
            ErrorKind::AddressInUse,
            "{host}"
        );
    }
}

fn a_failed_join_fails_the_start_and_says_which_where_and_why(_: Transport) {
    let io = start();
    let cases = [
        (
            Interface::Name("nosuch0".to_owned()),
            "239.255.4.1 on nosuch0: no such device",
        ),
        (
            Interface::Index(987_654),
            "239.255.4.1 on interface 987654: no such device",
        ),
        (
            Interface::Address([198, 51, 100, 1].into()),
            "239.255.4.1 on the interface of 198.51.100.1: address not available",
        ),
    ];
    for (interface, why) in cases {
        let mut options = joining(&["239.255.4.2"]);
        options.groups.push(MulticastGroup {
            interface,
            ..MulticastGroup::new([239, 255, 4, 1].into())
        });
        let address = "udp://0.0.0.0:0".parse().unwrap();
        let refused = io.listen(&address, options, |_: &Link| Ok(recorder().0));
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bind);
        let expected = format!("listen on udp://0.0.0.0:0: join {why}");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

fn a_link_to_a_group_on_a_missing_interface_says_so(_: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let address = "udp://239.255.4.1:9".parse().unwrap();
    let link = io
        .connect(&address, sending_by("nosuch0"), handler)
        .unwrap();
    let error = link.wait_open(WATCHDOG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    let expected = "connect to udp://239.255.4.1:9: nosuch0: no such device";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(inbox.expect_ended(), Reason::NotConnected(_)));
    let direct = DirectLink::connect(&address, sending_by("nosuch0"));
    assert_eq!(direct.unwrap_err().to_string(), expected);
}

fn a_group_that_would_not_be_heard_is_refused(_: Transport) {
    let io = start();
    let cases = [
        (
            "udp://127.0.0.1:0",
            "239.255.4.1",
            "listen on 0.0.0.0 or [::], or on the group",
        ),
        (
            "udp://0.0.0.0:0",
            "ff02::1:4",
            "listen on [::], or on the group",
        ),
        (
            "udp://239.255.4.2:0",
            "239.255.4.1",
            "listen on 0.0.0.0 or [::], or on the group",
        ),
    ];
    for (address, group, advice) in cases {
        let address = address.parse().unwrap();
        let refused = io.listen(&address, joining(&[group]), |_: &Link| Ok(recorder().0));
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        let text = error.to_string();
        assert!(
            text.starts_with("groups: ") && text.ends_with(advice),
            "{text}"
        );
    }
}

fn a_server_speaks_to_a_group_first_and_the_group_does_not_expire(_: Transport) {
    let io = start();
    let (members, heard) = listen(&io, "udp://0.0.0.0:0", joining(&["239.255.5.1"]));
    let (handler, inbox) = recorder();
    let (group_handler, group_inbox) = recorder();
    let mut handlers = vec![handler, group_handler];
    let options = ServerOptions {
        link: sending_by(LOOPBACK),
        peer_expiry: Duration::from_millis(20),
        ..ServerOptions::default()
    };
    let accept = move |_: &Link| handlers.pop().ok_or_else(|| "enough".into());
    let server = io
        .listen(&"udp://0.0.0.0:0".parse().unwrap(), options, accept)
        .unwrap();
    let group: Address = format!("udp://239.255.5.1:{}", port(&members))
        .parse()
        .unwrap();
    let link = server.reach(&group).unwrap();
    link.wait_open(WATCHDOG).unwrap();
    assert_eq!(group_inbox.expect_opened().peer, Some(group.clone()));
    link.send(b"who is there?").unwrap();
    assert_eq!(heard.recv_timeout(WATCHDOG).unwrap(), b"who is there?");
    // Whoever answers is a peer of its own, and expires.
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"re: who is there?");
    assert!(matches!(inbox.expect_end().reason, Reason::Expired));
    assert!(link.is_open(), "a group is silent by nature");
    let again = server.reach(&group).unwrap();
    let refused = again.wait_open(WATCHDOG).unwrap_err();
    assert!(
        refused.to_string().contains("it is a peer already"),
        "{refused}"
    );
    link.send(b"and now?").unwrap();
    assert_eq!(heard.recv_timeout(WATCHDOG).unwrap(), b"and now?");
    server.close(WATCHDOG);
    group_inbox.expect_end();
    assert_eq!(server.statistics().peers.sending.written.messages, 2);
    assert!(server.statistics().peers.sending.closes());
    assert_eq!(server.reach(&group).unwrap_err().kind(), ErrorKind::Closed);
}

/// What it answers comes from the same peer, whatever the server is bound to.
fn whom_a_server_reaches_is_a_peer_like_any_other(_: Transport) {
    for bound in ["udp://127.0.0.1:0", "udp://0.0.0.0:0", "udp://[::]:0"] {
        let io = start();
        let (handler, inbox) = recorder();
        let mut handlers = vec![handler];
        let accept = move |_: &Link| handlers.pop().ok_or_else(|| "enough".into());
        let server = io
            .listen(&bound.parse().unwrap(), ServerOptions::default(), accept)
            .unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        let peer = server
            .reach(&Address::udp(socket.local_addr().unwrap()))
            .unwrap();
        peer.wait_open(WATCHDOG).unwrap();
        inbox.expect_opened();
        peer.send(b"hello").unwrap();
        let (bytes, from) = socket.recv_from(&mut [0; 16]).unwrap();
        assert_eq!(bytes, 5);
        socket.send_to(b"hello yourself", from).unwrap();
        assert_eq!(inbox.expect_message(), b"hello yourself");
        assert_eq!(server.statistics().accepted, 1, "{bound}");
    }
}

fn whom_a_server_cannot_reach_is_told(_: Transport) {
    let io = start();
    let (server, _heard) = listen(&io, "udp://127.0.0.1:0", ServerOptions::default());
    let (stream, _) = listen_on_stream(&io);
    for (server, address, kind) in [
        (&server, "tcp://127.0.0.1:9", ErrorKind::InvalidAddress),
        (&server, "udp://[::1]:9", ErrorKind::InvalidAddress),
        (&server, "udp://127.0.0.1:0", ErrorKind::InvalidAddress),
        (&server, "udp://127.255.255.255:9", ErrorKind::InvalidOption),
        (&stream, "udp://127.0.0.1:9", ErrorKind::InvalidAddress),
    ] {
        let error = server.reach(&address.parse().unwrap()).unwrap_err();
        assert_eq!(error.kind(), kind, "{address}: {error}");
    }
    // The application's word, as for those who come by themselves.
    let refusing = io.listen(
        &"udp://127.0.0.1:0".parse().unwrap(),
        ServerOptions::default(),
        |_: &Link| Err::<Recorder, _>("not you".into()),
    );
    let refusing = refusing.unwrap();
    let link = refusing
        .reach(&"udp://127.0.0.1:9".parse().unwrap())
        .unwrap();
    let error = link.wait_open(WATCHDOG).unwrap_err();
    assert!(error.to_string().contains("refused: not you"), "{error}");
    assert_eq!(refusing.statistics().turned_away, 1);
}

fn listen_on_stream(io: &IoThread) -> (Server, ()) {
    let accept = |_: &Link| Ok(recorder().0);
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    (
        io.listen(&address, ServerOptions::default(), accept)
            .unwrap(),
        (),
    )
}

/// Nobody waits for a link that the driver never came to know.
fn whom_a_server_reaches_ends_with_it_whenever_it_is_stopped(_: Transport) {
    let io = start();
    let to = "udp://127.0.0.1:9".parse().unwrap();
    let ends: [fn(&Server); 3] = [
        |server| server.abort(),
        |server| _ = server.close(WATCHDOG),
        |_| (),
    ];
    for round in 0..300 {
        let (server, _heard) = listen(&io, "udp://127.0.0.1:0", ServerOptions::default());
        let link = std::thread::scope(|scope| {
            let reaching = scope.spawn(|| server.reach(&to));
            ends[round % 3](&server);
            reaching.join().unwrap()
        });
        if let Ok(link) = &link
            && round % 2 == 0
        {
            link.abort();
        }
        drop(server);
        if let Ok(link) = link {
            link.abort();
            assert!(link.is_ended());
        }
    }
    // It was closed from inside a callback, whose commands overtake those of other threads.
    let (server, _heard) = listen(&io, "udp://127.0.0.1:0", ServerOptions::default());
    let gate = hold(&io);
    let link = server.reach(&to).unwrap();
    drop(gate);
    let inside = link.clone();
    inside_callback(&io, move || inside.abort());
    until("it has ended", || link.is_ended());
}

fn an_unconnected_link_hears_whoever_answers_and_others_their_peer_alone(_: Transport) {
    let io = start();
    for unconnected in [true, false] {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let options = LinkOptions {
            unconnected,
            ..LinkOptions::default()
        };
        let (handler, inbox) = recorder();
        let to = Address::udp(peer.local_addr().unwrap());
        let link = io.connect(&to, options, handler).unwrap();
        inbox.expect_opened();
        link.send(b"read boot.img").unwrap();
        let (_, from) = peer.recv_from(&mut [0; 16]).unwrap();
        // As a TFTP server does: from another port than it was asked on.
        let _ = stranger.send_to(b"block 1", from);
        peer.send_to(b"block 2", from).unwrap();
        let senders: Vec<_> = if unconnected {
            vec![(&b"block 1"[..], &stranger), (b"block 2", &peer)]
        } else {
            vec![(b"block 2", &peer)]
        };
        for (block, sender) in senders {
            let Told::Message(message, received) = inbox.next() else {
                panic!("expected a message");
            };
            assert_eq!(message, block);
            let expected = unconnected.then(|| sender.local_addr().unwrap());
            assert_eq!(received.from, expected);
        }
    }
}

struct Gathers(mpsc::Sender<HashSet<u16>>);

impl Handler for Gathers {
    fn message(&mut self, _: &Link, _: &[u8], _: Received) {
        unreachable!("they come in batches");
    }

    fn batch(&mut self, _: &Link, batch: &Batched<'_>) {
        let ports = batch.iter().filter_map(|(_, received)| received.from);
        self.0
            .send(ports.map(|from| from.port()).collect())
            .unwrap();
    }
}

fn gathered_messages_keep_whom_they_are_from(_: Transport) {
    let io = start();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(WATCHDOG)).unwrap();
    let (tell, told) = mpsc::channel();
    let options = LinkOptions {
        unconnected: true,
        batch: Some(Batch {
            messages: 3,
            bytes: 1000,
            age: WATCHDOG,
        }),
        ..LinkOptions::default()
    };
    let to = Address::udp(peer.local_addr().unwrap());
    let link = io.connect(&to, options, Gathers(tell)).unwrap();
    link.wait_open(WATCHDOG).unwrap();
    link.send(b"?").unwrap();
    let (_, from) = peer.recv_from(&mut [0; 16]).unwrap();
    let sockets: Vec<_> = (0..3)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    for socket in &sockets {
        socket.send_to(b"!", from).unwrap();
    }
    let expected = sockets
        .iter()
        .map(|socket| socket.local_addr().unwrap().port());
    assert_eq!(told.recv_timeout(WATCHDOG).unwrap(), expected.collect());
}

fn a_direct_link_asks_a_group_and_a_listener_hears_one(_: Transport) {
    let io = start();
    let (server, _heard) = listen(&io, "udp://0.0.0.0:0", joining(&["239.255.7.1"]));
    let target = format!("udp://239.255.7.1:{}", port(&server))
        .parse()
        .unwrap();
    let deadline = || Some(Instant::now() + WATCHDOG);
    for spin in [Duration::ZERO, Duration::from_micros(50)] {
        let options = LinkOptions {
            spin,
            ..sending_by(LOOPBACK)
        };
        let mut link = DirectLink::connect(&target, options).unwrap();
        assert_eq!(link.sender(), None);
        link.send(b"time?").unwrap();
        assert_eq!(link.recv(deadline()).unwrap(), b"re: time?");
        assert_eq!(link.sender().map(|from| from.port()), Some(port(&server)));
        assert_eq!(link.peer_address(), Some(target.clone()));
        let soon = Some(Instant::now() + Duration::from_millis(1));
        assert!(link.recv(soon).is_err());
    }

    // Whoever speaks to the group first is the one peer.
    let on_group = "udp://239.255.7.2:0".parse().unwrap();
    let mut listener = DirectListener::bind(&on_group, sending_by(LOOPBACK)).unwrap();
    let mut asking = DirectLink::connect(&listener.local_address(), sending_by(LOOPBACK)).unwrap();
    asking.send(b"hello").unwrap();
    let mut answering = listener.accept(deadline()).unwrap();
    assert_eq!(answering.recv(deadline()).unwrap(), b"hello");
    answering.send(b"yes").unwrap();
    assert_eq!(asking.recv(deadline()).unwrap(), b"yes");
    // A wait without an end is ended from elsewhere.
    let closer = asking.closer();
    std::thread::scope(|scope| {
        scope.spawn(|| closer.close());
        assert!(asking.recv(None).is_err());
    });
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.unwrap().success(), "ip {arguments}");
}

/// Runs the test in a network of its own, with an interface `v0` that has an address; true there.
fn in_own_network(test: &str, transport: Transport, prepare: &str) -> bool {
    let name = name_of(&format!("multicast::{test}"), transport);
    let alone = in_child(&name);
    if !alone {
        child_in_namespaces(&name, "-n", prepare);
    }
    alone
}

const ADD_V0: &str = "link add v0 type veth peer name v1";

fn bring_up_v0() {
    ip(ADD_V0);
    ip("link set v0 addrgenmode none");
    ip("addr add 10.77.0.1/24 dev v0");
    ip("link set v1 up");
    raise_v0();
}

/// IPv6 addresses go when an interface goes down.
fn raise_v0() {
    ip("link set v0 up");
    // The one link-local address, without the pause in which the network is asked whether somebody has
    // it: when such a pause ends, datagrams to the new address are lost for a moment.
    ip("addr add fe80::77/64 dev v0 nodad");
    // The kernel brings the routes a moment after the carrier.
    until("there is a way to groups", || {
        let way = Command::new("ip")
            .args("-6 route get ff02::1 oif v0".split(' '))
            .output();
        way.unwrap().status.success()
    });
}

fn a_membership_goes_with_its_interface_and_comes_back_with_it(transport: Transport) {
    let test = "a_membership_goes_with_its_interface_and_comes_back_with_it";
    if !in_own_network(test, transport, "ip link set lo up &&") {
        return;
    }
    let io = start();
    bring_up_v0();
    let options = ServerOptions {
        peer_expiry: Duration::from_millis(200),
        groups: vec![on("v0", "239.255.8.1"), on("v0", "ff02::1:8")],
        ..ServerOptions::default()
    };
    let (server, heard) = listen(&io, "udp://[::]:0", options);
    let say = |word: &[u8]| {
        for target in ["239.255.8.1", "[ff02::1:8]"] {
            let target = format!("udp://{target}:{}", port(&server)).parse().unwrap();
            // An address of a new interface is not usable at once.
            until("the interface is there", || {
                let mut link = DirectLink::connect(&target, sending_by("v0"));
                link.as_mut().is_ok_and(|link| {
                    link.send(word).unwrap();
                    let sending = link.statistics().sending;
                    sending.written.messages == 1
                })
            });
            assert_eq!(heard.recv_timeout(WATCHDOG).unwrap(), word);
        }
    };
    say(b"hello");
    assert_eq!(server.statistics().groups_joined, 2);

    // Down and up again is no loss.
    ip("link set v0 down");
    raise_v0();
    say(b"still here");
    assert_eq!(server.statistics().groups_lost, 0);

    ip("link del v0");
    until("the loss is told", || {
        server.statistics().groups_joined == 0
    });
    assert_eq!(server.statistics().groups_lost, 2);
    bring_up_v0();
    until("the groups are joined again", || {
        server.statistics().groups_joined == 2
    });
    say(b"back again");
    assert_eq!(server.statistics().groups_lost, 2);
}

fn without_a_route_a_group_needs_an_interface_and_loopback_is_obeyed(transport: Transport) {
    let test = "without_a_route_a_group_needs_an_interface_and_loopback_is_obeyed";
    if !in_own_network(test, transport, "ip link set lo up &&") {
        return;
    }
    let io = start();
    bring_up_v0();
    let options = ServerOptions {
        groups: vec![MulticastGroup::new([239, 255, 8, 2].into())],
        ..ServerOptions::default()
    };
    let any = "udp://0.0.0.0:0".parse().unwrap();
    let error = io
        .listen(&any, options, |_: &Link| Ok(recorder().0))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "listen on udp://0.0.0.0:0: join 239.255.8.2: no such device; no route leads to it, name an \
         interface in groups"
    );
    let to = "udp://239.255.8.2:9".parse().unwrap();
    let error = DirectLink::connect(&to, LinkOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "connect to udp://239.255.8.2:9: network is unreachable; no route leads to this group, name an \
         interface in multicast"
    );
    let by_address = Interface::Address([10, 77, 0, 1].into());
    let options = ServerOptions {
        groups: vec![MulticastGroup {
            interface: by_address.clone(),
            ..MulticastGroup::new([239, 255, 8, 2].into())
        }],
        ..ServerOptions::default()
    };
    let (server, heard) = listen(&io, "udp://0.0.0.0:0", options);
    let to = format!("udp://239.255.8.2:{}", port(&server))
        .parse()
        .unwrap();
    for (loopback, word) in [(false, &b"nobody hears it"[..]), (true, b"everybody does")] {
        let mut options = sending_by("v0");
        options.multicast.loopback = loopback;
        options.multicast.interface = by_address.clone();
        DirectLink::connect(&to, options)
            .unwrap()
            .send(word)
            .unwrap();
    }
    assert_eq!(heard.recv_timeout(WATCHDOG).unwrap(), b"everybody does");
}

/// Whether there is a socat; whoever has none is told what was skipped.
fn has_socat(test: &str) -> bool {
    let found = Command::new("socat")
        .arg("-V")
        .stdout(Stdio::null())
        .status();
    let has = found.is_ok_and(|status| status.success());
    if !has {
        println!("skipped multicast::{test}: there is no socat on this machine");
    }
    has
}

fn what_socat_sends_to_a_group_is_heard(_: Transport) {
    if !has_socat("what_socat_sends_to_a_group_is_heard") {
        return;
    }
    let io = start();
    let (server, heard) = listen(&io, "udp://0.0.0.0:0", joining(&["239.255.9.1"]));
    let to = format!(
        "UDP4-DATAGRAM:239.255.9.1:{},ip-multicast-if=127.0.0.1",
        port(&server)
    );
    let mut socat = Command::new("socat")
        .args(["-", &to])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = socat.stdin.take().unwrap();
    input.write_all(b"socat speaks\n").unwrap();
    assert_eq!(heard.recv_timeout(WATCHDOG).unwrap(), b"socat speaks\n");
    let mut answer = String::new();
    BufReader::new(socat.stdout.take().unwrap())
        .read_line(&mut answer)
        .unwrap();
    assert_eq!(answer, "re: socat speaks\n");
    drop(input);
    socat.kill().unwrap();
    socat.wait().unwrap();
}

fn what_is_sent_to_a_group_socat_hears(_: Transport) {
    if !has_socat("what_is_sent_to_a_group_socat_hears") {
        return;
    }
    let io = start();
    let free = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let hears = format!(
        "UDP4-RECVFROM:{free},bind=239.255.9.2,ip-add-membership=239.255.9.2:127.0.0.1,fork"
    );
    let mut socat = Command::new("socat")
        .args([&hears, "EXEC:cat"])
        .spawn()
        .unwrap();
    let (handler, inbox) = recorder();
    let to = format!("udp://239.255.9.2:{free}").parse().unwrap();
    let link = io.connect(&to, sending_by(LOOPBACK), handler).unwrap();
    inbox.expect_opened();
    // As /proc writes 239.255.9.2.
    let group = "0209FFEF";
    let lists = |table: &str, what: &str| std::fs::read_to_string(table).unwrap().contains(what);
    until("socat has joined and listens", || {
        lists("/proc/net/igmp", group) && lists("/proc/net/udp", &format!("{group}:{free:04X}"))
    });
    link.send(b"does socat hear?").unwrap();
    let Told::Message(message, received) = inbox.next() else {
        panic!("expected an answer");
    };
    assert_eq!(message, b"does socat hear?");
    assert!(received.from.is_some());
    socat.kill().unwrap();
    socat.wait().unwrap();
}
