//! How many system calls a message takes, where that does not depend on the machine: one write and one
//! read at each end for a round trip, and one write for everything that
//! one callback sends. By the library's own counters; what a message allocates is `allocations.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tautline::{
    Address, DirectLink, DirectListener, Framing, Handler, IoOptions, IoThread, Link, LinkOptions,
    LinkStatistics, Opened, Received, ServerOptions,
};

#[test]
fn a_direct_round_trip_is_one_write_and_one_read_at_each_end() {
    for address in addresses() {
        let options = options_for(&address);
        let mut listener = DirectListener::bind(&address, options.clone()).unwrap();
        let at = listener.local_address();
        let serving = thread::spawn(move || {
            let mut peer = listener.accept(deadline()).unwrap();
            for _ in 0..MESSAGES {
                let message = peer.recv(deadline()).unwrap().to_vec();
                peer.send(&message).unwrap();
            }
            peer.statistics()
        });
        let mut link = DirectLink::connect(&at, options).unwrap();
        for _ in 0..MESSAGES {
            link.send(MESSAGE).unwrap();
            assert_eq!(link.recv(deadline()).unwrap(), MESSAGE);
        }
        let (client, server) = (link.statistics(), serving.join().unwrap());
        assert_one_of_each(&format!("{address}, client"), &client, MESSAGES);
        // The datagram that makes a peer is the listener's to read.
        let reads = MESSAGES - u64::from(is_datagram(&address));
        assert_one_of_each(&format!("{address}, server"), &server, reads);
    }
}

#[test]
fn a_round_trip_in_callbacks_is_one_write_and_one_read_at_each_end() {
    // A short read tells that a stream is empty; of datagrams only the next read does.
    let streams = addresses()
        .into_iter()
        .filter(|address| !is_datagram(address));
    for address in streams {
        let io = [start_io(), start_io()];
        let options = ServerOptions {
            link: options_for(&address),
            ..ServerOptions::default()
        };
        let echo =
            |_: &Link| Ok(|peer: &Link, message: &[u8], _: Received| peer.send(message).unwrap());
        let server = io[0].listen(&address, options, echo).unwrap();
        let (over, is_over) = mpsc::channel();
        let client = Client {
            left: MESSAGES,
            over,
        };
        let link = io[1].connect(&server.local_address(), options_for(&address), client);
        let link = link.unwrap();
        is_over.recv_timeout(WATCHDOG).unwrap();
        let client = settled(|| link.statistics());
        assert_one_of_each(&format!("{address}, client"), &client, MESSAGES);
        let server = settled(|| server.statistics().peers);
        assert_one_of_each(&format!("{address}, server"), &server, MESSAGES);
    }
}

#[test]
fn what_one_callback_sends_leaves_in_one_write() {
    let streams = addresses()
        .into_iter()
        .filter(|address| !is_datagram(address));
    for address in streams {
        let io = [start_io(), start_io()];
        let options = ServerOptions {
            link: options_for(&address),
            ..ServerOptions::default()
        };
        let burst = |_: &Link| {
            Ok(|peer: &Link, message: &[u8], _: Received| {
                for _ in 0..MESSAGES {
                    peer.send(message).unwrap();
                }
            })
        };
        let server = io[0].listen(&address, options, burst).unwrap();
        let (over, is_over) = mpsc::channel();
        let client = Counter {
            left: MESSAGES,
            over,
        };
        let link = io[1].connect(&server.local_address(), options_for(&address), client);
        let link = link.unwrap();
        link.wait_open(WATCHDOG).unwrap();
        link.send(MESSAGE).unwrap();
        is_over.recv_timeout(WATCHDOG).unwrap();
        let sending = once(|| {
            let sending = server.statistics().peers.sending;
            (sending.written.messages == MESSAGES).then_some(sending)
        });
        assert_eq!(sending.accepted.messages, MESSAGES, "{address}");
        // 20,000 bytes: less than one write takes, and than an empty socket has room for.
        assert_eq!(sending.write_calls, 1, "{address}");
    }
}

/// What an end has counted when its thread is through with the last message: a call is counted when it
/// is over, by when the other end may have the message long since.
fn settled(statistics: impl Fn() -> LinkStatistics) -> LinkStatistics {
    once(|| {
        let now = statistics();
        let (written, told) = (now.sending.written.messages, now.receiving.messages);
        let read = now.receiving.read_calls;
        (written >= MESSAGES && told >= MESSAGES && read >= MESSAGES).then_some(now)
    })
}

/// Looks until there is something to see.
fn once<T>(look: impl Fn() -> Option<T>) -> T {
    let watchdog = Instant::now() + WATCHDOG;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < watchdog, "it never came");
        thread::yield_now();
    }
}

/// Of as many messages as were exchanged, of which this end made so many reads.
fn assert_one_of_each(end: &str, statistics: &LinkStatistics, reads: u64) {
    let (sending, receiving) = (&statistics.sending, &statistics.receiving);
    assert_eq!(sending.accepted.messages, MESSAGES, "{end}");
    assert_eq!(receiving.messages, MESSAGES, "{end}");
    assert_eq!(sending.write_calls, MESSAGES, "{end}: writes");
    assert_eq!(receiving.read_calls, reads, "{end}: reads");
}

/// Sends the next message when the reply has come.
struct Client {
    left: u64,
    over: Sender<()>,
}

impl Handler for Client {
    fn opened(&mut self, link: &Link, _: &Opened) {
        link.send(MESSAGE).unwrap();
    }

    fn message(&mut self, link: &Link, message: &[u8], _: Received) {
        assert_eq!(message, MESSAGE);
        self.left -= 1;
        match self.left {
            0 => self.over.send(()).unwrap(),
            _ => link.send(MESSAGE).unwrap(),
        }
    }
}

/// Tells when everything has come.
struct Counter {
    left: u64,
    over: Sender<()>,
}

impl Handler for Counter {
    fn message(&mut self, _: &Link, _: &[u8], _: Received) {
        self.left -= 1;
        if self.left == 0 {
            self.over.send(()).unwrap();
        }
    }
}

fn addresses() -> [Address; 3] {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let uds = format!("uds://@calls-{}-{number}", std::process::id());
    ["tcp://127.0.0.1:0", &uds, "udp://127.0.0.1:0"].map(|text| text.parse().unwrap())
}

fn is_datagram(address: &Address) -> bool {
    matches!(address, Address::Udp { .. })
}

fn options_for(address: &Address) -> LinkOptions {
    LinkOptions {
        framing: if is_datagram(address) {
            Framing::Raw
        } else {
            Framing::length_prefix()
        },
        ..LinkOptions::default()
    }
}

fn start_io() -> IoThread {
    IoThread::start(IoOptions::default()).unwrap()
}

fn deadline() -> Option<Instant> {
    Some(Instant::now() + WATCHDOG)
}

const MESSAGE: &[u8] = b"sixteen bytes...";
const MESSAGES: u64 = 1_000;
const WATCHDOG: Duration = Duration::from_secs(30);
