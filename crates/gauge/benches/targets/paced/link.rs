//! The product: a link whose handler takes the replies, a callback server that echoes.

use std::sync::Arc;

use tautline::{Ended, Handler, IoThread, Link, Received, Refusal, Server, Strategy};

use super::super::rounds::Side;
use super::super::site::{SETUP_LIMIT, Site, said};
use super::{Clerk, Paced, Sender, Tray};

pub(crate) fn start_link(site: &Site, rate_hz: u64) -> Result<Box<dyn Side>, String> {
    let server_io = site.io_thread(site.seats.server("server-io"))?;
    let options = site.server_options(Strategy::Reliable);
    let server = server_io
        .listen(&site.address(), options, |_peer: &Link| {
            Ok::<_, Refusal>(|peer: &Link, message: &[u8], _: Received| {
                // The queue holds ten thousand; what is refused all the same is missed.
                let _ = peer.send(message);
            })
        })
        .map_err(said)?;
    let tray = Tray::new();
    let client_io = site.io_thread(site.seats.client("client-io"))?;
    let options = site.link_options(Strategy::Reliable);
    let replies = Replies(Clerk::new(Arc::clone(&tray), site));
    let link = client_io
        .connect(&server.local_address(), options, replies)
        .map_err(said)?;
    link.wait_open(SETUP_LIMIT).map_err(said)?;
    let sender = LinkSender {
        link,
        server,
        message: vec![0; site.payload_bytes],
        _client_io: client_io,
    };
    Ok(Paced::start(sender, tray, rate_hz))
}

struct LinkSender {
    link: Link,
    server: Server,
    message: Vec<u8>,
    _client_io: IoThread,
}

impl Sender for LinkSender {
    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.message
    }

    #[inline]
    fn send(&mut self) -> Result<(), String> {
        self.link.send(&self.message).map_err(said)
    }

    fn finish(self, sent: u64) -> Result<Option<String>, String> {
        let statistics = self.link.statistics();
        let (sending, receiving) = (statistics.sending, statistics.receiving);
        self.link.close(SETUP_LIMIT);
        self.server.abort();
        if sending.accepted.messages != sent || receiving.messages != sent {
            return Err(format!(
                "{sent} messages were sent; the link counts {sending:?}, {receiving:?}"
            ));
        }
        let each = |calls: u64| calls as f64 / sent as f64;
        Ok(Some(format!(
            "client: {:.3} writes ({:.3} by the sender), {:.3} reads a message",
            each(sending.write_calls),
            each(sending.direct_writes),
            each(receiving.read_calls)
        )))
    }
}

struct Replies(Clerk);

impl Handler for Replies {
    fn message(&mut self, _link: &Link, message: &[u8], _received: Received) {
        self.0.reply(message);
    }

    fn ended(&mut self, _link: &Link, ended: &Ended) {
        self.0.tray.broken(ended.reason.to_string());
    }
}
