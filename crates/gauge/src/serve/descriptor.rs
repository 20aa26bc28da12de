//! A descriptor that whoever started the responder waits on.

use std::fs::File;
use std::io::{self, Write as _};

use crate::sys;

/// An open descriptor that was handed down by number.
#[derive(Debug)]
pub struct Descriptor(File);

impl Descriptor {
    /// Takes it over.
    ///
    /// # Errors
    ///
    /// It is not open, or one of the standard streams.
    pub fn adopt(number: i32) -> io::Result<Self> {
        sys::descriptor::adopt(number).map(|fd| Self(fd.into()))
    }

    /// Writes and closes it.
    ///
    /// # Errors
    ///
    /// Nobody reads it any more.
    pub fn write_and_close(mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}
