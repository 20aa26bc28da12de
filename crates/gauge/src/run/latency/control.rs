//! The control's side of a round: raw blocking sockets, one thread at each end.

use std::io;
use std::thread::JoinHandle;

use super::exchange::{Exchange, Fault, Reply};
use crate::control::{Closer, EchoClient, End, PlugClient, serve_echo};
use crate::plan::Transport;
use crate::run::Broken;
use crate::run::plug::Plug;
use crate::run::site::Site;
use crate::run::supervise::STALL;
use crate::stamp::Stamp;
use crate::wire::Mode;

/// A raw client, and its raw server where that is ours.
#[derive(Debug)]
pub(super) struct ControlEcho {
    client: Client,
    stamp: Stamp,
    /// Held until the client is gone.
    _server: Option<Server>,
}

#[derive(Debug)]
enum Client {
    /// Of a server.
    Served(EchoClient),
    /// That hears itself.
    Plug(Box<PlugClient>),
}

/// A raw server, which ends when this is dropped.
#[derive(Debug)]
struct Server {
    /// Shuts the server's socket down.
    closer: Closer,
    thread: Option<JoinHandle<()>>,
}

impl ControlEcho {
    pub(super) fn start(site: &Site) -> Result<Self, Broken> {
        if let Some(plug) = site.plug() {
            return Self::alone(site, plug);
        }
        let (client, stamp, server) = match site.remote() {
            Some(remote) => {
                let raw = remote.raw(site, Mode::Echo).map_err(Broken::setup)?;
                (raw.end, raw.stamp, None)
            }
            None => {
                let (client, server) = Server::start(site)?;
                (client, Stamp::Probe, Some(server))
            }
        };
        if site.transport == Transport::Udp {
            // On streams nothing is lost, and a timer in every wait would burden the control.
            client
                .set_read_timeout(Some(STALL))
                .map_err(Broken::setup)?;
        }
        Ok(Self {
            client: Client::Served(EchoClient::new(client, site.transport, site.payload_bytes)),
            stamp,
            _server: server,
        })
    }
}

impl ControlEcho {
    /// On a port that is its own other end.
    fn alone(site: &Site, plug: &Plug) -> Result<Self, Broken> {
        let client = PlugClient::open(plug.path(), site.payload_bytes).map_err(|cause| {
            Broken::Setup(format!("control: open {}: {cause}", plug.path().display()))
        })?;
        let closer = client.closer();
        site.pulse.on_close(move || closer.hang_up());
        Ok(Self {
            client: Client::Plug(Box::new(client)),
            stamp: Stamp::Probe,
            _server: None,
        })
    }
}

impl Server {
    /// Starts it; with the client's end.
    fn start(site: &Site) -> Result<(End, Self), Broken> {
        let (client, server) = site.control_pair()?;
        let closer = server.closer().map_err(Broken::setup)?;
        for end in [&client, &server] {
            let end = end.closer().map_err(Broken::setup)?;
            site.pulse.on_close(move || end.shutdown());
        }
        let wire_bytes = site.payload_bytes + site.transport.overhead_bytes();
        let thread = site.spawn(site.seats.server("control-server"), move || {
            // Its end is the client's to judge: an error here is a missing reply there.
            let _ = serve_echo(&server, wire_bytes);
        })?;
        let thread = Some(thread);
        Ok((client, Self { closer, thread }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.closer.shutdown();
        if let Some(thread) = self.thread.take() {
            // A server that panicked has been noticed by its client.
            let _ = thread.join();
        }
    }
}

impl Exchange for ControlEcho {
    fn stamp(&self) -> Stamp {
        self.stamp
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        match &mut self.client {
            Client::Served(client) => client.payload_mut(),
            Client::Plug(client) => client.payload_mut(),
        }
    }

    #[inline]
    fn send(&mut self, _whole: bool) -> Result<(), String> {
        let sent = match &mut self.client {
            Client::Served(client) => client.send(),
            Client::Plug(client) => client.send(),
        };
        sent.map_err(|cause| format!("control: send: {cause}"))
    }

    #[inline]
    fn recv(&mut self) -> Result<Reply<'_>, Fault> {
        let received = match &mut self.client {
            Client::Served(client) => client.recv(),
            Client::Plug(client) => client.recv(),
        };
        match received {
            Ok(message) => Ok(Reply::Bytes(message)),
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Err(Fault::NoReply),
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Err(Fault::Broken(
                "control: the server ended the connection".to_owned(),
            )),
            Err(cause) => Err(Fault::Broken(format!("control: receive: {cause}"))),
        }
    }
}
