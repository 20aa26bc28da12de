//! Everything back as it came, at once or after a delay.

use std::collections::VecDeque;
use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use tautline::{DirectLink, RecvError, Replies};

use super::clients::Client;

/// The echo of one client.
#[derive(Debug)]
pub(super) struct Echo<'a> {
    client: &'a Client,
    /// Agreed with a client of ours; lagscope says none.
    message_bytes: Option<usize>,
    received_bytes: u64,
    chunks: u64,
}

impl<'a> Echo<'a> {
    pub(super) fn new(client: &'a Client, message_bytes: Option<usize>) -> Self {
        Self {
            client,
            message_bytes,
            received_bytes: 0,
            chunks: 0,
        }
    }

    /// Echoes `first` and whatever follows, until the client has left or is closed.
    pub(super) fn run(&mut self, link: &mut DirectLink, first: &[u8]) {
        if !first.is_empty() {
            self.count(first.len());
            self.client.sending();
            let sent = link.send(first);
            self.client.sent();
            if sent.is_err() {
                return;
            }
        }
        while let Ok(request) = link.request(None) {
            self.count(request.message.len());
            self.client.sending();
            let sent = send(request.replies, request.message);
            self.client.sent();
            if sent.is_err() {
                return;
            }
        }
    }

    /// The same, each message `delay` after its last byte came.
    pub(super) fn run_held(&mut self, link: &mut DirectLink, first: &[u8], delay: Duration) {
        let mut held = Held::new(self.message_bytes, delay);
        if !first.is_empty() {
            self.count(first.len());
            held.came(first, Instant::now());
        }
        let mut ended = false;
        loop {
            if let Some(message) = held.due(Instant::now()) {
                self.client.sending();
                let sent = link.send(message);
                self.client.sent();
                if sent.is_err() {
                    return;
                }
                continue;
            }
            let next = held.next_due();
            if ended || held.is_full() {
                // Nothing more is read: the client has ended, or has to wait.
                let Some(next) = next else { return };
                sleep_until(next);
                continue;
            }
            match link.recv(next.map(|due| deadline_before(due, Instant::now()))) {
                Ok(chunk) => {
                    held.came(chunk, Instant::now());
                    let bytes = chunk.len();
                    self.count(bytes);
                    self.client.came_in();
                }
                Err(RecvError::TimedOut) => {
                    if let Some(due) = next {
                        spin_if_near(due);
                    }
                }
                Err(RecvError::Closed) => ended = true,
                Err(_) => return,
            }
        }
    }

    fn count(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        self.chunks += 1;
        let messages = match self.message_bytes {
            Some(message_bytes) => self.received_bytes / message_bytes as u64,
            None => self.chunks,
        };
        self.client.count(messages, self.received_bytes);
    }
}

fn send(replies: &mut Replies, bytes: &[u8]) -> Result<(), tautline::SendError> {
    // What was read while a send waited may be more than one message's limit.
    bytes
        .chunks(PIECE_BYTES)
        .try_for_each(|piece| replies.send(piece))
}

/// Messages that wait for their time.
#[derive(Debug)]
struct Held {
    message_bytes: Option<usize>,
    delay: Duration,
    bytes: VecDeque<u8>,
    /// Of the messages, first to last: when each is due, and its length.
    due: VecDeque<(Instant, usize)>,
    /// Bytes of a message that has not come whole.
    gathered: usize,
    /// Of the message handed out last, which is still there.
    handed_out: usize,
}

impl Held {
    fn new(message_bytes: Option<usize>, delay: Duration) -> Self {
        Self {
            message_bytes,
            delay,
            bytes: VecDeque::new(),
            due: VecDeque::new(),
            gathered: 0,
            handed_out: 0,
        }
    }

    fn came(&mut self, chunk: &[u8], now: Instant) {
        self.bytes.extend(chunk);
        self.gathered += chunk.len();
        let message_bytes = self.message_bytes.unwrap_or(self.gathered);
        while self.gathered >= message_bytes && message_bytes > 0 {
            self.due.push_back((now + self.delay, message_bytes));
            self.gathered -= message_bytes;
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.due.front().map(|&(due, _)| due)
    }

    /// The first message, if it is due.
    fn due(&mut self, now: Instant) -> Option<&[u8]> {
        self.bytes.drain(..self.handed_out);
        self.handed_out = 0;
        let (due, length) = self.due.front().copied()?;
        if now < due {
            return None;
        }
        self.due.pop_front();
        self.handed_out = length;
        Some(&self.bytes.make_contiguous()[..length])
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= 2 * HELD_MESSAGE_LIMIT_BYTES || self.due.len() >= HELD_MESSAGES
    }
}

/// Until when to wait for more before `due`. The kernel wakes a sleeper late, so it sleeps only to
/// shortly before and then asks without waiting: what comes meanwhile gets its own time.
fn deadline_before(due: Instant, now: Instant) -> Instant {
    due.checked_sub(SPIN).unwrap_or(now)
}

/// The last moment before `due` belongs to it alone.
fn spin_if_near(due: Instant) {
    if due.saturating_duration_since(Instant::now()) < LAST_MOMENT {
        while Instant::now() < due {
            hint::spin_loop();
        }
    }
}

fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    thread::sleep(left.saturating_sub(SPIN));
    while Instant::now() < due {
        hint::spin_loop();
    }
}

/// Largest message that is gathered to be held: what one client may keep in memory is twice that.
pub(super) const HELD_MESSAGE_LIMIT_BYTES: usize = 1024 * 1024;

/// Most messages held for one client.
const HELD_MESSAGES: usize = 65_536;

/// Far below what a direct link takes at once.
const PIECE_BYTES: usize = 256 * 1024;

/// How long before its time a reply is waited for awake: above the usual lateness of a sleeper.
const SPIN: Duration = Duration::from_micros(100);

/// What one look for more may take: some system calls. Within it nothing is looked for, or the reply
/// would be late by the rest of the look; what comes meanwhile is taken to come at its end.
const LAST_MOMENT: Duration = Duration::from_micros(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_held_from_its_last_byte_on() {
        let delay = Duration::from_millis(10);
        let start = Instant::now();
        let mut held = Held::new(Some(4), delay);
        held.came(b"ab", start);
        assert_eq!(held.next_due(), None);
        let later = start + Duration::from_millis(3);
        held.came(b"cdefghij", later);
        assert_eq!(held.next_due(), Some(later + delay));
        assert_eq!(held.due(later), None);
        assert_eq!(held.due(later + delay), Some(&b"abcd"[..]));
        assert_eq!(held.due(later + delay), Some(&b"efgh"[..]));
        assert_eq!(held.due(later + delay), None);
        assert_eq!(held.next_due(), None, "two bytes are no message");
    }

    #[test]
    fn without_an_agreed_size_what_came_at_once_goes_back_at_once() {
        let now = Instant::now();
        let mut held = Held::new(None, Duration::from_millis(1));
        held.came(b"abc", now);
        held.came(b"d", now);
        let due = now + Duration::from_millis(1);
        assert_eq!(held.due(due), Some(&b"abc"[..]));
        assert_eq!(held.due(due), Some(&b"d"[..]));
    }
}
