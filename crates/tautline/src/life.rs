//! Where a link is in its life, as threads other than its own see it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tautline_session::Tally;

use crate::address::Address;
use crate::driver::wake;
use crate::handler::{Credentials, Reason, Unsent};
use crate::notice::Notice;
use crate::secured::Secured;
use crate::statistics::ConnectionStatistics;
use crate::wakers::Wakers;
#[cfg(feature = "futures")]
use crate::wakers::{Watch, Watched};

/// Where a link is in its life.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum LinkState {
    /// It connects for the first time, and no attempt has failed yet.
    #[default]
    Connecting,
    /// A connection is open.
    Open,
    /// A connection is over and its handler is being told; `Retrying` or `Ended` follows.
    Closed,
    /// An attempt failed or a connection was lost, and the link pauses or tries again.
    Retrying {
        /// Which attempt in a row comes next or is under way.
        attempt: u32,
    },
    /// No callback runs or will run.
    Ended {
        /// Why.
        reason: Reason,
    },
}

/// The state with what belongs to it, and those who wait for it to change.
#[derive(Debug, Default)]
pub(crate) struct Life {
    moment: Mutex<Moment>,
    changed: Notice,
}

/// All of it at one moment.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    pub(crate) state: LinkState,
    pub(crate) local: Option<Address>,
    pub(crate) peer: Option<Address>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) secured: Option<Secured>,
    /// What the last connection left unsent.
    pub(crate) unsent: Unsent,
    pub(crate) connections: ConnectionStatistics,
    /// Why the last attempt or connection failed; `None` while one is open.
    pub(crate) failure: Option<Reason>,
    /// `opened` has returned: whoever waits for the link to open goes on behind what it sent.
    pub(crate) opened_told: bool,
    /// What had been kept for a connection that did not come.
    pub(crate) kept: Tally,
    /// Tasks that wait for a change here.
    tasks: Wakers<u64>,
}

#[cfg(feature = "futures")]
impl Watched for Moment {
    fn tasks(&mut self) -> &mut Wakers<u64> {
        &mut self.tasks
    }
}

impl Moment {
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, LinkState::Open)
    }

    pub(crate) const fn ended(&self) -> Option<&Reason> {
        match &self.state {
            LinkState::Ended { reason } => Some(reason),
            LinkState::Connecting
            | LinkState::Open
            | LinkState::Closed
            | LinkState::Retrying { .. } => None,
        }
    }
}

impl Life {
    pub(crate) fn now(&self) -> MutexGuard<'_, Moment> {
        self.moment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and tells those who wait.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Moment)) {
        let mut now = self.now();
        change(&mut now);
        let tasks = now.tasks.take_all();
        drop(now);
        self.changed.tell_all();
        wake(tasks);
    }

    /// Waits, as a task, until `look` has something to say.
    #[cfg(feature = "futures")]
    pub(crate) fn watch<T, L: FnMut(&Moment) -> Option<T>>(&self, look: L) -> Watch<'_, Moment, L> {
        Watch::new(&self.moment, look)
    }

    /// Waits until `so` has something to say, or until the deadline.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        so: impl Fn(&Moment) -> Option<T>,
    ) -> Result<T, MutexGuard<'_, Moment>> {
        let mut moment = self.now();
        loop {
            if let Some(found) = so(&moment) {
                return Ok(found);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(moment);
            }
            moment = self.changed.wait(moment, left);
        }
    }
}
