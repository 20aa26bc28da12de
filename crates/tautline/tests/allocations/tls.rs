//! TLS allocates: rustls makes a buffer of each record, on either side. What is promised is that we add
//! nothing to that; what it is stands in the output.

#[path = "../contract/common/certificates.rs"]
mod certificates;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use tautline::{DirectLink, DirectListener, LinkOptions};

use super::{
    COUNTED, Count, Echo, Inbox, ROUNDS, WARM_UP, WATCHDOG, Watch, deadline, listen, options_for,
    start_io,
};
use certificates::{AUTHORITY, ISSUED, trusting};

#[test]
fn over_tls_a_message_allocates_no_more_than_rustls_alone() {
    for payload_bytes in [64, 1024, 16_000] {
        let bare = bare_echo(payload_bytes);
        let direct = direct_echo(payload_bytes);
        let callbacks = callback_echo(payload_bytes);
        let each = |count: u64| count as f64 / COUNTED as f64;
        println!(
            "{payload_bytes} B there and back: rustls alone {} allocations, a direct link {}, through \
             callbacks {}",
            each(bare),
            each(direct),
            each(callbacks)
        );
        assert!(bare > 0);
        // The other end's last allocation of a round may fall behind its end.
        let bare = bare + 1;
        assert!(direct <= bare, "{direct} and not {bare}");
        assert!(callbacks <= bare, "{callbacks} and not {bare}");
    }
}

fn options() -> LinkOptions {
    LinkOptions {
        tls: trusting(),
        ..options_for(&"tls://127.0.0.1:0".parse().unwrap())
    }
}

/// The fewest that a round made: lists grow while more waits in them than ever before.
fn fewest(watch: &Watch, mut round: impl FnMut()) -> u64 {
    let counts = (0..ROUNDS.min(5)).map(|_| {
        watch.allocations.store(0, Ordering::SeqCst);
        watch.counting.store(true, Ordering::SeqCst);
        round();
        watch.counting.store(false, Ordering::SeqCst);
        watch.allocations.load(Ordering::SeqCst)
    });
    counts.min().unwrap()
}

fn direct_echo(payload_bytes: usize) -> u64 {
    let watch = Watch::new();
    watch.join();
    let address = "tls://127.0.0.1:0".parse().unwrap();
    let mut listener = DirectListener::bind(&address, options()).unwrap();
    let address = listener.local_address();
    let answering = thread::spawn(move || {
        let mut peer = listener.accept(deadline()).unwrap();
        watch.join();
        while let Ok(request) = peer.request(deadline()) {
            request.replies.send(request.message).unwrap();
        }
    });
    let mut link = DirectLink::connect(&address, options()).unwrap();
    let message = vec![7; payload_bytes];
    let mut echoes = |number: u64| {
        for _ in 0..number {
            link.send(&message).unwrap();
            assert_eq!(link.recv(deadline()).unwrap().len(), payload_bytes);
        }
    };
    echoes(WARM_UP);
    let count = fewest(watch, || echoes(COUNTED));
    drop(link);
    answering.join().unwrap();
    count
}

fn callback_echo(payload_bytes: usize) -> u64 {
    let watch = Watch::new();
    watch.join();
    let io = [start_io(), start_io()];
    let address = "tls://127.0.0.1:0".parse().unwrap();
    let server = listen(&io[0], &address, options(), move |_| Echo(watch));
    let arrived = Arc::new(Count::default());
    let inbox = Inbox(watch, Arc::clone(&arrived));
    let link = io[1].connect(&server.local_address(), options(), inbox);
    let link = link.unwrap();
    link.wait_open(WATCHDOG).unwrap();
    let message = vec![7; payload_bytes];
    let echoes = |number: u64| {
        for _ in 0..number {
            let before = arrived.now();
            link.send(&message).unwrap();
            arrived.wait_for(before + 1);
        }
    };
    echoes(WARM_UP);
    fewest(watch, || echoes(COUNTED))
}

/// The same over the same sockets by rustls alone, in one thread on either side.
fn bare_echo(payload_bytes: usize) -> u64 {
    let watch = Watch::new();
    watch.join();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    let (client, server) = sessions();
    let bytes = 4 + payload_bytes;
    let answering = thread::spawn(move || {
        let mut end = Bare::begin(server, accepted);
        watch.join();
        let mut message = vec![0; bytes];
        while end.read_exactly(&mut message) {
            end.write(&message);
        }
    });
    let mut end = Bare::begin(client, connecting);
    let mut message = vec![7; bytes];
    let mut echoes = |number: u64| {
        for _ in 0..number {
            end.write(&message);
            assert!(end.read_exactly(&mut message));
        }
    };
    echoes(WARM_UP);
    let count = fewest(watch, || echoes(COUNTED));
    drop(end);
    answering.join().unwrap();
    count
}

struct Bare {
    session: Connection,
    stream: TcpStream,
}

impl Bare {
    fn begin(mut session: Connection, mut stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut stream).unwrap();
        }
        Self { session, stream }
    }

    fn write(&mut self, message: &[u8]) {
        self.session.writer().write_all(message).unwrap();
        while self.session.wants_write() {
            self.session.write_tls(&mut self.stream).unwrap();
        }
    }

    /// False at the end.
    fn read_exactly(&mut self, message: &mut [u8]) -> bool {
        let mut read = 0;
        while read < message.len() {
            // `WouldBlock` is: not yet.
            read += self
                .session
                .reader()
                .read(&mut message[read..])
                .unwrap_or(0);
            if read < message.len() {
                if self.session.read_tls(&mut self.stream).unwrap_or(0) == 0 {
                    return false;
                }
                self.session.process_new_packets().unwrap();
            }
        }
        true
    }
}

fn sessions() -> (Connection, Connection) {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(AUTHORITY.pem.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let chain = CertificateDer::from_pem_slice(ISSUED.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(ISSUED.key.as_bytes()).unwrap();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(client), name).unwrap();
    let server = ServerConnection::new(Arc::new(server)).unwrap();
    (client.into(), server.into())
}
