//! A soak: idle beside load, as distributions, over the run, and by CPU.

use super::distribution::{self, Recorded};
use super::{Axis, Look, Place, Plot, Scale, Series, Shape, Unit, wakeup};
use crate::report::Report;
use crate::report::soak::{Phase, Soak};

pub(super) fn rows(report: &Report) -> Vec<Vec<Place>> {
    let Some(soak) = &report.soak else {
        return Vec::new();
    };
    let sides: Vec<Recorded<'_>> = soak
        .rounds
        .iter()
        .map(|phase| Recorded {
            name: name(soak, phase),
            look: look(phase),
            hdr: phase.rtt.hdr.as_ref(),
            min_ns: phase.rtt.min_ns,
            max_ns: phase.rtt.max_ns,
        })
        .collect();
    let mut places = Vec::from(distribution::places(
        "all senders, without load and under it",
        &sides,
        "soak.rounds[].rtt.hdr",
    ));
    places.push(over_the_run(soak));
    places.push(slow_moments(soak));
    let rows = [
        ("no load", &soak.wakeup.idle),
        ("full load", &soak.wakeup.loaded),
    ];
    places.push(wakeup::by_cpu(
        "Wake-ups before each phase, by CPU",
        "soak.wakeup.idle[], soak.wakeup.loaded[]",
        &rows.map(|(name, rows)| (name, rows.as_slice())),
    ));
    vec![places]
}

/// Each second of each sender is a point: where senders differ, a line would only connect them.
fn over_the_run(soak: &Soak) -> Place {
    let each = soak.rounds.iter().map(|phase| Series {
        name: name(soak, phase),
        look: look(phase),
        shape: Shape::Marks,
        points: phase
            .senders
            .iter()
            .flat_map(|sender| sender.slices.iter().enumerate())
            .map(|(second, slice)| (second as f64, slice.p50_ns as f64))
            .collect(),
    });
    Plot {
        title: "Over the run: median of each second of each sender".to_owned(),
        caption:
            "Seconds from the release of the senders of a phase. Idle and loaded points apart: \
                  the load costs; points that climb or jump: the machine changed meanwhile."
                .to_owned(),
        source: "soak.rounds[].senders[].slices[].p50_ns".to_owned(),
        x: Axis {
            name: "seconds of the phase",
            ..Axis::run()
        },
        y: Axis::time("p50"),
        series: each.collect(),
    }
    .or_absent("the report has no slices")
}

fn slow_moments(soak: &Soak) -> Place {
    let first_ns = soak
        .rounds
        .iter()
        .flat_map(|phase| &phase.slow)
        .map(|moment| moment.sent_ns)
        .min()
        .unwrap_or(0);
    let each = soak.rounds.iter().map(|phase| Series {
        name: name(soak, phase),
        look: look(phase),
        shape: Shape::Marks,
        points: phase
            .slow
            .iter()
            .map(|moment| {
                (
                    (moment.sent_ns - first_ns) as f64 / 1e9,
                    moment.rtt_ns as f64,
                )
            })
            .collect(),
    });
    Plot {
        title: "The slowest moments".to_owned(),
        caption: "When the slowest round trips of each phase were sent: what comes at regular \
                  distances has a clock behind it."
            .to_owned(),
        source: "soak.rounds[].slow[].sent_ns and .rtt_ns".to_owned(),
        x: Axis {
            name: "seconds from the first of them",
            scale: Scale::Linear,
            unit: Unit::Seconds,
        },
        y: Axis::time("round trip"),
        series: each.collect(),
    }
    .or_absent("the report has no slow moments")
}

fn name(soak: &Soak, phase: &Phase) -> String {
    let name = if is_idle(phase) {
        "no load"
    } else {
        "full load"
    };
    match soak.setting.repeats {
        0 | 1 => name.to_owned(),
        _ => format!("{name} #{}", phase.repeat + 1),
    }
}

/// Repetitions share a pen: they are the same thing measured again.
fn look(phase: &Phase) -> Look {
    Look::Pen(usize::from(!is_idle(phase)))
}

fn is_idle(phase: &Phase) -> bool {
    phase.load == "none"
}
