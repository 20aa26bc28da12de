//! Client and server in callbacks, each on an I/O thread of its own.

use std::time::Duration;

use tautline::{Ended, Handler, Link, Received, Refusal, Server, Strategy};

use super::super::rounds::{Block, Side};
use super::super::site::{SETUP_LIMIT, Site, said};
use super::clerk::{Clerk, Orders};

pub(crate) fn start_callback(site: &Site) -> Result<Box<dyn Side>, String> {
    let server_io = site.io_thread(site.seats.server("server-io"))?;
    let options = site.server_options(Strategy::Reliable);
    let server = server_io
        .listen(&site.address(), options, |_peer: &Link| {
            // One message is under way at a time, so there is always room.
            Ok::<_, Refusal>(|peer: &Link, message: &[u8], _: Received| {
                let _ = peer.send(message);
            })
        })
        .map_err(said)?;
    let (orders, clerk) = Orders::new(site.payload_bytes);
    let client_io = site.io_thread(site.seats.client("client-io"))?;
    let options = site.link_options(Strategy::Reliable);
    let link = client_io
        .connect(&server.local_address(), options, clerk)
        .map_err(said)?;
    link.wait_open(SETUP_LIMIT).map_err(said)?;
    let mut callback = Callback {
        link,
        server,
        orders,
    };
    callback
        .orders
        .compare_whole(|message| callback.link.send(message).map_err(said))?;
    Ok(Box::new(callback))
}

/// The measuring thread's side.
struct Callback {
    link: Link,
    server: Server,
    orders: Orders,
}

impl Side for Callback {
    fn block(&mut self, length: Duration) -> Result<Block, String> {
        let kick = |message: &[u8]| self.link.send(message).map_err(said);
        self.orders.block(length, kick)
    }

    fn finish(self: Box<Self>) -> Result<Option<String>, String> {
        let messages = self.orders.messages();
        let unsent = self.link.close(SETUP_LIMIT);
        let client = self.link.statistics();
        let server = self.server.statistics().peers;
        self.server.abort();
        let counted = [
            client.sending.accepted.messages,
            client.receiving.messages,
            server.sending.accepted.messages,
            server.receiving.messages,
        ];
        if counted != [messages; 4] || !unsent.queued.is_zero() {
            return Err(format!(
                "{messages} messages were exchanged; the counters say {counted:?}"
            ));
        }
        let each = |calls: u64| calls as f64 / messages as f64;
        Ok(Some(format!(
            "client: {:.3} reads, {:.3} writes; server: {:.3} reads, {:.3} writes a message",
            each(client.receiving.read_calls),
            each(client.sending.write_calls),
            each(server.receiving.read_calls),
            each(server.sending.write_calls),
        )))
    }
}

impl Handler for Clerk {
    fn message(&mut self, link: &Link, message: &[u8], _received: Received) {
        self.arrived(message, |next| link.send(next).map_err(said));
    }

    fn ended(&mut self, _link: &Link, ended: &Ended) {
        self.broken(ended.reason.to_string());
    }
}
