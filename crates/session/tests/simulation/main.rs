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

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::time::Instant;

/// Lives of an ordinary test run: seconds, unoptimised.
const LIVES: u64 = 12_000;

#[test]
fn every_life_keeps_the_promises() {
    if let Some(seed) = number("TAUTLINE_SEED") {
        lives::live(seed, true);
        return;
    }
    let (began, count) = (Instant::now(), number("TAUTLINE_LIVES").unwrap_or(LIVES));
    let mut seen = BTreeSet::new();
    for seed in 0..count {
        match catch_unwind(|| lives::live(seed, false)) {
            Ok(what) => seen.extend(what),
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
    }
    for event in seen {
        assert!(EVENTS.contains(&event), "'{event}' stands in no list");
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// What all lives together must come to.
const EVENTS: [&str; 40] = [
    "a block is written to an old connection",
    "a connection ends under a writer",
    "a connection opens with what was kept",
    "a connection opens while a writer is at the last one",
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
