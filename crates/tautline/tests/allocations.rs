//! Once a link has warmed up, a message costs no allocation: not sent, not queued, not waiting for
//! room, not evicted, not received, not answered.
//!
//! Lists and pools grow while more waits in them than ever before, and how much that is depends on who
//! is scheduled when. So a case repeats its thousand messages until a thousand of them cost nothing: what
//! allocates per message, per wait or per eviction never gets there.
//!
//! Each case counts in the threads that take part in it and no others, so that cases run side by side.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tautline::{
    Address, DirectLink, DirectListener, Framing, Handler, IoLoop, IoOptions, IoThread, Link,
    LinkOptions, Opened, Received, RecvError, SendError, SendStatistics, Server, ServerOptions,
    Strategy,
};

#[test]
fn an_echo_through_callbacks_allocates_nothing() {
    for (address, payload_bytes) in cases() {
        echo(&address, options_for(&address), payload_bytes);
    }
}

#[test]
fn an_echo_in_any_framing_allocates_nothing() {
    for framing in framings() {
        for payload_bytes in [64, 65_536] {
            let options = LinkOptions {
                framing: framing.clone(),
                ..LinkOptions::default()
            };
            let address = "tcp://127.0.0.1:0".parse().unwrap();
            echo(&address, options.clone(), payload_bytes);
            direct_echo(&address, &options, payload_bytes);
        }
    }
}

fn echo(address: &Address, options: LinkOptions, payload_bytes: usize) {
    let watch = Watch::new();
    watch.join();
    let io = [start_io(), start_io()];
    let server = listen(&io[0], address, options.clone(), move |_| Echo(watch));
    let arrived = Arc::new(Count::default());
    let inbox = Inbox(watch, Arc::clone(&arrived));
    let what = format!("{address}, {:?}, {payload_bytes} B", options.framing);
    let link = io[1].connect(&server.local_address(), options, inbox);
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
    watch.expect_nothing(&what, || echoes(COUNTED));
}

#[test]
fn an_echo_in_an_own_loop_allocates_nothing() {
    for (address, payload_bytes) in cases() {
        let watch = Watch::new();
        watch.join();
        let mut io = IoLoop::new(IoOptions::default()).unwrap();
        let options = options_for(&address);
        let server_options = ServerOptions {
            link: options.clone(),
            ..ServerOptions::default()
        };
        let accept = move |_: &Link| Ok(Echo(watch));
        let server = io.listen(&address, server_options, accept).unwrap();
        let arrived = Arc::new(Count::default());
        let inbox = Inbox(watch, Arc::clone(&arrived));
        let link = io.connect(&server.local_address(), options, inbox);
        let link = link.unwrap();
        while !link.is_open() {
            io.turn(Some(WATCHDOG)).unwrap();
        }

        let message = vec![7; payload_bytes];
        let mut echoes = |number: u64| {
            for _ in 0..number {
                let before = arrived.now();
                link.send(&message).unwrap();
                while arrived.now() == before {
                    io.turn(Some(WATCHDOG)).unwrap();
                }
            }
        };
        echoes(WARM_UP);
        watch.expect_nothing(&format!("{address}, {payload_bytes} B"), || echoes(COUNTED));
    }
}

#[test]
fn a_broadcast_allocates_nothing() {
    const PEERS: u64 = 10;
    for (address, payload_bytes) in cases().filter(|&(_, bytes)| bytes <= 1024) {
        let watch = Watch::new();
        watch.join();
        let io = [start_io(), start_io()];
        let options = options_for(&address);
        let server = listen(&io[0], &address, options.clone(), move |_| Echo(watch));
        let arrived = Arc::new(Count::default());
        let links: Vec<_> = (1..=PEERS)
            .map(|peers| {
                let inbox = Inbox(watch, Arc::clone(&arrived));
                let link = io[1].connect(&server.local_address(), options.clone(), inbox);
                let link = link.unwrap();
                link.wait_open(WATCHDOG).unwrap();
                link.send(b"here I am").unwrap();
                arrived.wait_for(peers);
                link
            })
            .collect();

        let message = vec![7; payload_bytes];
        let broadcasts = |number: u64| {
            for _ in 0..number {
                let before = arrived.now();
                let told = server.broadcast(&message);
                assert_eq!(told.accepted as u64, PEERS);
                arrived.wait_for(before + PEERS);
            }
        };
        broadcasts(WARM_UP / PEERS);
        watch.expect_nothing(&format!("{address}, {payload_bytes} B"), || {
            broadcasts(COUNTED / PEERS);
        });
        drop(links);
    }
}

#[test]
fn answers_in_a_batch_allocate_nothing() {
    const BATCH: u64 = 32;
    for (address, payload_bytes) in cases().filter(|&(_, bytes)| bytes <= 1024) {
        let watch = Watch::new();
        watch.join();
        let io = [start_io(), start_io()];
        let options = options_for(&address);
        let server = listen(&io[0], &address, options.clone(), move |_| Echo(watch));
        let arrived = Arc::new(Count::default());
        let inbox = Inbox(watch, Arc::clone(&arrived));
        let link = io[1].connect(&server.local_address(), options, inbox);
        let link = link.unwrap();
        link.wait_open(WATCHDOG).unwrap();

        let message = vec![7; payload_bytes];
        let batches = |number: u64| {
            for _ in 0..number {
                let before = arrived.now();
                for _ in 0..BATCH {
                    link.send(&message).unwrap();
                }
                arrived.wait_for(before + BATCH);
            }
        };
        batches(WARM_UP);
        watch.expect_nothing(&format!("{address}, {payload_bytes} B"), || {
            batches(COUNTED.div_ceil(BATCH));
        });
    }
}

#[test]
fn a_reliable_stream_that_waits_for_room_allocates_nothing() {
    for (address, payload_bytes) in cases() {
        stream(&address, Strategy::Reliable, payload_bytes);
    }
}

#[test]
fn a_besteffort_stream_that_is_refused_allocates_nothing() {
    for (address, payload_bytes) in cases() {
        stream(&address, Strategy::BestEffort, payload_bytes);
    }
}

#[test]
fn a_keeplatest_stream_that_evicts_allocates_nothing() {
    for (address, payload_bytes) in cases() {
        stream(&address, Strategy::KeepLatest, payload_bytes);
    }
}

#[test]
fn an_echo_over_direct_links_allocates_nothing() {
    for (address, payload_bytes) in cases() {
        direct_echo(&address, &options_for(&address), payload_bytes);
    }
}

fn direct_echo(address: &Address, options: &LinkOptions, payload_bytes: usize) {
    let watch = Watch::new();
    watch.join();
    let (mut link, mut peer) = direct_pair(address, options);
    let answering = thread::spawn(move || {
        watch.join();
        while let Ok(request) = peer.request(deadline()) {
            // Empty is the last.
            if request.message.is_empty() {
                break;
            }
            request.replies.send(request.message).unwrap();
        }
    });

    let message = vec![7; payload_bytes];
    let mut echoes = |number: u64| {
        for _ in 0..number {
            link.send(&message).unwrap();
            assert_eq!(link.recv(deadline()).unwrap().len(), payload_bytes);
        }
    };
    echoes(WARM_UP);
    let what = format!("{address}, {:?}, {payload_bytes} B", options.framing);
    watch.expect_nothing(&what, || echoes(COUNTED));
    link.send(b"").unwrap();
    answering.join().unwrap();
}

/// Both drivers, with another program's echo at the other end of a pseudo-terminal.
#[cfg(feature = "serial")]
#[test]
fn an_echo_over_a_serial_line_allocates_nothing() {
    for payload_bytes in [64, 16_384] {
        let message = vec![7; payload_bytes];
        let watch = Watch::new();
        watch.join();

        let (line, _echo) = echoing_line();
        let io = start_io();
        let arrived = Arc::new(Count::default());
        let inbox = Inbox(watch, Arc::clone(&arrived));
        let link = io.connect(&line, options_for(&line), inbox).unwrap();
        link.wait_open(WATCHDOG).unwrap();
        let echoes = |number: u64| {
            for _ in 0..number {
                let before = arrived.now();
                link.send(&message).unwrap();
                arrived.wait_for(before + 1);
            }
        };
        echoes(WARM_UP);
        watch.expect_nothing(&format!("{line}, {payload_bytes} B"), || echoes(COUNTED));

        let (line, _echo) = echoing_line();
        let mut link = DirectLink::connect(&line, options_for(&line)).unwrap();
        let mut echoes = |number: u64| {
            for _ in 0..number {
                link.send(&message).unwrap();
                assert_eq!(link.recv(deadline()).unwrap().len(), payload_bytes);
            }
        };
        echoes(WARM_UP);
        watch.expect_nothing(&format!("direct, {line}, {payload_bytes} B"), || {
            echoes(COUNTED);
        });
    }
}

/// The address of a pseudo-terminal, at the other end of which a thread answers with what it hears.
#[cfg(feature = "serial")]
fn echoing_line() -> (Address, serial2::SerialPort) {
    use std::os::fd::AsRawFd;

    let (mut device, line) = serial2::SerialPort::pair().unwrap();
    device.set_read_timeout(WATCHDOG).unwrap();
    let path = std::fs::read_link(format!("/proc/self/fd/{}", line.as_raw_fd())).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(bytes) = device.read(&mut buffer) {
            if device.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
    });
    (Address::Serial(tautline::SerialLine::new(path)), line)
}

#[test]
fn a_direct_stream_that_waits_for_room_allocates_nothing() {
    for (address, payload_bytes) in cases().filter(|(address, _)| !is_datagram(address)) {
        let watch = Watch::new();
        watch.join();
        let (mut link, mut peer) = direct_pair(&address, &options_for(&address));
        let receiving = thread::spawn(move || {
            watch.join();
            while !peer.recv(deadline()).unwrap().is_empty() {}
        });

        let message = vec![7; payload_bytes];
        let mut send = |number: u64| {
            for _ in 0..number {
                link.send(&message).unwrap();
            }
        };
        send(WARM_UP);
        watch.expect_nothing(&format!("{address}, {payload_bytes} B"), || send(COUNTED));
        link.send(b"").unwrap();
        // The last of it may still be ours to write.
        receiving_ends(&mut link, receiving);
    }
}

// --- one-way streams ---------------------------------------------------------------------------

/// Two producers send as fast as they can through a queue of a few messages, so that it is full again
/// and again; on streams the reader pauses besides, so that the kernel is full too.
fn stream(address: &Address, strategy: Strategy, payload_bytes: usize) {
    const PRODUCERS: usize = 2;
    let watch = Watch::new();
    let io = [start_io(), start_io()];
    let options = LinkOptions {
        strategy,
        queue_limit_messages: 8,
        ..options_for(address)
    };
    let reader = Reader::new(!is_datagram(address));
    let server = listen(&io[0], address, options.clone(), {
        let reader = Arc::clone(&reader);
        move |_| Sink(watch, Arc::clone(&reader), 0)
    });
    let inbox = Inbox(watch, Arc::default());
    let link = io[1].connect(&server.local_address(), options, inbox);
    let link = link.unwrap();
    link.wait_open(WATCHDOG).unwrap();

    let rounds = Arc::new(Barrier::new(PRODUCERS + 1));
    let enough = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let producers = [(); PRODUCERS].map(|()| {
        let (link, rounds) = (link.clone(), Arc::clone(&rounds));
        let (enough, over) = (Arc::clone(&enough), Arc::clone(&over));
        let message = vec![7; payload_bytes];
        thread::spawn(move || {
            watch.join();
            loop {
                rounds.wait();
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let mut offered = 0;
                while offered < COUNTED || !enough.load(Ordering::Relaxed) {
                    match link.send(&message) {
                        Ok(()) | Err(SendError::Full) => offered += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                rounds.wait();
            }
        })
    });
    let round = || {
        let before = times_full(&link);
        enough.store(false, Ordering::Relaxed);
        rounds.wait();
        let mut full = before;
        let watchdog = Instant::now() + WATCHDOG;
        while full < before + WARM_UP {
            assert!(Instant::now() < watchdog, "{address} {strategy}: {full}");
            let paused = reader.is_paused_or_soon();
            let now = times_full(&link);
            // Every producer met the full queue once more, or all wait and nothing moves.
            if paused && (now >= full + PRODUCERS as u64 || now == full) {
                reader.resume();
            }
            full = now;
        }
        enough.store(true, Ordering::Relaxed);
        reader.may_pause(false);
        reader.resume();
        rounds.wait();
        link.flush(WATCHDOG).unwrap();
        reader.may_pause(!is_datagram(address));
    };
    let case = format!("{address} {strategy}, {payload_bytes} B");
    round();
    watch.expect_nothing(&case, round);
    over.store(true, Ordering::Relaxed);
    rounds.wait();
    for producer in producers {
        producer.join().unwrap();
    }
}

/// How often a send found no room.
fn times_full(link: &Link) -> u64 {
    let SendStatistics {
        waits,
        refused,
        discarded,
        ..
    } = link.statistics().sending;
    waits + refused.messages + discarded.evicted.messages
}

/// Reads, and pauses now and then until somebody resumes it.
struct Reader(Mutex<Reading>, Condvar);

struct Reading {
    pauses: bool,
    /// The peer that is paused.
    paused: Option<Link>,
}

impl Reader {
    fn new(pauses: bool) -> Arc<Self> {
        let reading = Reading {
            pauses,
            paused: None,
        };
        Arc::new(Self(Mutex::new(reading), Condvar::new()))
    }

    fn pause(&self, peer: &Link) {
        let mut reading = self.0.lock().unwrap();
        if reading.pauses && reading.paused.is_none() {
            peer.pause_reading();
            reading.paused = Some(peer.clone());
            self.1.notify_one();
        }
    }

    /// Whether it paused before; gives it a moment to, otherwise.
    fn is_paused_or_soon(&self) -> bool {
        let reading = self.0.lock().unwrap();
        let paused = reading.paused.is_some();
        drop(self.1.wait_timeout(reading, A_MOMENT).unwrap());
        paused
    }

    fn resume(&self) {
        let paused = self.0.lock().unwrap().paused.take();
        if let Some(peer) = paused {
            peer.resume_reading();
        }
    }

    fn may_pause(&self, pauses: bool) {
        self.0.lock().unwrap().pauses = pauses;
    }
}

// --- handlers ----------------------------------------------------------------------------------

struct Echo(&'static Watch);

impl Handler for Echo {
    fn opened(&mut self, _: &Link, _: &Opened) {
        self.0.join();
    }

    fn message(&mut self, peer: &Link, message: &[u8], _: Received) {
        peer.send(message).unwrap();
    }
}

struct Inbox(&'static Watch, Arc<Count>);

impl Handler for Inbox {
    fn opened(&mut self, _: &Link, _: &Opened) {
        self.0.join();
    }

    fn message(&mut self, _: &Link, _: &[u8], _: Received) {
        self.1.add_one();
    }
}

struct Sink(&'static Watch, Arc<Reader>, u64);

impl Handler for Sink {
    fn opened(&mut self, _: &Link, _: &Opened) {
        self.0.join();
    }

    fn message(&mut self, peer: &Link, _: &[u8], _: Received) {
        self.2 += 1;
        if self.2.is_multiple_of(100) {
            self.1.pause(peer);
        }
    }
}

/// A number that somebody waits for. A channel would allocate.
#[derive(Default)]
struct Count(Mutex<u64>, Condvar);

impl Count {
    fn add_one(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_one();
    }

    fn now(&self) -> u64 {
        *self.0.lock().unwrap()
    }

    fn wait_for(&self, least: u64) {
        let count = self.0.lock().unwrap();
        let waited = self
            .1
            .wait_timeout_while(count, WATCHDOG, |now| *now < least);
        assert!(!waited.unwrap().1.timed_out(), "{least} never came");
    }
}

// --- ends --------------------------------------------------------------------------------------

/// Every transport with a small message and with one that takes several reads, or a large datagram.
fn cases() -> impl Iterator<Item = (Address, usize)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let uds = format!(
        "uds://@allocations-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Ordering::Relaxed)
    );
    let payloads = [
        ("tcp://127.0.0.1:0".to_owned(), [64, 65_536]),
        (uds, [64, 65_536]),
        ("udp://127.0.0.1:0".to_owned(), [64, 16_384]),
    ];
    payloads.into_iter().flat_map(|(address, sizes)| {
        let address: Address = address.parse().unwrap();
        sizes.map(|payload_bytes| (address.clone(), payload_bytes))
    })
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

/// Those that encode, and those that decode.
fn framings() -> [Framing; 3] {
    let pattern = Framing::pattern([2], [3]);
    [Framing::lines(), pattern, Framing::cobs()]
}

fn start_io() -> IoThread {
    IoThread::start(IoOptions::default()).unwrap()
}

fn listen<H: Handler>(
    io: &IoThread,
    address: &Address,
    link: LinkOptions,
    mut handler: impl FnMut(&Link) -> H + Send + 'static,
) -> Server {
    let options = ServerOptions {
        link,
        ..ServerOptions::default()
    };
    let server = io.listen(address, options, move |peer: &Link| Ok(handler(peer)));
    server.unwrap()
}

/// Both ends of a direct link that are connected.
fn direct_pair(address: &Address, options: &LinkOptions) -> (DirectLink, DirectLink) {
    let mut listener = DirectListener::bind(address, options.clone()).unwrap();
    let mut link = DirectLink::connect(&listener.local_address(), options.clone()).unwrap();
    // Over UDP the first datagram makes the peer.
    link.send(b"hello").unwrap();
    let mut peer = listener.accept(deadline()).unwrap();
    assert_eq!(peer.recv(deadline()).unwrap(), b"hello");
    (link, peer)
}

fn deadline() -> Option<Instant> {
    Some(Instant::now() + WATCHDOG)
}

/// Writes on, by looking for an answer that never comes, until the peer has had everything.
fn receiving_ends(link: &mut DirectLink, receiving: thread::JoinHandle<()>) {
    assert!(matches!(link.recv(deadline()), Err(RecvError::Closed)));
    receiving.join().unwrap();
}

/// Messages before anything is counted; the promise names the number.
const WARM_UP: u64 = 1_000;
const COUNTED: u64 = 1_000;
/// Tries to get through a thousand without any.
const ROUNDS: usize = 20;
const WATCHDOG: Duration = Duration::from_secs(30);
const A_MOMENT: Duration = Duration::from_millis(1);

// --- the allocator -----------------------------------------------------------------------------

/// The allocations of one case, in the threads that joined it.
struct Watch {
    counting: AtomicBool,
    allocations: AtomicU64,
    /// Where the first one of a round was made.
    first: Mutex<Option<(String, Backtrace)>>,
}

thread_local! {
    /// Whom this thread's allocations belong to. Has no destructor, so the allocator may ask any time.
    static WATCH: Cell<Option<&'static Watch>> = const { Cell::new(None) };
}

impl Watch {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            counting: AtomicBool::new(false),
            allocations: AtomicU64::new(0),
            first: Mutex::new(None),
        }))
    }

    /// From now on the calling thread's allocations count.
    fn join(&'static self) {
        WATCH.set(Some(self));
    }

    /// Repeats the round until it allocates nothing.
    fn expect_nothing(&self, case: &str, mut round: impl FnMut()) {
        for _ in 0..ROUNDS {
            self.allocations.store(0, Ordering::SeqCst);
            self.counting.store(true, Ordering::SeqCst);
            round();
            self.counting.store(false, Ordering::SeqCst);
            if self.allocations.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
        let allocations = self.allocations.load(Ordering::SeqCst);
        let first = self.first.lock().unwrap().take();
        let (thread, backtrace) = first.unwrap();
        panic!("{case}: {allocations} allocations, the first on {thread}:\n{backtrace}");
    }

    fn allocation(&self) {
        if !self.counting.load(Ordering::SeqCst) {
            return;
        }
        if self.allocations.fetch_add(1, Ordering::SeqCst) == 0 {
            // What this allocates is nobody's.
            let joined = WATCH.take();
            let thread = thread::current().name().unwrap_or("unnamed").to_owned();
            *self.first.lock().unwrap() = Some((thread, Backtrace::force_capture()));
            WATCH.set(joined);
        }
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn note() {
    if let Ok(Some(watch)) = WATCH.try_with(Cell::get) {
        watch.allocation();
    }
}

#[expect(
    unsafe_code,
    reason = "an allocator that counts has to be an allocator"
)]
// SAFETY: every call is passed on as it came to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are those that are asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
