//! One link over TCP, TLS, UDP, Unix sockets and serial lines: a send strategy, an exact queue, and
//! accounting of every byte.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use tautline::{Address, Framing, IoOptions, IoThread, Link, LinkOptions, Received, ServerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let io = IoThread::start(IoOptions::default())?;
//! let framed = LinkOptions { framing: Framing::length_prefix(), ..LinkOptions::default() };
//!
//! let options = ServerOptions { link: framed.clone(), ..ServerOptions::default() };
//! let server = io.listen(&"tcp://127.0.0.1:0".parse()?, options, |_peer: &Link| {
//!     Ok(|peer: &Link, message: &[u8], _: Received| {
//!         let _ = peer.send(message); // Echo.
//!     })
//! })?;
//!
//! let (replies, inbox) = mpsc::channel();
//! let link = io.connect(&server.local_address(), framed, move |_: &Link, message: &[u8], _: Received| {
//!     drop(replies.send(message.to_vec()));
//! })?;
//! link.wait_open(Duration::from_secs(5))?;
//! link.send(b"hello")?;
//! assert_eq!(inbox.recv()?, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! All are off by default, and each only adds.
//!
//! * `tls`: `tls://` addresses, by rustls with ring; see [`LinkOptions::tls`]. Without it they are refused.
//! * `futures`: links and servers for tasks, under any executor: `AsyncLink` and `AsyncServer`, made by
//!   `IoThread::connect_async` and `listen_async`, or those of an `IoLoop`.
//! * `serial`: serial lines and pseudo-terminals as addresses, and a list of the devices: [`serial`].

#[cfg(not(target_os = "linux"))]
compile_error!("Tautline runs on Linux only: it relies on its sockets, clocks and scheduler.");

mod address;
mod begin;
mod channel;
mod direct;
mod driver;
mod error;
#[cfg(feature = "futures")]
mod future;
mod handler;
mod io_loop;
mod io_thread;
mod life;
mod link;
mod notice;
mod options;
mod outlet;
mod secured;
pub mod serial;
mod server;
mod statistics;
mod sync;
mod sys;
pub mod thread;
mod transport;
mod wakers;

pub use address::{Address, AddressError, DEFAULT_PORT, SerialLine, UDS_NAME_LIMIT, UdsName};
pub use direct::{Closer, DirectLink, DirectListener, Newcomer, Replies, Request};
pub use error::{Error, ErrorKind, FlushError, RecvError, Refusal, SendError};
#[cfg(feature = "futures")]
pub use future::{AsyncLink, AsyncReceiver, AsyncRecvError, AsyncSender, AsyncServer, Message};
pub use handler::{
    Batched, Closed, Credentials, Ended, Event, Handler, Opened, Reason, Received, Unsent,
};
pub use io_loop::{IoLoop, Turned};
pub use io_thread::IoThread;
pub use life::LinkState;
pub use link::Link;
#[cfg(feature = "futures")]
pub use options::{AcceptOptions, InboxOptions};
pub use options::{
    Batch, ClientCertificates, Identity, Interface, IoOptions, Keepalive, LinkOptions, Multicast,
    MulticastGroup, Pem, Roots, ServerOptions, StartHook, Tls, Verification,
};
pub use secured::{Secured, TlsStatistics, TlsVersion};
pub use server::{Broadcast, HandshakeStatistics, Server, ServerStatistics};
pub use statistics::{ConnectionStatistics, LinkStatistics, ReceiveStatistics, SocketBuffers};
pub use tautline_session::{
    ByteOrder, Discarded, Encoded, FirstAttempt, Found, FrameFault, Framer, Framing, Heartbeat,
    HeartbeatRtt, IdleSide, Lines, OnBadFrame, OnLoss, OwnFraming, Pattern, PrefixWidth, Pressure,
    QueueDelay, Reconnect, SendStatistics, Strategy, Tally, Unframeable, UnknownStrategy,
};

/// The snippets of README.md and the guide are compiled and run.
#[cfg(doctest)]
mod papers {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/getting-started.md")]
    struct GettingStarted;
    #[doc = include_str!("../../../docs/strategies.md")]
    struct Strategies;
    #[doc = include_str!("../../../docs/framing.md")]
    struct FrameAProtocol;
    #[doc = include_str!("../../../docs/reconnect.md")]
    struct SurviveAReconnect;
    #[doc = include_str!("../../../docs/servers.md")]
    struct Servers;
    #[doc = include_str!("../../../docs/multicast.md")]
    struct TalkToMany;
    #[doc = include_str!("../../../docs/reading.md")]
    struct Reading;
    #[doc = include_str!("../../../docs/statistics.md")]
    struct Statistics;
    #[doc = include_str!("../../../docs/threads.md")]
    struct Threads;
    #[cfg(feature = "serial")]
    #[doc = include_str!("../../../docs/serial.md")]
    struct Serial;
    #[cfg(feature = "futures")]
    #[doc = include_str!("../../../docs/gateway.md")]
    struct Gateway;
    #[cfg(feature = "futures")]
    #[doc = include_str!("../../../docs/futures.md")]
    struct Futures;
    #[cfg(feature = "tls")]
    #[doc = include_str!("../../../docs/tls.md")]
    struct Tls;
    #[doc = include_str!("../../../docs/coming-from.md")]
    struct ComingFrom;
}
