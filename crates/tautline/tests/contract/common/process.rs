//! This process as the kernel sees it, and tests that need a process of their own.

use std::fs;
use std::process::Command;

/// The threads of this process that have this name.
pub(crate) fn thread_ids(name: &str) -> Vec<u32> {
    let of = |id: u32| {
        // The thread may have ended meanwhile.
        let found = fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok()?;
        (found.trim_end() == name).then_some(id)
    };
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(of)
        .collect()
}

/// The thread that calls.
pub(crate) fn own_thread_id() -> u32 {
    let own = fs::read_link("/proc/thread-self").unwrap();
    own.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Whether a thread sleeps: what it was about to wait for, it waits for now.
pub(crate) fn is_asleep(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap();
    // The name, which may hold anything, stands in brackets before it.
    stat.rsplit(')')
        .next()
        .unwrap()
        .trim_start()
        .starts_with('S')
}

/// Memory that this process has set aside, touched or not.
pub(crate) fn reserved_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// Runs this test once more, alone in a process of its own, which a shell prepares first.
pub(crate) fn child(test: &str, prepare: &str) {
    let this = std::env::current_exe().unwrap();
    let run = format!("{prepare} exec \"$0\" --exact \"$1\" --nocapture --test-threads=1");
    let output = Command::new("sh")
        .args(["-c", &run])
        .arg(this)
        .arg(test)
        .env(CHILD, test)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}:\n{told}\n{failed}",
        output.status
    );
    assert!(told.contains("1 passed"), "it did not run:\n{told}");
}

/// Whether this is the process that [`child`] started for this test.
pub(crate) fn in_child(test: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|name| name == test)
}

const CHILD: &str = "TAUTLINE_TEST_ALONE";
