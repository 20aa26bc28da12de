//! What these tests share: the header, consoles with their times and ports taken out, plain peers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::program::{Finished, Program, signal};

pub(crate) const HEADER: &str =
    "lagscope 1.0.1\n---------------------------------------------------------\n";

/// How the first message of a sender begins.
pub(crate) const START: [u8; 4] = [0xd0, 0x14, 0, 0];

/// A sender's console without what differs from run to run: times of day, the port it goes out
/// from, whether that was free, the receiver's port, and latencies.
pub(crate) fn shape(stdout: &str, port: u16) -> String {
    let shaped = stdout
        .split_inclusive(['\n', '\r'])
        .filter(|line| !line.ends_with("Ignored\n"))
        .map(|line| shape_line(&without_time(line), port));
    shaped.collect()
}

/// A line with its time of day, if it has one, put as `TIME`.
pub(crate) fn without_time(line: &str) -> String {
    let bytes = line.as_bytes();
    let timed = bytes.len() > 9 && bytes[2] == b':' && bytes[5] == b':' && bytes[8] == b' ';
    if timed && bytes[..2].iter().all(u8::is_ascii_digit) {
        format!("TIME{}", &line[8..])
    } else {
        line.to_owned()
    }
}

fn shape_line(line: &str, port: u16) -> String {
    let line = line.replace(&format!(":{port}"), ":6001");
    let line = blank_after(&line, "local:");
    let line = blank_after(&line, "[socket:");
    let line = blank_after(&line, "time=");
    let line = ["Minimum = ", "Maximum = ", "Average = "]
        .into_iter()
        .fold(line, |line, name| blank_after(&line, name));
    if line.contains('%') {
        blank_after(&line, "% \t ")
    } else {
        line
    }
}

/// Puts `N` for the number behind a word.
fn blank_after(line: &str, word: &str) -> String {
    let Some(at) = line.find(word) else {
        return line.to_owned();
    };
    let (head, tail) = line.split_at(at + word.len());
    let rest = tail.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    format!("{head}N{rest}")
}

/// The lines of progress of a run of so many pings.
pub(crate) fn progress(percents: impl IntoIterator<Item = u64>) -> String {
    percents
        .into_iter()
        .map(|percent| format!("127.0.0.1: {percent}% completed.\r"))
        .collect()
}

/// Runs `tautline lagscope` with these words, waits for its end.
pub(crate) fn lagscope(words: &str) -> Finished {
    Program::new(&format!("lagscope {words}"), &[]).run()
}

/// A program that goes on. Its console is fetched as it comes: a pipe that nobody reads fills up,
/// and then its writer waits.
pub(crate) struct Running {
    child: Option<Child>,
    lines: Receiver<String>,
    program: Program,
}

impl Running {
    pub(crate) fn start(words: &str) -> Self {
        Self::from(Program::new(&format!("lagscope {words}"), &[]))
    }

    pub(crate) fn from(mut program: Program) -> Self {
        let mut child = program
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut console = BufReader::new(child.stdout.take().unwrap());
        let (fetched, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            while console.read_line(&mut line).unwrap() > 0 {
                let _ = fetched.send(std::mem::take(&mut line));
            }
        });
        Self {
            child: Some(child),
            lines,
            program,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child
            .as_ref()
            .expect("it has not been waited for")
            .id()
    }

    /// The console up to and with the line that holds `text`.
    #[track_caller]
    pub(crate) fn read_to(&mut self, text: &str) -> String {
        let mut read = String::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(WATCHDOG) else {
                panic!("no {text} in {read}");
            };
            read += &without_time(&line);
            if line.contains(text) {
                return read;
            }
        }
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn end_by(self, name: &str) -> Finished {
        signal(name, self.pid());
        self.wait()
    }

    /// Waits for the end; the console is what has not been read yet.
    pub(crate) fn wait(mut self) -> Finished {
        let child = self.child.take().expect("it is waited for once");
        let finished = Finished::wait(child, &self.program.folder);
        Finished {
            stdout: self.lines.iter().collect(),
            ..finished
        }
    }
}

/// Ended with its test, also where that fails.
impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Longer than any line is waited for on any machine that is alive.
const WATCHDOG: Duration = Duration::from_secs(120);

/// A receiver on a port that it tells.
pub(crate) fn receiver(words: &str) -> (Running, u16) {
    let mut running = Running::start(&format!("-r127.0.0.1 -p0 -V {words}"));
    let console = running.read_to("listening on 127.0.0.1:");
    let port = console.trim_end().rsplit(':').next().unwrap();
    let port = port.parse().unwrap();
    (running, port)
}

/// One connection taken by a plain peer: the first message is the start.
pub(crate) fn peer(
    message_bytes: usize,
    serve: impl FnOnce(TcpStream, Vec<u8>) + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut message = vec![0; message_bytes];
        stream.read_exact(&mut message).unwrap();
        let start = message_bytes.min(4);
        assert_eq!(message[..start], START[..start]);
        serve(stream, message);
    });
    port
}

/// A plain echo server for one client, which reads whole messages as the original does. Tells each
/// message that it sent back.
pub(crate) fn echo(message_bytes: usize) -> (u16, Receiver<Vec<u8>>) {
    let (told, messages) = mpsc::channel();
    let port = peer(message_bytes, move |mut stream, mut message| {
        loop {
            let _ = told.send(message.clone());
            if stream.write_all(&message).is_err() || stream.read_exact(&mut message).is_err() {
                return;
            }
        }
    });
    (port, messages)
}

/// A client that sends whole messages as the original does.
pub(crate) fn client(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).unwrap()
}

/// One message there and back.
#[track_caller]
pub(crate) fn exchange(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(message).unwrap();
    let mut reply = vec![0; message.len()];
    stream.read_exact(&mut reply).unwrap();
    assert!(reply == message, "the reply differs");
}
