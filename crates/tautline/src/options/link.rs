//! Options of one link.

use std::time::Duration;

use tautline_session::{
    Framing, Heartbeat, IdleTimeouts, Inbound, OnBadFrame, OnLoss, OutboundOptions, Parser,
    Reconnect, Strategy, Tally,
};

use super::{Batch, Keepalive, Multicast, Tls, non_zero, queue_bytes, reconnect, validate_spin};
use crate::address::Address;
use crate::error::Error;
use crate::transport::{self, DATAGRAM_LIMIT_BYTES};

/// Options of one link, the same on every transport.
///
/// ```
/// use tautline::{Framing, LinkOptions, Strategy};
///
/// let options = LinkOptions {
///     framing: Framing::length_prefix(),
///     strategy: Strategy::KeepLatest,
///     ..LinkOptions::default()
/// };
/// assert_eq!(options.queue_limit_bytes, 1024 * 1024);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkOptions {
    /// How messages are marked on a byte stream; both ends have to agree. UDP keeps borders by
    /// itself and takes only [`Framing::Raw`].
    ///
    /// Default [`Framing::Raw`]: what any other program speaks, but a message is then whatever one
    /// read returns. Between two Tautlines take [`Framing::length_prefix`]; for text
    /// [`Framing::lines`]; where bytes get lost or garbled on the way [`Framing::cobs`].
    pub framing: Framing,
    /// What becomes of the connection when the peer sends what is no frame. Whatever it is, the fault is
    /// an [`Event::BadFrame`](crate::Event::BadFrame) and counted, and what is passed over is counted in
    /// `skipped_bytes`.
    ///
    /// Default `None`, the framing's own: it ends ([`OnBadFrame::Close`]) where nothing marks the next
    /// beginning (length prefix, [`Framing::own`]), else it goes on there
    /// ([`OnBadFrame::Resynchronise`]). Close also where a peer that makes mistakes is not to be trusted
    /// with more; skip where single messages are too large and the others matter. A length prefix
    /// cannot resynchronise, and raw has no frames.
    pub on_bad_frame: Option<OnBadFrame>,
    /// What a send does when the queue is full.
    ///
    /// Default [`Strategy::Reliable`]: it waits. Where a late sample is worthless, take
    /// [`Strategy::KeepLatest`], which on byte streams needs a framing other than raw: cut out of
    /// an unmarked stream, a message would damage its neighbours.
    pub strategy: Strategy,
    /// Most encoded bytes waiting or in flight. When full, `strategy` decides.
    ///
    /// Default 1 MiB: about 80 ms of a saturated 100 Mb/s link. Less where fresh data matters more
    /// than bursts; the queue never holds more than this.
    pub queue_limit_bytes: usize,
    /// Most messages waiting or in flight, whatever their size.
    ///
    /// Default 65,536, which 16-byte messages reach together with the default of
    /// `queue_limit_bytes`. 2 is the least that keeps one fresh sample behind the one
    /// being written under [`Strategy::KeepLatest`]; with 1 a send during a write is `Full`.
    pub queue_limit_messages: usize,
    /// How long a message may wait. What waited longer is given up instead of written, and counted as
    /// [`too_old`](crate::Discarded::too_old).
    ///
    /// Default `None`: as long as it takes. For samples and commands that are worth nothing when they
    /// come late; with besteffort, and beside the eviction of keeplatest. A message is judged when a
    /// writer takes it, when a newcomer finds no room, and, while the kernel takes nothing, by the
    /// clock; one that is partly written never is given up. On TCP the kernel then holds little
    /// unsent (`TCP_NOTSENT_LOWAT` 16 KiB), so that messages wait where they are judged; what it
    /// holds all the same comes on top of this time. A `DirectLink` has no clock of its own: the
    /// one message that may wait there is judged when the next call writes.
    ///
    /// Refused with reliable, which drops nothing, and on byte streams with raw framing: cut out of
    /// an unmarked stream, a message would damage its neighbours. Costs one clock read for each
    /// message that queues.
    pub max_queue_delay: Option<Duration>,
    /// Longest payload accepted from the peer or from `send`.
    ///
    /// Default 1 MiB. A frame that announces more, or has no end within it, is a counted fault, and
    /// memory is never set aside for it. It has to be within what the framing can carry: 255 for a
    /// prefix of one byte, 65,535 for two.
    pub frame_limit_bytes: usize,
    /// Gathers messages that came and hands them out together, to [`Handler::batch`].
    ///
    /// Default `None`: each is handed out at once. For handlers to which a call costs more than the
    /// message, such as one that takes a lock or writes to a disk; what arrives is handed out when
    /// there are so many, or so many bytes, or the first has waited so long, whichever comes first; and
    /// before `closed`, and before an event about what came after. Each keeps its time of arrival.
    /// Messages of two links are never mixed. What is gathered when reading is paused waits with the
    /// rest until it goes on, and is lost with it if the link ends before. Memory: `bytes` and 64 a
    /// message, for each link. Refused on a `DirectLink`.
    ///
    /// [`Handler::batch`]: crate::Handler::batch
    pub batch: Option<Batch>,
    /// How long a connection may be silent both ways before it ends with
    /// [`Reason::Idle`](crate::Reason::Idle).
    ///
    /// Default `None`: for ever. For peers that vanish without a word, where something always moves
    /// while they live. Judged while the connection is open, by the time of the last read and the last
    /// write that the kernel took; it is never short, and late by no more than timers are. What waits
    /// in the kernel's buffer is read first. While reading is paused nothing can come, and that is
    /// no silence. Refused on a `DirectLink`, as the next two are.
    pub idle_timeout: Option<Duration>,
    /// How long nothing may come before the connection ends. A side that has ended is not waited for.
    ///
    /// Default `None`: for ever. For peers that promise to say something every so often.
    pub receive_idle_timeout: Option<Duration>,
    /// How long nothing may be written before the connection ends, whether there was nothing to send or
    /// the peer took nothing. Our side is not judged once it has ended.
    ///
    /// Default `None`: for ever. For connections that are kept only while they are used.
    pub send_idle_timeout: Option<Duration>,
    /// Has the drivers of both ends ask each other whether they live, between messages and unseen by
    /// handlers. **Both ends have to set it**: to one that does not, a heartbeat is a bad frame.
    ///
    /// Default `None`. It finds what TCP cannot: a peer whose kernel answers and whose program does not,
    /// stopped, deadlocked or swapped out; and it measures round trips
    /// ([`heartbeat_rtt`](crate::LinkStatistics::heartbeat_rtt)). Every `interval` a driver sends a
    /// ping, unless anything waits to be written, and answers those of the peer at once. Any byte is a
    /// sign of life; after `missed_limit` intervals without one the connection ends with
    /// [`Reason::HeartbeatLost`](crate::Reason::HeartbeatLost). Where a program holds its I/O thread in
    /// a callback for so long, its peers take it for dead. While reading is paused the peer is not
    /// judged, and our own pings tell it that we live.
    ///
    /// Heartbeats count in the accounting as messages with 9 bytes of payload, in `heartbeats` besides,
    /// and as traffic for the idle timeouts. For a length prefix only, whose largest length is then
    /// theirs: `frame_limit_bytes` is one less at most. Refused on a `DirectLink`.
    pub heartbeat: Option<Heartbeat>,
    /// Has the kernel probe a TCP peer that says nothing (`SO_KEEPALIVE`).
    ///
    /// Default `None`: off, as the system has it. Finds a peer whose machine or network is gone, at the
    /// earliest after `idle` and `count` times `interval`, and then the connection is lost as timed
    /// out. A peer that is stopped but whose kernel answers is alive to it. TCP only; a server's peers
    /// have it too.
    pub keepalive: Option<Keepalive>,
    /// How long sent bytes may stay unacknowledged before the connection is lost
    /// (`TCP_USER_TIMEOUT`): whole milliseconds.
    ///
    /// Default `None`: the system's retransmissions, about fifteen minutes. It finds a dead peer while
    /// something is being sent, which keepalive does not; where both are set this one says when probes
    /// give up. It also ends a peer that lives and reads nothing for so long, for then nothing more is
    /// taken from us either. TCP only; a server's peers have it too.
    pub tcp_user_timeout: Option<Duration>,
    /// Whether our side goes on sending after the peer has ended its own.
    ///
    /// Default false: the peer's end of stream flushes what waits, then closes. True for protocols
    /// in which one side says "that was all" and waits for the answer. Streams only.
    pub half_open: bool,
    /// `TCP_NODELAY`: send small segments at once.
    ///
    /// Default true, for latency; this library gathers queued messages itself. False leaves small
    /// single sends to Nagle's algorithm, on very thin lines. Has no meaning off TCP.
    pub tcp_nodelay: bool,
    /// `SO_SNDBUF` in bytes of data; the kernel sets aside twice as much for its bookkeeping.
    ///
    /// Default `None`: the kernel's own tuning, which is best for TCP. Refused where the kernel
    /// grants less (`net.core.wmem_max`) or more than was asked.
    pub send_buffer_bytes: Option<usize>,
    /// `SO_RCVBUF` in bytes of data; the kernel sets aside twice as much for its bookkeeping.
    ///
    /// Default `None`. Raise it for UDP in bursts, which a small buffer drops. Refused where the
    /// kernel grants less (`net.core.rmem_max`) or more than was asked.
    pub receive_buffer_bytes: Option<usize>,
    /// `SO_BROADCAST`: leave to send to a broadcast address, where everybody in a network is meant.
    ///
    /// Default false: the kernel does not send there, so that nobody does by mistake, and a link to one
    /// is refused with this option's name. Whether an address is one, our own routes say: that of a
    /// network behind a router needs no leave, and is taken for a host. UDP over IPv4 only.
    pub broadcast: bool,
    /// Whether a UDP link hears whoever sends to it, and not its peer alone. Each message then says
    /// [`from`](crate::Received::from) whom it came.
    ///
    /// Default false: the socket is connected, the kernel passes on nothing of strangers, and the
    /// network's word about the peer is an [`Event::Unreachable`](crate::Event::Unreachable). True for
    /// peers that answer from another port or address than they were asked on, such as TFTP servers.
    /// Then anybody can answer, and the network's word is not heard. A link to a group or a broadcast
    /// address is so whatever this says: no answer ever comes from there. UDP only; a server refuses
    /// it.
    pub unconnected: bool,
    /// How datagrams to a multicast group leave. UDP only, and only to a group or in the options of a
    /// server.
    ///
    /// Default: by the interface that the routes choose, not beyond this network, and to members on
    /// this machine too.
    pub multicast: Multicast,
    /// How long one attempt to connect may take, from looking a name up to the last of its addresses.
    ///
    /// Default 5 s; left alone, the kernel would try for over two minutes. Less on a local network. A
    /// name's addresses are tried 250 ms after one another, or as soon as one fails, IPv6 and IPv4 in
    /// turn, 16 at a time; the first that answers is taken (RFC 8305).
    pub connect_timeout: Duration,
    /// How the link comes back after it could not connect or lost its connection.
    ///
    /// Default `None`: it has one connection, and ends with it. With `Some(Reconnect::default())` it
    /// tries again, with growing pauses, after every end that this side did not ask for: the peer's
    /// end, a broken connection, a bad frame, a name that nobody knows, a refusal, a timeout. It ends
    /// by `close`, `abort`, the drop of its last handle, a panic in a callback, or where the rules say
    /// to give up. A link whose reading is paused stays paused.
    ///
    /// Over UDP nothing is ever lost that could be made again: it matters only until the link opens,
    /// where a name cannot be looked up or no route leads to the peer. A server's options refuse it:
    /// its peers come back by themselves. So does a `DirectLink`, which has no thread that could.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tautline::{LinkOptions, Reconnect};
    ///
    /// let patient = Reconnect {
    ///     cap: Duration::from_secs(300),
    ///     ..Reconnect::default()
    /// };
    /// let options = LinkOptions { reconnect: Some(patient), ..LinkOptions::default() };
    /// # assert!(options.reconnect.is_some_and(|rules| rules.attempts_limit.is_none()));
    /// ```
    pub reconnect: Option<Reconnect>,
    /// What becomes of messages that wait when their connection is lost.
    ///
    /// Default [`OnLoss::Discard`]. [`OnLoss::Keep`] needs a stream, a framing other than raw, and
    /// `reconnect`; it sets an eighth of both queue limits, at least one message, aside for what
    /// `opened` sends.
    pub on_loss: OnLoss,
    /// How long a `DirectLink` polls, giving way with `sched_yield`, before it sleeps.
    ///
    /// Default zero: it sleeps at once, and idle costs no CPU. 50 µs on CPUs that halt when idle
    /// makes a round trip several times faster. A link on an I/O thread refuses any other value than
    /// zero: the thread has its own, [`IoOptions::spin`]. Under a real-time policy more than 50 µs is
    /// refused unless the thread has one CPU of its own: the yield would let nobody else run.
    ///
    /// [`IoOptions::spin`]: crate::IoOptions::spin
    pub spin: Duration,
    /// TLS: whom this side trusts, and what it shows of itself. Only on `tls://` addresses.
    ///
    /// Default: the system's roots, no certificate of our own.
    pub tls: Tls,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            framing: Framing::Raw,
            on_bad_frame: None,
            strategy: Strategy::Reliable,
            queue_limit_bytes: 1024 * 1024,
            queue_limit_messages: 65_536,
            max_queue_delay: None,
            frame_limit_bytes: 1024 * 1024,
            batch: None,
            idle_timeout: None,
            receive_idle_timeout: None,
            send_idle_timeout: None,
            heartbeat: None,
            keepalive: None,
            tcp_user_timeout: None,
            half_open: false,
            tcp_nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            broadcast: false,
            unconnected: false,
            multicast: Multicast::default(),
            connect_timeout: Duration::from_secs(5),
            reconnect: None,
            on_loss: OnLoss::Discard,
            spin: Duration::ZERO,
            tls: Tls::default(),
        }
    }
}

impl LinkOptions {
    /// Refuses, by the option's name, what makes no sense for this address.
    pub(crate) fn validate(&self, address: &Address) -> Result<(), Error> {
        transport::refuse_unbuilt(address)?;
        self.validate_framing()?;
        self.validate_for_transport(address)?;
        self.validate_for_serial(address)?;
        self.validate_limits()?;
        self.validate_max_queue_delay(address)?;
        self.validate_liveness(address)?;
        self.validate_datagrams(address)?;
        buffer("send_buffer_bytes", self.send_buffer_bytes)?;
        buffer("receive_buffer_bytes", self.receive_buffer_bytes)?;
        if self.connect_timeout.is_zero() {
            return Err(Error::option(
                "connect_timeout",
                "0 would never reach anybody",
            ));
        }
        reconnect::validate(self, address)?;
        self.tls.validate(address)?;
        validate_spin(self.spin)
    }

    /// Only a client's link on an I/O thread comes back.
    pub(crate) fn refuse_reconnect(&self, why: &str) -> Result<(), Error> {
        if self.reconnect.is_none() {
            return Ok(());
        }
        Err(Error::option("reconnect", why))
    }

    /// An I/O thread polls for all its links or for none.
    pub(crate) fn refuse_spin(&self) -> Result<(), Error> {
        if self.spin.is_zero() {
            return Ok(());
        }
        let why = "only a DirectLink polls by itself; an I/O thread has IoOptions::spin";
        Err(Error::option("spin", why))
    }

    /// The receiving half of a connection of such a link.
    pub(crate) fn inbound(&self) -> Inbound {
        let inbound = Inbound::new(
            self.framing.clone(),
            self.frame_limit_bytes,
            self.on_bad_frame,
        );
        match self.heartbeat {
            Some(_) => inbound.with_control(),
            None => inbound,
        }
    }

    pub(crate) const fn idle_timeouts(&self) -> IdleTimeouts {
        IdleTimeouts {
            both: self.idle_timeout,
            receiving: self.receive_idle_timeout,
            sending: self.send_idle_timeout,
        }
    }

    /// Bytes of the queue for all but the reopen hook.
    pub(super) fn ordinary_queue_bytes(&self) -> usize {
        let limit = Tally {
            messages: self.queue_limit_messages as u64,
            bytes: self.queue_limit_bytes as u64,
        };
        self.on_loss.ordinary_limit(limit).bytes as usize
    }

    /// The queue of such a link.
    pub(crate) fn outbound(&self, address: &Address) -> OutboundOptions {
        let datagram_limit_bytes = match address {
            Address::Udp { .. } => DATAGRAM_LIMIT_BYTES,
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => {
                usize::MAX
            }
        };
        OutboundOptions {
            strategy: self.strategy,
            framing: self.framing.clone(),
            queue_limit_bytes: self.queue_limit_bytes,
            queue_limit_messages: self.queue_limit_messages,
            frame_limit_bytes: self.frame_limit_bytes.min(datagram_limit_bytes),
            copy_limit_bytes: COPY_LIMIT_BYTES,
            max_queue_delay_ns: self.max_queue_delay.map(nanoseconds),
            on_loss: self.on_loss,
            shared: false,
            budget: None,
        }
    }

    /// What finds the frames of a connection for whoever keeps the bytes that are read.
    pub(crate) fn parser(&self) -> Parser {
        Parser::new(
            self.framing.clone(),
            self.frame_limit_bytes,
            self.on_bad_frame,
        )
    }

    fn validate_framing(&self) -> Result<(), Error> {
        self.framing
            .check()
            .map_err(|why| Error::option("framing", why))?;
        let why = match (&self.framing, self.on_bad_frame) {
            (Framing::Raw, Some(_)) => "raw has no frames that could be bad; leave it out",
            (Framing::LengthPrefix { .. }, Some(OnBadFrame::Resynchronise)) => {
                "a length prefix marks no beginning to look for; skip passes over what was announced"
            }
            _ => return Ok(()),
        };
        Err(Error::option("on_bad_frame", why))
    }

    fn validate_max_queue_delay(&self, address: &Address) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::option("max_queue_delay", why));
        match self.max_queue_delay {
            None => Ok(()),
            Some(Duration::ZERO) => refused("0 would give up every message that waits at all"),
            Some(_) if self.strategy == Strategy::Reliable => {
                refused("reliable drops nothing, whatever its age; take besteffort or keeplatest")
            }
            Some(_) if self.framing == Framing::Raw && is_byte_stream(address) => refused(
                "a byte stream needs a framing other than raw, or giving a message up would cut \
                 the stream",
            ),
            Some(_) => Ok(()),
        }
    }

    fn validate_for_transport(&self, address: &Address) -> Result<(), Error> {
        match address {
            Address::Udp { .. } if self.framing != Framing::Raw => Err(Error::option(
                "framing",
                "udp keeps the borders of messages by itself and takes only raw",
            )),
            Address::Udp { .. } if self.half_open => Err(Error::option(
                "half_open",
                "udp has no end of stream; leave it false",
            )),
            Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_)
                if self.strategy == Strategy::KeepLatest && self.framing == Framing::Raw =>
            {
                Err(Error::option(
                    "strategy",
                    "keeplatest on a byte stream needs a framing other than raw, \
                     or evicting would cut a message in two",
                ))
            }
            Address::Tcp { .. }
            | Address::Tls { .. }
            | Address::Udp { .. }
            | Address::Uds(_)
            | Address::Serial(_) => Ok(()),
        }
    }

    /// A serial line is a stream without the ends and buffers of a socket.
    fn validate_for_serial(&self, address: &Address) -> Result<(), Error> {
        let Address::Serial(_) = address else {
            return Ok(());
        };
        for (name, asked, why) in [
            (
                "half_open",
                self.half_open,
                "serial has no end of stream; leave it false",
            ),
            (
                "send_buffer_bytes",
                self.send_buffer_bytes.is_some(),
                "serial has no such buffer, its driver has one of its own; leave it out",
            ),
            (
                "receive_buffer_bytes",
                self.receive_buffer_bytes.is_some(),
                "serial has no such buffer, its driver has one of its own; leave it out",
            ),
        ] {
            if asked {
                return Err(Error::option(name, why));
            }
        }
        Ok(())
    }

    fn validate_limits(&self) -> Result<(), Error> {
        queue_bytes("queue_limit_bytes", self.queue_limit_bytes, &self.framing)?;
        non_zero(
            "queue_limit_messages",
            self.queue_limit_messages,
            "0 would never accept a message",
        )?;
        non_zero(
            "frame_limit_bytes",
            self.frame_limit_bytes,
            "0 would never accept a message",
        )?;
        let most = self.framing.payload_limit_bytes();
        if self.frame_limit_bytes > most {
            return Err(Error::option(
                "frame_limit_bytes",
                format!(
                    "{} is more than the framing can say: {most}",
                    self.frame_limit_bytes
                ),
            ));
        }
        Ok(())
    }
}

const fn is_byte_stream(address: &Address) -> bool {
    match address {
        Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => true,
        Address::Udp { .. } => false,
    }
}

/// A time beyond the clock's range never comes.
fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

fn buffer(name: &'static str, bytes: Option<usize>) -> Result<(), Error> {
    match bytes {
        None => Ok(()),
        Some(0) => Err(Error::option(name, "0 leaves no buffer")),
        // The option is an int, and the kernel doubles it.
        Some(bytes) if bytes > BUFFER_LIMIT => Err(Error::option(
            name,
            format!("{bytes} is more than the system can say: {BUFFER_LIMIT}"),
        )),
        Some(_) => Ok(()),
    }
}

/// The largest buffer whose double is still an int.
const BUFFER_LIMIT: usize = i32::MAX as usize / 2;

/// Owned payloads from here on are not copied into the queue. CPU time a message, copied / owned, the
/// better of two short runs on a busy virtual machine with both ends on one of two cores: tcp 4 KiB
/// 2.6 / 2.6 us, 8 KiB 4.2 / 4.1, 16 KiB 7.8 / 5.4, 32 KiB 15 / 12, 64 KiB 34 / 30; uds 2.4 / 3.0,
/// 4.3 / 3.2, 7.0 / 7.5, 17 / 12, 32 / 23.
const COPY_LIMIT_BYTES: usize = 16 * 1024;
