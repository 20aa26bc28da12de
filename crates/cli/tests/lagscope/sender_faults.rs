//! A sender whose receiver, outputs or patience fail: said in lagscope's form, with an honest
//! status.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::face::{HEADER, Running, echo, lagscope, peer, shape, without_time};
use crate::program::{Finished, Program};

/// The last message is a ping that will not come back.
fn sent_back(pings: usize) -> u16 {
    peer(4, move |mut stream, mut message| {
        for _ in 0..=pings {
            stream.write_all(&message).unwrap();
            stream.read_exact(&mut message).unwrap();
        }
    })
}

#[track_caller]
fn console(finished: &Finished) -> String {
    finished
        .stdout
        .split_inclusive('\n')
        .map(without_time)
        .collect()
}

#[test]
fn a_refused_connection_is_an_error_and_status_3() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -o0")).ended_with(3);
    let console = console(&finished);
    let (socket, rest) = console
        .strip_prefix(&format!(
            "{HEADER}TIME ERR : failed to connect to receiver: 127.0.0.1:{port} on socket: "
        ))
        .unwrap()
        .split_once('.')
        .unwrap();
    socket.parse::<u32>().unwrap();
    assert_eq!(rest, " errno = 111\n");
    assert_eq!(
        finished.stderr,
        format!("lagscope: connect to 127.0.0.1:{port}: Connection refused (os error 111)\n")
    );
}

#[test]
fn a_name_that_nobody_knows_is_status_3() {
    let finished = lagscope("-snobody.invalid -n5").ended_with(3);
    assert_eq!(
        console(&finished),
        format!("{HEADER}TIME ERR : cannot get address info for receiver\n")
    );
    assert!(
        finished
            .stderr
            .starts_with("lagscope: resolve nobody.invalid: ")
    );
}

#[test]
fn a_receiver_that_dies_leaves_figures_and_status_4() {
    let port = sent_back(50);
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -n50000000")).ended_with(4);
    assert_eq!(
        shape(&finished.stdout, port),
        format!(
            "{HEADER}TIME INFO: New connection: local:N [socket:N] --> 127.0.0.1:6001\n\
             TIME ERR : failed to receive bytes from server\n\
             TIME INFO: TEST COMPLETED.\n\
             TIME INFO: Ping statistics for 127.0.0.1:\n\
             TIME INFO: \t  Number of successful Pings: 50\n\
             TIME INFO: \t  Minimum = Nus, Maximum = Nus, Average = Nus\n"
        )
    );
    assert_eq!(
        finished.stderr,
        format!(
            "lagscope: 127.0.0.1:{port}: the receiver has closed the connection; 50 pings had come \
             back\n"
        )
    );
}

/// It takes the ten seconds.
#[test]
fn a_receiver_that_never_answers_is_status_3() {
    let port = peer(4, |mut stream, _| {
        // Until the sender gives up.
        let _ = stream.read(&mut [0]);
    });
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -P -H")).ended_with(3);
    assert!(
        console(&finished).ends_with(
            "TIME ERR : no reply from server within 10 seconds\n\
             TIME INFO: TEST COMPLETED.\n\
             TIME INFO: Ping statistics for 127.0.0.1:\n\
             TIME INFO: \t  Number of successful Pings: 0\n"
        ),
        "{}",
        finished.stdout
    );
}

#[test]
fn other_bytes_are_no_reply() {
    let port = peer(4, |mut stream, _| {
        stream.write_all(b"SSH-2.0").unwrap();
        let _ = stream.read(&mut [0]);
    });
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -n9")).ended_with(3);
    assert!(
        finished
            .stdout
            .contains(" ERR : reply from server differs from what was sent\n")
    );
}

#[test]
fn a_reply_that_comes_twice_is_not_taken_for_the_next() {
    let port = peer(4, |mut stream, mut message| {
        for _ in 0..5 {
            stream.write_all(&message).unwrap();
            stream.read_exact(&mut message).unwrap();
        }
        stream.write_all(&message.repeat(2)).unwrap();
        let _ = stream.read_to_end(&mut message);
    });
    let finished = lagscope(&format!("-s127.0.0.1 -p{port} -n9")).ended_with(4);
    assert!(
        finished
            .stdout
            .contains(" ERR : reply from server differs from what was sent\n")
    );
    assert!(finished.stdout.contains("Number of successful Pings: 5\n"));
}

/// Ends a long run by a signal, once a hundred pings have come back.
fn ended_by(name: &str) -> (Finished, u16) {
    let (port, messages) = echo(4);
    let running = Running::start(&format!("-s127.0.0.1 -p{port} -P -n50000000000"));
    for _ in 0..100 {
        messages.recv().unwrap();
    }
    (running.end_by(name), port)
}

#[test]
fn an_interrupt_ends_with_statistics_and_130() {
    let (finished, port) = ended_by("INT");
    let finished = finished.ended_with(130);
    let shaped = shape(&finished.stdout, port);
    assert!(
        shaped.contains(
            " --> 127.0.0.1:6001\n\
             TIME INFO: Interrupted by Ctrl+C\n\
             TIME INFO: TEST COMPLETED.\n\
             TIME INFO: Ping statistics for 127.0.0.1:\n"
        ),
        "{shaped}"
    );
    assert!(shaped.ends_with(" 99.999% \t N\n"), "{shaped}");
}

#[test]
fn a_sigterm_ends_with_statistics_and_143() {
    let (finished, _) = ended_by("TERM");
    let finished = finished.ended_with(143);
    assert!(finished.stdout.contains("Ping statistics for 127.0.0.1:\n"));
    assert!(!finished.stdout.contains("Ctrl+C"));
}

#[test]
fn an_interrupt_ends_a_pause() {
    let (port, messages) = echo(4);
    let running = Running::start(&format!("-s127.0.0.1 -p{port} -t36000000 -i36000000"));
    for _ in 0..2 {
        messages.recv().unwrap();
    }
    let finished = running.end_by("INT").ended_with(130);
    assert!(finished.stdout.contains("Number of successful Pings: "));
}

/// Ten thousand hours in 200 MB of addresses: memory does not follow the length of a run.
#[test]
fn a_run_of_years_starts_small() {
    let (port, messages) = echo(4);
    let mut program = Program::new("", &[]);
    let line = format!(
        "ulimit -v 200000; exec \"$0\" lagscope -s127.0.0.1 -p{port} -t36000000 -H -P -c98 -l1"
    );
    program.command = std::process::Command::new("sh");
    program.command.args(["-c", &line]);
    program
        .command
        .arg(assert_cmd::cargo::cargo_bin!("tautline"));
    program.command.stdin(Stdio::null());
    let running = Running::from(program);
    for _ in 0..1_000 {
        messages.recv().unwrap();
    }
    let finished = running.end_by("INT");
    assert_eq!(finished.status, 130, "{}", finished.stderr);
    assert!(finished.stdout.contains("Interval(usec)\t Frequency\n"));
}

#[test]
fn a_file_that_cannot_be_opened_is_said_before_anything_is_sent() {
    for (words, kind) in [
        ("-R/nonexistent/x.csv", "csv"),
        ("-P/nonexistent/x.json", "json"),
    ] {
        let finished = lagscope(&format!("-s127.0.0.1 {words}")).ended_with(3);
        assert_eq!(
            console(&finished),
            format!("{HEADER}TIME ERR : could not create {kind} file: /nonexistent/x.{kind}\n")
        );
        assert!(
            finished.stderr.contains("No such file or directory"),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_figures_and_status_4() {
    for words in ["-R/dev/full", "-P/dev/full"] {
        let (port, _messages) = echo(4);
        let finished = lagscope(&format!("-s127.0.0.1 -p{port} -n20 {words}")).ended_with(4);
        assert!(finished.stdout.contains("Number of successful Pings: 20\n"));
        assert!(
            finished.stdout.contains(" ERR : could not write "),
            "{}",
            finished.stdout
        );
        assert!(!finished.stdout.contains("Dumping"), "{}", finished.stdout);
        assert!(
            finished.stderr.contains("No space left on device"),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn a_closed_console_ends_quietly_with_4() {
    let (port, _messages) = echo(4);
    let mut program = Program::new(&format!("lagscope -s127.0.0.1 -p{port} -V -n50000000"), &[]);
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    let child = program
        .command
        .stdout(OwnedFd::from(writer))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let finished = Finished::wait(child, &program.folder).ended_with(4);
    assert_eq!(finished.stderr, "");
}

#[test]
fn a_full_console_says_so_with_4() {
    let mut program = Program::new("lagscope -h", &[]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = program
        .command
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let finished = Finished::wait(child, &program.folder).ended_with(4);
    assert_eq!(
        finished.stderr,
        "lagscope: write standard output: No space left on device (os error 28)\n"
    );
}
