//! Promises 9 and 14 against datagrams that never end and those of strangers: everybody else has its
//! turn, no table grows, and a link hears its peer alone.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tautline::{
    Address, DirectLink, DirectListener, IoThread, Link, LinkOptions, Reason, Received,
    ServerOptions,
};

use crate::common::*;

over! {
    a_busy_datagram_server_leaves_the_others_their_turn: udp;
    a_busy_datagram_link_leaves_the_others_their_turn: udp;
    a_busy_datagram_socket_leaves_timers_their_time: udp;
    senders_without_number_fill_no_more_than_the_table: udp;
    a_datagram_link_hears_its_peer_alone: udp;
}

/// A plain socket that talks to this address.
fn plain(to: &Address) -> UdpSocket {
    let Address::Udp { host, port } = to else {
        panic!("{to} is no datagram address");
    };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket.connect((host.as_str(), *port)).unwrap();
    socket
}

/// What keeps a socket busy from inside its own callbacks: each datagram that is handed out is sent
/// again, so that there is always more to read.
#[derive(Clone)]
struct Flood {
    /// Sends to the socket that is kept busy.
    again: Arc<UdpSocket>,
    /// Sends to another link of the same thread, which answers nothing but counts.
    ping: Arc<UdpSocket>,
    /// Datagrams since the ping was sent; none before the first.
    since_ping: Arc<AtomicU64>,
}

impl Flood {
    fn feed(&self, message: &[u8]) {
        self.again.send(message).unwrap();
        if self.since_ping.fetch_add(1, Ordering::SeqCst) == 0 {
            self.ping.send(b"ping").unwrap();
        }
    }

    fn begin(&self, datagrams: usize) {
        for _ in 0..datagrams {
            self.again.send(b"again").unwrap();
        }
    }
}

/// A link on this thread that tells with each ping how many datagrams another socket had before it.
fn pinged(io: &IoThread, since_ping: &Arc<AtomicU64>) -> (Link, UdpSocket, mpsc::Receiver<u64>) {
    let (tell, shares) = mpsc::channel();
    let since_ping = Arc::clone(since_ping);
    let pinging = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = Address::udp(pinging.local_addr().unwrap());
    let handler = move |_: &Link, _: &[u8], _: Received| {
        // The test may be over.
        let _ = tell.send(since_ping.swap(0, Ordering::SeqCst));
    };
    let link = io
        .connect(&address, LinkOptions::default(), handler)
        .unwrap();
    link.wait_open(WATCHDOG).unwrap();
    let Some(Address::Udp { host, port }) = link.local_address() else {
        panic!("an open UDP link has an address");
    };
    pinging.connect((host.as_str(), port)).unwrap();
    (link, pinging, shares)
}

/// A turn gives a datagram socket 64 datagrams when the kernel tells of them, and as many when the
/// turn before left work; and a ping comes at worst in the turn after the one in which it was sent.
const SHARE: u64 = 64;

fn expect_shares(shares: &mpsc::Receiver<u64>, share: u64) {
    let most = (0..1000)
        .map(|_| shares.recv_timeout(WATCHDOG).unwrap())
        .max();
    assert!(
        most <= Some(4 * share),
        "{most:?} datagrams while another link waited"
    );
}

/// A server that is kept busy from now on, and whoever else is to be on its thread.
fn busy_server(io: &IoThread) -> (tautline::Server, Flood, Link, mpsc::Receiver<u64>) {
    let since_ping = Arc::default();
    let (link, ping, shares) = pinged(io, &since_ping);
    let (give, given) = mpsc::channel::<Flood>();
    let mut given = Some(given);
    let accept = move |_: &Link| {
        let flood = given.take().ok_or("one is enough")?;
        let flood = flood.recv_timeout(WATCHDOG).unwrap();
        Ok(move |_: &Link, message: &[u8], _: Received| flood.feed(message))
    };
    let anywhere = "udp://127.0.0.1:0".parse().unwrap();
    let server = io
        .listen(&anywhere, ServerOptions::default(), accept)
        .unwrap();
    let flood = Flood {
        again: Arc::new(plain(&server.local_address())),
        ping: Arc::new(ping),
        since_ping,
    };
    give.send(flood.clone()).unwrap();
    // More than a turn's share, and no more than the kernel holds.
    flood.begin(150);
    (server, flood, link, shares)
}

fn a_busy_datagram_server_leaves_the_others_their_turn(_: Transport) {
    let io = start();
    let (_server, _flood, _link, shares) = busy_server(&io);
    expect_shares(&shares, SHARE);
}

fn a_busy_datagram_link_leaves_the_others_their_turn(transport: Transport) {
    let io = start();
    let since_ping = Arc::default();
    let (_link, ping, shares) = pinged(&io, &since_ping);
    let (give, given) = mpsc::channel::<Flood>();
    let mut flood = None;
    let (handler, _inbox) = recorder_that(move |_, told| {
        if let Told::Message(message, _) = told {
            let flood = flood.get_or_insert_with(|| given.recv_timeout(WATCHDOG).unwrap());
            flood.feed(message);
        }
    });
    let (_busy, peer) = reach(&io, transport, LinkOptions::default(), handler);
    let RawPeer::Datagram(again) = peer else {
        panic!("it is a datagram link");
    };
    let flood = Flood {
        again: Arc::new(again),
        ping: Arc::new(ping),
        since_ping,
    };
    give.send(flood.clone()).unwrap();
    flood.begin(150);
    expect_shares(&shares, SHARE);
}

/// A connect that will not succeed is given up in time, and a silent peer of another server expires,
/// while a socket of the same thread is busy.
fn a_busy_datagram_socket_leaves_timers_their_time(transport: Transport) {
    let io = start();
    let (_server, _flood, _link, shares) = busy_server(&io);
    shares.recv_timeout(WATCHDOG).unwrap();
    let options = ServerOptions {
        peer_expiry: Duration::from_millis(50),
        ..ServerOptions::default()
    };
    let (handler, inbox) = recorder();
    let served = Served::listen(&io, transport, options, vec![handler]);
    plain(&served.server.local_address())
        .send(b"only once")
        .unwrap();
    inbox.expect_opened();
    assert_eq!(inbox.expect_message(), b"only once");
    assert!(matches!(inbox.expect_end().reason, Reason::Expired));
    shares.recv_timeout(WATCHDOG).unwrap();
    // It is still kept busy.
    shares.try_iter().count();
    shares.recv_timeout(WATCHDOG).unwrap();
}

/// Each from a port of its own: a table that took them all would grow with whoever forges addresses.
fn senders_without_number_fill_no_more_than_the_table(_: Transport) {
    const SENDERS: u64 = 5000;
    let io = start();
    let options = ServerOptions {
        connection_limit: 50,
        ..ServerOptions::default()
    };
    let accept =
        |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
    let anywhere = "udp://127.0.0.1:0".parse().unwrap();
    let server = io.listen(&anywhere, options, accept).unwrap();
    let address = server.local_address();
    let known = plain(&address);
    let expect_answer = || {
        known.send(b"hello").unwrap();
        assert_eq!(known.recv(&mut [0; 16]).unwrap(), 5);
    };
    expect_answer();
    for number in 0..SENDERS {
        plain(&address).send(b"spray").unwrap();
        if number % 50 == 0 {
            // It is never silent for as long as others may take its place after; and all before it have
            // been looked at when it is answered.
            expect_answer();
            assert!(server.statistics().connected <= 50);
        }
    }
    expect_answer();
    let statistics = server.statistics();
    assert!(statistics.connected <= 50, "{}", statistics.connected);
    assert!(statistics.turned_away > 0);
    // Where a port came twice it was a known peer's.
    assert!(statistics.accepted + statistics.turned_away <= SENDERS + 1);
}

/// Whoever guesses its port is not listened to, whichever driver it has.
fn a_datagram_link_hears_its_peer_alone(transport: Transport) {
    let io = start();
    let (handler, inbox) = recorder();
    let (link, mut peer) = reach(&io, transport, LinkOptions::default(), handler);
    inbox.expect_opened();
    let stranger = plain(&link.local_address().unwrap());
    let answerer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = Address::udp(answerer.local_addr().unwrap());
    let mut direct = DirectLink::connect(&address, LinkOptions::default()).unwrap();
    let also_strange = plain(&direct.local_address().unwrap());
    for _ in 0..10 {
        // The kernel may say that there is nobody.
        let _ = stranger.send(b"psst");
        let _ = also_strange.send(b"psst");
    }
    peer.write_message(b"it is me");
    assert_eq!(inbox.expect_message(), b"it is me");
    direct.send(b"hello").unwrap();
    let (_, from) = answerer.recv_from(&mut [0; 16]).unwrap();
    answerer.send_to(b"it is me", from).unwrap();
    let soon = Some(Instant::now() + WATCHDOG);
    assert_eq!(direct.recv(soon).unwrap(), b"it is me");

    // The first who comes is the one peer of a direct listener, and the rest are strangers from then on.
    let anywhere = "udp://127.0.0.1:0".parse().unwrap();
    let mut listener = DirectListener::bind(&anywhere, LinkOptions::default()).unwrap();
    let [first, second] = [(), ()].map(|()| plain(&listener.local_address()));
    first.send(b"first").unwrap();
    second.send(b"second").unwrap();
    first.send(b"first again").unwrap();
    let mut link = listener.accept(soon).unwrap();
    assert_eq!(link.recv(soon).unwrap(), b"first");
    assert_eq!(link.recv(soon).unwrap(), b"first again");
    let _ = second.send(b"second");
    first.send(b"still first").unwrap();
    assert_eq!(link.recv(soon).unwrap(), b"still first");
}
