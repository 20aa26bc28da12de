//! A direct link as a [`Line`]: it frames by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tautline::{DirectLink, RecvError};

use super::{Fault, Line};

/// A direct link, borrowed for a conversation.
pub(crate) struct DirectLine<'a> {
    pub(crate) link: &'a mut DirectLink,
    pub(crate) stop: &'a AtomicBool,
    /// Before a datagram is said again.
    pub(crate) patience: Duration,
}

impl Line for DirectLine<'_> {
    fn say(&mut self, message: &[u8]) -> Result<(), Fault> {
        // Where it fails the connection has ended, and hearing tells why.
        let _ = self.link.send_timeout(message, ROOM_LIMIT);
        Ok(())
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn hear(&mut self, until: Instant) -> Result<Vec<u8>, Fault> {
        while !self.stop.load(Ordering::Relaxed) {
            let deadline = until.min(Instant::now() + LOOK);
            match self.link.recv(Some(deadline)) {
                Ok(message) => return Ok(message.to_vec()),
                Err(RecvError::TimedOut) if Instant::now() >= until => return Err(Fault::TimedOut),
                Err(RecvError::TimedOut) => {}
                Err(RecvError::Closed) => return Err(Fault::Ended),
                Err(RecvError::BadFrame(_)) => return Err(Fault::Foreign),
                Err(error) => return Err(Fault::Failed(error.to_string())),
            }
        }
        Err(Fault::Stopped)
    }
}

/// What an earlier message leaves no room for in so long is said again anyway, or missed.
const ROOM_LIMIT: Duration = Duration::from_secs(1);
/// Below the tenth of a second from which on a direct link sets a timer in every later wait: what is
/// measured after the handshake must not pay for it.
const LOOK: Duration = Duration::from_millis(50);
