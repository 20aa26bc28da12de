//! The two ends of a connection, as the kernel and TLS tell of them: asked once.

use super::Socket;
use crate::address::Address;
use crate::handler::Credentials;
use crate::secured::Secured;

/// What a connected socket says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub(crate) local: Option<Address>,
    pub(crate) peer: Option<Address>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) secured: Option<Secured>,
}

impl Ends {
    pub(crate) fn of(socket: &Socket) -> Self {
        Self::with_peer(socket, socket.peer_address())
    }

    /// The same, of one whose peer is known already.
    pub(crate) fn with_peer(socket: &Socket, peer: Option<Address>) -> Self {
        Self {
            local: socket.local_address(),
            peer,
            credentials: socket.peer_credentials(),
            secured: socket.secured(),
        }
    }
}
