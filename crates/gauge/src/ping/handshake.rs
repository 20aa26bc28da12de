//! The handshake of a raw socket, and the question at the end, in the terms of a ping.

use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::Address;

use super::{PingError, Stop};
use crate::handshake::socket::SocketLine;
use crate::handshake::{self, Agreed};
use crate::plan::Transport;
use crate::wire::{Counts, Hello};

/// Agrees on a message size, and says who we are.
pub(crate) fn shake_hands(
    socket: &Socket,
    address: &Address,
    transport: Transport,
    hello: &Hello,
    deadline: Instant,
    stop: &Stop<'_>,
) -> Result<Agreed, PingError> {
    let mut line = SocketLine::new(socket, transport, *stop);
    handshake::shake_hands(&mut line, transport, hello, deadline)
        .map_err(|why| PingError::setup(format!("{address}: {why}")))
}

/// Asks a datagram server what it has had of us. `None` if it does not answer.
/// Other datagrams that come meanwhile are handed to `stray`.
pub(crate) fn ask_counts(
    socket: &Socket,
    cookie: u64,
    stop: &Stop<'_>,
    stray: &mut dyn FnMut(&[u8]),
) -> Option<Counts> {
    let mut line = SocketLine::new(socket, Transport::Udp, *stop);
    let until = Instant::now() + QUESTION_LIMIT;
    handshake::ask_counts(&mut line, Transport::Udp, cookie, until, stray).ok()
}

const QUESTION_LIMIT: Duration = Duration::from_secs(1);
