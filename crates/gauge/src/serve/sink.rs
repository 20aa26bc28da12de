//! One-way messages: counted, and told when the client has ended.

use tautline::{DirectLink, RecvError};

use super::clients::Client;
use super::hello;
use crate::clock::now_ns;
use crate::probe::{self, Arrivals};
use crate::wire::{Counts, MESSAGE_LIMIT_BYTES, SEQUENCE_LIMIT};

/// Counts `first` and whatever follows until the client ends its side, then tells it.
///
/// # Errors
///
/// What the client sent that cannot be followed, in words.
pub(super) fn count(
    link: &mut DirectLink,
    client: &Client,
    first: &[u8],
    message_bytes: usize,
) -> Result<(), String> {
    let mut sink = Sink::new(message_bytes);
    sink.came(first, now_ns())?;
    loop {
        match link.recv(None) {
            Ok(chunk) => {
                sink.came(chunk, now_ns())?;
                client.count(sink.frames, sink.bytes);
                client.came_in();
            }
            Err(RecvError::Closed) => break,
            Err(_) => return Ok(()),
        }
    }
    client.sending();
    // A client that does not want to know has closed already.
    let _ = link.send(&hello::frame(sink.counts().encode()));
    client.sent();
    Ok(())
}

/// Frames behind 4-byte lengths, of which only the probe's header is kept: the memory does not depend
/// on what a client announces.
#[derive(Debug)]
struct Sink {
    message_bytes: usize,
    arrivals: Arrivals,
    received_bytes: u64,
    frames: u64,
    bytes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Length and header of the frame that is coming.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of it behind its head that are still to come.
    rest_bytes: usize,
}

impl Sink {
    fn new(message_bytes: usize) -> Self {
        Self {
            message_bytes,
            arrivals: Arrivals::new(),
            received_bytes: 0,
            frames: 0,
            bytes: 0,
            first_ns: None,
            last_ns: 0,
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            rest_bytes: 0,
        }
    }

    fn came(&mut self, mut chunk: &[u8], now_ns: u64) -> Result<(), String> {
        if chunk.is_empty() {
            return Ok(());
        }
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        self.bytes += chunk.len() as u64;
        while !chunk.is_empty() {
            let skipped = self.rest_bytes.min(chunk.len());
            self.rest_bytes -= skipped;
            chunk = &chunk[skipped..];
            if self.rest_bytes > 0 {
                break;
            }
            // A frame is whole, or none has begun.
            if self.head_bytes == HEAD_BYTES {
                self.judge();
            }
            chunk = self.take_head(chunk)?;
        }
        if self.rest_bytes == 0 && self.head_bytes == HEAD_BYTES {
            self.judge();
        }
        Ok(())
    }

    /// Takes what is missing of length and header; returns what is behind.
    fn take_head<'a>(&mut self, chunk: &'a [u8]) -> Result<&'a [u8], String> {
        let taken = (HEAD_BYTES - self.head_bytes).min(chunk.len());
        self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(&chunk[..taken]);
        self.head_bytes += taken;
        if self.head_bytes == HEAD_BYTES {
            let payload_bytes = self.payload_bytes();
            if !(probe::HEADER_BYTES..=MESSAGE_LIMIT_BYTES).contains(&payload_bytes) {
                return Err(format!(
                    "it announced a message of {payload_bytes} bytes, agreed were {}",
                    self.message_bytes
                ));
            }
            self.rest_bytes = payload_bytes - probe::HEADER_BYTES;
        }
        Ok(&chunk[taken..])
    }

    /// Counts the frame that has come whole.
    fn judge(&mut self) {
        self.head_bytes = 0;
        self.frames += 1;
        let (_, header) = self.head.split_at(LENGTH_BYTES);
        let header = header.first_chunk().expect("a head holds a header");
        let sequence = (self.payload_bytes() == self.message_bytes)
            .then(|| probe::sequence_in(header, self.message_bytes))
            .flatten();
        match sequence {
            Some(sequence) if sequence < SEQUENCE_LIMIT => {
                let before = self.arrivals.received();
                self.arrivals.arrived(sequence);
                if self.arrivals.received() > before {
                    self.received_bytes += self.message_bytes as u64;
                }
            }
            Some(_) | None => self.arrivals.corrupted(),
        }
    }

    fn payload_bytes(&self) -> usize {
        let length = self.head.first_chunk().expect("a head holds a length");
        u32::from_be_bytes(*length) as usize
    }

    fn counts(&self) -> Counts {
        let first_ns = self.first_ns.unwrap_or(self.last_ns);
        self.arrivals
            .counts(self.received_bytes, self.last_ns - first_ns)
    }
}

const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = LENGTH_BYTES + probe::HEADER_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(sequences: &[u64], message_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &sequence in sequences {
            let mut message = vec![0; message_bytes];
            probe::stamp(&mut message, sequence);
            bytes.extend((message_bytes as u32).to_be_bytes());
            bytes.extend(message);
        }
        bytes
    }

    #[test]
    fn frames_are_counted_wherever_they_are_cut() {
        for message_bytes in [16, 20] {
            let bytes = stream(&[0, 1, 3, 2, 2], message_bytes);
            for cut in 0..=bytes.len() {
                let mut sink = Sink::new(message_bytes);
                sink.came(&bytes[..cut], 5).unwrap();
                sink.came(&bytes[cut..], 9).unwrap();
                let counts = sink.counts();
                assert_eq!(sink.frames, 5, "cut at {cut}");
                assert_eq!(counts.received_messages, 4);
                assert_eq!(counts.received_bytes, 4 * message_bytes as u64);
                assert_eq!((counts.duplicates, counts.reordered), (1, 1));
                assert_eq!(counts.corrupted, 0);
            }
        }
    }

    #[test]
    fn a_frame_that_has_not_come_whole_is_not_counted() {
        let bytes = stream(&[0, 1], 32);
        let mut sink = Sink::new(32);
        sink.came(&bytes[..bytes.len() - 1], 5).unwrap();
        assert_eq!(sink.counts().received_messages, 1);
    }

    #[test]
    fn a_damaged_frame_another_size_and_an_absurd_number_are_corrupted() {
        let mut bytes = stream(&[0], 32);
        bytes[8] ^= 1;
        bytes.extend(stream(&[1], 33));
        bytes.extend(stream(&[u64::MAX], 32));
        bytes.extend(stream(&[2], 32));
        let mut sink = Sink::new(32);
        sink.came(&bytes, 5).unwrap();
        let counts = sink.counts();
        assert_eq!((counts.received_messages, counts.corrupted), (1, 3));
    }

    #[test]
    fn an_absurd_length_ends_it() {
        let mut sink = Sink::new(32);
        let why = sink.came(&[0xff; 32], 5).unwrap_err();
        assert!(why.contains("4294967295"), "{why}");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_all_are_counted(
            chunks in proptest::collection::vec(
                proptest::collection::vec(0_u8..20, 0..60),
                0..8,
            ),
        ) {
            let mut sink = Sink::new(16);
            let mut bytes = 0;
            for chunk in &chunks {
                bytes += chunk.len() as u64;
                if sink.came(chunk, 5).is_err() {
                    break;
                }
            }
            proptest::prop_assert_eq!(sink.bytes, bytes);
        }
    }
}
