//! One connection of a ping: what is sent on it, what is remembered, and what came of it.

use std::io;
use std::time::Duration;

use super::carrier::Carrier;
use super::closed::Until;
use super::message::{Judged, Message};
use super::outstanding::{Outstanding, Reply};
use super::record::{Answered, Record};
use crate::clock::now_ns;
use crate::plan::Transport;
use crate::secured::in_options;
use crate::wire::HELLO_DATAGRAM_BYTES;

/// One connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) carrier: Carrier,
    pub(crate) transport: Transport,
    /// Its number among all connections of the cell.
    pub(crate) number: usize,
    /// What the server's datagrams need.
    pub(crate) cookie: u64,
    pub(crate) outstanding: Outstanding,
    pub(crate) tally: Tally,
    message: Message,
    /// How much of a ping has been written: on a stream a write may end in the middle.
    written: usize,
    /// Since when there has been no room for it, or for the rest of it; 0 is: there has been.
    blocked_ns: u64,
    sent_ns: u64,
    last_ns: u64,
    buffer: Vec<u8>,
    filled: usize,
    timeout_ns: u64,
}

/// Counts of one connection. `sent` = `received` + `late` + `damaged` + what never came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) late: u64,
    /// Pings whose reply came damaged.
    pub(crate) damaged: u64,
    /// Damaged datagrams that do not say whose reply they were.
    pub(crate) nameless: u64,
    /// Damaged replies to pings that had been answered.
    pub(crate) damaged_again: u64,
    pub(crate) duplicate: u64,
    pub(crate) reordered: u64,
    pub(crate) late_sends: u64,
    pub(crate) latest_send_ns: u64,
}

/// Why a flow cannot go on.
#[derive(Debug)]
pub(crate) enum Break {
    /// The peer ended the connection.
    Ended,
    /// Nothing has come for so long that the peer counts as gone.
    Silent,
    /// There has been no room for a ping for so long that the peer counts as stuck.
    Stuck,
    /// What the system said.
    Io(io::Error),
}

/// What became of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The kernel has all of it.
    Whole,
    /// There is no room now.
    Blocked,
}

impl Flow {
    pub(crate) fn new(
        carrier: Carrier,
        transport: Transport,
        number: usize,
        message: Message,
        cookie: u64,
        outstanding: Outstanding,
        timeout_ns: u64,
    ) -> Self {
        let buffer = match transport {
            // Longer than any datagram of ours, so that one that is too long is noticed, and than an
            // answer that came twice: cut short, it would pass for a damaged reply.
            Transport::Udp | Transport::Serial => message.len().max(HELLO_DATAGRAM_BYTES) + 1,
            Transport::Tcp | Transport::Tls | Transport::Uds => message.len().max(READ_BYTES),
        };
        Self {
            carrier,
            transport,
            number,
            cookie,
            outstanding,
            tally: Tally::default(),
            message,
            written: 0,
            blocked_ns: 0,
            sent_ns: 0,
            last_ns: 0,
            buffer: vec![0; buffer],
            filled: 0,
            timeout_ns,
        }
    }

    /// From here on pings count.
    pub(crate) fn begin(&mut self) {
        self.outstanding.begin();
        self.tally = Tally::default();
    }

    /// Bytes of a ping.
    pub(crate) fn message_bytes(&self) -> usize {
        self.message.len()
    }

    /// Sends the next ping, or the rest of one. The stamp is taken before its first byte.
    #[inline]
    pub(crate) fn send(
        &mut self,
        intended_ns: Option<u64>,
        record: &Record,
    ) -> Result<Sent, Break> {
        if self.written == 0 {
            self.message.stamp(self.outstanding.next());
            self.sent_ns = now_ns();
            self.last_ns = self.sent_ns;
        }
        loop {
            match self.carrier.send(&self.message.bytes()[self.written..]) {
                Ok(bytes) => {
                    self.written += bytes;
                    self.blocked_ns = 0;
                    if self.written >= self.message.len() {
                        break;
                    }
                }
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                    if self.blocked_ns == 0 {
                        self.blocked_ns = now_ns();
                    }
                    return Ok(Sent::Blocked);
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                // The queue of the interface is full: the datagram is gone, as on any other way.
                Err(cause) if cause.raw_os_error() == Some(libc::ENOBUFS) => break,
                Err(cause) => return Err(broken(cause)),
            }
        }
        self.written = 0;
        let intended_ns = intended_ns.unwrap_or(self.sent_ns);
        self.outstanding.sent(self.sent_ns, intended_ns);
        self.tally.sent += 1;
        record.sent();
        let lateness_ns = self.sent_ns.saturating_sub(intended_ns);
        if lateness_ns > LATE_SEND_NS {
            self.tally.late_sends += 1;
            self.tally.latest_send_ns = self.tally.latest_send_ns.max(lateness_ns);
        }
        Ok(Sent::Whole)
    }

    /// Whether a ping has been begun and not ended.
    pub(crate) fn is_amid_a_ping(&self) -> bool {
        self.written > 0
    }

    /// Whether there has been no room for the next ping, or for the rest of one.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_ns > 0
    }

    /// When the last ping was sent.
    pub(crate) fn last_sent_ns(&self) -> u64 {
        self.sent_ns
    }

    /// When the last ping was sent, or the last bytes came: the stamp that was taken then.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// One read, as much as there is, and every reply in it. Whether there was anything.
    ///
    /// # Errors
    ///
    /// The end of a stream, and what the system said but that there is nothing now.
    #[inline]
    pub(crate) fn receive(&mut self, most: usize, record: &mut Record) -> Result<bool, Break> {
        let until = match self.transport {
            Transport::Udp | Transport::Serial => self.buffer.len(),
            Transport::Tcp | Transport::Tls | Transport::Uds => most.min(self.buffer.len()),
        };
        let received = self.carrier.receive(&mut self.buffer, self.filled, until);
        // A frame that came damaged says nothing of whose reply it was.
        self.tally.nameless += self.carrier.new_faults();
        let bytes = match received {
            Ok(bytes) => bytes,
            Err(cause) => {
                return match cause.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                    _ => Err(broken(cause)),
                };
            }
        };
        let at_ns = now_ns();
        self.last_ns = at_ns;
        if self.transport.speaks_datagrams() {
            self.reply(0, bytes, at_ns, record);
            return Ok(true);
        }
        if bytes == 0 {
            return Err(Break::Ended);
        }
        self.filled += bytes;
        let size = self.message.len();
        let mut from = 0;
        while self.filled - from >= size {
            self.reply(from, from + size, at_ns, record);
            from += size;
        }
        if from > 0 {
            self.buffer.copy_within(from..self.filled, 0);
            self.filled -= from;
        }
        Ok(true)
    }

    /// A datagram that somebody else read from this flow's carrier.
    pub(crate) fn stray(&mut self, datagram: &[u8], at_ns: u64, record: &mut Record) {
        let length = datagram.len().min(self.buffer.len());
        self.buffer[..length].copy_from_slice(&datagram[..length]);
        self.reply(0, length, at_ns, record);
    }

    /// Waits for replies that are overdue, if there are any: they may still come, and are late then.
    pub(crate) fn linger(
        &mut self,
        record: &mut Record,
        until: &Until<'_>,
        timeout: Duration,
    ) -> Result<(), Break> {
        let end = self.linger_until(timeout);
        while self.outstanding.is_owed() && now_ns() < end && !until.stop.is_set() {
            self.receive(usize::MAX, record)?;
        }
        Ok(())
    }

    /// Until when replies to what was sent are worth waiting for.
    pub(crate) fn linger_until(&self, timeout: Duration) -> u64 {
        let late = timeout.min(LINGER_LIMIT);
        self.sent_ns
            .saturating_add((timeout + late).as_nanos() as u64)
    }

    /// Judges one reply, after its stamp.
    #[inline]
    fn reply(&mut self, from: usize, to: usize, at_ns: u64, record: &mut Record) {
        let expected = self.expected();
        let reply = &self.buffer[from..to];
        match self.message.judge(reply, expected) {
            Judged::Intact { sequence } => self.intact(sequence, at_ns, record),
            Judged::Damaged { sequence } => self.damaged(sequence),
            Judged::Other => {}
        }
    }

    #[inline]
    fn intact(&mut self, sequence: u64, at_ns: u64, record: &mut Record) {
        let answered = |intended_ns, sent_ns| Answered {
            connection: self.number,
            sequence,
            intended_ns,
            sent_ns,
            received_ns: at_ns,
        };
        match self.outstanding.reply(sequence, at_ns) {
            Reply::InTime {
                sent_ns,
                intended_ns,
                reordered,
            } => {
                self.tally.received += 1;
                self.tally.reordered += u64::from(reordered);
                record.answered(answered(intended_ns, sent_ns));
            }
            Reply::Late { sent_ns } => {
                self.tally.late += 1;
                record.late(answered(sent_ns, sent_ns));
            }
            Reply::Duplicate => self.tally.duplicate += 1,
            Reply::Unknown => self.damaged(None),
            Reply::Earlier => {}
        }
    }

    /// On a stream replies come in order: a damaged one is that of the oldest ping.
    #[cold]
    fn damaged(&mut self, sequence: Option<u64>) {
        let sequence = match self.transport {
            Transport::Udp | Transport::Serial => sequence,
            Transport::Tcp | Transport::Tls | Transport::Uds => {
                let oldest = || self.outstanding.oldest_waiting().map(|(oldest, _)| oldest);
                sequence.or_else(oldest)
            }
        };
        match sequence {
            None => self.tally.nameless += 1,
            Some(sequence) if self.outstanding.damaged(sequence) => self.tally.damaged += 1,
            Some(_) => self.tally.damaged_again += 1,
        }
    }

    /// The ping whose reply should come next.
    #[inline]
    fn expected(&self) -> u64 {
        match self.outstanding.oldest_waiting() {
            Some((oldest, _)) => oldest,
            None => self.outstanding.next().saturating_sub(1),
        }
    }

    /// Gives up what has run out of time by now, and says whether the peer is gone: on a stream, when
    /// even the oldest ping has waited longer than anybody should, for its reply or for room to leave.
    /// A peer that reads nothing leaves no room, nor does one that answers so much more than it is asked
    /// that its own writes block.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Result<(), Break> {
        self.outstanding.expire(now_ns);
        let silence_ns = SILENCE_LEAST_NS.max(self.timeout_ns.saturating_mul(2));
        if self.transport != Transport::Udp
            && self.blocked_ns > 0
            && now_ns.saturating_sub(self.blocked_ns) > silence_ns
        {
            return Err(Break::Stuck);
        }
        match (self.transport, self.outstanding.oldest_waiting()) {
            (Transport::Tcp | Transport::Tls | Transport::Uds, Some((_, sent_ns)))
                if now_ns.saturating_sub(sent_ns) > silence_ns =>
            {
                Err(Break::Silent)
            }
            _ => Ok(()),
        }
    }
}

impl Tally {
    /// The sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            late: self.late + other.late,
            damaged: self.damaged + other.damaged,
            nameless: self.nameless + other.nameless,
            damaged_again: self.damaged_again + other.damaged_again,
            duplicate: self.duplicate + other.duplicate,
            reordered: self.reordered + other.reordered,
            late_sends: self.late_sends + other.late_sends,
            latest_send_ns: self.latest_send_ns.max(other.latest_send_ns),
        }
    }
}

impl Break {
    /// In words.
    pub(crate) fn explain(&self) -> String {
        match self {
            Self::Ended => "the server ended the connection".to_owned(),
            Self::Silent => "the server answers no more".to_owned(),
            Self::Stuck => "the server reads no more of what it is sent".to_owned(),
            Self::Io(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                "the server is gone: connection refused".to_owned()
            }
            Self::Io(cause) => in_options(&cause.to_string()),
        }
    }
}

/// A link tells the end of a stream by an error.
fn broken(cause: io::Error) -> Break {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => Break::Ended,
        _ => Break::Io(cause),
    }
}

/// What a stream is read by: many small replies at once.
const READ_BYTES: usize = 64 * 1_024;

/// From here on a send counts as late: far above what a quiet machine needs, and below what anybody
/// would take for a round trip.
pub(crate) const LATE_SEND_NS: u64 = 10_000;

/// Replies that are late are counted; a run does not last much longer for them.
const LINGER_LIMIT: Duration = Duration::from_secs(1);

/// On a stream a reply may be late; after so long the peer counts as gone.
const SILENCE_LEAST_NS: u64 = 5_000_000_000;

#[cfg(test)]
mod tests;
