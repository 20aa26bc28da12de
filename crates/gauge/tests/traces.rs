//! A run leaves nothing behind. Alone in its binary, because it looks at the whole process.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use tautline_gauge::plan::{LatencyPlan, Plan, StrategyPlan};
use tautline_gauge::run::bench;

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}

fn own_folders() -> usize {
    let prefix = format!("tautline-{}-", process::id());
    let entries = fs::read_dir(env::temp_dir()).unwrap();
    entries
        .filter(|entry| {
            entry
                .as_ref()
                .is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        })
        .count()
}

#[test]
fn no_thread_no_descriptor_and_no_file_is_left_behind() {
    let (threads, descriptors) = (entries("/proc/self/task"), entries("/proc/self/fd"));
    let latency = LatencyPlan {
        sizes: vec![64],
        runs: 2,
        rounds: 2,
        iterations: 20,
        warmup: 0,
        ..LatencyPlan::default()
    };
    let strategy = StrategyPlan {
        sizes: vec![64],
        runs: 1,
        duration: Duration::from_millis(20),
        ..StrategyPlan::default()
    };
    let mut plan = Plan {
        latency: Some(latency),
        strategy: Some(strategy),
        ..Plan::full(3)
    };
    plan.placement.stay_awake = true;
    plan.placement.keep_cpus_busy = true;
    let plan = plan.checked().unwrap();
    let mut folders = 0;
    let result = bench(
        &plan,
        &mut |_| folders = folders.max(own_folders()),
        &AtomicBool::new(false),
    );
    assert_eq!(result.error, None);
    assert_eq!(
        (folders, own_folders()),
        (1, 0),
        "one folder, gone at the end"
    );

    // An I/O thread ends by itself soon after its last link.
    let watchdog = Instant::now() + Duration::from_secs(30);
    while entries("/proc/self/task") > threads || entries("/proc/self/fd") > descriptors {
        assert!(
            Instant::now() < watchdog,
            "{} threads were {threads}, {} descriptors were {descriptors}",
            entries("/proc/self/task"),
            entries("/proc/self/fd"),
        );
        thread::yield_now();
    }
}
