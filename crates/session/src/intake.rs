//! How much of what arrived waits for a slow application, and when reading pauses for it.

use crate::account::Tally;

/// The measure of one inbox: reading pauses when either limit is reached, and goes on when what waits
/// has fallen to half of both.
///
/// Half, and not one message less: a pause and what ends it cost a call of the driver each.
#[derive(Debug)]
pub struct Intake {
    limit: Tally,
    held: Tally,
    paused: bool,
}

impl Intake {
    /// Nothing waits. The limits are not zero: whoever offers them to users has refused that.
    pub const fn new(limit: Tally) -> Self {
        Self {
            limit,
            held: Tally {
                messages: 0,
                bytes: 0,
            },
            paused: false,
        }
    }

    /// A message came. True when reading has to pause now.
    ///
    /// It is taken in any case: how long a message is, is known when it is there. So at most this one
    /// lies beyond the limit in bytes.
    pub fn arrived(&mut self, bytes: usize) -> bool {
        self.held += Tally::one(bytes);
        let full = self.held.messages >= self.limit.messages || self.held.bytes >= self.limit.bytes;
        let pauses = full && !self.paused;
        self.paused |= pauses;
        pauses
    }

    /// The application took a message. True when reading goes on.
    pub fn taken(&mut self, bytes: usize) -> bool {
        self.held -= Tally::one(bytes);
        let low = self.held.messages <= self.limit.messages / 2
            && self.held.bytes <= self.limit.bytes / 2;
        let goes_on = self.paused && low;
        self.paused &= !goes_on;
        goes_on
    }

    /// What waits for the application.
    pub const fn held(&self) -> Tally {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intake(messages: u64, bytes: u64) -> Intake {
        Intake::new(Tally { messages, bytes })
    }

    #[test]
    fn it_pauses_once_at_either_limit_and_goes_on_once_at_half_of_both() {
        let mut intake = intake(4, 100);
        assert!(!intake.arrived(10) && !intake.arrived(10) && !intake.arrived(10));
        assert!(intake.arrived(10));
        assert!(!intake.taken(10));
        assert!(intake.taken(10));
        assert!(!intake.taken(10));
        assert!(intake.arrived(90));
        assert!(!intake.taken(10));
        assert!(intake.taken(90));
        assert!(intake.held().is_zero());
    }

    #[test]
    fn what_comes_after_the_pause_is_taken_and_asks_for_no_other() {
        let mut intake = intake(1, 100);
        assert!(intake.arrived(1));
        assert!(!intake.arrived(1));
        assert!(!intake.taken(1));
        assert!(intake.taken(1));
    }

    #[test]
    fn a_message_larger_than_the_limit_is_taken_when_nothing_else_waits() {
        let mut intake = intake(10, 100);
        assert!(intake.arrived(1000));
        assert_eq!(intake.held().bytes, 1000);
        assert!(intake.taken(1000));
    }

    #[test]
    fn empty_messages_count_as_messages() {
        let mut intake = intake(2, 100);
        assert!(!intake.arrived(0));
        assert!(intake.arrived(0));
        assert!(intake.taken(0));
    }
}
