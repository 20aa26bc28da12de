//! `tautline bench` over TLS, over pseudo-terminals and on one port, from the outside: the page, the
//! bundle, and what is refused.

#![cfg(all(feature = "serial", feature = "tls"))]

mod program;
mod schema;

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::thread::{self, JoinHandle};

use tautline_gauge::null_modem::NullModem;

use self::program::Program;
use self::schema::json;

/// The smallest latency run that has intervals.
const ECHOES: &str = "bench latency --sizes 64 --repeats 1 --rounds 6 -n 60 --warmup 10";

/// A port that sends back what it is sent.
fn joined() -> (NullModem, JoinHandle<()>) {
    let modem = NullModem::start(|| Ok(())).unwrap();
    let far = OpenOptions::new().read(true).write(true).open(modem.far());
    let mut far = far.unwrap();
    let echo = thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(bytes @ 1..) = far.read(&mut buffer) {
            if far.write_all(&buffer[..bytes]).is_err() {
                return;
            }
        }
    });
    (modem, echo)
}

#[test]
fn a_page_over_tls_and_terminals_says_what_they_are_and_its_bundle_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("run");
    let bundle = bundle.to_str().unwrap();
    let page = Program::new(ECHOES, &["--transports", "tcp,tls,serial", "--out", bundle])
        .run()
        .ended_with(0)
        .stdout;
    for said in [
        "null-modem",
        "- tls: the control is rustls over blocking sockets",
        "TLS 1.3, TLS_",
        "- serial: pseudo-terminals joined by a thread",
        "- tls / tcp, p50 at 64 B: control ",
    ] {
        assert!(page.contains(said), "{said} is not in:\n{page}");
    }
    Program::new("verify", &[bundle]).run().ended_with(0);
    let same = Program::new("compare", &[bundle, bundle])
        .run()
        .ended_with(0)
        .stdout;
    assert!(same.contains("serial direct 64 B"), "{same}");
}

#[test]
fn a_port_whose_ends_are_joined_gives_its_page_and_report() {
    let (modem, echo) = joined();
    let port = format!("{}?exclusive=off", modem.near().display());
    let finished = Program::new(ECHOES, &["--json", "-", "--loopback-plug", &port])
        .run()
        .ended_with(0);
    let report = json(&finished.stdout);
    let row = &report["latency"][0];
    assert_eq!(row["transport"], "serial");
    assert_eq!(row["port"], modem.near_address().to_string());
    assert!(
        row["wire_time_ns"].is_null(),
        "a pseudo-terminal has no wire"
    );
    assert!(
        finished.stderr.contains("on serial:///dev/pts/"),
        "{}",
        finished.stderr
    );
    drop(modem);
    echo.join().unwrap();
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    for (words, said) in [
        (
            vec!["--to", "tls://h:1"],
            "error: --to: tls://h:1: over tls both ends are measured in one process",
        ),
        (
            vec!["--loopback-plug", "tcp://h:1"],
            "error: invalid value 'tcp://h:1' for '--loopback-plug <PORT>': tcp is no serial port: a path \
             such as /dev/ttyUSB0?baud=115200",
        ),
        (
            vec!["--loopback-plug", "ttyUSB0"],
            "error: invalid value 'ttyUSB0' for '--loopback-plug <PORT>': \"serial://ttyUSB0\": the path is \
             absolute, with three slashes: serial:///dev/ttyUSB0",
        ),
        (
            vec!["--loopback-plug", "/dev/ttyS0", "--transports", "uds"],
            "error: --loopback-plug: it is a serial port, and measures no other transport",
        ),
        (
            vec!["--loopback-plug", "/dev/ttyS0", "--bind", "uds://@x"],
            "error: the argument '--loopback-plug <PORT>' cannot be used with '--bind <ADDRESS>'",
        ),
    ] {
        let finished = Program::new("bench latency", &words).run().ended_with(2);
        assert_eq!(finished.stderr.lines().next(), Some(said));
    }
    let hours = Program::new("bench latency --loopback-plug /dev/ttyS0?baud=300", &[])
        .run()
        .ended_with(2);
    assert!(
        hours.stderr.contains("by --iterations that it shall take"),
        "{}",
        hours.stderr
    );
    let none = Program::new(ECHOES, &["--loopback-plug", "/dev/ttyNONE7"])
        .run()
        .ended_with(3);
    assert!(none.stderr.contains("ttyNONE7"), "{}", none.stderr);
}
