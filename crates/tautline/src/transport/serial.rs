//! What only serial lines do.

use std::io;

use super::Socket;
use crate::address::{Address, SerialLine};
use crate::error::Error;

/// Opens the device and sets the line.
pub(super) fn open(address: &Address, _line: &SerialLine) -> Result<Socket, Error> {
    Err(Error::connect(address, io::ErrorKind::Unsupported.into()))
}
