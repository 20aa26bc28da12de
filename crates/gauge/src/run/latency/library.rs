//! The library's I/O threads, shared by the drivers `callback` and `handoff`: the clients', and the
//! server's where that is ours.

use std::sync::Arc;
use std::time::Instant;

use tautline::{Address, Handler, IoThread, Link, LinkOptions, Opened, Received, Strategy};

use crate::handshake::link::{Ears, Greeting, LinkLine};
use crate::handshake::{MEETING_LIMIT, shake_hands};
use crate::placement::{Register, Seat};
use crate::run::Broken;
use crate::run::far_end::FarEnd;
use crate::run::plug::Plug;
use crate::run::remote::Remote;
use crate::run::site::{SETUP_LIMIT, Site};
use crate::stamp::Stamp;
use crate::wire::Mode;

/// An I/O thread for the clients, and an echo server on another one where it is not elsewhere.
#[derive(Debug)]
pub(super) struct Library {
    client_io: IoThread,
    met: Met,
    options: LinkOptions,
}

/// Whom the clients meet.
#[derive(Debug)]
enum Met {
    /// Our own echo server, or its like.
    Own(FarEnd),
    /// Whoever is at this address.
    Address(Address),
}

impl Library {
    /// With a far end of its own: a server at `address`, where there is one.
    pub(super) fn start(site: &Site, address: Option<&Address>) -> Result<Self, Broken> {
        let seat = site.seats.server("server-io");
        let register = Arc::clone(&site.register);
        let far_end = FarEnd::start(site, address, Strategy::Reliable, move || {
            Ok(Echo {
                seat,
                register: Arc::clone(&register),
            })
        })?;
        Self::with(site, Met::Own(far_end))
    }

    /// With a server elsewhere.
    pub(super) fn reach(site: &Site, remote: &Remote) -> Result<Self, Broken> {
        Self::with(site, Met::Address(remote.reached.clone()))
    }

    /// With nobody: clients hear themselves.
    pub(super) fn alone(site: &Site, plug: &Plug) -> Result<Self, Broken> {
        Self::with(site, Met::Address(plug.address()))
    }

    fn with(site: &Site, met: Met) -> Result<Self, Broken> {
        Ok(Self {
            client_io: site.io_thread(site.seats.client("client-io"))?,
            met,
            options: site.link_options(Strategy::Reliable)?,
        })
    }

    /// Clients connect to somebody else from now on.
    #[cfg(test)]
    pub(super) fn redirect(&mut self, address: Address) {
        self.met = Met::Address(address);
    }

    /// A client whose messages go to the handler, which is made when it is known how they are marked;
    /// waits until it is open, and has agreed with a server elsewhere.
    pub(super) fn connect<H: Handler>(
        &self,
        site: &Site,
        handler: impl FnOnce(Stamp) -> H,
    ) -> Result<(Link, Stamp), Broken> {
        let Some(remote) = site.remote() else {
            let link = self.open(site, handler(Stamp::Probe))?;
            return Ok((link, Stamp::Probe));
        };
        let (ears, said) = Ears::new(site.seats.client("client-io"), &site.register, 0);
        let (greeting, successor) = Greeting::new(ears);
        let link = self.open(site, greeting)?;
        let mut line = LinkLine::new(link.clone(), said, site.pulse.stop_flag());
        let hello = remote.hello(site, Mode::Echo);
        let until = Instant::now() + MEETING_LIMIT;
        let agreed = shake_hands(&mut line, site.transport, &hello, until)
            .map_err(|why| Broken::Setup(format!("{}: {why}", remote.asked)))?;
        let stamp = Stamp::agreed(site.transport, Mode::Echo, agreed.cookie);
        successor.is(handler(stamp));
        Ok((link, stamp))
    }

    fn open(&self, site: &Site, handler: impl Handler) -> Result<Link, Broken> {
        let setup = |error: tautline::Error| Broken::Setup(error.to_string());
        let address = match &self.met {
            Met::Own(far_end) => far_end.meet(site)?,
            Met::Address(address) => address.clone(),
        };
        let link = self
            .client_io
            .connect(&address, self.options.clone(), handler)
            .map_err(setup)?;
        link.wait_open(SETUP_LIMIT).map_err(setup)?;
        site.secured(link.secured())?;
        let closing = link.clone();
        site.pulse.on_close(move || closing.abort());
        Ok(link)
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
