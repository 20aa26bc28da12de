//! The measuring threads of one cell: warm-up, a common start, the measurement, the question at the
//! end.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use super::Stop;
use super::closed::{TICK, Until, closed_loop};
use super::events::{Pacing, event_loop};
use super::flow::{Break, Flow, Tally};
use super::plan::PingPlan;
use super::record::Record;
use crate::clock::now_ns;
use crate::placement::{Register, Seat};
use crate::wire::Counts;

/// What all threads of a cell share.
#[derive(Debug)]
pub(crate) struct Common<'a> {
    pub(crate) plan: &'a PingPlan,
    pub(crate) gate: Barrier,
    /// When the measurement began; 0 before.
    pub(crate) start_ns: AtomicU64,
    pub(crate) register: &'a Arc<Register>,
    pub(crate) stop: &'a Stop<'a>,
}

/// What one thread brings back.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) thread: usize,
    pub(crate) flows: Vec<Flow>,
    pub(crate) record: Record,
    pub(crate) tally: Tally,
    pub(crate) in_flight: u64,
    /// What the server had of us, where it said so: messages and damaged ones.
    pub(crate) arrived: Option<Counts>,
    pub(crate) warmup: u64,
    pub(crate) end_ns: u64,
    pub(crate) samples_left_out: u64,
    pub(crate) broken: Option<String>,
}

/// One thread, from its seat to its last word.
pub(crate) fn measure(
    thread: usize,
    seat: Seat,
    mut flows: Vec<Flow>,
    mut record: Record,
    common: &Common<'_>,
) -> Share {
    let mut broken = prepare(&mut flows, seat, common).err();
    let before = match &broken {
        None => warm_up(&mut flows, &mut record, common),
        Some(_) => Err(String::new()),
    };
    let warmup = flows.iter().map(|flow| flow.tally.sent).sum();
    flows.iter_mut().for_each(Flow::begin);
    record.counts = true;
    start_together(common);
    let start_ns = common.start_ns.load(Ordering::Acquire);
    if let Some(samples) = &mut record.samples {
        samples.set_start(start_ns);
    }
    let mut arrived = None;
    match before {
        Ok(before) => {
            let outcome = drive(&mut flows, &mut record, start_ns, common);
            broken = outcome.err().map(|why| why.explain());
            if broken.is_none() {
                arrived = before.and_then(|before| asked(&mut flows, &before, &mut record, common));
            }
        }
        Err(why) => broken = broken.or(Some(why)),
    }
    let end_ns = flows.iter().map(Flow::last_ns).max().unwrap_or(start_ns);
    let tally = flows
        .iter()
        .fold(Tally::default(), |sum, flow| sum.plus(flow.tally));
    let in_flight = flows.iter().map(|flow| flow.outstanding.waiting()).sum();
    Share {
        thread,
        tally,
        in_flight,
        arrived,
        warmup,
        end_ns: end_ns.max(start_ns),
        samples_left_out: record.samples.as_mut().map_or(0, |feed| feed.finish()),
        broken,
        flows,
        record,
    }
}

fn prepare(flows: &mut [Flow], seat: Seat, common: &Common<'_>) -> Result<(), String> {
    seat.take(common.register).map_err(|why| why.to_string())?;
    let blocking = is_blocking(flows, common.plan);
    for flow in flows {
        let set = if blocking {
            block(flow, common.plan.timeout)
        } else {
            flow.carrier.never_wait()
        };
        set.map_err(|cause| cause.to_string())?;
    }
    Ok(())
}

/// Makes a flow's calls wait, a tick at most: that is how a stop and a timeout are noticed.
pub(crate) fn block(flow: &mut Flow, timeout: Duration) -> io::Result<()> {
    flow.carrier.wait_at_most(tick_of(timeout))
}

/// A part of the timeout that it is a multiple of, and no longer than a stop may go unnoticed.
fn tick_of(timeout: Duration) -> Duration {
    let parts = timeout.as_nanos().div_ceil(TICK.as_nanos()).max(1);
    timeout / u32::try_from(parts).unwrap_or(u32::MAX)
}

fn is_blocking(flows: &[Flow], plan: &PingPlan) -> bool {
    flows.len() == 1 && plan.rate_hz.is_none()
}

/// Pings that do not count. What the server has had of us by then, where it can be asked.
fn warm_up(
    flows: &mut [Flow],
    record: &mut Record,
    common: &Common<'_>,
) -> Result<Option<Vec<Counts>>, String> {
    let plan = common.plan;
    let until = Until {
        count: plan.warmup,
        end_ns: now_ns() + WARMUP_LIMIT_NS,
        stop: common.stop,
    };
    let outcome = if plan.warmup == 0 {
        Ok(())
    } else if is_blocking(flows, plan) {
        closed_loop(&mut flows[0], record, &until, Duration::ZERO)
    } else {
        let pacing = Pacing::Closed {
            interval: Duration::ZERO,
        };
        event_loop(flows, record, pacing, &until, plan.timeout)
    };
    outcome.map_err(|why| format!("in the warm-up: {}", why.explain()))?;
    if !flows[0].transport.speaks_datagrams() {
        return Ok(None);
    }
    if plan.warmup == 0 {
        return Ok(Some(vec![Counts::default(); flows.len()]));
    }
    let counts = flows.iter_mut().map(|flow| {
        let (transport, cookie) = (flow.transport, flow.cookie);
        flow.carrier
            .ask_counts(transport, cookie, common.stop, &mut |_| {})
    });
    Ok(counts.collect())
}

/// The last to come says when it begins.
fn start_together(common: &Common<'_>) {
    if common.gate.wait().is_leader() {
        common.start_ns.store(now_ns(), Ordering::Release);
    }
    common.gate.wait();
}

fn drive(
    flows: &mut [Flow],
    record: &mut Record,
    start_ns: u64,
    common: &Common<'_>,
) -> Result<(), Break> {
    let plan = common.plan;
    let length_ns = plan.duration.map_or(u64::MAX, |duration| {
        u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
    });
    let until = Until {
        count: plan.count.unwrap_or(u64::MAX),
        end_ns: start_ns.saturating_add(length_ns),
        stop: common.stop,
    };
    if is_blocking(flows, plan) {
        closed_loop(&mut flows[0], record, &until, plan.interval)?;
        return flows[0].linger(record, &until, plan.timeout);
    }
    let pacing = match plan.rate_hz {
        None => Pacing::Closed {
            interval: plan.interval,
        },
        Some(rate_hz) => Pacing::Open {
            start_ns,
            rate_hz,
            connections: plan.connections,
        },
    };
    event_loop(flows, record, pacing, &until, plan.timeout)
}

/// What the server has had of us since the warm-up.
fn asked(
    flows: &mut [Flow],
    before: &[Counts],
    record: &mut Record,
    common: &Common<'_>,
) -> Option<Counts> {
    let mut sum = Counts::default();
    for (flow, before) in flows.iter_mut().zip(before) {
        let mut strays = Vec::new();
        let (transport, cookie) = (flow.transport, flow.cookie);
        let counts = flow
            .carrier
            .ask_counts(transport, cookie, common.stop, &mut |datagram| {
                strays.push((now_ns(), datagram.to_vec()));
            })?;
        for (at_ns, datagram) in strays {
            flow.stray(&datagram, at_ns, record);
        }
        sum.received_messages += counts
            .received_messages
            .saturating_sub(before.received_messages);
        sum.corrupted += counts.corrupted.saturating_sub(before.corrupted);
    }
    Some(sum)
}

const WARMUP_LIMIT_NS: u64 = 1_000_000_000;
