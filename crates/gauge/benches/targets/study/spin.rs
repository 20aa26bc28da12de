//! What becomes of a link that polls when others want its CPUs: idle, beside two busy processes, and
//! beside two of the kind that only takes what is left (`SCHED_IDLE`).

use tautline_gauge::plan::{Sched, Transport};
use tautline_gauge::statistics::median;

use super::super::list::{Condition, SMALL, SideKind, Target};
use super::super::options::Options;
use super::super::place;
use super::super::site::Watchdog;
use super::child::Child;
use super::{Figure, Finding};

pub(super) fn study(options: &Options, watchdog: &Watchdog) -> Vec<Result<Finding, String>> {
    let mut findings = Vec::new();
    for transport in [Transport::Tcp, Transport::Uds] {
        if !options.kept_transports().contains(&transport) {
            continue;
        }
        for load in [None, Some(Sched::Other), Some(Sched::Idle)] {
            for kind in [SideKind::Spin, SideKind::Direct] {
                findings.push(one(transport, load, kind, options, watchdog));
            }
        }
    }
    findings
}

fn one(
    transport: Transport,
    load: Option<Sched>,
    kind: SideKind,
    options: &Options,
    watchdog: &Watchdog,
) -> Result<Finding, String> {
    let beside = match load {
        None => "idle",
        Some(Sched::Idle) => "SCHED_IDLE load",
        Some(Sched::Other | Sched::Fifo(_) | Sched::RoundRobin(_)) => "load",
    };
    let what = format!("{transport} {SMALL} {}, {beside}", kind.name());
    watchdog.beat(|| format!("spin, {what}"));
    let (rounds, block) = (options.rounds.min(MOST_ROUNDS), options.block);
    let busy = load.map(|sched| Ok::<_, String>([Child::busy(sched)?, Child::busy(sched)?]));
    let explain = |why| format!("spin {what}: {why}");
    let busy = busy.transpose().map_err(explain)?;
    let done = place::at(Condition::Split, transport, SMALL, move |site| {
        let mut side = kind.start(site)?;
        side.block(block)?;
        let (mut p50s_ns, mut p99s_ns) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            p50s_ns.push(side.block(block)?.figure);
            p99s_ns.extend(side.p99_ns());
        }
        let middle = |values: &mut [f64]| median(values).ok_or("no reply came back");
        let figures = (middle(&mut p50s_ns)?, middle(&mut p99s_ns)?);
        Ok((figures, side.finish()?))
    });
    drop(busy);
    let ((p50_ns, p99_ns), evidence) = done.map_err(explain)?;
    let figures = vec![
        Figure::reported("p50", p50_ns / 1e3, "us"),
        Figure::reported("p99", p99_ns / 1e3, "us"),
    ];
    Ok(Finding::new(Target::Spin, what, figures).noted(evidence))
}

/// Nothing is decided by it.
const MOST_ROUNDS: usize = 8;
