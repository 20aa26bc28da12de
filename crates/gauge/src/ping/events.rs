//! Several connections on one thread, and the open loop: sends at their times, replies when they come.
//!
//! Sockets do not block here. The thread waits in `ppoll`, on the one socket or on an epoll set, until
//! something comes or a little before the next ping is due; what is left it spins, because no timer of
//! the kernel is that exact.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use super::closed::{TICK, Until};
use super::flow::{Break, Flow, Sent};
use super::record::Record;
use crate::clock::now_ns;
use crate::sys;

/// When pings leave.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pacing {
    /// When the reply to the last one has come, and not sooner than `interval` after it.
    Closed { interval: Duration },
    /// At their time on one schedule of all connections, whatever has come.
    Open {
        start_ns: u64,
        rate_hz: f64,
        connections: usize,
    },
}

/// Sends and receives until the end, then waits for replies under way, at most the timeout.
pub(crate) fn event_loop(
    flows: &mut [Flow],
    record: &mut Record,
    pacing: Pacing,
    until: &Until<'_>,
    timeout: Duration,
) -> Result<(), Break> {
    let mut turn = Turn {
        waiter: Waiter::new(flows).map_err(Break::Io)?,
        due: BinaryHeap::with_capacity(flows.len()),
        queued: vec![false; flows.len()],
        numbers: vec![0; flows.len()],
        ready: Vec::with_capacity(flows.len().max(64)),
        flows,
        record,
        pacing,
        until,
    };
    let start = now_ns();
    for flow in 0..turn.flows.len() {
        turn.queue(flow, start);
    }
    turn.send_and_receive()?;
    turn.drain(timeout)
}

struct Turn<'a> {
    flows: &'a mut [Flow],
    record: &'a mut Record,
    pacing: Pacing,
    until: &'a Until<'a>,
    waiter: Waiter,
    /// When which flow sends next.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Which flows stand in `due`; another one waits for a reply, or for room.
    queued: Vec<bool>,
    /// Open loop: the number of each flow's next ping on its schedule.
    numbers: Vec<u64>,
    ready: Vec<(usize, sys::poll::Ready)>,
}

impl Turn<'_> {
    fn send_and_receive(&mut self) -> Result<(), Break> {
        let mut next_tick = now_ns() + TICK_NS;
        loop {
            let now = now_ns();
            if now >= self.until.end_ns || self.until.stop.is_set() {
                return Ok(());
            }
            if now >= next_tick {
                next_tick = now + TICK_NS;
                self.expire(now)?;
            }
            self.send_due(now)?;
            if self.due.is_empty() && self.all_sent() {
                return Ok(());
            }
            let wake = next_tick.min(self.until.end_ns);
            self.wait(wake).map_err(Break::Io)?;
            self.receive_ready()?;
        }
    }

    fn drain(&mut self, timeout: Duration) -> Result<(), Break> {
        let end = self
            .flows
            .iter()
            .map(|flow| flow.linger_until(timeout))
            .max()
            .unwrap_or(0);
        self.due.clear();
        self.queued.fill(true);
        loop {
            let now = now_ns();
            self.flows
                .iter_mut()
                .for_each(|flow| flow.outstanding.expire(now));
            let owed = self.flows.iter().any(|flow| flow.outstanding.is_owed());
            if !owed || now >= end || self.until.stop.is_set() {
                return Ok(());
            }
            self.wait(end.min(now + TICK_NS)).map_err(Break::Io)?;
            self.receive_ready()?;
        }
    }

    /// Every ping whose time has come.
    fn send_due(&mut self, now: u64) -> Result<(), Break> {
        while let Some(&Reverse((due, at))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            self.queued[at] = false;
            self.send(at, due)?;
        }
        Ok(())
    }

    fn send(&mut self, at: usize, due: u64) -> Result<(), Break> {
        let flow = &mut self.flows[at];
        if !flow.is_amid_a_ping() && !self.until.goes_on(flow, now_ns()) {
            return Ok(());
        }
        if !flow.outstanding.has_room() {
            // Its turn comes when a reply makes room, or the tick gives one up.
            return Ok(());
        }
        let intended = matches!(self.pacing, Pacing::Open { .. }).then_some(due);
        match flow.send(intended, self.record)? {
            Sent::Blocked => self
                .waiter
                .watch_writable(flow, at, true)
                .map_err(Break::Io)?,
            Sent::Whole => {
                if !flow.carrier.is_drained() {
                    self.waiter
                        .watch_writable(flow, at, true)
                        .map_err(Break::Io)?;
                }
                self.numbers[at] += 1;
                if let Pacing::Open { .. } = self.pacing {
                    self.queue(at, 0);
                }
            }
        }
        Ok(())
    }

    /// Puts a flow's next ping onto the list.
    fn queue(&mut self, at: usize, now: u64) {
        if self.queued[at] {
            return;
        }
        let due = match self.pacing {
            Pacing::Closed { interval } => {
                let last = self.flows[at].last_sent_ns();
                now.max(last + interval.as_nanos() as u64)
            }
            Pacing::Open {
                start_ns,
                rate_hz,
                connections,
            } => {
                let number = self.numbers[at] * connections as u64 + self.flows[at].number as u64;
                start_ns.saturating_add((number as f64 * 1e9 / rate_hz) as u64)
            }
        };
        self.queued[at] = true;
        self.due.push(Reverse((due, at)));
    }

    /// Waits until a socket is ready, a ping is due, or `wake`.
    fn wait(&mut self, wake: u64) -> io::Result<()> {
        let now = now_ns();
        let due = self.due.peek().map_or(u64::MAX, |&Reverse((due, _))| due);
        let left_ns = if due <= wake {
            due.saturating_sub(now).saturating_sub(SPIN_NS)
        } else {
            wake.saturating_sub(now)
        };
        self.ready.clear();
        self.waiter.wait(self.flows, left_ns, &mut self.ready)
    }

    fn receive_ready(&mut self) -> Result<(), Break> {
        for index in 0..self.ready.len() {
            let (at, ready) = self.ready[index];
            let had_room = self.flows[at].outstanding.has_room();
            if ready.readable {
                self.receive(at)?;
            }
            if ready.writable {
                if !self.flows[at].carrier.is_drained() {
                    // The rest of what a link has taken goes out with its next call.
                    self.receive(at)?;
                }
                let owes = !self.flows[at].carrier.is_drained();
                self.waiter
                    .watch_writable(&self.flows[at], at, owes)
                    .map_err(Break::Io)?;
            }
            let flow = &self.flows[at];
            let now = flow.last_ns();
            let goes_on = match self.pacing {
                Pacing::Closed { .. } => flow.outstanding.waiting() == 0 && !flow.is_amid_a_ping(),
                Pacing::Open { .. } => !had_room && flow.outstanding.has_room(),
            };
            if goes_on || (ready.writable && flow.is_blocked()) {
                self.queue(at, now);
            }
        }
        Ok(())
    }

    /// What is there, but no more than a turn's worth: others want theirs.
    fn receive(&mut self, at: usize) -> Result<(), Break> {
        let flow = &mut self.flows[at];
        for _ in 0..RECEIVES_A_TURN {
            if !flow.receive(usize::MAX, self.record)? || flow.outstanding.waiting() == 0 {
                return Ok(());
            }
        }
        // What a link still has in it makes its descriptor ready for nobody.
        self.waiter.unread.push(at);
        Ok(())
    }

    fn expire(&mut self, now: u64) -> Result<(), Break> {
        for at in 0..self.flows.len() {
            let had_room = self.flows[at].outstanding.has_room();
            self.flows[at].expire(now)?;
            let flow = &self.flows[at];
            let goes_on = match self.pacing {
                Pacing::Closed { .. } => flow.outstanding.waiting() == 0 && !flow.is_amid_a_ping(),
                Pacing::Open { .. } => !had_room && flow.outstanding.has_room(),
            };
            if goes_on {
                self.queue(at, now);
            }
        }
        Ok(())
    }

    fn all_sent(&self) -> bool {
        self.flows
            .iter()
            .all(|flow| flow.tally.sent >= self.until.count && !flow.is_amid_a_ping())
    }
}

/// One socket, or a set of them.
#[derive(Debug)]
struct Waiter {
    epoll: Option<OwnedFd>,
    /// The one socket is waited for to be writable, too.
    writable: bool,
    /// Flows of which not all was read: they are ready whatever the kernel says.
    unread: Vec<usize>,
}

impl Waiter {
    fn new(flows: &[Flow]) -> io::Result<Self> {
        let mut epoll = None;
        if flows.len() > 1 {
            let set = sys::epoll::epoll_create1()?;
            for (at, flow) in flows.iter().enumerate() {
                sys::epoll::epoll_add(set.as_fd(), flow.carrier.as_fd(), at as u64)?;
            }
            epoll = Some(set);
        }
        Ok(Self {
            epoll,
            writable: false,
            unread: Vec::with_capacity(flows.len()),
        })
    }

    fn watch_writable(&mut self, flow: &Flow, at: usize, on: bool) -> io::Result<()> {
        match &self.epoll {
            None => self.writable = on,
            Some(epoll) => {
                sys::epoll::epoll_modify(epoll.as_fd(), flow.carrier.as_fd(), at as u64, on)?;
            }
        }
        Ok(())
    }

    fn wait(
        &mut self,
        flows: &[Flow],
        left_ns: u64,
        ready: &mut Vec<(usize, sys::poll::Ready)>,
    ) -> io::Result<()> {
        let left_ns = if self.unread.is_empty() { left_ns } else { 0 };
        ready.extend(self.unread.drain(..).map(|at| (at, UNREAD)));
        let Some(epoll) = &self.epoll else {
            let found = if left_ns == 0 && !self.writable {
                // Spinning: the read itself says whether there is anything.
                sys::poll::Ready {
                    readable: true,
                    writable: false,
                }
            } else {
                sys::poll::ppoll(flows[0].carrier.as_fd(), self.writable, left_ns)?
            };
            if found.readable || found.writable {
                ready.push((0, found));
            }
            return Ok(());
        };
        if left_ns > 0 {
            sys::poll::ppoll(epoll.as_fd(), false, left_ns)?;
        }
        sys::epoll::epoll_ready(epoll.as_fd(), |event| {
            let found = sys::poll::Ready {
                readable: event.readable,
                writable: event.writable,
            };
            ready.push((event.tag as usize, found));
        })
    }
}

/// Whatever the kernel says.
const UNREAD: sys::poll::Ready = sys::poll::Ready {
    readable: true,
    writable: false,
};
/// So long before a ping is due the thread stops sleeping: timers are late by about as much.
const SPIN_NS: u64 = 50_000;
const TICK_NS: u64 = TICK.as_nanos() as u64;
const RECEIVES_A_TURN: usize = 32;
