//! TCP.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use socket2::SockRef;
use tautline_session::{Framing, Strategy};

use super::*;
use crate::options::Keepalive;

#[test]
fn header_and_payload_arrive_as_one_and_come_back() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    assert_eq!(client.send(&[0, 0, 0, 5], b"hello", Wait::No).unwrap(), 9);
    expect_bytes(&peer, b"\0\0\0\x05hello");
    assert_eq!(peer.send(b"", b"back", Wait::No).unwrap(), 4);
    expect_bytes(&client, b"back");
}

#[test]
fn both_ends_know_their_addresses() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    assert_eq!(client.peer_address(), Some(listener.local_address()));
    assert_eq!(peer.local_address(), Some(listener.local_address()));
    assert_eq!(peer.peer_address(), client.local_address());
    assert!(!listener.local_address().to_string().ends_with(":0"));
}

#[test]
fn ipv6_works_and_prints_in_brackets() {
    if !has_ipv6() {
        return;
    }
    let listener = listen_on("tcp://[::1]:0");
    let (client, peer) = pair(&listener);
    client.send(b"", b"six", Wait::No).unwrap();
    expect_bytes(&peer, b"six");
    let shown = listener.local_address().to_string();
    assert!(shown.starts_with("tcp://[::1]:"), "{shown}");
}

#[test]
fn the_ipv6_wildcard_takes_ipv4_peers_and_shows_them_as_such() {
    if !has_ipv6() {
        return;
    }
    let listener = listen_on("tcp://[::]:0");
    let client = connect(&on_port("127.0.0.1", &listener.local_address())).unwrap();
    let peer = accept(&listener);
    assert_eq!(peer.peer_address(), client.local_address());
    let shown = peer.peer_address().unwrap().to_string();
    assert!(shown.starts_with("tcp://127.0.0.1:"), "{shown}");
}

#[test]
fn a_name_is_resolved_and_a_listener_takes_one_too() {
    let listener = listen_on("tcp://localhost:0");
    assert!(!is_literal(&address("tcp://localhost:1")));
    assert!(is_literal(&listener.local_address()));
    let (client, peer) = pair(&listener);
    client.send(b"", b"named", Wait::No).unwrap();
    expect_bytes(&peer, b"named");
}

#[test]
fn an_unknown_name_says_so() {
    // RFC 2606: never registered.
    let error = resolve(&address("tcp://nobody.invalid:1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resolve);
    let shown = error.to_string();
    assert!(
        shown.starts_with("resolve tcp://nobody.invalid:1: "),
        "{shown}"
    );
    assert!(!shown.contains("lookup address information"), "{shown}");
}

#[test]
fn an_unknown_scope_says_so() {
    let error = resolve(&address("tcp://[fe80::1%nosuchif0]:1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resolve);
}

#[test]
fn a_scope_may_be_a_name_or_a_number() {
    let lo = sys::net::if_nametoindex("lo").unwrap();
    for scope in ["lo".to_owned(), lo.to_string()] {
        let found = resolve(&address(&format!("udp://[fe80::1%{scope}]:5"))).unwrap();
        let [Target::Inet(SocketAddr::V6(found))] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(found.scope_id(), lo);
        // And a socket's scope comes back as text.
        assert_eq!(
            Address::udp((*found).into()).to_string(),
            "udp://[fe80::1%lo]:5"
        );
    }
}

#[test]
fn nobody_connects_to_port_zero() {
    let error = resolve(&address("tcp://127.0.0.1:0")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidAddress);
    assert_eq!(
        error.to_string(),
        "connect to tcp://127.0.0.1:0: port 0 is for listening on a free port; \
         nobody can be reached there"
    );
}

#[test]
fn a_refused_connection_says_what_where_and_why() {
    // Bound, so that nobody else gets the port, and never listening.
    let mute = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    mute.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let vacant = mute.local_addr().unwrap().as_socket().unwrap();
    let error = connect(&Address::tcp(vacant)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert_eq!(
        error.to_string(),
        format!("connect to tcp://{vacant}: connection refused")
    );
}

#[test]
fn a_connect_that_is_still_under_way_is_no_error() {
    // A full backlog: the kernel drops the handshake's last packet and lets the client go on trying.
    let full = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    full.listen(0).unwrap();
    let to = Address::tcp(full.local_addr().unwrap().as_socket().unwrap());
    let target = resolve(&to).unwrap().remove(0);
    let mut waiting = Vec::new();
    let answer = loop {
        let (socket, connecting) = start_connect(&to, &target, &LinkOptions::default()).unwrap();
        assert_eq!(connecting, Connecting::InProgress);
        // On loopback a handshake is over before we can ask.
        if let Err(error) = finish_connect(&socket) {
            break error;
        }
        waiting.push(socket);
        assert!(waiting.len() < 100);
    };
    assert_eq!(answer.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_connection_to_itself_counts_as_refused() {
    // Bound first, so that it is sure to happen; the kernel does the same by chance when it draws
    // the port that is being connected to.
    let lonely = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    lonely
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let own = lonely.local_addr().unwrap();
    lonely.connect(&own).unwrap();
    let socket = Socket::new(lonely.into(), Kind::Tcp);
    assert_eq!(errno(finish_connect(&socket)), libc::ECONNREFUSED);
}

#[test]
fn a_taken_port_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let where_ = Address::tcp(taken.local_addr().unwrap());
    let error = listen(&where_, &ServerOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert_eq!(
        error.to_string(),
        format!(
            "listen on {where_}: bind: address in use: held by this process itself; \
             choose another port, or 0 for a free one"
        )
    );
}

#[test]
fn a_restarted_server_gets_its_port_while_old_connections_linger() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let where_ = listener.local_address();
    drop(listener);
    for _ in 0..20 {
        let listener = listen(&where_, &ServerOptions::default()).unwrap();
        let (client, peer) = pair(&listener);
        // The server's side ends first and so is the one that lingers in TIME_WAIT.
        drop(peer);
        expect_end(&client);
    }
}

#[test]
fn sockets_do_not_block_and_are_closed_on_exec() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    for fd in [client.as_fd(), peer.as_fd(), listener.as_fd()] {
        assert!(SockRef::from(&fd).nonblocking().unwrap());
        assert!(is_closed_on_exec(fd));
    }
    let mut buffer = [0; 16];
    for wait in [Wait::No, Wait::Block] {
        let error = client.recv(&mut buffer, wait).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}

fn is_closed_on_exec(fd: BorrowedFd<'_>) -> bool {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap();
    let flags = told
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .unwrap();
    let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
    flags & libc::O_CLOEXEC != 0
}

#[test]
fn options_reach_both_ends() {
    // 0 means that the system's default holds.
    for (tcp_nodelay, strategy, lowat) in [
        (true, Strategy::KeepLatest, 16_384),
        (false, Strategy::Reliable, 0),
    ] {
        let link = LinkOptions {
            tcp_nodelay,
            strategy,
            framing: Framing::length_prefix(),
            send_buffer_bytes: Some(20_000),
            receive_buffer_bytes: Some(30_000),
            ..LinkOptions::default()
        };
        let options = ServerOptions {
            link: link.clone(),
            ..ServerOptions::default()
        };
        let listener = listen(&address("tcp://127.0.0.1:0"), &options).unwrap();
        let client = connect_with(&listener.local_address(), &link).unwrap();
        let peer = accept(&listener);
        for fd in [client.as_fd(), peer.as_fd()] {
            let socket = SockRef::from(&fd);
            assert_eq!(socket.tcp_nodelay().unwrap(), tcp_nodelay);
            assert_eq!(socket.send_buffer_size().unwrap(), 40_000);
            assert_eq!(socket.recv_buffer_size().unwrap(), 60_000);
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), lowat);
        }
    }
}

#[test]
fn keepalive_and_the_user_timeout_reach_both_ends() {
    let link = LinkOptions {
        keepalive: Some(Keepalive {
            idle: Duration::from_secs(7),
            interval: Duration::from_secs(3),
            count: 5,
        }),
        tcp_user_timeout: Some(Duration::from_millis(1234)),
        ..LinkOptions::default()
    };
    let options = ServerOptions {
        link: link.clone(),
        ..ServerOptions::default()
    };
    let listener = listen(&address("tcp://127.0.0.1:0"), &options).unwrap();
    let client = connect_with(&listener.local_address(), &link).unwrap();
    let peer = accept(&listener);
    for fd in [client.as_fd(), peer.as_fd()] {
        let socket = SockRef::from(&fd);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(7));
        let interval = socket.tcp_keepalive_interval().unwrap();
        assert_eq!(interval, Duration::from_secs(3));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 5);
        let timeout = socket.tcp_user_timeout().unwrap();
        assert_eq!(timeout, Some(Duration::from_millis(1234)));
    }
    // Left alone they are off.
    let plain = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&plain);
    for fd in [client.as_fd(), peer.as_fd()] {
        assert!(!SockRef::from(&fd).keepalive().unwrap());
        assert_eq!(SockRef::from(&fd).tcp_user_timeout().unwrap(), None);
    }
}

#[test]
fn a_buffer_that_the_kernel_would_clamp_is_refused_by_name() {
    let huge = LinkOptions {
        receive_buffer_bytes: Some(1 << 30),
        ..LinkOptions::default()
    };
    let listener = listen_on("tcp://127.0.0.1:0");
    let error = connect_with(&listener.local_address(), &huge).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    let shown = error.to_string();
    assert!(
        shown.starts_with("receive_buffer_bytes: the system grants "),
        "{shown}"
    );
    assert!(
        shown.ends_with(" of 1073741824; its limit is net.core.rmem_max"),
        "{shown}"
    );

    let tiny = LinkOptions {
        send_buffer_bytes: Some(1),
        ..LinkOptions::default()
    };
    let shown = message(connect_with(&listener.local_address(), &tiny));
    assert!(
        shown.starts_with("send_buffer_bytes: 1 is less than the system's least, "),
        "{shown}"
    );
}

#[test]
fn a_full_socket_takes_part_and_then_says_so() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    let block = vec![1; 1 << 20];
    let mut written = 0;
    let error = loop {
        match client.send(&[2; 4], &block, Wait::No) {
            Ok(bytes) => written += bytes,
            Err(error) => break error,
        }
        assert!(written < 1 << 30, "a socket without bottom");
    };
    assert!(is_transient(&error));
    let now = Some(Instant::now());
    assert!(!client.wait_ready(WRITE, now).unwrap().write);

    let mut buffer = vec![0; 1 << 16];
    let mut read = 0;
    while read < written {
        assert!(peer.wait_ready(READ, deadline()).unwrap().read);
        read += peer.recv(&mut buffer, Wait::No).unwrap().bytes;
    }
    assert_eq!(read, written);
    assert!(client.wait_ready(WRITE, deadline()).unwrap().write);
}

#[test]
fn one_side_may_end_while_the_other_goes_on() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    client.send(b"", b"that was all", Wait::No).unwrap();
    client.shutdown_write().unwrap();
    expect_bytes(&peer, b"that was all");
    expect_end(&peer);
    peer.send(b"", b"thank you", Wait::No).unwrap();
    expect_bytes(&client, b"thank you");
}

#[test]
fn shutdown_wakes_whoever_waits_and_may_be_repeated() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.wait_ready(READ, deadline()).unwrap().read);
        client.shutdown();
        assert!(waiting.join().unwrap());
    });
    client.shutdown();
    expect_end(&client);
    expect_end(&peer);
    // Nothing is raised: a send to nobody is an error like any other.
    assert_eq!(errno(client.send(b"", b"x", Wait::No)), libc::EPIPE);
    assert_eq!(errno(client.send(b"h", b"x", Wait::No)), libc::EPIPE);
}

#[test]
fn a_reset_by_the_peer_is_an_error_once() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    client.send(b"", b"unread", Wait::No).unwrap();
    assert!(peer.wait_ready(READ, deadline()).unwrap().read);
    // Closing with data unread resets.
    drop(peer);
    assert!(client.wait_ready(READ, deadline()).unwrap().read);
    assert_eq!(errno(client.recv(&mut [0; 8], Wait::No)), libc::ECONNRESET);
    assert!(client.take_error().is_none());
}

#[test]
fn what_the_kernel_holds_is_bytes_without_the_end_of_stream() {
    // The peer's kernel acknowledges at once, so a peer with a tiny window is asked to hold back.
    let narrow = ServerOptions {
        link: LinkOptions {
            receive_buffer_bytes: Some(4096),
            ..LinkOptions::default()
        },
        ..ServerOptions::default()
    };
    let listener = listen(&address("tcp://127.0.0.1:0"), &narrow).unwrap();
    let (client, peer) = pair(&listener);
    assert_eq!(client.unsent_bytes(), Some(0));
    let written = client.send(b"", &vec![3; 200_000], Wait::No).unwrap();
    let held = client.unsent_bytes().unwrap();
    assert!(held > 0 && held < written as u64, "{held} of {written}");

    client.shutdown_write().unwrap();
    let after = client.unsent_bytes().unwrap();
    assert!(
        after <= held,
        "{after} is more than {held}: the end of stream counts as no byte"
    );

    let mut buffer = vec![0; 1 << 16];
    let mut read = 0;
    while read < written {
        assert!(peer.wait_ready(READ, deadline()).unwrap().read);
        read += peer.recv(&mut buffer, Wait::No).unwrap().bytes;
    }
    expect_end(&peer);
    drop(peer);
    assert!(client.wait_ready(READ, deadline()).unwrap().read);
    assert_eq!(client.unsent_bytes(), Some(0));
}

#[test]
fn blocking_is_a_choice_and_its_timeout_is_would_block() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, peer) = pair(&listener);
    client.set_blocking(true).unwrap();
    // No time at all would mean for ever to the kernel.
    client.set_receive_timeout(Duration::ZERO).unwrap();
    let mut buffer = [0; 16];
    let error = client.recv(&mut buffer, Wait::Block).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    // MSG_DONTWAIT still does not wait.
    client.set_receive_timeout(WATCHDOG).unwrap();
    let error = client.recv(&mut buffer, Wait::No).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    std::thread::scope(|scope| {
        scope.spawn(|| peer.send(b"", b"late", Wait::No).unwrap());
        let arrived = client.recv(&mut buffer, Wait::Block).unwrap();
        assert_eq!(&buffer[..arrived.bytes], b"late");
    });
}

#[test]
fn waiting_ends_at_the_deadline_with_nothing() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let (client, _peer) = pair(&listener);
    let both = PollInterest {
        read: true,
        write: true,
    };
    let soon = Some(Instant::now() + Duration::from_millis(5));
    let nothing = client.wait_ready(READ, soon).unwrap();
    assert_eq!((nothing.read, nothing.write), (false, false));
    let writable = client.wait_ready(both, deadline()).unwrap();
    assert_eq!((writable.read, writable.write), (false, true));
}

#[test]
fn out_of_descriptors_the_connection_waits_until_there_is_one() {
    run_again(
        "ulimit -n 40",
        "transport::tests::tcp::with_few_descriptors_the_connection_waits",
    );
}

#[test]
#[ignore = "takes every descriptor of its process: run by the test above"]
fn with_few_descriptors_the_connection_waits() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let client = connect(&listener.local_address()).unwrap();
    client.send(b"", b"patience", Wait::No).unwrap();
    assert!(listener.wait_ready(READ, deadline()).unwrap().read);
    let mut hoard = Vec::new();
    while let Ok(descriptor) = listener.as_fd().try_clone_to_owned() {
        hoard.push(descriptor);
    }
    assert!(is_shortage(&listener.accept().unwrap_err()));
    hoard.pop();
    expect_bytes(&listener.accept().unwrap().socket, b"patience");
}

/// Asked for its peer afterwards, such a socket says that it is not connected.
#[test]
fn a_peer_that_was_gone_before_it_was_accepted_is_known_by_its_address() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let client = connect(&listener.local_address()).unwrap();
    let address = client.local_address();
    let fd = client.as_fd();
    SockRef::from(&fd).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    assert!(listener.wait_ready(READ, deadline()).unwrap().read);
    let accepted = listener.accept().unwrap();
    assert!(address.is_some());
    assert_eq!(accepted.peer, address);
    assert_eq!(accepted.socket.peer_address(), None);
}

#[test]
fn accepting_from_nobody_is_would_block() {
    let listener = listen_on("tcp://127.0.0.1:0");
    assert_eq!(listener.kind(), Kind::Tcp);
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_foreign_program_can_be_the_other_end() {
    let listener = listen_on("tcp://127.0.0.1:0");
    let Address::Tcp { port, .. } = listener.local_address() else {
        panic!("not tcp");
    };
    let foreign = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let peer = accept(&listener);
    peer.send(b"", b"to you", Wait::No).unwrap();
    let mut buffer = [0; 6];
    (&foreign).read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"to you");
}

#[test]
fn listening_for_datagrams_is_another_call() {
    let error = listen(&address("udp://127.0.0.1:0"), &ServerOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidAddress);
}

#[test]
fn shortage_is_no_fault_of_the_connection() {
    let error = io::Error::from_raw_os_error;
    for number in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS] {
        assert!(is_shortage(&error(number)));
        assert!(!died_while_waiting(&error(number)));
    }
    assert!(died_while_waiting(&error(libc::ECONNABORTED)));
    assert!(!died_while_waiting(&error(libc::EOPNOTSUPP)));
    assert!(!is_shortage(&error(libc::EAGAIN)));
}

/// The same port on another host.
fn on_port(host: &str, of: &Address) -> Address {
    match of {
        Address::Tcp { port, .. } => Address::Tcp {
            host: host.to_owned(),
            port: *port,
        },
        other => panic!("{other}"),
    }
}
