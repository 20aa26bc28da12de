//! What a stream shows of itself while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tautline::Link;

use super::cell::{Cell, Produced};
use super::{Look, Onlooker};
use crate::clock::now_ns;
use crate::report::stream::StreamSlice;

/// What the sending thread shows to whoever looks on.
#[derive(Debug, Default)]
pub(super) struct Live {
    offered: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// When the first message was offered, by the monotonic clock; 0 before.
    pub(super) started_ns: AtomicU64,
    /// Messages written before that: what was agreed on is no part of the stream.
    pub(super) written_before: AtomicU64,
    pub(super) link: Mutex<Option<Link>>,
}

impl Live {
    pub(super) fn show(&self, produced: &Produced) {
        self.offered.store(produced.offered, Ordering::Relaxed);
        self.accepted.store(produced.accepted, Ordering::Relaxed);
        self.refused.store(produced.refused, Ordering::Relaxed);
    }
}

/// Whoever looks on, and what was seen at the last looks.
pub(super) struct Looking<'a> {
    cell: &'a Cell<'a>,
    live: &'a Live,
    at_interval: Look,
    at_look: Look,
    at_slice: Look,
    slices: Vec<StreamSlice>,
}

impl<'a> Looking<'a> {
    pub(super) fn new(cell: &'a Cell<'a>, live: &'a Live) -> Self {
        Self {
            cell,
            live,
            at_interval: Look::default(),
            at_look: Look::default(),
            at_slice: Look::default(),
            slices: Vec::new(),
        }
    }

    pub(super) fn look(&mut self, onlooker: &mut Onlooker<'_>) {
        let Some(now) = self.now() else { return };
        (onlooker.progress)(&since(&self.at_look, &now));
        self.slice(&now);
        let passed = now.to.saturating_sub(self.at_interval.to);
        if onlooker.every.is_some_and(|every| passed >= every) {
            (onlooker.interval)(&since(&self.at_interval, &now));
            self.at_interval = now.clone();
        }
        self.at_look = now;
    }

    /// Ends a slice whose time is over. What is left at the end is none: it would be shorter.
    fn slice(&mut self, now: &Look) {
        let length = SLICE.max(self.cell.plan.duration / MOST_SLICES);
        let passed = now.to.saturating_sub(self.at_slice.to);
        // After its end a stream only waits.
        if passed < length || now.offered == self.at_slice.offered {
            return;
        }
        let part = since(&self.at_slice, now);
        self.slices.push(StreamSlice {
            start_s: part.from.as_secs_f64(),
            seconds: passed.as_secs_f64(),
            offered: part.offered,
            accepted: part.accepted,
            written: part.written,
        });
        self.at_slice = now.clone();
    }

    /// The slices of the whole stream.
    pub(super) fn into_slices(self) -> Vec<StreamSlice> {
        self.slices
    }

    /// The last stretch, however short.
    pub(super) fn finish(&mut self, onlooker: &mut Onlooker<'_>) {
        if onlooker.every.is_none() {
            return;
        }
        if let Some(now) = self.now()
            && now.offered > self.at_interval.offered
        {
            (onlooker.interval)(&since(&self.at_interval, &now));
        }
    }

    /// Everything since the start of the cell; `None` before.
    fn now(&self) -> Option<Look> {
        let started_ns = self.live.started_ns.load(Ordering::Relaxed);
        if started_ns == 0 {
            return None;
        }
        let to = Duration::from_nanos(now_ns().saturating_sub(started_ns));
        let link = self
            .live
            .link
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sending = link.as_ref().map(|link| link.statistics().sending);
        drop(link);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let cell = self.cell;
        let share = to.as_secs_f64() / cell.plan.duration.as_secs_f64();
        Some(Look {
            cell: format!("{} {} B", cell.address, cell.payload_bytes),
            done: (cell.number as f64 + share.min(1.0)) / cell.cells as f64,
            from: Duration::ZERO,
            to,
            payload_bytes: cell.payload_bytes,
            offered: of(&self.live.offered),
            accepted: of(&self.live.accepted),
            refused: of(&self.live.refused),
            written: sending.as_ref().map_or(self.at_look.written, |sending| {
                sending.written.messages - of(&self.live.written_before)
            }),
            evicted: sending.as_ref().map_or(self.at_look.evicted, |sending| {
                sending.discarded.evicted.messages
            }),
            too_old: sending.as_ref().map_or(self.at_look.too_old, |sending| {
                sending.discarded.too_old.messages
            }),
            waiting_bytes: sending.map_or(0, |sending| sending.waiting.bytes),
        })
    }
}

/// What happened from one look to the next.
fn since(before: &Look, now: &Look) -> Look {
    Look {
        from: before.to,
        offered: now.offered - before.offered,
        accepted: now.accepted - before.accepted,
        refused: now.refused - before.refused,
        evicted: now.evicted.saturating_sub(before.evicted),
        too_old: now.too_old.saturating_sub(before.too_old),
        written: now.written.saturating_sub(before.written),
        ..now.clone()
    }
}

/// As long as a round is where there is no control.
const SLICE: Duration = Duration::from_secs(1);
/// Ten minutes; the slices of a longer stream are longer.
const MOST_SLICES: u32 = 600;
