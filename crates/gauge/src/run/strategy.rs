//! The strategy table: one-way streams from one unpaced producer, and the same stream from a raw writer
//! whose every message is its own write.
//!
//! Both streams of a run follow each other in random order. Each begins with a lockstep pass that
//! compares whole contents, sends for the plan's time, and drains: a mark, sent after everything else,
//! says when all that arrives has arrived. Against a `serve` elsewhere it is the server that counts: the
//! contents are compared in echoes beforehand, and the end of the stream, or a question, takes the place
//! of the mark.

mod control;
mod elsewhere;
mod library;
mod post;
mod row;

use std::thread;
use std::time::Duration;

use tautline::Strategy;

pub(super) use self::row::Cell;
use self::row::{ControlRun, LibraryRun};
use super::Broken;
use super::site::Site;
use crate::clock::now_ns;
use crate::plan::{OnRefused, StrategyPlan};
use crate::statistics::Random;

/// What one run of one cell came to; what was measured before it broke stands.
#[derive(Debug, Default)]
pub(super) struct StrategyOutcome {
    library: Option<LibraryRun>,
    control: Option<ControlRun>,
    /// Why it ended early, unless it was the stop flag.
    pub(super) broken: Option<Broken>,
}

/// Measures one run on the calling thread, within `slice` if there is one.
pub(super) fn measure(
    site: &Site,
    plan: &StrategyPlan,
    strategy: Strategy,
    slice: Option<Duration>,
    random: &mut Random,
) -> StrategyOutcome {
    let mut outcome = StrategyOutcome::default();
    let mut order = [Side::Library, Side::Control];
    random.shuffle(&mut order);
    outcome.broken = measure_sides(site, plan, strategy, slice, order, &mut outcome).err();
    outcome
}

fn measure_sides(
    site: &Site,
    plan: &StrategyPlan,
    strategy: Strategy,
    slice: Option<Duration>,
    order: [Side; 2],
    outcome: &mut StrategyOutcome,
) -> Result<(), Broken> {
    site.seats
        .client("client")
        .take(&site.register)
        .map_err(Broken::setup)?;
    let duration = sending_time(plan.duration, slice);
    for side in order {
        if site.pulse.is_stopping() {
            break;
        }
        match (side, site.remote()) {
            (Side::Library, remote) => {
                let run = match remote {
                    Some(remote) => {
                        elsewhere::library(site, remote, strategy, duration, plan.on_refused)?
                    }
                    None => library::measure(site, strategy, duration, plan.on_refused)?,
                };
                outcome.library = run.is_begun().then_some(run);
            }
            (Side::Control, Some(remote)) => {
                outcome.control = Some(elsewhere::control(site, remote, duration)?);
            }
            (Side::Control, None) => outcome.control = Some(control::measure(site, duration)?),
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    Library,
    Control,
}

/// What the producer counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Produced {
    offered: u64,
    accepted: u64,
    refused: u64,
    first_send_ns: u64,
}

/// What became of one send.
enum Sent {
    Accepted,
    Refused,
}

/// Sends for `duration`: the unpaced producer of both streams. `send` is given the sequence number.
fn produce(
    site: &Site,
    duration: Duration,
    on_refused: OnRefused,
    mut send: impl FnMut(u64) -> Result<Sent, String>,
) -> Result<Produced, String> {
    let first_send_ns = now_ns();
    let sends_a_look = sends_a_look(site.payload_bytes);
    let until_ns = first_send_ns + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2);
    let mut produced = Produced {
        first_send_ns,
        ..Produced::default()
    };
    loop {
        if produced.offered.is_multiple_of(sends_a_look) {
            let now_ns = now_ns();
            site.pulse.beat(now_ns);
            if now_ns >= until_ns || site.pulse.is_stopping() {
                return Ok(produced);
            }
        }
        produced.offered += 1;
        match send(produced.accepted)? {
            Sent::Accepted => produced.accepted += 1,
            Sent::Refused => {
                produced.refused += 1;
                match on_refused {
                    OnRefused::Yield => thread::yield_now(),
                    OnRefused::Spin => std::hint::spin_loop(),
                    OnRefused::Sleep(pause) => {
                        thread::sleep(pause);
                        if now_ns() >= until_ns {
                            return Ok(produced);
                        }
                    }
                }
            }
        }
    }
}

/// With a budget each stream has half of the slice, less what connecting and draining usually take.
fn sending_time(planned: Duration, slice: Option<Duration>) -> Duration {
    let Some(slice) = slice else { return planned };
    planned
        .min((slice / 2).saturating_sub(OVERHEAD))
        .max(SHORTEST)
}

/// How many sends go by between two looks at the clock, which costs as much as half a small send. Large
/// ones take long on a slow network, and the watching thread has to see that they move.
fn sends_a_look(payload_bytes: usize) -> u64 {
    (LOOK_BYTES / payload_bytes.max(1) as u64).clamp(1, MOST_SENDS_A_LOOK)
}

const MOST_SENDS_A_LOOK: u64 = 64;
const LOOK_BYTES: u64 = 64 * 1_024;
/// Connecting, the lockstep pass and the drain of one stream.
const OVERHEAD: Duration = Duration::from_millis(30);
/// A stream below this is all beginning.
const SHORTEST: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_cuts_the_sending_time_and_never_to_nothing() {
        let planned = Duration::from_secs(3);
        assert_eq!(sending_time(planned, None), planned);
        assert_eq!(
            sending_time(planned, Some(Duration::from_secs(60))),
            planned
        );
        assert_eq!(
            sending_time(planned, Some(Duration::from_millis(460))),
            Duration::from_millis(200)
        );
        assert_eq!(
            sending_time(planned, Some(Duration::ZERO)),
            Duration::from_millis(50)
        );
    }
}
