//! Whether an answer is written where it is given.
//!
//! The answer to a message that is all that came can leave with nothing else: it is written from the
//! callback, and not queued for the end of the batch. But a handler that says several things in one
//! callback is better off with one write, and whether it does is known by what it did the time before.

use std::cell::Cell;

/// What a link's handler answered with the last time.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// One message, or none: the next one is written where it is given.
    alone: bool,
}

#[derive(Debug, Clone, Copy)]
struct Answering {
    /// Whose only message is handed out by this thread; 0 for nobody's.
    id: u64,
    /// What it was asked to send so far.
    sends: u32,
}

thread_local! {
    static ANSWERING: Cell<Answering> = const { Cell::new(Answering { id: 0, sends: 0 }) };
}

impl Answers {
    /// Hands out the only message that came to the link or datagram server of this id. `waiting` says
    /// how many messages wait behind it.
    pub(super) fn during<T>(
        &mut self,
        id: u64,
        waiting: impl FnOnce() -> u64,
        hand_out: impl FnOnce() -> T,
    ) -> T {
        if !self.alone {
            let outcome = hand_out();
            self.alone = waiting() <= 1;
            return outcome;
        }
        let before = Restored(ANSWERING.replace(Answering { id, sends: 0 }));
        let outcome = hand_out();
        self.alone = ANSWERING.get().sends <= 1;
        drop(before);
        outcome
    }
}

/// A message is to be sent on this thread's own link or server: whether it may be written at once, which is
/// so for the first.
pub(super) fn may_write(id: u64) -> bool {
    let mut answering = ANSWERING.get();
    if answering.id != id {
        return false;
    }
    answering.sends = answering.sends.saturating_add(1);
    ANSWERING.set(answering);
    answering.sends == 1
}

/// What was answered around this, whatever the handler does: it may panic, or turn another loop.
struct Restored(Answering);

impl Drop for Restored {
    fn drop(&mut self) {
        ANSWERING.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A callback that sends so many messages: how many of them were written at once.
    fn callback(answers: &mut Answers, sends: u64) -> usize {
        let mut written = 0;
        let hand_out = || written = (0..sends).filter(|_| may_write(7)).count();
        answers.during(7, || sends, hand_out);
        written
    }

    #[test]
    fn one_answer_is_written_at_once_after_a_callback_that_gave_one() {
        let mut answers = Answers::default();
        let written: Vec<usize> = [1, 1, 1, 0, 1]
            .map(|sends| callback(&mut answers, sends))
            .to_vec();
        assert_eq!(written, [0, 1, 1, 0, 1]);
    }

    #[test]
    fn several_wait_for_each_other_and_the_first_time_all_but_one() {
        let mut answers = Answers::default();
        let written: Vec<usize> = [3, 3, 1, 3, 3, 3]
            .map(|sends| callback(&mut answers, sends))
            .to_vec();
        assert_eq!(written, [0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn only_the_one_whose_message_is_handed_out_may_and_only_meanwhile() {
        let mut answers = Answers { alone: true };
        answers.during(7, || 0, || assert!(!may_write(8) && may_write(7)));
        assert!(!may_write(7));
        let panics = std::panic::AssertUnwindSafe(|| {
            answers.during(7, || 0, || panic!("as the test wants it"))
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(!may_write(7));
    }
}
