//! What one message costs both ends together: CPU time, context switches, allocations, calls.
//!
//! All of it is counted, none sampled: CPU time and switches by the kernel for this whole process, in
//! which nothing else runs meanwhile, reads and writes by the library (its own counters over the whole
//! life of the side; waits in epoll are not among them).

use tautline_gauge::plan::Transport;
use tautline_gauge::usage::Usage;

use super::super::list::{Condition, RELIABLE, SMALL, SideKind, Target};
use super::super::options::Options;
use super::super::place;
use super::super::site::{Watchdog, said};
use super::allocation::count;
use super::{Figure, Finding};

/// The stream and both echoes over every transport of this build, each beside its control.
pub(super) fn study(options: &Options, watchdog: &Watchdog) -> Vec<Result<Finding, String>> {
    let mut findings = Vec::new();
    for transport in options.kept_transports() {
        let mut kinds = vec![RELIABLE];
        kinds.extend(SideKind::write_each(transport));
        kinds.extend([SideKind::Callback, SideKind::Direct, SideKind::Blocking]);
        let one = |kind| one(transport, kind, options, watchdog);
        findings.extend(kinds.into_iter().map(one));
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
    watchdog.beat(|| format!("cost, {what}"));
    let (rounds, block) = (options.rounds.min(MOST_ROUNDS), options.block);
    let done = place::at(Condition::Split, transport, SMALL, move |site| {
        let mut side = kind.start(site)?;
        side.block(block)?;
        let before = Usage::of_process().map_err(said)?;
        let (messages, allocations) = count(|| {
            (0..rounds).try_fold(0, |sum, _| {
                Ok::<_, String>(sum + side.block(block)?.counts.sent)
            })
        });
        let used = Usage::of_process().map_err(said)? - before;
        Ok((messages?, allocations, used, side.finish()?))
    });
    let (messages, allocations, used, calls) = done.map_err(|why| format!("cost {what}: {why}"))?;
    let each =
        |name, amount: u64, unit| Figure::reported(name, amount as f64 / messages as f64, unit);
    let figures = vec![
        each("CPU", used.cpu_ns, "ns"),
        each("waits", used.voluntary_switches, ""),
        each("preempted", used.involuntary_switches, ""),
        each("allocations", allocations, ""),
    ];
    Ok(Finding::new(Target::Cost, what, figures).noted(calls))
}

/// Counts need no more.
const MOST_ROUNDS: usize = 5;
