//! One command of the user's, run to its end for what it prints: in a process group of its own, so that
//! all of it can be ended with the run.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::leftovers;
use crate::sys;

/// What a command left behind.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// The last line that it complained with.
    pub last_words: String,
}

/// Runs `sh -c COMMAND` until it ends. `None` when `stop` went up before: then it and everything it
/// started has been ended.
///
/// # Errors
///
/// When it cannot be started, goes on for more than an hour, or prints more than 256 MiB.
pub fn run(command: &str, stop: &AtomicBool) -> io::Result<Option<Finished>> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    leftovers::group_started(child.id());
    let stdout = child.stdout.take().expect("it is piped");
    let stderr = child.stderr.take().expect("it is piped");
    let outcome = thread::scope(|scope| {
        let printed = scope.spawn(|| read(stdout));
        let complained = scope.spawn(|| read(stderr));
        let ended = wait(&mut child, stop);
        // Whatever it left in its group holds the pipes open.
        signal(&child, libc::SIGKILL);
        let printed = printed.join().expect("reading does not panic");
        let complained = complained.join().expect("reading does not panic");
        ended.and_then(|status| match status {
            Some(status) => Ok(Some(Finished {
                status: status.code(),
                stdout: printed?,
                last_words: last_line(&complained?),
            })),
            None => Ok(None),
        })
    });
    // It has ended or was killed: this only takes its status.
    let _ = child.wait();
    leftovers::group_ended(child.id());
    outcome
}

/// Its status, or `None` when it was told to stop.
fn wait(child: &mut Child, stop: &AtomicBool) -> io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if stop.load(Ordering::SeqCst) {
            end(child);
            return Ok(None);
        }
        if Instant::now() >= deadline {
            end(child);
            let hours = LIMIT.as_secs() / 3_600;
            return Err(io::Error::other(format!(
                "it has not ended within {hours} h"
            )));
        }
        thread::sleep(TICK);
    }
}

/// Asks first: a measuring command writes its partial report then.
fn end(child: &mut Child) {
    signal(child, libc::SIGTERM);
    let deadline = Instant::now() + END_LIMIT;
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(TICK);
    }
}

fn signal(child: &Child, signal: libc::c_int) {
    // It may have ended by itself.
    let _ = sys::process::kill_group(child.id(), signal);
}

/// Reads on past the limit, so that the command is not stuck with a full pipe.
fn read(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(MOST_BYTES).read_to_end(&mut bytes)?;
    match io::copy(&mut from, &mut io::sink())? {
        0 => Ok(bytes),
        _ => Err(io::Error::other(format!(
            "it printed more than {} MiB",
            MOST_BYTES >> 20
        ))),
    }
}

fn last_line(complaint: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaint);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or_default().trim().to_owned()
}

/// A block that takes longer is no short block.
const LIMIT: Duration = Duration::from_secs(3_600);
/// How long a command may take to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(10);
const MOST_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_heard_to_its_end() {
        let command = "echo one; echo no >&2; echo never >&2; exit 3";
        let finished = run(command, &AtomicBool::new(false)).unwrap().unwrap();
        assert_eq!(finished.status, Some(3));
        assert_eq!(finished.stdout, b"one\n");
        assert_eq!(finished.last_words, "never");
    }

    #[test]
    fn what_a_command_leaves_running_does_not_hold_up_its_end() {
        let finished = run("sleep 1000 & echo one", &AtomicBool::new(false)).unwrap();
        assert_eq!(finished.unwrap().stdout, b"one\n");
    }

    #[test]
    fn a_command_that_is_told_to_stop_is_ended_with_its_children() {
        let outcome = run("sleep 1000; echo one", &AtomicBool::new(true)).unwrap();
        assert!(outcome.is_none());
    }
}
