//! The handshake of a raw socket, in the terms of a ping.

use std::time::{Duration, Instant};

use socket2::Socket;
use tautline::Address;

use super::{PingError, Stop};
use crate::handshake::socket::SocketLine;
use crate::handshake::{self, Agreed};
use crate::plan::Transport;
use crate::wire::Hello;

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

/// For a question, where a line does not take longer.
pub(super) const QUESTION_LIMIT: Duration = Duration::from_secs(1);
