//! UDP in bulk over raw sockets: what `UDP_SEGMENT` and `UDP_GRO` give a program that does without a
//! library, and without a promise of when a datagram leaves.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;

use crate::clock::now_ns;
use crate::sys;

/// Gathers datagrams of one size and hands each batch over in one call.
#[derive(Debug)]
pub struct SegmentWriter {
    socket: UdpSocket,
    batch: Vec<u8>,
    /// As many whole datagrams as one call takes.
    batch_bytes: usize,
}

impl SegmentWriter {
    /// Over a connected socket, for payloads of this size.
    ///
    /// # Errors
    ///
    /// When the kernel has no `UDP_SEGMENT` (before 4.18), or two such payloads do not fit a call.
    pub fn new(socket: UdpSocket, payload_bytes: usize) -> io::Result<Self> {
        let segment_bytes = u16::try_from(payload_bytes)
            .ok()
            .filter(|bytes| (1..=MOST_BYTES / 2).contains(&usize::from(*bytes)))
            .ok_or(io::ErrorKind::InvalidInput)?;
        sys::segments::set_udp_segment(socket.as_fd(), segment_bytes)?;
        let batch_bytes = MOST_SEGMENTS.min(MOST_BYTES / payload_bytes) * payload_bytes;
        Ok(Self {
            socket,
            batch: Vec::with_capacity(batch_bytes),
            batch_bytes,
        })
    }

    /// One datagram, of the size that was said; the call is made with the last that fits it.
    ///
    /// # Errors
    ///
    /// What the system said.
    #[inline]
    pub fn push(&mut self, payload: &[u8]) -> io::Result<()> {
        self.batch.extend_from_slice(payload);
        if self.batch.len() >= self.batch_bytes {
            self.flush()?;
        }
        Ok(())
    }

    /// What was gathered so far.
    ///
    /// # Errors
    ///
    /// What the system said; the batch is gone then.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let sent = self.socket.send(&self.batch);
        self.batch.clear();
        sent.map(drop)
    }
}

/// Hands out every datagram with the time at which its batch was read, until the socket is shut down
/// or an empty one comes.
///
/// # Errors
///
/// When the kernel has no `UDP_GRO` (before 5.0), else what the system said.
pub fn receive_segments(socket: &UdpSocket, mut each: impl FnMut(&[u8], u64)) -> io::Result<()> {
    sys::segments::set_udp_gro(socket.as_fd())?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match sys::segments::recvmsg_segments(socket.as_fd(), &mut buffer) {
            Ok((0, _)) => return Ok(()),
            Ok((bytes, segment_bytes)) => {
                let at_ns = now_ns();
                let batch = &buffer[..bytes];
                batch.chunks(segment_bytes).for_each(|one| each(one, at_ns));
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
}

/// Of one call, by the kernel (`UDP_MAX_SEGMENTS` of older ones).
const MOST_SEGMENTS: usize = 64;
/// An IPv4 packet, less its headers and UDP's.
const MOST_BYTES: usize = 65_507;
const READ_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn datagrams_keep_their_borders_and_their_order() {
        let ends = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        ends[0].connect(ends[1].local_addr().unwrap()).unwrap();
        ends[1].connect(ends[0].local_addr().unwrap()).unwrap();
        let [sending, receiving] = ends;
        thread::scope(|scope| {
            let received = scope.spawn(move || {
                let mut numbers = Vec::new();
                let outcome = receive_segments(&receiving, |payload, at_ns| {
                    assert!(at_ns > 0);
                    numbers.push(u64::from_le_bytes(payload.try_into().unwrap()));
                });
                outcome.map(|()| numbers).unwrap()
            });
            let end = sending.try_clone().unwrap();
            let mut writer = SegmentWriter::new(sending, 8).unwrap();
            // Few enough for any receive buffer; the last batch is not full.
            for number in 0..150_u64 {
                writer.push(&number.to_le_bytes()).unwrap();
            }
            writer.flush().unwrap();
            // Nothing to segment, and the receiver's end.
            end.send(&[]).unwrap();
            assert_eq!(received.join().unwrap(), (0..150).collect::<Vec<_>>());
        });
    }

    #[test]
    fn sizes_that_are_no_batch_are_refused() {
        for payload_bytes in [0, 40_000, 70_000] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let refused = SegmentWriter::new(socket, payload_bytes).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
