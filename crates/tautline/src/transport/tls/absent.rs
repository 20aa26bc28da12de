//! TLS in a build without the feature `tls`: the face of [`super::tls`] on types that have no value.
//!
//! So nothing above needs to know; that no `tls://` address gets this far is
//! [`refuse_unbuilt`](super::refuse_unbuilt)'s work.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::{Arrived, Socket, Wait};
use crate::address::Address;
use crate::error::Error;
use crate::options::{LinkOptions, ServerOptions};
use crate::secured::{Secured, TlsCounters};

/// What a handshake begins with; there is none.
#[derive(Debug, Clone)]
pub(crate) struct TlsSetup(Infallible);

/// A TLS session; there is none.
#[derive(Debug)]
pub(super) struct TlsStream(Infallible);

impl TlsSetup {
    pub(crate) fn client(_: &Address, _: &LinkOptions) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    pub(crate) fn server(_: &Address, _: &ServerOptions) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    pub(super) fn begin(&self, _: Arc<TlsCounters>) -> io::Result<TlsStream> {
        match self.0 {}
    }
}

impl TlsStream {
    pub(super) fn handshake(&self, _: &Socket) -> io::Result<bool> {
        match self.0 {}
    }

    pub(super) fn send(&self, _: &Socket, _: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn recv(&self, _: &Socket, _: &mut [u8], _: Wait) -> io::Result<Arrived> {
        match self.0 {}
    }

    pub(super) fn flush_owed(&self, _: &Socket) -> io::Result<bool> {
        match self.0 {}
    }

    pub(super) fn say_goodbye(&self, _: &Socket) -> io::Result<bool> {
        match self.0 {}
    }

    pub(super) fn has_news(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn owes(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn pending_bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn secured(&self) -> Option<Secured> {
        match self.0 {}
    }

    pub(super) fn counters(&self) -> &Arc<TlsCounters> {
        match self.0 {}
    }
}

/// No error came from TLS.
pub(crate) fn is_untrusted(_: &io::Error) -> bool {
    false
}

/// No error came from TLS.
pub(crate) fn is_of_tls(_: &io::Error) -> bool {
    false
}
