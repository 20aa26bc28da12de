//! What users of a responder should know, in lines: handed out without ever waiting, and not more of
//! them than a person can read.

use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Event;

/// Where notices go.
#[derive(Debug)]
pub(super) struct Notices {
    sender: SyncSender<Event>,
    rate: Mutex<Rate>,
}

#[derive(Debug)]
struct Rate {
    since: Instant,
    said: u32,
    left_out: u64,
}

impl Notices {
    pub(super) fn new(sender: SyncSender<Event>) -> Self {
        let rate = Rate {
            since: Instant::now(),
            said: 0,
            left_out: 0,
        };
        Self {
            sender,
            rate: Mutex::new(rate),
        }
    }

    /// Hands out one line, unless there were too many in this second or nobody takes them.
    pub(super) fn say(&self, text: impl FnOnce() -> String) {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.since.elapsed() >= WINDOW {
            (rate.since, rate.said) = (Instant::now(), 0);
        }
        if rate.said >= MOST {
            rate.left_out += 1;
            return;
        }
        rate.said += 1;
        let text = match rate.left_out {
            0 => text(),
            left_out => format!("{} (and {left_out} lines like it left out)", text()),
        };
        match self.sender.try_send(Event::Notice(text)) {
            Ok(()) => rate.left_out = 0,
            Err(_) => rate.left_out += 1,
        }
    }

    /// The work is done.
    pub(super) fn end(&self) {
        let _ = self.sender.send(Event::End);
    }
}

/// Most lines in one window.
const MOST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);
