//! `tautline serve` and `tautline stream` as their users and scripts meet them.

mod program;
mod serving;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use program::{Finished, Program, signal};
use serving::Serving;

impl Serving {
    fn connect(&self) -> TcpStream {
        let address = self.addresses[0].strip_prefix("tcp://").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// Its status, and what it said behind its first lines, on standard output and standard error.
    fn ended(mut self) -> (i32, String, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let finished = Finished::wait(self.child.take().unwrap(), &self.folder);
        assert_eq!(finished.left, Vec::<String>::new());
        (finished.status, rest, finished.stderr)
    }
}

/// As lagscope sends: the plainest client there is.
fn exchange(stream: &mut TcpStream) {
    stream.write_all(&[0xd0, 0x14, 0, 0]).unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, [0xd0, 0x14, 0, 0]);
}

#[test]
fn sigterm_ends_it_with_a_summary_and_nothing_left_behind() {
    for name in ["TERM", "INT"] {
        let serving = Serving::start("serve tcp://127.0.0.1:0 udp://127.0.0.1:0");
        assert_eq!(serving.addresses.len(), 2);
        assert!(serving.said.contains("Nobody has to prove who they are"));
        let mut stream = serving.connect();
        exchange(&mut stream);
        signal(name, serving.pid());
        let (status, rest, stderr) = serving.ended();
        assert_eq!((status, stderr.as_str()), (0, ""));
        assert!(rest.starts_with("served for "), "{rest}");
        let counts = "clients 1, messages 1, MiB 0.0, refused 0, dropped datagrams 0\n";
        assert!(rest.ends_with(counts), "{rest}");
    }
}

#[test]
fn a_unix_socket_is_gone_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let serving = Serving::start(&format!("serve uds://{}", path.display()));
    UnixStream::connect(&path).unwrap();
    signal("TERM", serving.pid());
    assert_eq!(serving.ended().0, 0);
    assert!(!path.exists());
}

#[test]
fn once_ends_by_itself() {
    let serving = Serving::start("serve tcp://127.0.0.1:0 --once");
    exchange(&mut serving.connect());
    let (status, rest, _) = serving.ended();
    assert_eq!(status, 0);
    assert!(rest.contains("clients 1, messages 1,"), "{rest}");
}

#[test]
fn once_over_datagrams_ends_when_the_client_has_fallen_silent() {
    let serving = Serving::start("serve udp://127.0.0.1:0 --once");
    let words = format!("ping {} -n 20 --warmup 0", serving.addresses[0]);
    Program::new(&words, &[]).run().ended_with(0);
    let (status, rest, _) = serving.ended();
    assert_eq!(status, 0);
    assert!(rest.contains("clients 1, messages 20,"), "{rest}");
}

#[test]
fn the_ready_file_tells_the_addresses_while_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ready");
    let words = format!("serve tcp://127.0.0.1:0 --ready-file {}", path.display());
    let serving = Serving::start(&words);
    let told = loop {
        // It is told behind the lines on standard output.
        if let Ok(told) = fs::read_to_string(&path) {
            break told;
        }
        std::thread::yield_now();
    };
    assert_eq!(told, format!("{}\n", serving.addresses[0]));
    signal("TERM", serving.pid());
    assert_eq!(serving.ended().0, 0);
    assert!(!path.exists());
}

#[test]
fn the_ready_descriptor_is_told_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let program = assert_cmd::cargo::cargo_bin!("tautline").display();
    // The reader ends when the descriptor is closed, and only then is the server told to end.
    let script = format!(
        "mkfifo f; {program} serve tcp://127.0.0.1:0 --ready-fd 7 7>f >o & \
         cat f; kill -TERM $!; wait $!"
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("tcp://127.0.0.1:"), "{told}");
    assert_eq!(told.lines().count(), 1);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn who_is_refused_is_told_on_standard_error() {
    let serving = Serving::start("serve tcp://127.0.0.1:0 --allow 10.0.0.0/8 --allow fe80::/10");
    assert!(serving.said.contains("only the networks of --allow"));
    let mut stream = serving.connect();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    signal("TERM", serving.pid());
    let (status, rest, stderr) = serving.ended();
    assert_eq!(status, 0);
    assert!(rest.contains("refused 1,"), "{rest}");
    assert!(
        stderr.starts_with("tautline: refused tcp://127.0.0.1:"),
        "{stderr}"
    );
}

#[test]
fn a_port_in_use_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", taken.local_addr().unwrap());
    let finished = Program::new("serve", &[&address]).run().ended_with(3);
    assert_eq!(finished.stdout, "");
    // Held by this test.
    let id = std::process::id();
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let name = name.trim_end();
    assert_eq!(
        finished.stderr,
        format!(
            "tautline: listen on {address}: bind: address in use: held by {name} (pid {id}); choose \
             another port, or 0 for a free one\n"
        )
    );
}

#[test]
fn what_cannot_be_had_is_status_3() {
    for words in [
        "serve tcp://nobody.invalid:0",
        "serve udp://nobody.invalid:0",
        "serve tcp://203.0.113.7:0",
        "serve udp://203.0.113.7:0",
        "serve tcp://127.0.0.1:0 --cpu 999",
        "serve tcp://127.0.0.1:0 --ready-file /nowhere/ready",
        "serve tcp://127.0.0.1:0 --ready-fd 987",
        "serve tcp://127.0.0.1:0 --ready-fd 1",
    ] {
        let finished = Program::new(words, &[]).run().ended_with(3);
        assert!(finished.stderr.starts_with("tautline: "), "{words}");
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
}

#[test]
fn what_cannot_be_followed_is_usage() {
    for (words, named) in [
        ("serve ftp://x", "ftp"),
        ("serve tcp://127.0.0.1", "port is missing"),
        ("serve tcp://127.0.0.1:70000", "70000"),
        ("serve uds://relative", "relative"),
        ("serve --allow", "--allow"),
        ("serve --allow 10.0.0.0/33", "10.0.0.0/33"),
        ("serve --reply-delay", "--reply-delay"),
        ("serve --reply-delay 5", "--reply-delay"),
        ("serve --reply-delay -5us", "--reply-delay"),
        ("serve --reply-delay 1,5ms", "--reply-delay"),
        ("serve --reply-delay nan", "--reply-delay"),
        ("serve --reply-delay 10h", "--reply-delay"),
        ("serve --ready-fd x", "--ready-fd"),
        ("serve --ready-fd -1", "-1"),
        ("serve --cpu 1,", "--cpu"),
        ("serve --sched fifo:100", "--sched"),
        ("serve --require-sched", "--sched"),
        ("serve --once --once", "--once"),
        ("serve --unknown", "--unknown"),
    ] {
        let finished = Program::new(words, &[]).run().ended_with(2);
        assert!(
            finished.stderr.contains(named),
            "{words}: {}",
            finished.stderr
        );
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn a_required_scheduler_that_is_refused_ends_it() {
    let started = Program::new(
        "serve tcp://127.0.0.1:0 --once --sched fifo:10 --require-sched",
        &[],
    );
    // Root may; whoever may not is told.
    if fs::read_to_string("/proc/self/status")
        .unwrap()
        .contains("CapEff:\t0000000000000000")
    {
        let finished = started.run().ended_with(3);
        assert!(finished.stderr.contains("--sched fifo:10"));
    } else {
        println!("skipped: this user may have any scheduler");
    }
}
