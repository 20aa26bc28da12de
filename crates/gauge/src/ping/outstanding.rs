//! Which pings are unanswered: what is remembered of each, and what a reply to it therefore is.
//!
//! A ring of the newest sequence numbers, and beside it, where replies may be lost, a bounded list of
//! those whose time ran out: their replies may still come, and are then late rather than lost.

use std::collections::VecDeque;

/// The unanswered pings of one connection.
#[derive(Debug)]
pub(crate) struct Outstanding {
    slots: Box<[Slot]>,
    /// Everything below is answered or overdue.
    oldest: u64,
    next: u64,
    /// Replies to what is below are none of ours: they belong to the warm-up.
    first: u64,
    highest_answered: Option<u64>,
    waiting: u64,
    overdue: VecDeque<(u64, u64)>,
    lossy: bool,
    timeout_ns: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    sent_ns: u64,
    intended_ns: u64,
    waiting: bool,
}

/// What a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It came in time, and after a reply to a later ping if `reordered`.
    InTime {
        sent_ns: u64,
        intended_ns: u64,
        reordered: bool,
    },
    /// It came after the timeout.
    Late { sent_ns: u64 },
    /// The same ping has been answered before.
    Duplicate,
    /// Nobody has sent that ping.
    Unknown,
    /// It answers a ping of the warm-up.
    Earlier,
}

impl Outstanding {
    /// Room for `most` unanswered pings. On a stream (`lossy` is false) nothing is ever overdue.
    pub(crate) fn new(most: usize, lossy: bool, timeout_ns: u64) -> Self {
        let slots = most.next_power_of_two().max(64);
        Self {
            slots: vec![Slot::default(); slots].into_boxed_slice(),
            oldest: 0,
            next: 0,
            first: 0,
            highest_answered: None,
            waiting: 0,
            overdue: VecDeque::with_capacity(if lossy { MOST_OVERDUE } else { 0 }),
            lossy,
            timeout_ns,
        }
    }

    /// From here on pings count; what was sent before is the warm-up's.
    pub(crate) fn begin(&mut self) {
        self.first = self.next;
        self.oldest = self.next;
        self.waiting = 0;
        self.highest_answered = None;
        self.overdue.clear();
        self.slots.fill(Slot::default());
    }

    /// The sequence number of the next ping.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether another ping can be remembered.
    pub(crate) fn has_room(&self) -> bool {
        self.next - self.oldest < self.slots.len() as u64
    }

    /// Pings that may still be answered in time.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Whether any reply is still owed, be it late.
    pub(crate) fn is_owed(&self) -> bool {
        self.waiting > 0 || !self.overdue.is_empty()
    }

    /// The ping that has waited longest, and when it was sent.
    pub(crate) fn oldest_waiting(&self) -> Option<(u64, u64)> {
        (self.waiting > 0).then(|| (self.oldest, self.slots[self.at(self.oldest)].sent_ns))
    }

    /// Remembers a ping that has just been sent. There is room.
    #[inline]
    pub(crate) fn sent(&mut self, sent_ns: u64, intended_ns: u64) {
        debug_assert!(self.has_room());
        let at = self.at(self.next);
        self.slots[at] = Slot {
            sent_ns,
            intended_ns,
            waiting: true,
        };
        self.next += 1;
        self.waiting += 1;
    }

    /// Judges a reply that came at `at_ns`, and forgets the ping it answers.
    #[inline]
    pub(crate) fn reply(&mut self, sequence: u64, at_ns: u64) -> Reply {
        if sequence >= self.next {
            return Reply::Unknown;
        }
        if sequence < self.oldest {
            return self.reply_to_old(sequence);
        }
        let at = self.at(sequence);
        let slot = self.slots[at];
        if !slot.waiting {
            return Reply::Duplicate;
        }
        self.settle(at);
        let later = self.highest_answered.replace(sequence);
        let reordered = later.is_some_and(|later| later > sequence);
        if reordered {
            self.highest_answered = later;
        }
        if at_ns.saturating_sub(slot.sent_ns) > self.timeout_ns {
            return Reply::Late {
                sent_ns: slot.sent_ns,
            };
        }
        Reply::InTime {
            sent_ns: slot.sent_ns,
            intended_ns: slot.intended_ns,
            reordered,
        }
    }

    /// Takes a ping whose reply came damaged for answered. Whether it was waiting.
    pub(crate) fn damaged(&mut self, sequence: u64) -> bool {
        if sequence >= self.next {
            return false;
        }
        if sequence < self.oldest {
            return self.take_overdue(sequence).is_some();
        }
        let at = self.at(sequence);
        let waiting = self.slots[at].waiting;
        if waiting {
            self.settle(at);
        }
        waiting
    }

    /// Gives up pings whose time has run out by `now_ns`.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        while self.lossy && self.oldest < self.next {
            let at = self.at(self.oldest);
            let slot = self.slots[at];
            if slot.waiting {
                if now_ns.saturating_sub(slot.sent_ns) <= self.timeout_ns {
                    break;
                }
                if self.overdue.len() == MOST_OVERDUE {
                    self.overdue.pop_front();
                }
                self.overdue.push_back((self.oldest, slot.sent_ns));
                self.slots[at].waiting = false;
                self.waiting -= 1;
            }
            self.oldest += 1;
        }
    }

    fn settle(&mut self, at: usize) {
        self.slots[at].waiting = false;
        self.waiting -= 1;
        while self.oldest < self.next && !self.slots[self.at(self.oldest)].waiting {
            self.oldest += 1;
        }
    }

    #[cold]
    fn reply_to_old(&mut self, sequence: u64) -> Reply {
        if sequence < self.first {
            return Reply::Earlier;
        }
        match self.take_overdue(sequence) {
            Some(sent_ns) => Reply::Late { sent_ns },
            None => Reply::Duplicate,
        }
    }

    fn take_overdue(&mut self, sequence: u64) -> Option<u64> {
        let at = self
            .overdue
            .binary_search_by_key(&sequence, |&(sequence, _)| sequence)
            .ok()?;
        self.overdue.remove(at).map(|(_, sent_ns)| sent_ns)
    }

    fn at(&self, sequence: u64) -> usize {
        (sequence & (self.slots.len() as u64 - 1)) as usize
    }
}

/// So many of the newest pings without a reply in time are remembered: a reply to an older one counts
/// as a duplicate.
const MOST_OVERDUE: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Pings at 0, 10, 20, … ms with a timeout of 100 ms.
    fn ten() -> Outstanding {
        let mut outstanding = Outstanding::new(64, true, 100 * MS);
        for number in 0..10 {
            outstanding.sent(number * 10 * MS, number * 10 * MS);
        }
        outstanding
    }

    fn in_time(sent_ms: u64, reordered: bool) -> Reply {
        Reply::InTime {
            sent_ns: sent_ms * MS,
            intended_ns: sent_ms * MS,
            reordered,
        }
    }

    #[test]
    fn a_second_reply_is_a_duplicate_and_an_overtaken_one_reordered() {
        let mut outstanding = ten();
        assert_eq!(outstanding.reply(0, MS), in_time(0, false));
        assert_eq!(outstanding.reply(0, MS), Reply::Duplicate);
        assert_eq!(outstanding.reply(2, 30 * MS), in_time(20, false));
        assert_eq!(outstanding.reply(1, 30 * MS), in_time(10, true));
        assert_eq!(outstanding.reply(2, 30 * MS), Reply::Duplicate);
        assert_eq!(outstanding.reply(3, 40 * MS), in_time(30, false));
        assert_eq!(outstanding.reply(10, 40 * MS), Reply::Unknown);
        assert_eq!(outstanding.waiting(), 6);
    }

    #[test]
    fn what_comes_after_its_time_is_late_once_and_then_a_duplicate() {
        let mut outstanding = ten();
        outstanding.expire(115 * MS);
        assert_eq!(outstanding.waiting(), 8);
        assert_eq!(outstanding.oldest_waiting(), Some((2, 20 * MS)));
        assert_eq!(
            outstanding.reply(1, 120 * MS),
            Reply::Late { sent_ns: 10 * MS }
        );
        assert_eq!(outstanding.reply(1, 121 * MS), Reply::Duplicate);
        // Not yet given up, and late all the same; late is said rather than reordered.
        assert_eq!(outstanding.reply(4, 90 * MS), in_time(40, false));
        assert_eq!(
            outstanding.reply(3, 131 * MS),
            Reply::Late { sent_ns: 30 * MS }
        );
    }

    #[test]
    fn on_a_stream_nothing_is_given_up() {
        let mut outstanding = Outstanding::new(64, false, 100 * MS);
        (0..64).for_each(|_| outstanding.sent(0, 0));
        assert!(!outstanding.has_room());
        outstanding.expire(1_000 * MS);
        assert_eq!(outstanding.waiting(), 64);
        assert_eq!(outstanding.reply(0, 200 * MS), Reply::Late { sent_ns: 0 });
        assert!(outstanding.has_room());
    }

    #[test]
    fn a_damaged_reply_settles_its_ping_once() {
        let mut outstanding = ten();
        assert!(outstanding.damaged(3));
        assert!(!outstanding.damaged(3));
        assert!(!outstanding.damaged(99));
        assert_eq!(outstanding.reply(3, 40 * MS), Reply::Duplicate);
    }

    #[test]
    fn the_warm_up_is_forgotten() {
        let mut outstanding = ten();
        outstanding.begin();
        assert_eq!((outstanding.waiting(), outstanding.next()), (0, 10));
        assert_eq!(outstanding.reply(9, 95 * MS), Reply::Earlier);
        outstanding.sent(100 * MS, 100 * MS);
        assert_eq!(outstanding.reply(10, 101 * MS), in_time(100, false));
    }

    proptest::proptest! {
        /// Whatever comes back in whatever order, each ping has one outcome.
        #[test]
        fn every_ping_has_one_outcome(
            replies in proptest::collection::vec((0_u64..220, 0_u64..400), 0..600),
        ) {
            let mut outstanding = Outstanding::new(64, true, 50 * MS);
            let (mut now, mut settled) = (0, 0_u64);
            for (sequence, step) in replies {
                now += step * MS / 10;
                outstanding.expire(now);
                if outstanding.has_room() && outstanding.next() < 200 {
                    outstanding.sent(now, now);
                }
                match outstanding.reply(sequence, now) {
                    Reply::InTime { .. } | Reply::Late { .. } => settled += 1,
                    Reply::Duplicate | Reply::Unknown | Reply::Earlier => {}
                }
            }
            proptest::prop_assert!(settled + outstanding.waiting() <= outstanding.next());
        }
    }
}
