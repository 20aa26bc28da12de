//! Options of one link.

use std::time::Duration;

use tautline_session::{Framing, Inbound, OnBadFrame, OutboundOptions, Parser, Strategy};

use super::{non_zero, queue_bytes, validate_spin};
use crate::address::Address;
use crate::error::Error;
use crate::transport::DATAGRAM_LIMIT_BYTES;

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
    /// Longest payload accepted from the peer or from `send`.
    ///
    /// Default 1 MiB. A frame that announces more, or has no end within it, is a counted fault, and
    /// memory is never set aside for it. It has to be within what the framing can carry: 255 for a
    /// prefix of one byte, 65,535 for two.
    pub frame_limit_bytes: usize,
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
    /// How long connecting may take, over all addresses of a name.
    ///
    /// Default 5 s; left alone, the kernel would try for over two minutes. Less on a local network.
    pub connect_timeout: Duration,
    /// How long a `DirectLink` polls, giving way with `sched_yield`, before it sleeps.
    ///
    /// Default zero: it sleeps at once, and idle costs no CPU. 50 µs on CPUs that halt when idle
    /// makes a round trip several times faster. A link on an I/O thread refuses any other value than
    /// zero: the thread has its own, [`IoOptions::spin`]. Under a real-time policy more than 50 µs is
    /// refused unless the thread has one CPU of its own: the yield would let nobody else run.
    pub spin: Duration,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            framing: Framing::Raw,
            on_bad_frame: None,
            strategy: Strategy::Reliable,
            queue_limit_bytes: 1024 * 1024,
            queue_limit_messages: 65_536,
            frame_limit_bytes: 1024 * 1024,
            half_open: false,
            tcp_nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            connect_timeout: Duration::from_secs(5),
            spin: Duration::ZERO,
        }
    }
}

impl LinkOptions {
    /// Refuses, by the option's name, what makes no sense for this address.
    pub(crate) fn validate(&self, address: &Address) -> Result<(), Error> {
        self.validate_framing()?;
        self.validate_for_transport(address)?;
        self.validate_limits()?;
        buffer("send_buffer_bytes", self.send_buffer_bytes)?;
        buffer("receive_buffer_bytes", self.receive_buffer_bytes)?;
        if self.connect_timeout.is_zero() {
            return Err(Error::option(
                "connect_timeout",
                "0 would never reach anybody",
            ));
        }
        validate_spin(self.spin)
    }

    /// An I/O thread polls for all its links or for none.
    pub(crate) fn refuse_spin(&self) -> Result<(), Error> {
        if self.spin.is_zero() {
            return Ok(());
        }
        let why = "only a DirectLink polls by itself; an I/O thread has IoOptions::spin";
        Err(Error::option("spin", why))
    }

    /// The queue of such a link.
    pub(crate) fn outbound(&self, address: &Address) -> OutboundOptions {
        let datagram_limit_bytes = match address {
            Address::Udp { .. } => DATAGRAM_LIMIT_BYTES,
            Address::Tcp { .. } | Address::Uds(_) => usize::MAX,
        };
        OutboundOptions {
            strategy: self.strategy,
            framing: self.framing.clone(),
            queue_limit_bytes: self.queue_limit_bytes,
            queue_limit_messages: self.queue_limit_messages,
            frame_limit_bytes: self.frame_limit_bytes.min(datagram_limit_bytes),
            shared: false,
            budget: None,
        }
    }

    /// What finds the frames of one connection.
    pub(crate) fn inbound(&self) -> Inbound {
        Inbound::new(
            self.framing.clone(),
            self.frame_limit_bytes,
            self.on_bad_frame,
        )
    }

    /// The same, for whoever keeps the bytes that are read.
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
            Address::Tcp { .. } | Address::Uds(_)
                if self.strategy == Strategy::KeepLatest && self.framing == Framing::Raw =>
            {
                Err(Error::option(
                    "strategy",
                    "keeplatest on a byte stream needs a framing other than raw, \
                     or evicting would cut a message in two",
                ))
            }
            Address::Tcp { .. } | Address::Udp { .. } | Address::Uds(_) => Ok(()),
        }
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
