//! T11: how often anybody in this process asks for memory while messages pass.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tautline_gauge::plan::Transport;

use super::super::list::{Condition, Limit, RELIABLE, SMALL, SideKind, Target};
use super::super::options::Options;
use super::super::place;
use super::super::site::Watchdog;
use super::{Figure, Finding};

/// Streams and echoes over every transport of this build.
pub(super) fn study(options: &Options, watchdog: &Watchdog) -> Vec<Result<Finding, String>> {
    let mut findings = Vec::new();
    for transport in options.kept_transports() {
        for side in [RELIABLE, SideKind::Callback, SideKind::Direct] {
            findings.push(one(transport, side, options, watchdog));
        }
    }
    findings
}

fn one(
    transport: Transport,
    kind: SideKind,
    options: &Options,
    watchdog: &Watchdog,
) -> Result<Finding, String> {
    let what = format!("{transport} {SMALL} {}", kind.name());
    watchdog.beat(|| format!("T11, {what}"));
    let (rounds, block) = (options.rounds, options.block);
    let counted = place::at(Condition::Split, transport, SMALL, move |site| {
        let mut side = kind.start(site)?;
        let mut warm = 0;
        while warm < WARM_UP {
            warm += side.block(block)?.counts.sent;
        }
        let (mut messages, mut allocations, mut each) = (0, 0, Vec::with_capacity(rounds));
        for _ in 0..rounds {
            let (done, more) = count(|| side.block(block));
            let sent = done?.counts.sent;
            messages += sent;
            allocations += more;
            each.push(more as f64 / sent as f64);
        }
        side.finish()?;
        Ok((allocations, messages, each))
    });
    let (allocations, messages, each) = counted.map_err(|why| format!("T11 {what}: {why}"))?;
    // The median round decides, as everywhere: a queue that is longer than it ever was takes one more
    // block from the system, which is no message's. The note has the sum.
    let figure = Figure::judged("allocations", each, "a message", LIMIT, options.seed)?;
    let note = (allocations > 0).then(|| format!("{allocations} in {messages} messages"));
    Ok(Finding::new(Target::T11, what, vec![figure]).noted(note))
}

/// What `body` came to, and how many allocations all threads made meanwhile.
pub(super) fn count<T>(body: impl FnOnce() -> T) -> (T, u64) {
    ALLOCATIONS.store(0, Ordering::SeqCst);
    COUNTING.store(true, Ordering::SeqCst);
    let done = body();
    COUNTING.store(false, Ordering::SeqCst);
    (done, ALLOCATIONS.load(Ordering::SeqCst))
}

const LIMIT: Limit = Limit::RatioAtMost(0.0);
/// What the target's sentence leaves out.
const WARM_UP: u64 = 1_000;

/// Only read while nobody counts, so that the other targets do not feel it.
static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[inline]
fn note() {
    if COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

#[expect(
    unsafe_code,
    reason = "an allocator that counts has to be an allocator"
)]
// SAFETY: every call is passed on as it came to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are those that are asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
