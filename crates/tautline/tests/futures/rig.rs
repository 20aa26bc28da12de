//! Both ends of a connection, driven by futures.

use tautline::{
    AcceptOptions, Address, AsyncLink, AsyncServer, InboxOptions, IoOptions, IoThread, LinkOptions,
    ServerOptions,
};

use crate::executor::Executor;
use crate::transport::{Place, Transport, fresh};

/// A link of ours, open, and the peer that our server accepted for it.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) link: AsyncLink,
    pub(crate) peer: AsyncLink,
    pub(crate) server: AsyncServer,
    pub(crate) place: Place,
}

/// The default options, with borders kept.
pub(crate) fn framed(transport: Transport) -> LinkOptions {
    LinkOptions {
        framing: transport.framing(),
        tls: transport.tls(),
        ..LinkOptions::default()
    }
}

pub(crate) fn start() -> IoThread {
    IoThread::start(IoOptions::default()).unwrap()
}

/// A server with these options for its links, and the place where it listens.
pub(crate) fn listen(
    transport: Transport,
    link: LinkOptions,
    accept: AcceptOptions,
) -> (AsyncServer, Place) {
    let place = fresh(transport);
    let options = ServerOptions {
        link,
        ..ServerOptions::default()
    };
    let server = start().listen_async(&place.address, options, accept);
    (server.unwrap(), place)
}

impl Pair {
    pub(crate) async fn open(transport: Transport) -> Self {
        Self::with(transport, framed(transport), InboxOptions::default()).await
    }

    /// Both ends with the same options, each on an I/O thread of its own.
    pub(crate) async fn with(
        transport: Transport,
        options: LinkOptions,
        inbox: InboxOptions,
    ) -> Self {
        let accept = AcceptOptions {
            inbox,
            ..AcceptOptions::default()
        };
        let (mut server, place) = listen(transport, options.clone(), accept);
        let link = start()
            .connect_async(&server.local_address(), options, inbox)
            .unwrap();
        link.opened().await.unwrap();
        if !transport.is_stream() {
            // A datagram server's peer is opened by its first datagram.
            link.send(GREETING).await.unwrap();
        }
        let mut peer = server.accept().await.unwrap();
        if !transport.is_stream() {
            assert_eq!(&*peer.recv().await.unwrap(), GREETING);
        }
        Self {
            link,
            peer,
            server,
            place,
        }
    }
}

const GREETING: &[u8] = b"here I am";

/// `count` messages that are all different, of this length.
pub(crate) fn numbered(count: u32, length: usize) -> impl Iterator<Item = Vec<u8>> {
    assert!(length >= 4);
    (0..count).map(move |number| {
        let mut message = vec![number as u8; length];
        message[..4].copy_from_slice(&number.to_be_bytes());
        message
    })
}

/// Waits until something is so that no event tells.
pub(crate) async fn until(executor: Executor, mut so: impl FnMut() -> bool) {
    while !so() {
        executor.moment().await;
    }
}

/// An address where nobody listens.
pub(crate) fn nobody(transport: Transport) -> Address {
    match transport {
        // Bound once, so free now: the kernel does not give it to another soon.
        Transport::Tcp | Transport::Tls => Address::tcp(
            std::net::TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap(),
        ),
        Transport::Uds => "uds://@tautline-futures-nobody".parse().unwrap(),
        Transport::Serial => "serial:///dev/ttyNONE7".parse().unwrap(),
        Transport::Udp => panic!("over UDP nobody is known to be there"),
    }
}
