//! Whole runs against the responder, and against peers that do not behave.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use tautline::Address;

use super::*;
use crate::plan::Placement;
use crate::serve::{ServePlan, Server};
use crate::wire::{HEADER_BYTES, HELLO_DATAGRAM_BYTES, Header, Kind, Welcome};

fn server(address: &str) -> (Server, Address) {
    let plan = ServePlan {
        addresses: vec![address.parse().unwrap()],
        ..ServePlan::default()
    };
    let server = Server::start(plan).unwrap();
    let address = server.addresses()[0].clone();
    (server, address)
}

/// A hundred pings, a short warm-up, nothing pinned.
fn plan(address: Address) -> PingPlan {
    let mut plan = PingPlan {
        addresses: vec![address],
        count: Some(100),
        duration: None,
        warmup: 10,
        timeout: Duration::from_secs(20),
        ..PingPlan::default()
    };
    plan.placement.placement = Placement::Free;
    plan
}

fn run_with(plan: PingPlan, outputs: Outputs, stop: &AtomicBool) -> PingResult {
    let plan = plan.checked().unwrap();
    let mut onlooker = Onlooker {
        progress: &mut |_| {},
        every: None,
        interval: &mut |_| {},
    };
    run(&plan, &Environment::read(), outputs, &mut onlooker, stop)
}

fn run_plan(plan: PingPlan) -> PingResult {
    run_with(plan, Outputs::default(), &AtomicBool::new(false))
}

#[track_caller]
fn whole(plan: PingPlan) -> PingCell {
    let mut result = run_plan(plan);
    assert_eq!(result.error, None);
    let cell = result.cells.remove(0);
    let expected = cell.connections as u64 * 100;
    assert_eq!((cell.sent, cell.received), (expected, expected), "{cell:?}");
    assert_eq!(cell.rtt.count, expected);
    let faults = [
        cell.lost,
        cell.duplicate,
        cell.reordered,
        cell.late,
        cell.corrupted,
    ];
    assert_eq!(faults, [0; 5]);
    assert_eq!(cell.in_flight_at_end, 0);
    cell
}

const TCP: &str = "tcp://127.0.0.1:0";
const UDP: &str = "udp://127.0.0.1:0";

#[test]
fn every_transport_and_every_size_in_closed_loop() {
    let folder = tempfile::tempdir().unwrap();
    let uds = format!("uds://{}/x.sock", folder.path().display());
    for (address, sizes) in [
        (TCP, vec![1, 3, 4, 15, 16, 64, 100_000]),
        (UDP, vec![32, 64, 1_400, 65_507]),
        (uds.as_str(), vec![1, 64, 65_536]),
    ] {
        let (_server, address) = server(address);
        for size in sizes {
            let cell = whole(PingPlan {
                sizes: vec![size],
                ..plan(address.clone())
            });
            assert_eq!((cell.payload_bytes, cell.warmup), (size, 10));
        }
    }
}

#[test]
fn an_abstract_socket_is_pinged_like_any_other() {
    let name = format!("uds://@tautline-ping-{}", std::process::id());
    let (_server, address) = server(&name);
    let cell = whole(plan(address));
    assert_eq!(cell.transport, "uds");
}

#[test]
fn several_connections_on_one_thread_and_on_several() {
    for address in [TCP, UDP] {
        let (_server, address) = server(address);
        for threads in [1, 2, 5] {
            let cell = whole(PingPlan {
                connections: 5,
                threads: Some(threads),
                ..plan(address.clone())
            });
            assert_eq!(cell.each_thread.len(), threads);
            let sent: u64 = cell.each_thread.iter().map(|thread| thread.sent).sum();
            assert_eq!(sent, 500);
        }
    }
}

#[test]
fn a_thousand_connections_have_all_their_replies() {
    let (_server, address) = server(TCP);
    let cell = whole(PingPlan {
        connections: 1_000,
        threads: Some(2),
        ..plan(address)
    });
    assert_eq!(cell.rtt.count, 100_000);
}

#[test]
fn open_loop_keeps_its_schedule_on_every_number_of_connections() {
    for address in [TCP, UDP] {
        let (_server, address) = server(address);
        for connections in [1, 3] {
            let cell = whole(PingPlan {
                connections,
                threads: Some(1),
                rate_hz: Some(1_000.0),
                ..plan(address.clone())
            });
            assert_eq!(cell.pacing, "open");
            // 100 pings of each connection at 1000 a second in all: the last leaves at its time or later.
            let at_least = (connections * 100 - 1) as f64 / 1_000.0;
            assert!(cell.elapsed_s >= at_least, "{}", cell.elapsed_s);
            let response = cell.response.unwrap();
            assert_eq!(response.count, connections as u64 * 100);
            assert!(response.max_ns >= cell.rtt.min_ns);
        }
    }
}

#[test]
fn the_time_ends_a_cell_and_an_interval_stretches_it() {
    let (_server, address) = server(TCP);
    let result = run_plan(PingPlan {
        count: None,
        duration: Some(Duration::from_millis(300)),
        interval: Duration::from_millis(20),
        ..plan(address)
    });
    assert_eq!(result.error, None);
    let cell = &result.cells[0];
    assert!((1..=15).contains(&cell.sent), "{}", cell.sent);
    assert_eq!(result.same_host, Some(true));
    assert!(cell.path.tcp_after.is_some());
}

#[test]
fn a_stop_ends_a_run_of_ten_thousand_hours_with_what_it_has() {
    let (_server, address) = server(TCP);
    let stop = AtomicBool::new(false);
    let endless = PingPlan {
        count: None,
        duration: Some(Duration::from_secs(36_000_000)),
        ..plan(address)
    };
    let mut seen = 0;
    let mut onlooker = Onlooker {
        progress: &mut |look: &Look| {
            seen += look.window.received;
            if seen > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        },
        every: None,
        interval: &mut |_| {},
    };
    let plan = endless.checked().unwrap();
    let result = run(
        &plan,
        &Environment::default(),
        Outputs::default(),
        &mut onlooker,
        &stop,
    );
    assert!(result.interrupted);
    assert_eq!(result.error, None);
    assert!(result.cells[0].received > 0);
}

#[test]
fn samples_have_every_ping_and_the_log_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (_server, address) = server(TCP);
    let outputs = Outputs {
        samples: Some(File::create(path("samples.csv")).unwrap()),
        hdr: Some(File::create(path("x.hlog")).unwrap()),
    };
    let plan = PingPlan {
        sizes: vec![4, 64],
        ..plan(address.clone())
    };
    let result = run_with(plan, outputs, &AtomicBool::new(false));
    assert_eq!(result.failed_outputs, []);
    let samples = fs::read_to_string(path("samples.csv")).unwrap();
    assert_eq!(samples.lines().count(), 201);
    let first = samples.lines().nth(1).unwrap();
    assert!(first.starts_with(&format!("{address},4,0,10,")), "{first}");
    assert_eq!(first.split(',').count(), 8);
    let log = fs::read_to_string(path("x.hlog")).unwrap();
    assert_eq!(
        log.lines()
            .filter(|line| line.starts_with("Tag=tcp://"))
            .count(),
        2
    );
}

#[test]
fn a_full_device_costs_the_samples_and_not_the_run() {
    let (_server, address) = server(TCP);
    let outputs = Outputs {
        samples: Some(File::options().write(true).open("/dev/full").unwrap()),
        hdr: None,
    };
    let result = run_with(plan(address), outputs, &AtomicBool::new(false));
    assert_eq!(result.error, None);
    assert_eq!(result.cells[0].received, 100);
    assert_eq!(result.failed_outputs.len(), 1);
    assert_eq!(result.failed_outputs[0].0, "--samples");
}

/// A stream peer that shakes hands and then answers by `answer`, which is told the number of each
/// message of 64 bytes.
fn misbehaving(answer: impl Fn(usize, &[u8], &mut TcpStream) + Send + 'static) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tcp(listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut length = [0; 4];
        peer.read_exact(&mut length).unwrap();
        let mut hello = vec![0; u32::from_be_bytes(length) as usize];
        peer.read_exact(&mut hello).unwrap();
        let welcome = Welcome {
            refusal: None,
            record: PeerRecord::default(),
        }
        .encode();
        peer.write_all(&(welcome.len() as u32).to_be_bytes())
            .unwrap();
        peer.write_all(&welcome).unwrap();
        let mut message = [0; 64];
        for number in 0.. {
            if peer.read_exact(&mut message).is_err() {
                return;
            }
            answer(number, &message, &mut peer);
        }
    });
    address
}

fn cold(address: Address) -> PingPlan {
    PingPlan {
        warmup: 0,
        ..plan(address)
    }
}

#[test]
fn a_peer_that_answers_twice_gives_duplicates_and_nothing_else() {
    let address = misbehaving(|_, message, peer| {
        let _ = peer
            .write_all(message)
            .and_then(|()| peer.write_all(message));
    });
    let result = run_plan(cold(address));
    assert_eq!(result.error, None);
    let cell = &result.cells[0];
    assert_eq!((cell.sent, cell.received, cell.corrupted), (100, 100, 0));
    assert!((99..=100).contains(&cell.duplicate), "{}", cell.duplicate);
}

#[test]
fn a_peer_that_answers_other_bytes_gives_no_round_trip() {
    let address = misbehaving(|_, message, peer| {
        let other: Vec<u8> = message.iter().map(|byte| !byte).collect();
        let _ = peer.write_all(&other);
    });
    let result = run_plan(cold(address));
    let error = result.error.unwrap();
    assert_eq!(error.kind, PingErrorKind::Setup);
    assert!(
        error.message.ends_with("100 replies, all with other bytes"),
        "{error}"
    );
    assert_eq!(
        (result.cells[0].corrupted, result.cells[0].received),
        (100, 0)
    );
}

#[test]
fn a_damaged_reply_is_counted_once_and_the_rest_goes_on() {
    let address = misbehaving(|number, message, peer| {
        let mut reply = message.to_vec();
        reply[if number == 7 { 3 } else { 40 }] ^= u8::from(number == 7 || number == 9);
        let _ = peer.write_all(&reply);
    });
    let cell = run_plan(cold(address)).cells.remove(0);
    assert_eq!((cell.sent, cell.received, cell.corrupted), (100, 98, 2));
}

#[test]
fn a_peer_that_never_answers_ends_the_run_within_its_bound() {
    let address = misbehaving(|_, _, _| {});
    let result = run_plan(PingPlan {
        timeout: Duration::from_millis(50),
        ..cold(address)
    });
    let error = result.error.unwrap();
    assert_eq!(error.kind, PingErrorKind::Setup);
    assert!(
        error
            .message
            .contains("no reply at all to 1 pings: the server answers no more"),
        "{error}"
    );
    assert_eq!(result.cells[0].in_flight_at_end, 1);
}

#[test]
fn a_peer_that_dies_in_mid_run_leaves_what_there_was() {
    let address = misbehaving(|number, message, peer| {
        let _ = match number {
            50 => peer.shutdown(std::net::Shutdown::Both),
            _ => peer.write_all(message),
        };
    });
    let result = run_plan(cold(address));
    let error = result.error.unwrap();
    assert_eq!(error.kind, PingErrorKind::Partial);
    assert!(
        error.message.contains("the server ended the connection"),
        "{error}"
    );
    assert_eq!(result.cells[0].received, 50);
}

#[test]
fn nobody_there_is_said_with_the_reason() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for address in [Address::tcp(free), Address::udp(free)] {
        let error = run_plan(cold(address)).error.unwrap();
        assert_eq!(error.kind, PingErrorKind::Setup);
        assert!(error.message.contains("connection refused"), "{error}");
    }
    let missing = "uds:///nonexistent/x.sock".parse().unwrap();
    let error = run_plan(cold(missing)).error.unwrap();
    assert!(error.message.contains("there is no such socket"), "{error}");
    let name = "tcp://name.invalid:9".parse().unwrap();
    let error = run_plan(cold(name)).error.unwrap();
    assert!(
        error.message.starts_with("look up tcp://name.invalid:9: "),
        "{error}"
    );
}

#[test]
fn another_protocol_is_known_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tcp(listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let _ = peer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        let _ = peer.read(&mut [0; 1_024]);
    });
    let error = run_plan(cold(address)).error.unwrap();
    assert!(
        error
            .message
            .contains("does not speak the protocol of `tautline serve`"),
        "{error}"
    );
}

#[test]
fn waiting_for_a_server_finds_the_one_that_comes_later() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address = Address::tcp(free);
    let later = address.clone();
    let serving = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        server(&later.to_string())
    });
    whole(PingPlan {
        wait_for_server: Duration::from_secs(60),
        ..plan(address)
    });
    drop(serving.join().unwrap());
}

fn number_of(datagram: &[u8]) -> Option<(Kind, u64)> {
    let header = Header::read(datagram)?;
    Some((header.kind, header.sequence))
}

/// A datagram peer that shakes hands, and does then with each request what `answer` does.
fn shaking_hands(answer: impl Fn(&UdpSocket, SocketAddr, &mut [u8]) + Send + 'static) -> Address {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = Address::udp(peer.local_addr().unwrap());
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((bytes, from)) = peer.recv_from(&mut buffer) {
            match number_of(&buffer[..bytes]) {
                Some((Kind::Hello, sequence)) => {
                    let _ = peer.send_to(&welcome(sequence), from);
                }
                Some((Kind::Request, _)) => answer(&peer, from, &mut buffer[..bytes]),
                _ => {}
            }
        }
    });
    address
}

fn welcome(sequence: u64) -> Vec<u8> {
    let mut datagram = vec![0; HELLO_DATAGRAM_BYTES];
    let welcome = Welcome {
        refusal: None,
        record: PeerRecord::default(),
    }
    .encode();
    datagram[HEADER_BYTES..HEADER_BYTES + welcome.len()].copy_from_slice(&welcome);
    let header = Header {
        kind: Kind::Welcome,
        word: 1,
        sequence,
    };
    header.write(&mut datagram);
    datagram
}

/// On a busy machine a hello was said again before it was answered, and the second answer, cut to the
/// length of a ping, was counted as a damaged reply.
#[test]
fn a_welcome_that_comes_twice_is_no_damaged_reply() {
    for rate_hz in [None, Some(1_000.0)] {
        let address = shaking_hands(|peer, from, request| {
            let (_, sequence) = number_of(request).unwrap();
            let reply = Header {
                kind: Kind::Reply,
                word: sequence + 1,
                sequence,
            };
            reply.write(request);
            for datagram in [&welcome(9)[..], request] {
                let _ = peer.send_to(datagram, from);
            }
        });
        let result = run_plan(PingPlan {
            rate_hz,
            ..cold(address)
        });
        let cell = &result.cells[0];
        assert_eq!((cell.sent, cell.received, cell.corrupted), (100, 100, 0));
    }
}

#[test]
fn a_datagram_peer_that_never_answers_is_all_loss() {
    let address = shaking_hands(|_, _, _| {});
    let started = Instant::now();
    let result = run_plan(PingPlan {
        count: Some(3),
        timeout: Duration::from_millis(20),
        ..cold(address)
    });
    assert!(started.elapsed() >= Duration::from_millis(60));
    let error = result.error.unwrap();
    assert!(
        error.message.ends_with("no reply at all to 3 pings"),
        "{error}"
    );
    let cell = &result.cells[0];
    assert_eq!((cell.sent, cell.lost, cell.lost_up), (3, 3, None));
}
