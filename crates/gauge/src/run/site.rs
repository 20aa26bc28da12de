//! What every end of one run needs to know, and how its threads are started in their places.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tautline::{Framing, IoOptions, IoThread, LinkOptions, Strategy, Tls};

use super::Broken;
use super::addresses::Addresses;
use super::medium::Agreed;
use super::plug::Plug;
use super::remote::Remote;
use super::supervise::Pulse;
use crate::certificate;
use crate::control::End;
use crate::null_modem::{self, NullModem};
use crate::placement::{Register, Seat, Seats};
use crate::plan::Transport;

/// One run of one cell: what is sent, over what, and from where.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) transport: Transport,
    pub(crate) payload_bytes: usize,
    pub(crate) seats: Seats,
    pub(crate) register: Arc<Register>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) pulse: Arc<Pulse>,
    /// What TLS has agreed on, where it is spoken.
    pub(crate) agreed: Arc<Agreed>,
}

impl Site {
    /// The library's options at a client's end.
    pub(crate) fn link_options(&self, strategy: Strategy) -> Result<LinkOptions, Broken> {
        Ok(LinkOptions {
            tls: self.tls(certificate::client)?,
            ..self.plain_options(strategy)
        })
    }

    /// The library's options at a server's end.
    pub(crate) fn far_options(&self, strategy: Strategy) -> Result<LinkOptions, Broken> {
        Ok(LinkOptions {
            tls: self.tls(certificate::server)?,
            ..self.plain_options(strategy)
        })
    }

    fn tls(&self, side: fn() -> Result<Tls, String>) -> Result<Tls, Broken> {
        match self.transport {
            Transport::Tls => side().map_err(Broken::Setup),
            Transport::Tcp | Transport::Udp | Transport::Uds | Transport::Serial => {
                Ok(Tls::default())
            }
        }
    }

    /// The defaults, the 4-byte prefix on byte streams, this strategy.
    fn plain_options(&self, strategy: Strategy) -> LinkOptions {
        let framing = match self.transport {
            Transport::Tcp | Transport::Tls | Transport::Uds | Transport::Serial => {
                Framing::length_prefix()
            }
            Transport::Udp => Framing::Raw,
        };
        LinkOptions {
            framing,
            strategy,
            ..LinkOptions::default()
        }
    }

    /// The one port whose ends are joined, where the run is on one.
    pub(crate) fn plug(&self) -> Option<&Plug> {
        match self.transport {
            Transport::Serial => self.addresses.plug(),
            Transport::Tcp | Transport::Tls | Transport::Udp | Transport::Uds => None,
        }
    }

    /// Bytes of a message on the wire.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.payload_bytes + self.transport.overhead_bytes()
    }

    /// Both ends of the control.
    pub(crate) fn control_pair(&self) -> Result<(End, End), Broken> {
        let pair = match self.transport {
            Transport::Tcp | Transport::Tls | Transport::Udp | Transport::Uds => {
                End::pair(self.transport, self.addresses.control_host(self.transport))
            }
            Transport::Serial => End::joined_by(self.null_modem()?),
        };
        let (client, server) = pair.map_err(Broken::setup)?;
        self.control_secured(client.agreed())?;
        Ok((client, server))
    }

    /// Two terminals and the thread between them, which is none of the ends and stays out of their way.
    pub(crate) fn null_modem(&self) -> Result<NullModem, Broken> {
        let place = self.seats.between(null_modem::ROLE);
        let register = Arc::clone(&self.register);
        NullModem::start(move || place.take(&register).map_err(io::Error::other))
            .map_err(Broken::setup)
    }

    /// The server elsewhere, where the run is against one.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        self.addresses.remote(self.transport)
    }

    /// Starts a thread that takes its seat first, and returns when it has.
    pub(crate) fn spawn(
        &self,
        seat: Seat,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, Broken> {
        let register = Arc::clone(&self.register);
        let (seated, is_seated) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("gauge-{}", seat.role))
            .spawn(move || {
                let outcome = seat.take(&register);
                let may_begin = outcome.is_ok();
                // The starter waits for this: it cannot be gone.
                let _ = seated.send(outcome);
                if may_begin {
                    body();
                }
            })
            .map_err(|cause| Broken::Setup(format!("start the {}: {cause}", seat.role)))?;
        match is_seated.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(refused)) => Err(Broken::Setup(refused.to_string())),
            Err(_) => Err(Broken::Setup(format!("the {} ended at once", seat.role))),
        }
    }

    /// Starts an I/O thread in this seat: it inherits the place of the thread that starts it.
    pub(crate) fn io_thread(&self, seat: Seat) -> Result<IoThread, Broken> {
        let (send, receive) = mpsc::sync_channel(1);
        let starter = self.spawn(seat, move || {
            let options = IoOptions {
                name: format!("gauge-{}", seat.role),
                ..IoOptions::default()
            };
            // The receiver waits for this: it cannot be gone.
            let _ = send.send(IoThread::start(options));
        })?;
        let outcome = receive.recv();
        // It has sent its last word.
        let _ = starter.join();
        match outcome {
            Ok(started) => started.map_err(|error| Broken::Setup(error.to_string())),
            Err(_) => Err(Broken::Setup(format!("the {} did not start", seat.role))),
        }
    }
}

/// How long connecting, accepting and closing may take: far above what loopback needs.
pub(crate) const SETUP_LIMIT: Duration = Duration::from_secs(5);

/// A site that is not supervised, for tests of what runs on one.
#[cfg(test)]
pub(crate) fn for_tests(payload_bytes: usize) -> Site {
    use crate::plan::{Placement, PlacementPlan, Plan};
    let free = PlacementPlan {
        placement: Placement::Free,
        ..PlacementPlan::default()
    };
    Site {
        transport: Transport::Udp,
        payload_bytes,
        seats: Seats::choose(&free).unwrap(),
        register: Arc::new(Register::default()),
        addresses: Arc::new(Addresses::new(&Plan::full(1), Vec::new()).unwrap()),
        pulse: Arc::new(Pulse::new(true)),
        agreed: Arc::default(),
    }
}
