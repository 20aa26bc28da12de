//! A terminal as an end of the control: blocking reads and writes.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use crate::null_modem::{Hangup, NullModem, open_raw};

/// One terminal of a null modem.
#[derive(Debug)]
pub struct SerialEnd {
    line: File,
    /// Lasts as long as one of its ends.
    modem: Arc<NullModem>,
}

impl SerialEnd {
    pub(super) fn pair(modem: NullModem) -> io::Result<(Self, Self)> {
        let modem = Arc::new(modem);
        let open = |path: &Path| {
            let line = open_raw(path).map_err(|cause| {
                let path = path.display();
                io::Error::new(cause.kind(), format!("control: open {path}: {cause}"))
            })?;
            let modem = Arc::clone(&modem);
            Ok::<_, io::Error>(Self { line, modem })
        };
        Ok((open(modem.near())?, open(modem.far())?))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    #[inline]
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match (&self.line).read(buffer) {
            // A terminal that has been hung up, as the end of any other stream.
            Err(cause) if cause.raw_os_error() == Some(libc::EIO) => Ok(0),
            outcome => outcome,
        }
    }

    #[inline]
    pub(super) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.line).write_all(bytes)
    }

    pub(super) fn hangup(&self) -> Hangup {
        self.modem.hangup()
    }
}
