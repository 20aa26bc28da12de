//! A relay between two TCP connections whose downstream is slow: nothing is lost, the order is kept, and
//! memory stays flat. In both styles: with callbacks, which pause reading under pressure, and with
//! futures, which do so by themselves.
//!
//! Memory is counted by the allocator, for the whole program: both run in one test, one after the other.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tautline::{
    AcceptOptions, Address, AsyncServer, Closed, Ended, Handler, InboxOptions, IoOptions, IoThread,
    Link, LinkOptions, Opened, Pressure, Received, SendStatistics, ServerOptions,
};

#[test]
fn a_relay_with_a_slow_downstream_loses_nothing_and_its_memory_stays_flat() {
    let options = LinkOptions {
        queue_limit_bytes: 4 << 20,
        ..LinkOptions::default()
    };
    carries_all("callbacks", 7 << 20, |sink| with_callbacks(sink, options));
    let options = LinkOptions::default();
    carries_all("futures", 3 << 20, |sink| with_futures(sink, options));
}

/// A relay that was started: where it listens, and how it is told to end.
type Relay = (SocketAddr, Box<dyn FnOnce()>);

/// Everything comes out as it went in, though nobody takes it at first; and the program never holds much
/// more than it did before.
fn carries_all(style: &str, most_bytes: usize, start: impl FnOnce(Address) -> Relay) {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, end) = start(Address::tcp(sink.local_addr().unwrap()));
    let before_bytes = HELD_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before_bytes, Ordering::Relaxed);

    let sent_bytes = Arc::new(AtomicUsize::new(0));
    let source = source(address, Arc::clone(&sent_bytes));
    let (mut taken, _) = sink.accept().unwrap();
    taken.set_read_timeout(Some(WATCHDOG)).unwrap();
    wait_until_it_stands_still(&sent_bytes);
    let held_up_bytes = sent_bytes.load(Ordering::Relaxed);
    assert!(held_up_bytes < TOTAL_BYTES, "{style}: nothing held it up");

    let mut chunk = [0; 10_000];
    let mut expected = Numbers::default();
    let mut received_bytes = 0;
    loop {
        match taken.read(&mut chunk).unwrap() {
            0 => break,
            bytes => {
                expected.check(&chunk[..bytes]);
                received_bytes += bytes;
            }
        }
    }
    assert_eq!(received_bytes, TOTAL_BYTES, "{style}");
    source.join().unwrap();
    let grown_bytes = PEAK_BYTES.load(Ordering::Relaxed) - before_bytes;
    println!("{style}: {grown_bytes} B at most, {held_up_bytes} B sent before any was taken");
    assert!(grown_bytes <= most_bytes, "{style}: {grown_bytes} bytes");
    drop(taken);
    end();
}

// --- with callbacks ---------------------------------------------------------------------------

fn with_callbacks(sink: Address, options: LinkOptions) -> Relay {
    // Between high water and the limit there is room for all that is read before pressure is told: at
    // most 32 reads in a turn.
    let io = Arc::new(
        IoThread::start(IoOptions {
            read_buffer_bytes: 16 * 1024,
            ..IoOptions::default()
        })
        .unwrap(),
    );
    let (own, address) = (Arc::clone(&io), "tcp://127.0.0.1:0".parse().unwrap());
    let (counted, counts) = mpsc::channel();
    let server = io.listen(&address, ServerOptions::default(), move |up: &Link| {
        // Nothing is read before there is somewhere to send it.
        up.pause_reading();
        let downstream = Downstream(up.clone(), counted.clone());
        let down = own
            .connect(&sink, options.clone(), downstream)
            .map_err(|error| error.to_string())?;
        Ok(Upstream(down))
    });
    let server = server.unwrap();
    let address = socket_address(&server.local_address());
    let end = move || {
        let sending = counts.recv_timeout(WATCHDOG).unwrap();
        assert!(sending.closes() && sending.written.bytes == TOTAL_BYTES as u64);
        assert!(sending.peak.bytes <= 4 << 20 && sending.pressure_crossings >= 2);
        drop(server);
    };
    (address, Box::new(end))
}

/// What comes from upstream goes down.
struct Upstream(Link);

impl Handler for Upstream {
    fn message(&mut self, _: &Link, message: &[u8], _: Received) {
        self.0.try_send(message).expect("reading pauses in time");
    }

    /// With this handler goes the last handle of the link: after a `finish` alone that was an abort, and
    /// the last two megabytes never got there.
    fn closed(&mut self, _: &Link, _: &Closed) {
        self.0.close(WATCHDOG);
    }
}

/// While much waits to go down, nothing is read from upstream.
struct Downstream(Link, mpsc::Sender<SendStatistics>);

impl Handler for Downstream {
    fn opened(&mut self, _: &Link, _: &Opened) {
        self.0.resume_reading();
    }

    fn message(&mut self, _: &Link, _: &[u8], _: Received) {}

    fn pressure(&mut self, _: &Link, pressure: Pressure) {
        match pressure {
            Pressure::On => self.0.pause_reading(),
            Pressure::Off => self.0.resume_reading(),
        }
    }

    fn ended(&mut self, link: &Link, _: &Ended) {
        let _ = self.1.send(link.statistics().sending);
    }
}

// --- with futures -----------------------------------------------------------------------------

fn with_futures(sink: Address, options: LinkOptions) -> Relay {
    let io = IoThread::start(IoOptions::default()).unwrap();
    let listening = "tcp://127.0.0.1:0".parse().unwrap();
    let server = io.listen_async(
        &listening,
        ServerOptions::default(),
        AcceptOptions::default(),
    );
    let server = server.unwrap();
    let address = socket_address(&server.local_address());
    let relay = thread::spawn(move || smol::block_on(relay(io, server, sink, options)));
    (address, Box::new(|| relay.join().unwrap()))
}

async fn relay(io: IoThread, mut server: AsyncServer, sink: Address, options: LinkOptions) {
    let mut up = server.accept().await.unwrap();
    let down = io.connect_async(&sink, options, InboxOptions::default());
    let down = down.unwrap();
    down.opened().await.unwrap();
    while let Ok(message) = up.recv().await {
        down.send(&message).await.unwrap();
    }
    let link = down.link().clone();
    assert!(down.close(WATCHDOG).await.queued.is_zero());
    let sending = link.statistics().sending;
    assert!(sending.closes() && sending.written.bytes == TOTAL_BYTES as u64);
    assert!(sending.peak.bytes <= 1 << 20 && sending.waits > 0);
}

// --- both ends --------------------------------------------------------------------------------

/// Sends numbers, one after the other, and ends.
fn source(address: SocketAddr, sent_bytes: Arc<AtomicUsize>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        for block in 0..TOTAL_BYTES / BLOCK_BYTES {
            let first = block * BLOCK_BYTES / 4;
            let numbers = first as u32..(first + BLOCK_BYTES / 4) as u32;
            let bytes: Vec<u8> = numbers.flat_map(u32::to_be_bytes).collect();
            stream.write_all(&bytes).unwrap();
            sent_bytes.fetch_add(BLOCK_BYTES, Ordering::Relaxed);
        }
    })
}

/// Numbers as they come, cut anywhere.
#[derive(Default)]
struct Numbers {
    bytes: usize,
}

impl Numbers {
    fn check(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let number = (self.bytes / 4) as u32;
            assert_eq!(*byte, number.to_be_bytes()[self.bytes % 4]);
            self.bytes += 1;
        }
    }
}

/// Waits until the source has sent nothing for a while: everything is full.
fn wait_until_it_stands_still(sent_bytes: &AtomicUsize) {
    let (mut last, mut same) = (0, 0);
    while same < 30 {
        // There is no event for that nothing happens.
        thread::park_timeout(Duration::from_millis(10));
        let now = sent_bytes.load(Ordering::Relaxed);
        same = if now > 0 && now == last { same + 1 } else { 0 };
        last = now;
    }
}

fn socket_address(address: &Address) -> SocketAddr {
    let text = address.to_string();
    text.strip_prefix("tcp://").unwrap().parse().unwrap()
}

/// More than all buffers between the two ends.
const TOTAL_BYTES: usize = 64 << 20;
const BLOCK_BYTES: usize = 1 << 16;
const WATCHDOG: Duration = Duration::from_secs(60);

// --- memory -----------------------------------------------------------------------------------

struct Counting;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is left to the system's allocator; counting allocates nothing.
#[expect(unsafe_code, reason = "an allocator that counts")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held_bytes = HELD_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(held_bytes, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, allocated: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(allocated, layout) }
    }
}
