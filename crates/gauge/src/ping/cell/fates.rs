//! What became of the pings that were not answered whole: each has one fate.

use super::super::crew::Share;
use super::super::flow::Tally;
use crate::wire::Counts;

/// What became of the pings that were not answered whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fates {
    pub(super) lost: u64,
    pub(super) lost_up: Option<u64>,
    pub(super) lost_down: Option<u64>,
    pub(super) corrupted: u64,
}

impl Fates {
    /// A damaged datagram that does not say whose it was accounts for one ping that is missing, and so
    /// does one that the server found damaged: neither is lost as well.
    pub(super) fn of(tally: &Tally, in_flight: u64, arrived: Option<Counts>) -> Self {
        let answered = tally.received + tally.late + tally.damaged;
        let missing = tally.sent.saturating_sub(answered + in_flight);
        let damaged_up = arrived.map_or(0, |counts| counts.corrupted);
        let lost = missing.saturating_sub(tally.nameless + damaged_up);
        let corrupted = tally.damaged + tally.damaged_again + tally.nameless + damaged_up;
        let lost_up = match arrived {
            _ if lost == 0 => Some(0),
            // What is under way may be on either.
            Some(counts) if in_flight == 0 => {
                let never_came = tally.sent.saturating_sub(counts.received_messages);
                Some(never_came.saturating_sub(counts.corrupted).min(lost))
            }
            Some(_) | None => None,
        };
        Self {
            lost,
            lost_up,
            lost_down: lost_up.map(|up| lost - up),
            corrupted,
        }
    }
}
/// What the server had of all threads, if it said so to each.
pub(super) fn arrived(shares: &[Share]) -> Option<Counts> {
    shares.iter().try_fold(Counts::default(), |sum, share| {
        let counts = share.arrived?;
        Some(Counts {
            received_messages: sum.received_messages + counts.received_messages,
            corrupted: sum.corrupted + counts.corrupted,
            ..sum
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(received_messages: u64, corrupted: u64) -> Option<Counts> {
        Some(Counts {
            received_messages,
            corrupted,
            ..Counts::default()
        })
    }

    fn tally(sent: u64, received: u64) -> Tally {
        Tally {
            sent,
            received,
            ..Tally::default()
        }
    }

    #[test]
    fn what_the_server_never_had_was_lost_on_the_way_there() {
        let fates = Fates::of(&tally(100, 90), 0, counts(96, 0));
        assert_eq!(
            fates,
            Fates {
                lost: 10,
                lost_up: Some(4),
                lost_down: Some(6),
                corrupted: 0
            }
        );
        let fates = Fates::of(&tally(100, 90), 0, None);
        assert_eq!(
            (fates.lost, fates.lost_up, fates.lost_down),
            (10, None, None)
        );
        let fates = Fates::of(&tally(100, 100), 0, None);
        assert_eq!(
            (fates.lost, fates.lost_up, fates.lost_down),
            (0, Some(0), Some(0))
        );
    }

    #[test]
    fn what_was_damaged_on_either_way_is_not_lost_as_well() {
        let up = Fates::of(&tally(100, 98), 0, counts(98, 1));
        assert_eq!((up.lost, up.lost_up, up.corrupted), (1, Some(1), 1));
        let down = Tally {
            nameless: 1,
            ..tally(100, 98)
        };
        let down = Fates::of(&down, 0, counts(99, 0));
        assert_eq!((down.lost, down.lost_up, down.corrupted), (1, Some(1), 1));
        let named = Tally {
            damaged: 1,
            ..tally(100, 99)
        };
        let named = Fates::of(&named, 0, counts(100, 0));
        assert_eq!((named.lost, named.corrupted), (0, 1));
    }

    #[test]
    fn nothing_is_ever_negative() {
        let fates = Fates::of(&tally(10, 10), 3, counts(50, 50));
        assert_eq!(
            (fates.lost, fates.lost_up, fates.lost_down),
            (0, Some(0), Some(0))
        );
    }
}
