//! `serve`, `ping` and `stream` over serial lines: pseudo-terminals, joined by a null modem, by a relay that
//! harms what it carries, or pulled out in the middle.

mod program;
mod schema;
mod serving;

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

use program::{Finished, Program, signal};
use schema::json;
use serving::Serving;
use tautline_gauge::null_modem::NullModem;

fn modem() -> NullModem {
    NullModem::start(|| Ok(())).unwrap()
}

/// Not exclusive: the modem has its terminals locked.
fn on(path: &Path) -> String {
    format!("serial://{}?exclusive=off", path.display())
}

fn raw(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

fn run(words: &str) -> Finished {
    Program::new(words, &[]).run()
}

#[test]
fn a_ping_finds_its_way_through_what_stood_on_the_line_before() {
    let modem = modem();
    let far = on(modem.far());
    let serving = Serving::start(&format!("serve {}", on(modem.near())));
    assert!(serving.addresses[0].ends_with("?baud=115200&exclusive=off"));
    assert!(serving.said.contains("whoever is at the other end"));
    // Boot words of a device, half a hello of a client that left, and zeros.
    raw(modem.far())
        .write_all(b"U-Boot 2024.01\r\n\0\x11TAUT\x01\0\0\xd0\x14 half a mess")
        .unwrap();
    let finished = run(&format!("ping {far} -n 300 --json -")).ended_with(0);
    let document = json(&finished.stdout);
    let cell = &document["ping"];
    assert_eq!(
        (&cell["sent"], &cell["received"]),
        (&300.into(), &300.into())
    );
    assert_eq!((&cell["lost"], &cell["corrupted"]), (&0.into(), &0.into()));
    assert_eq!(cell["transport"], "serial");
    // Here is no wire, and the report says so.
    assert!(cell["wire_time_ns"].is_null());
    assert!(cell["note"].as_str().unwrap().contains("pseudo-terminal"));
    let port = format!("serial://{}?baud=115200", modem.far().display());
    assert!(cell["port"].as_str().unwrap().starts_with(&port));
    assert_eq!(document["same_host"], true);
    // The next client has counts of its own.
    let again = run(&format!("ping {far} -n 50 --json -")).ended_with(0);
    let document = json(&again.stdout);
    assert_eq!(document["ping"]["received"], 50);
    assert_eq!(document["ping"]["duplicate"], 0);
}

#[test]
fn open_loop_and_sizes_go_over_a_line() {
    let modem = modem();
    let _serving = Serving::start(&format!("serve {}", on(modem.near())));
    let to = format!("{}&baud=4000000", on(modem.far()));
    let words = format!("ping {to} --rate 50 -n 50 --size 32,4Ki --timeout 10 --json -");
    let document = json(&run(&words).ended_with(0).stdout);
    for cell in document["cells"].as_array().unwrap() {
        assert_eq!((&cell["sent"], &cell["received"]), (&50.into(), &50.into()));
    }
}

#[test]
fn a_stream_over_a_line_is_counted_and_its_evidence_verifies() {
    let modem = modem();
    let _serving = Serving::start(&format!("serve {}", on(modem.near())));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("evidence");
    let words = format!(
        "stream {} -t 0.3 --size 64,1Ki --json - --out",
        on(modem.far())
    );
    let finished = Program::new(&words, &[out.to_str().unwrap()])
        .run()
        .ended_with(0);
    let document = json(&finished.stdout);
    for row in document["stream"].as_array().unwrap() {
        assert!(row["accepted"].as_u64() > Some(0));
        assert_eq!(row["accepted"], row["delivered"]);
        assert!(row["note"].as_str().unwrap().contains("pseudo-terminal"));
    }
    Program::new("verify", &[out.to_str().unwrap()])
        .run()
        .ended_with(0);
}

/// Carries bytes from one line to another, and changes one of every so many.
fn relay(mut from: File, mut to: File, harm_each: usize) {
    thread::spawn(move || {
        let (mut buffer, mut carried) = ([0; 512], 0);
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            for byte in &mut buffer[..bytes] {
                carried += 1;
                if harm_each > 0 && carried % harm_each == 0 {
                    // Never to a zero, which would be the end of a frame, nor from one.
                    *byte = if *byte > 1 { *byte ^ 1 } else { *byte };
                }
            }
            if to.write_all(&buffer[..bytes]).is_err() {
                return;
            }
        }
    });
}

#[test]
fn every_ping_on_a_line_that_harms_bytes_has_one_fate() {
    let (ours, theirs) = (modem(), modem());
    relay(raw(ours.far()), raw(theirs.near()), 0);
    relay(raw(theirs.near()), raw(ours.far()), 701);
    let _serving = Serving::start(&format!("serve {}", on(theirs.far())));
    let words = format!(
        "ping {} -n 200 --warmup 0 --timeout 300ms --json -",
        on(ours.near())
    );
    let document = json(&run(&words).ended_with(0).stdout);
    let cell = &document["ping"];
    let count = |name: &str| cell[name].as_u64().unwrap();
    assert_eq!(count("sent"), 200);
    assert!(count("corrupted") > 0, "{cell}");
    assert!(count("received") > 0, "{cell}");
    let fates = ["received", "late", "lost", "corrupted", "in_flight_at_end"];
    assert_eq!(fates.map(count).iter().sum::<u64>(), 200, "{cell}");
    // The way there harms nothing.
    assert_eq!(cell["lost_up"], 0);
}

#[test]
fn a_line_that_is_pulled_out_and_plugged_in_again_is_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let by_id = folder.path().join("usb-line-if00");
    let first = modem();
    symlink(first.near(), &by_id).unwrap();
    let _serving = Serving::start(&format!("serve {}", on(&by_id)));
    run(&format!("ping {} -n 20", on(first.far()))).ended_with(0);
    drop(first);
    let second = modem();
    let beside = folder.path().join("beside");
    symlink(second.near(), &beside).unwrap();
    fs::rename(&beside, &by_id).unwrap();
    let words = format!("ping {} -n 20 --wait-for-server 60", on(second.far()));
    run(&words).ended_with(0);
}

#[test]
fn a_line_that_is_pulled_out_breaks_a_ping_off_and_what_came_until_then_stands() {
    let modem = modem();
    let _serving = Serving::start(&format!("serve {}", on(modem.near())));
    let hangup = modem.hangup();
    let words = format!("ping {} -t 60 --every 0.1 --json -", on(modem.far()));
    let Program {
        mut command,
        folder,
    } = Program::new(&words, &[]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of --every: pings are under way.
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("received") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0);
    }
    let rest = thread::spawn(move || {
        let mut rest = String::new();
        said.read_to_string(&mut rest).map(|_| rest)
    });
    hangup.hang_up();
    let finished = Finished::wait(child, &folder);
    let rest = rest.join().unwrap().unwrap();
    assert_eq!(finished.status, 4, "{rest}");
    let document = json(&finished.stdout);
    assert!(document["ping"]["received"].as_u64() > Some(0));
    assert!(document["ping"]["error"].is_string());
}

#[test]
fn a_server_of_a_line_ends_at_once_and_well() {
    let modem = modem();
    let mut serving = Serving::start(&format!("serve {}", on(modem.near())));
    signal("INT", serving.pid());
    let status = serving.child.take().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(0));
    // And lets go of its line.
    Serving::start(&format!("serve {}", on(modem.near())));
}

#[test]
fn with_nobody_at_the_other_end_it_is_3_and_says_what_it_may_be() {
    let modem = modem();
    for command in ["ping", "stream"] {
        let words = format!("{command} {}&baud=4000000 -t 0.1", on(modem.far()));
        let finished = run(&words).ended_with(3);
        let said = &finished.stderr;
        assert!(
            said.contains("no answer: no `tautline serve` is at the other end"),
            "{said}"
        );
    }
}

#[test]
fn what_a_line_does_not_have_is_refused_by_name() {
    let modem = modem();
    let to = on(modem.far());
    for (words, status, said) in [
        (
            format!("ping {to} --size 16"),
            2,
            "16 is not within 32 to 65507 over serial",
        ),
        (
            format!("ping {to} -P 2"),
            2,
            "is one line, and has one connection",
        ),
        (
            format!("ping {to} --sndbuf 64Ki"),
            2,
            "is a serial line, and no socket",
        ),
        (
            format!("ping {to}&baud=1200"),
            2,
            "at 1200 baud the largest message is on the wire for 1.2s",
        ),
        (
            format!("ping {to} --load stream"),
            2,
            "--load stream: it pours over plain sockets",
        ),
        (
            format!("ping {to}&parity=mark"),
            2,
            "parity is one of none, odd, even",
        ),
        ("ping serial:///dev/null".to_owned(), 3, "/dev/null"),
        (
            "serve serial:///nonexistent".to_owned(),
            3,
            "is it plugged in?",
        ),
        (
            format!("soak --to {to}"),
            2,
            "soak takes tcp:// and uds:// only",
        ),
        (
            format!("stream {to} --size 16"),
            2,
            "16 is not within 32 to 65507, as over serial",
        ),
    ] {
        let finished = run(&words).ended_with(status);
        assert!(
            finished.stderr.contains(said),
            "{words}: {}",
            finished.stderr
        );
    }
}

#[test]
fn a_line_that_somebody_else_has_is_not_served() {
    let modem = modem();
    let words = format!("serve serial://{}", modem.near().display());
    let refused = run(&words).ended_with(3);
    assert!(refused.stderr.contains("in use"), "{}", refused.stderr);
}

#[test]
fn a_run_over_a_line_says_beforehand_how_long_it_takes() {
    let words = "ping serial:///dev/ttyS0?baud=9600 -n 100 --print-duration";
    assert_eq!(run(words).ended_with(0).stdout, "17\n");
}
