//! The UDP payload smoke test: stop and wait, one datagram at a time, every byte of every reply
//! compared; over raw sockets, and over the library with either of the strategies that refuse nothing
//! of their own accord here.
//!
//! It times nothing. It shows whether datagrams of this size pass on this machine at all, and where
//! they do not, whose fault it is.

mod classify;
mod kernel;
mod library;
mod raw;

use self::classify::Path;
pub(super) use self::classify::judge;
pub(super) use self::kernel::Surroundings;
use super::Broken;
use super::site::Site;
use crate::clock::now_ns;
use crate::plan::SmokePlan;
use crate::probe;
use crate::report::{SmokeClass, SmokeRow, SmokeRuntime};

/// The paths of one payload, in the order of the table.
pub(super) const PATHS: [Path; 3] = Path::ALL;

/// What one path of one payload came to; what was measured before it broke stands.
#[derive(Debug)]
pub(super) struct SmokeOutcome {
    pub(super) row: Option<SmokeRow>,
    /// Why it ended early, unless it was the stop flag.
    pub(super) broken: Option<Broken>,
}

/// Measures one path on the calling thread.
pub(super) fn measure(site: &Site, plan: &SmokePlan, path: Path) -> SmokeOutcome {
    let outcome = match path {
        Path::Raw => raw::Echo::start(site, plan.timeout)
            .and_then(|mut echo| echoes(site, plan, path, &mut echo)),
        Path::Reliable | Path::BestEffort => library::Echo::start(site, plan.timeout, path)
            .and_then(|mut echo| echoes(site, plan, path, &mut echo)),
    };
    match outcome {
        Ok(row) => SmokeOutcome {
            row: Some(row),
            broken: None,
        },
        Err(broken) => SmokeOutcome {
            row: None,
            broken: Some(broken),
        },
    }
}

/// One way there and back.
trait Exchange {
    /// Sends one datagram; why not, in words.
    fn send(&mut self, message: &[u8]) -> Result<(), String>;

    /// One datagram that came back; `false` after the timeout.
    fn recv(&mut self, reply: &mut Vec<u8>) -> Result<bool, Broken>;

    /// What both ends have counted so far.
    fn counters(&self) -> Counters;
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    server_received: u64,
    runtime: Option<SmokeRuntime>,
}

fn echoes(
    site: &Site,
    plan: &SmokePlan,
    path: Path,
    exchange: &mut impl Exchange,
) -> Result<SmokeRow, Broken> {
    let mut row = empty_row(path, site.payload_bytes, plan);
    let mut pass = Pass::new(site.payload_bytes);
    pass.run(site, plan.warmup, exchange, &mut row.clone())?;
    let before = exchange.counters();
    let start_ns = now_ns();
    pass.run(site, plan.iterations, exchange, &mut row)?;
    row.elapsed_s = (now_ns() - start_ns) as f64 / 1e9;
    let after = exchange.counters();
    row.server_received = after.server_received - before.server_received;
    row.runtime = after
        .runtime
        .zip(before.runtime)
        .map(|(after, before)| SmokeRuntime {
            client: after.client.since(before.client),
            server: after.server.since(before.server),
        });
    row.delivery_percent = percent(row.client_received, row.sent);
    row.match_percent = percent(row.matched, row.sent);
    Ok(row)
}

/// Numbers go on from the warm-up, so that a late reply is no reply to another message.
struct Pass {
    message: Vec<u8>,
    reply: Vec<u8>,
    sequence: u64,
}

impl Pass {
    fn new(payload_bytes: usize) -> Self {
        Self {
            message: vec![0; payload_bytes],
            reply: Vec::new(),
            sequence: 0,
        }
    }

    fn run(
        &mut self,
        site: &Site,
        iterations: u64,
        exchange: &mut impl Exchange,
        row: &mut SmokeRow,
    ) -> Result<(), Broken> {
        let mut failures_in_a_row = 0;
        for _ in 0..iterations {
            site.pulse.beat(now_ns());
            if site.pulse.is_stopping() || failures_in_a_row == HOPELESS {
                row.stopped_early = true;
                return Ok(());
            }
            probe::fill(&mut self.message, self.sequence);
            row.send_attempts += 1;
            let came_back = match exchange.send(&self.message) {
                Ok(()) => {
                    row.sent += 1;
                    self.await_reply(exchange, row)?
                }
                Err(why) => {
                    row.send_failures += 1;
                    row.send_failure.get_or_insert(why);
                    false
                }
            };
            failures_in_a_row = if came_back { 0 } else { failures_in_a_row + 1 };
            self.sequence += 1;
        }
        Ok(())
    }

    /// Waits for the reply to the message under way; those to earlier ones are past.
    fn await_reply(
        &mut self,
        exchange: &mut impl Exchange,
        row: &mut SmokeRow,
    ) -> Result<bool, Broken> {
        loop {
            if !exchange.recv(&mut self.reply)? {
                row.timeouts += 1;
                return Ok(false);
            }
            let number = probe::sequence_of(&self.reply, self.message.len());
            if number.is_some_and(|number| number < self.sequence) {
                continue;
            }
            row.client_received += 1;
            row.matched += u64::from(self.reply == self.message);
            return Ok(true);
        }
    }
}

fn empty_row(path: Path, payload_bytes: usize, plan: &SmokePlan) -> SmokeRow {
    SmokeRow {
        path: path.token().to_owned(),
        payload_bytes,
        iterations: plan.iterations,
        warmup: plan.warmup,
        send_attempts: 0,
        sent: 0,
        server_received: 0,
        client_received: 0,
        matched: 0,
        delivery_percent: None,
        match_percent: None,
        timeouts: 0,
        send_failures: 0,
        send_failure: None,
        stopped_early: false,
        elapsed_s: 0.0,
        runtime: None,
        classification: SmokeClass::Undecided,
    }
}

/// 100 is said only where nothing is missing: the digits of a table are cut, not rounded.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 * 10_000.0 / whole as f64).floor() / 100.0)
}

/// Failures in a row after which the rest would fail as well: with the usual timeout, 20 s of waiting.
pub(crate) const HOPELESS: u32 = 20;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::run::site::for_tests;

    /// What becomes of each message: each reply it gets.
    #[derive(Default)]
    struct Scripted {
        fates: VecDeque<Fate>,
        replies: VecDeque<Option<Vec<u8>>>,
        received: u64,
    }

    #[derive(Clone, Copy)]
    enum Fate {
        Echo,
        Lose,
        LoseReply,
        Damage,
        Refuse,
        EchoLate,
    }

    impl Exchange for Scripted {
        fn send(&mut self, message: &[u8]) -> Result<(), String> {
            let fate = self.fates.pop_front().unwrap_or(Fate::Echo);
            if matches!(fate, Fate::Refuse) {
                return Err("message too long".to_owned());
            }
            self.received += u64::from(!matches!(fate, Fate::Lose));
            match fate {
                Fate::Echo => self.replies.push_back(Some(message.to_vec())),
                Fate::Lose | Fate::LoseReply => self.replies.push_back(None),
                Fate::EchoLate => self.replies.extend([None, Some(message.to_vec())]),
                Fate::Damage => {
                    let mut reply = message.to_vec();
                    *reply.last_mut().unwrap() ^= 1;
                    self.replies.push_back(Some(reply));
                }
                Fate::Refuse => unreachable!("answered above"),
            }
            Ok(())
        }

        fn recv(&mut self, reply: &mut Vec<u8>) -> Result<bool, Broken> {
            let next = self.replies.pop_front().flatten();
            let came = next.is_some();
            *reply = next.unwrap_or_default();
            Ok(came)
        }

        fn counters(&self) -> Counters {
            Counters {
                server_received: self.received,
                runtime: None,
            }
        }
    }

    fn row_of(fates: &[Fate], iterations: u64) -> SmokeRow {
        let plan = SmokePlan {
            iterations,
            warmup: 0,
            ..SmokePlan::default()
        };
        let mut scripted = Scripted {
            fates: fates.iter().copied().collect(),
            ..Scripted::default()
        };
        echoes(&for_tests(64), &plan, Path::Raw, &mut scripted).unwrap()
    }

    #[test]
    fn each_fate_of_a_datagram_is_counted_where_it_belongs() {
        use Fate::{Damage, Echo, EchoLate, Lose, LoseReply, Refuse};
        let row = row_of(&[Echo, Lose, LoseReply, Damage, Refuse, EchoLate], 10);
        assert_eq!((row.sent, row.send_failures), (9, 1));
        assert_eq!(row.send_failure.as_deref(), Some("message too long"));
        assert_eq!(row.server_received, 8);
        assert_eq!((row.client_received, row.matched), (6, 5));
        assert_eq!(row.timeouts, 3);
        assert_eq!(
            (row.delivery_percent, row.match_percent),
            (Some(66.66), Some(55.55))
        );
        assert!(!row.stopped_early);
    }

    #[test]
    fn what_never_comes_back_is_given_up() {
        let row = row_of(&[Fate::Lose; 500], 500);
        assert_eq!((row.sent, row.timeouts, row.matched), (20, 20, 0));
        assert!(row.stopped_early);
        assert_eq!(row.delivery_percent, Some(0.0));
    }

    #[test]
    fn one_missing_of_a_million_is_not_100_percent() {
        assert_eq!(percent(999_999, 1_000_000), Some(99.99));
        assert_eq!(percent(1_000_000, 1_000_000), Some(100.0));
        assert_eq!(percent(0, 0), None);
    }
}
