//! The command line of the benchmark.

use std::path::PathBuf;
use std::time::Duration;

use tautline_gauge::plan::Transport;

use crate::program::list::{self, Condition, Target};
use crate::program::once::Once;
use crate::program::options::{Asked, HELP, Options};
use crate::program::peers::Peer;

fn parse(line: &str) -> Result<Asked, String> {
    Options::parse(line.split_whitespace().map(str::to_owned))
}

#[test]
fn every_option_is_read() {
    let line = "--bench --only T4,t15 --conditions one-core,split --transports uds --payloads 64,1024 --peers tokio \
                --rounds 20 --block-ms 5 --rate 5000 --links 50 --once echo --messages 7 --seed 9 --json out.json";
    let asked = Options {
        only: vec![Target::T4, Target::T15],
        conditions: vec![Condition::OneCore, Condition::Split],
        transports: vec![Transport::Uds],
        payloads: vec![64, 1_024],
        peers: vec![Peer::Tokio],
        rounds: 20,
        block: Duration::from_millis(5),
        once: Some(Once::Echo),
        messages: 7,
        links: 50,
        rate_hz: Some(5_000),
        seed: 9,
        json: Some(PathBuf::from("out.json")),
    };
    assert_eq!(parse(line), Ok(Asked::Run(Box::new(asked))));
}

#[test]
fn quick_is_a_few_short_rounds_and_the_default_fifteen() {
    let Ok(Asked::Run(quick)) = parse("--quick") else {
        panic!("it is an option");
    };
    assert_eq!((quick.rounds, quick.block.as_millis()), (8, 20));
    let Ok(Asked::Run(plain)) = parse("") else {
        panic!("nothing is needed");
    };
    assert_eq!((plain.rounds, plain.block.as_millis()), (15, 80));
    assert_eq!(parse("--help"), Ok(Asked::Help));
}

#[test]
fn all_peers_run_unless_some_or_none_are_named() {
    for (line, peers) in [
        ("", Peer::ALL.to_vec()),
        ("--peers none", Vec::new()),
        ("--peers iperf3,tokio", vec![Peer::Iperf3, Peer::Tokio]),
    ] {
        let Ok(Asked::Run(options)) = parse(line) else {
            panic!("{line} is an option");
        };
        assert_eq!(options.peers, peers, "{line}");
    }
}

#[test]
fn a_mistake_is_named() {
    for (line, why) in [
        (
            "--only T20",
            "--only T20: no such target; there are T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 \
             T13 T14 T15 cost spin P1 P2",
        ),
        (
            "--conditions warm",
            "--conditions warm: no such condition; there are one-core awake halting split free veth",
        ),
        ("--once both", "--once both: stream, burst or echo"),
        (
            "--peers zeromq",
            "--peers zeromq: no such peer; there are tokio sockperf iperf3, or none",
        ),
        ("--rounds 0", "--rounds 0: a number from 1 to 1000"),
        ("--block-ms 500", "--block-ms 500: a number from 1 to 100"),
        ("--seed", "--seed needs a value"),
        ("--fast", "--fast: no such option; --help names them"),
    ] {
        assert_eq!(parse(line), Err(why.to_owned()));
    }
}

#[test]
fn a_default_run_stays_under_a_quarter_of_an_hour_and_help_says_how_long_it_is() {
    let minutes = list::expected(&Options::default()).as_secs_f64() / 60.0;
    assert!((9.0..11.0).contains(&minutes), "{minutes}");
    assert!(HELP.contains("about ten minutes"));
}

#[test]
fn what_is_not_asked_for_takes_no_time() {
    let Ok(Asked::Run(options)) = parse("--only T9 --peers none --rounds 10 --block-ms 100") else {
        panic!("these are options");
    };
    // Two groups of two sides, each a block and ten of 1.1 blocks.
    assert_eq!(list::expected(&options).as_millis(), 4_800);
}
