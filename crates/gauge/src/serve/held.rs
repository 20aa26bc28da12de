//! Datagrams that are held back before they go out.

use std::collections::VecDeque;
use std::hint;
use std::io;
use std::time::Duration;

use super::udp::UdpSocket;
use crate::clock::now_ns;
use crate::sys::datagram::Origin;

/// Replies that wait for their time, first to last: the delay is the same for all.
#[derive(Default)]
pub(super) struct Held {
    replies: VecDeque<(u64, Vec<u8>, Origin)>,
    bytes: usize,
    /// The last moment was spent on a reply, not on a look: next time it is on a look, or nothing would
    /// be received while many replies follow each other closely.
    spun: bool,
}

impl Held {
    /// The next datagram; `None` when a reply is due before one comes.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        buffer: &mut [u8],
    ) -> io::Result<Option<(usize, Origin)>> {
        let Some(&(due_ns, ..)) = self.replies.front() else {
            return socket.recv(buffer, true).map(Some);
        };
        let left_ns = due_ns.saturating_sub(now_ns());
        if left_ns > SPIN_NS {
            let timeout = Duration::from_nanos(left_ns - SPIN_NS);
            socket.wait(timeout)?;
        } else if left_ns < LAST_MOMENT_NS && !self.spun {
            while now_ns() < due_ns {
                hint::spin_loop();
            }
            self.spun = true;
            return Ok(None);
        }
        self.spun = false;
        match socket.recv(buffer, false) {
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a reply; `false` if there is no room.
    pub(super) fn hold(&mut self, due_ns: u64, datagram: &[u8], origin: Origin) -> bool {
        if self.bytes + datagram.len() > HELD_BYTES || self.replies.len() >= HELD_REPLIES {
            return false;
        }
        self.bytes += datagram.len();
        self.replies.push_back((due_ns, datagram.to_vec(), origin));
        true
    }

    /// The first reply, if its time has come.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<(Vec<u8>, Origin)> {
        self.replies
            .front()
            .filter(|(due_ns, ..)| *due_ns <= now_ns)?;
        let (_, datagram, origin) = self.replies.pop_front()?;
        self.bytes -= datagram.len();
        Some((datagram, origin))
    }
}

/// Most bytes and replies that are held for `reply_delay`; more are dropped, as a network would.
const HELD_BYTES: usize = 64 * 1024 * 1024;
const HELD_REPLIES: usize = 65_536;

/// How long before its time a reply is waited for awake: above the usual lateness of a sleeper.
const SPIN_NS: u64 = 100_000;

/// What one look for more may take: within it nothing is looked for, or the reply would be late.
const LAST_MOMENT_NS: u64 = 15_000;
