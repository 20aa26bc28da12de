//! The control's side of a round: raw blocking sockets, one thread at each end.

use std::io;
use std::thread::JoinHandle;

use super::exchange::{Exchange, Fault, Reply};
use crate::control::{EchoClient, End, serve_echo};
use crate::plan::Transport;
use crate::run::Broken;
use crate::run::site::Site;
use crate::run::supervise::STALL;

/// A raw client and its raw server, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct ControlEcho {
    client: EchoClient,
    /// Shuts the server's socket down.
    closer: End,
    server: Option<JoinHandle<()>>,
}

impl ControlEcho {
    pub(super) fn start(site: &Site) -> Result<Self, Broken> {
        let setup = |cause: io::Error| Broken::Setup(cause.to_string());
        let host = site.addresses.control_host(site.transport);
        let (client, server) = End::pair(site.transport, host).map_err(setup)?;
        if site.transport == Transport::Udp {
            // On streams nothing is lost, and a timer in every wait would burden the control.
            client.set_read_timeout(Some(STALL)).map_err(setup)?;
        }
        let closer = server.try_clone().map_err(setup)?;
        for end in [&client, &server] {
            let end = end.try_clone().map_err(setup)?;
            site.pulse.on_close(move || end.shutdown());
        }
        let wire_bytes = site.payload_bytes + site.transport.overhead_bytes();
        let server = site.spawn(site.seats.server("control-server"), move || {
            // Its end is the client's to judge: an error here is a missing reply there.
            let _ = serve_echo(&server, wire_bytes);
        })?;
        let client = EchoClient::new(client, site.transport, site.payload_bytes);
        Ok(Self {
            client,
            closer,
            server: Some(server),
        })
    }
}

impl Drop for ControlEcho {
    fn drop(&mut self) {
        self.closer.shutdown();
        if let Some(server) = self.server.take() {
            // A server that panicked has been noticed by its client.
            let _ = server.join();
        }
    }
}

impl Exchange for ControlEcho {
    fn payload_mut(&mut self) -> &mut [u8] {
        self.client.payload_mut()
    }

    #[inline]
    fn send(&mut self, _whole: bool) -> Result<(), String> {
        self.client
            .send()
            .map_err(|cause| format!("control: send: {cause}"))
    }

    #[inline]
    fn recv(&mut self) -> Result<Reply<'_>, Fault> {
        match self.client.recv() {
            Ok(message) => Ok(Reply::Bytes(message)),
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Err(Fault::NoReply),
            Err(cause) => Err(Fault::Broken(format!("control: receive: {cause}"))),
        }
    }
}
