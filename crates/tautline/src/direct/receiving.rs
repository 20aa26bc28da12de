//! The receiving half of a direct link: one buffer that the kernel fills and frames are read from.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use tautline_session::{Parser, Step};

use super::{Replies, TICK, passed};
use crate::driver::{Polled, Spin};
use crate::error::RecvError;
use crate::options::LinkOptions;
use crate::statistics::ReceiveStatistics;
use crate::transport::{PollInterest, Wait, is_icmp, is_shortage};

/// Received bytes that are not handed out yet: `start..end` of a stream, or one datagram.
#[derive(Debug)]
pub(super) struct Receiving {
    datagram: bool,
    parser: Parser,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The length of the datagram in the buffer.
    datagram_bytes: Option<usize>,
    /// Whom that is from, where it may be anybody.
    sender: Option<SocketAddr>,
    /// Datagrams that came before the socket was connected.
    early: VecDeque<Vec<u8>>,
    spin: Spin,
    spins: bool,
    /// Whether the socket's own timeout is set.
    ticks: bool,
    /// What follows is no frame: told with every receive, counted once.
    faulty: bool,
    counted: ReceiveStatistics,
}

impl Receiving {
    pub(super) fn new(datagram: bool, options: &LinkOptions) -> Self {
        let room_bytes = if datagram { DATAGRAM_ROOM } else { STREAM_ROOM };
        Self {
            datagram,
            parser: options.parser(),
            buffer: vec![0; room_bytes],
            start: 0,
            end: 0,
            datagram_bytes: None,
            sender: None,
            early: VecDeque::new(),
            spin: Spin::new(options.spin),
            spins: options.spin > Duration::ZERO,
            ticks: false,
            faulty: false,
            counted: ReceiveStatistics::default(),
        }
    }

    /// Datagrams that came before the socket was connected are received first.
    pub(super) fn came_early(&mut self, early: VecDeque<Vec<u8>>) {
        self.early = early;
    }

    pub(super) const fn statistics(&self) -> ReceiveStatistics {
        let mut counted = self.counted;
        counted.skipped_bytes += self.parser.skipped_bytes();
        counted
    }

    pub(super) const fn sender(&self) -> Option<SocketAddr> {
        self.sender
    }

    pub(super) const fn spins_given_up(&self) -> u64 {
        self.spin.gave_way()
    }

    pub(super) fn recv(
        &mut self,
        sending: &mut Replies,
        deadline: Option<Instant>,
    ) -> Result<&[u8], RecvError> {
        let place = loop {
            if let Some(place) = self.next_frame()? {
                break place;
            }
            self.fill(sending, deadline)?;
        };
        let message = match place {
            Place::Buffer(range) => &self.buffer[range],
            Place::Decoded => self.parser.decoded(),
        };
        self.counted.messages += 1;
        self.counted.payload_bytes += message.len() as u64;
        Ok(message)
    }

    fn next_frame(&mut self) -> Result<Option<Place>, RecvError> {
        if self.datagram {
            let length = self.datagram_bytes.take();
            return Ok(length.map(|length| Place::Buffer(0..length)));
        }
        // The usual case, in as few steps as it takes.
        if let Some((header_bytes, payload_bytes)) =
            self.parser.whole(&self.buffer[self.start..self.end])
        {
            let from = self.start + header_bytes;
            self.start = from + payload_bytes;
            return Ok(Some(Place::Buffer(from..self.start)));
        }
        loop {
            match self.parser.next(&self.buffer[self.start..self.end]) {
                Step::Frame {
                    header_bytes,
                    payload_bytes,
                    trailer_bytes,
                } => {
                    let from = self.start + header_bytes;
                    let to = from + payload_bytes;
                    self.start = to + trailer_bytes;
                    return Ok(Some(Place::Buffer(from..to)));
                }
                Step::Decoded { frame_bytes } => {
                    self.start += frame_bytes;
                    return Ok(Some(Place::Decoded));
                }
                Step::Pass { bytes } => self.start += bytes,
                Step::Incomplete { needed_bytes } => {
                    self.make_room(needed_bytes);
                    return Ok(None);
                }
                Step::Fault(fault) if self.parser.closes() => {
                    self.counted.faults += u64::from(!self.faulty);
                    self.faulty = true;
                    return Err(RecvError::BadFrame(fault));
                }
                Step::Fault(_) => self.counted.faults += 1,
            }
        }
    }

    /// Room for more of a frame of which `needed_bytes` are needed in all. Grows by doubling what
    /// arrived, so never by a length that a peer only announced.
    fn make_room(&mut self, needed_bytes: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + needed_bytes > self.buffer.len() && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }

    /// Brings more bytes, or the next datagram.
    fn fill(&mut self, sending: &mut Replies, deadline: Option<Instant>) -> Result<(), RecvError> {
        if self.take_put_by(sending) {
            return Ok(());
        }
        loop {
            let read = if sending.has_rest() {
                self.read_while_writing(sending, deadline)
            } else {
                self.read_by(sending, deadline)
            };
            if sending.is_closed() {
                // A datagram socket that was shut down reads as if an empty datagram had come.
                self.datagram_bytes = None;
                sending.give_up();
                return Err(RecvError::Closed);
            }
            match read {
                Ok(()) => return Ok(()),
                Err(error) => match error.kind() {
                    // The second is TLS's: something came, but no bytes for us.
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    io::ErrorKind::UnexpectedEof => {
                        self.give_up_cut_frame();
                        return Err(sending
                            .failure()
                            .map_or(RecvError::Closed, RecvError::Failed));
                    }
                    _ if is_shortage(&error) => sending.pause(deadline),
                    _ if self.datagram && is_icmp(&error) => self.counted.unreachable += 1,
                    _ => return Err(RecvError::Failed(error)),
                },
            }
            if passed(deadline) {
                return Err(RecvError::TimedOut);
            }
        }
    }

    /// The stream has ended in the middle of a frame.
    fn give_up_cut_frame(&mut self) {
        let untold = self.parser.end();
        let cut_bytes = self.end - self.start;
        self.counted.faults += u64::from(untold.is_some()) + u64::from(cut_bytes > 0);
        self.counted.skipped_bytes += cut_bytes as u64;
        (self.start, self.end) = (0, 0);
    }

    /// What was read while a send waited, or before the socket was connected.
    fn take_put_by(&mut self, sending: &mut Replies) -> bool {
        if let Some(datagram) = self.early.pop_front() {
            self.buffer[..datagram.len()].copy_from_slice(&datagram);
            self.datagram_bytes = Some(datagram.len());
            self.counted.wire_bytes += datagram.len() as u64;
            return true;
        }
        let ahead = sending.read_ahead();
        if ahead.is_empty() {
            return false;
        }
        self.buffer.truncate(self.end);
        self.buffer.extend_from_slice(ahead);
        self.end = self.buffer.len();
        self.counted.wire_bytes += ahead.len() as u64;
        *ahead = Vec::new();
        let room_bytes = self.buffer.len().max(STREAM_ROOM);
        self.buffer.resize(room_bytes, 0);
        true
    }

    /// One blocking call, unless polling finds something first.
    fn read_by(&mut self, sending: &Replies, deadline: Option<Instant>) -> io::Result<()> {
        if self.spins && self.poll(sending, deadline)? == Polled::Found {
            return Ok(());
        }
        let Some(until) = deadline else {
            return self.read(sending, Wait::Block);
        };
        if until.saturating_duration_since(Instant::now()) >= TICK {
            // From here on the socket's own timeout is one tick: a deadline beyond it costs no further
            // call. Not before, because every wait with one sets a timer in the kernel, which is 3 to
            // 6 % of a round trip.
            if !self.ticks {
                sending.socket().set_receive_timeout(TICK)?;
                self.ticks = true;
            }
            return self.read(sending, Wait::Block);
        }
        let interest = PollInterest {
            read: true,
            write: false,
        };
        sending.socket().wait_ready(interest, deadline)?;
        self.read(sending, Wait::No)
    }

    fn poll(&mut self, sending: &Replies, deadline: Option<Instant>) -> io::Result<Polled> {
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut spin = std::mem::replace(&mut self.spin, Spin::new(Duration::ZERO));
        let mut found = Ok(());
        let polled = spin.poll(timeout, || {
            found = self.read(sending, Wait::No);
            !matches!(&found, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        });
        self.spin = spin;
        match polled {
            Polled::Found => found.map(|()| Polled::Found),
            Polled::Not => Ok(Polled::Not),
        }
    }

    /// Reads, and writes the rest of a message as soon as there is room.
    #[cold]
    fn read_while_writing(
        &mut self,
        sending: &mut Replies,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let short = sending.is_short();
        let interest = PollInterest {
            read: true,
            write: !short,
        };
        let until = sending.next_try(deadline);
        let ready = sending.socket().wait_ready(interest, Some(until))?;
        if ready.write || short {
            sending.write_rest_or_give_up();
        }
        self.read(sending, Wait::No)
    }

    fn read(&mut self, sending: &Replies, wait: Wait) -> io::Result<()> {
        self.counted.read_calls += 1;
        let room = &mut self.buffer[self.end..];
        let arrived = sending.socket().recv(room, wait)?;
        if self.datagram {
            self.datagram_bytes = Some(arrived.bytes);
            self.sender = arrived.from;
            self.counted.truncated += u64::from(arrived.truncated);
        } else if arrived.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        } else {
            self.end += arrived.bytes;
        }
        self.counted.wire_bytes += arrived.bytes as u64;
        Ok(())
    }
}

/// Where a message lies.
enum Place {
    Buffer(Range<usize>),
    Decoded,
}

/// Holds a 64 KiB frame and the next one's start.
const STREAM_ROOM: usize = 128 * 1024;
/// Holds any datagram.
pub(super) const DATAGRAM_ROOM: usize = 64 * 1024;
