//! The slowest moments of a phase: pings of several senders that were slow at the same time are one.

use std::time::{SystemTime, UNIX_EPOCH};

use super::protocol::{Sent, SlowPing};
use crate::clock::now_ns;
use crate::moments::Moments;
use crate::report::soak::{Moment, SlowSender};
use crate::report::utc;

/// The slowest, each with everybody who was held up by it and what the kernel counted meanwhile.
pub(super) fn moments(sent: &[Sent], machine: &Moments) -> Vec<Moment> {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let wall_minus_monotonic_ns =
        i128::try_from(since_epoch.as_nanos()).unwrap_or(0) - i128::from(now_ns());
    let mut groups = grouped(sent);
    groups.truncate(MOST);
    groups
        .into_iter()
        .map(|group| {
            let (_, slowest) = group[0];
            let wall_ms = (i128::from(slowest.sent_ns) + wall_minus_monotonic_ns) / 1_000_000;
            let mut senders: Vec<SlowSender> = group
                .iter()
                .map(|&(index, ping)| SlowSender {
                    sender: index + 1,
                    rtt_ns: ping.rtt_ns,
                    sequence: ping.sequence,
                    cpu: ping.cpu,
                })
                .collect();
            senders.sort_by_key(|sender| sender.sender);
            Moment {
                rtt_ns: slowest.rtt_ns,
                sent_ns: slowest.sent_ns,
                at: utc::rfc3339_ms(u64::try_from(wall_ms).unwrap_or(0)),
                senders,
                around: machine.around(slowest.sent_ns, slowest.sent_ns + slowest.rtt_ns),
            }
        })
        .collect()
}

/// Slowest first; each group begins with its slowest, and what overlaps that one belongs to it.
fn grouped(sent: &[Sent]) -> Vec<Vec<(usize, SlowPing)>> {
    let each = sent.iter().enumerate();
    let mut pings: Vec<(usize, SlowPing)> = each
        .flat_map(|(index, one)| one.slow.iter().map(move |&ping| (index, ping)))
        .collect();
    pings.sort_by_key(|(_, ping)| std::cmp::Reverse(ping.rtt_ns));
    let mut groups: Vec<Vec<(usize, SlowPing)>> = Vec::new();
    for (index, ping) in pings {
        let end = |ping: &SlowPing| ping.sent_ns + ping.rtt_ns;
        let same = groups.iter_mut().find(|group| {
            let slowest = &group[0].1;
            ping.sent_ns < end(slowest) && slowest.sent_ns < end(&ping)
        });
        match same {
            Some(group) if group.iter().all(|&(other, _)| other != index) => {
                group.push((index, ping))
            }
            Some(_) => {}
            None => groups.push(vec![(index, ping)]),
        }
    }
    groups
}

/// As many as the report shows.
const MOST: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(slow: &[(u64, u64)]) -> Sent {
        let ping = |&(sent_ns, rtt_ns): &(u64, u64)| SlowPing {
            sent_ns,
            rtt_ns,
            sequence: sent_ns,
            cpu: Some(1),
        };
        Sent {
            slow: slow.iter().map(ping).collect(),
            ..Sent::default()
        }
    }

    #[test]
    fn pings_that_were_slow_together_are_one_moment() {
        let sent = [
            sender(&[(1_000, 500), (9_000, 50)]),
            sender(&[(1_200, 900), (5_000, 70)]),
        ];
        let groups = grouped(&sent);
        let of = |group: usize| {
            groups[group]
                .iter()
                .map(|(index, ping)| (*index, ping.rtt_ns))
                .collect::<Vec<_>>()
        };
        assert_eq!(groups.len(), 3);
        assert_eq!(of(0), [(1, 900), (0, 500)]);
        assert_eq!(of(1), [(1, 70)]);
        assert_eq!(of(2), [(0, 50)]);
    }

    #[test]
    fn moments_have_both_clocks_and_are_slowest_first() {
        let sent = [sender(&[(1_000, 500)]), sender(&[(5_000, 700)])];
        let moments = moments(&sent, &Moments::new());
        assert_eq!(moments.len(), 2);
        assert_eq!((moments[0].rtt_ns, moments[0].sent_ns), (700, 5_000));
        assert_eq!(moments[0].senders[0].sender, 2);
        assert_eq!(moments[0].around, None);
        assert!(moments[0].at.ends_with('Z'));
    }
}
