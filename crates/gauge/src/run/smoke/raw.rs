//! The control: two raw UDP sockets, one thread at each end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Counters, Exchange};
use crate::control::{Closer, End};
use crate::plan::{DATAGRAM_PAYLOAD_LIMIT_BYTES, Transport};
use crate::run::Broken;
use crate::run::site::Site;

pub(super) struct Echo {
    client: End,
    closer: Closer,
    received: Arc<AtomicU64>,
    server: Option<JoinHandle<()>>,
}

impl Echo {
    pub(super) fn start(site: &Site, timeout: Duration) -> Result<Self, Broken> {
        let setup = |cause: io::Error| Broken::Setup(cause.to_string());
        let host = site.addresses.control_host(Transport::Udp);
        let (client, server) = End::pair(Transport::Udp, host).map_err(setup)?;
        client.set_read_timeout(Some(timeout)).map_err(setup)?;
        let closer = server.closer().map_err(setup)?;
        for end in [&client, &server] {
            let end = end.closer().map_err(setup)?;
            site.pulse.on_close(move || end.shutdown());
        }
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let server = site.spawn(site.seats.server("control-server"), move || {
            let mut buffer = vec![0; DATAGRAM_PAYLOAD_LIMIT_BYTES + 1];
            // An empty datagram is the end: the socket was shut down.
            while let Ok(bytes @ 1..) = server.read(&mut buffer) {
                count.fetch_add(1, Ordering::Relaxed);
                // A reply that cannot be sent is one that the client misses.
                let _ = server.write_all(&buffer[..bytes]);
            }
        })?;
        Ok(Self {
            client,
            closer,
            received,
            server: Some(server),
        })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.closer.shutdown();
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

impl Exchange for Echo {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        self.client
            .write_all(message)
            .map_err(|cause| cause.to_string())
    }

    fn recv(&mut self, reply: &mut Vec<u8>) -> Result<bool, Broken> {
        reply.resize(DATAGRAM_PAYLOAD_LIMIT_BYTES + 1, 0);
        match self.client.read(reply) {
            Ok(bytes) => {
                reply.truncate(bytes);
                Ok(true)
            }
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(cause) => Err(Broken::Partial(format!("raw: receive: {cause}"))),
        }
    }

    fn counters(&self) -> Counters {
        Counters {
            server_received: self.received.load(Ordering::Relaxed),
            runtime: None,
        }
    }
}
