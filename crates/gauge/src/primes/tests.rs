//! Whole counts, on threads.

use super::*;

fn whole(limit: u64, threads: usize) -> u64 {
    let stop = AtomicBool::new(false);
    let plan = Plan::once(limit, threads, Sched::Other);
    let counted = count(&plan, &stop, None, &mut |_| ()).unwrap();
    assert_eq!(counted.reached.below, limit + 1);
    counted.first.unwrap().primes
}

#[test]
fn pi_of_a_billion() {
    assert_eq!(whole(1_000_000_000, 2), 50_847_534);
}

/// Some seconds in release: cargo test --release -- --ignored
#[test]
#[ignore = "takes half a minute unoptimised"]
fn pi_of_ten_billion() {
    assert_eq!(whole(10_000_000_000, 2), 455_052_511);
}

#[test]
fn any_number_of_threads_counts_the_same() {
    for threads in [1, 2, 3, 7] {
        assert_eq!(whole(3_000_000, threads), 216_816, "{threads}");
    }
    assert_eq!(whole(1, 4), 0);
    assert_eq!(whole(2, 4), 1);
}

#[test]
fn a_count_that_was_stopped_goes_on_where_it_was() {
    let stop = AtomicBool::new(false);
    let limit = 200_000_000;
    let mut plan = Plan::once(limit, 2, Sched::Other);
    // Stopped as soon as anything is known.
    let counting = Counting::start(&plan).unwrap();
    while counting.reached().below == 0 {
        thread::yield_now();
    }
    let stopped = counting.stop();
    assert!(stopped.reached.below > 0 && stopped.reached.primes > 0);
    plan.from = stopped.reached;
    let counted = count(&plan, &stop, None, &mut |_| ()).unwrap();
    assert_eq!(counted.first.unwrap().primes, 11_078_937);
}

#[test]
fn a_load_begins_again_after_each_whole_count() {
    let plan = Plan {
        repeat: true,
        ..Plan::once(2_000_000, 2, Sched::Idle)
    };
    let load = Counting::start(&plan).unwrap();
    while load.shared.rounds().whole_counts < 3 {
        load.wait(Duration::from_secs(60));
    }
    assert!(!load.finished());
    assert!(load.cpus_seen() >= 1);
    let counted = load.stop();
    assert_eq!(counted.first.unwrap().primes, 148_933);
    assert!(counted.whole_counts >= 3);
    assert_eq!(counted.sched_effective, "idle");
    assert_eq!(counted.refused, None);
}

#[test]
fn a_count_is_over_when_its_time_is() {
    let stop = AtomicBool::new(false);
    let plan = Plan::once(LARGEST_LIMIT, 2, Sched::Idle);
    let mut calls = 0;
    let counted = count(&plan, &stop, Some(Duration::from_millis(50)), &mut |_| {
        calls += 1
    })
    .unwrap();
    assert_eq!(counted.first, None);
    assert!(counted.reached.below < LARGEST_LIMIT);
    assert!(calls > 0);
}

#[test]
fn a_stop_that_is_up_already_ends_at_once() {
    let stop = AtomicBool::new(true);
    let plan = Plan::once(LARGEST_LIMIT, 1, Sched::Other);
    let counted = count(&plan, &stop, None, &mut |_| ()).unwrap();
    assert_eq!(counted.first, None);
}
