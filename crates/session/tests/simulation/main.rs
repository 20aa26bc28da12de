//! Thousands of lives of the session, each drawn from a seed: threads that send, wait and give up, a
//! kernel that takes what it likes, connections that are lost and opened again between take and
//! settle. After every step the session must agree with a plain model of what it promises, and at
//! the end what came out must be what was written.
//!
//! A life that breaks a promise says which seed it had and how to live it again, step by step. More
//! lives: `TAUTLINE_LIVES=1000000 cargo test -p tautline-session --release --test simulation`.

mod desk;
mod framings;
mod link;
mod lives;
mod model;
mod random;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::time::Instant;

use tautline_session::Strategy;

/// Lives of an ordinary test run: seconds, unoptimised.
const LIVES: u64 = 24_000;

#[test]
fn every_life_keeps_the_promises() {
    if let Some(seed) = number("TAUTLINE_SEED") {
        lives::live(seed, true);
        return;
    }
    let (began, count) = (Instant::now(), number("TAUTLINE_LIVES").unwrap_or(LIVES));
    let mut seen = BTreeSet::new();
    let mut table: BTreeMap<Row, Came> = BTreeMap::new();
    for seed in 0..count {
        match catch_unwind(|| lives::live(seed, false)) {
            Ok(life) => {
                let row = (life.framing, life.strategy.as_str(), life.keeps);
                let came = table.entry(row).or_default();
                came.lives += 1;
                for what in life.seen {
                    seen.insert(what);
                    *came.to.entry(what).or_default() += 1;
                }
            }
            Err(_) => panic!(
                "the life of seed {seed} broke a promise (above); live it again step by step:\n\
                 TAUTLINE_SEED={seed} cargo test -p tautline-session --test simulation -- --nocapture"
            ),
        }
    }
    let per_second = count as f64 / began.elapsed().as_secs_f64();
    println!("{count} lives, {per_second:.0} a second");
    // A life that never meets the fault proves nothing about it.
    if count >= LIVES {
        let missing: Vec<&str> = EVENTS
            .iter()
            .copied()
            .filter(|event| !seen.contains(event))
            .collect();
        assert_eq!(missing, [] as [&str; 0], "no life came to this");
        check_table(&table);
    }
    for event in seen {
        assert!(EVENTS.contains(&event), "'{event}' stands in no list");
    }
}

/// A framing (none of datagrams), a strategy, and whether messages are kept over a loss.
type Row = (Option<&'static str>, &'static str, bool);

/// How many lives there were, and how many of them came to what.
#[derive(Debug, Default)]
struct Came {
    lives: u64,
    to: BTreeMap<&'static str, u64>,
}

/// Each framing with each strategy and each setting for losses, and of each of these lives some that
/// came to each kind of fault.
fn check_table(table: &BTreeMap<Row, Came>) {
    let mut rows = 0;
    for strategy in Strategy::ALL {
        for keeps in [false, true] {
            for framing in framings::NAMES {
                // A message that might be cut is not kept.
                if framing != "raw" || !keeps {
                    let row = (Some(framing), strategy.as_str(), keeps);
                    check_row(table, row, &faults_of(framing, keeps));
                    rows += 1;
                }
            }
        }
        let row = (None, strategy.as_str(), false);
        check_row(table, row, &DATAGRAM_FAULTS);
        rows += 1;
    }
    assert_eq!(table.len(), rows, "a kind of life that is in no list");
}

fn check_row(table: &BTreeMap<Row, Came>, row: Row, faults: &[&str]) {
    let came = table.get(&row);
    let came = came.unwrap_or_else(|| panic!("no life of {row:?}"));
    let (framing, strategy, keeps) = row;
    let on_loss = if keeps { "keep" } else { "discard" };
    let times: Vec<u64> = faults
        .iter()
        .map(|fault| came.to.get(fault).copied().unwrap_or(0))
        .collect();
    let framing = framing.unwrap_or("datagrams");
    println!(
        "{framing:20} {strategy:10} {on_loss:7}: {:6} lives, of which came to its faults {times:?}",
        came.lives
    );
    for (fault, times) in faults.iter().zip(times) {
        assert!(times > 0, "no life of {row:?} came to this: {fault}");
    }
}

fn faults_of(framing: &str, keeps: bool) -> Vec<&'static str> {
    let mut faults = STREAM_FAULTS.to_vec();
    if framing.starts_with("prefix") {
        faults.push("a control frame is let in");
    }
    if keeps {
        faults.push("a connection opens with what was kept");
    }
    faults
}

const STREAM_FAULTS: [&str; 5] = [
    "some of a block is written",
    "the kernel is full",
    "a connection ends in the middle of a message",
    "a connection ends under a writer",
    "a connection opens while a writer is at the last one",
];

const DATAGRAM_FAULTS: [&str; 5] = [
    "the kernel refuses a datagram of a block",
    "the kernel refuses a sender's datagram",
    "the kernel is full",
    "a connection ends under a writer",
    "a connection opens while a writer is at the last one",
];

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// What all lives together must come to.
const EVENTS: [&str; 44] = [
    "a block is written to an old connection",
    "a connection ends in the middle of a message",
    "a connection ends under a writer",
    "a connection opens with what was kept",
    "a connection opens while a writer is at the last one",
    "a control frame is left out",
    "a control frame is let in",
    "a hot sender's message is gathered",
    "a hook sends",
    "a hook uses the room set aside for it",
    "a peer closes",
    "a send is refused: closed",
    "a send is refused: full",
    "a send is refused: it would wait",
    "a send is refused: its framing cannot carry it",
    "a send is refused: not connected",
    "a send is refused: too large",
    "a message joins others by the short way",
    "a send waits",
    "a sender finds the kernel full",
    "a sender writes a part",
    "a sender writes all",
    "a sender writes to an old connection",
    "a sender writes what it was handed",
    "a wait ends with its connection",
    "a wait ends with its link",
    "a wait is given up",
    "a wait is given up that was granted room",
    "a wait is given up that was over",
    "a wait is redeemed too early",
    "a wait is served",
    "all of a block of datagrams is sent",
    "an offer finds messages too old",
    "a writer finds messages too old",
    "pressure changes",
    "some of a block is written",
    "the clock finds messages too old",
    "the kernel is full",
    "the reopen hook returns",
    "untouched messages of a block in hand are kept",
    "untouched messages of a sender in hand are kept",
    "what was kept is given up",
    "the kernel refuses a datagram of a block",
    "the kernel refuses a sender's datagram",
];
