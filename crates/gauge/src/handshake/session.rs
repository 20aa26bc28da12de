//! A direct link as a [`Line`] where it carries bytes as a socket does: frames behind 4-byte lengths are
//! put together here, and nothing is read beyond them.

use std::time::{Duration, Instant};

use tautline::{DirectLink, RecvError};

use super::{Fault, Line, TICK};
use crate::ping::Stop;
use crate::wire::HELLO_LIMIT_BYTES;

/// A direct link without a framing, borrowed for a conversation.
pub(crate) struct SessionLine<'a> {
    link: &'a mut DirectLink,
    stop: Stop<'a>,
    heard: Vec<u8>,
}

impl<'a> SessionLine<'a> {
    pub(crate) fn new(link: &'a mut DirectLink, stop: Stop<'a>) -> Self {
        Self {
            link,
            stop,
            heard: Vec::new(),
        }
    }

    /// The frame that has come whole.
    fn frame(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let Some((length, rest)) = self.heard.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > HELLO_LIMIT_BYTES {
            return Err(Fault::Foreign);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let frame = rest[..length].to_vec();
        self.heard.drain(..LENGTH_BYTES + length);
        // A server says nothing that it was not asked.
        match self.heard.is_empty() {
            true => Ok(Some(frame)),
            false => Err(Fault::Foreign),
        }
    }
}

impl Line for SessionLine<'_> {
    fn say(&mut self, message: &[u8]) -> Result<(), Fault> {
        let mut frame = (message.len() as u32).to_be_bytes().to_vec();
        frame.extend(message);
        // Where it fails the connection has ended, and hearing tells why.
        let _ = self.link.send_timeout(&frame, ROOM_LIMIT);
        Ok(())
    }

    fn hear(&mut self, until: Instant) -> Result<Vec<u8>, Fault> {
        while !self.stop.is_set() {
            if let Some(frame) = self.frame()? {
                return Ok(frame);
            }
            let now = Instant::now();
            match self.link.recv(Some(until.min(now + LOOK))) {
                Ok(chunk) => self.heard.extend_from_slice(chunk),
                Err(RecvError::TimedOut) if now >= until => return Err(Fault::TimedOut),
                Err(RecvError::TimedOut) => {}
                Err(RecvError::Closed) => return Err(Fault::Ended),
                Err(error) => return Err(Fault::Failed(error.to_string())),
            }
        }
        Err(Fault::Stopped)
    }
}

const LENGTH_BYTES: usize = 4;
/// For a frame of a few hundred bytes on a connection that has carried nothing else.
const ROOM_LIMIT: Duration = Duration::from_secs(1);
/// How soon a stop is noticed; below the tenth of a second from which on a direct link sets a timer in
/// every later wait.
const LOOK: Duration = Duration::from_nanos(TICK.as_nanos() as u64 / 2);
