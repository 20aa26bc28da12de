//! The library's server and client I/O threads, shared by the drivers `callback` and `handoff`.

use std::sync::Arc;

use tautline::{
    Address, Handler, IoThread, Link, LinkOptions, Opened, Received, Refusal, Server,
    ServerOptions, Strategy,
};

use crate::placement::{Register, Seat};
use crate::run::Broken;
use crate::run::site::{SETUP_LIMIT, Site};

/// An echo server on an I/O thread of its own, and another I/O thread for the clients.
#[derive(Debug)]
pub(super) struct Library {
    client_io: IoThread,
    server: Server,
    address: Address,
    options: LinkOptions,
}

impl Library {
    pub(super) fn start(site: &Site, address: &Address) -> Result<Self, Broken> {
        let seat = site.seats.server("server-io");
        let server_io = site.io_thread(seat)?;
        let link = site.link_options(Strategy::Reliable);
        let options = ServerOptions {
            link: link.clone(),
            ..ServerOptions::default()
        };
        let register = Arc::clone(&site.register);
        let server = server_io
            .listen(address, options, move |_peer: &Link| {
                Ok::<_, Refusal>(Echo {
                    seat,
                    register: Arc::clone(&register),
                })
            })
            .map_err(|error| Broken::Setup(error.to_string()))?;
        let client_io = site.io_thread(site.seats.client("client-io"))?;
        Ok(Self {
            client_io,
            address: server.local_address(),
            server,
            options: link,
        })
    }

    /// Clients connect to somebody else from now on.
    #[cfg(test)]
    pub(super) fn redirect(&mut self, address: Address) {
        self.address = address;
    }

    /// A client whose messages go to `handler`; waits until it is open.
    pub(super) fn connect(&self, site: &Site, handler: impl Handler) -> Result<Link, Broken> {
        let setup = |error: tautline::Error| Broken::Setup(error.to_string());
        let link = self
            .client_io
            .connect(&self.address, self.options.clone(), handler)
            .map_err(setup)?;
        link.wait_open(SETUP_LIMIT).map_err(setup)?;
        let closing = link.clone();
        site.pulse.on_close(move || closing.abort());
        Ok(link)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // Returns when all peers have ended, so that the next run finds the address free.
        self.server.abort();
    }
}

/// Sends every message back from within the callback.
struct Echo {
    seat: Seat,
    register: Arc<Register>,
}

impl Handler for Echo {
    fn opened(&mut self, _link: &Link, _opened: &Opened) {
        self.register.enter(self.seat);
    }

    fn message(&mut self, link: &Link, message: &[u8], _received: Received) {
        // One message is under way at a time, so there is always room. A peer that has gone is the
        // client's to judge: it misses the reply.
        let _ = link.send(message);
    }
}
