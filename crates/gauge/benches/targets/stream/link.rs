//! The product's stream: an application thread sends on a link, a server's callback counts.

use std::sync::Arc;
use std::time::Instant;

use tautline::{Ended, Handler, IoThread, Link, Received, Refusal, SendError, Server, Strategy};
use tautline_gauge::clock::now_ns;
use tautline_gauge::plan::Transport;

use super::super::rounds::Side;
use super::super::site::{SETUP_LIMIT, Site, said};
use super::{Judge, Post, Sender, Stream, number};

pub(crate) fn start_link(site: &Site, strategy: Strategy) -> Result<Box<dyn Side>, String> {
    let post = Post::new();
    let (own, payload_bytes) = (Arc::clone(&post), site.payload_bytes);
    let server = site.at_server(|| {
        let server_io = site.io_thread(site.seats.server("server-io"))?;
        let options = site.server_options(strategy);
        let accept = move |_peer: &Link| {
            Ok::<_, Refusal>(Counter {
                judge: Judge::new(Arc::clone(&own), payload_bytes),
                base: (Instant::now(), now_ns()),
            })
        };
        server_io
            .listen(&site.address(), options, accept)
            .map_err(said)
    })?;
    let client_io = site.io_thread(site.seats.client("client-io"))?;
    let link = client_io
        .connect(&server.local_address(), site.link_options(strategy), Silent)
        .map_err(said)?;
    link.wait_open(SETUP_LIMIT).map_err(said)?;
    let sender = LinkSender {
        link,
        message: vec![0; site.payload_bytes],
        server,
        may_lose: site.transport == Transport::Udp,
        _client_io: client_io,
    };
    Ok(Stream::start(sender, post, site))
}

struct LinkSender {
    link: Link,
    message: Vec<u8>,
    server: Server,
    may_lose: bool,
    _client_io: IoThread,
}

impl Sender for LinkSender {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, String> {
        number(&mut self.message, sequence);
        match self.link.send(&self.message) {
            Ok(()) => Ok(true),
            Err(SendError::Full) => Ok(false),
            Err(error) => Err(said(error)),
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        // The I/O thread is at it already.
        Ok(())
    }

    fn finish(self, accepted: u64) -> Result<Option<String>, String> {
        let unsent = self.link.close(SETUP_LIMIT);
        let sending = self.link.statistics().sending;
        let receiving = self.server.statistics().peers.receiving;
        self.server.abort();
        let closes =
            sending.accepted == sending.written + sending.waiting + sending.discarded.total();
        if !closes || sending.accepted.messages != accepted || !unsent.queued.is_zero() {
            return Err(format!(
                "{accepted} messages were accepted; the link counts {sending:?}"
            ));
        }
        let arrived = receiving.messages == accepted
            || self.may_lose && (1..accepted).contains(&receiving.messages);
        if !arrived {
            let received = receiving.messages;
            return Err(format!(
                "{accepted} messages were accepted, {received} delivered"
            ));
        }
        let each = |calls: u64| calls as f64 / accepted as f64;
        Ok(Some(format!(
            "{:.5} writes ({:.5} by the sender), {:.5} reads, {:.5} waits a message; \
             {} pressure crossings, peak {} KiB",
            each(sending.write_calls),
            each(sending.direct_writes),
            each(receiving.read_calls),
            each(sending.waits),
            sending.pressure_crossings,
            sending.peak.bytes / 1024,
        )))
    }
}

/// The receiving end.
struct Counter {
    judge: Judge<Instant>,
    /// The same moment by both clocks.
    base: (Instant, u64),
}

impl Handler for Counter {
    fn message(&mut self, _link: &Link, message: &[u8], received: Received) {
        let (instant, ns) = self.base;
        self.judge.judge(message, received.at, |at| {
            ns + at.saturating_duration_since(instant).as_nanos() as u64
        });
    }

    fn ended(&mut self, _link: &Link, ended: &Ended) {
        self.judge.post.broken(ended.reason.to_string());
    }
}

/// The sending end hears nothing.
struct Silent;

impl Handler for Silent {
    fn message(&mut self, _link: &Link, _message: &[u8], _received: Received) {}
}
