//! Who wants to be called, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::sys;

/// Timers by time, and an alarm for the first of them.
///
/// The alarm is a `timerfd` beside the sockets, set only when an earlier timer comes or the last alarm
/// rang: a wait with a timeout instead would read the clock and set a timer in the kernel each time,
/// some 2 % of a round trip, for timers that hardly ever run out.
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    alarm: OwnedFd,
    /// When the alarm rings; it may be earlier than any timer that is left.
    rings_at: Option<Instant>,
}

impl Timers {
    pub(super) fn new(registry: &Registry) -> io::Result<Self> {
        let alarm = sys::timer::timerfd_create()?;
        registry.register(&mut SourceFd(&alarm.as_raw_fd()), ALARM, Interest::READABLE)?;
        Ok(Self {
            heap: BinaryHeap::new(),
            alarm,
            rings_at: None,
        })
    }

    pub(super) fn add(&mut self, at: Instant, id: u64) {
        if self.rings_at.is_some_and(|rings_at| at < rings_at) {
            // A thread that never sleeps sets no alarm, and has to look by itself.
            self.rings_at = None;
        }
        self.heap.push(Reverse((at, id)));
    }

    /// Before an alarm is set: drops what comes first and nobody needs any more, as `unneeded` tells. A
    /// thread whose links have all connected would otherwise wake up for each one's deadline.
    pub(super) fn forget_unneeded(&mut self, mut unneeded: impl FnMut(u64, Instant) -> bool) {
        while let Some(&Reverse((at, id))) = self.heap.peek()
            && !self.rings_before(at)
            && unneeded(id, at)
        {
            self.heap.pop();
        }
    }

    /// Whether the thread wakes up by then anyway.
    fn rings_before(&self, at: Instant) -> bool {
        self.rings_at.is_some_and(|rings_at| rings_at <= at)
    }

    /// Before the thread sleeps. How long it may at most, where the alarm could not be set.
    pub(super) fn set_alarm(&mut self) -> Option<Duration> {
        let &Reverse((at, _)) = self.heap.peek()?;
        if self.rings_before(at) {
            return None;
        }
        let after = at.saturating_duration_since(Instant::now());
        match sys::timer::timerfd_settime(self.alarm.as_fd(), after) {
            Ok(()) => {
                self.rings_at = Some(at);
                None
            }
            // Only a duration beyond the kernel's reckoning is refused.
            Err(_) => Some(after.min(LONGEST_SLEEP)),
        }
    }

    /// The alarm rang.
    pub(super) const fn rang(&mut self) {
        self.rings_at = None;
    }

    /// Timers are not taken back, and whoever asked for one may end long before it. Once those of the
    /// gone outnumber those of the living by far they are dropped, so that links which come and go do
    /// not pile up an hour's timers.
    pub(super) fn forget_gone(&mut self, living: usize, lives: impl Fn(u64) -> bool) {
        if self.heap.len() > FORGOTTEN_LEAST + TIMERS_EACH * living {
            self.heap.retain(|Reverse((_, id))| lives(*id));
        }
    }

    /// Whether the first timer's time may have come.
    pub(super) fn may_be_due(&self) -> bool {
        self.rings_at.is_none() && !self.heap.is_empty()
    }

    /// The next timer whose time has come.
    pub(super) fn expired(&mut self, now: Instant) -> Option<u64> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id))| id)
    }
}

/// The token of the alarm; the bell has 0, and links never count so far.
pub(super) const ALARM: Token = Token(usize::MAX);

/// More than a link ever asks for at a time.
const TIMERS_EACH: usize = 16;
/// Fewer than these are not worth a look.
const FORGOTTEN_LEAST: usize = 1024;

const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn timers() -> (mio::Poll, Timers) {
        let poll = mio::Poll::new().unwrap();
        let timers = Timers::new(poll.registry()).unwrap();
        (poll, timers)
    }

    #[test]
    fn the_alarm_rings_for_the_first_timer_and_again_for_the_next() {
        let (mut poll, mut timers) = timers();
        let mut events = mio::Events::with_capacity(4);
        let start = Instant::now();
        let (first, second) = (
            start + Duration::from_millis(2),
            start + Duration::from_millis(4),
        );
        timers.add(second, 2);
        assert_eq!(timers.set_alarm(), None);
        timers.add(first, 1);
        for (at, id) in [(first, 1), (second, 2)] {
            assert_eq!(timers.set_alarm(), None);
            assert!(!timers.may_be_due());
            poll.poll(&mut events, None).unwrap();
            assert_eq!(events.iter().map(|event| event.token()).next(), Some(ALARM));
            timers.rang();
            assert!(timers.may_be_due());
            let now = Instant::now();
            assert!(now >= at);
            assert_eq!(timers.expired(at), Some(id));
        }
        assert!(!timers.may_be_due());
    }

    #[test]
    fn what_nobody_needs_any_more_sets_no_alarm() {
        let (_poll, mut timers) = timers();
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        for id in 1..=5 {
            timers.add(after(id), id);
        }
        timers.forget_unneeded(|id, _| id != 3);
        assert_eq!(timers.set_alarm(), None);
        assert_eq!(timers.rings_at, Some(after(3)));
        // It wakes up by then anyway.
        timers.forget_unneeded(|_, _| panic!("nobody is asked"));
        timers.rang();
        assert_eq!(timers.expired(after(3)), Some(3));
        timers.forget_unneeded(|_, _| true);
        timers.set_alarm();
        assert_eq!(timers.rings_at, None);
    }

    #[test]
    fn an_earlier_timer_is_looked_for_even_if_the_thread_does_not_sleep() {
        let (_poll, mut timers) = timers();
        let start = Instant::now();
        timers.add(start + Duration::from_secs(60), 1);
        timers.set_alarm();
        timers.add(start, 2);
        assert!(timers.may_be_due());
        assert_eq!(timers.expired(start), Some(2));
    }

    #[test]
    fn timers_of_links_that_came_and_went_do_not_pile_up() {
        let (_poll, mut timers) = timers();
        let hour = Instant::now() + Duration::from_secs(3600);
        for id in 0..100_000 {
            timers.add(hour, id);
            timers.forget_gone(1, |living| living == 7);
            assert!(timers.heap.len() <= FORGOTTEN_LEAST + TIMERS_EACH);
        }
        assert_eq!(timers.expired(hour), Some(7), "the living keeps its own");
    }

    #[test]
    fn a_timer_that_is_over_rings_at_once() {
        let (mut poll, mut timers) = timers();
        let mut events = mio::Events::with_capacity(4);
        timers.add(Instant::now() - Duration::from_secs(1), 7);
        timers.set_alarm();
        poll.poll(&mut events, None).unwrap();
        assert!(!events.is_empty());
    }

    #[test]
    fn a_timer_in_the_far_future_is_no_busy_loop() {
        let (_poll, mut timers) = timers();
        let far = Instant::now() + Duration::from_secs(u64::MAX / 4);
        timers.add(far, 7);
        assert!(
            timers
                .set_alarm()
                .is_none_or(|sleep| sleep == LONGEST_SLEEP)
        );
    }
}
