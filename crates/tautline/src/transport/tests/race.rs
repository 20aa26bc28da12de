//! The race of a name's addresses, with its clock set by hand.

use std::net::{TcpListener, TcpStream};

use super::*;

/// A listener that answers nobody: its backlog is full, and the kernel drops what comes.
struct Dead {
    address: SocketAddr,
    _listener: socket2::Socket,
    _fills_it: TcpStream,
}

fn dead() -> Dead {
    let listener = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    Dead {
        address,
        _fills_it: TcpStream::connect(address).unwrap(),
        _listener: listener,
    }
}

/// An address that refuses.
fn refusing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn name() -> Address {
    address("tcp://a-name:1")
}

fn race(targets: &[SocketAddr], now: Instant) -> Race {
    let targets = targets.iter().copied().map(Target::Inet).collect();
    Race::new(&name(), targets, now)
}

fn go_on(race: &mut Race, now: Instant) -> Standing {
    race.go_on(&name(), &LinkOptions::default(), now, |_| Ok(()))
}

/// Waits for those who connect, at this moment of the race's clock, until it says something new.
fn run(race: &mut Race, now: Instant) -> Standing {
    loop {
        match go_on(race, now) {
            Standing::Running(Some(next)) if next <= now => {}
            Standing::Running(_) if race.sockets().count() == 0 => panic!("nobody runs"),
            Standing::Running(_) => {
                let runners: Vec<_> = race.sockets().map(Socket::as_fd).collect();
                sys::poll::ppoll_writable(&runners, deadline()).unwrap();
            }
            over => return over,
        }
    }
}

fn peer_of(standing: Standing) -> SocketAddr {
    let Standing::Won(socket) = standing else {
        panic!("nobody won: {standing:?}");
    };
    let fd = socket.as_fd();
    SockRef::from(&fd).peer_addr().unwrap().as_socket().unwrap()
}

#[test]
fn a_dead_first_address_costs_a_quarter_of_a_second() {
    let (dead, live) = (dead(), TcpListener::bind("127.0.0.1:0").unwrap());
    let live_address = live.local_addr().unwrap();
    let now = Instant::now();
    let mut race = race(&[dead.address, live_address], now);
    let Standing::Running(Some(next)) = go_on(&mut race, now) else {
        panic!("the second waits for its turn");
    };
    assert_eq!(next, now + Duration::from_millis(250));
    assert_eq!(race.sockets().count(), 1);
    assert_eq!(peer_of(run(&mut race, next)), live_address);
    // The first was not given up for being slow.
    assert_eq!(race.sockets().count(), 1);
}

#[test]
fn one_that_fails_lets_the_next_start_at_once() {
    let live = TcpListener::bind("127.0.0.1:0").unwrap();
    let live_address = live.local_addr().unwrap();
    let now = Instant::now();
    let mut race = race(&[refusing(), refusing(), live_address], now);
    assert_eq!(peer_of(run(&mut race, now)), live_address);
}

#[test]
fn when_all_fail_the_error_says_why_of_each() {
    let (one, two) = (refusing(), refusing());
    let now = Instant::now();
    let Standing::Lost(error) = run(&mut race(&[one, two], now), now) else {
        panic!("somebody answered");
    };
    assert_eq!(
        error.to_string(),
        format!("connect to tcp://a-name:1: {one}: connection refused; {two}: connection refused")
    );
    assert_eq!(error.kind(), ErrorKind::Connect);
    let cause = error.io_error().unwrap().kind();
    assert_eq!(cause, io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_timeout_says_what_each_had_come_to() {
    let (refused, dead, last) = (refusing(), dead(), refusing());
    let now = Instant::now();
    let mut race = race(&[refused, dead.address, last], now);
    while race.sockets().count() == 0 || race.failures() == 0 {
        let _ = go_on(&mut race, now);
    }
    let error = race.timed_out(&name(), Duration::from_secs(1));
    assert_eq!(
        error.to_string(),
        format!(
            "connect to tcp://a-name:1: timed out after 1s ({refused}: connection refused; {}: no \
             answer; {last}: not tried)",
            dead.address
        )
    );
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn families_take_turns_and_the_resolvers_first_is_first() {
    let of = |texts: &[&str]| -> Vec<Target> {
        let parse = |text: &&str| Target::Inet(text.parse().unwrap());
        texts.iter().map(parse).collect()
    };
    let in_turn = |texts: &[&str]| -> Vec<String> {
        let turns = super::super::race::take_turns(of(texts));
        turns.iter().map(Target::to_string).collect()
    };
    let six_first = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"];
    assert_eq!(
        in_turn(&six_first),
        ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]
    );
    let four_first = ["1.1.1.1:1", "[::1]:1", "[::2]:1"];
    assert_eq!(in_turn(&four_first), ["1.1.1.1:1", "[::1]:1", "[::2]:1"]);
    assert_eq!(in_turn(&[]), [] as [&str; 0]);
}

#[test]
fn no_more_than_sixteen_run_at_a_time() {
    let dead = dead();
    let mut now = Instant::now();
    let mut race = race(&[dead.address; 20], now);
    while let Standing::Running(Some(next)) = go_on(&mut race, now) {
        now = next;
    }
    assert_eq!(race.sockets().count(), 16);
}
