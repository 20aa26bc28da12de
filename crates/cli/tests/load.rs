//! `tautline load` from the outside.

mod program;

use std::process::Stdio;

use self::program::{Finished, Program, signal};

#[test]
fn a_count_says_count_limit_seconds_and_threads() {
    let finished = Program::new("load primes --limit 1e6 --threads 2", &[])
        .run()
        .ended_with(0);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines[0], "primes    78498");
    assert_eq!(lines[1], "limit     1000000");
    assert!(lines[2].starts_with("seconds   0."), "{}", lines[2]);
    assert_eq!(lines[3], "threads   2 as idle");
    assert_eq!(finished.stderr, "");
}

#[test]
fn a_time_ends_a_count_with_how_far_it_got() {
    let finished = Program::new("load primes -t 0.2 --threads 1 --sched other", &[])
        .run()
        .ended_with(0);
    let below = finished.stdout.lines().nth(1).unwrap();
    assert!(below.starts_with("below     "), "{below}");
    assert!(below.ends_with(", of a limit of 1000000000000"), "{below}");
    assert!(finished.stdout.ends_with("threads   1 as other\n"));
}

#[test]
fn an_automatic_limit_is_1_2_or_5_times_a_power_of_ten() {
    let finished = Program::new("load primes --limit auto -t 200ms", &[])
        .run()
        .ended_with(0);
    let line = finished.stdout.lines().nth(1).unwrap();
    let limit = line.rsplit(' ').next().unwrap();
    let zeros = limit.trim_start_matches(['1', '2', '5']);
    assert_eq!(limit.len() - zeros.len(), 1, "{limit}");
    assert!(zeros.bytes().all(|digit| digit == b'0'), "{limit}");
}

/// The program says nothing before its end, so its threads are what shows that it counts.
#[test]
fn ctrl_c_ends_a_count_with_how_far_it_got() {
    let mut program = Program::new("load primes --threads 2", &[]);
    let child = program
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let threads = format!("/proc/{}/task", child.id());
    // main, the one for signals, and the two that count.
    while std::fs::read_dir(&threads).unwrap().count() < 4 {
        std::thread::yield_now();
    }
    signal("INT", child.id());
    let finished = Finished::wait(child, &program.folder).ended_with(130);
    assert!(
        finished.stdout.starts_with("primes    "),
        "{}",
        finished.stdout
    );
    assert!(
        finished.stdout.contains("below     "),
        "{}",
        finished.stdout
    );
}

#[test]
fn values_that_cannot_be_followed_are_usage_errors_that_name_the_option() {
    for (words, said) in [
        (
            ["--limit", "0"],
            "error: invalid value '0' for '--limit <LIMIT>': 0 is not within 1 to 100000000000000",
        ),
        (
            ["--limit", "1,5e9"],
            "error: invalid value '1,5e9' for '--limit <LIMIT>': expected auto or a limit such as \
             1e12 or 1000000",
        ),
        (
            ["--threads", "0"],
            "error: --threads: 0 is not within 1 to 1024",
        ),
        (["-t", "0"], "error: -t: 0 leaves no time to count"),
        (
            ["-t", "nan"],
            "error: invalid value 'nan' for '--duration <TIME>': expected a duration such as 50us, \
             500ms or 3s",
        ),
        (
            ["--sched", "fifo:100"],
            "error: invalid value 'fifo:100' for '--sched <POLICY>': \"fifo:100\" is not one of \
             other, idle, fifo:N or rr:N with N from 1 to 99",
        ),
    ] {
        let finished = Program::new("load primes", &words).run().ended_with(2);
        assert_eq!(finished.stderr.lines().next(), Some(said));
    }
}
