//! A handler that tells the test everything it was told, in order.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use tautline::{
    Closed, Ended, Event, FrameFault, Handler, Link, Opened, Pressure, Reason, Received,
};

use super::WATCHDOG;

/// One callback.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Opened(Opened),
    Message(Vec<u8>, Received),
    Pressure(Pressure),
    Closed(Closed),
    Ended(Ended),
    Event(Happened),
    /// Not a callback: the handler is gone.
    Dropped,
}

impl Told {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Opened(_) => "opened",
            Self::Message(..) => "message",
            Self::Pressure(_) => "pressure",
            Self::Closed(_) => "closed",
            Self::Ended(_) => "ended",
            Self::Event(_) => "event",
            Self::Dropped => "dropped",
        }
    }
}

/// An [`Event`] that can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    BadFrame(FrameFault),
    CutFrame(usize),
    Unreachable,
    PeerFinished,
    Retrying {
        attempt: u32,
        after: Duration,
        reason: String,
    },
}

type Act = dyn FnMut(&Link, &Told) + Send;

/// Sends all it is told to its [`Inbox`], and then does what the test wants done in a callback.
pub(crate) struct Recorder {
    told: Sender<Told>,
    act: Box<Act>,
    panics_when_dropped: bool,
}

/// What a [`Recorder`] was told.
#[derive(Debug)]
pub(crate) struct Inbox(Receiver<Told>);

pub(crate) fn recorder() -> (Recorder, Inbox) {
    recorder_that(|_, _| {})
}

/// A recorder that acts inside its callbacks; it has recorded the call already.
pub(crate) fn recorder_that(act: impl FnMut(&Link, &Told) + Send + 'static) -> (Recorder, Inbox) {
    let (told, inbox) = mpsc::channel();
    let recorder = Recorder {
        told,
        act: Box::new(act),
        panics_when_dropped: false,
    };
    (recorder, Inbox(inbox))
}

impl Recorder {
    pub(crate) fn panicking_when_dropped(mut self) -> Self {
        self.panics_when_dropped = true;
        self
    }

    fn record(&mut self, link: &Link, told: Told) {
        // The test may be over.
        let _ = self.told.send(told.clone());
        (self.act)(link, &told);
    }
}

impl Handler for Recorder {
    fn opened(&mut self, link: &Link, opened: &Opened) {
        self.record(link, Told::Opened(opened.clone()));
    }

    fn message(&mut self, link: &Link, message: &[u8], received: Received) {
        self.record(link, Told::Message(message.to_vec(), received));
    }

    fn pressure(&mut self, link: &Link, pressure: Pressure) {
        self.record(link, Told::Pressure(pressure));
    }

    fn closed(&mut self, link: &Link, closed: &Closed) {
        self.record(link, Told::Closed(closed.clone()));
    }

    fn ended(&mut self, link: &Link, ended: &Ended) {
        self.record(link, Told::Ended(ended.clone()));
    }

    fn event(&mut self, link: &Link, event: &Event) {
        let happened = match event {
            Event::BadFrame(fault) => Happened::BadFrame(*fault),
            Event::CutFrame { bytes } => Happened::CutFrame(*bytes),
            Event::Unreachable(_) => Happened::Unreachable,
            Event::PeerFinished => Happened::PeerFinished,
            Event::Retrying {
                attempt,
                after,
                reason,
            } => Happened::Retrying {
                attempt: *attempt,
                after: *after,
                reason: reason.to_string(),
            },
            other => panic!("an event that these tests do not know: {other:?}"),
        };
        self.record(link, Told::Event(happened));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.told.send(Told::Dropped);
        assert!(!self.panics_when_dropped, "as the test wants it");
    }
}

impl Inbox {
    /// The next thing told.
    pub(crate) fn next(&self) -> Told {
        match self.0.recv_timeout(WATCHDOG) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => panic!("nothing was told for {WATCHDOG:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("nothing more will be told"),
        }
    }

    pub(crate) fn expect_opened(&self) -> Opened {
        match self.next() {
            Told::Opened(opened) => opened,
            other => panic!("expected opened, was told {other:?}"),
        }
    }

    pub(crate) fn expect_message(&self) -> Vec<u8> {
        match self.next() {
            Told::Message(message, _) => message,
            other => panic!("expected a message, was told {other:?}"),
        }
    }

    pub(crate) fn expect_event(&self) -> Happened {
        match self.next() {
            Told::Event(happened) => happened,
            other => panic!("expected an event, was told {other:?}"),
        }
    }

    /// A pause before another attempt: which, and how long.
    pub(crate) fn expect_retrying(&self) -> (u32, Duration) {
        match self.next() {
            Told::Event(Happened::Retrying { attempt, after, .. }) => (attempt, after),
            other => panic!("expected a pause, was told {other:?}"),
        }
    }

    pub(crate) fn expect_closed(&self) -> Closed {
        match self.next() {
            Told::Closed(closed) => closed,
            other => panic!("expected closed, was told {other:?}"),
        }
    }

    pub(crate) fn expect_ended(&self) -> Reason {
        match self.next() {
            Told::Ended(ended) => ended.reason,
            other => panic!("expected ended, was told {other:?}"),
        }
    }

    /// `closed`, `ended`, and the handler is gone: nothing else, and nothing after.
    pub(crate) fn expect_end(&self) -> Closed {
        let closed = self.expect_closed();
        let reason = self.expect_ended();
        assert_eq!(
            reason.to_string(),
            closed.reason.to_string(),
            "both tell why"
        );
        self.expect_gone();
        closed
    }

    /// The handler is dropped now, and had no call since the last one seen.
    pub(crate) fn expect_gone(&self) {
        match self.next() {
            Told::Dropped => {}
            other => panic!("expected no more calls, was told {other:?}"),
        }
        match self.0.recv_timeout(WATCHDOG) {
            Err(RecvTimeoutError::Disconnected) => {}
            other => panic!("expected nothing after the handler is gone: {other:?}"),
        }
    }

    /// The next of this kind; what comes before is passed over.
    pub(crate) fn skip_to<T>(&self, mut wanted: impl FnMut(Told) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next()) {
                return found;
            }
        }
    }

    pub(crate) fn skip_to_closed(&self) -> Closed {
        self.skip_to(|told| match told {
            Told::Closed(closed) => Some(closed),
            _ => None,
        })
    }

    pub(crate) fn skip_to_opened(&self) -> Opened {
        self.skip_to(|told| match told {
            Told::Opened(opened) => Some(opened),
            _ => None,
        })
    }

    pub(crate) fn skip_to_message(&self) -> Vec<u8> {
        self.skip_to(|told| match told {
            Told::Message(message, _) => Some(message),
            _ => None,
        })
    }

    /// All that was told up to the end, in order.
    pub(crate) fn all_to_the_end(&self) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            match self.next() {
                Told::Dropped => return all,
                told => all.push(told),
            }
        }
    }

    /// All that is told up to this, or to the end if that comes first.
    pub(crate) fn all_up_to(&self, wanted: impl Fn(&Told) -> bool) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            let told = self.next();
            let over = wanted(&told) || matches!(told, Told::Dropped);
            all.push(told);
            if over {
                return all;
            }
        }
    }

    /// What was told so far.
    pub(crate) fn so_far(&self) -> Vec<Told> {
        self.0.try_iter().collect()
    }
}
