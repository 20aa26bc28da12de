//! A `serve` elsewhere: found once before the first cell, and met anew by every end of every run.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use socket2::Socket;
use tautline::{Address, DirectLink};

use super::site::Site;
use crate::control::End;
use crate::environment::Environment;
use crate::handshake::direct::DirectLine;
use crate::handshake::socket::SocketLine;
use crate::handshake::{AGAIN, Agreed, MEETING_LIMIT, hello, shake_hands};
use crate::ping::socket::Targets;
use crate::ping::{SocketPlan, Stop, transport_of};
use crate::plan::{Plan, Transport};
use crate::stamp::Stamp;
use crate::wire::{Hello, Mode, PeerRecord};

/// Meets every server of the plan once: who is not there is told before the first cell.
///
/// # Errors
///
/// What, where and why.
pub(super) fn find_all(plan: &Plan, stop: &AtomicBool) -> Result<Vec<Remote>, String> {
    if plan.to.is_empty() {
        return Ok(Vec::new());
    }
    let own = PeerRecord::of(&Environment::read());
    let mode = if plan.latency.is_some() {
        Mode::Echo
    } else {
        Mode::Sink
    };
    plan.to
        .iter()
        .map(|address| {
            let payload_bytes = plan.largest_payload(transport_of(address));
            Remote::find(address, mode, payload_bytes, &own, stop)
        })
        .collect()
}

/// A server that was there at the start.
#[derive(Debug)]
pub(crate) struct Remote {
    /// As it was typed.
    pub(crate) asked: Address,
    /// Where that led: the same for control and library, and never looked up again.
    pub(crate) reached: Address,
    /// Who it is.
    pub(crate) record: PeerRecord,
    own: PeerRecord,
}

impl Remote {
    /// Connects and agrees once, on the largest payload of the run.
    ///
    /// # Errors
    ///
    /// What, where and why.
    fn find(
        asked: &Address,
        mode: Mode,
        payload_bytes: usize,
        own: &PeerRecord,
        stop: &AtomicBool,
    ) -> Result<Self, String> {
        let socket = connect(asked, stop)?;
        let reached = match (
            asked,
            socket.peer_addr().ok().and_then(|peer| peer.as_socket()),
        ) {
            (Address::Tcp { .. }, Some(peer)) => Address::tcp(peer),
            (Address::Udp { .. }, Some(peer)) => Address::udp(peer),
            (_, _) => asked.clone(),
        };
        let transport = transport_of(asked);
        let hello = hello(mode, message_bytes(transport, mode, payload_bytes), own);
        let agreed = agree(&socket, asked, &hello, stop)?;
        Ok(Self {
            asked: asked.clone(),
            reached,
            record: agreed.peer,
            own: own.clone(),
        })
    }

    /// Whether it runs on this host.
    pub(crate) fn same_host(&self) -> Option<bool> {
        self.own.same_host(&self.record)
    }

    /// What this end of a run wants.
    pub(crate) fn hello(&self, site: &Site, mode: Mode) -> Hello {
        let bytes = message_bytes(site.transport, mode, site.payload_bytes);
        hello(mode, bytes, &self.own)
    }

    /// A raw socket that has agreed, how its messages are marked, and its cookie.
    ///
    /// # Errors
    ///
    /// What, where and why.
    pub(crate) fn raw(&self, site: &Site, mode: Mode) -> Result<Raw, String> {
        let stop = site.pulse.stop_flag();
        let socket = connect(&self.reached, stop)?;
        let agreed = agree(&socket, &self.asked, &self.hello(site, mode), stop)?;
        let failed = |cause| format!("{}: {cause}", self.asked);
        let end = End::of(socket.try_clone().map_err(failed)?, site.transport);
        let closing = end.closer().map_err(failed)?;
        site.pulse.on_close(move || closing.shutdown());
        Ok(Raw {
            socket,
            end,
            stamp: Stamp::agreed(site.transport, mode, agreed.cookie),
            cookie: agreed.cookie,
        })
    }

    /// Agrees on echoes over a direct link.
    ///
    /// # Errors
    ///
    /// Where and why.
    pub(crate) fn greet(&self, site: &Site, link: &mut DirectLink) -> Result<Stamp, String> {
        let stop = site.pulse.stop_flag();
        let hello = self.hello(site, Mode::Echo);
        let until = Instant::now() + MEETING_LIMIT;
        let agreed = shake_hands(
            &mut DirectLine {
                link,
                stop,
                patience: AGAIN,
            },
            site.transport,
            &hello,
            until,
        )
        .map_err(|why| format!("{}: {why}", self.asked))?;
        Ok(Stamp::agreed(site.transport, Mode::Echo, agreed.cookie))
    }
}

/// A raw socket to a server that has agreed.
#[derive(Debug)]
pub(crate) struct Raw {
    /// For speaking with the server beside the measurement.
    pub(crate) socket: Socket,
    /// The same socket, to measure with.
    pub(crate) end: End,
    pub(crate) stamp: Stamp,
    pub(crate) cookie: u64,
}

fn connect(address: &Address, stop: &AtomicBool) -> Result<Socket, String> {
    let (plan, stop) = (SocketPlan::default(), Stop::new(stop));
    let until = Instant::now() + MEETING_LIMIT;
    let (socket, _) = Targets::find(address, &plan, &stop)
        .and_then(|targets| targets.connect(&plan, until, &stop))
        .map_err(|why| why.to_string())?;
    Ok(socket)
}

fn agree(
    socket: &Socket,
    address: &Address,
    hello: &Hello,
    stop: &AtomicBool,
) -> Result<Agreed, String> {
    let transport = transport_of(address);
    let mut line = SocketLine::new(socket, transport, Stop::new(stop));
    let until = Instant::now() + MEETING_LIMIT;
    shake_hands(&mut line, transport, hello, until).map_err(|why| format!("{address}: {why}"))
}

/// What the server has to be told: it echoes a stream's bytes without knowing of frames, and counts
/// the payloads of frames.
fn message_bytes(transport: Transport, mode: Mode, payload_bytes: usize) -> usize {
    match mode {
        Mode::Echo => payload_bytes + transport.overhead_bytes(),
        Mode::Sink => payload_bytes,
    }
}
