//! What the threads of a cell brought back, put together into its report.

use std::borrow::Cow;

use super::super::crew::Share;
use super::super::doubt;
use super::super::flow::{Flow, LATE_SEND_NS, Tally};
use super::super::plan::transport_of;
use super::super::record::Sorted;
use super::super::slowest::{Slow, Slowest};
use super::super::socket::tcp_state;
use super::fates::{Fates, arrived};
use super::{Cell, Found, Opened, Watched};
use crate::environment::{Doubt, Severity};
use crate::moments::Moments;
use crate::report::ping::{LinearHistogram, PingCell, SlowMoment, TcpState, ThreadCell};
use crate::secured;

impl Cell<'_> {
    pub(super) fn assemble(&self, opened: Opened, watched: Watched) -> Found {
        let Watched {
            mut shares,
            start_ns,
            slices,
            moments,
        } = watched;
        let plan = self.plan;
        let tally = shares
            .iter()
            .fold(Tally::default(), |sum, share| sum.plus(share.tally));
        let in_flight: u64 = shares.iter().map(|share| share.in_flight).sum();
        let fates = Fates::of(&tally, in_flight, arrived(&shares));
        let transport = transport_of(self.address);
        let mut path = opened.path;
        path.tcp_after = shares[0].flows[0]
            .carrier
            .socket()
            .and_then(|socket| tcp_state(socket, transport));
        path.retransmits = retransmitted(&shares, &path.tcp_before);
        let each_thread = shares
            .iter()
            .map(|share| ThreadCell {
                thread: share.thread,
                connections: share.flows.len(),
                sent: share.tally.sent,
                received: share.tally.received,
                rtt: share.record.rtt.times(&plan.percentiles),
            })
            .collect();
        let elapsed_ns = shares.iter().map(|share| share.end_ns).max().unwrap_or(0) - start_ns;
        let elapsed_s = elapsed_ns as f64 / 1e9;
        let slow = shares
            .iter_mut()
            .map(|share| std::mem::take(&mut share.record.slowest).moments());
        let slow = Slowest::merged(slow.collect::<Vec<_>>());
        let (mut times, mut response, mut histogram) = (Sorted::new(), None, None);
        for share in &shares {
            times.merge(&share.record.rtt);
            if let Some(of) = &share.record.response {
                response.get_or_insert_with(Sorted::new).merge(of);
            }
            if let Some(of) = &share.record.histogram {
                histogram = Some(added(histogram, of));
            }
        }
        let rtt = times.times_with_hdr(&plan.percentiles);
        let interval = slices.p50_interval();
        let open = plan.rate_hz.is_some();
        let span_s = open_span_s(&shares, start_ns);
        let samples_left_out = shares.iter().map(|share| share.samples_left_out).sum();
        let cell = PingCell {
            address: self.address.to_string(),
            transport: transport.to_string(),
            payload_bytes: self.payload_bytes,
            connections: plan.connections,
            threads: self.threads,
            pacing: Cow::Borrowed(if open { "open" } else { "closed" }),
            load: plan.load.to_string(),
            warmup: shares.iter().map(|share| share.warmup).sum(),
            elapsed_s,
            sent: tally.sent,
            received: tally.received,
            lost: fates.lost,
            lost_up: fates.lost_up,
            lost_down: fates.lost_down,
            duplicate: tally.duplicate,
            reordered: tally.reordered,
            late: tally.late,
            corrupted: fates.corrupted,
            in_flight_at_end: in_flight,
            asked_rate_hz: plan.rate_hz,
            achieved_rate_hz: plan
                .rate_hz
                .and_then(|rate_hz| achieved(tally.sent, rate_hz, span_s)),
            late_sends: open.then_some(tally.late_sends),
            late_send_ns: open.then_some(LATE_SEND_NS),
            latest_send_ns: open.then_some(tally.latest_send_ns),
            half_rtt: plan.half_rtt.then(|| rtt.halved()),
            rtt,
            response: response.map(|response| response.times_with_hdr(&plan.percentiles)),
            p50_low_ns: interval.map(|interval| interval.low),
            p50_high_ns: interval.map(|interval| interval.high),
            histogram,
            slices: slices.rows(),
            slow: slow
                .iter()
                .map(|slow| moment(slow, start_ns, &moments))
                .collect(),
            each_thread,
            path,
            medium: opened.medium,
            samples_left_out,
            error: shares.iter_mut().find_map(|share| share.broken.take()),
        };
        let mut doubts = doubts(&cell);
        doubts.extend(secured::doubt(&cell.address, &cell.medium));
        Found {
            doubts,
            cell,
            peer: opened.peer,
        }
    }
}

fn moment(slow: &Slow, start_ns: u64, moments: &Moments) -> SlowMoment {
    SlowMoment {
        at_s: slow.from_ns.saturating_sub(start_ns) as f64 / 1e9,
        at_monotonic_ns: slow.from_ns,
        time_ns: slow.time_ns(),
        sequence: slow.sequence,
        connection: slow.connection,
        coincided: moments.around(slow.from_ns, slow.to_ns),
    }
}

/// What this run did to itself.
fn doubts(cell: &PingCell) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if let Some(late) = cell.late_sends
        && late * 100 > cell.sent
    {
        let percent = late as f64 * 100.0 / cell.sent as f64;
        let severity = match percent {
            _ if percent < 10.0 => Severity::Note,
            _ => Severity::Warning,
        };
        let message = format!(
            "{percent:.0} % of the sends left over {} us late, up to {:.0} us: response times have it",
            LATE_SEND_NS / 1_000,
            cell.latest_send_ns.unwrap_or(0) as f64 / 1e3
        );
        doubts.push(doubt(
            "late-sends",
            severity,
            message,
            "tautline ping --sched fifo:10",
        ));
    }
    if let (Some(asked), Some(achieved)) = (cell.asked_rate_hz, cell.achieved_rate_hz)
        && achieved < asked * 0.999
    {
        let message = format!("asked for {asked:.0} pings a second, {achieved:.1} left");
        doubts.push(doubt(
            "rate-missed",
            Severity::Warning,
            message,
            "tautline ping --connections 2",
        ));
    }
    if cell.samples_left_out > 0 {
        let message = format!(
            "{} samples are not in the file of --samples: it took them too slowly",
            cell.samples_left_out
        );
        doubts.push(doubt(
            "samples-left-out",
            Severity::Warning,
            message,
            "tautline ping --rate 10k",
        ));
    }
    doubts
}

/// On all connections since they were opened: before the run they had sent a handshake.
fn retransmitted(shares: &[Share], before: &Option<TcpState>) -> Option<u64> {
    let handshake = before.as_ref()?.retransmits;
    let each = shares.iter().flat_map(|share| &share.flows).map(|flow| {
        tcp_state(flow.carrier.socket()?, flow.transport).map(|state| state.retransmits)
    });
    let all: u64 = each.sum::<Option<u64>>()?;
    Some(all.saturating_sub(handshake))
}

/// From the start to the last ping that left.
fn open_span_s(shares: &[Share], start_ns: u64) -> f64 {
    let last = shares
        .iter()
        .flat_map(|share| &share.flows)
        .map(Flow::last_sent_ns)
        .max();
    last.unwrap_or(0).saturating_sub(start_ns) as f64 / 1e9
}

/// `sent` pings have one gap less between them.
fn achieved(sent: u64, rate_hz: f64, span_s: f64) -> Option<f64> {
    match sent {
        0 => None,
        1 => Some(rate_hz),
        _ if span_s > 0.0 => Some((sent - 1) as f64 / span_s),
        _ => None,
    }
}

fn added(sum: Option<LinearHistogram>, of: &LinearHistogram) -> LinearHistogram {
    let Some(mut sum) = sum else {
        return of.clone();
    };
    sum.below += of.below;
    sum.above += of.above;
    for (count, more) in sum.counts.iter_mut().zip(&of.counts) {
        *count += more;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_achieved_rate_counts_gaps() {
        assert_eq!(achieved(0, 10.0, 1.0), None);
        assert_eq!(achieved(1, 10.0, 0.0), Some(10.0));
        assert_eq!(achieved(11, 10.0, 1.0), Some(10.0));
    }
}
