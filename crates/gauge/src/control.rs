//! The control: the same exchange over raw blocking sockets, with the same bytes on the wire.
//!
//! It is what a careful program without any library would do: one system call a message, no queue,
//! no other thread. What it costs is the kernel's share of every figure beside it.

mod echo;
mod end;
mod epoll;
mod plug;
mod segments;
mod serial;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "control/tls/absent.rs"]
mod tls;

pub use self::echo::{EchoClient, serve_echo};
pub use self::end::{Closer, End};
pub use self::epoll::{EpollClient, serve_echo_by_epoll};
pub use self::plug::PlugClient;
pub use self::segments::{SegmentWriter, receive_segments};
pub use self::serial::SerialEnd;
pub use self::stream::{StreamWriter, receive_stream};
pub use self::tls::TlsEnd;
use crate::plan::Transport;

/// One message as it goes over the wire: the prefix, where there is one, and the payload.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    prefix_bytes: usize,
}

impl Frame {
    pub(crate) fn new(transport: Transport, payload_bytes: usize) -> Self {
        let prefix_bytes = transport.overhead_bytes();
        let mut bytes = vec![0; prefix_bytes + payload_bytes];
        bytes[..prefix_bytes].copy_from_slice(&prefix(payload_bytes)[..prefix_bytes]);
        Self {
            bytes,
            prefix_bytes,
        }
    }

    /// All of it.
    pub(crate) fn wire(&self) -> &[u8] {
        &self.bytes
    }

    /// The part that the measurement writes.
    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.prefix_bytes..]
    }
}

/// Four bytes, big-endian: the library's default length prefix.
fn prefix(payload_bytes: usize) -> [u8; 4] {
    u32::try_from(payload_bytes)
        .expect("a plan's payloads fit the prefix")
        .to_be_bytes()
}
