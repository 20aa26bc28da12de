//! What both ends do with a socket: its buffers, and bytes that go out while bytes come in.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::Duration;

use socket2::{SockRef, Socket};

use crate::clock::now_ns;
use crate::sys;

/// What the kernel may hold of a connection, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// Of what was sent (`SO_SNDBUF`).
    pub send_bytes: usize,
    /// Of what has come (`SO_RCVBUF`).
    pub receive_bytes: usize,
}

impl Buffers {
    /// Asks for them. The kernel cuts what is above its limits; see [`effective`](Self::effective).
    pub(super) fn set(self, socket: &Socket) -> io::Result<()> {
        socket.set_send_buffer_size(self.send_bytes)?;
        socket.set_recv_buffer_size(self.receive_bytes)
    }

    /// What the kernel made of it.
    pub(super) fn effective(socket: &Socket) -> io::Result<Self> {
        // It doubles what was asked for, for its own records, and says so.
        Ok(Self {
            send_bytes: socket.send_buffer_size()? / 2,
            receive_bytes: socket.recv_buffer_size()? / 2,
        })
    }
}

impl Default for Buffers {
    /// lagscope's.
    fn default() -> Self {
        Self {
            send_bytes: 131_072,
            receive_bytes: 65_536,
        }
    }
}

/// `send(MSG_DONTWAIT)`: as much as the kernel takes at once, which may be nothing.
#[inline]
pub(super) fn send_now(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    match SockRef::from(stream).send_with_flags(bytes, flags) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

/// What a receiver does when its client sends faster than it fetches: it keeps reading, up to
/// `limit_bytes` waiting, and writes whenever it can, until nothing waits.
///
/// Only so can a client send a whole message, however long, before it reads the first byte of the
/// reply. Returns how many bytes were read.
#[cold]
pub(super) fn catch_up(
    stream: &TcpStream,
    unsent: &[u8],
    limit_bytes: usize,
    patience: Duration,
) -> io::Result<usize> {
    let mut waiting = VecDeque::from(unsent.to_vec());
    let mut buffer = vec![0; PIECE_BYTES];
    let mut read_bytes = 0;
    let mut ended = false;
    while !waiting.is_empty() {
        let room = limit_bytes.saturating_sub(waiting.len());
        let ready = match sys::poll::poll(stream.as_fd(), room > 0 && !ended, true, patience) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        if ready == sys::poll::Ready::default() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if ready.writable {
            let sent = send_now(stream, waiting.as_slices().0)?;
            waiting.drain(..sent);
        }
        if ready.readable && room > 0 && !ended {
            let piece = room.min(PIECE_BYTES);
            let count = { stream }.read(&mut buffer[..piece])?;
            ended = count == 0;
            waiting.extend(&buffer[..count]);
            read_bytes += count;
        }
    }
    Ok(read_bytes)
}

pub(super) fn passed(since_ns: u64, limit: Duration) -> bool {
    u128::from(now_ns() - since_ns) >= limit.as_nanos()
}

/// The read timeout has passed, or a signal came: no fault of the connection.
pub(super) fn is_a_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}

/// How long a connection and a reply are waited for.
pub const REPLY_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks at the stop flag while a reply is waited for.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// What one read fetches at most.
pub(super) const PIECE_BYTES: usize = 64 * 1024;
