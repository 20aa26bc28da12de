//! The closed loop of one connection: plain blocking calls, one clock stamp an event, and nothing else
//! on the path of a ping.

use std::thread;
use std::time::Duration;

use super::Stop;
use super::flow::{Break, Flow, Sent};
use super::record::Record;
use crate::clock::now_ns;

/// How far to go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until<'a> {
    /// Pings of each connection.
    pub(crate) count: u64,
    /// No ping leaves from here on.
    pub(crate) end_ns: u64,
    pub(crate) stop: &'a Stop<'a>,
}

impl Until<'_> {
    /// Whether a flow has another ping to send at this time.
    pub(crate) fn goes_on(&self, flow: &Flow, now_ns: u64) -> bool {
        flow.tally.sent < self.count && now_ns < self.end_ns
    }
}

/// Sends, waits for the reply, sends again. The socket blocks, with timeouts of a tick in both
/// directions, so that a stop and a timeout are noticed.
pub(crate) fn closed_loop(
    flow: &mut Flow,
    record: &mut Record,
    until: &Until<'_>,
    interval: Duration,
) -> Result<(), Break> {
    let interval_ns = interval.as_nanos() as u64;
    let size = flow.message_bytes();
    let mut now = now_ns();
    while until.goes_on(flow, now) && !until.stop.is_set() {
        if interval_ns > 0 && !pause(flow.last_sent_ns() + interval_ns, until) {
            break;
        }
        while flow.send(None, record)? == Sent::Blocked {
            flow.expire(now_ns())?;
            if until.stop.is_set() {
                return Ok(());
            }
        }
        while flow.outstanding.waiting() > 0 {
            // On a stream exactly what is missing, so that one reply is one call.
            let heard = flow.receive(size, record)?;
            if flow.outstanding.waiting() == 0 {
                break;
            }
            let now = if heard { flow.last_ns() } else { now_ns() };
            flow.expire(now)?;
            if until.stop.is_set() {
                return Ok(());
            }
        }
        now = flow.last_ns();
    }
    Ok(())
}

/// Sleeps until then; whether another ping may leave.
fn pause(then_ns: u64, until: &Until<'_>) -> bool {
    loop {
        let now = now_ns();
        if until.stop.is_set() || now >= until.end_ns {
            return false;
        }
        let Some(left_ns) = then_ns.checked_sub(now).filter(|&left| left > 0) else {
            return true;
        };
        let left = Duration::from_nanos(left_ns.min(until.end_ns - now));
        thread::sleep(left.min(TICK));
    }
}

/// How soon a stop is noticed.
pub(crate) const TICK: Duration = Duration::from_millis(100);
