//! Where the bytes of a channel leave: one connected socket, or one that many peers share.

use std::io::{self, IoSlice};
use std::sync::{Mutex, PoisonError};

use tautline_session::{PeerId, Run};

use crate::channel::{self, RunsWritten};
use crate::transport::{Remote, Socket, Wait, Way, is_icmp};

/// The socket behind a channel.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// A stream, or a datagram socket with one peer.
    Connected(Socket),
    /// A datagram server's socket, with where each peer is.
    Shared(Socket, Remotes),
}

/// The addresses of the peers that share a socket.
#[derive(Debug, Default)]
pub(crate) struct Remotes(Mutex<Vec<Option<Remote>>>);

impl Outlet {
    pub(crate) const fn socket(&self) -> &Socket {
        match self {
            Self::Connected(socket) | Self::Shared(socket, _) => socket,
        }
    }
}

impl channel::Outlet for Outlet {
    fn is_datagram(&self) -> bool {
        self.socket().kind().is_datagram()
    }

    fn write(&self, header: &[u8], payload: &[u8], peer: PeerId) -> io::Result<usize> {
        let send = || match self {
            Self::Connected(socket) => socket.send(header, payload, Wait::No),
            Self::Shared(socket, remotes) => match remotes.get(peer) {
                Some(remote) => socket.send_to(payload, &remote),
                // The peer has gone: as if it were sent and lost.
                None => Ok(payload.len()),
            },
        };
        match send() {
            // ICMP's word on an earlier datagram, handed to whoever calls next (`udp(7)`); the
            // driver hears of it by itself. This one has not been tried yet.
            Err(error) if self.is_datagram() && is_icmp(&error) => send(),
            result => result,
        }
    }

    fn write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket().send_slices(slices)
    }

    fn write_runs(&self, runs: &[Run<'_>]) -> RunsWritten {
        if let [Run { datagrams: 1, .. }] = runs {
            // One alone needs nothing of that.
            return channel::write_first(self, runs);
        }
        match self {
            Self::Connected(socket) => socket.send_runs(runs, |_| Some(socket.own_way())),
            Self::Shared(socket, remotes) => {
                // The addresses are copied: no lock is held across the call.
                socket.send_runs(runs, |peer| remotes.get(peer).as_ref().map(Way::to))
            }
        }
    }
}

impl Remotes {
    pub(crate) fn set(&self, peer: PeerId, remote: Option<Remote>) {
        let mut remotes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remotes.len() <= peer.index() {
            remotes.resize_with(peer.index() + 1, || None);
        }
        remotes[peer.index()] = remote;
    }

    fn get(&self, peer: PeerId) -> Option<Remote> {
        let remotes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remotes.get(peer.index()).cloned().flatten()
    }
}
