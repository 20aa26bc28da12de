//! Promises 14 and 15 for servers: they start where they should or say who is in the way, start again at
//! once, share a port if asked to, and accept without neglecting those who are there.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use socket2::{Domain, Socket, Type};
use tautline::{
    Address, ErrorKind, Handler, IoThread, Link, Opened, Received, Server, ServerOptions,
};

use crate::common::*;

over! {
    a_server_restarts_twenty_times_with_connections_open: tcp tls uds udp;
    who_holds_an_address_is_told: tcp tls uds udp;
    this_process_may_hold_it_itself: tcp tls uds udp;
    who_holds_every_address_of_a_port_is_told: tcp udp;
    a_connection_that_holds_the_port_is_told: tcp;
    four_servers_share_a_port_and_each_gets_some: tcp tls udp;
    a_port_is_shared_only_if_both_ask_for_it: tcp tls udp;
    what_has_no_port_shares_none: uds;
    an_ipv4_peer_of_a_server_for_both_appears_as_one: tcp udp;
    a_server_for_ipv6_alone_leaves_ipv4_to_others: tcp udp;
    v6_only_is_refused_where_it_means_nothing: tcp tls uds udp;
    newcomers_do_not_keep_an_open_link_waiting: tcp uds;
}

fn options(transport: Transport) -> ServerOptions {
    ServerOptions {
        link: framed(transport),
        ..ServerOptions::default()
    }
}

fn echo(
    io: &IoThread,
    address: &Address,
    options: ServerOptions,
) -> Result<Server, tautline::Error> {
    io.listen(address, options, |_: &Link| {
        Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap())
    })
}

fn port_of(address: &Address) -> u16 {
    match address {
        Address::Tcp { port, .. } | Address::Udp { port, .. } => *port,
        other => panic!("{other} has no port"),
    }
}

/// This host and port on the transport.
fn at(transport: Transport, host: &str, port: u16) -> Address {
    let scheme = match transport {
        Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        Transport::Udp => "udp",
        Transport::Uds | Transport::Serial => panic!("it has no ports"),
    };
    format!("{scheme}://{host}:{port}").parse().unwrap()
}

fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn ask(io: &IoThread, address: &Address, transport: Transport) {
    let (handler, inbox) = recorder();
    let link = io.connect(address, framed(transport), handler).unwrap();
    inbox.expect_opened();
    link.send(b"hello").unwrap();
    assert_eq!(inbox.expect_message(), b"hello");
}

fn a_server_restarts_twenty_times_with_connections_open(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let mut address = place.address.clone();
    for life in 0..20 {
        let server = echo(&io, &address, options(transport)).unwrap();
        // The port that the kernel chose, from the second life on.
        address = server.local_address();
        let links: Vec<_> = (0..5)
            .map(|_| {
                let (handler, inbox) = recorder();
                let link = io.connect(&address, framed(transport), handler).unwrap();
                inbox.expect_opened();
                link.send(b"hello").unwrap();
                assert_eq!(inbox.expect_message(), b"hello");
                (link, inbox)
            })
            .collect();
        match life % 3 {
            0 => drop(server),
            1 => server.abort(),
            // We end first: on TCP it is our port that stays in TIME_WAIT.
            _ => assert!(server.close(WATCHDOG).queued.is_zero()),
        }
        if transport.is_stream() {
            for (_, inbox) in &links {
                inbox.skip_to_closed();
            }
        }
    }
}

/// A process that listens, until it is dropped.
struct OtherProcess {
    child: Child,
    /// Open as long as the other may want to print.
    _told: BufReader<ChildStdout>,
    address: Address,
}

impl OtherProcess {
    fn start(test: &str, address: &Address) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(HOLD, address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let address = told
            .by_ref()
            .lines()
            .find_map(|line| Some(line.unwrap().split_once("holding ")?.1.parse().unwrap()));
        Self {
            child,
            _told: told,
            address: address.expect("it says where it listens"),
        }
    }

    /// In that process: listens, says where, and waits for its end.
    fn be(transport: Transport) -> bool {
        let Ok(address) = std::env::var(HOLD) else {
            return false;
        };
        let server = echo(&start(), &address.parse().unwrap(), options(transport)).unwrap();
        println!("holding {}", server.local_address());
        std::io::stdin().lines().for_each(drop);
        true
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

const HOLD: &str = "TAUTLINE_TEST_HOLD";

fn expect_in_use(address: &Address, transport: Transport, holder: &str) {
    let error = echo(&start(), address, options(transport)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    let sentence = format!("listen on {address}: bind: address in use: {holder}; ");
    assert!(error.to_string().starts_with(&sentence), "{error}");
    assert_eq!(
        error.io_error().unwrap().raw_os_error(),
        Some(libc::EADDRINUSE)
    );
}

fn who_holds_an_address_is_told(transport: Transport) {
    let name = match transport {
        Transport::Tls => "serving::who_holds_an_address_is_told::tls",
        Transport::Tcp => "serving::who_holds_an_address_is_told::tcp",
        Transport::Uds => "serving::who_holds_an_address_is_told::uds",
        Transport::Udp => "serving::who_holds_an_address_is_told::udp",
        Transport::Serial => panic!("nobody listens there"),
    };
    if OtherProcess::be(transport) {
        return;
    }
    let place = fresh(transport);
    let other = OtherProcess::start(name, &place.address);
    let id = other.child.id();
    // What the kernel keeps of a name is 15 bytes.
    let comm = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap();
    let holder = format!("held by {} (pid {id})", comm.trim_end());
    expect_in_use(&other.address, transport, &holder);
}

fn this_process_may_hold_it_itself(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let server = echo(&io, &place.address, options(transport)).unwrap();
    expect_in_use(
        &server.local_address(),
        transport,
        "held by this process itself",
    );
}

fn who_holds_every_address_of_a_port_is_told(transport: Transport) {
    let io = start();
    let server = echo(&io, &at(transport, "0.0.0.0", 0), options(transport)).unwrap();
    let address = at(transport, "127.0.0.1", port_of(&server.local_address()));
    expect_in_use(&address, transport, "held by this process itself");
    ask(&io, &address, transport);
}

fn a_connection_that_holds_the_port_is_told(transport: Transport) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let address = Address::tcp(client.local_addr().unwrap());
    expect_in_use(&address, transport, "held by this process itself");
    // Bound, but neither listening nor connected: in no table.
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    bound.bind(&anywhere.into()).unwrap();
    let address = Address::tcp(bound.local_addr().unwrap().as_socket().unwrap());
    expect_in_use(
        &address,
        transport,
        "held by a socket that /proc/net does not list",
    );
}

/// Clients spread over the servers of a port by a hash of their own port: even over many.
const CLIENTS: usize = 400;

fn four_servers_share_a_port_and_each_gets_some(transport: Transport) {
    let shared = || ServerOptions {
        reuse_port: true,
        ..options(transport)
    };
    let ios = [start(), start(), start(), start()];
    let mut address = fresh(transport).address;
    let servers: Vec<_> = ios
        .iter()
        .map(|io| {
            let server = echo(io, &address, shared()).unwrap();
            address = server.local_address();
            server
        })
        .collect();
    let client_io = start();
    let links: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (handler, inbox) = recorder();
            let link = client_io
                .connect(&address, framed(transport), handler)
                .unwrap();
            inbox.expect_opened();
            link.send(b"hello").unwrap();
            assert_eq!(inbox.expect_message(), b"hello");
            link
        })
        .collect();
    let got: Vec<_> = servers
        .iter()
        .map(|server| server.statistics().accepted)
        .collect();
    assert_eq!(got.iter().sum::<u64>(), CLIENTS as u64, "{got:?}");
    // That one of them gets none has a chance of (3/4)^400.
    assert!(got.iter().all(|got| *got > 0), "{got:?}");
    drop(links);
}

fn a_port_is_shared_only_if_both_ask_for_it(transport: Transport) {
    let io = start();
    for (first_asks, second_asks) in [(true, false), (false, true)] {
        let asking = |reuse_port| ServerOptions {
            reuse_port,
            ..options(transport)
        };
        let first = echo(&io, &fresh(transport).address, asking(first_asks)).unwrap();
        let error = echo(&io, &first.local_address(), asking(second_asks)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddressInUse);
    }
}

fn expect_refused(address: &Address, name: &str, options: ServerOptions) {
    let error = echo(&start(), address, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(
        error.to_string().starts_with(&format!("{name}: ")),
        "{error}"
    );
}

fn what_has_no_port_shares_none(transport: Transport) {
    let options = ServerOptions {
        reuse_port: true,
        ..options(transport)
    };
    expect_refused(&fresh(transport).address, "reuse_port", options);
}

/// Tells the addresses of whoever opens.
struct Addresses(mpsc::Sender<Opened>);

impl Handler for Addresses {
    fn opened(&mut self, link: &Link, opened: &Opened) {
        assert_eq!(link.peer_address(), opened.peer);
        self.0.send(opened.clone()).unwrap();
    }

    fn message(&mut self, peer: &Link, message: &[u8], _: Received) {
        peer.send(message).unwrap();
    }
}

fn telling_addresses(
    io: &IoThread,
    address: &Address,
    options: ServerOptions,
) -> (Server, Receiver<Opened>) {
    let (tell, told) = mpsc::channel();
    let accept = move |_: &Link| Ok(Addresses(tell.clone()));
    (io.listen(address, options, accept).unwrap(), told)
}

fn an_ipv4_peer_of_a_server_for_both_appears_as_one(transport: Transport) {
    if !has_ipv6() {
        return;
    }
    let io = start();
    let (server, opened) = telling_addresses(&io, &at(transport, "[::]", 0), options(transport));
    let port = port_of(&server.local_address());
    for host in ["127.0.0.1", "[::1]"] {
        let (handler, inbox) = recorder();
        let address = at(transport, host, port);
        let link = io.connect(&address, framed(transport), handler).unwrap();
        inbox.expect_opened();
        link.send(b"hello").unwrap();
        assert_eq!(inbox.expect_message(), b"hello");
        let opened = opened.recv_timeout(WATCHDOG).unwrap();
        assert_eq!(opened.peer, link.local_address());
        assert_eq!(opened.local, Some(address));
    }
}

fn a_server_for_ipv6_alone_leaves_ipv4_to_others(transport: Transport) {
    if !has_ipv6() {
        return;
    }
    let io = start();
    let alone = ServerOptions {
        v6_only: true,
        ..options(transport)
    };
    let (server, six) = telling_addresses(&io, &at(transport, "[::]", 0), alone);
    let port = port_of(&server.local_address());
    let (_other, four) =
        telling_addresses(&io, &at(transport, "0.0.0.0", port), options(transport));
    ask(&io, &at(transport, "[::1]", port), transport);
    ask(&io, &at(transport, "127.0.0.1", port), transport);
    let peers = |opened: &Receiver<Opened>| opened.try_iter().count();
    assert_eq!((peers(&six), peers(&four)), (1, 1));
}

fn v6_only_is_refused_where_it_means_nothing(transport: Transport) {
    let alone = || ServerOptions {
        v6_only: true,
        ..options(transport)
    };
    expect_refused(&fresh(transport).address, "v6_only", alone());
    if transport != Transport::Uds {
        expect_refused(&at(transport, "[::1]", 0), "v6_only", alone());
    }
}

/// All of them wait in the backlog before the server looks, and so does the message.
fn newcomers_do_not_keep_an_open_link_waiting(transport: Transport) {
    let io = start();
    let place = fresh(transport);
    let (tell, told) = mpsc::channel();
    let server = io
        .listen(&place.address, options(transport), move |_: &Link| {
            let tell = tell.clone();
            tell.send("newcomer").unwrap();
            Ok(move |_: &Link, _: &[u8], _: Received| tell.send("message").unwrap())
        })
        .unwrap();
    let address = server.local_address();
    let mut there = RawStream::connect(&address);
    there.write_frame(b"here I am");
    for expected in ["newcomer", "message"] {
        assert_eq!(told.recv_timeout(WATCHDOG).unwrap(), expected);
    }
    let held = hold(&io);
    let flood: Vec<_> = (0..320).map(|_| RawStream::connect(&address)).collect();
    there.write_frame(b"and now?");
    drop(held);
    let mut before = 0;
    while told.recv_timeout(WATCHDOG).unwrap() == "newcomer" {
        before += 1;
    }
    // The policy: 64 at a time, and then all others have their turn. Twice, if the news of the
    // listener came without that of the message.
    assert!(before <= 128, "{before} were accepted first");
    for _ in before..flood.len() {
        assert_eq!(told.recv_timeout(WATCHDOG).unwrap(), "newcomer");
    }
    assert_eq!(server.statistics().connected, 321);
}
