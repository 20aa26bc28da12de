//! What is made of a stream: the link's account and the server's, side by side.

use std::time::Duration;

use tautline::SendStatistics;

use super::cell::{Cell, Produced};
use crate::report::Medium;
use crate::report::stream::{QueueDelayRow, StreamRow};
use crate::wire::Counts;

/// What a row is made of.
pub(super) struct Found<'a> {
    pub(super) cell: &'a Cell<'a>,
    pub(super) produced: Produced,
    pub(super) before: &'a SendStatistics,
    pub(super) sending: &'a SendStatistics,
    pub(super) medium: Medium,
    pub(super) counts: Option<&'a Counts>,
    pub(super) error: Option<String>,
}

impl StreamRow {
    pub(super) fn new(found: &Found<'_>) -> Self {
        let Found {
            cell,
            produced,
            before,
            sending,
            counts,
            ref medium,
            ref error,
        } = *found;
        let payload_bytes = cell.payload_bytes;
        let evicted = sending.discarded.evicted.messages;
        let too_old = sending.discarded.too_old.messages;
        let discarded = sending.discarded.total().messages - evicted - too_old;
        let seconds = counts
            .map(|counts| counts.elapsed_ns as f64 / 1e9)
            .filter(|&seconds| seconds > 0.0);
        let bytes_per_s = counts
            .zip(seconds)
            .map(|(counts, seconds)| counts.received_bytes as f64 / seconds);
        let sent_s = produced.elapsed.as_secs_f64();
        Self {
            address: cell.address.to_string(),
            transport: cell.address.scheme().to_owned(),
            strategy: cell.plan.strategy.as_str().to_owned(),
            payload_bytes,
            asked_rate_hz: cell.plan.rate_hz,
            offered_per_s: (sent_s > 0.0).then(|| produced.offered as f64 / sent_s),
            elapsed_s: sent_s,
            offered: produced.offered,
            accepted: produced.accepted,
            refused: produced.refused,
            max_queue_delay_ns: cell.plan.max_queue_delay.map(as_ns),
            evicted,
            too_old,
            discarded,
            delivered: counts.map(|counts| counts.received_messages),
            lost: counts.map(|counts| {
                let left = produced
                    .accepted
                    .saturating_sub(evicted + too_old + discarded);
                left.saturating_sub(counts.received_messages)
            }),
            duplicates: counts.map(|counts| counts.duplicates),
            reordered: counts.map(|counts| counts.reordered),
            corrupted: counts.map(|counts| counts.corrupted),
            receiving_s: seconds,
            mib_per_s: bytes_per_s.map(|bytes| bytes / f64::from(1 << 20)),
            gbit_per_s: bytes_per_s.map(|bytes| bytes * 8.0 / 1e9),
            queue_delay: sending
                .queue_delay
                .as_ref()
                .map(QueueDelayRow::new)
                .unwrap_or_default(),
            max_queue_kib: sending.peak.bytes as f64 / 1024.0,
            pressure_events: sending.pressure_crossings - before.pressure_crossings,
            write_calls: sending.write_calls - before.write_calls,
            accounting_closes: sending.closes(),
            // Whoever looked on has them.
            slices: Vec::new(),
            medium: medium.clone(),
            error: error.clone(),
        }
    }
}

/// Longer than five centuries is as good as for ever.
fn as_ns(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
