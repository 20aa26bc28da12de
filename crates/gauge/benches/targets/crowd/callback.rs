//! The product: a server and so many links in callbacks, an I/O thread at each end.

use std::sync::Arc;

use tautline::{Ended, Handler, IoThread, Link, Received, Refusal, Server, Strategy};

use super::super::rounds::Side;
use super::super::site::{SETUP_LIMIT, Site, said};
use super::{Client, Crowd, Exchange, Floor, Together, room_for};

pub(crate) fn start(site: &Site, crowd: Crowd) -> Result<Box<dyn Side>, String> {
    room_for(crowd)?;
    let floor = Arc::new(Floor::new()?);
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
    let io = site.io_thread(site.seats.client("client-io"))?;
    let mut kick = Exchange::new(site);
    kick.first();
    let mut links = Vec::with_capacity(crowd.connections());
    for _ in 0..crowd.connections() {
        let member = Member {
            floor: Arc::clone(&floor),
            exchange: Exchange::new(site),
        };
        let options = site.link_options(Strategy::Reliable);
        let link = io
            .connect(&server.local_address(), options, member)
            .map_err(said)?;
        link.wait_open(SETUP_LIMIT).map_err(said)?;
        links.push(link);
    }
    let links = Links {
        floor,
        links,
        kick: kick.payload,
        server,
        _io: io,
    };
    Together::start(links, crowd)
}

struct Links {
    floor: Arc<Floor>,
    links: Vec<Link>,
    /// What starts each connection; it is not timed.
    kick: Vec<u8>,
    server: Server,
    _io: IoThread,
}

impl Client for Links {
    fn floor(&self) -> &Floor {
        &self.floor
    }

    fn exchange(&mut self) -> Result<(), String> {
        for link in &self.links {
            link.send(&self.kick).map_err(said)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Option<String>, String> {
        for link in &self.links {
            link.abort();
        }
        let peers = self.server.statistics().peers;
        self.server.abort();
        let each = |calls: u64| calls as f64 / peers.receiving.messages.max(1) as f64;
        Ok(Some(format!(
            "server: {:.3} reads, {:.3} writes a message",
            each(peers.receiving.read_calls),
            each(peers.sending.write_calls),
        )))
    }
}

/// One link's callback.
struct Member {
    floor: Arc<Floor>,
    exchange: Exchange,
}

impl Handler for Member {
    fn message(&mut self, link: &Link, message: &[u8], _received: Received) {
        let goes_on = self.exchange.settle(&self.floor, message);
        if !goes_on {
            // What comes next is the next block's kick.
            self.exchange.sent_ns = None;
        } else if let Err(why) = link.send(self.exchange.next()) {
            self.floor.broken(said(why));
        }
    }

    fn ended(&mut self, _link: &Link, ended: &Ended) {
        self.floor.broken(ended.reason.to_string());
    }
}
