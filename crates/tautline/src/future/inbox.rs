//! What came and waits for a task: bounded, in order, the end of each connection in its place.
//!
//! The I/O thread puts in and one task takes out. When to pause reading is decided by [`Intake`]; a pause
//! is made and taken back under the lock, so that neither overtakes the other.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use tautline_session::Intake;

use super::Message;
use crate::handler::{Closed, Ended, Reason};
use crate::sync::{Mutex, lock};
use crate::wakers::Wakers;

/// The inbox of one link.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    intake: Intake,
    items: VecDeque<Item>,
    /// The newest connection.
    generation: u64,
    ended: Option<Ended>,
    /// The task that found nothing.
    reader: Wakers<()>,
    /// Nobody will take anything out any more.
    abandoned: bool,
}

#[derive(Debug)]
enum Item {
    Message(Message),
    Closed(Closed),
}

/// What comes out.
#[derive(Debug)]
pub(crate) enum Taken {
    Message(Message),
    /// A connection is over; what comes next is of another.
    Closed(Closed),
    /// Nothing will come any more.
    Ended(Ended),
}

/// How the end of the last connection is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As that of any other, at once.
    Told,
    /// Not, if nothing failed: as streams end. Whether it is the last is known when the link ends or
    /// opens again.
    Silent,
}

impl Inbox {
    pub(crate) fn new(intake: Intake) -> Self {
        Self {
            state: Mutex::new(State {
                intake,
                items: VecDeque::new(),
                generation: 0,
                ended: None,
                reader: Wakers::default(),
                abandoned: false,
            }),
        }
    }

    /// A connection is there. Returns whom to wake.
    pub(crate) fn opened(&self, generation: u64) -> Option<Waker> {
        let mut state = lock(&self.state);
        state.generation = generation;
        // Whoever waits to know whether the connection before was the last.
        state.reader.take(&())
    }

    /// A message came. Calls `pause` when reading has to pause; returns whom to wake.
    pub(crate) fn put(&self, message: Message, pause: impl FnOnce()) -> Option<Waker> {
        let mut state = lock(&self.state);
        if state.abandoned {
            return None;
        }
        if state.intake.arrived(message.bytes.len()) {
            pause();
        }
        state.items.push_back(Item::Message(message));
        state.reader.take(&())
    }

    /// A connection is over. Returns whom to wake.
    pub(crate) fn closed(&self, closed: Closed) -> Option<Waker> {
        let mut state = lock(&self.state);
        // Connections that brought nothing are told as one: they have no other limit.
        if matches!(state.items.back(), Some(Item::Closed(_))) {
            state.items.pop_back();
        }
        if !state.abandoned {
            state.items.push_back(Item::Closed(closed));
        }
        state.reader.take(&())
    }

    /// No connection will follow. Returns whom to wake.
    pub(crate) fn ended(&self, ended: Ended) -> Option<Waker> {
        let mut state = lock(&self.state);
        state.ended = Some(ended);
        state.reader.take(&())
    }

    /// Takes the oldest out, or keeps the waker for when there is one. Calls `resume` when reading goes
    /// on.
    pub(crate) fn poll_take(&self, end: End, waker: &Waker, resume: impl FnOnce()) -> Poll<Taken> {
        // Dropped when the lock is not held any more.
        let mut cloned = None;
        loop {
            let mut state = lock(&self.state);
            if let Some(taken) = state.take(end) {
                if let Taken::Message(message) = &taken
                    && state.intake.taken(message.bytes.len())
                {
                    resume();
                }
                return Poll::Ready(taken);
            }
            if state.reader.keep((), waker, &mut cloned) {
                return Poll::Pending;
            }
            drop(state);
            cloned = Some(waker.clone());
        }
    }

    /// Nobody takes anything out any more: what waits is dropped, and what comes.
    pub(crate) fn abandon(&self) {
        let mut state = lock(&self.state);
        state.abandoned = true;
        let (items, reader) = (std::mem::take(&mut state.items), state.reader.take(&()));
        drop(state);
        drop((items, reader));
    }

    /// Messages that wait.
    pub(crate) fn messages(&self) -> u64 {
        lock(&self.state).intake.held().messages
    }
}

impl State {
    fn take(&mut self, end: End) -> Option<Taken> {
        match self.items.front() {
            Some(Item::Closed(closed)) if end == End::Silent && closed.reason.is_ordinary() => {
                let another = self.items.len() > 1 || self.generation > closed.generation;
                if !another {
                    return self.ended.clone().map(Taken::Ended);
                }
            }
            Some(Item::Message(_) | Item::Closed(_)) | None => {}
        }
        match self.items.pop_front() {
            Some(Item::Message(message)) => Some(Taken::Message(message)),
            Some(Item::Closed(closed)) => Some(Taken::Closed(closed)),
            None => self.ended.clone().map(Taken::Ended),
        }
    }
}

impl Reason {
    /// Whether it is how connections end when nothing failed.
    const fn is_ordinary(&self) -> bool {
        match self {
            Self::PeerEnded | Self::Closed | Self::Aborted | Self::Expired => true,
            Self::NotConnected(_)
            | Self::Lost(_)
            | Self::BadFrame(_)
            | Self::Idle(_)
            | Self::HeartbeatLost
            | Self::Panicked
            | Self::Refused(_) => false,
        }
    }
}
