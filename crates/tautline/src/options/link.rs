//! Options of one link.

use std::time::Duration;

use tautline_session::{Framing, OnLoss, OutboundOptions, Reconnect, Strategy};

use super::{non_zero, queue_bytes, reconnect, validate_spin};
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
    /// read returns. Between two Tautlines take [`Framing::length_prefix`].
    pub framing: Framing,
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
    /// Default 1 MiB. A frame that announces more is a counted fault, and memory is never set aside
    /// for it. It has to be within what the prefix can say: 255 for one byte, 65,535 for two.
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
    /// `reconnect`; it sets an eighth of both queue limits aside for what `opened` sends.
    pub on_loss: OnLoss,
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
            strategy: Strategy::Reliable,
            queue_limit_bytes: 1024 * 1024,
            queue_limit_messages: 65_536,
            frame_limit_bytes: 1024 * 1024,
            half_open: false,
            tcp_nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            connect_timeout: Duration::from_secs(5),
            reconnect: None,
            on_loss: OnLoss::Discard,
            spin: Duration::ZERO,
        }
    }
}

impl LinkOptions {
    /// Refuses, by the option's name, what makes no sense for this address.
    pub(crate) fn validate(&self, address: &Address) -> Result<(), Error> {
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
        reconnect::validate(self, address)?;
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

    /// The queue of such a link.
    pub(crate) fn outbound(&self, address: &Address) -> OutboundOptions {
        let datagram_limit_bytes = match address {
            Address::Udp { .. } => DATAGRAM_LIMIT_BYTES,
            Address::Tcp { .. } | Address::Uds(_) => usize::MAX,
        };
        OutboundOptions {
            strategy: self.strategy,
            framing: self.framing,
            queue_limit_bytes: self.queue_limit_bytes,
            queue_limit_messages: self.queue_limit_messages,
            frame_limit_bytes: self.frame_limit_bytes.min(datagram_limit_bytes),
            on_loss: self.on_loss,
            shared: false,
            budget: None,
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
        queue_bytes("queue_limit_bytes", self.queue_limit_bytes, self.framing)?;
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
