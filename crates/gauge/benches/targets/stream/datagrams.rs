//! The controls' streams over UDP: a raw writer and a raw reader, a call a datagram or a call a batch.
//!
//! On loopback a batch is one buffer that nobody ever cuts (one skb a batch), so that what bulk gains
//! there no network card gives. Over the veth pair the kernel cuts it into packets.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;

use tautline_gauge::control::{Closer, End, SegmentWriter, receive_segments, receive_stream};

use super::super::rounds::Side;
use super::super::site::{Site, said};
use super::{Judge, Post, Sender, Stream, number};

/// How many datagrams a raw call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bulk {
    /// One: `send` and `recv`.
    Each,
    /// As many as the kernel takes and gives: `UDP_SEGMENT` and `UDP_GRO`.
    Segments,
}

impl Bulk {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Each => "send+recv",
            Self::Segments => "raw GSO+GRO",
        }
    }
}

pub(crate) fn start_datagrams(site: &Site, bulk: Bulk) -> Result<Box<dyn Side>, String> {
    let (client, server) = site.udp_pair()?;
    let post = Post::new();
    let (own, payload_bytes) = (Arc::clone(&post), site.payload_bytes);
    let closed = server.try_clone().map_err(said)?;
    let receiver = site.spawn(site.seats.server("raw-receiver"), move || {
        let mut judge = Judge::new(Arc::clone(&own), payload_bytes);
        let each = |message: &[u8], at_ns| judge.judge(message, at_ns, |at_ns| at_ns);
        let received = match bulk {
            Bulk::Each => receive_stream(&End::Udp(server), payload_bytes, each),
            Bulk::Segments => receive_segments(&server, each),
        };
        own.broken(received.map_or_else(said, |()| "the stream ended".to_owned()));
    })?;
    let writer = match bulk {
        Bulk::Each => Writer::Each(client),
        Bulk::Segments => {
            Writer::Segments(SegmentWriter::new(client, payload_bytes).map_err(said)?)
        }
    };
    let sender = DatagramSender {
        writer,
        payload: vec![0; payload_bytes],
        closer: End::Udp(closed).closer().map_err(said)?,
        receiver,
    };
    Ok(Stream::start(sender, post, site))
}

struct DatagramSender {
    writer: Writer,
    payload: Vec<u8>,
    closer: Closer,
    receiver: JoinHandle<Option<()>>,
}

enum Writer {
    Each(UdpSocket),
    Segments(SegmentWriter),
}

impl Sender for DatagramSender {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, String> {
        number(&mut self.payload, sequence);
        match &mut self.writer {
            Writer::Each(socket) => socket.send(&self.payload).map(drop),
            Writer::Segments(writer) => writer.push(&self.payload),
        }
        .map(|()| true)
        .map_err(said)
    }

    fn flush(&mut self) -> Result<(), String> {
        match &mut self.writer {
            Writer::Each(_) => Ok(()),
            Writer::Segments(writer) => writer.flush().map_err(said),
        }
    }

    fn finish(self, _accepted: u64) -> Result<Option<String>, String> {
        self.closer.shutdown();
        let ended = self.receiver.join();
        ended
            .map(|_| None)
            .map_err(|_| "the receiver panicked".to_owned())
    }
}
