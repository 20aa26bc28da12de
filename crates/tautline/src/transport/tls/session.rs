//! The rules of one TLS session: what is encrypted when, what counts as written, how it ends.
//!
//! **Written is when the kernel has the last byte**, and what was begun is never repeated. But what is
//! encrypted cannot be taken back, so a record that the kernel takes only in part is begun as a whole.
//! Then all of it but its *last byte of plaintext* is said to be written. The message at the border
//! stays partly written for whoever keeps the queue: it is not evicted, and a flush waits for it. The next
//! call first writes what is left of the record and then knows that this byte has gone.
//!
//! No more than one record is ever encrypted beyond what the kernel has taken.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::{Connection, ProtocolVersion};

use super::failure::{Failure, FirstBytes, Side};
use crate::secured::{Secured, TlsCounters, TlsVersion};
use crate::transport::is_transient;

/// What carries the records.
pub(super) trait Wire {
    /// Takes some of the bytes, or says `WouldBlock`.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Brings some bytes; none are the end.
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether a short record would be taken whole now.
    fn is_writable(&mut self) -> io::Result<bool>;

    /// Ends our side of the stream below.
    fn end(&mut self) -> io::Result<()>;
}

pub(super) struct Session {
    connection: Connection,
    side: Side,
    counters: Arc<TlsCounters>,
    began: Instant,
    secured: Option<Secured>,
    /// What came first, for those who do not speak TLS.
    first: FirstBytes,
    rules: RecordRules,
    /// Header and payload of a record together: kept, so that messages allocate nothing for it.
    gathered: Vec<u8>,
    /// The last byte of plaintext that is encrypted and was not said to be written.
    withheld: Option<u8>,
    /// Encrypted bytes that wait for room in the kernel.
    pending_bytes: usize,
    /// Decrypted bytes that nobody has received yet.
    unread_bytes: usize,
    /// The peer has ended its side properly.
    their_end: bool,
    our_end: OurEnd,
    /// TLS itself is broken, for good.
    failure: Option<Failure>,
    /// A write failed after others of the same call had gone; the kernel says why only once.
    broken: Option<io::Error>,
}

/// How a link's messages are cut into records.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordRules {
    /// Most plaintext in one: what may be encrypted beyond what the kernel takes.
    pub(super) limit_bytes: usize,
    /// Whether one that is left half-way withholds its last byte.
    pub(super) withhold: bool,
}

/// How far we are with ending our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OurEnd {
    Open,
    /// `close_notify` is encrypted, and the stream below ends once that has left.
    Said,
    Done,
}

impl Session {
    pub(super) fn new(
        connection: Connection,
        rules: RecordRules,
        counters: Arc<TlsCounters>,
    ) -> Self {
        Self {
            side: match connection {
                Connection::Client(_) => Side::Client,
                Connection::Server(_) => Side::Server,
            },
            connection,
            counters,
            began: Instant::now(),
            secured: None,
            first: FirstBytes::default(),
            rules,
            gathered: Vec::new(),
            withheld: None,
            pending_bytes: 0,
            unread_bytes: 0,
            their_end: false,
            our_end: OurEnd::Open,
            failure: None,
            broken: None,
        }
    }

    /// Goes on with the handshake; whether it is done, and all that we had to say has left.
    pub(super) fn handshake(&mut self, wire: &mut impl Wire) -> io::Result<bool> {
        for _ in 0..READS_AT_A_TIME {
            if let Some(failure) = &self.failure {
                return Err(failure.to_io());
            }
            let all_left = match self.flush(wire) {
                Ok(all_left) => all_left,
                // Whoever refused us may have said why before it went.
                Err(cause) => {
                    self.read_more(wire)?;
                    return Err(cause);
                }
            };
            if !self.connection.is_handshaking() {
                if all_left {
                    self.completed();
                }
                return Ok(all_left);
            }
            if !self.read_more(wire)? {
                return Ok(false);
            }
        }
        // A handshake that takes so many reads has time.
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Encrypts and sends some of the bytes in these slices, a record at a time; how much of it is written.
    ///
    /// `WouldBlock` if nothing is: then nothing of it was encrypted either.
    pub(super) fn send(
        &mut self,
        slices: &[IoSlice<'_>],
        wire: &mut impl Wire,
    ) -> io::Result<usize> {
        if let Some(failure) = &self.failure {
            return Err(failure.to_io());
        }
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        if !self.flush(wire)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut written = 0;
        if let Some(byte) = self.withheld.take() {
            // It has left with the rest of its record.
            debug_assert_eq!(slices.iter().find_map(|slice| slice.first()), Some(&byte));
            written = 1;
        }
        let all = slices.iter().map(|slice| slice.len()).sum();
        while written < all {
            let record_bytes = self.rules.limit_bytes.min(all - written);
            // Of one byte none can be withheld: it is encrypted only if its record will fit.
            if record_bytes == 1 && !wire.is_writable()? {
                break;
            }
            let last = self.encrypt(slices, written, record_bytes)?;
            match self.flush(wire) {
                Ok(true) => written += record_bytes,
                Ok(false) => {
                    written += self.withhold(last, record_bytes);
                    break;
                }
                Err(error) if is_transient(&error) => {
                    written += self.withhold(last, record_bytes);
                    break;
                }
                Err(error) if written == 0 => return Err(error),
                Err(error) => {
                    self.broken = Some(error);
                    break;
                }
            }
        }
        if written == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(written)
    }

    /// Brings decrypted bytes; none are the end that the peer has said properly.
    ///
    /// `WouldBlock` where the wire says so. `Interrupted` when something came that holds nothing to read
    /// (yet), and there may be more: whoever reads in turns counts it as one. A receive that `blocks` says
    /// `WouldBlock` for that as well, so that its caller looks at the time.
    pub(super) fn recv(
        &mut self,
        buffer: &mut [u8],
        blocks: bool,
        wire: &mut impl Wire,
    ) -> io::Result<usize> {
        for read in 0..READS_AT_A_TIME {
            match self.connection.reader().read(buffer) {
                Ok(bytes) => {
                    self.unread_bytes = self.unread_bytes.saturating_sub(bytes);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(Failure::truncated().to_io());
                }
                Err(error) => return Err(error),
            }
            if let Some(failure) = &self.failure {
                return Err(failure.to_io());
            }
            if (blocks && read > 0) || !self.read_more(wire)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // An answer to what came, such as that to a new key. If it fails, reading tells as well.
            let _ = self.flush(wire);
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Writes what is encrypted and waits; whether nothing is left.
    pub(super) fn flush(&mut self, wire: &mut impl Wire) -> io::Result<bool> {
        while self.connection.wants_write() {
            let mut outgoing = Outgoing {
                wire,
                offered_bytes: 0,
            };
            let taken = self.connection.write_tls(&mut outgoing);
            let offered_bytes = outgoing.offered_bytes;
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.counters.sent(taken);
            self.pending_bytes = offered_bytes - taken;
            if self.pending_bytes > 0 {
                return Ok(false);
            }
        }
        if self.our_end == OurEnd::Said {
            self.our_end = OurEnd::Done;
            wire.end()?;
        }
        Ok(true)
    }

    /// Ends our side behind all that was sent; whether that has left.
    pub(super) fn say_goodbye(&mut self, wire: &mut impl Wire) -> io::Result<bool> {
        if self.our_end == OurEnd::Open {
            self.connection.send_close_notify();
            self.our_end = OurEnd::Said;
        }
        self.flush(wire)
    }

    pub(super) const fn has_news(&self) -> bool {
        self.unread_bytes > 0 || self.their_end || self.failure.is_some()
    }

    pub(super) fn owes(&self) -> bool {
        self.connection.wants_write() || self.our_end == OurEnd::Said
    }

    pub(super) const fn pending_bytes(&self) -> u64 {
        self.pending_bytes as u64
    }

    pub(super) fn secured(&self) -> Option<Secured> {
        self.secured.clone()
    }

    /// Makes one record of some of header and payload; returns its last byte of plaintext.
    fn encrypt(
        &mut self,
        slices: &[IoSlice<'_>],
        mut from: usize,
        record_bytes: usize,
    ) -> io::Result<u8> {
        // rustls would make a list of the slices for each message.
        self.gathered.clear();
        let mut whole = None;
        for slice in slices {
            let left = slice.get(from..).unwrap_or_default();
            from = from.saturating_sub(slice.len());
            if left.len() >= record_bytes && self.gathered.is_empty() {
                whole = Some(&left[..record_bytes]);
                break;
            }
            let missing_bytes = record_bytes - self.gathered.len();
            let taken = &left[..left.len().min(missing_bytes)];
            self.gathered.extend_from_slice(taken);
        }
        let record = whole.unwrap_or(&self.gathered);
        let encrypted_bytes = self.connection.writer().write(record)?;
        // Nothing else waits there, and its limit is four records.
        assert_eq!(encrypted_bytes, record_bytes, "rustls takes a whole record");
        Ok(*record.last().expect("a record is not empty"))
    }

    /// A record was left half-way: how much of it counts as written.
    fn withhold(&mut self, last: u8, record_bytes: usize) -> usize {
        // A record of one byte that did not fit a writable socket: it counts as written, for it must
        // not be sent again.
        let withholds = self.rules.withhold && record_bytes > 1;
        self.withheld = withholds.then_some(last);
        record_bytes - usize::from(withholds)
    }

    /// Reads once from the wire; false if there was nothing.
    fn read_more(&mut self, wire: &mut impl Wire) -> io::Result<bool> {
        let mut incoming = Incoming {
            wire,
            first: &mut self.first,
        };
        let came_bytes = match self.connection.read_tls(&mut incoming) {
            Ok(came_bytes) => came_bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.counters.received(came_bytes);
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.unread_bytes = state.plaintext_bytes_to_read();
                self.their_end = state.peer_has_closed();
            }
            Err(error) => {
                let failure = Failure::of(&error, self.side, self.secured.is_some(), &self.first);
                let error = failure.to_io();
                self.failure = Some(failure);
                // The peer is told why, if it goes now.
                let _ = self.flush(wire);
                // What came before it is received first.
                return if self.secured.is_some() {
                    Ok(true)
                } else {
                    Err(error)
                };
            }
        }
        if came_bytes == 0 && self.secured.is_none() && self.connection.is_handshaking() {
            let failure = Failure::ended_in_handshake();
            let error = failure.to_io();
            self.failure = Some(failure);
            return Err(error);
        }
        Ok(true)
    }

    fn completed(&mut self) {
        if self.secured.is_some() {
            return;
        }
        self.counters.completed(self.began.elapsed());
        let suite = self.connection.negotiated_cipher_suite();
        let suite = suite.and_then(|suite| suite.suite().as_str());
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        self.secured = Some(Secured {
            version: match self.connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => TlsVersion::V1_2,
                // rustls speaks no others.
                _ => TlsVersion::V1_3,
            },
            // rustls names those of TLS 1.3 by a prefix of its own.
            cipher_suite: suite.unwrap_or_default().replacen("TLS13_", "TLS_", 1),
            peer_certificates: certificates.iter().map(|der| der.to_vec()).collect(),
        });
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("side", &self.side)
            .field("secured", &self.secured.is_some())
            .field("pending_bytes", &self.pending_bytes)
            .finish_non_exhaustive()
    }
}

/// The wire as rustls writes to it.
struct Outgoing<'a, W> {
    wire: &'a mut W,
    offered_bytes: usize,
}

impl<W: Wire> Write for Outgoing<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.offered_bytes = slices.iter().map(|slice| slice.len()).sum();
        self.wire.send(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The wire as rustls reads from it.
struct Incoming<'a, W> {
    wire: &'a mut W,
    first: &'a mut FirstBytes,
}

impl<W: Wire> Read for Incoming<'_, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.wire.recv(buffer)?;
        self.first.note(&buffer[..bytes]);
        Ok(bytes)
    }
}

/// Reads of one call that hold nothing to receive, before its caller has a say.
const READS_AT_A_TIME: usize = 16;

#[cfg(test)]
mod tests;
