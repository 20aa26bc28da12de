//! Connections to test on: both ends ours, or one of them a raw peer.

use std::net::UdpSocket;
use std::sync::mpsc::{self, Receiver, Sender};

use tautline::{
    Address, Ended, Handler, IoOptions, IoThread, Link, LinkOptions, Received, Server,
    ServerOptions, Tls,
};

use super::{
    Cable, Inbox, Place, RawListener, RawPeer, RawStream, Recorder, Transport, WATCHDOG, fresh,
    recorder, until,
};

pub(crate) fn start() -> IoThread {
    IoThread::start(IoOptions::default()).unwrap()
}

/// The default options, with borders kept.
pub(crate) fn framed(transport: Transport) -> LinkOptions {
    LinkOptions {
        framing: transport.framing(),
        tls: transport.tls(),
        ..LinkOptions::default()
    }
}

/// The same options with what TLS needs, where that is the transport and a test does not say it.
pub(crate) fn over_tls(transport: Transport, options: LinkOptions) -> LinkOptions {
    if options.tls != Tls::default() {
        return options;
    }
    LinkOptions {
        tls: transport.tls(),
        ..options
    }
}

/// An address where nobody listens.
pub(crate) fn nobody() -> Address {
    let name = format!("uds://@tautline-nobody-{}", std::process::id());
    name.parse().unwrap()
}

/// A link of ours, open, to a raw peer that accepted it.
pub(crate) fn client_of_raw(
    io: &IoThread,
    listener: &RawListener,
    options: LinkOptions,
    handler: Recorder,
) -> (Link, RawStream) {
    let link = io.connect(&listener.address(), options, handler).unwrap();
    let peer = listener.accept();
    // A handler that ends it at once is at liberty to.
    let _ = link.wait_open(WATCHDOG);
    (link, peer)
}

/// A link whose peer does not read, with little room in the kernel; its queue is full.
pub(crate) fn stalled(io: &IoThread, transport: Transport, handler: Recorder) -> (Link, RawStream) {
    let listener = RawListener::bind(transport).with_receive_buffer(4096);
    let options = LinkOptions {
        queue_limit_bytes: 10_000,
        send_buffer_bytes: transport.send_buffer(16 * 1024),
        ..framed(transport)
    };
    let (link, peer) = client_of_raw(io, &listener, options, handler);
    let sender = link.clone();
    // In a callback, which gives up when the kernel is full and the queue too.
    inside_callback(io, move || while sender.send(&[0; 996]).is_ok() {});
    (link, peer)
}

/// A link of ours, open, to a raw peer on any transport.
pub(crate) fn reach(
    io: &IoThread,
    transport: Transport,
    options: LinkOptions,
    handler: Recorder,
) -> (Link, RawPeer) {
    let options = over_tls(transport, options);
    if transport.is_stream() {
        let listener = RawListener::bind(transport);
        let (link, peer) = client_of_raw(io, &listener, options, handler);
        return (link, RawPeer::Stream(peer));
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    let address = Address::udp(socket.local_addr().unwrap());
    let link = io.connect(&address, options, handler).unwrap();
    link.wait_open(WATCHDOG).unwrap();
    let Some(Address::Udp { host, port }) = link.local_address() else {
        panic!("an open UDP link has an address");
    };
    socket.connect((host.as_str(), port)).unwrap();
    (link, RawPeer::Datagram(socket))
}

/// A server of ours with one peer, which is raw.
pub(crate) fn server_of_raw(
    io: &IoThread,
    transport: Transport,
    options: ServerOptions,
    handler: Recorder,
) -> (Served, RawStream) {
    let served = Served::listen(io, transport, options, vec![handler]);
    let raw = RawStream::connect(&served.server.local_address());
    (served, raw)
}

/// A server with a handler ready for each peer that will come; whoever comes after is refused.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) server: Server,
    peers: Receiver<Link>,
    place: Place,
}

impl Served {
    pub(crate) fn listen(
        io: &IoThread,
        transport: Transport,
        options: ServerOptions,
        handlers: Vec<Recorder>,
    ) -> Self {
        let place = fresh(transport);
        let options = ServerOptions {
            link: over_tls(transport, options.link),
            ..options
        };
        let (accepted, peers) = mpsc::channel();
        let mut handlers = handlers.into_iter();
        let server = io
            .listen(&place.address, options, move |peer: &Link| {
                let handler = handlers.next().ok_or("no handler is left")?;
                // The test may be over.
                let _ = accepted.send(peer.clone());
                Ok(handler)
            })
            .unwrap();
        Self {
            server,
            peers,
            place,
        }
    }

    /// Waits until so many peers are connected: one that has ended is counted a moment longer than its
    /// handler lives.
    pub(crate) fn expect_connected(&self, expected: usize) {
        until("so many peers are connected", || {
            self.server.statistics().connected == expected
        });
    }

    /// The server alone, and the place of its socket.
    pub(crate) fn split(self) -> (Server, Place) {
        (self.server, self.place)
    }

    /// The next peer that was accepted, and has opened.
    pub(crate) fn peer(&self) -> Link {
        let peer = self.peers.recv_timeout(WATCHDOG).unwrap();
        // It was given to us by the accept callback. Its handler may end it at once.
        let _ = peer.wait_open(WATCHDOG);
        peer
    }
}

/// A client and a server of ours, each on a thread of its own, connected.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: Link,
    pub(crate) client_inbox: Inbox,
    pub(crate) peer: Link,
    pub(crate) peer_inbox: Inbox,
    /// `None` where there are no servers: both ends are clients.
    pub(crate) served: Option<Served>,
    pub(crate) client_io: IoThread,
    pub(crate) server_io: IoThread,
}

impl Pair {
    /// The server, where there is one.
    pub(crate) fn server(&self) -> &Server {
        &self
            .served
            .as_ref()
            .expect("this transport has servers")
            .server
    }

    /// Both ends with the same options, recorders that only record, and `opened` told already.
    pub(crate) fn open(transport: Transport, options: &LinkOptions) -> Self {
        let (client, client_inbox) = recorder();
        let (peer, peer_inbox) = recorder();
        let pair = Self::connect(
            transport,
            options,
            options,
            (client, client_inbox),
            (peer, peer_inbox),
        );
        pair.client_inbox.expect_opened();
        pair.peer_inbox.expect_opened();
        if !transport.is_stream() {
            assert_eq!(pair.peer_inbox.expect_message(), GREETING);
        }
        pair
    }

    /// Connected, with nothing taken out of the inboxes.
    pub(crate) fn connect(
        transport: Transport,
        client_options: &LinkOptions,
        peer_options: &LinkOptions,
        (client_handler, client_inbox): (Recorder, Inbox),
        (peer_handler, peer_inbox): (Recorder, Inbox),
    ) -> Self {
        let (client_io, server_io) = (start(), start());
        if transport == Transport::Serial {
            let cable = Cable::new();
            let [here, there] = cable.ends();
            let client = client_io
                .connect(&here, client_options.clone(), client_handler)
                .unwrap();
            let peer = server_io
                .connect(&there, peer_options.clone(), peer_handler)
                .unwrap();
            client.wait_open(WATCHDOG).unwrap();
            peer.wait_open(WATCHDOG).unwrap();
            return Self {
                client,
                client_inbox,
                peer,
                peer_inbox,
                served: None,
                client_io,
                server_io,
            };
        }
        let options = ServerOptions {
            link: peer_options.clone(),
            ..ServerOptions::default()
        };
        let served = Served::listen(&server_io, transport, options, vec![peer_handler]);
        let address = served.server.local_address();
        let client_options = over_tls(transport, client_options.clone());
        let client = client_io
            .connect(&address, client_options, client_handler)
            .unwrap();
        client.wait_open(WATCHDOG).unwrap();
        if !transport.is_stream() {
            // A datagram server's peer is opened by its first datagram.
            client.send(GREETING).unwrap();
        }
        let peer = served.peer();
        Self {
            client,
            client_inbox,
            peer,
            peer_inbox,
            served: Some(served),
            client_io,
            server_io,
        }
    }
}

/// What the client of a datagram pair says first.
pub(crate) const GREETING: &[u8] = b"here I am";

/// Keeps an I/O thread inside a callback until it is dropped.
#[derive(Debug)]
pub(crate) struct Gate {
    _opens_when_dropped: Sender<()>,
}

/// Holds an I/O thread inside a callback: nothing is read or written by it.
pub(crate) fn hold(io: &IoThread) -> Gate {
    hold_after(io, || {}).0
}

impl Gate {
    /// Acts inside a callback, and then stays in it.
    pub(crate) fn after<T: Send + 'static>(
        io: &IoThread,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> (Self, T) {
        hold_after(io, act)
    }
}

/// Acts on the I/O thread, inside a callback of some link.
pub(crate) fn inside_callback<T: Send + 'static>(
    io: &IoThread,
    act: impl FnOnce() -> T + Send + 'static,
) -> T {
    hold_after(io, act).1
}

/// Lets an I/O thread look at least once at everything that has happened by now.
///
/// It obeys a number of commands in one turn, and looks at its sockets between turns: more commands
/// than that, one after the other, make it do so.
pub(crate) fn let_turn(io: &IoThread) {
    for _ in 0..40 {
        inside_callback(io, || {});
    }
}

fn hold_after<T: Send + 'static>(
    io: &IoThread,
    act: impl FnOnce() -> T + Send + 'static,
) -> (Gate, T) {
    let (open, opened) = mpsc::channel::<()>();
    let (inside, entered) = mpsc::channel();
    let act = move || {
        // The test may have given up.
        let _ = inside.send(act());
        // Ends when the gate is dropped.
        let _ = opened.recv();
    };
    // Nobody is there, so that `ended` is the first call, and comes at once.
    drop(
        io.connect(&nobody(), LinkOptions::default(), AtTheEnd(Some(act)))
            .unwrap(),
    );
    let outcome = entered.recv_timeout(WATCHDOG).unwrap();
    let gate = Gate {
        _opens_when_dropped: open,
    };
    (gate, outcome)
}

struct AtTheEnd<F>(Option<F>);

impl<F: FnOnce() + Send + 'static> Handler for AtTheEnd<F> {
    fn message(&mut self, _: &Link, _: &[u8], _: Received) {}

    fn ended(&mut self, _: &Link, _: &Ended) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}
