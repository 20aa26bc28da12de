//! The value that stands for an I/O thread: where links and servers begin.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tautline_session::{Outbound, OutboundOptions};

use crate::address::Address;
use crate::channel::Channel;
use crate::driver::{
    Accept, Command, DatagramDriver, Driver, IoHome, IoShared, LinkStart, ListenerDriver,
};
use crate::error::{Error, Refusal};
use crate::handler::Handler;
use crate::link::{Link, LinkShared};
use crate::options::{IoOptions, LinkOptions, ServerOptions};
use crate::outlet::{Outlet, Remotes};
use crate::server::{Server, ServerShared};
use crate::transport;

/// A thread that reads and writes for any number of links and calls their handlers.
///
/// Idle it sleeps and costs no CPU. Dropping this value does not stop it: it lives until its last
/// link has ended. It inherits the CPUs and the scheduling policy of the thread that starts it.
pub struct IoThread {
    shared: Arc<IoShared>,
}

impl IoThread {
    /// Starts a thread.
    ///
    /// # Errors
    /// An option that makes no sense, or a system that is out of threads or descriptors.
    pub fn start(options: IoOptions) -> Result<Self, Error> {
        options.validate()?;
        let poll = mio::Poll::new().map_err(Error::thread)?;
        let shared = Arc::new(IoShared::new(poll.registry()).map_err(Error::thread)?);
        let driver = Driver::new(
            poll,
            Arc::clone(&shared),
            options.read_buffer_bytes,
            options.spin,
        )
        .map_err(Error::thread)?;
        std::thread::Builder::new()
            .name(options.name)
            .spawn(move || driver.run())
            .map_err(Error::thread)?;
        Ok(Self { shared })
    }

    /// The one thread that everybody in the process may share, started at the first call.
    ///
    /// # Errors
    /// As [`start`](Self::start); the next call tries again.
    pub fn shared() -> Result<&'static Self, Error> {
        static SHARED: OnceLock<IoThread> = OnceLock::new();
        if let Some(io) = SHARED.get() {
            return Ok(io);
        }
        // Two first calls at once may start two threads; the one that loses ends by its drop.
        let started = Self::start(IoOptions::default())?;
        Ok(SHARED.get_or_init(|| started))
    }

    /// Begins a link to `address` and returns at once; `opened` or `ended` tells how it went.
    ///
    /// # Errors
    /// An option that makes no sense, by its name. That nobody listens there is told by `ended`.
    pub fn connect(
        &self,
        address: &Address,
        options: LinkOptions,
        handler: impl Handler,
    ) -> Result<Link, Error> {
        options.validate(address)?;
        options.refuse_spin()?;
        let io = Arc::clone(&self.shared);
        let id = io.next_id();
        let home = IoHome {
            io: Arc::clone(&io),
            id,
        };
        let channel = Arc::new(Channel::new(
            Outbound::new(&options.outbound(address)),
            home,
        ));
        let link = Arc::new(LinkShared::new(id, address.clone(), io, channel, true));
        let handle = Link::counted(Arc::clone(&link));
        self.shared.command(Command::Connect(Box::new(LinkStart {
            link,
            handler: Box::new(handler),
            options,
        })));
        Ok(handle)
    }

    /// Listens on `address`. `accept` is called for each newcomer, on the I/O thread, and gives the
    /// handler of its link, or the reason why it is turned away.
    ///
    /// # Errors
    /// An option that makes no sense, by its name; an address that is in use or not ours.
    pub fn listen<H: Handler>(
        &self,
        address: &Address,
        options: ServerOptions,
        accept: impl FnMut(&Link) -> Result<H, Refusal> + Send + 'static,
    ) -> Result<Server, Error> {
        options.validate(address)?;
        options.link.refuse_spin()?;
        let accept = Accept::new(accept);
        match address {
            Address::Tcp { .. } | Address::Uds(_) => self.listen_streams(address, options, accept),
            Address::Udp { .. } => self.bind_datagrams(address, options, accept),
        }
    }

    fn listen_streams(
        &self,
        address: &Address,
        options: ServerOptions,
        accept: Accept,
    ) -> Result<Server, Error> {
        let listener = transport::listen(address, &options)?;
        let server = Arc::new(ServerShared::of_streams(
            self.shared.next_id(),
            listener,
            Arc::clone(&self.shared),
            options.total_queue_limit_bytes,
        ));
        let listener = ListenerDriver::new(Arc::clone(&server), options, accept);
        self.shared.command(Command::Listen(Box::new(listener)));
        Ok(Server::new(server))
    }

    fn bind_datagrams(
        &self,
        address: &Address,
        options: ServerOptions,
        accept: Accept,
    ) -> Result<Server, Error> {
        let socket = transport::bind_datagram(address, &options)?;
        let address = socket.local_address().unwrap_or_else(|| address.clone());
        let io = Arc::clone(&self.shared);
        let id = io.next_id();
        let home = IoHome {
            io: Arc::clone(&io),
            id,
        };
        let outbound = Outbound::new(&OutboundOptions {
            shared: true,
            ..options.link.outbound(&address)
        });
        let channel = Arc::new(Channel::new(outbound, home));
        let outlet = Arc::new(Outlet::Shared(socket, Remotes::default()));
        channel.opened(Arc::clone(&outlet));
        let shared = ServerShared::of_datagrams(id, address, Arc::clone(&channel), io);
        let server = Arc::new(shared);
        let driver = DatagramDriver::new(Arc::clone(&server), channel, outlet, options, accept);
        self.shared.command(Command::Receive(Box::new(driver)));
        Ok(Server::new(server))
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.shared.command(Command::Retire);
    }
}

impl fmt::Debug for IoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoThread").finish_non_exhaustive()
    }
}
