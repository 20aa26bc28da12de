//! A `tautline serve` at work, ended when its test is over.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;

use tempfile::TempDir;

use super::program::{Program, signal};

/// A server that listens.
pub(crate) struct Serving {
    pub(crate) child: Option<Child>,
    /// Where, in the order in which it says so.
    pub(crate) addresses: Vec<String>,
    /// Its first lines, up to the one behind its addresses.
    pub(crate) said: String,
    /// The rest of its standard output. A pipe that is closed would end it.
    pub(crate) stdout: BufReader<ChildStdout>,
    /// Where it was started.
    pub(crate) folder: TempDir,
}

impl Serving {
    /// Starts it and waits until it says that it listens.
    pub(crate) fn start(words: &str) -> Self {
        let Program {
            mut command,
            folder,
        } = Program::new(words, &[]);
        let mut child = command
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut addresses, mut said) = (Vec::new(), String::new());
        loop {
            let mut line = String::new();
            let length = stdout.read_line(&mut line).unwrap();
            said.push_str(&line);
            if let Some(address) = line.strip_prefix("listening on ") {
                // Behind it stands whether whoever asks has to prove anything.
                let address = address.split_whitespace().next().unwrap();
                addresses.push(address.to_owned());
            } else {
                assert!(length > 0, "{said}");
                break;
            }
        }
        Self {
            child: Some(child),
            addresses,
            said,
            stdout,
            folder,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.child.is_none() {
            return;
        }
        signal("KILL", self.pid());
        let _ = self.child.take().map(|mut child| child.wait());
        if thread::panicking() {
            // For whoever reads the failed test.
            let mut rest = String::new();
            let _ = self.stdout.read_to_string(&mut rest);
            let folder = self.folder.path().display();
            eprintln!("serve in {folder}: {}{rest}", self.said);
        }
    }
}
