//! A link without a thread: the caller's own, one blocking call per receive.
//!
//! The fastest request and reply, and what the instrument measures with. There is no queue but one
//! message that the kernel did not take whole.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tautline_session::{
    BLOCK_BYTES, Block, Call, Caller, Discard, Offer, Outbound, OutboundOptions, PeerId, Refusal,
    Step, Surroundings,
};

use crate::address::Address;
use crate::channel::{write_datagrams, write_one, write_stream};
use crate::driver::{Polled, Spin};
use crate::error::{Error, RecvError, SendError};
use crate::options::{LinkOptions, ServerOptions};
use crate::outlet::Outlet;
use crate::statistics::{LinkStatistics, ReceiveCounters};
use crate::sys;
use crate::transport::{self, Connecting, Listener, PollInterest, Remote, Socket, Wait, is_icmp};

/// A link that one thread owns and drives: `send`, `recv`, nothing in between.
///
/// Where an [`IoThread`](crate::IoThread) queues, this link holds one message that the kernel did not
/// take whole. While it does, reliable waits for room and reads meanwhile, so that two ends that both
/// send cannot hold each other up; besteffort says `Full`; keeplatest replaces the message if nothing
/// of it is written. `queue_limit_messages` and `half_open` have no use here. Dropping it closes the
/// socket.
pub struct DirectLink {
    outlet: Arc<Outlet>,
    outbound: Outbound,
    surroundings: OneBlock,
    receive: ReceiveBuffer,
    options: LinkOptions,
    spin: Spin,
    closed: Arc<AtomicBool>,
    counters: ReceiveCounters,
}

/// Ends a [`DirectLink`] from another thread.
#[derive(Debug, Clone)]
pub struct Closer {
    outlet: Arc<Outlet>,
    closed: Arc<AtomicBool>,
}

/// Listens for [`DirectLink`]s.
#[derive(Debug)]
pub struct DirectListener {
    listening: Listening,
    address: Address,
    options: LinkOptions,
}

#[derive(Debug)]
enum Listening {
    Stream(Listener),
    /// Until its one peer has come.
    Datagram(Option<Socket>),
}

impl DirectLink {
    /// Connects; waits at most `connect_timeout`, and for the resolver where the host is a name.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; or why the peer cannot be reached.
    pub fn connect(address: &Address, options: LinkOptions) -> Result<Self, Error> {
        options.validate(address)?;
        let deadline = Instant::now().checked_add(options.connect_timeout);
        let mut failure = None;
        for target in transport::resolve(address)? {
            match connect_to(address, &target, &options, deadline) {
                Ok(socket) => return Self::new(address, socket, options),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure
            .unwrap_or_else(|| Error::connect(address, io::ErrorKind::AddrNotAvailable.into())))
    }

    fn new(address: &Address, socket: Socket, options: LinkOptions) -> Result<Self, Error> {
        let failed = |cause| Error::io("configure", address, cause);
        socket.set_blocking(true).map_err(failed)?;
        socket.set_receive_timeout(TICK).map_err(failed)?;
        let mut outbound = Outbound::new(&OutboundOptions {
            queue_limit_messages: 1,
            ..options.outbound(address)
        });
        outbound.opened();
        let datagram = socket.kind().is_datagram();
        Ok(Self {
            outlet: Arc::new(Outlet::Connected(socket)),
            outbound,
            surroundings: OneBlock::default(),
            receive: ReceiveBuffer::new(datagram),
            spin: Spin::new(options.spin),
            options,
            closed: Arc::default(),
            counters: ReceiveCounters::default(),
        })
    }

    /// Sends one message.
    ///
    /// `Ok`: the kernel has it, or has begun it and the rest goes out with the next call. With reliable
    /// this waits, without limit, while an earlier message is not wholly taken.
    ///
    /// # Errors
    /// [`SendError`] says what became of it; the message was not accepted. That the peer is gone is
    /// found out by [`recv`](Self::recv).
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.send_until(message, Call::Send, None)
    }

    /// Sends one message without waiting.
    ///
    /// # Errors
    /// As [`send`](Self::send), but `Full` where that would wait.
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.send_until(message, Call::Try, None)
    }

    /// Sends one message, waiting at most this long while an earlier one is not wholly taken.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`SendError::TimedOut`].
    pub fn send_timeout(&mut self, message: &[u8], timeout: Duration) -> Result<(), SendError> {
        self.send_until(message, Call::Within, Instant::now().checked_add(timeout))
    }

    /// Receives one message; waits until the deadline, or without one for ever. The bytes are valid
    /// until the next call.
    ///
    /// # Errors
    /// [`RecvError`]: not in time, the end of the stream, a broken connection, or a bad frame. ICMP's
    /// word that a datagram did not arrive is counted and is no error.
    pub fn recv(&mut self, deadline: Option<Instant>) -> Result<&[u8], RecvError> {
        let range = loop {
            if let Some(range) = self.next_frame()? {
                break range;
            }
            self.fill(deadline)?;
        };
        Ok(&self.receive.bytes[range])
    }

    /// A handle that ends this link from another thread.
    pub fn closer(&self) -> Closer {
        Closer {
            outlet: Arc::clone(&self.outlet),
            closed: Arc::clone(&self.closed),
        }
    }

    /// What the link has counted so far.
    pub fn statistics(&self) -> LinkStatistics {
        LinkStatistics {
            sending: self.outbound.statistics(),
            receiving: self.counters.snapshot(),
        }
    }

    /// Times that polling gave way because somebody else wanted the CPU; see
    /// [`spin`](LinkOptions::spin).
    pub const fn spins_given_up(&self) -> u64 {
        self.spin.gave_way()
    }

    /// Our own address, where the socket has one.
    pub fn local_address(&self) -> Option<Address> {
        self.outlet.socket().local_address()
    }

    /// The peer's address, where it has one.
    pub fn peer_address(&self) -> Option<Address> {
        self.outlet.socket().peer_address()
    }

    fn send_until(
        &mut self,
        message: &[u8],
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(SendError::Closed);
        }
        loop {
            if !self.outbound.is_drained() && self.write_rest().is_err() {
                return Err(self.lose());
            }
            let offer = self.outbound.offer(
                message,
                PeerId::SOLE,
                call,
                Caller::Direct,
                &self.surroundings,
            );
            match offer {
                Offer::WriteNow(token) => {
                    let header = self.options.framing.header(message.len());
                    let written = write_one(&*self.outlet, &header, message, PeerId::SOLE);
                    self.outbound.settle_direct(
                        token,
                        message,
                        PeerId::SOLE,
                        written,
                        &self.surroundings,
                    );
                    return Ok(());
                }
                // Replaced the message that waited; it is tried with the next call.
                Offer::Queued { .. } => return Ok(()),
                Offer::Refused(Refusal::WouldWait) => self.wait_for_room(deadline)?,
                Offer::Refused(refusal) => return Err(crate::channel::refused(refusal)),
                Offer::Wait(_) => unreachable!("a direct caller is never given a ticket"),
            }
        }
    }

    /// Writes what waits, as far as the kernel takes it.
    fn write_rest(&mut self) -> io::Result<()> {
        let Some(taken) = self.outbound.take(Caller::Direct, &self.surroundings) else {
            return Ok(());
        };
        if self.receive.datagram {
            let (sent, stopped) = write_datagrams(&*self.outlet, &taken);
            self.outbound
                .settle_datagrams(taken, sent, stopped, &self.surroundings);
            return Ok(());
        }
        let (written_bytes, broken) = write_stream(&*self.outlet, taken.bytes());
        self.outbound
            .settle_stream(taken, written_bytes, &self.surroundings);
        broken.map_or(Ok(()), Err)
    }

    /// Waits until the kernel takes more, reading meanwhile.
    #[cold]
    fn wait_for_room(&mut self, deadline: Option<Instant>) -> Result<(), SendError> {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(SendError::TimedOut);
        }
        let read = self.receive.may_read_ahead();
        let interest = PollInterest { read, write: true };
        let tick = earlier(deadline, Instant::now() + TICK);
        let socket = self.outlet.socket();
        let Ok(ready) = socket.wait_ready(interest, Some(tick)) else {
            return Err(self.lose());
        };
        if self.closed.load(Ordering::Relaxed) {
            return Err(SendError::Closed);
        }
        // The end of the peer's stream is told by the next `recv`; ours may go on.
        if ready.read && self.read(Wait::No).is_err() && !ready.write {
            return Err(self.lose());
        }
        Ok(())
    }

    /// The connection is broken for sending: what waits is given up.
    #[cold]
    fn lose(&mut self) -> SendError {
        self.outbound
            .end(Discard::ConnectionLost, &self.surroundings);
        SendError::NotConnected
    }

    fn next_frame(&mut self) -> Result<Option<Range<usize>>, RecvError> {
        let receive = &mut self.receive;
        if receive.datagram {
            let Some(length) = receive.datagram_bytes.take() else {
                return Ok(None);
            };
            return Ok(Some(0..length));
        }
        let (framing, limit_bytes) = (self.options.framing, self.options.frame_limit_bytes);
        match framing.parse(&receive.bytes[receive.start..receive.end], limit_bytes) {
            Step::Frame {
                header_bytes,
                payload_bytes,
            } => {
                let from = receive.start + header_bytes;
                receive.start = from + payload_bytes;
                self.counters.message(payload_bytes as u64);
                Ok(Some(from..from + payload_bytes))
            }
            Step::Incomplete { needed_bytes } => {
                receive.make_room(needed_bytes);
                Ok(None)
            }
            Step::Fault(fault) => {
                self.counters.fault();
                Err(RecvError::BadFrame(fault))
            }
        }
    }

    /// Brings more bytes, or the next datagram.
    fn fill(&mut self, deadline: Option<Instant>) -> Result<(), RecvError> {
        if self.receive.take_early() {
            return Ok(());
        }
        loop {
            let read = if self.outbound.is_drained() {
                self.read_by(deadline)
            } else {
                self.read_while_writing(deadline)
            };
            match read {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(RecvError::Closed);
                }
                Err(error) if self.receive.datagram && is_icmp(&error) => {
                    self.counters.unreachable();
                }
                Err(error) => return Err(RecvError::Failed(error)),
            }
            if self.closed.load(Ordering::Relaxed) {
                return Err(RecvError::Closed);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(RecvError::TimedOut);
            }
        }
    }

    /// One blocking call, unless polling finds something first.
    fn read_by(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        if self.options.spin > Duration::ZERO {
            let mut spin = std::mem::replace(&mut self.spin, Spin::new(Duration::ZERO));
            let timeout =
                deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut found = Ok(());
            let polled = spin.poll(timeout, || {
                found = self.read(Wait::No);
                !matches!(&found, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            });
            self.spin = spin;
            if polled == Polled::Found {
                return found;
            }
        }
        // The socket's own timeout is one tick: a deadline beyond it costs no further call.
        let far = deadline
            .is_none_or(|deadline| deadline.saturating_duration_since(Instant::now()) >= TICK);
        if far {
            return self.read(Wait::Block);
        }
        let interest = PollInterest {
            read: true,
            write: false,
        };
        self.outlet.socket().wait_ready(interest, deadline)?;
        self.read(Wait::No)
    }

    /// Reads, and writes the rest of a message as soon as there is room.
    #[cold]
    fn read_while_writing(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let interest = PollInterest {
            read: true,
            write: true,
        };
        let tick = earlier(deadline, Instant::now() + TICK);
        let ready = self.outlet.socket().wait_ready(interest, Some(tick))?;
        if ready.write && self.write_rest().is_err() {
            self.lose();
        }
        self.read(Wait::No)
    }

    fn read(&mut self, wait: Wait) -> io::Result<()> {
        self.counters.read_call();
        let receive = &mut self.receive;
        let arrived = self
            .outlet
            .socket()
            .recv(&mut receive.bytes[receive.end..], wait)?;
        if receive.datagram {
            if self.closed.load(Ordering::Relaxed) {
                // A socket that was shut down reads as an empty datagram.
                return Err(io::ErrorKind::WouldBlock.into());
            }
            receive.datagram_bytes = Some(arrived.bytes);
            self.counters.message(arrived.bytes as u64);
            if arrived.truncated {
                self.counters.truncation();
            }
        } else if arrived.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        } else {
            receive.end += arrived.bytes;
        }
        self.counters.arrived(arrived.bytes as u64);
        Ok(())
    }
}

impl fmt::Debug for DirectLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectLink")
            .field("local", &self.local_address())
            .field("peer", &self.peer_address())
            .finish_non_exhaustive()
    }
}

impl Closer {
    /// Ends the link: its `recv` returns [`RecvError::Closed`], its sends [`SendError::Closed`]. Never
    /// blocks; a call that is waiting returns at once.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.outlet.socket().shutdown();
    }
}

impl DirectListener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; an address that is in use or not ours.
    pub fn bind(address: &Address, options: LinkOptions) -> Result<Self, Error> {
        let server = ServerOptions {
            link: options.clone(),
            ..ServerOptions::default()
        };
        server.validate(address)?;
        let (listening, address) = match address {
            Address::Tcp { .. } | Address::Uds(_) => {
                let listener = transport::listen(address, &server)?;
                let address = listener.local_address();
                (Listening::Stream(listener), address)
            }
            Address::Udp { .. } => {
                let socket = transport::bind_datagram(address, &server)?;
                let address = socket.local_address().unwrap_or_else(|| address.clone());
                (Listening::Datagram(Some(socket)), address)
            }
        };
        Ok(Self {
            listening,
            address,
            options,
        })
    }

    /// Where it listens: with the port that the kernel chose.
    pub fn local_address(&self) -> Address {
        self.address.clone()
    }

    /// Waits for a peer until the deadline, or without one for ever. Over UDP the peer is whoever sends
    /// the first datagram, and the only one.
    ///
    /// # Errors
    /// Not in time; over UDP, that the one peer has come before; or the system's refusal.
    pub fn accept(&mut self, deadline: Option<Instant>) -> Result<DirectLink, Error> {
        match &mut self.listening {
            Listening::Stream(listener) => {
                let socket = accept_stream(listener, &self.address, deadline)?;
                DirectLink::new(&self.address, socket, self.options.clone())
            }
            Listening::Datagram(socket) => {
                let socket = socket
                    .take()
                    .ok_or_else(|| Error::closed("accept on", Some(&self.address)))?;
                let mut early = VecDeque::new();
                let remote = match first_datagram(&socket, &self.address, deadline, &mut early) {
                    Ok(remote) => remote,
                    Err(error) => {
                        self.listening = Listening::Datagram(Some(socket));
                        return Err(error);
                    }
                };
                let narrowed = socket.connected_to(&remote, &self.address, &self.options)?;
                keep_early(&socket, &remote, &mut early);
                let socket = narrowed.unwrap_or(socket);
                let mut link = DirectLink::new(&self.address, socket, self.options.clone())?;
                link.receive.early = early;
                Ok(link)
            }
        }
    }
}

fn connect_to(
    address: &Address,
    target: &transport::Target,
    options: &LinkOptions,
    deadline: Option<Instant>,
) -> Result<Socket, Error> {
    loop {
        let (socket, connecting) = match transport::start_connect(address, target, options) {
            Ok(started) => started,
            Err(error) if transport::is_backlog_full(&error) && !passed(deadline) => {
                // Nothing tells when there is room; the listener is alive, so it will not be long.
                std::thread::sleep(BACKLOG_PAUSE);
                continue;
            }
            Err(error) => return Err(error),
        };
        if connecting == Connecting::Done {
            return Ok(socket);
        }
        loop {
            let interest = PollInterest {
                read: false,
                write: true,
            };
            let failed = |cause| Error::connect(address, cause);
            let ready = socket.wait_ready(interest, deadline).map_err(failed)?;
            if !ready.write {
                let timeout = options.connect_timeout;
                return Err(Error::timed_out("connect to", address, timeout));
            }
            match transport::finish_connect(&socket) {
                Ok(()) => return Ok(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(cause) => return Err(failed(cause)),
            }
        }
    }
}

fn accept_stream(
    listener: &Listener,
    address: &Address,
    deadline: Option<Instant>,
) -> Result<Socket, Error> {
    let failed = |cause| Error::io("accept on", address, cause);
    loop {
        match listener.accept() {
            Ok(socket) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(cause) => return Err(failed(cause)),
        }
        let interest = PollInterest {
            read: true,
            write: false,
        };
        let ready = listener.wait_ready(interest, deadline).map_err(failed)?;
        if !ready.read && passed(deadline) {
            return Err(Error::timed_out("accept on", address, Duration::ZERO));
        }
    }
}

/// Waits for the datagram that says who the peer is.
fn first_datagram(
    socket: &Socket,
    address: &Address,
    deadline: Option<Instant>,
    early: &mut VecDeque<Vec<u8>>,
) -> Result<Remote, Error> {
    let failed = |cause| Error::io("accept on", address, cause);
    let mut buffer = vec![0; DATAGRAM_ROOM];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((arrived, remote)) => {
                early.push_back(buffer[..arrived.bytes].to_vec());
                return Ok(remote);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_icmp(&error) => {}
            Err(cause) => return Err(failed(cause)),
        }
        let interest = PollInterest {
            read: true,
            write: false,
        };
        let ready = socket.wait_ready(interest, deadline).map_err(failed)?;
        if !ready.read && passed(deadline) {
            return Err(Error::timed_out("accept on", address, Duration::ZERO));
        }
    }
}

/// What came between the first datagram and connecting: the peer's is kept, others' is not ours.
fn keep_early(socket: &Socket, remote: &Remote, early: &mut VecDeque<Vec<u8>>) {
    let mut buffer = vec![0; DATAGRAM_ROOM];
    while early.len() < EARLY_DATAGRAMS
        && let Ok((arrived, from)) = socket.recv_from(&mut buffer)
    {
        if from.address == remote.address {
            early.push_back(buffer[..arrived.bytes].to_vec());
        }
    }
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn earlier(deadline: Option<Instant>, tick: Instant) -> Instant {
    deadline.map_or(tick, |deadline| deadline.min(tick))
}

/// Received bytes that are not handed out yet: `start..end` of a stream, or one datagram.
#[derive(Debug)]
struct ReceiveBuffer {
    datagram: bool,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    datagram_bytes: Option<usize>,
    /// Datagrams that came before the socket was connected.
    early: VecDeque<Vec<u8>>,
}

impl ReceiveBuffer {
    fn new(datagram: bool) -> Self {
        let room_bytes = if datagram { DATAGRAM_ROOM } else { STREAM_ROOM };
        Self {
            datagram,
            bytes: vec![0; room_bytes],
            start: 0,
            end: 0,
            datagram_bytes: None,
            early: VecDeque::new(),
        }
    }

    /// Room for a frame of which `needed_bytes` are needed in all. Grows by doubling what arrived, so
    /// never by more than a peer has sent.
    fn make_room(&mut self, needed_bytes: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + needed_bytes > self.bytes.len() && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
    }

    /// Whether a sender that waits may read: not more than the buffer holds.
    fn may_read_ahead(&self) -> bool {
        if self.datagram {
            self.datagram_bytes.is_none() && self.early.is_empty()
        } else {
            self.end < self.bytes.len()
        }
    }

    fn take_early(&mut self) -> bool {
        let Some(datagram) = self.early.pop_front() else {
            return false;
        };
        self.bytes[..datagram.len()].copy_from_slice(&datagram);
        self.datagram_bytes = Some(datagram.len());
        true
    }
}

/// What a session on one thread needs: a clock, and one block for the message that waits.
#[derive(Debug, Default)]
struct OneBlock(RefCell<Option<Block>>);

impl Surroundings for OneBlock {
    fn now_ns(&self) -> u64 {
        sys::clock::monotonic_ns()
    }

    fn block(&self) -> Block {
        let kept = self.0.borrow_mut().take();
        kept.unwrap_or_else(|| Block::with_room(BLOCK_BYTES))
    }

    fn recycle(&self, mut block: Block) {
        block.clear();
        *self.0.borrow_mut() = Some(block);
    }
}

/// `SO_RCVTIMEO` of every direct link: how late a deadline or a `Closer` can be noticed at worst. A
/// deadline farther away costs no call besides the receive itself.
const TICK: Duration = Duration::from_millis(100);
/// Holds a 64 KiB frame and the next one's start.
const STREAM_ROOM: usize = 128 * 1024;
/// Holds any datagram.
const DATAGRAM_ROOM: usize = 64 * 1024;
/// Between two tries to connect to a Unix listener whose backlog is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(1);
/// Most datagrams kept from the moment before the socket was connected.
const EARLY_DATAGRAMS: usize = 64;
