//! Round trips over one terminal whose ends are joined: a client without a server.
//!
//! What it sends comes back while it still sends, and a terminal holds some 4 KiB: it reads whenever it
//! cannot write. One wait, one read or write at a time, on a descriptor that does not block.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::Frame;
use crate::null_modem::{Hangup, at_once};
use crate::plan::Transport;
use crate::sys::poll::{Awaited, poll_several};
use crate::sys::tty;

/// Sends one message and waits for it to come back.
#[derive(Debug)]
pub struct PlugClient {
    line: File,
    called_off: PipeReader,
    closer: Hangup,
    message: Frame,
    reply: Vec<u8>,
    filled: usize,
    prefix_bytes: usize,
}

impl PlugClient {
    /// A client of one message size over a port that somebody has set already.
    ///
    /// # Errors
    ///
    /// What the system said, and `InvalidInput` where the port would change bytes: its driver has not
    /// kept the settings.
    pub fn open(path: &Path, payload_bytes: usize) -> io::Result<Self> {
        let line = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(path)?;
        let termios = tty::tcgetattr(line.as_fd())?;
        if termios.c_lflag & (libc::ICANON | libc::ECHO) != 0 || termios.c_oflag & libc::OPOST != 0
        {
            let why = "the driver has not kept the line's settings from one opening to the next";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (called_off, closer) = Hangup::pair()?;
        let message = Frame::new(Transport::Serial, payload_bytes);
        Ok(Self {
            line,
            called_off,
            closer,
            reply: vec![0; message.wire().len()],
            filled: 0,
            prefix_bytes: Transport::Serial.overhead_bytes(),
            message,
        })
    }

    /// Ends a wait from another thread.
    pub fn closer(&self) -> Hangup {
        self.closer.clone()
    }

    /// The payload of the message, to be written before it is sent.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.message.payload_mut()
    }

    /// Sends the message, and takes what comes back meanwhile.
    ///
    /// # Errors
    ///
    /// What the system said; `UnexpectedEof` when it was called off.
    #[inline]
    pub fn send(&mut self) -> io::Result<()> {
        self.filled = 0;
        let mut sent = 0;
        loop {
            sent += at_once((&self.line).write(&self.message.wire()[sent..]))?;
            if sent == self.message.wire().len() {
                return Ok(());
            }
            self.wait(true)?;
            self.take()?;
        }
    }

    /// Waits for the rest and hands back its payload.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` when it was called off, `InvalidData` when the prefix is wrong, else what the
    /// system said.
    #[inline]
    pub fn recv(&mut self) -> io::Result<&[u8]> {
        while self.filled < self.reply.len() {
            self.wait(false)?;
            self.take()?;
        }
        let (prefix, payload) = self.reply.split_at(self.prefix_bytes);
        if prefix != &self.message.wire()[..self.prefix_bytes] {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the prefix came back changed",
            ));
        }
        Ok(payload)
    }

    fn take(&mut self) -> io::Result<()> {
        if self.filled == self.reply.len() {
            // What else comes belongs to nobody; there is one message at a time.
            return Ok(());
        }
        match (&self.line).read(&mut self.reply[self.filled..]) {
            Ok(0) => Err(io::Error::other("the port hung up")),
            outcome => {
                self.filled += at_once(outcome)?;
                Ok(())
            }
        }
    }

    fn wait(&self, or_writable: bool) -> io::Result<()> {
        let ready = poll_several([
            Awaited {
                fd: self.line.as_fd(),
                // Full, it has nothing to read; a port that hung up fails the next write.
                read: self.filled < self.reply.len(),
                write: or_writable,
            },
            Awaited {
                fd: self.called_off.as_fd(),
                read: true,
                write: false,
            },
        ]);
        match ready {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(cause) => Err(cause),
            Ok([_, called_off]) if called_off.readable => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
        }
    }
}
