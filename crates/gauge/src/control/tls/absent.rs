//! TLS as an end of the control, in a build without it: there is none.

use std::convert::Infallible;
use std::io;
use std::net::TcpStream;

use crate::report::TlsRecord;

/// There is none in a build without the feature `tls`.
#[derive(Debug)]
pub struct TlsEnd(Infallible);

impl TlsEnd {
    pub(super) fn pair(_: TcpStream, _: TcpStream) -> io::Result<(Self, Self)> {
        let why = "this program was built without the feature `tls`";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// What was agreed on.
    #[must_use]
    pub fn agreed(&self) -> TlsRecord {
        match self.0 {}
    }

    pub(super) fn read(&self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn write_all(&self, _: &[u8]) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self.0 {}
    }
}
