//! How links and servers begin, whoever turns their driver: an I/O thread or an own loop.

use std::sync::Arc;

use tautline_session::{Outbound, OutboundOptions};

use crate::address::Address;
use crate::channel::Channel;
use crate::driver::{Accept, Command, DatagramDriver, IoHome, IoShared, LinkStart, ListenerDriver};
use crate::error::{Error, Refusal};
use crate::handler::Handler;
use crate::link::{Link, LinkShared};
use crate::options::{LinkOptions, ServerOptions};
use crate::outlet::{Outlet, Remotes};
use crate::server::{Server, ServerShared};
use crate::transport::{self, TlsSetup};

/// Begins a link to `address`; the driver connects.
pub(crate) fn connect(
    io: &Arc<IoShared>,
    address: &Address,
    mut options: LinkOptions,
    handler: impl Handler,
) -> Result<Link, Error> {
    options.validate(address)?;
    options.validate_peer(address)?;
    options.refuse_spin()?;
    let id = io.next_id();
    let tls = TlsSetup::client(address, &options)?;
    options.tls.forget_secrets();
    let home = IoHome {
        io: Arc::clone(io),
        id,
    };
    let outbound = Outbound::new(&options.outbound(address));
    let channel = Arc::new(Channel::new(outbound, home));
    let link = LinkShared::new(id, address.clone(), Arc::clone(io), channel, true);
    let link = Arc::new(link);
    let handle = Link::counted(Arc::clone(&link));
    io.command(Command::Connect(Box::new(LinkStart {
        link,
        handler: Box::new(handler),
        options: Arc::new(options),
        tls,
    })));
    Ok(handle)
}

/// Listens on `address` at once; the driver accepts.
pub(crate) fn listen<H: Handler>(
    io: &Arc<IoShared>,
    address: &Address,
    options: ServerOptions,
    accept: impl FnMut(&Link) -> Result<H, Refusal> + Send + 'static,
) -> Result<Server, Error> {
    options.validate(address)?;
    options.link.refuse_spin()?;
    let accept = Accept::new(accept);
    match address {
        Address::Tcp { .. } | Address::Tls { .. } | Address::Uds(_) | Address::Serial(_) => {
            listen_streams(io, address, options, accept)
        }
        Address::Udp { .. } => bind_datagrams(io, address, options, accept),
    }
}

fn listen_streams(
    io: &Arc<IoShared>,
    address: &Address,
    mut options: ServerOptions,
    accept: Accept,
) -> Result<Server, Error> {
    let tls = TlsSetup::server(address, &options)?;
    options.link.tls.forget_secrets();
    let listener = transport::listen(address, &options)?;
    let server = Arc::new(ServerShared::of_streams(
        io.next_id(),
        listener,
        Arc::clone(io),
        options.total_queue_limit_bytes,
    ));
    let listener = ListenerDriver::new(Arc::clone(&server), options, accept, tls);
    io.command(Command::Listen(Box::new(listener)));
    Ok(Server::new(server))
}

fn bind_datagrams(
    io: &Arc<IoShared>,
    address: &Address,
    options: ServerOptions,
    accept: Accept,
) -> Result<Server, Error> {
    let (socket, memberships) = transport::bind_datagram(address, &options)?;
    let address = socket.local_address().unwrap_or_else(|| address.clone());
    let id = io.next_id();
    let home = IoHome {
        io: Arc::clone(io),
        id,
    };
    let outbound = Outbound::new(&OutboundOptions {
        shared: true,
        ..options.link.outbound(&address)
    });
    let channel = Arc::new(Channel::new(outbound, home));
    let outlet = Arc::new(Outlet::Shared(socket, Remotes::default()));
    channel.opened(Arc::clone(&outlet), false);
    let shared = ServerShared::of_datagrams(
        id,
        address,
        Arc::clone(&channel),
        Arc::clone(io),
        options.link.clone(),
    );
    let server = Arc::new(shared);
    let driver = DatagramDriver::new(
        Arc::clone(&server),
        channel,
        (outlet, memberships),
        options,
        accept,
    );
    io.command(Command::Receive(Box::new(driver)));
    Ok(Server::new(server))
}
