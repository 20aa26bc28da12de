//! A peer of a datagram server that is about to be: it has spoken, or is to be spoken to.

use std::sync::Arc;

use tautline_session::Discard;

use crate::address::Address;
use crate::channel::Channel;
use crate::driver::home::{IoHome, IoShared};
use crate::handler::Reason;
use crate::link::LinkShared;
use crate::outlet::Outlet;
use crate::transport::{Remote, Whom, plain};

/// A link with a place in the server's queue. Its link ends with it unless it is
/// [accepted](Self::accepted): whoever asked for it may be waiting.
pub(crate) struct Newcomer {
    pub(super) remote: Remote,
    pub(super) whom: Whom,
    shared: Option<Arc<LinkShared>>,
    refused: &'static str,
}

impl Newcomer {
    pub(crate) fn new(
        io: &Arc<IoShared>,
        channel: &Arc<Channel<Outlet, IoHome>>,
        remote: Remote,
        local: Option<Address>,
        whom: Whom,
    ) -> Self {
        let address = Address::udp(plain(remote.address));
        let peer = channel.open_peer();
        let shared = LinkShared::peer_of_shared_queue(
            Arc::clone(io),
            address.clone(),
            Arc::clone(channel),
            peer,
        );
        shared.set_addresses(local, Some(address));
        Self {
            remote,
            whom,
            shared: Some(Arc::new(shared)),
            refused: "the server was stopped",
        }
    }

    pub(crate) fn link(&self) -> &Arc<LinkShared> {
        self.shared
            .as_ref()
            .expect("it is taken out only at its end")
    }

    /// What becomes of its link is the server's from now on.
    pub(super) fn accepted(mut self) {
        self.shared = None;
    }

    /// It is no peer, for this reason.
    pub(super) fn refuse(mut self, why: &'static str) {
        self.refused = why;
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.channel.close_peer(shared.peer, Discard::Closed);
            shared.stop_accepting();
            shared.finish(Reason::Refused(self.refused.into()));
        }
    }
}
