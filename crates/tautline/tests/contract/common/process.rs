//! This process as the kernel sees it, and tests that need a process of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tautline::Address;

use super::Transport;

/// The threads of this process that have this name.
pub(crate) fn thread_ids(name: &str) -> Vec<u32> {
    let of = |id: u32| {
        // The thread may have ended meanwhile.
        let found = fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok()?;
        (found.trim_end() == name).then_some(id)
    };
    all_thread_ids().into_iter().filter_map(of).collect()
}

/// All threads of this process.
pub(crate) fn all_thread_ids() -> Vec<u32> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
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

/// How long a thread has been on a CPU.
pub(crate) fn cpu_time(id: u32) -> Duration {
    let told = fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

/// How often a thread has gone to sleep: as often as it was woken up, and once more.
pub(crate) fn times_slept(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap();
    let prefix = "voluntary_ctxt_switches:";
    let line = status.lines().find_map(|line| line.strip_prefix(prefix));
    line.unwrap().trim().parse().unwrap()
}

/// Memory that this process has set aside, touched or not.
pub(crate) fn reserved_bytes() -> u64 {
    memory("VmSize:")
}

/// Memory of this process that is there.
pub(crate) fn resident_bytes() -> u64 {
    memory("VmRSS:")
}

fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// Descriptors that this process has open.
pub(crate) fn open_descriptors() -> usize {
    // One of them is the folder's own.
    fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// The name by which the harness knows a test of a table.
pub(crate) fn name_of(test: &str, transport: Transport) -> String {
    format!("{test}::{}", format!("{transport:?}").to_lowercase())
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

/// Another process that runs this test too, to be the peer until it is killed; and where it listens.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    process: Child,
    pub(crate) address: Address,
}

impl PeerProcess {
    /// Starts it; it is to [tell](tell_address) where it listens.
    pub(crate) fn start(test: &str, listen_at: &Address) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, test)
            .env(LISTEN_AT, listen_at.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix(ADDRESS)?.parse().ok());
        Self {
            process,
            address: address.expect("it tells where it listens"),
        }
    }

    /// `kill -9`: it has no time for a last word.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where this process is to listen.
pub(crate) fn listen_at() -> Address {
    std::env::var(LISTEN_AT).unwrap().parse().unwrap()
}

/// Tells whoever started this process where it listens.
pub(crate) fn tell_address(address: &Address) {
    // The harness has begun a line.
    println!("\n{ADDRESS}{address}");
}

const LISTEN_AT: &str = "TAUTLINE_TEST_LISTEN_AT";
const ADDRESS: &str = "listening at ";

/// As [`child`], in namespaces of its own: `-n` for a network, `-m` for what is mounted. Whoever may not
/// make them is told what was skipped.
pub(crate) fn child_in_namespaces(test: &str, namespaces: &str, prepare: &str) {
    let unshare = format!("unshare -r {namespaces}");
    let possible = Command::new("sh")
        .args(["-c", &format!("{unshare} true")])
        .status();
    if !possible.unwrap().success() {
        println!("skipped {test}: no namespaces for this user");
        return;
    }
    // What `child` has the shell do last is done by the one inside.
    let inside = format!(r#"{prepare} exec "$0" --exact "$1" --nocapture --test-threads=1"#);
    child(
        test,
        &format!(r#"exec {unshare} sh -c '{inside}' "$0" "$1";"#),
    );
}

/// Whether this is the process that [`child`] started for this test.
pub(crate) fn in_child(test: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|name| name == test)
}

const CHILD: &str = "TAUTLINE_TEST_ALONE";
