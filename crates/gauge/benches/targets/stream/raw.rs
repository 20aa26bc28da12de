//! The controls' streams: raw blocking writers that gather in different ways, and a raw receiver.

use std::io::{self, IoSlice, Write as _};
use std::sync::Arc;
use std::thread::JoinHandle;

use tautline_gauge::control::{End, receive_stream};

use super::super::rounds::Side;
use super::super::site::{Site, said};
use super::{Judge, Post, Sender, Stream, number};

/// How a raw writer turns messages into system calls. Those that gather let go when they have the
/// given number of bytes or more, and promise nothing about when that is: no program that has to
/// deliver a message soon could do so, which is why they are a bound and not a competitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gather {
    /// One write a message.
    Each,
    /// Copied behind each other, then one write.
    Copies(usize),
    /// Left where they are, then one `writev` of a slice each.
    Slices(usize),
}

impl Gather {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Each => "write each",
            Self::Copies(_) => "copy 64Ki",
            Self::Slices(bytes) if bytes <= 64 * 1024 => "writev 64Ki",
            Self::Slices(_) => "writev256Ki",
        }
    }
}

pub(crate) fn start_raw(site: &Site, gather: Gather) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.raw_pair()?;
    let post = Post::new();
    let (own, payload_bytes) = (Arc::clone(&post), site.payload_bytes);
    let receiver = site.spawn(site.seats.server("raw-receiver"), move || {
        let mut judge = Judge::new(Arc::clone(&own), payload_bytes);
        let received = receive_stream(&server, payload_bytes, |message, at_ns| {
            judge.judge(message, at_ns, |at_ns| at_ns);
        });
        own.broken(received.map_or_else(said, |()| "the stream ended".to_owned()));
    })?;
    let frame = frame(payload_bytes);
    let (frames, gathered) = match gather {
        Gather::Each => (vec![frame], Vec::new()),
        Gather::Copies(bytes) => {
            let room = bytes + frame.len();
            (vec![frame], Vec::with_capacity(room))
        }
        // As many as it takes to have the bytes together.
        Gather::Slices(bytes) => (vec![frame; bytes.div_ceil(payload_bytes)], Vec::new()),
    };
    if frames.len() > MOST_SLICES {
        return Err(format!("{} slices are too many", frames.len()));
    }
    let writer = RawSender {
        end: client,
        gather,
        frames,
        filled: 0,
        gathered,
        receiver,
    };
    Ok(Stream::start(writer, post, site))
}

struct RawSender {
    end: End,
    gather: Gather,
    /// Prefix and payload of one message, or of as many as one `writev` takes.
    frames: Vec<Vec<u8>>,
    /// How many of the frames wait for the `writev`.
    filled: usize,
    /// Copies that wait for the write.
    gathered: Vec<u8>,
    receiver: JoinHandle<Option<()>>,
}

impl Sender for RawSender {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, String> {
        match self.gather {
            Gather::Each => {
                number(&mut self.frames[0][PREFIX_BYTES..], sequence);
                self.end.write_all(&self.frames[0]).map_err(said)?;
            }
            Gather::Copies(bytes) => {
                number(&mut self.frames[0][PREFIX_BYTES..], sequence);
                self.gathered.extend_from_slice(&self.frames[0]);
                if self.gathered.len() >= bytes {
                    self.flush()?;
                }
            }
            Gather::Slices(_) => {
                number(&mut self.frames[self.filled][PREFIX_BYTES..], sequence);
                self.filled += 1;
                if self.filled == self.frames.len() {
                    self.flush()?;
                }
            }
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), String> {
        if !self.gathered.is_empty() {
            self.end.write_all(&self.gathered).map_err(said)?;
            self.gathered.clear();
        }
        if self.filled > 0 {
            write_slices(&self.end, &self.frames[..self.filled]).map_err(said)?;
            self.filled = 0;
        }
        Ok(())
    }

    fn finish(self, _accepted: u64) -> Result<Option<String>, String> {
        self.end.closer().map_err(said)?.shutdown();
        let ended = self.receiver.join();
        ended
            .map(|_| None)
            .map_err(|_| "the receiver panicked".to_owned())
    }
}

fn write_slices(end: &End, frames: &[Vec<u8>]) -> io::Result<()> {
    let mut slices = [IoSlice::new(&[]); MOST_SLICES];
    for (slice, frame) in slices.iter_mut().zip(frames) {
        *slice = IoSlice::new(frame);
    }
    let mut slices = &mut slices[..frames.len()];
    while !slices.is_empty() {
        let written = match end {
            End::Tcp(stream) => (&mut &*stream).write_vectored(slices)?,
            End::Uds(stream) => (&mut &*stream).write_vectored(slices)?,
            End::Udp(_) | End::Tls(_) | End::Serial(_) => {
                return Err(io::ErrorKind::Unsupported.into());
            }
        };
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}

/// The library's default prefix, and a payload.
fn frame(payload_bytes: usize) -> Vec<u8> {
    let length = u32::try_from(payload_bytes).expect("payloads are small");
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(PREFIX_BYTES + payload_bytes, 0);
    frame
}

const PREFIX_BYTES: usize = 4;
/// 256 KiB of 16 KiB each, and room to spare.
const MOST_SLICES: usize = 32;
