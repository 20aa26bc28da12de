//! The sender: one blocking TCP socket, one message at a time, one clock reading before and one
//! after.

use std::io::{self, Read as _};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::traffic::{REPLY_LIMIT, TICK, is_a_pause, passed, send_now};
use crate::clock::now_ns;
use crate::sys;
use crate::wire::LAGSCOPE_START;

/// A connection to a receiver, and the message that goes over it.
#[derive(Debug)]
pub struct Sender {
    stream: TcpStream,
    message: Vec<u8>,
    reply: Vec<u8>,
}

/// How long to ping, and how densely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// When it ends.
    pub length: Length,
    /// Between a reply and the next message.
    pub pause: Duration,
}

/// When a run ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After so many pings, at least one.
    Pings(u64),
    /// With the ping that ends after so long.
    Time(Duration),
}

/// One ping whose reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping {
    /// Counted from 1.
    pub number: u64,
    /// From before the send to the last byte of the reply.
    pub rtt_ns: u64,
    /// From the start of the run to the reply.
    pub elapsed_ns: u64,
}

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// As it was to end.
    Complete,
    /// By the stop flag, or by the one who was told of each ping.
    Stopped,
    /// The connection is gone.
    Lost(io::Error),
    /// No whole reply came within [`REPLY_LIMIT`].
    Silent,
    /// A reply was not what had been sent.
    Altered,
}

impl Sender {
    /// Takes a connected socket, whose reads end after a while so that the limits are looked at.
    pub(super) fn new(stream: TcpStream, message_bytes: usize) -> Self {
        Self {
            stream,
            message: vec![FILLER; message_bytes],
            reply: vec![0; message_bytes],
        }
    }

    /// The number of the socket.
    pub fn socket_number(&self) -> i32 {
        self.stream.as_raw_fd()
    }

    /// The port it goes out from; 0 if the kernel does not say.
    pub fn local_port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |address| address.port())
    }

    /// Pings until the run is over, and tells `each` of every ping, outside of what is measured.
    ///
    /// The stop flag ends it before the next message, and, from a signal on, while a reply is
    /// waited for.
    pub fn run(
        &mut self,
        run: &Run,
        stop: &AtomicBool,
        mut each: impl FnMut(Ping) -> ControlFlow<()>,
    ) -> End {
        let start_ns = now_ns();
        self.write_start();
        if let Err(end) = self.exchange(stop) {
            return end;
        }
        if self.reply != self.message {
            return End::Altered;
        }
        let mut number = 0;
        loop {
            if stop.load(Ordering::Relaxed) {
                return End::Stopped;
            }
            self.write_number(number);
            let sent_ns = now_ns();
            if let Err(end) = self.exchange(stop) {
                return end;
            }
            let received_ns = now_ns();
            if self.reply != self.message {
                return End::Altered;
            }
            number += 1;
            let ping = Ping {
                number,
                rtt_ns: received_ns - sent_ns,
                elapsed_ns: received_ns - start_ns,
            };
            if each(ping).is_break() {
                return End::Stopped;
            }
            let Some(pause) = pause_after(run, ping, start_ns) else {
                return End::Complete;
            };
            if !pause.is_zero() {
                rest(pause, stop);
                if run.is_over(number, now_ns() - start_ns) {
                    return End::Complete;
                }
            }
        }
    }

    /// One message there and back.
    #[inline]
    fn exchange(&mut self, stop: &AtomicBool) -> Result<(), End> {
        let sent = send_now(&self.stream, &self.message).map_err(End::Lost)?;
        let mut received = 0;
        if sent < self.message.len() {
            received = self.send_rest(sent, stop)?;
        }
        let mut waited = Waited::default();
        while received < self.reply.len() {
            match (&self.stream).read(&mut self.reply[received..]) {
                Ok(0) => return Err(End::Lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => received += count,
                Err(error) if is_a_pause(&error) => waited.look(stop)?,
                Err(error) => return Err(End::Lost(error)),
            }
        }
        Ok(())
    }

    /// A message longer than the kernel takes at once: a receiver may send its beginning back
    /// before it has seen its end, so both ways are kept moving. Returns how much of the reply has
    /// come.
    #[cold]
    fn send_rest(&mut self, mut sent: usize, stop: &AtomicBool) -> Result<usize, End> {
        let mut received = 0;
        let mut waited = Waited::default();
        while sent < self.message.len() {
            let room = received < self.reply.len();
            let ready = match sys::poll::poll(self.stream.as_fd(), room, true, TICK) {
                Ok(ready) => ready,
                Err(error) if is_a_pause(&error) => sys::poll::Ready::default(),
                Err(error) => return Err(End::Lost(error)),
            };
            let before = sent + received;
            if ready.writable {
                sent += send_now(&self.stream, &self.message[sent..]).map_err(End::Lost)?;
            }
            if ready.readable && room {
                match (&self.stream).read(&mut self.reply[received..]) {
                    Ok(0) => return Err(End::Lost(io::ErrorKind::UnexpectedEof.into())),
                    Ok(count) => received += count,
                    Err(error) if is_a_pause(&error) => {}
                    Err(error) => return Err(End::Lost(error)),
                }
            }
            if sent + received == before {
                waited.look(stop)?;
            } else {
                waited = Waited::default();
            }
        }
        Ok(received)
    }

    fn write_start(&mut self) {
        let length = self.message.len().min(LAGSCOPE_START.len());
        self.message[..length].copy_from_slice(&LAGSCOPE_START[..length]);
    }

    /// The low 32 bits, or as many as the message has room for.
    #[inline]
    fn write_number(&mut self, number: u64) {
        let bytes = number.to_le_bytes();
        let length = self.message.len().min(4);
        self.message[..length].copy_from_slice(&bytes[..length]);
    }
}

impl Run {
    fn is_over(&self, pings: u64, elapsed_ns: u64) -> bool {
        match self.length {
            Length::Pings(count) => pings >= count,
            Length::Time(time) => u128::from(elapsed_ns) >= time.as_nanos(),
        }
    }
}

/// How long to rest before the next ping: never beyond the end of the run. `None` if this was the
/// last.
fn pause_after(run: &Run, ping: Ping, start_ns: u64) -> Option<Duration> {
    if run.is_over(ping.number, ping.elapsed_ns) {
        return None;
    }
    if run.pause.is_zero() {
        return Some(Duration::ZERO);
    }
    Some(match run.length {
        Length::Pings(_) => run.pause,
        Length::Time(time) => {
            let elapsed = Duration::from_nanos(now_ns() - start_ns);
            run.pause.min(time.saturating_sub(elapsed))
        }
    })
}

/// Sleeps, until a signal raises the stop flag.
fn rest(time: Duration, stop: &AtomicBool) {
    let begun_ns = now_ns();
    while !stop.load(Ordering::Relaxed) {
        let rested = Duration::from_nanos(now_ns() - begun_ns);
        match time.checked_sub(rested) {
            // A signal that comes just before the sleep does not end it: hence a limit.
            Some(left) if !left.is_zero() => sys::poll::pause(left.min(LONGEST_SLEEP)),
            _ => return,
        }
    }
}

/// How long nothing has come. The clock is first read when a wait was long enough to be looked at.
#[derive(Debug, Default)]
struct Waited {
    since_ns: Option<u64>,
}

impl Waited {
    #[cold]
    fn look(&mut self, stop: &AtomicBool) -> Result<(), End> {
        if stop.load(Ordering::Relaxed) {
            return Err(End::Stopped);
        }
        let since_ns = *self.since_ns.get_or_insert_with(now_ns);
        if passed(since_ns, REPLY_LIMIT.saturating_sub(TICK)) {
            return Err(End::Silent);
        }
        Ok(())
    }
}

const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const FILLER: u8 = b'A';
