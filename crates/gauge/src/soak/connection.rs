//! One connection of a sender: a stream to a `serve` that has agreed to echo messages of its size.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::atomic::AtomicBool;

use socket2::Socket;
use tautline::Address;

use crate::environment::Environment;
use crate::ping::{self, SocketPlan, Stop};
use crate::wire::PeerRecord;

/// An open connection. Every call is on `&self`, so that another thread can end it.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
}

impl Connection {
    /// Connects and agrees on the size, within bounds.
    ///
    /// # Errors
    ///
    /// Where, and what the system or the other side said.
    pub(super) fn open(
        address: &Address,
        payload_bytes: usize,
    ) -> Result<(Self, PeerRecord), String> {
        // Whoever started this process ends it as a whole.
        let never = AtomicBool::new(false);
        let own = PeerRecord::of(&Environment::read());
        let plan = SocketPlan::default();
        let (socket, peer) = ping::open(address, payload_bytes, &plan, &own, &Stop::new(&never))
            .map_err(|why| why.to_string())?;
        Ok((Self { socket }, peer))
    }

    /// Sends a ping and waits for as many bytes, without a timeout: no receive pays for a timer.
    #[inline]
    pub(super) fn exchange(&self, ping: &[u8], reply: &mut [u8]) -> io::Result<()> {
        (&self.socket).write_all(ping)?;
        (&self.socket).read_exact(reply)
    }

    /// Ends both directions: whoever waits in [`exchange`](Self::exchange) finds the end.
    pub(super) fn shutdown(&self) {
        // A connection that the other side has ended needs none.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
