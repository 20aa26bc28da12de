//! The program under test: started with a folder of its own for temporary files, waited for with a
//! watchdog, and asked what it left behind.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

/// Longer than any of these runs on any machine that is alive.
const WATCHDOG: Duration = Duration::from_secs(120);

/// The program, with a folder for temporary files of its own.
pub(crate) struct Program {
    pub(crate) command: Command,
    pub(crate) folder: TempDir,
}

impl Program {
    /// Takes words that hold no space, then words that may.
    pub(crate) fn new(words: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("tautline"));
        command
            .args(words.split_whitespace())
            .args(more)
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null());
        Self { command, folder }
    }

    /// Runs it to its end.
    pub(crate) fn run(mut self) -> Finished {
        let child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Finished::wait(child, &self.folder)
    }
}

/// What a program left behind.
pub(crate) struct Finished {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Files in its folder for temporary ones.
    pub(crate) left: Vec<String>,
}

impl Finished {
    /// Waits for its end, and looks what it left.
    pub(crate) fn wait(child: Child, folder: &TempDir) -> Self {
        let pid = child.id();
        let (finished, output) = mpsc::channel();
        std::thread::spawn(move || finished.send(child.wait_with_output()));
        let output: Output = match output.recv_timeout(WATCHDOG) {
            Ok(output) => output.unwrap(),
            Err(_) => {
                signal("KILL", pid);
                panic!("the program did not end");
            }
        };
        let left = fs::read_dir(folder.path()).unwrap();
        Self {
            status: output.status.code().expect("it ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            left: left
                .map(|file| file.unwrap().path().display().to_string())
                .collect(),
        }
    }

    /// Ended with this status, and left no file.
    #[track_caller]
    pub(crate) fn ended_with(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.left, Vec::<String>::new());
        self
    }
}

/// Sends a signal as a shell does.
pub(crate) fn signal(name: &str, pid: u32) {
    let kill = format!("kill -{name} {pid}");
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
}
