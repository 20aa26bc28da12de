//! A life from birth to death: what it is, drawn from its seed, and what happens in it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tautline_session::{Budget, CONTROL_BYTES, Framing, OnLoss, Strategy};

use crate::desk::Desk;
use crate::framings;
use crate::link::{Kind, Link, Plan, Seen};
use crate::model::Total;
use crate::random::Random;

/// Steps of an ordinary life.
const STEPS: usize = 250;
/// Rounds in which everything has to come to rest; each writes something, and the kernel may refuse
/// a few times.
const ROUNDS: usize = 100_000;

/// What kind of life it was: what it was made of, and what it came to.
#[derive(Debug)]
pub(crate) struct Life {
    /// `None` of datagrams.
    pub(crate) framing: Option<&'static str>,
    pub(crate) strategy: Strategy,
    pub(crate) keeps: bool,
    pub(crate) seen: Seen,
}

/// Lives the life of one seed. Panics when a promise is broken.
pub(crate) fn live(seed: u64, trace: bool) -> Life {
    let mut random = Random::new(seed);
    let plan = plan(&mut random);
    let desk = Rc::new(Desk::default());
    let total = random.one_in(5).then(|| total(&plan, &mut random));
    let count = if total.is_some() {
        random.between(2, 3)
    } else {
        1
    };
    if trace {
        eprintln!("{count} × {plan:?}, total {total:?}");
    }
    let mut links: Vec<Link> = (0..count)
        .map(|number| {
            let trace = trace.then_some(number);
            Link::new(plan.clone(), Rc::clone(&desk), total.clone(), trace)
        })
        .collect();

    for _ in 0..STEPS {
        let pause_ns = random.pick(&[0, 1, 400, 1_000, 5_000, 1_000_000]);
        desk.now_ns.set(desk.now_ns.get() + pause_ns);
        let index = random.up_to(count - 1);
        links[index].step(&mut random);
        check_total(total.as_ref());
    }

    for link in &mut links {
        link.last_words(&mut random);
    }
    let mut rounds = 0;
    while links
        .iter_mut()
        .fold(false, |busy, link| link.settles_down(&mut random) | busy)
    {
        check_total(total.as_ref());
        rounds += 1;
        assert!(rounds < ROUNDS, "it never comes to rest");
    }
    for link in &mut links {
        link.is_quiet();
    }
    for link in &mut links {
        link.ends(&mut random);
    }
    check_total(total.as_ref());
    if let Some((_, budget)) = &total {
        assert_eq!(budget.held_bytes(), 0);
    }
    assert_eq!(desk.blocks_out(), 0, "blocks that never came back");
    Life {
        framing: (plan.kind == Kind::Stream).then_some(plan.framing_name),
        strategy: plan.strategy,
        keeps: plan.on_loss == OnLoss::Keep,
        seen: links.into_iter().flat_map(|link| link.seen).collect(),
    }
}

fn check_total(total: Option<&(Total, Arc<Budget>)>) {
    if let Some((total, budget)) = total {
        assert_eq!(budget.held_bytes(), total.held_bytes.get());
        assert!(budget.held_bytes() <= total.limit_bytes);
    }
}

/// Above it messages are larger than a block.
const LARGE_BYTES: usize = 65_536;

fn plan(random: &mut Random) -> Plan {
    let kind = random.pick(&[
        Kind::Stream,
        Kind::Stream,
        Kind::Stream,
        Kind::Datagram { shared: false },
        Kind::Datagram { shared: true },
    ]);
    let strategy = random.pick(&Strategy::ALL);
    let (framing_name, framing) = match kind {
        Kind::Stream => framings::any(random),
        Kind::Datagram { .. } => ("datagrams", Framing::Raw),
    };
    let least_bytes = framing.encoded_limit_bytes(1);
    // Large ones cost time; but only messages taken out of the middle of several blocks make a
    // shared queue clear them away.
    let crowded = kind == Kind::Datagram { shared: true } && strategy == Strategy::KeepLatest;
    let limit_bytes = if random.one_in(if crowded { 6 } else { 60 }) {
        random.between(LARGE_BYTES + 1, 300_000)
    } else {
        let most_bytes = random.pick(&[8, 60, 400, 2_000, 20_000]);
        random.between(least_bytes, most_bytes.max(least_bytes))
    };
    let few_messages = random.one_in(2).then(|| random.between(1, 8));
    // How many of the longest fit: one hardly, or many.
    let longest = limit_bytes / random.pick(&[1, 2, 4, 10]);
    let frame_limit = if random.one_in(4) {
        random.between(1, limit_bytes)
    } else {
        limit_bytes
    };
    let may_discard =
        strategy != Strategy::Reliable && (framing != Framing::Raw || kind != Kind::Stream);
    let max_delay_ns = (may_discard && random.one_in(3))
        .then(|| random.pick(&[1, 3_000, 40_000, 3_000_000, 10_000_000]) as u64);
    let direct = random.one_in(8);
    let may_keep = kind == Kind::Stream && framing != Framing::Raw && !direct;
    let on_loss = if may_keep && random.one_in(2) {
        OnLoss::Keep
    } else {
        OnLoss::Discard
    };
    let prefix = matches!(framing, Framing::LengthPrefix { .. });
    let control_bytes = framing.header_bytes() + CONTROL_BYTES;
    // They fit the queue also where an eighth of it is the hook's.
    let may_beat = kind == Kind::Stream && prefix && !direct && limit_bytes >= control_bytes * 2;
    let heartbeats = may_beat && random.one_in(2);
    let frame_limit = if heartbeats {
        // The longest length is what marks them.
        frame_limit.min(framing.payload_limit_bytes() - 1)
    } else {
        frame_limit
    };
    // To keep takes two: one is the hook's.
    let least_messages = if on_loss == OnLoss::Keep { 2 } else { 1 };
    let limit_messages = few_messages.map_or(1_000, |few| few.max(least_messages));
    Plan {
        on_loss,
        framing_name,
        heartbeats,
        kind,
        strategy,
        longest: longest.min(framing.payload_limit_bytes()),
        framing,
        limit_bytes,
        limit_messages,
        frame_limit,
        copy_limit: random.pick(&[0, 1, 4, 40, 5_000, usize::MAX]),
        max_delay_ns,
        senders: if direct { 1 } else { random.between(1, 5) },
        direct,
        room: random.between(1, limit_bytes * 2),
        slowness: if random.one_in(6) { 30 } else { 1 },
    }
}

fn total(plan: &Plan, random: &mut Random) -> (Total, Arc<Budget>) {
    let least_bytes = plan.framing.encoded_limit_bytes(1);
    let limit_bytes = random.between(least_bytes, plan.limit_bytes * 2) as u64;
    let total = Total {
        limit_bytes,
        held_bytes: Rc::new(Cell::new(0)),
    };
    (total, Arc::new(Budget::new(limit_bytes)))
}
