//! Connecting to the first of a name's addresses that answers (RFC 8305, "Happy Eyeballs").
//!
//! A dead address must not eat the time of a live one, and a slow one must not be given up for being
//! slow: so the next address is tried after a short while or as soon as one fails, and those tried
//! before stay in the race. Who waits, and for how long in all, is the driver's.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::{Connecting, Socket, Target, finish_connect, is_backlog_full, start_connect};
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::options::LinkOptions;

/// All that is under way to connect to one address.
///
/// Call [`go_on`](Self::go_on) at the start, whenever a runner's socket has news, and when the time
/// comes that it named. Dropping the race closes all its sockets.
#[derive(Debug)]
pub(crate) struct Race {
    /// A name's addresses are told by themselves in errors.
    by_name: bool,
    /// Not tried yet.
    targets: VecDeque<Target>,
    /// Connecting.
    runners: Vec<Runner>,
    failures: Vec<(Target, Error)>,
    /// When the next target is due, though nobody failed.
    next_start: Instant,
}

#[derive(Debug)]
struct Runner {
    target: Target,
    socket: Socket,
}

/// How the race stands.
#[derive(Debug)]
pub(crate) enum Standing {
    /// This one is connected; the others are closed.
    Won(Socket),
    /// Go on at this time, or when a runner has news; without a time, only then.
    Running(Option<Instant>),
    /// All have failed, and this says why, each.
    Lost(Error),
}

impl Race {
    /// Of these targets, in the order of the resolver; families take turns (RFC 8305, section 4).
    pub(crate) fn new(address: &Address, targets: Vec<Target>, now: Instant) -> Self {
        Self {
            by_name: !super::is_literal(address),
            targets: take_turns(targets),
            runners: Vec::new(),
            failures: Vec::new(),
            next_start: now,
        }
    }

    /// Looks at those under way, and starts those whose time has come. `watch` is given each socket
    /// that starts.
    pub(crate) fn go_on(
        &mut self,
        address: &Address,
        options: &LinkOptions,
        now: Instant,
        mut watch: impl FnMut(&Socket) -> io::Result<()>,
    ) -> Standing {
        if let Some(winner) = self.look_at_runners(address, now) {
            return Standing::Won(winner);
        }
        while self.next_start <= now && self.runners.len() < RUNNERS_LIMIT {
            let Some(target) = self.targets.pop_front() else {
                break;
            };
            let started = start_connect(address, &target, options).and_then(|(socket, how_far)| {
                let watched = watch(&socket);
                watched.map_err(|cause| Error::io("watch", address, cause))?;
                Ok((socket, how_far))
            });
            match started {
                Ok((socket, Connecting::Done)) => return Standing::Won(socket),
                Ok((socket, Connecting::InProgress)) => {
                    self.runners.push(Runner { target, socket });
                    self.next_start = now + STAGGER;
                }
                // Nothing tells when there is room; the listener is alive, so it will not be long.
                Err(error) if is_backlog_full(&error) => {
                    self.targets.push_front(target);
                    self.next_start = now + BACKLOG_PAUSE;
                }
                // Another address does not make sense of an option.
                Err(error) if error.kind() == ErrorKind::InvalidOption => {
                    return Standing::Lost(error);
                }
                Err(error) => self.failures.push((target, error)),
            }
        }
        let next = !self.targets.is_empty() && self.runners.len() < RUNNERS_LIMIT;
        match (next, self.runners.is_empty()) {
            (true, _) => Standing::Running(Some(self.next_start)),
            (false, false) => Standing::Running(None),
            (false, true) => Standing::Lost(self.failure(address)),
        }
    }

    /// The time allowed went by: what each of the addresses had come to.
    pub(crate) fn timed_out(&self, address: &Address, timeout: Duration) -> Error {
        let mut report = self.report();
        report.extend(
            self.runners
                .iter()
                .map(|runner| format!("{}: no answer", runner.target)),
        );
        report.extend(
            self.targets
                .iter()
                .map(|target| format!("{target}: not tried")),
        );
        if self.by_name {
            let why = format!("timed out after {timeout:?} ({})", report.join("; "));
            return Error::because(ErrorKind::TimedOut, "connect to", address, why);
        }
        Error::timed_out("connect to", address, timeout)
    }

    /// The sockets that are connecting.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.runners.iter().map(|runner| &runner.socket)
    }

    /// How many have failed.
    #[cfg(test)]
    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    fn look_at_runners(&mut self, address: &Address, now: Instant) -> Option<Socket> {
        let mut index = 0;
        while let Some(runner) = self.runners.get(index) {
            match finish_connect(&runner.socket) {
                Ok(()) => return Some(self.runners.swap_remove(index).socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => index += 1,
                Err(cause) => {
                    let Runner { target, .. } = self.runners.remove(index);
                    self.failures.push((target, Error::connect(address, cause)));
                    self.next_start = now;
                }
            }
        }
        None
    }

    fn failure(&self, address: &Address) -> Error {
        let last = self.failures.last().map(|(_, error)| error);
        match last {
            None => Error::connect(address, io::ErrorKind::AddrNotAvailable.into()),
            Some(last) if !self.by_name => last.clone(),
            Some(last) => last.with_reason(address, self.report().join("; ")),
        }
    }

    /// Every address that failed, and why.
    fn report(&self) -> Vec<String> {
        self.failures
            .iter()
            .map(|(target, error)| format!("{target}: {}", error.reason()))
            .collect()
    }
}

/// The first of each family in turn, beginning with the family that the resolver put first.
pub(super) fn take_turns(targets: Vec<Target>) -> VecDeque<Target> {
    let first = targets.first().cloned();
    let (ours, others): (VecDeque<_>, VecDeque<_>) = targets.into_iter().partition(|target| {
        first
            .as_ref()
            .is_some_and(|first| first.is_same_family(target))
    });
    let mut others = others.into_iter();
    let mut in_turn = VecDeque::new();
    for target in ours {
        in_turn.push_back(target);
        in_turn.extend(others.next());
    }
    in_turn.extend(others);
    in_turn
}

/// How long an address may be silent before the next is tried too (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);
/// Most addresses of a name at a time; the next is tried when one of them fails.
const RUNNERS_LIMIT: usize = 16;
/// Between two tries to connect to a Unix listener whose backlog is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);
