//! The library's far end on an I/O thread of its own: a server, or over serial lines, which have none,
//! a link for each client at the other end of a null modem.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tautline::{
    Address, Handler, IoThread, Link, LinkOptions, Refusal, Server, ServerOptions, Strategy,
};

use super::Broken;
use super::site::{SETUP_LIMIT, Site};
use crate::null_modem::NullModem;

/// Where clients of the library find somebody; ended when this is dropped.
pub(crate) struct FarEnd(Kind);

enum Kind {
    Server(Server),
    Lines(Lines),
}

/// Links at the far ends of null modems.
struct Lines {
    open: Box<dyn Fn(&Address) -> Result<Link, Broken> + Send>,
    met: Mutex<Vec<(Link, NullModem)>>,
}

impl FarEnd {
    /// Listens at `address`; without one, as on serial lines, it opens the far end of a null modem for
    /// each client. Each gets the handler that `handler` makes.
    pub(crate) fn start<H: Handler>(
        site: &Site,
        address: Option<&Address>,
        strategy: Strategy,
        handler: impl Fn() -> Result<H, Refusal> + Send + 'static,
    ) -> Result<Self, Broken> {
        let io = site.io_thread(site.seats.server("server-io"))?;
        match address {
            Some(address) => {
                let options = ServerOptions {
                    link: site.far_options(strategy)?,
                    ..ServerOptions::default()
                };
                let server = io
                    .listen(address, options, move |_: &Link| handler())
                    .map_err(Broken::setup)?;
                Ok(Self(Kind::Server(server)))
            }
            None => {
                let options = site.far_options(strategy)?;
                Ok(Self(Kind::Lines(Lines {
                    open: Box::new(move |far| open(&io, far, &options, &handler)),
                    met: Mutex::default(),
                })))
            }
        }
    }

    /// Where the next client connects.
    pub(crate) fn meet(&self, site: &Site) -> Result<Address, Broken> {
        match &self.0 {
            Kind::Server(server) => Ok(server.local_address()),
            Kind::Lines(lines) => lines.meet(site),
        }
    }

    /// Ends every peer; no callback of theirs runs when this has returned.
    pub(crate) fn abort(&self) {
        match &self.0 {
            Kind::Server(server) => server.abort(),
            Kind::Lines(lines) => {
                let met = lines.met.lock().unwrap_or_else(PoisonError::into_inner);
                met.iter().for_each(|(link, _)| link.abort());
            }
        }
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        // Returns when all peers have ended, so that the next run finds the address free.
        self.abort();
    }
}

impl fmt::Debug for FarEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarEnd").finish_non_exhaustive()
    }
}

impl Lines {
    fn meet(&self, site: &Site) -> Result<Address, Broken> {
        let modem = site.null_modem()?;
        let link = (self.open)(&modem.far_address())?;
        let near = modem.near_address();
        self.met
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((link, modem));
        Ok(near)
    }
}

/// A link at the far end, when it is open.
fn open<H: Handler>(
    io: &IoThread,
    far: &Address,
    options: &LinkOptions,
    handler: &impl Fn() -> Result<H, Refusal>,
) -> Result<Link, Broken> {
    let handler = handler().map_err(Broken::setup)?;
    let link = io
        .connect(far, options.clone(), handler)
        .map_err(Broken::setup)?;
    link.wait_open(SETUP_LIMIT).map_err(Broken::setup)?;
    Ok(link)
}
