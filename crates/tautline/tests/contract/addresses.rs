//! Promise 1, a name with several addresses: the first that answers is taken, however dead others are.
//!
//! A name gets its addresses from a hosts file of the test's own, in a mount namespace: where that is
//! not allowed, the tests say so and pass.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tautline::{Address, DirectLink, ErrorKind, LinkOptions, Reconnect};

use crate::common::*;

/// Runs `test` in a process whose hosts file is this one; false where that is not allowed.
fn alone(test: &str, hosts: &str) -> bool {
    if in_child(test) {
        return true;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hosts");
    fs::write(&file, hosts).unwrap();
    let file = file.display();
    let mount = format!("mount --bind {file} /etc/hosts");
    let tried = Command::new("unshare")
        .args(["-m", "sh", "-c", &mount])
        .output();
    if !tried.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: a mount namespace is not allowed here");
        return false;
    }
    let run = "exec \"$0\" --exact \"$1\" --nocapture --test-threads=1";
    child(
        test,
        &format!("HOSTS={file} exec unshare -m sh -c '{mount} && {run}' \"$0\" \"$1\";"),
    );
    false
}

const BOTH: &str = "::1 two-ways.test\n127.0.0.1 two-ways.test\n";

/// The same free port in both families: that of the one, and what holds the other.
fn one_port() -> (TcpListener, Socket) {
    let four = TcpListener::bind("127.0.0.1:0").unwrap();
    let six = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
    six.set_only_v6(true).unwrap();
    let address = SocketAddr::new("::1".parse().unwrap(), four.local_addr().unwrap().port());
    six.bind(&address.into()).unwrap();
    (four, six)
}

fn two_ways(port: u16) -> Address {
    format!("tcp://two-ways.test:{port}").parse().unwrap()
}

fn patient() -> LinkOptions {
    LinkOptions {
        connect_timeout: WATCHDOG,
        ..LinkOptions::default()
    }
}

#[test]
fn a_dead_address_does_not_eat_the_time_of_a_live_one() {
    if !alone(
        "addresses::a_dead_address_does_not_eat_the_time_of_a_live_one",
        BOTH,
    ) {
        return;
    }
    let (live, dead) = one_port();
    let live_address = live.local_addr().unwrap();
    // It answers nobody: its backlog is full, and the kernel drops what comes.
    dead.listen(0).unwrap();
    let fills_it = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
    fills_it.connect(&dead.local_addr().unwrap()).unwrap();

    let name = two_ways(live_address.port());
    let (handler, inbox) = recorder();
    let io = start();
    let _link = io.connect(&name, patient(), handler).unwrap();
    assert_eq!(inbox.expect_opened().peer, Some(Address::tcp(live_address)));
    let direct = DirectLink::connect(&name, patient()).unwrap();
    assert_eq!(direct.peer_address(), Some(Address::tcp(live_address)));
}

#[test]
fn when_no_address_answers_the_error_says_why_of_each() {
    if !alone(
        "addresses::when_no_address_answers_the_error_says_why_of_each",
        BOTH,
    ) {
        return;
    }
    let (four, six) = one_port();
    let port = four.local_addr().unwrap().port();
    drop((four, six));
    let name = two_ways(port);
    let (handler, inbox) = recorder();
    let io = start();
    let _link = io.connect(&name, patient(), handler).unwrap();
    let texts = [
        inbox.expect_ended().to_string(),
        DirectLink::connect(&name, patient())
            .unwrap_err()
            .to_string(),
    ];
    for text in texts {
        for address in ["[::1]", "127.0.0.1"] {
            let why = format!("{address}:{port}: connection refused");
            assert!(text.contains(&why), "{text}");
        }
    }
}

#[test]
fn a_timeout_tells_of_each_address() {
    if !alone("addresses::a_timeout_tells_of_each_address", BOTH) {
        return;
    }
    let (held, dead) = one_port();
    let port = held.local_addr().unwrap().port();
    drop(held);
    dead.listen(0).unwrap();
    let fills_it = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
    fills_it.connect(&dead.local_addr().unwrap()).unwrap();
    let options = LinkOptions {
        connect_timeout: Duration::from_millis(400),
        ..LinkOptions::default()
    };
    let error = DirectLink::connect(&two_ways(port), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let text = error.to_string();
    assert!(text.contains("timed out after 400ms ("), "{text}");
    assert!(text.contains(&format!("[::1]:{port}: no answer")), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{port}: ")), "{text}");
}

#[test]
fn a_name_that_leads_elsewhere_by_now_is_followed() {
    let test = "addresses::a_name_that_leads_elsewhere_by_now_is_followed";
    if !alone(test, "127.0.0.3 two-ways.test\n") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (handler, inbox) = recorder();
    let options = LinkOptions {
        reconnect: Some(Reconnect {
            base: Duration::from_millis(1),
            cap: Duration::from_millis(4),
            ..Reconnect::default()
        }),
        ..LinkOptions::default()
    };
    let io = start();
    let _link = io
        .connect(&two_ways(address.port()), options, handler)
        .unwrap();
    inbox.expect_retrying();
    // The very file that is mounted: written in place.
    let hosts = PathBuf::from(std::env::var("HOSTS").unwrap());
    fs::write(hosts, "127.0.0.1 two-ways.test\n").unwrap();
    assert_eq!(inbox.skip_to_opened().peer, Some(Address::tcp(address)));
}
