//! A link's handler, called so that a panic in it harms that link alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tautline_session::Pressure;

use crate::handler::{Closed, Ended, Event, Handler, Opened, Reason, Received, Unsent};
use crate::link::{Link, LinkShared};

/// Whom the driver tells of a link: its handler, and through it the application.
pub(crate) struct Audience {
    link: Link,
    handler: Box<dyn Handler>,
    /// Pressure as the handler knows it.
    told: Pressure,
}

/// The handler panicked: the link has to end.
#[derive(Debug)]
pub(crate) struct Panicked;

impl Audience {
    pub(crate) fn new(shared: Arc<LinkShared>, handler: Box<dyn Handler>) -> Self {
        Self {
            link: Link::uncounted(shared),
            handler,
            told: Pressure::Off,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<LinkShared> {
        self.link.shared()
    }

    pub(crate) fn opened(&mut self, opened: &Opened) -> Result<(), Panicked> {
        self.tell(|handler, link| handler.opened(link, opened))
    }

    pub(crate) fn event(&mut self, event: &Event) -> Result<(), Panicked> {
        self.tell(|handler, link| handler.event(link, event))
    }

    /// Tells the pressure state, if the handler knows another.
    pub(crate) fn pressure(&mut self, pressure: Pressure) -> Result<(), Panicked> {
        if pressure == self.told {
            return Ok(());
        }
        self.told = pressure;
        self.tell(|handler, link| handler.pressure(link, pressure))
    }

    /// A connection is over. Whatever a handler does here, the end goes on.
    pub(crate) fn closed(
        &mut self,
        generation: u64,
        unsent: Unsent,
        reason: &Reason,
    ) -> Result<(), Panicked> {
        self.shared().set_closed(unsent);
        let relieved = self.pressure(Pressure::Off);
        let closed = Closed {
            generation,
            reason: reason.clone(),
            unsent,
        };
        let told = self.tell(|handler, link| handler.closed(link, &closed));
        relieved.and(told)
    }

    /// The last call. When this returns no callback of the link runs or will run, and what the handler
    /// held is gone. The link's `finish` is left to the caller: whoever waits for the end finds
    /// everything else settled.
    pub(crate) fn ended(&mut self, reason: &Reason) {
        let ended = Ended {
            reason: reason.clone(),
        };
        let _ = self.tell(|handler, link| handler.ended(link, &ended));
        let handler = std::mem::replace(&mut self.handler, Box::new(Nobody));
        let _ = contain(|| drop(handler));
    }

    /// Calls the handler.
    pub(crate) fn tell<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Handler, &Link) -> T,
    ) -> Result<T, Panicked> {
        let Self { link, handler, .. } = self;
        contain(|| call(&mut **handler, link))
    }
}

/// Runs the application's code; no panic of it gets out.
pub(crate) fn contain<T>(act: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|payload| {
        // What it panicked with is the application's too, and so is its drop. That of a panic in
        // there is left alone: somewhere it has to end.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        Panicked
    })
}

/// In the place of a handler that has had its last call.
struct Nobody;

impl Handler for Nobody {
    fn message(&mut self, _: &Link, _: &[u8], _: Received) {}
}
