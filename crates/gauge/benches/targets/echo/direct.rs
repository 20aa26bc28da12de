//! `DirectLink` at both ends, one thread each; with or without polling before it sleeps.

use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tautline::{
    Closer, DirectLink, DirectListener, LinkOptions, LinkStatistics, Request, Strategy,
};

use super::super::rounds::Side;
use super::super::site::{SETUP_LIMIT, Site, said};
use super::{Echo, Exchange};

/// Both ends sleep in the kernel.
pub(crate) fn start_direct(site: &Site) -> Result<Box<dyn Side>, String> {
    start(site, Duration::ZERO)
}

/// Both ends poll first.
pub(crate) fn start_spin(site: &Site) -> Result<Box<dyn Side>, String> {
    start(site, SPIN)
}

fn start(site: &Site, spin: Duration) -> Result<Box<dyn Side>, String> {
    let options = LinkOptions {
        spin,
        ..site.link_options(Strategy::Reliable)
    };
    let (addresses, bound) = mpsc::sync_channel(1);
    let (closers, closer) = mpsc::sync_channel(1);
    let (address, server_options) = (site.address(), options.clone());
    let server = site.spawn(site.seats.server("direct-server"), move || {
        let mut listener = DirectListener::bind(&address, server_options).map_err(said)?;
        // The starter waits for these: it cannot be gone.
        let _ = addresses.send(listener.local_address());
        let mut link = listener
            .accept(Some(Instant::now() + SETUP_LIMIT))
            .map_err(said)?;
        let _ = closers.send(link.closer());
        serve(&mut link);
        Ok(link.statistics())
    })?;
    let Ok(address) = bound.recv() else {
        return Err(outcome_of(server).err().unwrap_or_default());
    };
    let direct = Direct {
        link: DirectLink::connect(&address, options).map_err(said)?,
        message: vec![0; site.payload_bytes],
        server,
        closer,
    };
    Echo::start(direct, site)
}

/// Answers from the receive buffer, without a copy.
fn serve(link: &mut DirectLink) {
    // However it ends, the client finds out: it misses the reply.
    while let Ok(Request {
        message, replies, ..
    }) = link.request(None)
    {
        if replies.send(message).is_err() {
            return;
        }
    }
}

struct Direct {
    link: DirectLink,
    message: Vec<u8>,
    server: JoinHandle<Option<Result<LinkStatistics, String>>>,
    /// Over UDP the server has a peer only when the first message has come.
    closer: Receiver<Closer>,
}

impl Exchange for Direct {
    fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.message
    }

    #[inline]
    fn send(&mut self) -> Result<(), String> {
        self.link.send(&self.message).map_err(said)
    }

    #[inline]
    fn recv(&mut self) -> Result<&[u8], String> {
        // No deadline: the control reads no clock either, and the watchdog ends a wait without end.
        self.link.recv(None).map_err(said)
    }

    fn finish(self, messages: u64) -> Result<Option<String>, String> {
        let given_up = self.link.spins_given_up();
        self.closer.recv().map_err(said)?.close();
        let server = outcome_of(self.server)?;
        let (sent, received) = (&server.sending, &server.receiving);
        if received.messages != messages || sent.accepted.messages != messages {
            return Err(format!(
                "{messages} messages were exchanged; the server counts {} received, {} accepted",
                received.messages, sent.accepted.messages
            ));
        }
        let each = |calls: u64| calls as f64 / messages as f64;
        Ok(Some(format!(
            "server: {:.3} reads, {:.3} writes a message; client gave way {given_up} times",
            each(received.read_calls),
            each(sent.write_calls)
        )))
    }
}

fn outcome_of<T>(server: JoinHandle<Option<Result<T, String>>>) -> Result<T, String> {
    match server.join() {
        Ok(Some(outcome)) => outcome.map_err(|why| format!("server: {why}")),
        Ok(None) | Err(_) => Err("the server panicked".to_owned()),
    }
}

/// What the option's documentation recommends for CPUs that halt.
const SPIN: Duration = Duration::from_micros(50);
