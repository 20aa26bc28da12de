//! Peers of a server that wait to be accepted by a task: bounded, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::link::AsyncLink;
use crate::driver::wake;
use crate::sync::{Mutex, lock};
use crate::wakers::Wakers;

/// The backlog of one server.
#[derive(Debug)]
pub(super) struct Backlog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Most that wait, those included who have not opened yet.
    limit: usize,
    /// Seats given out whose peers have not opened yet.
    reserved: usize,
    peers: VecDeque<AsyncLink>,
    /// No more will come.
    stopped: bool,
    /// The task that found nobody.
    acceptor: Wakers<()>,
}

/// A place for one peer, kept free until it has opened.
#[derive(Debug)]
pub(super) struct Seat(Arc<Backlog>);

/// Held by whoever lets peers in: none will come once it is gone.
#[derive(Debug)]
pub(super) struct Door(pub(super) Arc<Backlog>);

impl Backlog {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::new(State {
                limit,
                ..State::default()
            }),
        }
    }

    /// A place for one more, if there is room.
    pub(super) fn reserve(self: &Arc<Self>) -> Option<Seat> {
        let mut state = lock(&self.state);
        if state.peers.len() + state.reserved >= state.limit {
            return None;
        }
        state.reserved += 1;
        Some(Seat(Arc::clone(self)))
    }

    /// The next peer, or `None` if none will come any more.
    pub(super) fn poll_accept(&self, waker: &Waker) -> Poll<Option<AsyncLink>> {
        // Dropped when the lock is not held any more.
        let mut cloned = None;
        loop {
            let mut state = lock(&self.state);
            if let Some(peer) = state.peers.pop_front() {
                return Poll::Ready(Some(peer));
            }
            if state.stopped {
                return Poll::Ready(None);
            }
            if state.acceptor.keep((), waker, &mut cloned) {
                return Poll::Pending;
            }
            drop(state);
            cloned = Some(waker.clone());
        }
    }

    /// Nobody accepts any more: those who wait are dropped.
    pub(super) fn abandon(&self) {
        let mut state = lock(&self.state);
        state.limit = 0;
        let (peers, acceptor) = (std::mem::take(&mut state.peers), state.acceptor.take(&()));
        drop(state);
        drop((peers, acceptor));
    }
}

impl Seat {
    /// The peer has opened. Returns whom to wake.
    pub(super) fn take(self, peer: AsyncLink) -> Option<Waker> {
        let mut state = lock(&self.0.state);
        if state.limit == 0 {
            drop(state);
            drop(peer);
            return None;
        }
        state.peers.push_back(peer);
        state.acceptor.take(&())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.0.state).reserved -= 1;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.stopped = true;
        let acceptor = state.acceptor.take(&());
        drop(state);
        wake(acceptor);
    }
}
