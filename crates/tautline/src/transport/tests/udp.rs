//! UDP: borders, sources and errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use super::*;

fn serve(text: &str) -> Socket {
    bind_datagram(&address(text), &ServerOptions::default())
        .unwrap()
        .0
}

fn port(socket: &Socket) -> u16 {
    match socket.local_address().unwrap() {
        Address::Udp { port, .. } => port,
        other => panic!("{other}"),
    }
}

/// A client of the standard library, so that both ends are not ours.
fn plain_client(local: &str) -> UdpSocket {
    let client = UdpSocket::bind(local).unwrap();
    client.set_read_timeout(Some(WATCHDOG)).unwrap();
    client
}

fn receive_from(server: &Socket, buffer: &mut [u8]) -> (Arrived, Remote) {
    assert!(server.wait_ready(READ, deadline()).unwrap().read);
    server.recv_from(buffer).unwrap()
}

#[test]
fn a_connected_pair_keeps_the_borders_of_messages() {
    let server = serve("udp://127.0.0.1:0");
    let client = connect(&server.local_address().unwrap()).unwrap();
    assert_eq!(client.kind(), Kind::Udp);
    client.send(b"", b"first", Wait::No).unwrap();
    client.send(b"", b"second one", Wait::No).unwrap();

    let mut buffer = [0; 64];
    let (arrived, remote) = receive_from(&server, &mut buffer);
    assert_eq!(&buffer[..arrived.bytes], b"first");
    assert_eq!(Some(Address::udp(remote.address)), client.local_address());
    let (arrived, _) = receive_from(&server, &mut buffer);
    assert_eq!(&buffer[..arrived.bytes], b"second one");

    server.send_to(b"reply", &remote).unwrap();
    assert!(client.wait_ready(READ, deadline()).unwrap().read);
    let arrived = client.recv(&mut buffer, Wait::No).unwrap();
    assert_eq!(&buffer[..arrived.bytes], b"reply");
}

#[test]
fn an_empty_datagram_is_a_message_both_ways() {
    let server = serve("udp://127.0.0.1:0");
    let client = connect(&server.local_address().unwrap()).unwrap();
    let mut buffer = [0; 64];
    let empty = Arrived {
        bytes: 0,
        truncated: false,
        from: None,
    };

    assert_eq!(client.send(b"", b"", Wait::No).unwrap(), 0);
    let (arrived, remote) = receive_from(&server, &mut buffer);
    assert_eq!(arrived, empty);

    assert_eq!(server.send_to(b"", &remote).unwrap(), 0);
    assert!(client.wait_ready(READ, deadline()).unwrap().read);
    assert_eq!(client.recv(&mut buffer, Wait::No).unwrap(), empty);
    assert_eq!(
        client.recv(&mut buffer, Wait::No).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
}

#[test]
fn a_datagram_longer_than_the_buffer_is_flagged() {
    for listening in ["udp://127.0.0.1:0", "udp://0.0.0.0:0"] {
        let server = serve(listening);
        let to = format!("udp://127.0.0.1:{}", port(&server));
        let client = connect(&address(&to)).unwrap();
        let cut = Arrived {
            bytes: 4,
            truncated: true,
            from: None,
        };
        let fits = Arrived {
            bytes: 4,
            truncated: false,
            from: None,
        };
        let mut buffer = [0; 4];

        client.send(b"", b"12345", Wait::No).unwrap();
        let (arrived, remote) = receive_from(&server, &mut buffer);
        assert_eq!((arrived, &buffer), (cut, b"1234"));
        client.send(b"", b"abcd", Wait::No).unwrap();
        assert_eq!(receive_from(&server, &mut buffer).0, fits);

        server.send_to(b"54321", &remote).unwrap();
        assert!(client.wait_ready(READ, deadline()).unwrap().read);
        assert_eq!(client.recv(&mut buffer, Wait::No).unwrap(), cut);
        assert_eq!(&buffer, b"5432");
    }
}

#[test]
fn a_server_on_every_address_answers_from_the_one_that_was_asked() {
    let server = serve("udp://0.0.0.0:0");
    let asked: SocketAddr = ([127, 0, 0, 2], port(&server)).into();
    // Not connected: it sees where the answer really comes from.
    let client = plain_client("127.0.0.1:0");
    client.send_to(b"ask", asked).unwrap();

    let mut buffer = [0; 64];
    let (_, remote) = receive_from(&server, &mut buffer);
    assert_eq!(remote.local, Some(IpAddr::from([127, 0, 0, 2])));
    assert_eq!(remote.interface, 0);
    server.send_to(b"answer", &remote).unwrap();

    let (bytes, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..bytes], from), (&b"answer"[..], asked));
}

#[test]
fn a_server_on_one_address_is_told_nothing_and_needs_nothing() {
    let server = serve("udp://127.0.0.2:0");
    let asked: SocketAddr = ([127, 0, 0, 2], port(&server)).into();
    let client = plain_client("127.0.0.1:0");
    client.send_to(b"ask", asked).unwrap();

    let mut buffer = [0; 64];
    let (_, remote) = receive_from(&server, &mut buffer);
    assert_eq!(remote.local, None);
    server.send_to(b"answer", &remote).unwrap();
    assert_eq!(client.recv_from(&mut buffer).unwrap(), (6, asked));
}

#[test]
fn the_same_peer_asking_two_addresses_is_two_remotes() {
    let server = serve("udp://0.0.0.0:0");
    let client = plain_client("127.0.0.1:0");
    let mut buffer = [0; 64];
    let mut remote = |host: [u8; 4]| {
        client
            .send_to(b"", (Ipv4Addr::from(host), port(&server)))
            .unwrap();
        receive_from(&server, &mut buffer).1
    };
    let (first, second, again) = (
        remote([127, 0, 0, 1]),
        remote([127, 0, 0, 2]),
        remote([127, 0, 0, 1]),
    );
    assert_eq!(first.address, second.address);
    assert_ne!(first, second);
    assert_eq!(first, again);
}

#[test]
fn a_dual_stack_server_answers_both_families_from_what_was_asked() {
    if !has_ipv6() {
        return;
    }
    let server = serve("udp://[::]:0");
    let mut buffer = [0; 64];
    for (local, asked) in [("127.0.0.1:0", "127.0.0.3"), ("[::1]:0", "::1")] {
        let asked = SocketAddr::new(asked.parse().unwrap(), port(&server));
        let client = plain_client(local);
        client.send_to(b"ask", asked).unwrap();
        let (_, remote) = receive_from(&server, &mut buffer);
        assert_eq!(remote.local, Some(asked.ip()));
        // An IPv4 peer is shown as one.
        assert_eq!(
            Address::udp(remote.address),
            Address::udp(client.local_addr().unwrap())
        );
        server.send_to(b"answer", &remote).unwrap();
        assert_eq!(client.recv_from(&mut buffer).unwrap(), (6, asked));
    }
}

#[test]
fn a_link_local_peer_is_answered_on_its_interface() {
    let Some(own) = link_local_address() else {
        return;
    };
    let server = serve("udp://[::]:0");
    let client = UdpSocket::bind(own).unwrap();
    client.set_read_timeout(Some(WATCHDOG)).unwrap();
    let asked = SocketAddrV6::new(*own.ip(), port(&server), 0, own.scope_id());
    client.send_to(b"ask", asked).unwrap();

    let mut buffer = [0; 64];
    let (_, remote) = receive_from(&server, &mut buffer);
    assert_eq!(remote.local, Some(IpAddr::V6(*own.ip())));
    assert_ne!(remote.interface, 0);
    server.send_to(b"answer", &remote).unwrap();
    assert_eq!(client.recv_from(&mut buffer).unwrap(), (6, asked.into()));
}

/// An address that means nothing without its interface, where this machine has one that is ready.
fn link_local_address() -> Option<SocketAddrV6> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    table.lines().find_map(|line| {
        let mut columns = line.split_whitespace();
        let ip = u128::from_str_radix(columns.next()?, 16).ok()?;
        let scope = u32::from_str_radix(columns.next()?, 16).ok()?;
        let ip = Ipv6Addr::from_bits(ip);
        let own = SocketAddrV6::new(ip, 0, 0, scope);
        (ip.is_unicast_link_local() && UdpSocket::bind(own).is_ok()).then_some(own)
    })
}

#[test]
fn a_refusal_by_icmp_is_told_and_the_socket_lives_on() {
    // Connected elsewhere, it holds the port and yet takes nothing of ours: the kernel refuses.
    let aloof = plain_client("127.0.0.1:0");
    aloof.connect("127.0.0.1:9").unwrap();
    let client = connect(&Address::udp(aloof.local_addr().unwrap())).unwrap();
    client.send(b"", b"anybody?", Wait::No).unwrap();

    assert!(client.wait_ready(READ, deadline()).unwrap().read);
    let refused = client.recv(&mut [0; 16], Wait::No).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(is_icmp(&refused));
    assert!(!is_transient(&refused));

    client.send(b"", b"anybody?", Wait::No).unwrap();
    // A send brings the report of the one before, and is then not sent itself.
    assert!(client.wait_ready(READ, deadline()).unwrap().read);
    assert!(is_icmp(&client.send(b"", b"lost", Wait::No).unwrap_err()));

    let Address::Udp { port, .. } = client.local_address().unwrap() else {
        panic!("not udp");
    };
    aloof.connect(("127.0.0.1", port)).unwrap();
    client.send(b"", b"and now?", Wait::No).unwrap();
    let mut buffer = [0; 16];
    let bytes = aloof.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..bytes], b"and now?");
}

#[test]
fn a_server_hears_nothing_of_peers_that_left() {
    let server = serve("udp://127.0.0.1:0");
    let aloof = plain_client("127.0.0.1:0");
    aloof.connect("127.0.0.1:9").unwrap();
    let remote = Remote {
        address: aloof.local_addr().unwrap(),
        local: None,
        interface: 0,
    };
    server.send_to(b"", &remote).unwrap();
    server.send_to(b"", &remote).unwrap();
    assert!(server.take_error().is_none());
}

#[test]
fn the_datagram_limit_is_the_kernels() {
    let server = serve("udp://127.0.0.1:0");
    let client = connect(&server.local_address().unwrap()).unwrap();
    let payload = vec![7; DATAGRAM_LIMIT_BYTES + 1];
    assert_eq!(errno(client.send(b"", &payload, Wait::No)), libc::EMSGSIZE);
    let most = &payload[..DATAGRAM_LIMIT_BYTES];
    assert_eq!(client.send(b"", most, Wait::No).unwrap(), 65_507);
    let mut buffer = vec![0; 65_536];
    let (arrived, _) = receive_from(&server, &mut buffer);
    assert_eq!((arrived.bytes, arrived.truncated), (65_507, false));
}

#[test]
fn a_udp_port_is_never_shared() {
    let first = serve("udp://127.0.0.1:0");
    let error = bind_datagram(&first.local_address().unwrap(), &ServerOptions::default());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::AddressInUse);
}

#[test]
fn an_address_of_another_machine_cannot_be_listened_on() {
    let error = bind_datagram(&address("udp://198.51.100.1:0"), &ServerOptions::default());
    assert_eq!(
        message(error),
        "listen on udp://198.51.100.1:0: bind: address not available: no interface of this machine has it"
    );
}

#[test]
fn a_link_local_remote_keeps_its_interface_and_others_do_not() {
    let from: SocketAddr = "[fe80::2]:9".parse().unwrap();
    let end = |ip: &str| {
        Some(sys::datagram::LocalEnd {
            ip: ip.parse().unwrap(),
            interface: 3,
        })
    };
    assert_eq!(Remote::of(from, end("fe80::1")).interface, 3);
    assert_eq!(Remote::of(from, end("2001:db8::1")).interface, 0);
    assert_eq!(Remote::of(from, end("192.0.2.1")).interface, 0);
}

#[test]
fn a_datagram_to_a_group_names_no_source_for_the_answer() {
    let from: SocketAddr = "[fe80::2]:9".parse().unwrap();
    for group in ["ff02::1", "239.1.2.3"] {
        let ip = group.parse().unwrap();
        let end = sys::datagram::LocalEnd { ip, interface: 3 };
        let remote = Remote::of(from, Some(end));
        assert_eq!((remote.local, remote.interface), (None, 0));
    }
}

#[test]
fn icmp_and_passing_errors_are_told_apart() {
    let error = io::Error::from_raw_os_error;
    for number in [
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EACCES,
    ] {
        assert!(is_icmp(&error(number)) && !is_transient(&error(number)));
    }
    for number in [libc::EAGAIN, libc::ENOBUFS, libc::ENOMEM] {
        assert!(is_transient(&error(number)) && !is_icmp(&error(number)));
    }
    assert!(!is_icmp(&error(libc::EBADF)) && !is_transient(&error(libc::EBADF)));
}

#[test]
fn how_datagrams_leave_to_a_group_is_as_asked() {
    use crate::options::{Interface, Multicast};
    let options = LinkOptions {
        multicast: Multicast {
            interface: Interface::Name("lo".to_owned()),
            ttl: 7,
            loopback: false,
        },
        ..LinkOptions::default()
    };
    let link = connect_with(&address("udp://239.255.0.9:9"), &options).unwrap();
    let fd = link.as_fd();
    let socket = SockRef::from(&fd);
    assert_eq!(socket.multicast_ttl_v4().unwrap(), 7);
    assert!(!socket.multicast_loop_v4().unwrap() && !socket.multicast_all_v4().unwrap());
    assert!(!socket.broadcast().unwrap());

    // A server may send to groups of both families.
    let server = ServerOptions {
        link: options,
        ..ServerOptions::default()
    };
    let (server, groups) = bind_datagram(&address("udp://[::]:0"), &server).unwrap();
    assert!(groups.is_empty());
    let fd = server.as_fd();
    let socket = SockRef::from(&fd);
    assert_eq!(socket.multicast_ttl_v4().unwrap(), 7);
    assert_eq!(socket.multicast_hops_v6().unwrap(), 7);
    assert!(!socket.multicast_loop_v4().unwrap() && !socket.multicast_loop_v6().unwrap());
    assert!(!socket.multicast_all_v4().unwrap() && !socket.multicast_all_v6().unwrap());
    let lo = sys::net::if_nametoindex("lo").unwrap();
    assert_eq!(socket.multicast_if_v6().unwrap(), lo);
}
