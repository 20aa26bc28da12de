//! Tasks in the line of those who wait, beside the threads: the same places, the same order.

use std::task::{Poll, Waker};

use tautline_session::{Call, Offer, Payload, PeerId, Ticket, TicketState};

use super::{Channel, FlushBegun, Home, Message, Outlet, refused};
use crate::error::{FlushError, SendError};
use crate::sync::lock;
use crate::wakers::new_key;

/// A flush that a task waits for.
#[derive(Debug)]
pub(crate) struct Flushing {
    key: u64,
    begun: FlushBegun,
}

impl<O: Outlet, H: Home> Channel<O, H> {
    /// Sends one message as [`send`](Self::send) does, but where that would wait, this keeps a place in
    /// the line and wakes the task when its turn comes. Whoever gives up has to [`leave`](Self::leave).
    pub(crate) fn poll_send(
        &self,
        message: Payload<'_>,
        peer: PeerId,
        place: &mut Option<Ticket>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError>> {
        let caller = self.home.caller();
        // Dropped when the lock is not held any more.
        let (mut cloned, mut _unused) = (None, None);
        loop {
            let mut state = lock(&self.state);
            let offer = match *place {
                None => state
                    .outbound
                    .offer(message, peer, Call::Await, caller, &self.home),
                Some(ticket) if state.outbound.ticket(ticket) == TicketState::Waiting => {
                    Offer::Wait(ticket)
                }
                Some(ticket) => {
                    *place = None;
                    // It came before it was told.
                    _unused = state.tasks.take(&ticket);
                    let message = Message::Payload(message);
                    let offer;
                    (state, offer) = self.redeem(state, ticket, message, peer, caller);
                    offer
                }
            };
            match offer {
                Offer::WriteNow(token) => {
                    self.write_now(state, token, message, peer);
                    return Poll::Ready(Ok(()));
                }
                Offer::WriteTaken(taken) => {
                    self.write_own(state, taken);
                    return Poll::Ready(Ok(()));
                }
                Offer::Queued { wake } => {
                    self.queued(state, wake, caller);
                    return Poll::Ready(Ok(()));
                }
                Offer::Wait(ticket) => {
                    *place = Some(ticket);
                    if state.tasks.keep(ticket, waker, &mut cloned) {
                        self.unlock(state);
                        return Poll::Pending;
                    }
                }
                Offer::Refused(refusal) => {
                    // A wait in vain may have passed its place on.
                    self.publish(state);
                    return Poll::Ready(Err(refused(refusal)));
                }
            }
            drop(state);
            cloned = Some(waker.clone());
        }
    }

    /// A task that waited gives up its place; what had been granted goes to the next.
    pub(crate) fn leave(&self, ticket: Ticket) {
        let mut state = lock(&self.state);
        let waker = state.tasks.take(&ticket);
        state.outbound.cancel(ticket);
        self.publish(state);
        drop(waker);
    }

    /// Ready when everything accepted before the first call is written or discarded. Whoever gives up
    /// has to call [`leave_flush`](Self::leave_flush).
    pub(crate) fn poll_flush(
        &self,
        flushing: &mut Option<Flushing>,
        waker: &Waker,
    ) -> Poll<Result<(), FlushError>> {
        // Dropped when the lock is not held any more.
        let mut cloned = None;
        loop {
            let mut state = lock(&self.state);
            if flushing.is_none() && state.outlet.is_none() {
                return Poll::Ready(Err(FlushError::NotConnected));
            }
            let Flushing { key, begun } = flushing.get_or_insert_with(|| Flushing {
                key: new_key(),
                begun: state.flush_begins(),
            });
            if let Some(flushed) = state.flushed(*begun) {
                let waker = state.flushing_tasks.take(key);
                *flushing = None;
                drop(state);
                drop(waker);
                return Poll::Ready(flushed);
            }
            if state.flushing_tasks.keep(*key, waker, &mut cloned) {
                return Poll::Pending;
            }
            drop(state);
            cloned = Some(waker.clone());
        }
    }

    /// A task waits for a flush no longer.
    pub(crate) fn leave_flush(&self, flushing: &Flushing) {
        let waker = lock(&self.state).flushing_tasks.take(&flushing.key);
        drop(waker);
    }
}
