//! The tables of `bench` against a `serve` elsewhere: every transport, driver and strategy, and servers
//! that are none, go away, fall silent or change bytes.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tautline::{Address, Strategy};
use tautline_gauge::plan::{
    CONTENT_PASS_MESSAGES, Driver, LatencyPlan, Placement, PlacementPlan, Plan, StrategyPlan,
    Transport,
};
use tautline_gauge::report::{RttSummary, StrategyRow};
use tautline_gauge::run::{BenchError, BenchErrorKind, BenchResult, bench};
use tautline_gauge::serve::{ServePlan, Server};
use tautline_gauge::wire::{Header, Kind, PeerRecord, Welcome};

/// A server on all transports, in a folder of its own.
fn serve() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let uds = format!("uds://{}", folder.path().join("s").display());
    let addresses = ["tcp://127.0.0.1:0", "udp://127.0.0.1:0", &uds];
    let server = Server::start(ServePlan {
        addresses: addresses.map(|text| text.parse().unwrap()).to_vec(),
        ..ServePlan::default()
    })
    .unwrap();
    (server, folder)
}

fn transports(to: &[Address]) -> Vec<Transport> {
    to.iter().map(|to| to.scheme().parse().unwrap()).collect()
}

fn against(to: &[Address]) -> Plan {
    Plan {
        latency: None,
        strategy: None,
        smoke: None,
        to: to.to_vec(),
        placement: PlacementPlan {
            placement: Placement::Free,
            ..PlacementPlan::default()
        },
        ..Plan::full(7)
    }
}

fn latency(to: &[Address]) -> Plan {
    let latency = LatencyPlan {
        transports: transports(to),
        sizes: vec![32, 16_384],
        runs: 2,
        rounds: 3,
        iterations: 60,
        warmup: 20,
        ..LatencyPlan::default()
    };
    Plan {
        latency: Some(latency),
        ..against(to)
    }
}

fn strategy(to: &[Address]) -> Plan {
    let strategy = StrategyPlan {
        transports: transports(to),
        sizes: vec![64, 16_384],
        runs: 1,
        duration: Duration::from_millis(50),
        ..StrategyPlan::default()
    };
    Plan {
        strategy: Some(strategy),
        ..against(to)
    }
}

fn run(plan: Plan) -> BenchResult {
    let plan = plan.checked().unwrap();
    bench(&plan, &mut |_| {}, &AtomicBool::new(false))
}

/// Runs, and does this once when something has been measured.
fn run_until_measured(plan: Plan, and: impl FnOnce()) -> BenchResult {
    let (plan, mut and) = (plan.checked().unwrap(), Some(and));
    let mut look = |progress: tautline_gauge::run::Progress| {
        if progress.done > 0.0
            && let Some(and) = and.take()
        {
            and();
        }
    };
    bench(&plan, &mut look, &AtomicBool::new(false))
}

fn setup_error(plan: Plan) -> String {
    let result = run(plan);
    assert!(result.latency.is_empty() && result.strategy.is_empty());
    let BenchError { kind, message } = result.error.expect("the run cannot begin");
    assert_eq!(kind, BenchErrorKind::Setup, "{message}");
    message
}

#[test]
fn every_driver_over_every_transport_gives_a_row_with_its_address() {
    let (server, _folder) = serve();
    let to = server.addresses();
    let result = run(latency(to));
    assert_eq!(result.error, None);
    assert_eq!(
        (result.same_host, result.peer.is_some()),
        (Some(true), true)
    );
    assert!(result.evidence.loopback);
    assert_eq!(result.latency.len(), 6);
    for row in &result.latency {
        let address = row.address.as_deref().unwrap();
        assert!(address.starts_with(&row.transport), "{address}");
        assert!(to.iter().any(|to| to.to_string() == address), "{address}");
        assert_eq!(row.drivers.len(), 4);
        let drivers = row.drivers.iter().map(|driver| &driver.summary);
        for summary in [&row.control].into_iter().chain(drivers) {
            let RttSummary {
                count,
                lost,
                corrupted,
                ..
            } = *summary;
            assert_eq!((count + lost, corrupted), (120, 0), "{address}");
            assert!(lost == 0 || row.transport == "udp", "{address}");
        }
    }
    let roles: Vec<_> = result.placement.threads.iter().map(|of| &of.role).collect();
    assert_eq!(roles, ["client", "client-io"], "no server is ours");
}

#[test]
fn every_strategy_over_every_transport_is_counted_by_the_server() {
    let (server, _folder) = serve();
    let result = run(strategy(server.addresses()));
    assert_eq!(result.error, None);
    assert_eq!(result.strategy.len(), 18);
    for row in &result.strategy {
        assert_counted(row);
    }
}

fn assert_counted(row: &StrategyRow) {
    let cell = format!("{row:?}");
    assert!(row.address.is_some() && row.accounting_closes, "{cell}");
    assert!(
        row.accepted_messages > 0 && row.received_messages > 0,
        "{cell}"
    );
    assert_eq!(
        row.offered_messages,
        row.accepted_messages + row.failed_sends,
        "{cell}"
    );
    let found = row.integrity;
    assert_eq!((found.duplicates, found.corrupted), (0, 0), "{cell}");
    assert_eq!(
        found.gaps,
        row.evicted_messages + row.lost_messages,
        "{cell}"
    );
    assert!(row.transport == "udp" || row.lost_messages == 0, "{cell}");
    if row.strategy == "reliable" && row.transport != "udp" {
        assert_eq!(row.delivery_percent, Some(100.0), "{cell}");
    }
    assert!(row.control.received_messages_per_s > Some(0.0), "{cell}");
    assert_eq!(row.each_run[0].receiver, None, "{cell}");
}

#[test]
fn the_largest_payloads_pass_over_every_transport() {
    let (server, _folder) = serve();
    let mut plan = latency(server.addresses());
    plan.latency.as_mut().unwrap().sizes = vec![65_507, 1_048_572];
    let result = run(plan);
    assert_eq!(result.error, None);
    assert_eq!((result.latency.len(), result.absent.len()), (5, 1));
    let mut plan = strategy(server.addresses());
    plan.strategy.as_mut().unwrap().sizes = vec![65_507, 1_048_572];
    plan.strategy.as_mut().unwrap().strategies = vec![Strategy::Reliable];
    let result = run(plan);
    assert_eq!(result.error, None);
    result.strategy.iter().for_each(assert_counted);
}

#[test]
fn nobody_and_whoever_is_no_server_end_the_run_before_it_begins() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let said = setup_error(latency(&[Address::tcp(free)]));
    assert!(
        said.contains("connection refused: nobody listens there"),
        "{said}"
    );

    let free = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let said = setup_error(strategy(&[Address::udp(free)]));
    assert!(said.contains("nobody listens there"), "{said}");

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Address::tcp(other.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        // Until the client has left, or its answer would be cut off.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let said = setup_error(latency(std::slice::from_ref(&to)));
    answering.join().unwrap();
    let expected = format!("{to}: it does not speak the protocol of `tautline serve`");
    assert_eq!(said, expected);
}

#[test]
fn a_server_that_goes_away_leaves_what_was_measured() {
    for transport in ["tcp", "udp", "uds"] {
        let (server, _folder) = serve();
        let to = server.addresses().iter();
        let to = to.filter(|to| to.scheme() == transport).cloned();
        let to: Vec<Address> = to.collect();
        let mut plan = latency(&to);
        let latency = plan.latency.as_mut().unwrap();
        // Far more than anybody would wait for, in blocks that end soon.
        (latency.iterations, latency.rounds) = (10_000_000, 10_000);
        let result = run_until_measured(plan, || drop(server));
        let BenchError { kind, message } = result.error.unwrap();
        assert_eq!(kind, BenchErrorKind::Partial, "{message}");
        assert!(
            message.starts_with(&format!("{} 32 B: ", to[0])),
            "{message}"
        );
        assert_eq!(result.latency.len(), 1);
        assert!(result.latency[0].control.count > 0);
    }
}

#[test]
fn a_counting_server_that_goes_away_is_told() {
    let (server, _folder) = serve();
    let to = server.addresses()[0].clone();
    let mut plan = strategy(std::slice::from_ref(&to));
    plan.strategy.as_mut().unwrap().duration = Duration::from_secs(3_600);
    let mut server = Some(server);
    // Progress goes by time alone. Wherever the run is by then, the sentence says who is gone.
    let mut looks = 0;
    let plan = plan.checked().unwrap();
    let mut look = |_| {
        looks += 1;
        if looks == 10 {
            server.take();
        }
    };
    let result = bench(&plan, &mut look, &AtomicBool::new(false));
    let message = result.error.unwrap().message;
    assert!(message.contains(&to.to_string()), "{message}");
}

/// Agrees with whoever comes, and never says another word.
fn silent_server() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tcp(listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut held: Vec<TcpStream> = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut hello = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut hello).unwrap();
            let welcome = Welcome {
                refusal: None,
                record: PeerRecord::default(),
            }
            .encode();
            let length = (welcome.len() as u32).to_be_bytes();
            stream.write_all(&length).unwrap();
            stream.write_all(&welcome).unwrap();
            held.push(stream);
        }
    });
    address
}

#[test]
fn a_server_that_falls_silent_ends_the_run_within_its_bound() {
    let to = silent_server();
    let said = setup_error(latency(std::slice::from_ref(&to)));
    assert_eq!(said, format!("{to} 32 B: nothing arrived for 5 s"));
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let (server, _folder) = serve();
    let mut plan = latency(&server.addresses()[..1]);
    let latency = plan.latency.as_mut().unwrap();
    (latency.iterations, latency.rounds) = (10_000_000, 10_000);
    let stop = AtomicBool::new(false);
    let plan = plan.checked().unwrap();
    let mut look = |progress: tautline_gauge::run::Progress| {
        if progress.done > 0.0 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let result = bench(&plan, &mut look, &stop);
    assert!(result.interrupted);
    assert_eq!((result.error, result.latency.len()), (None, 1));
}

/// Passes datagrams on and flips the last bit of every reply, until an empty one comes.
fn corrupting_proxy(server: SocketAddr) -> (Address, JoinHandle<()>) {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = Address::udp(front.local_addr().unwrap());
    let passing = thread::spawn(move || {
        let mut backs: HashMap<SocketAddr, UdpSocket> = HashMap::new();
        let mut buffer = [0; 65_536];
        loop {
            let (bytes, client) = front.recv_from(&mut buffer).unwrap();
            if bytes == 0 {
                return;
            }
            // A cookie is good for one source: each client has its own.
            let back = backs.entry(client).or_insert_with(|| {
                let back = UdpSocket::bind("127.0.0.1:0").unwrap();
                back.connect(server).unwrap();
                back
            });
            back.send(&buffer[..bytes]).unwrap();
            let bytes = back.recv(&mut buffer).unwrap();
            let header = Header::read(&buffer[..bytes]).expect("serve speaks our language");
            if header.kind == Kind::Reply {
                buffer[bytes - 1] ^= 1;
            }
            front.send_to(&buffer[..bytes], client).unwrap();
        }
    });
    (address, passing)
}

#[test]
fn bytes_changed_behind_the_header_are_found_in_the_pass_that_compares_all() {
    let (server, _folder) = serve();
    let Some(Address::Udp { port, .. }) = server.addresses().last() else {
        panic!("udp is served last");
    };
    let (to, passing) = corrupting_proxy(SocketAddr::from(([127, 0, 0, 1], *port)));
    let mut plan = latency(std::slice::from_ref(&to));
    let latency = plan.latency.as_mut().unwrap();
    (latency.runs, latency.sizes) = (1, vec![64]);
    latency.drivers = vec![Driver::Direct, Driver::Handoff, Driver::Callback];
    let result = run(plan);
    let Address::Udp { port, .. } = to else {
        panic!("it is a udp address");
    };
    let end = UdpSocket::bind("127.0.0.1:0").unwrap();
    end.send_to(&[], ("127.0.0.1", port)).unwrap();
    passing.join().unwrap();
    assert_eq!(result.error, None);
    let row = &result.latency[0];
    let drivers = row.drivers.iter().map(|driver| &driver.summary);
    for summary in [&row.control].into_iter().chain(drivers) {
        assert_eq!(summary.corrupted, CONTENT_PASS_MESSAGES, "{row:?}");
        assert!(summary.count > 0, "timed echoes are judged by their header");
    }
}
