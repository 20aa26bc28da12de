//! A raw socket as a [`Line`]: frames behind 4-byte lengths, or datagrams.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Instant;

use socket2::Socket;

use super::{Fault, Line, TICK};
use crate::ping::Stop;
use crate::plan::Transport;
use crate::sys;
use crate::wire::{self, HELLO_LIMIT_BYTES};

/// A connected socket that blocks, borrowed for a conversation.
pub(crate) struct SocketLine<'a> {
    socket: &'a Socket,
    transport: Transport,
    stop: Stop<'a>,
    limit_bytes: usize,
}

impl<'a> SocketLine<'a> {
    pub(crate) fn new(socket: &'a Socket, transport: Transport, stop: Stop<'a>) -> Self {
        Self {
            socket,
            transport,
            stop,
            limit_bytes: HELLO_LIMIT_BYTES,
        }
    }

    /// The same for frames of up to so many bytes, where a hello's limit is less.
    pub(crate) fn with_frames_of(mut self, bytes: usize) -> Self {
        self.limit_bytes = self.limit_bytes.max(bytes);
        self
    }

    fn hear_frame(&self, until: Instant) -> Result<Vec<u8>, Fault> {
        let mut length = [0; 4];
        self.read_exact(&mut length, until)?;
        if wire::is_tls(&length) {
            return Err(Fault::Secured);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > self.limit_bytes {
            return Err(Fault::Foreign);
        }
        let mut body = vec![0; length];
        self.read_exact(&mut body, until)?;
        Ok(body)
    }

    fn hear_datagram(&self, until: Instant) -> Result<Vec<u8>, Fault> {
        self.wait_readable(until)?;
        let mut buffer = vec![0; DATAGRAM_ROOM];
        let bytes = (&mut &*self.socket).read(&mut buffer).map_err(fault)?;
        buffer.truncate(bytes);
        Ok(buffer)
    }

    fn read_exact(&self, to: &mut [u8], until: Instant) -> Result<(), Fault> {
        let mut filled = 0;
        while filled < to.len() {
            self.wait_readable(until)?;
            match (&mut &*self.socket)
                .read(&mut to[filled..])
                .map_err(fault)?
            {
                0 => return Err(Fault::Ended),
                bytes => filled += bytes,
            }
        }
        Ok(())
    }

    fn wait_readable(&self, until: Instant) -> Result<(), Fault> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.stop.is_set() {
                return Err(Fault::Stopped);
            }
            if left.is_zero() {
                return Err(Fault::TimedOut);
            }
            let wait_ns = left.min(TICK).as_nanos() as u64;
            if sys::poll::ppoll(self.socket.as_fd(), false, wait_ns)
                .map_err(fault)?
                .readable
            {
                return Ok(());
            }
        }
    }
}

impl Line for SocketLine<'_> {
    fn say(&mut self, message: &[u8]) -> Result<(), Fault> {
        if self.transport == Transport::Udp {
            return self.socket.send(message).map(|_| ()).map_err(fault);
        }
        let mut frame = (message.len() as u32).to_be_bytes().to_vec();
        frame.extend(message);
        (&mut &*self.socket).write_all(&frame).map_err(fault)
    }

    fn hear(&mut self, until: Instant) -> Result<Vec<u8>, Fault> {
        match self.transport {
            Transport::Udp => self.hear_datagram(until),
            Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
                self.hear_frame(until)
            }
        }
    }
}

fn fault(cause: io::Error) -> Fault {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Unreachable("connection refused".to_owned()),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Fault::Ended,
        _ => Fault::Failed(cause.to_string()),
    }
}

/// Holds any datagram.
const DATAGRAM_ROOM: usize = 65_536;
